// SPDX-License-Identifier: GPL-2.0

//! Words that C code or whoever interrupts us changes, without a function call for each access.
//!
//! `kernel::sync::atomic` calls a C function for each, which is too much on the path of every record.
//! Here are single loads and stores, as `READ_ONCE()` and `WRITE_ONCE()` make them, and copying of
//! short data. x86 keeps loads in order and stores in order, so a barrier for the compiler is all that
//! [`store_release`] needs.
//!
//! Contexts: any, NMI included.

use core::arch::asm;
use core::cell::UnsafeCell;
use core::sync::atomic::compiler_fence;
use core::sync::atomic::Ordering;

use kernel::ffi::c_int;

/// Loads a word.
///
/// # Safety
///
/// `word` points to a live, aligned word, which everyone accesses with single loads and stores.
#[inline(always)]
pub unsafe fn load<T: Copy>(word: *const T) -> T {
    const { assert!(size_of::<T>() == size_of::<usize>()) };
    // SAFETY: By the rules of this function.
    unsafe { word.read_volatile() }
}

/// Stores a word, after all loads and stores before it.
///
/// # Safety
///
/// As for [`load`].
#[inline(always)]
pub unsafe fn store_release<T: Copy>(word: *mut T, value: T) {
    const { assert!(size_of::<T>() == size_of::<usize>()) };
    compiler_fence(Ordering::SeqCst);
    // SAFETY: By the rules of this function.
    unsafe { word.write_volatile(value) };
}

/// Adds to a word that others may be adding to at the same time. Returns what it was.
///
/// `kernel::sync::atomic` calls a function of C for it, which KASAN instruments: that must not be where a probe is hit, which
/// may be on what KASAN calls.
///
/// # Safety
///
/// `word` points to a live, aligned word, which everyone changes at once.
#[inline(always)]
pub unsafe fn fetch_add(word: *mut u64, value: u64) -> u64 {
    let was: u64;
    // SAFETY: By the rules of this function.
    unsafe {
        asm!("lock xadd qword ptr [{word}], {value}", word = in(reg) word, value = inout(reg) value => was,
            options(nostack))
    };
    was
}

/// Stores a word that others may be changing at the same time, before all that comes after. Returns what it was.
///
/// # Safety
///
/// As for [`fetch_add`].
#[inline(always)]
pub unsafe fn swap(word: *mut u64, value: u64) -> u64 {
    let was: u64;
    // SAFETY: By the rules of this function.
    unsafe {
        asm!("xchg qword ptr [{word}], {value}", word = in(reg) word, value = inout(reg) value => was,
            options(nostack, preserves_flags))
    };
    was
}

/// Adds 1 to an `int` of C code, as [`fetch_add`] does to a word.
///
/// # Safety
///
/// `int` points to a live, aligned `int`, which everyone changes at once.
#[inline(always)]
pub unsafe fn increment(int: *mut c_int) {
    // SAFETY: By the rules of this function.
    unsafe { asm!("lock inc dword ptr [{int}]", int = in(reg) int, options(nostack)) };
}

/// Copies data whose length is known at run time only. Most records are short, and `memcpy()` is made
/// for long ones.
///
/// # Safety
///
/// `from` is readable and `to` writable for `len` bytes, and they do not overlap.
#[inline(always)]
pub unsafe fn copy(to: *mut u8, from: *const u8, len: usize) {
    /// Copies `N` bytes, `at` from the start.
    ///
    /// # Safety
    ///
    /// As for [`copy`], with `len` of at least `at + N`.
    #[inline(always)]
    unsafe fn piece<const N: usize>(to: *mut u8, from: *const u8, at: usize) {
        // SAFETY: By the rules of this function.
        unsafe {
            let piece = from.add(at).cast::<[u8; N]>().read();
            to.add(at).cast::<[u8; N]>().write(piece);
        }
    }

    // What is copied twice is where two pieces overlap.
    // SAFETY: By the rules of this function, with the lengths as they are compared.
    unsafe {
        match len {
            8..16 => {
                piece::<8>(to, from, 0);
                piece::<8>(to, from, len - 8);
            }
            16..32 => {
                piece::<16>(to, from, 0);
                piece::<16>(to, from, len - 16);
            }
            32..=256 => {
                let mut at = 0;
                while at < len - 32 {
                    piece::<32>(to, from, at);
                    at += 32;
                    // Keeps the compiler from unrolling the loop, which only pays for longer data.
                    asm!("", options(nomem, nostack, preserves_flags));
                }
                piece::<32>(to, from, len - 32);
            }
            _ => to.copy_from_nonoverlapping(from, len),
        }
    }
}

/// Copies bytes into as many, without a call of `memcpy()` for short data. Nothing if there are not as many.
#[inline(always)]
pub fn copy_slice(to: &mut [u8], from: &[u8]) {
    if to.len() == from.len() {
        // SAFETY: Both are slices of this length, and one is borrowed mutably, so that they do not overlap.
        unsafe { copy(to.as_mut_ptr(), from.as_ptr(), from.len()) };
    }
}

/// A word that is stored, loaded and added to at once, by anybody in any context.
pub struct Word(UnsafeCell<usize>);

// SAFETY: Only accessed with single instructions.
unsafe impl Sync for Word {}

impl Word {
    /// With a first value.
    pub const fn new(value: usize) -> Self {
        Self(UnsafeCell::new(value))
    }

    /// What was stored last.
    #[inline(always)]
    pub fn load(&self) -> usize {
        // SAFETY: By the rule of the type.
        unsafe { load(self.0.get()) }
    }

    /// Stores a value, after all loads and stores before it.
    #[inline(always)]
    pub fn store(&self, value: usize) {
        // SAFETY: By the rule of the type.
        unsafe { store_release(self.0.get(), value) };
    }

    /// Adds to it, in one step for all CPUs. Returns what it was.
    #[inline(always)]
    pub fn add(&self, value: usize) -> usize {
        const { assert!(size_of::<usize>() == size_of::<u64>()) };
        // SAFETY: By the rule of the type: it lives, is aligned, and is changed at once.
        unsafe { fetch_add(self.0.get().cast(), value as u64) as usize }
    }

    /// Stores a value, in one step for all CPUs, between all that comes before and all that comes after. Returns what it was.
    #[inline(always)]
    pub fn swap(&self, value: usize) -> usize {
        const { assert!(size_of::<usize>() == size_of::<u64>()) };
        // SAFETY: By the rule of the type: it lives, is aligned, and is changed at once.
        unsafe { swap(self.0.get().cast(), value as u64) as usize }
    }
}
