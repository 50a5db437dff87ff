// SPDX-License-Identifier: GPL-2.0

//! Work item that removes the breakpoints that have been hit.
//!
//! Contexts: asking any, NMI included; the rest process.

use core::sync::atomic::AtomicBool;
use core::sync::atomic::AtomicUsize;
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::Ordering::SeqCst;

use super::armed::take_hits;
use super::text::Ready;

/// Number of repeated hits after which the worker must not wait any longer.
const URGENT: usize = 32;

/// True if the worker has been asked, and has not begun.
static IS_ASKED: AtomicBool = AtomicBool::new(false);
/// Number of repeated hits since the worker began.
static REPEATS: AtomicUsize = AtomicUsize::new(0);

extern "C" {
    // All of `worker.h`.
    fn ferro_coverage_worker_begin();
    fn ferro_coverage_worker_ask(now: bool) -> bool;
    fn ferro_coverage_worker_end();
}

/// The worker. Its drop waits for the work item.
pub(crate) struct Worker(());

impl Worker {
    /// Lets the work item run. There is one worker at a time: the module's.
    pub(crate) fn new(_ready: Ready) -> Self {
        // SAFETY: A `Ready` proves that `ferro_coverage_work()` may run.
        unsafe { ferro_coverage_worker_begin() };
        Self(())
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // SAFETY: `new()` has begun it, and nothing else ends it.
        unsafe { ferro_coverage_worker_end() };
    }
}

/// Asks for the removal of breakpoints after a hit. `is_queued` is true for the first hit in its
/// page, and `is_first` for the first hit of its place. Context: any.
///
/// The first hit of all asks for it soon, so that more can be removed at once; a place that is hit
/// again and again asks for it now. The functions that are called for this may have breakpoints:
/// their hits find the flag set, or the number exceeded, and do not call them again.
///
/// A CPU that is not online cannot ask. A later hit on another CPU does it, in another page, or as
/// a repeated one.
#[inline]
pub(super) fn note_hit(is_queued: bool, is_first: bool) {
    if is_queued && !IS_ASKED.swap(true, SeqCst) {
        // SAFETY: No requirement; without a worker the work item does nothing.
        let is_asked = unsafe { ferro_coverage_worker_ask(false) };
        if !is_asked {
            IS_ASKED.store(false, SeqCst);
        }
    }
    if !is_first && REPEATS.fetch_add(1, Relaxed) == URGENT {
        // SAFETY: As above, no requirement.
        let is_asked = unsafe { ferro_coverage_worker_ask(true) };
        if !is_asked {
            REPEATS.store(0, Relaxed);
        }
    }
}

/// Entry point of the work item.
///
/// # Safety
///
/// Between the beginning and the end of a worker.
#[no_mangle]
unsafe extern "C" fn ferro_coverage_work() {
    REPEATS.store(0, Relaxed);
    IS_ASKED.store(false, SeqCst);
    // SAFETY: There is a worker, which was made with a `Ready`.
    take_hits(unsafe { Ready::again() });
}
