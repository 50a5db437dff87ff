// SPDX-License-Identifier: GPL-2.0

//! State that handlers see, and the choice of handlers that are called.
#![deny(unsafe_code)]

use core::ptr::without_provenance;
use ferro_sys::cpu;
use ferro_sys::cpu::time::mono_fast_ns;
use kernel::prelude::*;

use super::Both;
use super::Notes;
use super::Post;
use super::Pre;
use super::Returned;
use crate::raw::targets;
use crate::raw::targets::ALTER;
use crate::raw::targets::UNTRACEABLE;
use crate::Next;
use crate::Probe;
use crate::ProbeCtx;
use crate::Register;
use crate::Retprobe;
use crate::TaskInfo;

#[kunit_tests(ferro_kprobe_handlers)]
mod suite {
    use super::*;

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
            .untraceable(UNTRACEABLE)
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
            .untraceable(UNTRACEABLE)
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
            .untraceable(UNTRACEABLE)
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
            .untraceable(UNTRACEABLE)
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
            .untraceable(UNTRACEABLE)
            .register(handler)?;
        assert_eq!(targets::add(30, 4), 34);
        assert_eq!((notes.get(0), notes.get(1)), (1, 1));
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
        let outer = Probe::builder()
            .symbol(c"kprobe_api_add")
            .untraceable(UNTRACEABLE)
            .register(outer)?;
        assert_eq!(targets::add(30, 4), 34);
        assert_eq!((notes.get(0), notes.get(1)), (0, 0));
        assert_eq!((inner.missed(), depth.nested(), outer.missed()), (1, 1, 0));
        assert_eq!(depth.missed(), 0);
        assert_eq!(targets::next(1) + targets::depth(0), 2);
        assert_eq!((notes.get(0), notes.get(1)), (1, 1));
        Ok(())
    }
}
