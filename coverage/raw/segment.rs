// SPDX-License-Identifier: GPL-2.0

//! Places of a record, with their states and their breakpoints.
//!
//! Contexts: process, with [`TextGuard`]; looking up, and marking a hit: any, NMI included.

use core::ops::Range;
use core::sync::atomic::AtomicBool;
use core::sync::atomic::AtomicU8;
use core::sync::atomic::AtomicUsize;
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::Ordering::SeqCst;

use ferro_coverage_core::Offsets;
use ferro_coverage_core::Refusal;
use ferro_coverage_core::State;
use ferro_coverage_core::JUMP_LEN;
use ferro_coverage_core::PAGE;
use kernel::alloc::AllocError;
use kernel::prelude::*;

use super::text::ModuleId;
use super::text::TextGuard;
use super::text::BREAKPOINT;

/// Places, in ascending order.
///
/// # Invariants
///
/// `offsets`, `originals` and `states` have the same length. At a place with an original other than
/// 0 an instruction starts, with this first byte. A trap can execute it, and no table of the kernel
/// has it. The code is loaded until `is_gone` is set. A place without original is
/// refused, and never armed.
///
/// The bit `ARMED` of a state changes with the lock of [`TextGuard`] only: it is set before the
/// breakpoint is written, and cleared after it has been removed.
pub(crate) struct Segment {
    base: usize,
    offsets: KVVec<u32>,
    originals: KVVec<u8>,
    states: KVVec<AtomicU8>,
    /// First page.
    page: usize,
    /// A bit for each page that has hit breakpoints.
    queued: KVVec<AtomicUsize>,
    module: Option<ModuleId>,
    is_gone: AtomicBool,
}

/// Change of the breakpoints of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// Writes breakpoints, except at hit places.
    Arm,
    /// Removes breakpoints at hit places.
    TakeHits,
    /// Removes all.
    Disarm,
}

/// Numbers of places, by state.
#[derive(Default)]
pub(crate) struct Totals {
    /// All places.
    pub(crate) places: usize,
    /// Breakpoints in the text.
    pub(crate) armed: usize,
    /// Hit places.
    pub(crate) hit: usize,
    /// Refused places, by reason.
    pub(crate) refused: [usize; Refusal::ALL.len()],
}

impl Segment {
    /// Makes a segment.
    ///
    /// # Safety
    ///
    /// The vectors fulfil the type's invariants. The caller calls [`Segment::forget`] before the
    /// module's code is freed.
    pub(super) unsafe fn new(
        base: usize,
        offsets: KVVec<u32>,
        originals: KVVec<u8>,
        states: KVVec<AtomicU8>,
        module: Option<ModuleId>,
    ) -> Result<Self, AllocError> {
        let (page, pages) = Offsets::new(base, &offsets).pages();
        let words = pages.div_ceil(usize::BITS as usize);
        let mut queued = KVVec::with_capacity(words, GFP_KERNEL)?;
        for _ in 0..words {
            queued.push(AtomicUsize::new(0), GFP_KERNEL)?;
        }
        // INVARIANT: By the rules of this function.
        Ok(Self {
            base,
            offsets,
            originals,
            states,
            page,
            queued,
            module,
            is_gone: AtomicBool::new(false),
        })
    }

    fn places(&self) -> Offsets<'_> {
        Offsets::new(self.base, &self.offsets)
    }

    /// Returns the number of places.
    pub(crate) fn len(&self) -> usize {
        self.offsets.len()
    }

    /// Returns the addresses of the first and of the last place.
    pub(crate) fn bounds(&self) -> (usize, usize) {
        let places = self.places();
        let last = places.address(self.len().saturating_sub(1));
        (places.address(0).unwrap_or(0), last.unwrap_or(0))
    }

    /// Returns the module of the code.
    pub(crate) fn module(&self) -> Option<ModuleId> {
        self.module
    }

    /// Returns the bytes of the file `blocks` for some places.
    pub(crate) fn shown(&self, from: usize) -> impl Iterator<Item = u8> + '_ {
        let states = self.states.get(from..).unwrap_or_default();
        states
            .iter()
            .map(|state| State::from_byte(state.load(Relaxed)).shown())
    }

    /// Adds up the states.
    pub(crate) fn count(&self, totals: &mut Totals) {
        totals.places = totals.places.wrapping_add(self.len());
        for state in &self.states {
            let state = State::from_byte(state.load(Relaxed));
            totals.armed = totals.armed.wrapping_add(usize::from(state.is_armed()));
            totals.hit = totals.hit.wrapping_add(usize::from(state.is_hit()));
            if let Some(refusal) = state.refusal() {
                let index = (refusal as usize).wrapping_sub(Refusal::ALL[0] as usize);
                if let Some(count) = totals.refused.get_mut(index) {
                    *count = count.wrapping_add(1);
                }
            }
        }
    }

    /// Returns the index of the accepted place at an address, with its original byte.
    #[inline]
    pub(super) fn find(&self, addr: usize) -> Option<(usize, u8)> {
        let index = self.places().find(addr)?;
        // Another module's code may be there.
        if self.is_gone.load(Relaxed) {
            return None;
        }
        let original = *self.originals.get(index)?;
        (original != 0).then_some((index, original))
    }

    /// Returns true if the breakpoint of a place is in the text.
    #[inline]
    pub(super) fn is_armed(&self, index: usize) -> bool {
        let state = self.states.get(index);
        state.is_some_and(|state| State::from_byte(state.load(SeqCst)).is_armed())
    }

    /// Marks a place as hit. Returns false if it has been hit before.
    #[inline]
    pub(super) fn mark(&self, index: usize) -> bool {
        self.states.get(index).is_some_and(|state| {
            let is_new = state.load(Relaxed) & State::HIT == 0;
            if is_new {
                // Ordered before the bit of the page: `take_hits()` clears that first.
                state.fetch_or(State::HIT, SeqCst);
            }
            is_new
        })
    }

    /// Queues the page of a place. Returns false for a queued page.
    #[inline]
    pub(super) fn queue(&self, addr: usize) -> bool {
        let page = (addr / PAGE).wrapping_sub(self.page);
        let bit = 1_usize << (page % usize::BITS as usize);
        self.queued
            .get(page / usize::BITS as usize)
            .is_some_and(|word| {
                word.load(Relaxed) & bit == 0 && word.fetch_or(bit, SeqCst) & bit == 0
            })
    }

    /// Forgets the hits. Breakpoints are not written.
    pub(super) fn forget_hits(&self) {
        for state in &self.states {
            if State::from_byte(state.load(Relaxed)).is_hit() {
                state.fetch_and(!State::HIT, SeqCst);
            }
        }
    }

    /// Removes the hit breakpoints of the queued pages. Returns true if there were some.
    pub(super) fn take_hits(&self, lock: &mut TextGuard) -> bool {
        let mut is_changed = false;
        for (index, word) in self.queued.iter().enumerate() {
            if word.load(Relaxed) == 0 {
                continue;
            }
            let mut left = word.swap(0, SeqCst);
            while left != 0 {
                let bit = left.trailing_zeros() as usize;
                left &= left.wrapping_sub(1);
                let page = index.wrapping_mul(usize::BITS as usize).wrapping_add(bit);
                is_changed |= self.change(lock, self.page.wrapping_add(page), Change::TakeHits);
            }
        }
        is_changed
    }

    /// Returns the pages that may have places.
    pub(super) fn pages(&self) -> Range<usize> {
        let (first, count) = self.places().pages();
        first..first.wrapping_add(count)
    }

    /// Changes the breakpoints of a page. Returns true if code has been written; the caller
    /// synchronises the CPUs.
    pub(super) fn change(&self, lock: &mut TextGuard, page: usize, change: Change) -> bool {
        let places = self.places();
        let range = places.in_page(page);
        let bounds = (
            places.address(range.start),
            places.address(range.end.wrapping_sub(1)),
        );
        let (Some(first), Some(last), false) = (bounds.0, bounds.1, range.is_empty()) else {
            return false;
        };
        if self.is_gone.load(Relaxed) {
            return false;
        }
        let (lock, copy) = lock.with_copy();
        let len = last.wrapping_sub(first).wrapping_add(1);
        let Some(code) = copy.get_mut(..len) else {
            return false;
        };
        let from: *const u8 = core::ptr::with_exposed_provenance(first);
        // SAFETY: By the type invariant the code at the places is loaded, and this page has all of
        // it from the first place to the last. The lock keeps others from changing it.
        unsafe { core::ptr::copy_nonoverlapping(from, code.as_mut_ptr(), len) };
        let mut written: Option<(usize, usize)> = None;
        // A bit for each byte of the page: places with a removed breakpoint.
        let mut removed = [0_u64; PAGE / 64];
        for index in range.clone() {
            let (Some(addr), Some(original), Some(state)) = (
                places.address(index),
                self.originals.get(index),
                self.states.get(index),
            ) else {
                break;
            };
            let at = addr.wrapping_sub(first);
            let Some(byte) = code.get_mut(at) else { break };
            let new = match change {
                Change::Arm => arm(lock, addr, *byte, *original, state),
                Change::TakeHits | Change::Disarm => {
                    disarm(lock, addr, *byte, *original, state, change)
                }
            };
            if let Some(new) = new {
                *byte = new;
                if let Some(word) = removed.get_mut(at / 64) {
                    *word |= 1 << (at % 64);
                }
                written = Some((written.map_or(at, |(low, _)| low), at));
            }
        }
        let Some((low, high)) = written else {
            return false;
        };
        let Some(code) = code.get(low..=high) else {
            return false;
        };
        // SAFETY: The code is in one page, and loaded, as above. Only bytes at places differ. By
        // the type invariant an instruction starts at a place, and the other byte is its original
        // one. The trap of a breakpoint executes it as long as the table is published.
        unsafe { lock.poke(first.wrapping_add(low), code) };
        if change != Change::Arm {
            // INVARIANT: The lock is held, and the breakpoints have been removed.
            for index in range {
                let at = places.address(index).unwrap_or(first).wrapping_sub(first);
                let is_removed = removed
                    .get(at / 64)
                    .is_some_and(|w| w >> (at % 64) & 1 != 0);
                if let (Some(state), true) = (self.states.get(index), is_removed) {
                    state.fetch_and(!State::ARMED, SeqCst);
                }
            }
        }
        true
    }

    /// Removes the breakpoints of a module before its code is freed, and forgets the places.
    pub(super) fn forget(&self, lock: &mut TextGuard) {
        let mut is_changed = false;
        for page in self.pages() {
            is_changed |= self.change(lock, page, Change::Disarm);
        }
        if is_changed {
            lock.sync();
        }
        self.is_gone.store(true, Relaxed);
        for state in &self.states {
            let old = State::from_byte(state.load(Relaxed));
            if !old.is_hit() {
                state.store(State::refused(Refusal::Gone).byte(), Relaxed);
            }
        }
    }
}

/// Decides on the breakpoint of a place. Returns the byte to write, if any.
fn arm(lock: &TextGuard, addr: usize, byte: u8, original: u8, state: &AtomicU8) -> Option<u8> {
    let old = State::from_byte(state.load(Relaxed));
    // A place that was refused when it was armed before gets another chance.
    if original == 0 || old.is_armed() || old.is_hit() {
        return None;
    }
    // A later kprobe sees the breakpoint, and is not optimised.
    let is_probed = lock.has_kprobe(addr, JUMP_LEN as u32);
    let refusal = match (is_probed, byte == original) {
        (true, _) => Some(Refusal::Kprobe),
        (false, false) => Some(Refusal::Changed),
        (false, true) => None,
    };
    if let Some(refusal) = refusal {
        state.store(State::refused(refusal).byte(), Relaxed);
        return None;
    }
    // INVARIANT: The lock is held. A hit of the breakpoint finds the bit.
    state.store(State::ARMED, SeqCst);
    Some(BREAKPOINT)
}

/// Decides on the removal of the breakpoint of a place. Returns the byte to write, if any.
fn disarm(
    lock: &TextGuard,
    addr: usize,
    byte: u8,
    original: u8,
    state: &AtomicU8,
    change: Change,
) -> Option<u8> {
    let old = State::from_byte(state.load(Relaxed));
    if !old.is_armed() || change == Change::TakeHits && !old.is_hit() {
        return None;
    }
    // A kprobe at the same place restores the original byte itself.
    if byte == BREAKPOINT && !lock.has_kprobe(addr, 1) {
        return Some(original);
    }
    // INVARIANT: The lock is held. The breakpoint there is not of this object.
    state.fetch_and(!State::ARMED, SeqCst);
    None
}
