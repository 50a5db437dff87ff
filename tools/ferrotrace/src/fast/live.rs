// SPDX-License-Identifier: GPL-2.0

//! Reading the records of a fast channel as they come.
//!
//! The records of a CPU are read with `read(2)`, which returns whole ones, those of an unfinished sub-buffer too.

#![deny(unsafe_code)]

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fs::File;
use std::io;
use std::io::Read;
use std::os::fd::AsFd;
use std::path::Path;
use std::path::PathBuf;
use std::time::Duration;

use nix::errno::Errno;
use nix::fcntl::Flock;
use nix::poll::PollFd;
use nix::poll::PollFlags;
use nix::poll::PollTimeout;
use nix::poll::poll;

use super::record::Record;
use super::record::RecordReader;
use super::ring::Ring;
use crate::relay::channel::CpuId;
use crate::relay::error::Error;
use crate::relay::error::Result;
use crate::relay::files::ChannelDir;
use crate::relay::files::keep_others_out;
use crate::relay::files::open_relay_file;
use crate::signals::StopSignals;

/// Bytes of one read, more than a sub-buffer has.
const CHUNK: usize = 1 << 20;

/// Reads of a CPU in a round, which ends although others go on writing.
const ROUND: usize = 64;

/// The relay files of all CPUs.
pub struct Live {
    channel: ChannelDir,
    cpus: BTreeMap<CpuId, (PathBuf, Flock<File>)>,
    /// The buffers, each with the records that it had lost when its file was opened.
    rings: Vec<(Ring, u64)>,
    bytes: Vec<u8>,
}

impl Live {
    /// Opens the files that exist, for as long as this value nobody else reads.
    pub fn open(channel: &Path) -> Result<Self> {
        let mut live = Self {
            channel: ChannelDir::open(channel)?,
            cpus: BTreeMap::new(),
            rings: Vec::new(),
            bytes: vec![0; CHUNK],
        };
        live.scan()?;
        Ok(live)
    }

    /// Opens the files of CPUs that have come up.
    pub fn scan(&mut self) -> Result<()> {
        for (cpu, path) in self.channel.relay_files()? {
            if let Entry::Vacant(place) = self.cpus.entry(cpu) {
                let file = keep_others_out(open_relay_file(&path, false)?, &path)?;
                if let Some(ring) = Ring::open(&file, &path, false)? {
                    let lost = ring.lost();
                    self.rings.push((ring, lost));
                }
                place.insert((path, file));
            }
        }
        Ok(())
    }

    /// Records that have been lost since the files were opened, as the buffers were full.
    pub fn lost(&self) -> u64 {
        let rings = self.rings.iter();
        rings
            .map(|(ring, before)| ring.lost().wrapping_sub(*before))
            .sum()
    }

    /// Reads what is there now. Records come with the CPU that wrote them.
    pub fn round(&mut self, mut to: impl FnMut(CpuId, &Record)) -> Result<()> {
        for (cpu, (path, file)) in &mut self.cpus {
            let mut to = |record: &Record| to(*cpu, record);
            for _ in 0..ROUND {
                if !take(&mut **file, path, &mut self.bytes, &mut to)? {
                    break;
                }
            }
        }
        Ok(())
    }

    /// Reads so often of each CPU, but not after a record of which `to` says that it is the last that is wanted. Returns whether
    /// there may be more of those. `None` of `to` stands for a record that is not understood.
    pub fn turn(
        &mut self,
        reads: usize,
        mut to: impl FnMut(&Record) -> Option<bool>,
    ) -> Result<bool> {
        let mut more = false;
        for (path, file) in self.cpus.values_mut() {
            more |= turn(reads, |last| {
                take(
                    &mut **file,
                    path,
                    &mut self.bytes,
                    &mut |record: &Record| {
                        *last |= to(record) == Some(true);
                    },
                )
            })?;
        }
        Ok(more)
    }

    /// Waits for a full sub-buffer, but not longer than this. Returns whether a signal came.
    pub fn wait(&self, signals: &StopSignals, most: Duration) -> nix::Result<bool> {
        let mut fds = vec![PollFd::new(signals.as_fd(), PollFlags::POLLIN)];
        let files = self.cpus.values();
        fds.extend(files.map(|(_, file)| PollFd::new(file.as_fd(), PollFlags::POLLIN)));
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

/// A CPU's turn. Each `read` returns whether there was anything, and sets what it is given after the last record that is wanted.
fn turn<E>(
    reads: usize,
    mut read: impl FnMut(&mut bool) -> std::result::Result<bool, E>,
) -> std::result::Result<bool, E> {
    for _ in 0..reads {
        let mut last = false;
        if !read(&mut last)? || last {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Reads once. Returns whether there was anything.
fn take(
    file: &mut impl Read,
    path: &Path,
    bytes: &mut [u8],
    to: &mut impl FnMut(&Record),
) -> Result<bool> {
    let failed = |source| Error::channel("read", path, source);
    let len = match file.read(bytes) {
        Ok(len) => len,
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => 0,
        Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(true),
        Err(error) => return Err(failed(error)),
    };
    let bytes = bytes.get(..len).unwrap_or_default();
    let mut reader = RecordReader::new(bytes, CHUNK);
    let mut record = Record::default();
    while reader
        .read(&mut record)
        .map_err(|error| failed(io::Error::other(error)))?
    {
        to(&record);
    }
    match reader.truncated() {
        0 => Ok(len != 0),
        _ => Err(failed(io::Error::other("it ends within a record"))),
    }
}

#[cfg(test)]
mod tests {
    use super::super::record::Header;
    use super::*;

    #[test]
    fn turns_end_although_each_read_causes_a_record() {
        const OLD: u64 = 5000;
        const AT_ONCE: usize = 256;
        let (mut old, mut clock, mut seen) = (0..OLD, OLD, 0);
        let mut turns = Vec::new();
        for _ in 0..20 {
            let began = clock;
            let mut count = 1;
            let mut more = || {
                turn(16, |last| {
                    clock += 1;
                    let times: Vec<u64> = old.by_ref().chain([clock]).take(AT_ONCE).collect();
                    seen += times.len();
                    *last |= times.iter().any(|time| *time >= began);
                    Ok::<_, std::convert::Infallible>(!times.is_empty())
                })
                .unwrap()
            };
            while more() {
                count += 1;
            }
            turns.push(count);
        }
        assert_eq!(turns[0], 2);
        assert!(turns[1..].iter().all(|count| *count == 1), "{turns:?}");
        assert_eq!(seen, 5000 + 20);
    }

    #[test]
    fn records_of_a_read() {
        let mut bytes = Vec::new();
        for n in 0..3u64 {
            let header = Header {
                len: 8,
                ty: 5,
                flags: Header::TIMED,
            };
            bytes.extend(header.encode());
            bytes.extend((7 + n).to_ne_bytes());
            bytes.extend(n.to_ne_bytes());
        }
        let mut records = Vec::new();
        let mut buffer = vec![0; 4096];
        let mut read = |bytes: &[u8]| {
            take(
                &mut &*bytes,
                Path::new("cpu0"),
                &mut buffer,
                &mut |record| {
                    records.push((record.ty, record.time, record.data[0]));
                },
            )
        };
        assert!(read(&bytes).unwrap());
        assert!(!read(&[]).unwrap());
        assert!(read(&bytes[..bytes.len() - 1]).is_err());
        assert_eq!(
            records[..3],
            [(5, Some(7), 0), (5, Some(8), 1), (5, Some(9), 2)]
        );
    }
}
