// SPDX-License-Identifier: GPL-2.0

//! `ferrotrace cov`.

#![deny(unsafe_code)]

mod live;
mod merge;
mod patch;

use std::fs::File;
use std::io;
use std::io::BufWriter;
use std::io::IsTerminal;
use std::io::Write;
use std::path::Path;
use std::path::PathBuf;

use anyhow::Context;
use anyhow::Result;
use anyhow::bail;
use clap::Args;
use clap::Subcommand;
use nix::sys::utsname::uname;

use ferrotrace::cov::binaries::Binaries;
use ferrotrace::cov::control;
use ferrotrace::cov::control::Control;
use ferrotrace::cov::coverage::Coverage;
use ferrotrace::cov::difference::subtract;
use ferrotrace::cov::dump;
use ferrotrace::cov::dump::Object;
use ferrotrace::cov::export::export;
use ferrotrace::cov::listing::Listing;
use ferrotrace::cov::llvm;
use ferrotrace::cov::locate::Locator;
use ferrotrace::cov::objects;
use ferrotrace::cov::objects::Ready;
use ferrotrace::cov::print;
use ferrotrace::cov::print::Style;
use ferrotrace::cov::profile;
use ferrotrace::cov::profile::Profile;
use ferrotrace::cov::profile::is_profile;
use ferrotrace::cov::report;
use ferrotrace::cov::report::Report;
use ferrotrace::cov::report::report;
use ferrotrace::cov::select::Pattern;
use ferrotrace::cov::select::select;
use ferrotrace::cov::tracefile;
use ferrotrace::directory::Access;
use ferrotrace::directory::Directory;
use ferrotrace::file::create;
use ferrotrace::text::stdout;

use super::print as print_text;
use super::warn;

#[derive(Debug, Args)]
pub struct CovArgs {
    #[command(subcommand)]
    command: Command,
    /// The directory of the kernel's counters.
    #[arg(
        long,
        visible_alias = "debugfs",
        value_name = "DIR",
        default_value = "/sys/kernel/debug/gcov",
        global = true
    )]
    dir: PathBuf,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Save the counters of all objects to one file, or as .gcda files.
    Dump(DumpArgs),
    /// Set counters to 0.
    Reset(ResetArgs),
    /// Show which lines and functions were executed.
    Report(ReportArgs),
    /// Show which basic blocks a kernel executes that was not compiled for it.
    Live(live::LiveArgs),
    /// Show what many hosts have executed, from the runs that cov live has saved.
    #[command(before_long_help = super::help::COV_MERGE)]
    Merge(merge::MergeArgs),
    /// Show which functions that fixes change are executed, and on how many hosts.
    #[command(before_long_help = super::help::COV_EXPOSED)]
    Exposed(merge::ExposedArgs),
    /// Show which new lines of a patch were executed.
    #[command(before_long_help = super::help::COV_PATCH)]
    Patch(patch::PatchArgs),
}

/// Which objects, and where what belongs to them is.
#[derive(Debug, Args)]
struct ObjectArgs {
    /// Only these objects: a file, a directory such as kernel/sched, or a module; * stands for any text, ? for any
    /// character, [a-z] for one of several.
    #[arg(long, value_name = "PATTERN")]
    only: Vec<Pattern>,
    /// The directory of the build, if it is not where it was when the kernel was compiled.
    #[arg(long, visible_alias = "gcno", value_name = "DIR")]
    objdir: Vec<PathBuf>,
    /// Leave out objects that cannot be used, and say which.
    #[arg(short, long)]
    keep_going: bool,
}

#[derive(Debug, Args)]
struct DumpArgs {
    /// Write the file here instead of to standard output.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Take the counters from a dump (- is standard input) instead of the running kernel.
    #[arg(long, value_name = "FILE")]
    from: Option<PathBuf>,
    /// Write .gcda files with links to their .gcno files, and the .profraw files of Rust code, below this directory, which is
    /// created or must be empty.
    #[arg(long, value_name = "DIR")]
    gcda: Option<PathBuf>,
    /// Write over a file that is not empty, and below a directory that is not.
    #[arg(short, long)]
    force: bool,
    #[command(flatten)]
    objects: ObjectArgs,
}

#[derive(Debug, Args)]
struct ResetArgs {
    /// Only the objects that this names; as --only of dump and report.
    #[arg(value_name = "PATTERN")]
    patterns: Vec<Pattern>,
    /// The directory of the build, if it is not where it was when the kernel was compiled.
    #[arg(long, visible_alias = "gcno", value_name = "DIR")]
    objdir: Vec<PathBuf>,
}

/// Which counters, and how they are read.
#[derive(Debug, Args)]
struct CounterArgs {
    /// A dump (- is standard input) instead of the running kernel; with two, what was executed from the first to the
    /// second.
    #[arg(value_name = "DUMP", num_args = 0..=2)]
    dumps: Vec<PathBuf>,
    /// Show what was executed since this dump.
    #[arg(long, value_name = "DUMP")]
    since: Option<PathBuf>,
    /// The gcov or llvm-cov to use, instead of the one of the compiler's version.
    #[arg(long, value_name = "PROGRAM")]
    gcov: Option<PathBuf>,
    /// The source tree, if the kernel was compiled in another directory.
    #[arg(long, value_name = "DIR")]
    srcdir: Option<PathBuf>,
    #[command(flatten)]
    objects: ObjectArgs,
}

#[derive(Debug, Args)]
struct ReportArgs {
    #[command(flatten)]
    counters: CounterArgs,
    /// Write lcov's tracefile to this file (- is standard output, without a table then).
    #[arg(long, value_name = "FILE")]
    lcov: Option<PathBuf>,
    /// Write over a tracefile that is not empty.
    #[arg(short, long, requires = "lcov")]
    force: bool,
    /// Print one JSON document.
    #[arg(long)]
    json: bool,
    /// Show functions instead of files; with --json, both.
    #[arg(long)]
    functions: bool,
    /// Show so many rows of the table at most.
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    top: Option<u32>,
    /// Show the source text, each line after the number of its executions, as gcov writes it.
    #[arg(long, conflicts_with_all = ["functions", "json", "top"])]
    source: bool,
}

fn is_standard(path: &Path) -> bool {
    path == Path::new("-")
}

/// Reads a dump.
fn load(path: &Path) -> Result<Vec<Object>> {
    if is_standard(path) {
        return Ok(control::read(
            io::stdin().lock(),
            Path::new("standard input"),
        )?);
    }
    let file = File::open(path);
    let file = file.with_context(|| format!("{}: cannot be opened", path.display()))?;
    Ok(control::read(file, path)?)
}

/// Makes one object of those with the same name.
fn unite(objects: Vec<Object>) -> Vec<Object> {
    let (objects, dropped) = dump::unite(objects);
    for name in dropped {
        warn(&format!(
            "{}: comes twice, with different numbers of counters; the first one is left out",
            name.to_string_lossy()
        ));
    }
    objects
}

/// Writes to a file, which holds nothing but with `force`, or to standard output. Returns whether there still is a reader.
fn write(
    path: Option<&Path>,
    force: bool,
    with: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> Result<bool> {
    let (mut out, name): (Box<dyn Write>, _) = match path.filter(|path| !is_standard(path)) {
        Some(path) => {
            let name = path.display().to_string();
            (Box::new(create(path, force)?), name)
        }
        None => (stdout(), "standard output".to_owned()),
    };
    let mut out = BufWriter::with_capacity(64 << 10, &mut out);
    match with(&mut out).and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        other => {
            other.with_context(|| format!("{name}: cannot be written"))?;
            Ok(true)
        }
    }
}

impl CovArgs {
    pub fn run(self) -> Result<u8> {
        let control = Control::new(self.dir);
        match self.command {
            Command::Dump(args) => args.run(&control)?,
            Command::Reset(args) => args.run(&control)?,
            Command::Report(args) => args.run(&control)?,
            Command::Live(args) => return args.run(),
            Command::Merge(args) => args.run()?,
            Command::Exposed(args) => args.run()?,
            Command::Patch(args) => args.run(&control)?,
        }
        Ok(0)
    }
}

impl ObjectArgs {
    /// `live` is the running kernel, if the counters are its.
    fn locator(&self, objects: &[Object], live: Option<&Control>) -> Locator {
        Locator::new(&self.objdir, live.cloned(), &objects::names(objects))
    }

    fn select<'o>(&self, objects: &'o [Object], locator: &Locator) -> Result<Vec<&'o Object>> {
        let names = objects::names(objects);
        let module = |module: &str| locator.module(module, &names);
        let selected = select(&names, &self.only, module)?;
        let objects = objects.iter().zip(selected);
        Ok(objects
            .filter_map(|(object, selected)| selected.then_some(object))
            .collect())
    }

    /// Finds the files of objects, and the programs for Rust code.
    fn ready(
        &self,
        objects: &[&Object],
        locator: &Locator,
        live: Option<&Control>,
    ) -> Result<(Vec<Ready>, Vec<Profile>)> {
        let (in_rust, others): (Vec<&Object>, Vec<&Object>) =
            objects.iter().partition(|object| is_profile(object.path()));
        let (ready, mut problems) = objects::ready(&others, locator, live);
        let mut profiles = Vec::new();
        if !in_rust.is_empty() {
            let names: Vec<&Path> = others.iter().map(|object| object.path()).collect();
            let release = live.and_then(|_| uname().ok());
            let release = release.as_ref().and_then(|uname| uname.release().to_str());
            let binaries = Binaries::new(&self.objdir, &names, release);
            let (found, unfit) = profile::ready(&in_rust, &binaries, live);
            profiles = found;
            problems.extend(unfit);
        }
        if let Some(warning) = objects::accept(problems, objects.len(), self.keep_going)? {
            warn(&warning);
        }
        Ok((ready, profiles))
    }
}

impl DumpArgs {
    fn run(self, control: &Control) -> Result<()> {
        if self.output.is_none() && self.gcda.is_none() && io::stdout().is_terminal() {
            bail!("a dump is not text: name a file with -o, or pipe it");
        }
        let live = self.from.is_none().then_some(control);
        let objects = match &self.from {
            Some(path) => load(path)?,
            None => control.read()?,
        };
        let objects = match self.gcda {
            // The saved file has what the kernel says.
            None if self.objects.only.is_empty() => objects,
            _ => unite(objects),
        };
        let locator = self.objects.locator(&objects, live);
        let selected = self.objects.select(&objects, &locator)?;
        if self.output.is_some() || self.gcda.is_none() {
            let output = self.output.as_deref();
            write(output, self.force, |to| {
                dump::write(to, selected.iter().copied())
            })?;
        }
        if let Some(dir) = &self.gcda {
            let (ready, profiles) = self.objects.ready(&selected, &locator, live)?;
            if let Some(parent) = dir.parent().filter(|parent| *parent != Path::new("")) {
                // The directory fails for the same reason.
                let _ = Directory::create_all(parent);
            }
            let dir = Directory::create(dir, Access::Usual, self.force, true)?;
            export(&ready, &dir)?;
            profile::export(&profiles, &dir)?;
        }
        Ok(())
    }
}

impl ResetArgs {
    fn run(&self, control: &Control) -> Result<()> {
        if self.patterns.is_empty() {
            return Ok(control.reset_all()?);
        }
        let objects = control.objects()?;
        let names: Vec<&Path> = objects.iter().map(PathBuf::as_path).collect();
        let locator = Locator::new(&self.objdir, Some(control.clone()), &names);
        let module = |module: &str| locator.module(module, &names);
        let selected = select(&names, &self.patterns, module)?;
        for (object, selected) in names.iter().zip(selected) {
            if selected {
                control.reset(object)?;
            }
        }
        Ok(())
    }
}

impl CounterArgs {
    /// The counters, what is to be said of them, and whether they are the running kernel's.
    fn counters(&self, control: &Control) -> Result<(Vec<Object>, Vec<String>, bool)> {
        let (before, after) = match (&self.since, &self.dumps[..]) {
            (Some(_), [_, _]) => bail!("--since and a first dump are the same: name one of them"),
            (since, []) => (since.as_ref(), None),
            (since, [after]) => (since.as_ref(), Some(after)),
            (_, [before, after, ..]) => (Some(before), Some(after)),
        };
        if [before, after]
            .iter()
            .flatten()
            .filter(|path| is_standard(path))
            .count()
            > 1
        {
            bail!("standard input is one dump, not two");
        }
        let before = before.map(|path| load(path)).transpose()?.map(unite);
        let objects = unite(match after {
            Some(path) => load(path)?,
            None => control.read()?,
        });
        let (objects, remarks) = match before {
            Some(before) => {
                let (objects, remarks) = subtract(objects, &before);
                (objects, remarks.lines())
            }
            None => (objects, Vec::new()),
        };
        Ok((objects, remarks, after.is_none()))
    }

    /// Returns the coverage, the number of objects that have it, and remarks, which are told here.
    fn coverage(&self, control: &Control) -> Result<(Coverage, usize, Vec<String>)> {
        let (objects, mut remarks, is_live) = self.counters(control)?;
        let live = is_live.then_some(control);
        let locator = self.objects.locator(&objects, live);
        let selected = self.objects.select(&objects, &locator)?;
        let (ready, profiles) = self.objects.ready(&selected, &locator, live)?;
        let options = report::Options {
            program: self.gcov.clone(),
            sources: self.srcdir.clone(),
        };
        let Report {
            mut coverage,
            mut problems,
            remarks: further,
        } = report(&ready, &options)?;
        remarks.extend(further);
        for remark in &remarks {
            warn(remark);
        }
        let program = options.program.as_deref();
        problems.extend(llvm::report(&profiles, program, &mut coverage)?);
        let total = ready.len() + profiles.len();
        let count = total - problems.len();
        if let Some(warning) = objects::accept(problems, total, self.objects.keep_going)? {
            warn(&warning);
        }
        Ok((coverage, count, remarks))
    }
}

impl ReportArgs {
    fn run(self, control: &Control) -> Result<()> {
        let (coverage, count, remarks) = self.counters.coverage(control)?;
        if let Some(path) = &self.lcov {
            write(Some(path), self.force, |to| tracefile::write(to, &coverage))?;
            if is_standard(path) {
                return Ok(());
            }
        }
        let style = Style {
            functions: self.functions,
            top: self.top.and_then(|top| usize::try_from(top).ok()),
            executed: self.counters.since.is_some() || self.counters.dumps.len() > 1,
        };
        let listing = Listing {
            tree: self.counters.srcdir.as_deref(),
            has_counts: true,
            all: !style.executed,
        };
        print_text(&match (self.json, self.source) {
            (true, _) => print::json(&coverage, count, style, &remarks)?,
            (false, true) => listing.text(&coverage),
            (false, false) => print::text(&coverage, count, style),
        })?;
        Ok(())
    }
}
