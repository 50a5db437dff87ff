// SPDX-License-Identifier: GPL-2.0

//! `ferrotrace why`.

#![deny(unsafe_code)]

use std::io::Write;

use anyhow::Result;
use clap::Args;

use ferrotrace::graph::error::Error;
use ferrotrace::graph::names::Names;
use ferrotrace::graph::session::Options;
use ferrotrace::graph::tree::Select;
use ferrotrace::graph::value::error_number;
use ferrotrace::graph::why::Explainer;
use ferrotrace::graph::why::Filter;
use ferrotrace::relay::record::take_signals;

use super::graph::RecordingArgs;
use super::print;

#[derive(Debug, Args)]
pub struct WhyArgs {
    /// Explain each system call that failed, not only the one that most probably ended the command.
    #[arg(long)]
    all: bool,
    /// Explain this error only, such as ENOENT.
    #[arg(long, value_name = "ERRNO", value_parser = parse_errno)]
    errno: Option<i32>,
    /// Explain errors of this system call only, such as openat.
    #[arg(long, value_name = "NAME")]
    syscall: Option<String>,
    /// Show how long each function took.
    #[arg(long)]
    times: bool,
    /// Print one JSON object for each error.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    recording: RecordingArgs,
}

fn parse_errno(text: &str) -> Result<i32, String> {
    error_number(text).ok_or_else(|| "no error has this name".to_owned())
}

impl WhyArgs {
    pub fn run(self) -> Result<u8> {
        if self.recording.command.command.is_empty() {
            anyhow::bail!("no command: ferrotrace why -- COMMAND");
        }
        let signals = take_signals()?;
        let names = Names::read().map_err(Error::from)?;
        let child = self.recording.prepare(&signals)?;
        let options = Options {
            pids: child.into_iter().collect(),
            needs_values: true,
            arguments: true,
            syscalls: true,
            buffer: self.recording.buffer,
        };
        let mut explainer = Explainer::default();
        let add = |entry| {
            explainer.add(entry, &names);
            Ok(true)
        };
        let select = Select::default();
        let totals = self
            .recording
            .record(&signals, child, &options, select, add)?;
        let lost = totals.lost;
        let status = signals.finish()?;
        let filter = Filter {
            errno: self.errno,
            syscall: self.syscall,
        };
        let all = explainer.all(&filter);
        let count = all.len();
        let is_chosen = self.all || filter.errno.is_some() || filter.syscall.is_some();
        let shown = match self.all {
            true => all,
            // A command that succeeds has coped with its errors.
            false if status == 0 && !is_chosen => Vec::new(),
            false => explainer.last(&filter).into_iter().collect(),
        };
        let mut text = String::new();
        for failure in &shown {
            text += &match self.json {
                true => format!("{}\n", serde_json::to_string(failure)?),
                false => failure.text(self.times),
            };
        }
        if self.json {
            let summary = serde_json::json!({ "summary": {
                "failed": count, "shown": shown.len(), "lost": lost, "status": status,
            }});
            text += &format!("{summary}\n");
        }
        print(&text)?;
        if !self.json {
            let shown = shown.len();
            // There is nowhere left to report it if this fails.
            let _ = writeln!(
                std::io::stderr(),
                "ferrotrace: the command exited with {status}; {count} system calls failed, {shown} \
                 shown{}, {lost} records lost",
                if self.all { "" } else { " (--all shows each)" }
            );
        }
        Ok(status)
    }
}
