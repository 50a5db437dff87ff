// SPDX-License-Identifier: GPL-2.0

//! Records of the function graph tracer and of a few events, in the kernel's bytes.

#![deny(unsafe_code)]

use std::collections::BTreeMap;

use crate::probes::order::Timed;
use crate::probes::stock::record::Field;
use crate::probes::stock::record::field;

use super::value::Type;

/// Flags of an event in an interrupt: hard, soft, NMI.
const IRQ_FLAGS: u8 = 0x08 | 0x10 | 0x40;

/// Registers with arguments that the tracer records, in the order of parameters.
pub const ARGUMENTS: usize = 6;

/// Words in the registers of arguments.
pub type Arguments = [u64; ARGUMENTS];

/// Record of the tracer or of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Time in ns of `CLOCK_MONOTONIC`.
    pub time: u64,
    /// CPU.
    pub cpu: u32,
    /// Thread.
    pub pid: i32,
    /// True if an interrupt has interrupted the thread.
    pub in_irq: bool,
    /// Content.
    pub what: What,
}

/// Content of a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// A function is entered.
    Entry {
        /// Address at which ftrace traces it.
        func: u64,
        /// Number of traced calls around it.
        depth: i64,
        /// Arguments, if they are recorded and one of them may be an error.
        arguments: Option<Box<Arguments>>,
    },
    /// A function returns.
    Exit {
        /// Address at which ftrace traces it.
        func: u64,
        /// Number of traced calls around it.
        depth: i64,
        /// Time between entry and return, in ns.
        duration: u64,
        /// Return value, if the kernel records it here.
        value: Option<u64>,
    },
    /// Return value of a function, which has an exit record next to this one.
    Returned {
        /// Address at which ftrace traces it.
        func: u64,
        /// Return value.
        value: u64,
    },
    /// A system call begins.
    SyscallEntry {
        /// Number.
        number: i64,
        /// First argument.
        first: u64,
    },
    /// A system call ends.
    SyscallExit {
        /// Value that the program gets.
        value: i64,
    },
    /// A path that is an argument of a system call.
    Path(String),
    /// A thread is created.
    Fork {
        /// Number of the new thread.
        pid: i32,
        /// Its name.
        comm: String,
    },
    /// The thread has another name.
    Name(String),
    /// Records of the CPU between a time and this one are missing.
    Lost {
        /// Time of the last record before.
        from: u64,
    },
}

impl Timed for Event {
    fn time(&self) -> u64 {
        self.time
    }
}

/// Kinds of records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `funcgraph_entry`.
    Entry,
    /// `funcgraph_exit`.
    Exit,
    /// Probe on the return of all functions.
    Returned,
    /// `raw_syscalls:sys_enter`.
    SyscallEntry,
    /// `raw_syscalls:sys_exit`.
    SyscallExit,
    /// Probe on the function that copies paths.
    Path,
    /// `task:task_newtask`.
    Fork,
    /// `task:task_rename`.
    Name,
}

impl Kind {
    /// Names of the fields that [`Format::parse`] needs; the last one may be missing if it ends in
    /// "?".
    fn fields(self) -> &'static [&'static str] {
        match self {
            Kind::Entry => &["func", "depth", "args?"],
            Kind::Exit => &["func", "depth", "calltime", "rettime", "retval?"],
            Kind::Returned => &["__probe_func", "ret"],
            Kind::SyscallEntry => &["id", "args"],
            Kind::SyscallExit => &["ret"],
            Kind::Path => &["path"],
            Kind::Fork => &["pid", "comm"],
            Kind::Name => &["newcomm"],
        }
    }
}

/// Places of the fields of a kind of record.
#[derive(Debug)]
struct Format {
    kind: Kind,
    fields: Vec<Field>,
}

impl Format {
    /// Returns the number and the fields of an event, from the kernel's description.
    fn parse(kind: Kind, text: &str) -> Option<(u16, Self)> {
        let mut lines = text.lines();
        let id = lines.find_map(|line| line.strip_prefix("ID:"))?;
        let mut fields = Vec::new();
        for name in kind.fields() {
            match name.strip_suffix('?') {
                Some(name) => fields.extend(field(text, name)),
                None => fields.push(field(text, name)?),
            }
        }
        Some((id.trim().parse().ok()?, Self { kind, fields }))
    }

    /// Returns a field as a number.
    fn number(&self, index: usize, data: &[u8]) -> Option<u64> {
        self.fields.get(index)?.number(data)
    }

    /// Returns a field as a number with a sign, of the size of the field.
    fn signed(&self, index: usize, data: &[u8]) -> Option<i64> {
        let word = self.number(index, data)?;
        Some(match self.fields.get(index)?.bytes(data)?.len() {
            4 => i64::from(i32::from_le_bytes(*word.to_le_bytes().first_chunk()?)),
            _ => i64::from_le_bytes(word.to_le_bytes()),
        })
    }

    /// Returns a field as text, up to a NUL.
    fn text(&self, index: usize, data: &[u8]) -> Option<String> {
        let bytes = self.fields.get(index)?.bytes(data)?;
        let text = bytes.split(|byte| *byte == 0).next()?;
        Some(String::from_utf8_lossy(text).into_owned())
    }

    /// Returns the words of a field at the end of a record, if one of them may be an error.
    fn arguments(&self, index: usize, data: &[u8]) -> Option<Box<Arguments>> {
        let mut rest = self.fields.get(index)?.rest(data)?.chunks_exact(8);
        let mut words = [0; ARGUMENTS];
        for word in &mut words {
            *word = u64::from_le_bytes(*rest.next()?.first_chunk()?);
        }
        let may_be = |word: &u64| Type::Signed(4).error(*word).is_some();
        words.iter().any(may_be).then(|| Box::new(words))
    }

    fn what(&self, data: &[u8]) -> Option<What> {
        Some(match self.kind {
            Kind::Entry => What::Entry {
                func: self.number(0, data)?,
                depth: self.signed(1, data)?,
                arguments: self.arguments(2, data),
            },
            Kind::Exit => What::Exit {
                func: self.number(0, data)?,
                depth: self.signed(1, data)?,
                // The clock of a CPU may be behind that of the one where the call began.
                duration: self.number(3, data)?.saturating_sub(self.number(2, data)?),
                value: self.number(4, data),
            },
            Kind::Returned => What::Returned {
                func: self.number(0, data)?,
                value: self.number(1, data)?,
            },
            Kind::SyscallEntry => What::SyscallEntry {
                number: self.signed(0, data)?,
                first: u64::from_le_bytes(*self.fields.get(1)?.bytes(data)?.first_chunk()?),
            },
            Kind::SyscallExit => What::SyscallExit {
                value: self.signed(0, data)?,
            },
            Kind::Path => What::Path(self.text(0, data)?),
            Kind::Fork => What::Fork {
                pid: i32::try_from(self.signed(0, data)?).ok()?,
                comm: self.text(1, data)?,
            },
            Kind::Name => What::Name(self.text(0, data)?),
        })
    }
}

/// The events that an instance records, by their numbers.
#[derive(Debug, Default)]
pub struct Formats(BTreeMap<u16, Format>);

impl Formats {
    /// Adds an event by the kernel's description. Returns false if a field is missing there.
    pub fn add(&mut self, kind: Kind, text: &str) -> bool {
        let parsed = Format::parse(kind, text);
        parsed.is_some_and(|(id, format)| {
            self.0.insert(id, format);
            true
        })
    }

    /// Returns true if the tracer's records have return values.
    pub fn have_values(&self) -> bool {
        let mut all = self.0.values();
        all.any(|format| format.kind == Kind::Exit && format.fields.len() == 5)
    }

    /// Decodes a record; returns `None` if its event is unknown or it is too short.
    pub fn decode(&self, time: u64, cpu: u32, data: &[u8]) -> Option<Event> {
        let id = u16::from_le_bytes(*data.first_chunk()?);
        Some(Event {
            time,
            cpu,
            pid: i32::from_le_bytes(*data.get(4..)?.first_chunk()?),
            in_irq: data.get(2)? & IRQ_FLAGS != 0,
            what: self.0.get(&id)?.what(data)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ENTRY: &str = "\
name: funcgraph_entry
ID: 11
format:
	field:unsigned short common_type;	offset:0;	size:2;	signed:0;
	field:unsigned char common_flags;	offset:2;	size:1;	signed:0;
	field:unsigned char common_preempt_count;	offset:3;	size:1;	signed:0;
	field:int common_pid;	offset:4;	size:4;	signed:1;

	field:unsigned long func;	offset:8;	size:8;	signed:0;
	field:unsigned long depth;	offset:16;	size:8;	signed:0;
	field:unsigned long args[];	offset:24;	size:0;	signed:0;
";

    fn arguments(words: &[u64]) -> Option<Arguments> {
        let mut formats = Formats::default();
        assert!(formats.add(Kind::Entry, ENTRY));
        let mut data = vec![11, 0, 0, 0, 9, 0, 0, 0];
        data.extend([5_u64, 2].iter().flat_map(|word| word.to_le_bytes()));
        data.extend(words.iter().flat_map(|word| word.to_le_bytes()));
        match formats.decode(1, 0, &data)?.what {
            What::Entry {
                func: 5,
                depth: 2,
                arguments,
            } => arguments.map(|arguments| *arguments),
            _ => panic!("not the entry"),
        }
    }

    #[test]
    fn arguments_that_may_be_errors() {
        let error = u64::MAX - 1;
        let words = [1, error, 0, 0, 0, 7];
        assert_eq!(arguments(&words), Some(words));
        assert_eq!(arguments(&[1, 2, 3, 4, 5, 6]), None);
        // None are recorded, or not all.
        assert_eq!(arguments(&[]), None);
        assert_eq!(arguments(&[error; 5]), None);
    }
}
