// SPDX-License-Identifier: GPL-2.0

//! Instructions, from the bytes that the fuzzer likes best: nothing panics, and where iced-x86 knows an
//! instruction it agrees.
//!
//! Without a fuzzer the program replays the files that it is given.

#![cfg_attr(fuzzing, no_main)]

use ferro_core::insn::Boundaries;
use ferro_core::insn::Insn;
use ferro_core::insn::Probe;
use ferro_core::insn::relocate;
use ferro_host::iced;

fn check(data: &[u8]) {
    for item in Boundaries::new(data) {
        let Ok((at, insn)) = item else { break };
        exercise(&insn);
        let address = 0xffff_ffff_8100_0000 + at as u64;
        if let Err(error) = iced::compare(&data[at..], address) {
            panic!("{error}");
        }
    }
}

/// What has no second opinion at least comes to an end.
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
