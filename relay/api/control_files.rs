// SPDX-License-Identifier: GPL-2.0

//! Control files of a channel: sizes and mode, counters, padding. See `Documentation/relay.rst`.
//!
//! Contexts: process, except [`ChannelState::lock_global`] and the counting of lost records, which
//! run in any.
#![deny(unsafe_code)]

use ferro_core::relay::Geometry;
use ferro_sys::cpu::irq_work::WithIrqWork;
use ferro_sys::cpu::HotplugOff;
use ferro_sys::cpu::IrqsOff;
use ferro_sys::fs::debugfs::rename;
use ferro_sys::fs::debugfs::Dir;
use ferro_sys::fs::debugfs::DirRef;
use ferro_sys::fs::debugfs::File;
use ferro_sys::fs::dentry::Dentry;
use ferro_sys::fs::fops::FileTable;
use ferro_sys::fs::fops::NodeOps;
use ferro_sys::fs::uaccess::UserDst;
use ferro_sys::fs::uaccess::UserSrc;
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

use crate::mode::Mode;
use crate::padding_header::Headers;
use crate::raw::buf::BufRef;
use crate::raw::buf::HEADER;
use crate::RelayApi;

/// Options of a channel, without its sizes.
pub(crate) struct Options<'a> {
    pub(crate) mode: Mode,
    pub(crate) global: bool,
    pub(crate) permissions: u16,
    /// Set if sub-buffers have a header: the channel's name for log messages.
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
    controls: Mutex<KVec<Controls>>,
    lock: OwnerLock,
    dropped: Atomic<u64>,
    headers: Option<Arc<WithIrqWork<Headers>>>,
    /// Number of records that fit in a sub-buffer, but not after its header.
    too_big: Atomic<usize>,
    /// Set if new files get a dot before their names.
    hidden: Atomic<bool>,
}

/// Files of a buffer.
struct Controls {
    buf: BufRef<'static>,
    /// The buffer's own file, which the engine removes.
    data: Dentry,
    /// Base name with the number of the CPU.
    name: CString,
    controls: [File<Shared<Control>>; 3],
}

impl Controls {
    /// Renames all of them to their final names.
    fn show(&self) -> Result {
        rename(&self.data, &self.name)?;
        for (control, suffix) in self.controls.iter().zip(SUFFIXES) {
            control.rename(&suffixed(&self.name, suffix)?)?;
        }
        Ok(())
    }
}

/// Suffixes of the names of a buffer's control files.
const SUFFIXES: [&str; 3] = [".produced", ".consumed", ".padding"];

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

    /// Returns the current name for a new file with the final name `name`.
    pub(crate) fn name_now(&self, name: &CStr) -> Result<CString> {
        match self.hidden.load(Relaxed) {
            true => CString::try_from_fmt(fmt!(".{}", name.to_str().map_err(|_| EINVAL)?)),
            false => Ok(CString::try_from(name)?),
        }
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
        self.controls.lock().iter().try_for_each(Controls::show)
    }

    /// Returns the state for sub-buffer headers, if the channel has them.
    pub(crate) fn headers(&self) -> Option<&WithIrqWork<Headers>> {
        self.headers.as_deref()
    }

    /// Returns true if a record fits after the header, if there is one. A record longer than a
    /// whole sub-buffer is left to the engine.
    #[inline]
    pub(crate) fn holds(&self, len: usize) -> bool {
        let size = self.geometry.subbuf_size();
        let holds = self.headers.is_none() || len > size || len <= size.saturating_sub(HEADER);
        if !holds {
            self.too_big.fetch_add(1, Relaxed);
        }
        holds
    }

    pub(crate) fn too_big(&self) -> usize {
        self.too_big.load(Relaxed)
    }

    pub(crate) fn mode(&self) -> Mode {
        self.mode
    }

    #[inline]
    pub(crate) fn is_global(&self) -> bool {
        self.global
    }

    pub(crate) fn permissions(&self) -> u16 {
        self.permissions
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

    /// Makes the control files of a buffer. `data` is the buffer's file in `dir`, `name` its final
    /// name.
    ///
    /// Errors: -ENOMEM and errors of debugfs.
    pub(crate) fn add_controls(
        &self,
        dir: &DirRef,
        name: &CStr,
        data: Dentry,
        buf: BufRef<'static>,
    ) -> Result {
        let now = self.name_now(name)?;
        let file = |kind: Kind, suffix: &str, mode| {
            let name = suffixed(&now, suffix)?;
            dir.file(
                &name,
                mode,
                &CONTROL_FILES,
                Shared::new(Ok(Control {
                    kind,
                    buf,
                    headers: self.headers.clone(),
                }))?,
            )
        };
        let read = self.permissions;
        let [produced, consumed, padding] = SUFFIXES;
        let controls = [
            file(Kind::Produced, produced, read)?,
            // Each user that may read may also report its progress.
            file(Kind::Consumed, consumed, read | ((read & 0o444) >> 1))?,
            file(Kind::Padding, padding, read)?,
        ];
        let controls = Controls {
            buf,
            data,
            name: CString::try_from(name)?,
            controls,
        };
        self.controls.lock().push(controls, GFP_KERNEL)?;
        Ok(())
    }

    /// Removes the control files; waits for their running operations.
    pub(crate) fn remove_controls(&self, buf: BufRef<'static>) {
        let mut controls = self.controls.lock();
        let index = controls.iter().position(|c| c.buf == buf);
        let removed = index.and_then(|index| controls.remove(index).ok());
        drop(controls);
        drop(removed);
    }
}

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
        let mut add = |name, what| -> Result {
            let node = Shared::new(Ok(Text {
                what,
                state: state.clone(),
            }))?;
            files.push(dir.file(name, mode, &TEXT_FILES, node)?, GFP_KERNEL)?;
            Ok(())
        };
        add(c"subbuf_size", What::SubbufSize)?;
        add(c"n_subbufs", What::NSubbufs)?;
        add(c"mode", What::Mode)?;
        add(c"dropped", What::Dropped)?;
        if let Some(format) = format {
            let mut text = KVec::new();
            text.extend_from_slice(format.as_bytes(), GFP_KERNEL)?;
            add(c"format", What::Format(text))?;
        }
        Ok(Self { _files: files })
    }
}

enum What {
    SubbufSize,
    NSubbufs,
    Mode,
    Dropped,
    Format(KVec<u8>),
}

/// A text file of a channel: one value and a newline, or the format.
struct Text {
    what: What,
    state: ARef<Shared<ChannelState>>,
}

static TEXT_FILES: FileTable<Shared<Text>> = FileTable::new(this_module::<RelayApi>());

impl NodeOps for Text {
    fn read(&self, to: &mut UserDst) -> Result {
        let geometry = &self.state.geometry;
        let text = match &self.what {
            What::SubbufSize => CString::try_from_fmt(fmt!("{}\n", geometry.subbuf_size()))?,
            What::NSubbufs => CString::try_from_fmt(fmt!("{}\n", geometry.n_subbufs()))?,
            What::Dropped => CString::try_from_fmt(fmt!("{}\n", self.state.dropped()))?,
            What::Mode => CString::try_from_fmt(fmt!("{}\n", self.state.mode.name()))?,
            What::Format(format) => return to.copy_at_position(format),
        };
        to.copy_at_position(text.to_bytes())
    }
}
