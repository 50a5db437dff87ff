// SPDX-License-Identifier: GPL-2.0

//! Values with names, found by a hash.
//!
//! Contexts: process.
#![deny(unsafe_code)]

use kernel::prelude::*;
use kernel::rbtree::RBTree;
use kernel::rbtree::RBTreeNodeReservation;

/// A place in the order of a [`Table`]: the hash of the name, and a number that no other value had.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key {
    hash: u64,
    number: u64,
}

impl Key {
    /// Before all others.
    pub(crate) const FIRST: Self = Self { hash: 0, number: 0 };

    /// The least that is greater.
    pub(crate) fn after(self) -> Self {
        Self {
            number: self.number.saturating_add(1),
            ..self
        }
    }
}

/// What has a name, which does not change.
pub(crate) trait Named {
    /// The name.
    fn name(&self) -> &[u8];
}

/// Values by name, in the order of their keys.
pub(crate) struct Table<T> {
    values: RBTree<Key, T>,
    numbers: u64,
}

/// Room for a value.
pub(crate) struct Room<T>(RBTreeNodeReservation<Key, T>);

impl<T> Room<T> {
    /// Errors: -ENOMEM.
    pub(crate) fn new() -> Result<Self> {
        Ok(Self(RBTreeNodeReservation::new(GFP_KERNEL)?))
    }
}

/// FNV-1a.
fn hash(name: &[u8]) -> u64 {
    name.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

impl<T: Named> Table<T> {
    pub(crate) fn new() -> Self {
        Self {
            values: RBTree::new(),
            numbers: 0,
        }
    }

    /// Finds the value with a name.
    pub(crate) fn find(&self, name: &[u8]) -> Option<Key> {
        let hash = hash(name);
        let mut at = Key { hash, number: 0 };
        loop {
            let (key, value) = self.from(at)?;
            if key.hash != hash {
                return None;
            }
            if value.name() == name {
                return Some(key);
            }
            at = key.after();
        }
    }

    /// Adds a value, whose name no other has.
    pub(crate) fn insert(&mut self, value: T, room: Room<T>) -> Key {
        // Not 0, which is FIRST's.
        self.numbers = self.numbers.saturating_add(1);
        let key = Key {
            hash: hash(value.name()),
            number: self.numbers,
        };
        self.values.insert(room.0.into_node(key, value));
        key
    }

    /// The value with a key.
    pub(crate) fn get(&self, key: Key) -> Option<&T> {
        self.values.get(&key)
    }

    /// The value with a key.
    pub(crate) fn get_mut(&mut self, key: Key) -> Option<&mut T> {
        self.values.get_mut(&key)
    }

    /// The first value from a key on.
    pub(crate) fn from(&self, key: Key) -> Option<(Key, &T)> {
        let key = *self.values.cursor_lower_bound(&key)?.current().0;
        Some((key, self.values.get(&key)?))
    }

    /// All values.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Key, &T)> {
        self.values.iter()
    }

    /// Takes a value out.
    pub(crate) fn remove(&mut self, key: Key) -> Option<T> {
        self.values.remove(&key)
    }

    /// All values.
    pub(crate) fn values_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.values.values_mut()
    }
}
