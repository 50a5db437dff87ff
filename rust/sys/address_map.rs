// SPDX-License-Identifier: GPL-2.0

//! Objects found by an address, from any context, while others are added and removed.
//!
//! A table with open addressing: looking up is a load or two, however many there are. Removing leaves the key behind
//! without an object, until the table is made anew.
//!
//! Contexts: [`AddressMap::with`] any, NMI included, wherever RCU watches; the rest process, sleeps.

use core::ptr::null_mut;
use core::ptr::NonNull;

use kernel::alloc::AllocError;
use kernel::prelude::*;
use kernel::sync::atomic::Acquire;
use kernel::sync::atomic::Atomic;
use kernel::sync::atomic::Full;
use kernel::sync::atomic::Release;
use kernel::sync::rcu::synchronize_rcu;
use kernel::sync::Arc;

use crate::preempt::PreemptOff;
use crate::word;

/// # Invariants
///
/// `object` is NULL or comes from `Arc::into_raw()`, whose count belongs to the table.
struct Entry<T> {
    key: usize,
    object: *mut T,
}

/// # Invariants
///
/// `entries` has a power of two of them, of which at least one has the key 0.
struct Table<T> {
    entries: KVVec<Entry<T>>,
    /// How many keys are not 0. For the writer.
    keys: usize,
    /// How many of them have an object. For the writer.
    objects: usize,
}

/// Objects found by an address that is not 0.
///
/// # Invariants
///
/// `table` is NULL or comes from `KBox::into_raw()`; only the [`Writer`] changes it and what is in it.
pub struct AddressMap<T> {
    table: Atomic<*mut Table<T>>,
    has_writer: Atomic<bool>,
}

// SAFETY: The objects are handed out as shared references, on any CPU.
unsafe impl<T: Send + Sync> Sync for AddressMap<T> {}
// SAFETY: As above.
unsafe impl<T: Send + Sync> Send for AddressMap<T> {}

/// The one who may change an [`AddressMap`].
pub struct Writer<T: 'static> {
    map: &'static AddressMap<T>,
}

/// An object that nobody finds any more, but that some may still be using. Dropping it waits until they are not.
pub struct Removed<T> {
    object: Option<Arc<T>>,
    /// How many waits had begun.
    waits: usize,
}

/// A grace period that is over.
pub struct GracePeriod {
    /// Its number among all waits that have begun.
    number: usize,
}

static WAITS: Atomic<usize> = Atomic::new(0);

impl GracePeriod {
    /// Waits until nobody uses what was removed before. Context: process; sleeps.
    pub fn wait() -> Self {
        let number = WAITS.fetch_add(1, Full);
        synchronize_rcu();
        Self { number }
    }
}

impl<T> Table<T> {
    /// An empty table for twice as many objects.
    fn new(objects: usize) -> Result<Self, AllocError> {
        let len = objects
            .saturating_mul(4)
            .checked_next_power_of_two()
            .ok_or(AllocError)?
            .max(64);
        let mut entries = KVVec::with_capacity(len, GFP_KERNEL)?;
        for _ in 0..len {
            // INVARIANT: No object.
            let entry = Entry {
                key: 0,
                object: null_mut(),
            };
            entries.push(entry, GFP_KERNEL)?;
        }
        // INVARIANT: A power of two, all keys 0.
        Ok(Self {
            entries,
            keys: 0,
            objects: 0,
        })
    }

    /// Where a key is, or the free entry where it would be.
    #[inline(always)]
    fn find(&self, key: usize) -> *mut Entry<T> {
        let mask = self.entries.len().wrapping_sub(1);
        // Multiplication by 2^64 divided by the golden ratio spreads addresses well; its upper half is taken.
        let mut at = key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        loop {
            // SAFETY: By the type invariant the masked index is within the table.
            let entry = unsafe { self.entries.as_ptr().add(at & mask).cast_mut() };
            // SAFETY: A live, aligned word, which the writer stores at once.
            let found = unsafe { word::load(&raw const (*entry).key) };
            if found == key || found == 0 {
                return entry;
            }
            at = at.wrapping_add(1);
        }
    }

    /// Whether `more` can be added; a quarter stays free.
    fn has_room(&self, more: usize) -> bool {
        self.keys.saturating_add(more) <= self.entries.len() / 4 * 3
    }
}

impl<T> AddressMap<T> {
    /// An empty map.
    pub const fn new() -> Self {
        Self {
            // INVARIANT: NULL.
            table: Atomic::new(null_mut()),
            has_writer: Atomic::new(false),
        }
    }

    /// The right to change it, once.
    pub fn writer(&'static self) -> Option<Writer<T>> {
        match self.has_writer.xchg(true, Full) {
            true => None,
            false => Some(Writer { map: self }),
        }
    }

    /// Calls `f` with the object of this address.
    #[inline(always)]
    pub fn with<R>(&self, key: usize, f: impl FnOnce(&T) -> R) -> Option<R> {
        // Also the read-side section that the writer waits for.
        let _preempt = PreemptOff::new();
        // SAFETY: A live, aligned word. The writer publishes a table with a release store, and x86 keeps dependent
        // loads in order.
        let table = unsafe { word::load(self.table.as_ptr()) };
        // SAFETY: By the type invariant; a table is freed after a grace period.
        let table = unsafe { table.as_ref() }?;
        let entry = table.find(key);
        // SAFETY: A live, aligned word, which the writer stores at once.
        let object = NonNull::new(unsafe { word::load(&raw const (*entry).object) })?;
        // SAFETY: By the invariants of the entry; the count is given away after a grace period.
        Some(f(unsafe { object.as_ref() }))
    }
}

impl<T> Default for AddressMap<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Writer<T> {
    fn table(&mut self) -> Option<&mut Table<T>> {
        let table = self.map.table.load(Acquire);
        // SAFETY: By the invariants of the map, and only the writer, which is borrowed mutably, changes it. What
        // readers look at is stored word by word.
        unsafe { table.as_mut() }
    }

    /// Makes room for `more` objects, so that adding them cannot fail.
    pub fn reserve(&mut self, more: usize) -> Result<(), AllocError> {
        let mut objects = more;
        if let Some(table) = self.table() {
            if table.has_room(more) {
                return Ok(());
            }
            objects = table.objects.saturating_add(more);
        }
        let mut new = Table::new(objects)?;
        if let Some(old) = self.table() {
            for entry in old.entries.iter().filter(|e| !e.object.is_null()) {
                let to = new.find(entry.key);
                // SAFETY: `find()` returns an entry of `new`, which nobody else knows.
                unsafe {
                    to.write(Entry {
                        key: entry.key,
                        object: entry.object,
                    })
                };
                new.keys += 1;
                new.objects += 1;
            }
        }
        let new = KBox::new(new, GFP_KERNEL)?;
        // INVARIANT: From `KBox::into_raw()`. The objects' counts belong to the new table now.
        let old = self.map.table.xchg(KBox::into_raw(new), Full);
        if !old.is_null() {
            synchronize_rcu();
            // SAFETY: By the type invariant, and no reader has it any more.
            drop(unsafe { KBox::from_raw(old) });
        }
        Ok(())
    }

    /// Adds an object, for which there is room, see [`Writer::reserve`].
    ///
    /// Errors: `None` if there is none, or if the address has an object.
    pub fn insert(&mut self, key: usize, object: Arc<T>) -> Option<()> {
        let table = self.table()?;
        if key == 0 || !table.has_room(1) {
            return None;
        }
        let entry = table.find(key);
        // SAFETY: An entry of the table, which only we change.
        let (had_key, taken) = unsafe { ((*entry).key == key, !(*entry).object.is_null()) };
        if taken {
            return None;
        }
        let object = Arc::into_raw(object).cast_mut();
        // INVARIANT: From `Arc::into_raw()`. The object first: who finds the key finds it.
        // SAFETY: As above; stores of words that readers load.
        unsafe {
            word::store_release(&raw mut (*entry).object, object);
            word::store_release(&raw mut (*entry).key, key);
        }
        table.objects += 1;
        if !had_key {
            table.keys += 1;
        }
        Some(())
    }

    /// Removes the object of an address.
    pub fn remove(&mut self, key: usize) -> Option<Removed<T>> {
        let table = self.table()?;
        let entry = table.find(key);
        // SAFETY: An entry of the table, which only we change.
        let object = NonNull::new(unsafe { (*entry).object })?;
        // INVARIANT: NULL.
        // SAFETY: As above; the store of a word that readers load.
        unsafe { word::store_release(&raw mut (*entry).object, null_mut()) };
        table.objects -= 1;
        // SAFETY: By the invariants of the entry, whose count this was.
        let object = Some(unsafe { Arc::from_raw(object.as_ptr()) });
        // A wait that begins from now on has a number that is not less.
        let waits = WAITS.load(Acquire);
        Some(Removed { object, waits })
    }
}

impl<T> Drop for Writer<T> {
    fn drop(&mut self) {
        let table = self.map.table.xchg(null_mut(), Full);
        if !table.is_null() {
            synchronize_rcu();
            // SAFETY: By the type invariant, and no reader has it any more.
            let table = unsafe { KBox::from_raw(table) };
            for entry in table.entries.iter().filter(|e| !e.object.is_null()) {
                // SAFETY: By the invariants of the entry.
                drop(unsafe { Arc::from_raw(entry.object) });
            }
        }
        self.map.has_writer.store(false, Release);
    }
}

impl<T> Removed<T> {
    /// Gives the object up, if need be after another grace period.
    pub fn release(mut self, period: &GracePeriod) {
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
