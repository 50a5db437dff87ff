// SPDX-License-Identifier: GPL-2.0

//! `struct kretprobe`, as clients fill it in, and its instances: calls of the probed function that have not returned.
//!
//! The kernel's rethook has the pool of instances, the list of each task's, and the trampoline that functions return
//! to, which the unwinder knows. Each instance belongs to a kretprobe and has its client's data behind it.
//!
//! What of rethook is called here is not exported: nothing of it is inlined into the engine.
//!
//! Contexts: any with preemption off, NMI included, for instances; process for the rest.

use core::mem::offset_of;
use core::ptr::null_mut;
use core::ptr::NonNull;

use kernel::bindings;
use kernel::error::from_err_ptr;
use kernel::ffi::c_int;
use kernel::ffi::c_ulong;
use kernel::ffi::c_void;
use kernel::prelude::*;
use kernel::sync::atomic::Atomic;
use kernel::sync::atomic::Full;
use kernel::sync::atomic::Relaxed;

use crate::kprobe::Kprobe;
use crate::regs::Regs;
use crate::running_probe;
use crate::symbols;

/// A client's `struct kretprobe`.
///
/// # Invariants
///
/// It is there, at this address, until the engine gives it back to its client.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(transparent)]
pub struct Kretprobe(NonNull<bindings::kretprobe>);

// SAFETY: What is changed while others look at it are single words.
unsafe impl Send for Kretprobe {}
// SAFETY: As above.
unsafe impl Sync for Kretprobe {}

impl Kretprobe {
    /// # Safety
    ///
    /// The structure stays where it is until whoever holds the `Kretprobe` gives it up, and the handlers in it are
    /// functions of their types or NULL.
    pub unsafe fn new(kretprobe: *mut bindings::kretprobe) -> Option<Self> {
        // INVARIANT: By the rules of this function.
        NonNull::new(kretprobe).map(Self)
    }

    /// The probe at the function's entry.
    #[inline(always)]
    pub fn probe(self) -> Kprobe {
        // SAFETY: A field of a structure that is there.
        let probe = unsafe { &raw mut (*self.0.as_ptr()).kp };
        // SAFETY: It is there as long as what it is part of.
        match unsafe { Kprobe::new(probe) } {
            Some(probe) => probe,
            // SAFETY: The address of a field is not NULL.
            None => unsafe { core::hint::unreachable_unchecked() },
        }
    }

    /// The addresses of the client's handlers; 0 for one that there is not.
    pub fn handlers(self) -> [usize; 2] {
        // SAFETY: By the type invariant.
        let (entry, returned) =
            unsafe { ((*self.0.as_ptr()).entry_handler, (*self.0.as_ptr()).handler) };
        [
            entry.map_or(0, |f| f as usize),
            returned.map_or(0, |f| f as usize),
        ]
    }

    /// Allocates instances: `maxactive` of them, or if that is not positive as many as fit two calls a CPU, and 10 at
    /// least.
    ///
    /// Context: process; sleeps. Errors: -E2BIG if the client wants too much data with each, -ENOMEM.
    pub fn alloc(self) -> Result {
        let raw = self.0.as_ptr();
        // SAFETY: By the type invariant.
        let data_size = unsafe { (*raw).data_size };
        if data_size > bindings::KRETPROBE_MAX_DATA_SIZE as usize {
            return Err(E2BIG);
        }
        let size = size_of::<bindings::kretprobe_instance>() + data_size;
        // SAFETY: By the type invariant.
        let mut maxactive = unsafe { (*raw).maxactive };
        if maxactive <= 0 {
            let twice = 2 * crate::cpu::possible().count();
            maxactive = c_int::try_from(twice.max(10)).map_err(|_| EINVAL)?;
        }
        // SAFETY: `returned` expects a kretprobe's instances and the kretprobe.
        let rethook = from_err_ptr(unsafe {
            bindings::rethook_alloc(raw.cast(), Some(returned), size as c_int, maxactive)
        })?;
        // SAFETY: By the type invariant; nobody else uses it yet.
        unsafe {
            (*raw).rh = rethook;
            (*raw).maxactive = maxactive;
            (*raw).nmissed = 0;
        }
        Ok(())
    }

    /// Gives the instances back, those of running calls when they return. The handler is not called any more when a
    /// grace period of RCU has passed.
    pub fn free(self) {
        let rethook = self.pool().xchg(null_mut(), Full);
        if !rethook.is_null() {
            // SAFETY: It comes from `rethook_alloc()`; who has the pointer is in a read-side section of RCU.
            unsafe { bindings::rethook_free(rethook) };
        }
    }

    #[inline(always)]
    fn pool(&self) -> &Atomic<*mut bindings::rethook> {
        // SAFETY: By the type invariant a field that is there, and changed in stores of single words.
        unsafe { Atomic::from_ptr(&raw mut (*self.0.as_ptr()).rh) }
    }

    /// Takes an instance for a call that begins. None is left, or there is no pool any more: the call is missed, and
    /// counted as that.
    ///
    /// Context: preemption off, from here until the instance is hooked or dropped.
    #[inline(never)]
    #[link_section = ".kprobes.text"]
    pub fn take(self) -> Option<Instance> {
        // Relaxed: the pool is complete before the probe is armed.
        let pool = NonNull::new(self.pool().load(Relaxed));
        // SAFETY: The pool stays until a grace period of RCU has passed, which has to wait for this context.
        let node = pool.map(|pool| unsafe { bindings::rethook_try_get(pool.as_ptr()) });
        // INVARIANT: The node is at the start of an instance, which is ours now.
        let node = node.and_then(NonNull::new);
        if node.is_none() {
            // SAFETY: By the type invariant; C code only reads it.
            let missed = unsafe { Atomic::from_ptr(&raw mut (*self.0.as_ptr()).nmissed) };
            missed.fetch_add(1, Relaxed);
        }
        node.map(|node| Instance {
            instance: node.cast(),
            of: self,
        })
    }
}

static_assert!(offset_of!(bindings::kretprobe_instance, node) == 0);

/// An instance that belongs to no call yet.
///
/// # Invariants
///
/// Taken from the pool of the kretprobe `of`, and nobody else's.
pub struct Instance {
    instance: NonNull<bindings::kretprobe_instance>,
    of: Kretprobe,
}

impl Instance {
    /// Calls the client's entry handler, if there is one. Whether it wants to see the return.
    #[inline(always)]
    pub fn enter(&mut self, regs: &mut Regs) -> bool {
        // SAFETY: By the type invariant of `Kretprobe`.
        let handler = unsafe { (*self.of.0.as_ptr()).entry_handler };
        // SAFETY: By the type invariants; the registers are this context's.
        handler.is_none_or(|f| unsafe { f(self.instance.as_ptr(), regs.as_ptr()) } == 0)
    }

    /// Has the function return to the kretprobe's handler first.
    ///
    /// `regs` are those at the entry of a function, in front of its first instruction, or, with `at_ftrace_site`, at its
    /// ftrace site: the word at the top of the stack is the address that it is going to return to.
    #[inline(never)]
    #[link_section = ".kprobes.text"]
    pub fn hook(self, regs: &mut Regs, at_ftrace_site: bool) {
        let instance = core::mem::ManuallyDrop::new(self).instance;
        // SAFETY: By the type invariant the node is ours to give away; the registers are as it wants them.
        unsafe { bindings::rethook_hook(instance.as_ptr().cast(), regs.as_ptr(), at_ftrace_site) };
    }
}

impl Drop for Instance {
    #[inline(never)]
    #[link_section = ".kprobes.text"]
    fn drop(&mut self) {
        // SAFETY: By the type invariant; the node is at the start.
        unsafe { bindings::rethook_recycle(self.instance.as_ptr().cast()) };
    }
}

/// What rethook calls when a function returns, with preemption off.
///
/// # Safety
///
/// `node` is that of an instance of the kretprobe `data`; `regs` are this return's.
#[link_section = ".kprobes.text"]
unsafe extern "C" fn returned(
    node: *mut bindings::rethook_node,
    data: *mut c_void,
    _ret_addr: c_ulong,
    regs: *mut bindings::pt_regs,
) {
    let kretprobe: *mut bindings::kretprobe = data.cast();
    // SAFETY: By the rules of this function.
    let Some(handler) = (unsafe { (*kretprobe).handler }) else {
        return;
    };
    let interrupted = running_probe::get();
    // SAFETY: Makes an address only.
    running_probe::set(unsafe { &raw mut (*kretprobe).kp }.addr());
    // SAFETY: By the rules of this function, and those of `Kretprobe::new()`.
    unsafe { handler(node.cast(), regs) };
    running_probe::set(interrupted);
}

/// Whether a function does not return to who called it, on the same stack.
pub fn returns_elsewhere(function: usize) -> bool {
    symbols::lookup_name(c"__switch_to") == Some(function)
}
