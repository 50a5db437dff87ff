// SPDX-License-Identifier: GPL-2.0

//! What the commands of `ferrotrace dprobes` do.

#![deny(unsafe_code)]

use std::io;
use std::io::IsTerminal;
use std::io::Write;
use std::path::Path;
use std::path::PathBuf;

use anyhow::Context;
use anyhow::Result;
use anyhow::bail;
use ferro_dprobes_core::CODE_MAX;
use ferro_dprobes_core::SetHeader;
use ferro_dprobes_core::SetRef;
use ferro_dprobes_core::Target;
use ferro_dprobes_core::UNSAFE_WRITES;

use ferrotrace::clock::wall_offset;
use ferrotrace::dprobes::built;
use ferrotrace::dprobes::control::Control;
use ferrotrace::dprobes::error::Error;
use ferrotrace::dprobes::lang::print;
use ferrotrace::dprobes::load;
use ferrotrace::dprobes::loaded::Loaded;
use ferrotrace::dprobes::report;
use ferrotrace::dprobes::report::Locals;
use ferrotrace::dprobes::report::Variables;
use ferrotrace::dprobes::set;
use ferrotrace::dprobes::set::Loadable;
use ferrotrace::dprobes::set::Selection;
use ferrotrace::dprobes::state::Program;
use ferrotrace::dprobes::state::State;
use ferrotrace::dprobes::watch;
use ferrotrace::elf::Elf;
use ferrotrace::file::create;
use ferrotrace::relay::channel::Header;
use ferrotrace::relay::record;

use super::super::print as print_text;
use super::super::units::OutputArgs;
use super::super::warn;
use super::args::*;

fn options(args: &ReadArgs) -> load::Options {
    load::Options {
        defines: args.defines.clone(),
        symbols: args.symbols.clone(),
        any_build: args.any_build,
        colours: io::stderr().is_terminal(),
    }
}

/// Diagnostics of files.
fn show(text: &str) {
    // There is nowhere left to report it if this fails.
    let _ = io::stderr().write_all(text.as_bytes());
}

fn load(files: &[PathBuf], read: &ReadArgs) -> Result<Vec<Loadable>> {
    Ok(load::load(files, &options(read), show)?)
}

/// The set of some files, if there are any, to be loaded for a while.
fn set_of(files: &[PathBuf], read: &ReadArgs, set: &SetArgs) -> Result<Option<Vec<u8>>> {
    if files.is_empty() {
        return Ok(None);
    }
    if set.merge {
        bail!("--merge: the points could not be removed at the end; use \"insert --merge\" before");
    }
    let programs = load(files, read)?;
    Ok(Some(bytes(programs, set)?))
}

fn bytes(programs: Vec<Loadable>, args: &SetArgs) -> Result<Vec<u8>> {
    if args.stop_cpus {
        warn("--stop-cpus: no CPU has to stop; points are never missed by it");
    }
    if args.unformatted_output {
        warn("--unformatted-output: records are stored as they are, \"watch\" formats them");
    }
    Ok(load::build(args.header(), programs, &args.selection())?)
}

pub fn insert(args: InsertArgs, control: &Control) -> Result<()> {
    let programs = load(&args.files, &args.read)?;
    send(programs, &args.set, control)
}

pub fn apply(args: &ApplyArgs, control: &Control) -> Result<()> {
    let mut programs = Vec::new();
    for file in &args.files {
        programs.extend(built::read(file, args.any_build)?);
    }
    send(programs, &args.set, control)
}

/// Loads a set, and says what became of it.
fn send(programs: Vec<Loadable>, args: &SetArgs, control: &Control) -> Result<()> {
    let names: Vec<String> = programs.iter().map(|one| one.name.clone()).collect();
    let state = control.insert(&bytes(programs, args)?)?;
    let loaded = state.programs.iter();
    let loaded = loaded.filter(|program| names.contains(&program.name));
    let mut text = String::new();
    for program in loaded {
        text.push_str(&report::inserted(program));
        for warning in report::idle(program) {
            warn(&warning);
        }
    }
    if args.log_target == Target::Klog && !state.klog_listens {
        warn("klog has no handler: records are lost until \"ferrotrace klog\" or another one runs");
    }
    print_text(&text)?;
    Ok(())
}

pub fn remove(names: &Names, control: &Control) -> Result<()> {
    let list = names.list();
    if names.all {
        control.remove_all()?;
        return Ok(());
    }
    if list.is_empty() {
        bail!("name programs to remove, or --all");
    }
    // All, or none.
    selected(&control.state()?, &list)?;
    for name in &list {
        control.remove(name)?;
    }
    Ok(())
}

fn selected(state: &State, names: &[String]) -> Result<Vec<Program>> {
    let found = report::select(state, names).map_err(|name| Error::NoProgram {
        name,
        others: ferrotrace::near::Names(state.names()),
    })?;
    Ok(found.into_iter().cloned().collect())
}

pub fn query(args: &QueryArgs, control: &Control) -> Result<()> {
    let state = control.state()?;
    let programs = selected(&state, &args.names.list())?;
    let text = match args.json {
        true => {
            let document = serde_json::json!({ "programs": programs });
            format!("{}\n", serde_json::to_string_pretty(&document)?)
        }
        false => report::query(&programs, args.extended) + &report::klog_lost(&state),
    };
    print_text(&text)?;
    Ok(())
}

pub fn getvars(args: GetVarsArgs, control: &Control) -> Result<()> {
    let names = args.names.list();
    let state = control.state()?;
    let programs = selected(&state, &names)?;
    // Those of some programs are local ones.
    let by_name = !names.is_empty();
    let variables = Variables {
        local: !args.global,
        global: args.global || !args.local && !by_name,
        indexes: args.index,
    };
    let (locals, globals) = match args.reset {
        true => taken(&programs, &variables, control)?,
        false => {
            let programs = programs.into_iter();
            let locals = programs.map(|program| (program.name, program.locals));
            (locals.collect(), state.globals)
        }
    };
    let text = match args.json {
        true => {
            let document = variables.json(&locals, &globals);
            format!("{}\n", serde_json::to_string_pretty(&document)?)
        }
        false => variables.text(&locals, &globals),
    };
    print_text(&text)?;
    Ok(())
}

/// Makes variables 0. Returns what they were.
fn taken(
    programs: &[Program],
    variables: &Variables,
    control: &Control,
) -> Result<(Vec<Locals>, Vec<u64>)> {
    let indexes = variables.indexes.as_ref();
    let mut taken = Vec::new();
    let mut globals = Vec::new();
    if variables.global {
        let state = match variables.local {
            true => control.reset_all(indexes)?,
            false => control.reset_globals(indexes)?,
        };
        taken = state.taken;
        globals = state.taken_globals.unwrap_or_default().values;
    } else {
        for program in programs {
            taken.extend(control.reset(&program.name, indexes)?.taken);
        }
    }
    let locals = taken.into_iter().map(|taken| (taken.name, taken.values));
    Ok((locals.collect(), globals))
}

pub fn build(args: BuildArgs) -> Result<()> {
    let programs = load(&args.files, &args.read)?;
    let output = match (args.output, args.files.first()) {
        (Some(output), _) => output,
        (None, first) => {
            let mut name = first
                .map(PathBuf::as_path)
                .unwrap_or(Path::new("a"))
                .as_os_str()
                .to_owned();
            name.push(".ppdf");
            name.into()
        }
    };
    // Whoever loads it says what it may do.
    let header = SetHeader {
        flags: UNSAFE_WRITES,
        ..SetHeader::default()
    };
    let set = load::build(header, programs, &Selection::default())?;
    let symbols = args.read.symbols.as_deref().map(Elf::read);
    let kernel = symbols.and_then(|read| read.ok().filter(Elf::is_kernel));
    let bytes = built::file(set, kernel.as_ref())?;
    let mut file = create(&output, args.force)?;
    let written = file.write_all(&bytes);
    written.with_context(|| format!("{}: cannot write", output.display()))
}

pub fn check(args: &CheckArgs) -> Result<()> {
    if args.places {
        let programs = load(&args.files, &args.read)?;
        if args.print {
            let header = SetHeader {
                flags: UNSAFE_WRITES,
                ..SetHeader::default()
            };
            let bytes = set::bytes(header, &programs)?;
            let set = SetRef::decode(&bytes, &mut vec![0; CODE_MAX])
                .map_err(|refusal| Error::Set(set::SetError::Refused(refusal)))?;
            print_text(&print::set(&set))?;
        }
        return Ok(());
    }
    let counts = load::check(&args.files, &options(&args.read), show)?;
    let mut text = String::new();
    for (path, programs, points) in counts {
        text.push_str(&format!(
            "{}: {programs} programs, {points} points\n",
            path.display()
        ));
    }
    print_text(&text)?;
    Ok(())
}

pub fn watch(args: WatchArgs, control: &Control) -> Result<u8> {
    let signals = record::take_signals()?;
    let options = watch::Options {
        set: set_of(&args.files, &args.read, &args.set)?,
        count: args.count,
        duration: args.duration,
        json: args.json,
        wall: match args.wall {
            true => Some(wall_offset().context("cannot read the clock")?),
            false => None,
        },
    };
    let stdout = OutputArgs::new(args.output, args.force).redirect()?;
    let ready = || Ok(args.command.start(&signals, stdout, "watching")?);
    let mut is_read = true;
    let counts = watch::watch(control, &options, &signals, ready, |text| {
        is_read = print_text(text).map_err(Error::Io)?;
        Ok(is_read)
    })?;
    if is_read {
        print_text(&watch::summary(&counts, args.json))?;
    }
    Ok(signals.finish()?)
}

pub fn record(args: RecordArgs, control: &Control) -> Result<u8> {
    let signals = record::take_signals()?;
    let set = set_of(&args.files, &args.read, &args.set)?;
    let _lock = control.lock()?;
    let (loaded, _) = Loaded::load(control, set.as_deref())?;
    let options = record::Options {
        channel: control.channel(),
        output: args.output.clone(),
        force: args.force,
        read: false,
        header: Header::default(),
        partial: true,
        duration: args.duration,
        buffered: false,
        watermark: None,
        subbuf_size: None,
        n_subbufs: None,
        quiet: args.quiet || !io::stderr().is_terminal(),
        command: args.command.command,
    };
    let metadata = record::record(&options, &signals)?;
    let status = signals.finish()?;
    loaded.remove()?;
    for cpu in &metadata.cpus {
        for warning in &cpu.tally.warnings {
            warn(&format!("cpu {}: {warning}", cpu.cpu));
        }
    }
    let text = match args.json {
        true => format!("{}\n", serde_json::to_string_pretty(&metadata)?),
        false => record::summary(&metadata, &args.output),
    };
    print_text(&text)?;
    Ok(status)
}
