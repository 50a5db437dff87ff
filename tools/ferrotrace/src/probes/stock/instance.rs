// SPDX-License-Identifier: GPL-2.0

//! An instance of tracefs: buffers and events of our own, which go with the value.

#![deny(unsafe_code)]

use std::fs;
use std::fs::File;
use std::io;
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::path::PathBuf;

use nix::errno::Errno;

use super::GROUP;
use super::PLACES;
use crate::probes::control::errno;
use crate::probes::error::Error;
use crate::probes::error::Result;
use crate::relay::files::open_relay_file;

/// As many instances can have the number of one process.
const OTHERS: u32 = 100;

/// The buffers, without any events at first.
#[derive(Debug)]
pub struct Instance {
    dir: PathBuf,
    /// File that enables recording. It stays open, so that opening it is never a hit itself.
    on: Option<File>,
}

pub(super) fn failed(action: &'static str, path: &Path, source: io::Error) -> Error {
    Error::of_file(action, path.into(), source)
}

impl Instance {
    /// Where tracefs is, if it is mounted. Errors: the user may not look.
    pub fn tracing() -> Result<Option<PathBuf>> {
        for place in PLACES.map(|place| Path::new(place).join("instances")) {
            match place.try_exists() {
                Ok(true) => return Ok(place.parent().map(Path::to_owned)),
                Ok(false) => (),
                Err(error) => return Err(failed("look for", &place, error)),
            }
        }
        Ok(None)
    }

    /// Makes one, with `CLOCK_MONOTONIC`, after those of processes that were killed are removed. Nothing is recorded before
    /// [`Instance::start`].
    pub fn create(tracing: &Path) -> Result<Self> {
        let instances = tracing.join("instances");
        remove_stale(&instances);
        let name = format!("{GROUP}.{}", std::process::id());
        let dir = instances.join(&name);
        // A process of another container may have the same number.
        let others = (1..OTHERS).map(|n| instances.join(format!("{name}.{n}")));
        let mut made = fs::create_dir(&dir).map(|()| dir.clone());
        for other in others {
            match made {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    made = fs::create_dir(&other).map(|()| other);
                }
                _ => break,
            }
        }
        let mut instance = Self {
            dir: made.map_err(|error| failed("create", &dir, error))?,
            on: None,
        };
        let path = instance.dir.join("tracing_on");
        let mut options = File::options();
        let on = options.write(true).create(true).truncate(true).open(&path);
        instance.on = Some(on.map_err(|error| failed("open", &path, error))?);
        instance.set_on("0")?;
        instance.write(Path::new("trace_clock"), "mono")?;
        Ok(instance)
    }

    fn set_on(&self, text: &str) -> Result<()> {
        let written = self
            .on
            .as_ref()
            .map_or(Ok(0), |file| file.write_at(text.as_bytes(), 0));
        let path = self.dir.join("tracing_on");
        written
            .map(|_| ())
            .map_err(|error| failed("write to", &path, error))
    }

    /// Records from now on what is enabled.
    pub fn start(&self) -> Result<()> {
        self.set_on("1")
    }

    /// Records nothing any more.
    pub fn stop(&self) {
        // Nothing can be done if this fails.
        let _ = self.set_on("0");
    }

    /// Its directory.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The directory of an event `GROUP:EVENT`.
    pub fn event(&self, event: &str) -> PathBuf {
        self.dir.join("events").join(event.replace(':', "/"))
    }

    /// Writes to a file of it.
    pub(super) fn write(&self, file: &Path, text: &str) -> Result<()> {
        let path = self.dir.join(file);
        fs::write(&path, text).map_err(|error| failed("write to", &path, error))
    }

    /// Has an event `GROUP:EVENT` recorded.
    pub fn enable(&self, event: &str) -> Result<()> {
        self.write(&self.event(event).join("enable"), "1")
    }

    /// Has no event record anything any more.
    pub fn disable(&self) {
        self.stop();
        // Nothing can be done if this fails.
        let _ = self.write(Path::new("events/enable"), "0");
    }

    /// The files of the CPUs with their pages, and their paths. They must be closed before this is dropped.
    pub fn pipes(&self) -> Result<Vec<(u32, PathBuf, File)>> {
        let list = self.dir.join("per_cpu");
        let mut cpus = Vec::new();
        for entry in fs::read_dir(&list).map_err(|error| failed("read", &list, error))? {
            let path = entry.map_err(|error| failed("read", &list, error))?.path();
            let name = path.file_name().and_then(|name| name.to_str());
            let cpu = name.and_then(|name| name.strip_prefix("cpu")?.parse().ok());
            if let Some(cpu) = cpu {
                let path = path.join("trace_pipe_raw");
                let file = open_relay_file(&path, false)?;
                cpus.push((cpu, path, file));
            }
        }
        cpus.sort_by_key(|(cpu, _, _)| *cpu);
        Ok(cpus)
    }

    /// Events of a CPU that found no room.
    pub fn lost(&self, cpu: u32) -> u64 {
        let path = self.dir.join(format!("per_cpu/cpu{cpu}/stats"));
        fs::read_to_string(path).map_or(0, |stats| lost(&stats))
    }
}

/// Reads a page of a CPU; nothing if there is none yet.
pub fn read_page(pages: &mut File, page: &mut [u8]) -> io::Result<usize> {
    loop {
        match pages.read(page) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(0),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => (),
            // A CPU that may come up, and has never been there, has no buffer.
            Err(error) if errno(&error) == Errno::ENODEV => return Ok(0),
            read => return read,
        }
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        self.disable();
        // An instance stays while a file of it is open.
        self.on = None;
        // Nothing is left to be done if it stays; the next one removes it.
        let _ = fs::remove_dir(&self.dir);
    }
}

/// Removes the instances of processes that were killed. The kernel does not remove one of which somebody has a file open, who may
/// be in a container, where processes have other numbers; so nothing is done to it before.
pub(super) fn remove_stale(instances: &Path) {
    for entry in fs::read_dir(instances).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let pid = name
            .to_str()
            .and_then(|name| name.strip_prefix(GROUP)?.strip_prefix('.'))
            .and_then(|pid| pid.split('.').next());
        let is_stale = pid.is_some_and(|pid| !Path::new("/proc").join(pid).exists());
        if is_stale {
            let _ = fs::remove_dir(entry.path());
        }
    }
}

/// Returns the number of lost events in a CPU's statistics.
fn lost(stats: &str) -> u64 {
    let lines = stats.lines().filter_map(|line| line.split_once(": "));
    let lost = lines.filter(|(key, _)| ["overrun", "dropped events"].contains(key));
    lost.filter_map(|(_, value)| value.trim().parse::<u64>().ok())
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statistics() {
        assert_eq!(
            lost("entries: 3\noverrun: 5\ncommit overrun: 7\ndropped events: 2\nread events: 9\n"),
            7
        );
    }

    #[test]
    fn a_directory_like_that_of_tracefs() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("instances")).unwrap();
        let stale = dir.path().join("instances/ferrotrace.999999999");
        fs::create_dir(&stale).unwrap();
        let instance = Instance::create(dir.path()).unwrap();
        assert!(!stale.exists());
        let on = || fs::read_to_string(instance.dir().join("tracing_on")).unwrap();
        assert_eq!(on(), "0");
        instance.start().unwrap();
        assert_eq!(on(), "1");
        instance.stop();
        assert_eq!(on(), "0");
        // Of a process with the same number.
        let other = Instance::create(dir.path()).unwrap();
        assert_ne!(other.dir(), instance.dir());
        assert!(fs::exists(instance.dir()).unwrap());
        assert_eq!(instance.event("a:b"), instance.dir().join("events/a/b"));
        assert_eq!(
            fs::read_to_string(instance.dir().join("trace_clock")).unwrap(),
            "mono"
        );
        assert!(matches!(instance.enable("a:b"), Err(Error::Io(_))));
        assert!(matches!(instance.pipes(), Err(Error::Io(_))));
        assert_eq!(instance.lost(0), 0);
    }
}
