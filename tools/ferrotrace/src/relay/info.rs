// SPDX-License-Identifier: GPL-2.0

//! `ferrotrace relay info`: the state of a channel, without changing it.

#![deny(unsafe_code)]

use std::fmt;
use std::path::Path;
use std::path::PathBuf;

use serde::Serialize;

use super::channel::CpuId;
use super::channel::Geometry;
use super::channel::Mode;
use super::error::Error;
use super::error::Result;
use super::files::ChannelDir;
use super::source::KernelSource;

/// The state of one CPU's buffer.
#[derive(Debug, Serialize)]
pub struct CpuInfo {
    /// The CPU.
    pub cpu: CpuId,
    /// Sub-buffers finished, if there is a control file.
    pub produced: Option<usize>,
    /// Sub-buffers consumed, if there is a control file.
    pub consumed: Option<usize>,
    /// Sub-buffers that could be taken now.
    pub ready: Option<usize>,
    /// The size of the relay file: bytes finished since it was opened.
    pub file_size: u64,
}

/// The state of a channel.
#[derive(Debug, Serialize)]
pub struct Info {
    /// Its directory.
    pub channel: PathBuf,
    /// The base name of its relay files.
    pub name: String,
    /// Bytes in a sub-buffer, if known.
    pub subbuf_size: Option<usize>,
    /// Sub-buffers a CPU, if known.
    pub n_subbufs: Option<usize>,
    /// The mode.
    pub mode: Mode,
    /// Records dropped so far, if the client counts them.
    pub dropped: Option<u64>,
    /// The CPUs.
    pub cpus: Vec<CpuInfo>,
}

/// Looks at a channel.
pub fn info(path: &Path) -> Result<Info> {
    let channel = ChannelDir::open(path)?;
    let geometry = match channel.geometry(None, None) {
        Ok(geometry) => Some(geometry),
        Err(Error::UnknownSize { .. }) => None,
        Err(error) => return Err(error),
    };
    let mode = channel.mode()?;
    let mut cpus = Vec::new();
    for (cpu, path) in channel.relay_files()? {
        let source = KernelSource::open(&channel, cpu, path, geometry, false)?;
        let (produced, consumed) = source.counts()?;
        let ready = match (produced, consumed, geometry) {
            (Some(produced), Some(consumed), Some(geometry)) => geometry
                .ready(mode, consumed, produced)
                .map(|window| window.count),
            _ => None,
        };
        cpus.push(CpuInfo {
            cpu,
            produced,
            consumed,
            ready,
            file_size: source.file_size()?,
        });
    }
    Ok(Info {
        channel: channel.dir().into(),
        name: channel.name().into(),
        subbuf_size: geometry.map(Geometry::subbuf_size),
        n_subbufs: geometry.map(Geometry::n_subbufs),
        dropped: channel.dropped()?,
        mode,
        cpus,
    })
}

/// A number that may be unknown.
struct Known<T>(Option<T>);

impl<T: fmt::Display> fmt::Display for Known<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Some(value) => f.pad(&value.to_string()),
            None => f.pad("-"),
        }
    }
}

impl fmt::Display for Info {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "channel:     {}",
            self.channel.join(&self.name).display()
        )?;
        writeln!(f, "subbuf_size: {}", Known(self.subbuf_size))?;
        writeln!(f, "n_subbufs:   {}", Known(self.n_subbufs))?;
        writeln!(f, "mode:        {}", self.mode)?;
        writeln!(f, "dropped:     {}", Known(self.dropped))?;
        writeln!(
            f,
            "{:>4} {:>12} {:>12} {:>8} {:>14}",
            "cpu", "produced", "consumed", "ready", "file size"
        )?;
        for cpu in &self.cpus {
            writeln!(
                f,
                "{:>4} {:>12} {:>12} {:>8} {:>14}",
                cpu.cpu.0,
                Known(cpu.produced),
                Known(cpu.consumed),
                Known(cpu.ready),
                cpu.file_size
            )?;
        }
        Ok(())
    }
}
