// SPDX-License-Identifier: GPL-2.0

//! `ferrotrace klog`.

#![deny(unsafe_code)]

use std::io;
use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;
use clap::Args;

use ferrotrace::kernel_dir;
use ferrotrace::relay::klog::Options;
use ferrotrace::relay::klog::klog;
use ferrotrace::relay::record::take_signals;

use super::units::CommandArgs;
use super::units::parse_duration;
use super::units::parse_length;
use super::warn;

#[derive(Debug, Args)]
pub struct KlogArgs {
    /// Write the messages to this file instead of standard output.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Write the messages of each CPU to a file of its own: FILE0, FILE1, ...
    #[arg(long, requires = "output")]
    per_cpu: bool,
    /// Bytes in a sub-buffer; by default the number that is set already.
    #[arg(short = 'b', long, value_name = "SIZE", value_parser = parse_length)]
    subbuf_size: Option<usize>,
    /// Sub-buffers of each CPU; likewise.
    #[arg(short = 'n', long, value_name = "N")]
    n_subbufs: Option<usize>,
    /// Lose the oldest messages rather than the newest.
    #[arg(long)]
    overwrite: bool,
    /// Stop after this time; otherwise on SIGINT or SIGTERM.
    #[arg(short, long, value_name = "TIME", value_parser = parse_duration)]
    duration: Option<Duration>,
    /// Write over files that are not empty.
    #[arg(short, long, requires = "output")]
    force: bool,
    /// Take the place of a channel that exists already.
    #[arg(long)]
    replace: bool,
    /// Print the summary as JSON.
    #[arg(long, conflicts_with = "quiet")]
    json: bool,
    /// Print no summary.
    #[arg(short, long)]
    quiet: bool,
    /// The relay application.
    #[arg(long, value_name = "DIR", default_value = "/sys/kernel/debug/klog")]
    dir: PathBuf,
    #[command(flatten)]
    command: CommandArgs,
}

impl KlogArgs {
    pub fn run(self) -> Result<u8> {
        let (quiet, json) = (self.quiet, self.json);
        let signals = take_signals()?;
        let summary = klog(
            &Options {
                dir: kernel_dir::find(self.dir, "klog_relay"),
                output: self.output,
                per_cpu: self.per_cpu,
                subbuf_size: self.subbuf_size,
                n_subbufs: self.n_subbufs,
                overwrite: self.overwrite,
                replace: self.replace,
                force: self.force,
                duration: self.duration,
                command: self.command.command,
            },
            &signals,
        )?;
        for (cpu, tally) in &summary.cpus {
            for warning in &tally.warnings {
                warn(&format!("cpu {cpu}: {warning}"));
            }
        }
        if !quiet {
            // Not to standard output, where the messages may go. There is nowhere left to report it
            // if this fails.
            let _ = match json {
                true => writeln!(io::stderr(), "{}", serde_json::to_string(&summary)?),
                false => write!(io::stderr(), "{summary}"),
            };
        }
        Ok(signals.finish()?)
    }
}
