// SPDX-License-Identifier: GPL-2.0

//! The file `control`: traces functions for a process until it closes the file.
//!
//! Contexts: process. Locks, outermost first: a session's state, `is_running`, ftrace's locks.
#![deny(unsafe_code)]

use ferro_core::function_command::Addresses;
use ferro_core::function_command::Command;
use ferro_core::function_command::Mode;
use ferro_fast_relay::Channel;
use ferro_sys::cpu::task;
use ferro_sys::fs::fops::FileTable;
use ferro_sys::fs::fops::NodeOps;
use ferro_sys::fs::text_buffer::TextBuffer;
use ferro_sys::fs::uaccess::UserDst;
use ferro_sys::fs::uaccess::UserSrc;
use ferro_sys::sync::refcounted::Shared;
use kernel::fmt;
use kernel::fmt::Write;
use kernel::module::this_module;
use kernel::new_mutex;
use kernel::prelude::*;
use kernel::sync::Arc;
use kernel::sync::Mutex;

use crate::sessions::Tracing;
use crate::Functions;

/// Maximum length of a line in bytes.
const LINE_MAX: usize = 64 * 1024;

/// Maximum number of functions in a session.
const FUNCTIONS_MAX: usize = 1 << 17;

/// State shared by all sessions: the channel, which only one session can write to at a time.
#[pin_data]
pub(crate) struct Service {
    channel: Arc<Channel>,
    #[pin]
    is_running: Mutex<bool>,
}

impl Service {
    pub(crate) fn new(channel: Arc<Channel>) -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                channel,
                is_running <- new_mutex!(false),
            }),
            GFP_KERNEL,
        )
    }
}

/// Exclusive right to write to the channel.
struct Turn(Arc<Service>);

impl Turn {
    /// Takes the right. Errors: -EBUSY if another session has it.
    fn take(service: &Arc<Service>) -> Result<Self> {
        let mut is_running = service.is_running.lock();
        if *is_running {
            return Err(EBUSY);
        }
        *is_running = true;
        Ok(Self(service.clone()))
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        *self.0.is_running.lock() = false;
    }
}

/// Trace in progress.
struct Running {
    // In drop order.
    tracing: Tracing,
    turn: Turn,
    /// Number of records lost by the channel before the start.
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
struct Session {
    service: Arc<Service>,
    /// Process that has opened the file and will read the channel.
    reader: i32,
    #[pin]
    state: Mutex<State>,
}

impl Session {
    fn new(service: Arc<Service>) -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                service,
                reader: task::ids().process,
                state <- new_mutex!(State::default()),
            }),
            GFP_KERNEL,
        )
    }

    /// Executes a command line. On an error nothing has changed.
    ///
    /// Errors: -EINVAL for an unknown command, or one not allowed now; -ENOENT if ftrace traces no
    /// function at an address; -EBUSY if another session is running; -E2BIG, -ENOMEM, and errors of
    /// registering.
    fn run(&self, line: &[u8]) -> Result {
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
        let turn = Turn::take(&self.service)?;
        let channel = self.service.channel.clone();
        let lost_before = channel.lost();
        let tracing = Tracing::new(mode, &addresses, channel, self.reader)?;
        state.addresses = addresses;
        state.running = Some(Running {
            tracing,
            turn,
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
            turn,
            lost_before,
        } = running;
        // Waits for the handlers.
        drop(tracing);
        let lost = self.service.channel.lost().saturating_sub(lost_before);
        state.missing = Missing { lost, missed };
        drop(turn);
        Ok(())
    }

    fn show(&self) -> Result<KVVec<u8>> {
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
                let lost = self.service.channel.lost();
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

/// File `control`; each open file has a session.
pub(crate) struct ControlFile {
    service: Arc<Service>,
    session: Option<Arc<Session>>,
}

impl ControlFile {
    pub(crate) fn new(service: Arc<Service>) -> Self {
        Self {
            service,
            session: None,
        }
    }
}

pub(crate) static CONTROL_FILE: FileTable<Shared<ControlFile>> =
    FileTable::new(this_module::<Functions>());

impl NodeOps for ControlFile {
    fn snapshot(&self) -> Result<Option<Self>> {
        Ok(Some(Self {
            service: self.service.clone(),
            session: Some(Session::new(self.service.clone())?),
        }))
    }

    fn read(&self, to: &mut UserDst) -> Result {
        let session = self.session.as_ref().ok_or(EINVAL)?;
        to.copy_at_position(&session.show()?)
    }

    fn write(&self, from: &UserSrc) -> Result {
        let session = self.session.as_ref().ok_or(EINVAL)?;
        if from.len() > LINE_MAX {
            return Err(E2BIG);
        }
        let mut line = KVVec::new();
        line.resize(from.len(), 0, GFP_KERNEL)?;
        session.run(from.text(&mut line)?)
    }
}
