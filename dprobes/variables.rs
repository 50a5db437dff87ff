// SPDX-License-Identifier: GPL-2.0

//! Variables: words that programs on all CPUs use at a time. Each command is one step, so that what several CPUs count is counted
//! exactly; a program that pushes a variable and pops it again may lose what another has done between.
//!
//! Contexts: making process; the rest any, NMI included.
#![deny(unsafe_code)]

use ferro_sys::sync::shared_word::Word;
use kernel::fmt;
use kernel::fmt::Write;
use kernel::prelude::*;

use ferro_sys::fs::text_buffer::TextBuffer;

/// Indexes of variables.
#[derive(Clone, Copy)]
pub(crate) struct Range {
    pub(crate) first: usize,
    /// Included.
    pub(crate) last: usize,
}

impl Range {
    pub(crate) const ALL: Self = Self {
        first: 0,
        last: usize::MAX,
    };
}

/// The values that variables had before they were made 0.
pub(crate) struct Taken {
    /// The index of the first.
    pub(crate) first: usize,
    pub(crate) values: KVVec<usize>,
}

impl fmt::Display for Taken {
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

    /// Room for what [`Variables::take`] takes. Errors: -ENOMEM.
    pub(crate) fn room(&self, range: Range) -> Result<Taken> {
        Ok(Taken {
            first: range.first,
            values: KVVec::with_capacity(self.chosen(range).len(), GFP_KERNEL)?,
        })
    }

    /// Makes those of a range 0, and adds what they were to `taken`, which has room: each is exchanged, so that nothing is lost that
    /// another CPU counts at the same time.
    pub(crate) fn take(&self, range: Range, taken: &mut Taken) {
        for word in self.chosen(range) {
            let _ = taken.values.push_within_capacity(word.swap(0));
        }
    }

    fn chosen(&self, Range { first, last }: Range) -> &[Word] {
        let end = self.len().min(last.saturating_add(1));
        self.0.get(first..end).unwrap_or_default()
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
