// SPDX-License-Identifier: GPL-2.0

//! A hit, as the kernel writes it: `<linux/ferrotrace_kprobe_events.h>`.

#![deny(unsafe_code)]

use super::order::Timed;
use crate::fast::record::Record;

/// The type of records with registers.
const WITH_REGISTERS: u16 = 0;

/// The registers of a record, in its order.
pub const REGISTERS: [&str; 17] = [
    "ax", "bx", "cx", "dx", "si", "di", "bp", "sp", "r8", "r9", "r10", "r11", "r12", "r13", "r14",
    "r15", "flags",
];

/// What a record has besides the start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Seen {
    /// See [`REGISTERS`].
    Registers([u64; REGISTERS.len()]),
    /// The values of the probe's arguments, and a bit for each that could not be read, the lowest for the first.
    Args {
        /// The values, each at its place.
        area: Vec<u8>,
        /// The bits.
        faults: u32,
    },
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
    /// Whether it is of a return probe.
    pub is_return: bool,
    /// The probed instruction, or the address that the function returns to.
    pub ip: u64,
    /// For a return: nanoseconds since the entry.
    pub duration: u64,
    /// The rest.
    pub seen: Seen,
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
            duration: u64::from_ne_bytes(take(bytes)?),
            seen: match record.ty {
                WITH_REGISTERS => {
                    let mut registers = [0; REGISTERS.len()];
                    for register in &mut registers {
                        *register = u64::from_ne_bytes(take(bytes)?);
                    }
                    Seen::Registers(registers)
                }
                _ => {
                    let (area, faults) = bytes.split_last_chunk()?;
                    Seen::Args {
                        area: area.to_vec(),
                        faults: u32::from_ne_bytes(*faults),
                    }
                }
            },
        })
    }

    /// What the function returned, if this is a return and it has registers.
    pub fn value(&self) -> Option<u64> {
        match self.seen {
            Seen::Registers([ax, ..]) if self.is_return => Some(ax),
            _ => None,
        }
    }
}

/// The text up to the first NUL, without control characters.
pub(crate) fn text(bytes: &[u8]) -> String {
    let text = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
    String::from_utf8_lossy(text)
        .chars()
        .map(|c| if c.is_control() { '?' } else { c })
        .collect()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// What the kernel writes for an event.
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
        data.extend(event.duration.to_ne_bytes());
        let ty = match &event.seen {
            Seen::Registers(registers) => {
                data.extend(registers.iter().flat_map(|register| register.to_ne_bytes()));
                WITH_REGISTERS
            }
            Seen::Args { area, faults } => {
                data.extend(area);
                data.extend(faults.to_ne_bytes());
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
            duration: 0,
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
        event.seen = Seen::Args {
            area: b"abcdefgh".to_vec(),
            faults: 5,
        };
        assert_eq!(event.value(), None);
        let mut bytes = record(&event);
        assert_eq!(Event::parse(&bytes), Some(event));
        bytes.data.truncate(50);
        assert_eq!(Event::parse(&bytes), None);
    }

    #[test]
    fn names_are_harmless() {
        assert_eq!(text(b"a\x1b[1m\xff\0bc"), "a?[1m\u{fffd}");
        assert_eq!(text(&[b'x'; 16]), "x".repeat(16));
    }
}
