// SPDX-License-Identifier: GPL-2.0

//! One CPU of a recording: its relay file, the way it is drained, and the file it is written to.

#![deny(unsafe_code)]

use std::fs::File;
use std::os::fd::AsFd;
use std::os::fd::BorrowedFd;
use std::path::PathBuf;

use super::channel::CpuId;
use super::channel::Geometry;
use super::channel::Header;
use super::channel::Mode;
use super::drain::Drain;
use super::drain::Layout;
use super::drain::Sink;
use super::drain_mapped::MappedDrain;
use super::drain_read::HeaderDrain;
use super::drain_read::StreamDrain;
use super::error::Result;
use super::files::ChannelDir;
use super::output::OutputDir;
use super::source::KernelSource;
use super::tally::Tally;

/// How the channel is drained.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// By mmap.
    Mmap(Geometry),
    /// By read(2); the sizes are known only if the channel has control files.
    Read(Option<Geometry>),
}

/// What is the same for all CPUs of a recording.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// How the channel is drained.
    pub method: Method,
    /// Its mode.
    pub mode: Mode,
    /// Where the padding is.
    pub header: Header,
    /// Whether the unfinished sub-buffer is taken at the end.
    pub partial: bool,
}

impl Plan {
    /// Opens the files of one CPU's buffer, and chooses the way to drain it.
    pub fn open(
        &self,
        channel: &ChannelDir,
        cpu: CpuId,
        relay_file: PathBuf,
    ) -> Result<(KernelSource, Box<dyn Drain>)> {
        let (geometry, mapped) = match self.method {
            Method::Mmap(geometry) => (Some(geometry), true),
            Method::Read(geometry) => (geometry, false),
        };
        let mut source = KernelSource::open(channel, cpu, relay_file, geometry, mapped)?;
        let layout = |geometry| Layout {
            cpu,
            geometry,
            mode: self.mode,
            header: self.header,
        };
        let drain: Box<dyn Drain> = match self.method {
            Method::Mmap(geometry) => {
                source.require(channel, cpu, self.header.is_empty())?;
                source.map(geometry)?;
                Box::new(MappedDrain::new(layout(geometry), &mut source)?)
            }
            Method::Read(Some(geometry)) if !self.header.is_empty() => {
                source.require(channel, cpu, false)?;
                Box::new(HeaderDrain::new(layout(geometry), &mut source)?)
            }
            Method::Read(geometry) => Box::new(StreamDrain::new(geometry)),
        };
        Ok((source, drain))
    }
}

/// What a buffer does at the moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// There may be more; wait for it with poll.
    Waiting,
    /// poll says that there is something, but there was not; ask again a little later.
    Idle,
    /// Its channel was closed and everything is taken.
    Closed,
}

/// One CPU of a recording.
pub struct Buffer {
    source: KernelSource,
    drain: Box<dyn Drain>,
    file: File,
    path: PathBuf,
    partial: bool,
    state: State,
    tally: Tally,
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
        let (source, drain) = plan.open(channel, cpu, relay_file)?;
        let (file, path) = output.create_cpu_file(cpu)?;
        Ok(Self {
            source,
            drain,
            file,
            path,
            partial: plan.partial,
            state: State::Waiting,
            tally: Tally::default(),
        })
    }

    /// What it does at the moment.
    pub fn state(&self) -> State {
        self.state
    }

    /// The counts so far.
    pub fn tally(&self) -> &Tally {
        &self.tally
    }

    /// Lets poll look at an idle buffer again.
    pub fn wake(&mut self) {
        if self.state == State::Idle {
            self.state = State::Waiting;
        }
    }

    /// Takes what is ready.
    pub fn drain(&mut self) -> Result<()> {
        let moved = self.with(|drain, source, sink| drain.ready(source, sink));
        match moved {
            Ok(true) => Ok(()),
            Ok(false) => {
                self.state = State::Idle;
                Ok(())
            }
            Err(error) if error.is_gone() => self.close(),
            Err(error) => Err(error),
        }
    }

    /// Takes what is left at the end of the recording.
    pub fn finish(&mut self) -> Result<()> {
        if self.state == State::Closed {
            return Ok(());
        }
        let partial = self.partial;
        match self.with(|drain, source, sink| drain.finish(source, sink, partial)) {
            Err(error) if error.is_gone() => self.close(),
            other => other,
        }
    }

    /// Takes what is left after the channel was closed. The control files may be gone.
    pub fn close(&mut self) -> Result<()> {
        if self.state == State::Closed {
            return Ok(());
        }
        self.state = State::Closed;
        let finished = match self.with(|drain, source, sink| drain.finish(source, sink, true)) {
            Err(error) if error.is_gone() => {
                self.with(|drain, source, sink| drain.rest(source, sink))
            }
            other => other,
        };
        match finished {
            Err(error) if error.is_gone() => {
                self.tally.warn(
                    "the channel was closed and its files removed: if the buffer still held \
                     something, that is lost",
                );
                Ok(())
            }
            other => other,
        }
    }

    fn with<T>(
        &mut self,
        act: impl FnOnce(&mut dyn Drain, &mut KernelSource, &mut Sink<'_>) -> Result<T>,
    ) -> Result<T> {
        let mut sink = Sink {
            file: &mut self.file,
            path: &self.path,
            tally: &mut self.tally,
        };
        act(self.drain.as_mut(), &mut self.source, &mut sink)
    }
}

impl AsFd for Buffer {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.source.as_fd()
    }
}
