// SPDX-License-Identifier: GPL-2.0

//! Reading the hits as they come.
//!
//! The records of a CPU are read with `read(2)`, which returns those of the unfinished sub-buffer too.

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

/// Reads of a CPU before the other CPUs have their turn.
const TURN: usize = 16;

/// The relay files of all CPUs.
pub struct Live {
    channel: ChannelDir,
    cpus: BTreeMap<CpuId, Cpu>,
}

struct Cpu {
    source: KernelSource,
    /// The start of a record whose end a read has not returned.
    rest: Vec<u8>,
}

impl Live {
    /// Opens the files that exist.
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

    /// Continues the round that began at this time. Returns whether there may be more records from before it.
    pub fn turn(&mut self, began: u64, mut to: impl FnMut(Event)) -> Result<bool> {
        let mut more = false;
        for Cpu { source, rest } in self.cpus.values_mut() {
            more |= turn(began, rest, |into| source.read(into), &mut to)?;
        }
        Ok(more)
    }

    /// Waits for a full sub-buffer, but not longer than this. Returns whether a signal came.
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

/// A CPU's turn. Returns whether there may be more records from before `began`, not whether there are any more: the
/// read itself may cause hits.
fn turn<E>(
    began: u64,
    rest: &mut Vec<u8>,
    mut read: impl FnMut(&mut [u8]) -> std::result::Result<usize, E>,
    to: &mut impl FnMut(Event),
) -> std::result::Result<bool, E> {
    let mut bytes = [0; AT_ONCE * RECORD_SIZE];
    for _ in 0..TURN {
        let len = read(&mut bytes)?;
        let mut done = len == 0;
        split(rest, bytes.get(..len).unwrap_or_default(), |record| {
            if let Some(event) = Event::parse(record) {
                done |= event.time >= began;
                to(event);
            }
        });
        if done {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Cuts `rest` and what follows it into records, and keeps what is left.
fn split(rest: &mut Vec<u8>, bytes: &[u8], mut to: impl FnMut(&[u8])) {
    rest.extend_from_slice(bytes);
    let records = rest.chunks_exact(RECORD_SIZE);
    let left = records.remainder().len();
    records.for_each(&mut to);
    rest.drain(..rest.len() - left);
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::super::event::tests::event;
    use super::super::event::tests::record;
    use super::super::order::Order;
    use super::*;

    /// A CPU with old records, and one more for each read.
    struct Busy {
        old: std::ops::Range<u64>,
        rest: Vec<u8>,
    }

    impl Busy {
        fn turn(&mut self, began: u64, clock: &mut u64, order: &mut Order<Event>) -> bool {
            let read = |into: &mut [u8]| {
                *clock += 1;
                let times = self.old.by_ref().chain([*clock]).take(AT_ONCE);
                let bytes: Vec<u8> = times.flat_map(|time| record(&event(time))).collect();
                into[..bytes.len()].copy_from_slice(&bytes);
                Ok::<_, Infallible>(bytes.len())
            };
            turn(began, &mut self.rest, read, &mut |event| order.add(event)).unwrap()
        }
    }

    #[test]
    fn rounds_end_although_each_read_is_a_hit() {
        const OLD: u64 = 5000;
        let busy = |old| Busy {
            old,
            rest: Vec::new(),
        };
        let (mut clock, mut order) = (OLD, Order::default());
        let mut cpus = [busy(0..OLD), busy(0..0)];
        let (mut turns, mut shown) = (Vec::new(), 0);
        for round in 0..20 {
            let began = clock;
            let mut count = 0;
            let mut more = true;
            while more {
                more = false;
                for cpu in &mut cpus {
                    more |= cpu.turn(began, &mut clock, &mut order);
                }
                count += 1;
            }
            turns.push(count);
            let events = order.before(began);
            assert!(events.iter().all(|event| event.time < began));
            shown += u64::try_from(events.len()).unwrap();
            // Only records from after the start of the round are held back.
            assert!(shown + 25 > began, "{round}: {shown} of {began}");
        }
        assert_eq!(turns[0], 2);
        assert!(turns[1..].iter().all(|count| *count == 1));
        assert_eq!(order.late(), 0);
    }

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
