// SPDX-License-Identifier: GPL-2.0

//! Templates of ftrace's trampolines, of arbitrary code and labels: the code never panics, and a
//! copy of an accepted template has the same effect.
//!
//! Without a fuzzer the program replays the files of its arguments.

#![cfg_attr(fuzzing, no_main)]

use ferro_core::insn::Boundaries;
use ferro_core::insn::Insn;
use ferro_ftrace_tramp_core::CallTarget;
use ferro_ftrace_tramp_core::Ending;
use ferro_ftrace_tramp_core::JumpTarget;
use ferro_ftrace_tramp_core::Labels;
use ferro_ftrace_tramp_core::Template;
use ferro_ftrace_tramp_core::Third;
use ferro_ftrace_tramp_core::Trampoline;

const START: u64 = 0xffff_ffff_8104_2980;
const FROM_R11: Trampoline = Trampoline {
    third: Third::R11,
    ..TRAMPOLINE
};
const TRAMPOLINE: Trampoline = Trampoline {
    function: CallTarget::new(0xffff_ffff_a000_0001),
    third: Third::Ops(0xffff_8880_1234_5678),
    ending: Ending::Thunk(JumpTarget::new(0xffff_ffff_8103_0f60)),
};

/// Three labels, in a byte each, and the code; its length is the fourth label.
fn check(data: &[u8]) {
    let [load_ops, call, direct, text @ ..] = data else {
        return;
    };
    let label = |offset: u8| START + u64::from(offset);
    let labels = Labels {
        start: START,
        load_ops: label(*load_ops),
        call: label(*call),
        direct: (*direct != 0).then(|| label(*direct)),
        end: START + text.len() as u64,
    };
    let Ok(template) = Template::new(text, &labels) else {
        return;
    };
    for at in [
        0xffff_ffff_a000_0000,
        0xffff_ffff_c012_3457,
        0x1000,
        1 << 62,
    ] {
        let mut copy = vec![0; template.copy_len(TRAMPOLINE.ending)];
        for trampoline in [&TRAMPOLINE, &FROM_R11] {
            if template.write(&mut copy, at, trampoline).is_ok() {
                compare(text, &copy[..text.len()], &labels, at);
            }
        }
    }
}

fn compare(text: &[u8], copy: &[u8], labels: &Labels, at: u64) {
    let instructions = |code| -> Vec<(usize, Insn)> {
        Boundaries::new(code)
            .map(|item| item.expect("an instruction"))
            .collect()
    };
    let (theirs, mut ours) = (instructions(text), instructions(copy));
    // In place of the load are two if the third argument is in R11.
    ours.retain(|(offset, _)| START + *offset as u64 != labels.load_ops + 3);
    assert_eq!(theirs.len(), ours.len());
    for ((offset, theirs), (same, ours)) in theirs.into_iter().zip(ours) {
        assert_eq!(offset, same);
        let (there, here) = (START + offset as u64, at + offset as u64);
        match there {
            _ if there == labels.call => {
                assert_eq!(
                    ours.branch_target(here),
                    Some(TRAMPOLINE.function.address())
                );
            }
            _ if there == labels.load_ops || Some(there) == labels.direct => (),
            _ => {
                assert_eq!(ours.len(), theirs.len());
                assert_eq!(ours.flow(), theirs.flow());
                assert_eq!(
                    ours.rip_relative_target(here),
                    theirs.rip_relative_target(there)
                );
            }
        }
    }
}

#[cfg(fuzzing)]
libfuzzer_sys::fuzz_target!(|data: &[u8]| check(data));

#[cfg(not(fuzzing))]
fn main() -> std::io::Result<()> {
    ferro_host::replay(check)
}
