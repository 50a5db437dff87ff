// SPDX-License-Identifier: GPL-2.0

//! The verbs: `ferrotrace watch`, `count`, `time`, `stack`, `record` and `show`. Each takes places,
//! `WHAT`, and chooses the mechanism that answers.

#![deny(unsafe_code)]

mod library;
mod record;
mod what;

use std::io;
use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;
use anyhow::bail;
use anyhow::ensure;
use clap::Args;
use clap::Parser;

use ferrotrace::lockdown;
use ferrotrace::probes::condition::Condition;
use ferrotrace::probes::kernel::Kernel;
use ferrotrace::probes::screen::Sort;
use ferrotrace::probes::spec::Spec;
use ferrotrace::probes::spec::value_name;
use ferrotrace::probes::stock::by_thread;
use ferrotrace::probes::summary::By;
use ferrotrace::probes::summary::ValueOf;
use ferrotrace::text::printable;
use ferrotrace::tracepoints::resolve::Tracepoint;

use super::dprobes;
use super::probe;
use super::probe::ManyArgs;
use super::probe::StackOf;
use super::probe::TypesArgs;
use super::probe::summary::CountArgs;
use super::probe::summary::SummaryArgs;
use super::probe::summary::TimeArgs;
use super::probe::summary::ValueWish;
use super::units::CommandArgs;
use super::units::OutputArgs;
use super::units::parse_duration;
use super::units::parse_interval;
use super::warn;
pub use record::ChannelArgs;
pub use record::ChannelRecording;
pub use record::RecordVerb;
pub use record::ShowVerb;
pub use record::Summary;
use what::What;

/// The text on WHAT in the long help of each verb.
pub const WHAT: &str = "\
A place, in one word, quoted if it has blanks: PLACE [ARGUMENT...] [if CONDITION].

  vfs_read  'vfs_*'  vfs_read%return  vfs_read+0x10  vfs_read:12
                         functions of the kernel: patterns, returns, offsets, lines
  ext4:ext4_file_open    a function of a module
  /bin/bash:readline  libc.so.6:malloc
                         functions of programs and libraries
  sched:sched_switch     a tracepoint; its fields are the arguments
  syscall:openat         a system call, with arguments and return value
  FILE.dp                a probe program (watch and record)
  relay:DIR/NAME         a relay channel (record)

An ARGUMENT is [NAME=]EXPRESSION[:TYPE] of a function, such as how->flags:x, or a field of a
tracepoint. A CONDITION compares arguments, pid, comm and cpu, as in pid==12 && comm~ba*; with
||, parentheses and quotes for tracepoints, system calls, and probes by tracefs.";

/// Options that all verbs have, each with the same letter.
#[derive(Debug, Args)]
pub struct CommonArgs {
    /// Only what this process, or this thread, does; it can be repeated.
    #[arg(short, long = "pid", value_name = "PID", value_parser = clap::value_parser!(i32).range(0..))]
    pids: Vec<i32>,
    /// Only what threads of this name do; * stands for any text.
    #[arg(short, long, value_name = "COMM")]
    comm: Option<String>,
    /// Stop after this time; otherwise on SIGINT or SIGTERM.
    #[arg(short, long, value_name = "TIME", value_parser = parse_duration)]
    duration: Option<Duration>,
    /// Print JSON: one object on each line.
    #[arg(long)]
    json: bool,
    /// Say nothing of what is done, and print no summary.
    #[arg(short, long)]
    quiet: bool,
    /// Say which mechanism answers.
    #[arg(short, long, conflicts_with = "quiet")]
    verbose: bool,
    #[command(flatten)]
    types: TypesArgs,
    #[command(flatten)]
    many: ManyArgs,
    /// The directory of the module ferrotrace_kprobe_events.
    #[arg(long, value_name = "DIR", hide = true)]
    dir: Option<PathBuf>,
}

/// Places, sorted by what serves them.
#[derive(Debug, Default)]
pub struct Places {
    specs: Vec<Spec>,
    tracepoints: Vec<Tracepoint>,
    programs: Vec<PathBuf>,
    channels: Vec<PathBuf>,
}

impl CommonArgs {
    fn say(&self, text: &str) {
        if self.verbose {
            // There is nowhere left to report it if this fails.
            let _ = writeln!(io::stderr(), "ferrotrace: {}", printable(text));
        }
    }

    /// Sorts what the user has named, and adds the conditions of `-p` and `-c`.
    fn places(&self, words: &[String]) -> Result<Places> {
        let mut places = Places::default();
        let mut kernel = what::Events::default();
        for word in words {
            match what::parse(word, &mut kernel)? {
                What::Probe(mut spec) => {
                    if let Some(comm) = &self.comm {
                        spec.and(self.by_comm(comm)?);
                    }
                    places.specs.push(*spec);
                }
                What::Event(mut spec) => {
                    if let Some(comm) = &self.comm {
                        spec.and(self.by_comm(comm)?);
                    }
                    let pids = self
                        .pids
                        .iter()
                        .map(|pid| Condition::parse(&format!("pid=={pid}")));
                    let pids = pids.collect::<Result<Vec<_>, _>>()?;
                    if !pids.is_empty() {
                        spec.and(Condition::Any(pids));
                    }
                    places.tracepoints.extend(kernel.read()?.resolve(&spec)?);
                }
                What::Program(path) => places.programs.push(path),
                What::Channel(path) => places.channels.push(path),
            }
        }
        Ok(places)
    }

    fn by_comm(&self, comm: &str) -> Result<Condition> {
        let operator = if comm.contains(['*', '?', '[']) {
            "~"
        } else {
            "=="
        };
        Ok(Condition::parse(&format!("comm{operator}\"{comm}\""))?)
    }

    /// Finds what serves probes, and says so.
    fn kernel(&self, places: &Places) -> Kernel {
        let kernel = Kernel::find(self.dir.clone());
        if !places.specs.is_empty() {
            probe::remove_left(&kernel);
            self.say(&match kernel.is_stock() {
                true => format!("kprobes of tracefs (kprobe_events){}", lockdown::note()),
                false => "probes of the module ferrotrace_kprobe_events; in files of tracefs \
                          (uprobe_events)"
                    .to_owned(),
            });
        }
        kernel
    }

    fn read(
        self,
        places: &mut Places,
        output: OutputArgs,
        command: CommandArgs,
    ) -> probe::ReadArgs {
        probe::ReadArgs {
            types: self.types,
            many: self.many,
            json: self.json,
            duration: self.duration,
            pids: self.pids,
            output,
            command,
            verb: probe::Verb {
                tracepoints: std::mem::take(&mut places.tracepoints),
                is_counted: false,
                is_verb: true,
                quiet: self.quiet,
            },
        }
    }
}

impl Places {
    /// Refuses what a verb cannot do.
    fn only_hits(&self, verb: &str) -> Result<()> {
        if let Some(path) = self.programs.first() {
            bail!(
                "{}: {verb} cannot be had of a probe program, which counts for itself; \"ferrotrace watch\" shows what it \
                 logs, \"ferrotrace kernel dprobes getvars\" its counters",
                path.display()
            );
        }
        self.no_channels(verb)
    }

    fn no_channels(&self, verb: &str) -> Result<()> {
        if let Some(path) = self.channels.first() {
            bail!(
                "relay:{}: {verb} cannot be had of a relay channel; \"ferrotrace record relay:{} -o REC\" records it, and \
                 \"ferrotrace show REC\" shows it",
                path.display(),
                path.display()
            );
        }
        Ok(())
    }
}

/// A command line of a probe program.
#[derive(Debug, Parser)]
struct ProgramLine<T: Args> {
    #[command(flatten)]
    args: T,
}

fn program_args<T: Args>(files: &[PathBuf], more: &[&std::ffi::OsStr]) -> Result<T> {
    let words = [std::ffi::OsStr::new("watch")].into_iter();
    let words = words.chain(more.iter().copied());
    let words = words.chain(files.iter().map(|file| file.as_os_str()));
    Ok(ProgramLine::<T>::try_parse_from(words)?.args)
}

#[derive(Debug, Args)]
pub struct WatchVerb {
    /// Places to watch; without any, the probes that "ferrotrace kernel probes add" has added.
    #[arg(value_name = "WHAT", long_help = WHAT)]
    what: Vec<String>,
    /// Stop after that many hits.
    #[arg(short = 'n', long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    hits: Option<u64>,
    /// Show the registers, of probes by the module.
    #[arg(long)]
    regs: bool,
    /// Show dates and times of day, UTC, instead of seconds of CLOCK_MONOTONIC.
    #[arg(long)]
    wall: bool,
    /// Show the calls that have led to each hit.
    #[arg(long, value_name = "OF", num_args = 0..=1, require_equals = true, default_missing_value = "kernel", requires = "what")]
    stack: Option<StackOf>,
    #[command(flatten)]
    common: CommonArgs,
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    command: CommandArgs,
}

impl WatchVerb {
    pub fn run(self) -> Result<u8> {
        let mut places = self.common.places(&self.what)?;
        places.no_channels("watch")?;
        if !places.programs.is_empty() {
            return self.programs(&places);
        }
        let kernel = self.common.kernel(&places);
        if !places.tracepoints.is_empty() {
            self.common
                .say("tracepoints of tracefs, in an instance of its own");
        }
        for name in self.stack.map_or(&[][..], StackOf::names) {
            places
                .tracepoints
                .iter_mut()
                .for_each(|one| one.add_stack(name));
        }
        let args = probe::WatchArgs {
            probes: std::mem::take(&mut places.specs),
            returns: false,
            count: self.hits,
            regs: self.regs,
            wall: self.wall,
            stack: self.stack,
            read: self.common.read(&mut places, self.output, self.command),
        };
        args.run(&kernel)
    }

    fn programs(self, places: &Places) -> Result<u8> {
        ensure!(
            places.specs.is_empty() && places.tracepoints.is_empty(),
            "a probe program is watched by itself: its records have a channel of their own"
        );
        ensure!(
            self.common.pids.is_empty() && self.common.comm.is_none(),
            "-p and -c: a probe program selects for itself (docs: Documentation/dprobes-programs.rst)"
        );
        let mut args: dprobes::WatchArgs = program_args(&places.programs, &[])?;
        args.count = self.hits;
        args.duration = self.common.duration;
        args.wall = self.wall;
        args.json = self.common.json;
        (args.output, args.force) = self.output.into_parts();
        args.command = self.command;
        self.common
            .say("probe programs, by the module rust_dprobes");
        dprobes::watch(args)
    }
}

/// Options of the verbs that add hits up.
#[derive(Debug, Args)]
struct TableArgs {
    /// Report after each such time; on a terminal all hits so far, elsewhere those since the last
    /// report.
    #[arg(short, long, value_name = "TIME", value_parser = parse_interval, default_value = "1")]
    interval: Duration,
    /// Print only the keys of all hits with their numbers, at the end: with stacks what makes flame
    /// graphs.
    #[arg(long, conflicts_with = "json")]
    folded: bool,
    /// Show so many keys at most; all, but 20 on a terminal, without it.
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    top: Option<u32>,
    #[command(flatten)]
    common: CommonArgs,
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    command: CommandArgs,
}

/// Keys of the verbs that add hits up.
#[derive(Debug, Args)]
struct KeyArgs {
    /// Keys of the sums: place, comm, pid, cpu, ret, errno, stack (the calls in the
    /// kernel), ustack (in user space), or the name of an argument; several with commas.
    #[arg(
        long,
        value_name = "KEY,...",
        value_delimiter = ',',
        default_value = "place"
    )]
    by: Vec<By>,
}

/// Values to add up. Each option takes the same value, and the table has all figures.
#[derive(Debug, Args)]
struct ValueArgs {
    /// Add a histogram of this value for each key: an argument that WHAT names, or an expression,
    /// as for an argument; the field of a tracepoint; ret.
    #[arg(long, value_name = "EXPR")]
    hist: Option<String>,
    /// Add up this value, and sort by the sum.
    #[arg(long, value_name = "EXPR")]
    sum: Option<String>,
    /// Show the least of this value, and sort by it.
    #[arg(long, value_name = "EXPR")]
    min: Option<String>,
    /// Show the greatest of this value, and sort by it.
    #[arg(long, value_name = "EXPR")]
    max: Option<String>,
}

impl ValueArgs {
    fn wish(self) -> Result<Option<ValueWish>> {
        let options = [
            ("--sum", self.sum.as_ref(), Sort::Total),
            ("--max", self.max.as_ref(), Sort::Max),
            ("--min", self.min.as_ref(), Sort::Min),
            ("--hist", self.hist.as_ref(), Sort::Hits),
        ];
        let mut given = options
            .into_iter()
            .filter_map(|(name, text, sort)| Some((name, text?, sort)));
        let Some((name, text, sort)) = given.next() else {
            return Ok(None);
        };
        if let Some((other, another, _)) = given.find(|(_, another, _)| *another != text) {
            bail!("{name} {text}, {other} {another}: one count takes one value");
        }
        Ok(Some(ValueWish {
            text: text.clone(),
            of: ValueOf {
                name: value_name(text).to_owned(),
                has_classes: self.hist.is_some(),
                has_extremes: self.min.is_some() || self.max.is_some(),
                sort,
            },
        }))
    }
}

impl TableArgs {
    fn summary(self, places: &mut Places, by: Vec<By>, value: Option<ValueWish>) -> SummaryArgs {
        SummaryArgs {
            value,
            by,
            interval: self.interval,
            folded: self.folded,
            top: self.top,
            read: self.common.read(places, self.output, self.command),
        }
    }

    fn count(self, what: &[String], by: Vec<By>, value: Option<ValueWish>) -> Result<u8> {
        let mut places = self.common.places(what)?;
        places.only_hits("count")?;
        let kernel = self.common.kernel(&places);
        if !places.tracepoints.is_empty() {
            let threads = self
                .common
                .pids
                .iter()
                .any(|pid| by_thread("==", &pid.to_string()).contains("||"));
            if threads {
                warn("-p: threads that the process starts from now on are not counted");
            }
            self.common.say("tracepoints: histograms of tracefs, which count in the kernel, if they have such keys");
        }
        if !places.specs.is_empty() && kernel.is_stock() {
            self.common
                .say("functions: the same histograms, if they have such keys, or else records");
        }
        let args = CountArgs {
            probes: std::mem::take(&mut places.specs),
            returns: false,
            summary: self.summary(&mut places, by, value),
        };
        args.run(&kernel)
    }
}

#[derive(Debug, Args)]
pub struct CountVerb {
    /// Places; without any, the probes that "ferrotrace kernel probes add" has added.
    #[arg(value_name = "WHAT", long_help = WHAT)]
    what: Vec<String>,
    #[command(flatten)]
    keys: KeyArgs,
    #[command(flatten)]
    values: ValueArgs,
    #[command(flatten)]
    table: TableArgs,
}

impl CountVerb {
    pub fn run(self) -> Result<u8> {
        let value = self.values.wish()?;
        self.table.count(&self.what, self.keys.by, value)
    }
}

#[derive(Debug, Args)]
pub struct StackVerb {
    /// Places.
    #[arg(value_name = "WHAT", required = true, long_help = WHAT)]
    what: Vec<String>,
    /// The side of the calls.
    #[arg(long, value_name = "OF", default_value = "kernel")]
    of: StackOf,
    #[command(flatten)]
    table: TableArgs,
}

impl StackVerb {
    pub fn run(self) -> Result<u8> {
        // From the outside in, as flame graphs have them.
        let by = self
            .of
            .names()
            .iter()
            .rev()
            .map(|name| By::Arg((*name).to_owned()));
        let by = by.collect();
        self.table.count(&self.what, by, None)
    }
}

#[derive(Debug, Args)]
pub struct TimeVerb {
    /// Functions and system calls.
    #[arg(value_name = "WHAT", required = true, long_help = WHAT)]
    what: Vec<String>,
    #[command(flatten)]
    keys: KeyArgs,
    /// Time from the last hit of this place in the same thread, instead of from the entry of the
    /// function.
    #[arg(long, value_name = "WHAT")]
    since: Option<String>,
    #[command(flatten)]
    table: TableArgs,
}

impl TimeVerb {
    pub fn run(self) -> Result<u8> {
        let mut places = self.table.common.places(&self.what)?;
        places.only_hits("time")?;
        let mut since = None;
        if let Some(word) = &self.since {
            let mut first = self.table.common.places(std::slice::from_ref(word))?;
            since = first.specs.pop();
            ensure!(
                since.is_some() && places.tracepoints.is_empty(),
                "--since {word}: takes functions at both ends, not tracepoints or system calls"
            );
        }
        let lasts = |one: &&Tracepoint| one.exit.is_none();
        if let Some(one) = places.tracepoints.iter().find(lasts) {
            bail!(
                "{}: an event has no duration; functions and system calls have one",
                one.place
            );
        }
        let kernel = self.table.common.kernel(&places);
        let args = TimeArgs {
            probes: std::mem::take(&mut places.specs),
            since,
            summary: self.table.summary(&mut places, self.keys.by, None),
        };
        args.run(&kernel)
    }
}
