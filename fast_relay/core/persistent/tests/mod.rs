// SPDX-License-Identifier: GPL-2.0

//! Tests that exactly the committed records are found after a reboot, for any damage.

mod image;

use super::checksum::Reason;
use super::validate::NoBuffer;
use super::validate::Piece;
use super::validate::Why;
use super::*;
use crate::ring::OPEN;
use crate::ring::TIMED;
use image::recovered;
use image::Committed;
use image::Image;
use image::OPENED;
use proptest::prelude::*;

fn cases() -> ProptestConfig {
    ProptestConfig::with_cases(if cfg!(miri) { 2 } else { 256 })
}

/// Writes `lens` on a CPU, and returns the records that the buffer still has.
fn fill(image: &Image, cpu: u64, lens: &[(u32, bool)]) -> Vec<Committed> {
    let mut written = Vec::new();
    for (i, (len, timed)) in lens.iter().enumerate() {
        let kind = u16::try_from(i & 0xffff).unwrap();
        written.extend(image.write(cpu, kind, *len, if *timed { TIMED } else { 0 }));
    }
    kept(image, cpu, written)
}

fn kept(image: &Image, cpu: u64, mut written: Vec<Committed>) -> Vec<Committed> {
    let kept = image.layout.ring().kept(image.position(cpu));
    written.retain(|record| record.position >= kept);
    written
}

fn lens(most: usize) -> impl Strategy<Value = Vec<(u32, bool)>> {
    prop::collection::vec((0u32..48, any::<bool>()), 0..most)
}

fn is_left(pieces: &[Piece], why: Why) -> bool {
    pieces
        .iter()
        .any(|piece| matches!(piece, Piece::Left { why: other, .. } if *other == why))
}

fn header() -> Header {
    let mut name = [0; NAME_BYTES];
    name[..4].copy_from_slice(b"test");
    Header {
        bytes: 1 << 20,
        opening: 7,
        boot: [1, 2],
        monotonic_ns: OPENED,
        real_ns: 3,
        cpus: 4,
        subbuf_size: 4096,
        n_subbufs: 8,
        overwrite: true,
        format_bytes: 10,
        format_crc: 11,
        name,
        release: name,
    }
}

fn copies(header: &Header) -> [u8; COPIES * COPY_BYTES] {
    let mut bytes = [0; COPIES * COPY_BYTES];
    for copy in bytes.chunks_exact_mut(COPY_BYTES) {
        copy.copy_from_slice(&header.encode());
    }
    bytes
}

#[test]
fn a_header_comes_back() {
    let memory = copies(&header());
    assert_eq!(
        Header::decode(&memory, 1 << 20),
        Ok((header(), Repair::Intact))
    );
    assert_eq!(
        Header::decode(&memory, 1 << 19),
        Err(HeaderError::Impossible)
    );
    assert_eq!(
        Header::decode(&[0; COPIES * COPY_BYTES], 1 << 20),
        Err(HeaderError::Absent)
    );
    for wrong in [
        Header {
            subbuf_size: 4095,
            ..header()
        },
        Header {
            n_subbufs: 0,
            ..header()
        },
        Header {
            n_subbufs: 256,
            ..header()
        },
        Header {
            cpus: 0,
            ..header()
        },
        Header {
            cpus: u64::MAX,
            ..header()
        },
        Header {
            format_bytes: u64::MAX,
            ..header()
        },
    ] {
        assert_eq!(
            Header::decode(&copies(&wrong), 1 << 20),
            Err(HeaderError::Impossible)
        );
    }
}

/// Each bit of a copy, in one copy, and in all three at different places.
#[test]
fn a_header_survives_what_two_copies_survive() {
    let good = copies(&header());
    // Up to the checksum; the bytes after it are ignored.
    let bits = (13 + 16 + 1) * 64;
    for bit in (0..bits).step_by(if cfg!(miri) { 97 } else { 1 }) {
        let mut memory = good;
        memory[bit / 8] ^= 1 << (bit % 8);
        assert_eq!(
            Header::decode(&memory, 1 << 20),
            Ok((header(), Repair::Copies(1)))
        );
        for copy in 1..COPIES {
            let bit = (bit + copy * 64) % bits;
            memory[copy * COPY_BYTES + bit / 8] ^= 1 << (bit % 8);
        }
        assert_eq!(
            Header::decode(&memory, 1 << 20),
            Ok((header(), Repair::Voted))
        );
        let mut memory = good;
        for copy in 0..COPIES {
            memory[copy * COPY_BYTES + bit / 8] ^= 1 << (bit % 8);
        }
        assert!(Header::decode(&memory, 1 << 20).is_err());
    }
}

#[test]
fn a_layout_has_room_for_all() {
    for (cpus, format) in [(1, 0), (4, 1), (64, 5000)] {
        let bytes = 8 << 20;
        let layout = Layout::largest(4096, true, cpus, format, bytes).unwrap();
        assert!(layout.bytes() <= bytes);
        let double = usize::try_from(layout.ring().n_subbufs() * 2).unwrap();
        let double = crate::ring::Ring::new(4096, double, true).unwrap();
        assert!(Layout::new(double, cpus, format).unwrap().bytes() > bytes);
        assert!(layout.format_at() + format <= layout.seal_at(0));
        for cpu in 0..cpus {
            assert!(
                layout.seal_at(cpu) + checksum::bytes(layout.ring().n_subbufs())
                    <= layout.ctl_at(cpu)
            );
            assert_eq!(layout.ctl_at(cpu) % PAGE, 0);
            for (at, inside) in [
                (layout.seal_at(cpu), false),
                (layout.ctl_at(cpu) - 1, false),
                (layout.ctl_at(cpu), true),
                (layout.data_at(cpu, layout.ring().size() - 1), true),
            ] {
                assert_eq!(layout.is_of_buffer(at), inside);
            }
            let end = layout.ctl_at(cpu) + layout.buffer_bytes();
            assert_eq!(
                end,
                if cpu + 1 < cpus {
                    layout.seal_at(cpu + 1)
                } else {
                    layout.bytes()
                }
            );
        }
    }
    let layout = Layout::largest(4096, true, 4, 0, 1 << 20).unwrap();
    assert!(!layout.is_of_buffer(0) && !layout.is_of_buffer(layout.bytes()));
    assert!(Layout::largest(4096, true, 4, 0, 40 << 10).is_none());
}

#[test]
fn a_cpu_that_never_came_up_has_nothing() {
    let image = Image::new(2, 64, 4, true);
    for at in [ctl::MAGIC_VERSION, ctl::RESERVE] {
        image.store(image.layout.ctl_at(1) + at, 0);
    }
    assert_eq!(
        validate::cpu(&image, &image.layout, 1, 0, |_| ()),
        Err(NoBuffer::Absent)
    );
    assert!(validate::cpu(&image, &image.layout, 0, 0, |_| ()).is_ok());
    image.store(image.layout.ctl_at(0) + ctl::MAGIC_VERSION, CTL_MAGIC ^ 2);
    assert_eq!(
        validate::cpu(&image, &image.layout, 0, 0, |_| ()),
        Err(NoBuffer::Damaged)
    );
}

/// Each bit of the position's word is damaged: the seal has the position.
#[test]
fn a_seal_knows_the_position() {
    let image = Image::new(1, 64, 4, true);
    let written = fill(&image, 0, &[(20, true); 30]);
    image.seal(Reason::Panic);
    let at = image.layout.ctl_at(0) + ctl::RESERVE;
    let good = image.load(at);
    for bit in 0..64 {
        image.store(at, good ^ (1 << bit));
        assert_eq!(recovered(&image, &image.layout, 0).0, written, "bit {bit}");
        let found = validate::cpu(&image, &image.layout, 0, OPENED, |_| ());
        assert!(found.unwrap().bad_ctl, "bit {bit}");
    }
}

/// Each bit of a sealed buffer.
#[test]
fn a_flipped_bit_costs_a_sub_buffer_and_is_told() {
    let image = Image::new(1, 256, 4, true);
    let written = fill(
        &image,
        0,
        &[(20, true), (0, false), (41, true), (7, false)].repeat(12),
    );
    image.seal(Reason::Panic);
    let kept = image.layout.ring().kept(image.position(0));
    for position in (kept..image.position(0)).step_by(8) {
        let at = image.layout.data_at(0, position);
        let good = image.load(at);
        for bit in (0..64).step_by(if cfg!(miri) { 63 } else { 1 }) {
            image.store(at, good ^ (1 << bit));
            let (records, pieces) = recovered(&image, &image.layout, 0);
            assert!(is_left(&pieces, Why::Checksum));
            let others: Vec<_> = written
                .iter()
                .filter(|record| record.position / 256 != position / 256)
                .collect();
            assert!(records.iter().eq(others), "{position} {bit}");
        }
        image.store(at, good);
    }
}

/// Each bit of a seal. Without its entry a sub-buffer has no seal; without the head, the control
/// page remains.
#[test]
fn a_flipped_bit_of_a_seal_costs_nothing_but_the_certainty() {
    let image = Image::new(1, 256, 2, true);
    let written = fill(&image, 0, &[(20, true); 30]);
    image.seal(Reason::Panic);
    for at in (0..64 + 2 * 24).step_by(8) {
        let at = image.layout.seal_at(0) + at;
        let good = image.load(at);
        for bit in 0..64 {
            image.store(at, good ^ (1 << bit));
            assert_eq!(recovered(&image, &image.layout, 0).0, written);
        }
        image.store(at, good);
    }
}

/// A record being written in place, torn at each byte, with others written during it.
#[test]
fn a_torn_record_is_told_and_nothing_else_is_lost() {
    for timed in [0, TIMED] {
        for torn in 0..40 {
            for sealed in [false, true] {
                let image = Image::new(1, 256, 4, true);
                let mut written = fill(&image, 0, &[(20, true), (33, false), (0, true)].repeat(20));
                let open = image.reserve(0, 9, 40, timed).unwrap();
                image.head(&open, OPEN);
                image.put(&open, 16, &vec![0xff; torn]);
                written.extend(image.write(0, 10, 17, TIMED));
                let inner = image.reserve(0, 11, 8, 0).unwrap();
                image.head(&inner, OPEN);
                written.extend(image.write(0, 12, 3, 0));
                if sealed {
                    image.seal(Reason::Panic);
                }
                let written = kept(&image, 0, written);
                let (records, pieces) = recovered(&image, &image.layout, 0);
                assert_eq!(records, written);
                let left: Vec<_> = pieces
                    .iter()
                    .filter(|piece| matches!(piece, Piece::Left { .. }))
                    .collect();
                assert_eq!(left.len(), 2, "{pieces:?}");
                assert!(is_left(&pieces, Why::Open));
            }
        }
    }
}

/// A record without a mark: the bytes after the last complete position are left out, and reported.
/// They are not taken for records even if older bytes there look like one.
#[test]
fn a_torn_record_without_a_mark_is_told() {
    let image = Image::new(1, 256, 2, true);
    let before = fill(&image, 0, &[(24, true); 40]);
    let open = image.reserve(0, 9, 24, TIMED).unwrap();
    let mut after = before.clone();
    after.extend(image.write(0, 10, 24, TIMED));
    for sealed in [false, true] {
        if sealed {
            image.seal(Reason::Panic);
        }
        let (records, pieces) = recovered(&image, &image.layout, 0);
        assert!(
            records.iter().all(|record| before.contains(record)),
            "{records:?}"
        );
        assert!(records.iter().all(|record| record.position < open.position));
        assert!(is_left(&pieces, Why::Unknown));
    }
}

/// Tests that records are found that another CPU has written after the seal.
#[test]
fn records_after_a_seal_are_found() {
    let image = Image::new(1, 256, 4, true);
    let open = image.reserve(0, 1, 8, 0).unwrap();
    image.seal(Reason::Restart);
    let mut written: Vec<_> = image.commit(&open, false).into_iter().collect();
    for turn in 0..60 {
        if turn % 7 == 0 {
            image.seal(Reason::Restart);
        }
        written.extend(image.write(0, turn, 24, TIMED));
        let expected = kept(&image, 0, written.clone());
        assert_eq!(
            recovered(&image, &image.layout, 0).0,
            expected,
            "turn {turn}"
        );
    }
}

/// The CPU continues to write between the steps of a seal, which are short for any size of a
/// sub-buffer.
#[test]
fn records_between_the_steps_of_a_seal_are_found() {
    let image = Image::new(1, 1 << 17, 4, true);
    let mut written = fill(&image, 0, &[(4000, true); 200]);
    let mut sealing = checksum::Sealing::begin(&image, &image.layout, 0, Reason::Restart);
    let mut steps = 0;
    loop {
        let before = image.loads();
        let is_done = sealing.step(&image, &image.layout);
        assert!(image.loads() - before <= checksum::Sealing::STEP / 8);
        steps += 1;
        if is_done {
            break;
        }
        written.extend(image.write(0, 1, 4000, TIMED));
    }
    assert!(steps >= 7, "{steps}");
    assert_eq!(
        recovered(&image, &image.layout, 0).0,
        kept(&image, 0, written)
    );
}

#[test]
fn a_time_before_the_channel_was_opened_is_told_where_there_is_no_seal() {
    let image = Image::new(1, 256, 4, true);
    let written = fill(&image, 0, &[(8, true); 5]);
    let at = image.layout.data_at(0, written[2].position + 8);
    image.store(at, 5);
    let (records, pieces) = recovered(&image, &image.layout, 0);
    assert!(is_left(&pieces, Why::Time));
    assert_eq!(records.len(), 4);
    assert!(!records.contains(&written[2]));
}

proptest! {
    #![proptest_config(cases())]

    /// All committed records that have not been overwritten are found, in order, with and without a
    /// seal.
    #[test]
    fn nothing_that_was_committed_is_lost(
        per_cpu in prop::collection::vec(lens(120), 1..4),
        overwrite: bool,
        sealed in prop::option::of(0usize..3),
    ) {
        let cpus = u64::try_from(per_cpu.len()).unwrap();
        let image = Image::new(cpus, 128, 4, overwrite);
        let cpus_lens = (0..cpus).zip(&per_cpu);
        let written: Vec<_> = cpus_lens.map(|(cpu, lens)| fill(&image, cpu, lens)).collect();
        if let Some(reason) = sealed {
            image.seal([Reason::Panic, Reason::Restart, Reason::Closed][reason]);
        }
        let bytes = image.bytes();
        for (cpu, written) in (0..cpus).zip(&written) {
            let (records, pieces) = recovered(bytes.as_slice(), &image.layout, cpu);
            prop_assert_eq!(&records, written);
            for piece in pieces {
                let is_sealed = sealed.is_some();
                let whole = matches!(piece, Piece::Records { sealed: by, .. } if by == is_sealed);
                prop_assert!(whole, "{:?}", piece);
            }
        }
    }

    /// For any flipped bits of sealed data, each shown record was committed.
    #[test]
    fn what_was_hit_is_never_shown(
        lens in lens(80),
        flips in prop::collection::vec((any::<prop::sample::Index>(), 0u32..64), 1..8),
    ) {
        let image = Image::new(1, 128, 4, true);
        let written = fill(&image, 0, &lens);
        image.seal(Reason::Panic);
        let words = image.layout.ring().size() / 8;
        for (at, bit) in &flips {
            let index = at.index(usize::try_from(words).unwrap());
            let at = image.layout.data_at(0, 8 * u64::try_from(index).unwrap());
            image.store(at, image.load(at) ^ (1 << bit));
        }
        let (records, pieces) = recovered(&image, &image.layout, 0);
        let mut rest = written.iter();
        for record in &records {
            prop_assert!(rest.any(|other| other == record), "{:?}", record);
        }
        prop_assert!(records.len() == written.len() || is_left(&pieces, Why::Checksum));
    }

    /// Any memory ends the walk, and no piece is outside of the buffer.
    #[test]
    fn any_memory_is_survived(
        seed: u64,
        reserve: u64,
        committed: u64,
        sealed: bool,
        words in prop::collection::vec((any::<prop::sample::Index>(), any::<u64>()), 0..40),
    ) {
        let image = Image::new(1, 64, 4, true);
        for position in (0..256).step_by(8) {
            let turned = seed.rotate_left(u32::try_from(position % 64).unwrap());
            let word = turned & 0x000f_ffff_0000_003f;
            image.store(image.layout.data_at(0, position), word);
        }
        image.store(image.layout.ctl_at(0) + ctl::RESERVE, reserve);
        image.store(image.layout.ctl_at(0) + ctl::COMMITTED, committed);
        if sealed {
            image.seal(Reason::Panic);
        }
        let from = image.layout.seal_at(0) / 8;
        let count = usize::try_from(image.layout.bytes() / 8 - from).unwrap();
        for (at, word) in words {
            image.store(8 * (from + u64::try_from(at.index(count)).unwrap()), word);
        }
        let mut bytes = 0;
        let found = validate::cpu(&image, &image.layout, 0, OPENED, |piece| {
            let (Piece::Records { from, to, .. } | Piece::Left { from, to, .. }) = piece;
            bytes += to - from;
        });
        if let Ok(found) = found {
            prop_assert!(bytes <= image.layout.ring().size());
            prop_assert!(found.kept <= found.reserve.position());
        }
    }
}
