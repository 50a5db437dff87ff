// SPDX-License-Identifier: GPL-2.0

//! Variables: words that programs on all CPUs use at a time. Each command is one step, so that what several CPUs count is counted
//! exactly; a program that pushes a variable and pops it again may lose what another has done between.
//!
//! Contexts: making process; the rest any, NMI included.
#![deny(unsafe_code)]

use ferro_sys::sync::word::Word;
use kernel::fmt;
use kernel::fmt::Write;
use kernel::prelude::*;

use ferro_sys::fs::text_buffer::TextBuffer;

/// Variables, all 0 at first.
pub(crate) struct Variables(KVVec<Word>);

impl Variables {
    /// Errors: -ENOMEM.
    pub(crate) fn new(count: u32) -> Result<Self> {
        let mut words = KVVec::with_capacity(usize::try_from(count)?, GFP_KERNEL)?;
        for _ in 0..count {
            words.push(Word::new(0), GFP_KERNEL)?;
        }
        Ok(Self(words))
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// One of them.
    #[inline(always)]
    pub(crate) fn get(&self, index: u32) -> Option<&Word> {
        self.0.get(index as usize)
    }

    /// Makes all of them 0.
    pub(crate) fn reset(&self) {
        self.0.iter().for_each(|word| word.store(0));
    }

    /// A line with all of them.
    pub(crate) fn write(&self, name: &str, text: &mut TextBuffer) -> fmt::Result {
        text.write_str(name)?;
        for word in &self.0 {
            text.write_fmt(fmt!(" {}", word.load()))?;
        }
        text.write_str("\n")
    }
}
