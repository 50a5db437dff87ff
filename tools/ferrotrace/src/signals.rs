// SPDX-License-Identifier: GPL-2.0

//! SIGINT and SIGTERM as a file descriptor, so that one `poll` waits for everything.

#![deny(unsafe_code)]

use std::os::fd::AsFd;
use std::os::fd::BorrowedFd;
use std::time::Duration;
use std::time::Instant;

use nix::errno::Errno;
use nix::poll::PollFd;
use nix::poll::PollFlags;
use nix::poll::PollTimeout;
use nix::poll::poll;
use nix::sys::signal::SigSet;
use nix::sys::signal::Signal;
use nix::sys::signalfd::SfdFlags;
use nix::sys::signalfd::SignalFd;

/// The signals that end a recording, blocked for the process while this value lives.
///
/// It must be created before any thread is: a thread inherits the signal mask of the one that
/// creates it.
#[derive(Debug)]
pub struct StopSignals {
    fd: SignalFd,
    mask: SigSet,
}

impl StopSignals {
    /// Blocks the signals and makes them readable.
    pub fn new() -> nix::Result<Self> {
        let mut mask = SigSet::empty();
        mask.add(Signal::SIGINT);
        mask.add(Signal::SIGTERM);
        mask.thread_block()?;
        let fd = SignalFd::with_flags(&mask, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)?;
        Ok(Self { fd, mask })
    }

    /// Takes a signal that has arrived, and returns whether there was one. Afterwards the signals
    /// have their usual effect, so that a second Ctrl-C ends a command that is slow to finish.
    pub fn take(&self) -> nix::Result<bool> {
        if self.fd.read_signal()?.is_none() {
            return Ok(false);
        }
        self.mask.thread_unblock()?;
        Ok(true)
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
