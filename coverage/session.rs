// SPDX-License-Identifier: GPL-2.0

//! The session: the places of an open file, and their breakpoints.
//!
//! Contexts: process, sleeps. Locks, in order: the session's mutex; those of the text.
#![deny(unsafe_code)]

use ferro_coverage_core::Command;
use ferro_coverage_core::Record;
use ferro_coverage_core::Refusal;
use ferro_sys::fs::text_buffer::TextBuffer;
use ferro_sys::fs::uaccess::UserDst;
use kernel::fmt::Write;
use kernel::new_mutex;
use kernel::prelude::*;
use kernel::sync::Arc;
use kernel::sync::Mutex;

use crate::raw::armed;
use crate::raw::armed::Armed;
use crate::raw::check::check;
use crate::raw::table::AddError;
use crate::raw::table::Table;
use crate::raw::text::ModuleId;
use crate::raw::text::Ready;
use crate::raw::trap;

/// Places, with breakpoints in the text or without.
enum State {
    Disarmed(KBox<Table>),
    Armed(Armed),
}

impl State {
    fn table(&self) -> &Table {
        match self {
            Self::Disarmed(table) => table,
            Self::Armed(armed) => armed.table(),
        }
    }
}

/// The session, if there is one.
#[pin_data]
pub(crate) struct Coverage {
    ready: Ready,
    #[pin]
    session: Mutex<Option<State>>,
}

impl From<AddError> for Error {
    fn from(error: AddError) -> Self {
        match error {
            AddError::Overlaps => EEXIST,
            AddError::TooMany => E2BIG,
            AddError::NoMemory => ENOMEM,
        }
    }
}

impl Coverage {
    /// Makes the object, without a session.
    pub(crate) fn new(ready: Ready) -> Result<Arc<Self>> {
        let new = pin_init!(Self {
            ready,
            session <- new_mutex!(None),
        });
        Arc::pin_init(new, GFP_KERNEL)
    }

    /// Begins the session. Errors: -EBUSY if there is one, -ENOMEM.
    pub(crate) fn begin(&self) -> Result {
        let mut session = self.session.lock();
        if session.is_some() {
            return Err(EBUSY);
        }
        *session = Some(State::Disarmed(KBox::new(Table::new(), GFP_KERNEL)?));
        Ok(())
    }

    /// Ends the session: removes the breakpoints, and frees the places.
    pub(crate) fn end(&self) {
        *self.session.lock() = None;
    }

    /// Adds the places of a record.
    ///
    /// Errors: -EBUSY if breakpoints are armed, -EEXIST if the range overlaps an earlier
    /// record, -E2BIG for too many places, -ENOENT if there is no code at the first place, -ENODEV
    /// without a session, -ENOMEM.
    pub(crate) fn add(&self, record: &Record<'_>) -> Result {
        let mut session = self.session.lock();
        let State::Disarmed(table) = (*session).as_mut().ok_or(ENODEV)? else {
            return Err(EBUSY);
        };
        let (first, last) = record.bounds();
        table.check(first, last, record.count())?;
        Ok(table.add(check(self.ready, record)?)?)
    }

    /// Executes commands. Errors: -EINVAL for text other than commands, before any is executed;
    /// -ENODEV without a session.
    pub(crate) fn run(&self, text: &[u8]) -> Result {
        if Command::parse(text).any(|command| command.is_none()) {
            return Err(EINVAL);
        }
        let mut session = self.session.lock();
        for command in Command::parse(text).flatten() {
            let state = session.take().ok_or(ENODEV)?;
            *session = Some(self.changed(state, command));
        }
        match *session {
            Some(_) => Ok(()),
            None => Err(ENODEV),
        }
    }

    /// Executes a command.
    fn changed(&self, state: State, command: Command) -> State {
        match (command, state) {
            (Command::Arm, State::Disarmed(table)) => match Armed::new(self.ready, table) {
                Ok(armed) => State::Armed(armed),
                // Not possible: there is one session.
                Err(table) => State::Disarmed(table),
            },
            (Command::Disarm, State::Armed(armed)) => State::Disarmed(armed.disarm()),
            (Command::Reset, state) => {
                state.table().forget_hits();
                if let State::Armed(armed) = &state {
                    armed.rearm();
                }
                state
            }
            (Command::Arm | Command::Disarm, state) => state,
        }
    }

    /// Copies the states of the places, from the position of the read on. Errors: -ENODEV without a
    /// session, -EFAULT.
    pub(crate) fn read(&self, to: &mut UserDst) -> Result {
        let session = self.session.lock();
        let mut skipped = to.position();
        let mut bytes = [0; 256];
        for segment in session.as_ref().ok_or(ENODEV)?.table().segments() {
            let mut shown = segment.shown(skipped).peekable();
            skipped = skipped.saturating_sub(segment.len());
            while shown.peek().is_some() {
                let mut count = 0_usize;
                for (byte, state) in bytes.iter_mut().zip(&mut shown) {
                    *byte = state;
                    count = count.wrapping_add(1);
                }
                if to.copy_bytes(bytes.get(..count).unwrap_or_default())? < count {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Returns the text of the file `control`. Errors: -ENOMEM.
    pub(crate) fn status(&self) -> Result<KVVec<u8>> {
        let mut text = TextBuffer::new();
        self.write_status(&mut text).map_err(|_| ENOMEM)?;
        Ok(text.into_bytes())
    }

    fn write_status(&self, text: &mut TextBuffer) -> kernel::fmt::Result {
        let session = self.session.lock();
        let (name, totals) = match session.as_ref() {
            None => ("none", Default::default()),
            Some(state @ State::Disarmed(_)) => ("disarmed", state.table().totals()),
            Some(state @ State::Armed(_)) => ("armed", state.table().totals()),
        };
        let refused: usize = totals.refused.iter().sum();
        let (traps, stale) = trap::traps();
        writeln!(
            text,
            "state={name} places={} armed={} hit={} refused={refused}",
            totals.places, totals.armed, totals.hit
        )?;
        writeln!(
            text,
            "traps={traps} stale={stale} batches={}",
            armed::batches()
        )?;
        write!(text, "refused")?;
        for (refusal, count) in Refusal::ALL.iter().zip(totals.refused) {
            if count != 0 {
                write!(text, " {}={count}", refusal.name())?;
            }
        }
        writeln!(text)
    }

    /// Forgets the places in a module before its code is freed.
    pub(crate) fn forget(&self, module: ModuleId) {
        if let Some(state) = self.session.lock().as_ref() {
            armed::forget(self.ready, state.table(), module);
        }
    }
}
