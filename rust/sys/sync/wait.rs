// SPDX-License-Identifier: GPL-2.0

//! Wait queues for pollers.
//!
//! Contexts: a wake-up takes the queue's lock; any context except NMI and the scheduler, with
//! interrupts on or off.

use crate::bindings;
use kernel::prelude::*;
use kernel::sync::LockClassKey;
use kernel::types::Opaque;

use crate::cpu::irq_work::OnIrqWork;

// RUST-KERNEL: `kernel::sync::poll::PollCondVar` does not tell if a task waits; ours until it
// does.
/// A `wait_queue_head_t`.
#[repr(transparent)]
#[pin_data]
pub struct WaitQueue {
    #[pin]
    head: Opaque<bindings::wait_queue_head>,
}

// SAFETY: A wait queue has no owner: any task may free one without waiters.
unsafe impl Send for WaitQueue {}
// SAFETY: Functions of shared references take the queue's own lock, or read one word of it.
unsafe impl Sync for WaitQueue {}

impl OnIrqWork for WaitQueue {
    fn on_irq_work(&self) {
        self.wake_all();
    }
}

impl WaitQueue {
    /// Makes an empty queue.
    pub fn new(name: &'static CStr, key: Pin<&'static LockClassKey>) -> impl PinInit<Self> {
        pin_init!(Self {
            // SAFETY: `slot` is valid, `name` and `key` are static.
            head <- Opaque::ffi_init(|slot| unsafe {
                bindings::__init_waitqueue_head(slot, name.as_char_ptr(), key.as_ptr())
            }),
        })
    }

    /// Returns true if the queue has waiters. The caller needs a full barrier between its change
    /// and this check; a waiter has one between queueing and checking.
    #[inline]
    pub fn is_active(&self) -> bool {
        // SAFETY: The queue is initialised.
        unsafe { bindings::ferro_waitqueue_active(self.head.get()) }
    }

    /// Wakes all interruptible waiters.
    pub fn wake_all(&self) {
        const TASK_INTERRUPTIBLE: u32 = bindings::TASK_INTERRUPTIBLE;
        // SAFETY: The queue is initialised; 0 wakes all.
        unsafe {
            bindings::__wake_up(
                self.head.get(),
                TASK_INTERRUPTIBLE,
                0,
                core::ptr::null_mut(),
            )
        };
    }

    pub(crate) fn as_ptr(&self) -> *mut bindings::wait_queue_head {
        self.head.get()
    }
}
