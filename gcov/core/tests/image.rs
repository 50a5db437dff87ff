// SPDX-License-Identifier: GPL-2.0

//! Memory that contains an object.

use super::*;
use proptest::collection::vec;
use std::cell::Cell;

/// Start of the memory.
pub(super) const BASE: u64 = 0xffff_ffff_c000_0000;
/// Address of the `gcov_info`.
pub(super) const INFO: u64 = BASE + 0x40;
/// Start of the `gcov_info` of another object.
const FOREIGN: u64 = BASE + 8;
/// The merge functions are outside of the object.
const MERGE: u64 = 0xffff_ffff_8100_0000;

const FUNCTIONS: [MergeFunction; 6] = [
    MergeFunction::Add,
    MergeFunction::Ior,
    MergeFunction::TimeProfile,
    MergeFunction::Single,
    MergeFunction::IcallTopN,
    MergeFunction::TopN,
];

/// First and last release of each layout.
pub(super) const VERSIONS: [&[u8; 4]; 9] = [
    b"A83*", b"A93*", b"B02*", b"B13*", b"B22*", b"B31*", b"B42*", b"B53*", b"B62*",
];

/// A function of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Fun {
    Null,
    Foreign,
    /// With the counters of each kind of the object.
    Own(Identity, Vec<Vec<u64>>),
}

/// An object as the compiler made it.
#[derive(Clone, Debug)]
pub(super) struct Object {
    pub(super) version: Version,
    pub(super) stamp: u32,
    pub(super) checksum: u32,
    pub(super) name: Vec<u8>,
    /// Indices of its kinds.
    pub(super) active: Vec<u8>,
    pub(super) functions: Vec<Fun>,
}

impl Object {
    pub(super) fn format(&self) -> &'static Format {
        self.version.format().unwrap()
    }

    pub(super) fn kind(&self, index: u8) -> Kind {
        self.format().kinds[usize::from(index)]
    }
}

/// Memory of an object: one readable range.
#[derive(Clone, Debug)]
pub(super) struct Image {
    pub(super) bytes: Vec<u8>,
    /// Start of the counters.
    pub(super) counters: u64,
    /// Number of refused accesses.
    pub(super) refused: Cell<usize>,
}

pub(super) fn merge_function(function: MergeFunction) -> u64 {
    let index = FUNCTIONS.iter().position(|known| *known == function);
    MERGE + 16 * index.unwrap() as u64
}

impl Image {
    /// Writes words of 32 and 64 bits one after the other.
    fn push32(&mut self, value: u32) {
        self.bytes.extend(value.to_le_bytes());
    }

    fn push64(&mut self, value: u64) {
        self.bytes.extend(value.to_le_bytes());
    }

    fn end(&self) -> u64 {
        BASE + self.bytes.len() as u64
    }

    pub(super) fn new(object: &Object) -> Self {
        let mut image = Self {
            bytes: vec![0; 8],
            counters: 0,
            refused: Cell::new(0),
        };
        image.push32(object.version.word());
        image.bytes.resize((INFO - BASE) as usize, 0);
        let kinds = object.format().kinds;
        let table = INFO + 48 + 8 * kinds.len() as u64;
        let mut at = table + 8 * object.functions.len() as u64;
        let mut addresses = Vec::new();
        let size = 24 + 16 * object.active.len() as u64;
        for function in &object.functions {
            addresses.push(if *function == Fun::Null { 0 } else { at });
            at += if *function == Fun::Null { 0 } else { size };
        }
        let name = at;
        let mut counters = (name + object.name.len() as u64 + 1).next_multiple_of(8);
        image.counters = counters;

        image.push64(object.version.word().into());
        image.push64(0xdead);
        image.push32(object.stamp);
        image.push32(object.checksum);
        image.push64(name);
        for (index, kind) in (0..).zip(kinds) {
            image.push64(match object.active.contains(&index) {
                true => merge_function(kind.function()),
                false => 0,
            });
        }
        image.push64(object.functions.len() as u64 | 0x5555_5555 << 32);
        image.push64(table);
        for address in addresses {
            image.push64(address);
        }
        let mut values = Vec::new();
        for function in &object.functions {
            let none = vec![Vec::new(); object.active.len()];
            let (key, identity, sets) = match function {
                Fun::Null => continue,
                Fun::Foreign => (FOREIGN, Identity::default(), &none),
                Fun::Own(identity, sets) => (INFO, *identity, sets),
            };
            image.push64(key);
            image.push32(identity.ident);
            image.push32(identity.lineno_checksum);
            image.push32(identity.cfg_checksum);
            image.push32(0x5555_5555);
            for set in sets {
                image.push64(set.len() as u64 | 0x5555_5555 << 32);
                image.push64(if set.is_empty() { 0 } else { counters });
                counters += 8 * set.len() as u64;
                values.extend(set);
            }
        }
        image.bytes.extend(&object.name);
        image.bytes.resize((image.counters - BASE) as usize, 0);
        for value in values {
            image.push64(value);
        }
        assert_eq!(image.end(), counters);
        image
    }

    pub(super) fn put64(&mut self, address: u64, value: u64) {
        let at = (address - BASE) as usize;
        self.bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
    }

    pub(super) fn put32(&mut self, address: u64, value: u32) {
        let at = (address - BASE) as usize;
        self.bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
    }

    fn find(&self, address: u64, len: u64) -> Option<&[u8]> {
        let from = usize::try_from(address.checked_sub(BASE)?).ok()?;
        let to = from.checked_add(usize::try_from(len).ok()?)?;
        self.bytes.get(from..to)
    }
}

impl Memory for Image {
    fn copy(&self, address: u64, to: &mut [u8]) -> Result<(), Unreadable> {
        match self.find(address, to.len() as u64) {
            Some(from) => to.copy_from_slice(from),
            None => {
                self.refused.set(self.refused.get() + 1);
                return Err(Unreadable);
            }
        }
        Ok(())
    }

    fn is_readable(&self, address: u64, len: u64) -> bool {
        self.find(address, len).is_some()
    }

    fn merge_function(&self, address: u64) -> Option<MergeFunction> {
        let known = FUNCTIONS.into_iter();
        known
            .into_iter()
            .find(|function| merge_function(*function) == address)
    }
}

/// Generates few values, so that sums and sets of bits are seen, and all zero is frequent.
fn values() -> impl Strategy<Value = u64> {
    prop_oneof![4 => Just(0), 2 => 0..5_u64, 1 => any::<u64>()]
}

fn identities() -> impl Strategy<Value = Identity> {
    any::<[u32; 3]>().prop_map(|[ident, lineno_checksum, cfg_checksum]| Identity {
        ident,
        lineno_checksum,
        cfg_checksum,
    })
}

/// Generates the counters of a kind.
pub(super) fn counters(kind: Kind) -> impl Strategy<Value = Vec<u64>> {
    let group = kind.group() as usize;
    (0..4_usize, any::<bool>()).prop_flat_map(move |(groups, zero)| {
        let values = match zero {
            true => Just(0).boxed(),
            false => values().boxed(),
        };
        vec(values, groups * group)
    })
}

fn functions(kinds: Vec<Kind>) -> impl Strategy<Value = Fun> {
    let sets: Vec<_> = kinds.into_iter().map(counters).collect();
    prop_oneof![
        1 => Just(Fun::Null),
        1 => Just(Fun::Foreign),
        6 => (identities(), sets).prop_map(|(identity, sets)| Fun::Own(identity, sets)),
    ]
}

/// Generates objects of every version.
pub(super) fn objects() -> impl Strategy<Value = Object> {
    let version = prop::sample::select(&VERSIONS[..]);
    let version = version.prop_map(|text| Version::new(u32::from_be_bytes(*text)));
    version.prop_flat_map(|version| {
        let kinds = version.format().unwrap().kinds;
        let indices: Vec<u8> = (0..kinds.len() as u8).collect();
        let active = prop::sample::subsequence(indices, 0..=kinds.len());
        active.prop_flat_map(move |active| {
            let own = active.iter().map(|index| kinds[usize::from(*index)]);
            let functions = vec(functions(own.collect()), 0..6);
            let name = vec(1..=255_u8, 1..20);
            (any::<[u32; 2]>(), name, functions).prop_map(
                move |([stamp, checksum], name, functions)| Object {
                    version,
                    stamp,
                    checksum,
                    name,
                    active: active.clone(),
                    functions,
                },
            )
        })
    })
}
