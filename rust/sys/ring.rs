// SPDX-License-Identifier: GPL-2.0

//! The memory of fast relay buffers, and the writer's fast path (`ring/record.rs`).
//!
//! A buffer is [`RingMem`]: the control page, the reader's page, and the data, as
//! `<linux/ferrotrace_relay.h>` has them. [`RingSlots`] tells each CPU which is its own. Only that CPU
//! changes the words of the control page: there is no other way to do so than [`OpenRecord`] and
//! [`RingMem::look_after`].
//!
//! Contexts: allocation in process context; writing in any, NMI included. No locks.

use core::mem::offset_of;
use core::ptr::NonNull;

use ferro_core::ring::Header;
use ferro_core::ring::LocalWords;
use ferro_core::ring::Padding;
use ferro_core::ring::Ring;
use ferro_core::ring::Run;
use ferro_core::ring::Sample;
use ferro_core::ring::Word;
use ferro_core::ring::Words;
use ferro_core::ring::HEADER_BYTES;
use ferro_core::ring::PADDING;
use kernel::bindings;
use kernel::page::PAGE_SIZE;
use kernel::prelude::*;
use kernel::sync::aref::ARef;
use kernel::sync::atomic::Acquire;
use kernel::sync::atomic::Atomic;
use kernel::sync::atomic::Relaxed;
use kernel::sync::atomic::Release;
use kernel::sync::barrier;
use kernel::sync::SetOnce;

use crate::cpu;
use crate::cpu::percpu::PerCpuPtr;
use crate::cpu::task::breathe;
use crate::cpu::CpuId;
use crate::cpu::HotplugOff;
use crate::mm::pages::MemRange;
use crate::mm::pages::PageBuf;
use crate::mm::pages::PageRef;
use crate::sync::counted::Shared;

mod record;

pub use record::Lost;
pub use record::OpenRecord;

/// `struct relay_fast_ctl`.
pub type Ctl = bindings::relay_fast_ctl;
type Consumer = bindings::relay_fast_consumer;

const CONSUMER: usize = bindings::RELAY_FAST_CONSUMER as usize;
const DATA: usize = bindings::RELAY_FAST_DATA as usize;

static_assert!(offset_of!(Ctl, reserve) == 0);
static_assert!(size_of::<Ctl>() <= CONSUMER && size_of::<Consumer>() <= PAGE_SIZE);
static_assert!(CONSUMER == PAGE_SIZE && DATA == 2 * PAGE_SIZE);
static_assert!(size_of::<Ctl>() == bindings::FERRO_SIZE_relay_fast_ctl as usize);
static_assert!(Word::CROWDED == bindings::RELAY_FAST_CROWDED as u64);

/// Words that the CPU changes which owns them, and others look at.
mod local {
    use core::arch::asm;

    /// Compare-and-exchange, atomic on this CPU; whether the word was `old`.
    ///
    /// # Safety
    ///
    /// `word` points to a word that only this CPU writes.
    #[inline(always)]
    pub(super) unsafe fn exchange(word: *mut u64, old: u64, new: u64) -> bool {
        // SAFETY: By the rules of this function. An interruption comes before or after the
        // instruction. It may read and write memory for the compiler, which is the barrier.
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
        // SAFETY: As above.
        unsafe { asm!("dec qword ptr [{word}]", word = in(reg) word, options(nostack)) };
    }

    /// Adds.
    ///
    /// # Safety
    ///
    /// As for [`exchange`].
    #[inline(always)]
    pub(super) unsafe fn add(word: *mut u64, n: u64) {
        // SAFETY: As above.
        unsafe { asm!("add [{word}], {n}", word = in(reg) word, n = in(reg) n, options(nostack)) };
    }
}

/// The memory of one CPU's buffer.
///
/// # Invariants
///
/// The control page, the reader's page and the data of `ring` follow each other in `memory`; `mask` of
/// the control page is that of the data and does not change. Only `cpu` writes to the words of the control page,
/// except for `closed`.
pub struct RingMem {
    memory: PageBuf,
    ring: Ring,
    cpu: CpuId,
    /// Where the last padding of each sub-buffer started. Written by `cpu` before what is behind it is complete.
    padded: KVVec<Atomic<u64>>,
}

impl RingMem {
    /// Allocates the buffer of `cpu`, empty.
    ///
    /// Context: process. Errors: -ENOMEM, -EINTR if the task is being killed.
    pub fn new(ring: Ring, cpu: CpuId) -> Result<Self> {
        let size = usize::try_from(ring.size())?;
        let memory = PageBuf::new(size.checked_add(DATA).ok_or(EINVAL)?)?;
        let flags = match ring.overwrites() {
            true => bindings::RELAY_FAST_OVERWRITE,
            false => 0,
        };
        // SAFETY: Just allocated, large enough, and nobody else knows of it.
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
            breathe()?;
            padded.push(Atomic::new(0u64), GFP_KERNEL)?;
        }
        // INVARIANT: Just written. Nobody gets at the words but by `Local`.
        Ok(Self {
            memory,
            ring,
            cpu,
            padded,
        })
    }

    /// The sizes.
    pub fn ring(&self) -> &Ring {
        &self.ring
    }

    /// Bytes that can be mapped.
    pub fn len(&self) -> usize {
        self.memory.len()
    }

    /// Whether there is no memory; never.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// Whether this part of a mapping, in pages, is exactly the reader's page.
    pub fn is_consumer_page(&self, first: usize, bytes: usize) -> bool {
        first == CONSUMER / PAGE_SIZE && bytes == PAGE_SIZE
    }

    /// The page with this index, for a page table.
    pub fn page(&self, index: usize) -> Option<PageRef> {
        self.memory.page(index)
    }

    /// Data at a position, if it does not go past the end of the buffer.
    pub fn data(&self, position: u64, bytes: u64) -> Option<MemRange<'_>> {
        let start = usize::try_from(self.ring.offset(position)).ok()?;
        let len = usize::try_from(bytes).ok()?;
        self.memory.range(start.checked_add(DATA)?, len)
    }

    /// The header of the record at a position, for a reader. It is garbage if the writer has overtaken it.
    pub fn header(&self, position: u64) -> Option<Header> {
        let word = self.data(position & !7, HEADER_BYTES)?.as_ptr();
        // SAFETY: All of it is inside of the data, as just checked, and aligned, as the data is.
        let word = unsafe { word.cast::<u64>().read_volatile() };
        Some(Header::from_word(word))
    }

    fn ctl(&self) -> NonNull<Ctl> {
        self.memory.base().cast()
    }

    fn consumer(&self) -> *mut Consumer {
        // SAFETY: By the type invariant the page is there.
        unsafe { self.memory.base().byte_add(CONSUMER).cast().as_ptr() }
    }

    fn word(&self, field: impl FnOnce(*mut Ctl) -> *mut u64) -> &Atomic<u64> {
        // SAFETY: A field of the control page, which everybody accesses with single loads and
        // stores, or with instructions that are atomic on the one CPU that writes it.
        unsafe { Atomic::from_ptr(field(self.ctl().as_ptr())) }
    }

    fn reader_word(&self, field: impl FnOnce(*mut Consumer) -> *mut u64) -> &Atomic<u64> {
        // SAFETY: A field of the reader's page, accessed with single loads and stores.
        unsafe { Atomic::from_ptr(field(self.consumer())) }
    }

    /// Records lost so far.
    pub fn lost(&self) -> u64 {
        // SAFETY: A field of the page.
        self.word(|ctl| unsafe { &raw mut (*ctl).lost })
            .load(Relaxed)
    }

    /// Tells readers that nothing will come any more.
    pub fn set_closed(&self) {
        // SAFETY: A field of the page.
        self.word(|ctl| unsafe { &raw mut (*ctl).closed })
            .store(1, Release);
    }

    /// Whether [`RingMem::set_closed`] has been called.
    pub fn is_closed(&self) -> bool {
        // SAFETY: A field of the page.
        self.word(|ctl| unsafe { &raw mut (*ctl).closed })
            .load(Acquire)
            != 0
    }

    /// A reader has come from `old` to `new`. False if another one was faster.
    pub fn set_consumed(&self, old: u64, new: u64) -> bool {
        // SAFETY: A field of the page.
        self.reader_word(|page| unsafe { &raw mut (*page).consumed })
            .cmpxchg(old, new, Release)
            .is_ok()
    }

    /// [`Ring::next_run`] of what there is now.
    pub fn next_run(&self, position: u64) -> (u64, Option<Run>) {
        self.ring.next_run(Sample::new(self), position, |index| {
            self.padded
                .get(index)
                .map_or(0, |padded| padded.load(Relaxed))
        })
    }

    /// Whether the data behind `position` has not been overwritten while it was looked at.
    pub fn is_kept(&self, position: u64) -> bool {
        // The look at the data comes first.
        barrier::smp_mb(barrier::Read);
        self.ring.kept(self.reserve().position()) <= position
    }

    /// [`Ring::is_due`].
    pub fn is_due(&self) -> bool {
        self.ring.is_due(self)
    }

    /// Lets the writer's CPU see to it that it does not pass unnoticed what the reader waits for
    /// ([`Ring::limit_is_late`]), if it would.
    ///
    /// Context: process; sleeps. Not from a CPU hotplug callback.
    pub fn look_after(&self) {
        if !self.ring.limit_is_late(self) {
            return;
        }
        // In a thread of the writer's CPU: no record of a task is half reserved there meanwhile, with the limit
        // that this replaces.
        HotplugOff::new().call_on(self.cpu, &|| {
            // INVARIANT: This runs on that CPU, which does not leave the thread meanwhile; or the CPU is offline, and
            // stays so while `HotplugOff` is there.
            self.ring.look_after(&Local(self));
        });
    }
}

impl RingMem {
    /// Counts out a record of this buffer, which is complete, on the CPU that writes it.
    ///
    /// Context: process; sleeps. Not from a CPU hotplug callback.
    fn count_out(&self) {
        HotplugOff::new().call_on(self.cpu, &|| {
            // INVARIANT: As in `look_after()`.
            self.ring.commit(&Local(self));
        });
    }
}

impl Words for RingMem {
    fn reserve(&self) -> Word {
        // SAFETY: A field of the page.
        let word = self.word(|ctl| unsafe { &raw mut (*ctl).reserve });
        // Acquire: a reader sees what was written before a record was counted out, or the position
        // moved.
        Word(word.load(Acquire))
    }

    fn limit(&self) -> u64 {
        // SAFETY: A field of the page.
        self.word(|ctl| unsafe { &raw mut (*ctl).limit })
            .load(Relaxed)
    }

    fn committed(&self) -> u64 {
        // SAFETY: A field of the page.
        self.word(|ctl| unsafe { &raw mut (*ctl).committed })
            .load(Acquire)
    }

    fn stalled(&self) -> u64 {
        // SAFETY: A field of the page.
        self.word(|ctl| unsafe { &raw mut (*ctl).stalled })
            .load(Relaxed)
    }

    fn consumed(&self) -> u64 {
        // SAFETY: A field of the page.
        self.reader_word(|page| unsafe { &raw mut (*page).consumed })
            .load(Acquire)
    }

    fn watermark(&self) -> u64 {
        // SAFETY: A field of the page.
        self.reader_word(|page| unsafe { &raw mut (*page).watermark })
            .load(Relaxed)
    }
}

/// The words of a buffer, for the CPU that writes it.
///
/// # Invariants
///
/// This runs on that CPU, which it does not leave, or nothing else runs there; as long as the object is used.
struct Local<'a>(&'a RingMem);

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
        // SAFETY: A word that only this CPU writes, by the invariants of both types.
        match unsafe { local::exchange(&raw mut (*ctl).reserve, old.0, new.0) } {
            true => Ok(()),
            false => Err(self.reserve()),
        }
    }

    fn set_limit(&self, limit: u64) {
        // SAFETY: A field of the page.
        self.0
            .word(|ctl| unsafe { &raw mut (*ctl).limit })
            .store(limit, Relaxed);
    }

    fn exchange_committed(&self, old: u64, new: u64) -> bool {
        let ctl = self.0.ctl().as_ptr();
        // SAFETY: A word that only this CPU writes, by the invariants of both types. It comes after all stores
        // before it, for the compiler and for the CPU.
        unsafe { local::exchange(&raw mut (*ctl).committed, old, new) }
    }

    fn set_stalled(&self, stalled: u64) {
        // SAFETY: A field of the page.
        self.0
            .word(|ctl| unsafe { &raw mut (*ctl).stalled })
            .store(stalled, Relaxed);
    }

    fn add_lost(&self) {
        // SAFETY: A word that only this CPU writes, by the invariants of both types.
        unsafe { local::add(&raw mut (*self.0.ctl().as_ptr()).lost, 1) };
    }

    fn add_overwritten(&self, bytes: u64) {
        // SAFETY: A word that only this CPU writes, by the invariants of both types.
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
            // SAFETY: Inside of the data, as just checked, and aligned, as positions are. The padding belongs to
            // whoever has reserved the record behind it, which is who calls this.
            unsafe { place.write(filler.to_word()) };
        }
        if let Some(padded) = self.0.padded.get(self.0.ring.index(padding.start)) {
            padded.store(padding.start, Relaxed);
        }
    }

    fn fence(&self) {
        barrier::smp_mb(barrier::Full);
    }
}

/// What a CPU without a buffer writes to: nothing passes its limit.
#[repr(transparent)]
struct NoBuffer(Ctl);
// SAFETY: Nobody writes it.
unsafe impl Sync for NoBuffer {}
static NO_BUFFER: NoBuffer = NoBuffer(pin_init::zeroed());

/// The buffers that the CPUs write to.
///
/// # Invariants
///
/// Each slot points to [`NO_BUFFER`] or to the memory in `memory` of that CPU, which is kept.
#[repr(C)]
pub struct RingSlots {
    // First, as C code looks for it there.
    slots: PerCpuPtr<Ctl>,
    memory: KVec<SetOnce<ARef<Shared<RingMem>>>>,
}

impl RingSlots {
    /// No buffer for any CPU.
    ///
    /// Context: process. Errors: -ENOMEM.
    pub fn new() -> Result<Self> {
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

    /// The memory of a CPU's buffer. Context: any.
    pub fn memory(&self, cpu: CpuId) -> Option<&RingMem> {
        let index = usize::try_from(cpu.get()).ok()?;
        Some(self.memory.get(index)?.as_ref()?)
    }

    /// Lets the CPU that the buffer is for write to it, for good, unless it has another one.
    pub fn publish(&self, memory: ARef<Shared<RingMem>>) {
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
