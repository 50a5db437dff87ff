// SPDX-License-Identifier: GPL-2.0

//! The files of a channel: which ones exist, and what the control files say.

#![deny(unsafe_code)]

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::fs::File;
use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::FileExt;
use std::os::unix::fs::MetadataExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::path::PathBuf;

use nix::errno::Errno;
use nix::fcntl::Flock;
use nix::fcntl::FlockArg;
use nix::fcntl::OFlag;

use super::channel::CpuId;
use super::channel::Geometry;
use super::channel::Mode;
use super::error::Error;
use super::error::Others;
use super::error::Result;

/// The directory of a channel and the base name of its relay files.
#[derive(Clone, Debug)]
pub struct ChannelDir {
    dir: PathBuf,
    name: String,
}

/// Splits `cpu12` into `cpu` and 12; `None` for names that are not those of relay files.
pub(super) fn split_number(file: &str) -> Option<(&str, CpuId)> {
    let base = file.trim_end_matches(|c: char| c.is_ascii_digit());
    let number = file.get(base.len()..)?;
    Some((base, parse_cpu(number)?))
}

/// A CPU's number as the kernel prints it: digits only, and no leading zero.
pub fn parse_cpu(number: &str) -> Option<CpuId> {
    let plain = number.bytes().all(|b| b.is_ascii_digit());
    if !plain || (number.len() > 1 && number.starts_with('0')) {
        return None;
    }
    number.parse().ok().map(CpuId)
}

impl ChannelDir {
    /// Splits DIR/NAME and makes sure that there is at least one relay file.
    pub fn open(path: &Path) -> Result<Self> {
        let unclear = || Error::NotAChannel(path.into());
        let name = path
            .file_name()
            .and_then(OsStr::to_str)
            .ok_or_else(unclear)?;
        let dir = match path.parent() {
            Some(parent) if parent != Path::new("") => parent,
            _ => Path::new("."),
        };
        let channel = Self {
            dir: dir.into(),
            name: name.into(),
        };
        if channel.relay_files()?.is_empty() {
            if path.is_dir() {
                let inside = Self {
                    dir: path.into(),
                    name: String::new(),
                };
                return Err(Error::IsDirectory {
                    dir: path.into(),
                    others: inside.others(),
                });
            }
            let others = channel.others();
            return Err(Error::NoRelayFile {
                dir: channel.dir,
                name: channel.name,
                others,
            });
        }
        Ok(channel)
    }

    /// The directory.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The base name of the relay files.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The relay files that exist now, one for each CPU. The numbers may have gaps.
    pub fn relay_files(&self) -> Result<BTreeMap<CpuId, PathBuf>> {
        let mut found = BTreeMap::new();
        for file in self.file_names()? {
            if let Some(cpu) = file.strip_prefix(&self.name).and_then(parse_cpu) {
                found.insert(cpu, self.dir.join(&file));
            }
        }
        Ok(found)
    }

    /// The base names that end in a number, for a message to the user.
    fn others(&self) -> Others {
        let files = self.file_names().unwrap_or_default();
        let bases: BTreeSet<_> = files
            .iter()
            // A directory such as /etc/apache2 is no relay file, whatever its name.
            .filter(|file| self.dir.join(file).is_file())
            .filter_map(|file| split_number(file))
            .map(|(base, _)| self.dir.join(base).display().to_string())
            .collect();
        Others(bases.into_iter().collect())
    }

    fn file_names(&self) -> Result<Vec<String>> {
        let failed = |source: io::Error| match source.kind() {
            io::ErrorKind::NotFound => Error::NoDirectory(self.dir.clone()),
            io::ErrorKind::NotADirectory => Error::NotADirectory(self.dir.clone()),
            _ => Error::channel("list the directory", &self.dir, source),
        };
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.dir).map_err(failed)? {
            if let Ok(name) = entry.map_err(failed)?.file_name().into_string() {
                names.push(name);
            }
        }
        Ok(names)
    }

    /// A control file of one CPU, such as `cpu3.produced`.
    pub fn cpu_control(&self, cpu: CpuId, control: &str) -> PathBuf {
        self.dir.join(format!("{}{cpu}.{control}", self.name))
    }

    /// Returns the contents of a control file of the channel; `None` if the file does not exist.
    fn text(&self, control: &'static str) -> Result<Option<String>> {
        let path = self.dir.join(control);
        match fs::read_to_string(&path) {
            Ok(text) => Ok(Some(text.trim().to_owned())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(Error::channel("read", &path, error)),
        }
    }

    fn number<T: std::str::FromStr>(&self, control: &'static str) -> Result<Option<T>> {
        let Some(text) = self.text(control)? else {
            return Ok(None);
        };
        text.parse().map(Some).map_err(|_| Error::BadControl {
            path: self.dir.join(control),
            found: text.chars().take(40).collect(),
            expected: "a number",
        })
    }

    /// Records dropped since the channel was opened, if the client counts them.
    pub fn dropped(&self) -> Result<Option<u64>> {
        self.number("dropped")
    }

    /// The mode; without a control file it is the kernel's default.
    pub fn mode(&self) -> Result<Mode> {
        match self.text("mode")?.as_deref() {
            None | Some("no-overwrite") => Ok(Mode::NoOverwrite),
            Some("overwrite") => Ok(Mode::Overwrite),
            Some(other) => Err(Error::BadControl {
                path: self.dir.join("mode"),
                found: other.chars().take(40).collect(),
                expected: "\"overwrite\" or \"no-overwrite\"",
            }),
        }
    }

    /// The sizes, from the control files where `size` and `count` do not override them. An error
    /// names what is missing.
    pub fn geometry(&self, size: Option<usize>, count: Option<usize>) -> Result<Geometry> {
        let known = |given: Option<usize>, file| match given {
            Some(value) => Ok(value),
            None => self.number(file)?.ok_or_else(|| Error::UnknownSize {
                dir: self.dir.clone(),
                file,
            }),
        };
        let subbuf_size = known(size, "subbuf_size")?;
        let n_subbufs = known(count, "n_subbufs")?;
        Geometry::new(subbuf_size, n_subbufs).ok_or(Error::BadSize {
            subbuf_size,
            n_subbufs,
        })
    }
}

/// A binary control file: native `size_t` values.
///
/// It is opened for each access and not kept open: a C client's control files usually belong to the
/// client's module, which could not be unloaded otherwise.
#[derive(Debug)]
pub struct Counter {
    path: PathBuf,
    /// To notice that the channel has been closed, and another one opened in its place.
    identity: Identity,
}

/// Identity of a file: device and inode.
type Identity = (u64, u64);

fn identity(file: &File) -> io::Result<Identity> {
    let metadata = file.metadata()?;
    Ok((metadata.dev(), metadata.ino()))
}

impl Counter {
    /// Checks whether the file exists and may be read, or also written; `None` if there is none.
    pub fn find(path: PathBuf, write: bool) -> Result<Option<Self>> {
        let open = File::options().read(true).write(write).open(&path);
        match open.and_then(|file| identity(&file)) {
            Ok(identity) => Ok(Some(Self { path, identity })),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => {
                let action = if write { "open for writing" } else { "open" };
                Err(Error::channel(action, &path, error))
            }
        }
    }

    /// Opens the file; an error if it is not the one that was found.
    fn open(&self, options: &OpenOptions) -> Result<File> {
        let open = options.open(&self.path);
        match open.and_then(|file| Ok((identity(&file)?, file))) {
            Ok((identity, file)) if identity == self.identity => Ok(file),
            Ok(_) => Err(Error::Gone(self.path.clone())),
            Err(error) => Err(Error::channel("open", &self.path, error)),
        }
    }

    /// The value of a file that holds one.
    pub fn get(&self) -> Result<usize> {
        let mut raw = [0; size_of::<usize>()];
        self.fill(&mut raw)?;
        Ok(usize::from_ne_bytes(raw))
    }

    /// The first `count` values.
    pub fn get_all(&self, count: usize, into: &mut Vec<usize>) -> Result<()> {
        let mut raw = vec![0; count * size_of::<usize>()];
        self.fill(&mut raw)?;
        into.clear();
        into.extend(
            raw.chunks_exact(size_of::<usize>())
                .filter_map(|value| value.first_chunk())
                .map(|value| usize::from_ne_bytes(*value)),
        );
        Ok(())
    }

    fn fill(&self, raw: &mut [u8]) -> Result<()> {
        let file = self.open(File::options().read(true))?;
        file.read_exact_at(raw, 0).map_err(|error| {
            if error.kind() != io::ErrorKind::UnexpectedEof {
                return Error::channel("read", &self.path, error);
            }
            Error::BadControl {
                path: self.path.clone(),
                found: format!("fewer than {} bytes", raw.len()),
                expected: "native size_t values",
            }
        })
    }

    /// Adds to a count of the kernel.
    pub fn add(&self, delta: usize) -> Result<()> {
        let file = self.open(File::options().write(true))?;
        match file.write_at(&delta.to_ne_bytes(), 0) {
            Ok(_) => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
                Err(Error::ConsumedRefused {
                    path: self.path.clone(),
                    delta,
                })
            }
            Err(error) => Err(Error::channel("write to", &self.path, error)),
        }
    }
}

/// Opens a relay file; with `write` also for writing, to its consumer's page.
pub fn open_relay_file(path: &Path, write: bool) -> Result<File> {
    File::options()
        .read(true)
        .write(write)
        .custom_flags(OFlag::O_NONBLOCK.bits())
        .open(path)
        .map_err(|error| Error::channel("open", path, error))
}

/// Locks a relay file before data is taken from it, so that no other of these commands takes some of
/// that. A look at the buffer needs no lock.
pub fn keep_others_out(file: File, path: &Path) -> Result<Flock<File>> {
    Flock::lock(file, FlockArg::LockExclusiveNonblock).map_err(|(_, errno)| match errno {
        Errno::EAGAIN => Error::Busy(path.into()),
        _ => Error::channel("lock", path, errno.into()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_numbers_are_cpus() {
        assert_eq!(parse_cpu("0"), Some(CpuId(0)));
        assert_eq!(parse_cpu("127"), Some(CpuId(127)));
        for bad in ["", "00", "01", "-1", "+1", "1.produced", "99999999999", "x"] {
            assert_eq!(parse_cpu(bad), None, "{bad}");
        }
    }

    #[test]
    fn control_files_and_strangers_are_no_relay_files() {
        let dir = tempfile::tempdir().unwrap();
        for name in [
            "cpu0",
            "cpu12",
            "cpu0.produced",
            "cpu0.consumed",
            "cpu",
            "cpu01",
            "xcpu3",
            "subbuf_size",
        ] {
            fs::write(dir.path().join(name), "").unwrap();
        }
        let channel = ChannelDir::open(&dir.path().join("cpu")).unwrap();
        let cpus: Vec<_> = channel.relay_files().unwrap().into_keys().collect();
        assert_eq!(cpus, [CpuId(0), CpuId(12)]);
    }

    #[test]
    fn a_base_name_may_itself_end_in_a_digit() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["trace10", "trace11", "trace2"] {
            fs::write(dir.path().join(name), "").unwrap();
        }
        let channel = ChannelDir::open(&dir.path().join("trace1")).unwrap();
        let cpus: Vec<_> = channel.relay_files().unwrap().into_keys().collect();
        assert_eq!(cpus, [CpuId(0), CpuId(1)]);
    }
}
