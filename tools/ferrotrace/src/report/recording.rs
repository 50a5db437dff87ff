// SPDX-License-Identifier: GPL-2.0

//! The directory of a recording, as `ferrotrace relay record` left it or as it was when it was
//! interrupted.

#![deny(unsafe_code)]

use std::fs;
use std::fs::File;
use std::io;
use std::io::BufReader;
use std::io::Read;
use std::path::Path;
use std::path::PathBuf;

use thiserror::Error;

use super::format::Format;
use super::format::FormatError;
use crate::relay::channel::CpuId;
use crate::relay::files::parse_cpu;
use crate::relay::output::FORMAT;
use crate::relay::output::METADATA;
use crate::relay::output::Metadata;
use crate::relay::output::VERSION;

/// No description of a record is longer.
const MAX_TEXT: u64 = 1 << 20;

/// What can be wrong with a recording.
#[derive(Debug, Error)]
pub enum RecordingError {
    /// There is nothing.
    #[error("{}: no such recording", .0.display())]
    Missing(PathBuf),
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
    /// The client describes no record.
    #[error("{}: missing; without the client's description records cannot be decoded", .0.display())]
    NoFormat(PathBuf),
    /// The description of the records is wrong.
    #[error("{}: {source}", path.display())]
    BadFormat {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
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

/// A recording that can be decoded.
#[derive(Debug)]
pub struct Recording {
    dir: PathBuf,
    /// Its description.
    pub metadata: Metadata,
    /// The description of its records.
    pub format: Format,
    /// The files of the CPUs.
    pub files: Vec<(CpuId, PathBuf)>,
}

impl Recording {
    /// Looks at the directory `dir`.
    pub fn open(dir: &Path) -> Result<Self, RecordingError> {
        if !dir.is_dir() {
            return Err(RecordingError::Missing(dir.into()));
        }
        let metadata = read_metadata(dir)?;
        let format = read_format(dir, &metadata)?;
        let files = if metadata.complete {
            let named = metadata.cpus.iter();
            named.map(|cpu| (cpu.cpu, dir.join(&cpu.file))).collect()
        } else {
            find_files(dir, &metadata.name)?
        };
        Ok(Self {
            dir: dir.into(),
            metadata,
            format,
            files,
        })
    }

    /// The directory.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Opens the files, in the order of `files`.
    pub fn readers(&self) -> Result<Vec<BufReader<File>>, RecordingError> {
        let open = |(_, path): &(CpuId, PathBuf)| {
            File::open(path)
                .map(|file| BufReader::with_capacity(64 << 10, file))
                .map_err(|source| unreadable(path, source))
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

fn read_metadata(dir: &Path) -> Result<Metadata, RecordingError> {
    let path = dir.join(METADATA);
    let text = match fs::read(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(RecordingError::NoMetadata(dir.into()));
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

fn read_format(dir: &Path, metadata: &Metadata) -> Result<Format, RecordingError> {
    let path = dir.join(FORMAT);
    let mut bytes = Vec::new();
    match File::open(&path) {
        Ok(file) => {
            let read = file.take(MAX_TEXT).read_to_end(&mut bytes);
            read.map_err(|source| unreadable(&path, source))?;
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(RecordingError::NoFormat(path));
        }
        Err(error) => return Err(unreadable(&path, error)),
    }
    let text = String::from_utf8_lossy(&bytes);
    let format = match Format::parse(&text) {
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

/// The files of a recording that did not come to its end.
fn find_files(dir: &Path, name: &str) -> Result<Vec<(CpuId, PathBuf)>, RecordingError> {
    let failed = |error| unreadable(dir, error);
    let mut files = Vec::new();
    for entry in fs::read_dir(dir).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let file = entry.file_name();
        let number = file.to_str().and_then(|file| file.strip_prefix(name));
        if let Some(cpu) = number.and_then(parse_cpu) {
            files.push((cpu, entry.path()));
        }
    }
    files.sort();
    Ok(files)
}
