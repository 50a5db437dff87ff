// SPDX-License-Identifier: GPL-2.0

//! `ferrotrace relay record`: one poll loop over the buffers of all CPUs.
//!
//! The loop sleeps in poll until a buffer has a finished sub-buffer, a signal comes or the tick is
//! over. A buffer that poll calls ready though nothing can be taken from it is left out until the
//! next tick, so that it cannot make the loop spin.

#![deny(unsafe_code)]

use std::collections::BTreeMap;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::time::Duration;
use std::time::Instant;
use std::time::SystemTime;

use indicatif::BinaryBytes;
use nix::errno::Errno;
use nix::poll::PollFd;
use nix::poll::PollFlags;
use nix::poll::PollTimeout;
use nix::poll::poll;
use nix::time::ClockId;
use nix::time::clock_gettime;

use super::buffer::Buffer;
use super::buffer::Method;
use super::buffer::Plan;
use super::buffer::State;
use super::channel::CpuId;
use super::channel::Geometry;
use super::channel::Header;
use super::channel::Mode;
use super::error::Error;
use super::error::Result;
use super::files::ChannelDir;
use super::output::CpuMetadata;
use super::output::Metadata;
use super::output::OutputDir;
use super::output::Records;
use super::output::Stop;
use super::output::VERSION;
use super::progress::Progress;
use super::progress::rate;
use super::signals::StopSignals;
use super::tally::Tally;

/// How often the display is renewed and idle buffers are looked at again.
const TICK: Duration = Duration::from_millis(200);

/// How often new CPUs are looked for.
const RESCAN: Duration = Duration::from_secs(1);

/// What the user wants recorded.
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
    /// Instead of what DIR/subbuf_size says.
    pub subbuf_size: Option<usize>,
    /// Instead of what DIR/n_subbufs says.
    pub n_subbufs: Option<usize>,
    /// No live display.
    pub quiet: bool,
}

/// A recording that is being made.
struct Recorder {
    channel: ChannelDir,
    output: OutputDir,
    plan: Plan,
    buffers: BTreeMap<CpuId, Buffer>,
    quiet: bool,
    dropped_before: Option<u64>,
    /// The last answer: when the channel is closed, the file goes too.
    dropped_now: Option<u64>,
    scanned: Instant,
}

/// Records until something ends it, and returns the description of what was recorded.
///
/// After an error the recording is closed as well as possible, and the error returned.
pub fn record(options: &Options) -> Result<Metadata> {
    let signals = StopSignals::new().map_err(|source| Error::System {
        action: "take over SIGINT and SIGTERM",
        source,
    })?;
    let channel = ChannelDir::open(&options.channel)?;
    let plan = plan(&channel, options)?;
    // What is wrong with the channel should be known before anything is written.
    for (cpu, path) in channel.relay_files()? {
        plan.open(&channel, cpu, path)?;
    }
    let output = OutputDir::create(&options.output, channel.name(), options.force)?;

    let dropped_before = channel.dropped()?;
    let mut recorder = Recorder {
        dropped_now: dropped_before,
        dropped_before,
        plan,
        buffers: BTreeMap::new(),
        quiet: options.quiet,
        scanned: Instant::now(),
        channel,
        output,
    };
    let mut metadata = recorder.metadata();
    let started = Instant::now();
    recorder.output.copy_format(recorder.channel.dir())?;
    recorder.output.write_metadata(&metadata)?;

    let deadline = options
        .duration
        .and_then(|duration| started.checked_add(duration));
    let mut result = recorder
        .scan(true)
        .and_then(|()| recorder.run(&signals, deadline));
    for buffer in recorder.buffers.values_mut() {
        // The first error is the one to report, but every CPU gets its chance.
        let finished = buffer.finish();
        result = result.and_then(|stop| finished.map(|()| stop));
    }
    recorder.note_dropped();

    metadata.complete = true;
    metadata.duration_ns = u64::try_from(started.elapsed().as_nanos()).unwrap_or(u64::MAX);
    metadata.stop = Some(*result.as_ref().unwrap_or(&Stop::Error));
    metadata.dropped = recorder.dropped();
    metadata.cpus = recorder.cpus();
    let written = recorder.output.write_metadata(&metadata);
    result.and(written)?;
    Ok(metadata)
}

/// Finds out how the channel can be drained.
fn plan(channel: &ChannelDir, options: &Options) -> Result<Plan> {
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
        mode,
        header: options.header,
        partial: options.partial,
    })
}

impl Recorder {
    /// Opens the buffers of CPUs that have come up since the last look; one without all of
    /// its control files is an error only at the `first` look.
    fn scan(&mut self, first: bool) -> Result<()> {
        self.scanned = Instant::now();
        for (cpu, path) in self.channel.relay_files()? {
            if self.buffers.contains_key(&cpu) {
                continue;
            }
            match Buffer::open(&self.channel, cpu, path, &self.plan, &self.output) {
                Ok(buffer) => {
                    self.buffers.insert(cpu, buffer);
                }
                // Removed between the look and now.
                Err(error) if error.is_gone() => (),
                // Still being made: the next look will find it.
                Err(Error::NoControl { .. }) if !first => (),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// The loop.
    fn run(&mut self, signals: &StopSignals, deadline: Option<Instant>) -> Result<Stop> {
        let mut progress = Progress::new(self.quiet);
        let mut next_tick = Instant::now();
        loop {
            let now = Instant::now();
            if deadline.is_some_and(|deadline| now >= deadline) {
                return Ok(Stop::Duration);
            }
            if now >= next_tick {
                next_tick = now + TICK;
                self.tick(&mut progress)?;
            }
            if self.all_closed() {
                return Ok(Stop::Closed);
            }
            let until = deadline.map_or(next_tick, |deadline| deadline.min(next_tick));
            let (stop, ready) = self.wait(signals, until)?;
            if stop {
                return Ok(Stop::Signal);
            }
            for (cpu, flags) in ready {
                self.serve(cpu, flags)?;
            }
        }
    }

    fn all_closed(&self) -> bool {
        self.buffers
            .values()
            .all(|buffer| buffer.state() == State::Closed)
    }

    fn tick(&mut self, progress: &mut Progress) -> Result<()> {
        for buffer in self.buffers.values_mut() {
            buffer.wake();
        }
        if self.scanned.elapsed() >= RESCAN {
            match self.scan(false) {
                // The directory has gone: poll will say so for each buffer.
                Err(Error::NoDirectory(_) | Error::Gone(_)) => (),
                other => other?,
            }
            self.note_dropped();
        }
        progress.update(&self.total(), self.buffers.len(), self.dropped());
        Ok(())
    }

    /// Sleeps until `until`, a signal, or something to take. Says whether to stop, and which
    /// buffers to look at.
    fn wait(
        &self,
        signals: &StopSignals,
        until: Instant,
    ) -> Result<(bool, Vec<(CpuId, PollFlags)>)> {
        let failed = |source| Error::System {
            action: "wait for the relay files",
            source,
        };
        let waiting: Vec<_> = self
            .buffers
            .iter()
            .filter(|(_, buffer)| buffer.state() == State::Waiting)
            .collect();
        let mut fds = vec![PollFd::new(signals.as_fd(), PollFlags::POLLIN)];
        fds.extend(
            waiting
                .iter()
                .map(|(_, buffer)| PollFd::new(buffer.as_fd(), PollFlags::POLLIN)),
        );
        // Rounded up: a timeout of 0 ms just before the end would spin.
        let left = until.saturating_duration_since(Instant::now());
        let timeout =
            PollTimeout::try_from(left + Duration::from_micros(999)).unwrap_or(PollTimeout::MAX);
        match poll(&mut fds, timeout) {
            Ok(_) => (),
            Err(Errno::EINTR) => return Ok((false, Vec::new())),
            Err(errno) => return Err(failed(errno)),
        }
        let events = |fd: &PollFd<'_>| fd.revents().unwrap_or(PollFlags::empty());
        let mut fds = fds.iter();
        let signalled = fds.next().is_some_and(|fd| !events(fd).is_empty());
        let ready = waiting
            .iter()
            .zip(fds)
            .map(|((cpu, _), fd)| (**cpu, events(fd)))
            .filter(|(_, flags)| !flags.is_empty())
            .collect();
        let stop = signalled && signals.take().map_err(failed)?;
        Ok((stop, ready))
    }

    fn serve(&mut self, cpu: CpuId, flags: PollFlags) -> Result<()> {
        let Some(buffer) = self.buffers.get_mut(&cpu) else {
            return Ok(());
        };
        let closed = PollFlags::POLLERR | PollFlags::POLLHUP | PollFlags::POLLNVAL;
        if flags.intersects(closed) {
            buffer.close()?;
            // If only this buffer has gone, others may have come.
            self.scanned = self.scanned.checked_sub(RESCAN).unwrap_or(self.scanned);
            return Ok(());
        }
        buffer.drain()
    }

    /// Asks the client how many records it dropped.
    fn note_dropped(&mut self) {
        if let Ok(Some(dropped)) = self.channel.dropped() {
            self.dropped_now = Some(dropped);
        }
    }

    /// Records dropped since the recording began. A reset starts the client's count again.
    fn dropped(&self) -> Option<u64> {
        let now = self.dropped_now?;
        Some(now.checked_sub(self.dropped_before?).unwrap_or(now))
    }

    fn total(&self) -> Tally {
        let mut total = Tally::default();
        for buffer in self.buffers.values() {
            total.add(buffer.tally());
        }
        total
    }

    fn cpus(&self) -> Vec<CpuMetadata> {
        self.buffers
            .iter()
            .map(|(&cpu, buffer)| CpuMetadata {
                cpu,
                file: self.output.cpu_file_name(cpu),
                tally: buffer.tally().clone(),
            })
            .collect()
    }

    /// The description of a recording that begins now.
    fn metadata(&self) -> Metadata {
        let (method, geometry) = match self.plan.method {
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
            version: VERSION,
            complete: false,
            channel: self.channel.dir().into(),
            name: self.channel.name().into(),
            records: Records::Plain,
            method: method.into(),
            mode: self.plan.mode,
            header: self.plan.header.len(),
            subbuf_size: geometry.map(Geometry::subbuf_size),
            n_subbufs: geometry.map(Geometry::n_subbufs),
            start_unix_ns: u64::try_from(since_1970.as_nanos()).unwrap_or(u64::MAX),
            start_monotonic_ns: u64::try_from(monotonic.as_nanos()).unwrap_or(u64::MAX),
            duration_ns: 0,
            stop: None,
            dropped: None,
            cpus: Vec::new(),
        }
    }
}

/// The summary for people.
pub fn summary(metadata: &Metadata, output: &std::path::Path) -> String {
    let mut text = String::new();
    let mut total = Tally::default();
    for cpu in &metadata.cpus {
        let tally = &cpu.tally;
        total.add(tally);
        text.push_str(&format!(
            "cpu {:>3}: {:>12} bytes, {:>6} sub-buffers, {} lost\n",
            cpu.cpu, tally.bytes, tally.subbufs, tally.lost_subbufs
        ));
    }
    let time = Duration::from_nanos(metadata.duration_ns);
    text.push_str(&format!(
        "total  : {:>12} bytes, {:>6} sub-buffers, {} lost; {:.3} s, {}/s\n",
        total.bytes,
        total.subbufs,
        total.lost_subbufs,
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
