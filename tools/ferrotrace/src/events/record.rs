// SPDX-License-Identifier: GPL-2.0

//! Recording: an instance of tracefs that has the events which are wanted, whose pages are read as they fill and written as records
//! of a fast channel.

#![deny(unsafe_code)]

use std::collections::BTreeMap;
use std::fs;
use std::fs::File;
use std::io;
use std::io::Read;
use std::io::Write;
use std::path::Path;
use std::path::PathBuf;
use std::time::Duration;
use std::time::Instant;

use thiserror::Error;

use super::format::describe;
use crate::clock::monotonic;
use crate::clock::wall_offset;
use crate::fast::record::Header;
use crate::file::IoError;
use crate::functions::glob::Glob;
use crate::functions::glob::GlobError;
use crate::lockdown;
use crate::near::Names;
use crate::near::near;
use crate::probes::stock::instance::Instance;
use crate::probes::stock::instance::read_page;
use crate::probes::stock::ring;
use crate::relay::channel::CpuId;
use crate::relay::output::CpuFile;
use crate::relay::output::CpuMetadata;
use crate::relay::output::Metadata;
use crate::relay::output::OutputDir;
use crate::relay::output::Stop;
use crate::signals::StopSignals;

/// The start of the names of the files.
const NAME: &str = "cpu";

/// How long a page may wait to be read.
const ROUND: Duration = Duration::from_millis(50);

/// More than a page of the buffer has.
const PAGE: usize = 1 << 16;

/// The most pages of a CPU that are read before others, signals and the time are looked at.
const AT_ONCE: usize = 64;

/// Why there is no recording.
#[derive(Debug, Error)]
pub enum Error {
    /// There is no tracefs.
    #[error("no tracefs: is it mounted? (mount -t tracefs tracefs /sys/kernel/tracing)")]
    NoTracefs,
    /// The user may not do that.
    #[error(
        "{}: permission denied: {}",
        .0.display(),
        lockdown::cause(.0, "only root may record events")
    )]
    Denied(PathBuf),
    /// There is no such event.
    #[error("no event matches {pattern}; similar: {} (available_events in tracefs has all)", Names(near.clone()))]
    NoEvent {
        /// Pattern that the user gave.
        pattern: String,
        /// Events like that.
        near: Vec<String>,
    },
    /// The kernel's pages are not those of a 64-bit kernel.
    #[error("{}: pages of a form that is not known", .0.display())]
    Pages(PathBuf),
    /// The system refused.
    #[error(transparent)]
    Io(#[from] IoError),
    /// The directory of the recording.
    #[error(transparent)]
    Output(#[from] crate::relay::error::Error),
    /// The instance.
    #[error(transparent)]
    Instance(#[from] crate::probes::error::Error),
    /// The command that is run meanwhile.
    #[error(transparent)]
    Command(#[from] crate::signals::CommandError),
    /// The clock, or signals.
    #[error("cannot {0}")]
    System(&'static str, #[source] nix::errno::Errno),
}

fn io(action: &'static str, path: &Path, source: io::Error) -> Error {
    IoError::or_denied(Error::Denied, action, path, source)
}

/// Options of the user.
#[derive(Clone, Debug)]
pub struct Options {
    /// `GROUP:EVENT`, either of which may be a pattern.
    pub events: Vec<String>,
    /// Events, and the filters that their records have to pass.
    pub filters: Vec<(String, String)>,
    /// The directory of the recording.
    pub output: PathBuf,
    /// Write into one that is not empty.
    pub force: bool,
    /// Stop after this time.
    pub duration: Option<Duration>,
    /// Bytes of the buffer of each CPU.
    pub buffer: Option<u64>,
}

/// Recorded events.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Begun {
    /// How many events.
    pub events: usize,
    /// Those whose descriptions are not understood, and why. Of their records only the bytes can be shown.
    pub odd: Vec<String>,
}

/// The events among `all`, lines `GROUP:EVENT`, that `patterns` stand for.
fn select<'a>(all: &'a str, patterns: &[String]) -> Result<Vec<&'a str>, Error> {
    let mut chosen = Vec::new();
    for pattern in patterns {
        let none = || Error::NoEvent {
            pattern: pattern.clone(),
            near: near(pattern, all.lines()),
        };
        let (group, name) = globs(pattern).map_err(|_| none())?;
        let before = chosen.len();
        chosen.extend(all.lines().filter(|event| {
            let parts = event.split_once(':');
            parts.is_some_and(|(in_group, event)| group.matches(in_group) && name.matches(event))
        }));
        if chosen.len() == before {
            return Err(none());
        }
    }
    chosen.sort();
    chosen.dedup();
    Ok(chosen)
}

/// The patterns of the group and of the event.
fn globs(pattern: &str) -> Result<(Glob, Glob), GlobError> {
    let (group, event) = pattern.split_once(':').unwrap_or(("*", pattern));
    Ok((group.parse()?, event.parse()?))
}

/// Returns true if pages have the layout that [`ring`] reads: the time, the number of bytes, of 8
/// bytes each, then the data.
fn are_known(header_page: &str) -> bool {
    let has = |name: &str, offset: &str| {
        let mut lines = header_page.lines();
        lines.any(|line| line.contains(name) && line.contains(offset))
    };
    has(" timestamp;", "offset:0;") && has(" commit;", "offset:8;") && has(" data;", "offset:16;")
}

/// A CPU that is being recorded.
struct Cpu {
    id: CpuId,
    path: PathBuf,
    pages: File,
    file: CpuFile,
}

impl Cpu {
    /// Writes what there is, at most so many pages: reading may itself cause events. Returns whether there was something.
    fn drain(&mut self, page: &mut [u8], pages: usize) -> Result<bool, Error> {
        let mut any = false;
        for _ in 0..pages {
            let len = read_page(&mut self.pages, page);
            let len = len.map_err(|error| io("read", &self.path, error))?;
            if len == 0 {
                return Ok(any);
            }
            any = true;
            let mut out = Vec::with_capacity(2 * len);
            let mut records = 0;
            ring::events(page.get(..len).unwrap_or_default(), |time, data| {
                records += put(&mut out, time, data);
            });
            let written = self.file.file.write_all(&out);
            written.map_err(|error| io("write to", &self.file.path, error))?;
            self.file
                .tally
                .add_records(records, u64::try_from(out.len()).unwrap_or(0));
        }
        Ok(any)
    }
}

/// Appends the record of an event; returns how many that are.
fn put(out: &mut Vec<u8>, time: u64, data: &[u8]) -> u64 {
    let (Some(ty), Ok(len)) = (data.first_chunk(), u32::try_from(data.len())) else {
        return 0;
    };
    let header = Header {
        len,
        ty: u16::from_le_bytes(*ty),
        flags: Header::TIMED,
    };
    out.extend(header.encode());
    out.extend(time.to_ne_bytes());
    out.extend(data);
    out.resize(out.len().next_multiple_of(8), 0);
    1
}

/// Records until the time is over, the command ends, or a signal comes. `ready` is called when all is prepared.
pub fn record(
    options: &Options,
    signals: &StopSignals,
    ready: impl FnOnce(&Begun) -> Result<(), Error>,
) -> Result<Metadata, Error> {
    let tracing = Instance::tracing()?.ok_or(Error::NoTracefs)?;
    let read = |path: PathBuf| fs::read_to_string(&path).map_err(|error| io("read", &path, error));
    let header = tracing.join("events/header_page");
    // The kernel has it in the first read, all of it or as much as there is room for.
    let mut text = vec![0; PAGE];
    let len = File::open(&header).and_then(|mut file| file.read(&mut text));
    let len = len.map_err(|error| io("read", &header, error))?;
    if !are_known(&String::from_utf8_lossy(
        text.get(..len).unwrap_or_default(),
    )) {
        return Err(Error::Pages(header));
    }
    let all = read(tracing.join("available_events"))?;
    let events = select(&all, &options.events)?;
    let output = OutputDir::create(&options.output, NAME, options.force)?;
    let instance = Instance::create(&tracing)?;
    if let Some(bytes) = options.buffer {
        let path = instance.dir().join("buffer_size_kb");
        let written = fs::write(&path, bytes.div_ceil(1024).to_string());
        written.map_err(|error| io("write to", &path, error))?;
    }
    let mut descriptions = BTreeMap::new();
    let mut begun = Begun {
        events: events.len(),
        odd: Vec::new(),
    };
    for event in &events {
        // When it is exported it is too late to do something about it.
        match describe(&read(instance.event(event).join("format"))?) {
            Ok(description) => {
                descriptions.insert(description.id, description.text);
            }
            Err(error) => begun.odd.push(format!("{event}: {error}")),
        }
    }
    let text: String = descriptions.into_values().collect();
    output.write_format(text.as_bytes())?;
    let clock = |error| Error::System("read the clock", error);
    let now = monotonic().map_err(clock)?;
    let start = u64::try_from(now.as_nanos()).unwrap_or(0);
    let mut cpus = Vec::new();
    for (id, path, pages) in instance.pipes()? {
        let id = CpuId(id);
        let file = output.create_cpu_file(id, false)?;
        cpus.push(Cpu {
            id,
            path,
            pages,
            file,
        });
    }
    let mut metadata = Metadata {
        start_unix_ns: start.saturating_add(wall_offset().map_err(clock)?),
        start_monotonic_ns: start,
        ..Metadata::new(tracing, NAME, "tracefs")
    };
    output.write_metadata(&metadata)?;
    for (event, filter) in &options.filters {
        let path = instance.event(event).join("filter");
        fs::write(&path, filter).map_err(|error| io("write to", &path, error))?;
    }
    for event in &events {
        instance.enable(event)?;
    }
    instance.start()?;
    ready(&begun)?;
    let began = Instant::now();
    let end = options
        .duration
        .and_then(|duration| began.checked_add(duration));
    let mut page = vec![0; PAGE];
    let stop = loop {
        let mut any = false;
        for cpu in &mut cpus {
            any |= cpu.drain(&mut page, AT_ONCE)?;
        }
        let now = Instant::now();
        if end.is_some_and(|end| now >= end) {
            break Stop::Duration;
        }
        let round = if any { Duration::ZERO } else { ROUND };
        let until = end.map_or(now + round, |end| end.min(now + round));
        if signals
            .wait(until)
            .map_err(|error| Error::System("wait for signals", error))?
        {
            break match signals.has_ended() {
                true => Stop::Command,
                false => Stop::Signal,
            };
        }
    };
    instance.stop();
    for mut cpu in cpus {
        // Nothing comes any more.
        cpu.drain(&mut page, usize::MAX)?;
        cpu.file.tally.lost_records = instance.lost(cpu.id.0);
        metadata.cpus.push(CpuMetadata {
            cpu: cpu.id,
            file: output.cpu_file_name(cpu.id),
            tally: cpu.file.tally,
        });
    }
    metadata.complete = true;
    metadata.stop = Some(stop);
    metadata.duration_ns = u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX);
    metadata.dropped = Some(metadata.cpus.iter().map(|cpu| cpu.tally.lost_records).sum());
    output.write_metadata(&metadata)?;
    Ok(metadata)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fast::record::Record;
    use crate::fast::record::RecordReader;

    #[test]
    fn events_by_patterns() {
        let all = "sched:sched_switch\nsched:sched_wakeup\nirq:softirq_entry\n";
        let selected = |patterns: &[&str]| {
            let patterns: Vec<_> = patterns.iter().map(|text| text.to_string()).collect();
            select(all, &patterns)
                .map(|events| events.join(" "))
                .map_err(|error| error.to_string())
        };
        assert_eq!(
            selected(&["sched:*", "sched:sched_switch"]).unwrap(),
            "sched:sched_switch sched:sched_wakeup"
        );
        assert_eq!(selected(&["*:*_entry"]).unwrap(), "irq:softirq_entry");
        assert_eq!(
            selected(&["sched:sched_swich"]).unwrap_err(),
            "no event matches sched:sched_swich; similar: sched:sched_switch (available_events in tracefs has all)"
        );
    }

    #[test]
    fn pages_that_are_known() {
        let page = "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n\
            \tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;\n\
            \tfield: int overwrite;\toffset:8;\tsize:1;\tsigned:1;\n\
            \tfield: char data;\toffset:16;\tsize:4080;\tsigned:0;\n";
        assert!(are_known(page));
        assert!(!are_known(&page.replace("offset:16", "offset:12")));
        assert!(!are_known(""));
    }

    #[test]
    fn records_of_events() {
        let mut out = Vec::new();
        assert_eq!(put(&mut out, 7, b"\x2c\x01abc"), 1);
        assert_eq!(put(&mut out, 8, b"\x2d\x01"), 1);
        assert_eq!(put(&mut out, 9, b"x"), 0);
        let mut reader = RecordReader::new(&out[..], 4096);
        let mut record = Record::default();
        assert!(reader.read(&mut record).unwrap());
        assert_eq!(
            (record.ty, record.time, &*record.data),
            (300, Some(7), &b"\x2c\x01abc"[..])
        );
        assert!(reader.read(&mut record).unwrap());
        assert_eq!((record.ty, record.time), (301, Some(8)));
        assert!(!reader.read(&mut record).unwrap());
    }
}
