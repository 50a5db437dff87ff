// SPDX-License-Identifier: GPL-2.0

//! A lock that is only tried.

use kernel::prelude::*;

#[kunit_tests(ferro_sys_try_lock)]
mod suite {
    use crate::sync::try_lock::TryLock;

    #[test]
    fn one_user_at_a_time_has_the_value() {
        let lock = TryLock::new(1);
        let mut first = lock.try_lock();
        // What is refused leaves the lock as it is.
        assert!(lock.try_lock().is_none());
        assert!(lock.try_lock().is_none());
        if let Some(value) = &mut first {
            **value += 1;
        }
        drop(first);
        assert_eq!(lock.try_lock().map(|value| *value), Some(2));
    }
}
