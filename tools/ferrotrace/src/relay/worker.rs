// SPDX-License-Identifier: GPL-2.0

//! The thread that drains one CPU's buffer.
//!
//! It sleeps in poll until the buffer has something or the recording has to end. A buffer that poll
//! reports as ready although nothing can be taken from it is not polled for a while, so that it
//! does not make the thread spin.

#![deny(unsafe_code)]

use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::thread;
use std::thread::JoinHandle;
use std::time::Duration;

use nix::errno::Errno;
use nix::poll::PollFd;
use nix::poll::PollFlags;
use nix::poll::PollTimeout;
use nix::poll::poll;
use nix::sched::CpuSet;
use nix::sched::sched_setaffinity;
use nix::sys::eventfd::EfdFlags;
use nix::sys::eventfd::EventFd;
use nix::unistd::Pid;

use super::buffer::Buffer;
use super::buffer::State;
use super::channel::CpuId;
use super::error::Error;
use super::error::Result;
use super::tally::Tally;

/// How long not to poll a buffer that poll reports as ready for nothing: at first, and at most.
const IDLE: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(200));

/// How often to check a buffer that poll does not report as ready.
const LOOK: Duration = Duration::from_secs(1);

/// Tells all threads to end.
#[derive(Debug)]
pub struct Stop(EventFd);

impl Stop {
    /// The threads go on until [`Stop::set`].
    pub fn new() -> Result<Self> {
        let flags = EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK;
        EventFd::from_value_and_flags(0, flags)
            .map(Self)
            .map_err(|source| Error::System {
                action: "make an eventfd",
                source,
            })
    }

    /// Lets the threads take what is left, and end.
    pub fn set(&self) {
        // It cannot fail: the count is far from its limit, and nothing reads it.
        let _ = self.0.write(1);
    }
}

/// The thread of one CPU.
#[derive(Debug)]
pub struct Worker {
    thread: JoinHandle<Result<()>>,
    seen: Arc<Mutex<Tally>>,
}

impl Worker {
    /// Starts it; if only `cpu` writes to the buffer, on that CPU where possible.
    pub fn start(buffer: Buffer, cpu: CpuId, alone: bool, stop: Arc<Stop>) -> Result<Self> {
        let seen = Arc::new(Mutex::new(Tally::default()));
        let published = Arc::clone(&seen);
        let thread = thread::Builder::new()
            .name(format!("relay/{cpu}"))
            .spawn(move || {
                if alone {
                    settle(cpu);
                }
                work(buffer, &stop, &published)
            })
            .map_err(|error| Error::System {
                action: "start a thread",
                source: Errno::from_raw(error.raw_os_error().unwrap_or(0)),
            })?;
        Ok(Self { thread, seen })
    }

    /// Returns true if the worker has ended: after an error, or because the channel was closed.
    pub fn is_finished(&self) -> bool {
        self.thread.is_finished()
    }

    /// The counts so far.
    pub fn tally(&self) -> Tally {
        self.seen
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Waits for its end. Returns the counts and the result.
    pub fn join(self) -> (Tally, Result<()>) {
        let result = self.thread.join().unwrap_or(Err(Error::System {
            action: "go on after a defect in a thread",
            source: Errno::ECANCELED,
        }));
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        (seen.clone(), result)
    }
}

/// Moves the calling thread to `cpu`, where the data that it copies is in the cache. It does not
/// matter if that CPU does not exist or is not allowed.
fn settle(cpu: CpuId) {
    let mut set = CpuSet::new();
    let only = usize::try_from(cpu.0).map_or(Err(Errno::EINVAL), |cpu| set.set(cpu));
    let _ = only.and_then(|()| sched_setaffinity(Pid::from_raw(0), &set));
}

/// Drains until the end, and then what is left, even after an error.
fn work(mut buffer: Buffer, stop: &Stop, seen: &Mutex<Tally>) -> Result<()> {
    let drained = drain(&mut buffer, stop, seen);
    if drained.is_err() {
        stop.set();
    }
    let finished = buffer.finish();
    publish(&buffer, seen);
    drained.and(finished)
}

fn publish(buffer: &Buffer, seen: &Mutex<Tally>) {
    seen.lock()
        .unwrap_or_else(PoisonError::into_inner)
        .clone_from(buffer.tally());
}

fn drain(buffer: &mut Buffer, stop: &Stop, seen: &Mutex<Tally>) -> Result<()> {
    let mut idle = IDLE.0;
    while buffer.state() != State::Closed {
        let (look, timeout) = match buffer.state() {
            State::Idle => (false, idle),
            _ => (true, LOOK),
        };
        let (stopped, closed) = wait(buffer, stop, look, timeout)?;
        if stopped {
            break;
        }
        if closed {
            buffer.close()?;
        } else {
            buffer.drain()?;
        }
        idle = match buffer.state() {
            State::Idle => (idle * 2).min(IDLE.1),
            _ => IDLE.0,
        };
        publish(buffer, seen);
    }
    Ok(())
}

/// Sleeps until the end of the recording, until poll reports something about the buffer, if `look`
/// says to poll it, or until the time has passed. Returns whether the recording ends, and whether
/// the channel was closed.
fn wait(buffer: &Buffer, stop: &Stop, look: bool, timeout: Duration) -> Result<(bool, bool)> {
    let mut fds = vec![PollFd::new(stop.0.as_fd(), PollFlags::POLLIN)];
    if look {
        fds.push(PollFd::new(buffer.as_fd(), PollFlags::POLLIN));
    }
    let timeout = PollTimeout::try_from(timeout).unwrap_or(PollTimeout::MAX);
    match poll(&mut fds, timeout) {
        Ok(_) | Err(Errno::EINTR) => (),
        Err(source) => {
            return Err(Error::System {
                action: "wait for a relay file",
                source,
            });
        }
    }
    let mut events = fds
        .iter()
        .map(|fd| fd.revents().unwrap_or(PollFlags::empty()));
    let stopped = events.next().is_some_and(|events| !events.is_empty());
    let gone = PollFlags::POLLERR | PollFlags::POLLHUP | PollFlags::POLLNVAL;
    let closed = events.next().is_some_and(|events| events.intersects(gone));
    Ok((stopped, closed))
}
