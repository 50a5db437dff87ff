// SPDX-License-Identifier: GPL-2.0

//! `ferrotrace probe count` and `ferrotrace probe time`: hits added up.

#![deny(unsafe_code)]

use std::io;
use std::io::IsTerminal;
use std::time::Duration;

use anyhow::Result;
use clap::Args;

use ferrotrace::probes::kernel::Kernel;
use ferrotrace::probes::model::Probe;
use ferrotrace::probes::resolve::Wanted;
use ferrotrace::probes::screen::Screen;
use ferrotrace::probes::spec::Spec;
use ferrotrace::probes::summary;
use ferrotrace::probes::summary::By;
use ferrotrace::probes::summary::Summary;
use ferrotrace::probes::summary::Timed;
use ferrotrace::probes::symbols::Symbols;
use ferrotrace::relay::record::take_signals;

use super::ReadArgs;
use super::print_hits;
use crate::cli::units::parse_interval;

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
pub(super) struct CountArgs {
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
pub(super) struct TimeArgs {
    /// The functions. They are given as probes, as for "probe add", with arguments and conditions.
    #[arg(value_name = "PROBE", required = true)]
    probes: Vec<Spec>,
    /// Time from the last hit of this probe in the same thread, instead of from the entry of the function.
    #[arg(long, value_name = "PROBE")]
    since: Option<Spec>,
    #[command(flatten)]
    summary: SummaryArgs,
}

/// Keys that a terminal has room for.
const ON_TERMINAL: usize = 20;

impl SummaryArgs {
    fn run(self, kernel: &Kernel, specs: &[Spec], returns: bool, timed: Timed) -> Result<u8> {
        let symbols = Symbols::read().unwrap_or_default();
        let mut specs = specs.to_vec();
        for name in ["stack", "ustack"] {
            if self.by.iter().any(|by| *by == By::Arg(name.to_owned())) {
                specs.iter_mut().for_each(|spec| spec.add_stack(name));
            }
        }
        let probes = self.read.resolve(&specs, returns, &symbols)?;
        self.check_keys(kernel, &probes)?;
        // Until then they end a question.
        let signals = take_signals()?;
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

impl CountArgs {
    pub(super) fn run(self, kernel: &Kernel) -> Result<u8> {
        self.summary
            .run(kernel, &self.probes, self.returns, Timed::No)
    }
}

impl TimeArgs {
    pub(super) fn run(self, kernel: &Kernel) -> Result<u8> {
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
