// SPDX-License-Identifier: GPL-2.0

//! Records as text, for klog.
//!
//! Contexts: any, NMI included.
#![deny(unsafe_code)]

use ferro_dprobes_core::Entries;
use ferro_dprobes_core::Entry;
use ferro_dprobes_core::RecordHeader;
use ferro_dprobes_core::RecordRef;
use ferro_dprobes_core::Words;
use ferro_klog::klog;
use ferro_sys::sync::shared_word::Word;
use ferro_sys::trace::tracepoint::TaskInfo;
use kernel::fmt;
use kernel::prelude::*;

/// Writes the text of a contiguous record to klog.
#[inline(never)]
pub(crate) fn print_bytes(record: &[u8]) {
    if let Some(record) = RecordRef::decode(record) {
        print(record.header, [record.entries(), Entries::new(&[])]);
    }
}

/// Number of records that were lost because klog had no handler.
static LOST: Word = Word::new(0);

/// Writes the text of a record to klog.
pub(crate) fn print(header: RecordHeader, entries: [Entries<'_>; 2]) {
    match ferro_klog::has_handler() {
        true => klog!("{}", RecordText(header, entries)),
        false => drop(LOST.add(1)),
    }
}

/// Status of klog, as a line of text.
pub(crate) struct KlogStatus;

impl fmt::Display for KlogStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let handler = u8::from(ferro_klog::has_handler());
        let lost = LOST.load();
        f.write_fmt(fmt!("klog handler={handler} lost={lost}\n"))
    }
}

/// Record as a line of text.
struct RecordText<'a>(RecordHeader, [Entries<'a>; 2]);

/// Maximum number of bytes of a line, newline included: `klog!` cuts longer text.
const LINE_MAX: usize = 1023;

/// End of a line that was too long.
const ELLIPSIS: &str = "...\n";

impl fmt::Display for RecordText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut line = BoundedLine {
            f,
            left: LINE_MAX.saturating_sub(ELLIPSIS.len()),
        };
        let end = match self.write(&mut line) {
            Ok(()) => "\n",
            Err(_) => ELLIPSIS,
        };
        f.write_str(end)
    }
}

/// Writer of a line. Cuts longer text, and returns an error for it.
struct BoundedLine<'a, 'b> {
    f: &'a mut fmt::Formatter<'b>,
    left: usize,
}

impl fmt::Write for BoundedLine<'_, '_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let fits = text.len() <= self.left;
        // The text is ASCII only.
        let kept = text.get(..text.len().min(self.left));
        let kept = kept.unwrap_or_default();
        self.left = self.left.saturating_sub(kept.len());
        self.f.write_str(kept)?;
        match fits {
            true => Ok(()),
            false => Err(fmt::Error),
        }
    }
}

impl RecordText<'_> {
    fn write(&self, to: &mut impl fmt::Write) -> fmt::Result {
        let Self(header, entries) = self;
        let RecordHeader {
            major, minor, cpu, ..
        } = header;
        let thread = TaskInfo::current();
        to.write_fmt(fmt!(
            "dprobe {major}.{minor} cpu {cpu} thread {}:",
            thread.pid
        ))?;
        for entry in entries.iter().flat_map(|entries| *entries).flatten() {
            to.write_str(" ")?;
            write_entry(to, entry)?;
        }
        Ok(())
    }
}

fn write_entry<W: fmt::Write>(to: &mut W, entry: Entry<'_>) -> fmt::Result {
    let words = |to: &mut W, name: &str, words: Words<'_>| {
        to.write_str(name)?;
        let mut words = words.iter();
        words.try_for_each(|word| to.write_fmt(fmt!(" {word:#x}")))
    };
    match entry {
        Entry::Memory(bytes) => {
            let mut bytes = bytes.iter();
            bytes.try_for_each(|byte| to.write_fmt(fmt!("{byte:02x}")))
        }
        Entry::Text(text) => write_text(to, text),
        Entry::CutText(text) => {
            write_text(to, text)?;
            to.write_str("...")
        }
        Entry::NotThere(address) => to.write_fmt(fmt!("not there: {address:#x}")),
        Entry::Words(all) => words(to, "words", all),
        Entry::Calls(all) => words(to, "calls", all),
        Entry::Locals(first, all) => {
            to.write_fmt(fmt!("lv {first}:"))?;
            words(to, "", all)
        }
        Entry::Globals(first, all) => {
            to.write_fmt(fmt!("gv {first}:"))?;
            words(to, "", all)
        }
        Entry::Top(word) => to.write_fmt(fmt!("top {word:#x}")),
        Entry::Exception(fault, at) => {
            let text = fault.exception.text();
            to.write_fmt(fmt!("exception at {at}: {text} ({:#x})", fault.argument))
        }
    }
}

fn write_text(to: &mut impl fmt::Write, text: &[u8]) -> fmt::Result {
    to.write_str("\"")?;
    for byte in text {
        for part in core::ascii::escape_default(*byte) {
            to.write_char(char::from(part))?;
        }
    }
    to.write_str("\"")
}
