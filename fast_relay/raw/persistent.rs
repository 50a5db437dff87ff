// SPDX-License-Identifier: GPL-2.0

//! Memory that survives a reboot, and the registration for panics, restarts and halts.
//!
//! Contexts: process, except sealing, which runs in any. No locks.

use ferro_fast_relay_core::persistent::checksum::Reason;
use ferro_fast_relay_core::persistent::checksum::Sealing;
use ferro_fast_relay_core::persistent::Header;
use ferro_fast_relay_core::persistent::HeaderError;
use ferro_fast_relay_core::persistent::Layout;
use ferro_fast_relay_core::persistent::Memory;
use ferro_fast_relay_core::persistent::MemoryMut;
use ferro_fast_relay_core::persistent::Repair;
use ferro_fast_relay_core::persistent::COPIES;
use ferro_fast_relay_core::persistent::COPY_BYTES;
use ferro_sys::bindings;
use ferro_sys::cpu::task::cond_resched_killable;
use ferro_sys::cpu::CpuId;
use ferro_sys::mm::pages::MemRange;
use ferro_sys::mm::pages::PageBuf;
use ferro_sys::mm::reserve_mem::Reserved;
use kernel::error::to_result;
use kernel::page::PAGE_SIZE;
use kernel::prelude::*;
use kernel::sync::atomic::Atomic;
use kernel::sync::atomic::Full;
use kernel::sync::atomic::Relaxed;
use kernel::sync::Arc;

/// Boot, time and kernel release at the opening of a channel.
pub(crate) type Origin = bindings::relay_fast_origin;

/// Returns the current origin. Context: process.
pub(crate) fn origin() -> Origin {
    let mut origin: Origin = pin_init::zeroed();
    // SAFETY: The function fills the structure in.
    unsafe { bindings::relay_fast_origin(&mut origin) };
    origin
}

/// Half of reserved memory without a channel.
///
/// # Invariants
///
/// The memory has no other owner.
pub(crate) struct Half(Arc<PageBuf>);

impl Half {
    /// Maps a part of reserved memory. Errors: as for [`PageBuf::of_reserved`].
    pub(crate) fn map(reserved: &Reserved, at: usize, bytes: usize) -> Result<Self> {
        // INVARIANT: The claim on the part is new, so it has no other owner.
        let buf = PageBuf::of_reserved(reserved, at, bytes)?;
        Ok(Self(Arc::new(buf, GFP_KERNEL)?))
    }

    /// Decodes the header that a channel has left.
    pub(crate) fn header(&self) -> Result<(Header, Repair), HeaderError> {
        let mut copies = [0; COPIES * COPY_BYTES];
        for (at, word) in copies.chunks_exact_mut(8).enumerate() {
            // In range: a header is shorter than a page.
            let found = self.0.load(at * 8).unwrap_or(0);
            word.copy_from_slice(&found.to_le_bytes());
        }
        Header::decode(&copies, u64::try_from(self.0.len()).unwrap_or(0))
    }

    /// Returns its bytes from `start` on, at most `len`; `None` if there are none.
    pub(crate) fn range(&self, start: usize, len: usize) -> Option<MemRange<'_>> {
        let rest = self.0.len().saturating_sub(start);
        self.0
            .range(start, rest.min(len))
            .filter(|range| !range.is_empty())
    }

    /// Erases the header, so that the other data cannot be found.
    pub(crate) fn erase(&self) {
        for at in (0..COPIES * COPY_BYTES).step_by(8) {
            // SAFETY: By the type invariant this is no channel's memory, and readers validate all
            // they read.
            unsafe { self.0.store(at, 0) };
        }
    }

    /// Zeros all of it. Errors: -EINTR if the task is being killed.
    fn clear(&self) -> Result {
        // The header first.
        self.erase();
        for at in (0..self.0.len()).step_by(8) {
            if at % PAGE_SIZE == 0 {
                cond_resched_killable()?;
            }
            // SAFETY: As in `erase()`, by the type invariant.
            unsafe { self.0.store(at, 0) };
        }
        Ok(())
    }
}

/// Memory of a channel.
///
/// # Invariants
///
/// The memory is as `layout` says, and only this object writes to the parts of it outside of the
/// CPUs' buffers. Each CPU's buffer has been given to at most one object.
pub(crate) struct PersistentMem {
    memory: Arc<PageBuf>,
    layout: Layout,
    /// Number in the header, unique among the channels of this memory.
    opening: u64,
    /// Set for each CPU after its buffer was given out.
    given: KVec<Atomic<bool>>,
}

/// Progress of [`PersistentMem::seal_some`]; the default is the state before the first step.
#[derive(Default)]
pub(crate) struct Progress {
    /// The memory and the channel number in it.
    of: Option<(usize, u64)>,
    /// The CPU being sealed, or the next one.
    cpu: u64,
    sealing: Option<Sealing>,
    /// Number of bytes flushed from caches to memory, after all CPUs have seals.
    flushed: usize,
}

impl PersistentMem {
    /// Erases the old data of a half and prepares it for a new channel, without a header yet.
    ///
    /// Context: process; sleeps. Errors: -EINVAL if `header` and `format` do not fit, -ENOMEM,
    /// -EINTR if the task is being killed.
    pub(crate) fn new(half: Half, header: &Header, format: &[u8]) -> Result<Self> {
        let layout = header.layout().ok_or(EINVAL)?;
        let fits = usize::try_from(header.bytes)? == half.0.len();
        if !fits || usize::try_from(header.format_bytes)? != format.len() {
            return Err(EINVAL);
        }
        half.clear()?;
        let mut given = KVec::new();
        for _ in 0..layout.cpus() {
            given.push(Atomic::new(false), GFP_KERNEL)?;
        }
        // INVARIANT: By the invariant of `Half` the memory has no other owner, and no buffer has
        // been given out.
        let new = Self {
            memory: half.0,
            layout,
            opening: header.opening,
            given,
        };
        new.put(layout.format_at(), format);
        Ok(new)
    }

    /// Writes the header: from it the next boot finds the channel. Called as the last step, after
    /// which nothing can fail.
    pub(crate) fn publish(&self, header: &Header) {
        let copy = header.encode();
        (0..)
            .step_by(COPY_BYTES)
            .take(COPIES)
            .for_each(|at| self.put(at, &copy));
    }

    fn put(&self, at: u64, bytes: &[u8]) {
        let mut at = at;
        for bytes in bytes.chunks(8) {
            let mut word = [0; 8];
            for (to, byte) in word.iter_mut().zip(bytes) {
                *to = *byte;
            }
            self.store(at, u64::from_le_bytes(word));
            at += 8;
        }
    }

    /// Returns the memory of a CPU's buffer, zeroed, for the caller's exclusive use.
    ///
    /// Errors: -EBUSY if it has been given out before, -EINVAL if the CPU has no place, -ENOMEM.
    pub(crate) fn buffer(&self, cpu: CpuId) -> Result<PageBuf> {
        let given = self.given.get(usize::try_from(cpu.get())?);
        let given = given.ok_or(EINVAL)?;
        let at = usize::try_from(self.layout.ctl_at(u64::from(cpu.get())))?;
        let bytes = usize::try_from(self.layout.buffer_bytes())?;
        let part = PageBuf::part(&self.memory, at, bytes)?;
        match given.xchg(true, Full) {
            false => Ok(part),
            true => Err(EBUSY),
        }
    }

    /// Returns true if no record has been written.
    pub(crate) fn is_blank(&self) -> bool {
        let mut cpus = 0..self.layout.cpus();
        // The position is the first word of a control page.
        cpus.all(|cpu| self.load(self.layout.ctl_at(cpu)) == 0)
    }

    /// Erases the header: the next boot does not find this channel.
    pub(crate) fn erase(&self) {
        let blank = [0; COPY_BYTES];
        let copies = (0..).step_by(COPY_BYTES).take(COPIES);
        copies.for_each(|at| self.put(at, &blank));
    }

    /// Runs the next step of sealing: computes checksums of the written data, then flushes
    /// everything to memory. Split into steps, as the memory may have gigabytes. Returns true if
    /// there is more to do.
    ///
    /// Context: any. `progress` is new, or was passed to the previous step. If it belongs to
    /// another channel, this does nothing.
    pub(crate) fn seal_some(&self, progress: &mut Progress, reason: Reason) -> bool {
        let this = (self.memory.base().addr().get(), self.opening);
        if *progress.of.get_or_insert(this) != this {
            return false;
        }
        let Some(given) = usize::try_from(progress.cpu)
            .ok()
            .and_then(|cpu| self.given.get(cpu))
        else {
            return self.flush_some(progress);
        };
        if !given.load(Relaxed) {
            progress.cpu += 1;
            return true;
        }
        let sealing = progress
            .sealing
            .get_or_insert_with(|| Sealing::begin(self, &self.layout, progress.cpu, reason));
        if sealing.step(self, &self.layout) {
            progress.sealing = None;
            progress.cpu += 1;
        }
        true
    }

    /// Flushes a part from caches to memory. Returns true if there is more.
    fn flush_some(&self, progress: &mut Progress) -> bool {
        const STEP: usize = 1 << 16;
        let rest = self.memory.len().saturating_sub(progress.flushed);
        let some = rest.min(STEP);
        let start = self.memory.base().as_ptr().wrapping_add(progress.flushed);
        // SAFETY: These bytes of the memory are mapped there, as long as this object has it.
        unsafe { bindings::relay_fast_flush(start.cast(), some) };
        progress.flushed += some;
        some < rest
    }
}

impl Memory for PersistentMem {
    fn load(&self, at: u64) -> u64 {
        let at = usize::try_from(at).ok();
        at.and_then(|at| self.memory.load(at)).unwrap_or(0)
    }
}

impl MemoryMut for PersistentMem {
    fn store(&self, at: u64, word: u64) {
        let Some(place) = usize::try_from(at)
            .ok()
            .filter(|_| !self.layout.is_of_buffer(at))
        else {
            return;
        };
        // SAFETY: It is outside of the buffers, where by the type invariant only this object
        // writes, and readers validate all they read.
        unsafe { self.memory.store(place, word) };
    }
}

/// Registration that calls `relay_fast_dump()`. Unregisters when dropped.
pub(crate) struct Dumper(());

impl Dumper {
    /// Registers for panics, restarts and halts. Errors: -EBUSY if already registered.
    pub(crate) fn register() -> Result<Self> {
        // SAFETY: `exports.rs` has the function that is called, as long as this module is loaded;
        // the module drops this object before it is unloaded.
        to_result(unsafe { bindings::relay_fast_dump_register() })?;
        Ok(Self(()))
    }
}

impl Drop for Dumper {
    fn drop(&mut self) {
        // SAFETY: It was registered. This waits for a call that is in progress.
        unsafe { bindings::relay_fast_dump_unregister() };
    }
}
