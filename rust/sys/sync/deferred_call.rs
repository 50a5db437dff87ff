// SPDX-License-Identifier: GPL-2.0

//! Calls that may sleep, requested in contexts that must not.
//!
//! Contexts: request: any, NMI and probe handlers included; call: process; creation and drop:
//! process, sleeps.

use core::ops::Deref;

use kernel::prelude::*;
use kernel::types::Opaque;

use super::deferred_drop::ferro_defer;
use super::deferred_drop::ferro_wait_deferred;
use super::deferred_drop::Work;
use super::shared_word::Word;

/// A value with a function for requests.
pub trait OnErrand: Send + Sync + 'static {
    /// Serves requests. One work item at a time calls this. Context: process; sleeps. It must not
    /// drop the [`Errand`].
    fn on_errand(&self);
}

/// A value that a work item calls soon after a request. Several requests before the call cause one
/// call. The drop waits for the call. If the value was forgotten, the work item finishes before its
/// module is freed.
#[pin_data(PinnedDrop)]
#[repr(C)]
pub struct Errand<T: OnErrand> {
    // First field, as `run()` expects. In the list of `deferred_drop.c` only between `ask()` and
    // `run()`.
    work: Opaque<Work>,
    /// 1 while a request is pending, otherwise 0.
    is_asked: Word,
    #[pin]
    value: T,
}

// SAFETY: Only the caller that has set `is_asked` to 1 uses `work`, once; the value is `Send`.
unsafe impl<T: OnErrand> Send for Errand<T> {}
// SAFETY: As for `Send`; the value is `Sync`.
unsafe impl<T: OnErrand> Sync for Errand<T> {}

impl<T: OnErrand> Errand<T> {
    /// Makes the value, without a request.
    pub fn new<E>(value: impl PinInit<T, E>) -> impl PinInit<Self, E> {
        try_pin_init!(Self {
            work: Opaque::uninit(),
            is_asked: Word::new(0),
            value <- value,
        }? E)
    }

    /// Requests a call of [`OnErrand::on_errand`], unless one is pending. The call sees all earlier
    /// stores.
    pub fn ask(&self) {
        if self.is_asked.swap(1) != 0 {
            return;
        }
        // SAFETY: `work` is at the start of `self`, which is pinned and exists until `drop()` has
        // waited for `run()`, or permanently. Only the caller that has set the word to 1 gets here,
        // and `run()` clears it when the list no longer uses `work`.
        unsafe { ferro_defer(self.work.get(), run::<T>) };
    }

    /// Waits until all earlier requests are served. Context: process; sleeps; not from
    /// `on_errand()`, nor with a lock that it takes.
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
/// `work` is at the start of an `Errand<T>` that exists until this has returned, and is in no list.
unsafe extern "C" fn run<T: OnErrand>(work: *mut Work) {
    // SAFETY: By the rules of this function.
    let errand = unsafe { &*work.cast::<Errand<T>>() };
    // A request after this is a new one; the stores of earlier requesters are visible.
    errand.is_asked.swap(0);
    errand.value.on_errand();
}
