// SPDX-License-Identifier: GPL-2.0

//! Tests with invented sections.

use super::image::BASE;
use super::*;
use std::cell::Cell;

const RECORD: usize = 64;

/// Record of a function with counters and bits at offsets of their sections.
#[derive(Clone, Copy, Debug)]
struct Made {
    counters: usize,
    n_counters: u32,
    bits: usize,
    n_bits: u32,
}

/// Makes sections with records, counters, bits and names, one after the other.
fn sections(records: &[Made], counters: usize, bits: usize, names: usize) -> (Image, Sections) {
    let start = |at: usize, len| Section {
        address: BASE + at as u64,
        len,
    };
    let data = start(0, records.len() * RECORD);
    let counters = start(data.len, counters * 8);
    let bits = start(data.len + counters.len, bits);
    let names = start(data.len + counters.len + bits.len, names);
    let mut bytes = Vec::new();
    for (index, record) in records.iter().enumerate() {
        let at = BASE + (index * RECORD) as u64;
        let distance =
            |section: Section, offset: usize| (section.address + offset as u64).wrapping_sub(at);
        bytes.extend([index as u64, 77].into_iter().flat_map(u64::to_le_bytes));
        bytes.extend(distance(counters, record.counters).to_le_bytes());
        bytes.extend(distance(bits, record.bits).to_le_bytes());
        bytes.extend([0x1234, 0x5678_u64].into_iter().flat_map(u64::to_le_bytes));
        bytes.extend(record.n_counters.to_le_bytes());
        bytes.extend([0; 8]);
        bytes.extend(record.n_bits.to_le_bytes());
    }
    bytes.extend((0..counters.len + bits.len + names.len).map(|at| at as u8));
    let image = Image {
        bytes,
        counters: counters.address,
        refused: Cell::new(0),
    };
    let sections = Sections {
        data,
        counters,
        bits,
        names,
    };
    (image, sections)
}

fn two() -> (Image, Sections) {
    let records = [
        Made {
            counters: 0,
            n_counters: 2,
            bits: 0,
            n_bits: 3,
        },
        Made {
            counters: 16,
            n_counters: 1,
            bits: 0,
            n_bits: 0,
        },
    ];
    sections(&records, 3, 3, 5)
}

fn written(image: &Image, sections: Sections) -> Vec<u8> {
    let profile = Profile::check(image, 10, sections).unwrap();
    let mut bytes = vec![0xaa; profile.file_len()];
    assert_eq!(profile.write(image, &mut bytes), Ok(bytes.len()));
    bytes
}

#[test]
fn layout() {
    let (image, sections) = two();
    let file = written(&image, sections);
    assert_eq!(file.len(), 16 * 8 + 128 + 24 + 8 + 8);
    let words: Vec<u64> = file[..128]
        .chunks(8)
        .map(|word| u64::from_le_bytes(word.try_into().unwrap()))
        .collect();
    assert_eq!(
        words[1..],
        [10, 0, 2, 0, 3, 0, 3, 5, 5, 128, 152, 0, 0, 0, 2]
    );
    // No addresses.
    assert_eq!(file[128 + 32..128 + 48], [0; 16]);
    let profile = Profile::check(&image, 10, sections).unwrap();
    assert_eq!(profile.counters(), 3);
    assert_eq!(profile.resets(), [sections.counters, sections.bits]);
    for len in 0..file.len() {
        assert_eq!(
            profile.write(&image, &mut vec![0; len]),
            Err(ProfileRefusal::NoRoom)
        );
    }
}

#[test]
fn each_reason() {
    let refused = |version, change: &dyn Fn(&mut Image, &mut Sections)| {
        let (mut image, mut sections) = two();
        change(&mut image, &mut sections);
        let refusal = Profile::check(&image, version, sections).unwrap_err();
        assert!(!refusal.to_string().is_empty());
        refusal
    };
    for version in [9, 11, 10 | 1 << 60, 10 | 1 << 32] {
        assert_eq!(
            refused(version, &|_, _| ()),
            ProfileRefusal::Version(version)
        );
    }
    type Change<'c> = (&'c dyn Fn(&mut Image, &mut Sections), ProfileRefusal);
    let changes: [Change<'_>; 10] = [
        (&|_, s| s.names.len += 1, ProfileRefusal::Unreadable),
        (
            &|_, s| s.data.address = BASE - 64,
            ProfileRefusal::Unreadable,
        ),
        (&|_, s| s.counters.address += 4, ProfileRefusal::Misaligned),
        (&|_, s| s.data.len -= 8, ProfileRefusal::Incomplete),
        (&|_, s| s.counters.len -= 1, ProfileRefusal::Incomplete),
        (&|_, s| s.counters.len -= 8, ProfileRefusal::Counters(1)),
        (
            &|image, _| image.put64(BASE + 16, 132),
            ProfileRefusal::Counters(0),
        ),
        (
            &|image, _| image.put32(BASE + 64 + 60, 4),
            ProfileRefusal::Bits(1),
        ),
        (
            &|image, _| image.put32(BASE + 52, 1 << 16),
            ProfileRefusal::Values(0),
        ),
        (
            &|_, s| s.names.len = MAX_PROFILE,
            ProfileRefusal::Unreadable,
        ),
    ];
    for (change, refusal) in changes {
        assert_eq!(refused(10, change), refusal);
    }
}

#[test]
fn counters_of_a_file() {
    let (image, sections) = two();
    let file = written(&image, sections);
    assert!(is_profile(&file));
    assert!(!is_profile(&file[1..]));
    assert!(!is_profile(b"adcg"));
    let at = (sections.counters.address - BASE) as usize;
    let counters: Vec<u64> = image.bytes[at..at + 24]
        .chunks(8)
        .map(|bytes| u64::from_le_bytes(bytes.try_into().unwrap()))
        .collect();
    assert_eq!(
        profile_counters(&file).unwrap().collect::<Vec<_>>(),
        counters
    );
    assert!(profile_counters(&file[..file.len() - 1]).is_none());
    let names = (sections.names.address - BASE) as usize;
    assert_eq!(profile_names(&file), Some(&image.bytes[names..names + 5]));
    assert_eq!(profile_names(&file[..file.len() - 1]), None);

    let mut other = file.clone();
    assert_eq!(set_profile_counters(&mut other, &[7, 0, u64::MAX]), Ok(()));
    assert_eq!(
        profile_counters(&other).unwrap().collect::<Vec<_>>(),
        [7, 0, u64::MAX]
    );
    let changed = (0..file.len()).filter(|at| file[*at] != other[*at]);
    assert!(changed.into_iter().all(|at| (256..280).contains(&at)));
    assert_eq!(
        set_profile_counters(&mut other, &[7, 0]),
        Err(ProfilesDiffer)
    );
    assert_eq!(set_profile_counters(&mut [], &[]), Err(ProfilesDiffer));
    assert_eq!(set_profile_counters(&mut other, &counters), Ok(()));
    assert_eq!(other, file);
}

#[test]
fn merged_at_another_place() {
    let (image, sections) = two();
    let mut ours = written(&image, sections);
    // The same image, loaded with its counters at another address.
    let (mut moved, mut elsewhere) = two();
    let counters = elsewhere.counters;
    elsewhere.counters.address = BASE + moved.bytes.len().next_multiple_of(8) as u64;
    moved
        .bytes
        .resize((elsewhere.counters.address - BASE) as usize, 0);
    moved
        .bytes
        .extend([1_u64, 2, 3].into_iter().flat_map(u64::to_le_bytes));
    for record in [0, 64] {
        let at = (record + 16) as usize;
        let old = u64::from_le_bytes(moved.bytes[at..at + 8].try_into().unwrap());
        let new = old + elsewhere.counters.address - counters.address;
        moved.put64(BASE + record + 16, new);
    }
    let theirs = written(&moved, elsewhere);
    let before = ours.clone();
    assert_eq!(merge_profiles(&mut ours, &theirs), Ok(()));
    let changed: Vec<usize> = (0..ours.len())
        .filter(|at| ours[*at] != before[*at])
        .collect();
    assert_eq!(changed, [256, 264, 272]);
    assert_eq!(ours[256], before[256] + 1);

    for at in [1, 8, 128, 128 + 16, 128 + 48, ours.len() - 8] {
        let mut other = theirs.clone();
        other[at] ^= 1;
        assert_eq!(
            merge_profiles(&mut ours, &other),
            Err(ProfilesDiffer),
            "{at}"
        );
        assert_eq!(
            merge_profiles(&mut other, &ours),
            Err(ProfilesDiffer),
            "{at}"
        );
    }
}

proptest! {
    #[test]
    fn arbitrary_records(
        bytes in prop::collection::vec(prop_oneof![3 => Just(0_u8), 1 => any::<u8>()], 64 * 3),
        lens in prop::array::uniform4(0..200_usize),
        version in prop_oneof![Just(10_u64), any::<u64>()],
    ) {
        let (mut image, mut sections) = two();
        image.bytes = bytes;
        image.bytes.resize(1000, 0);
        sections.data.len = lens[0];
        sections.counters.len = lens[1];
        sections.bits.len = lens[2];
        sections.names.len = lens[3];
        if let Ok(profile) = Profile::check(&image, version, sections) {
            let mut to = vec![0; profile.file_len()];
            prop_assert_eq!(profile.write(&image, &mut to), Ok(to.len()));
            let other = to.clone();
            prop_assert_eq!(merge_profiles(&mut to, &other), Ok(()));
        }
    }

    #[test]
    fn arbitrary_profiles(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..5),
        cut in any::<prop::sample::Index>(),
    ) {
        let (image, sections) = two();
        let mut file = written(&image, sections);
        let mut other = file.clone();
        for (at, value) in changes {
            let at = at.index(other.len());
            other[at] = value;
        }
        other.truncate(cut.index(other.len()) + 1);
        let _ = merge_profiles(&mut file, &other);
        let _ = merge_profiles(&mut other, &file);
    }
}
