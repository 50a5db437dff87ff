// SPDX-License-Identifier: GPL-2.0

//! Registry of open channels, for closing them and for CPUs that are brought up later.
//!
//! Contexts: process. Locks, outermost first: CPU hotplug, the registry's mutex, a buffer's
//! readers. The registry is locked during the client's file callbacks if files are made late or a
//! CPU is brought up. Such callbacks must not open or close channels.
#![deny(unsafe_code)]

use ferro_sys::bindings;
use ferro_sys::cpu;
use ferro_sys::cpu::CpuId;
use ferro_sys::cpu::HotplugOff;
use ferro_sys::fs::dentry::Dentry;
use ferro_sys::static_mutex;
use ferro_sys::sync::mutex::StaticMutex;
use kernel::prelude::*;
use kernel::sync::aref::ARef;
use kernel::sync::atomic::Relaxed;

use crate::buf::Buf;
use crate::channel::Channel;
use crate::channel::OpenRequest;

/// The open channels. C defines the mutex: channels may be opened before Rust could initialise one.
static CHANNELS: StaticMutex<KVec<Open>> = static_mutex!(relay_rust_mutex, KVec::new());

/// An open channel and its references to its buffers.
pub(crate) struct Open {
    channel: ARef<Channel>,
    bufs: KVec<ARef<Buf>>,
}

impl Open {
    /// Makes the buffer of `cpu` and its file, and publishes the buffer to writers, if the CPU has
    /// none. A failure changes nothing.
    ///
    /// Errors: -ENOMEM, -EINTR if the task is being killed, -EINVAL if the client does not make a
    /// file, or if it changes its decision at the first buffer whether the channel is global.
    fn add_buf(&mut self, cpu: CpuId) -> Result {
        if self.channel.has_buf(cpu) {
            return Ok(());
        }
        // First, so that nothing can fail once the buffer exists.
        self.bufs.reserve(1, GFP_KERNEL)?;
        let buf = Buf::new(&self.channel, cpu)?;
        if let Some(dentry) = buf.create_file(self.bufs.is_empty())? {
            buf.set_dentry(dentry);
        }
        if self.channel.is_global() {
            buf.abi.cpu.store(CpuId::ZERO.get(), Relaxed);
        }
        buf.enter_first();
        self.channel.publish(cpu, &*buf);
        self.bufs.push(buf, GFP_KERNEL)?;
        Ok(())
    }

    /// Makes the files that the channel was opened without. A failure changes nothing.
    fn late_setup(
        &self,
        hotplug: &HotplugOff,
        name: &CStr,
        parent: *mut bindings::dentry,
    ) -> Result {
        if self.channel.has_name() {
            return Err(EEXIST);
        }
        self.channel.set_name(Some(name), parent);
        let files = self
            .create_files()
            .inspect_err(|_| self.channel.set_name(None, core::ptr::null_mut()))?;
        for (buf, file) in self.bufs.iter().zip(&files) {
            let attach = || buf.set_dentry(file.clone());
            if self.channel.is_global() {
                attach();
            } else {
                // On the buffer's CPU, where the writer adds to the size of the file.
                hotplug.call_on(buf.cpu(), &attach);
            }
        }
        Ok(())
    }

    /// Makes the files of buffers that have none.
    ///
    /// Errors: as for [`Buf::create_file`]; then no file exists.
    fn create_files(&self) -> Result<KVec<Dentry>> {
        let mut files = KVec::with_capacity(self.bufs.len(), GFP_KERNEL)?;
        for buf in &self.bufs {
            let made = buf
                .create_file(false)
                .and_then(|file| Ok(files.push(file.ok_or(EINVAL)?, GFP_KERNEL)?));
            if let Err(e) = made {
                for file in &files {
                    self.channel.client().remove_buf_file(Some(file));
                }
                return Err(e);
            }
        }
        Ok(files)
    }

    fn close(self) {
        for buf in &self.bufs {
            buf.close();
        }
    }
}

/// Opens a channel with a buffer for each online CPU.
///
/// The returned pointer is valid until the channel is closed. Errors: as for
/// [`Open::add_buf`]; then all changes are undone.
pub(crate) fn open(request: OpenRequest<'_>) -> Result<*const Channel> {
    let channel = Channel::new(request)?;
    let pointer = core::ptr::from_ref::<Channel>(&channel);
    let mut open = Open {
        channel,
        bufs: KVec::new(),
    };

    let result = loop {
        // Holds no lock that other tasks need: allocating gigabytes of buffers takes long.
        if let Err(e) = cpu::online().try_for_each(|cpu| open.add_buf(cpu)) {
            break Err(e);
        }
        // Waits for a CPU that is being brought up: it was prepared before, and is not online yet.
        let _hotplug = HotplugOff::new();
        let mut channels = CHANNELS.lock();
        if !cpu::online().all(|cpu| open.channel.has_buf(cpu)) {
            // A CPU was brought up since.
            continue;
        }
        break match channels.reserve(1, GFP_KERNEL) {
            Ok(()) => {
                return channels
                    .push(open, GFP_KERNEL)
                    .map(|()| pointer)
                    .map_err(Into::into)
            }
            Err(e) => Err(e.into()),
        };
    };
    open.close();
    result
}

/// Makes the files of a channel that was opened without a name, also for CPUs brought up later.
///
/// Errors: -ENOENT if the channel is not open, -EEXIST if it has files; otherwise as for
/// [`Open::create_files`].
pub(crate) fn late_setup(
    channel: *const Channel,
    name: &CStr,
    parent: *mut bindings::dentry,
) -> Result {
    let hotplug = HotplugOff::new();
    let channels = CHANNELS.lock();
    let open = channels.get(find(&channels, channel)?).ok_or(ENOENT)?;
    open.late_setup(&hotplug, name, parent)
}

/// Closes a channel. Open files and mappings keep their buffers until they are closed.
///
/// Errors: -ENOENT if the channel is not open.
pub(crate) fn close(channel: *const Channel) -> Result {
    let mut channels = CHANNELS.lock();
    let index = find(&channels, channel)?;
    let open = channels.remove(index).map_err(|_| ENOENT)?;
    if channels.is_empty() {
        // Statics are not dropped when the module is unloaded.
        *channels = KVec::new();
    }
    drop(channels);
    open.close();
    Ok(())
}

/// Ends the current sub-buffer of each CPU, on that CPU with interrupts off. Sleeps.
///
/// Errors: -ENOENT if the channel is not open.
pub(crate) fn flush(channel: *const Channel) -> Result {
    let hotplug = HotplugOff::new();
    for_each_buf(channel, |buf| hotplug.call_on(buf.cpu(), &|| buf.flush()))
}

/// Empties all buffers. The client must not write at the same time.
///
/// Errors: -ENOENT if the channel is not open.
pub(crate) fn reset(channel: *const Channel) -> Result {
    for_each_buf(channel, Buf::reset)
}

/// Calls `f` for each buffer of a channel, without the registry's mutex: `f` may wait for a reader,
/// and user space can delay the reader by a page fault.
fn for_each_buf(channel: *const Channel, f: impl Fn(&Buf)) -> Result {
    let nth = |index| -> Result<Option<ARef<Buf>>> {
        let channels = CHANNELS.lock();
        let open = channels.get(find(&channels, channel)?).ok_or(ENOENT)?;
        Ok(open.bufs.get(index).cloned())
    };
    let mut index = 0;
    while let Some(buf) = nth(index)? {
        f(&buf);
        index += 1;
    }
    Ok(())
}

/// Makes the buffers of a CPU about to be brought up.
///
/// Errors: -ENOMEM for any cause, as the C engine returns; the cause is printed. Buffers made
/// before the failure stay: the CPU may be brought up later.
pub(crate) fn prepare_cpu(cpu: CpuId) -> Result {
    let mut channels = CHANNELS.lock();
    for open in channels.iter_mut() {
        open.add_buf(cpu).map_err(|e| {
            pr_err!("no buffer for cpu {}: {:?}\n", cpu.get(), e);
            ENOMEM
        })?;
    }
    Ok(())
}

fn find(channels: &[Open], channel: *const Channel) -> Result<usize> {
    channels
        .iter()
        .position(|open| core::ptr::eq::<Channel>(&*open.channel, channel))
        .ok_or(ENOENT)
}
