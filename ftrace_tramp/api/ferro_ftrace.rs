// SPDX-License-Identifier: GPL-2.0

//! Safe function tracing for Rust modules.
//!
//! A [`Tracer`] has a handler called at the entry of functions, which are given by their names, by patterns or by addresses.
//! [`trace_function!`] makes one of a single function, whose handler gets the arguments with their types. In a [`TracerSet`] each
//! function has a value of its own, which the handler gets.
//!
//! It stands on the functions of `<linux/ftrace.h>`, so it works with mainline's trampolines and with ours alike. A tracer is
//! registered when its value is made, and unregistered when it is dropped, which waits until no handler runs any more. Where
//! nothing may sleep, as in a handler, a work item unregisters it.
//!
//! # What a handler may do
//!
//! Handlers run wherever traced functions are called: with preemption off, in interrupts and NMIs too, and with whatever locks
//! the caller holds. RCU is watching; calls from where it is not are not handled. What a handler calls may be traced itself: that
//! is handled one level deep, and not within that, in each context (thread, softirq, interrupt, NMI). A handler has `&self` and a [`FunctionCall`], neither of which offers anything
//! that sleeps, allocates or locks, and nothing that it captures can be moved out of it. What a handler reaches by other means is
//! not checked: no lock of the kernel crate, no allocation, no `schedule()`, and nothing whose last reference it would drop.
//!
//! Handlers look at registers and do not change them: that takes a probe (`ferro_kprobe`).
//!
//! # What cannot be enforced
//!
//! - What is said above about the handlers' other means.
//! - That what ftrace has found to be broken is put right: after it has given up (a warning in the log), a tracer that is dropped
//!   stays in memory, but the code of its handler goes with its module.
//! - If memory is short while a pattern is being looked up, ftrace leaves out functions and does not say so. Names and addresses
//!   are taken all or not at all.
//!
//! # Examples
//!
//! ```ignore
//! let calls = Arc::new(Atomic::new(0), GFP_KERNEL)?;
//! let counted = calls.clone();
//! let tracer = Tracer::builder().globs(&[c"vfs_*"]).register_boxed(move |_call| {
//!     counted.fetch_add(1, Relaxed);
//! })?;
//! ```

use ferro_gkhi::points::ModuleEvent;
use ferro_gkhi::Registered;
use kernel::prelude::*;

// The same text serves both APIs, as neither crate needs the other.
#[path = "../../kprobes/api/argument.rs"]
mod argument;
mod call;
mod error;
mod filter;
mod raw;
#[cfg(CONFIG_FTRACE_RUST_API_KUNIT_TEST)]
mod tests;
mod tracer;
mod tracer_set;
mod typed;

pub use argument::Argument;
pub use call::FunctionCall;
pub use call::REGISTER_ARGUMENTS;
pub use error::TraceError;
pub use ferro_sys::trace::tracepoint::TaskInfo;
pub use raw::register::Register;
pub use tracer::Boxed;
pub use tracer::Builder;
pub use tracer::TraceHandler;
pub use tracer::Tracer;
pub use tracer_set::BoxedSet;
pub use tracer_set::SetHandler;
pub use tracer_set::TracerSet;
pub use typed::FunctionBuilder;

module! {
    type: FtraceApi,
    name: "ferrotrace_ftrace",
    authors: ["Ferrotrace maintainers"],
    description: "Safe function tracing for Rust modules",
    license: "GPL v2",
}

struct FtraceApi {
    _modules: Registered<ModuleEvent>,
}

impl kernel::Module for FtraceApi {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        Ok(Self {
            _modules: raw::module_exit::register(c"ftrace_api", raw::tracer::module_goes)?,
        })
    }
}
