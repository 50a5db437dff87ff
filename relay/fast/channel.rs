// SPDX-License-Identifier: GPL-2.0

//! An open channel: its buffers and its files.
//!
//! Contexts: process, except for what [`Inner`] says. Locks: [`Inner::files`].
#![deny(unsafe_code)]

use core::panic::Location;

use ferro_core::ring::Ring;
use ferro_sys::cpu;
use ferro_sys::cpu::CpuId;
use ferro_sys::fs::debugfs::Dir;
use ferro_sys::fs::debugfs::DirRef;
use ferro_sys::fs::debugfs::File;
use ferro_sys::fs::fops::FileTable;
use ferro_sys::fs::fops::NodeOps;
use ferro_sys::fs::fops::UserDst;
use ferro_sys::hook::Module;
use ferro_sys::ring::RingSlots;
use ferro_sys::sync::counted::Shared;
use ferro_sys::sync::deferred::Deferred;
use kernel::module::this_module;
use kernel::new_mutex;
use kernel::prelude::*;
use kernel::str::CString;
use kernel::sync::aref::ARef;
use kernel::sync::atomic::Atomic;
use kernel::sync::atomic::Relaxed;
use kernel::sync::Mutex;
use kernel::sync::SetOnce;

use crate::buffer::Buffer;
use crate::builder::Builder;
use crate::error::must_sleep;
use crate::error::ChannelError;
use crate::ffi::BUFFER_FILES;
use crate::registry;
use crate::FastRelay;

/// What writers, the registry and the client share.
#[repr(C)]
#[pin_data]
pub(crate) struct Inner {
    /// First, as `struct relay_fast` has it.
    pub(crate) slots: RingSlots,
    ring: Ring,
    /// The buffer of each CPU, by its number. Read anywhere.
    buffers: KVec<SetOnce<ARef<Buffer>>>,
    #[pin]
    files: Mutex<Files>,
    /// Records of CPUs that have no buffer.
    elsewhere: Atomic<u64>,
    /// An address in the client's code or data.
    client: usize,
}

impl Inner {
    /// A channel without buffers. `client` is any address in the code or data of the module that opens it.
    ///
    /// Errors: -ENOMEM.
    pub(crate) fn new(ring: Ring, files: Files, client: usize) -> Result<ARef<Shared<Self>>> {
        let slots = RingSlots::new()?;
        let mut buffers = KVec::new();
        for cpu in cpu::possible() {
            while buffers.len() <= usize::try_from(cpu.get())? {
                buffers.push(SetOnce::new(), GFP_KERNEL)?;
            }
        }
        Shared::new(try_pin_init!(Self {
            slots,
            ring,
            buffers,
            files <- new_mutex!(files),
            elsewhere: Atomic::new(0),
            client,
        }? Error))
    }

    /// Whether a module has opened it.
    pub(crate) fn is_of(&self, module: &Module) -> bool {
        module.contains(self.client)
    }

    /// The buffer of a CPU. Context: any.
    pub(crate) fn buffer(&self, cpu: CpuId) -> Option<&ARef<Buffer>> {
        self.buffers.get(usize::try_from(cpu.get()).ok()?)?.as_ref()
    }

    fn buffers(&self) -> impl Iterator<Item = (CpuId, &ARef<Buffer>)> {
        cpu::possible().filter_map(|cpu| Some((cpu, self.buffer(cpu)?)))
    }

    /// Makes the buffer of a CPU, unless it has one, and lets it write. Not twice at once.
    ///
    /// Errors: -ENOMEM, -EINTR if the task is being killed.
    pub(crate) fn add_buffer(&self, cpu: CpuId) -> Result {
        if self.buffer(cpu).is_some() {
            return Ok(());
        }
        let buffer = Buffer::new(self.ring, cpu)?;
        let memory = buffer.memory().clone();
        let index = usize::try_from(cpu.get())?;
        // First: who writes to the memory finds the readers to wake.
        if let Some(slot) = self.buffers.get(index) {
            slot.populate(buffer);
        }
        self.slots.publish(memory);
        Ok(())
    }

    /// Makes the files that are missing.
    ///
    /// Errors: those of debugfs, -ENOENT while it is not there yet.
    pub(crate) fn make_files(&self) -> Result {
        let mut files = self.files.lock();
        for (cpu, buffer) in self.buffers() {
            files.add(cpu, buffer)?;
        }
        Ok(())
    }

    /// Removes the files.
    pub(crate) fn remove_files(&self) {
        let removed = self.files.lock().take();
        drop(removed);
    }

    /// Closes the channel, which nobody writes any more.
    pub(crate) fn close(&self) {
        self.remove_files();
        for (_, buffer) in self.buffers() {
            buffer.close();
        }
    }

    /// A record of a CPU that has no buffer. Context: any.
    pub(crate) fn count_elsewhere(&self) {
        self.elsewhere.fetch_add(1, Relaxed);
    }

    /// Records that could not be written, of all CPUs. Context: any.
    pub(crate) fn lost(&self) -> u64 {
        let lost = self.buffers().map(|(_, buffer)| buffer.memory().lost());
        lost.fold(self.elsewhere.load(Relaxed), u64::wrapping_add)
    }

    /// Where the files are, for more of them.
    pub(crate) fn dir(&self) -> Result<DirRef> {
        self.files.lock().dir()
    }
}

/// The directory of a channel's files.
pub(crate) enum Parent {
    /// It belongs to the client.
    Client(DirRef),
    /// It has this name and is made with the first file.
    ToMake(CString),
    /// It has been made.
    Own(Dir),
}

impl Parent {
    /// A directory of this name in the root of debugfs.
    ///
    /// Errors: -EINVAL for a name that no file can have, -ENOMEM.
    pub(crate) fn to_make(name: &str) -> Result<Self> {
        if matches!(name, "" | "." | "..") || name.contains('/') {
            return Err(EINVAL);
        }
        Ok(Self::ToMake(CString::try_from_fmt(fmt!("{name}"))?))
    }
}

/// The files of a channel.
pub(crate) struct Files {
    base: CString,
    permissions: u16,
    format: Option<CString>,
    // In the order in which they have to go.
    made: KVec<(CpuId, File<Buffer>)>,
    format_file: Option<File<Shared<Format>>>,
    parent: Parent,
}

/// The text of the file `format`.
pub(crate) struct Format(CString);

static FORMAT_FILE: FileTable<Shared<Format>> = FileTable::new(this_module::<FastRelay>());

impl NodeOps for Format {
    fn read(&self, to: &mut UserDst) -> Result {
        to.copy_at_position(self.0.to_bytes())
    }
}

impl Files {
    /// No files yet; `base` is what they are called before the number.
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

    /// The directory, which is made if it has to be.
    fn dir(&mut self) -> Result<DirRef> {
        if let Parent::ToMake(name) = &self.parent {
            self.parent = Parent::Own(Dir::new(name)?);
        }
        match &self.parent {
            Parent::Own(dir) => Ok(dir.to_ref()),
            Parent::Client(dir) => Ok(dir.clone()),
            Parent::ToMake(_) => Err(ENOENT),
        }
    }

    /// Makes the file of a buffer, unless it is there.
    fn add(&mut self, cpu: CpuId, buffer: &ARef<Buffer>) -> Result {
        if self.made.iter().any(|(made, _)| *made == cpu) {
            return Ok(());
        }
        self.made.reserve(1, GFP_KERNEL)?;
        let dir = self.dir()?;
        let base = self.base.to_str().map_err(|_| EINVAL)?;
        if let (Some(format), None) = (&self.format, &self.format_file) {
            let node = Shared::new(Ok(Format(CString::try_from(&**format)?)))?;
            let mode = self.permissions & 0o444;
            // A directory of the client's can have files of several channels.
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

    /// What is to be dropped to remove all files.
    fn take(&mut self) -> impl Sized {
        let own = core::mem::replace(&mut self.parent, Parent::Client(DirRef::ROOT));
        (
            core::mem::take(&mut self.made),
            self.format_file.take(),
            own,
        )
    }
}

/// A fast relay channel, closed when it is dropped.
///
/// User space that has a file or a mapping open keeps its buffer. A channel that is forgotten, as with `mem::forget()`,
/// is closed when the module that has opened it goes. Where nothing may sleep, as in a handler of a probe, dropping it
/// leaves that to a work item.
pub struct Channel {
    pub(crate) inner: ARef<Shared<Inner>>,
    // Dropped last: it has a count of the other.
    _open: Deferred<Open>,
}

/// Closes a channel when it is dropped. Sleeps.
struct Open(ARef<Shared<Inner>>);

impl Drop for Open {
    fn drop(&mut self) {
        // The registry has it, unless it could not be opened, or the module that opened it has gone and left it to
        // another.
        let _ = registry::close(&raw const **self.0);
    }
}

impl Channel {
    /// Describes a channel with files in the debugfs directory `dir`.
    pub fn builder(dir: &CStr) -> Builder<'_> {
        Builder::new(dir)
    }

    pub(crate) fn open(
        ring: Ring,
        files: Files,
        client: &'static Location<'static>,
    ) -> Result<Self> {
        // It is data of the module that calls `Builder::open()`.
        let inner = Inner::new(ring, files, core::ptr::from_ref(client).addr())?;
        // First, as it cannot fail once the channel is open.
        let open = Deferred::new(Ok::<_, Error>(Open(inner.clone())))?;
        registry::open(&inner)?;
        Ok(Self { inner, _open: open })
    }

    /// The directory with the channel's files, for files of the client's own.
    ///
    /// Context: process; sleeps. Errors: `ENOENT` while there is no debugfs yet.
    pub fn dir(&self) -> Result<DirRef, ChannelError> {
        must_sleep()?;
        Ok(self.inner.dir()?)
    }

    /// Records that could not be written, of all CPUs. Context: any.
    pub fn lost(&self) -> u64 {
        self.inner.lost()
    }
}
