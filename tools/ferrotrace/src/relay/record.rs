// SPDX-License-Identifier: GPL-2.0

//! `ferrotrace relay record`: a thread for each CPU drains its buffer; the main thread supervises
//! them.
//!
//! Several times a second it checks whether a signal has come, the time has passed, a thread has
//! ended, or a CPU has come up, and shows the rate.

#![deny(unsafe_code)]

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use std::time::Instant;
use std::time::SystemTime;

use indicatif::BinaryBytes;
use nix::time::ClockId;
use nix::time::clock_gettime;

use super::buffer::Buffer;
use super::buffer::Method;
use super::buffer::Plan;
use super::channel::CpuId;
use super::channel::Geometry;
use super::channel::Header;
use super::channel::Mode;
use super::error::Error;
use super::error::Result;
use super::files::ChannelDir;
use super::files::open_relay_file;
use super::output::CpuMetadata;
use super::output::Metadata;
use super::output::OutputDir;
use super::output::Records;
use super::output::Stop as Ended;
use super::progress::Progress;
use super::progress::rate;
use super::tally::Tally;
use super::worker::Stop;
use super::worker::Worker;
use crate::fast::drain::FastDrain;
use crate::fast::ring::Description;
use crate::fast::ring::Ring;
use crate::file::IoError;
use crate::signals::StopSignals;

/// How often to update the display, and to check the threads and look for new CPUs.
const TICK: Duration = Duration::from_millis(200);

/// Options of the user.
#[derive(Clone, Debug)]
pub struct Options {
    /// DIR/NAME.
    pub channel: PathBuf,
    /// OUT.
    pub output: PathBuf,
    /// Write into a directory that is not empty.
    pub force: bool,
    /// read(2) instead of mmap.
    pub read: bool,
    /// The header of each sub-buffer.
    pub header: Header,
    /// Take the unfinished sub-buffer at the end.
    pub partial: bool,
    /// Stop after this time.
    pub duration: Option<Duration>,
    /// Write through the page cache only.
    pub buffered: bool,
    /// For a fast channel: how many unread bytes to wait for.
    pub watermark: Option<u64>,
    /// Instead of what DIR/subbuf_size says.
    pub subbuf_size: Option<usize>,
    /// Instead of what DIR/n_subbufs says.
    pub n_subbufs: Option<usize>,
    /// No live display.
    pub quiet: bool,
    /// A command that runs meanwhile, and whose end ends the recording; none if it is empty.
    pub command: Vec<OsString>,
}

/// A recording in progress.
struct Recorder {
    channel: ChannelDir,
    output: OutputDir,
    plan: Plan,
    workers: BTreeMap<CpuId, Worker>,
    stop: Arc<Stop>,
    quiet: bool,
    dropped_before: Option<u64>,
    /// The last value: when the channel is closed, the file goes, too.
    dropped_now: Option<u64>,
}

/// Records until the recording ends, and returns the description of what was recorded.
///
/// After an error the recording is closed as well as possible, and the error returned. `signals` end it, and have the
/// command, which still runs if something else ended it.
pub fn record(options: &Options, signals: &StopSignals) -> Result<Metadata> {
    let channel = ChannelDir::open(&options.channel)?;
    let plan = plan(&channel, options)?;
    // Faults of the channel should be found before anything is written.
    for (cpu, path) in channel.relay_files()? {
        plan.open(&channel, cpu, path)?;
    }
    let output = OutputDir::create(&options.output, channel.name(), options.force)?;

    let dropped_before = channel.dropped()?;
    let mut recorder = Recorder {
        dropped_now: dropped_before,
        dropped_before,
        plan,
        workers: BTreeMap::new(),
        stop: Arc::new(Stop::new()?),
        quiet: options.quiet,
        channel,
        output,
    };
    let mut metadata = recorder.metadata();
    let started = Instant::now();
    recorder.output.copy_format(recorder.channel.dir())?;
    recorder.output.save_names()?;
    recorder.output.write_metadata(&metadata)?;

    let deadline = options
        .duration
        .and_then(|duration| started.checked_add(duration));
    let ended = recorder
        .scan(true)
        .and_then(|()| run_command(signals, &options.command))
        .and_then(|()| recorder.run(signals, deadline));
    recorder.stop.set();
    let mut result = ended.and_then(|stop| recorder.output.save_names().map(|()| stop));
    for (cpu, worker) in std::mem::take(&mut recorder.workers) {
        let (tally, worked) = worker.join();
        metadata.cpus.push(CpuMetadata {
            cpu,
            file: recorder.output.cpu_file_name(cpu),
            tally,
        });
        // The first error is the one to report.
        result = result.and_then(|stop| worked.map(|()| stop));
    }
    recorder.note_dropped();

    metadata.complete = true;
    metadata.duration_ns = u64::try_from(started.elapsed().as_nanos()).unwrap_or(u64::MAX);
    metadata.stop = Some(*result.as_ref().unwrap_or(&Ended::Error));
    metadata.dropped = recorder.dropped(metadata.cpus.iter().map(|cpu| &cpu.tally));
    let written = recorder.output.write_metadata(&metadata);
    result.and(written)?;
    Ok(metadata)
}

/// Finds out how the channel can be drained.
fn plan(channel: &ChannelDir, options: &Options) -> Result<Plan> {
    if let Some(description) = describe(channel)? {
        if !options.header.is_empty() {
            return Err(Error::HeaderOfFast);
        }
        return Ok(Plan {
            method: if options.read {
                Method::FastRead(description)
            } else {
                Method::ControlPage(description)
            },
            records: Records::Fast,
            mode: description.mode,
            header: Header::None,
            partial: true,
            direct: !options.buffered
                && !options.read
                && description.mode == Mode::NoOverwrite
                && FastDrain::can_be_direct(description.sizes),
            count_from_zero: false,
            watermark: options.watermark,
        });
    }
    let known = channel.geometry(options.subbuf_size, options.n_subbufs);
    let method = if !options.read {
        Method::Mmap(known?)
    } else if !options.header.is_empty() {
        Method::Read(Some(known?))
    } else {
        match known {
            Ok(geometry) => Method::Read(Some(geometry)),
            Err(Error::UnknownSize { .. }) => Method::Read(None),
            Err(error) => return Err(error),
        }
    };
    let header = options.header.len();
    match method {
        Method::Mmap(geometry) | Method::Read(Some(geometry))
            if header >= geometry.subbuf_size() =>
        {
            return Err(Error::HeaderTooLarge {
                header,
                subbuf_size: geometry.subbuf_size(),
            });
        }
        _ => (),
    }
    let mode = channel.mode()?;
    if mode == Mode::Overwrite && options.read && !options.header.is_empty() {
        return Err(Error::HeaderUnreadable);
    }
    Ok(Plan {
        method,
        records: Records::Plain,
        mode,
        header: options.header,
        partial: options.partial,
        direct: false,
        count_from_zero: false,
        watermark: None,
    })
}

/// The description of a fast channel; `None` if it is not one.
fn describe(channel: &ChannelDir) -> Result<Option<Description>> {
    let Some(path) = channel.relay_files()?.into_values().next() else {
        return Ok(None);
    };
    Ring::probe(&open_relay_file(&path, false)?, &path)
}

/// The sizes of a fast channel.
fn geometry(description: Description) -> Option<Geometry> {
    let usize = |value| usize::try_from(value).ok();
    let sizes = description.sizes;
    Geometry::new(usize(sizes.subbuf_size())?, usize(sizes.n_subbufs())?)
}

/// Takes over the signals that end a recording.
pub fn take_signals() -> Result<StopSignals> {
    StopSignals::new().map_err(|source| Error::System {
        action: "take over SIGINT and SIGTERM",
        source,
    })
}

/// Runs the user's command, if there is one.
pub(super) fn run_command(signals: &StopSignals, command: &[OsString]) -> Result<()> {
    let run = signals.run(command, None);
    run.map_err(|source| {
        Error::Io(IoError {
            action: "run the command",
            path: "/proc/self/exe".into(),
            source,
        })
    })
}

/// Sleeps until `until` or a signal. Returns whether it was a signal.
pub(super) fn wait(signals: &StopSignals, until: Instant) -> Result<bool> {
    signals.wait(until).map_err(|source| Error::System {
        action: "wait for signals",
        source,
    })
}

impl Recorder {
    /// Opens the buffers of CPUs that have come up since the last time; one without all of its
    /// control files is an error only the `first` time.
    fn scan(&mut self, first: bool) -> Result<()> {
        let files = self.channel.relay_files()?;
        // All CPUs may write to the only buffer of a channel.
        let plan = Plan {
            count_from_zero: !first,
            ..self.plan
        };
        let alone = files.len() > 1 || self.plan.records == Records::Fast;
        for (cpu, path) in files {
            if self.workers.contains_key(&cpu) {
                continue;
            }
            match Buffer::open(&self.channel, cpu, path, &plan, &self.output) {
                Ok(buffer) => {
                    let worker = Worker::start(buffer, cpu, alone, Arc::clone(&self.stop))?;
                    self.workers.insert(cpu, worker);
                }
                // Removed meanwhile.
                Err(error) if error.is_gone() => (),
                // Still being created: it will be found the next time.
                Err(Error::NoControl { .. }) if !first => (),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// The loop.
    fn run(&mut self, signals: &StopSignals, deadline: Option<Instant>) -> Result<Ended> {
        let mut progress = Progress::new(self.quiet);
        loop {
            let now = Instant::now();
            if deadline.is_some_and(|deadline| now >= deadline) {
                return Ok(Ended::Duration);
            }
            let next_tick = now + TICK;
            self.tick(&mut progress)?;
            let ended = self.workers.values().filter(|worker| worker.is_finished());
            let (ended, all) = (ended.count(), self.workers.len());
            if ended == all {
                return Ok(Ended::Closed);
            }
            let until = deadline.map_or(next_tick, |deadline| deadline.min(next_tick));
            if wait(signals, until)? {
                return Ok(match signals.has_ended() {
                    true => Ended::Command,
                    false => Ended::Signal,
                });
            }
        }
    }

    fn tick(&mut self, progress: &mut Progress) -> Result<()> {
        match self.scan(false) {
            // The directory has gone: each thread will notice that for its buffer.
            Err(error) if error.is_gone() => (),
            other => other?,
        }
        self.note_dropped();
        let tallies: Vec<_> = self.workers.values().map(Worker::tally).collect();
        let mut total = Tally::default();
        tallies.iter().for_each(|tally| total.add(tally));
        progress.update(&total, tallies.len(), self.dropped(tallies.iter()));
        Ok(())
    }

    /// Asks the client how many records it dropped.
    fn note_dropped(&mut self) {
        if let Ok(Some(dropped)) = self.channel.dropped() {
            self.dropped_now = Some(dropped);
        }
    }

    /// Records dropped since the recording began. A reset starts the client's count again. Fast
    /// channels count for each CPU.
    fn dropped<'a>(&self, tallies: impl Iterator<Item = &'a Tally>) -> Option<u64> {
        if self.plan.records == Records::Fast {
            return Some(tallies.map(|tally| tally.lost_records).sum());
        }
        let now = self.dropped_now?;
        Some(now.checked_sub(self.dropped_before?).unwrap_or(now))
    }

    /// The description of a recording that begins now.
    fn metadata(&self) -> Metadata {
        let (method, geometry) = match self.plan.method {
            Method::ControlPage(description) => ("control-page", geometry(description)),
            Method::FastRead(description) => ("read", geometry(description)),
            Method::Mmap(geometry) => ("mmap", Some(geometry)),
            Method::Read(geometry) => ("read", geometry),
        };
        let since_1970 = SystemTime::now()
            .duration_since(SystemTime::UNIX_EPOCH)
            .unwrap_or_default();
        let monotonic = clock_gettime(ClockId::CLOCK_MONOTONIC)
            .map(Duration::from)
            .unwrap_or_default();
        Metadata {
            records: self.plan.records,
            mode: self.plan.mode,
            header: self.plan.header.len(),
            subbuf_size: geometry.map(Geometry::subbuf_size),
            n_subbufs: geometry.map(Geometry::n_subbufs),
            start_unix_ns: u64::try_from(since_1970.as_nanos()).unwrap_or(u64::MAX),
            start_monotonic_ns: u64::try_from(monotonic.as_nanos()).unwrap_or(u64::MAX),
            ..Metadata::new(self.channel.dir(), self.channel.name(), method)
        }
    }
}

/// The summary for people.
pub fn summary(metadata: &Metadata, output: &Path) -> String {
    let mut text = String::new();
    let mut total = Tally::default();
    let counts = |tally: &Tally| match metadata.records {
        Records::Plain => format!(
            "{:>12} bytes, {:>6} sub-buffers, {} lost",
            tally.bytes, tally.subbufs, tally.lost_subbufs
        ),
        Records::Fast => format!(
            "{:>12} bytes, {:>9} records, {} lost, {} bytes overwritten",
            tally.bytes, tally.records, tally.lost_records, tally.overwritten_bytes
        ),
    };
    for cpu in &metadata.cpus {
        total.add(&cpu.tally);
        text.push_str(&format!("cpu {:>3}: {}\n", cpu.cpu, counts(&cpu.tally)));
    }
    let time = Duration::from_nanos(metadata.duration_ns);
    text.push_str(&format!(
        "total  : {}; {:.3} s, {}/s\n",
        counts(&total),
        time.as_secs_f64(),
        BinaryBytes(rate(total.bytes, time)),
    ));
    match metadata.dropped {
        Some(dropped) => text.push_str(&format!("records dropped by the kernel: {dropped}\n")),
        None => text.push_str("records dropped by the kernel: unknown, it does not count them\n"),
    }
    text.push_str(&format!("recorded to {}\n", output.display()));
    text
}
