// SPDX-License-Identifier: GPL-2.0

//! From program files to a set that the kernel takes.

#![deny(unsafe_code)]

use std::path::PathBuf;

use ferro_dprobes_core::ModuleKind;
use ferro_dprobes_core::SetHeader;
use ferro_dprobes_core::UNSAFE_WRITES;

use super::error::Error;
use super::error::Result;
use super::lang::diagnostic::Diagnostic;
use super::lang::diagnostic::Severity;
use super::lang::diagnostic::is_error;
use super::lang::diagnostic::render;
use super::lang::parse;
use super::lang::program::Program;
use super::lang::source::Define;
use super::lang::source::Source;
use super::locate;
use super::locate::Locator;
use super::locate::SymbolFile;
use super::set;
use super::set::Loadable;
use super::set::Selection;
use crate::kallsyms::Kallsyms;
use crate::kallsyms::Modules;

/// How files are read.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Names that stand for something.
    pub defines: Vec<Define>,
    /// A file of symbols.
    pub symbols: Option<PathBuf>,
    /// True if that may be of another build than what is probed.
    pub any_build: bool,
    /// True if diagnostics have colours.
    pub colours: bool,
}

/// A file, with what is wrong in it so far.
struct Input {
    path: PathBuf,
    source: Source,
    programs: Vec<Program>,
    diagnostics: Vec<Diagnostic>,
}

/// Reads files, and checks them without a kernel. Returns how many programs and points there are. `show` gets diagnostics as text.
pub fn check(
    paths: &[PathBuf],
    options: &Options,
    mut show: impl FnMut(&str),
) -> Result<Vec<(PathBuf, usize, usize)>> {
    let inputs = read(paths, options)?;
    finish(&inputs, options, &mut show)?;
    let counts = inputs.into_iter().map(|input| {
        let points = input.programs.iter().map(|program| program.points.len());
        (input.path, input.programs.len(), points.sum())
    });
    Ok(counts.collect())
}

/// Reads files, and finds the places of their points. The programs of all files are one set.
pub fn load(
    paths: &[PathBuf],
    options: &Options,
    mut show: impl FnMut(&str),
) -> Result<Vec<Loadable>> {
    let mut inputs = read(paths, options)?;
    let symbols = match &options.symbols {
        Some(path) => Some((path.clone(), SymbolFile::read(path)?)),
        None => None,
    };
    let needs_kernel = |program: &Program| {
        let mut commands = program.points.iter().flat_map(|point| &point.code);
        program.header.kind != ModuleKind::User || commands.any(|command| command.symbol.is_some())
    };
    // Where the kernel does not tell, names are taken as they are. Its list is long.
    let mut programs = inputs.iter().flat_map(|input| &input.programs);
    let kernel = match programs.any(needs_kernel) {
        true => Kallsyms::running(&Modules::default()).unwrap_or_default(),
        false => Kallsyms::default(),
    };
    let mut locator = Locator::new(
        kernel,
        locate::Options {
            symbols,
            any_build: options.any_build,
            ..locate::Options::default()
        },
    );
    let mut loadable = Vec::new();
    for input in &mut inputs {
        if is_error(&input.diagnostics) {
            continue;
        }
        for program in &input.programs {
            loadable.push(locator.program(program, &mut input.diagnostics));
        }
    }
    finish(&inputs, options, &mut show)?;
    Ok(loadable)
}

fn read(paths: &[PathBuf], options: &Options) -> Result<Vec<Input>> {
    let inputs = paths.iter().map(|path| {
        let source = Source::read(path, &options.defines)?;
        let file = parse::parse(&source, &options.defines);
        Ok(Input {
            path: path.clone(),
            source,
            programs: file.programs,
            diagnostics: file.diagnostics,
        })
    });
    inputs.collect()
}

/// Shows what is wrong. Fails if any of it is an error.
fn finish(inputs: &[Input], options: &Options, show: &mut impl FnMut(&str)) -> Result<()> {
    let mut errors = 0usize;
    let mut files = Vec::new();
    for input in inputs {
        if !input.diagnostics.is_empty() {
            show(&render(&input.source, &input.diagnostics, options.colours));
        }
        let of_file = input.diagnostics.iter();
        let of_file = of_file
            .filter(|one| one.severity == Severity::Error)
            .count();
        if of_file != 0 {
            errors += of_file;
            files.push(input.path.display().to_string());
        }
    }
    match errors {
        0 => Ok(()),
        _ => Err(Error::Language {
            errors: match errors {
                1 => "1 error".to_owned(),
                _ => format!("{errors} errors"),
            },
            files: files.join(", "),
        }),
    }
}

/// The bytes of a set, for the kernel or for a file.
pub fn build(
    header: SetHeader,
    mut programs: Vec<Loadable>,
    selection: &Selection,
) -> Result<Vec<u8>> {
    selection.select(&mut programs)?;
    if header.flags & UNSAFE_WRITES == 0 {
        refuse_writes(&programs)?;
    }
    Ok(set::bytes(header, &programs)?)
}

/// Says which point needs permission: the kernel would refuse it too.
fn refuse_writes(programs: &[Loadable]) -> Result<()> {
    for program in programs {
        if let Some(point) = program.points.iter().find(|point| point.writes()) {
            let place = match point.symbol.as_str() {
                "" => format!("the point at {:#x}", point.point.offset),
                symbol => format!("the point at {symbol}"),
            };
            return Err(Error::Writes {
                program: program.name.clone(),
                place,
            });
        }
    }
    Ok(())
}
