// SPDX-License-Identifier: GPL-2.0

//! `ferrotrace klog`: creates the channel of a relay application, drains it, and removes it.
//!
//! The controls are those of `Documentation/klog.rst`. A thread for each CPU takes the finished
//! sub-buffers; the main thread starts and ends everything.

#![deny(unsafe_code)]

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::fs;
use std::fs::File;
use std::io;
use std::io::IsTerminal;
use std::io::Read;
use std::io::Write;
use std::os::fd::AsFd;
use std::path::Path;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::Mutex;
use std::thread;
use std::thread::JoinHandle;
use std::time::Duration;
use std::time::Instant;

use indicatif::BinaryBytes;
use nix::fcntl::OFlag;
use nix::unistd::pipe2;
use serde::Serialize;
use serde::Serializer;

use super::buffer::Buffer;
use super::buffer::Method;
use super::buffer::Plan;
use super::channel::CpuId;
use super::channel::Header;
use super::error::Error;
use super::error::Result;
use super::files::ChannelDir;
use super::output::CpuFile;
use super::output::Records;
use super::progress::rate;
use super::record::run_command;
use super::record::wait;
use super::tally::Tally;
use super::worker::Stop;
use super::worker::Worker;
use crate::file::IoError;
use crate::file::create as create_file;
use crate::signals::StopSignals;
use crate::text::stdout;

/// How often to look for new CPUs and for threads that have ended.
const TICK: Duration = Duration::from_millis(500);

/// Options of the user.
#[derive(Clone, Debug)]
pub struct Options {
    /// The application's directory.
    pub dir: PathBuf,
    /// Where the messages go; to standard output without it.
    pub output: Option<PathBuf>,
    /// True to write a file for each CPU: `output` with its number.
    pub per_cpu: bool,
    /// Bytes in a sub-buffer, if not the number that is set.
    pub subbuf_size: Option<usize>,
    /// Sub-buffers of a CPU, if not the number that is set.
    pub n_subbufs: Option<usize>,
    /// Overwrite mode: lose the oldest messages.
    pub overwrite: bool,
    /// Replace a channel that exists.
    pub replace: bool,
    /// Write over files that exist.
    pub force: bool,
    /// Stop after this time.
    pub duration: Option<Duration>,
    /// A command that runs meanwhile, and whose end ends this; none if it is empty.
    pub command: Vec<OsString>,
}

/// Counts of drained and lost data.
#[derive(Debug, Serialize)]
pub struct Summary {
    /// Of each CPU.
    pub cpus: BTreeMap<CpuId, Tally>,
    /// Messages that found no room.
    pub dropped: u64,
    /// Messages that the handler did not get, if the application tells.
    pub missed: Option<u64>,
    /// How long it took.
    #[serde(rename = "seconds", serialize_with = "as_seconds")]
    pub time: Duration,
    n_subbufs: usize,
}

fn as_seconds<S: Serializer>(
    time: &Duration,
    serializer: S,
) -> std::result::Result<S::Ok, S::Error> {
    serializer.serialize_f64(time.as_secs_f64())
}

/// The controls. The channel is removed when this is dropped.
struct App<'a>(&'a Path);

impl App<'_> {
    /// Why there is no such control.
    fn absent(&self, control: &str) -> Error {
        match self.0.is_dir() {
            true => Error::NotAnApp {
                dir: self.0.into(),
                control: control.to_owned(),
            },
            false => Error::NoDirectory(self.0.into()),
        }
    }

    fn write(&self, control: &str, text: &str) -> Result<()> {
        let path = self.0.join(control);
        fs::write(&path, text).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => self.absent(control),
            _ => Error::channel("write to", &path, error),
        })
    }

    fn number(&self, control: &str) -> Result<u64> {
        let path = self.0.join(control);
        let text = fs::read_to_string(&path).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => self.absent(control),
            io::ErrorKind::NotADirectory => Error::NotADirectory(self.0.into()),
            _ => Error::channel("read", &path, error),
        })?;
        text.trim().parse().map_err(|_| Error::BadControl {
            path,
            found: text.trim().chars().take(40).collect(),
            expected: "a number",
        })
    }
}

impl Drop for App<'_> {
    fn drop(&mut self) {
        // If this fails, the application has gone, and the channel with it.
        let _ = self.write("enabled", "0");
        let _ = self.write("create", "0");
    }
}

/// Drains until one of `signals`, the end of the command or of the time, or the end of the application.
pub fn klog(options: &Options, signals: &StopSignals) -> Result<Summary> {
    let missed_before = missed(&options.dir);
    let app = create(options)?;
    let channel = ChannelDir::open(&options.dir.join("cpu"))?;
    let geometry = channel.geometry(None, None)?;
    let mut drainer = Drainer {
        plan: Plan {
            method: Method::Mmap(geometry),
            records: Records::Plain,
            mode: channel.mode()?,
            header: Header::U64,
            partial: false,
            watermark: None,
            direct: false,
            count_from_zero: false,
        },
        channel,
        output: Output::open(options)?,
        workers: BTreeMap::new(),
        stop: Arc::new(Stop::new()?),
    };
    drainer.scan(true)?;

    let started = Instant::now();
    app.write("enabled", "1")?;
    let deadline = options.duration.and_then(|time| started.checked_add(time));
    let ended =
        run_command(signals, &options.command).and_then(|()| drainer.run(signals, deadline));
    // Finishes all sub-buffers; it fails only if the application has gone.
    let _ = app.write("enabled", "0");
    drainer.stop.set();
    let mut cpus = BTreeMap::new();
    let mut result = ended;
    for (cpu, worker) in drainer.workers {
        let (tally, worked) = worker.join();
        cpus.insert(cpu, tally);
        result = result.and(worked);
    }
    drainer.output.finish();
    let dropped = app.number("dropped").unwrap_or(0);
    drop(app);
    match result {
        Ok(()) => (),
        // The reader of the output has gone.
        Err(Error::Io(IoError { source, .. })) if source.kind() == io::ErrorKind::BrokenPipe => (),
        Err(error) => return Err(error),
    }
    let missed = match (missed_before, missed(&options.dir)) {
        (Some(before), Some(now)) => Some(now.saturating_sub(before)),
        _ => None,
    };
    Ok(Summary {
        cpus,
        dropped,
        missed,
        time: started.elapsed(),
        n_subbufs: geometry.n_subbufs(),
    })
}

/// Sets the sizes and creates the channel.
fn create(options: &Options) -> Result<App<'_>> {
    // Until the channel has been created, dropping this must not remove one.
    let app = std::mem::ManuallyDrop::new(App(&options.dir));
    if app.number("create")? != 0 && !options.replace {
        return Err(Error::ChannelThere(options.dir.clone()));
    }
    if let Some(size) = options.subbuf_size {
        app.write("subbuf_size", &size.to_string())?;
    }
    if let Some(count) = options.n_subbufs {
        app.write("n_subbufs", &count.to_string())?;
    }
    let mode = match options.overwrite {
        true => "overwrite",
        false => "no-overwrite",
    };
    app.write("mode", mode)?;
    app.write("create", "1")?;
    Ok(App(&options.dir))
}

fn missed(dir: &Path) -> Option<u64> {
    fs::read_to_string(dir.join("missed"))
        .ok()?
        .trim()
        .parse()
        .ok()
}

/// Starts a thread that writes what comes through a pipe to a terminal, with control characters
/// escaped. Returns the other end.
fn to_terminal() -> io::Result<(File, JoinHandle<()>)> {
    let (from, to) = pipe2(OFlag::O_CLOEXEC)?;
    let mut from = File::from(from);
    let write = move || {
        let mut bytes = vec![0; 1 << 16];
        let mut out = stdout();
        while let Ok(len @ 1..) = from.read(&mut bytes) {
            let written = out.write_all(bytes.get(..len).unwrap_or_default());
            if written.and_then(|()| out.flush()).is_err() {
                // Without a reader the pipe is broken, as the terminal is.
                break;
            }
        }
    };
    let thread = thread::Builder::new().spawn(write)?;
    Ok((File::from(to), thread))
}

/// Where the messages go.
enum Output {
    /// All to one file; the threads take turns, so that each writes whole sub-buffers.
    One {
        file: File,
        path: PathBuf,
        turn: Arc<Mutex<()>>,
        /// The reader of `file`, if that is a pipe of this command's own.
        terminal: Option<JoinHandle<()>>,
    },
    /// Each CPU's to its own.
    Each {
        prefix: PathBuf,
        /// Write over those that exist.
        force: bool,
    },
}

impl Output {
    fn open(options: &Options) -> Result<Self> {
        let force = options.force;
        let mut terminal = None;
        let (file, path) = match (&options.output, options.per_cpu) {
            (Some(path), true) => {
                let prefix = path.clone();
                return Ok(Output::Each { prefix, force });
            }
            (Some(path), false) => (create_file(path, force)?, path.clone()),
            (None, _) => {
                let path = PathBuf::from("standard output");
                let file = match io::stdout().is_terminal() {
                    true => to_terminal().map(|(file, thread)| {
                        terminal = Some(thread);
                        file
                    }),
                    false => io::stdout().as_fd().try_clone_to_owned().map(File::from),
                };
                let file = file.map_err(|error| Error::output("duplicate", &path, error))?;
                (file, path)
            }
        };
        Ok(Output::One {
            file,
            turn: Arc::new(Mutex::new(())),
            path,
            terminal,
        })
    }

    /// Waits until all is written, after those who write have ended.
    fn finish(self) {
        if let Output::One { file, terminal, .. } = self {
            drop(file);
            // It does not panic.
            let _ = terminal.map(JoinHandle::join);
        }
    }

    fn cpu_file(&self, cpu: CpuId) -> Result<CpuFile> {
        let (file, path) = match self {
            Output::One { file, path, .. } => {
                let file = file.try_clone();
                let file = file.map_err(|error| Error::output("duplicate", path, error))?;
                (file, path.clone())
            }
            Output::Each { prefix, force } => {
                let mut path = prefix.clone().into_os_string();
                path.push(cpu.to_string());
                let path = PathBuf::from(path);
                (create_file(&path, *force)?, path)
            }
        };
        Ok(CpuFile {
            file,
            direct: None,
            path,
            tally: Tally::default(),
        })
    }

    fn turn(&self) -> Option<Arc<Mutex<()>>> {
        match self {
            Output::One { turn, .. } => Some(Arc::clone(turn)),
            Output::Each { .. } => None,
        }
    }
}

struct Drainer {
    channel: ChannelDir,
    plan: Plan,
    output: Output,
    workers: BTreeMap<CpuId, Worker>,
    stop: Arc<Stop>,
}

impl Drainer {
    /// Starts a thread for each CPU that has none. A file that is still being created is an error
    /// only the `first` time.
    fn scan(&mut self, first: bool) -> Result<()> {
        for (cpu, path) in self.channel.relay_files()? {
            if self.workers.contains_key(&cpu) {
                continue;
            }
            let input = match self.plan.open(&self.channel, cpu, path) {
                Ok(input) => input,
                Err(error) if error.is_gone() => continue,
                Err(Error::NoControl { .. }) if !first => continue,
                Err(error) => return Err(error),
            };
            let out = self.output.cpu_file(cpu)?;
            let buffer = Buffer::new(input, out, false).taking_turns(self.output.turn());
            let worker = Worker::start(buffer, cpu, true, Arc::clone(&self.stop))?;
            self.workers.insert(cpu, worker);
        }
        Ok(())
    }

    fn run(&mut self, signals: &StopSignals, deadline: Option<Instant>) -> Result<()> {
        loop {
            let now = Instant::now();
            if deadline.is_some_and(|deadline| now >= deadline)
                || self.workers.values().any(Worker::is_finished)
            {
                return Ok(());
            }
            let tick = now + TICK;
            if wait(
                signals,
                deadline.map_or(tick, |deadline| deadline.min(tick)),
            )? {
                return Ok(());
            }
            match self.scan(false) {
                // Each thread will notice that for its buffer.
                Err(error) if error.is_gone() => (),
                Err(Error::NoDirectory(_)) => (),
                other => other?,
            }
        }
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut total = Tally::default();
        for (cpu, tally) in &self.cpus {
            writeln!(
                f,
                "cpu {cpu}: {} bytes in {} sub-buffers, at most {} of {} waiting",
                tally.bytes, tally.subbufs, tally.max_ready, self.n_subbufs
            )?;
            total.add(tally);
        }
        write!(
            f,
            "total: {} bytes in {} sub-buffers, {}/s; {} messages dropped, {} sub-buffers overwritten",
            total.bytes,
            total.subbufs,
            BinaryBytes(rate(total.bytes, self.time)),
            self.dropped,
            total.lost_subbufs
        )?;
        match self.missed {
            Some(missed) => writeln!(f, ", {missed} messages missed"),
            None => writeln!(f),
        }
    }
}
