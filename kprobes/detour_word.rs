// SPDX-License-Identifier: GPL-2.0

//! Resume addresses of a detour, packed into one word.
//!
//! The word has the address of the copies of the displaced instructions, and for each instruction
//! except the first the offset of its copy. A handler may send execution to an instruction that a
//! jump covers. The single word keeps readers from mixing parts of two detours.
//!
//! Contexts: any.
#![deny(unsafe_code)]

use ferro_core::insn::jump::Displaced;
use ferro_core::insn::jump::JUMP_LEN;

/// Width of the address of the copies: a signed number, as all executable memory is within 2 GiB.
const ADDRESS_BITS: u32 = 32;
/// Width of each offset above the address. Field `n - 1` is for the instruction `n` bytes after the
/// first: the distance of its copy from the first copy, or 0 if there is none.
const WIDTH: u32 = 8;

/// Resume addresses of a detour. 0 stands for no detour.
#[derive(Clone, Copy)]
pub(crate) struct Parts(usize);

impl Parts {
    /// Packs the addresses of copies at `to`. `None` if `to` does not fit into 32 bits with a sign,
    /// or an offset does not fit.
    pub(crate) fn of(displaced: &Displaced, to: usize) -> Option<Self> {
        let mut word = 0;
        // All of these instructions begin within the jump.
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

    /// Returns the address of the first copy.
    #[inline(always)]
    pub(crate) fn copies(word: usize) -> usize {
        word as u32 as i32 as usize
    }

    /// Returns the address of the copy of the instruction `from` bytes after the first, or `None`
    /// if no instruction begins there.
    pub(crate) fn find(word: usize, from: usize) -> Option<usize> {
        if from == 0 || from >= JUMP_LEN {
            return None;
        }
        let place = word >> ADDRESS_BITS >> ((from - 1) as u32 * WIDTH);
        let copy = place & ((1 << WIDTH) - 1);
        (copy != 0).then(|| Self::copies(word).wrapping_add(copy))
    }
}
