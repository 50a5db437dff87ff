// SPDX-License-Identifier: GPL-2.0

//! Recording: an instance of tracefs with the function graph tracer. Its pages are read as they
//! fill.
//!
//! The kernel selects the threads. Where its tracer does not record return values, one probe on the
//! returns of all functions does. All of it is undone when the session is dropped.

#![deny(unsafe_code)]

use std::fs;
use std::fs::File;
use std::io;
use std::io::Write;
use std::path::Path;
use std::path::PathBuf;
use std::time::Duration;
use std::time::Instant;

use super::error::Error;
use super::error::Result;
use super::error::io;
use super::event::Event;
use super::event::Formats;
use super::event::Kind;
use super::event::What;
use crate::clock::monotonic;
use crate::probes::order::Order;
use crate::probes::stock::instance::Instance;
use crate::probes::stock::instance::read_page;
use crate::probes::stock::ring;
use crate::signals::StopSignals;

/// Time that a page may wait to be read.
const ROUND: Duration = Duration::from_millis(20);

/// Bytes that are enough for a page of the buffer.
const PAGE: usize = 1 << 16;

/// Pages of a CPU that are read before those of the others.
const AT_ONCE: usize = 64;

/// Group of the probes.
const GROUP: &str = "ferrotrace_graph";

/// File of the probes.
const PROBES: &str = "dynamic_events";

/// Option of the tracer to record arguments.
const ARGUMENTS: &str = "options/funcgraph-args";

/// The tracer.
const TRACER: &str = "function_graph";

/// Functions that copy a path from user space, in the order of preference.
const PATH_FUNCTIONS: [&str; 2] = ["do_getname", "getname_flags"];

/// Options of a session.
#[derive(Clone, Debug)]
pub struct Options {
    /// Threads, which are recorded with their children; all except this program's if none are named.
    pub pids: Vec<i32>,
    /// True to fail without return values. A probe on all functions records them if the tracer does
    /// not.
    pub needs_values: bool,
    /// True to record arguments of functions that may be errors, if the tracer can.
    pub arguments: bool,
    /// True to record numbers and results of system calls, and paths.
    pub syscalls: bool,
    /// Bytes of the buffer of each CPU.
    pub buffer: u64,
}

/// A CPU with its file of pages.
#[derive(Debug)]
struct Cpu {
    id: u32,
    path: PathBuf,
    pages: File,
    /// Time of the last record.
    last: u64,
}

/// A probe of tracefs, which is removed with the value.
#[derive(Debug)]
struct Probe {
    file: PathBuf,
    event: String,
}

impl Probe {
    /// Adds a probe on functions by its definition without the name.
    fn add(tracing: &Path, name: &str, definition: &str) -> Result<Self> {
        let file = tracing.join(PROBES);
        let event = format!("{GROUP}/{name}_{}", std::process::id());
        let added = append(&file, &format!("f:{event} {definition}\n"));
        added.map_err(|source| Error::Probe {
            path: file.clone(),
            source,
        })?;
        Ok(Self { file, event })
    }
}

impl Drop for Probe {
    fn drop(&mut self) {
        // If this fails, the next session removes the probe.
        let _ = append(&self.file, &format!("-:{}\n", self.event));
    }
}

/// Appends to a file of tracefs. Opening it for anything else would remove all probes.
fn append(file: &Path, text: &str) -> io::Result<()> {
    let mut file = File::options().append(true).open(file)?;
    file.write_all(text.as_bytes())
}

/// Removes the probes of processes that were killed.
fn remove_stale(tracing: &Path) {
    let file = tracing.join(PROBES);
    let probes = fs::read_to_string(&file).unwrap_or_default();
    for line in probes.lines() {
        if let Some(event) = stale(line, |pid| Path::new("/proc").join(pid).exists()) {
            // The kernel refuses this if a process of another container uses the probe.
            let _ = append(&file, &format!("-:{event}\n"));
        }
    }
}

/// Returns the event of a line if it is ours and its process does not exist.
fn stale(line: &str, exists: impl Fn(&str) -> bool) -> Option<&str> {
    let (_, rest) = line.split_once(':')?;
    let event = rest.split_ascii_whitespace().next()?;
    let name = event.strip_prefix(GROUP)?.strip_prefix('/')?;
    let (_, pid) = name.rsplit_once('_')?;
    (!exists(pid)).then_some(event)
}

/// A recording.
pub struct Session {
    // The files of an instance are closed before it is removed, and probes are removed after it.
    cpus: Vec<Cpu>,
    instance: Instance,
    _probes: Vec<Probe>,
    formats: Formats,
    order: Order<Event>,
    /// True if return values have records of their own.
    is_probed: bool,
    /// Records that found no room, counted at the end.
    lost: u64,
}

impl Session {
    /// Prepares a recording.
    pub fn open(options: &Options) -> Result<Self> {
        let tracing = Instance::tracing()?.ok_or(Error::NoTracefs)?;
        let tracers = tracing.join("available_tracers");
        let has = read(&tracers)?;
        if !has.split_ascii_whitespace().any(|tracer| tracer == TRACER) {
            let has = has.trim().to_owned();
            return Err(Error::NoTracer { path: tracers, has });
        }
        let instance = Instance::create(&tracing)?;
        remove_stale(&tracing);
        let write = |file: &str, text: &str| {
            let path = instance.dir().join(file);
            fs::write(&path, text).map_err(|error| io("write to", &path, error))
        };
        write(
            "buffer_size_kb",
            &options.buffer.div_ceil(1024).max(1).to_string(),
        )?;
        let (file, text) = match &options.pids[..] {
            [] => ("notrace_pid", own_threads()),
            pids => ("pid", join(pids)),
        };
        for option in ["function-fork", "event-fork"] {
            write(&format!("options/{option}"), "1")?;
        }
        for kind in ["ftrace", "event"] {
            write(&format!("set_{kind}_{file}"), &text)?;
        }
        let mut formats = Formats::default();
        for (kind, name) in [
            (Kind::Entry, "funcgraph_entry"),
            (Kind::Exit, "funcgraph_exit"),
        ] {
            let path = tracing.join("events/ftrace").join(name).join("format");
            if !formats.add(kind, &read(&path)?) {
                return Err(Error::Format(path));
            }
        }
        let mut events = vec![
            (Kind::Fork, "task:task_newtask".to_owned()),
            (Kind::Name, "task:task_rename".to_owned()),
        ];
        if options.syscalls {
            events.push((Kind::SyscallEntry, "raw_syscalls:sys_enter".to_owned()));
            events.push((Kind::SyscallExit, "raw_syscalls:sys_exit".to_owned()));
        }
        let mut probes = Vec::new();
        let mut probe = |kind, name, definition: &str| {
            let probe = Probe::add(&tracing, name, definition)?;
            events.push((kind, probe.event.replace('/', ":")));
            probes.push(probe);
            Ok::<(), Error>(())
        };
        let can_probe = has_fprobe(&tracing);
        let is_probed = options.needs_values && !formats.have_values();
        if is_probed {
            if !can_probe {
                return Err(Error::NoValues);
            }
            probe(Kind::Returned, "return", "*%return ret=$retval:x64")?;
        }
        if options.syscalls && can_probe {
            // If no function can be probed, system calls have no paths.
            let definition = |name| format!("{name}%return path=+0(+0($retval)):string");
            let mut functions = PATH_FUNCTIONS.iter().map(definition);
            let _ = functions.find(|line| probe(Kind::Path, "path", line).is_ok());
        }
        for (kind, event) in &events {
            let path = instance.event(event).join("format");
            if !formats.add(*kind, &read(&path)?) {
                return Err(Error::Format(path));
            }
        }
        // From here on the value undoes it.
        let mut session = Self {
            cpus: Vec::new(),
            instance,
            _probes: probes,
            formats,
            order: Order::default(),
            is_probed,
            lost: 0,
        };
        if options.arguments {
            session.record_arguments(&tracing);
        }
        // Before the tracer, so that a return value precedes its exit record.
        for (_, event) in &events {
            session.instance.enable(event)?;
        }
        let path = session.instance.dir().join("current_tracer");
        fs::write(&path, TRACER).map_err(|error| io("write to", &path, error))?;
        // The kernel does not change the tracer while they are open.
        for (id, path, pages) in session.instance.pipes()? {
            session.cpus.push(Cpu {
                id,
                path,
                pages,
                last: 0,
            });
        }
        Ok(session)
    }

    /// Has the tracer record arguments, if it can do that for this instance alone.
    fn record_arguments(&self, tracing: &Path) {
        let of_all = tracing.join(ARGUMENTS);
        let before = fs::read_to_string(&of_all).unwrap_or_default();
        // It fails where the tracer does not have the option.
        let _ = fs::write(self.instance.dir().join(ARGUMENTS), "1");
        // Earlier kernels have one option for all instances.
        if fs::read_to_string(&of_all).is_ok_and(|after| after != before) {
            let _ = fs::write(&of_all, before);
        }
    }

    /// Returns true if calls have return values.
    pub fn has_values(&self) -> bool {
        self.is_probed || self.formats.have_values()
    }

    /// Returns true if return values have records of their own.
    pub fn is_probed(&self) -> bool {
        self.is_probed
    }

    /// Begins to record.
    pub fn start(&self) -> Result<()> {
        Ok(self.instance.start()?)
    }

    /// Reads at most so many pages of each CPU. Returns the time up to which nothing is left, if
    /// some pages may be.
    fn drain(&mut self, pages: usize) -> Result<Option<u64>> {
        let mut page = vec![0; PAGE];
        let mut until: Option<u64> = None;
        for cpu in &mut self.cpus {
            let mut is_empty = false;
            for _ in 0..pages {
                let len = read_page(&mut cpu.pages, &mut page);
                let len = len.map_err(|error| io("read", &cpu.path, error))?;
                is_empty = len == 0;
                if is_empty {
                    break;
                }
                let page = page.get(..len).unwrap_or_default();
                if let Some(time) = ring::lost_until(page) {
                    self.order.add(Event {
                        time,
                        cpu: cpu.id,
                        pid: 0,
                        in_irq: false,
                        what: What::Lost { from: cpu.last },
                    });
                }
                ring::events(page, |time, data| {
                    cpu.last = time;
                    let event = self.formats.decode(time, cpu.id, data);
                    event.into_iter().for_each(|event| self.order.add(event));
                });
            }
            if !is_empty {
                until = Some(until.map_or(cpu.last, |until| until.min(cpu.last)));
            }
        }
        Ok(until)
    }

    /// Records until the time is over, the command ends, a signal arrives or `to` returns false.
    /// Passes on the records in the order of their times.
    pub fn run(
        &mut self,
        signals: &StopSignals,
        end: Option<Instant>,
        mut to: impl FnMut(Event) -> Result<bool>,
    ) -> Result<()> {
        let clock = || {
            let now = monotonic().map_err(|errno| Error::System("read the clock", errno))?;
            Ok::<_, Error>(u64::try_from(now.as_nanos()).unwrap_or(u64::MAX))
        };
        // A record that was being written while a round began is read in the next one.
        let mut before = 0;
        'rounds: loop {
            let began = clock()?;
            let until = self.drain(AT_ONCE)?;
            let complete = until.map_or(before, |until| until.min(before));
            before = began;
            for event in self.order.before(complete) {
                if !to(event)? {
                    break 'rounds;
                }
            }
            let now = Instant::now();
            if end.is_some_and(|end| now >= end) {
                break;
            }
            let round = if until.is_some() {
                Duration::ZERO
            } else {
                ROUND
            };
            let wake = end.map_or(now + round, |end| end.min(now + round));
            let stopped = signals.wait(wake);
            if stopped.map_err(|errno| Error::System("wait for signals", errno))? {
                break;
            }
        }
        self.instance.stop();
        self.drain(usize::MAX)?;
        let cpus = self.cpus.iter();
        self.lost = cpus.map(|cpu| self.instance.lost(cpu.id)).sum();
        for event in self.order.before(u64::MAX) {
            if !to(event)? {
                break;
            }
        }
        Ok(())
    }

    /// Returns the number of records that found no room, after the end.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// Returns the number of records that were passed on after later ones.
    pub fn late(&self) -> u64 {
        self.order.late()
    }
}

fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).map_err(|error| io("read", path, error))
}

fn join(pids: &[i32]) -> String {
    let pids: Vec<_> = pids.iter().map(ToString::to_string).collect();
    pids.join(" ")
}

/// Returns true if the kernel has probes on functions: its help lists them.
fn has_fprobe(tracing: &Path) -> bool {
    let help = fs::read_to_string(tracing.join("README")).unwrap_or_default();
    let mut lines = help.lines();
    lines.any(|line| line.trim_start().starts_with("f[:["))
}

/// Returns the threads of this program.
fn own_threads() -> String {
    join(&threads(std::process::id()).unwrap_or_default())
}

fn threads(pid: u32) -> io::Result<Vec<i32>> {
    let entries = fs::read_dir(format!("/proc/{pid}/task"))?;
    let names = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    Ok(names.collect())
}

/// Returns all threads of processes.
pub fn threads_of(pids: &[i32]) -> Result<Vec<i32>> {
    let mut all = Vec::new();
    for pid in pids {
        let threads = u32::try_from(*pid).map(threads);
        let threads = threads.map_err(|_| Error::NoProcess(*pid))?;
        all.extend(threads.map_err(|_| Error::NoProcess(*pid))?);
    }
    Ok(all)
}

/// Returns the name of a thread.
pub fn comm(pid: i32) -> String {
    if pid == 0 {
        return "<idle>".to_owned();
    }
    let name = fs::read_to_string(format!("/proc/{pid}/comm"));
    name.map_or_else(|_| "?".to_owned(), |name| name.trim_end().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probes_of_others_stay() {
        let is_stale = |line| stale(line, |pid| pid == "7");
        assert_eq!(
            is_stale("f:ferrotrace_graph/return_8 * ret=$retval:x64"),
            Some("ferrotrace_graph/return_8")
        );
        for line in [
            "f:ferrotrace_graph/return_7 * ret=$retval:x64",
            "f:other/return_8 *",
            "p:ferrotrace/x_8 f",
            "",
        ] {
            assert_eq!(is_stale(line), None, "{line}");
        }
    }

    #[test]
    fn a_probe_is_removed_and_others_are_not() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join(PROBES);
        fs::write(&file, "p:other/x f\n").unwrap();
        drop(Probe::add(dir.path(), "return", "*%return").unwrap());
        let pid = std::process::id();
        assert_eq!(
            fs::read_to_string(&file).unwrap(),
            format!("p:other/x f\nf:{GROUP}/return_{pid} *%return\n-:{GROUP}/return_{pid}\n")
        );
        let none = Path::new("/nonexistent");
        assert!(matches!(
            Probe::add(none, "return", "*"),
            Err(Error::Probe { .. })
        ));
    }
}
