// SPDX-License-Identifier: GPL-2.0

//! The file `control`: sets of programs and commands are written to it, and it tells the state after the last of them, and why that
//! was refused. The text is made when it is read first, so that what was done does not fail for want of memory for it.
//!
//! A write that begins with the magic number of a set is a set; any other is a command, a line of text:
//!
//! ```text
//! remove NAME   unloads a program; "remove *" all
//! reset NAME    makes the local variables of a program 0; "reset *" all variables
//! reset_globals makes the global variables 0
//! ```
//!
//! Contexts: process. Locks, outermost first: a session's reply, the table's mutex.
#![deny(unsafe_code)]

use ferro_core::rpn::MAGIC;
use ferro_sys::fs::fops::FileTable;
use ferro_sys::fs::fops::NodeOps;
use ferro_sys::fs::text_buffer::TextBuffer;
use ferro_sys::fs::user::UserDst;
use ferro_sys::fs::user::UserSrc;
use ferro_sys::sync::counted::Shared;
use kernel::fmt::Write;
use kernel::module::this_module;
use kernel::new_mutex;
use kernel::prelude::*;
use kernel::sync::Arc;
use kernel::sync::Mutex;

use crate::raw::permission::may_administer;
use crate::refused::Refused;
use crate::table::Table;
use crate::DProbes;

/// The most bytes of a write.
const WRITE_MAX: usize = 4 << 20;

/// What belongs to an open file.
#[pin_data]
struct Session {
    table: Arc<Table>,
    #[pin]
    reply: Mutex<Reply>,
}

/// What reading gives.
#[derive(Default)]
struct Reply {
    refused: Option<Refused>,
    /// None until it is read.
    text: Option<KVVec<u8>>,
}

impl Session {
    fn new(table: Arc<Table>) -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                table,
                reply <- new_mutex!(Reply::default()),
            }),
            GFP_KERNEL,
        )
    }

    fn run(&self, bytes: &[u8]) -> Result {
        let done = match bytes.starts_with(&MAGIC.to_le_bytes()) {
            true => self.table.insert(bytes),
            false => self.command(bytes),
        };
        let result = done
            .as_ref()
            .map_or_else(|refused| Err(refused.error), |()| Ok(()));
        let reply = Reply {
            refused: done.err(),
            text: None,
        };
        let old = core::mem::replace(&mut *self.reply.lock(), reply);
        drop(old);
        result
    }

    fn read(&self, to: &mut UserDst) -> Result {
        let mut reply = self.reply.lock();
        if reply.text.is_none() {
            reply.text = Some(state(&self.table, reply.refused.as_ref())?);
        }
        to.copy_at_position(reply.text.as_deref().unwrap_or_default())
    }

    fn command(&self, line: &[u8]) -> Result<(), Refused> {
        let line = core::str::from_utf8(line.trim_ascii()).ok();
        if line == Some("reset_globals") {
            self.table.reset_globals();
            return Ok(());
        }
        match line.and_then(|line| line.split_once(' ')) {
            Some(("remove", "*")) => self.table.remove_all(),
            Some(("remove", name)) => self.table.remove(name)?,
            Some(("reset", "*")) => self.table.reset_all(),
            Some(("reset", name)) => self.table.reset(name)?,
            _ => return Err(Refused::new(EINVAL, "neither a set nor a command")),
        }
        Ok(())
    }
}

/// The state, after what went wrong.
fn state(table: &Table, refused: Option<&Refused>) -> Result<KVVec<u8>> {
    let mut text = TextBuffer::new();
    if let Some(refused) = refused {
        let why = core::str::from_utf8(&refused.text).unwrap_or_default();
        text.write_fmt(fmt!("error: {why}\n")).map_err(|_| ENOMEM)?;
    }
    table.write(&mut text).map_err(|_| ENOMEM)?;
    Ok(text.into_bytes())
}

/// The file. What is opened has a session.
pub(crate) struct ControlFile {
    table: Arc<Table>,
    session: Option<Arc<Session>>,
}

impl ControlFile {
    pub(crate) fn new(table: Arc<Table>) -> Self {
        Self {
            table,
            session: None,
        }
    }
}

pub(crate) static CONTROL_FILE: FileTable<Shared<ControlFile>> =
    FileTable::new(this_module::<DProbes>());

impl NodeOps for ControlFile {
    fn snapshot(&self) -> Result<Option<Self>> {
        if !may_administer() {
            return Err(EPERM);
        }
        Ok(Some(Self {
            table: self.table.clone(),
            session: Some(Session::new(self.table.clone())?),
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
