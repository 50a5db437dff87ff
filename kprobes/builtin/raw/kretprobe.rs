// SPDX-License-Identifier: GPL-2.0

//! `struct kretprobe`, as clients fill it in, and its instances: calls of the probed function that have not returned.
//!
//! Each instance belongs to a kretprobe and has its client's data after it. How returns are diverted is in `rethook.rs`.
//!
//! Contexts: any with preemption off, NMI included, for instances; process for the rest.

use core::marker::PhantomData;
use core::ptr::null_mut;
use core::ptr::NonNull;

use ferro_sys::code::regs::Regs;
use ferro_sys::code::symbols;
use ferro_sys::sync::shared_word;
use kernel::bindings;
use kernel::ffi::c_int;
use kernel::prelude::*;
use kernel::sync::atomic::Atomic;
use kernel::sync::atomic::Full;

use super::instance_pool::Client;
use super::instance_pool::Pool;
use super::rethook;

/// A client's `struct kretprobe`.
///
/// # Invariants
///
/// It is there for `'a`. Handlers in it are functions of their types or NULL, also where a client exchanges them, until a grace
/// period of RCU has passed since [`Kretprobe::free`]. Others access the fields that change in single words.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(transparent)]
pub struct Kretprobe<'a>(
    NonNull<bindings::kretprobe>,
    PhantomData<&'a bindings::kretprobe>,
);

// SAFETY: What is changed while others look at it are single words.
unsafe impl Send for Kretprobe<'_> {}
// SAFETY: What is changed while others look at it are single words.
unsafe impl Sync for Kretprobe<'_> {}

impl Kretprobe<'_> {
    /// # Safety
    ///
    /// `kretprobe` is NULL, or a structure that is there for the lifetime of the result. Handlers in it are functions of their
    /// types or NULL, and stay until a grace period of RCU has passed since [`Kretprobe::free`].
    pub unsafe fn new(kretprobe: *mut bindings::kretprobe) -> Option<Self> {
        // INVARIANT: The caller guarantees it.
        NonNull::new(kretprobe).map(|kretprobe| Self(kretprobe, PhantomData))
    }

    /// The probe at the function's entry.
    #[inline(always)]
    pub fn kprobe(self) -> NonNull<bindings::kprobe> {
        const { assert!(core::mem::offset_of!(bindings::kretprobe, kp) == 0) };
        self.0.cast()
    }

    /// Reads a field, which the client may write at any time.
    #[inline(always)]
    fn get<T: Copy>(self, field: impl FnOnce(*const bindings::kretprobe) -> *const T) -> T {
        // SAFETY: By the type invariant it is there, and `field` makes the address of a field, which is a word or less.
        unsafe { field(self.0.as_ptr()).read_volatile() }
    }

    /// The handler at the entry, if there is one.
    #[inline(always)]
    fn entry_handler(self) -> bindings::kretprobe_handler_t {
        // SAFETY: By the type invariant it is there; only an address is made.
        self.get(|k| unsafe { &raw const (*k).entry_handler })
    }

    /// The addresses of the client's handlers; 0 for one that there is not.
    pub fn handlers(self) -> [usize; 2] {
        // SAFETY: By the type invariant it is there; only an address is made.
        let returned = self.get(|k| unsafe { &raw const (*k).handler });
        [
            self.entry_handler().map_or(0, |f| f as usize),
            returned.map_or(0, |f| f as usize),
        ]
    }

    /// Allocates instances: `maxactive` of them, or if that is not positive as many as fit two calls a CPU, and 10 at
    /// least.
    ///
    /// Context: process; sleeps. Errors: -E2BIG if the client wants too much data with each, -ENOMEM.
    pub fn alloc(self) -> Result {
        let raw = self.0.as_ptr();
        // SAFETY: By the type invariant it is there; only an address is made.
        let data_size = self.get(|k| unsafe { &raw const (*k).data_size });
        // SAFETY: By the type invariant it is there; only an address is made.
        let mut maxactive = self.get(|k| unsafe { &raw const (*k).maxactive });
        if data_size > bindings::KRETPROBE_MAX_DATA_SIZE as usize {
            return Err(E2BIG);
        }
        if maxactive <= 0 {
            let twice = 2 * ferro_sys::cpu::possible().count();
            maxactive = c_int::try_from(twice.max(10)).map_err(|_| EINVAL)?;
        }
        let pool = Pool::new(Client::Kretprobe(raw), maxactive as usize, data_size)?;
        // SAFETY: By the type invariant it is there; single words.
        unsafe {
            shared_word::store_release(&raw mut (*raw).rh, pool.cast());
            (&raw mut (*raw).maxactive).write_volatile(maxactive);
            (&raw mut (*raw).nmissed).write_volatile(0);
        }
        Ok(())
    }

    /// Gives the instances back, those of running calls when they return. The handler is not called any more when a
    /// grace period of RCU has passed.
    pub fn free(self) {
        // SAFETY: By the type invariant it is there; this field is changed in stores of single words.
        let pool =
            unsafe { Atomic::from_ptr(&raw mut (*self.0.as_ptr()).rh) }.xchg(null_mut(), Full);
        if !pool.is_null() {
            // SAFETY: `alloc()` has put it there, from `Pool::new()`, and nobody finds it any more; who still has the pointer, in
            // `enter()`, has preemption off.
            unsafe { Pool::free(pool.cast()) };
        }
    }

    /// The function is being called. Calls the client's entry handler, if there is one, and unless that does not want
    /// to see the return, has the function return to the client's handler first. Without an instance left, or a pool,
    /// the call is missed, and counted as that.
    ///
    /// # Safety
    ///
    /// `regs` are those at the entry of a function, in front of its first instruction, or at its ftrace site: the word
    /// at the top of the stack is the address that it is going to return to. Preemption is off.
    #[inline(never)]
    #[link_section = ".kprobes.text"]
    pub unsafe fn enter(self, regs: &mut Regs) {
        // SAFETY: By the type invariant a live word, which is stored at once.
        let pool: *mut Pool = unsafe { shared_word::load(&raw const (*self.0.as_ptr()).rh) }.cast();
        if pool.is_null() {
            return self.miss();
        }
        if !rethook::is_watched() {
            return self.miss();
        }
        // SAFETY: Not NULL, so it was not freed before; `Pool::free()` waits for a grace period of RCU, and so for this context,
        // in which preemption is off.
        let node = unsafe { Pool::take(pool) };
        if node.is_null() {
            return self.miss();
        }
        // From here on it is the task's: if the kernel dies in the client's handler, the task's end gives it back.
        // SAFETY: The node was just taken from its pool, and is nobody else's.
        unsafe { rethook::push(node) };
        let handler = self.entry_handler();
        // SAFETY: By the type invariant a function of this type. A node is the start of an instance with the client's data after
        // it, which is this call's; the registers are this context's.
        let wants = handler.is_none_or(|f| unsafe { f(node.cast(), regs.as_ptr()) } == 0);
        match wants {
            // SAFETY: Pushed above. The caller guarantees that these are the registers at the entry of a function: its return
            // address is at the stack pointer.
            true => unsafe { rethook::divert(node, regs.as_ptr()) },
            // SAFETY: Pushed above, and what the handler has called since has returned.
            false => unsafe { rethook::pop(node) },
        }
    }

    #[inline(always)]
    fn miss(self) {
        // SAFETY: By the type invariant it is there; everybody who changes this `int` does it at once.
        unsafe { shared_word::increment(&raw mut (*self.0.as_ptr()).nmissed) };
    }
}

/// Whether a function does not return to who called it, on the same stack.
pub fn returns_elsewhere(function: usize) -> bool {
    symbols::lookup_name(c"__switch_to") == Some(function)
}
