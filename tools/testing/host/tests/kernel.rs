// SPDX-License-Identifier: GPL-2.0

//! The decoder against the kernel's own, with iced-x86 as the judge.

use ferro_core::insn::Insn;
use ferro_host::corpus::CASE;
use ferro_host::corpus::Random;
use ferro_host::iced;
use ferro_host::kernel;
use ferro_host::kernel::Difference;
use ferro_host::kernel::Kernel;
use std::collections::HashMap;

/// Compares random cases; how often each difference was met.
fn random(seed: u64, count: usize) -> HashMap<Difference, u64> {
    let mut kernel = Kernel::start();
    let mut met = HashMap::new();
    let mut cases = Random::new(seed);
    for _ in 0..count / 1000 {
        let texts: Vec<[u8; CASE]> = cases.by_ref().take(1000).collect();
        let texts: Vec<&[u8]> = texts.iter().map(|text| &text[..]).collect();
        let answers = kernel.decode(&texts).expect("the kernel's decoder answers");
        for (text, answer) in texts.into_iter().zip(answers) {
            let found =
                kernel::compare(text, answer).unwrap_or_else(|error| panic!("{seed:#x}: {error}"));
            if let Some(difference) = found {
                judge(text, difference);
                *met.entry(difference).or_default() += 1;
            }
        }
    }
    met
}

/// Checks that where the kernel differs and iced-x86 knows an instruction, iced-x86 agrees with us.
fn judge(text: &[u8], difference: Difference) {
    let strict = iced::decode(text, 0);
    let ours = Insn::decode(text);
    match difference {
        Difference::Undefined | Difference::ReservedInMap => {
            assert!(
                strict.is_invalid(),
                "{difference:?}: {text:02x?} is {strict:?}"
            );
        }
        _ if strict.is_invalid() => (),
        _ => assert_eq!(
            ours.map(|insn| insn.len()),
            Ok(strict.len()),
            "{difference:?}: {text:02x?}"
        ),
    }
}

/// Tests cases that random bytes do not meet: the kernel's own prefix, and the cases of each
/// difference.
#[test]
#[ignore = "needs a kernel's source tree in INSN_KSRC"]
fn cases() {
    let cases = [
        (&[0x0f, 0x0b, b'x', b'e', b'n', 0x0f, 0xa2][..], None),
        (
            &[0x0f, 0x0b, b'k', b'v', b'm', 0x8b, 0x05, 1, 2, 3, 4],
            None,
        ),
        (&[0x0f, 0x0b], None),
        (&[0x66, 0xe8, 0, 0, 0, 0], None),
        (&[0x48, 0x66, 0xb8, 1, 2], Some(Difference::PrefixBehindRex)),
        (
            &[0x2e, 0x36, 0x3e, 0x64, 0x65, 0x90],
            Some(Difference::FifthPrefix),
        ),
        (&[0x0f, 0xff, 0xc0], Some(Difference::LeavesOutOperands)),
        (
            &[0x66, 0x64, 0x0f, 0x38, 0x17, 0xc0],
            Some(Difference::LeavesOutOperands),
        ),
        (
            &[0x0f, 0x20, 0x05, 0, 0, 0, 0],
            Some(Difference::ModeOfControlRegister),
        ),
        (
            &[0xc4, 0xe3, 0xf9, 0x69, 0xc0, 0],
            Some(Difference::NotListed),
        ),
        (
            &[0x62, 0xf1, 0x7c, 0x48, 0x77, 0xc0],
            Some(Difference::ReservedInMap),
        ),
        (&[0x82, 0xc0, 0], Some(Difference::Undefined)),
    ];
    let texts: Vec<&[u8]> = cases.iter().map(|(bytes, _)| *bytes).collect();
    let answers = Kernel::start()
        .decode(&texts)
        .expect("the kernel's decoder answers");
    for ((bytes, difference), answer) in cases.into_iter().zip(answers) {
        assert_eq!(
            kernel::compare(bytes, answer),
            Ok(difference),
            "{bytes:02x?}"
        );
    }
}

#[test]
#[ignore = "needs a kernel's source tree in INSN_KSRC; 10 million cases"]
fn random_bytes() {
    let met = random(0x5eed, 10_000_000);
    // Each explained difference exists.
    assert_eq!(met.len(), 7, "{met:?}");
    println!("{met:?}");
}
