// SPDX-License-Identifier: GPL-2.0

//! KUnit tests, run at boot: hooks of their own, dispatched by the tests.
#![deny(unsafe_code)]

use kernel::prelude::*;

#[kunit_tests(ferro_gkhi)]
mod suite {
    use crate::define_hook;
    use crate::hook;
    use crate::points::CpuPrepare;
    use crate::points::TaskExit;
    use crate::Answer;
    use crate::AnyExit;
    use crate::AsIs;
    use crate::Call;
    use crate::CpusStopped;
    use crate::Error;
    use crate::ExitOn;
    use crate::Outcome;
    use crate::Priority;
    use crate::Registered;
    use crate::RegisteredHook;
    use crate::WithCpusStopped;
    use crate::WithIrqsOff;
    use ferro_sys::hook_is_active;
    use kernel::prelude::*;
    use kernel::sync::atomic::Atomic;
    use kernel::sync::atomic::Relaxed;

    define_hook! {
        /// A sum to which exits add, and which they may change.
        static SUM: Sum<'a> = c"kunit_sum" in Task(by: u32, sum: &'a mut u64, negative: i8);
    }

    define_hook! {
        /// A function that exits can make return.
        static ASK: Ask<'a> = c"kunit_ask" in Sleep(question: u64) -> i32;
    }

    define_hook! {
        /// A hook without parameters.
        static BARE: Bare<'a> = c"kunit_bare" in Atomic();
    }

    /// Another hook of the same name, as another module might define it.
    mod other {
        ferro_sys::define_hook! {
            /// A hook with the same text and another type.
            pub static SUM: OtherSum<'a> = c"kunit_sum"
                in Task(by: u32, sum: &'a mut u64, negative: i8);
        }
    }

    fn fire(by: u32) -> (u64, Outcome<crate::NoReturn>) {
        let mut sum = 0;
        let outcome = hook!(SUM, by, &mut sum, -1);
        (sum, outcome)
    }

    fn is(outcome: &Outcome<crate::NoReturn>, continued: bool) -> bool {
        matches!(outcome, Outcome::Continued) == continued
    }

    fn ask(question: u64) -> i32 {
        if let Outcome::Return(answer) = hook!(ASK, question) {
            return answer;
        }
        -1
    }

    /// An exit that appends its digit.
    struct Digit(u64);

    impl ExitOn<Sum> for Digit {
        fn call(&self, _call: &Call<'_, Sum>, (_, sum, _): (u32, &mut u64, i8)) -> Answer {
            *sum = *sum * 10 + self.0;
            Answer::Continue
        }
    }

    #[test]
    fn a_dormant_hook_calls_nobody() -> Result {
        let _hook = RegisteredHook::register(&SUM)?;
        let exit = Registered::<Sum>::builder(c"exit")
            .disarmed()
            .register_exit(Digit(1))?;
        assert!(!hook_is_active!(SUM));
        assert!(fire(1).0 == 0 && !exit.is_armed());
        exit.arm()?;
        assert!(hook_is_active!(SUM) && exit.is_armed());
        assert!(fire(1).0 == 1 && exit.hits() == 1);
        exit.disarm()?;
        assert!(!hook_is_active!(SUM));
        assert!(fire(1).0 == 0 && exit.hits() == 1);
        Ok(())
    }

    #[test]
    fn exits_are_called_in_order() -> Result {
        let _hook = RegisteredHook::register(&SUM)?;
        let last = Registered::<Sum>::builder(c"last")
            .priority(Priority::Last)
            .disarmed()
            .register_exit(Digit(5))?;
        let third = Registered::<Sum>::builder(c"third")
            .disarmed()
            .register_exit(Digit(3))?;
        let second = Registered::<Sum>::builder(c"second")
            .priority(Priority::UnspecifiedLifo)
            .disarmed()
            .register_exit(Digit(2))?;
        let first = Registered::<Sum>::builder(c"first")
            .priority(Priority::First)
            .disarmed()
            .register_exit(Digit(1))?;
        let fourth = Registered::<Sum>::builder(c"fourth")
            .disarmed()
            .register_exit(Digit(4))?;
        crate::arm(&[&last, &third, &second, &first, &fourth])?;
        assert_eq!(fire(1).0, 12345);
        third.disarm()?;
        assert_eq!(fire(1).0, 1245);
        drop(first);
        assert_eq!(fire(1).0, 245);
        crate::disarm(&[&last, &second])?;
        assert_eq!(fire(1).0, 4);
        assert_eq!((fourth.hits(), last.hits()), (4, 3));
        Ok(())
    }

    #[test]
    fn parameters_arrive_and_change() -> Result {
        let _hook = RegisteredHook::register(&SUM)?;
        let _exit = Registered::<Sum>::builder(c"exit")
            .priority(Priority::Only)
            .register(|call, (by, sum, negative)| {
                *sum += u64::from(by) + u64::from(negative == -1 && call.count() == 3);
                Answer::Continue
            })?;
        assert_eq!(fire(u32::MAX).0, 1 << 32);
        Ok(())
    }

    #[test]
    fn another_type_is_refused() -> Result {
        let _hook = RegisteredHook::register(&SUM)?;
        assert_eq!(
            RegisteredHook::register(&other::SUM).err(),
            Some(Error::NameTaken)
        );
        let other = Registered::<other::OtherSum>::builder(c"x")
            .priority(Priority::Last)
            .register(|_, _| Answer::Continue);
        assert_eq!(other.err(), Some(Error::OtherParams));
        Ok(())
    }

    #[test]
    fn a_pinned_exit_is_called_in_any_case() -> Result {
        let _hook = RegisteredHook::register(&SUM)?;
        let first = Registered::<Sum>::builder(c"first")
            .priority(Priority::First)
            .disarmed()
            .register(|_, _| Answer::Terminate)?;
        let skipped = Registered::<Sum>::builder(c"skipped")
            .disarmed()
            .register_exit(Digit(2))?;
        let pinned = Registered::<Sum>::builder(c"pinned")
            .priority(Priority::Last)
            .pinned()
            .disarmed()
            .register(|_, (_, sum, _)| {
                *sum += 3;
                Answer::Continue
            })?;
        crate::arm(&[&first, &skipped, &pinned])?;
        let (sum, outcome) = fire(1);
        assert!(sum == 3 && is(&outcome, false));
        assert_eq!((first.hits(), skipped.hits(), pinned.hits()), (1, 0, 1));
        Ok(())
    }

    #[test]
    fn whoever_is_not_0_ends_the_dispatch() -> Result {
        let _hook = RegisteredHook::register(&SUM)?;
        let first = Registered::<Sum>::builder(c"first")
            .priority(Priority::First)
            .disarmed()
            .register(|_, (by, _, _)| match by {
                0 => Answer::Terminate,
                _ => Answer::Continue,
            })?;
        let second = Registered::<Sum>::builder(c"second")
            .disarmed()
            .register_exit(Digit(2))?;
        crate::arm(&[&first, &second])?;
        let (sum, outcome) = fire(1);
        assert!(sum == 2 && is(&outcome, true));
        let (sum, outcome) = fire(0);
        assert!(sum == 0 && is(&outcome, false));
        // The only armed exit can end the dispatch, too.
        second.disarm()?;
        assert!(is(&fire(0).1, false));
        assert_eq!((first.hits(), second.hits()), (3, 1));
        Ok(())
    }

    #[test]
    fn an_exit_can_answer_for_the_function() -> Result {
        let _hook = RegisteredHook::register(&ASK)?;
        let exit = Registered::<Ask>::builder(c"answer")
            .priority(Priority::Only)
            .disarmed()
            .register(|_, (question,)| match question {
                42 => Answer::Return(-7),
                43 => Answer::Terminate,
                _ => Answer::Continue,
            })?;
        assert_eq!(ask(42), -1);
        exit.arm()?;
        assert_eq!((ask(42), ask(43), ask(44)), (-7, -1, -1));
        Ok(())
    }

    #[test]
    fn an_exit_can_disarm_itself() -> Result {
        let _hook = RegisteredHook::register(&SUM)?;
        let exit = Registered::<Sum>::builder(c"once")
            .priority(Priority::First)
            .disarmed()
            .register(|call, (_, sum, _)| {
                *sum += u64::from(call.disarm_self()) + 10 * u64::from(call.disarm_self());
                Answer::Continue
            })?;
        let other = Registered::<Sum>::builder(c"other")
            .priority(Priority::Last)
            .disarmed()
            .register_exit(Digit(0))?;
        // As a single exit, and among others.
        for both in [false, true] {
            if both {
                other.arm()?;
            }
            for _ in 0..3 {
                exit.arm()?;
                let (sum, again) = (fire(1).0, fire(1).0);
                assert_eq!((sum, again), (if both { 10 } else { 1 }, 0));
                assert!(!exit.is_armed());
            }
        }
        assert_eq!(exit.hits(), 6);
        Ok(())
    }

    /// Context in which the exit ran: bits for irqs off, and for stopped CPUs.
    static SEEN: Atomic<u32> = Atomic::new(0);

    struct Stopped;

    impl ExitOn<Ask, WithCpusStopped> for Stopped {
        fn call(&self, call: &Call<'_, Ask, WithCpusStopped>, _: (u64,)) -> Answer<i32> {
            let _proof: &CpusStopped = call.proof();
            SEEN.store(u32::from(ferro_sys::cpu::irqs_are_off()), Relaxed);
            Answer::Return(5)
        }
    }

    #[test]
    fn an_exit_is_looked_at_without_the_lock() -> Result {
        let _hook = RegisteredHook::register(&SUM)?;
        let exit = Registered::<Sum>::builder(c"exit").register_exit(Digit(1))?;
        fire(1);
        // Another CPU that took this lock now would wait forever.
        let guard = crate::registry::lock();
        assert!(exit.is_armed() && exit.hits() == 1);
        drop(guard);
        exit.disarm()?;
        assert!(!exit.is_armed());
        Ok(())
    }

    #[test]
    fn conditions_hold() -> Result {
        let _ask = RegisteredHook::register(&ASK)?;
        let _bare = RegisteredHook::register(&BARE)?;
        let exit = Registered::<Ask, _>::builder(c"stopped")
            .priority(Priority::Only)
            .register_exit(Stopped)?;
        assert_eq!((ask(1), SEEN.load(Relaxed)), (5, 1));
        drop(exit);
        let _exit = Registered::<Bare, WithIrqsOff>::builder(c"irqs")
            .priority(Priority::Only)
            .register(|_, ()| {
                SEEN.store(2 + u32::from(ferro_sys::cpu::irqs_are_off()), Relaxed);
                Answer::Continue
            })?;
        hook!(BARE);
        assert_eq!(SEEN.load(Relaxed), 3);
        assert!(!ferro_sys::cpu::irqs_are_off());
        Ok(())
    }

    #[test]
    fn the_cpus_are_not_stopped_for_everybody() -> Result {
        let _bare = RegisteredHook::register(&BARE)?;
        let no = Registered::<Bare, WithCpusStopped>::builder(c"x")
            .priority(Priority::Only)
            .register(|_, ()| Answer::Continue);
        assert_eq!(no.err(), Some(Error::CannotStop));
        let no = Registered::<TaskExit, WithCpusStopped>::builder(c"x")
            .priority(Priority::Last)
            .register(|_, _| Answer::Continue);
        assert_eq!(no.err(), Some(Error::CannotStop));
        let no = Registered::<CpuPrepare, WithCpusStopped>::builder(c"x")
            .priority(Priority::Last)
            .register(|_, _| Answer::Continue);
        assert_eq!(no.err(), Some(Error::CannotStop));
        Ok(())
    }

    #[test]
    fn what_is_refused() -> Result {
        let new = |name, priority| {
            Registered::<Sum, AsIs>::builder(name)
                .priority(priority)
                .disarmed()
                .register_exit(Digit(1))
        };
        assert_eq!(new(c"a", Priority::First).err(), Some(Error::NoHook));
        let hook = RegisteredHook::register(&SUM)?;
        assert_eq!(RegisteredHook::register(&SUM).err(), Some(Error::Already));
        let a = new(c"a", Priority::First)?;
        assert_eq!(new(c"b", Priority::First).err(), Some(Error::FirstTaken));
        assert_eq!(new(c"b", Priority::Only).err(), Some(Error::Occupied));
        assert_eq!(new(c"a", Priority::Last).err(), Some(Error::NameTaken));
        for name in [c"", c"a/b", c"..", c"a b", c"\xff"] {
            assert_eq!(new(name, Priority::Last).err(), Some(Error::BadName));
        }
        let last = new(c"b", Priority::Last)?;
        assert_eq!(new(c"c", Priority::Last).err(), Some(Error::LastTaken));
        drop((a, last));
        let only = new(c"a", Priority::Only)?;
        assert_eq!(
            new(c"b", Priority::Unspecified).err(),
            Some(Error::Occupied)
        );
        only.arm()?;
        drop(hook);
        assert!(!hook_is_active!(SUM) && !only.is_armed());
        assert_eq!(only.arm().err(), Some(Error::Deleted));
        assert_eq!(only.disarm(), Ok(()));
        // The name is free again, and the old exit stays unregistered.
        let _hook = RegisteredHook::register(&SUM)?;
        assert_eq!(only.arm().err(), Some(Error::Deleted));
        let again = new(c"a", Priority::Only)?;
        again.arm()?;
        assert_eq!((fire(1).0, only.hits()), (1, 0));
        Ok(())
    }

    #[test]
    fn the_hook_points_are_there() -> Result {
        let _fork = Registered::<crate::points::TaskFork>::builder(c"kunit")
            .disarmed()
            .register(|_, _| Answer::Continue)?;
        let _exit = Registered::<TaskExit>::builder(c"kunit")
            .disarmed()
            .register(|_, _| Answer::Continue)?;
        let _prepare = Registered::<CpuPrepare>::builder(c"kunit")
            .disarmed()
            .register(|_, _| Answer::Continue)?;
        Ok(())
    }
}
