// SPDX-License-Identifier: GPL-2.0

//! Variables: words that programs on all CPUs use at a time.
//!
//! Each command is one step, so that counts from several CPUs are exact. A program that pushes a
//! variable and pops it again may overwrite the change of another CPU in between.
//!
//! Contexts: making process; the rest any, NMI included.
#![deny(unsafe_code)]

use ferro_sys::fs::text_buffer::TextBuffer;
use ferro_sys::sync::shared_word::Word;
use kernel::fmt;
use kernel::fmt::Write;
use kernel::prelude::*;
use kernel::str::CString;

/// Range of indexes of variables.
#[derive(Clone, Copy)]
pub(crate) struct IndexRange {
    pub(crate) first: usize,
    /// Inclusive.
    pub(crate) last: usize,
}

impl IndexRange {
    pub(crate) const ALL: Self = Self {
        first: 0,
        last: usize::MAX,
    };
}

/// Values of variables before they were set to 0.
struct OldValues {
    /// Index of the first.
    first: usize,
    values: KVVec<usize>,
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

    /// Allocates memory for the values of a range. Errors: -ENOMEM.
    fn reserve(&self, range: IndexRange) -> Result<OldValues> {
        Ok(OldValues {
            first: range.first,
            values: KVVec::with_capacity(self.slice(range).len(), GFP_KERNEL)?,
        })
    }

    /// Sets the variables of a range to 0, and appends their values to `old`, which has room. Each
    /// is exchanged, so that no count of another CPU is lost.
    fn reset(&self, range: IndexRange, old: &mut OldValues) {
        for word in self.slice(range) {
            let _ = old.values.push_within_capacity(word.swap(0));
        }
    }

    fn slice(&self, IndexRange { first, last }: IndexRange) -> &[Word] {
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

/// Values of variables before they were set to 0.
#[derive(Default)]
pub(crate) struct ResetReport {
    /// Values of local variables, with the names of their programs.
    locals: KVVec<(CString, OldValues)>,
    globals: Option<OldValues>,
}

/// Sets variables to 0, once there is memory for all their previous values. `locals` has the
/// names and the local variables of programs. Errors: -ENOMEM.
pub(crate) fn reset<'a>(
    locals: impl Iterator<Item = (&'a CStr, &'a Variables)> + Clone,
    globals: Option<&Variables>,
    range: IndexRange,
) -> Result<ResetReport> {
    let mut report = ResetReport::default();
    for (name, variables) in locals.clone() {
        let name = CString::try_from_fmt(fmt!("{name}"))?;
        report
            .locals
            .push((name, variables.reserve(range)?), GFP_KERNEL)?;
    }
    report.globals = globals.map(|globals| globals.reserve(range)).transpose()?;
    for ((_, variables), (_, old)) in locals.zip(report.locals.iter_mut()) {
        variables.reset(range, old);
    }
    if let (Some(globals), Some(old)) = (globals, &mut report.globals) {
        globals.reset(range, old);
    }
    Ok(report)
}

impl ResetReport {
    /// Appends a line for each program, and one for the global variables.
    pub(crate) fn write(&self, text: &mut TextBuffer) -> fmt::Result {
        for (name, old) in &self.locals {
            text.write_fmt(fmt!("taken {old} name={}\n", **name))?;
        }
        match &self.globals {
            Some(old) => text.write_fmt(fmt!("taken_globals {old}\n")),
            None => Ok(()),
        }
    }
}
