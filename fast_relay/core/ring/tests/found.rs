// SPDX-License-Identifier: GPL-2.0

//! Regression tests for the bugs that a review of the buffer found.

use super::*;

const FULL: Refused = Refused::Full { wake: true };
/// Number of repetitions; Miri is slow.
const ROUNDS: u64 = if cfg!(miri) { 5 } else { 1000 };

#[test]
fn words_that_never_rest_do_not_hold_the_writer() {
    let (ring, words) = (Ring::new(64, 4, true).unwrap(), Cells::default());
    words.restless.set(true);
    for _ in 0..100 {
        assert!(write(&ring, &words, 24).is_ok());
    }
    // No writer passes the reader's later requests unnoticed.
    assert_eq!(
        words.limit.get(),
        Word::limit_at(words.reserve().position())
    );
}

#[test]
fn who_is_refused_within_a_record_leaves_the_buffer_stalled() {
    let (ring, words) = (Ring::new(64, 2, false).unwrap(), Cells::default());
    assert!(write(&ring, &words, 56).is_ok());
    words.consumed.set(48);
    words.watermark.set(64);
    *words.after_exchange.borrow_mut() = Some(Box::new(move |words| {
        assert_eq!(write(&ring, words, 64), Err(FULL));
    }));
    // Enters the second sub-buffer; its interruption does not find a third one.
    assert!(write(&ring, &words, 8 + 8).is_ok());
    assert!(words.stalled.get() != 0 && ring.is_due(&words));
}

#[test]
fn what_a_reader_skips_while_it_is_overwritten_is_counted() {
    let (ring, words) = (Ring::new(64, 2, true).unwrap(), Cells::default());
    for _ in 0..2 {
        assert!(write(&ring, &words, 64).is_ok());
    }
    // A reader on another CPU sees the new position first, and continues after it.
    *words.after_exchange.borrow_mut() = Some(Box::new(move |words| {
        words.consumed.set(ring.kept(words.reserve().position()));
    }));
    assert!(write(&ring, &words, 64).is_ok());
    assert_eq!((words.consumed.get(), words.overwritten.get()), (64, 64));
}

#[test]
fn a_full_first_subbuffer_has_no_padding() {
    let (ring, words) = (Ring::new(64, 2, false).unwrap(), Cells::default());
    assert!(write(&ring, &words, 64).is_ok());
    // No padding has been recorded so far.
    let (start, run) = ring.next_run(Sample::new(&words), 0, |_| 0);
    assert_eq!(
        (start, run),
        (
            0,
            Some(Run {
                start: 0,
                bytes: 64
            })
        )
    );
}

#[test]
fn what_is_complete_is_known_while_a_record_is_in_flight() {
    let (ring, words) = (Ring::new(64, 4, true).unwrap(), Cells::default());
    for _ in 0..10 {
        assert!(write(&ring, &words, 64).is_ok());
    }
    let (outer, ()) = ring.reserve(&words, 64, || ()).unwrap();
    assert_eq!(Sample::new(&words).committed, outer.start);
    // Three sub-buffers are free to be replaced.
    for _ in 0..3 {
        assert!(write(&ring, &words, 64).is_ok());
    }
    assert_eq!(write(&ring, &words, 64), Err(FULL));
}

#[test]
fn who_interrupts_the_update_of_the_limit_wakes_for_all() {
    let (ring, words) = (Ring::new(64, 4, false).unwrap(), Cells::default());
    write(&ring, &words, 16).unwrap();
    // A reader reads everything and waits for 8 more bytes, while the writer of the next record
    // updates its limit for the reader's earlier request; an NMI writes during that.
    *words.at_fence.borrow_mut() = Some(Box::new(|words: &Cells| {
        words.consumed.set(32);
        words.watermark.set(8);
        words
            .reserve
            .set(Word::new(48, words.reserve().in_flight()).0);
    }));
    let (second, ()) = ring.reserve(&words, 16, || ()).unwrap();
    assert!(second.wake);
}

/// Opens a record as the engine does: on the fast path, if possible.
fn open(ring: &Ring, words: &Cells, bytes: u64) -> Result<(), Refused> {
    match words.reserve().next(bytes, || words.limit()) {
        Some(next) => {
            words.reserve.set(next.0);
            Ok(())
        }
        None => ring.reserve(words, bytes, || ()).map(|_| ()),
    }
}

#[test]
fn the_count_of_open_records_never_becomes_position() {
    let (ring, words) = (Ring::new(4096, 2, false).unwrap(), Cells::default());
    let opened = (0..100).filter(|_| open(&ring, &words, 16).is_ok()).count();
    assert_eq!((opened, words.lost.get()), (24, 76));
    assert_eq!(words.reserve(), Word::new(24 * 16, 24));
    for _ in 0..24 {
        ring.commit(&words);
    }
    assert!(open(&ring, &words, 16).is_ok());
    assert_eq!(words.reserve(), Word::new(25 * 16, 1));
}

/// A record that is opened just before each end of a sub-buffer, and others during it that enter
/// the next.
#[test]
fn records_that_enter_subbufs_within_others_are_not_lost() {
    for (subbuf_size, n_subbufs) in [(4096, 8), (16384, 2)] {
        for overwrite in [false, true] {
            let ring = Ring::new(subbuf_size, n_subbufs, overwrite).unwrap();
            let words = Cells::of(ring);
            for round in 1..=ROUNDS {
                let boundary = round * ring.subbuf_size();
                while words.reserve().position() < boundary - 128 {
                    assert_eq!(open(&ring, &words, 64), Ok(()));
                    ring.commit(&words);
                }
                for _ in 0..4 {
                    assert_eq!(open(&ring, &words, 64), Ok(()), "round {round}");
                }
                (0..4).for_each(|_| ring.commit(&words));
                words.consumed.set(words.reserve().position());
            }
            assert_eq!(words.lost.get(), 0);
        }
    }
}

/// With records that leave a part of each sub-buffer unused, also for the outermost one.
#[test]
fn padding_in_front_of_a_record_is_complete() {
    for overwrite in [false, true] {
        let ring = Ring::new(4096, 2, overwrite).unwrap();
        let words = Cells::of(ring);
        for round in 0..ROUNDS {
            // Enters a sub-buffer; the reader passes the padding.
            assert_eq!(open(&ring, &words, 1016), Ok(()), "round {round}");
            ring.commit(&words);
            words.consumed.set(words.reserve().position());
            // Three more fit; the fourth enters the next one.
            for _ in 0..4 {
                assert_eq!(open(&ring, &words, 1016), Ok(()), "round {round}");
            }
            (0..4).for_each(|_| ring.commit(&words));
            words.consumed.set(words.reserve().position());
            while words.reserve().position() % 4096 < 4096 - 1016 {
                assert_eq!(open(&ring, &words, 1016), Ok(()));
                ring.commit(&words);
                words.consumed.set(words.reserve().position());
            }
        }
        assert_eq!(words.lost.get(), 0);
    }
}

/// A reader that stops reading.
#[test]
fn who_is_refused_again_and_again_wakes_once() {
    let (ring, words) = (Ring::new(64, 2, false).unwrap(), Cells::default());
    write(&ring, &words, 64).unwrap();
    write(&ring, &words, 40).unwrap();
    let wakes = |n: usize, bytes| {
        let refused = |_: &usize| write(&ring, &words, bytes) == Err(FULL);
        (0..n).filter(refused).count()
    };
    assert_eq!(wakes(100, 32), 1);
    // Nor after a record that fits: the reader has been woken.
    write(&ring, &words, 8).unwrap();
    assert_eq!(wakes(100, 32), 0);
    // Once it has read everything, it may be asleep again.
    words.consumed.set(48);
    write(&ring, &words, 8).unwrap();
    assert_eq!(wakes(100, 64), 0);
    assert_eq!(words.lost.get(), 300);
}

/// The writer does not wait for the reader, in overwrite mode, or it fills the rest of the buffer.
#[test]
fn who_does_not_read_is_woken_once() {
    for overwrite in [false, true] {
        for (watermark, nested) in [(0, false), (0, true), (8, false), (8, true), (1024, true)] {
            let ring = Ring::new(4096, 4, overwrite).unwrap();
            let words = Cells::of(ring);
            words.watermark.set(watermark);
            let mut wakes = 0;
            // Enough to fill the first sub-buffer.
            for round in 0..ROUNDS.max(100) {
                // With the outer one in flight each takes the slow path.
                let depth = if nested && round % 50 == 0 { 3 } else { 1 };
                let mut opened = 0;
                for _ in 0..depth {
                    match ring.reserve(&words, 64, || ()) {
                        Ok((grant, ())) => {
                            opened += 1;
                            wakes += usize::from(grant.wake);
                        }
                        Err(refused) => wakes += usize::from(refused == FULL),
                    }
                }
                (0..opened).for_each(|_| ring.commit(&words));
            }
            // One for the first record, one for the lost ones.
            let most = if overwrite { 1 } else { 2 };
            assert!(wakes <= most && wakes > 0, "{wakes} wake-ups");
        }
    }
}

/// The CPU is not stopped for a reader that reads everything and requests the same amount again.
#[test]
fn the_limit_is_there_before_the_reader_asks() {
    for (watermark, bytes) in [
        (8, 16),
        (512, 64),
        (513, 128),
        (1024, 24),
        (u64::MAX, 64),
        (0, 64),
    ] {
        let ring = Ring::new(4096, 4, false).unwrap();
        let words = Cells::of(ring);
        words.watermark.set(watermark);
        ring.refresh_limit(&words);
        for _ in 0..ROUNDS {
            assert!(!ring.is_due(&words) && !ring.limit_is_late(&words));
            let mut woken = false;
            while !ring.is_due(&words) {
                woken = match words.reserve().next(bytes, || words.limit()) {
                    Some(next) => {
                        words.reserve.set(next.0);
                        false
                    }
                    None => ring.reserve(&words, bytes, || ()).unwrap().0.wake,
                };
                ring.commit(&words);
            }
            assert!(woken, "sleeps on");
            words.consumed.set(words.reserve().position());
        }
    }
}
