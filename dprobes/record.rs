// SPDX-License-Identifier: GPL-2.0

//! Records of runs, to the channel or to klog.
//!
//! Contexts: any, NMI included.
#![deny(unsafe_code)]

use ferro_core::rpn::End;
use ferro_core::rpn::Entries;
use ferro_core::rpn::Entry;
use ferro_core::rpn::Field;
use ferro_core::rpn::Outcome;
use ferro_core::rpn::RecordHeader;
use ferro_core::rpn::RecordRef;
use ferro_core::rpn::Register;
use ferro_core::rpn::Target;
use ferro_core::rpn::Words;
use ferro_core::rpn::World;
use ferro_core::rpn::FIELDS;
use ferro_core::rpn::FIELDS_LEN;
use ferro_core::rpn::RECORD_LEN;
use ferro_fast_relay::Channel;
use ferro_klog::klog;
use ferro_sys::trace::tracepoint::TaskInfo;
use kernel::fmt;

use crate::here::Here;
use crate::raw::cpu as this_cpu;
use crate::raw::task;
use crate::registers::Registers;

/// The type of records in the channel.
pub(crate) const KIND: u16 = 1;

/// What `ferrotrace relay merge` shows of them without knowing more.
pub(crate) const FORMAT: &str = "name: dprobe
ID: 1
format:
\tfield:u32 major;\toffset:0;\tsize:4;\tsigned:0;
\tfield:u32 minor;\toffset:4;\tsize:4;\tsigned:0;
\tfield:u16 fields;\toffset:8;\tsize:2;\tsigned:0;
\tfield:u16 exception;\toffset:10;\tsize:2;\tsigned:0;
\tfield:u32 cpu;\toffset:12;\tsize:4;\tsigned:0;
";

/// A record.
pub(crate) struct Record<'a> {
    header: RecordHeader,
    head: [u8; RECORD_LEN],
    fields: [u8; FIELDS_LEN],
    fields_len: usize,
    data: [&'a [u8]; 2],
}

impl<'a> Record<'a> {
    /// What a run at this place has left.
    pub(crate) fn new<R: Registers>(
        outcome: &Outcome,
        here: &Here<'_, R>,
        data: [&'a [u8]; 2],
    ) -> Self {
        let chosen = here.point.output.fields;
        let header = RecordHeader {
            major: outcome.major,
            minor: outcome.minor,
            fields: chosen,
            exception: match outcome.end {
                End::Fault(fault) => fault.exception.bit(),
                _ => 0,
            },
            cpu: here.cpu(),
        };
        let mut record = Self {
            header,
            head: header.to_bytes(),
            fields: [0; FIELDS_LEN],
            fields_len: 0,
            data,
        };
        for field in FIELDS {
            if chosen & field.bit() != 0 {
                record.add(*field, here);
            }
        }
        record
    }

    fn add<R: Registers>(&mut self, field: Field, here: &Here<'_, R>) {
        let register = |register| here.register(register).unwrap_or(0);
        let two = |low: u64, high: u64| u128::from(high) << 64 | u128::from(low);
        let bytes = match field {
            Field::ProcName => TaskInfo::current().comm,
            Field::Pid => {
                let (process, thread) = task::ids();
                u128::from(u64::from(thread) << 32 | u64::from(process)).to_le_bytes()
            }
            Field::Uid => u128::from(task::uid()).to_le_bytes(),
            Field::SsEsp => two(register(Register::Ss), register(Register::Sp)).to_le_bytes(),
            Field::CsEip => two(register(Register::Cs), register(Register::Ip)).to_le_bytes(),
            Field::Psw => u128::from(register(Register::Flags)).to_le_bytes(),
            Field::Upsw => {
                let flags = here.user_register(Register::Flags);
                u128::from(flags.unwrap_or(0)).to_le_bytes()
            }
            Field::Tsc => u128::from(this_cpu::tsc()).to_le_bytes(),
        };
        let end = self.fields_len.saturating_add(field.len());
        let place = self.fields.get_mut(self.fields_len..end);
        if let (Some(place), Some(bytes)) = (place, bytes.get(..field.len())) {
            place.copy_from_slice(bytes);
            self.fields_len = end;
        }
    }

    /// Its bytes.
    pub(crate) fn parts(&self) -> [&[u8]; 4] {
        let fields = self.fields.get(..self.fields_len).unwrap_or_default();
        let [log, trace] = self.data;
        [&self.head, fields, log, trace]
    }

    /// Writes it.
    pub(crate) fn write(&self, channel: &Channel, target: Target) {
        match target {
            Target::Relay => {
                let parts = self.parts();
                let len = parts.iter().map(|part| part.len()).sum();
                // The channel counts what it has no room for.
                let _ = channel.reserve_timed(KIND, len, |record| {
                    for part in parts {
                        record.put(part);
                    }
                    ferro_fast_relay::Outcome::Commit
                });
            }
            Target::Klog => show(self.header, self.data.map(Entries::new)),
        }
    }
}

/// Writes a record that was kept.
pub(crate) fn write(record: &[u8], channel: &Channel, target: Target) {
    match target {
        // The channel counts what it has no room for.
        Target::Relay => drop(channel.write_timed(KIND, record)),
        Target::Klog => {
            if let Some(record) = RecordRef::decode(record) {
                show(record.header, [record.entries(), Entries::new(&[])]);
            }
        }
    }
}

/// Writes the text of a record to klog.
fn show(header: RecordHeader, entries: [Entries<'_>; 2]) {
    klog!("{}", Shown(header, entries));
}

/// A record as a line of text.
struct Shown<'a>(RecordHeader, [Entries<'a>; 2]);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(header, entries) = self;
        let RecordHeader {
            major, minor, cpu, ..
        } = header;
        let thread = TaskInfo::current();
        write!(f, "dprobe {major}.{minor} cpu {cpu} thread {}:", thread.pid)?;
        for entry in entries.iter().flat_map(|entries| *entries).flatten() {
            f.write_str(" ")?;
            show_entry(f, entry)?;
        }
        f.write_str("\n")
    }
}

fn show_entry(f: &mut fmt::Formatter<'_>, entry: Entry<'_>) -> fmt::Result {
    let words = |f: &mut fmt::Formatter<'_>, name: &str, words: Words<'_>| {
        f.write_str(name)?;
        words.iter().try_for_each(|word| write!(f, " {word:#x}"))
    };
    match entry {
        Entry::Memory(bytes) => bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}")),
        Entry::Text(text) => {
            f.write_str("\"")?;
            for byte in text {
                write!(f, "{}", byte.escape_ascii())?;
            }
            f.write_str("\"")
        }
        Entry::NotThere(address) => write!(f, "not there: {address:#x}"),
        Entry::Words(all) => words(f, "words", all),
        Entry::Calls(all) => words(f, "calls", all),
        Entry::Locals(first, all) => {
            write!(f, "lv {first}:")?;
            words(f, "", all)
        }
        Entry::Globals(first, all) => {
            write!(f, "gv {first}:")?;
            words(f, "", all)
        }
        Entry::Top(word) => write!(f, "top {word:#x}"),
        Entry::Exception(fault, at) => {
            let text = fault.exception.text();
            write!(f, "exception at {at}: {text} ({:#x})", fault.argument)
        }
    }
}
