// SPDX-License-Identifier: GPL-2.0

//! Relay applications: a directory with controls through which user space creates, starts, stops
//! and removes a channel. See `Documentation/klog.rst`.
//!
//! Contexts: writing in any; the rest in process context.
//!
//! Locks: [`AppChannel::creating`]; then debugfs's and the engine's, or the client's [`Listener`]
//! and its locks, or the settings' mutex, which is not held while anything is made or removed. The
//! removal of a file in debugfs holds the directory's lock and waits for running file operations.
//! So no operation may wait for that lock when files are removed: an application is marked as ended
//! before its files are removed. Functions that clients' files may call ([`AppChannel::write()`],
//! [`AppChannel::mode()`], ...) do not take `creating`.
#![deny(unsafe_code)]

use core::panic::Location;

use ferro_core::relay::Geometry;
use ferro_sys::cpu::with_irqs_off;
use ferro_sys::cpu::IrqsOff;
use ferro_sys::fs::debugfs::Dir;
use ferro_sys::fs::debugfs::File;
use ferro_sys::fs::fops::FileTable;
use ferro_sys::fs::fops::NodeOps;
use ferro_sys::fs::uaccess::UserDst;
use ferro_sys::fs::uaccess::UserSrc;
use ferro_sys::sync::rcu_slot::RcuSlot;
use ferro_sys::sync::refcounted::Shared;
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

use crate::channel::Channel;
use crate::channel_state::Mode;
use crate::error::must_sleep;
use crate::error::ChannelError;
use crate::raw::leaked_channels;
use crate::raw::leaked_channels::check_not_unloading;
use crate::raw::leaked_channels::Tracked;
use crate::raw::listener::Listener;
use crate::raw::listener::Listening;

/// Valid sizes of a sub-buffer, in bytes: at least a header and a little more.
const SUBBUF_SIZES: core::ops::RangeInclusive<usize> = 16..=1 << 30;

/// Valid numbers of sub-buffers per CPU.
const SUBBUF_COUNTS: core::ops::RangeInclusive<usize> = 1..=1 << 20;

/// Settings for the next channel.
#[derive(Clone, Copy)]
struct Settings {
    subbuf_size: usize,
    n_subbufs: usize,
    mode: Mode,
}

impl Settings {
    /// Validates the sizes. Errors: -E2BIG if too large together.
    fn check(&self) -> Result {
        Geometry::new(self.subbuf_size, self.n_subbufs)
            .map(drop)
            .map_err(|_| E2BIG)
    }
}

/// State of an application for writers and control files.
#[pin_data]
pub struct AppChannel {
    name: CString,
    #[pin]
    settings: Mutex<Settings>,
    /// Directory for the channel's files. Locked while the channel is replaced; `None` once the
    /// application has ended.
    #[pin]
    creating: Mutex<Option<Arc<Dir>>>,
    channel: RcuSlot<Shared<Channel>>,
    enabled: Atomic<bool>,
    /// Called, under `creating`, after `enabled` was set or cleared.
    listening: Option<Arc<Listening>>,
}

impl AppChannel {
    /// Writes a record, if there is a channel and it is enabled. Returns true if it was written. A
    /// record is counted as dropped if the channel has no room for it.
    ///
    /// Context: any. Within another write to the same channel the record is dropped and counted.
    #[inline]
    pub fn write(&self, irqs: &IrqsOff, data: &[u8]) -> bool {
        let written = self.channel.with(irqs, |channel| {
            self.is_enabled() && channel.write(data).is_ok()
        });
        written.unwrap_or(false)
    }

    /// Returns true if records are written.
    #[inline]
    pub fn is_enabled(&self) -> bool {
        self.enabled.load(Relaxed)
    }

    /// Returns the behaviour of the next channel when no sub-buffer is free.
    ///
    /// Context: process; sleeps.
    pub fn mode(&self) -> Mode {
        self.settings.lock().mode
    }

    /// Sets the behaviour of the next channel when no sub-buffer is free.
    pub fn set_mode(&self, mode: Mode) {
        self.settings.lock().mode = mode;
    }

    /// Removes the channel, if any, and makes a new one, not enabled, if `wanted`.
    ///
    /// Errors: -E2BIG and those of opening a channel, then the old channel stays; -EIO if the
    /// application is ending; those of renaming the new channel's files, after the old channel was
    /// removed.
    fn create(&self, wanted: bool) -> Result {
        let creating = self.creating.lock();
        let dir = creating.as_ref().ok_or(EIO)?;
        let settings = *self.settings.lock();
        settings.check()?;
        if !wanted {
            self.remove();
            return Ok(());
        }
        // Opened before the old channel is removed: if an allocation fails, the old channel stays.
        let channel = Channel::builder(&self.name)
            .subbuf_size(settings.subbuf_size)
            .n_subbufs(settings.n_subbufs)
            .mode(settings.mode)
            .padding_header()
            .hidden()
            .open_in(dir.clone())?;
        let channel = Shared::new(Ok(channel))?;
        self.remove();
        channel.show()?;
        self.channel.replace(Some(channel));
        Ok(())
    }

    /// Closes the channel after its last writer has finished. Under `creating`.
    fn remove(&self) {
        self.disable();
        drop(self.channel.replace(None));
    }

    /// Calls the client's listener after the application was enabled or disabled. Errors: the
    /// listener's.
    fn notify(&self, enabled: bool) -> Result {
        self.listening
            .as_ref()
            .map_or(Ok(()), |listening| listening.notify(enabled))
    }

    /// Stops writing; writes in progress may continue. Under `creating`.
    fn disable(&self) {
        if self.enabled.xchg(false, Relaxed) {
            // The client cannot refuse to be disabled.
            let _ = self.notify(false);
        }
    }

    /// Starts writing; or stops it, waits for the writers, and finishes all sub-buffers.
    ///
    /// Errors: -ENODEV if there is no channel to be enabled, and those of the client's
    /// [`Listener`].
    fn enable(&self, wanted: bool) -> Result {
        // Ensures that the reference taken here is not the last one.
        let _creating = self.creating.lock();
        let channel = self.channel.get();
        if wanted {
            channel.ok_or(ENODEV)?;
            if !self.enabled.xchg(true, Relaxed) {
                self.notify(true)
                    .inspect_err(|_| self.enabled.store(false, Relaxed))?;
            }
            return Ok(());
        }
        self.disable();
        if let Some(channel) = channel {
            // Waits for the writers: the C engine allows no write during a flush, and neither
            // engine allows one from an NMI.
            synchronize_rcu();
            channel.flush()?;
        }
        Ok(())
    }

    /// Calls `f` with the channel, if any. Takes no reference: dropping the last reference closes
    /// the channel, which takes the directory's lock.
    fn with_channel<R>(&self, f: impl FnOnce(&Channel) -> R) -> Option<R> {
        with_irqs_off(|irqs| self.channel.with(irqs, |channel| f(channel)))
    }

    /// Removes the channel for good.
    fn end(&self) {
        let mut creating = self.creating.lock();
        self.remove();
        *creating = None;
    }
}

/// A relay application. It ends when dropped, by a work item in contexts that cannot sleep. If
/// leaked, as with `mem::forget()`, it ends when this module is unloaded.
pub struct App(Tracked<OpenApp>);

/// An application with its files.
struct OpenApp {
    // In drop order.
    files: KVec<File<Shared<Control>>>,
    channel: ARef<Shared<AppChannel>>,
    dir: Arc<Dir>,
}

impl App {
    /// Makes the directory `name` in debugfs with the controls; the application has no channel yet.
    ///
    /// Context: process; sleeps.
    #[track_caller]
    pub fn new(name: &CStr, subbuf_size: usize, n_subbufs: usize) -> Result<Self, ChannelError> {
        must_sleep()?;
        check_not_unloading(Location::caller())?;
        Ok(Self::with(name, subbuf_size, n_subbufs, None)?)
    }

    /// Makes an application as [`App::new`] does, with a listener. The listener is called when the
    /// application is enabled or disabled, so that a client can stay passive while it is disabled.
    /// The calls end when the application ends or the listener's module is unloaded.
    #[track_caller]
    pub fn with_listener(
        name: &CStr,
        subbuf_size: usize,
        n_subbufs: usize,
        listener: Listener,
    ) -> Result<Self, ChannelError> {
        must_sleep()?;
        check_not_unloading(Location::caller())?;
        let listening = Some(Listening::new(listener)?);
        Ok(Self::with(name, subbuf_size, n_subbufs, listening)?)
    }

    fn with(
        name: &CStr,
        subbuf_size: usize,
        n_subbufs: usize,
        listening: Option<Arc<Listening>>,
    ) -> Result<Self> {
        let dir = Arc::new(Dir::new(name)?, GFP_KERNEL)?;
        let open_dir = Some(dir.clone());
        let settings = Settings {
            subbuf_size,
            n_subbufs,
            mode: Mode::NoOverwrite,
        };
        let channel = Shared::new(try_pin_init!(AppChannel {
            name: CString::try_from(name)?,
            settings <- new_mutex!(settings),
            creating <- new_mutex!(open_dir),
            channel: RcuSlot::new(),
            enabled: Atomic::new(false),
            listening,
        }? Error))?;
        let mut open = OpenApp {
            files: KVec::new(),
            channel,
            dir,
        };
        for (name, setting, mode) in [
            (c"subbuf_size", Setting::SubbufSize, 0o600),
            (c"n_subbufs", Setting::NSubbufs, 0o600),
            (c"mode", Setting::Mode, 0o600),
            (c"create", Setting::Create, 0o600),
            (c"enabled", Setting::Enabled, 0o600),
            (c"dropped", Setting::Dropped, 0o400),
        ] {
            let channel = open.channel.clone();
            let control = Shared::new(Ok(Control { setting, channel }))?;
            let file = open.dir.file(name, mode, &CONTROL_FILES, control)?;
            open.files.push(file, GFP_KERNEL)?;
        }
        Ok(Self(Tracked::new(open)?))
    }

    /// Returns the handle for writers. After the application has ended it writes nothing.
    pub fn channel(&self) -> ARef<Shared<AppChannel>> {
        self.0.channel.clone()
    }

    /// Returns the directory, for the client's own files.
    pub fn dir(&self) -> &Dir {
        &self.0.dir
    }
}

impl leaked_channels::ClientObject for OpenApp {
    fn listening(&self) -> Option<&Arc<Listening>> {
        self.channel.listening.as_ref()
    }
}

impl Drop for OpenApp {
    fn drop(&mut self) {
        // First: the removal of the files waits for running file operations.
        self.channel.end();
        self.files.clear();
    }
}

/// Value of a control file.
#[derive(Clone, Copy)]
enum Setting {
    SubbufSize,
    NSubbufs,
    Mode,
    Create,
    Enabled,
    Dropped,
}

/// A control file: one value as text and a newline.
struct Control {
    setting: Setting,
    channel: ARef<Shared<AppChannel>>,
}

static CONTROL_FILES: FileTable<Shared<Control>> = FileTable::new(this_module::<crate::RelayApi>());

/// Parses a size from user space.
///
/// Errors: -EINVAL if it is zero or no number, -ERANGE if it is out of range, -EFAULT.
fn size(from: &UserSrc, range: core::ops::RangeInclusive<usize>) -> Result<usize> {
    match from.number()? {
        0 => Err(EINVAL),
        size if range.contains(&size) => Ok(size),
        _ => Err(ERANGE),
    }
}

impl NodeOps for Control {
    fn read(&self, to: &mut UserDst) -> Result {
        let channel = &self.channel;
        let settings = *channel.settings.lock();
        let text = match self.setting {
            Setting::SubbufSize => CString::try_from_fmt(fmt!("{}\n", settings.subbuf_size)),
            Setting::NSubbufs => CString::try_from_fmt(fmt!("{}\n", settings.n_subbufs)),
            Setting::Mode => CString::try_from_fmt(fmt!("{}\n", settings.mode.name())),
            Setting::Create => {
                let exists = channel.with_channel(|_| ()).is_some();
                CString::try_from_fmt(fmt!("{}\n", u8::from(exists)))
            }
            Setting::Enabled => CString::try_from_fmt(fmt!("{}\n", u8::from(channel.is_enabled()))),
            Setting::Dropped => {
                let dropped = channel.with_channel(|channel| channel.stats().dropped);
                CString::try_from_fmt(fmt!("{}\n", dropped.unwrap_or(0)))
            }
        }?;
        to.copy_at_position(text.to_bytes())
    }

    fn write(&self, from: &UserSrc) -> Result {
        let channel = &self.channel;
        match self.setting {
            Setting::SubbufSize => {
                let size = size(from, SUBBUF_SIZES)?;
                channel.settings.lock().subbuf_size = size;
            }
            Setting::NSubbufs => {
                let count = size(from, SUBBUF_COUNTS)?;
                channel.settings.lock().n_subbufs = count;
            }
            Setting::Mode => {
                let mode = match from.text(&mut [0; 16])? {
                    b"no-overwrite" => Mode::NoOverwrite,
                    b"overwrite" => Mode::Overwrite,
                    _ => return Err(EINVAL),
                };
                channel.set_mode(mode);
            }
            Setting::Create => channel.create(from.flag()?)?,
            Setting::Enabled => channel.enable(from.flag()?)?,
            Setting::Dropped => return Err(EINVAL),
        }
        Ok(())
    }
}
