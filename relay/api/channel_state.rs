// SPDX-License-Identifier: GPL-2.0

//! State of a channel, with the callbacks of the engine, and the channel's text files.
//!
//! Contexts: process, except [`ChannelState::lock_global`] and the counting of lost records, which
//! run in any, and [`ChannelCallbacks::may_enter`], which runs in the writing context.
#![deny(unsafe_code)]

use ferro_core::relay::Geometry;
use ferro_sys::cpu::irq_work::WithIrqWork;
use ferro_sys::cpu::HotplugOff;
use ferro_sys::cpu::IrqsOff;
use ferro_sys::fs::debugfs::CFile;
use ferro_sys::fs::debugfs::Dir;
use ferro_sys::fs::debugfs::DirRef;
use ferro_sys::fs::debugfs::File;
use ferro_sys::fs::fops::FileTable;
use ferro_sys::fs::fops::NodeOps;
use ferro_sys::fs::uaccess::UserDst;
use ferro_sys::sync::nmi_lock::OwnerGuard;
use ferro_sys::sync::nmi_lock::OwnerLock;
use ferro_sys::sync::refcounted::Shared;
use kernel::module::this_module;
use kernel::new_mutex;
use kernel::prelude::*;
use kernel::str::CString;
use kernel::sync::aref::ARef;
use kernel::sync::atomic::Atomic;
use kernel::sync::atomic::Relaxed;
use kernel::sync::Arc;
use kernel::sync::Mutex;

use crate::control_files::ControlFiles;
use crate::padding_header::Headers;
use crate::raw::buf::BufRef;
use crate::raw::buf::HEADER;
use crate::raw::channel::ChannelCallbacks;
use crate::raw::channel::SubbufStart;
use crate::RelayApi;

/// Behaviour of a channel when no sub-buffer is free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Loses new records until a reader has consumed a sub-buffer.
    NoOverwrite,
    /// Overwrites the oldest sub-buffer: a flight recorder.
    Overwrite,
}

impl Mode {
    /// Returns the name used in files.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::NoOverwrite => "no-overwrite",
            Self::Overwrite => "overwrite",
        }
    }
}

/// Options of a channel, without its sizes.
pub(crate) struct Options<'a> {
    pub(crate) mode: Mode,
    pub(crate) global: bool,
    pub(crate) permissions: u16,
    /// The channel's name for log messages, if sub-buffers have a header.
    pub(crate) header_of: Option<&'a CStr>,
    pub(crate) hidden: bool,
}

/// State for the callbacks of a channel.
#[pin_data]
pub(crate) struct ChannelState {
    geometry: Geometry,
    mode: Mode,
    global: bool,
    permissions: u16,
    /// Files that the callbacks have made.
    #[pin]
    controls: Mutex<KVec<ControlFiles>>,
    lock: OwnerLock,
    dropped: Atomic<u64>,
    headers: Option<Arc<WithIrqWork<Headers>>>,
    /// Number of records that fit in a sub-buffer, but not after its header.
    too_big: Atomic<usize>,
    /// Set if new files get a dot before their names.
    hidden: Atomic<bool>,
}

impl ChannelState {
    pub(crate) fn new(options: &Options<'_>, geometry: Geometry) -> Result<ARef<Shared<Self>>> {
        Shared::new(try_pin_init!(Self {
            geometry,
            mode: options.mode,
            global: options.global,
            permissions: options.permissions,
            controls <- new_mutex!(KVec::new()),
            lock: OwnerLock::new(),
            dropped: Atomic::new(0),
            headers: options.header_of.map(Headers::new).transpose()?,
            too_big: Atomic::new(0),
            hidden: Atomic::new(options.hidden),
        }? Error))
    }

    /// Renames all files to their final names.
    ///
    /// Errors: -EEXIST, -ENOMEM; then some may be renamed.
    pub(crate) fn show(&self) -> Result {
        // Prevents new files until the end of this function.
        let _hotplug = HotplugOff::new();
        if !self.hidden.load(Relaxed) {
            return Ok(());
        }
        self.hidden.store(false, Relaxed);
        self.controls.lock().iter().try_for_each(ControlFiles::show)
    }

    /// Returns true unless the header leaves too little room for the record, which is counted. The
    /// engine itself refuses and counts a record longer than a whole sub-buffer.
    #[inline]
    pub(crate) fn fits_after_header(&self, len: usize) -> bool {
        let size = self.geometry.subbuf_size();
        let fits = self.headers.is_none() || len > size || len <= size.saturating_sub(HEADER);
        if !fits {
            self.too_big.fetch_add(1, Relaxed);
        }
        fits
    }

    pub(crate) fn too_big(&self) -> usize {
        self.too_big.load(Relaxed)
    }

    /// Locks a global channel against other writers; returns `None` if a writer is active and must
    /// not be waited for. Other channels have no lock.
    #[inline]
    pub(crate) fn lock_global<'a>(&'a self, irqs: &'a IrqsOff) -> Option<Option<OwnerGuard<'a>>> {
        match self.global {
            true => self.lock.enter(irqs).map(Some),
            false => Some(None),
        }
    }

    pub(crate) fn count_dropped(&self) {
        self.dropped.fetch_add(1, Relaxed);
    }

    pub(crate) fn dropped(&self) -> u64 {
        self.dropped.load(Relaxed)
    }

    pub(crate) fn reset_dropped(&self) {
        self.dropped.store(0, Relaxed);
        self.too_big.store(0, Relaxed);
    }
}

// SAFETY: `file_created()` gives the reference to the control files of the buffer, and
// `file_removing()` removes them, which waits for their running operations; there is no other copy
// of it. `Builder::geometry()` refuses sub-buffers that are not longer than their header.
#[expect(unsafe_code)]
unsafe impl ChannelCallbacks for ChannelState {
    fn subbuf_start(&self) -> SubbufStart {
        match self.mode {
            _ if self.headers.is_some() => SubbufStart::WithHeader,
            Mode::NoOverwrite => SubbufStart::IfFree,
            Mode::Overwrite => SubbufStart::Always,
        }
    }

    fn may_enter(&self, buf: &BufRef<'_>, is_full: impl FnOnce() -> bool) -> bool {
        let Some(headers) = &self.headers else {
            return false;
        };
        headers.set_finished(buf.cpu(), buf.produced());
        if self.mode == Mode::NoOverwrite && is_full() {
            Headers::report_full(headers, buf.cpu());
            return false;
        }
        true
    }

    #[inline]
    fn is_global(&self) -> bool {
        self.global
    }

    fn permissions(&self) -> u16 {
        self.permissions
    }

    fn current_name(&self, name: &CStr) -> Result<CString> {
        match self.hidden.load(Relaxed) {
            true => CString::try_from_fmt(fmt!(".{}", name.to_str().map_err(|_| EINVAL)?)),
            false => Ok(CString::try_from(name)?),
        }
    }

    fn file_created(&self, dir: &DirRef, name: &CStr, file: CFile, buf: BufRef<'static>) -> Result {
        let files = ControlFiles::new(
            dir,
            &self.current_name(name)?,
            name,
            self.permissions,
            file,
            buf,
            &self.headers,
        )?;
        self.controls.lock().push(files, GFP_KERNEL)?;
        Ok(())
    }

    fn file_removing(&self, buf: BufRef<'static>) {
        let mut controls = self.controls.lock();
        let index = controls.iter().position(|files| files.is_of(buf));
        let removed = index.and_then(|index| controls.remove(index).ok());
        drop(controls);
        drop(removed);
    }
}

/// Text files of a channel.
pub(crate) struct TextFiles {
    _files: KVec<File<Shared<Text>>>,
}

impl TextFiles {
    /// Makes the files. Errors: -ENOMEM and errors of debugfs.
    pub(crate) fn new(
        dir: &Dir,
        state: &ARef<Shared<ChannelState>>,
        format: Option<&str>,
    ) -> Result<Self> {
        let mode = state.permissions;
        let mut files = KVec::new();
        let mut add = |name, kind| -> Result {
            let node = Shared::new(Ok(Text {
                kind,
                state: state.clone(),
            }))?;
            files.push(dir.file(name, mode, &TEXT_FILES, node)?, GFP_KERNEL)?;
            Ok(())
        };
        add(c"subbuf_size", TextKind::SubbufSize)?;
        add(c"n_subbufs", TextKind::NSubbufs)?;
        add(c"mode", TextKind::Mode)?;
        add(c"dropped", TextKind::Dropped)?;
        if let Some(format) = format {
            let mut text = KVec::new();
            text.extend_from_slice(format.as_bytes(), GFP_KERNEL)?;
            add(c"format", TextKind::Format(text))?;
        }
        Ok(Self { _files: files })
    }
}

/// Content of a text file.
enum TextKind {
    SubbufSize,
    NSubbufs,
    Mode,
    Dropped,
    Format(KVec<u8>),
}

/// A text file of a channel: one value and a newline, or the format.
struct Text {
    kind: TextKind,
    state: ARef<Shared<ChannelState>>,
}

static TEXT_FILES: FileTable<Shared<Text>> = FileTable::new(this_module::<RelayApi>());

impl NodeOps for Text {
    fn read(&self, to: &mut UserDst) -> Result {
        let geometry = &self.state.geometry;
        let text = match &self.kind {
            TextKind::SubbufSize => CString::try_from_fmt(fmt!("{}\n", geometry.subbuf_size()))?,
            TextKind::NSubbufs => CString::try_from_fmt(fmt!("{}\n", geometry.n_subbufs()))?,
            TextKind::Dropped => CString::try_from_fmt(fmt!("{}\n", self.state.dropped()))?,
            TextKind::Mode => CString::try_from_fmt(fmt!("{}\n", self.state.mode.name()))?,
            TextKind::Format(format) => return to.copy_at_position(format),
        };
        to.copy_at_position(text.to_bytes())
    }
}
