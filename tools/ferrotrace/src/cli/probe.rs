// SPDX-License-Identifier: GPL-2.0

//! `ferrotrace probe`.

#![deny(unsafe_code)]

pub(super) mod summary;

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
use ferrotrace::lockdown;
use ferrotrace::pids::Pids;
use ferrotrace::probes::error::Error;
use ferrotrace::probes::kernel::Kernel;
use ferrotrace::probes::model::Probe;
use ferrotrace::probes::model::parse_name;
use ferrotrace::probes::print;
use ferrotrace::probes::print::Style;
use ferrotrace::probes::resolve::Resolver;
use ferrotrace::probes::resolve::Wanted;
use ferrotrace::probes::spec::Spec;
use ferrotrace::probes::symbols::Symbols;
use ferrotrace::probes::types::Source;
use ferrotrace::probes::watch;
use ferrotrace::probes::watch::Lines;
use ferrotrace::probes::watch::Show;
use ferrotrace::probes::watch::remove_abandoned;
use ferrotrace::probes::watch::watch;
use ferrotrace::relay::record::take_signals;
use ferrotrace::signals::StopSignals;
use ferrotrace::tracepoints::resolve::Tracepoint;

use super::note;
use super::print as print_text;
use super::units::CommandArgs;
use super::units::OutputArgs;
use super::units::parse_duration;
use super::units::warn_of_numbers;
use super::warn;
use summary::CountArgs;
use summary::TimeArgs;

/// More probes are not added unasked.
const MANY: usize = 1000;

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
pub(super) struct TypesArgs {
    /// A file with the kernel's types as BTF, instead of the running kernel's.
    #[arg(long, value_name = "FILE", conflicts_with = "vmlinux")]
    pub(super) btf: Option<PathBuf>,
    /// A kernel with debugging information (DWARF), the one that runs, or one of its modules.
    #[arg(long, value_name = "FILE")]
    pub(super) vmlinux: Option<PathBuf>,
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
pub(super) struct AddArgs {
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
    #[command(flatten)]
    many: ManyArgs,
}

/// How many probes there may be.
#[derive(Debug, Args)]
pub(super) struct ManyArgs {
    /// Do not ask whether patterns are to stand for more than 1000 functions.
    #[arg(long)]
    pub(super) yes: bool,
}

impl ManyArgs {
    /// Asks before so many probes are added, where there is a terminal, and refuses it where there
    /// is none.
    fn check(&self, probes: usize) -> Result<()> {
        if self.yes || probes <= MANY {
            return Ok(());
        }
        let text = format!(
            "these are {probes} probes: adding them can take minutes, and the machine is slower as long as they are there"
        );
        if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
            anyhow::bail!("{text}; --yes adds them, a narrower pattern fewer");
        }
        let mut answer = String::new();
        // There is nowhere left to report it if this fails.
        let _ = write!(io::stderr(), "ferrotrace: {text}. Go on? [y/N] ");
        let read = io::stdin().read_line(&mut answer);
        read.context("cannot read the answer")?;
        anyhow::ensure!(
            matches!(answer.trim(), "y" | "Y" | "yes"),
            "no probes were added"
        );
        Ok(())
    }
}

#[derive(Debug, Args)]
pub(super) struct ListArgs {
    /// Print one JSON document.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    output: OutputArgs,
}

#[derive(Debug, Args)]
pub(super) struct RemoveArgs {
    /// The probes.
    #[arg(value_name = "NAME", required_unless_present = "all", value_parser = parse_name)]
    names: Vec<String>,
    /// Remove all probes.
    #[arg(long, conflicts_with = "names")]
    all: bool,
}

/// What all commands have that read hits.
#[derive(Debug, Args)]
pub(super) struct ReadArgs {
    #[command(flatten)]
    pub(super) types: TypesArgs,
    #[command(flatten)]
    pub(super) many: ManyArgs,
    /// Print one JSON object on each line.
    #[arg(long)]
    pub(super) json: bool,
    /// Stop after this time.
    #[arg(short, long, value_name = "TIME", value_parser = parse_duration)]
    pub(super) duration: Option<Duration>,
    /// Take only hits of this process, or of this thread; it can be repeated.
    #[arg(short, long = "pid", value_name = "PID", value_parser = clap::value_parser!(i32).range(0..))]
    pub(super) pids: Vec<i32>,
    #[command(flatten)]
    pub(super) output: OutputArgs,
    #[command(flatten)]
    pub(super) command: CommandArgs,
    #[arg(skip)]
    pub(super) verb: Verb,
}

/// Additions for the verbs.
#[derive(Debug, Default)]
pub(super) struct Verb {
    /// Tracepoints and system calls.
    pub(super) tracepoints: Vec<Tracepoint>,
    /// True if the kernel counts the hits of others.
    pub(super) is_counted: bool,
    /// True for a verb: it has one word for loss, and counts the hits of its command alone.
    pub(super) is_verb: bool,
    /// Say nothing of what is done, and print no summary.
    pub(super) quiet: bool,
}

#[derive(Debug, Args)]
pub(super) struct WatchArgs {
    /// Add these probes, and remove them at the end. They are given as for "probe add".
    #[arg(value_name = "PROBE")]
    pub(super) probes: Vec<Spec>,
    /// Probe the return of these functions.
    #[arg(short, long = "return", requires = "probes")]
    pub(super) returns: bool,
    /// Stop after that many hits; otherwise on SIGINT or SIGTERM.
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(super) count: Option<u64>,
    /// Show the registers.
    #[arg(long)]
    pub(super) regs: bool,
    /// Show dates and times of day, UTC, instead of seconds of CLOCK_MONOTONIC.
    #[arg(long)]
    pub(super) wall: bool,
    /// Show the calls that have led to each hit of these probes.
    #[arg(long, value_name = "OF", num_args = 0..=1, require_equals = true, default_missing_value = "kernel", requires = "probes")]
    pub(super) stack: Option<StackOf>,
    #[command(flatten)]
    pub(super) read: ReadArgs,
}

/// Output of `--json`.
#[derive(Serialize)]
struct Document<'a> {
    probes: &'a [Probe],
}

impl ProbeArgs {
    pub fn run(self) -> Result<u8> {
        let kernel = find(self.dir);
        if !matches!(self.command, Command::List(_) | Command::Remove(_)) {
            remove_left(&kernel);
        }
        let done = match self.command {
            Command::Add(args) => args.run(&kernel),
            Command::List(args) => args.run(&kernel),
            Command::Remove(args) => args.run(&kernel),
            Command::Watch(args) => {
                note("probe watch", "watch");
                return args.run(&kernel);
            }
            Command::Count(args) => {
                note("probe count", "count");
                return args.run(&kernel);
            }
            Command::Time(args) => {
                note("probe time", "time");
                return args.run(&kernel);
            }
        };
        note("probe add, list and remove", "kernel probes");
        done.map(|()| 0)
    }
}

/// `ferrotrace kernel probes`.
#[derive(Debug, Args)]
pub struct StateArgs {
    #[command(subcommand)]
    command: State,
    /// The directory of the module ferrotrace_kprobe_events. Without it that in /sys/kernel/debug is used, or, if there is
    /// none, kprobe_events of tracefs.
    #[arg(long, value_name = "DIR", global = true)]
    dir: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
enum State {
    /// Add probes, which stay until they are removed: all that are listed, or none.
    Add(AddArgs),
    /// Show the probes, and how often they were hit.
    List(ListArgs),
    /// Remove probes.
    Remove(RemoveArgs),
}

impl StateArgs {
    pub fn run(self) -> Result<()> {
        let kernel = find(self.dir);
        match self.command {
            State::Add(args) => {
                remove_left(&kernel);
                args.run(&kernel)
            }
            State::List(args) => args.run(&kernel),
            State::Remove(args) => args.run(&kernel),
        }
    }
}

/// Finds the mechanism for probes, and says if it is not the module.
fn find(dir: Option<PathBuf>) -> Kernel {
    let kernel = Kernel::find(dir);
    if kernel.is_stock() {
        // There is nowhere left to report it if this fails.
        let _ = writeln!(
            io::stderr(),
            "ferrotrace: without the module ferrotrace_kprobe_events, \
             kprobe_events of tracefs serves instead{}",
            lockdown::note()
        );
    }
    kernel
}

/// Removes what killed processes have left.
pub(super) fn remove_left(kernel: &Kernel) {
    // What is wrong will also be wrong with what is to be done.
    let left = remove_abandoned(kernel).unwrap_or(0);
    if left != 0 {
        warn(&format!(
            "removed {left} probes that had been left when their \"ferrotrace\" was killed"
        ));
    }
}

/// Whose stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum StackOf {
    /// The calls in the kernel.
    Kernel,
    /// The calls in user space that have led to the system call or the interrupt.
    User,
    /// Both.
    Both,
}

impl StackOf {
    /// The names of the arguments that are these stacks.
    pub(super) fn names(self) -> &'static [&'static str] {
        match self {
            Self::Kernel => &["stack"],
            Self::User => &["ustack"],
            Self::Both => &["stack", "ustack"],
        }
    }
}

/// Has probes read stacks.
pub(super) fn add_stacks(specs: &mut [Spec], of: Option<StackOf>) {
    for spec in specs {
        for name in of.map_or(&[][..], StackOf::names) {
            spec.add_stack(name);
        }
    }
}

/// Resolves specifications into probes for the kernel.
fn resolve(
    specs: &[Spec],
    returns: bool,
    types: &TypesArgs,
    many: &ManyArgs,
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
    many.check(all.iter().filter(|probe| probe.refused.is_none()).count())?;
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
        let wanted = resolve(&specs, self.returns, &self.types, &self.many, &symbols)?;
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
    let added = kernel.add(wanted, || signals.has_come())?;
    warn_of_refused(&added.refused);
    Ok(added.names)
}

/// Warns of functions that match a pattern, and that the kernel refuses.
pub(super) fn warn_of_refused(refused: &[Error]) {
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
    /// Reads the names of addresses. Reads none if no address will be shown, as of most
    /// tracepoints, because reading takes time.
    pub(super) fn symbols(&self, specs: &[Spec]) -> Symbols {
        let tracepoints = &self.verb.tracepoints;
        let only_values = specs.is_empty() && !tracepoints.is_empty();
        match only_values && !tracepoints.iter().any(Tracepoint::has_addresses) {
            true => Symbols::default(),
            false => Symbols::read().unwrap_or_default(),
        }
    }

    /// The temporary probes.
    fn resolve(&self, specs: &[Spec], returns: bool, symbols: &Symbols) -> Result<Vec<Wanted>> {
        let probes = resolve(specs, returns, &self.types, &self.many, symbols)?;
        Ok(selected(probes, &self.pids, symbols))
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
        let lost = self.verb.is_verb;
        let options = self.options(probes, count);
        let ready = |refused: &[Error]| self.start(refused, signals, stdout);
        let counts = watch(kernel, options, signals, ready, show)?;
        let is_lost = counts.lost_in_kernel() != 0 || counts.overwritten != 0;
        if lost && is_lost {
            warn(&format!("hits are missing: {}", print::lost(&counts)));
        }
        Ok(counts)
    }

    fn options(&self, probes: Vec<Wanted>, count: Option<u64>) -> watch::Options {
        let pids = Pids::new(self.pids.clone());
        watch::Options {
            probes,
            others: self.verb.is_counted || !self.verb.tracepoints.is_empty(),
            tracepoints: self.verb.tracepoints.clone(),
            count,
            duration: self.duration,
            pids: match self.verb.is_verb {
                true => pids.without_own(),
                false => pids,
            },
            of_command: self.selects_command(),
        }
    }

    /// Returns true if only the hits of the command and its children are wanted.
    fn selects_command(&self) -> bool {
        self.verb.is_verb && self.pids.is_empty() && !self.command.command.is_empty()
    }

    /// Starts the command, once the probes exist. `refused` has the reasons why others do not.
    fn start(
        &self,
        refused: &[Error],
        signals: &StopSignals,
        stdout: Option<OwnedFd>,
    ) -> Result<(), Error> {
        warn_of_refused(refused);
        match self.verb.quiet {
            true => Ok(self.command.start_quietly(signals, stdout)?),
            false => Ok(self.command.start(signals, stdout, "watching")?),
        }
    }
}

/// Probes with the condition of `-p`. Warns of functions of the same name.
fn selected(mut probes: Vec<Wanted>, pids: &[i32], symbols: &Symbols) -> Vec<Wanted> {
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
    if let [pid] = pids[..] {
        probes.iter_mut().for_each(|probe| probe.only(pid));
    }
    if !pids.is_empty() || probes.iter().any(Wanted::is_by_pid) {
        warn_of_numbers();
    }
    probes
}

/// The temporary probes of a recording, whose hits the kernel has to select.
pub(super) fn wanted(
    specs: &[Spec],
    types: &TypesArgs,
    many: &ManyArgs,
    pids: &[i32],
    symbols: &Symbols,
) -> Result<Vec<Wanted>> {
    anyhow::ensure!(
        specs.is_empty() || pids.len() <= 1,
        "-p: a recording of functions takes one process"
    );
    let probes = resolve(specs, false, types, many, symbols)?;
    Ok(selected(probes, pids, symbols))
}

/// Prints for the library. Returns whether there still is a reader.
fn print_hits(text: &str) -> Result<bool, Error> {
    print_text(text).map_err(Error::Io)
}

impl WatchArgs {
    pub(super) fn run(self, kernel: &Kernel) -> Result<u8> {
        if kernel.is_stock() && self.regs {
            return Err(Error::Stock("--regs".to_owned()).into());
        }
        let symbols = self.read.symbols(&self.probes);
        let mut specs = self.probes;
        add_stacks(&mut specs, self.stack);
        let probes = self.read.resolve(&specs, self.returns, &symbols)?;
        // Until then they end a question.
        let signals = take_signals()?;
        let stdout = self.read.output.redirect()?;
        let wall = match self.wall {
            true => Some(wall_offset().context("cannot read the clock")?),
            false => None,
        };
        let style = Style {
            json: self.read.json,
            registers: self.regs,
            wall,
            lost: self.read.verb.is_verb,
        };
        let mut is_read = true;
        let mut lines = Lines::new(style, &symbols, |text: &str| {
            is_read = print_hits(text)?;
            Ok(is_read)
        });
        let read = self.read;
        let quiet = read.verb.quiet;
        let counts = read.run(kernel, probes, self.count, stdout, &signals, &mut lines)?;
        if is_read && !quiet {
            print_text(&print::counts(&counts, style))?;
        }
        Ok(signals.finish()?)
    }
}
