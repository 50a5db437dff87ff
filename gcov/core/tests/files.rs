// SPDX-License-Identifier: GPL-2.0

//! Tests that files have the contents of memory, and are read back.

use super::*;

/// Returns the expected contents of a file for a set with these values in memory.
pub(super) fn on_disk(kind: Kind, values: &[u64]) -> Vec<u64> {
    match kind {
        Kind::TopList => values.chunks(3).flat_map(|list| [list[0], 0]).collect(),
        _ => values.to_vec(),
    }
}

pub(super) fn written(image: &Image) -> Vec<u8> {
    let info = Info::check(image, image::INFO).unwrap();
    let mut bytes = vec![0xaa; info.max_len()];
    let len = info.write(image, &mut bytes).unwrap();
    bytes.truncate(len);
    bytes
}

/// Functions with their counters, as read from a file.
type Said = Vec<Option<(Identity, Vec<(u8, Vec<u64>)>)>>;

pub(super) fn said(file: &Gcda<'_>) -> Said {
    let function = |function: Record<'_>| {
        let sets = function
            .sets()
            .map(|set| (set.index, set.values().collect()));
        let sets = sets.collect();
        function.identity.map(|identity| (identity, sets))
    };
    file.functions().map(function).collect()
}

pub(super) fn expected(object: &Object) -> Said {
    let function = |function: &Fun| match function {
        Fun::Null | Fun::Foreign => None,
        Fun::Own(identity, sets) => {
            let sets = object.active.iter().zip(sets);
            let sets = sets.map(|(index, set)| (*index, on_disk(object.kind(*index), set)));
            Some((*identity, sets.collect()))
        }
    };
    object.functions.iter().map(function).collect()
}

proptest! {
    #[test]
    fn what_is_written_is_read_again(object in objects()) {
        let image = Image::new(&object);
        let info = Info::check(&image, image::INFO).unwrap();
        prop_assert_eq!(info.version(), object.version);
        prop_assert_eq!(info.n_functions() as usize, object.functions.len());
        let mut name = [0; 32];
        prop_assert_eq!(info.name(&image, &mut name), Ok(Some(&object.name[..])));
        let short = &mut [0; 32][..object.name.len() - 1];
        prop_assert_eq!(info.name(&image, short), Ok(None));

        let bytes = written(&image);
        let file = Gcda::parse(&bytes).unwrap();
        prop_assert_eq!(file.version(), object.version);
        prop_assert_eq!(file.stamp(), object.stamp);
        let checksum = if object.format().checksum { object.checksum } else { 0 };
        prop_assert_eq!(file.checksum(), checksum);
        prop_assert_eq!(file.summary(), None);
        prop_assert_eq!(said(&file), expected(&object));
        prop_assert_eq!(image.refused.get(), 0);
    }

    /// Buffers of other lengths: the file fits, or is refused.
    #[test]
    fn buffers(object in objects(), len in 0..400_usize) {
        let image = Image::new(&object);
        let info = Info::check(&image, image::INFO).unwrap();
        let whole = written(&image);
        let mut to = vec![0; len];
        match info.write(&image, &mut to) {
            Ok(written) => prop_assert_eq!(&to[..written], &whole[..]),
            Err(refusal) => {
                prop_assert_eq!(refusal, Refusal::NoRoom);
                // Zeros take up room before they are recognised.
                prop_assert!(len < info.max_len());
            }
        }
    }

    /// Other CPUs count while a file is written. It may have more bytes, but still fits.
    #[test]
    fn counters_change(object in objects(), value in any::<u8>()) {
        let image = Image::new(&object);
        let info = Info::check(&image, image::INFO).unwrap();
        let mut changed = image.clone();
        changed.bytes[(image.counters - image::BASE) as usize..].fill(value);
        let mut to = vec![0; info.max_len()];
        let len = info.write(&changed, &mut to).unwrap();
        let file = Gcda::parse(&to[..len]).unwrap();
        let identities = file.functions().map(|function| function.identity);
        let before = written(&image);
        let before = Gcda::parse(&before).unwrap();
        prop_assert!(identities.eq(before.functions().map(|function| function.identity)));
    }

    #[test]
    fn files_that_are_cut_or_changed(
        object in objects(),
        cut in any::<prop::sample::Index>(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
    ) {
        let bytes = written(&Image::new(&object));
        for bytes in [&bytes[..cut.index(bytes.len())], &bytes] {
            let mut bytes = bytes.to_vec();
            for (at, value) in &changes {
                if !bytes.is_empty() {
                    let at = at.index(bytes.len());
                    bytes[at] = *value;
                }
            }
            follow(&bytes);
        }
    }

    #[test]
    fn files_of_arbitrary_words(
        version in prop::sample::select(&image::VERSIONS[..]),
        words in prop::collection::vec(
            prop_oneof![
                0..40_u32,
                Just(0x0100_0000_u32),
                (0..12_u32).prop_map(|index| 0x01a1_0000 + (index << 17)),
                Just(0xa100_0000_u32),
                (0..40_u32).prop_map(u32::wrapping_neg),
            ],
            0..60,
        ),
    ) {
        let mut bytes = b"adcg".to_vec();
        bytes.extend(version.iter().rev());
        bytes.extend(words.into_iter().flat_map(u32::to_le_bytes));
        follow(&bytes);
    }

    #[test]
    fn llvms_files(
        version in prop::sample::select(vec![*b"408*", *b"A83*", *b"B11*"]),
        stamp in any::<u32>(),
        functions in prop::collection::vec((any::<[u32; 3]>(), image::counters(Kind::Add)), 0..5),
    ) {
        let ids: Vec<Identity> = functions
            .iter()
            .map(|([ident, lineno_checksum, cfg_checksum], _)| Identity {
                ident: *ident,
                lineno_checksum: *lineno_checksum,
                cfg_checksum: *cfg_checksum,
            })
            .collect();
        // The counters are at the addresses of a GCC object's counters.
        let object = Object {
            version: Version::new(u32::from_be_bytes(*b"B13*")),
            stamp,
            checksum: 0,
            name: b"name".to_vec(),
            active: vec![0],
            functions: ids
                .iter()
                .zip(&functions)
                .map(|(identity, (_, values))| Fun::Own(*identity, vec![values.clone()]))
                .collect(),
        };
        let image = Image::new(&object);
        let mut address = image.counters;
        let told: Vec<LlvmFunction> = ids
            .iter()
            .zip(&functions)
            .map(|(identity, (_, values))| {
                let told = LlvmFunction {
                    identity: *identity,
                    count: values.len() as u32,
                    address,
                };
                address += 8 * values.len() as u64;
                told
            })
            .collect();
        let version = u32::from_be_bytes(version);
        let file = LlvmFile::check(&image, version, stamp, &told).unwrap();
        let mut bytes = vec![0; file.max_len()];
        let len = file.write(&image, &told, &mut bytes).unwrap();
        let read = Gcda::parse(&bytes[..len]).unwrap();
        prop_assert_eq!(read.stamp(), stamp);
        prop_assert_eq!(said(&read), expected(&object));
        let runs = read.summary().map(|summary| summary.runs);
        prop_assert_eq!(runs, (version == u32::from_be_bytes(*b"B11*")).then_some(1));
    }
}

/// Reads bytes that may be a file, and merges a file with itself.
fn follow(bytes: &[u8]) {
    let Ok(file) = Gcda::parse(bytes) else { return };
    let mut merged = vec![0; bytes.len() * 2];
    let len = merge(&file, &file, &mut merged).unwrap();
    let merged = Gcda::parse(&merged[..len]).unwrap();
    assert_eq!(outline(&merged), outline(&file));
}

/// Functions of a file, with the numbers and kinds of their counters.
type Outline = Vec<Option<(Identity, Vec<(u8, u32)>)>>;

/// Has no values, because a few bytes can stand for two gigabytes of zeros, and no lengths of
/// lists, which depend on the values.
fn outline(file: &Gcda<'_>) -> Outline {
    let count = |set: Counters<'_>| match set.kind {
        Kind::TopList => 0,
        _ => set.count,
    };
    let function = |function: Record<'_>| {
        let sets = function.sets().map(|set| (set.index, count(set))).collect();
        function.identity.map(|identity| (identity, sets))
    };
    file.functions().map(function).collect()
}

#[test]
fn other_files() {
    let parse = |bytes: &[u8]| Gcda::parse(bytes).map(|_| ());
    assert_eq!(parse(b""), Err(Malformed::Magic));
    assert_eq!(parse(b"oncg*22B"), Err(Malformed::Magic));
    assert_eq!(parse(b"gcdaB22*"), Err(Malformed::BigEndian));
    let version = Version::new(u32::from_be_bytes(*b"C12*"));
    assert_eq!(parse(b"adcg*21C"), Err(Malformed::Version(version)));
    assert_eq!(version.to_string(), "C12*");
    assert_eq!(Version::new(0x4142_0a7f).to_string(), "AB\\x0a\\x7f");
    assert_eq!(parse(b"adcg*22Bstmp"), Err(Malformed::Truncated(0)));
    assert_eq!(parse(b"adcg*22Bstmpsum."), Ok(()));
    // Counters without a function.
    assert_eq!(
        parse(b"adcg*22Bstmpsum.\0\0\xa1\x01\0\0\0\0"),
        Err(Malformed::Tag(16))
    );
    // Bytes after the end.
    assert_eq!(parse(b"adcg*22Bstmpsum.\0\0\0\0x"), Err(Malformed::Tag(16)));
    assert_eq!(
        parse(b"adcg*22Bstmpsum.\0\0\0\x01\x08\0\0\0........"),
        Err(Malformed::Length(16))
    );
    // Counters that are left out as zero: too many for a length, and the maximum.
    let absent = |len: [u8; 4]| {
        let mut bytes = b"adcg*33Bstmpsum.\0\0\0\x01\x0c\0\0\0............\0\0\xa1\x01".to_vec();
        bytes.extend(len);
        follow(&bytes);
        parse(&bytes)
    };
    assert_eq!(absent([0, 0, 0, 0x80]), Err(Malformed::Length(36)));
    assert_eq!(absent([8, 0, 0, 0x80]), Ok(()));
}
