// SPDX-License-Identifier: GPL-2.0

//! Instructions, from the bytes that the fuzzer likes best: the decoder never panics, and where
//! iced-x86 knows an instruction it agrees.
//!
//! Without a fuzzer the program replays the files of its arguments.

#![cfg_attr(fuzzing, no_main)]

use ferro_core::insn::Boundaries;
use ferro_core::insn::Insn;
use ferro_host::iced;
use ferro_kprobes_core::Probe;
use ferro_kprobes_core::jump;
use ferro_kprobes_core::jump::Entry;
use ferro_kprobes_core::jump::Piece;
use ferro_kprobes_core::jump::Reserved;
use ferro_kprobes_core::jump::Surroundings;
use ferro_kprobes_core::relocate;
use std::ops::Range;

/// Address of the bytes.
const AT: u64 = 0xffff_ffff_8100_0000;

fn check(data: &[u8]) {
    for item in Boundaries::new(data) {
        let Ok((at, insn)) = item else { break };
        exercise(&insn);
        let address = AT + at as u64;
        if let Err(error) = iced::compare(&data[at..], address) {
            panic!("{error}");
        }
    }
    displace(data);
}

/// The bytes as two symbols, and as read-only data.
struct Bytes<'a>(&'a [u8]);

impl Surroundings for Bytes<'_> {
    fn piece(&self, address: u64) -> Option<Piece> {
        let (middle, end) = (AT + self.0.len() as u64 / 2, AT + self.0.len() as u64);
        let halves = [(AT, middle), (middle, end)];
        let mut halves = halves.iter().map(|&(start, end)| Piece { start, end });
        halves.find(|half| half.contains(address))
    }

    fn code(&self, at: u64, out: &mut [u8]) -> usize {
        let rest = self.0.get((at - AT) as usize..).unwrap_or(&[]);
        let len = rest.len().min(out.len());
        out[..len].copy_from_slice(&rest[..len]);
        len
    }

    fn rodata(&self, at: u64, out: &mut [u8]) -> bool {
        let offset = usize::try_from(at.wrapping_sub(AT)).unwrap_or(usize::MAX);
        let bytes = self.0.get(offset..offset.saturating_add(out.len()));
        bytes.map(|bytes| out.copy_from_slice(bytes)).is_some()
    }

    fn is_compiled(&self, _: u64) -> bool {
        false
    }

    fn is_part(&self, _: u64) -> bool {
        false
    }

    fn is_indirect_thunk(&self, address: u64) -> bool {
        address == AT
    }

    fn has_jump_tables(&self) -> bool {
        true
    }

    fn reserved(&self, _: Range<u64>) -> Option<Reserved> {
        None
    }

    fn enters(&self, _: Range<u64>) -> Option<Entry> {
        None
    }

    fn exits(&self, range: Range<u64>, found: &mut dyn FnMut(u64)) {
        found(range.end);
    }
}

/// Checks that displaced instructions run elsewhere, as instructions and within the promised size.
fn displace(data: &[u8]) {
    for address in (AT..).take(data.len().min(64)) {
        let Ok(displaced) = jump::displaceable(address, &Bytes(data)) else {
            continue;
        };
        assert!((jump::JUMP_LEN..=jump::MAX_DISPLACED).contains(&displaced.len()));
        let mut out = [0; jump::MAX_RELOCATED];
        let len = displaced.relocate(AT + 0x10_0000, &mut out).expect("near");
        assert!(Boundaries::new(&out[..len]).all(|item| item.is_ok()));
    }
}

/// Runs the functions that have no second opinion, and checks that they return.
fn exercise(insn: &Insn) {
    let mut copy = [0; 16];
    for to in [0, 1 << 31, 1 << 63, u64::MAX] {
        if let Ok(len) = relocate(insn, 0, to, &mut copy) {
            let moved = Insn::decode(&copy[..len]).expect("a copy is an instruction");
            assert_eq!(moved.rip_relative_target(to), insn.rip_relative_target(0));
            let copied = |insn| matches!(Probe::of(insn), Probe::Boost | Probe::Step(_));
            assert_eq!(copied(&moved), copied(insn));
        }
    }
}

#[cfg(fuzzing)]
libfuzzer_sys::fuzz_target!(|data: &[u8]| check(data));

#[cfg(not(fuzzing))]
fn main() -> std::io::Result<()> {
    ferro_host::replay(check)
}
