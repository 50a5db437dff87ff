// SPDX-License-Identifier: GPL-2.0

//! Sessions: each traces functions for a process.
//!
//! Contexts: process. Locks, outermost first: a session's state, `is_running`, ftrace's locks.
#![deny(unsafe_code)]

use ferro_fast_relay::Channel;
use ferro_ftrace_functions_core::Addresses;
use ferro_ftrace_functions_core::Command;
use ferro_ftrace_functions_core::Mode;
use ferro_sys::cpu::task;
use ferro_sys::fs::text_buffer::TextBuffer;
use kernel::fmt;
use kernel::fmt::Write;
use kernel::new_mutex;
use kernel::prelude::*;
use kernel::sync::Arc;
use kernel::sync::Mutex;

use crate::raw::fprobe::FprobeSlot;
use crate::tracing::Tracing;

/// Maximum number of functions in a session.
const FUNCTIONS_MAX: usize = 1 << 17;

/// State shared by all sessions: the channel, which only one session can write to at a time.
#[pin_data]
pub(crate) struct Sessions {
    channel: Arc<Channel>,
    /// Memory for the probe of the running session.
    fprobe: FprobeSlot,
    #[pin]
    is_running: Mutex<bool>,
}

impl Sessions {
    pub(crate) fn new(channel: Arc<Channel>) -> Result<Arc<Self>> {
        let fprobe = FprobeSlot::new()?;
        Arc::pin_init(
            pin_init!(Self {
                channel,
                fprobe,
                is_running <- new_mutex!(false),
            }),
            GFP_KERNEL,
        )
    }
}

/// Exclusive right to write to the channel.
struct WriterLock(Arc<Sessions>);

impl WriterLock {
    /// Takes the right. Errors: -EBUSY if another session has it.
    fn take(sessions: &Arc<Sessions>) -> Result<Self> {
        let mut is_running = sessions.is_running.lock();
        if *is_running {
            return Err(EBUSY);
        }
        *is_running = true;
        Ok(Self(sessions.clone()))
    }
}

impl Drop for WriterLock {
    fn drop(&mut self) {
        *self.0.is_running.lock() = false;
    }
}

/// Trace in progress.
struct Running {
    // In drop order.
    tracing: Tracing,
    writer: WriterLock,
    /// Number of records that the channel had lost before the start.
    lost_before: u64,
}

/// Numbers of calls that are missing in the trace.
#[derive(Clone, Copy, Default)]
struct Missing {
    /// Calls lost because the channel was full.
    lost: u64,
    /// Calls that could not be followed to their return.
    missed: usize,
}

#[derive(Default)]
struct State {
    addresses: KVVec<usize>,
    running: Option<Running>,
    /// Result of the last stop.
    missing: Missing,
}

/// Session of an open file. Closing the file ends its trace, even if the process dies.
#[pin_data]
pub(crate) struct Session {
    sessions: Arc<Sessions>,
    /// Process that has opened the file. It is expected to read the channel, so its own calls are
    /// not recorded.
    reader: i32,
    #[pin]
    state: Mutex<State>,
}

impl Session {
    /// Creates a session for the current process.
    pub(crate) fn new(sessions: Arc<Sessions>) -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                sessions,
                reader: task::ids().process,
                state <- new_mutex!(State::default()),
            }),
            GFP_KERNEL,
        )
    }

    /// Executes a command line. An error leaves everything unchanged.
    ///
    /// Errors: -EINVAL for an unknown command, or one not allowed now; -ENOENT if ftrace traces no
    /// function at an address; -EBUSY if another session is running; -E2BIG, -ENOMEM, and errors of
    /// registering.
    pub(crate) fn run(&self, line: &[u8]) -> Result {
        match Command::parse(line).ok_or(EINVAL)? {
            Command::Add(addresses) => self.add(addresses),
            Command::Start(mode) => self.start(mode),
            Command::Stop => self.stop(),
        }
    }

    fn add(&self, more: Addresses<'_>) -> Result {
        let mut state = self.state.lock();
        if state.running.is_some() {
            return Err(EINVAL);
        }
        let count = more.iter().count();
        if count > FUNCTIONS_MAX.saturating_sub(state.addresses.len()) {
            return Err(E2BIG);
        }
        state.addresses.reserve(count, GFP_KERNEL)?;
        for address in more.iter() {
            // There is room.
            let _ = state.addresses.push_within_capacity(address);
        }
        Ok(())
    }

    fn start(&self, mode: Mode) -> Result {
        let mut state = self.state.lock();
        if state.running.is_some() || state.addresses.is_empty() {
            return Err(EINVAL);
        }
        // Remove duplicates: a call would be counted for each of them.
        state.addresses.sort_unstable();
        let mut addresses = KVVec::with_capacity(state.addresses.len(), GFP_KERNEL)?;
        for address in &state.addresses {
            if addresses.last() != Some(address) {
                // There is room.
                let _ = addresses.push_within_capacity(*address);
            }
        }
        let writer = WriterLock::take(&self.sessions)?;
        let channel = self.sessions.channel.clone();
        let lost_before = channel.lost();
        let tracing = Tracing::new(mode, &addresses, channel, self.reader, self.sessions.fprobe)?;
        state.addresses = addresses;
        state.running = Some(Running {
            tracing,
            writer,
            lost_before,
        });
        Ok(())
    }

    /// Stops the trace. After this returns, no record is written.
    fn stop(&self) -> Result {
        let mut state = self.state.lock();
        let running = state.running.take().ok_or(EINVAL)?;
        let missed = running.tracing.missed();
        let Running {
            tracing,
            writer,
            lost_before,
        } = running;
        // Waits for the handlers.
        drop(tracing);
        let lost = self.sessions.channel.lost().saturating_sub(lost_before);
        state.missing = Missing { lost, missed };
        drop(writer);
        Ok(())
    }

    /// Returns the text of the file `control`.
    pub(crate) fn show(&self) -> Result<KVVec<u8>> {
        let state = self.state.lock();
        let mut text = TextBuffer::new();
        self.write(&state, &mut text).map_err(|_| ENOMEM)?;
        Ok(text.into_bytes())
    }

    fn write(&self, state: &State, text: &mut TextBuffer) -> fmt::Result {
        let functions = state.addresses.len();
        let (word, missing) = match &state.running {
            None => ("stopped", state.missing),
            Some(running) => {
                let lost = self.sessions.channel.lost();
                let missing = Missing {
                    lost: lost.saturating_sub(running.lost_before),
                    missed: running.tracing.missed(),
                };
                (running.tracing.mode().word(), missing)
            }
        };
        let Missing { lost, missed } = missing;
        text.write_fmt(fmt!(
            "state={word} functions={functions} lost={lost} missed={missed}\n"
        ))
    }
}
