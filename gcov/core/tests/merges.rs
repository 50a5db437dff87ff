// SPDX-License-Identifier: GPL-2.0

//! Tests of merged counters against a model, and of the laws of merging.

use super::files::said;
use super::files::written;
use super::*;
use std::collections::BTreeMap;

/// Generates two objects with the same functions. The second one may lack some, and has counters of
/// its own.
fn pairs() -> impl Strategy<Value = (Object, Object)> {
    let values = prop::collection::vec(0..6_u64, 1..50);
    (objects(), values, 0..12_u8).prop_map(|(object, values, lacking)| {
        let mut other = object.clone();
        let mut values = values.into_iter().cycle();
        for (index, function) in other.functions.iter_mut().enumerate() {
            if let Fun::Own(_, sets) = function {
                sets.iter_mut()
                    .flatten()
                    .zip(&mut values)
                    .for_each(|(to, value)| *to = value);
                if lacking == index as u8 {
                    *function = Fun::Null;
                }
            }
        }
        (object, other)
    })
}

fn merged(a: &[u8], b: &[u8]) -> Vec<u8> {
    let mut to = vec![0; a.len() + b.len()];
    let (a, b) = (Gcda::parse(a).unwrap(), Gcda::parse(b).unwrap());
    let len = merge(&a, &b, &mut to).unwrap();
    to.truncate(len);
    to
}

/// Merges two counters, if the result does not depend on others.
fn one(kind: Kind, a: u64, b: u64) -> Option<u64> {
    Some(match kind {
        Kind::Add => a.wrapping_add(b),
        Kind::Or => a | b,
        Kind::Earliest => [a, b]
            .into_iter()
            .filter(|time| *time != 0)
            .min()
            .unwrap_or(0),
        _ => return None,
    })
}

proptest! {
    #[test]
    fn as_the_model((a, b) in pairs()) {
        let (ours, theirs) = (written(&Image::new(&a)), written(&Image::new(&b)));
        let both = merged(&ours, &theirs);
        let both = said(&Gcda::parse(&both).unwrap());
        let parsed = [&ours, &theirs].map(|file| said(&Gcda::parse(file).unwrap()));
        let [ours, theirs] = parsed;
        for ((ours, theirs), both) in ours.into_iter().zip(theirs).zip(both) {
            let (Some((identity, ours)), Some((_, theirs))) = (&ours, &theirs) else {
                prop_assert_eq!(both, ours.or(theirs));
                continue;
            };
            let (merged, both) = both.unwrap();
            prop_assert_eq!(merged, *identity);
            for (((index, ours), (_, theirs)), (_, both)) in ours.iter().zip(theirs).zip(&both) {
                for ((ours, theirs), both) in ours.iter().zip(theirs).zip(both) {
                    if let Some(sum) = one(a.kind(*index), *ours, *theirs) {
                        prop_assert_eq!(sum, *both);
                    }
                }
            }
        }
    }

    /// Merging with zeros changes nothing.
    #[test]
    fn zeros_change_nothing(object in objects()) {
        let file = written(&Image::new(&object));
        let mut zeros = object.clone();
        for function in &mut zeros.functions {
            if let Fun::Own(_, sets) = function {
                sets.iter_mut().flatten().for_each(|value| *value = 0);
            }
        }
        // A negative total, and an invalid number of pairs, are not counted.
        let plain = object.active.iter().all(|index| one(object.kind(*index), 0, 0).is_some());
        let zeros = written(&Image::new(&zeros));
        if plain {
            let alone = said(&Gcda::parse(&file).unwrap());
            for both in [merged(&file, &zeros), merged(&zeros, &file)] {
                prop_assert_eq!(said(&Gcda::parse(&both).unwrap()), alone.clone());
            }
        }
    }

    /// Counters that do not compete for places may be merged in any order.
    #[test]
    fn order((a, b) in pairs()) {
        let plain = a.active.iter().all(|index| one(a.kind(*index), 0, 0).is_some());
        prop_assume!(plain);
        let [a, b] = [a, b].map(|object| written(&Image::new(&object)));
        prop_assert_eq!(
            said(&Gcda::parse(&merged(&a, &b)).unwrap()),
            said(&Gcda::parse(&merged(&b, &a)).unwrap())
        );
        let left = merged(&merged(&a, &b), &b);
        let right = merged(&a, &merged(&b, &b));
        prop_assert_eq!(said(&Gcda::parse(&left).unwrap()), said(&Gcda::parse(&right).unwrap()));
    }

    /// Lists of values: as long as all have a place, the counts of each value add up.
    #[test]
    fn lists(
        a in prop::collection::btree_map(0..60_u64, 1..9_u64, 0..33),
        b in prop::collection::btree_map(0..60_u64, 1..9_u64, 0..33),
    ) {
        let [ours, theirs] = [&a, &b].map(list_file);
        let both = merged(&ours, &theirs);
        let both = said(&Gcda::parse(&both).unwrap());
        let (_, sets) = both[0].as_ref().unwrap();
        let (_, words) = &sets[0];
        let mut model = a.clone();
        for (value, count) in &b {
            *model.entry(*value).or_default() += count;
        }
        let total = a.values().sum::<u64>() + b.values().sum::<u64>();
        let pairs = words[2..].chunks(2).map(|pair| (pair[0], pair[1]));
        let found: BTreeMap<u64, u64> = pairs.collect();
        prop_assert_eq!(words[1] as usize, found.len());
        if model.len() <= 32 {
            prop_assert_eq!(words[0], total);
            prop_assert_eq!(found, model);
        } else {
            // A negative total shows that some are missing.
            prop_assert_eq!(words[0], total.wrapping_neg());
            prop_assert_eq!(found.len(), 32);
            prop_assert!(found.iter().all(|(value, count)| model[value] >= *count));
        }
    }

    /// Four places: as for lists.
    #[test]
    fn four_values(
        a in prop::collection::btree_map(1..9_u64, 1..9_u64, 0..5),
        b in prop::collection::btree_map(1..9_u64, 1..9_u64, 0..5),
    ) {
        let [ours, theirs] = [&a, &b].map(|pairs| {
            let mut group = vec![pairs.values().sum()];
            group.extend(pairs.iter().flat_map(|(value, count)| [*value, *count]));
            group.resize(9, 0);
            written(&Image::new(&with_set(b"B02*", 3, group)))
        });
        let both = merged(&ours, &theirs);
        let both = said(&Gcda::parse(&both).unwrap());
        let (_, sets) = both[0].as_ref().unwrap();
        let (_, words) = &sets[0];
        let mut model = a.clone();
        for (value, count) in &b {
            *model.entry(*value).or_default() += count;
        }
        let total = a.values().sum::<u64>() + b.values().sum::<u64>();
        let pairs = words[1..].chunks(2).filter(|pair| pair[1] != 0);
        let found: BTreeMap<u64, u64> = pairs.map(|pair| (pair[0], pair[1])).collect();
        if model.len() <= 4 {
            prop_assert_eq!(words[0], total);
            prop_assert_eq!(found, model);
        } else {
            prop_assert_eq!(words[0], total.wrapping_neg());
        }
    }
}

/// Makes an object with one function, and a set of one kind.
fn with_set(version: &[u8; 4], index: u8, set: Vec<u64>) -> Object {
    Object {
        version: Version::new(u32::from_be_bytes(*version)),
        stamp: 1,
        checksum: 2,
        name: b"name".to_vec(),
        active: vec![index],
        functions: vec![Fun::Own(Identity::default(), vec![set])],
    }
}

/// Makes a file with a list, which memory does not have.
fn list_file(pairs: &BTreeMap<u64, u64>) -> Vec<u8> {
    let file = written(&Image::new(&with_set(
        b"B22*",
        3,
        vec![pairs.values().sum(), 0, 0],
    )));
    // Header, function, tag; then the length, the total, and the number of pairs.
    let at = 16 + 8 + 12 + 4;
    let mut list = file[..at].to_vec();
    list.extend((16 + 16 * pairs.len() as u32).to_le_bytes());
    list.extend(&file[at + 4..at + 12]);
    list.extend((pairs.len() as u64).to_le_bytes());
    list.extend(
        pairs
            .iter()
            .flat_map(|(value, count)| [*value, *count])
            .flat_map(u64::to_le_bytes),
    );
    list.extend([0; 4]);
    list
}

#[test]
fn values_that_compete() {
    let merge = |version, index, a: &[u64], b: &[u64]| {
        let [a, b] =
            [a, b].map(|set| written(&Image::new(&with_set(version, index, set.to_vec()))));
        let both = said(&Gcda::parse(&merged(&a, &b)).unwrap());
        both[0].clone().unwrap().1[0].1.clone()
    };
    // A value, how much more often it was seen than others, and how often any was.
    assert_eq!(merge(b"A83*", 3, &[5, 10, 20], &[5, 1, 3]), [5, 11, 23]);
    assert_eq!(merge(b"A83*", 3, &[5, 10, 20], &[6, 4, 9]), [5, 6, 29]);
    assert_eq!(merge(b"A83*", 4, &[5, 4, 20], &[6, 10, 9]), [6, 6, 29]);
    // The four most frequent calls of both.
    assert_eq!(
        merge(
            b"A93*",
            8,
            &[7, 1, 10, 2, 9, 3, 8, 4, 1],
            &[3, 5, 20, 2, 1, 6, 2, 0, 0]
        ),
        [7, 5, 20, 1, 10, 2, 10, 3, 8]
    );
    // The rarest of four is replaced, or becomes rarer.
    assert_eq!(
        merge(
            b"B02*",
            4,
            &[9, 1, 3, 2, 4, 3, 5, 4, 6],
            &[7, 5, 7, 0, 0, 0, 0, 0, 0]
        ),
        [9_u64.wrapping_neg().wrapping_sub(7), 5, 7, 2, 4, 3, 5, 4, 6]
    );
    assert_eq!(
        merge(
            b"B02*",
            4,
            &[9, 1, 3, 2, 4, 3, 5, 4, 6],
            &[2, 5, 2, 0, 0, 0, 0, 0, 0]
        ),
        [11_u64.wrapping_neg(), 1, 1, 2, 4, 3, 5, 4, 6]
    );
}

#[test]
fn files_that_differ() {
    let merge = |change: &dyn Fn(&mut Object)| {
        let object = with_set(b"B22*", 0, vec![1, 2]);
        let mut other = object.clone();
        change(&mut other);
        let [a, b] = [object, other].map(|object| written(&Image::new(&object)));
        let mut to = vec![0; a.len() + b.len()];
        super::merge(
            &Gcda::parse(&a).unwrap(),
            &Gcda::parse(&b).unwrap(),
            &mut to,
        )
    };
    let set = |set: Vec<u64>| vec![Fun::Own(Identity::default(), vec![set])];
    assert!(merge(&|_| ()).is_ok());
    assert!(merge(&|other| other.functions = set(vec![0, 0])).is_ok());
    assert!(merge(&|other| other.functions = vec![Fun::Null]).is_ok());
    type Change<'c> = (&'c dyn Fn(&mut Object), MergeError);
    let changes: [Change<'_>; 8] = [
        (
            &|other| other.version = Version::new(u32::from_be_bytes(*b"B31*")),
            MergeError::Version,
        ),
        (&|other| other.stamp = 3, MergeError::Stamp),
        (&|other| other.checksum = 3, MergeError::Checksum),
        (
            &|other| other.functions.push(Fun::Null),
            MergeError::Functions,
        ),
        (&|other| other.functions.clear(), MergeError::Functions),
        (
            &|other| other.functions = set(vec![1]),
            MergeError::Function(0),
        ),
        (
            &|other| other.functions = set(vec![0]),
            MergeError::Function(0),
        ),
        (&|other| other.active = vec![1], MergeError::Function(0)),
    ];
    for (change, error) in changes {
        assert_eq!(merge(change), Err(error));
        assert!(!error.to_string().is_empty());
    }
    let file = written(&Image::new(&with_set(b"B22*", 0, vec![1, 2])));
    let file = Gcda::parse(&file).unwrap();
    for len in 0..16 + 8 + 12 + 8 + 16 + 4 {
        assert_eq!(
            super::merge(&file, &file, &mut vec![0; len]),
            Err(MergeError::NoRoom)
        );
    }
}
