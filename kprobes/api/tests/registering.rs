// SPDX-License-Identifier: GPL-2.0

//! Registration, arming and drop of probes, and their refusals.
#![deny(unsafe_code)]

use kernel::prelude::*;
use kernel::sync::Arc;
use kernel::time::delay::fsleep;
use kernel::time::Delta;

use super::Notes;
use super::Post;
use super::Pre;
use super::Returned;
use crate::raw::targets;
use crate::raw::targets::UNTRACEABLE;
use crate::Next;
use crate::Probe;
use crate::ProbeCtx;
use crate::ProbeError;
use crate::Retprobe;

#[kunit_tests(ferro_kprobe_registering)]
mod suite {
    use super::*;

    /// Waits until `what` returns true. Returns false after a timeout.
    fn happens(what: impl Fn() -> bool) -> bool {
        // A minute on an idle machine.
        for _ in 0..60000 {
            if what() {
                return true;
            }
            fsleep(Delta::from_millis(1));
        }
        what()
    }

    /// Counters for a handler, with a count of its drops.
    struct Owned(Arc<Notes<2>>);

    impl Drop for Owned {
        fn drop(&mut self) {
            self.0.count(1);
        }
    }

    #[test]
    fn refusals() -> Result {
        let handler = || Pre(|_: &mut ProbeCtx<'_>| Next::Continue);
        let refusal = |probe| Result::err(probe);
        let builder = Probe::builder;
        let probe = builder().symbol(c"kprobe_api_no_such_function");
        assert_eq!(
            refusal(probe.register(handler())),
            Some(ProbeError::NotFound)
        );
        let probe = builder()
            .symbol(c"kprobe_api_add")
            .untraceable(UNTRACEABLE)
            .offset(1);
        assert_eq!(
            refusal(probe.register(handler())),
            Some(ProbeError::NotAnInstruction)
        );
        assert_eq!(
            refusal(builder().register(handler())),
            Some(ProbeError::Refused)
        );
        // Without an ftrace site.
        let probe = builder().symbol(c"kprobe_api_add");
        assert_eq!(
            refusal(probe.register(handler())),
            Some(ProbeError::Untraceable)
        );
        // Kprobes itself depends on this function.
        let probe = builder().symbol(c"ferro_local_irq_save");
        let probe = probe.untraceable(UNTRACEABLE);
        assert_eq!(
            refusal(probe.register(handler())),
            Some(ProbeError::Refused)
        );
        // A refused probe leaves no trace.
        assert_eq!(targets::add(30, 4), 34);
        Ok(())
    }

    #[test]
    fn refusals_of_return_probes() -> Result {
        let handler = || Returned(|_: &mut ProbeCtx<'_>, _: &mut usize| ());
        let refusal = |probe| Result::err(probe);
        let probe = Retprobe::builder().symbol(c"kprobe_api_no_such_function");
        assert_eq!(
            refusal(probe.register(handler())),
            Some(ProbeError::NotFound)
        );
        let add = Probe::builder()
            .symbol(c"kprobe_api_add")
            .untraceable(UNTRACEABLE)
            .disarmed();
        let add = add.register(Pre(|_: &mut ProbeCtx<'_>| Next::Continue))?;
        let probe = Retprobe::builder().address(add.address());
        assert_eq!(
            refusal(probe.register(handler())),
            Some(ProbeError::Untraceable)
        );
        let probe = Retprobe::builder().address(add.address() + 3);
        let probe = probe.untraceable(UNTRACEABLE);
        assert_eq!(
            refusal(probe.register(handler())),
            Some(ProbeError::Refused)
        );
        for max_active in [u32::MAX, i32::MAX as u32, 64 << 20] {
            let probe = Retprobe::builder().symbol(c"kprobe_api_next");
            assert_eq!(
                refusal(probe.max_active(max_active).register(handler())),
                Some(ProbeError::TooMany)
            );
        }
        Ok(())
    }

    #[test]
    fn probes_share_an_address() -> Result {
        let notes = Notes::<2>::new()?;
        let counting = |n| {
            let notes = notes.clone();
            Pre(move |_: &mut ProbeCtx<'_>| {
                notes.count(n);
                Next::Continue
            })
        };
        let place = || {
            Probe::builder()
                .symbol(c"kprobe_api_add")
                .untraceable(UNTRACEABLE)
        };
        let first = place().register(counting(0))?;
        let second = place().register(counting(1))?;
        assert_eq!(targets::add(30, 4), 34);
        assert_eq!((notes.get(0), notes.get(1)), (1, 1));
        first.disarm()?;
        assert_eq!(targets::add(30, 4), 34);
        assert_eq!((notes.get(0), notes.get(1)), (1, 2));
        drop(second);
        first.arm()?;
        assert_eq!(targets::add(30, 4), 34);
        assert_eq!((notes.get(0), notes.get(1)), (2, 2));
        Ok(())
    }

    /// Mainline's engine panics if a post handler joins another probe at an ftrace site and leaves.
    #[test]
    fn a_post_handler_joins_and_leaves_an_entry() -> Result {
        let notes = Notes::<2>::new()?;
        let counted = |n| {
            let notes = notes.clone();
            move |_: &mut ProbeCtx<'_>| notes.count(n)
        };
        let before = counted(0);
        let handler = Pre(move |ctx: &mut ProbeCtx<'_>| {
            before(ctx);
            Next::Continue
        });
        let first = Probe::builder()
            .symbol(c"kprobe_api_next")
            .register(handler)?;
        for round in 1..=3 {
            let second = Probe::builder()
                .symbol(c"kprobe_api_next")
                .register(Post(counted(1)))?;
            assert_eq!(targets::next(30), 31);
            assert_eq!(notes.get(1), round);
            drop(second);
            assert_eq!(targets::next(30), 31);
            assert_eq!((notes.get(0), notes.get(1)), (2 * round, round));
        }
        drop(first);
        assert_eq!(targets::next(30), 31);
        assert_eq!(notes.get(0), 6);
        Ok(())
    }

    /// All probes before the refused one are registered, regardless of its position.
    #[test]
    fn many_at_once() -> Result {
        for refused in [0, 1, 7, 39, 40] {
            let notes = Notes::<2>::new()?;
            let symbol = |n| match n == refused {
                true => c"kprobe_api_no_such_function",
                false => c"kprobe_api_next",
            };
            let points = (0..40).map(|n| {
                let owned = Owned(notes.clone());
                let handler = Pre(move |_: &mut ProbeCtx<'_>| {
                    owned.0.count(0);
                    Next::Continue
                });
                (Probe::builder().symbol(symbol(n)), handler)
            });
            let returns = (0..40).map(|n| {
                let owned = Owned(notes.clone());
                let handler = Returned(move |_: &mut ProbeCtx<'_>, _: &mut usize| owned.0.count(0));
                (Retprobe::builder().symbol(symbol(n)), handler)
            });
            let (points, why) = Probe::register_all(points)?;
            let (returns, why_not) = Retprobe::register_all(returns)?;
            let expected = (refused < 40).then_some(ProbeError::NotFound);
            assert_eq!((points.len(), why), (refused, expected));
            assert_eq!((returns.len(), why_not), (refused, expected));
            // The other handlers have been dropped.
            assert_eq!(notes.get(1), 2 * (40 - refused));
            targets::next(1);
            assert_eq!(notes.get(0), 2 * refused);
            // Other probes at the same place stay armed.
            let handler = Pre(|_: &mut ProbeCtx<'_>| Next::Continue);
            let other = Probe::builder().symbol(c"kprobe_api_next");
            let other = other.register(handler)?;
            Probe::drop_all(points.into_iter());
            Retprobe::drop_all(returns.into_iter());
            assert!(other.is_armed());
            assert_eq!(notes.get(1), 80);
            targets::next(1);
            assert_eq!(notes.get(0), 2 * refused);
        }
        Ok(())
    }

    #[test]
    fn disarmed_probes_are_not_hit() -> Result {
        let notes = Notes::<2>::new()?;
        let (seen, back) = (notes.clone(), notes.clone());
        let handler = Pre(move |_: &mut ProbeCtx<'_>| {
            seen.count(0);
            Next::Continue
        });
        let probe = Probe::builder()
            .symbol(c"kprobe_api_add")
            .untraceable(UNTRACEABLE)
            .disarmed();
        let probe = probe.register(handler)?;
        let handler = Returned(move |_: &mut ProbeCtx<'_>, _: &mut usize| back.count(1));
        let retprobe = Retprobe::builder().symbol(c"kprobe_api_next").disarmed();
        let retprobe = retprobe.register(handler)?;
        let call = || {
            targets::add(30, 4);
            targets::next(1);
            (notes.get(0), notes.get(1))
        };
        assert!(!probe.is_armed() && !retprobe.is_armed());
        assert_eq!(call(), (0, 0));
        probe.arm()?;
        retprobe.arm()?;
        assert!(probe.is_armed() && retprobe.is_armed());
        assert_eq!(call(), (1, 1));
        probe.disarm()?;
        retprobe.disarm()?;
        assert_eq!(call(), (1, 1));
        Ok(())
    }

    #[test]
    fn a_probe_that_is_dropped_is_hit_no_more() -> Result {
        let _caller = targets::Caller::start()?;
        for round in 1..=8 {
            let notes = Notes::<2>::new()?;
            let owned = Owned(notes.clone());
            let handler = Pre(move |_: &mut ProbeCtx<'_>| {
                owned.0.count(0);
                Next::Continue
            });
            let probe = Probe::builder()
                .symbol(c"kprobe_api_next")
                .register(handler)?;
            assert!(happens(|| notes.get(0) > 0));
            drop(probe);
            let hits = notes.get(0);
            assert_eq!(notes.get(1), 1);
            if round == 8 {
                fsleep(Delta::from_millis(2));
                assert_eq!(notes.get(0), hits);
            }
        }
        Ok(())
    }

    #[test]
    fn a_return_probe_that_is_dropped_is_hit_no_more() -> Result {
        let _caller = targets::Caller::start()?;
        for round in 1..=8 {
            let notes = Notes::<2>::new()?;
            let owned = Owned(notes.clone());
            let handler = Returned(move |_: &mut ProbeCtx<'_>, _: &mut usize| owned.0.count(0));
            let probe = Retprobe::builder().symbol(c"kprobe_api_next");
            let probe = probe.register(handler)?;
            assert!(happens(|| notes.get(0) > 0));
            drop(probe);
            let hits = notes.get(0);
            assert_eq!(notes.get(1), 1);
            if round == 8 {
                fsleep(Delta::from_millis(2));
                assert_eq!(notes.get(0), hits);
            }
        }
        Ok(())
    }
}
