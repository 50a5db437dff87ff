// SPDX-License-Identifier: GPL-2.0

//! Chooses instructions of a kernel's text, and says for each if a jump can be put there.
//! `jump-places.sh` and `jumps-everywhere.sh` compare that with the kernel's own answer.
//!
//! ```text
//! jump-places COUNT SEED VMLINUX >places     random ones
//! jump-places each N VMLINUX >places         each N-th instruction, from each symbol's first on
//! ```
//!
//! Each line: offset from `_text`, "yes" or "no", symbol, ours or the C engine's reason.

use ferro_host::corpus::Random;
use ferro_host::function::Function;
use ferro_host::iced;
use ferro_host::mainline;
use ferro_host::vmlinux::Vmlinux;
use ferro_kprobes_core::jump::Displaced;
use ferro_kprobes_core::jump::Reason;
use ferro_kprobes_core::jump::displaceable;
use std::collections::BTreeSet;
use std::env;
use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;

/// Distance in bytes: more than a jump displaces, for any length of the last instruction (4 + 15).
const APART: u64 = 20;

/// The instructions of some bytes of code.
fn instructions(bytes: &[u8], start: u64) -> impl Iterator<Item = u64> + '_ {
    let mut at = 0;
    std::iter::from_fn(move || {
        while at < bytes.len() {
            let insn = iced::decode(&bytes[at..], start + at as u64);
            at += insn.len().max(1);
            if !insn.is_invalid() && insn.code() != iced_x86::Code::Int3 {
                return Some(insn.ip());
            }
        }
        None
    })
}

/// Returns our answer and its reason; if it is yes, also the objection of the C engine, if any.
fn answer(found: Result<Displaced, Reason>, image: &Vmlinux, place: u64) -> (&'static str, String) {
    match found {
        Ok(_) => match mainline::refuses(image, place) {
            Some(rule) => ("yes", format!("{rule:?}")),
            None => ("yes", String::new()),
        },
        Err(reason) => ("no", format!("{reason:?}").replace(' ', "")),
    }
}

/// Each N-th instruction.
fn each(n: usize, image: &Vmlinux, text: u64) -> std::io::Result<()> {
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    for piece in image.pieces() {
        let function = Function::of(piece, image);
        let name = image.name(piece.start);
        let name = name.strip_suffix("+0x0").unwrap_or(&name);
        for place in instructions(image.bytes(piece), piece.start).step_by(n.max(1)) {
            let (answer, why) = answer(function.displaceable(place, image), image, place);
            let offset = place - piece.start;
            writeln!(out, "{:#x} {answer} {name}+{offset:#x} {why}", place - text)?;
        }
    }
    out.flush()
}

/// Random ones.
fn random(count: u64, seed: u64, image: &Vmlinux, text: u64) {
    let pieces = image.pieces();
    let places: Vec<u64> = pieces
        .flat_map(|piece| instructions(image.bytes(piece), piece.start))
        .collect();
    let mut random = Random::new(seed);
    let mut chosen = BTreeSet::new();
    for _ in 0..count {
        let place = places[random.bits() as usize % places.len()];
        // A probe in the bytes of another probe's jump keeps both from being optimised, which says
        // nothing about the place.
        if chosen.range(place - APART..=place + APART).next().is_some() {
            continue;
        }
        chosen.insert(place);
        let (answer, why) = answer(displaceable(place, image), image, place);
        println!("{:#x} {answer} {} {why}", place - text, image.name(place));
    }
}

fn main() -> ExitCode {
    let args: Vec<String> = env::args().skip(1).collect();
    let number = |at: usize| args.get(at).and_then(|number| number.parse::<u64>().ok());
    let count = number(0);
    let is_each = args.first().is_some_and(|word| word == "each");
    let (Some(second), Some(file)) = (number(1), args.get(2)) else {
        eprintln!("usage: jump-places COUNT SEED VMLINUX | each N VMLINUX");
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
    match count {
        Some(count) => random(count, second, &image, text),
        None if is_each => {
            if let Err(error) = each(second as usize, &image, text) {
                eprintln!("jump-places: {error}");
                return ExitCode::FAILURE;
            }
        }
        None => {
            eprintln!("jump-places: how many?");
            return ExitCode::from(2);
        }
    }
    ExitCode::SUCCESS
}
