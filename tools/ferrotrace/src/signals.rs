// SPDX-License-Identifier: GPL-2.0

//! SIGINT, SIGTERM and SIGHUP as a file descriptor, so that one `poll` waits for everything, and a command that runs as long as
//! something is recorded, whose end is one more reason to stop.

#![deny(unsafe_code)]

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
use nix::sys::signal::SigSet;
use nix::sys::signal::Signal;
use nix::sys::signal::kill;
use nix::sys::signalfd::SfdFlags;
use nix::sys::signalfd::SignalFd;
use nix::unistd::Pid;
use thiserror::Error;

/// The subcommand that [`StopSignals::run`] runs of this program: see [`execute`].
pub const RUNNER: &str = "run-command";

/// A command that cannot be run meanwhile, as this program cannot be started once more.
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
}

impl StopSignals {
    /// Blocks the signals and makes them readable.
    pub fn new() -> nix::Result<Self> {
        let mut mask = SigSet::empty();
        mask.add(Signal::SIGINT);
        mask.add(Signal::SIGTERM);
        // The terminal has gone: what is in the kernel for it goes as well. Not with nohup: what is blocked is not ignored.
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
        })
    }

    /// Runs a command, whose end counts as a signal from then on. Its standard output is `stdout`, or that of this process.
    /// Nothing is run if `command` is empty.
    ///
    /// A process inherits blocked signals, so that it is this program that is run, to unblock them and become the command.
    pub fn run(&self, command: &[OsString], stdout: Option<OwnedFd>) -> io::Result<()> {
        if command.is_empty() {
            return Ok(());
        }
        let mut runner = Command::new(std::env::current_exe()?);
        runner.arg(RUNNER).arg("--").args(command);
        if let Some(stdout) = stdout {
            runner.stdout(stdout);
        }
        *self.child.borrow_mut() = Some(runner.spawn()?);
        Ok(())
    }

    /// Returns true if there is a command and it has exited.
    pub fn has_ended(&self) -> bool {
        let mut child = self.child.borrow_mut();
        child
            .as_mut()
            .is_some_and(|child| !matches!(child.try_wait(), Ok(None)))
    }

    /// Ends the command by SIGTERM if it is still running. Returns its exit status, 128 and the signal if that ended it, or
    /// 0 if there is no command.
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

    /// Takes a signal that has arrived, and returns whether there was one. Afterwards the signals
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

    /// The same, where it is only asked whether to go on.
    pub fn has_come(&self) -> bool {
        self.take().unwrap_or(false)
    }

    /// Waits for a signal, at most until `until`, or as long as `PollTimeout` allows. Returns
    /// whether one came.
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
        // Nothing can be done if this fails.
        let _ = self.mask.thread_unblock();
    }
}

/// Becomes the command, with no signal blocked. Returns only if that fails: the exit status that a shell would have, and
/// why.
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
