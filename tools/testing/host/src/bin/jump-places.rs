// SPDX-License-Identifier: GPL-2.0

//! Chooses random instructions of a kernel's text, and says of each whether a jump can be put there: what
//! `jump-places.sh` compares with the kernel's own answer.
//!
//! ```text
//! jump-places COUNT SEED VMLINUX >places     each line: offset from _text, "yes" or "no", symbol, ours or the C engine's reason
//! ```

use ferro_core::insn::jump::displaceable;
use ferro_host::corpus::Random;
use ferro_host::iced;
use ferro_host::mainline;
use ferro_host::vmlinux::Vmlinux;
use std::collections::BTreeSet;
use std::env;
use std::path::Path;
use std::process::ExitCode;

/// Bytes: more than a jump displaces, whatever the length of the last instruction (4 + 15).
const APART: u64 = 20;

fn main() -> ExitCode {
    let args: Vec<String> = env::args().skip(1).collect();
    let number = |at: usize| args.get(at).and_then(|number| number.parse::<u64>().ok());
    let (Some(count), Some(seed), Some(file)) = (number(0), number(1), args.get(2)) else {
        eprintln!("usage: jump-places COUNT SEED VMLINUX");
        return ExitCode::from(2);
    };
    let image = match Vmlinux::read(Path::new(file)) {
        Ok(image) => image,
        Err(error) => {
            eprintln!("jump-places: {file}: {error}");
            return ExitCode::FAILURE;
        }
    };
    let Some(text) = image.symbol("_text") else {
        eprintln!("jump-places: {file} has no _text");
        return ExitCode::FAILURE;
    };
    let mut places = Vec::new();
    for piece in image.pieces() {
        let bytes = image.bytes(piece);
        let mut at = 0;
        while at < bytes.len() {
            let insn = iced::decode(&bytes[at..], piece.start + at as u64);
            if !insn.is_invalid() && insn.code() != iced_x86::Code::Int3 {
                places.push(insn.ip());
            }
            at += insn.len().max(1);
        }
    }
    let mut random = Random::new(seed);
    let mut chosen = BTreeSet::new();
    for _ in 0..count {
        let place = places[random.bits() as usize % places.len()];
        // A probe in the bytes of another's jump keeps both from being optimised, which says nothing of the place.
        if chosen.range(place - APART..=place + APART).next().is_some() {
            continue;
        }
        chosen.insert(place);
        let (answer, why) = match displaceable(place, &image) {
            // What the C engine may have against it.
            Ok(_) => match mainline::refuses(&image, place) {
                Some(rule) => ("yes", format!("{rule:?}")),
                None => ("yes", String::new()),
            },
            Err(reason) => ("no", format!("{reason:?}")),
        };
        println!("{:#x} {answer} {} {why}", place - text, image.name(place));
    }
    ExitCode::SUCCESS
}
