// SPDX-License-Identifier: GPL-2.0

//! KUnit tests of the API, and through it of the engine, whichever it is.
#![deny(unsafe_code)]

use kernel::prelude::*;
use kernel::sync::atomic::Atomic;
use kernel::sync::atomic::Relaxed;
use kernel::sync::Arc;

use crate::Keep;
use crate::Next;
use crate::ProbeCtx;
use crate::ProbeHandler;
use crate::RetprobeHandler;

/// Numbers that handlers note down.
struct Notes<const N: usize>([Atomic<usize>; N]);

impl<const N: usize> Notes<N> {
    fn new() -> Result<Arc<Self>> {
        Ok(Arc::new(Self([const { Atomic::new(0) }; N]), GFP_KERNEL)?)
    }

    fn set(&self, n: usize, value: usize) {
        self.0[n].store(value, Relaxed);
    }

    fn count(&self, n: usize) {
        self.0[n].fetch_add(1, Relaxed);
    }

    fn get(&self, n: usize) -> usize {
        self.0[n].load(Relaxed)
    }
}

/// A handler before the instruction.
struct Pre<F>(F);

#[vtable]
impl<F: Fn(&mut ProbeCtx<'_>) -> Next + Send + Sync + 'static> ProbeHandler for Pre<F> {
    fn pre(&self, ctx: &mut ProbeCtx<'_>) -> Next {
        (self.0)(ctx)
    }
}

/// A handler after the instruction.
struct Post<F>(F);

#[vtable]
impl<F: Fn(&mut ProbeCtx<'_>) + Send + Sync + 'static> ProbeHandler for Post<F> {
    fn post(&self, ctx: &mut ProbeCtx<'_>) {
        (self.0)(ctx)
    }
}

/// Both.
struct Both<F, G>(F, G);

#[vtable]
impl<F, G> ProbeHandler for Both<F, G>
where
    F: Fn(&mut ProbeCtx<'_>) + Send + Sync + 'static,
    G: Fn(&mut ProbeCtx<'_>) + Send + Sync + 'static,
{
    fn pre(&self, ctx: &mut ProbeCtx<'_>) -> Next {
        (self.0)(ctx);
        Next::Continue
    }

    fn post(&self, ctx: &mut ProbeCtx<'_>) {
        (self.1)(ctx)
    }
}

/// A handler at the return.
struct Returned<F>(F);

#[vtable]
impl<F: Fn(&mut ProbeCtx<'_>, &mut usize) + Send + Sync + 'static> RetprobeHandler for Returned<F> {
    type Data = usize;

    fn returned(&self, ctx: &mut ProbeCtx<'_>, data: &mut usize) {
        (self.0)(ctx, data)
    }
}

/// Follows calls of a function that returns its argument, if that is a multiple of `step`.
struct Mirror {
    step: usize,
    notes: Arc<Notes<3>>,
}

#[vtable]
impl RetprobeHandler for Mirror {
    type Data = [usize; 2];

    fn entry(&self, ctx: &mut ProbeCtx<'_>, data: &mut [usize; 2]) -> Keep {
        if *data != [0, 0] {
            self.notes.count(2);
        }
        let argument = ctx.argument(0).unwrap_or(usize::MAX);
        *data = [argument, 1];
        match argument.checked_rem(self.step) {
            Some(0) => Keep::Yes,
            _ => Keep::No,
        }
    }

    fn returned(&self, ctx: &mut ProbeCtx<'_>, data: &mut [usize; 2]) {
        self.notes.count(0);
        if *data != [ctx.return_value(), 1] {
            self.notes.count(1);
        }
    }
}

#[kunit_tests(ferro_kprobe)]
mod suite {
    use super::*;
    use crate::entry_probe;
    use crate::field;
    use crate::raw::targets;
    use crate::raw::targets::ALTER;
    use crate::Probe;
    use crate::ProbeError;
    use crate::Register;
    use crate::Retprobe;
    use crate::TaskInfo;
    use core::ptr::without_provenance;
    use ferro_sys::cpu;
    use ferro_sys::cpu::time::mono_fast_ns;
    use kernel::bindings;
    use kernel::time::delay::fsleep;
    use kernel::time::Delta;

    /// Waits for `what` to happen; false if it does not.
    fn happens(what: impl Fn() -> bool) -> bool {
        // A minute where nobody else has the machine.
        for _ in 0..60000 {
            if what() {
                return true;
            }
            fsleep(Delta::from_millis(1));
        }
        what()
    }

    #[test]
    fn pre_sees_the_arguments() -> Result {
        let notes = Notes::<4>::new()?;
        let seen = notes.clone();
        let handler = Pre(move |ctx: &mut ProbeCtx<'_>| {
            seen.count(0);
            seen.set(1, ctx.argument(0).unwrap_or(0));
            seen.set(2, ctx.register(Register::Si));
            seen.set(3, ctx.ip());
            Next::Continue
        });
        let probe = Probe::builder()
            .symbol(c"kprobe_api_add")
            .register(handler)?;
        assert_eq!(targets::add(30, 4), 34);
        assert_eq!(notes.get(0), 1);
        assert_eq!(notes.get(1), 30);
        assert_eq!(notes.get(2), 4);
        assert_eq!(notes.get(3), probe.address());
        drop(probe);
        assert_eq!(targets::add(30, 4), 34);
        assert_eq!(notes.get(0), 1);
        Ok(())
    }

    #[test]
    fn post_sees_what_the_instruction_did() -> Result {
        let notes = Notes::<3>::new()?;
        let seen = notes.clone();
        let handler = Post(move |ctx: &mut ProbeCtx<'_>| {
            seen.count(0);
            seen.set(1, ctx.register(Register::Ax));
            seen.set(2, ctx.ip());
        });
        let probe = Probe::builder()
            .symbol(c"kprobe_api_add")
            .offset(3)
            .register(handler)?;
        assert_eq!(targets::add(30, 4), 34);
        assert_eq!(notes.get(0), 1);
        assert_eq!(notes.get(1), 34);
        assert_eq!(notes.get(2), probe.address() + 3);
        Ok(())
    }

    #[test]
    fn pre_comes_before_post() -> Result {
        let notes = Notes::<2>::new()?;
        let (before, after) = (notes.clone(), notes.clone());
        let handler = Both(
            move |ctx: &mut ProbeCtx<'_>| before.set(0, ctx.register(Register::Ax)),
            move |ctx: &mut ProbeCtx<'_>| {
                after.set(1, ctx.register(Register::Ax) - after.get(0));
            },
        );
        let _probe = Probe::builder()
            .symbol(c"kprobe_api_add")
            .offset(3)
            .register(handler)?;
        assert_eq!(targets::add(30, 4), 34);
        assert_eq!(notes.get(0), 30);
        assert_eq!(notes.get(1), 4);
        Ok(())
    }

    #[test]
    fn pre_and_post_at_an_entry() -> Result {
        let notes = Notes::<2>::new()?;
        let (before, after) = (notes.clone(), notes.clone());
        let handler = Both(
            move |ctx: &mut ProbeCtx<'_>| before.set(0, ctx.register(Register::Di)),
            move |ctx: &mut ProbeCtx<'_>| after.set(1, ctx.register(Register::Di)),
        );
        let _probe = Probe::builder()
            .symbol(c"kprobe_api_next")
            .register(handler)?;
        assert_eq!(targets::next(30), 31);
        assert_eq!(notes.get(0), 30);
        assert_eq!(notes.get(1), 30);
        Ok(())
    }

    #[test]
    fn registers_can_be_changed() -> Result {
        let before = Pre(|ctx: &mut ProbeCtx<'_>| {
            ctx.set_register(&ALTER, Register::Si, 10);
            Next::Continue
        });
        let after = Post(|ctx: &mut ProbeCtx<'_>| {
            let ax = ctx.register(Register::Ax);
            ctx.set_register(&ALTER, Register::Ax, ax + 100);
        });
        let place = || Probe::builder().symbol(c"kprobe_api_add");
        let before = place().register(before)?;
        assert_eq!(targets::add(30, 4), 40);
        let _after = Probe::builder()
            .address(before.address())
            .offset(3)
            .register(after)?;
        assert_eq!(targets::add(30, 4), 140);
        drop(before);
        assert_eq!(targets::add(30, 4), 134);
        Ok(())
    }

    #[test]
    fn arguments_can_be_changed() -> Result {
        let handler = Pre(|ctx: &mut ProbeCtx<'_>| {
            if ctx.set_argument(&ALTER, 0, 50) && !ctx.set_argument(&ALTER, 6, 1) {
                return Next::Continue;
            }
            ctx.return_early(&ALTER, 0)
        });
        let probe = Probe::builder()
            .symbol(c"kprobe_api_next")
            .register(handler)?;
        assert_eq!(targets::next(1), 51);
        drop(probe);
        assert_eq!(targets::next(1), 2);
        Ok(())
    }

    #[test]
    fn a_function_can_return_early() -> Result {
        // By a breakpoint, and at an ftrace site.
        let early = || Pre(|ctx: &mut ProbeCtx<'_>| ctx.return_early(&ALTER, 77));
        let _add = Probe::builder()
            .symbol(c"kprobe_api_add")
            .register(early())?;
        let _next = Probe::builder()
            .symbol(c"kprobe_api_next")
            .register(early())?;
        assert_eq!(targets::add(30, 4), 77);
        assert_eq!(targets::next(1), 77);
        Ok(())
    }

    #[test]
    fn a_context_knows_when_and_where() -> Result {
        let notes = Notes::<4>::new()?;
        let seen = notes.clone();
        let handler = Pre(move |ctx: &mut ProbeCtx<'_>| {
            seen.set(0, ctx.cpu() as usize);
            seen.set(1, ctx.time() as usize);
            let task = ctx.task();
            seen.set(2, task.pid as usize);
            seen.set(3, usize::from(task.comm.starts_with(b"kunit_try_catch")));
            Next::Continue
        });
        let _probe = Probe::builder()
            .symbol(c"kprobe_api_add")
            .register(handler)?;
        let before = mono_fast_ns();
        assert_eq!(targets::add(30, 4), 34);
        let (time, after) = (notes.get(1) as u64, mono_fast_ns());
        assert!(before <= time && time <= after);
        assert!(cpu::possible().any(|cpu| cpu.get() as usize == notes.get(0)));
        assert_eq!(notes.get(2), TaskInfo::current().pid as usize);
        assert_eq!(notes.get(3), 1);
        Ok(())
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
        let probe = builder().symbol(c"kprobe_api_add").offset(1);
        assert_eq!(
            refusal(probe.register(handler())),
            Some(ProbeError::NotAnInstruction)
        );
        assert_eq!(
            refusal(builder().register(handler())),
            Some(ProbeError::Refused)
        );
        // Which kprobes itself depends on.
        let probe = builder().symbol(c"ferro_local_irq_save");
        assert_eq!(
            refusal(probe.register(handler())),
            Some(ProbeError::Refused)
        );
        // A refused one leaves nothing behind.
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
        let add = Probe::builder().symbol(c"kprobe_api_add").disarmed();
        let add = add.register(Pre(|_: &mut ProbeCtx<'_>| Next::Continue))?;
        let probe = Retprobe::builder().address(add.address() + 3);
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
        let place = || Probe::builder().symbol(c"kprobe_api_add");
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

    #[test]
    fn disarmed_probes_are_not_hit() -> Result {
        let notes = Notes::<2>::new()?;
        let (seen, back) = (notes.clone(), notes.clone());
        let handler = Pre(move |_: &mut ProbeCtx<'_>| {
            seen.count(0);
            Next::Continue
        });
        let probe = Probe::builder().symbol(c"kprobe_api_add").disarmed();
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
    fn hits_within_handlers_are_missed() -> Result {
        let notes = Notes::<2>::new()?;
        let (seen, back) = (notes.clone(), notes.clone());
        let inner = Pre(move |_: &mut ProbeCtx<'_>| {
            seen.count(0);
            Next::Continue
        });
        let inner = Probe::builder()
            .symbol(c"kprobe_api_next")
            .register(inner)?;
        let depth = Returned(move |_: &mut ProbeCtx<'_>, _: &mut usize| back.count(1));
        let depth = Retprobe::builder()
            .symbol(c"kprobe_api_depth")
            .register(depth)?;
        let outer = Pre(
            |ctx: &mut ProbeCtx<'_>| match targets::next(1) + targets::depth(0) {
                2 => Next::Continue,
                _ => ctx.return_early(&ALTER, 0),
            },
        );
        let outer = Probe::builder().symbol(c"kprobe_api_add").register(outer)?;
        assert_eq!(targets::add(30, 4), 34);
        assert_eq!((notes.get(0), notes.get(1)), (0, 0));
        assert_eq!((inner.missed(), depth.nested(), outer.missed()), (1, 1, 0));
        assert_eq!(depth.missed(), 0);
        assert_eq!(targets::next(1) + targets::depth(0), 2);
        assert_eq!((notes.get(0), notes.get(1)), (1, 1));
        Ok(())
    }

    #[test]
    fn calls_have_data_of_their_own() -> Result {
        let notes = Notes::new()?;
        let handler = Mirror {
            step: 1,
            notes: notes.clone(),
        };
        let probe = Retprobe::builder()
            .symbol(c"kprobe_api_depth")
            .register(handler)?;
        // Twice, so that instances are used again.
        assert_eq!(targets::depth(3), 3);
        assert_eq!(targets::depth(3), 3);
        assert_eq!(notes.get(0), 8);
        assert_eq!((notes.get(1), notes.get(2)), (0, 0));
        assert_eq!((probe.missed(), probe.nested()), (0, 0));
        Ok(())
    }

    #[test]
    fn entries_choose_calls() -> Result {
        let notes = Notes::new()?;
        let handler = Mirror {
            step: 2,
            notes: notes.clone(),
        };
        let probe = Retprobe::builder()
            .symbol(c"kprobe_api_depth")
            .max_active(4);
        let probe = probe.register(handler)?;
        assert_eq!(targets::depth(4), 4);
        assert_eq!((notes.get(0), notes.get(1)), (3, 0));
        assert_eq!(probe.missed(), 0);
        Ok(())
    }

    #[test]
    fn calls_beyond_max_active_are_missed() -> Result {
        let notes = Notes::new()?;
        let handler = Mirror {
            step: 1,
            notes: notes.clone(),
        };
        let probe = Retprobe::builder()
            .symbol(c"kprobe_api_depth")
            .max_active(1);
        let probe = probe.register(handler)?;
        assert_eq!(targets::depth(3), 3);
        // The outermost call has the only instance until all the others have returned.
        assert_eq!((notes.get(0), notes.get(1)), (1, 0));
        assert_eq!(probe.missed(), 3);
        Ok(())
    }

    #[test]
    fn data_is_zero_without_an_entry_handler() -> Result {
        let notes = Notes::<2>::new()?;
        let seen = notes.clone();
        let handler = Returned(move |_: &mut ProbeCtx<'_>, data: &mut usize| {
            seen.count(0);
            seen.set(1, seen.get(1) + *data);
            *data = 5;
        });
        let probe = Retprobe::builder().symbol(c"kprobe_api_next").max_active(1);
        let _probe = probe.register(handler)?;
        for value in 0..3 {
            assert_eq!(targets::next(value), value + 1);
        }
        assert_eq!((notes.get(0), notes.get(1)), (3, 0));
        Ok(())
    }

    #[test]
    fn return_values_can_be_changed() -> Result {
        let notes = Notes::<1>::new()?;
        let seen = notes.clone();
        let handler = Returned(move |ctx: &mut ProbeCtx<'_>, _: &mut usize| {
            seen.set(0, ctx.return_value());
            ctx.set_return_value(&ALTER, 99);
        });
        let probe = Retprobe::builder()
            .symbol(c"kprobe_api_next")
            .register(handler)?;
        assert_eq!(targets::next(1), 99);
        assert_eq!(notes.get(0), 2);
        drop(probe);
        assert_eq!(targets::next(1), 2);
        Ok(())
    }

    #[test]
    fn entry_probes_get_typed_arguments() -> Result {
        const FAR: i64 = -1 << 40;
        let notes = Notes::<3>::new()?;
        let seen = notes.clone();
        let probe = entry_probe!(
            "kprobe_api_eight",
            |ctx, a: i32, b: u8, c: bool, d: *const u8, e: i64, f: u16| {
                if (a, b, c, e, f) == (-5, 200, true, FAR, 65535) && ctx.read(d) == Some(b'A') {
                    seen.count(0);
                }
                seen.set(1, ctx.argument(6).unwrap_or(0));
                seen.set(2, ctx.argument(7).unwrap_or(0));
            }
        )
        .disarmed()
        .register()?;
        let call = || targets::eight(-5, 200, true, c"A", FAR, 65535, 7, 8);
        let sum = -5 + 200 + 1 + 65 + FAR + 65535 + 7 + 8;
        assert_eq!(call() as i64, sum);
        assert_eq!(probe.hits(), 0);
        probe.arm()?;
        assert_eq!(call() as i64, sum);
        assert_eq!((probe.hits(), probe.missed()), (1, 0));
        assert_eq!((notes.get(0), notes.get(1), notes.get(2)), (1, 7, 8));
        probe.disarm()?;
        assert_eq!(call() as i64, sum);
        assert_eq!(probe.hits(), 1);
        Ok(())
    }

    #[test]
    fn entry_probes_know_bindings() -> Result {
        let notes = Notes::<2>::new()?;
        let seen = notes.clone();
        let probe = entry_probe!(
            bindings::kernel_clone,
            |ctx, args: *mut bindings::kernel_clone_args| {
                match ctx.read(field!(args, bindings::kernel_clone_args, flags)) {
                    Some(flags) if flags & u64::from(bindings::CLONE_VM) != 0 => seen.count(0),
                    _ => seen.count(1),
                }
            }
        )
        .register()?;
        // A thread of the kernel shares the kernel's memory.
        drop(targets::Caller::start()?);
        assert!(probe.hits() >= 1);
        assert!(notes.get(0) >= 1);
        Ok(())
    }

    #[test]
    fn an_entry_probe_needs_its_function() -> Result {
        let probe = entry_probe!("kprobe_api_no_such_function", |_ctx| ()).register();
        assert_eq!(probe.err(), Some(ProbeError::NotFound));
        Ok(())
    }

    #[test]
    fn what_is_not_there_is_not_read() -> Result {
        let notes = Notes::<2>::new()?;
        let seen = notes.clone();
        let handler = Pre(move |ctx: &mut ProbeCtx<'_>| {
            let null = ctx.read::<u64>(core::ptr::null());
            // The last page of the address space is never mapped.
            let last = ctx.read::<u64>(without_provenance(usize::MAX - 15));
            if null.is_none() && last.is_none() && ctx.stack(usize::MAX).is_none() {
                seen.count(0);
            }
            if ctx.stack(0) == ctx.read(without_provenance(ctx.sp())) {
                seen.count(1);
            }
            Next::Continue
        });
        let _probe = Probe::builder()
            .symbol(c"kprobe_api_add")
            .register(handler)?;
        assert_eq!(targets::add(30, 4), 34);
        assert_eq!((notes.get(0), notes.get(1)), (1, 1));
        Ok(())
    }

    /// What a handler writes to, which says when it is no longer there.
    struct Owned(Arc<Notes<2>>);

    impl Drop for Owned {
        fn drop(&mut self) {
            self.0.count(1);
        }
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
