// SPDX-License-Identifier: GPL-2.0

//! `ferrotrace trace`.

#![deny(unsafe_code)]

use std::io;
use std::io::IsTerminal;
use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;
use clap::Args;
use clap::Subcommand;

use ferrotrace::events::record::Begun;
use ferrotrace::events::record::Options;
use ferrotrace::events::record::record;
use ferrotrace::file::IoError;
use ferrotrace::functions::available;
use ferrotrace::functions::available::Functions;
use ferrotrace::functions::control::Control;
use ferrotrace::functions::error::Error;
use ferrotrace::functions::glob::Glob;
use ferrotrace::functions::print::CLEAR;
use ferrotrace::functions::print::Style;
use ferrotrace::functions::trace;
use ferrotrace::functions::trace::trace;
use ferrotrace::kernel_dir;
use ferrotrace::pids::Pids;
use ferrotrace::probes::symbols::Symbols;
use ferrotrace::relay::record::take_signals;

use super::note;
use super::print as print_text;
use super::units::CommandArgs;
use super::units::OutputArgs;
use super::units::parse_duration;
use super::units::parse_size;
use super::units::warn_of_numbers;
use super::warn;

/// Functions that a terminal shows if nobody says how many.
const ON_TERMINAL: usize = 20;

#[derive(Debug, Args)]
pub struct TraceArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Count the calls of functions, and how long they take from entry to return, as they come.
    Functions(FunctionsArgs),
    /// Record events of tracefs, which any kernel has, into a recording that "export" and "relay merge" read.
    Record(RecordArgs),
}

#[derive(Debug, Args)]
pub(super) struct RecordArgs {
    /// Events, GROUP:EVENT, such as sched:sched_switch; * stands for any text, as in 'irq:*'. It can be repeated.
    #[arg(short, long = "event", value_name = "EVENT", required = true)]
    pub(super) events: Vec<String>,
    /// The directory to record into, which is created or must be empty.
    #[arg(short, long, value_name = "OUT")]
    pub(super) output: PathBuf,
    /// Write into OUT even if it is not empty.
    #[arg(short, long)]
    pub(super) force: bool,
    /// The size of the buffer of each CPU; that of the kernel without it.
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub(super) buffer: Option<u64>,
    /// Stop after this time; otherwise on SIGINT or SIGTERM.
    #[arg(short, long, value_name = "TIME", value_parser = parse_duration)]
    pub(super) duration: Option<Duration>,
    /// Print what was recorded as JSON.
    #[arg(long)]
    pub(super) json: bool,
    #[command(flatten)]
    pub(super) command: CommandArgs,
    #[arg(skip)]
    pub(super) filters: Vec<(String, String)>,
    #[arg(skip)]
    pub(super) quiet: bool,
}

impl RecordArgs {
    pub(super) fn run(self) -> Result<u8> {
        let signals = take_signals()?;
        let options = Options {
            events: self.events,
            filters: self.filters,
            output: self.output,
            force: self.force,
            duration: self.duration,
            buffer: self.buffer,
        };
        let ready = |begun: &Begun| {
            for odd in &begun.odd {
                warn(&format!(
                    "{odd}; only the bytes of its records can be shown"
                ));
            }
            let doing = format!("recording {} events", begun.events);
            match self.quiet {
                true => Ok(self.command.start_quietly(&signals, None)?),
                false => Ok(self.command.start(&signals, None, &doing)?),
            }
        };
        let metadata = record(&options, &signals, ready)?;
        let records: u64 = metadata.cpus.iter().map(|cpu| cpu.tally.records).sum();
        let lost = metadata.dropped.unwrap_or(0);
        if lost != 0 {
            warn(&format!(
                "{lost} records lost (overwritten); --buffer makes more room"
            ));
        }
        match self.json {
            true => print_text(&format!("{}\n", serde_json::to_string_pretty(&metadata)?))?,
            false if self.quiet => true,
            false => print_text(&format!("{records} records, {lost} lost\n"))?,
        };
        Ok(signals.finish()?)
    }
}

#[derive(Debug, Args)]
pub(super) struct FunctionsArgs {
    /// Functions by name; * stands for any text, ? for any character, [a-z] for one of several.
    #[arg(value_name = "PATTERN", required = true)]
    pub(super) patterns: Vec<Glob>,
    /// Only functions of this module.
    #[arg(short, long, value_name = "MODULE")]
    pub(super) module: Option<String>,
    /// Count calls when they come, and not how long they take, which costs them less.
    #[arg(long)]
    pub(super) no_time: bool,
    /// Report after each such time; on a terminal all calls so far, elsewhere those since the last report.
    #[arg(short, long, value_name = "TIME", value_parser = parse_interval, default_value = "1")]
    pub(super) interval: Duration,
    /// Show so many functions at most; all, but 20 on a terminal, without it.
    #[arg(short = 't', long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) top: Option<u32>,
    /// Stop after this time; otherwise on SIGINT or SIGTERM.
    #[arg(short, long, value_name = "TIME", value_parser = parse_duration)]
    pub(super) duration: Option<Duration>,
    /// Print one JSON object on each line.
    #[arg(long)]
    pub(super) json: bool,
    /// The directory of the module ferrotrace_ftrace_functions.
    #[arg(
        long,
        value_name = "DIR",
        default_value = "/sys/kernel/debug/ferrotrace_ftrace_functions"
    )]
    pub(super) dir: PathBuf,
    /// Count only calls of this process, or of this thread; it can be repeated.
    #[arg(short, long = "pid", value_name = "PID", value_parser = clap::value_parser!(i32).range(0..))]
    pub(super) pids: Vec<i32>,
    #[command(flatten)]
    pub(super) output: OutputArgs,
    #[command(flatten)]
    pub(super) command: CommandArgs,
}

fn parse_interval(text: &str) -> Result<Duration, String> {
    match parse_duration(text)? {
        interval if interval < Duration::from_millis(10) => {
            Err("not at least 0.01 seconds".to_owned())
        }
        interval => Ok(interval),
    }
}

impl TraceArgs {
    pub fn run(self) -> Result<u8> {
        match self.command {
            Command::Functions(args) => {
                note("trace functions", "count or time");
                args.run()
            }
            Command::Record(args) => {
                note("trace record", "record");
                args.run()
            }
        }
    }
}

fn clear_screen() -> Result<(), IoError> {
    io::stdout()
        .write_all(CLEAR.as_bytes())
        .map_err(IoError::stdout)
}

impl FunctionsArgs {
    pub(super) fn run(self) -> Result<u8> {
        let signals = take_signals()?;
        let dir = kernel_dir::find(self.dir, "ferrotrace_ftrace_functions");
        let mut control = Control::open(dir)?;
        let symbols = Symbols::read().unwrap_or_default();
        let functions = Functions::read()?.select(
            &self.patterns,
            self.module.as_deref(),
            &symbols,
            available::is_loaded,
        )?;
        if !self.pids.is_empty() {
            warn_of_numbers();
        }
        let stdout = self.output.redirect()?;
        let terminal = io::stdout().is_terminal() && !self.json;
        let top = self.top.and_then(|top| usize::try_from(top).ok());
        let options = trace::Options {
            interval: self.interval,
            duration: self.duration,
            pids: Pids::new(self.pids),
            style: Style {
                json: self.json,
                timed: !self.no_time,
                top: top.or(terminal.then_some(ON_TERMINAL)),
                terminal,
            },
        };
        let ready = || {
            let doing = format!("tracing {} functions", functions.len());
            Ok(self.command.start(&signals, stdout, &doing)?)
        };
        trace(&mut control, &functions, options, &signals, ready, |text| {
            let printed = match text.strip_prefix(CLEAR) {
                Some(table) => clear_screen().and_then(|()| print_text(table)),
                None => print_text(text),
            };
            printed.map_err(Error::Io)
        })?;
        Ok(signals.finish()?)
    }
}
