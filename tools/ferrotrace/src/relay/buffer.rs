// SPDX-License-Identifier: GPL-2.0

//! One CPU of a recording: its relay file, how it is drained, and the file that it is written to.

#![deny(unsafe_code)]

use std::fs::File;
use std::os::fd::AsFd;
use std::os::fd::BorrowedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::MutexGuard;
use std::sync::PoisonError;

use nix::fcntl::Flock;

use super::channel::CpuId;
use super::channel::Geometry;
use super::channel::Header;
use super::channel::Mode;
use super::drain::Drain;
use super::drain::Layout;
use super::drain_mapped::MappedDrain;
use super::drain_read::HeaderDrain;
use super::drain_read::StreamDrain;
use super::error::Error;
use super::error::Result;
use super::files::ChannelDir;
use super::files::keep_others_out;
use super::files::open_relay_file;
use super::output::CpuFile;
use super::output::OutputDir;
use super::output::Records;
use super::source::KernelSource;
use super::tally::Tally;
use crate::fast::drain::FastDrain;
use crate::fast::ring::Description;
use crate::fast::ring::Ring;

/// How the channel is drained.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// By the control page of a fast channel.
    ControlPage(Description),
    /// By read(2), with the counts of a fast channel's control page.
    FastRead(Description),
    /// By mmap and control files.
    Mmap(Geometry),
    /// By read(2); the sizes are known only if the channel has control files.
    Read(Option<Geometry>),
}

/// Settings that all CPUs of a recording share.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// How the channel is drained.
    pub method: Method,
    /// The kind of records in the recording.
    pub records: Records,
    /// Its mode.
    pub mode: Mode,
    /// Where the padding is.
    pub header: Header,
    /// True if the unfinished sub-buffer is taken at the end.
    pub partial: bool,
    /// True if whole blocks bypass the page cache.
    pub direct: bool,
    /// For a fast channel: whether losses before the buffer is opened are counted, since the CPU
    /// has come up while the others were being recorded.
    pub count_from_zero: bool,
    /// For a fast channel: how many unread bytes to wait for, if that has to be changed.
    pub watermark: Option<u64>,
}

/// One CPU's buffer and the way to drain it.
pub enum Input {
    /// A fast one.
    Fast {
        /// The relay file, for poll.
        file: Flock<File>,
        /// The drain of its mapping.
        drain: FastDrain,
    },
    /// Any other.
    Compatible {
        /// The relay file and its control files.
        source: KernelSource,
        /// The drain that uses them.
        drain: Box<dyn Drain + Send>,
    },
}

impl Plan {
    /// Opens the files of one CPU's buffer, and chooses how to drain it.
    pub fn open(&self, channel: &ChannelDir, cpu: CpuId, relay_file: PathBuf) -> Result<Input> {
        let (geometry, mapped) = match self.method {
            Method::ControlPage(_) => return self.open_fast(relay_file, false),
            Method::FastRead(_) => return self.open_fast(relay_file, true),
            Method::Mmap(geometry) => (Some(geometry), true),
            Method::Read(geometry) => (geometry, false),
        };
        let mut source = KernelSource::open(channel, cpu, relay_file, geometry, mapped)?;
        source.keep_others_out()?;
        let layout = |geometry| Layout {
            cpu,
            geometry,
            mode: self.mode,
            header: self.header,
        };
        let drain: Box<dyn Drain + Send> = match geometry {
            Some(geometry) if mapped => {
                source.require(channel, cpu, self.header.is_empty())?;
                source.map(geometry)?;
                Box::new(MappedDrain::new(layout(geometry), &mut source)?)
            }
            Some(geometry) if !self.header.is_empty() => {
                source.require(channel, cpu, false)?;
                Box::new(HeaderDrain::new(layout(geometry), &mut source)?)
            }
            _ => Box::new(StreamDrain::new(geometry)),
        };
        Ok(Input::Compatible { source, drain })
    }

    fn open_fast(&self, path: PathBuf, read: bool) -> Result<Input> {
        let consume = !read || self.watermark.is_some();
        let file = keep_others_out(open_relay_file(&path, consume)?, &path)?;
        let ring = Ring::open(&file, &path, consume)?.ok_or_else(|| Error::BadControlPage {
            path: path.clone(),
            what: "not a file of a fast channel, as the others are".into(),
        })?;
        if let Some(watermark) = self.watermark {
            ring.set_watermark(watermark);
        }
        let lost_before = if self.count_from_zero { 0 } else { ring.lost() };
        let again = |error| Error::channel("open", &path, error);
        let input = read.then(|| file.try_clone()).transpose().map_err(again)?;
        let drain = FastDrain::new(ring, path, lost_before);
        let drain = match input {
            Some(input) => drain.reading(input),
            None => drain,
        };
        Ok(Input::Fast { file, drain })
    }
}

/// The state of a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// There may be more; wait for it with poll.
    Waiting,
    /// poll reported data, but there was none; try again a little later.
    Idle,
    /// Its channel was closed and everything is taken.
    Closed,
}

impl Input {
    /// Takes what is ready.
    fn ready(&mut self, out: &mut CpuFile) -> Result<State> {
        let (moved, closed) = match self {
            Input::Fast { drain, .. } => {
                // Checked first: when the end is seen, what came before it is there.
                let closed = drain.ring().is_closed();
                (drain.ready(out)?, closed)
            }
            Input::Compatible { source, drain } => (drain.ready(source, &mut out.sink())?, false),
        };
        Ok(match moved {
            _ if closed => State::Closed,
            true => State::Waiting,
            false => State::Idle,
        })
    }

    /// Takes what is left at the end; the unfinished sub-buffer if `partial`.
    fn finish(&mut self, out: &mut CpuFile, partial: bool) -> Result<()> {
        match self {
            Input::Fast { drain, .. } => drain.finish(out),
            Input::Compatible { source, drain } => drain.finish(source, &mut out.sink(), partial),
        }
    }

    /// Takes what is left after the channel was closed and its control files are gone.
    fn rest(&mut self, out: &mut CpuFile) -> Result<()> {
        match self {
            Input::Fast { drain, .. } => drain.finish(out),
            Input::Compatible { source, drain } => drain.rest(source, &mut out.sink()),
        }
    }
}

fn take_turn(turn: &Mutex<()>) -> MutexGuard<'_, ()> {
    // The lock protects no data here, so one that a panicking thread held does no harm.
    turn.lock().unwrap_or_else(PoisonError::into_inner)
}

/// One CPU of a recording.
pub struct Buffer {
    input: Input,
    out: CpuFile,
    partial: bool,
    state: State,
    turn: Option<Arc<Mutex<()>>>,
}

impl Buffer {
    /// Opens everything for one CPU.
    pub fn open(
        channel: &ChannelDir,
        cpu: CpuId,
        relay_file: PathBuf,
        plan: &Plan,
        output: &OutputDir,
    ) -> Result<Self> {
        let input = plan.open(channel, cpu, relay_file)?;
        Ok(Self::new(
            input,
            output.create_cpu_file(cpu, plan.direct)?,
            plan.partial,
        ))
    }

    /// Makes one from its parts; the unfinished sub-buffer is taken at the end if `partial`.
    pub fn new(input: Input, out: CpuFile, partial: bool) -> Self {
        Self {
            input,
            out,
            partial,
            state: State::Waiting,
            turn: None,
        }
    }

    /// Makes it take and write sub-buffers only while it holds the lock, for buffers that are
    /// written to one file.
    pub fn taking_turns(self, turn: Option<Arc<Mutex<()>>>) -> Self {
        Self { turn, ..self }
    }

    /// Its state.
    pub fn state(&self) -> State {
        self.state
    }

    /// The counts so far.
    pub fn tally(&self) -> &Tally {
        &self.out.tally
    }

    /// Takes what is ready.
    pub fn drain(&mut self) -> Result<()> {
        let turn = self.turn.clone();
        let _turn = turn.as_deref().map(take_turn);
        match self.input.ready(&mut self.out) {
            Ok(state) => {
                self.state = state;
                Ok(())
            }
            Err(error) if error.is_gone() => self.close(),
            Err(error) => self.failed(error),
        }
    }

    /// Removes what has been written but not counted: it was not consumed either, and belongs to
    /// the next recording.
    fn failed(&mut self, error: Error) -> Result<()> {
        // In a file for all CPUs, what others wrote follows it.
        if self.turn.is_none() {
            self.out.cut();
        }
        Err(error)
    }

    /// Takes what is left at the end of the recording.
    pub fn finish(&mut self) -> Result<()> {
        let turn = self.turn.clone();
        let _turn = turn.as_deref().map(take_turn);
        if self.state == State::Closed {
            return Ok(());
        }
        match self.input.finish(&mut self.out, self.partial) {
            Ok(()) => Ok(()),
            Err(error) if error.is_gone() => self.close(),
            Err(error) => self.failed(error),
        }
    }

    /// Takes what is left after the channel was closed. The control files may be gone.
    pub fn close(&mut self) -> Result<()> {
        if self.state == State::Closed {
            return Ok(());
        }
        self.state = State::Closed;
        let finished = match self.input.finish(&mut self.out, true) {
            Err(error) if error.is_gone() => self.input.rest(&mut self.out),
            other => other,
        };
        match finished {
            Err(error) if error.is_gone() => {
                self.out.tally.warn(
                    "the channel was closed and its files removed: if the buffer still held \
                     something, that is lost",
                );
                Ok(())
            }
            Ok(()) => Ok(()),
            Err(error) => self.failed(error),
        }
    }
}

impl AsFd for Buffer {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.input {
            Input::Fast { file, .. } => file.as_fd(),
            Input::Compatible { source, .. } => source.as_fd(),
        }
    }
}
