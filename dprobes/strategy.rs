// SPDX-License-Identifier: GPL-2.0

//! Strategies to run the program of a point. One is chosen when the program is loaded.
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
    /// Counts once, and does nothing else.
    Count(Count),
    /// Only counts.
    Counts,
    /// Only counts, in a variable with a computed index.
    Tally(Tally),
    /// Only logs data known at a kernel breakpoint: 16 bytes of memory.
    Pair(Plain),
    /// Only logs a word.
    Word(Plain),
    /// Only logs two words.
    TwoWords(Plain),
    /// Only logs, in another form.
    Steps(Plain),
    /// Is interpreted: all other programs.
    Interpret,
}

impl Strategy {
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
