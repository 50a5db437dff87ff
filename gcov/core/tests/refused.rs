// SPDX-License-Identifier: GPL-2.0

//! Tests of invalid objects, and of objects that were changed.

use super::image::merge_function;
use super::image::BASE;
use super::image::INFO;
use super::*;

/// Makes an object with a function of two counters.
fn object() -> Object {
    Object {
        version: Version::new(u32::from_be_bytes(*b"B22*")),
        stamp: 1,
        checksum: 2,
        name: b"name".to_vec(),
        active: vec![0, 7],
        functions: vec![
            Fun::Own(Identity::default(), vec![vec![1, 2], vec![3]]),
            Fun::Foreign,
            Fun::Null,
        ],
    }
}

/// The first merge function of the info, the number of functions, and their table.
const MERGES: u64 = INFO + 32;
const N_FUNCTIONS: u64 = MERGES + 8 * 8;
const TABLE: u64 = N_FUNCTIONS + 16;
/// The `gcov_fn_info` of the functions.
const FIRST: u64 = TABLE + 8 * 3;
const SECOND: u64 = FIRST + 24 + 2 * 16;

fn refused(change: impl Fn(&mut Image)) -> Refusal {
    let mut image = Image::new(&object());
    assert!(Info::check(&image, INFO).is_ok());
    change(&mut image);
    let refusal = Info::check(&image, INFO).unwrap_err();
    assert!(!refusal.to_string().is_empty());
    refusal
}

#[test]
fn each_reason() {
    let version = |text: &[u8; 4]| u32::from_be_bytes(*text);
    for text in [b"408*", b"A72*", b"B72*", b"b22*", b"B2x*"] {
        assert_eq!(
            refused(|image| image.put32(INFO, version(text))),
            Refusal::Version(Version::new(version(text)))
        );
    }
    // With another number of kinds, other fields are taken for merge functions, or the reverse.
    assert_eq!(
        refused(|image| image.put32(INFO, version(b"B42*"))),
        Refusal::MergeFunction(8)
    );
    assert_eq!(
        refused(|image| image.put64(MERGES + 7 * 8, merge_function(MergeFunction::Add))),
        Refusal::MergeFunction(7)
    );
    assert_eq!(
        refused(|image| image.put64(MERGES + 8, BASE)),
        Refusal::MergeFunction(1)
    );
    assert_eq!(
        refused(|image| image.put64(INFO + 24, 0)),
        Refusal::Unreadable(Part::Name)
    );
    assert_eq!(
        refused(|image| image.put32(N_FUNCTIONS, MAX_FUNCTIONS + 1)),
        Refusal::TooManyFunctions(MAX_FUNCTIONS + 1)
    );
    assert_eq!(
        refused(|image| image.put32(N_FUNCTIONS, MAX_FUNCTIONS)),
        Refusal::Unreadable(Part::Functions)
    );
    assert_eq!(
        refused(|image| image.put64(N_FUNCTIONS + 8, TABLE + 4)),
        Refusal::Misaligned(Part::Functions)
    );
    assert_eq!(
        refused(|image| image.put64(TABLE + 8, FIRST + 1)),
        Refusal::Misaligned(Part::Function(1))
    );
    assert_eq!(
        refused(|image| image.put64(TABLE + 16, BASE - 8)),
        Refusal::Unreadable(Part::Function(2))
    );
    for key in [BASE, BASE + 4, BASE - 8, 1] {
        assert_eq!(
            refused(|image| image.put64(SECOND, key)),
            Refusal::Key(1),
            "{key:#x}"
        );
    }
    assert_eq!(
        refused(|image| image.put64(FIRST + 32, 0)),
        Refusal::NoCounters(0)
    );
    assert_eq!(
        refused(|image| image.put64(FIRST + 32, BASE + 4)),
        Refusal::Misaligned(Part::Counters(0))
    );
    for count in [1000, u32::MAX] {
        assert_eq!(
            refused(|image| image.put32(FIRST + 24, count)),
            Refusal::Unreadable(Part::Counters(0))
        );
    }
    let image = Image::new(&object());
    assert_eq!(
        Info::check(&image, INFO + 4),
        Err(Refusal::Misaligned(Part::Info))
    );
    assert_eq!(
        Info::check(&image, BASE - 8),
        Err(Refusal::Unreadable(Part::Info))
    );
    assert_eq!(
        Info::check(&image, u64::MAX - 7),
        Err(Refusal::Unreadable(Part::Info))
    );
}

#[test]
fn parts_of_groups() {
    let mut object = object();
    object.active = vec![3];
    object.functions = vec![Fun::Own(Identity::default(), vec![vec![1; 6]])];
    let mut image = Image::new(&object);
    assert!(Info::check(&image, INFO).is_ok());
    image.put32(TABLE + 8 + 24, 5);
    assert_eq!(Info::check(&image, INFO), Err(Refusal::Incomplete(0)));
}

/// Without functions there is no table.
#[test]
fn no_functions() {
    let mut object = object();
    object.functions.clear();
    let mut image = Image::new(&object);
    image.put64(N_FUNCTIONS + 8, 0);
    let info = Info::check(&image, INFO).unwrap();
    let mut to = vec![0; info.max_len()];
    assert_eq!(info.write(&image, &mut to), Ok(20));
}

/// A function without a key belongs to no object.
#[test]
fn no_key() {
    let mut image = Image::new(&object());
    image.put64(SECOND, 0);
    let info = Info::check(&image, INFO).unwrap();
    let there = info
        .functions(&image)
        .map(|function| function.unwrap().is_some());
    assert_eq!(there.collect::<Vec<_>>(), [true, false, false]);
}

/// All functions have the same counters, which are many.
#[test]
fn too_large() {
    let mut object = object();
    object.active = vec![0];
    object.functions = vec![Fun::Own(Identity::default(), vec![vec![1; 1 << 15]])];
    let one = Image::new(&object);
    let counters = one.counters;
    let size = |n: u64| 0x40 + 48 + 64 + 8 * n;
    let n = 1 << 11;
    let mut image = one.clone();
    image
        .bytes
        .resize((size(n) + 40 * n) as usize + (1 << 18), 0);
    image.put32(N_FUNCTIONS, n as u32);
    for index in 0..n {
        let function = (BASE + size(n) + 40 * index).next_multiple_of(8);
        image.put64(TABLE + 8 * index, function);
        image.put64(function, INFO);
        image.put32(function + 24, 1 << 15);
        image.put64(function + 32, BASE + size(n) + 40 * n);
    }
    assert!(counters > BASE);
    assert_eq!(Info::check(&image, INFO), Err(Refusal::TooLarge));
}

#[test]
fn llvms() {
    let image = Image::new(&object());
    let version = u32::from_be_bytes(*b"B11*");
    let function = |count, address| LlvmFunction {
        identity: Identity::default(),
        count,
        address,
    };
    let check = |version, function| LlvmFile::check(&image, version, 0, &[function]).map(|_| ());
    assert_eq!(check(version, function(1, image.counters)), Ok(()));
    assert_eq!(check(version, function(0, 0)), Ok(()));
    for (function, refusal) in [
        (function(1, 0), Refusal::NoCounters(0)),
        (
            function(1, image.counters + 4),
            Refusal::Misaligned(Part::Counters(0)),
        ),
        (
            function(4, image.counters),
            Refusal::Unreadable(Part::Counters(0)),
        ),
        (function(u32::MAX, image.counters), Refusal::TooLarge),
    ] {
        assert_eq!(check(version, function), Err(refusal));
    }
    let bytes = u32::from_be_bytes(*b"B22*");
    assert_eq!(
        check(bytes, function(0, 0)),
        Err(Refusal::Version(Version::new(bytes)))
    );
}

proptest! {
    /// For any memory, an object is refused, or written within its bounds. It is refused if an
    /// access failed.
    #[test]
    fn changed_objects(
        object in objects(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        addresses in prop::collection::vec((any::<prop::sample::Index>(), 0..400_u64), 0..3),
    ) {
        let whole = Image::new(&object);
        let mut image = whole.clone();
        let until = (image.counters - BASE) as usize;
        for (at, value) in changes {
            let at = at.index(until);
            image.bytes[at] = value;
        }
        for (at, offset) in addresses {
            let at = at.index(until / 8 - 1) as u64 * 8;
            image.put64(BASE + at, BASE + offset);
        }
        match Info::check(&image, INFO) {
            Ok(info) => {
                prop_assert_eq!(image.refused.get(), 0);
                let mut to = vec![0; info.max_len()];
                let len = info.write(&image, &mut to).unwrap();
                prop_assert!(Gcda::parse(&to[..len]).is_ok());
                prop_assert_eq!(image.refused.get(), 0);
            }
            Err(refusal) => prop_assert!(!refusal.to_string().is_empty()),
        }
        // The object was checked before it changed.
        let info = Info::check(&whole, INFO).unwrap();
        let mut to = vec![0; info.max_len()];
        let written = info.write(&image, &mut to);
        let is_refused = written.is_err() || Info::check(&image, INFO).is_err();
        prop_assert!(is_refused || image.refused.get() == 0);
    }

    #[test]
    fn arbitrary_memory(
        bytes in prop::collection::vec(any::<u8>(), 0..400),
        version in 0..9_usize,
    ) {
        let mut image = Image::new(&object());
        image.bytes.truncate(0x40);
        image.bytes.extend(image::VERSIONS[version].iter().rev());
        image.bytes.extend(bytes);
        if let Ok(info) = Info::check(&image, INFO) {
            let mut to = vec![0; info.max_len()];
            prop_assert!(info.write(&image, &mut to).is_ok());
        }
    }
}
