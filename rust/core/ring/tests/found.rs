// SPDX-License-Identifier: GPL-2.0

//! What a review of the buffer has found, each as it happens.

use super::*;

#[test]
fn words_that_never_rest_do_not_hold_the_writer() {
    let (ring, words) = (Ring::new(64, 4, true).unwrap(), Cells::default());
    words.restless.set(true);
    for _ in 0..100 {
        assert!(write(&ring, &words, 24).is_ok());
    }
    // Nobody passes unseen what the reader has asked for meanwhile.
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
        assert_eq!(write(&ring, words, 64), Err(Refused::Full));
    }));
    // Enters the second sub-buffer; what interrupts it does not find a third one.
    assert!(write(&ring, &words, 8 + 8).is_ok());
    assert!(words.stalled.get() && ring.is_due(&words, words.stalled.get()));
}

#[test]
fn what_a_reader_skips_while_it_is_overwritten_is_counted() {
    let (ring, words) = (Ring::new(64, 2, true).unwrap(), Cells::default());
    for _ in 0..2 {
        assert!(write(&ring, &words, 64).is_ok());
    }
    // A reader on another CPU sees the new position first, and goes on behind it.
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
    // No padding has been reported so far.
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
    assert_eq!(write(&ring, &words, 64), Err(Refused::Full));
}

#[test]
fn who_interrupts_the_update_of_the_limit_wakes_for_all() {
    let (ring, words) = (Ring::new(64, 4, false).unwrap(), Cells::default());
    write(&ring, &words, 16).unwrap();
    // A reader takes all of it and waits for 8 more bytes, while the writer of the next record looks
    // after its limit with what the reader asked for before; an NMI writes within that.
    *words.at_fence.borrow_mut() = Some(Box::new(|words: &Cells| {
        words.consumed.set(32);
        words.watermark.set(8);
        words
            .reserve
            .set(Word::new(48, words.reserve().in_flight()).0);
    }));
    let position = 32;
    words.reserve.set(Word::new(position, 0).0);
    assert!(ring.update_limit(&words, position));
}
