// SPDX-License-Identifier: GPL-2.0

//! Where the copies of displaced instructions are, in a word: a handler may send execution to one that a jump covers.
//!
//! Contexts: any.
#![deny(unsafe_code)]

use ferro_core::insn::jump::Displaced;
use ferro_core::insn::jump::JUMP_LEN;

/// What each instruction takes of the word: how far it is from the first, and, above that, how far its copy is from the first's.
const WIDTH: u32 = 12;
const FROM_BITS: u32 = 4;

/// For each displaced instruction but the first. One that is not there is 0.
#[derive(Clone, Copy)]
pub(crate) struct Parts(usize);

impl Parts {
    /// Those of copies that are at `to`.
    pub(crate) fn of(displaced: &Displaced, to: usize) -> Self {
        let mut word = 0;
        // All begin within the jump.
        for from in 1..JUMP_LEN {
            let at = displaced.at().wrapping_add(from as u64);
            if let Some(copy) = displaced.copy_of(at, to as u64) {
                word = word << WIDTH | copy << FROM_BITS | from;
            }
        }
        Self(word)
    }

    pub(crate) fn word(self) -> usize {
        self.0
    }

    /// How far the copy of the instruction is that is so far from the first; `None` if none begins there.
    pub(crate) fn find(word: usize, from: usize) -> Option<usize> {
        let mut rest = word;
        while rest != 0 {
            if rest & ((1 << FROM_BITS) - 1) == from {
                return Some((rest & ((1 << WIDTH) - 1)) >> FROM_BITS);
            }
            rest >>= WIDTH;
        }
        None
    }
}
