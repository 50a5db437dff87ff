// SPDX-License-Identifier: GPL-2.0

//! Records of runs, written to the channel or to klog.
//!
//! Contexts: any, NMI included.
#![deny(unsafe_code)]

use ferro_core::rpn::End;
use ferro_core::rpn::Entries;
use ferro_core::rpn::Entry;
use ferro_core::rpn::Field;
use ferro_core::rpn::Form;
use ferro_core::rpn::Outcome;
use ferro_core::rpn::Plain;
use ferro_core::rpn::RecordHeader;
use ferro_core::rpn::RecordRef;
use ferro_core::rpn::Register;
use ferro_core::rpn::Room;
use ferro_core::rpn::Target;
use ferro_core::rpn::Words;
use ferro_core::rpn::World;
use ferro_core::rpn::FIELDS;
use ferro_core::rpn::RECORD_LEN;
use ferro_fast_relay::Channel;
use ferro_fast_relay::Placed;
use ferro_klog::klog;
use ferro_sys::sync::shared_word::Word;
use ferro_sys::trace::tracepoint::TaskInfo;
use kernel::fmt;
use kernel::prelude::*;

use crate::hit_context::HitContext;
use crate::raw::cpu_regs as this_cpu;
use crate::raw::task;
use crate::registers::Registers;

/// Type of records in the channel.
pub(crate) const KIND: u16 = 1;

/// Format of the fields that `ferrotrace relay merge` shows without further knowledge.
pub(crate) const FORMAT: &str = "name: dprobe
ID: 1
format:
\tfield:u32 major;\toffset:0;\tsize:4;\tsigned:0;
\tfield:u32 minor;\toffset:4;\tsize:4;\tsigned:0;
\tfield:u16 fields;\toffset:8;\tsize:2;\tsigned:0;
\tfield:u16 exception;\toffset:10;\tsize:2;\tsigned:0;
\tfield:u32 cpu;\toffset:12;\tsize:4;\tsigned:0;
";

/// Record of a run, still in pieces.
pub(crate) struct Record<'a, R> {
    outcome: &'a Outcome,
    here: &'a HitContext<'a, R>,
    data: [&'a [u8]; 2],
}

/// Returns the header of the record of a run.
#[inline(always)]
pub(crate) fn header<R: Registers>(outcome: &Outcome, here: &HitContext<'_, R>) -> RecordHeader {
    RecordHeader {
        major: outcome.major,
        minor: outcome.minor,
        fields: here.point.output.fields,
        exception: match outcome.end {
            End::Fault(fault) => fault.exception.bit(),
            _ => 0,
        },
        cpu: here.cpu(),
    }
}

impl<'a, R: Registers> Record<'a, R> {
    #[inline(always)]
    pub(crate) fn new(
        outcome: &'a Outcome,
        here: &'a HitContext<'a, R>,
        data: [&'a [u8]; 2],
    ) -> Self {
        Self {
            outcome,
            here,
            data,
        }
    }

    /// Passes the bytes of the record to `put`, a piece at a time.
    #[inline(always)]
    fn pieces(&self, mut put: impl FnMut(&[u8])) {
        put(&header(self.outcome, self.here).to_bytes());
        if self.here.point.output.fields != 0 {
            self.fields(&mut put);
        }
        let [log, trace] = self.data;
        put(log);
        if !trace.is_empty() {
            put(trace);
        }
    }

    #[inline(never)]
    fn fields(&self, put: &mut impl FnMut(&[u8])) {
        let chosen = |field: &&Field| self.here.point.output.fields & field.bit() != 0;
        for field in FIELDS.iter().filter(chosen) {
            let bytes = self.field(*field);
            put(bytes.get(..field.len()).unwrap_or_default());
        }
    }

    fn field(&self, field: Field) -> [u8; 16] {
        let here = self.here;
        let register = |register| here.register(register).unwrap_or(0);
        let two = |low: u64, high: u64| (u128::from(high) << 64 | u128::from(low)).to_le_bytes();
        match field {
            Field::ProcName => TaskInfo::current().comm,
            Field::Pid => {
                let (process, thread) = task::ids();
                two(u64::from(thread) << 32 | u64::from(process), 0)
            }
            Field::Uid => two(task::uid().into(), 0),
            Field::SsEsp => two(register(Register::Ss), register(Register::Sp)),
            Field::CsEip => two(register(Register::Cs), register(Register::Ip)),
            Field::Psw => two(register(Register::Flags), 0),
            Field::Upsw => two(here.user_register(Register::Flags).unwrap_or(0), 0),
            Field::Tsc => two(this_cpu::tsc(), 0),
        }
    }

    /// Writes the record to `room`, which has its length.
    #[inline(always)]
    pub(crate) fn fill(&self, mut room: &mut [u8]) {
        self.pieces(|piece| {
            let split = core::mem::take(&mut room).split_at_mut_checked(piece.len());
            if let Some((place, rest)) = split {
                place.copy_from_slice(piece);
                room = rest;
            }
        });
    }

    /// Returns the length of the record in bytes.
    #[inline(always)]
    pub(crate) fn len(&self) -> usize {
        let chosen = |field: &&Field| self.here.point.output.fields & field.bit() != 0;
        let fields: usize = FIELDS.iter().filter(chosen).map(|field| field.len()).sum();
        let data: usize = self.data.iter().map(|data| data.len()).sum();
        RECORD_LEN.saturating_add(fields).saturating_add(data)
    }

    /// Writes the record to the channel or to klog.
    pub(crate) fn write(&self, channel: &Channel, target: Target) {
        match target {
            Target::Relay => {
                // The channel counts records that do not fit.
                let _ = channel.reserve_timed(KIND, self.len(), |record| {
                    self.pieces(|piece| {
                        record.put(piece);
                    });
                    ferro_fast_relay::Outcome::Commit
                });
            }
            Target::Klog => show(header(self.outcome, self.here), self.data.map(Entries::new)),
        }
    }
}

/// Record in the channel.
struct InChannel<'a, 'b>(&'a mut Placed<'b>);

impl Room for InChannel<'_, '_> {
    #[inline(always)]
    fn put<const N: usize>(&mut self, at: usize, bytes: [u8; N]) {
        self.0.put(at, bytes);
    }
}

/// Builds the record of a plain program in the channel. Returns false if the program has to be run;
/// then at most padding, which readers skip, is left in the channel.
#[inline(always)]
pub(crate) fn place<F: Form, R: Registers>(
    plain: &Plain,
    here: &HitContext<'_, R>,
    channel: &Channel,
) -> bool {
    use ferro_fast_relay::Outcome;

    let outcome = channel.place_timed(KIND, F::len(plain), |record| {
        match F::write(plain, here, &mut InChannel(record)) {
            true => Outcome::Commit,
            false => Outcome::Discard,
        }
    });
    // The channel counts records that do not fit.
    outcome != Ok(Outcome::Discard)
}

/// Length of the most frequent records: with an entry of 16 bytes of memory, or of two words.
const USUAL: usize = RECORD_LEN + 3 + 16;

/// Writes a contiguous record.
#[inline(always)]
pub(crate) fn write(record: &[u8], channel: &Channel, target: Target) {
    // The channel counts records that do not fit.
    match target {
        // The length is a constant, so that the compiler inlines the copy.
        Target::Relay => match <&[u8; USUAL]>::try_from(record) {
            Ok(record) => drop(channel.write_timed(KIND, record)),
            Err(_) => write_long(record, channel),
        },
        Target::Klog => show_bytes(record),
    }
}

/// Writes a record of any length to the channel.
#[inline(never)]
fn write_long(record: &[u8], channel: &Channel) {
    let _ = channel.write_timed(KIND, record);
}

#[inline(never)]
fn show_bytes(record: &[u8]) {
    if let Some(record) = RecordRef::decode(record) {
        show(record.header, [record.entries(), Entries::new(&[])]);
    }
}

/// Number of records for klog that were lost, as it had no handler.
static UNHEARD: Word = Word::new(0);

/// Writes the text of a record to klog.
fn show(header: RecordHeader, entries: [Entries<'_>; 2]) {
    match ferro_klog::has_handler() {
        true => klog!("{}", Shown(header, entries)),
        false => drop(UNHEARD.add(1)),
    }
}

/// Line about the state of klog.
pub(crate) struct KlogState;

impl fmt::Display for KlogState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let handler = u8::from(ferro_klog::has_handler());
        let lost = UNHEARD.load();
        f.write_fmt(fmt!("klog handler={handler} lost={lost}\n"))
    }
}

/// Record as a line of text.
struct Shown<'a>(RecordHeader, [Entries<'a>; 2]);

/// Most bytes of a line, newline included: `klog!` cuts longer text.
const LINE_MAX: usize = 1023;

/// End of a line that was too long.
const CUT: &str = "...\n";

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut line = Line {
            f,
            left: LINE_MAX.saturating_sub(CUT.len()),
        };
        let end = match self.write(&mut line) {
            Ok(()) => "\n",
            Err(_) => CUT,
        };
        f.write_str(end)
    }
}

/// Line that keeps room for its end. Longer text is cut, and is an error.
struct Line<'a, 'b> {
    f: &'a mut fmt::Formatter<'b>,
    left: usize,
}

impl fmt::Write for Line<'_, '_> {
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

impl Shown<'_> {
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
            show_entry(to, entry)?;
        }
        Ok(())
    }
}

fn show_entry<W: fmt::Write>(to: &mut W, entry: Entry<'_>) -> fmt::Result {
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
        Entry::Text(text) => show_text(to, text),
        Entry::CutText(text) => {
            show_text(to, text)?;
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

fn show_text(to: &mut impl fmt::Write, text: &[u8]) -> fmt::Result {
    to.write_str("\"")?;
    for byte in text {
        for part in core::ascii::escape_default(*byte) {
            to.write_char(char::from(part))?;
        }
    }
    to.write_str("\"")
}
