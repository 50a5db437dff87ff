// SPDX-License-Identifier: GPL-2.0

//! Places for jumps in built kernels: no known branch or pointer of the whole image leads into a
//! jump.

use ferro_host::function::Function;
use ferro_host::iced;
use ferro_host::images::build_directories;
use ferro_host::vmlinux::Source;
use ferro_host::vmlinux::Vmlinux;
use ferro_kprobes_core::jump::Displaced;
use ferro_kprobes_core::jump::Reason;
use ferro_kprobes_core::jump::displaceable;
use std::collections::BTreeMap;
use std::path::Path;

/// Returns the first of the sorted targets inside the displaced bytes.
fn entered(targets: &[(u64, Source, u64)], displaced: &Displaced) -> Option<(u64, Source, u64)> {
    let inside = displaced.inside();
    let first = targets.partition_point(|(to, ..)| *to < inside.start);
    targets
        .get(first)
        .copied()
        .filter(|(to, ..)| *to < inside.end)
}

fn reason(reason: Reason) -> String {
    match reason {
        Reason::Unprobeable(rule) => format!("unprobeable: {rule:?}"),
        reason => reason.text().to_string(),
    }
}

/// Of how many places one is asked for alone as well, which decodes the whole function for it.
const EACH: u64 = 64;

/// Number of defects shown.
const SHOWN: usize = 40;

/// Examines every instruction of an image. Returns the number of instructions, of displaceable ones
/// and of entered ones, and some of the latter.
fn judge(image: &Vmlinux) -> (u64, u64, u64, Vec<String>) {
    let targets = image.targets();
    let mut reasons = BTreeMap::<String, u64>::new();
    let (mut places, mut good, mut bad, mut wrong) = (0, 0, 0, Vec::new());
    for piece in image.pieces() {
        let (bytes, function) = (image.bytes(piece), Function::of(piece, image));
        let mut at = 0;
        while at < bytes.len() {
            let address = piece.start + at as u64;
            let insn = iced::decode(&bytes[at..], address);
            at += insn.len().max(1);
            if insn.is_invalid() || matches!(insn.code(), iced_x86::Code::Int3) {
                continue;
            }
            places += 1;
            let answer = function.displaceable(address, image);
            if places % EACH == 0 {
                let alone = displaceable(address, image);
                assert_eq!(answer.ok(), alone.ok(), "{}", image.name(address));
            }
            match answer {
                Err(why) => *reasons.entry(reason(why)).or_default() += 1,
                Ok(displaced) => {
                    good += 1;
                    if let Some((to, source, from)) = entered(&targets, &displaced) {
                        bad += 1;
                        if wrong.len() == SHOWN {
                            continue;
                        }
                        wrong.push(format!(
                            "{}: {source:?} at {from:#x} {} leads to {}",
                            image.name(address),
                            image.name(from),
                            image.name(to)
                        ));
                    }
                }
            }
        }
    }
    let mut reasons: Vec<_> = reasons.into_iter().collect();
    reasons.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    for (why, count) in reasons {
        println!("{:6.2} % {why}", 100.0 * count as f64 / places as f64);
    }
    (places, good, bad, wrong)
}

#[test]
#[ignore = "needs build directories of kernels in INSN_IMAGES"]
fn nothing_enters_a_jump() {
    for directory in build_directories() {
        let file = directory.join("vmlinux");
        let image = Vmlinux::read(Path::new(&file)).expect("an image can be read");
        let (places, good, bad, wrong) = judge(&image);
        let share = 100.0 * good as f64 / places as f64;
        println!(
            "{}: {good} of {places} places, {share:.1} %",
            file.display()
        );
        assert!(wrong.is_empty(), "{bad} are entered: {wrong:#?}");
        assert!(places > 100_000 && share > 30.0);
    }
}
