// SPDX-License-Identifier: GPL-2.0

//! The decoder against iced-x86.

use ferro_core::insn::DecodeError;
use ferro_core::insn::Insn;
use ferro_host::corpus::Random;
use ferro_host::corpus::cases;
use ferro_host::iced;
use ferro_host::iced::Agreement;
use ferro_host::iced::Leniency;
use std::collections::HashMap;

/// Compares random cases. Returns the number of cases by result.
fn random(seed: u64, count: u64) -> HashMap<Agreement, u64> {
    let mut met = HashMap::new();
    let mut cases = Random::new(seed);
    for _ in 0..count {
        let bytes = cases.next().expect("it does not end");
        let ip = 0xffff_ffff_8100_0000 ^ (cases.bits() & 0x7f_ffff);
        let agreement =
            iced::compare(&bytes, ip).unwrap_or_else(|error| panic!("{seed:#x}: {error}"));
        *met.entry(agreement).or_default() += 1;
        truncated(&bytes);
    }
    met
}

/// An instruction needs each of its bytes and nothing after them.
fn truncated(bytes: &[u8]) {
    let Ok(insn) = Insn::decode(bytes) else {
        return;
    };
    assert_eq!(Insn::decode(insn.bytes()), Ok(insn), "{bytes:02x?}");
    if insn.is_forced_emulation() {
        return;
    }
    for len in 0..insn.len() {
        let error = Insn::decode(&bytes[..len]);
        assert_eq!(error, Err(DecodeError::Truncated), "{:02x?}", &bytes[..len]);
    }
}

#[test]
fn random_bytes() {
    let count = cases();
    let met = random(0x5eed, count);
    // Most cases are real instructions: the comparison is not an empty one.
    assert!(met[&Agreement::Instruction] > count / 2, "{met:?}");
    println!("{met:?}");
}

/// Checks that each instruction that cannot fault, for us, has no memory operand except the stack,
/// and is one that every CPU has and that may be executed without privileges.
#[test]
fn what_cannot_fault() {
    let mut cases = Random::new(0xfa17);
    let mut found = HashMap::<_, u64>::new();
    for _ in 0..ferro_host::corpus::cases() {
        let bytes = cases.next().expect("it does not end");
        let insn = Insn::decode(&bytes).ok();
        if insn.is_some_and(|insn| insn.cannot_fault()) {
            if let Err(error) = iced::can_be_without_fault(&bytes) {
                panic!("{bytes:02x?}: {error}");
            }
            *found
                .entry(insn.map(|insn| (insn.map(), insn.opcode())))
                .or_default() += 1;
        }
    }
    // Most of the existing opcodes.
    assert!(found.len() > 150, "{}", found.len());
    println!(
        "{} opcodes, {} instructions",
        found.len(),
        found.values().sum::<u64>()
    );
}

/// Each kind of leniency exists.
#[test]
fn leniency() {
    for (bytes, leniency) in [
        (&[0xd5, 0x08, 0x89, 0xc0][..], Leniency::Apx),
        (&[0x62, 0xf4, 0x7c, 0x08, 0x01, 0xc0], Leniency::Apx),
        (&[0x0f, 0x38, 0x3b, 0x02, 0x0f], Leniency::ReservedInMap),
        (&[0xc5, 0xf8, 0xff, 0xc0], Leniency::ReservedInMap),
        (&[0x8d, 0xc0], Leniency::ReservedForm),
        (&[0xd6], Leniency::Udb),
        (
            &[0x0f, 0x0b, b'x', b'e', b'n', 0x0f, 0xa2],
            Leniency::ForcedEmulation,
        ),
    ] {
        assert_eq!(
            iced::compare(bytes, 0),
            Ok(Agreement::Lenient(leniency)),
            "{bytes:02x?}"
        );
    }
}

/// The long run: `cargo test -- --ignored`.
#[test]
#[ignore = "10 million cases"]
fn ten_million_random_bytes() {
    for part in 0..10 {
        random(0xfe44_0000 + part, 1_000_000);
    }
}

/// Every opcode of the first two maps exists for both decoders, with some prefix and operand, or
/// for none.
#[test]
fn opcodes() {
    const PREFIXES: [u8; 5] = [0x3e, 0x66, 0xf2, 0xf3, 0x48];
    for (escape, opcode) in [&[][..], &[0x0f]]
        .into_iter()
        .flat_map(|e| (0..=0xff).map(move |o| (e, o)))
    {
        let others_way_to_write = match escape {
            [] => {
                matches!(opcode, 0x26 | 0x2e | 0x36 | 0x3e | 0x40..=0x4f | 0x62 | 0x64..=0x67)
                    || matches!(opcode, 0x0f | 0xc4 | 0xc5 | 0xd5 | 0xf0 | 0xf2 | 0xf3)
            }
            _ => matches!(opcode, 0x38 | 0x3a),
        };
        if others_way_to_write {
            continue;
        }
        let forms = PREFIXES.iter().flat_map(|prefix| {
            (0..=0xff).map(move |modrm| {
                // 9e is a suffix of 3DNow!, at any distance.
                [&[*prefix], escape, &[opcode, modrm], &[0x9e; 12]].concat()
            })
        });
        let ours = forms.clone().any(|form| Insn::decode(&form).is_ok());
        let other = forms
            .clone()
            .any(|form| !iced::decode(&form, 0).is_invalid());
        let udb = escape.is_empty() && opcode == 0xd6;
        assert_eq!(ours, other || udb, "{escape:02x?} {opcode:02x}");
    }
}
