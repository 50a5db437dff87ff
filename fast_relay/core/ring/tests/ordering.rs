// SPDX-License-Identifier: GPL-2.0

//! Memory ordering between one writer and one reader, tested with loom.
//!
//! Stores release and loads acquire, as on x86 and as [`Words`] requires. The exchange is local, so
//! it orders no more than a store does. `explore` covers interruptions of the writer.

use super::*;
use loom::sync::atomic::fence;
use loom::sync::atomic::AtomicU64;
use loom::sync::atomic::Ordering::Acquire;
use loom::sync::atomic::Ordering::Relaxed;
use loom::sync::atomic::Ordering::Release;
use loom::sync::atomic::Ordering::SeqCst;
use loom::sync::Arc;
use loom::thread;

struct Shared {
    reserve: AtomicU64,
    limit: AtomicU64,
    committed: AtomicU64,
    stalled: AtomicU64,
    lost: AtomicU64,
    overwritten: AtomicU64,
    consumed: AtomicU64,
    watermark: AtomicU64,
    queued: AtomicU64,
    woken: AtomicU64,
    /// First and last word of each sub-buffer; a record fills one.
    data: [AtomicU64; 4],
}

impl Shared {
    fn new() -> Self {
        let zero = || AtomicU64::new(0);
        Self {
            reserve: zero(),
            limit: zero(),
            committed: zero(),
            stalled: zero(),
            lost: zero(),
            overwritten: zero(),
            consumed: zero(),
            watermark: zero(),
            queued: zero(),
            woken: zero(),
            data: [zero(), zero(), zero(), zero()],
        }
    }

    /// Returns both words of the sub-buffer at a position.
    fn words(&self, ring: &Ring, position: u64) -> &[AtomicU64] {
        let at = 2 * ring.index(position);
        &self.data[at..at + 2]
    }

    /// Writes a record that fills a sub-buffer and contains its own position.
    fn write(&self, ring: &Ring) -> bool {
        match ring.reserve(self, 64, || ()) {
            Ok((grant, ())) => {
                for word in self.words(ring, grant.start) {
                    word.store(grant.start + 1, Release);
                }
                ring.commit(self);
                self.wake_if(grant.wake);
                true
            }
            Err(why) => {
                self.wake_if(why == Refused::Full { wake: true });
                false
            }
        }
    }

    fn wake_if(&self, wake: bool) {
        if wake && self.queued.load(Acquire) != 0 {
            self.woken.store(1, Release);
        }
    }

    /// Reads a record. Returns the position after it, or where a reader that was overtaken
    /// continues.
    fn read(&self, ring: &Ring, position: u64) -> Option<(u64, bool)> {
        let (position, run) = ring.next_run(Sample::new(self), position, |_| 0);
        assert_eq!(run?.bytes % 64, 0);
        let copied: Vec<u64> = self
            .words(ring, position)
            .iter()
            .map(|word| word.load(Relaxed))
            .collect();
        fence(Acquire);
        if ring.overwrites() && ring.kept(self.reserve().position()) > position {
            return Some((position, false));
        }
        assert_eq!(copied, [position + 1; 2]);
        self.consumed.store(position + 64, Release);
        Some((position + 64, true))
    }
}

impl Words for Shared {
    fn reserve(&self) -> Word {
        Word(self.reserve.load(Acquire))
    }
    fn limit(&self) -> u64 {
        self.limit.load(Acquire)
    }
    fn committed(&self) -> u64 {
        self.committed.load(Acquire)
    }
    fn stalled(&self) -> u64 {
        self.stalled.load(Acquire)
    }
    fn consumed(&self) -> u64 {
        self.consumed.load(Acquire)
    }
    fn watermark(&self) -> u64 {
        self.watermark.load(Acquire)
    }
}

impl LocalWords for Shared {
    fn exchange(&self, old: Word, new: Word) -> Result<(), Word> {
        // The writer is not interrupted here.
        assert_eq!(self.reserve.load(Relaxed), old.0);
        self.reserve.store(new.0, Release);
        Ok(())
    }
    fn set_limit(&self, limit: u64) {
        self.limit.store(limit, Release);
    }
    fn exchange_committed(&self, old: u64, new: u64) -> bool {
        assert_eq!(self.committed.load(Relaxed), old);
        self.committed.store(new, Release);
        true
    }
    fn set_stalled(&self, stalled: u64) {
        self.stalled.store(stalled, Release);
    }
    fn add_lost(&self) {
        self.lost.store(self.lost.load(Relaxed) + 1, Release);
    }
    fn add_overwritten(&self, bytes: u64) {
        let sum = self.overwritten.load(Relaxed) + bytes;
        self.overwritten.store(sum, Release);
    }
    fn pad(&self, _: Padding) {
        unreachable!("records fill sub-buffers")
    }
    fn fence(&self) {
        fence(SeqCst);
    }
}

/// Runs a writer of `records` records, with `reader` in parallel.
fn model(
    overwrite: bool,
    records: usize,
    reader: impl Fn(&Ring, &Shared) + Copy + Sync + Send + 'static,
    after: impl Fn(&Ring, &Shared, usize) + Sync + Send + 'static,
) {
    let mut builder = ::loom::model::Builder::new();
    // This does not limit the reorderings of the memory model. LOOM_MAX_PREEMPTIONS=2 takes
    // minutes.
    builder.preemption_bound = builder.preemption_bound.or(Some(1));
    builder.check(move || {
        let ring = Ring::new(64, 2, overwrite).unwrap();
        let shared = Arc::new(Shared::new());
        let other = shared.clone();
        let thread = thread::spawn(move || reader(&ring, &other));
        let written = (0..records).filter(|_| shared.write(&ring)).count();
        thread.join().unwrap();
        after(&ring, &shared, written);
    });
}

#[test]
fn records_are_whole_and_in_order() {
    let reader = |ring: &Ring, shared: &Shared| {
        let mut position = 0;
        for _ in 0..2 {
            match shared.read(ring, position) {
                Some((next, _)) => position = next,
                None => thread::yield_now(),
            }
        }
    };
    model(false, 4, reader, |ring, shared, written| {
        let mut position = shared.consumed.load(Relaxed);
        while let Some((next, _)) = shared.read(ring, position) {
            position = next;
        }
        assert_eq!(position, 64 * u64::try_from(written).unwrap());
        assert_eq!(
            shared.lost.load(Relaxed),
            4 - u64::try_from(written).unwrap()
        );
    });
}

#[test]
fn what_is_kept_is_not_damaged() {
    let reader = |ring: &Ring, shared: &Shared| {
        let _ = shared.read(ring, 0);
    };
    model(true, 3, reader, |ring, shared, written| {
        assert_eq!(written, 3);
        let mut position = shared.consumed.load(Relaxed);
        let mut left = 0;
        while let Some((next, kept)) = shared.read(ring, position) {
            left += u64::from(kept);
            position = next;
        }
        assert!(position == 3 * 64 && left <= 2);
    });
}

/// Lets the reader sleep as `<uapi/linux/ferrotrace_relay.h>` and the engine describe.
fn sleep(ring: &Ring, shared: &Shared, watermark: u64) {
    shared.watermark.store(watermark, Release);
    shared.queued.store(1, Release);
    fence(SeqCst);
    let due = ring.is_due(shared);
    if due || ring.limit_is_late(shared) {
        // It does not sleep, or has the limit updated first.
        shared.woken.store(1, Release);
    }
}

/// Checks that the reader does not sleep when all activity has ended and there are enough bytes.
fn slept(ring: &Ring, shared: &Shared) {
    let due = ring.is_due(shared);
    assert!(!due || shared.woken.load(Relaxed) != 0, "sleeps on");
}

#[test]
fn who_waits_for_a_record_is_woken() {
    let reader = |ring: &Ring, shared: &Shared| sleep(ring, shared, 8);
    model(false, 2, reader, |ring, shared, _| slept(ring, shared));
}

#[test]
fn who_has_read_all_and_waits_is_woken() {
    let reader = |ring: &Ring, shared: &Shared| {
        let _ = shared.read(ring, 0);
        sleep(ring, shared, 64);
    };
    model(false, 3, reader, |ring, shared, _| slept(ring, shared));
}

/// Only the refusal wakes this reader: it requests more than fits after its unread data.
#[test]
fn who_waits_for_more_than_fits_is_woken() {
    let reader = |ring: &Ring, shared: &Shared| {
        shared.consumed.store(8, Release);
        sleep(ring, shared, 64);
    };
    model(false, 2, reader, |ring, shared, _| slept(ring, shared));
}
