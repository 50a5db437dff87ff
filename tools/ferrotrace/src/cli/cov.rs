// SPDX-License-Identifier: GPL-2.0

//! `ferrotrace cov`.

#![deny(unsafe_code)]

mod live;
mod merge;
mod patch;

use std::fs::File;
use std::io;
use std::io::BufRead;
use std::io::BufReader;
use std::io::BufWriter;
use std::io::IsTerminal;
use std::io::Read;
use std::io::Write;
use std::path;
use std::path::Path;
use std::path::PathBuf;
use std::slice;

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
use ferrotrace::cov::error::Error;
use ferrotrace::cov::export::export;
use ferrotrace::cov::live::run::MAGIC;
use ferrotrace::cov::live::run::Run;
use ferrotrace::cov::live::server;
use ferrotrace::cov::live::server::Show;
use ferrotrace::cov::llvm;
use ferrotrace::cov::locate::Locator;
use ferrotrace::cov::objects;
use ferrotrace::cov::objects::Ready;
use ferrotrace::cov::print::Form;
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
    /// Report this file instead of the running kernel: a dump, a run of cov live --save, or lcov's
    /// tracefile (- is standard input). With two dumps, report the execution between them. With two
    /// runs or tracefiles, report the code that only the second executed.
    #[arg(value_name = "FILE", num_args = 0..=2)]
    files: Vec<PathBuf>,
    /// Show what was executed since this dump, or leave out the code that this run or tracefile
    /// executed.
    #[arg(long, value_name = "FILE")]
    since: Option<PathBuf>,
    /// The image of the kernel of the runs: source lines take its debugging information. Without
    /// it, the runs must be of the running kernel.
    #[arg(long, value_name = "FILE")]
    vmlinux: Option<PathBuf>,
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
    #[command(flatten)]
    form: FormArgs,
}

/// Form of a report.
#[derive(Debug, Default, Args)]
struct FormArgs {
    /// Print one JSON document.
    #[arg(long)]
    json: bool,
    /// Show functions instead of files; with --json, both. Those of live coverage take --vmlinux.
    #[arg(long)]
    functions: bool,
    /// Show so many rows of the table at most.
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    top: Option<u32>,
    /// Show the source text as gcov does, with the number of executions before each line. Live
    /// coverage has + before each executed line, and takes --vmlinux.
    #[arg(long, conflicts_with_all = ["functions", "json", "top"])]
    source: bool,
}

impl FormArgs {
    /// Returns the form, which shows only what was `executed`, with the sources in a tree.
    fn form(&self, executed: bool, tree: Option<&Path>) -> Result<Form> {
        Ok(Form {
            style: Style {
                functions: self.functions,
                top: self.top.and_then(|top| usize::try_from(top).ok()),
                executed,
            },
            json: self.json,
            source: self.source,
            has_counts: false,
            tree: tree.map(path::absolute).transpose()?,
        })
    }
}

/// A source of coverage.
enum Input {
    Counters(Vec<Object>),
    Blocks(Run),
    Lines(Coverage),
}

fn is_standard(path: &Path) -> bool {
    path == Path::new("-")
}

/// Opens a file, or standard input, with its name in messages.
fn open(path: &Path) -> Result<(Box<dyn BufRead>, &Path)> {
    if is_standard(path) {
        return Ok((Box::new(io::stdin().lock()), Path::new("standard input")));
    }
    let file = File::open(path);
    let file = file.with_context(|| format!("{}: cannot be opened", path.display()))?;
    Ok((Box::new(BufReader::new(file)), path))
}

/// Reads a dump.
fn load(path: &Path) -> Result<Vec<Object>> {
    let (from, path) = open(path)?;
    Ok(control::read(from, path)?)
}

/// Adds a tracefile.
fn add_tracefile(from: impl BufRead, path: &Path, coverage: &mut Coverage) -> Result<()> {
    let path = path.to_owned();
    let read = tracefile::read(from, coverage);
    Ok(read.map_err(|source| Error::Tracefile { path, source })?)
}

impl Input {
    /// Reads a file. Its first bytes tell its kind.
    fn load(path: &Path) -> Result<Self> {
        let (mut from, path) = open(path)?;
        let mut head = Vec::new();
        let most = u64::try_from(MAGIC.len())?;
        let read = (&mut from).take(most).read_to_end(&mut head);
        read.with_context(|| format!("{}: cannot be read", path.display()))?;
        let from = head.chain(from);
        if head == MAGIC {
            return Ok(Self::Blocks(Run::read_from(from, path)?));
        }
        if !tracefile::is_begun(&head) {
            return Ok(Self::Counters(unite(control::read(from, path)?)));
        }
        let mut coverage = Coverage::default();
        add_tracefile(from, path, &mut coverage)?;
        Ok(Self::Lines(coverage))
    }
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
    /// Returns true if execution before another is left out.
    fn is_difference(&self) -> bool {
        self.since.is_some() || self.files.len() > 1
    }

    /// Reads the coverage to leave out, if any, and the coverage to report. Without a file, the
    /// latter is of the running kernel, whose counters are returned, too.
    fn inputs<'c>(
        &self,
        control: &'c Control,
    ) -> Result<(Option<Input>, Input, Option<&'c Control>)> {
        let (before, after) = match (&self.since, &self.files[..]) {
            (Some(_), [_, _]) => bail!("--since and a first dump are the same: name one of them"),
            (since, []) => (since.as_ref(), None),
            (since, [after]) => (since.as_ref(), Some(after)),
            (_, [before, after, ..]) => (Some(before), Some(after)),
        };
        let both = [before, after];
        let both = both.iter().flatten();
        if both.filter(|path| is_standard(path)).count() > 1 {
            bail!("standard input is one dump, not two");
        }
        let before = before.map(|path| Input::load(path)).transpose()?;
        let (after, live) = match after {
            Some(path) => (Input::load(path)?, None),
            None => (Input::Counters(unite(control.read()?)), Some(control)),
        };
        let objects = &self.objects;
        let is_of_dumps =
            !objects.only.is_empty() || !objects.objdir.is_empty() || self.gcov.is_some();
        let is_dump = |input: &Input| matches!(input, Input::Counters(_));
        if is_of_dumps && !before.iter().chain([&after]).any(is_dump) {
            bail!("--only, --objdir and --gcov are for dumps");
        }
        Ok((before, after, live))
    }

    /// Returns the coverage, the number of objects that have it, and remarks, which are told here.
    fn coverage(&self, control: &Control) -> Result<(Coverage, usize, Vec<String>)> {
        let (before, after, live) = self.inputs(control)?;
        self.compare(before, after, live)
    }

    /// Returns the coverage of an input without that of another.
    fn compare(
        &self,
        before: Option<Input>,
        after: Input,
        live: Option<&Control>,
    ) -> Result<(Coverage, usize, Vec<String>)> {
        use Input::*;
        match (before, after) {
            (None, Lines(coverage)) => Ok((coverage, 1, Vec::new())),
            (None, Blocks(after)) => self.lines_of(None, after),
            (Some(Blocks(before)), Blocks(after)) => self.lines_of(Some(before), after),
            (None, Counters(after)) => self.count(None, after, live),
            (Some(Counters(before)), Counters(after)) => self.count(Some(before), after, live),
            (Some(before), after) => {
                let (before, ..) = self.compare(None, before, None)?;
                let (mut coverage, count, remarks) = self.compare(None, after, live)?;
                coverage.leave_out(&before);
                Ok((coverage, count, remarks))
            }
        }
    }

    /// Returns the lines of a run.
    fn lines_of(&self, before: Option<Run>, after: Run) -> Result<(Coverage, usize, Vec<String>)> {
        let (before, after) = (before.as_slice(), [after]);
        let kernel = merge::kernel(&after, before, self.vmlinux.as_slice())?;
        let source = kernel.source.as_ref().ok_or(Error::NoImage)?;
        merge::warn_of_modules(&after);
        let coverage = source.coverage(&kernel.states(&after, before))?;
        Ok((coverage, 1, Vec::new()))
    }

    /// Returns the lines of counters.
    fn count(
        &self,
        before: Option<Vec<Object>>,
        after: Vec<Object>,
        live: Option<&Control>,
    ) -> Result<(Coverage, usize, Vec<String>)> {
        let (objects, mut remarks) = match before {
            Some(before) => {
                let (objects, remarks) = subtract(after, &before);
                (objects, remarks.lines())
            }
            None => (after, Vec::new()),
        };
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
        let (before, after, live) = self.counters.inputs(control)?;
        let is_difference = self.counters.is_difference();
        let is_counted = matches!(after, Input::Counters(_));
        let form = Form {
            has_counts: !matches!(after, Input::Blocks(_)),
            ..self.form.form(
                is_difference || !is_counted,
                self.counters.srcdir.as_deref(),
            )?
        };
        if let (None | Some(Input::Blocks(_)), Input::Blocks(after), None) =
            (&before, &after, &self.counters.vmlinux)
        {
            let show = Show {
                form,
                lcov: self.lcov.is_some(),
                ..Show::default()
            };
            let before = match &before {
                Some(Input::Blocks(before)) => slice::from_ref(before),
                _ => &[],
            };
            let after = slice::from_ref(after);
            let kernel = merge::kernel(after, before, &[])?;
            let kernel = kernel.with_modules(after.iter().chain(before));
            print_text(&server::text(
                &kernel.states(after, before),
                &[],
                None,
                &show,
            )?)?;
            return Ok(());
        }
        let (coverage, count, remarks) = self.counters.compare(before, after, live)?;
        if let Some(path) = &self.lcov {
            write(Some(path), self.force, |to| form.tracefile(to, &coverage))?;
            if is_standard(path) {
                return Ok(());
            }
        }
        print_text(&form.text(&coverage, count, &remarks)?)?;
        Ok(())
    }
}
