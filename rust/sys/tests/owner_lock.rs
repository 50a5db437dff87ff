// SPDX-License-Identifier: GPL-2.0

//! Tests of locks that are entered again. A failure hangs.

use kernel::prelude::*;

#[kunit_tests(ferro_sys_owner_lock)]
mod suite {
    use crate::cpu::current_id;
    use crate::cpu::with_irqs_off;
    use crate::sync::nmi_lock::OwnerLock;

    #[test]
    fn once_on_a_cpu() {
        let lock = OwnerLock::new();
        with_irqs_off(|irqs| {
            let first = lock.enter(irqs);
            assert!(first.is_some());
            assert!(lock.enter(irqs).is_none());
            drop(first);
            assert!(lock.enter(irqs).is_some());
        });
    }

    /// The other CPU may be waiting for this one.
    #[test]
    fn nobody_waits_who_holds_one() {
        let ours = OwnerLock::new();
        let free = OwnerLock::new();
        with_irqs_off(|irqs| {
            let taken = OwnerLock::held_by(current_id() + 1);
            let held = ours.enter(irqs);
            assert!(held.is_some());
            assert!(taken.enter(irqs).is_none());
            assert!(free.enter(irqs).is_some());
            // A refused attempt leaves no mark.
            assert!(ours.enter(irqs).is_none());
            drop(held);
            assert!(ours.enter(irqs).is_some());
        });
    }
}
