// SPDX-License-Identifier: GPL-2.0

//! `ferrotrace record` and `ferrotrace show`.

#![deny(unsafe_code)]

use std::ffi::OsString;
use std::fs;
use std::io;
use std::io::IsTerminal;
use std::path::Path;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use anyhow::Result;
use anyhow::bail;
use anyhow::ensure;
use clap::Args;
use clap::builder::PossibleValuesParser;
use clap::builder::TypedValueParser;
use nix::sys::statfs::TMPFS_MAGIC;
use nix::sys::statfs::statfs;

use ferrotrace::probes::keep;
use ferrotrace::probes::kernel::Kernel;
use ferrotrace::probes::resolve::Wanted;
use ferrotrace::probes::stock::RECORDED_GROUP;
use ferrotrace::probes::stock::instance::Instance;
use ferrotrace::probes::symbols::Symbols;
use ferrotrace::probes::watch::Temporary;
use ferrotrace::relay::channel::Header;
use ferrotrace::relay::record;
use ferrotrace::relay::record::record;
use ferrotrace::relay::record::take_signals;
use ferrotrace::signals::StopSignals;

use super::super::dprobes;
use super::super::merge::MergeArgs;
use super::super::merge::SelectionArgs;
use super::super::print;
use super::super::probe;
use super::super::probe::StackOf;
use super::super::trace;
use super::super::units::CommandArgs;
use super::super::units::OutputArgs;
use super::super::units::parse_length;
use super::super::units::parse_size;
use super::super::warn;
use super::CommonArgs;
use super::Places;
use super::WHAT;
use super::program_args;

/// Name of the memory of `--keep`.
const MEMORY: &str = "ferrotrace";

/// Returns the word of the kernel's command line that gives reserved memory to another part of the
/// kernel.
fn other_owner<'a>(line: &'a str, memory: &str) -> Option<&'a str> {
    line.split_whitespace().find(|word| {
        let trace = word.strip_prefix("trace_instance=");
        let trace = trace.and_then(|value| value.split(',').next()?.split_once('@'));
        trace.is_some_and(|(_, name)| name == memory)
            || word.strip_prefix("ramoops.mem_name=") == Some(memory)
    })
}

#[derive(Debug, Args)]
pub struct RecordVerb {
    /// Places to record: functions, tracepoints and system calls, a probe program, or a relay channel.
    #[arg(value_name = "WHAT", required_unless_present = "stop", long_help = WHAT)]
    what: Vec<String>,
    /// The directory to record into, which is created or must be empty.
    #[arg(short, long, value_name = "REC", required_unless_present = "stop")]
    output: Option<PathBuf>,
    /// Keep the last hits of functions in memory that survives a panic.
    ///
    /// The kernel's command line reserves it: reserve_mem=16M:4096:ferrotrace, or with another
    /// NAME. The command returns at once, and the probes stay. REC then has the names and arguments
    /// of the probes. After the panic, "ferrotrace recover NAME --described REC -o OUT" makes a
    /// recording of both.
    #[arg(
        long,
        value_name = "NAME",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = MEMORY,
        conflicts_with_all = ["duration", "command", "buffer", "json"]
    )]
    keep: Option<String>,
    /// Keep the calls that have led to each hit, too.
    #[arg(
        long,
        value_name = "OF",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "kernel",
        requires = "keep"
    )]
    stack: Option<StackOf>,
    /// End what --keep has begun: remove the probes.
    #[arg(long, requires = "keep", conflicts_with_all = ["what", "output"])]
    stop: bool,
    /// Write into REC even if it is not empty.
    #[arg(short, long)]
    force: bool,
    /// The size of the buffer of each CPU, of tracefs; without it the kernel's own.
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    buffer: Option<u64>,
    #[command(flatten)]
    channel: ChannelArgs,
    #[command(flatten)]
    common: CommonArgs,
    #[command(flatten)]
    command: CommandArgs,
}

/// Options for relay channels. The letters are of an old spelling.
#[derive(Debug, Args)]
#[command(next_help_heading = "Relay channels")]
pub struct ChannelArgs {
    /// Use read(2) instead of mmap.
    #[arg(long)]
    read: bool,
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
    #[arg(short_alias = 'b', long, value_name = "SIZE", value_parser = parse_length)]
    subbuf_size: Option<usize>,
    /// Sub-buffers of each CPU, where DIR/n_subbufs does not say it.
    #[arg(short_alias = 'n', long, value_name = "N")]
    n_subbufs: Option<usize>,
}

fn parse_header(text: String) -> Result<Header, String> {
    text.parse()
        .ok()
        .and_then(Header::from_len)
        .ok_or_else(|| "not 0, 4 or 8".to_owned())
}

/// A recording of a relay channel, without the options for it.
#[derive(Debug)]
pub struct ChannelRecording {
    pub channel: PathBuf,
    pub output: PathBuf,
    pub force: bool,
    pub duration: Option<Duration>,
    /// True to show no rate.
    pub quiet: bool,
    pub summary: Summary,
    pub command: Vec<OsString>,
}

/// Form of the summary of a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Summary {
    None,
    Text,
    Json,
}

impl Summary {
    /// Returns the form for these options.
    pub fn of(json: bool, quiet: bool) -> Self {
        match (json, quiet) {
            (true, _) => Self::Json,
            (false, true) => Self::None,
            (false, false) => Self::Text,
        }
    }
}

impl ChannelArgs {
    /// Records a channel. Returns the exit status.
    pub fn record(self, to: ChannelRecording, signals: &StopSignals) -> Result<u8> {
        let options = record::Options {
            channel: to.channel,
            output: to.output,
            force: to.force,
            read: self.read,
            header: self.header,
            partial: !self.no_partial,
            duration: to.duration,
            buffered: self.buffered,
            watermark: self.watermark,
            subbuf_size: self.subbuf_size,
            n_subbufs: self.n_subbufs,
            quiet: to.quiet || !io::stderr().is_terminal(),
            command: to.command,
        };
        let metadata = record(&options, signals)?;
        let status = signals.finish()?;
        for cpu in &metadata.cpus {
            for warning in &cpu.tally.warnings {
                warn(&format!("cpu {}: {warning}", cpu.cpu));
            }
        }
        let text = match to.summary {
            Summary::None => String::new(),
            Summary::Text => record::summary(&metadata, &options.output),
            Summary::Json => format!("{}\n", serde_json::to_string_pretty(&metadata)?),
        };
        print(&text)?;
        Ok(status)
    }
}

impl RecordVerb {
    pub fn run(self) -> Result<u8> {
        let mut places = self.common.places(&self.what)?;
        if let Some(memory) = self.keep.clone() {
            return self.keep(memory, &mut places);
        }
        let kinds = [
            !places.specs.is_empty() || !places.tracepoints.is_empty(),
            !places.programs.is_empty(),
            !places.channels.is_empty(),
        ];
        ensure!(
            kinds.iter().filter(|is_there| **is_there).count() == 1,
            "a recording has functions and tracepoints, or a probe program, or a relay channel: record them one by one"
        );
        if let [channel, more @ ..] = &places.channels[..] {
            ensure!(more.is_empty(), "a recording has one relay channel");
            let channel = channel.clone();
            self.common.say("the relay channel's files");
            self.no_selection("a relay channel has the records of all")?;
            return self.drain(channel, &take_signals()?);
        }
        if !places.programs.is_empty() {
            self.no_selection("a probe program selects for itself")?;
            return self.programs(&places);
        }
        let kernel = self.common.kernel(&places);
        match places.specs.is_empty() || kernel.is_stock() {
            true => self.events(&kernel, &mut places),
            false => self.probes(&kernel, &mut places),
        }
    }

    fn no_selection(&self, why: &str) -> Result<()> {
        let is_selected = !self.common.pids.is_empty() || self.common.comm.is_some();
        ensure!(!is_selected, "-p and -c: {why}");
        Ok(())
    }

    fn programs(self, places: &Places) -> Result<u8> {
        let output = self.output.unwrap_or_default();
        let output = [std::ffi::OsStr::new("-o"), output.as_os_str()];
        let mut args: dprobes::RecordArgs = program_args(&places.programs, &output)?;
        args.force = self.force;
        args.duration = self.common.duration;
        args.quiet = self.common.quiet;
        args.json = self.common.json;
        args.command = self.command;
        self.common
            .say("probe programs, by the module rust_dprobes");
        dprobes::record(args)
    }

    fn drain(self, channel: PathBuf, signals: &StopSignals) -> Result<u8> {
        let recording = ChannelRecording {
            channel,
            output: self.output.unwrap_or_default(),
            force: self.force,
            duration: self.common.duration,
            quiet: self.common.quiet,
            summary: Summary::of(self.common.json, self.common.quiet),
            command: self.command.command,
        };
        self.channel.record(recording, signals)
    }

    /// Adds probes with hits that survive a panic, or removes them.
    fn keep(self, memory: String, places: &mut Places) -> Result<u8> {
        let kernel = self.common.kernel(places);
        if self.stop {
            let removed = keep::stop(&kernel)?;
            ensure!(removed != 0, "no hits are being kept");
            print(&format!("{removed} probes were removed\n"))?;
            return Ok(0);
        }
        ensure!(
            places.tracepoints.is_empty()
                && places.programs.is_empty()
                && places.channels.is_empty(),
            "--keep keeps the hits of functions of the kernel only; for tracepoints, see trace_instance= in the kernel's \
             Documentation/trace/debugging.rst"
        );
        let line = fs::read_to_string("/proc/cmdline").unwrap_or_default();
        if let Some(other) = other_owner(&line, &memory) {
            bail!(
                "the memory {memory} is that of {other} on the kernel's command line: reserve another"
            );
        }
        let wanted = self.wanted(places)?;
        let signals = take_signals()?;
        let options = keep::Options {
            memory,
            output: self.output.unwrap_or_default(),
            force: self.force,
        };
        let kept = keep::keep(&kernel, &wanted, &options, &signals)?;
        probe::warn_of_refused(&kept.refused);
        let place = statfs(&options.output).map(|of| of.filesystem_type());
        if place == Ok(TMPFS_MAGIC) {
            warn("the directory is in memory, and a reboot loses it: copy it to a disk");
        }
        let seconds = fs::read_to_string("/proc/sys/kernel/panic").unwrap_or_default();
        if seconds.trim() == "0" {
            warn(
                "this machine does not restart after a panic; \"sysctl kernel.panic=10\" makes it restart",
            );
        }
        if !self.common.quiet {
            let (memory, output) = (&options.memory, options.output.display());
            print(&format!(
                "keeping the hits of {} probes in the memory {memory}; \"ferrotrace record --keep --stop\" ends that\n\
                 after a panic: ferrotrace recover {memory} --described {output} -o OUT && ferrotrace show OUT\n",
                kept.probes
            ))?;
        }
        Ok(0)
    }

    /// Resolves functions of the kernel into probes of the module.
    fn wanted(&self, places: &mut Places) -> Result<Vec<Wanted>> {
        let symbols = Symbols::read().unwrap_or_default();
        let mut specs = std::mem::take(&mut places.specs);
        probe::add_stacks(&mut specs, self.stack);
        let common = &self.common;
        let wanted = probe::wanted(&specs, &common.types, &common.many, &common.pids, &symbols)?;
        if let Some(one) = wanted.iter().find(|probe| probe.at.is_some()) {
            bail!(
                "{}: probes in files are not in the module's channel: record them by themselves",
                one.place
            );
        }
        Ok(wanted)
    }

    /// Records hits of probes of the module, which has a channel.
    fn probes(self, kernel: &Kernel, places: &mut Places) -> Result<u8> {
        ensure!(
            places.tracepoints.is_empty(),
            "probes of the module ferrotrace_kprobe_events have a channel of their own: record tracepoints and system calls \
             by themselves"
        );
        let channel = kernel.channel().context("the module has no channel")?;
        let wanted = self.wanted(places)?;
        let signals = take_signals()?;
        let _lock = kernel.lock()?;
        let temporary = Temporary::add(kernel, &wanted, &signals)?;
        let status = self.drain(channel, &signals);
        temporary.remove()?;
        status
    }

    /// Records events of tracefs: tracepoints, system calls, and its probes.
    fn events(self, kernel: &Kernel, places: &mut Places) -> Result<u8> {
        self.common
            .say("events of tracefs, in an instance of its own");
        let mut events = Vec::new();
        let mut filters = Vec::new();
        for one in &places.tracepoints {
            let exit = one.exit.as_ref().map(|exit| (&exit.event, &exit.filter));
            for (event, filter) in [(&one.event, &one.filter)].into_iter().chain(exit) {
                events.push(event.clone());
                if !filter.is_empty() {
                    filters.push((event.clone(), filter.clone()));
                }
            }
        }
        let specs = std::mem::take(&mut places.specs);
        // To read them takes its time.
        let symbols = match specs.is_empty() {
            true => Symbols::default(),
            false => Symbols::read().unwrap_or_default(),
        };
        let wanted = probe::wanted(
            &specs,
            &self.common.types,
            &self.common.many,
            &self.common.pids,
            &symbols,
        )?;
        let signals = take_signals()?;
        let temporary = Temporary::add(kernel, &wanted, &signals)?;
        let tracing = Instance::tracing()?;
        for name in temporary.names() {
            let event = format!("{RECORDED_GROUP}:{name}");
            let path = tracing.as_deref().unwrap_or(Path::new("/"));
            let path = path
                .join("events")
                .join(event.replace(':', "/"))
                .join("filter");
            let filter = fs::read_to_string(path).unwrap_or_default();
            if !filter.trim().is_empty() && filter.trim() != "none" {
                filters.push((event.clone(), filter.trim().to_owned()));
            }
            events.push(event);
        }
        drop(signals);
        let args = trace::RecordArgs {
            events,
            filters,
            quiet: self.common.quiet,
            output: self.output.unwrap_or_default(),
            force: self.force,
            buffer: self.buffer,
            duration: self.common.duration,
            json: self.common.json,
            command: self.command,
        };
        let status = args.run();
        temporary.remove()?;
        status
    }
}

#[derive(Debug, Args)]
pub struct ShowVerb {
    /// A directory that "ferrotrace record" created.
    #[arg(value_name = "REC")]
    recording: PathBuf,
    /// Show only the first N records.
    #[arg(short = 'n', long, value_name = "N")]
    limit: Option<u64>,
    /// Print JSON: one object on each line.
    #[arg(long)]
    json: bool,
    /// Show dates and times (UTC) instead of the time since the machine was started; with --json, both.
    #[arg(long)]
    wall: bool,
    #[command(flatten)]
    selection: SelectionArgs,
    #[command(flatten)]
    output: OutputArgs,
}

impl ShowVerb {
    pub fn run(self) -> Result<()> {
        let (output, force) = self.output.into_parts();
        let args = MergeArgs::lines(
            self.recording,
            self.json,
            self.limit,
            self.wall,
            self.selection,
        );
        args.to(output, force).run()
    }
}

#[cfg(test)]
mod tests {
    use super::other_owner;

    #[test]
    fn memory_of_others() {
        let line = "quiet trace_instance=boot^traceoff@trace,sched ramoops.mem_name=oops reserve_mem=4M:4096:own\n";
        assert_eq!(
            other_owner(line, "trace"),
            Some("trace_instance=boot^traceoff@trace,sched")
        );
        assert_eq!(other_owner(line, "oops"), Some("ramoops.mem_name=oops"));
        assert_eq!(other_owner(line, "own"), None);
    }
}
