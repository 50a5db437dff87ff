// SPDX-License-Identifier: GPL-2.0

//! The directory of a recording: one file for each CPU, the client's `format`, and `metadata.json`.

#![deny(unsafe_code)]

use std::collections::HashSet;
use std::fs;
use std::fs::File;
use std::io;
use std::io::Seek;
use std::io::SeekFrom;
use std::io::Write;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::path::PathBuf;

use nix::fcntl::OFlag;
use serde::Deserialize;
use serde::Serialize;

use super::channel::CpuId;
use super::channel::Mode;
use super::drain::Sink;
use super::error::Error;
use super::error::Result;
use super::tally::Tally;
use crate::directory::Access;
use crate::directory::Directory;
use crate::fast::record::Header;
use crate::kallsyms::running_functions;
use crate::merge::calls;
use crate::merge::format::DECLARATION;

/// The name of the description of a recording.
pub const METADATA: &str = "metadata.json";

/// The name of the description of a record.
pub const FORMAT: &str = "format";

/// The version of [`Metadata`] that this program writes.
pub const VERSION: u32 = 2;

/// Reason for the end of a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stop {
    /// SIGINT or SIGTERM.
    Signal,
    /// `--duration` has passed.
    Duration,
    /// The command that ran meanwhile has ended.
    Command,
    /// The kernel client closed the channel.
    Closed,
    /// An error.
    Error,
}

/// Kind of records in the files of a recording.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Records {
    /// The client's own records, described by `format`; the only kind before version 2.
    #[default]
    Plain,
    /// Records with a header, those of a fast channel: [`crate::fast::record`].
    Fast,
}

/// One CPU in [`Metadata`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CpuMetadata {
    /// The CPU.
    pub cpu: CpuId,
    /// The name of its file in the recording.
    pub file: String,
    /// Its counts.
    #[serde(flatten)]
    pub tally: Tally,
}

/// The description of a recording.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Metadata {
    /// The version of this structure.
    pub version: u32,
    /// True if the recording finished; the counts are valid only then.
    pub complete: bool,
    /// The channel's directory.
    pub channel: PathBuf,
    /// The base name of its relay files, and of the files of the recording.
    pub name: String,
    /// Kind of records in the files.
    #[serde(default)]
    pub records: Records,
    /// "control-page", "mmap", "read", "recovered" from memory after a reboot, or "kept" there.
    pub method: String,
    /// The channel's mode.
    pub mode: Mode,
    /// Bytes at the start of each sub-buffer that were left out.
    pub header: usize,
    /// Bytes in a sub-buffer, if known.
    pub subbuf_size: Option<usize>,
    /// Sub-buffers of each CPU, if known.
    pub n_subbufs: Option<usize>,
    /// When the recording began, in nanoseconds since 1970.
    pub start_unix_ns: u64,
    /// The same moment on `CLOCK_MONOTONIC`, which gives the records of fast channels their times.
    #[serde(default)]
    pub start_monotonic_ns: u64,
    /// The name of the machine, if it is known.
    #[serde(default)]
    pub host: Option<String>,
    /// Which start of the machine it was, if it is known.
    #[serde(default)]
    pub boot_id: Option<String>,
    /// How long it took.
    pub duration_ns: u64,
    /// Reason for the end.
    pub stop: Option<Stop>,
    /// Records that the client dropped meanwhile, if it counts them.
    pub dropped: Option<u64>,
    /// The CPUs.
    pub cpus: Vec<CpuMetadata>,
}

impl Metadata {
    /// Describes a recording of this boot without records and times: fast ones, of a channel that
    /// overwrites.
    pub fn new(channel: impl Into<PathBuf>, name: &str, method: &str) -> Self {
        Self {
            version: VERSION,
            complete: false,
            channel: channel.into(),
            name: name.to_owned(),
            records: Records::Fast,
            method: method.to_owned(),
            mode: Mode::Overwrite,
            header: 0,
            subbuf_size: None,
            n_subbufs: None,
            start_unix_ns: 0,
            start_monotonic_ns: 0,
            host: this_host(),
            boot_id: this_boot(),
            duration_ns: 0,
            stop: None,
            dropped: None,
            cpus: Vec::new(),
        }
    }

    /// Returns the identity of the recording: its boot and its start.
    pub fn recording_id(&self) -> String {
        let boot = self.boot_id.as_deref().unwrap_or("unknown");
        format!("{boot}.{}", self.start_monotonic_ns)
    }
}

/// The name of this machine, if it has been given one.
pub fn this_host() -> Option<String> {
    let names = nix::sys::utsname::uname().ok()?;
    let name = names.nodename().to_string_lossy().into_owned();
    // What the kernel says as long as nobody has.
    Some(name).filter(|name| !name.is_empty() && name != "(none)")
}

/// The identity that the kernel has given itself when it was started.
pub fn this_boot() -> Option<String> {
    let id = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    Some(id.trim().to_owned())
}

/// The file of one CPU that is being recorded.
#[derive(Debug)]
pub struct CpuFile {
    /// Where the bytes go.
    pub file: File,
    /// The same with `O_DIRECT`, if that is wanted and the file system supports it.
    pub direct: Option<File>,
    /// Its path, for messages.
    pub path: PathBuf,
    /// The counts.
    pub tally: Tally,
}

impl CpuFile {
    /// Makes an empty file begin with a padding record of `bytes` bytes, a multiple of 8.
    pub fn begin_with_padding(&mut self, bytes: u64) -> io::Result<()> {
        let Some(rest) = bytes.checked_sub(Header::LEN) else {
            return Ok(());
        };
        let header = Header {
            len: u32::try_from(rest).unwrap_or(0),
            ty: 0,
            flags: Header::PADDING,
        };
        self.file.write_all_at(&header.encode(), 0)?;
        self.tally.add_records(0, bytes);
        Ok(())
    }

    /// Removes what a failed write has left after the bytes that were counted.
    pub fn cut(&mut self) {
        // Nothing can be done if this fails, and a device has no length.
        let _ = self
            .file
            .set_len(self.tally.bytes)
            .and_then(|()| self.file.seek(SeekFrom::Start(self.tally.bytes)));
    }

    /// File, path and counts, for drains that copy.
    pub fn sink(&mut self) -> Sink<'_> {
        Sink {
            file: &mut self.file,
            path: &self.path,
            tally: &mut self.tally,
        }
    }
}

/// The directory of a recording that is in progress.
#[derive(Debug)]
pub struct OutputDir {
    dir: Directory,
    name: String,
}

impl OutputDir {
    /// Creates the directory, or uses an empty one; with `force` any.
    pub fn create(dir: &Path, name: &str, force: bool) -> Result<Self> {
        // A recording may tell of all processes, and of where the kernel is.
        let dir = Directory::create(dir, Access::Private, force, true)?;
        // The descriptions of an earlier recording are not of these records.
        for name in [FORMAT, calls::KALLSYMS, calls::MAPS] {
            let removed = dir.remove(name.as_ref());
            removed.map_err(|error| Error::output("remove", &dir.path().join(name), error))?;
        }
        Ok(Self {
            dir,
            name: name.into(),
        })
    }

    /// The name of the file of `cpu`.
    pub fn cpu_file_name(&self, cpu: CpuId) -> String {
        format!("{}{cpu}", self.name)
    }

    /// Creates the file of `cpu`; `direct` asks for `O_DIRECT`.
    pub fn create_cpu_file(&self, cpu: CpuId, direct: bool) -> Result<CpuFile> {
        let name = self.cpu_file_name(cpu);
        let path = self.dir.path().join(&name);
        let file = self.dir.create_file(name.as_ref());
        let file = file.map_err(|error| Error::output("create", &path, error))?;
        // The same file, whatever has its name by now.
        let same = format!("/proc/self/fd/{}", file.as_raw_fd());
        let flags = OFlag::O_DIRECT.bits();
        let open = || File::options().write(true).custom_flags(flags).open(same);
        Ok(CpuFile {
            direct: direct.then(open).and_then(io::Result::ok),
            file,
            path,
            tally: Tally::default(),
        })
    }

    /// Removes the file of a CPU that had no buffer.
    pub fn remove_cpu_file(&self, cpu: CpuId) -> io::Result<()> {
        self.dir.remove(self.cpu_file_name(cpu).as_ref())
    }

    /// Saves a copy of the client's description of its records, if there is one.
    pub fn copy_format(&self, channel: &Path) -> Result<()> {
        // Its own comes first: a directory can have several channels.
        for name in [format!("{}.{FORMAT}", self.name), FORMAT.into()] {
            let from = channel.join(name);
            let text = match fs::read(&from) {
                Ok(text) => text,
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(Error::channel("read", &from, error)),
            };
            return self.write_format(&text);
        }
        Ok(())
    }

    /// Writes the client's description of its records.
    pub fn write_format(&self, text: &[u8]) -> Result<()> {
        self.write(FORMAT, text)
    }

    fn write(&self, name: &str, text: &[u8]) -> Result<()> {
        let written = self.dir.write(name.as_ref(), text);
        written.map_err(|error| Error::output("write to", &self.dir.path().join(name), error))
    }

    /// Saves the names of the calls in records, if the description says that there are any, in
    /// addition to those saved before.
    pub fn save_names(&self) -> Result<()> {
        let read = |name| {
            let bytes = self.dir.read(name, calls::MOST).unwrap_or_default();
            String::from_utf8_lossy(&bytes).into_owned()
        };
        let format = read(FORMAT);
        if !format.contains(DECLARATION) {
            return Ok(());
        }
        // Without it there are numbers in place of names. Of modules that are loaded later, or have
        // gone, one of both has the names.
        let mut kernel = running_functions().unwrap_or_default();
        let known: HashSet<_> = kernel.lines().map(str::to_owned).collect();
        for line in read(calls::KALLSYMS).lines() {
            if !known.contains(line) {
                kernel.push_str(line);
                kernel.push('\n');
            }
        }
        self.write(calls::KALLSYMS, kernel.as_bytes())?;
        let maps = read(calls::MAPS) + &calls::processes();
        self.write(calls::MAPS, maps.as_bytes())
    }

    /// Writes the names of calls that another recording has.
    pub fn write_names(&self, kallsyms: &[u8], maps: &[u8]) -> Result<()> {
        self.write(calls::KALLSYMS, kallsyms)?;
        self.write(calls::MAPS, maps)
    }

    /// Waits until all is on disk.
    pub fn sync(&self) -> Result<()> {
        let synced = self.dir.sync();
        synced.map_err(|error| Error::output("write to", self.dir.path(), error))
    }

    /// Writes the description of the recording; a reader sees the old one or the new one.
    pub fn write_metadata(&self, metadata: &Metadata) -> Result<()> {
        const NEW: &str = ".metadata.json.new";
        let write = || {
            let mut file = self.dir.create_file(NEW.as_ref())?;
            serde_json::to_writer_pretty(&mut file, metadata)?;
            file.write_all(b"\n")?;
            self.dir.rename(NEW, METADATA)
        };
        write().map_err(|error: io::Error| {
            Error::output("write", &self.dir.path().join(METADATA), error)
        })
    }
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn nobody_else_reads_a_recording_and_an_old_one_leaves_no_names() {
        let parent = tempfile::tempdir().unwrap();
        let dir = parent.path().join("out");
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        let output = OutputDir::create(&dir, "cpu", false).unwrap();
        output.write_format(b"old").unwrap();
        fs::write(dir.join(calls::KALLSYMS), "old").unwrap();
        let file = output.create_cpu_file(CpuId(0), false).unwrap();
        assert_eq!(mode(&dir), 0o700);
        assert_eq!(mode(&file.path), 0o600);
        assert_eq!(mode(&dir.join(FORMAT)), 0o600);
        assert!(OutputDir::create(&dir, "cpu", false).is_err());
        fs::set_permissions(&file.path, Permissions::from_mode(0o644)).unwrap();
        let output = OutputDir::create(&dir, "cpu", true).unwrap();
        output.create_cpu_file(CpuId(0), false).unwrap();
        assert_eq!(mode(&file.path), 0o600);
        assert!(!dir.join(FORMAT).exists() && !dir.join(calls::KALLSYMS).exists());
    }
}
