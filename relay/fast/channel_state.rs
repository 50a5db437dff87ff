// SPDX-License-Identifier: GPL-2.0

//! What a channel consists of: its buffers, and its files.
//!
//! Contexts: process, except for what [`Inner`] says. Locks: [`Inner::files`].
#![deny(unsafe_code)]

use ferro_core::ring::Ring;
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
use crate::files::Files;
use crate::persistent::Seat;
use crate::raw::ring::RingSlots;

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
    /// Where the buffers are, if they are to survive a reboot.
    seat: Option<Seat>,
}

impl Inner {
    /// A channel without buffers, which are going to be at `seat` if there is one. `client` is any address in the code or data of
    /// the module that opens it.
    ///
    /// Errors: -ENOMEM.
    pub(crate) fn new(
        ring: Ring,
        seat: Option<Seat>,
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
            elsewhere: Atomic::new(0),
            client,
            seat,
        }? Error))
    }

    /// An address in the code or data of the module that opens it.
    pub(crate) fn client(&self) -> usize {
        self.client
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
        let buffer = Buffer::new(self.ring, cpu, self.seat.as_deref())?;
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
        if let Some(seat) = &self.seat {
            seat.close();
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
