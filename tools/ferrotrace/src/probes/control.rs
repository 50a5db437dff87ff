// SPDX-License-Identifier: GPL-2.0

//! The file through which probes are added and removed.

#![deny(unsafe_code)]

use std::fs;
use std::fs::File;
use std::io;
use std::io::Write;
use std::path::Path;
use std::path::PathBuf;
use std::rc::Rc;

use nix::errno::Errno;
use nix::fcntl::Flock;
use nix::fcntl::FlockArg;

use super::error::Error;
use super::error::Refusal;
use super::error::Result;
use super::model::Kind;
use super::model::Place;
use super::model::Probe;
use super::model::parse_list;
use super::resolve::Wanted;
use super::symbols::Symbols;
use crate::file::IoError;
use crate::near::Names;

/// The most bytes that the module takes at once.
const WRITE_MAX: usize = 1 << 16;

/// `ferrotrace_kprobe_events` in debugfs.
#[derive(Clone, Debug)]
pub struct Control {
    dir: PathBuf,
    /// Open file of tables, or of a channel in reserved memory, which takes commands instead of the
    /// file of probes.
    session: Option<Rc<File>>,
}

impl Control {
    /// Names the directory. Nothing is opened yet.
    pub fn new(dir: PathBuf) -> Self {
        let session = None;
        Self { dir, session }
    }

    /// Makes tables for the probes that are added from now on, by the module's command. Returns
    /// `None` with a module that has none.
    pub fn with_totals(&self, command: &str) -> Result<Option<(Self, Rc<File>)>> {
        let path = self.dir.join("totals");
        let failed = |action| {
            let path = path.clone();
            move |source| {
                Error::Io(IoError {
                    action,
                    path,
                    source,
                })
            }
        };
        let file = match File::options().read(true).write(true).open(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            other => other.map_err(failed("open"))?,
        };
        (&file)
            .write_all(command.as_bytes())
            .map_err(failed("write to"))?;
        let file = Rc::new(file);
        let control = Self {
            dir: self.dir.clone(),
            session: Some(file.clone()),
        };
        Ok(Some((control, file)))
    }

    /// Opens a channel in reserved memory for the hits of the probes that are added from now on. Its
    /// description has `recording`.
    pub fn keep(&self, memory: &str, recording: &str) -> Result<Self> {
        let path = self.dir.join("keep");
        let mut file = match File::options().write(true).open(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound && self.path().exists() => {
                return Err(Error::NoKeep);
            }
            other => other.map_err(|error| self.refused("open", error))?,
        };
        file.write_all(format!("in {memory} as {recording}\n").as_bytes())
            .map_err(|error| match errno(&error) {
                Errno::ENXIO => Error::NoMemory(memory.to_owned()),
                Errno::EAGAIN | Errno::EEXIST => Error::MemoryInUse(memory.to_owned()),
                Errno::ENOSPC => Error::SmallMemory(memory.to_owned()),
                Errno::EINVAL => Error::MemoryName(memory.to_owned()),
                _ => self.refused("write to", error),
            })?;
        Ok(Self {
            dir: self.dir.clone(),
            session: Some(Rc::new(file)),
        })
    }

    /// Reads the description of the records of all probes.
    pub fn format(&self) -> Result<String> {
        let path = self.dir.join("format");
        fs::read_to_string(&path).map_err(|source| {
            Error::Io(IoError {
                action: "read",
                path,
                source,
            })
        })
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
        let failed = |source| {
            Error::Io(IoError {
                action: "read",
                path: path.clone(),
                source,
            })
        };
        let text = fs::read_to_string(&path).map_err(failed)?;
        let number = text.trim().parse();
        number.map_err(|error| failed(io::Error::new(io::ErrorKind::InvalidData, error)))
    }

    /// Adds probes in their order, up to the first that is refused, with as few writes as that
    /// takes. Returns how many those before it are, and why it is.
    pub fn add(&self, probes: &[Wanted]) -> (usize, Result<()>) {
        let on_returns = probes.iter().enumerate();
        let within = on_returns
            .filter(|(_, probe)| probe.kind == Kind::Return && probe.place.offset != 0)
            .map(|(index, _)| index)
            .next();
        let good = probes.get(..within.unwrap_or(probes.len()));
        let lines: Vec<_> = good.unwrap_or_default().iter().map(line).collect();
        let (count, result) = self.write_all(&lines, |index, error| {
            let (place, name) = match probes.get(index) {
                Some(probe) => (&probe.place, &probe.name),
                None => return self.refused("write to", error),
            };
            match errno(&error) {
                Errno::EEXIST => Error::Exists(name.clone()),
                Errno::ENODEV => Error::NoEngine,
                Errno::ENOENT => {
                    no_symbol(place).unwrap_or_else(|| self.refusal(place, Errno::ENOENT))
                }
                errno @ (Errno::EINVAL | Errno::EILSEQ | Errno::EOPNOTSUPP) => {
                    self.refusal(place, errno)
                }
                _ => self.refused("write to", error),
            }
        });
        let within = within.and_then(|index| probes.get(index));
        match (result, within) {
            (Ok(()), Some(probe)) => (count, Err(Error::ReturnOffset(probe.place.clone()))),
            (result, _) => (count, result),
        }
    }

    /// Removes probes, up to the first that is not there, as [`Control::add`] adds them.
    pub fn remove(&self, names: &[String]) -> (usize, Result<()>) {
        let lines: Vec<_> = names.iter().map(|name| format!("-{name}\n")).collect();
        self.write_all(&lines, |index, error| {
            match (errno(&error), names.get(index)) {
                (Errno::ENOENT, Some(name)) => {
                    let probes = self.list().unwrap_or_default();
                    Error::NoProbe {
                        name: name.clone(),
                        others: Names(probes.into_iter().map(|probe| probe.name).collect()),
                    }
                }
                _ => self.refused("write to", error),
            }
        })
    }

    /// Removes all probes.
    pub fn remove_all(&self) -> Result<()> {
        let all = ["-*\n".to_owned()];
        let (_, result) = self.write_all(&all, |_, error| self.refused("write to", error));
        result
    }

    /// Keeps others from reading the hits, which only one process can do.
    pub fn lock(&self) -> Result<Flock<File>> {
        let file = File::open(self.path()).map_err(|error| self.refused("open", error))?;
        Flock::lock(file, FlockArg::LockExclusiveNonblock).map_err(|(_, errno)| match errno {
            Errno::EAGAIN => Error::Watched,
            _ => self.refused("lock", errno.into()),
        })
    }

    /// Writes lines, many in one `write()`, up to the first that the kernel refuses. Returns how many those before it are, and what
    /// `error` makes of the kernel's answer to it.
    fn write_all(
        &self,
        lines: &[String],
        error: impl Fn(usize, io::Error) -> Error,
    ) -> (usize, Result<()>) {
        let opened;
        let mut file = match &self.session {
            Some(file) => &**file,
            None => match File::options().write(true).open(self.path()) {
                Ok(file) => {
                    opened = file;
                    &opened
                }
                Err(error) => return (0, Err(self.refused("open", error))),
            },
        };
        let mut done = 0;
        let mut is_refused = false;
        while let Some(rest) = lines.get(done..).filter(|rest| !rest.is_empty()) {
            let mut text = String::new();
            for line in rest {
                if !text.is_empty() && (is_refused || text.len() + line.len() > WRITE_MAX) {
                    break;
                }
                text.push_str(line);
            }
            match file.write(text.as_bytes()) {
                // It takes whole lines, at least one, and not the one that it refuses, of which the
                // next write says why.
                Ok(taken) => {
                    is_refused = taken < text.len();
                    let taken = text.get(..taken).unwrap_or_default();
                    match taken.lines().count() {
                        0 => return (done, Err(error(done, Errno::EIO.into()))),
                        count => done += count,
                    }
                }
                // The first, or, with a module of an earlier version, that there are several: it
                // alone tells.
                Err(_) if !is_refused && rest.len() > 1 => is_refused = true,
                Err(refusal) => return (done, Err(error(done, refusal))),
            }
        }
        (done, Ok(()))
    }

    fn refused(&self, action: &'static str, source: io::Error) -> Error {
        let path = self.path();
        match source.kind() {
            io::ErrorKind::PermissionDenied => Error::Denied(path),
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => self.absent(),
            _ => Error::Io(IoError {
                action,
                path,
                source,
            }),
        }
    }

    /// Why the engine refuses a probe: the Rust engine lists its latest refusals.
    fn refusal(&self, place: &Place, errno: Errno) -> Error {
        let path = self.dir.with_file_name("kprobes").join("refused");
        let lines = fs::read_to_string(path).unwrap_or_default();
        Error::Refused {
            place: place.clone(),
            refusal: Refusal {
                errno,
                log: about(&lines, place).into_iter().collect(),
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

/// Returns the line that adds a probe in the kernel.
fn line(probe: &Wanted) -> String {
    let Wanted {
        kind,
        name,
        place,
        args,
        ..
    } = probe;
    let letter = match kind {
        Kind::Return => 'r',
        _ => 'p',
    };
    format!("{}\n", format!("{letter} {name} {place} {args}").trim_end())
}

/// Returns the latest line about a place. The kernel knows it without the module's name.
fn about(lines: &str, place: &Place) -> Option<String> {
    let symbol = place.symbol.rsplit(':').next().unwrap_or_default();
    let start = format!("no probe at {symbol}+{:#x}: ", place.offset);
    let mut latest = lines.lines().rev();
    latest
        .find(|line| line.starts_with(&start))
        .map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_said() {
        let dir = tempfile::tempdir().unwrap();
        let error = |dir: PathBuf| Control::new(dir).list().unwrap_err();
        let absent = dir.path().join("ferrotrace_kprobe_events");
        assert!(matches!(error(absent.clone()), Error::NoDebugfs(_)));
        fs::create_dir(dir.path().join("other")).unwrap();
        assert!(matches!(error(absent.clone()), Error::NoModule(_)));
        let control = Control::new(absent);
        let names = ["f".to_owned()];
        for result in [
            control.add(&[wanted("f", "f", "")]).1,
            control.remove(&names).1,
            control.remove_all(),
        ] {
            assert!(matches!(result, Err(Error::NoModule(_))));
        }
    }

    fn wanted(name: &str, place: &str, args: &str) -> Wanted {
        Wanted::of_place(name, place, Kind::Probe, args)
    }

    #[test]
    fn what_the_engine_says() {
        let lines = "no probe at f+0x3: a\nno probe at f+0x3: b\nno probe at f+0x30: c\n";
        let said = |place: &str| about(lines, &place.parse().unwrap());
        assert_eq!(said("f+0x3").as_deref(), Some("no probe at f+0x3: b"));
        assert_eq!(
            said("ext4:f+0x30").as_deref(),
            Some("no probe at f+0x30: c")
        );
        assert_eq!(said("f"), None);
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
        let of_return = Wanted {
            kind: Kind::Return,
            ..wanted("b", "f+0x10", "")
        };
        fs::write(&path, "").unwrap();
        let (count, result) = control.add(&[wanted("a", "f+0x10", ""), of_return]);
        assert!(count == 1 && matches!(result, Err(Error::ReturnOffset(_))));
        assert_eq!(fs::read_to_string(&path).unwrap(), "p a f+0x10\n");
        fs::write(&path, "").unwrap();
        let two = [wanted("a", "f", "n=%di if n==1"), wanted("b", "g", "")];
        assert!(matches!(control.add(&two), (2, Ok(()))));
        assert_eq!(
            fs::read_to_string(&path).unwrap(),
            "p a f n=%di if n==1\np b g\n"
        );
        // More than there is room for in a write.
        fs::write(&path, "").unwrap();
        let many: Vec<_> = (0..5000)
            .map(|n| wanted(&format!("name_{n}"), "function", ""))
            .collect();
        assert!(matches!(control.add(&many), (5000, Ok(()))));
        assert_eq!(fs::read_to_string(&path).unwrap().lines().count(), 5000);
        let names: Vec<_> = many.into_iter().map(|probe| probe.name).collect();
        fs::write(&path, "").unwrap();
        assert!(matches!(control.remove(&names), (5000, Ok(()))));
        assert!(
            fs::read_to_string(&path)
                .unwrap()
                .ends_with("\n-name_4999\n")
        );
        assert!(matches!(control.lost(), Err(Error::Io(_))));
        fs::write(dir.path().join("lost"), "12\n").unwrap();
        assert_eq!(control.lost().unwrap(), 12);
    }
}
