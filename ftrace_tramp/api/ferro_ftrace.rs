// SPDX-License-Identifier: GPL-2.0

//! Safe function tracing for Rust modules.
//!
//! A [`Tracer`] calls a handler at the entry of functions, which are given by their names, by
//! patterns or by addresses. [`trace_function!`] makes a tracer of a single function; its handler
//! gets the arguments with their types. In a [`TracerSet`] each function has a value of its own,
//! which the handler gets.
//!
//! The crate uses the functions of `<linux/ftrace.h>`, so it works with mainline's trampolines and
//! with ours alike. A tracer is registered when its value is made. Dropping it unregisters it and
//! waits until no handler runs. In contexts that must not sleep, as in a handler, a work item
//! unregisters it.
//!
//! # Rules for handlers
//!
//! Handlers run wherever traced functions are called: with preemption off, in interrupts and NMIs
//! too, and with any locks that the caller holds. RCU is watching; calls from code where RCU is not
//! watching are skipped. Functions that a handler calls may be traced, too: such calls are handled
//! one level deep in each context (thread, softirq, interrupt, NMI). A handler has `&self` and a
//! [`FunctionCall`]. Neither offers anything that sleeps, allocates or locks, and the handler
//! cannot move its captures out. Other code of a handler is not checked. It must not take a lock of
//! the kernel crate, allocate, call `schedule()`, or drop the last reference to anything.
//!
//! Handlers read registers and do not change them: use a probe (`ferro_kprobe`) for that.
//!
//! # Limits
//!
//! - The API does not check the rules above for the other code of handlers.
//! - After ftrace has found a defect (a warning in the log), a dropped tracer stays in memory. The
//!   code of its handler is still freed with its module.
//! - If memory is short during the lookup of a pattern, ftrace leaves out functions without an
//!   error. For names and addresses it takes all or none.
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

// Both APIs include this file, so that neither crate needs the other.
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
pub use error::TraceError;
pub use ferro_sys::trace::tracepoint::TaskInfo;
pub use raw::fregs::REGISTER_ARGUMENTS;
pub use raw::gpr::Register;
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
            _modules: raw::module_notifier::register(c"ftrace_api", raw::tracer::module_going)?,
        })
    }
}
