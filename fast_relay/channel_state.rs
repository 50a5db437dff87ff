// SPDX-License-Identifier: GPL-2.0

//! State of a channel: its buffers and its files.
//!
//! Contexts: process, except where [`ChannelState`] says otherwise. Locks: [`ChannelState::files`].
#![deny(unsafe_code)]

use ferro_fast_relay_core::ring::Ring;
use ferro_sys::cpu;
use ferro_sys::cpu::CpuId;
use ferro_sys::fs::debugfs::DirRef;
use ferro_sys::hook::Module;
use ferro_sys::sync::refcounted::Shared;
use kernel::new_mutex;
use kernel::prelude::*;
use kernel::sync::aref::ARef;
use kernel::sync::atomic::Atomic;
use kernel::sync::atomic::Relaxed;
use kernel::sync::Mutex;
use kernel::sync::SetOnce;

use crate::buffer::Buffer;
use crate::debugfs::Files;
use crate::persistent::MemoryClaim;
use crate::raw::ring::RingSlots;

/// State shared by writers, the registry and the client.
#[repr(C)]
#[pin_data]
pub(crate) struct ChannelState {
    /// First, as in `struct relay_fast`.
    pub(crate) slots: RingSlots,
    ring: Ring,
    /// Buffers, indexed by CPU number. Read in any context.
    buffers: KVec<SetOnce<ARef<Buffer>>>,
    #[pin]
    files: Mutex<Files>,
    /// Number of records lost on CPUs without a buffer.
    lost_without_buffer: Atomic<u64>,
    /// An address in the client's code or data.
    client: usize,
    /// Claim on the memory that has the buffers, if the channel is persistent.
    claim: Option<MemoryClaim>,
}

impl ChannelState {
    /// Creates a channel without buffers; they are put into the memory of `claim`, if given.
    /// `client` is any address in the code or data of the module that opens the channel.
    ///
    /// Errors: -ENOMEM.
    pub(crate) fn new(
        ring: Ring,
        claim: Option<MemoryClaim>,
        files: Files,
        client: usize,
    ) -> Result<ARef<Shared<Self>>> {
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
            lost_without_buffer: Atomic::new(0),
            client,
            claim,
        }? Error))
    }

    /// Returns an address in the code or data of the module that opened the channel.
    pub(crate) fn client(&self) -> usize {
        self.client
    }

    /// Returns true if `module` opened the channel.
    pub(crate) fn is_of(&self, module: &Module) -> bool {
        module.contains(self.client)
    }

    /// Returns the buffer of a CPU. Context: any.
    pub(crate) fn buffer(&self, cpu: CpuId) -> Option<&ARef<Buffer>> {
        self.buffers.get(usize::try_from(cpu.get()).ok()?)?.as_ref()
    }

    fn buffers(&self) -> impl Iterator<Item = (CpuId, &ARef<Buffer>)> {
        cpu::possible().filter_map(|cpu| Some((cpu, self.buffer(cpu)?)))
    }

    /// Makes the buffer of a CPU, unless it has one, and publishes it to the writer. Calls must not
    /// overlap.
    ///
    /// Errors: -ENOMEM, -EINTR if the task is being killed.
    pub(crate) fn add_buffer(&self, cpu: CpuId) -> Result {
        if self.buffer(cpu).is_some() {
            return Ok(());
        }
        let buffer = Buffer::new(self.ring, cpu, self.claim.as_deref())?;
        let memory = buffer.memory().clone();
        let index = usize::try_from(cpu.get())?;
        // Before the publication: a writer has to find the readers that it wakes.
        if let Some(slot) = self.buffers.get(index) {
            slot.populate(buffer);
        }
        self.slots.publish(memory);
        Ok(())
    }

    /// Makes the missing files.
    ///
    /// Errors: from debugfs, -ENOENT before debugfs is ready.
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

    /// Closes the channel after the last write.
    pub(crate) fn close(&self) {
        self.remove_files();
        for (_, buffer) in self.buffers() {
            buffer.close();
        }
        if let Some(claim) = &self.claim {
            claim.close();
        }
    }

    /// Counts a lost record on a CPU without a buffer. Context: any.
    pub(crate) fn count_without_buffer(&self) {
        self.lost_without_buffer.fetch_add(1, Relaxed);
    }

    /// Returns the number of lost records, of all CPUs. Context: any.
    pub(crate) fn lost(&self) -> u64 {
        let lost = self.buffers().map(|(_, buffer)| buffer.memory().lost());
        lost.fold(self.lost_without_buffer.load(Relaxed), u64::wrapping_add)
    }

    /// Returns the directory of the files, for the client's own files.
    pub(crate) fn dir(&self) -> Result<DirRef> {
        self.files.lock().dir()
    }
}
