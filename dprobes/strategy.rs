// SPDX-License-Identifier: GPL-2.0

//! How the program of a point is run, which is found out when it is loaded.
#![deny(unsafe_code)]

use ferro_core::rpn::only_counts;
use ferro_core::rpn::Count;
use ferro_core::rpn::Insn;
use ferro_core::rpn::Limits;
use ferro_core::rpn::Plain;
use ferro_core::rpn::Shape;
use ferro_core::rpn::Tally;
use ferro_core::rpn::Target;

use crate::point::Output;

/// How the program of a point is run.
pub(crate) enum Way {
    /// It only counts, once.
    Count(Count),
    /// It only counts.
    Counts,
    /// It only counts, in a variable that it calculates.
    Tally(Tally),
    /// It only logs what is known at a breakpoint in the kernel: 16 bytes of memory.
    Pair(Plain),
    /// A word.
    Word(Plain),
    /// Two words.
    TwoWords(Plain),
    /// Something else.
    Steps(Plain),
    /// All others.
    Run,
}

impl Way {
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
            Self::Run
        }
    }
}
