// SPDX-License-Identifier: GPL-2.0

//! `ferrotrace hooks`.

#![deny(unsafe_code)]

use std::path::PathBuf;
use std::time::Duration;
use std::time::Instant;

use anyhow::Context;
use anyhow::Result;
use clap::Args;
use clap::Subcommand;
use serde::Serialize;

use ferrotrace::clock::monotonic;
use ferrotrace::clock::wall_offset;
use ferrotrace::hooks::error::Action;
use ferrotrace::hooks::model::Hook;
use ferrotrace::hooks::model::Name;
use ferrotrace::hooks::registry::Registry;
use ferrotrace::hooks::report::Style;
use ferrotrace::hooks::select::Target;
use ferrotrace::hooks::select::only;
use ferrotrace::hooks::table::Table;
use ferrotrace::hooks::watch::Watch;
use ferrotrace::kernel_dir;
use ferrotrace::signals::CommandError;
use ferrotrace::signals::StopSignals;

use super::print;
use super::units::CommandArgs;
use super::units::OutputArgs;
use super::units::parse_duration;
use super::units::parse_interval;

#[derive(Debug, Args)]
pub struct HooksArgs {
    #[command(subcommand)]
    command: Command,
    /// The directory of the hook registry.
    #[arg(
        long,
        value_name = "DIR",
        default_value = "/sys/kernel/debug/gkhi",
        global = true
    )]
    dir: PathBuf,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Show the hooks and the exits registered on them.
    List(ListArgs),
    /// Arm exits: all of them from the same moment on, or none.
    Arm(TargetArgs),
    /// Disarm exits: all of them from the same moment on, or none.
    Disarm(TargetArgs),
    /// Show how often exits are called.
    Watch(WatchArgs),
}

#[derive(Debug, Args)]
struct ListArgs {
    /// Only these hooks.
    #[arg(value_name = "HOOK")]
    hooks: Vec<Name>,
    /// Print one JSON document.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    output: OutputArgs,
}

#[derive(Debug, Args)]
struct TargetArgs {
    /// Exits; a HOOK alone stands for all that are registered on it.
    #[arg(value_name = "HOOK/EXIT", required = true)]
    targets: Vec<Target>,
}

#[derive(Debug, Args)]
struct WatchArgs {
    /// Only exits on these hooks.
    #[arg(value_name = "HOOK")]
    hooks: Vec<Name>,
    /// Length of an interval.
    #[arg(short, long, value_name = "TIME", default_value = "1", value_parser = parse_interval)]
    interval: Duration,
    /// Stop after that many intervals; otherwise on SIGINT or SIGTERM.
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    /// Stop after this time.
    #[arg(short, long, value_name = "TIME", value_parser = parse_duration)]
    duration: Option<Duration>,
    /// Show dates and times of day, UTC, instead of seconds of CLOCK_MONOTONIC.
    #[arg(long)]
    wall: bool,
    /// Print one JSON object on each line.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    command: CommandArgs,
}

/// Output of `--json`.
#[derive(Serialize)]
struct Document<'a> {
    hooks: &'a [Hook],
}

impl HooksArgs {
    pub fn run(self) -> Result<u8> {
        let registry = Registry::new(kernel_dir::find(self.dir, "ferrotrace_core"));
        let done = match self.command {
            Command::List(args) => args.run(&registry),
            Command::Arm(args) => Ok(registry.set(Action::Arm, &args.targets)?),
            Command::Disarm(args) => Ok(registry.set(Action::Disarm, &args.targets)?),
            Command::Watch(args) => return args.run(&registry),
        };
        done.map(|()| 0)
    }
}

impl ListArgs {
    fn run(&self, registry: &Registry) -> Result<()> {
        let hooks = only(registry.read()?, &self.hooks)?;
        self.output.redirect()?;
        let text = if self.json {
            let document = Document { hooks: &hooks };
            format!("{}\n", serde_json::to_string_pretty(&document)?)
        } else {
            Table(&hooks).to_string()
        };
        print(&text)?;
        Ok(())
    }
}

/// The time of the clock that records use, too.
fn clock() -> Result<Duration> {
    monotonic().context("cannot read the clock")
}

impl WatchArgs {
    fn run(&self, registry: &Registry) -> Result<u8> {
        let signals = StopSignals::new().context("cannot take over SIGINT and SIGTERM")?;
        let hooks = only(registry.read()?, &self.hooks)?;
        let stdout = self.output.redirect()?;
        let style = Style {
            wall: match self.wall {
                true => Some(wall_offset().context("cannot read the clock")?),
                false => None,
            },
        };
        let (mut watch, first) = Watch::start(&hooks, clock()?);
        let first = match self.json {
            true => first.json("armed", style),
            false => style.header() + &first.text(style),
        };
        if !print(&first)? {
            return Ok(0);
        }
        let run = signals.run(&self.command.command, stdout);
        run.map_err(CommandError::from)?;
        let ended = self.intervals(registry, &signals, &mut watch, style);
        if !matches!(ended, Ok(false)) {
            let total = watch.total();
            let span = total.span.unwrap_or_default();
            print(&match self.json {
                true => total.json("total", style),
                false => format!(
                    "total of {:.3} s:\n{}",
                    span.as_secs_f64(),
                    total.text(style)
                ),
            })?;
        }
        let status = signals.finish()?;
        ended.map(|_| status)
    }

    /// Samples the hooks after each interval, and once more at the end. Returns whether there still
    /// is a reader.
    fn intervals(
        &self,
        registry: &Registry,
        signals: &StopSignals,
        watch: &mut Watch,
        style: Style,
    ) -> Result<bool> {
        let mut due = Instant::now();
        let end = self.duration.and_then(|duration| due.checked_add(duration));
        let is_over = || end.is_some_and(|end| Instant::now() >= end);
        let mut left = self.count.unwrap_or(u64::MAX);
        let mut stopped = false;
        while left > 0 && !stopped && !is_over() {
            left -= 1;
            due += self.interval;
            let now = Instant::now();
            if due < now {
                // Intervals that were missed are not made up for.
                due = now + self.interval;
            }
            due = end.map_or(due, |end| due.min(end));
            while !stopped && Instant::now() < due {
                stopped = signals.wait(due).context("cannot wait for signals")?;
            }
            let mut hooks = registry.read()?;
            // A hook may go and come back with its module.
            hooks.retain(|hook| self.hooks.is_empty() || self.hooks.contains(&hook.name));
            let report = watch.look(&hooks, clock()?);
            let text = match self.json {
                true => report.json("calls", style),
                false => report.text(style),
            };
            if !print(&text)? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}
