// SPDX-License-Identifier: GPL-2.0

//! Every instruction of built kernels and of their modules, against iced-x86 and the kernel's own
//! decoder.

use ferro_core::insn::Boundaries;
use ferro_core::insn::Insn;
use ferro_host::iced;
use ferro_host::iced::Agreement;
use ferro_host::iced::Leniency;
use ferro_host::images;
use ferro_host::images::Text;
use ferro_host::kernel;
use ferro_host::kernel::Kernel;
use ferro_kprobes_core::Probe;
use std::collections::BTreeMap;

/// Prefix with which the kernel asks hypervisors to emulate the next instruction, unknown to
/// iced-x86: `ud2; .ascii "xen"`.
const FORCED_EMULATION: &[u8] = b"\x0f\x0bxen";

/// Returns the starts of instructions by iced-x86 alone, which skips a byte where it finds none.
fn starts(text: &Text) -> Vec<usize> {
    let mut starts = Vec::new();
    let mut at = 0;
    while at < text.bytes.len() {
        let rest = &text.bytes[at..];
        let prefix = match rest.starts_with(FORCED_EMULATION) {
            true => FORCED_EMULATION.len(),
            false => 0,
        };
        let insn = iced::decode(&rest[prefix..], text.address.wrapping_add(at as u64));
        if !insn.is_invalid() {
            starts.push(at);
        }
        at += prefix + insn.len().max(1);
    }
    starts
}

/// Returns true if both decoders know the instruction.
fn is_known(agreement: Agreement) -> bool {
    matches!(
        agreement,
        Agreement::Instruction | Agreement::Lenient(Leniency::ForcedEmulation)
    )
}

#[test]
#[ignore = "needs build directories of kernels in INSN_IMAGES and a source tree in INSN_KSRC"]
fn every_instruction() {
    let mut kernel = Kernel::start();
    let mut classes = BTreeMap::<String, u64>::new();
    let (mut count, mut boundaries) = (0, 0);
    for text in images::texts() {
        let starts = starts(&text);
        for block in starts.chunks(4096) {
            let rests: Vec<&[u8]> = block.iter().map(|at| &text.bytes[*at..]).collect();
            let answers = kernel.decode(&rests).expect("the kernel's decoder answers");
            for ((at, rest), answer) in block.iter().zip(rests).zip(answers) {
                let ip = text.address.wrapping_add(*at as u64);
                let agreement = iced::compare(rest, ip)
                    .unwrap_or_else(|error| panic!("{}: {error}", text.name));
                assert!(
                    is_known(agreement),
                    "{} at {ip:#x}: {agreement:?}",
                    text.name
                );
                assert_eq!(
                    kernel::compare(rest, answer),
                    Ok(None),
                    "{} at {ip:#x}",
                    text.name
                );
                let insn = Insn::decode(rest).expect("compared");
                *classes.entry(class(&insn)).or_default() += 1;
                count += 1;
            }
        }
        boundaries += walk(&text, &starts);
    }
    println!("{count} instructions, {boundaries} boundaries: {classes:?}");
    assert!(count > 1_000_000);
}

/// Checks that our walk meets the same starts, up to its end or to an instruction that only ours
/// knows. Returns their number.
fn walk(text: &Text, starts: &[usize]) -> usize {
    let both_know = |at: &usize| {
        let ip = text.address.wrapping_add(*at as u64);
        match iced::compare(&text.bytes[*at..], ip) {
            Ok(agreement) if is_known(agreement) => true,
            Ok(Agreement::Lenient(_)) => false,
            other => panic!("{} at {ip:#x}: {other:?}", text.name),
        }
    };
    let ours = Boundaries::new(&text.bytes)
        .map_while(Result::ok)
        .map(|(at, _)| at)
        .take_while(both_know);
    ours.zip(starts)
        .inspect(|(ours, other)| assert_eq!(ours, *other, "{}", text.name))
        .count()
}

/// Returns how a probe executes an instruction, or the reason why it cannot.
fn class(insn: &Insn) -> String {
    match Probe::of(insn) {
        Probe::Emulate(_) => "emulated".to_string(),
        Probe::Boost => "boosted".to_string(),
        Probe::Step(why) => format!("stepped: {why:?}"),
        Probe::Unprobeable(rule) => format!("never: {rule:?}"),
    }
}
