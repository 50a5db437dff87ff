// SPDX-License-Identifier: GPL-2.0

//! The file through which probes are added and removed.

#![deny(unsafe_code)]

use std::fs;
use std::fs::File;
use std::io;
use std::io::Read;
use std::io::Seek;
use std::io::SeekFrom;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::path::PathBuf;

use nix::errno::Errno;
use nix::fcntl::Flock;
use nix::fcntl::FlockArg;
use nix::fcntl::OFlag;

use super::error::Error;
use super::error::Names;
use super::error::Refusal;
use super::error::Result;
use super::model::Kind;
use super::model::Place;
use super::model::Probe;
use super::model::parse_list;
use super::symbols::Symbols;

/// `ferrotrace_kprobe_events` in debugfs.
#[derive(Clone, Debug)]
pub struct Control {
    dir: PathBuf,
}

impl Control {
    /// Names the directory. Nothing is opened yet.
    pub fn new(dir: PathBuf) -> Self {
        Self { dir }
    }

    /// The channel of the hits, without the number of the CPU.
    pub fn channel(&self) -> PathBuf {
        self.dir.join("cpu")
    }

    fn path(&self) -> PathBuf {
        self.dir.join("probes")
    }

    /// Reads the probes that exist now.
    pub fn list(&self) -> Result<Vec<Probe>> {
        let path = self.path();
        let text = fs::read_to_string(&path).map_err(|error| self.refused("read", error))?;
        parse_list(&text).map_err(|source| Error::Parse { path, source })
    }

    /// Records that found no room since the module was loaded.
    pub fn lost(&self) -> Result<u64> {
        let path = self.dir.join("lost");
        let failed = |source| Error::Io {
            action: "read",
            path: path.clone(),
            source,
        };
        let text = fs::read_to_string(&path).map_err(failed)?;
        let number = text.trim().parse();
        number.map_err(|error| failed(io::Error::new(io::ErrorKind::InvalidData, error)))
    }

    /// Adds a probe. `args` are what it reads, and on what conditions hits count, as the kernel has them; mostly nothing.
    pub fn add(&self, kind: Kind, name: &str, place: &Place, args: &str) -> Result<()> {
        if kind == Kind::Return && place.offset != 0 {
            return Err(Error::ReturnOffset(place.clone()));
        }
        let letter = match kind {
            Kind::Probe => 'p',
            Kind::Return => 'r',
        };
        let log = KernelLog::open();
        let written = self.write(&format!(
            "{}\n",
            format!("{letter} {name} {place} {args}").trim_end()
        ))?;
        written.map_err(|error| match errno(&error) {
            Errno::EEXIST => Error::Exists(name.to_owned()),
            Errno::ENODEV => Error::NoEngine,
            Errno::ENOENT => no_symbol(place).unwrap_or_else(|| refusal(place, Errno::ENOENT, log)),
            errno @ (Errno::EINVAL | Errno::EILSEQ | Errno::EOPNOTSUPP) => {
                refusal(place, errno, log)
            }
            _ => self.refused("write to", error),
        })
    }

    /// Removes a probe.
    pub fn remove(&self, name: &str) -> Result<()> {
        let written = self.write(&format!("-{name}\n"))?;
        written.map_err(|error| match errno(&error) {
            Errno::ENOENT => {
                let probes = self.list().unwrap_or_default();
                Error::NoProbe {
                    name: name.to_owned(),
                    others: Names(probes.into_iter().map(|probe| probe.name).collect()),
                }
            }
            _ => self.refused("write to", error),
        })
    }

    /// Removes all probes.
    pub fn remove_all(&self) -> Result<()> {
        self.write("-*\n")?
            .map_err(|error| self.refused("write to", error))
    }

    /// Keeps others from reading the hits, which only one process can do.
    pub fn lock(&self) -> Result<Flock<File>> {
        let file = File::open(self.path()).map_err(|error| self.refused("open", error))?;
        Flock::lock(file, FlockArg::LockExclusiveNonblock).map_err(|(_, errno)| match errno {
            Errno::EAGAIN => Error::Watched,
            _ => self.refused("lock", errno.into()),
        })
    }

    /// Writes one line, in one `write()`. The inner result is the kernel's answer.
    fn write(&self, line: &str) -> Result<io::Result<()>> {
        let file = File::options().write(true).open(self.path());
        let mut file = file.map_err(|error| self.refused("open", error))?;
        Ok(match file.write(line.as_bytes()) {
            Ok(taken) if taken == line.len() => Ok(()),
            Ok(_) => Err(Errno::EIO.into()),
            Err(error) => Err(error),
        })
    }

    fn refused(&self, action: &'static str, source: io::Error) -> Error {
        let path = self.path();
        match source.kind() {
            io::ErrorKind::PermissionDenied => Error::Denied(path),
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => self.absent(),
            _ => Error::Io {
                action,
                path,
                source,
            },
        }
    }

    /// Why there is no file.
    fn absent(&self) -> Error {
        let parent = self.dir.parent().unwrap_or(Path::new("/"));
        // Where debugfs is not mounted there is an empty directory, or none.
        match fs::read_dir(parent).map(|mut entries| entries.next().is_some()) {
            Ok(true) => Error::NoModule(self.dir.clone()),
            _ => Error::NoDebugfs(parent.to_owned()),
        }
    }
}

/// The system's answer.
pub(super) fn errno(error: &io::Error) -> Errno {
    error
        .raw_os_error()
        .map_or(Errno::UnknownErrno, Errno::from_raw)
}

/// The error for a symbol that does not exist; `None` if it does.
pub(super) fn no_symbol(place: &Place) -> Option<Error> {
    let symbols = Symbols::read().unwrap_or_default();
    // A function of a module may be given with the module's name.
    let name = place.symbol.rsplit(':').next().unwrap_or_default();
    (symbols.count(name) == 0).then(|| Error::NoSymbol {
        symbol: place.symbol.clone(),
        near: symbols.near(name),
    })
}

fn refusal(place: &Place, errno: Errno, log: Option<KernelLog>) -> Error {
    let log = log.map(|log| log.about_probes()).unwrap_or_default();
    Error::Refused {
        place: place.clone(),
        refusal: Refusal { errno, log },
    }
}

/// The kernel's log, from when it was opened.
struct KernelLog(File);

impl KernelLog {
    fn open() -> Option<Self> {
        let mut file = File::options()
            .read(true)
            .custom_flags(OFlag::O_NONBLOCK.bits())
            .open("/dev/kmsg")
            .ok()?;
        file.seek(SeekFrom::End(0)).ok()?;
        Some(Self(file))
    }

    /// Its messages about probes.
    fn about_probes(mut self) -> Vec<String> {
        let mut lines = Vec::new();
        let mut record = [0; 8192];
        // Each read returns a record; an error is the end of the log.
        while let Ok(len) = self.0.read(&mut record) {
            let text = String::from_utf8_lossy(record.get(..len).unwrap_or_default());
            match log_text(&text) {
                _ if len == 0 => break,
                Some(line) if line.contains("probe") => lines.push(line.to_owned()),
                _ => (),
            }
        }
        lines
    }
}

/// The text of a record of `/dev/kmsg`: `prefix;text`, and lines of details.
fn log_text(record: &str) -> Option<&str> {
    record.lines().next()?.split_once(';').map(|(_, text)| text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_of_the_log() {
        let record = "6,339,5140900,-;no probe at f+0x3: reason; more\n SUBSYSTEM=x\n";
        assert_eq!(log_text(record), Some("no probe at f+0x3: reason; more"));
        assert_eq!(log_text(""), None);
    }

    #[test]
    fn what_is_missing_is_said() {
        let dir = tempfile::tempdir().unwrap();
        let error = |dir: PathBuf| Control::new(dir).list().unwrap_err();
        let absent = dir.path().join("ferrotrace_kprobe_events");
        assert!(matches!(error(absent.clone()), Error::NoDebugfs(_)));
        fs::create_dir(dir.path().join("other")).unwrap();
        assert!(matches!(error(absent.clone()), Error::NoModule(_)));
        let control = Control::new(absent);
        let place = "f".parse().unwrap();
        for result in [
            control.add(Kind::Probe, "f", &place, ""),
            control.remove("f"),
            control.remove_all(),
        ] {
            assert!(matches!(result, Err(Error::NoModule(_))));
        }
    }

    #[test]
    fn a_directory_like_the_kernels() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("probes");
        fs::write(&path, super::super::model::tests::LIST).unwrap();
        let control = Control::new(dir.path().into());
        assert_eq!(control.list().unwrap().len(), 3);
        let _lock = control.lock().unwrap();
        assert!(matches!(control.lock(), Err(Error::Watched)));
        let place = "f+0x10".parse().unwrap();
        assert!(matches!(
            control.add(Kind::Return, "a", &place, ""),
            Err(Error::ReturnOffset(_))
        ));
        fs::write(&path, "").unwrap();
        control.add(Kind::Probe, "a", &place, "").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "p a f+0x10\n");
        fs::write(&path, "").unwrap();
        control
            .add(Kind::Probe, "a", &place, "n=%di if n==1")
            .unwrap();
        assert_eq!(
            fs::read_to_string(&path).unwrap(),
            "p a f+0x10 n=%di if n==1\n"
        );
        assert!(matches!(control.lost(), Err(Error::Io { .. })));
        fs::write(dir.path().join("lost"), "12\n").unwrap();
        assert_eq!(control.lost().unwrap(), 12);
    }
}
