// SPDX-License-Identifier: GPL-2.0

//! Words that one CPU changes, and any CPU reads.
//!
//! A change is one instruction without the `lock` prefix: an interrupt or an NMI on the same CPU
//! comes before it or after it. Changes by two CPUs at a time may be lost, and do no other harm.
//!
//! Contexts: any, NMI included; [`CpuWords::new`]: process.

use core::arch::asm;
use core::cell::UnsafeCell;

use kernel::alloc::flags::__GFP_NOWARN;
use kernel::prelude::*;

use crate::sync::shared_word;

/// Words of a CPU, which begin as 0.
///
/// The functions ignore words behind the end, and return 0 for them.
pub struct CpuWords(KVVec<UnsafeCell<u64>>);

// SAFETY: All code accesses the words in single instructions.
unsafe impl Sync for CpuWords {}

impl CpuWords {
    /// Allocates words. Errors: -ENOMEM.
    pub fn new(count: usize) -> Result<Self> {
        let mut words: KVVec<u64> = KVVec::new();
        words.resize(count, 0, GFP_KERNEL | __GFP_NOWARN)?;
        let (words, len, capacity) = words.into_raw_parts();
        // SAFETY: The parts are those of a vector; an `UnsafeCell<u64>` has the layout of a `u64`.
        Ok(Self(unsafe {
            KVVec::from_raw_parts(words.cast(), len, capacity)
        }))
    }

    /// Returns true if there are no words.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    #[inline(always)]
    fn at(&self, index: usize) -> Option<*mut u64> {
        self.0.get(index).map(UnsafeCell::get)
    }

    /// Returns a word.
    #[inline(always)]
    pub fn get(&self, index: usize) -> u64 {
        // SAFETY: All code accesses the word in single instructions.
        self.at(index)
            .map_or(0, |word| unsafe { shared_word::load(word) })
    }

    /// Stores a word, after all stores before it.
    #[inline(always)]
    pub fn set(&self, index: usize, value: u64) {
        if let Some(word) = self.at(index) {
            // SAFETY: As in `get()`.
            unsafe { shared_word::store_release(word, value) };
        }
    }

    /// Adds to a word, which wraps around.
    #[inline(always)]
    pub fn add(&self, index: usize, value: u64) {
        if let Some(word) = self.at(index) {
            // SAFETY: The word is live and aligned, and the instruction changes nothing else.
            unsafe {
                asm!("add qword ptr [{word}], {value}", word = in(reg) word, value = in(reg) value,
                    options(nostack))
            };
        }
    }

    /// Adds to a number of two words, which wraps around.
    ///
    /// An interrupt between the two instructions finds the carry in neither word. It adds its own
    /// number, with its own carry, and the flags of the interrupted code are restored.
    #[inline(always)]
    pub fn add_wide(&self, low: usize, high: usize, value: u64) {
        if let (Some(low), Some(high)) = (self.at(low), self.at(high)) {
            // SAFETY: The words are live and aligned, and the instructions change nothing else.
            unsafe {
                asm!("add qword ptr [{low}], {value}", "adc qword ptr [{high}], 0",
                    low = in(reg) low, high = in(reg) high, value = in(reg) value,
                    options(nostack))
            };
        }
    }

    /// Replaces a word that is still `old`. Returns true if it was.
    #[inline(always)]
    pub fn replace(&self, index: usize, old: u64, new: u64) -> bool {
        let Some(word) = self.at(index) else {
            return false;
        };
        let was: u64;
        // SAFETY: The word is live and aligned, and the instruction changes nothing else.
        unsafe {
            asm!("cmpxchg qword ptr [{word}], {new}", word = in(reg) word, new = in(reg) new,
                inout("rax") old => was, options(nostack))
        };
        was == old
    }
}
