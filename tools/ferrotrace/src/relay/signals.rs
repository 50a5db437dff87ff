// SPDX-License-Identifier: GPL-2.0

//! SIGINT and SIGTERM as a file descriptor, so that one `poll` waits for everything.

#![deny(unsafe_code)]

use std::os::fd::AsFd;
use std::os::fd::BorrowedFd;

use nix::sys::signal::SigSet;
use nix::sys::signal::Signal;
use nix::sys::signalfd::SfdFlags;
use nix::sys::signalfd::SignalFd;

/// The signals that end a recording, held back from the process while this value lives.
///
/// Made before any thread is: a thread inherits the signal mask of the one that makes it.
#[derive(Debug)]
pub struct StopSignals {
    fd: SignalFd,
    mask: SigSet,
}

impl StopSignals {
    /// Holds the signals back and makes them readable.
    pub fn new() -> nix::Result<Self> {
        let mut mask = SigSet::empty();
        mask.add(Signal::SIGINT);
        mask.add(Signal::SIGTERM);
        mask.thread_block()?;
        let fd = SignalFd::with_flags(&mask, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)?;
        Ok(Self { fd, mask })
    }

    /// Takes a signal that has arrived. The signals get back their usual effect, so that a second
    /// Ctrl-C ends a command that is slow to finish.
    pub fn take(&self) -> nix::Result<bool> {
        if self.fd.read_signal()?.is_none() {
            return Ok(false);
        }
        self.mask.thread_unblock()?;
        Ok(true)
    }
}

impl AsFd for StopSignals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Drop for StopSignals {
    fn drop(&mut self) {
        // Nothing sensible is left to do if this fails.
        let _ = self.mask.thread_unblock();
    }
}
