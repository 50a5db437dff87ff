// SPDX-License-Identifier: GPL-2.0

//! Variables: words that programs on all CPUs use at a time.
//!
//! Each command is one step, so that counts from several CPUs are exact. A program that pushes a
//! variable and pops it again may overwrite the change of another CPU in between.
//!
//! Contexts: making process; the rest any, NMI included.
#![deny(unsafe_code)]

use ferro_sys::sync::shared_word::Word;
use kernel::fmt;
use kernel::fmt::Write;
use kernel::prelude::*;

use ferro_sys::fs::text_buffer::TextBuffer;

/// Range of indexes of variables.
#[derive(Clone, Copy)]
pub(crate) struct Range {
    pub(crate) first: usize,
    /// Inclusive.
    pub(crate) last: usize,
}

impl Range {
    pub(crate) const ALL: Self = Self {
        first: 0,
        last: usize::MAX,
    };
}

/// Values of variables before they were set to 0.
pub(crate) struct OldValues {
    /// Index of the first.
    pub(crate) first: usize,
    pub(crate) values: KVVec<usize>,
}

impl fmt::Display for OldValues {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_fmt(fmt!("first={}", self.first))?;
        f.write_str(" values=")?;
        for (index, value) in self.values.iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            f.write_fmt(fmt!("{comma}{value}"))?;
        }
        Ok(())
    }
}

/// Variables, all 0 at first.
pub(crate) struct Variables(KVVec<Word>);

impl Variables {
    /// Makes `count` variables. Errors: -ENOMEM.
    pub(crate) fn new(count: u32) -> Result<Self> {
        let mut words = KVVec::with_capacity(usize::try_from(count)?, GFP_KERNEL)?;
        for _ in 0..count {
            words.push(Word::new(0), GFP_KERNEL)?;
        }
        Ok(Self(words))
    }

    /// Returns the number of variables.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns a variable.
    #[inline(always)]
    pub(crate) fn get(&self, index: u32) -> Option<&Word> {
        self.0.get(index as usize)
    }

    /// Allocates room for the values that [`Variables::take`] takes. Errors: -ENOMEM.
    pub(crate) fn room(&self, range: Range) -> Result<OldValues> {
        Ok(OldValues {
            first: range.first,
            values: KVVec::with_capacity(self.chosen(range).len(), GFP_KERNEL)?,
        })
    }

    /// Sets the variables of a range to 0, and appends their values to `taken`, which has room.
    /// Each is exchanged, so that no count of another CPU is lost.
    pub(crate) fn take(&self, range: Range, taken: &mut OldValues) {
        for word in self.chosen(range) {
            let _ = taken.values.push_within_capacity(word.swap(0));
        }
    }

    fn chosen(&self, Range { first, last }: Range) -> &[Word] {
        let end = self.len().min(last.saturating_add(1));
        self.0.get(first..end).unwrap_or_default()
    }

    /// Appends a line with all variables.
    pub(crate) fn write(&self, name: &str, text: &mut TextBuffer) -> fmt::Result {
        text.write_str(name)?;
        for word in &self.0 {
            text.write_fmt(fmt!(" {}", word.load()))?;
        }
        text.write_str("\n")
    }
}
