// SPDX-License-Identifier: GPL-2.0

//! debugfs files: `blocks` takes places and has their states, `control` takes commands and has
//! totals.
//!
//! Contexts: process.
#![deny(unsafe_code)]

use ferro_coverage_core::Record;
use ferro_coverage_core::WRITE_MAX;
use ferro_sys::fs::fops::NodeOps;
use ferro_sys::fs::uaccess::UserDst;
use ferro_sys::fs::uaccess::UserSrc;
use kernel::prelude::*;
use kernel::sync::Arc;

use crate::session::Coverage;

/// Maximum length of the commands of a write in bytes.
const COMMANDS_MAX: usize = 4096;

/// Reads a write of at most `max` bytes.
///
/// Errors: -EINVAL for a longer one, -EFAULT, -ENOMEM.
fn written(from: &UserSrc, max: usize) -> Result<KVVec<u8>> {
    if from.len() > max {
        return Err(EINVAL);
    }
    let mut bytes = KVVec::new();
    bytes.resize(from.len(), 0, GFP_KERNEL)?;
    from.bytes(&mut bytes)?;
    Ok(bytes)
}

/// The session of an open file. Its drop ends the session.
struct Session(Arc<Coverage>);

impl Drop for Session {
    fn drop(&mut self) {
        self.0.end();
    }
}

/// File `blocks`. An open one has the session.
pub(crate) struct BlocksFile {
    coverage: Arc<Coverage>,
    session: Option<Session>,
}

impl BlocksFile {
    pub(crate) fn new(coverage: Arc<Coverage>) -> Self {
        Self {
            coverage,
            session: None,
        }
    }

    /// Returns the session. Errors: -ENODEV before it is opened.
    fn session(&self) -> Result<&Coverage> {
        Ok(&self.session.as_ref().ok_or(ENODEV)?.0)
    }
}

impl NodeOps for BlocksFile {
    fn snapshot(&self, _for_reading: bool) -> Result<Option<Self>> {
        self.coverage.begin()?;
        Ok(Some(Self {
            coverage: self.coverage.clone(),
            session: Some(Session(self.coverage.clone())),
        }))
    }

    fn read(&self, to: &mut UserDst) -> Result {
        self.session()?.read(to)
    }

    fn write(&self, from: &UserSrc) -> Result {
        let bytes = written(from, WRITE_MAX)?;
        let record = Record::parse(&bytes).ok_or(EINVAL)?;
        self.session()?.add(&record)
    }
}

/// File `control`, with a snapshot from its opening.
pub(crate) struct ControlFile {
    coverage: Arc<Coverage>,
    text: KVVec<u8>,
}

impl ControlFile {
    pub(crate) fn new(coverage: Arc<Coverage>) -> Self {
        Self {
            coverage,
            text: KVVec::new(),
        }
    }
}

impl NodeOps for ControlFile {
    fn snapshot(&self, for_reading: bool) -> Result<Option<Self>> {
        if !for_reading {
            return Ok(None);
        }
        Ok(Some(Self {
            coverage: self.coverage.clone(),
            text: self.coverage.status()?,
        }))
    }

    fn read(&self, to: &mut UserDst) -> Result {
        to.copy_at_position(&self.text)
    }

    fn write(&self, from: &UserSrc) -> Result {
        self.coverage.run(&written(from, COMMANDS_MAX)?)
    }
}
