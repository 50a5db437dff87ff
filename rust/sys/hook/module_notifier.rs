// SPDX-License-Identifier: GPL-2.0

//! Notifiers that let a module of ours clean up after other modules.
//!
//! Contexts: process; sleeps.

use core::marker::PhantomData;
use core::ptr::NonNull;

use crate::bindings;
use kernel::error::to_result;
use kernel::ffi::c_int;
use kernel::ffi::c_ulong;
use kernel::ffi::c_void;
use kernel::prelude::*;
use kernel::types::Opaque;

use super::Module;

/// Cleanup after modules.
pub trait ModuleGoing: 'static {
    /// Cleans up after a module being unloaded, after its exit function.
    fn going(module: &Module);
}

/// Registration of a notifier. Unregisters when dropped, which waits for a call in progress.
///
/// # Invariants
///
/// The block is registered, with a function for `G`.
pub struct ModuleNotifier<G: ModuleGoing>(KBox<Opaque<bindings::notifier_block>>, PhantomData<G>);

// SAFETY: Any task may unregister the notifier; the object has no `G`.
unsafe impl<G: ModuleGoing> Send for ModuleNotifier<G> {}
// SAFETY: A shared reference gives access to nothing.
unsafe impl<G: ModuleGoing> Sync for ModuleNotifier<G> {}

impl<G: ModuleGoing> ModuleNotifier<G> {
    /// Registers the notifier.
    ///
    /// Errors: no memory.
    ///
    /// # Safety
    ///
    /// The result is dropped before the module of `G` is unloaded.
    pub unsafe fn new() -> Result<Self> {
        let mut block: bindings::notifier_block = pin_init::zeroed();
        block.notifier_call = Some(event::<G>);
        let block = KBox::new(Opaque::new(block), GFP_KERNEL)?;
        // SAFETY: The block stays until the drop unregisters it; so does the function, by the rules
        // of this function.
        to_result(unsafe { bindings::register_module_notifier(block.get()) })?;
        // INVARIANT: It has just been registered.
        Ok(Self(block, PhantomData))
    }
}

impl<G: ModuleGoing> Drop for ModuleNotifier<G> {
    fn drop(&mut self) {
        // SAFETY: By the type invariant.
        unsafe { bindings::unregister_module_notifier(self.0.get()) };
    }
}

/// # Safety
///
/// Called by the kernel for a change of a module's state; `module` points to the module.
unsafe extern "C" fn event<G: ModuleGoing>(
    _block: *mut bindings::notifier_block,
    state: c_ulong,
    module: *mut c_void,
) -> c_int {
    let is_going = state == bindings::module_state_MODULE_STATE_GOING as c_ulong;
    if let Some(module) = NonNull::new(module.cast()).filter(|_| is_going) {
        // SAFETY: The kernel keeps the module during the call.
        G::going(&unsafe { Module::new(module) });
    }
    0
}
