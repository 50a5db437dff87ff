// SPDX-License-Identifier: GPL-2.0

//! Something to do where one may sleep, asked for where one may not.
//!
//! Contexts: asking any, NMI and handlers of probes included; doing process; making and dropping process, sleeps.

use core::ops::Deref;

use kernel::prelude::*;
use kernel::types::Opaque;

use super::deferred_drop::ferro_defer;
use super::deferred_drop::ferro_wait_deferred;
use super::deferred_drop::Work;
use super::shared_word::Word;

/// What a value does when it is asked to.
pub trait OnErrand: Send + Sync + 'static {
    /// Does it. Called by one work item at a time. Context: process; sleeps. It must not drop the [`Errand`].
    fn on_errand(&self);
}

/// A value that a work item calls soon after it was asked to. If it is asked several times before, it is called once. Dropping waits
/// until it is not called any more; if it is forgotten, the work item is done before its module goes.
#[pin_data(PinnedDrop)]
#[repr(C)]
pub struct Errand<T: OnErrand> {
    // At the start, where `run()` expects it. In the list of `deferred_drop.c` only between `ask()` and `run()`.
    work: Opaque<Work>,
    /// Whether it is there: 0 or 1.
    is_asked: Word,
    #[pin]
    value: T,
}

// SAFETY: `work` is used by whoever has made `is_asked` 1, once; the value is `Send`.
unsafe impl<T: OnErrand> Send for Errand<T> {}
// SAFETY: As for `Send`; the value is `Sync`.
unsafe impl<T: OnErrand> Sync for Errand<T> {}

impl<T: OnErrand> Errand<T> {
    /// Of a value, which is not asked.
    pub fn new<E>(value: impl PinInit<T, E>) -> impl PinInit<Self, E> {
        try_pin_init!(Self {
            work: Opaque::uninit(),
            is_asked: Word::new(0),
            value <- value,
        }? E)
    }

    /// Has [`OnErrand::on_errand`] called after this, if that is not under way already. What was stored before is seen there.
    pub fn ask(&self) {
        if self.is_asked.swap(1) != 0 {
            return;
        }
        // SAFETY: `work` is at the start of `self`, which is pinned and stays until `drop()` has waited for `run()`, or for ever.
        // Only who has made the word 1 comes here, and `run()` makes it 0 when the list is done with `work`.
        unsafe { ferro_defer(self.work.get(), run::<T>) };
    }

    /// Waits until what was asked for before is done. Context: process; sleeps; not from `on_errand()`, nor with what that locks.
    pub fn wait(&self) {
        // SAFETY: No requirement.
        unsafe { ferro_wait_deferred() };
    }
}

impl<T: OnErrand> Deref for Errand<T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        &self.value
    }
}

#[pinned_drop]
impl<T: OnErrand> PinnedDrop for Errand<T> {
    fn drop(self: Pin<&mut Self>) {
        self.wait();
    }
}

/// # Safety
///
/// `work` is at the start of an `Errand<T>` that stays until this has returned, and is in no list.
unsafe extern "C" fn run<T: OnErrand>(work: *mut Work) {
    // SAFETY: By the rules of this function.
    let errand = unsafe { &*work.cast::<Errand<T>>() };
    // Whoever asks after this asks again; what was stored by those who have asked before is seen.
    errand.is_asked.swap(0);
    errand.value.on_errand();
}
