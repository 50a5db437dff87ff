// SPDX-License-Identifier: GPL-2.0

//! The kprobes engine: breakpoints in the kernel's code, with handlers.
//!
//! It implements `<linux/kprobes.h>`. `ffi.rs` has the C functions; `registry.rs` what is registered, and the batches
//! that change it, `held.rs` its points; `address.rs` and `rules.rs` say where a probe goes and what refuses it; `point.rs` is an
//! address with probes and `hit.rs` what happens there; `site.rs` is for ftrace sites; `kretprobe.rs` puts probes on
//! returns. What the kernel itself asks about kprobes is in `builtin.c`; instructions are in
//! `ferro_core::insn`. See `Documentation/kprobes.rst`.

use ferro_gkhi::points::Int3;
use ferro_gkhi::points::KernelFault;
use ferro_gkhi::points::ModuleEvent;
use ferro_gkhi::Registered;
use ferro_sys::die_notifier::DieNotifier;
use ferro_sys::die_notifier::TrapHandler;
use ferro_sys::regs::Regs;
use kernel::prelude::*;

mod address;
mod error;
mod ffi;
mod files;
mod held;
mod hit;
mod kretprobe;
mod point;
mod registry;
mod rules;
mod site;

module! {
    type: KprobesEngine,
    name: "rust_kprobes",
    authors: ["Ferrotrace maintainers"],
    description: "Kernel probes: handlers on any instruction",
    license: "GPL v2",
}

struct KprobesEngine {
    // Dropped in this order. Built in, there is nothing to detach: probes are there before modules are.
    _attached: Option<Attached>,
    _files: Option<files::Files>,
}

/// The engine, attached to the kernel's hook points.
pub(crate) struct Attached {
    // Dropped in this order: no new hits, then none at all.
    _int3: Registered<Int3>,
    _fault: Registered<KernelFault>,
    _divide_error: DieNotifier<DivideError>,
    _modules: Registered<ModuleEvent>,
}

impl kernel::Module for KprobesEngine {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        Ok(Self {
            _attached: match cfg!(MODULE) {
                true => Some(Attached::new()?),
                false => None,
            },
            // They may be switched off.
            _files: files::Files::new()
                .inspect_err(|e| pr_warn!("no files in debugfs: error {}\n", e.to_errno()))
                .ok(),
        })
    }
}

/// A divide error, for which the kernel has no hook point.
struct DivideError;

impl TrapHandler for DivideError {
    fn trap(regs: &mut Regs, trapnr: usize) -> bool {
        trapnr == hit::DIVIDE_ERROR && hit::fault(regs, trapnr)
    }
}

impl Attached {
    /// Attaches it; once, unless it is dropped. Context: process, as early as in `core_initcall()`.
    pub(crate) fn new() -> Result<Self> {
        registry::start()?;
        Self::attach().inspect_err(|_| registry::stop())
    }

    fn attach() -> Result<Self> {
        let name = c"rust_kprobes";
        let (int3, fault) = ffi::trap_exits(name)?;
        let modules = Registered::<ModuleEvent>::builder(name)
            .pinned()
            .disarmed()
            .register(|_call, (module, state)| {
                ffi::module_event(module, state);
                ferro_gkhi::Answer::Continue
            })?;
        let divide_error = DieNotifier::new()?;
        ferro_gkhi::arm(&[&int3, &fault, &modules])?;
        Ok(Self {
            _int3: int3,
            _fault: fault,
            _divide_error: divide_error,
            _modules: modules,
        })
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        registry::stop();
    }
}
