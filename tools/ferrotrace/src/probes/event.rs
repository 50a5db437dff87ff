// SPDX-License-Identifier: GPL-2.0

//! A hit, as the kernel writes it: `<linux/ferrotrace_kprobe_events.h>`.

#![deny(unsafe_code)]

use std::rc::Rc;

use super::model::ProbeArg;
use super::order::Timed;
use crate::fast::record::Record;
use crate::text::printable_columns;

/// The type of records with registers.
const WITH_REGISTERS: u16 = 0;

/// The registers of a record, in its order.
pub const REGISTERS: [&str; 17] = [
    "ax", "bx", "cx", "dx", "si", "di", "bp", "sp", "r8", "r9", "r10", "r11", "r12", "r13", "r14",
    "r15", "flags",
];

/// The value of an argument.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// It could not be read; this much of a text could be.
    Fault(String),
    /// A number without a sign.
    Unsigned(u64),
    /// A number with one.
    Signed(i64),
    /// The same, which is that of an error if it is negative.
    Error(i64),
    /// A number that is shown in hexadecimal.
    Hex(u64),
    /// The address of a function.
    Symbol(u64),
    /// Text.
    Text(String),
    /// Names of flags or of a constant, or several numbers.
    Names(String),
    /// Calls, the innermost first.
    Calls(Vec<u64>),
}

impl Value {
    /// Returns the number, if the value is one.
    pub fn number(&self) -> Option<i128> {
        match self {
            Self::Unsigned(number) | Self::Hex(number) | Self::Symbol(number) => {
                Some((*number).into())
            }
            Self::Signed(number) | Self::Error(number) => Some((*number).into()),
            Self::Fault(_) | Self::Text(_) | Self::Names(_) | Self::Calls(_) => None,
        }
    }
}

/// The fields of a tracepoint's hit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fields {
    /// Their names and values.
    pub values: Vec<(Rc<str>, Value)>,
    /// The value that a system call returned.
    pub returned: Option<i64>,
}

/// Data of a record after its start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Seen {
    /// See [`REGISTERS`].
    Registers([u64; REGISTERS.len()]),
    /// The values of the probe's arguments: see [`Args`].
    Args(Vec<u8>),
    /// Those of a tracepoint's fields.
    Fields(Fields),
}

/// A hit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Nanoseconds of `CLOCK_MONOTONIC`.
    pub time: u64,
    /// The CPU.
    pub cpu: u32,
    /// The thread.
    pub pid: i32,
    /// Its name.
    pub comm: String,
    /// The probe's id.
    pub probe: u32,
    /// True for an event of a return probe.
    pub is_return: bool,
    /// The probed instruction, or the address that the function returns to.
    pub ip: u64,
    /// For a return: nanoseconds since the entry, if that has been seen.
    pub duration: Option<u64>,
    /// The rest.
    pub seen: Seen,
}

/// The values of a probe's arguments in a record.
#[derive(Clone, Copy, Debug, Default)]
pub struct Args<'a> {
    /// The values, each at its place.
    pub area: &'a [u8],
    /// A bit for each that could not be read, the lowest for the first.
    pub faults: u32,
    calls: &'a [u8],
}

impl<'a> Args<'a> {
    /// Takes what follows the start of a record of a probe with these arguments apart.
    pub fn of(bytes: &'a [u8], args: &[ProbeArg]) -> Self {
        let (area, rest) = bytes
            .split_at_checked(faults_at(args))
            .unwrap_or((bytes, &[]));
        let faults = rest
            .first_chunk()
            .map_or(u32::MAX, |word| u32::from_ne_bytes(*word));
        let calls = bytes.get(calls_at(args)..).unwrap_or_default();
        Self {
            area,
            faults,
            calls,
        }
    }

    /// The calls of a stack: of user space, which are in the lower half, or of the kernel.
    pub fn calls(self, user: bool) -> impl Iterator<Item = u64> + 'a {
        let words = self
            .calls
            .chunks_exact(8)
            .filter_map(|word| word.first_chunk());
        let all = words.map(|word| u64::from_ne_bytes(*word));
        all.filter(move |address| is_of_user(*address) == user)
    }
}

/// Returns true for a user-space address.
pub fn is_of_user(address: u64) -> bool {
    address >> 63 == 0
}

/// Where the word about faults stands.
pub fn faults_at(args: &[ProbeArg]) -> usize {
    let end = args.iter().map(|arg| arg.arg.end()).max();
    end.unwrap_or(0).next_multiple_of(4)
}

/// Where calls begin, if there are any.
pub fn calls_at(args: &[ProbeArg]) -> usize {
    (faults_at(args) + 4).next_multiple_of(8)
}

/// The next bytes of a record.
fn take<const N: usize>(bytes: &mut &[u8]) -> Option<[u8; N]> {
    let (first, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    Some(*first)
}

impl Timed for Event {
    fn time(&self) -> u64 {
        self.time
    }
}

impl Event {
    /// Reads a record; `None` if it is too short, or has no time.
    pub fn parse(record: &Record) -> Option<Self> {
        let bytes = &mut &*record.data;
        Some(Self {
            time: record.time?,
            cpu: u32::from_ne_bytes(take(bytes)?),
            pid: i32::from_ne_bytes(take(bytes)?),
            comm: text(&take::<16>(bytes)?),
            probe: u32::from_ne_bytes(take(bytes)?),
            is_return: u32::from_ne_bytes(take(bytes)?) == 1,
            ip: u64::from_ne_bytes(take(bytes)?),
            duration: Some(u64::from_ne_bytes(take(bytes)?)),
            seen: match record.ty {
                WITH_REGISTERS => {
                    let mut registers = [0; REGISTERS.len()];
                    for register in &mut registers {
                        *register = u64::from_ne_bytes(take(bytes)?);
                    }
                    Seen::Registers(registers)
                }
                // A word about faults is always there.
                _ => Seen::Args((bytes.len() >= 4).then(|| bytes.to_vec())?),
            },
        })
    }

    /// Returns the function's result for a return with registers.
    pub fn value(&self) -> Option<u64> {
        match self.seen {
            Seen::Registers([ax, ..]) if self.is_return => Some(ax),
            Seen::Fields(Fields { returned, .. }) => {
                returned.map(|value| u64::from_ne_bytes(value.to_ne_bytes()))
            }
            _ => None,
        }
    }
}

/// The text up to the first NUL, without control characters.
pub(crate) fn text(bytes: &[u8]) -> String {
    let text = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
    printable_columns(&String::from_utf8_lossy(text))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::probes::model::Kind;
    use crate::probes::model::parse_args;

    /// Returns the kernel's record of an event.
    pub(crate) fn record(event: &Event) -> Record {
        let mut comm = [0; 16];
        comm[..event.comm.len()].copy_from_slice(event.comm.as_bytes());
        let mut data = Vec::new();
        data.extend(event.cpu.to_ne_bytes());
        data.extend(event.pid.to_ne_bytes());
        data.extend(comm);
        data.extend(event.probe.to_ne_bytes());
        data.extend(u32::from(event.is_return).to_ne_bytes());
        data.extend(event.ip.to_ne_bytes());
        data.extend(event.duration.unwrap().to_ne_bytes());
        let ty = match &event.seen {
            Seen::Fields(_) => panic!("not a record of the module"),
            Seen::Registers(registers) => {
                data.extend(registers.iter().flat_map(|register| register.to_ne_bytes()));
                WITH_REGISTERS
            }
            Seen::Args(bytes) => {
                data.extend(bytes);
                event.probe.try_into().unwrap()
            }
        };
        let time = Some(event.time);
        Record { ty, time, data }
    }

    pub(crate) fn event(time: u64) -> Event {
        let mut registers = [0; REGISTERS.len()];
        for (register, value) in registers.iter_mut().zip(0xa0..) {
            *register = value;
        }
        Event {
            time,
            cpu: 1,
            pid: 42,
            comm: "cat".to_owned(),
            probe: 7,
            is_return: false,
            ip: 0xffff_ffff_8106_3c90,
            duration: Some(0),
            seen: Seen::Registers(registers),
        }
    }

    #[test]
    fn records() {
        let mut event = event(5);
        assert_eq!(event.value(), None);
        event.is_return = true;
        assert_eq!(event.value(), Some(0xa0));
        let mut bytes = record(&event);
        assert_eq!(bytes.data.len(), 184);
        assert_eq!(Event::parse(&bytes), Some(event.clone()));
        bytes.data.pop();
        assert_eq!(Event::parse(&bytes), None);
        event.seen = Seen::Args(b"abcdefgh\x05\0\0\0".to_vec());
        assert_eq!(event.value(), None);
        let mut bytes = record(&event);
        assert_eq!(Event::parse(&bytes), Some(event));
        bytes.data.truncate(50);
        assert_eq!(Event::parse(&bytes), None);
    }

    #[test]
    fn arguments_and_calls() {
        let args = parse_args("k=$kstack,a=%di:u16,u=$ustack,b=%si:u8", Kind::Probe).unwrap();
        assert_eq!((faults_at(&args), calls_at(&args)), (4, 8));
        let mut bytes = vec![1, 0, 2, 0];
        bytes.extend(2_u32.to_ne_bytes());
        let calls = [1_u64 << 63, u64::MAX, 5, 6];
        bytes.extend(calls.iter().flat_map(|call| call.to_ne_bytes()));
        let seen = Args::of(&bytes, &args);
        assert_eq!((seen.area, seen.faults), (&[1, 0, 2, 0][..], 2));
        assert_eq!(seen.calls(false).collect::<Vec<_>>(), calls[..2]);
        assert_eq!(seen.calls(true).collect::<Vec<_>>(), calls[2..]);
        // What is cut.
        assert_eq!(Args::of(&bytes[..6], &args).faults, u32::MAX);
        assert_eq!(Args::of(&bytes[..20], &args).calls(false).count(), 1);
        assert_eq!(Args::of(&[], &args).calls(true).count(), 0);
    }

    #[test]
    fn names_are_harmless() {
        assert_eq!(text(b"a\x1b[1m\xff\0bc"), "a?[1m\u{fffd}");
        assert_eq!(text(&[b'x'; 16]), "x".repeat(16));
    }
}
