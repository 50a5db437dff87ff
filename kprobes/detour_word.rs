// SPDX-License-Identifier: GPL-2.0

//! Where hits go on that have a detour, in a word: the copies of the displaced instructions, and where among them each but the first
//! has its own, as a handler may send execution to one that a jump covers. One word, so that who reads it never has some of one
//! detour and some of another.
//!
//! Contexts: any.
#![deny(unsafe_code)]

use ferro_core::insn::jump::Displaced;
use ferro_core::insn::jump::JUMP_LEN;

/// Where the copies are: a number of 32 bits, with a sign, as all executable memory is within 2 GiB.
const ADDRESS_BITS: u32 = 32;
/// Above that, for each distance from the first instruction, how far its copy is from the first's; 0 is none.
const WIDTH: u32 = 8;

/// Such a word. 0 stands for no detour.
#[derive(Clone, Copy)]
pub(crate) struct Parts(usize);

impl Parts {
    /// Those of copies that are at `to`. `None` if that is somewhere else, or they are too long.
    pub(crate) fn of(displaced: &Displaced, to: usize) -> Option<Self> {
        let mut word = 0;
        // All begin within the jump.
        for from in (1..JUMP_LEN).rev() {
            let at = displaced.at().wrapping_add(from as u64);
            let copy = displaced.copy_of(at, to as u64).unwrap_or(0);
            word = word << WIDTH | usize::from(u8::try_from(copy).ok()?);
        }
        let low = to & ((1 << ADDRESS_BITS) - 1);
        let word = word << ADDRESS_BITS | low;
        (Self::copies(word) == to).then_some(Self(word))
    }

    pub(crate) fn word(self) -> usize {
        self.0
    }

    /// Where the copies are.
    #[inline(always)]
    pub(crate) fn copies(word: usize) -> usize {
        word as u32 as i32 as usize
    }

    /// Where the copy of the instruction is that is so far from the first; `None` if none begins there.
    pub(crate) fn find(word: usize, from: usize) -> Option<usize> {
        if from == 0 || from >= JUMP_LEN {
            return None;
        }
        let place = word >> ADDRESS_BITS >> ((from - 1) as u32 * WIDTH);
        let copy = place & ((1 << WIDTH) - 1);
        (copy != 0).then(|| Self::copies(word).wrapping_add(copy))
    }
}
