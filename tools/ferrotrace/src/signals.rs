// SPDX-License-Identifier: GPL-2.0

//! SIGINT, SIGTERM and SIGHUP as a file descriptor, so that one `poll` waits for everything.
//!
//! A command can run while something is recorded; its end is one more reason to stop.

#![deny(unsafe_code)]

use std::cell::Cell;
use std::cell::RefCell;
use std::ffi::OsString;
use std::io;
use std::os::fd::AsFd;
use std::os::fd::BorrowedFd;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::os::unix::process::ExitStatusExt;
use std::process::Child;
use std::process::Command;
use std::time::Duration;
use std::time::Instant;

use nix::errno::Errno;
use nix::poll::PollFd;
use nix::poll::PollFlags;
use nix::poll::PollTimeout;
use nix::poll::poll;
use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::SigSet;
use nix::sys::signal::Signal;
use nix::sys::signal::kill;
use nix::sys::signal::raise;
use nix::sys::signalfd::SfdFlags;
use nix::sys::signalfd::SignalFd;
use nix::sys::wait::WaitPidFlag;
use nix::sys::wait::WaitStatus;
use nix::sys::wait::waitpid;
use nix::unistd::Pid;
use thiserror::Error;

/// The subcommand that [`StopSignals::run`] runs of this program: see [`execute`].
pub const RUNNER: &str = "run-command";

/// The subcommand that [`StopSignals::prepare`] runs: see [`execute_later`].
pub const STOPPED_RUNNER: &str = "run-stopped-command";

/// A command that cannot be started: it needs a second process of this program.
#[derive(Debug, Error)]
#[error("the command cannot be started")]
pub struct CommandError(#[from] io::Error);

/// The signals that end a recording, blocked for the process while this value lives.
///
/// It must be created before any thread is: a thread inherits the signal mask of the one that
/// creates it.
#[derive(Debug)]
pub struct StopSignals {
    fd: SignalFd,
    mask: SigSet,
    child: RefCell<Option<Child>>,
    /// True while the command waits for [`StopSignals::release`].
    is_stopped: Cell<bool>,
}

impl StopSignals {
    /// Blocks the signals and makes them readable.
    pub fn new() -> nix::Result<Self> {
        let mut mask = SigSet::empty();
        mask.add(Signal::SIGINT);
        mask.add(Signal::SIGTERM);
        // Without its terminal, a command ends and removes its probes. Under nohup it goes on: a
        // blocked signal would not be ignored.
        if !is_hangup_ignored() {
            mask.add(Signal::SIGHUP);
        }
        mask.add(Signal::SIGCHLD);
        mask.thread_block()?;
        let fd = SignalFd::with_flags(&mask, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)?;
        Ok(Self {
            fd,
            mask,
            child: RefCell::new(None),
            is_stopped: Cell::new(false),
        })
    }

    /// Runs a command, whose end counts as a signal from then on. Its standard output is `stdout`,
    /// or that of this process. Nothing is run if `command` is empty.
    ///
    /// A process inherits blocked signals. So a second process of this program unblocks them, and
    /// becomes the command.
    pub fn run(&self, command: &[OsString], stdout: Option<OwnedFd>) -> io::Result<()> {
        if command.is_empty() {
            return Ok(());
        }
        self.spawn(RUNNER, command, stdout).map(|_| ())
    }

    fn spawn(
        &self,
        runner: &str,
        command: &[OsString],
        stdout: Option<OwnedFd>,
    ) -> io::Result<Pid> {
        let mut child = Command::new(std::env::current_exe()?);
        child.arg(runner).arg("--").args(command);
        if let Some(stdout) = stdout {
            child.stdout(stdout);
        }
        let child = child.spawn()?;
        let pid = i32::try_from(child.id()).map_err(io::Error::other)?;
        *self.child.borrow_mut() = Some(child);
        Ok(Pid::from_raw(pid))
    }

    /// Starts a command up to its exec, which waits for [`StopSignals::release`]. Returns the
    /// process that becomes the command. Its end counts as a signal.
    pub fn prepare(&self, command: &[OsString], stdout: Option<OwnedFd>) -> io::Result<Pid> {
        let pid = self.spawn(STOPPED_RUNNER, command, stdout)?;
        self.is_stopped.set(true);
        match waitpid(pid, Some(WaitPidFlag::WUNTRACED))? {
            WaitStatus::Stopped(..) => Ok(pid),
            _ => {
                // The process has been reaped.
                self.is_stopped.set(false);
                *self.child.borrow_mut() = None;
                Err(io::Error::other("it ended before its exec"))
            }
        }
    }

    /// Lets the prepared command go on.
    pub fn release(&self) -> io::Result<()> {
        self.is_stopped.set(false);
        match self.child.borrow().as_ref() {
            Some(child) => {
                let pid = i32::try_from(child.id()).map_err(io::Error::other)?;
                Ok(kill(Pid::from_raw(pid), Signal::SIGCONT)?)
            }
            None => Ok(()),
        }
    }

    /// Returns true if there is a command and it has exited.
    pub fn has_ended(&self) -> bool {
        let mut child = self.child.borrow_mut();
        child
            .as_mut()
            .is_some_and(|child| !matches!(child.try_wait(), Ok(None)))
    }

    /// Ends the command by SIGTERM if it is still running. Returns its exit status, 128 and the
    /// signal if that ended it, or 0 if there is no command.
    pub fn finish(&self) -> io::Result<u8> {
        let Some(mut child) = self.child.borrow_mut().take() else {
            return Ok(0);
        };
        if child.try_wait()?.is_none() {
            if let Ok(pid) = i32::try_from(child.id()) {
                // It fails only if the command has just ended.
                let _ = kill(Pid::from_raw(pid), Signal::SIGTERM);
            }
        }
        let status = child.wait()?;
        let code = status.code();
        let code = code.or_else(|| status.signal().map(|signal| 128 + signal));
        Ok(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1))
    }

    /// Takes a signal that has arrived, and returns true if there was one. From then on signals
    /// have their usual effect, so that a second Ctrl-C ends a command that is slow to finish.
    pub fn take(&self) -> nix::Result<bool> {
        while let Some(info) = self.fd.read_signal()? {
            let signal = i32::try_from(info.ssi_signo).map(Signal::try_from);
            // A child that only stops, or is not the command, is no reason.
            if signal != Ok(Ok(Signal::SIGCHLD)) || self.has_ended() {
                self.mask.thread_unblock()?;
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Returns true if a signal has arrived, and takes it. An error counts as none.
    pub fn has_come(&self) -> bool {
        self.take().unwrap_or(false)
    }

    /// Waits for a signal, at most until `until`, or as long as `PollTimeout` allows. Returns true
    /// if one has arrived.
    pub fn wait(&self, until: Instant) -> nix::Result<bool> {
        let mut fds = [PollFd::new(self.as_fd(), PollFlags::POLLIN)];
        // Rounded up: a timeout of 0 ms just before the end would spin.
        let left = until.saturating_duration_since(Instant::now());
        let timeout =
            PollTimeout::try_from(left + Duration::from_micros(999)).unwrap_or(PollTimeout::MAX);
        match poll(&mut fds, timeout) {
            Ok(0) | Err(Errno::EINTR) => Ok(false),
            Ok(_) => self.take(),
            Err(errno) => Err(errno),
        }
    }
}

/// Returns true if this process ignores SIGHUP, as under nohup.
fn is_hangup_ignored() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mut lines = status.lines();
    let ignored = lines.find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    // The first signal.
    ignored.is_some_and(|mask| mask & 1 != 0)
}

impl AsFd for StopSignals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Drop for StopSignals {
    fn drop(&mut self) {
        if self.is_stopped.get() {
            // Nothing else continues it, and it has done nothing.
            if let Some(mut child) = self.child.borrow_mut().take() {
                let _ = child.kill();
                let _ = child.wait();
            }
        }
        // Nothing can be done if this fails.
        let _ = self.mask.thread_unblock();
    }
}

/// Becomes the command, with no signal blocked. Returns only if that fails: with the exit status
/// that a shell would have, and the error.
pub fn execute(command: &[OsString]) -> (u8, io::Error) {
    let Some((program, args)) = command.split_first() else {
        return (127, io::ErrorKind::NotFound.into());
    };
    if let Err(errno) = SigSet::all().thread_unblock() {
        return (126, errno.into());
    }
    let error = Command::new(program).args(args).exec();
    match error.kind() {
        io::ErrorKind::NotFound => (127, error),
        _ => (126, error),
    }
}

/// Becomes the command as [`execute`], but not before it is continued.
pub fn execute_later(command: &[OsString]) -> (u8, io::Error) {
    // If the program that has started this dies, nothing continues it.
    let stopped = set_pdeathsig(Signal::SIGKILL)
        .and_then(|()| raise(Signal::SIGSTOP))
        .and_then(|()| set_pdeathsig(None));
    match stopped {
        Ok(()) => execute(command),
        Err(errno) => (126, errno.into()),
    }
}
