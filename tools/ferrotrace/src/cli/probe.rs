// SPDX-License-Identifier: GPL-2.0

//! `ferrotrace probe`.

#![deny(unsafe_code)]

use std::collections::HashSet;
use std::io;
use std::io::IsTerminal;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use anyhow::Result;
use clap::Args;
use clap::Subcommand;
use clap::ValueEnum;
use serde::Serialize;

use ferrotrace::clock::wall_offset;
use ferrotrace::pids::Pids;
use ferrotrace::probes::error::Error;
use ferrotrace::probes::kernel::Kernel;
use ferrotrace::probes::model::Probe;
use ferrotrace::probes::model::parse_name;
use ferrotrace::probes::print;
use ferrotrace::probes::print::Style;
use ferrotrace::probes::resolve::Resolver;
use ferrotrace::probes::resolve::Wanted;
use ferrotrace::probes::screen::Screen;
use ferrotrace::probes::spec::Spec;
use ferrotrace::probes::summary;
use ferrotrace::probes::summary::By;
use ferrotrace::probes::summary::Summary;
use ferrotrace::probes::summary::Timed;
use ferrotrace::probes::symbols::Symbols;
use ferrotrace::probes::types::Source;
use ferrotrace::probes::watch;
use ferrotrace::probes::watch::Lines;
use ferrotrace::probes::watch::Show;
use ferrotrace::probes::watch::remove_abandoned;
use ferrotrace::probes::watch::watch;
use ferrotrace::relay::record::take_signals;
use ferrotrace::signals::StopSignals;

use super::print as print_text;
use super::units::CommandArgs;
use super::units::OutputArgs;
use super::units::parse_duration;
use super::units::parse_interval;
use super::units::warn_of_numbers;
use super::warn;

#[derive(Debug, Args)]
pub struct ProbeArgs {
    #[command(subcommand)]
    command: Command,
    /// The directory of the module ferrotrace_kprobe_events. Without it that in /sys/kernel/debug is used, or, if there is
    /// none, kprobe_events of tracefs.
    #[arg(long, value_name = "DIR", global = true)]
    dir: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Add probes, which stay until they are removed: all that are listed, or none.
    Add(AddArgs),
    /// Show the probes, and how often they were hit.
    List(ListArgs),
    /// Remove probes.
    Remove(RemoveArgs),
    /// Show hits as they come: those of all probes, or of temporary ones.
    Watch(WatchArgs),
    /// Count hits by keys, live: those of all probes, or of temporary ones.
    Count(CountArgs),
    /// Show how long functions take, live: by keys, and as a histogram.
    Time(TimeArgs),
}

/// Where the names of parameters and members come from.
#[derive(Debug, Args)]
struct TypesArgs {
    /// A file with the kernel's types as BTF, instead of the running kernel's.
    #[arg(long, value_name = "FILE", conflicts_with = "vmlinux")]
    btf: Option<PathBuf>,
    /// A kernel with debugging information (DWARF), the one that runs, or one of its modules.
    #[arg(long, value_name = "FILE")]
    vmlinux: Option<PathBuf>,
}

impl TypesArgs {
    fn source(&self) -> Source {
        Source {
            btf: self.btf.clone(),
            vmlinux: self.vmlinux.clone(),
            ..Source::default()
        }
    }
}

#[derive(Debug, Args)]
struct AddArgs {
    /// Probe the return of the functions.
    #[arg(short, long = "return")]
    returns: bool,
    /// Record the calls that have led to each hit.
    #[arg(long, value_name = "OF", num_args = 0..=1, require_equals = true, default_missing_value = "kernel")]
    stack: Option<StackOf>,
    /// The probe's name; by default that of its place.
    #[arg(long, value_name = "NAME", value_parser = parse_name)]
    name: Option<String>,
    /// Each in one word, quoted if it has blanks: [NAME=]FUNCTION[+OFFSET|:LINE|%return] [ARGUMENT...] [if ...].
    ///
    /// FUNCTION is one of the kernel or of a module, or a pattern, as in 'vfs_*'; OFFSET are the bytes from its start to an
    /// instruction, LINE counts from the line with its name. An ARGUMENT is [NAME=]EXPRESSION[:TYPE]: parameters and $retval, with their members, as in C
    /// (how->flags), or registers (%di, +8(%si)); types are u32, s64, x16, ..., string and symbol. A CONDITION compares an
    /// argument, pid, comm, cpu or duration: pid==12, comm~ba*, how->flags&0x40, $retval<0.
    #[arg(value_name = "PROBE", required = true)]
    probes: Vec<Spec>,
    #[command(flatten)]
    types: TypesArgs,
}

#[derive(Debug, Args)]
struct ListArgs {
    /// Print one JSON document.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    output: OutputArgs,
}

#[derive(Debug, Args)]
struct RemoveArgs {
    /// The probes.
    #[arg(value_name = "NAME", required_unless_present = "all", value_parser = parse_name)]
    names: Vec<String>,
    /// Remove all probes.
    #[arg(long, conflicts_with = "names")]
    all: bool,
}

/// What all commands have that read hits.
#[derive(Debug, Args)]
struct ReadArgs {
    #[command(flatten)]
    types: TypesArgs,
    /// Print one JSON object on each line.
    #[arg(long)]
    json: bool,
    /// Stop after this time.
    #[arg(short, long, value_name = "TIME", value_parser = parse_duration)]
    duration: Option<Duration>,
    /// Take only hits of this process, or of this thread; it can be repeated.
    #[arg(short, long = "pid", value_name = "PID", value_parser = clap::value_parser!(i32).range(0..))]
    pids: Vec<i32>,
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    command: CommandArgs,
}

#[derive(Debug, Args)]
struct WatchArgs {
    /// Add these probes, and remove them at the end. They are given as for "probe add".
    #[arg(value_name = "PROBE")]
    probes: Vec<Spec>,
    /// Probe the return of these functions.
    #[arg(short, long = "return", requires = "probes")]
    returns: bool,
    /// Stop after that many hits; otherwise on SIGINT or SIGTERM.
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    /// Show the registers.
    #[arg(long)]
    regs: bool,
    /// Show dates and times of day, UTC, instead of seconds of CLOCK_MONOTONIC.
    #[arg(long)]
    wall: bool,
    /// Show the calls that have led to each hit of these probes.
    #[arg(long, value_name = "OF", num_args = 0..=1, require_equals = true, default_missing_value = "kernel", requires = "probes")]
    stack: Option<StackOf>,
    #[command(flatten)]
    read: ReadArgs,
}

/// What all commands have that add hits up.
#[derive(Debug, Args)]
struct SummaryArgs {
    /// By what hits are added up: place, comm, pid, cpu, stack (the calls in the kernel), ustack (in user space), or the name of an
    /// argument; several with commas.
    #[arg(
        long,
        value_name = "KEY,...",
        value_delimiter = ',',
        default_value = "place"
    )]
    by: Vec<By>,
    /// Report after each such time; on a terminal all hits so far, elsewhere those since the last report.
    #[arg(short, long, value_name = "TIME", value_parser = parse_interval, default_value = "1")]
    interval: Duration,
    /// Print only the keys of all hits with their numbers, at the end: with --by stack what makes flame graphs.
    #[arg(long, conflicts_with = "json")]
    folded: bool,
    /// Show so many keys at most; all, but 20 on a terminal, without it.
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    top: Option<u32>,
    #[command(flatten)]
    read: ReadArgs,
}

#[derive(Debug, Args)]
struct CountArgs {
    /// Add these probes, and remove them at the end. They are given as for "probe add".
    #[arg(value_name = "PROBE")]
    probes: Vec<Spec>,
    /// Probe the return of these functions.
    #[arg(short, long = "return", requires = "probes")]
    returns: bool,
    #[command(flatten)]
    summary: SummaryArgs,
}

#[derive(Debug, Args)]
struct TimeArgs {
    /// The functions. They are given as probes, as for "probe add", with arguments and conditions.
    #[arg(value_name = "PROBE", required = true)]
    probes: Vec<Spec>,
    /// Time from the last hit of this probe in the same thread, instead of from the entry of the function.
    #[arg(long, value_name = "PROBE")]
    since: Option<Spec>,
    #[command(flatten)]
    summary: SummaryArgs,
}

/// What `--json` prints.
#[derive(Serialize)]
struct Document<'a> {
    probes: &'a [Probe],
}

impl ProbeArgs {
    pub fn run(self) -> Result<u8> {
        let kernel = Kernel::find(self.dir);
        if kernel.is_stock() {
            // There is nowhere left to report it if this fails.
            let _ = writeln!(
                io::stderr(),
                "ferrotrace: the module ferrotrace_kprobe_events is not loaded; kprobe_events of tracefs serves instead"
            );
        }
        if !matches!(self.command, Command::List(_) | Command::Remove(_)) {
            // What is wrong will also be wrong with what is to be done.
            let left = remove_abandoned(&kernel).unwrap_or(0);
            if left != 0 {
                warn(&format!(
                    "removed {left} probes that had been left when their \"ferrotrace probe\" was killed"
                ));
            }
        }
        let done = match self.command {
            Command::Add(args) => args.run(&kernel),
            Command::List(args) => args.run(&kernel),
            Command::Remove(args) => args.run(&kernel),
            Command::Watch(args) => return args.run(&kernel),
            Command::Count(args) => {
                return args
                    .summary
                    .run(&kernel, &args.probes, args.returns, Timed::No);
            }
            Command::Time(args) => return args.run(&kernel),
        };
        done.map(|()| 0)
    }
}

/// Whose stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum StackOf {
    /// The calls in the kernel.
    Kernel,
    /// The calls in user space that have led to the system call or the interrupt.
    User,
    /// Both.
    Both,
}

/// Has probes read stacks.
fn add_stacks(specs: &mut [Spec], of: Option<StackOf>) {
    let wants = |one| of == Some(one) || of == Some(StackOf::Both);
    for spec in specs {
        if wants(StackOf::Kernel) {
            spec.add_stack("stack");
        }
        if wants(StackOf::User) {
            spec.add_stack("ustack");
        }
    }
}

/// What the kernel is to be told.
fn resolve(
    specs: &[Spec],
    returns: bool,
    types: &TypesArgs,
    symbols: &Symbols,
) -> Result<Vec<Wanted>> {
    let source = types.source();
    let mut resolver = Resolver::new(symbols, &source);
    let mut all: Vec<Wanted> = Vec::new();
    let mut seen = HashSet::new();
    for spec in specs {
        for probe in resolver.resolve(spec, returns)? {
            // A function of a pattern may be that of another, or be named as well.
            let what = (probe.kind, probe.place.clone(), probe.args.clone());
            if seen.insert(what) || !probe.of_pattern {
                all.push(probe);
            }
        }
    }
    Ok(all)
}

impl AddArgs {
    fn run(&self, kernel: &Kernel) -> Result<()> {
        if let (Some(name), [_, _, ..]) = (&self.name, &self.probes[..]) {
            anyhow::bail!(
                "--name {name} is for one probe, not for {}",
                self.probes.len()
            );
        }
        let mut specs = self.probes.clone();
        if let (Some(name), [spec]) = (&self.name, &mut specs[..]) {
            spec.name = Some(name.clone());
        }
        add_stacks(&mut specs, self.stack);
        let symbols = Symbols::read().unwrap_or_default();
        let wanted = resolve(&specs, self.returns, &self.types, &symbols)?;
        let added = add(kernel, &wanted)?;
        warn_of_namesakes(kernel, &symbols, &wanted)?;
        let text: String = added.iter().map(|name| format!("{name}\n")).collect();
        print_text(&text)?;
        Ok(())
    }
}

/// Adds all probes, or none, but for those of patterns that the kernel refuses. Returns the names.
fn add(kernel: &Kernel, wanted: &[Wanted]) -> Result<Vec<String>> {
    if wanted.iter().any(Wanted::is_by_pid) {
        warn_of_numbers();
    }
    let signals = take_signals()?;
    let added = kernel.add(wanted, || signals.take().unwrap_or(false))?;
    warn_of_refused(&added.refused);
    Ok(added.names)
}

/// Warns of functions that match a pattern, and that the kernel refuses.
fn warn_of_refused(refused: &[Error]) {
    match refused {
        [] => (),
        [one] => warn(&format!("a function that matches has no probe: {one}")),
        [.., last] => warn(&format!(
            "{} functions that match have no probe; the last: {last}",
            refused.len()
        )),
    }
}

/// Warns if several functions have a name: the kernel takes the first one.
fn warn_of_namesakes(kernel: &Kernel, symbols: &Symbols, wanted: &[Wanted]) -> Result<()> {
    let count = |probe: &Wanted| symbols.count(&probe.place.symbol);
    let (of_patterns, named): (Vec<_>, Vec<_>) = wanted
        .iter()
        .filter(|probe| count(probe) > 1)
        .partition(|probe| probe.of_pattern);
    if !named.is_empty() {
        let probes = kernel.list()?;
        for probe in named {
            let added = probes.iter().find(|added| added.place == probe.place);
            let address = added.map_or(0, |added| added.address);
            warn(&format!(
                "{} functions are called {}; the probe is at {address:#x}",
                count(probe),
                probe.place.symbol
            ));
        }
    }
    warn_of_many(&of_patterns);
    Ok(())
}

/// The same for functions that match a pattern.
fn warn_of_many(of_patterns: &[&Wanted]) {
    if let [first, ..] = of_patterns {
        warn(&format!(
            "{} names that match are those of several functions, such as {}; one of each is probed",
            of_patterns.len(),
            first.place.symbol
        ));
    }
}

impl ListArgs {
    fn run(&self, kernel: &Kernel) -> Result<()> {
        let probes = kernel.list()?;
        self.output.redirect()?;
        let text = if self.json {
            let document = Document { probes: &probes };
            format!("{}\n", serde_json::to_string_pretty(&document)?)
        } else {
            print::table(&probes)
        };
        print_text(&text)?;
        Ok(())
    }
}

impl RemoveArgs {
    fn run(&self, kernel: &Kernel) -> Result<()> {
        if self.all {
            return Ok(kernel.remove_all()?);
        }
        Ok(kernel.remove(&self.names)?)
    }
}

impl ReadArgs {
    /// The temporary probes.
    fn resolve(&self, specs: &[Spec], returns: bool, symbols: &Symbols) -> Result<Vec<Wanted>> {
        let mut probes = resolve(specs, returns, &self.types, symbols)?;
        let mut of_patterns = Vec::new();
        for probe in &probes {
            let symbol = &probe.place.symbol;
            let count = symbols.count(symbol);
            match count > 1 {
                true if probe.of_pattern => of_patterns.push(probe),
                true => warn(&format!(
                    "{count} functions are called {symbol}; one is probed, \"ip\" of --json says which"
                )),
                false => (),
            }
        }
        warn_of_many(&of_patterns);
        // Others are left out here.
        if let [pid] = self.pids[..] {
            probes.iter_mut().for_each(|probe| probe.only(pid));
        }
        if !self.pids.is_empty() || probes.iter().any(Wanted::is_by_pid) {
            warn_of_numbers();
        }
        Ok(probes)
    }

    /// Gives the hits of these probes to `show`, or of all if there are none.
    fn run(
        self,
        kernel: &Kernel,
        probes: Vec<Wanted>,
        count: Option<u64>,
        stdout: Option<OwnedFd>,
        signals: &StopSignals,
        show: &mut impl Show,
    ) -> Result<watch::Counts> {
        let options = watch::Options {
            probes,
            count,
            duration: self.duration,
            pids: Pids::new(self.pids),
        };
        let ready = |refused: &[Error]| {
            warn_of_refused(refused);
            Ok(self.command.start(signals, stdout, "watching")?)
        };
        Ok(watch(kernel, options, signals, ready, show)?)
    }
}

/// Prints for the library. Returns whether there still is a reader.
fn print_hits(text: &str) -> Result<bool, Error> {
    print_text(text).map_err(Error::Io)
}

impl WatchArgs {
    fn run(self, kernel: &Kernel) -> Result<u8> {
        if kernel.is_stock() && self.regs {
            return Err(Error::Stock("--regs".to_owned()).into());
        }
        let signals = take_signals()?;
        let symbols = Symbols::read().unwrap_or_default();
        let mut specs = self.probes;
        add_stacks(&mut specs, self.stack);
        let probes = self.read.resolve(&specs, self.returns, &symbols)?;
        let stdout = self.read.output.redirect()?;
        let wall = match self.wall {
            true => Some(wall_offset().context("cannot read the clock")?),
            false => None,
        };
        let style = Style {
            json: self.read.json,
            registers: self.regs,
            wall,
        };
        let mut is_read = true;
        let mut lines = Lines::new(style, &symbols, |text: &str| {
            is_read = print_hits(text)?;
            Ok(is_read)
        });
        let read = self.read;
        let counts = read.run(kernel, probes, self.count, stdout, &signals, &mut lines)?;
        if is_read {
            print_text(&print::counts(&counts, style))?;
        }
        Ok(signals.finish()?)
    }
}

/// Keys that a terminal has room for.
const ON_TERMINAL: usize = 20;

impl SummaryArgs {
    fn run(self, kernel: &Kernel, specs: &[Spec], returns: bool, timed: Timed) -> Result<u8> {
        let signals = take_signals()?;
        let symbols = Symbols::read().unwrap_or_default();
        let mut specs = specs.to_vec();
        for name in ["stack", "ustack"] {
            if self.by.iter().any(|by| *by == By::Arg(name.to_owned())) {
                specs.iter_mut().for_each(|spec| spec.add_stack(name));
            }
        }
        let probes = self.read.resolve(&specs, returns, &symbols)?;
        self.check_keys(kernel, &probes)?;
        let stdout = self.read.output.redirect()?;
        let terminal = io::stdout().is_terminal() && !self.read.json && !self.folded;
        // Not where a command writes, and lines where the terminal is of no use.
        let screen = (terminal && self.read.command.command.is_empty()).then(Screen::open);
        let screen = screen.and_then(|screen| screen.ok());
        let top = self.top.and_then(|top| usize::try_from(top).ok());
        let style = summary::Style {
            by: self.by,
            timed,
            interval: self.interval,
            top: top.or(terminal.then_some(ON_TERMINAL)),
            json: self.read.json,
            folded: self.folded,
        };
        let mut summary = Summary::new(style, &symbols, screen, print_hits);
        let read = self.read;
        let counts = read.run(kernel, probes, None, stdout, &signals, &mut summary)?;
        summary.finish(counts.dropped)?;
        Ok(signals.finish()?)
    }

    /// Refuses a key that none of the probes, or of all if these are none, has.
    fn check_keys(&self, kernel: &Kernel, probes: &[Wanted]) -> Result<()> {
        for by in &self.by {
            let By::Arg(name) = by else { continue };
            let is_known = match probes.is_empty() {
                true => {
                    let has = |probe: &Probe| probe.args.iter().any(|arg| arg.name == *name);
                    kernel.list()?.iter().any(has)
                }
                false => probes.iter().any(|probe| probe.has_arg(name)),
            };
            anyhow::ensure!(
                is_known,
                "--by {name}: no probe has an argument of this name (ferrotrace probe count 'FUNCTION {name}' --by {name})"
            );
        }
        Ok(())
    }
}

impl TimeArgs {
    fn run(self, kernel: &Kernel) -> Result<u8> {
        let mut specs = Vec::new();
        let timed = match self.since {
            None => Timed::Calls,
            Some(since) if since.place.is_pattern() => {
                anyhow::bail!("--since {}: one probe, not a pattern", since.place)
            }
            Some(since) => {
                specs.push(since);
                Timed::Since(0)
            }
        };
        let returns = timed == Timed::Calls;
        if returns {
            let within = |spec: &&Spec| spec.place.offset != 0 || spec.line.is_some();
            let entry = self.probes.iter().find(within);
            if let Some(spec) = entry {
                anyhow::bail!(
                    "{}: the time of a function, without an offset, or --since",
                    spec.place
                );
            }
        }
        specs.extend(self.probes);
        self.summary.run(kernel, &specs, returns, timed)
    }
}
