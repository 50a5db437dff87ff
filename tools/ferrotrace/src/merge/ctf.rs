// SPDX-License-Identifier: GPL-2.0

//! A Common Trace Format trace, of version 1.8 or 2: a directory with a stream file for each CPU and `metadata`.
//!
//! A stream is a sequence of packets. Each says which times and how many bytes it holds, so that a
//! reader finds a time without reading everything before it, and neither side needs much memory.

#![deny(unsafe_code)]

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::mem;
use std::path::Path;
use std::path::PathBuf;

use uuid::Uuid;

use super::ctf2;
use super::field::Field;
use super::field::Kind;
use super::format::Format;
use super::recording::Recording;
use super::run::Counts;
use super::sink::Sink;
use super::sink::WriteError;
use super::source::Event;
use super::tsdl;
use super::tsdl::EnvValue;
use super::value::text;
use crate::directory::Access;
use crate::directory::Directory;
use crate::directory::DirectoryError;

/// A packet is written when it has that many bytes; it is longer by at most one event.
const PACKET: usize = 64 << 10;

/// Bytes before the first event of a packet.
const HEAD: usize = 76;

/// The start of each packet.
const MAGIC: u32 = 0xc1fc_1fc1;

/// The version of a trace, which differ in the form of the description only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// 1.8, with a description in a language of its own.
    One,
    /// 2, with a description in JSON.
    Two,
}

/// A trace that is being written.
pub struct Ctf<'a> {
    version: Version,
    dir: Directory,
    uuid: Uuid,
    recording: &'a Recording,
    formats: BTreeMap<u32, Format>,
    streams: BTreeMap<u32, Stream>,
}

impl<'a> Ctf<'a> {
    /// Creates a trace in `dir`, which is created or must be empty.
    pub fn create(
        dir: &Path,
        recording: &'a Recording,
        version: Version,
    ) -> Result<Self, DirectoryError> {
        Ok(Self {
            version,
            dir: Directory::create(dir, Access::Usual, false, false)?,
            uuid: Uuid::new_v4(),
            recording,
            formats: BTreeMap::new(),
            streams: BTreeMap::new(),
        })
    }

    fn stream(&mut self, cpu: u32) -> Result<&mut Stream, WriteError> {
        use std::collections::btree_map::Entry;
        match self.streams.entry(cpu) {
            Entry::Occupied(entry) => Ok(entry.into_mut()),
            Entry::Vacant(entry) => {
                let stream = Stream::create(&self.dir, cpu, self.uuid)?;
                Ok(entry.insert(stream))
            }
        }
    }
}

impl Sink for Ctf<'_> {
    fn event(&mut self, event: &Event, format: &Format) -> Result<(), WriteError> {
        let known = self.formats.entry(format.id);
        known.or_insert_with(|| format.clone());
        self.stream(event.cpu)?.event(event, format)
    }

    fn end(&mut self, counts: &Counts) -> Result<(), WriteError> {
        // CPUs that have only losses.
        for &cpu in counts.lost.keys() {
            self.stream(cpu)?;
        }
        let recorded = &self.recording.metadata;
        let start = recorded.start_monotonic_ns;
        let end = start.saturating_add(recorded.duration_ns);
        for (cpu, stream) in &mut self.streams {
            let lost = counts.lost.get(cpu).copied().unwrap_or(0);
            stream.end(lost, start, end)?;
        }
        let mut env = vec![
            ("tracer_name", EnvValue::Text("ferrotrace".into())),
            (
                "channel",
                EnvValue::Text(recorded.channel.display().to_string()),
            ),
        ];
        let lost = [
            ("lost_subbufs", Some(counts.lost_subbufs)),
            ("overwritten_bytes", Some(counts.overwritten_bytes)),
            ("dropped_records", counts.dropped),
        ];
        for (name, number) in lost {
            env.extend(number.map(|number| (name, EnvValue::Number(number))));
        }
        let trace = tsdl::Trace {
            uuid: self.uuid,
            clock_offset: self.recording.clock_offset(),
            env: &env,
        };
        const NAME: &str = "metadata";
        let formats = self.formats.values();
        let text = match self.version {
            Version::One => tsdl::metadata(&trace, formats),
            Version::Two => ctf2::metadata(&trace, formats),
        };
        let written = self.dir.write(NAME.as_ref(), text.as_bytes());
        written.map_err(|source| WriteError::file(&self.dir.path().join(NAME), source))
    }
}

/// The stream of a CPU.
struct Stream {
    file: File,
    path: PathBuf,
    cpu: u32,
    uuid: Uuid,
    /// The packet that is being filled, with room for its head.
    packet: Vec<u8>,
    begin: Option<u64>,
    last: u64,
    sequence: u64,
    discarded: u64,
}

impl Stream {
    fn create(dir: &Directory, cpu: u32, uuid: Uuid) -> Result<Self, WriteError> {
        let name = format!("cpu{cpu}");
        let path = dir.path().join(&name);
        let file = dir.create_file(name.as_ref());
        let file = file.map_err(|source| WriteError::file(&path, source))?;
        Ok(Self {
            file,
            path,
            cpu,
            uuid,
            packet: vec![0; HEAD],
            begin: None,
            last: 0,
            sequence: 0,
            discarded: 0,
        })
    }

    /// Adds an event. Time must not go back in a stream: a late event takes the last time.
    fn event(&mut self, event: &Event, format: &Format) -> Result<(), WriteError> {
        if self.packet.len() >= PACKET {
            self.flush()?;
        }
        self.last = self.last.max(event.time);
        self.begin.get_or_insert(self.last);
        let packet = &mut self.packet;
        packet.extend(format.id.to_ne_bytes());
        packet.extend(self.last.to_ne_bytes());
        for field in &format.fields {
            put(packet, field, &event.bytes);
        }
        Ok(())
    }

    /// Writes the packet that is being filled.
    fn flush(&mut self) -> Result<(), WriteError> {
        let mut packet = mem::take(&mut self.packet);
        let begin = self.begin.take().unwrap_or(self.last);
        self.write(&mut packet, begin, self.last)?;
        packet.truncate(HEAD);
        // Memory that one long event needed is freed.
        packet.shrink_to(2 * PACKET);
        self.packet = packet;
        Ok(())
    }

    /// Writes the last packet, which says what was lost between `start` and `end`.
    fn end(&mut self, lost: u64, start: u64, end: u64) -> Result<(), WriteError> {
        if lost > 0 {
            let begin = *self.begin.get_or_insert(start);
            if self.sequence == 0 {
                // A reader counts losses from packet to packet: there has to be a packet before.
                self.write(&mut vec![0; HEAD], begin, begin)?;
            }
            self.discarded = lost;
            self.last = self.last.max(end);
        }
        self.flush()
    }

    /// Writes a packet of the events between `begin` and `end`, of which there may be none.
    fn write(&mut self, packet: &mut Vec<u8>, begin: u64, end: u64) -> Result<(), WriteError> {
        let bits = u64::try_from(packet.len()).unwrap_or(u64::MAX) * 8;
        let mut head = Vec::with_capacity(HEAD);
        head.extend(MAGIC.to_ne_bytes());
        head.extend(self.uuid.as_bytes());
        head.extend(0u32.to_ne_bytes());
        for number in [begin, end, bits, bits, self.sequence, self.discarded] {
            head.extend(number.to_ne_bytes());
        }
        head.extend(self.cpu.to_ne_bytes());
        packet.splice(..HEAD, head);
        self.sequence += 1;
        let written = self.file.write_all(packet);
        written.map_err(|source| WriteError::file(&self.path, source))
    }
}

/// Adds the value of a field, as [`tsdl`] describes it.
fn put(packet: &mut Vec<u8>, field: &Field, record: &[u8]) {
    let bytes = field.bytes(record);
    match (field.kind, field.size) {
        (Kind::Text, _) => {
            packet.extend(text(bytes).bytes());
            packet.push(0);
        }
        (Kind::Bytes, None) => {
            // A record's length has 32 bits.
            let len = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
            packet.extend(len.to_ne_bytes());
            packet.extend(bytes);
        }
        _ => packet.extend(bytes),
    }
}
