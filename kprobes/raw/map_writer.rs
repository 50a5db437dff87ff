// SPDX-License-Identifier: GPL-2.0

//! Changes of an [`AddressMap`].
//!
//! A removed object leaves its key behind, until the table is rebuilt.
//!
//! Contexts: process, sleeps.

use core::ptr::null_mut;
use core::ptr::NonNull;

use ferro_sys::sync::shared_word;
use kernel::alloc::AllocError;
use kernel::prelude::*;
use kernel::sync::atomic::Full;
use kernel::sync::atomic::Release;
use kernel::sync::rcu::synchronize_rcu;
use kernel::sync::Arc;

use super::grace_period::GracePeriod;
use super::lookup::empty_table;
use super::lookup::find;
use super::lookup::AddressMap;
use super::lookup::MapEntry;
use super::lookup::MapTable;

/// Exclusive right to change an [`AddressMap`].
///
/// # Invariants
///
/// `table` is the table of the map, or `None` if the map has the empty table.
pub(crate) struct MapWriter<T: 'static> {
    map: &'static AddressMap<T>,
    table: Option<MapTable<T>>,
    /// Number of keys that are not 0.
    keys: usize,
    /// Number of keys that have an object.
    objects: usize,
}

/// An object that was removed from its map. Readers may still use it; dropping this waits until
/// they do not.
pub(crate) struct Removed<T> {
    object: Option<Arc<T>>,
    /// Number of waits that had begun at its removal.
    waits: usize,
}

/// Minimum number of entries of a table, 16 KiB: a few keys, and removed keys, hardly ever collide.
const LEN_MIN: usize = 1024;

/// Makes an empty table with room for half as many objects again.
fn table_for<T>(objects: usize) -> Result<MapTable<T>, AllocError> {
    let len = objects
        .saturating_mul(4)
        .checked_next_power_of_two()
        .filter(|len| *len <= 1 << 28)
        .ok_or(AllocError)?
        .max(LEN_MIN);
    let shift = 28 - len.trailing_zeros() as usize;
    let mut table = KVVec::with_capacity(len + 1, GFP_KERNEL)?;
    for i in 0..=len {
        // INVARIANT: No object.
        let entry = MapEntry {
            key: if i == 0 { shift } else { 0 },
            object: null_mut(),
        };
        table.push(entry, GFP_KERNEL)?;
    }
    Ok(table)
}

impl<T> AddressMap<T> {
    /// Returns the right to change the map, or `None` if another owner has it.
    pub(crate) fn writer(&'static self) -> Option<MapWriter<T>> {
        match self.has_writer.xchg(true, Full) {
            true => None,
            // INVARIANT: The map has had no writer, or that writer was dropped.
            false => Some(MapWriter {
                map: self,
                table: None,
                keys: 0,
                objects: 0,
            }),
        }
    }
}

impl<T> MapWriter<T> {
    /// Returns true if `more` keys can be added. Most entries stay free, so that most look-ups find
    /// their key at once.
    fn has_room(&self, more: usize) -> bool {
        let len = self.table.as_ref().map_or(0, |table| table.len() - 1);
        self.keys.saturating_add(more) <= len / 8 * 3
    }

    /// Returns the entry of a key, or the free entry for it, if there is a table.
    fn entry(&mut self, key: usize) -> Option<Result<*mut MapEntry<T>, *mut MapEntry<T>>> {
        let table = self.table.as_mut()?.as_mut_ptr();
        // SAFETY: A table. Only the writer, which is borrowed mutably, changes it, and stores the
        // words that readers load one by one.
        Some(unsafe { find(table, key) })
    }

    /// Exchanges the table. Afterwards the objects' counts do not belong to the old table.
    fn replace(&mut self, new: Option<MapTable<T>>) {
        let old = core::mem::replace(&mut self.table, new);
        let table = self
            .table
            .as_mut()
            .map_or(empty_table(), |t| t.as_mut_ptr());
        // INVARIANT: The writer has this table now.
        self.map.table.store(table, Release);
        if old.is_some() {
            // Readers may use the old table.
            synchronize_rcu();
        }
    }

    /// Makes room for `more` objects, so that adding them cannot fail.
    pub(crate) fn reserve(&mut self, more: usize) -> Result<(), AllocError> {
        // Keys without objects collide with others.
        let is_tidy = self.keys / 2 <= self.objects.saturating_add(32);
        if self.has_room(more) && is_tidy {
            return Ok(());
        }
        let mut new = table_for(self.objects.saturating_add(more))?;
        let mut objects = 0;
        let old = self.table.iter().flat_map(|table| table.iter());
        for entry in old.filter(|e| !e.object.is_null()) {
            // SAFETY: Entries of `new`, which only this function knows.
            unsafe {
                let (Ok(to) | Err(to)) = find(new.as_mut_ptr(), entry.key);
                to.write(MapEntry {
                    key: entry.key,
                    object: entry.object,
                })
            };
            objects += 1;
        }
        self.replace(Some(new));
        (self.keys, self.objects) = (objects, objects);
        Ok(())
    }

    /// Adds an object, for which [`MapWriter::reserve`] has made room.
    ///
    /// Errors: `None` if there is no room, or if the address has an object.
    pub(crate) fn insert(&mut self, key: usize, object: Arc<T>) -> Option<()> {
        if key == 0 || !self.has_room(1) {
            return None;
        }
        let found = self.entry(key)?;
        let had_key = found.is_ok();
        let (Ok(entry) | Err(entry)) = found;
        // SAFETY: An entry of the table, which only this writer changes.
        if !unsafe { (*entry).object }.is_null() {
            return None;
        }
        let object = Arc::into_raw(object).cast_mut();
        // INVARIANT: From `Arc::into_raw()`. The object first: a reader that finds the key finds
        // it.
        // SAFETY: The same entry, which only this writer changes, in stores of words that readers
        // load.
        unsafe {
            shared_word::store_release(&raw mut (*entry).object, object);
            shared_word::store_release(&raw mut (*entry).key, key);
        }
        self.objects += 1;
        if !had_key {
            self.keys += 1;
        }
        Some(())
    }

    /// Removes the object of an address.
    pub(crate) fn remove(&mut self, key: usize) -> Option<Removed<T>> {
        let entry = self.entry(key)?.ok()?;
        // SAFETY: An entry of the table, which only this writer changes.
        let object = NonNull::new(unsafe { (*entry).object })?;
        // INVARIANT: NULL.
        // SAFETY: The same entry, which only this writer changes, in a store of a word that readers
        // load.
        unsafe { shared_word::store_release(&raw mut (*entry).object, null_mut()) };
        self.objects -= 1;
        // SAFETY: By the invariants of the entry; this count was the entry's.
        let object = Some(unsafe { Arc::from_raw(object.as_ptr()) });
        let waits = GracePeriod::begun();
        Some(Removed { object, waits })
    }
}

impl<T> Drop for MapWriter<T> {
    fn drop(&mut self) {
        // INVARIANT: The map is empty.
        self.map.table.store(empty_table(), Release);
        if let Some(table) = self.table.take() {
            synchronize_rcu();
            for entry in table.iter().filter(|e| !e.object.is_null()) {
                // SAFETY: By the invariants of the entry.
                drop(unsafe { Arc::from_raw(entry.object) });
            }
        }
        self.map.has_writer.store(false, Release);
    }
}

impl<T> Removed<T> {
    /// Frees the object, if necessary after another grace period.
    pub(crate) fn release(mut self, period: &GracePeriod) {
        if period.began_after(self.waits) {
            drop(self.object.take());
        }
    }
}

impl<T> Drop for Removed<T> {
    fn drop(&mut self) {
        if let Some(object) = self.object.take() {
            synchronize_rcu();
            drop(object);
        }
    }
}
