// SPDX-License-Identifier: GPL-2.0

//! Memory of fast relay buffers, and the writer's fast path (`ring/record.rs`).
//!
//! A buffer is a [`RingMem`]: the control page, the reader's page, and the data, as in
//! `<linux/ferrotrace_relay.h>`. [`RingSlots`] points each CPU to its own buffer. Only that CPU
//! changes the words of the control page, through [`OpenRecord`] and [`RingMem::refresh_limit`].
//!
//! Contexts: allocation in process context; writing in any, NMI included. No locks.

use core::mem::offset_of;
use core::ptr::NonNull;

use ferro_fast_relay_core::ring::Header;
use ferro_fast_relay_core::ring::LocalWords;
use ferro_fast_relay_core::ring::Padding;
use ferro_fast_relay_core::ring::Ring;
use ferro_fast_relay_core::ring::Run;
use ferro_fast_relay_core::ring::Sample;
use ferro_fast_relay_core::ring::Word;
use ferro_fast_relay_core::ring::Words;
use ferro_fast_relay_core::ring::HEADER_BYTES;
use ferro_fast_relay_core::ring::PADDING;
use ferro_sys::bindings;
use ferro_sys::cpu;
use ferro_sys::cpu::percpu::PerCpuPtr;
use ferro_sys::cpu::task::cond_resched_killable;
use ferro_sys::cpu::CpuId;
use ferro_sys::cpu::HotplugOff;
use ferro_sys::mm::pages::MemRange;
use ferro_sys::mm::pages::PageBuf;
use ferro_sys::mm::pages::PageRef;
use ferro_sys::sync::refcounted::Shared;
use kernel::page::PAGE_SIZE;
use kernel::prelude::*;
use kernel::sync::aref::ARef;
use kernel::sync::atomic::Acquire;
use kernel::sync::atomic::Atomic;
use kernel::sync::atomic::Relaxed;
use kernel::sync::atomic::Release;
use kernel::sync::barrier;
use kernel::sync::SetOnce;

use crate::raw::persistent::PersistentMem;

mod record;

pub(crate) use record::Data;
pub(crate) use record::Lost;
pub(crate) use record::OpenRecord;

/// `struct relay_fast_ctl`.
pub(crate) type Ctl = bindings::relay_fast_ctl;
type Consumer = bindings::relay_fast_consumer;

const CONSUMER: usize = bindings::RELAY_FAST_CONSUMER as usize;
const DATA: usize = bindings::RELAY_FAST_DATA as usize;

static_assert!(offset_of!(Ctl, reserve) == 0);
static_assert!(size_of::<Ctl>() <= CONSUMER && size_of::<Consumer>() <= PAGE_SIZE);
static_assert!(CONSUMER == PAGE_SIZE && DATA == 2 * PAGE_SIZE);
// `bindings.h` has the size according to the C compiler.
static_assert!(size_of::<Ctl>() == bindings::FERRO_SIZE_relay_fast_ctl as usize);
static_assert!(Word::CROWDED == bindings::RELAY_FAST_CROWDED as u64);

/// Operations on words that only the owning CPU changes and other CPUs read.
mod local {
    use core::arch::asm;

    /// Compare-and-exchange, atomic on this CPU; returns true if the word was `old`.
    ///
    /// # Safety
    ///
    /// `word` points to a word that only this CPU writes, and all others access with single loads.
    #[inline(always)]
    pub(super) unsafe fn exchange(word: *mut u64, old: u64, new: u64) -> bool {
        // SAFETY: By the rules of this function the word is valid and changes on this CPU only, so
        // an instruction without LOCK is atomic: an interruption occurs before or after it. It may
        // read and write memory for the compiler, which is the barrier.
        unsafe {
            asm!("cmpxchg [{word}], {new}", "jne {other}", word = in(reg) word,
                new = in(reg) new, inout("rax") old => _, other = label { return false },
                options(nostack))
        };
        true
    }

    /// Subtracts 1.
    ///
    /// # Safety
    ///
    /// As for [`exchange`].
    #[inline(always)]
    pub(super) unsafe fn decrement(word: *mut u64) {
        // SAFETY: By the rules of this function; one instruction is atomic on this CPU, as in
        // `exchange()`.
        unsafe { asm!("dec qword ptr [{word}]", word = in(reg) word, options(nostack)) };
    }

    /// Adds `n`.
    ///
    /// # Safety
    ///
    /// As for [`exchange`].
    #[inline(always)]
    pub(super) unsafe fn add(word: *mut u64, n: u64) {
        // SAFETY: By the rules of this function; one instruction is atomic on this CPU, as in
        // `exchange()`.
        unsafe { asm!("add [{word}], {n}", word = in(reg) word, n = in(reg) n, options(nostack)) };
    }
}

/// Returns a word of a [`RingMem`]'s control page as an atomic.
macro_rules! ctl_word {
    ($memory:expr, $field:ident) => {
        // SAFETY: By the type invariant the control page is valid as long as the memory is
        // borrowed. All code accesses its words with single loads and stores, or, on the one CPU
        // that writes them, with instructions that are atomic there.
        unsafe { Atomic::from_ptr(&raw mut (*RingMem::ctl(&$memory).as_ptr()).$field) }
    };
}

/// A word of a [`RingMem`]'s page of the reader.
macro_rules! reader_word {
    ($memory:expr, $field:ident) => {
        // SAFETY: By the type invariant the reader's page is valid as long as the memory is
        // borrowed. The kernel and user space access its words with single loads and stores, or
        // atomically.
        unsafe { Atomic::from_ptr(&raw mut (*RingMem::consumer(&$memory)).$field) }
    };
}

/// Memory of one CPU's buffer.
///
/// # Invariants
///
/// The control page, the reader's page and the data of `ring` follow each other in `memory`; `mask`
/// of the control page matches the data and does not change. Only `cpu` writes to the words of the
/// control page, except for `closed`.
pub(crate) struct RingMem {
    memory: PageBuf,
    ring: Ring,
    cpu: CpuId,
    /// Start of the newest padding in each sub-buffer. Written by `cpu` before the data after the
    /// padding are complete.
    padded: KVVec<Atomic<u64>>,
}

impl RingMem {
    /// Allocates the buffer of `cpu`, empty.
    ///
    /// Context: process. Errors: -ENOMEM, -EINTR if the task is being killed.
    pub(crate) fn new(ring: Ring, cpu: CpuId) -> Result<Self> {
        let size = usize::try_from(ring.size())?;
        Self::in_zeroed(
            PageBuf::new(size.checked_add(DATA).ok_or(EINVAL)?)?,
            ring,
            cpu,
        )
    }

    /// Takes the memory for the buffer of `cpu` from a persistent channel. It is empty.
    ///
    /// Context: process. Errors: as for [`PersistentMem::buffer`]; -EINVAL if it is too short.
    pub(crate) fn persistent(ring: Ring, cpu: CpuId, memory: &PersistentMem) -> Result<Self> {
        Self::in_zeroed(memory.buffer(cpu)?, ring, cpu)
    }

    /// Makes the buffer of `cpu` in zeroed memory that has no other user.
    fn in_zeroed(memory: PageBuf, ring: Ring, cpu: CpuId) -> Result<Self> {
        let size = usize::try_from(ring.size())?;
        if memory.len() < size.checked_add(DATA).ok_or(EINVAL)? {
            return Err(EINVAL);
        }
        let flags = match ring.overwrites() {
            true => bindings::RELAY_FAST_OVERWRITE,
            false => 0,
        };
        // SAFETY: There are `DATA` bytes before the ring's, which the control page fits in, as
        // checked above; it is aligned to a page. The callers have just allocated it, or got it
        // from `PersistentMem::buffer()`, which gives it once: it has no other user.
        unsafe {
            memory.base().cast::<Ctl>().write(Ctl {
                mask: ring.size() - 8,
                magic: bindings::RELAY_FAST_MAGIC,
                version: bindings::RELAY_FAST_VERSION,
                cpu: cpu.get(),
                flags,
                subbuf_size: ring.subbuf_size(),
                n_subbufs: ring.n_subbufs(),
                ..pin_init::zeroed()
            })
        };
        let n_subbufs = usize::try_from(ring.n_subbufs())?;
        let mut padded = KVVec::with_capacity(n_subbufs, GFP_KERNEL | __GFP_NOWARN)?;
        for _ in 0..n_subbufs {
            cond_resched_killable()?;
            padded.push(Atomic::new(0u64), GFP_KERNEL)?;
        }
        // INVARIANT: Just written. The words are only written through `Local`.
        Ok(Self {
            memory,
            ring,
            cpu,
            padded,
        })
    }

    /// Returns the sizes.
    pub(crate) fn ring(&self) -> &Ring {
        &self.ring
    }

    /// Returns the number of bytes that can be mapped.
    pub(crate) fn len(&self) -> usize {
        self.memory.len()
    }

    /// Returns true if this part of a mapping is exactly the reader's page; `first` is a page
    /// number.
    pub(crate) fn is_consumer_page(&self, first: usize, bytes: usize) -> bool {
        first == CONSUMER / PAGE_SIZE && bytes == PAGE_SIZE
    }

    /// Returns the page with this index, for a page table.
    pub(crate) fn page(&self, index: usize) -> Option<PageRef> {
        self.memory.page(index)
    }

    /// Returns data at a position, or `None` if they reach past the end of the buffer.
    pub(crate) fn data(&self, position: u64, bytes: u64) -> Option<MemRange<'_>> {
        let start = usize::try_from(self.ring.offset(position)).ok()?;
        let len = usize::try_from(bytes).ok()?;
        self.memory.range(start.checked_add(DATA)?, len)
    }

    /// Returns the header of the record at a position, for a reader. The value is garbage if the
    /// writer has overtaken the reader.
    pub(crate) fn header(&self, position: u64) -> Option<Header> {
        let word = self.data(position & !7, HEADER_BYTES)?.as_ptr();
        // SAFETY: `data()` has checked that 8 bytes from there are inside of the memory, which
        // `self` keeps. The position is a multiple of 8, so they are aligned, as the data is. Any
        // bytes are a `u64`; the writer may be changing them.
        let word = unsafe { word.cast::<u64>().read_volatile() };
        Some(Header::from_word(word))
    }

    fn ctl(&self) -> NonNull<Ctl> {
        self.memory.base().cast()
    }

    fn consumer(&self) -> *mut Consumer {
        // SAFETY: By the type invariant the reader's page is in the memory, at this offset.
        unsafe { self.memory.base().byte_add(CONSUMER).cast().as_ptr() }
    }

    /// Returns the number of lost records.
    pub(crate) fn lost(&self) -> u64 {
        ctl_word!(self, lost).load(Relaxed)
    }

    /// Tells readers that no more data will arrive.
    pub(crate) fn set_closed(&self) {
        ctl_word!(self, closed).store(1, Release);
    }

    /// Returns true if [`RingMem::set_closed`] has been called.
    pub(crate) fn is_closed(&self) -> bool {
        ctl_word!(self, closed).load(Acquire) != 0
    }

    /// Moves a reader's position from `old` to `new`. Returns false if another reader was faster.
    pub(crate) fn set_consumed(&self, old: u64, new: u64) -> bool {
        reader_word!(self, consumed)
            .cmpxchg(old, new, Release)
            .is_ok()
    }

    /// Calls [`Ring::next_run`] with the current state.
    pub(crate) fn next_run(&self, position: u64) -> (u64, Option<Run>) {
        self.ring.next_run(Sample::new(self), position, |index| {
            self.padded
                .get(index)
                .map_or(0, |padded| padded.load(Relaxed))
        })
    }

    /// Returns true if the data after `position` were not overwritten while they were read.
    pub(crate) fn is_kept(&self, position: u64) -> bool {
        // Orders the reads of the data before the load of the position.
        barrier::smp_mb(barrier::Read);
        self.ring.kept(self.reserve().position()) <= position
    }

    /// Calls [`Ring::is_due`].
    pub(crate) fn is_due(&self) -> bool {
        self.ring.is_due(self)
    }

    /// Makes the writer's CPU update the limit, if it would otherwise pass the reader's wake-up
    /// point unnoticed ([`Ring::limit_is_late`]).
    ///
    /// Context: process; sleeps. Not from a CPU hotplug callback.
    pub(crate) fn refresh_limit(&self) {
        if !self.ring.limit_is_late(self) {
            return;
        }
        // In a thread of the writer's CPU: at that time no task there has half reserved a record
        // with the old limit.
        HotplugOff::new().call_on(self.cpu, &|| {
            // SAFETY: `call_on()` calls this in a thread of that CPU, which stays there; or the CPU
            // is offline, and stays so while `HotplugOff` exists. The buffer has no other CPU.
            self.ring.refresh_limit(&unsafe { Local::new(self) });
        });
    }
}

impl RingMem {
    /// Commits a complete record of this buffer, on the buffer's CPU.
    ///
    /// Context: process; sleeps. Not from a CPU hotplug callback.
    fn commit_on_its_cpu(&self) {
        HotplugOff::new().call_on(self.cpu, &|| {
            // SAFETY: `call_on()` calls this in a thread of that CPU, which stays there; or the CPU
            // is offline, and stays so while `HotplugOff` exists. The buffer has no other CPU.
            self.ring.commit(&unsafe { Local::new(self) });
        });
    }
}

impl Words for RingMem {
    fn reserve(&self) -> Word {
        let word = ctl_word!(self, reserve);
        // Acquire: a reader sees the data written before a record was committed, or the position
        // moved.
        Word(word.load(Acquire))
    }

    fn limit(&self) -> u64 {
        ctl_word!(self, limit).load(Relaxed)
    }

    fn committed(&self) -> u64 {
        ctl_word!(self, committed).load(Acquire)
    }

    fn stalled(&self) -> u64 {
        ctl_word!(self, stalled).load(Relaxed)
    }

    fn consumed(&self) -> u64 {
        reader_word!(self, consumed).load(Acquire)
    }

    fn watermark(&self) -> u64 {
        reader_word!(self, watermark).load(Relaxed)
    }
}

/// Words of a buffer, for the CPU that writes it.
///
/// # Invariants
///
/// As long as the object is used, this runs on that CPU, without leaving it, or nothing else runs
/// there.
struct Local<'a>(&'a RingMem);

impl<'a> Local<'a> {
    /// # Safety
    ///
    /// As long as the object is used, this runs on the CPU that the buffer is for, or nothing runs
    /// there.
    #[inline(always)]
    unsafe fn new(memory: &'a RingMem) -> Self {
        // INVARIANT: By the rules of this function.
        Self(memory)
    }
}

impl Words for Local<'_> {
    fn reserve(&self) -> Word {
        self.0.reserve()
    }

    fn limit(&self) -> u64 {
        self.0.limit()
    }

    fn committed(&self) -> u64 {
        self.0.committed()
    }

    fn stalled(&self) -> u64 {
        self.0.stalled()
    }

    fn consumed(&self) -> u64 {
        self.0.consumed()
    }

    fn watermark(&self) -> u64 {
        self.0.watermark()
    }
}

impl LocalWords for Local<'_> {
    fn exchange(&self, old: Word, new: Word) -> Result<(), Word> {
        let ctl = self.0.ctl().as_ptr();
        // SAFETY: The word is in the memory, which is borrowed; by the invariants of both types
        // only this CPU writes it.
        match unsafe { local::exchange(&raw mut (*ctl).reserve, old.0, new.0) } {
            true => Ok(()),
            false => Err(self.reserve()),
        }
    }

    fn set_limit(&self, limit: u64) {
        ctl_word!(self.0, limit).store(limit, Relaxed);
    }

    fn exchange_committed(&self, old: u64, new: u64) -> bool {
        let ctl = self.0.ctl().as_ptr();
        // SAFETY: The word is in the memory, which is borrowed; by the invariants of both types
        // only this CPU writes it. The instruction is ordered after all stores before it, for the
        // compiler and for the CPU.
        unsafe { local::exchange(&raw mut (*ctl).committed, old, new) }
    }

    fn set_stalled(&self, stalled: u64) {
        ctl_word!(self.0, stalled).store(stalled, Relaxed);
    }

    fn add_lost(&self) {
        // SAFETY: The word is in the memory, which is borrowed; by the invariants of both types
        // only this CPU writes it.
        unsafe { local::add(&raw mut (*self.0.ctl().as_ptr()).lost, 1) };
    }

    fn add_overwritten(&self, bytes: u64) {
        // SAFETY: The word is in the memory, which is borrowed; by the invariants of both types
        // only this CPU writes it.
        unsafe { local::add(&raw mut (*self.0.ctl().as_ptr()).overwritten, bytes) };
    }

    fn pad(&self, padding: Padding) {
        let filler = Header {
            // Padding is shorter than a sub-buffer, and has at least the room of a header.
            len: u32::try_from(padding.bytes.saturating_sub(HEADER_BYTES)).unwrap_or(0),
            kind: 0,
            flags: PADDING,
        };
        if let Some(place) = self.0.data(padding.start, HEADER_BYTES) {
            let place = place.as_ptr().cast_mut().cast::<u64>();
            // SAFETY: `data()` has checked that 8 bytes from there are inside of the memory, and
            // positions of padding are multiples of 8. The ring calls this for the writer that has
            // reserved the record after the padding, on this CPU, by the invariant of `Local`, and
            // there is no other writer to these bytes.
            unsafe { place.write_volatile(filler.to_word()) };
        }
        if let Some(padded) = self.0.padded.get(self.0.ring.index(padding.start)) {
            padded.store(padding.start, Relaxed);
        }
    }

    fn fence(&self) {
        barrier::smp_mb(barrier::Full);
    }
}

/// Control page for CPUs without a buffer. Its limit lets no record pass.
#[repr(transparent)]
struct NoBuffer(Ctl);
// SAFETY: It is all zeros and never written: no record passes a limit of 0, so the exchange in
// `OpenRecord::reserve()` and in the header's inline function is not reached.
unsafe impl Sync for NoBuffer {}
static NO_BUFFER: NoBuffer = NoBuffer(pin_init::zeroed());

/// Buffers of the CPUs.
///
/// # Invariants
///
/// Each slot points to [`NO_BUFFER`] or to the memory in `memory` of that CPU, which is kept.
#[repr(C)]
pub(crate) struct RingSlots {
    // First, as C code expects it there.
    slots: PerCpuPtr<Ctl>,
    memory: KVec<SetOnce<ARef<Shared<RingMem>>>>,
}

impl RingSlots {
    /// Creates slots without buffers.
    ///
    /// Context: process. Errors: -ENOMEM.
    pub(crate) fn new() -> Result<Self> {
        let slots = PerCpuPtr::new()?;
        let mut memory = KVec::new();
        for cpu in cpu::possible() {
            slots
                .slot(cpu)
                .store((&raw const NO_BUFFER.0).cast_mut(), Relaxed);
            while memory.len() <= usize::try_from(cpu.get())? {
                memory.push(SetOnce::new(), GFP_KERNEL)?;
            }
        }
        // INVARIANT: Just stored.
        Ok(Self { slots, memory })
    }

    /// Returns the memory of a CPU's buffer. Context: any.
    pub(crate) fn memory(&self, cpu: CpuId) -> Option<&RingMem> {
        let index = usize::try_from(cpu.get()).ok()?;
        Some(self.memory.get(index)?.as_ref()?)
    }

    /// Publishes the buffer to its CPU, permanently, unless the CPU already has one.
    pub(crate) fn publish(&self, memory: ARef<Shared<RingMem>>) {
        let (ctl, cpu) = (memory.ctl(), memory.cpu);
        let index = usize::try_from(cpu.get()).unwrap_or(usize::MAX);
        if self
            .memory
            .get(index)
            .is_some_and(|slot| slot.populate(memory))
        {
            // INVARIANT: `memory` has it now, and does not give it up.
            self.slots.slot(cpu).store(ctl.as_ptr(), Release);
        }
    }
}
