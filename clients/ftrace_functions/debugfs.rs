// SPDX-License-Identifier: GPL-2.0

//! debugfs file `control`. Each open file is a session, until it is closed.
//!
//! Contexts: process.
#![deny(unsafe_code)]

use ferro_sys::fs::fops::NodeOps;
use ferro_sys::fs::uaccess::UserDst;
use ferro_sys::fs::uaccess::UserSrc;
use kernel::prelude::*;
use kernel::sync::Arc;

use crate::sessions::Session;
use crate::sessions::Sessions;

/// Maximum length of a line in bytes.
const LINE_MAX: usize = 64 * 1024;

/// File `control`; each open file has a session.
pub(crate) struct ControlFile {
    sessions: Arc<Sessions>,
    session: Option<Arc<Session>>,
}

impl ControlFile {
    pub(crate) fn new(sessions: Arc<Sessions>) -> Self {
        Self {
            sessions,
            session: None,
        }
    }
}

impl NodeOps for ControlFile {
    fn snapshot(&self, _for_reading: bool) -> Result<Option<Self>> {
        Ok(Some(Self {
            sessions: self.sessions.clone(),
            session: Some(Session::new(self.sessions.clone())?),
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
