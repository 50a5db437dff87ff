// SPDX-License-Identifier: GPL-2.0

//! The command line.

#![deny(unsafe_code)]

mod cov;
mod doctor;
mod dprobes;
mod graph;
mod help;
mod hooks;
mod klog;
mod manual;
mod merge;
mod probe;
mod recover;
mod report;
mod trace;
mod units;
mod verbs;
mod why;

use std::ffi::OsStr;
use std::ffi::OsString;
use std::io;
use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;
use std::time::Instant;

use anyhow::Context;
use anyhow::Result;
use clap::Args;
use clap::Parser;
use clap::Subcommand;

pub use dprobes::Classic;
pub use dprobes::translate;
use ferrotrace::file::IoError;
use ferrotrace::file::is_stdout_read;
use ferrotrace::kernel_dir;
use ferrotrace::relay::list::list;
use ferrotrace::relay::list::table;
use ferrotrace::relay::record::take_signals;
use ferrotrace::relay::stat::Watch;
use ferrotrace::signals::RUNNER;
use ferrotrace::signals::STOPPED_RUNNER;
use ferrotrace::signals::execute;
use ferrotrace::signals::execute_later;
use ferrotrace::text::printable;
use ferrotrace::text::printable_lines;
use units::CommandArgs;
use units::OutputArgs;
use units::parse_duration;
use units::parse_interval;

/// The environment variable that keeps notes on old spellings away.
const NO_NOTES: &str = "FERROTRACE_NO_NOTES";

/// Watches, counts, times and records what happens in the kernel and in programs, and reports what of the kernel's code was
/// executed.
#[derive(Debug, Parser)]
#[command(name = "ferrotrace", version = env!("FERROTRACE_VERSION"), before_long_help = help::ALL)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Show what happens at places, one line a hit, as it comes.
    #[command(before_long_help = help::WATCH)]
    Watch(verbs::WatchVerb),
    /// Count hits of places by keys, live.
    #[command(before_long_help = help::COUNT)]
    Count(verbs::CountVerb),
    /// Show how long functions and system calls take, live: by keys, and as a histogram.
    #[command(before_long_help = help::TIME)]
    Time(verbs::TimeVerb),
    /// Count the calls that lead to places.
    #[command(before_long_help = help::STACK)]
    Stack(verbs::StackVerb),
    /// Record hits, or a relay channel, for later.
    #[command(before_long_help = help::RECORD)]
    Record(verbs::RecordVerb),
    /// Show a recording: its records as text or JSON, in the order of their times.
    #[command(before_long_help = help::SHOW)]
    Show(verbs::ShowVerb),
    /// Write a recording in another format: a trace, a timeline, or a table.
    #[command(before_long_help = help::EXPORT)]
    Export(merge::MergeArgs),
    /// Tables of what a recording has, or a page with a timeline.
    #[command(before_long_help = help::REPORT)]
    Report(report::ReportArgs),
    /// Write a recording of what a channel in memory that survives a reboot had when the kernel died.
    #[command(before_long_help = help::RECOVER)]
    Recover(recover::RecoverArgs),
    /// The kernel's calls of a command as a tree, with times and return values.
    Graph(graph::GraphArgs),
    /// Which system call of a command failed, and the function of the kernel where the error arose.
    Why(why::WhyArgs),
    /// Coverage: which lines and functions a kernel that counts them has executed.
    #[command(before_long_help = help::COV)]
    Cov(cov::CovArgs),
    /// Shows which commands work on this machine, why others do not, and how to mend that.
    ///
    /// Changes nothing. Any user can run it; root sees more. Each line of the report begins with
    /// "ok", "warn" or "no". After "run:" it has the command that mends it, if there is one.
    ///
    /// The exit status is 1 if there is such a command in a line "no", and 0 if all works that this
    /// kernel can do.
    #[command(before_long_help = help::DOCTOR)]
    Doctor(doctor::DoctorArgs),
    /// The state of things in the kernel: probes, hooks, channels, probe programs, klog.
    #[command(subcommand, before_long_help = help::KERNEL)]
    Kernel(Kernel),
    /// The old spelling of "record relay:...", "kernel relay" and "show".
    #[command(subcommand, hide = true)]
    Relay(Relay),
    /// The old spelling of "kernel klog".
    #[command(hide = true)]
    Klog(klog::KlogArgs),
    /// The old spelling of "kernel hooks".
    #[command(hide = true)]
    Hooks(hooks::HooksArgs),
    /// The old spelling of "watch", "count", "time" and "kernel probes".
    #[command(hide = true)]
    Probe(probe::ProbeArgs),
    /// The old spelling of "count", "time" and "record".
    #[command(hide = true)]
    Trace(trace::TraceArgs),
    /// The old spelling of "watch", "record" and "kernel dprobes".
    #[command(hide = true)]
    Dprobes(dprobes::DprobesArgs),
}

#[derive(Debug, Subcommand)]
enum Kernel {
    /// Probes that stay until they are removed.
    Probes(probe::StateArgs),
    /// Hooks in the kernel, and the exits that are called where they fire.
    #[command(mut_subcommand("watch", |watch| watch.mut_arg("count", |arg| arg.short(None))))]
    Hooks(hooks::HooksArgs),
    /// Relay channels: per-CPU buffers that a kernel client fills.
    #[command(subcommand)]
    Relay(KernelRelay),
    /// Probe programs that are loaded.
    Dprobes(dprobes::DprobesArgs),
    /// Log the messages of the kernel's klog() and klog_printk().
    #[command(mut_arg("n_subbufs", |arg| arg.short(None)))]
    Klog(klog::KlogArgs),
}

#[derive(Debug, Subcommand)]
enum KernelRelay {
    /// Find the channels that there are.
    List(ListArgs),
    /// Show the sizes and the counters of a channel: how full it is, and what was lost.
    #[command(mut_arg("count", |arg| arg.short(None)))]
    Stat(StatArgs),
}

/// What this program and `make install-tools` call, and no user: in no help, page or completion.
#[derive(Debug, Parser)]
#[command(name = "ferrotrace")]
pub enum Internal {
    /// Becomes a command, with the signals that were blocked while it was started.
    #[command(name = RUNNER)]
    Execute(CommandArgs),
    /// The same, once it is continued.
    #[command(name = STOPPED_RUNNER)]
    ExecuteLater(CommandArgs),
    /// Writes the man pages and the completions below a directory.
    #[command(name = manual::NAME)]
    Manual(manual::ManualArgs),
}

impl Internal {
    /// Returns true if the first argument is an internal command.
    pub fn is_meant(first: &OsStr) -> bool {
        [RUNNER, STOPPED_RUNNER, manual::NAME]
            .iter()
            .any(|name| first == *name)
    }

    /// Runs the command. Returns the exit status.
    pub fn run(self) -> Result<u8> {
        match self {
            Internal::Execute(args) => Ok(run_command(&args.command, execute)),
            Internal::ExecuteLater(args) => Ok(run_command(&args.command, execute_later)),
            Internal::Manual(args) => args.run().map(|()| 0),
        }
    }
}

#[derive(Debug, Subcommand)]
enum Relay {
    /// Drain a channel into a directory, one file for each CPU.
    Record(RecordArgs),
    /// Find the channels that there are.
    List(ListArgs),
    /// Show the sizes and the counters of a channel: how full it is, and what was lost.
    Stat(StatArgs),
    /// Put the records of a recording in the order of their times: as text, JSON or a trace.
    #[command(visible_alias = "report")]
    Merge(merge::MergeArgs),
}

#[derive(Debug, Args)]
struct RecordArgs {
    /// The channel: the directory and the base name of its relay files, without the CPU's number.
    #[arg(value_name = "DIR/NAME")]
    channel: PathBuf,
    /// The directory to record into, which is created or must be empty.
    #[arg(short, long, value_name = "OUT")]
    output: PathBuf,
    /// Write into OUT even if it is not empty.
    #[arg(short, long)]
    force: bool,
    /// Stop after this time; otherwise on SIGINT or SIGTERM, or when the channel is closed.
    #[arg(short, long, value_name = "TIME", value_parser = parse_duration)]
    duration: Option<Duration>,
    #[command(flatten)]
    options: verbs::ChannelArgs,
    /// Show no rate while recording.
    #[arg(short, long)]
    quiet: bool,
    /// Print the summary as JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    command: CommandArgs,
}

#[derive(Debug, Args)]
struct ListArgs {
    /// Where to look for channels, in all directories below it.
    #[arg(long, value_name = "DIR", default_value = "/sys/kernel/debug")]
    dir: PathBuf,
    /// Print one JSON document.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    output: OutputArgs,
}

#[derive(Debug, Args)]
struct StatArgs {
    /// The channel: the directory and the base name of its relay files, without the CPU's number.
    #[arg(value_name = "DIR/NAME")]
    channel: PathBuf,
    /// Repeat after this time, until the channel is closed; 1 second if only --count is given.
    #[arg(short, long, value_name = "TIME", value_parser = parse_interval)]
    interval: Option<Duration>,
    /// Show the state that many times.
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    /// Print one JSON object on each line.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    output: OutputArgs,
}

impl Cli {
    /// Runs the command. Returns the exit status, which is that of the user's command if one was run.
    pub fn run(self) -> Result<u8> {
        let done = match self.command {
            Command::Watch(args) => return args.run(),
            Command::Count(args) => return args.run(),
            Command::Time(args) => return args.run(),
            Command::Stack(args) => return args.run(),
            Command::Record(args) => return args.run(),
            Command::Graph(args) => return args.run(),
            Command::Why(args) => return args.run(),
            Command::Kernel(Kernel::Klog(args)) => return args.run(),
            Command::Kernel(Kernel::Hooks(args)) => return args.run(),
            Command::Kernel(Kernel::Dprobes(args)) => return args.run(),
            Command::Doctor(args) => return args.run(),
            Command::Kernel(Kernel::Probes(args)) => args.run(),
            Command::Kernel(Kernel::Relay(KernelRelay::List(args))) => args.run(),
            Command::Kernel(Kernel::Relay(KernelRelay::Stat(args))) => args.run(),
            Command::Show(args) => args.run(),
            Command::Export(args) => args.run(),
            Command::Report(args) => args.run(),
            Command::Recover(args) => args.run(),
            Command::Cov(args) => return args.run(),
            Command::Relay(Relay::Record(args)) => {
                note("relay record", "record relay:DIR/NAME");
                return args.run();
            }
            Command::Klog(args) => {
                note("klog", "kernel klog");
                return args.run();
            }
            // These say it themselves.
            Command::Probe(args) => return args.run(),
            Command::Trace(args) => return args.run(),
            Command::Hooks(args) => {
                note("hooks", "kernel hooks");
                return args.run();
            }
            Command::Dprobes(args) => {
                note("dprobes", args.new_spelling());
                return args.run();
            }
            Command::Relay(Relay::List(args)) => {
                note("relay list", "kernel relay list");
                args.run()
            }
            Command::Relay(Relay::Stat(args)) => {
                note("relay stat", "kernel relay stat");
                args.run()
            }
            Command::Relay(Relay::Merge(args)) => {
                note("relay merge", "show or export");
                args.run()
            }
        };
        done.map(|()| 0)
    }
}

/// Says once how an old spelling is written now, unless the environment has FERROTRACE_NO_NOTES.
fn note(old: &str, new: &str) {
    if std::env::var_os(NO_NOTES).is_none() {
        // There is nowhere left to report it if this fails.
        let _ = writeln!(
            io::stderr(),
            "ferrotrace: note: {old} is an old spelling; the next version has only: ferrotrace {new}"
        );
    }
}

fn run_command(command: &[OsString], execute: fn(&[OsString]) -> (u8, io::Error)) -> u8 {
    let (status, error) = execute(command);
    let program = command.first().cloned().unwrap_or_default();
    // There is nowhere left to report it if this fails.
    let _ = writeln!(
        io::stderr(),
        "ferrotrace: {}: cannot be run: {error}",
        printable(&program.to_string_lossy())
    );
    status
}

/// Writes to stdout, with control characters escaped. A reader that has gone, such as `head`, is
/// not an error. Returns whether there still is one, also where `text` is empty.
fn print(text: &str) -> Result<bool, IoError> {
    if text.is_empty() {
        return Ok(is_stdout_read());
    }
    let mut out = io::stdout().lock();
    match out
        .write_all(printable_lines(text).as_bytes())
        .and_then(|()| out.flush())
    {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(IoError::stdout(error)),
    }
}

fn warn(text: &str) {
    // There is nowhere left to report it if this fails.
    let _ = writeln!(
        io::stderr(),
        "ferrotrace: warning: {}",
        printable_lines(text)
    );
}

impl RecordArgs {
    fn run(self) -> Result<u8> {
        let signals = take_signals()?;
        let recording = verbs::ChannelRecording {
            channel: self.channel,
            output: self.output,
            force: self.force,
            duration: self.duration,
            quiet: self.quiet,
            summary: verbs::Summary::of(self.json, false),
            command: self.command.command,
        };
        self.options.record(recording, &signals)
    }
}

impl ListArgs {
    fn run(self) -> Result<()> {
        let channels = list(&kernel_dir::find(self.dir, "ferrotrace_core"))?;
        self.output.redirect()?;
        let text = match self.json {
            true => {
                let document = serde_json::json!({ "channels": channels });
                format!("{}\n", serde_json::to_string_pretty(&document)?)
            }
            false => table(&channels),
        };
        print(&text)?;
        Ok(())
    }
}

impl StatArgs {
    fn run(self) -> Result<()> {
        let signals = take_signals()?;
        let mut watch = Watch::open(&self.channel)?;
        self.output.redirect()?;
        let mut left = match (self.count, self.interval) {
            (Some(count), _) => count,
            (None, Some(_)) => u64::MAX,
            (None, None) => 1,
        };
        let mut stat = watch.look()?;
        while left > 0 {
            let text = if self.json {
                format!("{}\n", serde_json::to_string(&stat)?)
            } else {
                stat.to_string()
            };
            left -= 1;
            if !print(&text)? || left == 0 || stat.is_closed() {
                break;
            }
            let interval = self.interval.unwrap_or(Duration::from_secs(1));
            let Some(due) = Instant::now().checked_add(interval) else {
                break;
            };
            let mut is_stopped = false;
            while !is_stopped && Instant::now() < due {
                is_stopped = signals.wait(due).context("cannot wait for signals")?;
            }
            if is_stopped {
                break;
            }
            stat = match watch.look() {
                Err(error) if error.is_gone() => break,
                other => other?,
            };
        }
        Ok(())
    }
}
