// SPDX-License-Identifier: GPL-2.0

//! The memory of fast relay buffers, and the writer's fast path.
//!
//! A buffer is [`RingMem`]: the control page, the reader's page, and the data, as
//! `<linux/ferrotrace_relay.h>` has them. [`RingSlots`] tells each CPU which is its own.
//!
//! Contexts: allocation in process context; writing in any, NMI included. No locks.

use core::marker::PhantomData;
use core::mem::offset_of;
use core::ptr::NonNull;

use ferro_core::ring::Grant;
use ferro_core::ring::Header;
use ferro_core::ring::Refused;
use ferro_core::ring::Ring;
use ferro_core::ring::Word;
use ferro_core::ring::Words;
use ferro_core::ring::DISCARDED;
use ferro_core::ring::HEADER_BYTES;
use ferro_core::ring::MAX_NESTED_RESERVES;
use ferro_core::ring::PADDING;
use ferro_core::ring::TIMED;
use ferro_core::ring::TIME_BYTES;
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

use crate::counted::Shared;
use crate::cpu;
use crate::cpu::CpuId;
use crate::pages::MemRange;
use crate::pages::PageBuf;
use crate::pages::PageRef;
use crate::percpu::PerCpuPtr;
use crate::preempt::PreemptOff;
use crate::word;

/// `struct relay_fast_ctl`.
pub type Ctl = bindings::relay_fast_ctl;
type Consumer = bindings::relay_fast_consumer;

const CONSUMER: usize = bindings::RELAY_FAST_CONSUMER as usize;
const DATA: usize = bindings::RELAY_FAST_DATA as usize;

static_assert!(offset_of!(Ctl, reserve) == 0);
static_assert!(size_of::<Ctl>() <= CONSUMER && size_of::<Consumer>() <= PAGE_SIZE);
static_assert!(CONSUMER == PAGE_SIZE && DATA == 2 * PAGE_SIZE);
static_assert!(size_of::<Ctl>() == bindings::FERRO_SIZE_relay_fast_ctl as usize);

/// Words that the CPU changes which owns them, and others look at.
mod local {
    use core::arch::asm;
    use ferro_core::ring::Word;

    /// Compare-and-exchange, atomic on this CPU; whether the word was `old`.
    ///
    /// # Safety
    ///
    /// `word` points to a word that only this CPU writes.
    #[inline(always)]
    pub(super) unsafe fn exchange(word: *mut u64, old: Word, new: Word) -> bool {
        // SAFETY: By the rules of this function. An interruption comes before or after the
        // instruction. It may read and write memory for the compiler, which is the barrier.
        unsafe {
            asm!("cmpxchg [{word}], {new}", "jne {other}", word = in(reg) word,
                new = in(reg) new.0, inout("rax") old.0 => _, other = label { return false },
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
/// the control page is that of the data and does not change.
pub struct RingMem {
    memory: PageBuf,
    ring: Ring,
}

impl RingMem {
    /// Allocates the buffer of `cpu`, empty.
    ///
    /// Context: process. Errors: -ENOMEM.
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
        // INVARIANT: Just written.
        Ok(Self { memory, ring })
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

    /// Whether the last record was refused for want of a free sub-buffer.
    pub fn is_stalled(&self) -> bool {
        // SAFETY: A field of the page.
        self.word(|ctl| unsafe { &raw mut (*ctl).stalled })
            .load(Relaxed)
            != 0
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
}

impl Words for RingMem {
    fn reserve(&self) -> Word {
        // SAFETY: A field of the page.
        let word = self.word(|ctl| unsafe { &raw mut (*ctl).reserve });
        // Acquire: a reader sees what was written before a record was counted out, or the position
        // moved.
        Word(word.load(Acquire))
    }

    fn exchange(&self, old: Word, new: Word) -> Result<(), Word> {
        // SAFETY: The word of the CPU that this runs on, by the rules of `Words`.
        match unsafe { local::exchange(&raw mut (*self.ctl().as_ptr()).reserve, old, new) } {
            true => Ok(()),
            false => Err(self.reserve()),
        }
    }

    fn limit(&self) -> u64 {
        // SAFETY: A field of the page.
        self.word(|ctl| unsafe { &raw mut (*ctl).limit })
            .load(Relaxed)
    }

    fn set_limit(&self, limit: u64) {
        // SAFETY: A field of the page.
        self.word(|ctl| unsafe { &raw mut (*ctl).limit })
            .store(limit, Relaxed);
    }

    fn committed(&self) -> u64 {
        // SAFETY: A field of the page.
        self.word(|ctl| unsafe { &raw mut (*ctl).committed })
            .load(Acquire)
    }

    fn set_committed(&self, position: u64) {
        // SAFETY: A field of the page.
        self.word(|ctl| unsafe { &raw mut (*ctl).committed })
            .store(position, Release);
    }

    fn set_stalled(&self, stalled: bool) {
        // SAFETY: A field of the page.
        self.word(|ctl| unsafe { &raw mut (*ctl).stalled })
            .store(stalled.into(), Relaxed);
    }

    fn add_lost(&self) {
        // SAFETY: A word of the CPU that this runs on, by the rules of `Words`.
        unsafe { local::add(&raw mut (*self.ctl().as_ptr()).lost, 1) };
    }

    fn add_overwritten(&self, bytes: u64) {
        // SAFETY: As above.
        unsafe { local::add(&raw mut (*self.ctl().as_ptr()).overwritten, bytes) };
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

    /// Lets a CPU that has no buffer yet write to this one, for good.
    pub fn publish(&self, cpu: CpuId, memory: ARef<Shared<RingMem>>) {
        let ctl = memory.ctl();
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

/// A record that is being written, on the CPU that reserved it.
///
/// # Invariants
///
/// `ctl` is the control page of a buffer that outlives `'a`; `record` points to the record in its data, and
/// as many bytes from there as `header` asks for belong to this object, in one piece.
pub struct OpenRecord<'a> {
    ctl: NonNull<Ctl>,
    record: NonNull<u8>,
    header: Header,
    _preempt: PreemptOff,
    _slots: PhantomData<&'a RingSlots>,
}

/// How many records a context may have open.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Nesting {
    /// Nothing is called before the record is committed.
    Leaf,
    /// Client code runs meanwhile, which may open another one.
    Open,
}

impl<'a> OpenRecord<'a> {
    /// Reserves a record with this header on the fast path; `stamp` as for [`Ring::reserve`].
    ///
    /// When the limit stops it, or too many are open, nothing has happened and the caller goes on
    /// with [`OpenRecord::reserve_slow`].
    #[inline(always)]
    pub fn reserve<T>(
        slots: &'a RingSlots,
        header: Header,
        nesting: Nesting,
        mut stamp: impl FnMut() -> T,
    ) -> Result<(Self, T), PreemptOff> {
        let preempt = PreemptOff::new();
        let ctl = slots.slots.this_cpu(&preempt);
        loop {
            // SAFETY: By the invariant of `RingSlots`. The words are accessed as in `RingMem`.
            let old = Word(unsafe { word::load(&raw const (*ctl).reserve) });
            let stamped = stamp();
            let new = old.after(header.bytes());
            // SAFETY: As above.
            if new.0 > unsafe { word::load(&raw const (*ctl).limit) }
                || (nesting == Nesting::Open && old.in_flight() >= MAX_NESTED_RESERVES)
            {
                return Err(preempt);
            }
            // SAFETY: Only this CPU writes the word, and preemption is off.
            if unsafe { local::exchange(&raw mut (*ctl).reserve, old, new) } {
                // SAFETY: What passes the limit is the buffer of this CPU, and the record is
                // within the current sub-buffer.
                let record = unsafe { Self::at(NonNull::new_unchecked(ctl), old, header, preempt) };
                return Ok((record, stamped));
            }
        }
    }

    /// # Safety
    ///
    /// A record with this header has been reserved at the position of `word`, on this CPU, whose buffer
    /// `ctl` is, and nobody else opens it.
    #[inline(always)]
    unsafe fn at(ctl: NonNull<Ctl>, word: Word, header: Header, preempt: PreemptOff) -> Self {
        // The mask takes the count of records in flight away too.
        // SAFETY: The mask does not change.
        let offset = (word.0 >> Word::SHIFT) & unsafe { (*ctl.as_ptr()).mask };
        // SAFETY: By the invariant of `RingMem` the data is there. On 64 bits nothing is cut off.
        let record = unsafe { ctl.byte_add(DATA).byte_add(offset as usize).cast() };
        // INVARIANT: By the rules of this function.
        Self {
            ctl,
            record,
            header,
            _preempt: preempt,
            _slots: PhantomData,
        }
    }

    /// Reserves what [`OpenRecord::reserve`] did not. The grant tells what else is to be done.
    pub fn reserve_slow<T>(
        memory: &'a RingMem,
        header: Header,
        preempt: PreemptOff,
        stamp: impl FnMut() -> T,
    ) -> Result<(Self, Grant, T), Refused> {
        let (grant, stamped) = memory.ring.reserve(memory, header.bytes(), stamp)?;
        if let Some(padding) = grant.entered.filter(|padding| padding.bytes > 0) {
            let filler = Header {
                // Padding is shorter than a sub-buffer.
                len: u32::try_from(padding.bytes - HEADER_BYTES).unwrap_or(0),
                kind: 0,
                flags: PADDING,
            };
            if let Some(place) = memory.data(padding.start, HEADER_BYTES) {
                // SAFETY: The padding belongs to who reserved the record behind it.
                unsafe {
                    place
                        .as_ptr()
                        .cast_mut()
                        .cast::<u64>()
                        .write(filler.to_word())
                };
            }
        }
        let word = Word::new(grant.start, 0);
        // SAFETY: Just reserved, on the CPU whose buffer this is, by the rules of `Words`.
        let record = unsafe { Self::at(memory.ctl(), word, header, preempt) };
        Ok((record, grant, stamped))
    }

    /// Writes the header and, if it says so, the time, before anything else; tells where the data starts.
    #[inline(always)]
    pub fn start(&mut self, time: u64) -> usize {
        // SAFETY: By the type invariant there is room for both; all is aligned to 8 bytes.
        unsafe {
            let words = self.record.cast::<u64>();
            words.write(self.header.to_word());
            if self.header.flags & TIMED != 0 {
                words.add(1).write(time);
                return (HEADER_BYTES + TIME_BYTES) as usize;
            }
        }
        HEADER_BYTES as usize
    }

    /// Copies `bytes` into the record, `at` bytes from its start; false if it does not fit.
    #[inline(always)]
    pub fn put(&mut self, at: usize, bytes: &[u8]) -> bool {
        let fits = at
            .checked_add(bytes.len())
            .is_some_and(|end| end as u64 <= self.header.bytes());
        if fits {
            // SAFETY: By the type invariant; user space may only read the memory, through its own
            // mapping.
            unsafe { word::copy(self.record.add(at).as_ptr(), bytes.as_ptr(), bytes.len()) };
        }
        fits
    }

    /// Fills the rest of the record from `at` on with zeros.
    pub fn clear_from(&mut self, at: usize) {
        let rest = usize::try_from(self.header.bytes())
            .unwrap_or(0)
            .saturating_sub(at);
        if rest > 0 {
            // SAFETY: By the type invariant.
            unsafe { self.record.add(at).as_ptr().write_bytes(0, rest) };
        }
    }

    /// Has readers skip the record once it is committed.
    pub fn discard(&mut self) {
        // SAFETY: The header, by the type invariant.
        unsafe {
            let flags = self.header.flags | DISCARDED;
            let header = Header {
                flags,
                ..self.header
            };
            self.record.cast::<u64>().write(header.to_word());
        }
    }

    /// Leaves the record to C code that has preemption off, and tells where it is.
    pub fn leave_open(self) -> NonNull<u8> {
        self.record
    }

    /// Shows the record to readers.
    #[inline(always)]
    pub fn commit(self) {
        // SAFETY: By the type invariant; only this CPU writes the word. The instruction comes after
        // all stores to the record, for the compiler and for the CPU.
        unsafe { local::decrement(&raw mut (*self.ctl.as_ptr()).reserve) };
    }
}
