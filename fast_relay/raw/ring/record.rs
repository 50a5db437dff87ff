// SPDX-License-Identifier: GPL-2.0

//! A record being written.
//!
//! Contexts: any, NMI included. No locks.

use core::marker::PhantomData;
use core::ptr::NonNull;
use core::sync::atomic::compiler_fence;
use core::sync::atomic::Ordering;

use ferro_fast_relay_core::ring::Header;
use ferro_fast_relay_core::ring::Refused;
use ferro_fast_relay_core::ring::Word;
use ferro_fast_relay_core::ring::DISCARDED;
use ferro_fast_relay_core::ring::HEADER_BYTES;
use ferro_fast_relay_core::ring::OPEN;
use ferro_fast_relay_core::ring::TIMED;
use ferro_fast_relay_core::ring::TIME_BYTES;
use ferro_sys::cpu;
use ferro_sys::cpu::preempt::PreemptOff;
use ferro_sys::cpu::time::mono_fast_ns;
use ferro_sys::cpu::CpuId;
use ferro_sys::sync::deferred_drop::may_sleep;
use ferro_sys::sync::shared_word;
use kernel::pr_err_once;
use kernel::prelude::*;

use super::local;
use super::Ctl;
use super::Local;
use super::RingSlots;
use super::DATA;

/// Reason why a record cannot be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lost {
    /// The CPU has no buffer. The loss is not counted yet.
    NoBuffer,
    /// The buffer has no room for it, and has counted the loss.
    Refused(Refused),
}

/// A record being written, on the CPU that reserved it.
///
/// Readers see its header, time and data once it is committed. A record that is dropped uncommitted
/// stays open: readers see neither this record nor later ones.
///
/// # Invariants
///
/// `ctl` is the control page of a buffer in `slots`; `record` points to the record in its data, and
/// as many bytes from there as `header` asks for belong to this object, in one piece.
pub(crate) struct OpenRecord<'a> {
    ctl: NonNull<Ctl>,
    record: NonNull<u8>,
    header: Header,
    slots: &'a RingSlots,
    preempt: PreemptOff,
}

/// Returns the time for a record with this header, or 0.
#[inline(always)]
fn stamp(header: Header) -> u64 {
    match header.flags & TIMED {
        0 => 0,
        _ => mono_fast_ns(),
    }
}

impl<'a> OpenRecord<'a> {
    /// Reserves a record with this header on the fast path, with the time if the header says so.
    ///
    /// If the limit or the number of open records forbids it, nothing is changed and the caller
    /// continues with [`OpenRecord::reserve_slow`].
    #[inline(always)]
    pub(crate) fn reserve(slots: &'a RingSlots, header: Header) -> Result<Self, PreemptOff> {
        let preempt = PreemptOff::new();
        let ctl = slots.slots.this_cpu(&preempt);
        loop {
            // SAFETY: By the invariant of `RingSlots` the page is valid as long as `slots`. All
            // code accesses its words with single loads and stores, or with instructions that are
            // atomic on the CPU that writes them.
            let old = Word(unsafe { shared_word::load(&raw const (*ctl).reserve) });
            let time = stamp(header);
            // SAFETY: The page is valid, and the word is accessed, as `reserve` before.
            let limit = || unsafe { shared_word::load(&raw const (*ctl).limit) };
            let Some(new) = old.next(header.bytes(), limit) else {
                return Err(preempt);
            };
            // SAFETY: The page is this CPU's, which no task leaves with preemption off, as it has
            // been since the page was looked up; `mono_fast_ns()` does not sleep.
            if unsafe { local::exchange(&raw mut (*ctl).reserve, old.0, new.0) } {
                // SAFETY: A page whose limit lets a record pass is a buffer's page, not NULL, and
                // the record is within the current sub-buffer.
                return Ok(unsafe {
                    let ctl = NonNull::new_unchecked(ctl);
                    Self::at(ctl, old, header, time, slots, preempt)
                });
            }
        }
    }

    /// Returns the same record, with the arguments as its fields. The compiler then knows them as
    /// it does after [`OpenRecord::reserve`]: they stay in registers, and constants are not
    /// recomputed at each hit. Returns `None`, and leaves the record open, if the arguments do not
    /// match.
    #[inline(always)]
    pub(crate) fn with_known_fields(self, slots: &'a RingSlots, header: Header) -> Option<Self> {
        let is_it = self.header == header && core::ptr::eq(self.slots, slots);
        // INVARIANT: The fields have the same values.
        is_it.then_some(Self {
            header,
            slots,
            ..self
        })
    }

    /// Reserves a record that [`OpenRecord::reserve`] could not. The returned flag is true if a
    /// reader may have to be woken.
    pub(crate) fn reserve_slow(
        slots: &'a RingSlots,
        header: Header,
        preempt: PreemptOff,
    ) -> Result<(Self, bool), Lost> {
        let memory = CpuId::new(cpu::current_id())
            .and_then(|cpu| slots.memory(cpu))
            .ok_or(Lost::NoBuffer)?;
        // SAFETY: `RingSlots::publish()` has put the buffer there for its own CPU, which is this
        // one and stays so while `preempt` exists, until after the last use; the calls in between
        // do not sleep.
        let words = unsafe { Local::new(memory) };
        let (grant, time) = memory
            .ring()
            .reserve(&words, header.bytes(), || stamp(header))
            .map_err(Lost::Refused)?;
        let word = Word::new(grant.start, 0);
        // SAFETY: Just reserved, in one piece, as the ring grants it.
        let record = unsafe { Self::at(memory.ctl(), word, header, time, slots, preempt) };
        Ok((record, grant.wake))
    }

    /// # Safety
    ///
    /// A record with this header has been reserved at the position of `word`, on this CPU, whose
    /// buffer `ctl` is, in `slots`, and no other object is made for it.
    #[inline(always)]
    unsafe fn at(
        ctl: NonNull<Ctl>,
        word: Word,
        header: Header,
        time: u64,
        slots: &'a RingSlots,
        preempt: PreemptOff,
    ) -> Self {
        // The mask also clears the count of records in flight.
        // SAFETY: By the rules of this function `ctl` is the page of a buffer, which `slots` keeps;
        // the mask does not change.
        let offset = (word.0 >> Word::SHIFT) & unsafe { (*ctl.as_ptr()).mask };
        // SAFETY: By the invariant of `RingMem` the data follows at `DATA`, with as many bytes as
        // the mask allows. On 64 bits nothing is cut off.
        let record = unsafe { ctl.byte_add(DATA).byte_add(offset as usize).cast() };
        // INVARIANT: By the rules of this function.
        let mut open = Self {
            ctl,
            record,
            header,
            slots,
            preempt,
        };
        open.begin(time);
        open
    }

    /// Writes a record with this header and this data on the fast path. Fails without an effect as
    /// [`OpenRecord::reserve`] does.
    #[inline(always)]
    pub(crate) fn write(
        slots: &'a RingSlots,
        header: Header,
        data: &[u8],
    ) -> Result<(), PreemptOff> {
        let mut open = Self::reserve(slots, header)?;
        open.put(0, data);
        // SAFETY: `put()` does not sleep, so this is the CPU that reserved it.
        unsafe { open.finish() };
        Ok(())
    }

    /// Returns the offset of the data in the record.
    #[inline(always)]
    fn data_at(&self) -> usize {
        match self.header.flags & TIMED {
            0 => HEADER_BYTES as usize,
            _ => (HEADER_BYTES + TIME_BYTES) as usize,
        }
    }

    /// Returns the data, for writing at any offsets.
    #[inline(always)]
    pub(crate) fn data(&mut self) -> Data<'_> {
        // SAFETY: The data begins within the record, by the type invariant.
        let start = unsafe { self.record.add(self.data_at()) };
        // INVARIANT: As many bytes as the header says belong to this object, which is borrowed.
        Data {
            start,
            len: self.header.len as usize,
            _record: PhantomData,
        }
    }

    /// Copies `bytes` into the data at offset `at`; returns false if they do not fit.
    #[inline(always)]
    pub(crate) fn put(&mut self, at: usize, bytes: &[u8]) -> bool {
        let fits = at
            .checked_add(bytes.len())
            .is_some_and(|end| end <= self.header.len as usize);
        if fits {
            // SAFETY: The bytes fit in the data that the header announces, as just checked, so they
            // are within the record, which belongs to this object by the type invariant; user space
            // may only read it, through its own mapping.
            unsafe {
                let to = self.record.add(self.data_at()).add(at);
                shared_word::copy(to.as_ptr(), bytes.as_ptr(), bytes.len());
            }
        }
        fits
    }

    /// Fills the data from `at` on with zeros, to the end of the record.
    pub(crate) fn clear_from(&mut self, at: usize) {
        let at = at.saturating_add(self.data_at());
        let rest = usize::try_from(self.header.bytes())
            .unwrap_or(0)
            .saturating_sub(at);
        if rest > 0 {
            // SAFETY: `at + rest` is the size that the header asks for, and so much belongs to this
            // object, by the type invariant.
            unsafe { self.record.add(at).as_ptr().write_bytes(0, rest) };
        }
    }

    /// Writes the time and the header, marked as open: if the kernel dies before the commit,
    /// recovery still finds the end of the record.
    #[inline(always)]
    fn begin(&mut self, time: u64) {
        let header = Header {
            flags: self.header.flags | OPEN,
            ..self.header
        };
        // SAFETY: By the type invariant the record belongs to this object, with room for the header
        // and, if its flags say so, the time; records are aligned to 8 bytes.
        unsafe {
            let words = self.record.cast::<u64>();
            if self.header.flags & TIMED != 0 {
                words.add(1).write(time);
            }
            // In one store: half a header is invalid.
            words.write_volatile(header.to_word());
        }
        // Orders the data after the header. The CPU keeps stores in order.
        compiler_fence(Ordering::SeqCst);
    }

    /// Marks the record as complete.
    #[inline(always)]
    fn complete(&mut self) {
        // After the data.
        compiler_fence(Ordering::SeqCst);
        // SAFETY: By the type invariant the record belongs to this object, with room for the
        // header, and the flags are the header's last two bytes; it is aligned to 8 bytes.
        unsafe {
            let flags = self.record.byte_add(Header::FLAGS_AT).cast::<u16>();
            // Volatile: the compiler must not drop or move the store, as its reader is another
            // kernel.
            flags.write_volatile(self.header.flags);
        }
    }

    /// Marks the record as one that readers skip.
    pub(crate) fn discard(&mut self) {
        self.header.flags |= DISCARDED;
    }

    /// Leaves the record, with its header, to C code that has preemption off, and returns its
    /// address.
    pub(crate) fn leave_open(self) -> NonNull<u8> {
        self.record
    }

    /// Makes the record visible to readers.
    ///
    /// A writer that has slept, against the rules, may be on another CPU now. Then the record's CPU
    /// commits it, and this sleeps until then.
    #[inline(always)]
    pub(crate) fn commit(self) {
        if self.slots.slots.this_cpu(&self.preempt) != self.ctl.as_ptr() {
            let Self {
                ctl,
                record,
                header,
                slots,
                preempt,
            } = self;
            return Self::commit_elsewhere(ctl, record, header, slots, preempt);
        }
        // SAFETY: A page belongs to one CPU, by the invariant of `RingSlots`, and that CPU is this
        // one.
        unsafe { self.finish() };
    }

    /// Commits as [`OpenRecord::commit`], on another CPU than the record's. In a context that
    /// cannot sleep, which is unlikely for a writer that has slept before, the record stays open:
    /// its CPU loses records once the buffer is full.
    ///
    /// Takes the fields one by one, so that [`OpenRecord::commit`] need not have them in memory.
    #[cold]
    #[inline(never)]
    fn commit_elsewhere(
        ctl: NonNull<Ctl>,
        record: NonNull<u8>,
        header: Header,
        slots: &RingSlots,
        preempt: PreemptOff,
    ) {
        pr_err_once!("a writer slept before its record was committed\n");
        // SAFETY: By the type invariant this is the page of a buffer, which `slots` keeps; the
        // number does not change.
        let cpu = CpuId::new(unsafe { (*ctl.as_ptr()).cpu });
        // INVARIANT: The fields are from such an object, which no longer exists.
        let mut open = OpenRecord {
            ctl,
            record,
            header,
            slots,
            preempt,
        };
        open.complete();
        drop(open);
        if let (true, Some(memory)) = (may_sleep(), cpu.and_then(|cpu| slots.memory(cpu))) {
            memory.commit_on_its_cpu();
        }
    }

    /// # Safety
    ///
    /// This runs on the CPU whose buffer `ctl` is.
    #[inline(always)]
    unsafe fn finish(mut self) {
        self.complete();
        // SAFETY: By the rules of this function only this CPU writes the word. The instruction is
        // ordered after all stores to the record, for the compiler and for the CPU.
        unsafe { local::decrement(&raw mut (*self.ctl.as_ptr()).reserve) };
    }
}

/// Data of a record being written.
///
/// # Invariants
///
/// `len` bytes at `start` belong to this object. User space may only read them, through its own
/// mapping.
pub(crate) struct Data<'a> {
    start: NonNull<u8>,
    len: usize,
    _record: PhantomData<&'a mut ()>,
}

impl Data<'_> {
    /// Puts `bytes` at offset `at`; returns false if they do not fit.
    #[inline(always)]
    pub(crate) fn put<const N: usize>(&mut self, at: usize, bytes: [u8; N]) -> bool {
        let fits = at.checked_add(N).is_some_and(|end| end <= self.len);
        if fits {
            // SAFETY: They are within the data, as just checked, which belongs to this object by
            // the type invariant.
            unsafe { self.start.add(at).cast::<[u8; N]>().write_unaligned(bytes) };
        }
        fits
    }
}

#[cfg(CONFIG_RELAY_FAST_KUNIT_TEST)]
#[kunit_tests(ferro_fast_relay_ring)]
mod suite {
    use super::*;
    use crate::raw::ring::RingMem;
    use ferro_fast_relay_core::ring::Ring;
    use ferro_fast_relay_core::ring::Words;
    use ferro_sys::cpu::HotplugOff;
    use ferro_sys::sync::refcounted::Shared;
    use kernel::sync::atomic::Atomic;
    use kernel::sync::atomic::Relaxed;

    const HEADER: Header = Header {
        len: 8,
        kind: 1,
        flags: 0,
    };

    /// Makes buffers for all CPUs.
    fn slots() -> Result<RingSlots> {
        let ring = Ring::new(4096, 2, false).map_err(|_| EINVAL)?;
        let slots = RingSlots::new()?;
        for cpu in cpu::possible() {
            slots.publish(Shared::new(RingMem::new(ring, cpu))?);
        }
        Ok(slots)
    }

    fn reserve(slots: &RingSlots) -> Result<OpenRecord<'_>, Lost> {
        OpenRecord::reserve(slots, HEADER).or_else(|preempt| {
            OpenRecord::reserve_slow(slots, HEADER, preempt).map(|(open, _)| open)
        })
    }

    /// Returns the position and the number of records in flight of this CPU.
    fn state(slots: &RingSlots) -> Option<(u64, u64)> {
        let word = slots.memory(CpuId::new(cpu::current_id())?)?.reserve();
        Some((word.position(), word.in_flight()))
    }

    /// Recovery after a crash finds the end of the record, and that it is not complete.
    #[test]
    fn a_record_says_that_it_is_being_written() -> Result {
        let slots = slots()?;
        let here = PreemptOff::new();
        let memory = slots
            .memory(CpuId::new(cpu::current_id()).ok_or(EIO)?)
            .ok_or(EIO)?;
        let header = |at| memory.header(at).ok_or(EIO);
        let marked = Header {
            flags: OPEN,
            ..HEADER
        };
        // The first record takes the slow path, the second one the fast path.
        for at in [0, 16] {
            let open = reserve(&slots).map_err(|_| EIO)?;
            assert_eq!(header(at)?, marked);
            open.commit();
            assert_eq!(header(at)?, HEADER);
        }
        let mut open = reserve(&slots).map_err(|_| EIO)?;
        open.discard();
        open.commit();
        let discarded = Header {
            flags: DISCARDED,
            ..HEADER
        };
        assert_eq!(header(32)?, discarded);
        let timed = Header {
            flags: TIMED,
            ..HEADER
        };
        assert!(OpenRecord::write(&slots, timed, &[7; 8]).is_ok());
        assert_eq!(header(48)?, timed);
        drop(here);
        Ok(())
    }

    /// Simulates a writer that has slept and is on another CPU now: once for each CPU.
    #[test]
    fn a_record_of_another_cpu_is_committed_there() -> Result {
        let slots = slots()?;
        for cpu in cpu::online() {
            let memory = slots.memory(cpu).ok_or(EIO)?;
            let place = Atomic::new(core::ptr::null_mut::<u8>());
            HotplugOff::new().call_on(cpu, &|| {
                if let Ok(open) = reserve(&slots) {
                    place.store(open.record.as_ptr(), Relaxed);
                }
            });
            assert_eq!(
                (memory.reserve().position(), memory.reserve().in_flight()),
                (16, 1)
            );
            let open = OpenRecord {
                ctl: memory.ctl(),
                record: NonNull::new(place.load(Relaxed)).ok_or(EIO)?,
                header: HEADER,
                slots: &slots,
                preempt: PreemptOff::new(),
            };
            open.commit();
            assert_eq!(
                (memory.reserve().position(), memory.reserve().in_flight()),
                (16, 0)
            );
            assert_eq!(memory.header(0), Some(HEADER));
        }
        Ok(())
    }

    /// The record stays open in a context that cannot sleep.
    #[cfg(CONFIG_PREEMPT_COUNT)]
    #[test]
    fn another_cpu_does_not_commit_a_record() -> Result {
        let (slots, others) = (slots()?, slots()?);
        let _here = PreemptOff::new();
        assert!(reserve(&slots).map(OpenRecord::commit).is_ok());
        assert_eq!(state(&slots), Some((16, 0)));
        let open = reserve(&slots).map_err(|_| EIO)?;
        // Simulates a writer that has slept and finds the page of another CPU.
        let moved = OpenRecord {
            slots: &others,
            ..open
        };
        moved.commit();
        assert_eq!(state(&slots), Some((32, 1)));
        assert_eq!(state(&others), Some((0, 0)));
        // Records written after that are in order.
        assert!(reserve(&slots).map(OpenRecord::commit).is_ok());
        assert_eq!(state(&slots), Some((48, 1)));
        Ok(())
    }
}
