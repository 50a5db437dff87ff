// SPDX-License-Identifier: GPL-2.0

//! A hit, as the kernel writes it: `struct ferrotrace_probe_record` of
//! `<linux/ferrotrace_kprobe_events.h>`.

#![deny(unsafe_code)]

use super::order::Timed;

/// Bytes of a record.
pub const RECORD_SIZE: usize = 192;

/// The registers of a record, in its order.
pub const REGISTERS: [&str; 17] = [
    "ax", "bx", "cx", "dx", "si", "di", "bp", "sp", "r8", "r9", "r10", "r11", "r12", "r13", "r14",
    "r15", "flags",
];

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
    /// See [`REGISTERS`].
    pub registers: [u64; REGISTERS.len()],
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
    /// Reads a record; `None` if it is too short.
    pub fn parse(record: &[u8]) -> Option<Self> {
        let bytes = &mut &*record;
        let mut event = Self {
            time: u64::from_ne_bytes(take(bytes)?),
            cpu: u32::from_ne_bytes(take(bytes)?),
            pid: i32::from_ne_bytes(take(bytes)?),
            comm: text(&take::<16>(bytes)?),
            probe: u32::from_ne_bytes(take(bytes)?),
            is_return: u32::from_ne_bytes(take(bytes)?) == 1,
            ip: u64::from_ne_bytes(take(bytes)?),
            duration: u64::from_ne_bytes(take(bytes)?),
            registers: [0; REGISTERS.len()],
        };
        for register in &mut event.registers {
            *register = u64::from_ne_bytes(take(bytes)?);
        }
        Some(event)
    }

    /// What the function returned, if this is a return.
    pub fn value(&self) -> u64 {
        let [ax, ..] = self.registers;
        ax
    }
}

/// The text up to the first NUL, without control characters.
fn text(bytes: &[u8]) -> String {
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
    pub(crate) fn record(event: &Event) -> Vec<u8> {
        let mut comm = [0; 16];
        comm[..event.comm.len()].copy_from_slice(event.comm.as_bytes());
        let mut bytes = Vec::new();
        bytes.extend(event.time.to_ne_bytes());
        bytes.extend(event.cpu.to_ne_bytes());
        bytes.extend(event.pid.to_ne_bytes());
        bytes.extend(comm);
        bytes.extend(event.probe.to_ne_bytes());
        bytes.extend(u32::from(event.is_return).to_ne_bytes());
        bytes.extend(event.ip.to_ne_bytes());
        bytes.extend(event.duration.to_ne_bytes());
        for register in event.registers {
            bytes.extend(register.to_ne_bytes());
        }
        bytes
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
            registers,
        }
    }

    #[test]
    fn records() {
        let mut event = event(5);
        event.is_return = true;
        let bytes = record(&event);
        assert_eq!(bytes.len(), RECORD_SIZE);
        assert_eq!(Event::parse(&bytes), Some(event.clone()));
        assert_eq!(event.value(), 0xa0);
        assert_eq!(Event::parse(&bytes[..RECORD_SIZE - 1]), None);
    }

    #[test]
    fn names_are_harmless() {
        assert_eq!(text(b"a\x1b[1m\xff\0bc"), "a?[1m\u{fffd}");
        assert_eq!(text(&[b'x'; 16]), "x".repeat(16));
    }
}
