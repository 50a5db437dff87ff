// SPDX-License-Identifier: GPL-2.0

//! Safe kernel probes for Rust modules.
//!
//! - [`Probe`]: handlers before and after an instruction of the kernel or of a module,
//! - [`Retprobe`]: handlers on the entry and the return of a function, with data for each call,
//! - [`EntryProbe`]: a handler on the entry of a function that gets its arguments with their types.
//!
//! The crate uses the functions of `<linux/kprobes.h>`, so it works with the C engine and with the
//! Rust engine alike. A probe is registered when its value is made. Dropping it unregisters it and
//! waits until no handler runs. In contexts that must not sleep, as in a handler, a work item
//! unregisters it.
//!
//! # Rules for handlers
//!
//! Handlers run with preemption off, mostly with interrupts off, and possibly in an NMI, with any
//! locks that the probed code holds. A handler has `&self` and a [`ProbeCtx`]. Neither offers
//! anything that sleeps, allocates or locks, and the handler cannot move its captures out. Other
//! code of a handler is not checked. It must not take a lock of the kernel crate, allocate, call
//! `schedule()`, or drop the last reference to anything. A function that it calls may be probed;
//! such a hit is not handled but counted, see [`Probe::missed`].
//!
//! Any handler can read registers. Changing them can make any code do anything, so it requires an
//! [`Alter`], which only `unsafe` code can make.
//!
//! # Refused functions
//!
//! Besides the functions that an engine refuses, the API refuses functions that ftrace cannot
//! trace, as the kernel's own events do. These include the code that a tracer executes for each
//! function. [`Untraceable`] permits them; only `unsafe` code can make it.
//!
//! # Limits
//!
//! - The API does not check the rules above for the other code of handlers.
//! - A probe that its module has leaked (`KBox::leak()`, `mem::forget()`) is unregistered when the
//!   module is unloaded. Its memory stays.
//! - The API does not weigh the cost of a probe: a handler that prints should not probe a function
//!   that the console or the scheduler calls.
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

use crate::raw::leaked_probes;

mod argument;
mod context;
mod entry;
mod error;
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
pub use raw::permissions::Alter;
pub use raw::permissions::Untraceable;
pub use raw::regs::Register;
pub use raw::regs::Saved;
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

struct KprobeApi {
    _list: leaked_probes::List,
}

impl kernel::Module for KprobeApi {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        Ok(Self {
            _list: leaked_probes::List::new()?,
        })
    }
}
