// SPDX-License-Identifier: GPL-2.0

//! Strategies to run the program of a point. One is chosen when the program is loaded.
//!
//! A program that only counts or only logs needs neither a stack nor the scratch memory of the CPU.
//! Its common forms have strategies of their own, which save more than a tenth of a hit
//! (instructions by `make bench SUITE=dprobes`):
//!
//! - One addition takes 40 by [`Strategy::Count`], and 58 by the loop of [`Strategy::Counts`].
//! - A hit at a function's entry that logs 16 bytes takes 240 in all with a layout known at compile
//!   time, and 305 by [`Strategy::Steps`]; with a jump 210 and 277. A record of one word or
//!   two has such a layout, too.
//! - Counting by process takes 161 in all by [`Strategy::Tally`], and misses no hit within a run of
//!   another program. A BPF program with an array takes 268.
//!
//! Contexts: process.
#![deny(unsafe_code)]

use ferro_dprobes_core::only_counts;
use ferro_dprobes_core::Count;
use ferro_dprobes_core::Insn;
use ferro_dprobes_core::Limits;
use ferro_dprobes_core::Plain;
use ferro_dprobes_core::Shape;
use ferro_dprobes_core::Tally;
use ferro_dprobes_core::Target;

use crate::runtime::Output;

/// Strategy to run the program of a point.
pub(crate) enum Strategy {
    /// Increments one variable and does nothing else.
    Count(Count),
    /// Only increments variables.
    Counts,
    /// Only increments a variable with a computed index.
    Tally(Tally),
    /// Only logs 16 bytes of memory.
    Pair(Plain),
    /// Only logs a word.
    Word(Plain),
    /// Only logs two words.
    TwoWords(Plain),
    /// Only logs, in another form.
    Steps(Plain),
    /// Does anything else: is interpreted.
    Interpret,
}

impl Strategy {
    /// Chooses the strategy for a program.
    pub(crate) fn new(limits: &Limits, output: Output, code: &[Insn]) -> Self {
        let plain = || match output.target {
            Target::Relay => Plain::new(limits, output.fields, code),
            Target::Klog => None,
        };
        if let Some(one) = Count::new(code) {
            Self::Count(one)
        } else if only_counts(code) {
            Self::Counts
        } else if let Some(tally) = Tally::new(code) {
            Self::Tally(tally)
        } else if let Some(plain) = plain() {
            match plain.shape() {
                Shape::Pair => Self::Pair(plain),
                Shape::Word => Self::Word(plain),
                Shape::TwoWords => Self::TwoWords(plain),
                Shape::Steps => Self::Steps(plain),
            }
        } else {
            Self::Interpret
        }
    }
}
