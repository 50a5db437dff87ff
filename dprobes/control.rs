// SPDX-License-Identifier: GPL-2.0

//! File `control` for writing sets of programs, and commands.
//!
//! Reading returns the state after the last write, and the reason if that was refused. The text is
//! made at the first read, so that a command does not fail for want of memory for its reply.
//!
//! A write that begins with the magic number of a set is a set; any other is a command, a line of
//! text:
//!
//! ```text
//! remove NAME   unloads a program; "remove *" all
//! reset NAME    makes the local variables of a program 0; "reset *" all variables
//! reset_globals makes the global variables 0
//! ```
//!
//! `reset[A-B]` and `reset_globals[A-B]` reset only variables A to B. The state after these
//! commands begins with the previous values of the variables.
//!
//! Contexts: process. Locks, outermost first: a session's reply, the registry's mutex.
#![deny(unsafe_code)]

use ferro_dprobes_core::MAGIC;
use ferro_sys::fs::fops::NodeOps;
use ferro_sys::fs::text_buffer::TextBuffer;
use ferro_sys::fs::uaccess::UserDst;
use ferro_sys::fs::uaccess::UserSrc;
use kernel::fmt::Write;
use kernel::new_mutex;
use kernel::prelude::*;
use kernel::sync::Arc;
use kernel::sync::Mutex;

use crate::error::CommandError;
use crate::raw::permission::may_administer;
use crate::registry::Registry;

use crate::variables::IndexRange;
use crate::variables::ResetReport;

/// Maximum number of bytes of a write.
const WRITE_MAX: usize = 4 << 20;

/// State of an open file.
#[pin_data]
struct Session {
    registry: Arc<Registry>,
    #[pin]
    reply: Mutex<Reply>,
}

/// Reply to the last write, for reading.
#[derive(Default)]
struct Reply {
    error: Option<CommandError>,
    /// Values of variables before they were set to 0.
    reset: ResetReport,
    /// None until the first read.
    text: Option<KVVec<u8>>,
}

impl Session {
    fn new(registry: Arc<Registry>) -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                registry,
                reply <- new_mutex!(Reply::default()),
            }),
            GFP_KERNEL,
        )
    }

    fn run(&self, bytes: &[u8]) -> Result {
        let done = match bytes.starts_with(&MAGIC.to_le_bytes()) {
            true => self.registry.load(bytes).map(|()| ResetReport::default()),
            false => self.command(bytes),
        };
        let (result, error, reset) = match done {
            Ok(reset) => (Ok(()), None, reset),
            Err(error) => (Err(error.error), Some(error), ResetReport::default()),
        };
        let reply = Reply {
            error,
            reset,
            text: None,
        };
        let old = core::mem::replace(&mut *self.reply.lock(), reply);
        drop(old);
        result
    }

    fn read(&self, to: &mut UserDst) -> Result {
        let mut reply = self.reply.lock();
        if reply.text.is_none() {
            reply.text = Some(state(&self.registry, &reply)?);
        }
        to.copy_at_position(reply.text.as_deref().unwrap_or_default())
    }

    fn command(&self, line: &[u8]) -> Result<ResetReport, CommandError> {
        let unknown = || CommandError::new(EINVAL, "neither a set nor a command");
        let line = core::str::from_utf8(line.trim_ascii()).map_err(|_| unknown())?;
        let (verb, name) = line.split_once(' ').unwrap_or((line, ""));
        let registry = &self.registry;
        let (verb, range_given) = split_range(verb).ok_or_else(unknown)?;
        let range = range_given.unwrap_or(IndexRange::ALL);
        match (verb, name) {
            (_, "") if verb != "reset_globals" => Err(unknown()),
            ("remove", _) if range_given.is_some() => Err(unknown()),
            ("remove", "*") => {
                registry.remove_all();
                Ok(ResetReport::default())
            }
            ("remove", name) => {
                registry.remove(name)?;
                Ok(ResetReport::default())
            }
            ("reset", "*") => Ok(registry.reset_all(range)?),
            ("reset", name) => registry.reset(name, range),
            ("reset_globals", "") => Ok(registry.reset_globals(range)?),
            _ => Err(unknown()),
        }
    }
}

/// Splits `VERB[A-B]` or `VERB`.
fn split_range(verb: &str) -> Option<(&str, Option<IndexRange>)> {
    let Some((verb, range)) = verb.split_once('[') else {
        return Some((verb, None));
    };
    let (first, last) = range.strip_suffix(']')?.split_once('-')?;
    let (first, last) = (first.parse().ok()?, last.parse().ok()?);
    Some((verb, Some(IndexRange { first, last })))
}

/// Returns the text of a reply: the error, the previous values of variables, and the state.
fn state(registry: &Registry, reply: &Reply) -> Result<KVVec<u8>> {
    let mut text = TextBuffer::new();
    if let Some(error) = &reply.error {
        let why = core::str::from_utf8(&error.text).unwrap_or_default();
        text.write_fmt(fmt!("error: {why}\n")).map_err(|_| ENOMEM)?;
    }
    reply.reset.write(&mut text).map_err(|_| ENOMEM)?;
    registry.write(&mut text).map_err(|_| ENOMEM)?;
    Ok(text.into_bytes())
}

/// Control file. An opened one has a session.
pub(crate) struct ControlFile {
    registry: Arc<Registry>,
    session: Option<Arc<Session>>,
}

impl ControlFile {
    pub(crate) fn new(registry: Arc<Registry>) -> Self {
        Self {
            registry,
            session: None,
        }
    }
}

impl NodeOps for ControlFile {
    fn snapshot(&self, _for_reading: bool) -> Result<Option<Self>> {
        if !may_administer() {
            return Err(EPERM);
        }
        Ok(Some(Self {
            registry: self.registry.clone(),
            session: Some(Session::new(self.registry.clone())?),
        }))
    }

    fn read(&self, to: &mut UserDst) -> Result {
        self.session.as_ref().ok_or(EINVAL)?.read(to)
    }

    fn write(&self, from: &UserSrc) -> Result {
        let session = self.session.as_ref().ok_or(EINVAL)?;
        if from.len() > WRITE_MAX {
            return Err(E2BIG);
        }
        let mut bytes = KVVec::new();
        bytes.resize(from.len(), 0, GFP_KERNEL)?;
        from.bytes(&mut bytes)?;
        session.run(&bytes)
    }
}
