// SPDX-License-Identifier: GPL-2.0

//! `ferrotrace graph`.

#![deny(unsafe_code)]

use std::cell::RefCell;
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::path::PathBuf;
use std::time::Duration;
use std::time::Instant;

use anyhow::Context;
use anyhow::Result;
use clap::Args;

use ferrotrace::file::CreateError;
use ferrotrace::file::create;
use ferrotrace::functions::glob::Glob;
use ferrotrace::graph::error::Error;
use ferrotrace::graph::exec::AfterExec;
use ferrotrace::graph::flame::Stacks;
use ferrotrace::graph::names::Names;
use ferrotrace::graph::print::Printer;
use ferrotrace::graph::session::Options;
use ferrotrace::graph::session::Session;
use ferrotrace::graph::session::comm;
use ferrotrace::graph::session::threads_of;
use ferrotrace::graph::tree::Builder;
use ferrotrace::graph::tree::Counts;
use ferrotrace::graph::tree::Entry;
use ferrotrace::graph::tree::Item;
use ferrotrace::graph::tree::Select;
use ferrotrace::relay::record::take_signals;
use ferrotrace::signals::CommandError;
use ferrotrace::signals::StopSignals;

use super::print;
use super::units::CommandArgs;
use super::units::OutputArgs;
use super::units::parse_duration;
use super::units::parse_size;
use super::units::warn_of_numbers;
use super::warn;

#[derive(Debug, Args)]
pub struct GraphArgs {
    /// Show calls of this function, with the calls that it makes; * stands for any text. It can be
    /// repeated.
    #[arg(short = 'g', long = "function", value_name = "FUNCTION")]
    functions: Vec<Glob>,
    /// Show so many levels of calls.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    depth: Option<u16>,
    /// Fold calls that are shorter than this.
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    min: Option<Duration>,
    /// Record return values also where the kernel needs a probe on all functions for them, which
    /// slows down every process. They are always there with CONFIG_FUNCTION_GRAPH_RETVAL.
    #[arg(long)]
    returns: bool,
    /// Trace this process and its children instead of a command; it can be repeated.
    #[arg(short, long = "pid", value_name = "PID", value_parser = clap::value_parser!(i32).range(1..))]
    #[arg(conflicts_with = "command")]
    pids: Vec<i32>,
    /// Write a flame graph of the time to this file, instead of the tree.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["json", "output"])]
    svg: Option<PathBuf>,
    /// Print one JSON object for each call.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    recording: RecordingArgs,
}

/// Options of a recording.
#[derive(Debug, Args)]
pub struct RecordingArgs {
    /// Stop after this time; otherwise at the end of the command, or on SIGINT or SIGTERM.
    #[arg(short, long, value_name = "TIME", value_parser = parse_duration)]
    duration: Option<Duration>,
    /// The size of the buffer of each CPU.
    #[arg(long, value_name = "SIZE", default_value = "16M", value_parser = parse_size)]
    pub buffer: u64,
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    pub command: CommandArgs,
}

/// Figures of a recording that has ended.
pub struct Totals {
    counts: Counts,
    /// Records that found no room.
    pub lost: u64,
    /// Records that were read too late.
    late: u64,
    /// True if calls have return values.
    has_values: bool,
}

impl RecordingArgs {
    /// Redirects the output, and starts the command up to its exec, if there is one. Returns its
    /// process.
    pub fn prepare(&self, signals: &StopSignals) -> Result<Option<i32>> {
        let stdout = self.output.redirect()?;
        let command = &self.command.command;
        if command.is_empty() {
            return Ok(None);
        }
        let prepared = signals.prepare(command, stdout);
        Ok(Some(prepared.map_err(CommandError::from)?.as_raw()))
    }

    /// Records calls, from the exec of `child` on if that is the command. Passes on the history of
    /// threads until `to` returns false.
    pub fn record(
        &self,
        signals: &StopSignals,
        child: Option<i32>,
        options: &Options,
        select: Select,
        mut to: impl FnMut(Entry) -> Result<bool, Error>,
    ) -> Result<Totals> {
        let mut session = Session::open(options)?;
        let select = Select {
            probed: session.is_probed(),
            ..select
        };
        let mut builder = Builder::new(select, comm);
        let mut after = AfterExec::new(child);
        // There is nowhere left to report it if this fails.
        let _ = writeln!(std::io::stderr(), "ferrotrace: tracing calls; Ctrl-C ends");
        session.start()?;
        signals.release().map_err(CommandError::from)?;
        let end = self.duration;
        let end = end.and_then(|duration| Instant::now().checked_add(duration));
        let wanted = RefCell::new(Ok(true));
        let mut pass = |entry| {
            if matches!(*wanted.borrow(), Ok(true)) {
                let answer = to(entry);
                *wanted.borrow_mut() = answer;
            }
        };
        session.run(signals, end, |event| {
            builder.add(event, &mut |entry| after.add(entry, &mut pass));
            let is_wanted = matches!(*wanted.borrow(), Ok(true));
            wanted.replace(Ok(is_wanted))
        })?;
        builder.finish(&mut |entry| after.add(entry, &mut pass));
        after.finish(&mut pass);
        wanted.into_inner()?;
        let totals = Totals {
            counts: builder.counts(),
            lost: session.lost(),
            late: session.late(),
            has_values: session.has_values(),
        };
        let Totals { lost, late, .. } = totals;
        if lost != 0 {
            warn(&format!(
                "{lost} records found no room, so that calls are missing; --buffer makes more"
            ));
        }
        if late != 0 {
            warn(&format!("{late} records were read too late to be in order"));
        }
        Ok(totals)
    }
}

/// Creates a file that must be empty if it exists.
fn create_new(path: &Path) -> Result<File> {
    match create(path, false) {
        Err(CreateError::NotEmpty(path)) => {
            anyhow::bail!("{}: exists and is not empty", path.display())
        }
        created => Ok(created?),
    }
}

/// Output of the trees.
struct Output {
    printer: Printer,
    stacks: Option<Stacks>,
    names: Names,
    /// Calls from the exec on.
    calls: u64,
}

impl Output {
    /// Adds a part of a thread's history. Returns false if nothing reads the trees.
    fn add(&mut self, entry: &Entry) -> Result<bool, Error> {
        let Item::Call(call) = &entry.item else {
            return Ok(true);
        };
        self.calls += call.size();
        match &mut self.stacks {
            Some(stacks) => {
                stacks.add(&entry.comm, call, &self.names);
                Ok(true)
            }
            None => Ok(print(&self.printer.tree(entry, call, &self.names))?),
        }
    }
}

impl GraphArgs {
    pub fn run(self) -> Result<u8> {
        let signals = take_signals()?;
        let names = Names::read().map_err(Error::from)?;
        let roots = match &self.functions[..] {
            [] => None,
            functions => Some(names.select(functions).map_err(Error::from)?),
        };
        let svg: Option<(&PathBuf, File)> = match &self.svg {
            Some(path) => Some((path, create_new(path)?)),
            None => None,
        };
        if !self.pids.is_empty() {
            warn_of_numbers();
        }
        let child = self.recording.prepare(&signals)?;
        let pids = match child {
            Some(pid) => vec![pid],
            None => threads_of(&self.pids)?,
        };
        let options = Options {
            pids,
            needs_values: self.returns,
            arguments: false,
            syscalls: false,
            buffer: self.recording.buffer,
        };
        let select = Select {
            roots,
            depth: self.depth.map(usize::from),
            min: self
                .min
                .map_or(0, |min| u64::try_from(min.as_nanos()).unwrap_or(u64::MAX)),
            ..Select::default()
        };
        let mut output = Output {
            printer: Printer::new(self.json),
            stacks: svg.as_ref().map(|_| Stacks::default()),
            names,
            calls: 0,
        };
        let add = |entry: Entry| output.add(&entry);
        let totals = self
            .recording
            .record(&signals, child, &options, select, add)?;
        let counts = totals.counts;
        if counts.left_out != 0 {
            warn(&format!(
                "{} calls are left out: a tree has at most 1,048,576",
                counts.left_out
            ));
        }
        if let (Some((path, mut file)), Some(stacks)) = (svg, &output.stacks) {
            if stacks.is_empty() {
                warn("no calls, and so no flame graph");
            } else {
                let written = file.write_all(&stacks.svg("Time in the kernel"));
                written.with_context(|| format!("{}: cannot write", path.display()))?;
            }
        }
        let (calls, folded, cut) = (output.calls, counts.folded, counts.cut);
        match self.json {
            true => {
                let summary = serde_json::json!({ "summary": {
                    "calls": calls, "folded": folded, "cut": cut, "left_out": counts.left_out,
                    "lost": totals.lost, "late": totals.late, "returns": totals.has_values,
                }});
                print(&format!("{summary}\n"))?;
            }
            false => {
                let lost = totals.lost;
                let mut text = format!("{calls} calls, {folded} folded, {lost} records lost");
                if cut != 0 {
                    text += &format!(", {cut} calls without entry or return");
                }
                // After the tree, which may be in a file.
                let _ = writeln!(std::io::stderr(), "ferrotrace: {text}");
            }
        }
        Ok(signals.finish()?)
    }
}
