// SPDX-License-Identifier: GPL-2.0

//! Hooks that are defined in Rust, and their sites.
//!
//! Contexts: those of the hook.

use core::cell::UnsafeCell;
use core::ptr::NonNull;

use crate::bindings;
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

// SAFETY: The description does not change; the rest is single words and a static key.
unsafe impl Sync for Hook {}

/// Counts a list of parameters: its commas, plus one if it is not empty.
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
    /// Makes a hook with these parameters, `name: type` with commas between them, for a static.
    pub const fn new(
        name: &'static CStr,
        params: &'static CStr,
        count: usize,
        context: Context,
        modifiable: bool,
        has_return: bool,
    ) -> Self {
        assert!(count <= PARAMS_MAX - has_return as usize);
        // SAFETY: Zero is the value of STATIC_KEY_FALSE_INIT; the other fields are set here.
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

    /// Returns the hook's reference for the registry.
    pub fn to_ref(&'static self) -> HookRef {
        // SAFETY: A static does not move, and keeps its description, until its module is freed;
        // before that, the registry forgets the hook.
        unsafe { HookRef::new(NonNull::from(self).cast()) }
    }

    /// Warns if the hook fires in a context that it does not allow. Until the guard is dropped, the
    /// kernel warns about sleeping where it is not allowed.
    #[cfg(any(CONFIG_PROVE_RCU, CONFIG_DEBUG_ATOMIC_SLEEP))]
    pub(super) fn check(&self) -> Checked<'_> {
        // SAFETY: The hook's description does not change. The guard, which borrows the hook, undoes
        // this in the same task.
        unsafe { bindings::gkh_check_enter(self.0.get()) };
        Checked(self, NotThreadSafe)
    }

    /// Returns true if an exit is armed, for kernels without patched NOPs.
    #[cfg(not(CONFIG_JUMP_LABEL))]
    pub fn is_active(&self) -> bool {
        // SAFETY: A static key may be read in any context.
        unsafe { bindings::static_key_count(&raw mut (*self.0.get()).key.key) > 0 }
    }

    /// Calls the published target. `N` parameters are used, or all if the hook has a return value,
    /// whose address is then the last.
    ///
    /// # Safety
    ///
    /// The parameters match the hook's description, and the caller is in its context.
    #[inline(always)]
    pub unsafe fn call<const N: usize>(&self, p: [c_ulong; PARAMS_MAX]) -> c_long {
        // SAFETY: `armed` always points to a live `struct gkh_exit`, which exists until all CPUs
        // and tasks that may have loaded its address here have left.
        let exit = unsafe { crate::sync::shared_word::load(&raw const (*self.0.get()).armed) };
        // SAFETY: `exit` was live when it was loaded, and exists until this call has returned; its
        // counter is per CPU and belongs to the owner of the exit.
        unsafe { inc_this_cpu((*exit).hits) };
        // SAFETY: `exit` exists until this call has returned, and was published for this hook; the
        // caller guarantees that the parameters match it.
        unsafe { invoke::<N>(exit, p) }
    }
}

/// Guard: the exits of a hook are being called.
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
/// `exit` is live, and the parameters belong to its hook, which has at most `N` unless `N` is the
/// maximum.
#[inline(always)]
pub(super) unsafe fn invoke<const N: usize>(
    exit: *const bindings::gkh_exit,
    p: [c_ulong; PARAMS_MAX],
) -> c_long {
    #[cfg(not(CONFIG_CFI))]
    type Arg = *const bindings::gkh_exit;
    // Another CPU may be exchanging the function.
    // SAFETY: By the rules of this function.
    let function = unsafe { crate::sync::shared_word::load(&raw const (*exit).fn_) };
    let [p0, p1, p2, p3, p4] = p;
    // SAFETY: The function is never NULL. It may be called with fewer parameters than its prototype
    // has: they are in registers, and it does not use the others.
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
