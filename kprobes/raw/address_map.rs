// SPDX-License-Identifier: GPL-2.0

//! Lock-free map from addresses to objects, which any context can read while objects are added and
//! removed.
//!
//! A hash table with open addressing: a look-up takes a load or two at any size. A removed object
//! leaves its key behind, until the table is rebuilt.
//!
//! Contexts: [`AddressMap::with`] any, NMI included, wherever RCU watches; the rest process,
//! sleeps.

use core::hint::assert_unchecked;
use core::ops::Deref;
use core::ptr::null_mut;
use core::ptr::NonNull;

use ferro_sys::cpu::preempt::PreemptOff;
use ferro_sys::hook::typed::Atomic as NotPreempted;
use ferro_sys::sync::shared_word;
use kernel::alloc::AllocError;
use kernel::prelude::*;
use kernel::sync::atomic::Acquire;
use kernel::sync::atomic::Atomic;
use kernel::sync::atomic::Full;
use kernel::sync::atomic::Release;
use kernel::sync::rcu::synchronize_rcu;
use kernel::sync::Arc;

/// # Invariants
///
/// `object` is NULL or was returned by `Arc::into_raw()`; its count belongs to the table.
struct Entry<T> {
    key: usize,
    object: *mut T,
}

// SAFETY: It owns its object, as the count is its table's.
unsafe impl<T: Send + Sync> Send for Entry<T> {}

/// A table: 2^n entries, of which at least one has the key 0, after one whose key is 28 - n, for
/// `n` in 1 to 28.
type Table<T> = KVVec<Entry<T>>;

/// Map from addresses that are not 0 to objects.
///
/// # Invariants
///
/// `table` is the address of a [`Table`] or of [`NOTHING`]; only the [`MapWriter`] changes it and
/// its contents.
pub(crate) struct AddressMap<T> {
    table: Atomic<*mut Entry<T>>,
    has_writer: Atomic<bool>,
}

/// A table that stays empty, of two entries without keys.
static NOTHING: [usize; 6] = [27, 0, 0, 0, 0, 0];

/// Size of an entry in bytes, 2^4.
const SIZE: u32 = 16;

const fn nothing<T>() -> *mut Entry<T> {
    const { assert!(size_of::<Entry<T>>() == SIZE as usize) };
    (&raw const NOTHING).cast_mut().cast()
}

// SAFETY: The objects are handed out as shared references, on any CPU.
unsafe impl<T: Send + Sync> Sync for AddressMap<T> {}
// SAFETY: The objects are dropped on any CPU; the other fields of a map are words that belong to no
// thread.
unsafe impl<T: Send + Sync> Send for AddressMap<T> {}

/// An object that was found in a map, or a part of it.
///
/// # Invariants
///
/// `'a` is within the read-side section of RCU in which it was found.
pub(crate) struct Found<'a, T>(&'a T);

impl<T> Clone for Found<'_, T> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Found<'_, T> {}

impl<'a, T> Found<'a, T> {
    /// Wraps a known object without a look-up; it may have been removed from the map before.
    #[inline(always)]
    pub(crate) fn known(object: &'a T, _here: &'a PreemptOff) -> Self {
        // INVARIANT: With preemption off this is a read-side section of RCU; this object can be
        // found in it.
        Self(object)
    }

    /// Returns the object.
    #[inline(always)]
    pub(crate) fn get(self) -> &'a T {
        self.0
    }

    /// Returns a part of the object.
    #[inline(always)]
    pub(crate) fn part<U>(self, part: impl FnOnce(&'a T) -> &'a U) -> Found<'a, U> {
        // INVARIANT: In the same section.
        Found(part(self.0))
    }
}

impl<T> Deref for Found<'_, T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        self.0
    }
}

/// Exclusive right to change an [`AddressMap`].
///
/// # Invariants
///
/// `table` is the table of the map, or `None` if the map has [`NOTHING`].
pub(crate) struct MapWriter<T: 'static> {
    map: &'static AddressMap<T>,
    table: Option<Table<T>>,
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

/// A grace period that is over.
pub(crate) struct GracePeriod {
    /// Its number among all waits that have begun.
    number: usize,
}

static WAITS: Atomic<usize> = Atomic::new(0);

impl GracePeriod {
    /// Waits until no reader uses an object that was removed before. Context: process; sleeps.
    pub(crate) fn wait() -> Self {
        let number = WAITS.fetch_add(1, Full);
        synchronize_rcu();
        Self { number }
    }
}

/// Minimum number of entries of a table, 16 KiB: a few keys, and removed keys, hardly ever collide.
const LEN_MIN: usize = 1024;

/// Makes an empty table with room for half as many objects again.
fn table_for<T>(objects: usize) -> Result<Table<T>, AllocError> {
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
        let entry = Entry {
            key: if i == 0 { shift } else { 0 },
            object: null_mut(),
        };
        table.push(entry, GFP_KERNEL)?;
    }
    Ok(table)
}

/// Returns the entry of a key, or as an error, the free entry for it.
///
/// # Safety
///
/// `table` is the address of a [`Table`] or of [`NOTHING`], which stays until this returns.
#[inline(always)]
unsafe fn find<T>(table: *mut Entry<T>, key: usize) -> Result<*mut Entry<T>, *mut Entry<T>> {
    // SAFETY: The caller guarantees that a table, or `NOTHING`, is there, which begins with an
    // entry.
    let shift = unsafe { (*table).key } as u32;
    // SAFETY: By the invariants of a table 0 to 27.
    unsafe { assert_unchecked(shift < 28) };
    // The upper bits of multiples of 2^32 divided by the golden ratio are far from each other, also
    // for addresses at equal distances. The offset is in bytes: n of these bits, and four that are
    // 0.
    let mut at = (key as u32).wrapping_mul(0x9e37_79b9).wrapping_shr(shift) & !(SIZE - 1);
    loop {
        // SAFETY: The caller guarantees a table, which has 2^n entries after the first, whose key
        // is 28 - n: `at` is a multiple of their size, and has n + 4 bits. `NOTHING` has two, and
        // 27.
        let entry = unsafe { table.byte_add(at as usize).add(1) };
        // SAFETY: A live, aligned word, which the writer stores at once.
        let found = unsafe { shared_word::load(&raw const (*entry).key) };
        if found == key {
            return Ok(entry);
        }
        if found == 0 {
            return Err(entry);
        }
        at = at.wrapping_add(SIZE) & u32::MAX.wrapping_shr(shift);
    }
}

impl<T> AddressMap<T> {
    /// Creates an empty map.
    pub(crate) const fn new() -> Self {
        Self {
            // INVARIANT: Empty.
            table: Atomic::new(nothing()),
            has_writer: Atomic::new(false),
        }
    }

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

    /// Calls `f` with the object of this address.
    #[inline(always)]
    pub(crate) fn with<R>(
        &self,
        key: usize,
        f: impl for<'a> FnOnce(Found<'a, T>) -> R,
    ) -> Option<R> {
        // Also the read-side section that the writer awaits.
        let _preempt = PreemptOff::new();
        // SAFETY: With preemption off until `f` has returned.
        unsafe { self.look_up(key, f) }
    }

    /// Calls `f` with the object of this address, in a context that is not preempted.
    #[inline(always)]
    pub(crate) fn with_atomic<R>(
        &self,
        key: usize,
        _here: &NotPreempted,
        f: impl for<'a> FnOnce(Found<'a, T>) -> R,
    ) -> Option<R> {
        // SAFETY: The caller's context is not preempted until `f` has returned.
        unsafe { self.look_up(key, f) }
    }

    /// # Safety
    ///
    /// Nothing preempts this until it returns: it is a read-side section of RCU.
    #[inline(always)]
    unsafe fn look_up<R>(
        &self,
        key: usize,
        f: impl for<'a> FnOnce(Found<'a, T>) -> R,
    ) -> Option<R> {
        // SAFETY: A live, aligned word. The writer publishes a table with a release store, and x86
        // keeps dependent loads in order.
        let table = unsafe { shared_word::load(self.table.as_ptr()) };
        // SAFETY: By the type invariant; a table is freed after a grace period.
        // A free entry may be getting an object, and not have its key yet.
        let entry = unsafe { find(table, key) }.ok()?;
        // SAFETY: A live, aligned word, which the writer stores at once.
        let object = NonNull::new(unsafe { shared_word::load(&raw const (*entry).object) })?;
        // SAFETY: By the invariants of the entry; the count is given away after a grace period.
        let object = unsafe { object.as_ref() };
        // INVARIANT: The caller guarantees a read-side section of RCU, until `f` has returned.
        Some(f(Found(object)))
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
    fn entry(&mut self, key: usize) -> Option<Result<*mut Entry<T>, *mut Entry<T>>> {
        let table = self.table.as_mut()?.as_mut_ptr();
        // SAFETY: A table. Only the writer, which is borrowed mutably, changes it, and stores the
        // words that readers load one by one.
        Some(unsafe { find(table, key) })
    }

    /// Exchanges the table. Afterwards the objects' counts do not belong to the old table.
    fn replace(&mut self, new: Option<Table<T>>) {
        let old = core::mem::replace(&mut self.table, new);
        let table = self.table.as_mut().map_or(nothing(), |t| t.as_mut_ptr());
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
                to.write(Entry {
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
        // A wait that begins later has at least this number.
        let waits = WAITS.load(Acquire);
        Some(Removed { object, waits })
    }
}

impl<T> Drop for MapWriter<T> {
    fn drop(&mut self) {
        // INVARIANT: The map is empty.
        self.map.table.store(nothing(), Release);
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
        if period.number >= self.waits {
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
