// SPDX-License-Identifier: GPL-2.0

//! Chooses places in functions that two kernels have in common: each function's entry, and three
//! random instructions that are equally long in both. `selftests/all_functions` tries a probe on
//! each.
//!
//! ```text
//! probe-places ONE_IN SEED VMLINUX OTHER      one function in ONE_IN; a line each: offset from
//!                                             _text in both, symbol+offset, the
//!                                             instruction's name
//! ```

use ferro_host::corpus::Random;
use ferro_host::iced;
use iced_x86::Mnemonic;
use object::Object as _;
use object::ObjectSection as _;
use object::ObjectSymbol as _;
use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::env;
use std::error::Error;
use std::fs;
use std::path::Path;
use std::process::ExitCode;

/// Of each function, besides its entry.
const INSIDE: usize = 3;

/// A function: where it is, from `_text`, where in it instructions begin, and which they are.
struct Function {
    offset: u64,
    boundaries: Vec<u64>,
    mnemonics: Vec<Mnemonic>,
}

/// Functions of an image's `.text`, by name and by their order among functions of that name.
type Functions = BTreeMap<(String, usize), Function>;

fn functions(file: &Path) -> Result<Functions, Box<dyn Error>> {
    let data = fs::read(file)?;
    let image = object::File::parse(&*data)?;
    let section = image.section_by_name(".text").ok_or("no .text")?;
    let (start, bytes) = (section.address(), section.data()?);
    let end = start + bytes.len() as u64;
    let (mut base, mut named) = (None, BTreeMap::new());
    for symbol in image.symbols() {
        let name = symbol.name()?;
        if name == "_text" {
            base = Some(symbol.address());
        }
        let is_ours = (start..end).contains(&symbol.address());
        if is_ours && !name.is_empty() && !name.starts_with(".L") && !name.starts_with("__pfx_") {
            // Of several names of a place the first one in the alphabet.
            let names: &mut BTreeSet<_> = named.entry(symbol.address()).or_default();
            names.insert(name.to_string());
        }
    }
    let base = base.ok_or("no _text")?;
    let ends: Vec<u64> = named.keys().skip(1).copied().chain([end]).collect();
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    let mut found = Functions::new();
    for ((at, names), end) in named.into_iter().zip(ends) {
        let Some(name) = names.into_iter().next() else {
            continue;
        };
        let (mut boundaries, mut mnemonics, mut next) = (Vec::new(), Vec::new(), at);
        while next < end {
            let insn = iced::decode(&bytes[(next - start) as usize..], next);
            // Padding by the assembler and the compiler.
            if !insn.is_invalid() && insn.code() != iced_x86::Code::Int3 {
                boundaries.push(next - at);
                mnemonics.push(insn.mnemonic());
            }
            next += insn.len().max(1) as u64;
        }
        let count = counts.entry(name.clone()).or_default();
        let function = Function {
            offset: at - base,
            boundaries,
            mnemonics,
        };
        found.insert((name, *count), function);
        *count += 1;
    }
    Ok(found)
}

fn choose(one_in: u64, seed: u64, file: &Path, other: &Path) -> Result<(), Box<dyn Error>> {
    let (all, others) = (functions(file)?, functions(other)?);
    let mut random = Random::new(seed);
    let (mut alone, mut differ, mut chosen) = (0, 0, 0);
    for ((name, count), function) in &all {
        let Some(its) = others.get(&(name.clone(), *count)) else {
            alone += 1;
            continue;
        };
        if random.bits() % one_in != 0 {
            continue;
        }
        chosen += 1;
        let show = |index: usize| {
            let Some((within, mnemonic)) = function
                .boundaries
                .get(index)
                .zip(function.mnemonics.get(index))
            else {
                return;
            };
            let (here, there) = (function.offset + within, its.offset + within);
            println!("{here:#x} {there:#x} {name}+{within:#x} {mnemonic:?}");
        };
        show(0);
        if function.boundaries != its.boundaries {
            differ += 1;
            continue;
        }
        let rest = function.boundaries.len().saturating_sub(1);
        let mut inside = BTreeSet::new();
        for _ in 0..INSIDE.min(rest) {
            inside.insert(1 + random.bits() as usize % rest);
        }
        inside.into_iter().for_each(show);
    }
    eprintln!(
        "{} functions, {alone} of them only there; {chosen} chosen, {differ} of them with other code there",
        all.len()
    );
    Ok(())
}

fn main() -> ExitCode {
    let args: Vec<String> = env::args().skip(1).collect();
    let number = |at: usize| args.get(at).and_then(|arg| arg.parse::<u64>().ok());
    let (Some(one_in @ 1..), Some(seed), Some(file), Some(other)) =
        (number(0), number(1), args.get(2), args.get(3))
    else {
        eprintln!("usage: probe-places ONE_IN SEED VMLINUX OTHER");
        return ExitCode::from(2);
    };
    match choose(one_in, seed, Path::new(file), Path::new(other)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("probe-places: {error}");
            ExitCode::FAILURE
        }
    }
}
