// SPDX-License-Identifier: GPL-2.0

//! Writes a recording of the records in the memory of a channel.

#![deny(unsafe_code)]

use std::collections::BTreeMap;
use std::fmt::Write;
use std::io;
use std::path::Path;
use std::path::PathBuf;
use std::time::Duration;
use std::time::SystemTime;

use ferro_fast_relay_core::persistent::COPIES;
use ferro_fast_relay_core::persistent::COPY_BYTES;
use ferro_fast_relay_core::persistent::Crc;
use ferro_fast_relay_core::persistent::Header;
use ferro_fast_relay_core::persistent::HeaderError;
use ferro_fast_relay_core::persistent::Layout;
use ferro_fast_relay_core::persistent::Repair;
use ferro_fast_relay_core::persistent::checksum::Reason;
use ferro_fast_relay_core::persistent::validate;
use ferro_fast_relay_core::persistent::validate::NoBuffer;
use ferro_fast_relay_core::persistent::validate::Piece;
use ferro_fast_relay_core::persistent::validate::Why;
use serde::Serialize;
use thiserror::Error;

use crate::directory::Directory;
use crate::merge::calls;
use crate::merge::recording::Recording;
use crate::merge::recording::RecordingError;
use crate::relay::channel::CpuId;
use crate::relay::channel::Mode;
use crate::relay::error::Error;
use crate::relay::output::CpuFile;
use crate::relay::output::CpuMetadata;
use crate::relay::output::FORMAT;
use crate::relay::output::Metadata;
use crate::relay::output::OutputDir;
use crate::relay::output::Stop;

/// Prefix of the recording's files, before the number of the CPU.
const NAME: &str = "cpu";

/// Why there is no recording.
#[derive(Debug, Error)]
pub enum SaveError {
    /// Nothing that looks like a channel.
    #[error("no channel is in this memory")]
    Absent,
    /// All copies of its description were hit.
    #[error("the description of the channel is damaged beyond repair")]
    Damaged,
    /// Another layout.
    #[error("version {0} of the memory's layout is not known")]
    Version(u64),
    /// The memory is not as long as the description says.
    #[error("the description of the channel is not one of memory of {0} bytes")]
    Impossible(usize),
    /// The directory with the descriptions.
    #[error(transparent)]
    Described(#[from] RecordingError),
    /// The descriptions are not those of the memory's records.
    #[error("{} describes the recording {described}, and the memory has {found}", path.display())]
    Other {
        /// The directory.
        path: PathBuf,
        /// Boot and start of its recording.
        described: String,
        /// The same of the memory.
        found: String,
    },
    /// The recording cannot be written.
    #[error(transparent)]
    Output(#[from] Error),
}

/// Options of the user.
#[derive(Clone, Debug)]
pub struct Options {
    /// The directory of the recording.
    pub output: PathBuf,
    /// Write into one that is not empty.
    pub force: bool,
    /// Leave out records that no checksum vouches for.
    pub sealed: bool,
    /// The machine that the memory is of, if that is known.
    pub host: Option<String>,
    /// The directory that `record --keep` has written.
    pub described: Option<PathBuf>,
}

/// Result of a recovery.
#[derive(Clone, Debug, Serialize)]
pub struct Recovery {
    /// The kernel that had the channel.
    pub release: String,
    /// Reason for the end: "panic", "restart", "closed", or "unknown" without any seal.
    pub end: &'static str,
    /// Errors in the memory as a whole.
    pub warnings: Vec<String>,
    /// The recording; each CPU has its own warnings.
    pub recording: Metadata,
}

fn text(name: &[u8]) -> String {
    let end = name
        .iter()
        .position(|byte| *byte == 0)
        .unwrap_or(name.len());
    String::from_utf8_lossy(name.get(..end).unwrap_or(name)).into_owned()
}

/// Decodes the header, and says what is wrong with it.
fn describe(memory: &[u8], warnings: &mut Vec<String>) -> Result<Header, SaveError> {
    let copies = memory
        .first_chunk::<{ COPIES * COPY_BYTES }>()
        .ok_or(SaveError::Absent)?;
    let bytes = u64::try_from(memory.len()).unwrap_or(u64::MAX);
    let (header, repair) = Header::decode(copies, bytes).map_err(|error| match error {
        HeaderError::Absent => SaveError::Absent,
        HeaderError::Damaged => SaveError::Damaged,
        HeaderError::Version(version) => SaveError::Version(version),
        HeaderError::Impossible => SaveError::Impossible(memory.len()),
    })?;
    match repair {
        Repair::Intact => (),
        Repair::Copies(count) => warnings.push(format!(
            "{count} of {COPIES} copies of the channel's description are damaged"
        )),
        Repair::Voted => warnings.push(format!(
            "all {COPIES} copies of the channel's description are damaged; what most of them say has the right checksum"
        )),
    }
    Ok(header)
}

/// Descriptions that `record --keep` has written.
struct Described {
    metadata: Metadata,
    format: Vec<u8>,
    kallsyms: Vec<u8>,
    maps: Vec<u8>,
}

impl Described {
    /// Reads them, and checks that they are of the recording in the memory, which `found` describes.
    fn open(path: &Path, found: &str, is_damaged: bool) -> Result<Self, SaveError> {
        let metadata = Recording::open(path)?.metadata;
        let described = metadata.recording_id();
        let other = |found: &str| SaveError::Other {
            path: path.into(),
            described: described.clone(),
            found: found.to_owned(),
        };
        match recording_id(found) {
            Some(id) if id == described => (),
            None if is_damaged => (),
            Some(id) => return Err(other(id)),
            None => return Err(other("none of \"record --keep\"")),
        }
        let dir = Directory::open(path).map_err(|source| RecordingError::Io {
            path: path.into(),
            source,
        })?;
        // Without names there are numbers.
        let read = |name| dir.read(name, calls::MOST).unwrap_or_default();
        Ok(Self {
            metadata,
            format: read(FORMAT),
            kallsyms: read(calls::KALLSYMS),
            maps: read(calls::MAPS),
        })
    }
}

/// Returns the identity of the recording of `record --keep` that the memory has, by its description.
fn recording_id(format: &str) -> Option<&str> {
    format.lines().next()?.strip_prefix("recording: ")
}

/// Bytes of the memory, which are inside if the layout is.
fn bytes(memory: &[u8], at: u64, len: u64) -> &[u8] {
    let range = usize::try_from(at).ok().zip(usize::try_from(len).ok());
    let range = range.and_then(|(at, len)| memory.get(at..)?.get(..len));
    range.unwrap_or_default()
}

/// Writes a recording of what is in `memory`.
pub fn save(memory: &[u8], options: &Options) -> Result<Recovery, SaveError> {
    let mut warnings = Vec::new();
    let header = describe(memory, &mut warnings)?;
    let layout = header.layout().ok_or(SaveError::Impossible(memory.len()))?;
    let mut format = bytes(memory, layout.format_at(), header.format_bytes);
    let is_damaged = Crc::new().bytes(format).finish() != header.format_crc;
    if is_damaged {
        warnings.push("the text that describes the records is damaged, and left out".to_owned());
        format = &[];
    }
    let found = String::from_utf8_lossy(format);
    // Before OUT is written, which may be the same directory.
    let described = options.described.as_deref();
    let described = described.map(|path| Described::open(path, &found, is_damaged));
    let described = described.transpose()?;
    if described.is_some() && is_damaged {
        warnings.push(
            "the memory does not tell its recording: that of --described may be another".to_owned(),
        );
    }
    if described.is_none() && recording_id(&found).is_some() {
        warnings.push(
            "names and arguments of the probes are in the directory that \"record --keep\" wrote: --described REC adds them"
                .to_owned(),
        );
    }
    let output = OutputDir::create(&options.output, NAME, options.force)?;
    if let Some(described) = &described {
        output.write_format(&described.format)?;
        output.write_names(&described.kallsyms, &described.maps)?;
    } else if !format.is_empty() {
        output.write_format(format)?;
    }
    let size = |size| usize::try_from(size).ok();
    let mut recording = Metadata {
        complete: true,
        mode: match header.overwrite {
            true => Mode::Overwrite,
            false => Mode::NoOverwrite,
        },
        subbuf_size: size(header.subbuf_size),
        n_subbufs: size(header.n_subbufs),
        start_unix_ns: header.real_ns,
        start_monotonic_ns: header.monotonic_ns,
        host: options.host.clone(),
        boot_id: Some(format!("{:016x}{:016x}", header.boot[0], header.boot[1])),
        ..Metadata::new(text(&header.name), NAME, "recovered")
    };
    if let Some(described) = described {
        recording.host = described.metadata.host;
        recording.boot_id = described.metadata.boot_id;
    }
    let mut ends = Vec::new();
    for number in 0..layout.cpus() {
        let Some(cpu) = u32::try_from(number).ok().map(CpuId) else {
            continue;
        };
        let mut file = output.create_cpu_file(cpu, false)?;
        match save_cpu(memory, &layout, &header, number, options.sealed, &mut file) {
            Ok(reason) => ends.extend(reason),
            Err(Nothing::Absent) => {
                let _ = output.remove_cpu_file(cpu);
                continue;
            }
            Err(Nothing::Damaged) => {
                file.tally.warn(
                    "the control page is damaged, and there is no seal: nothing can be found",
                );
            }
            Err(Nothing::Output(source)) => {
                return Err(Error::output("write to", &file.path, source).into());
            }
        }
        recording.cpus.push(CpuMetadata {
            cpu,
            file: output.cpu_file_name(cpu),
            tally: file.tally,
        });
    }
    recording.dropped = Some(
        recording
            .cpus
            .iter()
            .map(|cpu| cpu.tally.lost_records)
            .sum(),
    );
    let end = match ends.first() {
        Some(Reason::Panic) => "panic",
        Some(Reason::Restart) => "restart",
        Some(Reason::Closed) => "closed",
        None => "unknown",
    };
    if end == "closed" {
        recording.stop = Some(Stop::Closed);
    }
    output.write_metadata(&recording)?;
    Ok(Recovery {
        release: text(&header.release),
        end,
        warnings,
        recording,
    })
}

/// Why nothing of a CPU was written.
enum Nothing {
    /// It had no buffer.
    Absent,
    /// Nothing can be believed.
    Damaged,
    /// The system refused.
    Output(io::Error),
}

/// Bytes that were left out for one reason.
#[derive(Default)]
struct LeftOut {
    places: u64,
    bytes: u64,
    first: u64,
}

fn save_cpu(
    memory: &[u8],
    layout: &Layout,
    header: &Header,
    cpu: u64,
    sealed_only: bool,
    file: &mut CpuFile,
) -> Result<Option<Reason>, Nothing> {
    let mut left = BTreeMap::<Why, LeftOut>::new();
    let mut unsealed = 0;
    let mut written = Ok(());
    let found = validate::cpu(
        memory,
        layout,
        cpu,
        header.monotonic_ns,
        |piece| match piece {
            Piece::Records {
                from,
                to,
                records,
                sealed,
            } => {
                if !sealed {
                    unsealed += records;
                }
                if written.is_ok() && (sealed || !sealed_only) {
                    let bytes = bytes(memory, layout.data_at(cpu, from), to - from);
                    written = io::Write::write_all(&mut file.file, bytes);
                    file.tally.add_records(records, to - from);
                }
            }
            Piece::Left { from, to, why } => {
                let left = left.entry(why).or_insert(LeftOut {
                    first: from,
                    ..LeftOut::default()
                });
                left.places += 1;
                left.bytes += to - from;
            }
        },
    );
    written.map_err(Nothing::Output)?;
    let found = found.map_err(|error| match error {
        NoBuffer::Absent => Nothing::Absent,
        NoBuffer::Damaged => Nothing::Damaged,
    })?;
    let tally = &mut file.tally;
    tally.lost_records = found.lost;
    tally.overwritten_bytes = found.overwritten;
    if found.bad_ctl {
        tally.warn("the control page contradicts its seal, which was believed");
    }
    if unsealed > 0 {
        let what = match sealed_only {
            true => "were left out",
            false => "look right, and nothing more is known of them",
        };
        tally.warn(format!("{unsealed} records have no checksum: they {what}"));
    }
    for (why, left) in left {
        let LeftOut {
            places,
            bytes,
            first,
        } = left;
        tally.warn(match why {
            Why::Open => format!("{places} records were being written, the first at {first}: they were left out"),
            Why::Time => format!("{places} records have a time that cannot be, the first at {first}: they were left out"),
            Why::Checksum => format!(
                "{bytes} bytes in {places} sub-buffers are not what they were, from {first} on: they were left out"
            ),
            Why::Structure => format!("{bytes} bytes at {first} are not records: they were left out"),
            Why::Unknown => format!(
                "{bytes} bytes from {first} on were left out: a record in them was being written, and nothing says which"
            ),
        });
    }
    Ok(found.sealed)
}

/// The summary for people.
pub fn summary(recovery: &Recovery, output: &Path) -> String {
    let recording = &recovery.recording;
    let opened = SystemTime::UNIX_EPOCH + Duration::from_nanos(recording.start_unix_ns);
    let mut summary = format!(
        "channel {}, opened {} by Linux {}; ended by: {}\n",
        recording.channel.display(),
        humantime::format_rfc3339_seconds(opened),
        recovery.release,
        recovery.end
    );
    let mut records: u64 = 0;
    for cpu in &recording.cpus {
        records = records.saturating_add(cpu.tally.records);
        // Writing to a string does not fail.
        let _ = writeln!(
            summary,
            "cpu {:>3}: {:>12} bytes, {:>9} records, {} lost, {} bytes overwritten",
            cpu.cpu,
            cpu.tally.bytes,
            cpu.tally.records,
            cpu.tally.lost_records,
            cpu.tally.overwritten_bytes
        );
    }
    let _ = writeln!(
        summary,
        "total  : {records} records, recovered to {}",
        output.display()
    );
    summary
}
