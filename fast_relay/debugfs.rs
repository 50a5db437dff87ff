// SPDX-License-Identifier: GPL-2.0

//! Debugfs files of a channel.
//!
//! Contexts: process.
#![deny(unsafe_code)]

use ferro_sys::cpu::CpuId;
use ferro_sys::fs::debugfs::Dir;
use ferro_sys::fs::debugfs::DirRef;
use ferro_sys::fs::debugfs::File;
use ferro_sys::fs::fops::FileTable;
use ferro_sys::fs::fops::NodeOps;
use ferro_sys::fs::uaccess::UserDst;
use ferro_sys::sync::refcounted::Shared;
use kernel::module::this_module;
use kernel::prelude::*;
use kernel::str::CString;
use kernel::sync::aref::ARef;

use crate::buffer::Buffer;
use crate::FastRelay;

/// Directory of a channel's files.
pub(crate) enum Parent {
    /// A directory of the client.
    Client(DirRef),
    /// Name of a directory that is made with the first file.
    ToMake(CString),
    /// A directory that this channel has made.
    Own(Dir),
}

impl Parent {
    /// Names a directory in the root of debugfs.
    ///
    /// Errors: -EINVAL for a name that no file can have, -ENOMEM.
    pub(crate) fn to_make(name: &str) -> Result<Self> {
        if matches!(name, "" | "." | "..") || name.contains('/') {
            return Err(EINVAL);
        }
        Ok(Self::ToMake(CString::try_from_fmt(fmt!("{name}"))?))
    }
}

/// Files of a channel.
pub(crate) struct Files {
    base: CString,
    permissions: u16,
    format: Option<CString>,
    // In drop order.
    made: KVec<(CpuId, File<Buffer>)>,
    format_file: Option<File<Shared<Format>>>,
    parent: Parent,
}

/// Text of the file `format`.
pub(crate) struct Format(CString);

/// File operations of buffers.
static BUFFER_FILES: FileTable<Buffer> = FileTable::new(this_module::<FastRelay>());

static FORMAT_FILE: FileTable<Shared<Format>> = FileTable::new(this_module::<FastRelay>());

impl NodeOps for Format {
    fn read(&self, to: &mut UserDst) -> Result {
        to.copy_at_position(self.0.to_bytes())
    }
}

impl Files {
    /// Creates an empty set of files; `base` is their name without the number.
    ///
    /// Errors: -EINVAL for a name that is empty or has a slash, -ENOMEM.
    pub(crate) fn new(
        parent: Parent,
        base: &str,
        permissions: u16,
        format: Option<CString>,
    ) -> Result<Self> {
        if base.is_empty() || base.contains('/') {
            return Err(EINVAL);
        }
        Ok(Self {
            base: CString::try_from_fmt(fmt!("{base}"))?,
            permissions,
            format,
            made: KVec::new(),
            format_file: None,
            parent,
        })
    }

    /// Returns the directory; makes it if needed.
    pub(crate) fn dir(&mut self) -> Result<DirRef> {
        if let Parent::ToMake(name) = &self.parent {
            self.parent = Parent::Own(Dir::new(name)?);
        }
        match &self.parent {
            Parent::Own(dir) => Ok(dir.to_ref()),
            Parent::Client(dir) => Ok(dir.clone()),
            Parent::ToMake(_) => Err(ENOENT),
        }
    }

    /// Makes the file of a buffer, unless it exists.
    pub(crate) fn add(&mut self, cpu: CpuId, buffer: &ARef<Buffer>) -> Result {
        if self.made.iter().any(|(made, _)| *made == cpu) {
            return Ok(());
        }
        self.made.reserve(1, GFP_KERNEL)?;
        let dir = self.dir()?;
        let base = self.base.to_str().map_err(|_| EINVAL)?;
        if let (Some(format), None) = (&self.format, &self.format_file) {
            let node = Shared::new(Ok(Format(CString::try_from(&**format)?)))?;
            let mode = self.permissions & 0o444;
            // A directory of the client can have files of several channels.
            let name = match self.parent {
                Parent::Client(_) => CString::try_from_fmt(fmt!("{}.format", base))?,
                _ => CString::try_from(c"format")?,
            };
            self.format_file = Some(dir.file(&name, mode, &FORMAT_FILE, node)?);
        }
        let name = CString::try_from_fmt(fmt!("{}{}", base, cpu.get()))?;
        let file = dir.file(&name, self.permissions, &BUFFER_FILES, buffer.clone())?;
        self.made.push((cpu, file), GFP_KERNEL)?;
        Ok(())
    }

    /// Returns all files; dropping the result removes them.
    pub(crate) fn take(&mut self) -> impl Sized {
        let own = core::mem::replace(&mut self.parent, Parent::Client(DirRef::ROOT));
        (
            core::mem::take(&mut self.made),
            self.format_file.take(),
            own,
        )
    }
}
