// SPDX-License-Identifier: GPL-2.0

//! Bitmaps of the pool's pages and of its pages for detour buffers: a bit for each possible page.
//!
//! Contexts: reading: any, NMI included.

use crate::bindings;
use kernel::page::PAGE_SIZE;
use kernel::sync::atomic::Atomic;
use kernel::sync::atomic::Relaxed;

/// Bitmap of the module area, where the pool has its pages.
///
/// Readers load one bit without a lock. Writers hold the pool's mutex.
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

    /// Sets or clears the bit of a page; returns false if the page has none. The caller holds the
    /// pool's mutex.
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

/// Pages of the pool.
pub(super) static PAGES: PageMap = PageMap([const { Atomic::new(0) }; PageMap::WORDS]);
/// Pages for detour buffers, valid only for pages of the pool: freed pages may stay set.
pub(super) static DETOURS: PageMap = PageMap([const { Atomic::new(0) }; PageMap::WORDS]);
