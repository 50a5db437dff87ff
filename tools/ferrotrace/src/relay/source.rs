// SPDX-License-Identifier: GPL-2.0

//! One CPU's buffer, as the drains see it: a trait, which the tests implement for a model of the
//! kernel, and the implementation for the files in debugfs.

#![deny(unsafe_code)]

use std::fs;
use std::fs::File;
use std::io;
use std::io::Read;
use std::os::fd::AsFd;
use std::os::fd::AsRawFd;
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::path::PathBuf;

use nix::errno::Errno;
use nix::fcntl::Flock;

use super::channel::CpuId;
use super::channel::Geometry;
use super::error::Error;
use super::error::Result;
use super::files::ChannelDir;
use super::files::Counter;
use super::files::keep_others_out;
use super::files::open_relay_file;
use super::mapping::Mapping;
use super::mapping::holds;

/// One CPU's buffer.
pub trait Source {
    /// Sub-buffers finished since the channel was opened.
    fn produced(&mut self) -> Result<usize>;

    /// Sub-buffers that count as consumed for the kernel.
    fn consumed(&mut self) -> Result<usize>;

    /// Tells the kernel that `delta` more sub-buffers were consumed.
    fn add_consumed(&mut self, delta: usize) -> Result<()>;

    /// The padding of the sub-buffer in each slot.
    fn paddings(&mut self, into: &mut Vec<usize>) -> Result<()>;

    /// Copies bytes out of the mapping, which may change meanwhile.
    fn copy(&self, offset: usize, into: &mut [u8]) -> Result<()>;

    /// Calls read(2), which returns data without padding and consumes it. 0 means that there is
    /// nothing now.
    fn read(&mut self, into: &mut [u8]) -> Result<usize>;

    /// The position in the buffer after the last read(2), if the kernel tells.
    fn position(&self) -> Option<usize>;

    /// The path of the relay file, for messages.
    fn path(&self) -> &Path;
}

/// A relay file and its control files.
#[derive(Debug)]
pub struct KernelSource {
    path: PathBuf,
    file: File,
    /// While data is taken.
    lock: Option<Flock<File>>,
    /// Bytes that read(2) has returned.
    read: usize,
    geometry: Option<Geometry>,
    mapping: Option<Mapping>,
    produced: Option<Counter>,
    consumed: Option<Counter>,
    padding: Option<Counter>,
}

impl KernelSource {
    /// Opens the relay file of `cpu` and those of its control files that exist.
    pub fn open(
        channel: &ChannelDir,
        cpu: CpuId,
        path: PathBuf,
        geometry: Option<Geometry>,
        writable: bool,
    ) -> Result<Self> {
        let file = open_relay_file(&path, false)?;
        let control = |name, write| Counter::find(channel.cpu_control(cpu, name), write);
        Ok(Self {
            produced: control("produced", false)?,
            consumed: control("consumed", writable)?,
            padding: control("padding", false)?,
            mapping: None,
            read: 0,
            geometry,
            path,
            file,
            lock: None,
        })
    }

    /// Says that data is going to be taken, which only one process can do.
    pub fn keep_others_out(&mut self) -> Result<()> {
        let file = self.file.try_clone();
        let file = file.map_err(|error| Error::channel("open", &self.path, error))?;
        self.lock = Some(keep_others_out(file, &self.path)?);
        Ok(())
    }

    /// Maps the whole buffer.
    pub fn map(&mut self, geometry: Geometry) -> Result<()> {
        let wrong_size = || Error::WrongSize {
            path: self.path.clone(),
            subbuf_size: geometry.subbuf_size(),
            n_subbufs: geometry.n_subbufs(),
        };
        let failed = |error| Error::channel("examine", &self.path, error);
        if !holds(&self.file, geometry.total()).map_err(failed)? {
            return Err(wrong_size());
        }
        let mapping = Mapping::new(&self.file, geometry.total()).map_err(|errno| match errno {
            Errno::ENODEV => Error::MmapRefused(self.path.clone()),
            Errno::EINVAL => wrong_size(),
            other => Error::channel("map", &self.path, other.into()),
        })?;
        self.mapping = Some(mapping);
        Ok(())
    }

    /// Makes sure that all control files exist that draining needs.
    pub fn require(&self, channel: &ChannelDir, cpu: CpuId, padding: bool) -> Result<()> {
        let missing = |name, purpose, instead| Error::NoControl {
            path: channel.cpu_control(cpu, name),
            purpose,
            instead,
        };
        let counts = "know which sub-buffers are ready";
        let read = "use --read, which needs no control files";
        if self.produced.is_none() {
            return Err(missing("produced", counts, read));
        }
        if self.consumed.is_none() {
            return Err(missing("consumed", counts, read));
        }
        if padding && self.padding.is_none() {
            return Err(missing(
                "padding",
                "leave out unused bytes",
                "use --header if each sub-buffer starts with its padding, or --read",
            ));
        }
        Ok(())
    }

    /// The two counts, where there are control files.
    pub fn counts(&self) -> Result<(Option<usize>, Option<usize>)> {
        let get = |counter: &Option<Counter>| counter.as_ref().map(Counter::get).transpose();
        Ok((get(&self.produced)?, get(&self.consumed)?))
    }

    /// The size that the file system reports for the relay file.
    pub fn file_size(&self) -> Result<u64> {
        let metadata = self.file.metadata();
        Ok(metadata
            .map_err(|error| Error::channel("examine", &self.path, error))?
            .len())
    }

    fn gone(&self) -> Error {
        Error::Gone(self.path.clone())
    }
}

impl AsFd for KernelSource {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

impl Source for KernelSource {
    fn produced(&mut self) -> Result<usize> {
        self.produced.as_ref().ok_or_else(|| self.gone())?.get()
    }

    fn consumed(&mut self) -> Result<usize> {
        self.consumed.as_ref().ok_or_else(|| self.gone())?.get()
    }

    fn add_consumed(&mut self, delta: usize) -> Result<()> {
        let counter = self.consumed.as_ref().ok_or_else(|| self.gone())?;
        counter.add(delta)
    }

    fn paddings(&mut self, into: &mut Vec<usize>) -> Result<()> {
        let n_subbufs = self.geometry.map_or(0, Geometry::n_subbufs);
        let counter = self.padding.as_ref().ok_or_else(|| self.gone())?;
        counter.get_all(n_subbufs, into)
    }

    fn copy(&self, offset: usize, into: &mut [u8]) -> Result<()> {
        let mapping = self.mapping.as_ref().ok_or_else(|| self.gone())?;
        mapping
            .copy_out(offset, into)
            .map_err(|_| Error::channel("copy from", &self.path, Errno::ERANGE.into()))
    }

    fn read(&mut self, into: &mut [u8]) -> Result<usize> {
        loop {
            match self.file.read(into) {
                Ok(len) => {
                    self.read = self.read.wrapping_add(len);
                    return Ok(len);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => (),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(0),
                Err(error) => return Err(Error::channel("read", &self.path, error)),
            }
        }
    }

    fn position(&self) -> Option<usize> {
        // A relay file does not support lseek(), not even to get the position; fdinfo has it.
        let info = format!("/proc/self/fdinfo/{}", self.file.as_raw_fd());
        let text = fs::read_to_string(info).ok()?;
        let line = text.lines().find_map(|line| line.strip_prefix("pos:"))?;
        let position = line.trim().parse().ok()?;
        // An engine may count what was read instead, which says nothing about the buffer. If both
        // are the same, reading began at the start of the buffer, which is also assumed without an
        // answer.
        (position != self.read).then_some(position)
    }

    fn path(&self) -> &Path {
        &self.path
    }
}
