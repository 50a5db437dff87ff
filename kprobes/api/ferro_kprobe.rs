// SPDX-License-Identifier: GPL-2.0

//! Safe kernel probes for Rust modules.
//!
//! - [`Probe`]: handlers before and after an instruction of the kernel or of a module,
//! - [`Retprobe`]: handlers on the entry and the return of a function, with data for each call,
//! - [`EntryProbe`]: a handler on the entry of a function that gets its arguments with their types.
//!
//! They stand on the functions of `<linux/kprobes.h>`, so they work with the C engine and with the Rust
//! engine alike. A probe is registered when its value is made, and unregistered when it is dropped, which
//! waits until no handler runs any more. Where nothing may sleep, as in a handler, a work item unregisters it.
//!
//! # What a handler may do
//!
//! Handlers run with preemption off, mostly with interrupts off, and possibly in an NMI, with whatever locks
//! the probed code holds. A handler has `&self` and a [`ProbeCtx`], neither of which offers anything that
//! sleeps, allocates or locks, and nothing that it captures can be moved out of it. What a handler reaches
//! by other means is not checked: no lock of the kernel crate, no allocation, no `schedule()`, and nothing
//! whose last reference it would drop. A function that it calls may be probed too; such a hit is not
//! handled but counted, see [`Probe::missed`].
//!
//! Registers can be read by everybody. Changing them can make any code do anything, so that takes an
//! [`Alter`], which only `unsafe` code can make.
//!
//! # Refused functions
//!
//! Besides what an engine refuses, functions that ftrace cannot trace are, as for the kernel's own events. The code that a tracer
//! executes for each function is among them. [`Untraceable`] permits it, which only `unsafe` code can make.
//!
//! # What cannot be enforced
//!
//! - What is said above about the handlers' other means.
//! - With the C engine, a probe has to be dropped before its module goes. So the value belongs in the module's state;
//!   leaking it (`KBox::leak()`, `mem::forget()`) leaves handlers behind that are no longer there. The Rust engine
//!   unregisters such a probe when the module goes.
//! - That a probe is worth what it costs: a function that the console or the scheduler calls should not
//!   be probed by a handler that prints.
//!
//! # Examples
//!
//! ```ignore
//! struct Forks(Atomic<u64>);
//!
//! #[vtable]
//! impl ProbeHandler for Forks {
//!     fn pre(&self, _ctx: &mut ProbeCtx<'_>) -> Next {
//!         self.0.fetch_add(1, Relaxed);
//!         Next::Continue
//!     }
//! }
//!
//! let probe = Probe::builder().symbol(c"kernel_clone").register(Forks(Atomic::new(0)))?;
//! ```

use kernel::prelude::*;

mod argument;
mod context;
mod entry;
mod error;
#[cfg(CONFIG_KPROBES_RUST_API_KUNIT_TEST)]
mod leaving;
mod probe;
mod raw;
mod retprobe;
mod target;
#[cfg(CONFIG_KPROBES_RUST_API_KUNIT_TEST)]
mod tests;

pub use argument::Argument;
pub use context::field_at;
pub use context::Next;
pub use context::ProbeCtx;
pub use context::UserFault;
pub use entry::EntryBuilder;
pub use entry::EntryProbe;
pub use error::ProbeError;
pub use ferro_sys::trace::tracepoint::TaskInfo;
pub use probe::Builder;
pub use probe::Probe;
pub use probe::ProbeHandler;
pub use probe::COPIED;
pub use raw::modify_token::Alter;
pub use raw::regs::Register;
pub use raw::regs::Saved;
pub use raw::untraceable::Untraceable;
pub use retprobe::Keep;
pub use retprobe::RetBuilder;
pub use retprobe::Retprobe;
pub use retprobe::RetprobeHandler;

module! {
    type: KprobeApi,
    name: "ferrotrace_kprobe",
    authors: ["Ferrotrace maintainers"],
    description: "Safe kernel probes for Rust modules",
    license: "GPL v2",
}

struct KprobeApi;

impl kernel::Module for KprobeApi {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        Ok(Self)
    }
}
