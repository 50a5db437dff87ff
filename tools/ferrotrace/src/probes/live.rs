// SPDX-License-Identifier: GPL-2.0

//! Reading the hits while they come.
//!
//! The records of a CPU are read with `read(2)`, which gives those of the unfinished sub-buffer too.

#![deny(unsafe_code)]

use std::collections::BTreeMap;
use std::os::fd::AsFd;
use std::path::Path;
use std::time::Duration;

use nix::errno::Errno;
use nix::poll::PollFd;
use nix::poll::PollFlags;
use nix::poll::PollTimeout;
use nix::poll::poll;

use super::error::Result;
use super::event::Event;
use super::event::RECORD_SIZE;
use crate::relay::channel::CpuId;
use crate::relay::files::ChannelDir;
use crate::relay::source::KernelSource;
use crate::relay::source::Source;
use crate::signals::StopSignals;

/// Records that one read takes.
const AT_ONCE: usize = 256;

/// Reads of a CPU in one round, before the others have their turn.
const TURN: usize = 16;

/// The relay files of all CPUs.
pub struct Live {
    channel: ChannelDir,
    cpus: BTreeMap<CpuId, Cpu>,
}

struct Cpu {
    source: KernelSource,
    /// The start of a record, of which a read has not given the end.
    rest: Vec<u8>,
}

impl Live {
    /// Opens what there is.
    pub fn open(channel: &Path) -> Result<Self> {
        let mut live = Self {
            channel: ChannelDir::open(channel)?,
            cpus: BTreeMap::new(),
        };
        live.scan()?;
        Ok(live)
    }

    /// Opens the files of CPUs that have come up.
    pub fn scan(&mut self) -> Result<()> {
        for (cpu, path) in self.channel.relay_files()? {
            if !self.cpus.contains_key(&cpu) {
                let source = KernelSource::open(&self.channel, cpu, path, None, false)?;
                let rest = Vec::new();
                self.cpus.insert(cpu, Cpu { source, rest });
            }
        }
        Ok(())
    }

    /// Records that found no room since the module was loaded.
    pub fn dropped(&self) -> Result<u64> {
        Ok(self.channel.dropped()?.unwrap_or(0))
    }

    /// Reads what there is. Says whether there may be more.
    pub fn round(&mut self, mut to: impl FnMut(Event)) -> Result<bool> {
        let mut more = false;
        for cpu in self.cpus.values_mut() {
            more |= cpu.round(&mut to)?;
        }
        Ok(more)
    }

    /// Waits for a full sub-buffer, but not longer than this. Says whether a signal came.
    pub fn wait(&self, signals: &StopSignals, most: Duration) -> nix::Result<bool> {
        let mut fds = vec![PollFd::new(signals.as_fd(), PollFlags::POLLIN)];
        let cpus = self.cpus.values();
        fds.extend(cpus.map(|cpu| PollFd::new(cpu.source.as_fd(), PollFlags::POLLIN)));
        let most = most + Duration::from_micros(999);
        match poll(
            &mut fds,
            PollTimeout::try_from(most).unwrap_or(PollTimeout::MAX),
        ) {
            Ok(_) | Err(Errno::EINTR) => signals.take(),
            Err(errno) => Err(errno),
        }
    }
}

impl Cpu {
    fn round(&mut self, to: &mut impl FnMut(Event)) -> Result<bool> {
        let mut bytes = [0; AT_ONCE * RECORD_SIZE];
        for _ in 0..TURN {
            let len = self.source.read(&mut bytes)?;
            if len == 0 {
                return Ok(false);
            }
            split(
                &mut self.rest,
                bytes.get(..len).unwrap_or_default(),
                |record| {
                    if let Some(event) = Event::parse(record) {
                        to(event);
                    }
                },
            );
        }
        Ok(true)
    }
}

/// Cuts `rest` and what comes behind it into records, and keeps what is left.
fn split(rest: &mut Vec<u8>, bytes: &[u8], mut to: impl FnMut(&[u8])) {
    rest.extend_from_slice(bytes);
    let records = rest.chunks_exact(RECORD_SIZE);
    let left = records.remainder().len();
    records.for_each(&mut to);
    rest.drain(..rest.len() - left);
}

#[cfg(test)]
mod tests {
    use super::super::event::tests::event;
    use super::super::event::tests::record;
    use super::*;

    #[test]
    fn records_that_are_cut() {
        let bytes: Vec<u8> = (0..4).flat_map(|time| record(&event(time))).collect();
        for len in [1, 100, RECORD_SIZE, RECORD_SIZE + 1, bytes.len()] {
            let (mut rest, mut times) = (Vec::new(), Vec::new());
            for part in bytes.chunks(len) {
                split(&mut rest, part, |record| {
                    times.push(Event::parse(record).unwrap().time);
                });
            }
            assert_eq!(times, [0, 1, 2, 3], "{len}");
            assert!(rest.is_empty());
        }
    }
}
