// SPDX-License-Identifier: GPL-2.0

//! Words that C code or an interrupting context changes, accessed without a function call.
//!
//! `kernel::sync::atomic` calls a C function for each access, which costs too much for every
//! record. This file has single loads and stores, as by `READ_ONCE()` and `WRITE_ONCE()`, and
//! copies of short data. x86 keeps loads in order and stores in order, so [`store_release`] only
//! needs a compiler barrier.
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
/// `word` points to a live, aligned word, which all code accesses with single loads and stores.
#[inline(always)]
pub unsafe fn load<T: Copy>(word: *const T) -> T {
    const { assert!(size_of::<T>() == size_of::<usize>()) };
    // SAFETY: By the rules of this function.
    unsafe { word.read_volatile() }
}

/// Stores a word, ordered after all loads and stores before it.
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

/// Adds to a word atomically. Returns the old value.
///
/// `kernel::sync::atomic` calls a C function for it, which KASAN instruments. The path of a probe
/// hit must avoid that, as the probe may be on a function that KASAN calls.
///
/// # Safety
///
/// `word` points to a live, aligned word, which all code changes atomically.
#[inline(always)]
pub unsafe fn fetch_add(word: *mut u64, value: u64) -> u64 {
    let was: u64;
    // SAFETY: By the rules of this function.
    unsafe {
        asm!("lock xadd qword ptr [{word}], {value}",
            word = in(reg) word, value = inout(reg) value => was,
            options(nostack))
    };
    was
}

/// Stores a word atomically, ordered before all later accesses. Returns the old value.
///
/// # Safety
///
/// As for [`fetch_add`].
#[inline(always)]
pub unsafe fn swap(word: *mut u64, value: u64) -> u64 {
    let was: u64;
    // SAFETY: By the rules of this function.
    unsafe {
        asm!("xchg qword ptr [{word}], {value}",
            word = in(reg) word, value = inout(reg) value => was,
            options(nostack, preserves_flags))
    };
    was
}

/// Adds 1 to an `int` of C code, as [`fetch_add`] does to a word.
///
/// # Safety
///
/// `int` points to a live, aligned `int`, which all code changes atomically.
#[inline(always)]
pub unsafe fn increment(int: *mut c_int) {
    // SAFETY: By the rules of this function.
    unsafe { asm!("lock inc dword ptr [{int}]", int = in(reg) int, options(nostack)) };
}

/// Copies data of a length that is known at run time only. Most records are short, and `memcpy()`
/// is made for long ones.
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

    // Bytes where two pieces overlap are copied twice.
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

/// Copies bytes between slices of equal length, without a call of `memcpy()` for short data. Copies
/// nothing if the lengths differ.
#[inline(always)]
pub fn copy_slice(to: &mut [u8], from: &[u8]) {
    if to.len() == from.len() {
        // SAFETY: Both are slices of this length, and one is borrowed mutably, so that they do not
        // overlap.
        unsafe { copy(to.as_mut_ptr(), from.as_ptr(), from.len()) };
    }
}

/// A word with atomic stores, loads and additions, for all contexts.
pub struct Word(UnsafeCell<usize>);

// SAFETY: Only accessed with single instructions.
unsafe impl Sync for Word {}

impl Word {
    /// Makes a word with an initial value.
    pub const fn new(value: usize) -> Self {
        Self(UnsafeCell::new(value))
    }

    /// Returns the value.
    #[inline(always)]
    pub fn load(&self) -> usize {
        // SAFETY: By the rule of the type.
        unsafe { load(self.0.get()) }
    }

    /// Stores a value, ordered after all loads and stores before it.
    #[inline(always)]
    pub fn store(&self, value: usize) {
        // SAFETY: By the rule of the type.
        unsafe { store_release(self.0.get(), value) };
    }

    /// Adds atomically. Returns the old value.
    #[inline(always)]
    pub fn add(&self, value: usize) -> usize {
        const { assert!(size_of::<usize>() == size_of::<u64>()) };
        // SAFETY: By the rule of the type: the word is live, aligned, and changed atomically.
        unsafe { fetch_add(self.0.get().cast(), value as u64) as usize }
    }

    /// Stores a value atomically, ordered with all accesses before and after it. Returns the old
    /// value.
    #[inline(always)]
    pub fn swap(&self, value: usize) -> usize {
        const { assert!(size_of::<usize>() == size_of::<u64>()) };
        // SAFETY: By the rule of the type: the word is live, aligned, and changed atomically.
        unsafe { swap(self.0.get().cast(), value as u64) as usize }
    }
}
