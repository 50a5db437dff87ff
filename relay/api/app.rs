// SPDX-License-Identifier: GPL-2.0

//! A relay application: a directory with the controls by which user space makes a channel, starts and
//! stops it, and takes it away. See `Documentation/klog.rst`.
//!
//! Contexts: writing anywhere; the rest in process context. Locks: the settings' mutex, which the files
//! of the channel never take; then debugfs's own and the engine's.
#![deny(unsafe_code)]

use ferro_core::relay::Geometry;
use ferro_sys::counted::Shared;
use ferro_sys::cpu::IrqsOff;
use ferro_sys::debugfs::Dir;
use ferro_sys::debugfs::File;
use ferro_sys::fops::FileTable;
use ferro_sys::fops::NodeOps;
use ferro_sys::fops::UserDst;
use ferro_sys::fops::UserSrc;
use ferro_sys::rcu_slot::RcuSlot;
use kernel::module::this_module;
use kernel::new_mutex;
use kernel::prelude::*;
use kernel::str::CString;
use kernel::sync::aref::ARef;
use kernel::sync::atomic::Atomic;
use kernel::sync::atomic::Relaxed;
use kernel::sync::rcu::synchronize_rcu;
use kernel::sync::Arc;
use kernel::sync::Mutex;

use crate::builder::Mode;
use crate::channel::Channel;

/// What a sub-buffer may have, in bytes: a header and a little behind it at least.
const SUBBUF_SIZES: core::ops::RangeInclusive<usize> = 16..=1 << 30;

/// How many sub-buffers a CPU may have.
const SUBBUF_COUNTS: core::ops::RangeInclusive<usize> = 1..=1 << 20;

/// What the next channel will be like.
#[derive(Clone, Copy)]
struct Settings {
    subbuf_size: usize,
    n_subbufs: usize,
    mode: Mode,
}

impl Settings {
    /// Errors: -E2BIG if the sizes are too large together.
    fn check(&self) -> Result {
        Geometry::new(self.subbuf_size, self.n_subbufs)
            .map(drop)
            .map_err(|_| E2BIG)
    }
}

/// What changes under the mutex.
struct Inner {
    /// Gone when the application is.
    dir: Option<Arc<Dir>>,
    settings: Settings,
}

/// What writers and control files use of an application.
#[pin_data]
pub struct AppChannel {
    name: &'static CStr,
    #[pin]
    inner: Mutex<Inner>,
    channel: RcuSlot<Shared<Channel>>,
    enabled: Atomic<bool>,
}

impl AppChannel {
    /// Writes a record, if there is a channel and it is enabled. Says whether it was written; if
    /// the channel had no room it counts it as dropped.
    ///
    /// Context: any. In the middle of another write to the same channel it is dropped, and counted.
    #[inline]
    pub fn write(&self, irqs: &IrqsOff, data: &[u8]) -> bool {
        let written = self.channel.with(irqs, |channel| {
            self.is_enabled() && channel.write(data).is_ok()
        });
        written.unwrap_or(false)
    }

    /// Whether records are written.
    #[inline]
    pub fn is_enabled(&self) -> bool {
        self.enabled.load(Relaxed)
    }

    /// What the next channel does when no sub-buffer is free.
    ///
    /// Context: process; sleeps.
    pub fn mode(&self) -> Mode {
        self.inner.lock().settings.mode
    }

    /// The same, to be changed.
    pub fn set_mode(&self, mode: Mode) {
        self.inner.lock().settings.mode = mode;
    }

    /// Takes the channel away, if there is one, and makes a new one, not enabled, if `wanted`.
    ///
    /// Errors: -E2BIG, and then nothing is taken away; -EIO if the application is ending; those of
    /// opening a channel.
    fn create(&self, wanted: bool) -> Result {
        let inner = self.inner.lock();
        let dir = inner.dir.as_ref().ok_or(EIO)?;
        inner.settings.check()?;
        self.remove();
        if !wanted {
            return Ok(());
        }
        let channel = Channel::builder(self.name)
            .subbuf_size(inner.settings.subbuf_size)
            .n_subbufs(inner.settings.n_subbufs)
            .mode(inner.settings.mode)
            .padding_header()
            .open_in(dir.clone())?;
        self.channel.replace(Some(Shared::new(Ok(channel))?));
        Ok(())
    }

    /// Closes the channel once its last writer has left it.
    fn remove(&self) {
        self.enabled.store(false, Relaxed);
        drop(self.channel.replace(None));
    }

    /// Starts writing, or stops it, waits for the writers, and finishes all sub-buffers.
    ///
    /// Errors: -ENODEV if there is no channel to be enabled.
    fn enable(&self, wanted: bool) -> Result {
        let _inner = self.inner.lock();
        let channel = self.channel.get();
        if wanted {
            channel.ok_or(ENODEV)?;
            self.enabled.store(true, Relaxed);
            return Ok(());
        }
        self.enabled.store(false, Relaxed);
        if let Some(channel) = channel {
            // Nobody may write while the C engine flushes, and no NMI while any does.
            synchronize_rcu();
            channel.flush();
        }
        Ok(())
    }

    fn dropped(&self) -> u64 {
        self.channel
            .get()
            .map_or(0, |channel| channel.stats().dropped)
    }
}

/// A relay application, which ends when it is dropped.
pub struct App {
    // In the order in which they have to go.
    files: KVec<File<Shared<Control>>>,
    channel: ARef<Shared<AppChannel>>,
    dir: Option<Arc<Dir>>,
}

impl App {
    /// Makes the directory `name` in debugfs, with the controls, and no channel yet.
    ///
    /// Context: process. Errors: -EEXIST, -ENOMEM and those of debugfs.
    pub fn new(name: &'static CStr, subbuf_size: usize, n_subbufs: usize) -> Result<Self> {
        let dir = Arc::new(Dir::new(name)?, GFP_KERNEL)?;
        let inner = Inner {
            dir: Some(dir.clone()),
            settings: Settings {
                subbuf_size,
                n_subbufs,
                mode: Mode::NoOverwrite,
            },
        };
        let channel = Shared::new(try_pin_init!(AppChannel {
            name,
            inner <- new_mutex!(inner),
            channel: RcuSlot::new(),
            enabled: Atomic::new(false),
        }? Error))?;
        let mut files = KVec::new();
        for (name, what, mode) in [
            (c"subbuf_size", What::SubbufSize, 0o600),
            (c"n_subbufs", What::NSubbufs, 0o600),
            (c"mode", What::Mode, 0o600),
            (c"create", What::Create, 0o600),
            (c"enabled", What::Enabled, 0o600),
            (c"dropped", What::Dropped, 0o400),
        ] {
            let control = Shared::new(Ok(Control {
                what,
                channel: channel.clone(),
            }))?;
            files.push(dir.file(name, mode, &CONTROL_FILES, control)?, GFP_KERNEL)?;
        }
        Ok(Self {
            files,
            channel,
            dir: Some(dir),
        })
    }

    /// What writers need. Once the application has ended they write nothing any more.
    pub fn channel(&self) -> ARef<Shared<AppChannel>> {
        self.channel.clone()
    }

    /// The directory, for files of the client's own, which have to go before the application does.
    ///
    /// Errors: -EIO if it has ended.
    pub fn dir(&self) -> Result<&Dir> {
        self.dir.as_deref().ok_or(EIO)
    }
}

impl Drop for App {
    fn drop(&mut self) {
        // Waits for those who are in their operations.
        self.files.clear();
        let mut inner = self.channel.inner.lock();
        self.channel.remove();
        // Who has a control file still open keeps the rest, but not the directory.
        inner.dir = None;
        self.dir = None;
    }
}

#[derive(Clone, Copy)]
enum What {
    SubbufSize,
    NSubbufs,
    Mode,
    Create,
    Enabled,
    Dropped,
}

/// A control: text, one value and a newline.
struct Control {
    what: What,
    channel: ARef<Shared<AppChannel>>,
}

static CONTROL_FILES: FileTable<Shared<Control>> = FileTable::new(this_module::<crate::RelayApi>());

/// A size that a user gives.
///
/// Errors: -EINVAL if it is zero or no number, -ERANGE if it is out of range, -EFAULT.
fn size(from: &UserSrc, range: core::ops::RangeInclusive<usize>) -> Result<usize> {
    match from.number()? {
        0 => Err(EINVAL),
        size if range.contains(&size) => Ok(size),
        _ => Err(ERANGE),
    }
}

/// The name of a mode in files.
pub(crate) fn mode_name(mode: Mode) -> &'static str {
    match mode {
        Mode::NoOverwrite => "no-overwrite",
        Mode::Overwrite => "overwrite",
    }
}

impl NodeOps for Control {
    fn read(&self, to: &mut UserDst) -> Result {
        let channel = &self.channel;
        let settings = channel.inner.lock().settings;
        let text = match self.what {
            What::SubbufSize => CString::try_from_fmt(fmt!("{}\n", settings.subbuf_size)),
            What::NSubbufs => CString::try_from_fmt(fmt!("{}\n", settings.n_subbufs)),
            What::Mode => CString::try_from_fmt(fmt!("{}\n", mode_name(settings.mode))),
            What::Create => {
                let there = channel.channel.get().is_some();
                CString::try_from_fmt(fmt!("{}\n", u8::from(there)))
            }
            What::Enabled => CString::try_from_fmt(fmt!("{}\n", u8::from(channel.is_enabled()))),
            What::Dropped => CString::try_from_fmt(fmt!("{}\n", channel.dropped())),
        }?;
        to.copy_at_position(text.to_bytes())
    }

    fn write(&self, from: &UserSrc) -> Result {
        let channel = &self.channel;
        match self.what {
            What::SubbufSize => {
                let size = size(from, SUBBUF_SIZES)?;
                channel.inner.lock().settings.subbuf_size = size;
            }
            What::NSubbufs => {
                let count = size(from, SUBBUF_COUNTS)?;
                channel.inner.lock().settings.n_subbufs = count;
            }
            What::Mode => {
                let mode = match from.text(&mut [0; 16])? {
                    b"no-overwrite" => Mode::NoOverwrite,
                    b"overwrite" => Mode::Overwrite,
                    _ => return Err(EINVAL),
                };
                channel.set_mode(mode);
            }
            What::Create => channel.create(from.flag()?)?,
            What::Enabled => channel.enable(from.flag()?)?,
            What::Dropped => return Err(EINVAL),
        }
        Ok(())
    }
}
