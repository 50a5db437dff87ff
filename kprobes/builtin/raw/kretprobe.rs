// SPDX-License-Identifier: GPL-2.0

//! `struct kretprobe`, as clients fill it in, and its instances: calls of the probed function that
//! have not returned.
//!
//! Each instance belongs to a kretprobe and has its client's data after it. `rethook.rs` diverts
//! the returns.
//!
//! Contexts: any with preemption off, NMI included, for instances; process for the rest.

use core::marker::PhantomData;
use core::ptr::null_mut;
use core::ptr::NonNull;

use ferro_sys::bindings;
use ferro_sys::code::kallsyms;
use ferro_sys::code::regs::Regs;
use ferro_sys::sync::shared_word;
use kernel::ffi::c_int;
use kernel::prelude::*;
use kernel::sync::atomic::Atomic;
use kernel::sync::atomic::Full;

use super::instance_pool::Client;
use super::instance_pool::Pool;
use super::rethook;

/// Client's `struct kretprobe`.
///
/// # Invariants
///
/// Valid for `'a`. Handlers in it are functions of their types or NULL, even if a client exchanges
/// them, until an RCU grace period has passed since [`Kretprobe::free`]. Other code accesses the
/// fields that change in single words.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(transparent)]
pub struct Kretprobe<'a>(
    NonNull<bindings::kretprobe>,
    PhantomData<&'a bindings::kretprobe>,
);

// SAFETY: Fields that change concurrently are single words.
unsafe impl Send for Kretprobe<'_> {}
// SAFETY: Fields that change concurrently are single words.
unsafe impl Sync for Kretprobe<'_> {}

impl Kretprobe<'_> {
    /// Wraps a client's structure. Returns [`None`] for NULL.
    ///
    /// # Safety
    ///
    /// `kretprobe` is NULL, or a structure valid for the lifetime of the result. Handlers in it are
    /// functions of their types or NULL, and stay until an RCU grace period has passed since
    /// [`Kretprobe::free`].
    pub unsafe fn new(kretprobe: *mut bindings::kretprobe) -> Option<Self> {
        // INVARIANT: The caller guarantees it.
        NonNull::new(kretprobe).map(|kretprobe| Self(kretprobe, PhantomData))
    }

    /// Returns the probe at the function's entry.
    #[inline(always)]
    pub fn kprobe(self) -> NonNull<bindings::kprobe> {
        const { assert!(core::mem::offset_of!(bindings::kretprobe, kp) == 0) };
        self.0.cast()
    }

    /// Reads a field, which the client may write at any time.
    #[inline(always)]
    fn get<T: Copy>(self, field: impl FnOnce(*const bindings::kretprobe) -> *const T) -> T {
        // SAFETY: Valid by the type invariant, and `field` makes the address of a field, which is a
        // word or less.
        unsafe { field(self.0.as_ptr()).read_volatile() }
    }

    /// Returns the handler at the entry, if any.
    #[inline(always)]
    fn entry_handler(self) -> bindings::kretprobe_handler_t {
        // SAFETY: Valid by the type invariant; only an address is made.
        self.get(|k| unsafe { &raw const (*k).entry_handler })
    }

    /// Returns the addresses of the client's handlers; 0 for a missing one.
    pub fn handlers(self) -> [usize; 2] {
        // SAFETY: Valid by the type invariant; only an address is made.
        let returned = self.get(|k| unsafe { &raw const (*k).handler });
        [
            self.entry_handler().map_or(0, |f| f as usize),
            returned.map_or(0, |f| f as usize),
        ]
    }

    /// Allocates `maxactive` instances; if that is not positive, two for each CPU, and at least 10.
    ///
    /// Context: process; sleeps. Errors: -E2BIG if the client's data is too large, -ENOMEM.
    pub fn alloc(self) -> Result {
        let raw = self.0.as_ptr();
        // SAFETY: Valid by the type invariant; only an address is made.
        let data_size = self.get(|k| unsafe { &raw const (*k).data_size });
        // SAFETY: Valid by the type invariant; only an address is made.
        let mut maxactive = self.get(|k| unsafe { &raw const (*k).maxactive });
        if data_size > bindings::KRETPROBE_MAX_DATA_SIZE as usize {
            return Err(E2BIG);
        }
        if maxactive <= 0 {
            let twice = 2 * ferro_sys::cpu::possible().count();
            maxactive = c_int::try_from(twice.max(10)).map_err(|_| EINVAL)?;
        }
        let pool = Pool::new(Client::Kretprobe(raw), maxactive as usize, data_size)?;
        // SAFETY: Valid by the type invariant; single words.
        unsafe {
            shared_word::store_release(&raw mut (*raw).rh, pool.cast());
            (&raw mut (*raw).maxactive).write_volatile(maxactive);
            (&raw mut (*raw).nmissed).write_volatile(0);
        }
        Ok(())
    }

    /// Frees the instances, those of running calls when they return. The handler is not called
    /// after an RCU grace period.
    pub fn free(self) {
        // SAFETY: Valid by the type invariant; this field is changed in stores of single words.
        let pool =
            unsafe { Atomic::from_ptr(&raw mut (*self.0.as_ptr()).rh) }.xchg(null_mut(), Full);
        if !pool.is_null() {
            // SAFETY: `alloc()` has stored it, from `Pool::new()`, and no code finds it after the
            // exchange. Code that still has the pointer, in `enter()`, has preemption off.
            unsafe { Pool::free(pool.cast()) };
        }
    }

    /// Handles the entry of the function: calls the client's entry handler, if any, and diverts the
    /// return to the client's handler unless the entry handler declines. Without a pool or a free
    /// instance, the call counts as missed.
    ///
    /// # Safety
    ///
    /// `regs` are the registers at the entry of a function, in front of its first instruction, or
    /// at its ftrace site: the word at the top of the stack is the return address. Preemption is
    /// off.
    #[inline(never)]
    #[link_section = ".kprobes.text"]
    pub unsafe fn enter(self, regs: &mut Regs) {
        // SAFETY: By the type invariant a live word, which is stored in one instruction.
        let pool: *mut Pool = unsafe { shared_word::load(&raw const (*self.0.as_ptr()).rh) }.cast();
        if pool.is_null() {
            return self.miss();
        }
        if !rethook::is_watched() {
            return self.miss();
        }
        // SAFETY: Not NULL, so it was not freed before; `Pool::free()` waits for an RCU grace
        // period, and so for this context, with preemption off.
        let node = unsafe { Pool::take(pool) };
        if node.is_null() {
            return self.miss();
        }
        // The task owns the node after this: if it dies in the client's handler, its exit gives the
        // node back.
        // SAFETY: The node was just taken from its pool, and no other code has it.
        unsafe { rethook::push(node) };
        let handler = self.entry_handler();
        // SAFETY: By the type invariant a function of this type. A node is the start of an instance
        // with the client's data after it, which belongs to this call; the registers belong to this
        // context.
        let wants = handler.is_none_or(|f| unsafe { f(node.cast(), regs.as_ptr()) } == 0);
        match wants {
            // SAFETY: Pushed above. The caller guarantees that these are the registers at the entry
            // of a function: its return address is at the stack pointer.
            true => unsafe { rethook::divert(node, regs.as_ptr()) },
            // SAFETY: Pushed above, and all calls by the handler have returned.
            false => unsafe { rethook::pop(node) },
        }
    }

    #[inline(always)]
    fn miss(self) {
        // SAFETY: Valid by the type invariant; all code changes this `int` atomically.
        unsafe { shared_word::increment(&raw mut (*self.0.as_ptr()).nmissed) };
    }
}

/// Returns true if a function does not return to its caller on the same stack.
pub fn returns_elsewhere(function: usize) -> bool {
    kallsyms::lookup_name(c"__switch_to") == Some(function)
}
