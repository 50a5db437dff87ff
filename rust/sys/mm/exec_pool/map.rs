// SPDX-License-Identifier: GPL-2.0

//! Which pages belong to the pool, and which of them are for detours: a bit for each page of where they can be.
//!
//! Contexts: reading anywhere, NMI included.

use kernel::bindings;
use kernel::page::PAGE_SIZE;
use kernel::sync::atomic::Atomic;
use kernel::sync::atomic::Relaxed;

/// A bit for each page of the memory for modules and the like, in which the pool's are.
///
/// The readers look at one bit and take no lock. Writers hold the pool's mutex.
pub(super) struct PageMap([Atomic<usize>; Self::WORDS]);

impl PageMap {
    const BITS: usize = usize::BITS as usize;
    const WORDS: usize = (bindings::FERRO_EXEC_PAGES as usize).div_ceil(Self::BITS);

    fn word(&self, page: usize) -> Option<(&Atomic<usize>, usize)> {
        let index = page.checked_sub(bindings::FERRO_EXEC_START)? / PAGE_SIZE;
        Some((self.0.get(index / Self::BITS)?, 1 << (index % Self::BITS)))
    }

    pub(super) fn has(&self, addr: usize) -> bool {
        self.word(addr)
            .is_some_and(|(word, bit)| word.load(Relaxed) & bit != 0)
    }

    /// Returns whether there is a bit for this page. The caller holds the pool's mutex.
    pub(super) fn set(&self, page: usize, used: bool) -> bool {
        let Some((word, bit)) = self.word(page) else {
            return false;
        };
        let others = word.load(Relaxed) & !bit;
        word.store(if used { others | bit } else { others }, Relaxed);
        true
    }

    pub(super) fn nth(&self, n: usize) -> Option<usize> {
        let mut left = n;
        for (i, word) in self.0.iter().enumerate() {
            let mut bits = word.load(Relaxed);
            let ones = bits.count_ones() as usize;
            if left >= ones {
                left -= ones;
                continue;
            }
            for _ in 0..left {
                bits &= bits - 1;
            }
            let index = i * Self::BITS + bits.trailing_zeros() as usize;
            return Some(bindings::FERRO_EXEC_START + index * PAGE_SIZE);
        }
        None
    }
}

/// The pages of the pool.
pub(super) static PAGES: PageMap = PageMap([const { Atomic::new(0) }; PageMap::WORDS]);
/// Those for detours, if they are the pool's: what has been freed may still be here.
pub(super) static DETOURS: PageMap = PageMap([const { Atomic::new(0) }; PageMap::WORDS]);
