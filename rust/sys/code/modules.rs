// SPDX-License-Identifier: GPL-2.0

//! Modules, and references to them.
//!
//! Contexts: process, unless stated.

use core::ptr::NonNull;

use crate::bindings;

/// Returns true if an address is in the code or the data of a loaded module.
pub fn is_of_module(addr: usize) -> bool {
    // SAFETY: The address is only compared with the ranges of modules, under RCU.
    unsafe { bindings::ferro_is_module_address(addr) }
}

/// Takes a reference to the module that contains an address. Returns `None` if there is none, or if
/// it is being unloaded.
pub fn module_of(addr: usize) -> Option<ModuleRef> {
    // SAFETY: Any address can be looked up, which `helpers.c` does under RCU.
    let module = unsafe { bindings::ferro_module_get(addr) };
    // INVARIANT: `helpers.c` has taken a reference, which this object owns.
    NonNull::new(module).map(ModuleRef)
}

/// State of a module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModuleState {
    /// Its initialisation has not finished.
    Coming,
    /// Its initialisation has succeeded.
    Live,
    /// The module is being unloaded.
    Going,
}

/// A reference to a module, which cannot be unloaded before this is dropped.
///
/// # Invariants
///
/// Points to a module, and owns a reference to it.
pub struct ModuleRef(NonNull<bindings::module>);

// SAFETY: The count of a module's references is changed atomically: it may be put by another task
// than the one that got it.
unsafe impl Send for ModuleRef {}
// SAFETY: `&self` reads words that other CPUs may change, one load each: the state and the ranges
// of the code.
unsafe impl Sync for ModuleRef {}

impl ModuleRef {
    /// Takes over a reference.
    ///
    /// # Safety
    ///
    /// `module` is a module, and the caller owns a reference to it, which it gives away.
    #[cfg(CONFIG_KPROBES_ENGINE_RUST)]
    pub(crate) unsafe fn from_raw(module: NonNull<bindings::module>) -> Self {
        // INVARIANT: By the rules of this function.
        Self(module)
    }

    /// Returns the state, which may change at once.
    pub fn state(&self) -> ModuleState {
        // SAFETY: By the type invariant this points to a module, which our reference keeps.
        match u32::try_from(unsafe { bindings::ferro_module_state(self.0.as_ptr()) }) {
            Ok(bindings::module_state_MODULE_STATE_LIVE) => ModuleState::Live,
            Ok(bindings::module_state_MODULE_STATE_COMING) => ModuleState::Coming,
            _ => ModuleState::Going,
        }
    }

    /// Returns true if an address is in the code that is freed after initialisation.
    pub fn has_init_text(&self, addr: usize) -> bool {
        // SAFETY: By the type invariant this points to a module, which our reference keeps; the
        // address is only compared.
        unsafe { bindings::ferro_in_init_text(addr, self.0.as_ptr()) }
    }
}

impl Drop for ModuleRef {
    fn drop(&mut self) {
        // SAFETY: By the type invariant this owns the reference; it is put once, and `self` is not
        // used afterwards.
        unsafe { bindings::ferro_module_put(self.0.as_ptr()) };
    }
}
