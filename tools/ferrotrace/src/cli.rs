// SPDX-License-Identifier: GPL-2.0

//! The command line.

#![deny(unsafe_code)]

mod cov;
mod dprobes;
mod hooks;
mod klog;
mod manual;
mod merge;
mod probe;
mod recover;
mod report;
mod trace;
mod units;

use std::ffi::OsStr;
use std::ffi::OsString;
use std::io;
use std::io::IsTerminal;
use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;
use std::time::Instant;

use anyhow::Context;
use anyhow::Result;
use clap::Args;
use clap::Parser;
use clap::Subcommand;
use clap::builder::PossibleValuesParser;
use clap::builder::TypedValueParser;

pub use dprobes::Classic;
pub use dprobes::translate;
use ferrotrace::file::IoError;
use ferrotrace::file::is_stdout_read;
use ferrotrace::relay::channel::Header;
use ferrotrace::relay::list::list;
use ferrotrace::relay::list::table;
use ferrotrace::relay::record;
use ferrotrace::relay::record::record;
use ferrotrace::relay::record::take_signals;
use ferrotrace::relay::stat::Watch;
use ferrotrace::signals::RUNNER;
use ferrotrace::signals::execute;
use ferrotrace::text::printable;
use ferrotrace::text::printable_lines;
use units::CommandArgs;
use units::OutputArgs;
use units::parse_duration;
use units::parse_interval;
use units::parse_length;
use units::parse_size;

/// Records and decodes the kernel's traces, arms the exits on its hooks, probes it, counts and times its functions, and
/// reports what of its code was executed.
#[derive(Debug, Parser)]
#[command(name = "ferrotrace", version = env!("FERROTRACE_VERSION"))]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Relay channels: per-CPU buffers that a kernel client fills.
    #[command(subcommand)]
    Relay(Relay),
    /// Write a recording in another format: the same as relay merge.
    Export(merge::MergeArgs),
    /// Tables of what a recording has, or a page with a timeline.
    Report(report::ReportArgs),
    /// Write a recording of what a channel in memory that survives a reboot had when the kernel died.
    Recover(recover::RecoverArgs),
    /// Log the messages of the kernel's klog() and klog_printk().
    Klog(klog::KlogArgs),
    /// Hooks in the kernel, and the exits that are called where they fire.
    Hooks(hooks::HooksArgs),
    /// Probes on instructions of the running kernel, and on returns of its functions.
    Probe(probe::ProbeArgs),
    /// Calls of the running kernel's functions.
    Trace(trace::TraceArgs),
    /// Probe programs: what to do, and to log, where the kernel or a process comes by.
    Dprobes(dprobes::DprobesArgs),
    /// Coverage: which lines and functions a kernel that counts them has executed.
    Cov(cov::CovArgs),
}

/// What this program and `make install-tools` call, and no user: in no help, page or completion.
#[derive(Debug, Parser)]
#[command(name = "ferrotrace")]
pub enum Internal {
    /// Becomes a command, with the signals that were blocked while it was started.
    #[command(name = RUNNER)]
    Execute(CommandArgs),
    /// Writes the man pages and the completions below a directory.
    #[command(name = manual::NAME)]
    Manual(manual::ManualArgs),
}

impl Internal {
    /// Returns true if the first argument is an internal command.
    pub fn is_meant(first: &OsStr) -> bool {
        [RUNNER, manual::NAME].iter().any(|name| first == *name)
    }

    /// Runs the command. Returns the exit status.
    pub fn run(self) -> Result<u8> {
        match self {
            Internal::Execute(args) => Ok(run_command(&args.command)),
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
    /// Use read(2) instead of mmap.
    #[arg(long)]
    read: bool,
    /// Stop after this time; otherwise on SIGINT or SIGTERM, or when the channel is closed.
    #[arg(short, long, value_name = "TIME", value_parser = parse_duration)]
    duration: Option<Duration>,
    /// Bytes at the start of each sub-buffer that hold its padding, instead of a control file.
    #[arg(
        long,
        value_name = "BYTES",
        default_value = "0",
        value_parser = PossibleValuesParser::new(["0", "4", "8"]).try_map(parse_header)
    )]
    header: Header,
    /// Leave the unfinished sub-buffer at the end to a later reader (mmap and --header only).
    #[arg(long)]
    no_partial: bool,
    /// Write through the page cache, which takes bursts that the disk cannot; otherwise large
    /// pieces of fast channels bypass it.
    #[arg(long)]
    buffered: bool,
    /// For a fast channel: how many unread bytes of a CPU to wait for; 0 for a sub-buffer.
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    watermark: Option<u64>,
    /// Bytes in a sub-buffer, where DIR/subbuf_size does not say it.
    #[arg(short = 'b', long, value_name = "SIZE", value_parser = parse_length)]
    subbuf_size: Option<usize>,
    /// Sub-buffers of each CPU, where DIR/n_subbufs does not say it.
    #[arg(short = 'n', long, value_name = "N")]
    n_subbufs: Option<usize>,
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

fn parse_header(text: String) -> Result<Header, String> {
    text.parse()
        .ok()
        .and_then(Header::from_len)
        .ok_or_else(|| "not 0, 4 or 8".to_owned())
}

impl Cli {
    /// Runs the command. Returns the exit status, which is that of the user's command if one was run.
    pub fn run(self) -> Result<u8> {
        let done = match self.command {
            Command::Relay(Relay::Record(args)) => return args.run(),
            Command::Klog(args) => return args.run(),
            Command::Probe(args) => return args.run(),
            Command::Trace(args) => return args.run(),
            Command::Hooks(args) => return args.run(),
            Command::Dprobes(args) => return args.run(),
            Command::Relay(Relay::List(args)) => args.run(),
            Command::Export(args) => args.run(),
            Command::Report(args) => args.run(),
            Command::Recover(args) => args.run(),
            Command::Relay(Relay::Stat(args)) => args.run(),
            Command::Relay(Relay::Merge(args)) => args.run(),
            Command::Cov(args) => args.run(),
        };
        done.map(|()| 0)
    }
}

fn run_command(command: &[OsString]) -> u8 {
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
        let options = record::Options {
            channel: self.channel,
            output: self.output.clone(),
            force: self.force,
            read: self.read,
            header: self.header,
            partial: !self.no_partial,
            duration: self.duration,
            buffered: self.buffered,
            watermark: self.watermark,
            subbuf_size: self.subbuf_size,
            n_subbufs: self.n_subbufs,
            quiet: self.quiet || !io::stderr().is_terminal(),
            command: self.command.command,
        };
        let metadata = record(&options, &signals)?;
        let status = signals.finish()?;
        for cpu in &metadata.cpus {
            for warning in &cpu.tally.warnings {
                warn(&format!("cpu {}: {warning}", cpu.cpu));
            }
        }
        if self.json {
            print(&format!("{}\n", serde_json::to_string_pretty(&metadata)?))?;
        } else {
            print(&record::summary(&metadata, &self.output))?;
        }
        Ok(status)
    }
}

impl ListArgs {
    fn run(self) -> Result<()> {
        let channels = list(&self.dir)?;
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
