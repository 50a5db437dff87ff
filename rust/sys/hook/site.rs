// SPDX-License-Identifier: GPL-2.0

//! A hook that is defined in Rust, and its site.
//!
//! Contexts: those of the hook.

use core::cell::UnsafeCell;
use core::ptr::NonNull;

use kernel::bindings;
use kernel::ffi::c_long;
use kernel::ffi::c_ulong;
use kernel::prelude::*;
use kernel::str::as_char_ptr_in_const_context;
#[cfg(any(CONFIG_PROVE_RCU, CONFIG_DEBUG_ATOMIC_SLEEP))]
use kernel::types::NotThreadSafe;

use super::Context;
use super::ExitFn;
use super::HookRef;
use super::PARAMS_MAX;
use crate::cpu::percpu::inc_this_cpu;

/// A `struct gkhook` that is a static.
#[repr(transparent)]
pub struct Hook(UnsafeCell<bindings::gkhook>);

// SAFETY: The description does not change; what does is single words and a static key.
unsafe impl Sync for Hook {}

/// How a list of parameters is counted: commas, and one more if there is anything.
pub const fn count_of(params: &CStr) -> usize {
    let bytes = params.to_bytes();
    let (mut at, mut count) = (0, 0);
    while at < bytes.len() {
        if bytes[at] == b',' {
            count += 1;
        }
        at += 1;
    }
    count + (at > 0) as usize
}

impl Hook {
    /// A hook with these parameters, `name: type` with commas between them, in a static.
    pub const fn new(
        name: &'static CStr,
        params: &'static CStr,
        count: usize,
        context: Context,
        modifiable: bool,
        has_return: bool,
    ) -> Self {
        assert!(count <= PARAMS_MAX - has_return as usize);
        // SAFETY: Zero is what STATIC_KEY_FALSE_INIT is; the other fields are set here.
        let mut hook: bindings::gkhook = unsafe { core::mem::zeroed() };
        hook.armed = &raw const bindings::gkh_idle;
        hook.name = as_char_ptr_in_const_context(name);
        hook.params = as_char_ptr_in_const_context(params);
        // At most `PARAMS_MAX`, and constants of the header.
        hook.count = count as u8;
        hook.access = modifiable as u8 | (has_return as u8) << 1;
        hook.context = match context {
            Context::Sleep => bindings::gkh_context_GKH_SLEEP as u8,
            Context::Task => bindings::gkh_context_GKH_TASK as u8,
            Context::Atomic => bindings::gkh_context_GKH_ATOMIC as u8,
        };
        Self(UnsafeCell::new(hook))
    }

    /// For the registry.
    pub fn to_ref(&'static self) -> HookRef {
        // SAFETY: A static stays where it is, and keeps its description, until its module goes; then
        // the registry forgets the hook.
        unsafe { HookRef::new(NonNull::from(self).cast()) }
    }

    /// Complains if it fires where its context does not allow it. Until the guard is dropped, the kernel complains about what sleeps
    /// where it must not.
    #[cfg(any(CONFIG_PROVE_RCU, CONFIG_DEBUG_ATOMIC_SLEEP))]
    pub(super) fn check(&self) -> Checked<'_> {
        // SAFETY: The hook's description does not change. The guard, which borrows the hook, undoes it in the same task.
        unsafe { bindings::gkh_check_enter(self.0.get()) };
        Checked(self, NotThreadSafe)
    }

    /// Whether an exit is armed, where there are no patched NOPs.
    #[cfg(not(CONFIG_JUMP_LABEL))]
    pub fn is_active(&self) -> bool {
        // SAFETY: A static key may be looked at by anybody.
        unsafe { bindings::static_key_count(&raw mut (*self.0.get()).key.key) > 0 }
    }

    /// Calls what the registry has published. `N` parameters count, or all if the hook has a return value,
    /// whose address is then the last.
    ///
    /// # Safety
    ///
    /// The parameters are those that the hook's description says, in its context.
    #[inline(always)]
    pub unsafe fn call<const N: usize>(&self, p: [c_ulong; PARAMS_MAX]) -> c_long {
        // SAFETY: `armed` always points to a live `struct gkh_exit`, which stays until all who may have
        // loaded its address here have gone.
        let exit = unsafe { crate::sync::shared_word::load(&raw const (*self.0.get()).armed) };
        // SAFETY: `exit` was live when it was loaded, and stays until this call has returned; its counter is per CPU and
        // belongs to what the exit is a part of.
        unsafe { inc_this_cpu((*exit).hits) };
        // SAFETY: `exit` stays until this call has returned, and was published for this hook, whose parameters the caller
        // guarantees these to be.
        unsafe { invoke::<N>(exit, p) }
    }
}

/// The exits of a hook are being called.
#[cfg(any(CONFIG_PROVE_RCU, CONFIG_DEBUG_ATOMIC_SLEEP))]
pub(super) struct Checked<'a>(&'a Hook, NotThreadSafe);

#[cfg(any(CONFIG_PROVE_RCU, CONFIG_DEBUG_ATOMIC_SLEEP))]
impl Drop for Checked<'_> {
    fn drop(&mut self) {
        // SAFETY: `check()` has entered it, in this task, as the guard is not `Send`.
        unsafe { bindings::gkh_check_leave(self.0 .0.get()) };
    }
}

/// Calls the function of an exit with its first `N` parameters, or all.
///
/// # Safety
///
/// `exit` is live, and the parameters are those of its hook, which has no more than `N` if that is not the most that can be.
#[inline(always)]
pub(super) unsafe fn invoke<const N: usize>(
    exit: *const bindings::gkh_exit,
    p: [c_ulong; PARAMS_MAX],
) -> c_long {
    #[cfg(not(CONFIG_CFI))]
    type Arg = *const bindings::gkh_exit;
    // Another CPU may be exchanging it.
    // SAFETY: By the rules of this function.
    let function = unsafe { crate::sync::shared_word::load(&raw const (*exit).fn_) };
    let [p0, p1, p2, p3, p4] = p;
    // SAFETY: It is never NULL. It may be called with fewer parameters than its prototype has: they
    // are in registers, and it does not use the others.
    unsafe {
        let function: ExitFn = function.unwrap_unchecked();
        #[cfg(not(CONFIG_CFI))]
        match N {
            0 => {
                type F = unsafe extern "C" fn(Arg) -> c_long;
                return core::mem::transmute::<ExitFn, F>(function)(exit);
            }
            1 => {
                type F = unsafe extern "C" fn(Arg, c_ulong) -> c_long;
                return core::mem::transmute::<ExitFn, F>(function)(exit, p0);
            }
            2 => {
                type F = unsafe extern "C" fn(Arg, c_ulong, c_ulong) -> c_long;
                return core::mem::transmute::<ExitFn, F>(function)(exit, p0, p1);
            }
            3 => {
                type F = unsafe extern "C" fn(Arg, c_ulong, c_ulong, c_ulong) -> c_long;
                return core::mem::transmute::<ExitFn, F>(function)(exit, p0, p1, p2);
            }
            _ => {}
        }
        function(exit, p0, p1, p2, p3, p4)
    }
}
