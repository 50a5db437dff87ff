// SPDX-License-Identifier: GPL-2.0

//! Control files of a buffer: the numbers of finished and of consumed sub-buffers, and padding. See
//! `Documentation/relay.rst`.
//!
//! Contexts: process.
#![deny(unsafe_code)]

use ferro_sys::cpu::irq_work::WithIrqWork;
use ferro_sys::fs::debugfs::CFile;
use ferro_sys::fs::debugfs::DirRef;
use ferro_sys::fs::debugfs::File;
use ferro_sys::fs::fops::FileTable;
use ferro_sys::fs::fops::NodeOps;
use ferro_sys::fs::uaccess::UserDst;
use ferro_sys::fs::uaccess::UserSrc;
use ferro_sys::sync::refcounted::Shared;
use kernel::module::this_module;
use kernel::prelude::*;
use kernel::str::CString;
use kernel::sync::Arc;

use crate::padding_header::Headers;
use crate::raw::buf::BufRef;
use crate::RelayApi;

/// Files of a buffer. Removed when dropped, which waits for running operations of control files.
pub(crate) struct ControlFiles {
    buf: BufRef<'static>,
    /// Base name with the number of the CPU.
    name: CString,
    // In drop order.
    controls: [File<Shared<Control>>; 3],
    /// The buffer's own file.
    data: CFile,
}

impl ControlFiles {
    /// Makes the control files of a buffer. `data` is the buffer's file in `dir`, and `name` is its
    /// final name.
    ///
    /// Errors: -ENOMEM and errors of debugfs.
    pub(crate) fn new(
        dir: &DirRef,
        current_name: &CStr,
        name: &CStr,
        permissions: u16,
        data: CFile,
        buf: BufRef<'static>,
        headers: &Option<Arc<WithIrqWork<Headers>>>,
    ) -> Result<Self> {
        let file = |kind: Kind, suffix: &str, mode| {
            let node = Shared::new(Ok(Control {
                kind,
                buf,
                headers: headers.clone(),
            }))?;
            dir.file(&suffixed(current_name, suffix)?, mode, &CONTROL_FILES, node)
        };
        let [produced, consumed, padding] = SUFFIXES;
        Ok(Self {
            buf,
            name: CString::try_from(name)?,
            controls: [
                file(Kind::Produced, produced, permissions)?,
                // Each user that may read may also report its progress.
                file(
                    Kind::Consumed,
                    consumed,
                    permissions | ((permissions & 0o444) >> 1),
                )?,
                file(Kind::Padding, padding, permissions)?,
            ],
            data,
        })
    }

    /// Returns true if the files are of `buf`.
    pub(crate) fn is_of(&self, buf: BufRef<'static>) -> bool {
        self.buf == buf
    }

    /// Renames all files to their final names.
    pub(crate) fn show(&self) -> Result {
        self.data.rename(&self.name)?;
        for (control, suffix) in self.controls.iter().zip(SUFFIXES) {
            control.rename(&suffixed(&self.name, suffix)?)?;
        }
        Ok(())
    }
}

/// Suffixes of the names of a buffer's control files.
const SUFFIXES: [&str; 3] = [".produced", ".consumed", ".padding"];

/// Appends a suffix to a name.
fn suffixed(name: &CStr, suffix: &str) -> Result<CString> {
    let name = name.to_str().map_err(|_| EINVAL)?;
    CString::try_from_fmt(fmt!("{name}{suffix}"))
}

#[derive(Clone, Copy)]
enum Kind {
    Produced,
    Consumed,
    Padding,
}

/// A binary file of a buffer: native `size_t`s.
struct Control {
    kind: Kind,
    buf: BufRef<'static>,
    headers: Option<Arc<WithIrqWork<Headers>>>,
}

impl Control {
    /// Returns the number of sub-buffers that readers may take: the completed ones, with their
    /// headers if any.
    fn finished(&self) -> usize {
        match &self.headers {
            Some(headers) => headers.produced(self.buf.cpu()),
            None => self.buf.produced(),
        }
    }

    /// Reports `n` sub-buffers as read.
    ///
    /// Errors: -EINVAL if fewer are finished, -EINTR if the task is being killed.
    fn consume(&self, n: usize) -> Result {
        if n > self.finished().wrapping_sub(self.buf.consumed()) {
            return Err(EINVAL);
        }
        self.buf.consume(n)
    }
}

static CONTROL_FILES: FileTable<Shared<Control>> = FileTable::new(this_module::<RelayApi>());

impl NodeOps for Control {
    fn read(&self, to: &mut UserDst) -> Result {
        match self.kind {
            Kind::Produced => to.copy_at_position(&self.finished().to_ne_bytes()),
            Kind::Consumed => to.copy_at_position(&self.buf.consumed().to_ne_bytes()),
            Kind::Padding => {
                let mut bytes = KVVec::with_capacity(self.buf.padding_len(), GFP_KERNEL)?;
                for padding in self.buf.padding() {
                    bytes.extend_from_slice(&padding.to_ne_bytes(), GFP_KERNEL)?;
                }
                to.copy_at_position(&bytes)
            }
        }
    }

    fn write(&self, from: &UserSrc) -> Result {
        match self.kind {
            Kind::Consumed => self.consume(from.native_size()?),
            Kind::Produced | Kind::Padding => Err(EINVAL),
        }
    }
}
