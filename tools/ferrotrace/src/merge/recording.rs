// SPDX-License-Identifier: GPL-2.0

//! The directory of a recording, as `ferrotrace relay record` left it, complete or interrupted.

#![deny(unsafe_code)]

use std::ffi::OsStr;
use std::ffi::OsString;
use std::io;
use std::io::BufReader;
use std::path::Path;
use std::path::PathBuf;
use std::time::SystemTime;

use thiserror::Error;

use super::calls;
use super::format::FixedFormat;
use super::format::FormatError;
use super::format::TypedFormats;
use super::source::FastSource;
use super::source::FixedSource;
use super::source::Source;
use crate::directory::Directory;
use crate::probes::symbols::Symbols;
use crate::relay::channel::CpuId;
use crate::relay::files::parse_cpu;
use crate::relay::output::FORMAT;
use crate::relay::output::METADATA;
use crate::relay::output::Metadata;
use crate::relay::output::Records;
use crate::relay::output::VERSION;

/// The most bytes of the descriptions of records: all events of tracefs have some megabytes.
const MAX_TEXT: u64 = 64 << 20;

/// Errors in a recording.
#[derive(Debug, Error)]
pub enum RecordingError {
    /// It does not exist.
    #[error("{}: no such recording", .0.display())]
    Missing(PathBuf),
    /// It is something else.
    #[error("{}: not a recording, which is a directory", .0.display())]
    NoDirectory(PathBuf),
    /// It was not made by `ferrotrace relay record`.
    #[error("{}: not a recording, there is no {METADATA}", .0.display())]
    NoMetadata(PathBuf),
    /// The description of the recording cannot be understood.
    #[error("{}: not understood", path.display())]
    BadMetadata {
        /// The file.
        path: PathBuf,
        /// Where it is wrong.
        source: serde_json::Error,
    },
    /// It was made by a later program.
    #[error("{}: version {version} is newer than this program, which knows {VERSION}", path.display())]
    NewVersion {
        /// The file.
        path: PathBuf,
        /// Its version.
        version: u32,
    },
    /// The client does not describe its records.
    #[error("{}: missing; without the client's description records cannot be decoded", .0.display())]
    NoFormat(PathBuf),
    /// The description of the records is wrong.
    #[error("{}: not understood", path.display())]
    BadFormat {
        /// The file.
        path: PathBuf,
        /// Error in the description.
        source: FormatError,
    },
    /// A record is larger than a sub-buffer.
    #[error("{}: records of {record} bytes do not fit into sub-buffers of {subbuf}", path.display())]
    RecordTooLarge {
        /// The file.
        path: PathBuf,
        /// Bytes of a record.
        record: usize,
        /// Bytes of a sub-buffer.
        subbuf: usize,
    },
    /// The system refused.
    #[error("{}: cannot be read", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
}

/// How the records of a recording are found and described.
#[derive(Debug)]
pub enum Formats {
    /// They all have one form, as the client says.
    Fixed(Box<FixedFormat>),
    /// They carry their length and their type, like those of a fast channel.
    Typed(TypedFormats),
}

/// A recording that can be decoded.
#[derive(Debug)]
pub struct Recording {
    /// Its description.
    pub metadata: Metadata,
    /// The description of its records.
    pub formats: Formats,
    dir: Directory,
    /// The names of the files of the CPUs.
    files: Vec<(CpuId, OsString)>,
    /// Symbols for the calls in records.
    pub names: Symbols,
}

impl Recording {
    /// Opens the recording in the directory `dir`.
    pub fn open(dir: &Path) -> Result<Self, RecordingError> {
        let path = || dir.to_path_buf();
        let dir = match Directory::open(dir) {
            Ok(dir) => dir,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(RecordingError::Missing(path()));
            }
            Err(error) if error.kind() == io::ErrorKind::NotADirectory => {
                return Err(RecordingError::NoDirectory(path()));
            }
            Err(error) => return Err(unreadable(dir, error)),
        };
        let metadata = read_metadata(&dir)?;
        let formats = if metadata.records == Records::Fast {
            Formats::Typed(read_typed(&dir)?)
        } else {
            Formats::Fixed(Box::new(read_fixed(&dir, &metadata)?))
        };
        let files = match metadata.complete {
            true => {
                let cpus = metadata.cpus.iter();
                cpus.map(|cpu| (cpu.cpu, cpu.file.clone().into())).collect()
            }
            false => find_files(&dir, &metadata.name)?,
        };
        Ok(Self {
            metadata,
            formats,
            files,
            names: calls::names(&dir),
            dir,
        })
    }

    /// From the epoch to the zero of `CLOCK_MONOTONIC`, in nanoseconds, if it is known.
    pub fn clock_offset(&self) -> Option<u64> {
        let monotonic = self.metadata.start_monotonic_ns;
        let offset = self.metadata.start_unix_ns.checked_sub(monotonic);
        offset.filter(|_| monotonic != 0)
    }

    /// No record can be later than this, in nanoseconds, whichever of the kernel's clocks its client uses: the one with the
    /// greatest values counts from 1970. A day more, for one that is set while it records.
    pub fn latest(&self) -> u64 {
        const DAY: u64 = 86_400_000_000_000;
        let metadata = &self.metadata;
        let end = match metadata.complete {
            true => metadata.start_unix_ns.saturating_add(metadata.duration_ns),
            false => {
                let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
                u64::try_from(now.unwrap_or_default().as_nanos()).unwrap_or(u64::MAX)
            }
        };
        end.saturating_add(DAY)
    }

    /// Returns the path of the file of a source, by its place in [`Recording::sources`].
    pub fn path(&self, source: usize) -> PathBuf {
        let file = self.files.get(source);
        let path = file.map(|(_, name)| self.dir.path().join(name));
        path.unwrap_or_default()
    }

    /// Opens the files of the CPUs.
    pub fn sources(&self) -> Result<Vec<Box<dyn Source + '_>>, RecordingError> {
        // Another user may have made it, who must not have any other file shown.
        let reader = |name: &OsStr| {
            let file = self.dir.open_file(name);
            let file = file.map_err(|source| unreadable(&self.dir.path().join(name), source))?;
            Ok(BufReader::with_capacity(64 << 10, file))
        };
        let open = |(cpu, name): &(CpuId, OsString)| -> Result<Box<dyn Source + '_>, _> {
            Ok(match &self.formats {
                Formats::Fixed(format) => Box::new(FixedSource::new(reader(name)?, format, cpu.0)),
                Formats::Typed(formats) => {
                    let source = || {
                        let subbuf_size = self.metadata.subbuf_size;
                        let reader = reader(name)?;
                        Ok(FastSource::new(reader, formats, cpu.0, subbuf_size))
                    };
                    let first = source()?.first_time();
                    let path = || self.dir.path().join(name);
                    let first = first.map_err(|source| unreadable(&path(), source))?;
                    Box::new(source()?.beginning_at(first))
                }
            })
        };
        self.files.iter().map(open).collect()
    }
}

fn unreadable(path: &Path, source: io::Error) -> RecordingError {
    RecordingError::Io {
        path: path.into(),
        source,
    }
}

fn read_metadata(dir: &Directory) -> Result<Metadata, RecordingError> {
    let path = dir.path().join(METADATA);
    let text = match dir.read(METADATA, MAX_TEXT) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(RecordingError::NoMetadata(dir.path().into()));
        }
        Err(error) => return Err(unreadable(&path, error)),
    };
    match serde_json::from_slice::<Metadata>(&text) {
        Ok(metadata) if metadata.version > VERSION => Err(RecordingError::NewVersion {
            path,
            version: metadata.version,
        }),
        Ok(metadata) => Ok(metadata),
        Err(source) => Err(RecordingError::BadMetadata { path, source }),
    }
}

/// The client's description, if there is one.
fn read_format(dir: &Directory) -> Result<Option<String>, RecordingError> {
    match dir.read(FORMAT, MAX_TEXT) {
        Ok(bytes) => Ok(Some(String::from_utf8_lossy(&bytes).into_owned())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(unreadable(&dir.path().join(FORMAT), error)),
    }
}

fn read_fixed(dir: &Directory, metadata: &Metadata) -> Result<FixedFormat, RecordingError> {
    let path = dir.path().join(FORMAT);
    let Some(text) = read_format(dir)? else {
        return Err(RecordingError::NoFormat(path));
    };
    let format = match FixedFormat::parse(&text) {
        Ok(format) => format,
        Err(source) => return Err(RecordingError::BadFormat { path, source }),
    };
    match metadata.subbuf_size {
        Some(subbuf) if format.record_size > subbuf => Err(RecordingError::RecordTooLarge {
            path,
            record: format.record_size,
            subbuf,
        }),
        _ => Ok(format),
    }
}

/// Without descriptions all types are unknown.
fn read_typed(dir: &Directory) -> Result<TypedFormats, RecordingError> {
    let path = dir.path().join(FORMAT);
    let text = read_format(dir)?.unwrap_or_default();
    TypedFormats::parse(&text).map_err(|source| RecordingError::BadFormat { path, source })
}

/// The files of a recording that was interrupted.
fn find_files(dir: &Directory, name: &str) -> Result<Vec<(CpuId, OsString)>, RecordingError> {
    let names = dir.names().map_err(|error| unreadable(dir.path(), error))?;
    let cpu = |file: &OsString| parse_cpu(file.to_str()?.strip_prefix(name)?);
    let files = names.into_iter();
    let mut files: Vec<_> = files.filter_map(|file| Some((cpu(&file)?, file))).collect();
    files.sort();
    Ok(files)
}
