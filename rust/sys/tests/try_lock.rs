// SPDX-License-Identifier: GPL-2.0

//! Tests of the lock with `try_lock()` only.

use kernel::prelude::*;

#[kunit_tests(ferro_sys_try_lock)]
mod suite {
    use crate::sync::try_lock::TryLock;

    #[test]
    fn one_user_at_a_time_has_the_value() {
        let lock = TryLock::new(1);
        let mut first = lock.try_lock();
        // A refused attempt does not change the lock.
        assert!(lock.try_lock().is_none());
        assert!(lock.try_lock().is_none());
        if let Some(value) = &mut first {
            **value += 1;
        }
        drop(first);
        assert_eq!(lock.try_lock().map(|value| *value), Some(2));
    }
}
