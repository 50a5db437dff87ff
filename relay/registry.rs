// SPDX-License-Identifier: GPL-2.0

//! The channels that are open, for closing them and for CPUs that come up later.
//!
//! Contexts: process. Locks, outermost first: CPU hotplug, the registry's mutex, a buffer's
//! readers. The client's file callbacks are called with the registry locked while files are made
//! late or a CPU comes up, so they cannot open or close channels.
#![deny(unsafe_code)]

use ferro_sys::cpu;
use ferro_sys::cpu::CpuId;
use ferro_sys::cpu::HotplugOff;
use kernel::bindings;
use kernel::prelude::*;
use kernel::sync::aref::ARef;

use crate::buf::Buf;
use crate::channel::Channel;
use crate::channel::OpenRequest;
use crate::raw::mutex::RegistryMutex;

/// The channels that are open.
static CHANNELS: RegistryMutex<KVec<Open>> = RegistryMutex::new(KVec::new());

/// An open channel and its references to its buffers.
pub(crate) struct Open {
    channel: ARef<Channel>,
    bufs: KVec<ARef<Buf>>,
}

impl Open {
    /// Makes the buffer of `cpu` if there is none. On failure nothing has changed.
    fn add_buf(&mut self, cpu: CpuId) -> Result {
        if self.channel.has_buf(cpu) {
            return Ok(());
        }
        // First, so that nothing can fail once the buffer is there.
        self.bufs.reserve(1, GFP_KERNEL)?;
        let buf = self.channel.add_buf(cpu, self.bufs.is_empty())?;
        self.bufs.push(buf, GFP_KERNEL)?;
        Ok(())
    }

    /// Makes the files that the channel was opened without. On failure nothing has changed.
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
            .channel
            .create_files(&self.bufs)
            .inspect_err(|_| self.channel.set_name(None, core::ptr::null_mut()))?;
        for (buf, file) in self.bufs.iter().zip(&files) {
            let attach = || buf.set_dentry(file.clone());
            if self.channel.is_global() {
                attach();
            } else {
                // Where the writer adds to the size of the file.
                hotplug.call_on(buf.cpu(), &attach);
            }
        }
        Ok(())
    }

    fn close(self) {
        for buf in &self.bufs {
            buf.close();
        }
    }
}

/// Opens a channel with a buffer for every CPU that is online.
///
/// The returned pointer is valid until the channel is closed. Errors: those of
/// [`Channel::add_buf`], so also -EINTR; whatever had been made has been undone then.
pub(crate) fn open(request: OpenRequest<'_>) -> Result<*const Channel> {
    let channel = Channel::new(request)?;
    let pointer = core::ptr::from_ref::<Channel>(&channel);
    let mut open = Open {
        channel,
        bufs: KVec::new(),
    };

    let result = loop {
        // Buffers may have gigabytes: without a lock that others need.
        if let Err(e) = cpu::online().try_for_each(|cpu| open.add_buf(cpu)) {
            break Err(e);
        }
        // A CPU on its way up is neither online yet nor prepared again, so hold it off.
        let _hotplug = HotplugOff::new();
        let mut channels = CHANNELS.lock();
        if !cpu::online().all(|cpu| open.channel.has_buf(cpu)) {
            // It has come up since.
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

/// Makes the files of a channel that was opened without a name, and of CPUs that come up later.
///
/// Errors: -ENOENT if there is no such channel, -EEXIST if it has files, those of
/// [`Channel::create_files`].
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

/// Closes a channel. What its files and mappings still need is freed with them.
///
/// Errors: -ENOENT if there is no such channel.
pub(crate) fn close(channel: *const Channel) -> Result {
    let mut channels = CHANNELS.lock();
    let index = find(&channels, channel)?;
    let open = channels.remove(index).map_err(|_| ENOENT)?;
    if channels.is_empty() {
        // Nobody frees a static when the module goes.
        *channels = KVec::new();
    }
    drop(channels);
    open.close();
    Ok(())
}

/// Ends the current sub-buffer of every CPU, each on its own CPU with interrupts off. Sleeps.
///
/// Errors: -ENOENT if there is no such channel.
pub(crate) fn flush(channel: *const Channel) -> Result {
    let hotplug = HotplugOff::new();
    for_each_buf(channel, |buf| hotplug.call_on(buf.cpu(), &|| buf.flush()))
}

/// Empties all buffers. The client does not write meanwhile.
///
/// Errors: -ENOENT if there is no such channel.
pub(crate) fn reset(channel: *const Channel) -> Result {
    for_each_buf(channel, Buf::reset)
}

/// Calls `f` for each buffer of a channel, without the registry's mutex: `f` may have to wait for a
/// reader, and the reader for anything that user space can make a page fault wait for.
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

/// Makes the buffers of a CPU that is about to come up.
///
/// Errors: -ENOMEM, whatever the reason, as the C engine has it; it is printed. Buffers made before
/// the failure stay: the CPU may come up another time.
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
