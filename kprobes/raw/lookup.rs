// SPDX-License-Identifier: GPL-2.0

//! Lookup of a hit's point and of its probes, which any context can do while they are changed.
//!
//! [`AddressMap`] is a hash table with open addressing: a lookup takes a load or two at any size.
//! `map_writer.rs` changes it. [`ProbeList`] has the probes of a point, and is changed with the
//! engine's mutex. [`Found`] is an object of a map while its reader may use it.
//!
//! Contexts: lookups any, NMI included, wherever RCU watches; changes of a list process.

use core::cell::UnsafeCell;
use core::hint::assert_unchecked;
use core::marker::PhantomData;
use core::mem::offset_of;
use core::ops::Deref;
use core::ptr::null_mut;
use core::ptr::NonNull;

use ferro_sys::bindings;
use ferro_sys::cpu::preempt::PreemptOff;
use ferro_sys::hook::typed::Atomic as NotPreempted;
use ferro_sys::sync::shared_word;
use kernel::prelude::*;
use kernel::sync::atomic::Atomic;

use super::kprobe::Kprobe;
use super::mutex::Locked;

/// Entry of an [`AddressMap`].
///
/// # Invariants
///
/// `object` is NULL or was returned by `Arc::into_raw()`; its count belongs to the table.
pub(super) struct MapEntry<T> {
    pub(super) key: usize,
    pub(super) object: *mut T,
}

// SAFETY: It owns its object, as the count is its table's.
unsafe impl<T: Send + Sync> Send for MapEntry<T> {}

/// A header entry with the key 28 - n, and a table of 2^n entries, for `n` in 1 to 28. At least one
/// entry of the table has the key 0.
pub(super) type MapTable<T> = KVVec<MapEntry<T>>;

/// Map from addresses that are not 0 to objects.
///
/// # Invariants
///
/// `table` is the address of a [`MapTable`] or of [`EMPTY_TABLE`]; only the `MapWriter` changes it
/// and its contents.
pub(crate) struct AddressMap<T> {
    pub(super) table: Atomic<*mut MapEntry<T>>,
    pub(super) has_writer: Atomic<bool>,
}

/// A [`MapTable`] that stays empty: the header and two entries without keys.
static EMPTY_TABLE: [usize; 6] = [27, 0, 0, 0, 0, 0];

/// Size of an entry in bytes, 2^4.
const SIZE: u32 = 16;

pub(super) const fn empty_table<T>() -> *mut MapEntry<T> {
    const { assert!(size_of::<MapEntry<T>>() == SIZE as usize) };
    (&raw const EMPTY_TABLE).cast_mut().cast()
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
    /// Wraps a known object without a lookup. The object may already have been removed from the
    /// map.
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

/// Returns the entry of a key. Returns the free entry for the key as an error if it has none.
///
/// # Safety
///
/// `table` is the address of a [`MapTable`] or of [`EMPTY_TABLE`], which stays until this returns.
#[inline(always)]
pub(super) unsafe fn find<T>(
    table: *mut MapEntry<T>,
    key: usize,
) -> Result<*mut MapEntry<T>, *mut MapEntry<T>> {
    // SAFETY: The caller guarantees that a table, or `EMPTY_TABLE`, is there, which begins with an
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
        // is 28 - n: `at` is a multiple of their size, and has n + 4 bits. `EMPTY_TABLE` has two,
        // and 27.
        let entry = unsafe { table.byte_add(at as usize).add(1) };
        // SAFETY: A live, aligned word, which the writer changes in single stores.
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
            table: Atomic::new(empty_table()),
            has_writer: Atomic::new(false),
        }
    }

    /// Calls `f` with the object of this address.
    #[inline(always)]
    pub(crate) fn with<R>(
        &self,
        key: usize,
        f: impl for<'a> FnOnce(Found<'a, T>) -> R,
    ) -> Option<R> {
        // This is also the RCU read-side section that the writer waits for.
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

    /// Calls `f` with the object of this address.
    ///
    /// # Safety
    ///
    /// Preemption stays off until this returns: a read-side section of RCU.
    #[inline(always)]
    unsafe fn look_up<R>(
        &self,
        key: usize,
        f: impl for<'a> FnOnce(Found<'a, T>) -> R,
    ) -> Option<R> {
        // SAFETY: A live, aligned word. The writer publishes a table with a release store, and x86
        // keeps dependent loads in order.
        let table = unsafe { shared_word::load(self.table.as_ptr()) };
        // An entry without this key may be one that the writer is filling: the key is stored last.
        // SAFETY: A table by the type invariant; it is freed after a grace period.
        let entry = unsafe { find(table, key) }.ok()?;
        // SAFETY: A live, aligned word, which the writer changes in single stores.
        let object = NonNull::new(unsafe { shared_word::load(&raw const (*entry).object) })?;
        // SAFETY: Live by the invariants of the entry; its count is dropped after a grace period.
        let object = unsafe { object.as_ref() };
        // INVARIANT: The caller guarantees a read-side section of RCU, until `f` has returned.
        Some(f(Found(object)))
    }
}

/// Probes, the newest first, linked with `kprobe::list`.
///
/// # Invariants
///
/// A chain of list entries of probes by `next`, with NULL at its end. Changes need the engine's
/// mutex, and are stores of single words. A removed probe stays valid until a grace period of RCU
/// has passed, and while the mutex is held. `single` is [`ferro_kprobe_walk`] or a probe of the
/// chain, `single_post` [`ferro_kprobe_walk_posting`] or one; they change with it.
///
/// `optprobe_template.S` reads both, by their offsets.
#[repr(C)]
pub(crate) struct ProbeList {
    /// The only probe, if enabled and registered without a post-handler.
    single: UnsafeCell<*mut bindings::kprobe>,
    /// The only probe, if enabled and registered with a post-handler.
    single_post: UnsafeCell<*mut bindings::kprobe>,
    first: UnsafeCell<*mut bindings::list_head>,
}

// `detour.h`
static_assert!(offset_of!(ProbeList, single) == 0);
static_assert!(offset_of!(ProbeList, single_post) == 8);

extern "C" {
    /// `engine.c`
    static mut ferro_kprobe_walk: bindings::kprobe;
    /// `engine.c`
    static mut ferro_kprobe_walk_posting: bindings::kprobe;
}

// SAFETY: The chain is changed in stores of single words, by one task at a time, which holds the
// engine's mutex.
unsafe impl Sync for ProbeList {}
// SAFETY: It belongs to no thread.
unsafe impl Send for ProbeList {}

impl ProbeList {
    /// Creates an empty list.
    pub(crate) const fn new() -> Self {
        // INVARIANT: Only the end.
        Self {
            single: UnsafeCell::new(&raw mut ferro_kprobe_walk),
            single_post: UnsafeCell::new(&raw mut ferro_kprobe_walk_posting),
            first: UnsafeCell::new(null_mut()),
        }
    }

    #[inline(always)]
    fn first(&self) -> *mut bindings::list_head {
        // SAFETY: A live word, which is written in single stores.
        unsafe { shared_word::load(self.first.get()) }
    }

    /// Returns the probes.
    pub(crate) fn iter<'a>(&self, _locked: &'a Locked) -> Probes<'a> {
        // INVARIANT: The engine's mutex is held for `'a`.
        Probes {
            next: self.first(),
            _list: PhantomData,
        }
    }

    /// Returns true if there are no probes.
    pub(crate) fn is_empty(&self) -> bool {
        self.first().is_null()
    }

    /// Adds a probe in front, unless it is in a list.
    pub(crate) fn push(&self, probe: Kprobe<'_>, locked: &Locked) {
        if probe.is_listed() {
            return;
        }
        probe.set_listed(true);
        let list = probe.list();
        // SAFETY: By its invariants the probe is there, and as it was in no list, no reader uses
        // its entry.
        unsafe { (*list).prev = null_mut() };
        // SAFETY: By its invariants the probe is there, and as it was in no list, no reader uses
        // its entry.
        unsafe { (*list).next = self.first() };
        // INVARIANT: In front of the chain; by its invariants the probe stays as long as a list has
        // it, and a grace period longer.
        // SAFETY: A live word, which only the holder of the mutex stores; readers see the probe
        // when it is complete.
        unsafe { shared_word::store_release(self.first.get(), list) };
        self.update_single(locked);
    }

    /// Updates `single` and `single_post`, also after a probe was enabled or disabled. Readers of
    /// the old values still find probes that were in the chain.
    pub(crate) fn update_single(&self, locked: &Locked) {
        let mut probes = self.iter(locked);
        let first = probes.next().filter(|_| probes.next().is_none());
        let alone = first.filter(|probe| probe.is_enabled());
        let (mut single, mut single_post) = (
            &raw mut ferro_kprobe_walk,
            &raw mut ferro_kprobe_walk_posting,
        );
        if let Some(probe) = alone {
            match probe.has_post() {
                true => single_post = probe.as_ptr(),
                false => single = probe.as_ptr(),
            }
        }
        // INVARIANT: In the chain, with the mutex held, or the probes of `engine.c`.
        // SAFETY: Live words, which only the holder of the mutex stores.
        unsafe {
            shared_word::store_release(self.single.get(), single);
            shared_word::store_release(self.single_post.get(), single_post);
        }
    }

    /// Removes a probe. Readers may still see it, until a grace period is over; then the caller has
    /// to call [`Kprobe::clear_list`].
    pub(crate) fn remove(&self, probe: Kprobe<'_>, locked: &Locked) {
        let mut link = self.first.get();
        loop {
            // SAFETY: The word of this list, or by the type invariant the word of an entry of a
            // probe, which stays while the mutex is held.
            let entry = unsafe { shared_word::load(link) };
            if entry.is_null() {
                return;
            }
            if entry == probe.list() {
                break;
            }
            // SAFETY: By the type invariant an entry of a probe that is there; only an address is
            // made.
            link = unsafe { &raw mut (*entry).next };
        }
        // SAFETY: By its invariants the probe is there; only the holder of the mutex stores this
        // word.
        let next = unsafe { shared_word::load(&raw const (*probe.list()).next) };
        // INVARIANT: The chain continues after it.
        // SAFETY: A live word, see above, which only the holder of the mutex stores.
        unsafe { shared_word::store_release(link, next) };
        self.update_single(locked);
        probe.set_listed(false);
    }
}

impl<'a> Found<'a, ProbeList> {
    /// Returns the probes.
    #[inline(always)]
    pub(crate) fn iter(self) -> Probes<'a> {
        // INVARIANT: `'a` is a read-side section of RCU.
        Probes {
            next: self.get().first(),
            _list: PhantomData,
        }
    }

    /// Returns the only probe, if enabled and registered without a post-handler.
    #[inline(always)]
    pub(crate) fn single(self) -> Option<Kprobe<'a>> {
        // SAFETY: A live word, which is written in single stores.
        let probe = unsafe { shared_word::load(self.get().single.get()) };
        // SAFETY: By the invariants of the list never NULL: the probe of `engine.c`, excluded here,
        // or a probe that was in the list when the list was found, and so stays for `'a`.
        (probe != &raw mut ferro_kprobe_walk)
            .then(|| unsafe { Kprobe::from_raw(NonNull::new_unchecked(probe)) })
    }

    /// Returns the only probe, if enabled and registered with a post-handler.
    #[inline(always)]
    pub(crate) fn single_post(self) -> Option<Kprobe<'a>> {
        // SAFETY: A live word, which is written in single stores.
        let probe = unsafe { shared_word::load(self.get().single_post.get()) };
        // SAFETY: By the invariants of the list never NULL: the probe of `engine.c`, excluded here,
        // or a probe that was in the list when the list was found, and so stays for `'a`.
        (probe != &raw mut ferro_kprobe_walk_posting)
            .then(|| unsafe { Kprobe::from_raw(NonNull::new_unchecked(probe)) })
    }
}

/// The probes of a [`ProbeList`].
///
/// # Invariants
///
/// `next` is NULL or the entry of a probe. `'a` is within a read-side section of RCU in which the
/// list was found, or within the engine's mutex: each probe that is in the list now stays for `'a`.
pub(crate) struct Probes<'a> {
    next: *mut bindings::list_head,
    _list: PhantomData<&'a ProbeList>,
}

impl<'a> Iterator for Probes<'a> {
    type Item = Kprobe<'a>;

    #[inline(always)]
    fn next(&mut self) -> Option<Kprobe<'a>> {
        let entry = NonNull::new(self.next)?;
        // SAFETY: By the type invariant the entry of a probe, which stays for `'a`.
        let probe = unsafe { at_entry(entry) };
        // INVARIANT: The next of the chain.
        // SAFETY: By the type invariant the entry is there; a word that is written in single
        // stores.
        self.next = unsafe { shared_word::load(&raw const (*entry.as_ptr()).next) };
        Some(probe)
    }
}

/// Returns the probe that contains a list entry.
///
/// # Safety
///
/// `entry` is the entry of a probe that is, or was, in a [`ProbeList`], and stays for `'a`.
#[inline(always)]
unsafe fn at_entry<'a>(entry: NonNull<bindings::list_head>) -> Kprobe<'a> {
    // SAFETY: The caller guarantees that a probe is around the entry, so that its start is in the
    // same structure.
    let start = unsafe { entry.byte_sub(offset_of!(bindings::kprobe, list)) };
    // SAFETY: The caller guarantees that it stays, and by the invariants of the list it was a
    // `Kprobe` when it was added.
    unsafe { Kprobe::from_raw(start.cast()) }
}
