// SPDX-License-Identifier: GPL-2.0

//! Attaching the engine to the kernel's hook points.
//!
//! Contexts: process, sleeps.
#![deny(unsafe_code)]

use ferro_gkhi::points::Int3;
use ferro_gkhi::points::KernelFault;
use ferro_gkhi::points::ModuleEvent;
use ferro_gkhi::Registered;
use kernel::prelude::*;

use crate::hit::Hits;
use crate::raw::die_notifier::DieNotifier;
use crate::raw::module_notifier;
use crate::raw::module_notifier::UnloadingCode;
use crate::raw::trap_hooks;
use crate::registry;

/// The engine, attached to the kernel's hook points.
pub(crate) struct Attached {
    // Dropped in this order: first no new hits, then no hits at all.
    _int3: Registered<Int3>,
    _fault: Registered<KernelFault>,
    _die: DieNotifier<Hits>,
    _modules: Registered<ModuleEvent>,
}

/// Handles the freeing of code: kills the probes in it, and unregisters the probes that a client in
/// it left registered.
fn module_going(going: &UnloadingCode<'_>) {
    registry::kill(|at| going.has_code(at));
    if going.is_whole {
        registry::unregister_leaked(|at| going.is_in_module(at));
    }
}

impl Attached {
    /// Attaches the engine. Callable again only after the last result was dropped.
    ///
    /// Context: process, as early as in `core_initcall()`.
    pub(crate) fn new() -> Result<Self> {
        registry::start()?;
        let attached = Self::attach().inspect_err(|_| registry::stop())?;
        module_notifier::stay_if_ftrace_breaks(true);
        Ok(attached)
    }

    fn attach() -> Result<Self> {
        let name = c"rust_kprobes";
        let (int3, fault) = trap_hooks::register::<Hits>(name)?;
        let modules = module_notifier::register(name, module_going)?;
        let die = DieNotifier::new()?;
        ferro_gkhi::arm(&[&int3, &fault, &modules])?;
        Ok(Self {
            _int3: int3,
            _fault: fault,
            _die: die,
            _modules: modules,
        })
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        module_notifier::stay_if_ftrace_breaks(false);
        registry::stop();
    }
}
