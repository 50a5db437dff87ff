// SPDX-License-Identifier: GPL-2.0

//! A relay application: a directory with the controls by which user space makes a channel, starts and
//! stops it, and takes it away. See `Documentation/klog.rst`.
//!
//! Contexts: writing anywhere; the rest in process context.
//!
//! Locks: [`AppChannel::creating`]; then debugfs's own and the engine's, or that of the client's
//! [`Listener`] and what this takes, or the settings' mutex, which is not held while anything is
//! made or removed. When debugfs removes a file it holds the directory's lock and waits for those
//! who are in the file's operations. So no operation may wait for that lock when files are removed:
//! an application is marked as ended before its files go, and what the files of clients may call
//! ([`AppChannel::write()`], [`AppChannel::mode()`], ...) does not take `creating`.
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
use crate::error::must_sleep;
use crate::error::ChannelError;
use crate::mode::Mode;
use crate::raw::leaked_channels;
use crate::raw::leaked_channels::must_not_go;
use crate::raw::leaked_channels::Kept;
use crate::raw::listener::Listener;
use crate::raw::listener::Listening;

/// What a sub-buffer may have, in bytes: a header and a little more at least.
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

/// What writers and control files use of an application.
#[pin_data]
pub struct AppChannel {
    name: CString,
    #[pin]
    settings: Mutex<Settings>,
    /// Where the channel's files go. Held while the channel is exchanged; `None` once the application has ended.
    #[pin]
    creating: Mutex<Option<Arc<Dir>>>,
    channel: RcuSlot<Shared<Channel>>,
    enabled: Atomic<bool>,
    /// Told, under `creating`, when `enabled` has been set and cleared.
    listening: Option<Arc<Listening>>,
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
        self.settings.lock().mode
    }

    /// The same, to be changed.
    pub fn set_mode(&self, mode: Mode) {
        self.settings.lock().mode = mode;
    }

    /// Takes the channel away, if there is one, and makes a new one, not enabled, if `wanted`.
    ///
    /// Errors: -E2BIG and those of opening a channel, and then nothing is taken away; -EIO if the application is ending;
    /// those of naming the new channel's files, when the old one has gone.
    fn create(&self, wanted: bool) -> Result {
        let creating = self.creating.lock();
        let dir = creating.as_ref().ok_or(EIO)?;
        let settings = *self.settings.lock();
        settings.check()?;
        if !wanted {
            self.remove();
            return Ok(());
        }
        // With the old one still there, which is lost only when nothing large has to be allocated any more.
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

    /// Closes the channel once its last writer has left it. Under `creating`.
    fn remove(&self) {
        self.disable();
        drop(self.channel.replace(None));
    }

    /// Tells the client that the application is enabled, or not. Errors: those of the client's
    /// function.
    fn tell(&self, enabled: bool) -> Result {
        self.listening
            .as_ref()
            .map_or(Ok(()), |listening| listening.tell(enabled))
    }

    /// Stops writing; some may still be at it. Under `creating`.
    fn disable(&self) {
        if self.enabled.xchg(false, Relaxed) {
            // It cannot refuse that.
            let _ = self.tell(false);
        }
    }

    /// Starts writing, or stops it, waits for the writers, and finishes all sub-buffers.
    ///
    /// Errors: -ENODEV if there is no channel to be enabled, and those of the client's
    /// [`Listener`].
    fn enable(&self, wanted: bool) -> Result {
        // So that the count of the channel that is taken here is not the last one.
        let _creating = self.creating.lock();
        let channel = self.channel.get();
        if wanted {
            channel.ok_or(ENODEV)?;
            if !self.enabled.xchg(true, Relaxed) {
                self.tell(true)
                    .inspect_err(|_| self.enabled.store(false, Relaxed))?;
            }
            return Ok(());
        }
        self.disable();
        if let Some(channel) = channel {
            // Nobody may write while the C engine flushes, and no NMI while any does.
            synchronize_rcu();
            channel.flush()?;
        }
        Ok(())
    }

    /// Looks at the channel, if there is one. Does not count it: the last count closes it, which takes the directory's
    /// lock.
    fn look<R>(&self, f: impl FnOnce(&Channel) -> R) -> Option<R> {
        with_irqs_off(|irqs| self.channel.with(irqs, |channel| f(channel)))
    }

    /// Takes the channel away for good.
    fn end(&self) {
        let mut creating = self.creating.lock();
        self.remove();
        *creating = None;
    }
}

/// A relay application, which ends when it is dropped, where nothing may sleep by a work item; if it is forgotten, as
/// with `mem::forget()`, when this module goes.
pub struct App(Kept<Parts>);

/// What an application consists of.
struct Parts {
    // In the order in which they have to go.
    files: KVec<File<Shared<Control>>>,
    channel: ARef<Shared<AppChannel>>,
    dir: Arc<Dir>,
}

impl App {
    /// Makes the directory `name` in debugfs, with the controls, and no channel yet.
    ///
    /// Context: process; sleeps.
    #[track_caller]
    pub fn new(name: &CStr, subbuf_size: usize, n_subbufs: usize) -> Result<Self, ChannelError> {
        must_sleep()?;
        must_not_go(Location::caller())?;
        Ok(Self::with(name, subbuf_size, n_subbufs, None)?)
    }

    /// As [`App::new`], with a function that is told when user space enables the application and
    /// when that ends, until the application ends or the function's module goes. So a client that
    /// is not enabled need not listen to anything.
    #[track_caller]
    pub fn with_listener(
        name: &CStr,
        subbuf_size: usize,
        n_subbufs: usize,
        listener: Listener,
    ) -> Result<Self, ChannelError> {
        must_sleep()?;
        must_not_go(Location::caller())?;
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
        let home = Some(dir.clone());
        let settings = Settings {
            subbuf_size,
            n_subbufs,
            mode: Mode::NoOverwrite,
        };
        let channel = Shared::new(try_pin_init!(AppChannel {
            name: CString::try_from(name)?,
            settings <- new_mutex!(settings),
            creating <- new_mutex!(home),
            channel: RcuSlot::new(),
            enabled: Atomic::new(false),
            listening,
        }? Error))?;
        let mut parts = Parts {
            files: KVec::new(),
            channel,
            dir,
        };
        for (name, what, mode) in [
            (c"subbuf_size", What::SubbufSize, 0o600),
            (c"n_subbufs", What::NSubbufs, 0o600),
            (c"mode", What::Mode, 0o600),
            (c"create", What::Create, 0o600),
            (c"enabled", What::Enabled, 0o600),
            (c"dropped", What::Dropped, 0o400),
        ] {
            let channel = parts.channel.clone();
            let control = Shared::new(Ok(Control { what, channel }))?;
            let file = parts.dir.file(name, mode, &CONTROL_FILES, control)?;
            parts.files.push(file, GFP_KERNEL)?;
        }
        Ok(Self(Kept::new(parts)?))
    }

    /// What writers need. Once the application has ended they write nothing any more.
    pub fn channel(&self) -> ARef<Shared<AppChannel>> {
        self.0.channel.clone()
    }

    /// The directory, for files of the client's own.
    pub fn dir(&self) -> &Dir {
        &self.0.dir
    }
}

impl leaked_channels::Parts for Parts {
    fn listening(&self) -> Option<&Arc<Listening>> {
        self.channel.listening.as_ref()
    }
}

impl Drop for Parts {
    fn drop(&mut self) {
        // First: removing the files waits for those who are in their operations.
        self.channel.end();
        self.files.clear();
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

impl NodeOps for Control {
    fn read(&self, to: &mut UserDst) -> Result {
        let channel = &self.channel;
        let settings = *channel.settings.lock();
        let text = match self.what {
            What::SubbufSize => CString::try_from_fmt(fmt!("{}\n", settings.subbuf_size)),
            What::NSubbufs => CString::try_from_fmt(fmt!("{}\n", settings.n_subbufs)),
            What::Mode => CString::try_from_fmt(fmt!("{}\n", settings.mode.name())),
            What::Create => {
                let there = channel.look(|_| ()).is_some();
                CString::try_from_fmt(fmt!("{}\n", u8::from(there)))
            }
            What::Enabled => CString::try_from_fmt(fmt!("{}\n", u8::from(channel.is_enabled()))),
            What::Dropped => {
                let dropped = channel.look(|channel| channel.stats().dropped);
                CString::try_from_fmt(fmt!("{}\n", dropped.unwrap_or(0)))
            }
        }?;
        to.copy_at_position(text.to_bytes())
    }

    fn write(&self, from: &UserSrc) -> Result {
        let channel = &self.channel;
        match self.what {
            What::SubbufSize => {
                let size = size(from, SUBBUF_SIZES)?;
                channel.settings.lock().subbuf_size = size;
            }
            What::NSubbufs => {
                let count = size(from, SUBBUF_COUNTS)?;
                channel.settings.lock().n_subbufs = count;
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
