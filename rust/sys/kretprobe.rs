// SPDX-License-Identifier: GPL-2.0

//! `struct kretprobe`, as clients fill it in, and its instances: calls of the probed function that have not returned.
//!
//! Each instance belongs to a kretprobe and has its client's data behind it. How returns are diverted is in `rethook/`.
//!
//! Contexts: any with preemption off, NMI included, for instances; process for the rest.

use core::ptr::null_mut;
use core::ptr::NonNull;

use kernel::bindings;
use kernel::ffi::c_int;
use kernel::prelude::*;
use kernel::sync::atomic::Atomic;
use kernel::sync::atomic::Full;

use crate::code::symbols;
use crate::kprobe::Kprobe;
use crate::regs::Regs;
use crate::rethook;
use crate::rethook::Client;
use crate::rethook::Pool;
use crate::sync::word;

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
        let (data_size, mut maxactive, handler) =
            unsafe { ((*raw).data_size, (*raw).maxactive, (*raw).handler) };
        if data_size > bindings::KRETPROBE_MAX_DATA_SIZE as usize {
            return Err(E2BIG);
        }
        if maxactive <= 0 {
            let twice = 2 * crate::cpu::possible().count();
            maxactive = c_int::try_from(twice.max(10)).map_err(|_| EINVAL)?;
        }
        let client = Client::Kretprobe(raw, handler);
        let pool = Pool::new(client, maxactive as usize, data_size)?;
        // SAFETY: By the type invariant; nobody else uses it yet.
        unsafe {
            (*raw).rh = pool.cast();
            (*raw).maxactive = maxactive;
            (*raw).nmissed = 0;
        }
        Ok(())
    }

    /// Gives the instances back, those of running calls when they return. The handler is not called any more when a
    /// grace period of RCU has passed.
    pub fn free(self) {
        // SAFETY: By the type invariant a field that is there, and changed in stores of single words.
        let pool =
            unsafe { Atomic::from_ptr(&raw mut (*self.0.as_ptr()).rh) }.xchg(null_mut(), Full);
        if !pool.is_null() {
            // SAFETY: It comes from `Pool::new()`; who still has the pointer has preemption off.
            unsafe { Pool::free(pool.cast()) };
        }
    }

    /// The function is being called. Calls the client's entry handler, if there is one, and unless that does not want
    /// to see the return, has the function return to the client's handler first. Without an instance left, or a pool,
    /// the call is missed, and counted as that.
    ///
    /// `regs` are those at the entry of a function, in front of its first instruction, or at its ftrace site: the word
    /// at the top of the stack is the address that it is going to return to.
    ///
    /// Context: preemption off.
    #[inline(never)]
    #[link_section = ".kprobes.text"]
    pub fn enter(self, regs: &mut Regs) {
        // SAFETY: By the type invariant a live word; the pool is complete before the probe is armed.
        let pool: *mut Pool = unsafe { word::load(&raw const (*self.0.as_ptr()).rh) }.cast();
        if pool.is_null() {
            return self.miss();
        }
        if !rethook::is_watched() {
            return self.miss();
        }
        // SAFETY: The pool stays until a grace period of RCU has passed, which has to wait for this context.
        let node = unsafe { Pool::take(pool) };
        if node.is_null() {
            return self.miss();
        }
        // From here on it is the task's: if the kernel dies in the client's handler, the task's end gives it back.
        // SAFETY: The node is ours.
        unsafe { rethook::push(node) };
        // SAFETY: By the type invariant.
        let handler = unsafe { (*self.0.as_ptr()).entry_handler };
        // SAFETY: By the type invariant; a node is at the start of an instance; the registers are this context's.
        let wants = handler.is_none_or(|f| unsafe { f(node.cast(), regs.as_ptr()) } == 0);
        // SAFETY: What the handler has called has returned. The registers are as they are wanted.
        unsafe {
            match wants {
                true => rethook::divert(node, regs.as_ptr()),
                false => rethook::pop(node),
            }
        }
    }

    #[inline(always)]
    fn miss(self) {
        // SAFETY: By the type invariant a field that is there; C code only reads it.
        unsafe { word::increment(&raw mut (*self.0.as_ptr()).nmissed) };
    }
}

/// Whether a function does not return to who called it, on the same stack.
pub fn returns_elsewhere(function: usize) -> bool {
    symbols::lookup_name(c"__switch_to") == Some(function)
}
