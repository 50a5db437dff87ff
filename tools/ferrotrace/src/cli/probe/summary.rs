// SPDX-License-Identifier: GPL-2.0

//! `ferrotrace probe count` and `ferrotrace probe time`: hits added up.

#![deny(unsafe_code)]

use std::io;
use std::io::IsTerminal;
use std::time::Duration;

use anyhow::Result;
use clap::Args;

use ferrotrace::probes::error::Error as ProbeError;
use ferrotrace::probes::event::Event;
use ferrotrace::probes::kernel::Kernel;
use ferrotrace::probes::model::Probe;
use ferrotrace::probes::resolve::Wanted;
use ferrotrace::probes::screen::Screen;
use ferrotrace::probes::spec::Spec;
use ferrotrace::probes::summary;
use ferrotrace::probes::summary::By;
use ferrotrace::probes::summary::Place;
use ferrotrace::probes::summary::Summary;
use ferrotrace::probes::summary::Timed;
use ferrotrace::probes::summary::ValueOf;
use ferrotrace::probes::symbols::Symbols;
use ferrotrace::probes::totals;
use ferrotrace::probes::watch::Now;
use ferrotrace::probes::watch::Show;
use ferrotrace::relay::record::take_signals;
use ferrotrace::tracepoints::count::Counter;
use ferrotrace::tracepoints::count::Counts;
use ferrotrace::tracepoints::count::ProbeCounter;
use ferrotrace::tracepoints::spec::STACKS;

use super::ReadArgs;
use super::print_hits;
use super::warn;
use super::warn_of_refused;
use crate::cli::units::parse_interval;

/// What all commands have that add hits up.
#[derive(Debug, Args)]
pub(in crate::cli) struct SummaryArgs {
    /// By what hits are added up: place, comm, pid, cpu, stack (the calls in the kernel), ustack
    /// (in user space), or the name of an argument; several with commas.
    #[arg(
        long,
        value_name = "KEY,...",
        value_delimiter = ',',
        default_value = "place"
    )]
    pub(in crate::cli) by: Vec<By>,
    /// Report after each such time; on a terminal all hits so far, elsewhere those since the last
    /// report.
    #[arg(short, long, value_name = "TIME", value_parser = parse_interval, default_value = "1")]
    pub(in crate::cli) interval: Duration,
    /// Print only the keys of all hits with their numbers, at the end: with --by stack what makes
    /// flame graphs.
    #[arg(long, conflicts_with = "json")]
    pub(in crate::cli) folded: bool,
    /// Show so many keys at most; all, but 20 on a terminal, without it.
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(in crate::cli) top: Option<u32>,
    #[command(flatten)]
    pub(in crate::cli) read: ReadArgs,
    /// Values to add up.
    #[arg(skip)]
    pub(in crate::cli) value: Option<ValueWish>,
}

/// Values that the user wants added up.
#[derive(Clone, Debug)]
pub(in crate::cli) struct ValueWish {
    /// Argument or expression.
    pub(in crate::cli) text: String,
    pub(in crate::cli) of: ValueOf,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct CountArgs {
    /// Add these probes, and remove them at the end. They are given as for "probe add".
    #[arg(value_name = "PROBE")]
    pub(in crate::cli) probes: Vec<Spec>,
    /// Probe the return of these functions.
    #[arg(short, long = "return", requires = "probes")]
    pub(in crate::cli) returns: bool,
    #[command(flatten)]
    pub(in crate::cli) summary: SummaryArgs,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct TimeArgs {
    /// The functions. They are given as probes, as for "probe add", with arguments and conditions.
    #[arg(value_name = "PROBE", required = true)]
    pub(in crate::cli) probes: Vec<Spec>,
    /// Time from the last hit of this probe in the same thread, instead of from the entry of the
    /// function.
    #[arg(long, value_name = "PROBE")]
    pub(in crate::cli) since: Option<Spec>,
    #[command(flatten)]
    pub(in crate::cli) summary: SummaryArgs,
}

/// Keys that a terminal has room for.
const ON_TERMINAL: usize = 20;

impl SummaryArgs {
    fn run(mut self, kernel: &Kernel, specs: &[Spec], returns: bool, timed: Timed) -> Result<u8> {
        let mut specs = specs.to_vec();
        for name in STACKS {
            if self.by.contains(&By::Arg(name.to_owned())) {
                let tracepoints = &mut self.read.verb.tracepoints;
                tracepoints.iter_mut().for_each(|one| one.add_stack(name));
                specs.iter_mut().for_each(|spec| spec.add_stack(name));
            }
        }
        if let Some(ValueWish { text, .. }) = &self.value {
            for spec in &mut specs {
                spec.add_value(text)?;
            }
            for one in &mut self.read.verb.tracepoints {
                one.add_value(text)?;
            }
        }
        for name in ["ret", "errno"] {
            if self.by.contains(&By::Arg(name.to_owned())) {
                specs
                    .iter_mut()
                    .for_each(|spec| spec.add_returned(name, returns));
            }
        }
        let symbols = self.read.symbols(&specs);
        let probes = self.read.resolve(&specs, returns, &symbols)?;
        self.check_keys(kernel, &probes)?;
        self.check_value(kernel, &probes)?;
        let value = self.value.as_ref().map(|value| &value.of);
        let tracepoints = &self.read.verb.tracepoints;
        // The module's tables have hits of probes only.
        let in_tables = tracepoints.is_empty()
            && self.by.iter().all(|by| match by {
                By::Arg(name) => probes.iter().any(|probe| probe.has_arg(name)),
                _ => true,
            });
        let counter = match timed == Timed::No && !tracepoints.is_empty() {
            true => Counter::create(tracepoints, &self.by, value)?,
            false => None,
        };
        // Until then they end a question.
        let signals = take_signals()?;
        let stdout = self.read.output.redirect()?;
        let terminal = io::stdout().is_terminal() && !self.read.json && !self.folded;
        // Not where a command writes, and lines where the terminal is of no use.
        let screen = (terminal && self.read.command.command.is_empty()).then(Screen::open);
        let screen = screen.and_then(|screen| screen.ok());
        let top = self.top.and_then(|top| usize::try_from(top).ok());
        let of_tracefs = probes.is_empty() && !tracepoints.is_empty() || kernel.is_stock();
        let mut style = summary::Style {
            by: self.by,
            timed,
            value: self.value.map(|value| value.of),
            interval: self.interval,
            top: top.or(terminal.then_some(ON_TERMINAL)),
            json: self.read.json,
            folded: self.folded,
            lost: None,
        };
        let for_counts = kernel.for_counts().filter(|_| timed == Timed::No);
        let probe_counter = match &for_counts {
            Some(kernel) if !probes.is_empty() => {
                ProbeCounter::create(kernel, &probes, &style, &self.read.pids, &signals)?
            }
            _ => None,
        };
        if self.read.verb.is_verb {
            style.lost = Some(match counter.is_none() && probe_counter.is_none() {
                true if of_tracefs => Place::Overwritten,
                _ => Place::InKernel,
            });
        }
        let mut summary = Summary::new(style, &symbols, screen, print_hits);
        let mut read = self.read;
        let mut stdout = stdout;
        let mut options = read.options(probes, None);
        if in_tables {
            let ready = |refused: &[ProbeError]| read.start(refused, &signals, stdout.take());
            if let Some(lost) = totals::count(kernel, &options, &signals, ready, &mut summary)? {
                summary.finish(lost)?;
                return Ok(signals.finish()?);
            }
        }
        if read.selects_command() {
            warn("these counts have the hits of all processes, not only those of the command");
        }
        let mut probes = std::mem::take(&mut options.probes);
        if counter.is_some() {
            read.verb.tracepoints.clear();
            read.verb.is_counted = true;
        }
        if let Some(counter) = &probe_counter {
            warn_of_refused(counter.refused());
            probes.clear();
            read.verb.is_counted = true;
        }
        let of_probes = probe_counter.as_ref().map(ProbeCounter::counter);
        let counters: Vec<_> = counter.iter().chain(of_probes).collect();
        let mut counting = Counting {
            summary: &mut summary,
            counters: &counters,
            symbols: &symbols,
            read_at: Duration::ZERO,
        };
        let counts = read.run(kernel, probes, None, stdout, &signals, &mut counting)?;
        for counter in &counters {
            counter.stop().map_err(ProbeError::from)?;
        }
        let lost = counting.read()?.saturating_add(counts.dropped);
        if let Some(counter) = &probe_counter {
            let missed = counter.missed().map_err(ProbeError::from)?;
            summary.set_missed(missed);
        }
        summary.finish(lost)?;
        Ok(signals.finish()?)
    }

    /// Refuses a value that is not a number of each probe and tracepoint.
    fn check_value(&self, kernel: &Kernel, probes: &[Wanted]) -> Result<()> {
        let Some(ValueWish { text, of }) = &self.value else {
            return Ok(());
        };
        for probe in probes {
            anyhow::ensure!(
                probe.has_number(&of.name),
                "{text} of {}: not a number; {text}:u64 reads it as one",
                probe.place
            );
        }
        let tracepoints = &self.read.verb.tracepoints;
        if probes.is_empty() && tracepoints.is_empty() {
            let has = |probe: &Probe| probe.args.iter().any(|arg| arg.name == of.name);
            anyhow::ensure!(
                kernel.list()?.iter().any(has),
                "{text}: no probe has an argument of this name (ferrotrace count FUNCTION --sum {text})"
            );
        }
        Ok(())
    }

    /// Refuses a key that none of the probes, or of all if these are none, has.
    fn check_keys(&self, kernel: &Kernel, probes: &[Wanted]) -> Result<()> {
        for by in &self.by {
            let By::Arg(name) = by else { continue };
            let tracepoints = &self.read.verb.tracepoints;
            let of_hit = ["ret", "errno"].contains(&name.as_str());
            let is_known = match probes.is_empty() {
                _ if tracepoints.iter().any(|one| one.has_arg(name)) => true,
                // Of a return.
                _ if of_hit && self.read.verb.is_verb => true,
                true if !tracepoints.is_empty() => STACKS.contains(&name.as_str()),
                true => {
                    let has = |probe: &Probe| probe.args.iter().any(|arg| arg.name == *name);
                    kernel.list()?.iter().any(has)
                }
                false => probes.iter().any(|probe| probe.has_arg(name)),
            };
            anyhow::ensure!(
                is_known,
                "--by {name}: no probe has an argument of this name (ferrotrace count 'FUNCTION {name}' --by {name})"
            );
        }
        Ok(())
    }
}

/// A summary of hits, and of counts that the kernel makes.
struct Counting<'a, 's, P> {
    summary: &'a mut Summary<'s, P>,
    counters: &'a [&'a Counter],
    symbols: &'a Symbols,
    /// When the counts were read.
    read_at: Duration,
}

impl<P: FnMut(&str) -> Result<bool, ProbeError>> Counting<'_, '_, P> {
    /// Reads the counters. Returns the number of hits without room.
    fn read(&mut self) -> Result<u64, ProbeError> {
        let mut all = Counts::default();
        for counter in self.counters {
            counter.add_to(self.symbols, &mut all)?;
        }
        self.summary.count(all.by_key);
        Ok(all.lost)
    }
}

impl<P: FnMut(&str) -> Result<bool, ProbeError>> Show for Counting<'_, '_, P> {
    fn start(&mut self) -> Result<(), ProbeError> {
        let mut counters = self.counters.iter();
        Ok(counters.try_for_each(|counter| counter.start())?)
    }

    fn hit(&mut self, event: &Event, probe: &Probe) {
        self.summary.hit(event, probe);
    }

    fn round(&mut self, now: &Now<'_>) -> Result<bool, ProbeError> {
        let span = now.at.saturating_sub(self.read_at);
        if !self.counters.is_empty() && span >= self.summary.interval() {
            self.read_at = now.at;
            self.read()?;
        }
        self.summary.round(now)
    }
}

impl CountArgs {
    pub(in crate::cli) fn run(self, kernel: &Kernel) -> Result<u8> {
        self.summary
            .run(kernel, &self.probes, self.returns, Timed::No)
    }
}

impl TimeArgs {
    pub(in crate::cli) fn run(self, kernel: &Kernel) -> Result<u8> {
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
