// SPDX-License-Identifier: GPL-2.0

//! `ferrotrace relay stat`: shows the state of a channel, once or repeatedly, without changing it.

#![deny(unsafe_code)]

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt;
use std::path::Path;
use std::path::PathBuf;
use std::time::Instant;

use serde::Serialize;

use super::channel::CpuId;
use super::channel::Geometry;
use super::channel::Mode;
use super::error::Error;
use super::error::Result;
use super::files::ChannelDir;
use super::files::open_relay_file;
use super::output::Records;
use super::progress::rate;
use super::source::KernelSource;
use crate::fast::ring::Ring;

/// The state of one CPU's buffer. Counts are since the channel was opened, in the unit of [`Stat`];
/// `None` is what the channel does not tell.
#[derive(Debug, Serialize)]
pub struct CpuStat {
    /// The CPU.
    pub cpu: CpuId,
    /// Position up to which the client has reserved, or number of finished sub-buffers.
    pub produced: Option<u64>,
    /// How much of that is complete.
    pub committed: Option<u64>,
    /// Consumed position.
    pub consumed: Option<u64>,
    /// Amount that a reader could read now.
    pub unread: Option<u64>,
    /// The same in percent of the buffer.
    pub percent: Option<f64>,
    /// Records that could not be written.
    pub lost: Option<u64>,
    /// Amount overwritten before it was read.
    pub overwritten: Option<u64>,
    /// Bytes that went through the buffer, padding included; for a compatible channel those in
    /// finished sub-buffers.
    pub bytes: u64,
    /// Bytes per second since the previous sample.
    pub rate: Option<u64>,
    /// True if the channel is closed.
    pub closed: bool,
}

/// The unit of positions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Unit {
    /// Those of fast channels.
    Bytes,
    /// Those of others.
    SubBuffers,
}

/// The state of a channel.
#[derive(Debug, Serialize)]
pub struct Stat {
    /// Its directory.
    pub channel: PathBuf,
    /// The base name of its relay files.
    pub name: String,
    /// Kind of records: plain or fast.
    pub records: Records,
    /// The unit of `produced`, `committed`, `consumed`, `unread` and `overwritten`.
    pub unit: Unit,
    /// Bytes in a sub-buffer, if known.
    pub subbuf_size: Option<u64>,
    /// Sub-buffers of each CPU, if known.
    pub n_subbufs: Option<u64>,
    /// The mode.
    pub mode: Mode,
    /// Records that could not be written, if the client counts them.
    pub dropped: Option<u64>,
    /// The CPUs.
    pub cpus: Vec<CpuStat>,
}

/// A channel whose state is shown.
#[derive(Debug)]
pub struct Watch {
    channel: ChannelDir,
    rings: BTreeMap<CpuId, Ring>,
    before: BTreeMap<CpuId, (Instant, u64)>,
}

impl Watch {
    /// Opens the channel DIR/NAME.
    pub fn open(path: &Path) -> Result<Self> {
        Ok(Self {
            channel: ChannelDir::open(path)?,
            rings: BTreeMap::new(),
            before: BTreeMap::new(),
        })
    }

    /// The state now.
    pub fn look(&mut self) -> Result<Stat> {
        let files = self.channel.relay_files()?;
        if files.is_empty() {
            return Err(Error::Gone(self.channel.dir().join(self.channel.name())));
        }
        for (&cpu, path) in &files {
            if let Entry::Vacant(entry) = self.rings.entry(cpu) {
                let file = open_relay_file(path, false)?;
                if let Some(ring) = Ring::open(&file, path, false)? {
                    entry.insert(ring);
                }
            }
        }
        let mut stat = if self.rings.is_empty() {
            self.compatible(files)?
        } else {
            self.fast()
        };
        for cpu in &mut stat.cpus {
            let now = (Instant::now(), cpu.bytes);
            cpu.rate = self.before.insert(cpu.cpu, now).map(|(then, before)| {
                rate(cpu.bytes.saturating_sub(before), now.0.duration_since(then))
            });
        }
        Ok(stat)
    }

    fn fast(&self) -> Stat {
        let cpus: Vec<_> = self
            .rings
            .iter()
            .map(|(&cpu, ring)| fast_cpu(cpu, ring))
            .collect();
        let description = self.rings.values().next().map(Ring::description);
        let sizes = description.map(|description| description.sizes);
        Stat {
            channel: self.channel.dir().into(),
            name: self.channel.name().into(),
            records: Records::Fast,
            unit: Unit::Bytes,
            subbuf_size: sizes.map(|sizes| sizes.subbuf_size()),
            n_subbufs: sizes.map(|sizes| sizes.n_subbufs()),
            mode: description.map_or(Mode::default(), |description| description.mode),
            dropped: Some(cpus.iter().filter_map(|cpu| cpu.lost).sum()),
            cpus,
        }
    }

    fn compatible(&self, files: BTreeMap<CpuId, PathBuf>) -> Result<Stat> {
        let channel = &self.channel;
        let geometry = match channel.geometry(None, None) {
            Ok(geometry) => Some(geometry),
            Err(Error::UnknownSize { .. }) => None,
            Err(error) => return Err(error),
        };
        let mode = channel.mode()?;
        let mut cpus = Vec::new();
        for (cpu, path) in files {
            let source = KernelSource::open(channel, cpu, path, geometry, false)?;
            let (produced, consumed) = source.counts()?;
            let counts = produced.zip(consumed).zip(geometry);
            let unread = counts.and_then(|((produced, consumed), geometry)| {
                let window = geometry.ready(mode, consumed, produced)?;
                Some(wide(window.count))
            });
            let of = geometry.map(|geometry| wide(geometry.n_subbufs()));
            cpus.push(CpuStat {
                cpu,
                produced: produced.map(wide),
                committed: None,
                consumed: consumed.map(wide),
                unread,
                percent: unread.zip(of).map(|(part, whole)| percent(part, whole)),
                lost: None,
                overwritten: None,
                bytes: source.file_size()?,
                rate: None,
                closed: false,
            });
        }
        Ok(Stat {
            channel: channel.dir().into(),
            name: channel.name().into(),
            records: Records::Plain,
            unit: Unit::SubBuffers,
            subbuf_size: geometry.map(Geometry::subbuf_size).map(wide),
            n_subbufs: geometry.map(Geometry::n_subbufs).map(wide),
            mode,
            dropped: channel.dropped()?,
            cpus,
        })
    }
}

impl Stat {
    /// DIR/NAME.
    pub fn path(&self) -> PathBuf {
        self.channel.join(&self.name)
    }

    /// Returns true if all CPUs are closed, so that nothing will change.
    pub fn is_closed(&self) -> bool {
        self.cpus.iter().all(|cpu| cpu.closed)
    }
}

fn fast_cpu(cpu: CpuId, ring: &Ring) -> CpuStat {
    // Loaded in this order, so that no more is consumed than is committed.
    let consumed = ring.consumed();
    let (committed, produced) = (ring.committed(), ring.produced());
    let from = match ring.description().mode {
        Mode::NoOverwrite => consumed,
        Mode::Overwrite => consumed.max(ring.kept()),
    };
    let unread = committed.saturating_sub(from);
    CpuStat {
        cpu,
        produced: Some(produced),
        committed: Some(committed),
        consumed: Some(consumed),
        unread: Some(unread),
        percent: Some(percent(unread, ring.sizes().size())),
        lost: Some(ring.lost()),
        overwritten: Some(ring.overwritten()),
        bytes: produced,
        rate: None,
        closed: ring.is_closed(),
    }
}

/// No `usize` of Linux is wider than 64 bits.
fn wide(value: usize) -> u64 {
    u64::try_from(value).unwrap_or(u64::MAX)
}

/// To a tenth.
fn percent(part: u64, whole: u64) -> f64 {
    let tenths = u128::from(part) * 1000 / u128::from(whole.max(1));
    u32::try_from(tenths).map_or(f64::INFINITY, |tenths| f64::from(tenths) / 10.0)
}

/// A value that may be unknown.
struct Known<T>(Option<T>);

impl<T: fmt::Display> fmt::Display for Known<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Some(value) => f.pad(&value.to_string()),
            None => f.pad("-"),
        }
    }
}

impl fmt::Display for Stat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.records {
            Records::Plain => "compatible",
            Records::Fast => "fast",
        };
        let unit = match self.unit {
            Unit::Bytes => "bytes",
            Unit::SubBuffers => "sub-buffers",
        };
        writeln!(
            f,
            "{}: {kind}, {}, {} sub-buffers of {} bytes, dropped: {}; counts in {unit}",
            self.path().display(),
            self.mode,
            Known(self.n_subbufs),
            Known(self.subbuf_size),
            Known(self.dropped),
        )?;
        writeln!(
            f,
            "{:>4} {:>14} {:>14} {:>14} {:>10} {:>6} {:>10} {:>12} {:>14} {:>12}",
            "cpu",
            "produced",
            "committed",
            "consumed",
            "unread",
            "%",
            "lost",
            "overwritten",
            "bytes",
            "bytes/s"
        )?;
        for cpu in &self.cpus {
            writeln!(
                f,
                "{:>4} {:>14} {:>14} {:>14} {:>10} {:>6} {:>10} {:>12} {:>14} {:>12}{}",
                cpu.cpu.0,
                Known(cpu.produced),
                Known(cpu.committed),
                Known(cpu.consumed),
                Known(cpu.unread),
                Known(cpu.percent),
                Known(cpu.lost),
                Known(cpu.overwritten),
                cpu.bytes,
                Known(cpu.rate),
                if cpu.closed { " closed" } else { "" },
            )?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percent_has_a_tenth() {
        assert_eq!(percent(1, 3), 33.3);
        assert_eq!(percent(u64::MAX, u64::MAX), 100.0);
        assert_eq!(percent(1, 0), 100.0);
        assert_eq!(percent(u64::MAX, 1), f64::INFINITY);
    }
}
