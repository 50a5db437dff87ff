// SPDX-License-Identifier: GPL-2.0

//! Tests of the buffer in memory, written and read by one thread.

use super::*;
use cells::Cells;

mod cells;
// Thousands of runs, for which Miri needs minutes.
#[cfg(not(miri))]
mod explore;
mod found;
mod model;
#[cfg(loom)]
mod ordering;

fn write(ring: &Ring, words: &Cells, bytes: u64) -> Result<Grant, Refused> {
    let (grant, ()) = ring.reserve(words, bytes, || ())?;
    ring.commit(words);
    Ok(grant)
}

#[test]
fn sizes() {
    assert!(Ring::new(64, 2, false).is_ok());
    for (subbuf_size, n) in [
        (0, 2),
        (32, 2),
        (96, 2),
        (64, 1),
        (64, 3),
        (usize::MAX, 2),
        (1 << 31, 2),
    ] {
        assert_eq!(Ring::new(subbuf_size, n, false).err(), Some(SizeError));
    }
}

#[test]
fn no_overwrite_stops_when_full_and_goes_on() {
    let (ring, words) = (Ring::new(64, 2, false).unwrap(), Cells::default());
    assert_eq!(write(&ring, &words, 48).map(|g| g.start), Ok(0));
    let second = write(&ring, &words, 24).unwrap();
    let padding = Padding {
        start: 48,
        bytes: 16,
    };
    assert_eq!((second.start, second.entered), (64, Some(padding)));
    assert_eq!(write(&ring, &words, 48), Err(Refused::Full { wake: true }));
    assert!(words.stalled.get() != 0 && ring.is_due(&words));
    assert_eq!(words.lost.get(), 1);
    words.consumed.set(64);
    assert_eq!(write(&ring, &words, 48).map(|g| g.start), Ok(128));
    assert_eq!(words.stalled.get(), 0);
}

#[test]
fn what_has_been_read_whole_makes_room_for_any_record() {
    let (ring, words) = (Ring::new(64, 2, false).unwrap(), Cells::default());
    for _ in 0..10 {
        assert!(write(&ring, &words, 40).is_ok());
        words.consumed.set(words.reserve().position());
    }
    assert_eq!(words.lost.get(), 0);
}

#[test]
fn overwrite_counts_what_it_replaces() {
    let (ring, words) = (Ring::new(64, 2, true).unwrap(), Cells::default());
    for _ in 0..5 {
        assert!(write(&ring, &words, 64).is_ok());
    }
    assert_eq!(words.overwritten.get(), 3 * 64);
    assert_eq!(ring.kept(words.reserve().position()), 3 * 64);
}

#[test]
fn a_record_in_flight_is_not_overwritten() {
    let (ring, words) = (Ring::new(64, 2, true).unwrap(), Cells::default());
    let (outer, ()) = ring.reserve(&words, 32, || ()).unwrap();
    assert!(write(&ring, &words, 64).is_ok());
    assert_eq!(write(&ring, &words, 64), Err(Refused::Full { wake: true }));
    assert_eq!(Sample::new(&words).committed, outer.start);
    ring.commit(&words);
    assert_eq!(Sample::new(&words).committed, 128);
    assert!(write(&ring, &words, 64).is_ok());
}

#[test]
fn headers() {
    let header = Header {
        len: 13,
        kind: 7,
        flags: TIMED,
    };
    assert_eq!(Header::from_word(header.to_word()), header);
    assert_eq!(header.bytes(), 32);
}
