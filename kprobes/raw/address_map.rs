// SPDX-License-Identifier: GPL-2.0

//! Objects found by an address, from any context, while others are added and removed.
//!
//! A table with open addressing: looking up is a load or two, however many there are. Removing leaves the key behind
//! without an object, until the table is made anew.
//!
//! Contexts: [`AddressMap::with`] any, NMI included, wherever RCU watches; the rest process, sleeps.

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
/// `object` is NULL or comes from `Arc::into_raw()`, whose count belongs to the table.
struct Entry<T> {
    key: usize,
    object: *mut T,
}

// SAFETY: It owns its object, as the count is its table's.
unsafe impl<T: Send + Sync> Send for Entry<T> {}

/// A table: 2^n entries, of which at least one has the key 0, after one whose key is 28 - n, for `n` in 1 to 28.
type Table<T> = KVVec<Entry<T>>;

/// Objects found by an address that is not 0.
///
/// # Invariants
///
/// `table` is the address of a [`Table`] or of [`NOTHING`]; only the [`MapWriter`] changes it and what is in it.
pub(crate) struct AddressMap<T> {
    table: Atomic<*mut Entry<T>>,
    has_writer: Atomic<bool>,
}

/// A table that stays empty, of two entries without keys.
static NOTHING: [usize; 6] = [27, 0, 0, 0, 0, 0];

/// The size of an entry in bytes, 2^4.
const SIZE: u32 = 16;

const fn nothing<T>() -> *mut Entry<T> {
    const { assert!(size_of::<Entry<T>>() == SIZE as usize) };
    (&raw const NOTHING).cast_mut().cast()
}

// SAFETY: The objects are handed out as shared references, on any CPU.
unsafe impl<T: Send + Sync> Sync for AddressMap<T> {}
// SAFETY: The objects are dropped on any CPU; what a map has besides them are words that belong to no thread.
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
    /// One that is there, without a look-up: it may have been taken out of the map before.
    #[inline(always)]
    pub(crate) fn known(object: &'a T, _here: &'a PreemptOff) -> Self {
        // INVARIANT: With preemption off this is a read-side section of RCU, in which this can be found.
        Self(object)
    }

    /// The object.
    #[inline(always)]
    pub(crate) fn get(self) -> &'a T {
        self.0
    }

    /// A part of it.
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

/// The one who may change an [`AddressMap`].
///
/// # Invariants
///
/// `table` is the one that the map has, or `None` if it has [`NOTHING`].
pub(crate) struct MapWriter<T: 'static> {
    map: &'static AddressMap<T>,
    table: Option<Table<T>>,
    /// How many keys are not 0.
    keys: usize,
    /// How many of them have an object.
    objects: usize,
}

/// An object that nobody finds any more, but that some may still be using. Dropping it waits until they are not.
pub(crate) struct Removed<T> {
    object: Option<Arc<T>>,
    /// How many waits had begun.
    waits: usize,
}

/// A grace period that is over.
pub(crate) struct GracePeriod {
    /// Its number among all waits that have begun.
    number: usize,
}

static WAITS: Atomic<usize> = Atomic::new(0);

impl GracePeriod {
    /// Waits until nobody uses what was removed before. Context: process; sleeps.
    pub(crate) fn wait() -> Self {
        let number = WAITS.fetch_add(1, Full);
        synchronize_rcu();
        Self { number }
    }
}

/// The fewest entries of a table, 16 KiB: a few keys, and those that were removed, are hardly ever in each other's way.
const LEN_MIN: usize = 1024;

/// An empty table with room for half as many objects again.
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

/// Where a key is; as an error, the free entry where it would be.
///
/// # Safety
///
/// `table` is the address of a [`Table`] or of [`NOTHING`], which stays meanwhile.
#[inline(always)]
unsafe fn find<T>(table: *mut Entry<T>, key: usize) -> Result<*mut Entry<T>, *mut Entry<T>> {
    // SAFETY: The caller guarantees that a table, or `NOTHING`, is there, which begins with an entry.
    let shift = unsafe { (*table).key } as u32;
    // SAFETY: By the invariants of a table 0 to 27.
    unsafe { assert_unchecked(shift < 28) };
    // The upper bits of multiples of 2^32 divided by the golden ratio are far from each other, also for addresses with
    // the same distance between them. In bytes: n of these bits, and four that are 0.
    let mut at = (key as u32).wrapping_mul(0x9e37_79b9).wrapping_shr(shift) & !(SIZE - 1);
    loop {
        // SAFETY: The caller guarantees a table, which has 2^n entries after the first, whose key is 28 - n: `at` is a multiple of
        // their size, and has n + 4 bits. `NOTHING` has two, and 27.
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
    /// An empty map.
    pub(crate) const fn new() -> Self {
        Self {
            // INVARIANT: There is nothing yet.
            table: Atomic::new(nothing()),
            has_writer: Atomic::new(false),
        }
    }

    /// The right to change it, once.
    pub(crate) fn writer(&'static self) -> Option<MapWriter<T>> {
        match self.has_writer.xchg(true, Full) {
            true => None,
            // INVARIANT: The map has had no writer, or that one has gone.
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
        // Also the read-side section that the writer waits for.
        let _preempt = PreemptOff::new();
        // SAFETY: With preemption off until `f` has returned.
        unsafe { self.look_up(key, f) }
    }

    /// The same where nothing is preempted anyway.
    #[inline(always)]
    pub(crate) fn with_atomic<R>(
        &self,
        key: usize,
        _here: &NotPreempted,
        f: impl for<'a> FnOnce(Found<'a, T>) -> R,
    ) -> Option<R> {
        // SAFETY: The caller's context is one that is not preempted, in which it stays until `f` has returned.
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
        // SAFETY: A live, aligned word. The writer publishes a table with a release store, and x86 keeps dependent
        // loads in order.
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
    /// Whether `more` can be added. Most entries stay free, so that a key is mostly found at once.
    fn has_room(&self, more: usize) -> bool {
        let len = self.table.as_ref().map_or(0, |table| table.len() - 1);
        self.keys.saturating_add(more) <= len / 8 * 3
    }

    /// Where a key is, or would be, if there is a table.
    fn entry(&mut self, key: usize) -> Option<Result<*mut Entry<T>, *mut Entry<T>>> {
        let table = self.table.as_mut()?.as_mut_ptr();
        // SAFETY: A table. Only the writer, which is borrowed mutably, changes it, and what readers look at is stored word
        // by word.
        Some(unsafe { find(table, key) })
    }

    /// Exchanges the table; the objects' counts are no longer those of the old one.
    fn replace(&mut self, new: Option<Table<T>>) {
        let old = core::mem::replace(&mut self.table, new);
        let table = self.table.as_mut().map_or(nothing(), |t| t.as_mut_ptr());
        // INVARIANT: That is what the writer has now.
        self.map.table.store(table, Release);
        if old.is_some() {
            // Readers may have it.
            synchronize_rcu();
        }
    }

    /// Makes room for `more` objects, so that adding them cannot fail.
    pub(crate) fn reserve(&mut self, more: usize) -> Result<(), AllocError> {
        // Keys without objects are in the way of others.
        let is_tidy = self.keys / 2 <= self.objects.saturating_add(32);
        if self.has_room(more) && is_tidy {
            return Ok(());
        }
        let mut new = table_for(self.objects.saturating_add(more))?;
        let mut objects = 0;
        let old = self.table.iter().flat_map(|table| table.iter());
        for entry in old.filter(|e| !e.object.is_null()) {
            // SAFETY: Entries of `new`, which nobody else knows.
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

    /// Adds an object, for which there is room, see [`MapWriter::reserve`].
    ///
    /// Errors: `None` if there is none, or if the address has an object.
    pub(crate) fn insert(&mut self, key: usize, object: Arc<T>) -> Option<()> {
        if key == 0 || !self.has_room(1) {
            return None;
        }
        let found = self.entry(key)?;
        let had_key = found.is_ok();
        let (Ok(entry) | Err(entry)) = found;
        // SAFETY: An entry of the table, which only we change.
        if !unsafe { (*entry).object }.is_null() {
            return None;
        }
        let object = Arc::into_raw(object).cast_mut();
        // INVARIANT: From `Arc::into_raw()`. The object first: who finds the key finds it.
        // SAFETY: The same entry, which nobody but this writer changes, in stores of words that readers load.
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
        // SAFETY: An entry of the table, which only we change.
        let object = NonNull::new(unsafe { (*entry).object })?;
        // INVARIANT: NULL.
        // SAFETY: The same entry, which nobody but this writer changes, in a store of a word that readers load.
        unsafe { shared_word::store_release(&raw mut (*entry).object, null_mut()) };
        self.objects -= 1;
        // SAFETY: By the invariants of the entry, whose count this was.
        let object = Some(unsafe { Arc::from_raw(object.as_ptr()) });
        // A wait that begins from now on has a number that is not less.
        let waits = WAITS.load(Acquire);
        Some(Removed { object, waits })
    }
}

impl<T> Drop for MapWriter<T> {
    fn drop(&mut self) {
        // INVARIANT: The map has nothing any more.
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
    /// Gives the object up, if need be after another grace period.
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
