// SPDX-License-Identifier: GPL-2.0

//! Changes made by handlers.
#![deny(unsafe_code)]

use kernel::prelude::*;

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

#[kunit_tests(ferro_kprobe_altering)]
mod suite {
    use super::*;

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
        let place = || {
            Probe::builder()
                .symbol(c"kprobe_api_add")
                .untraceable(UNTRACEABLE)
        };
        let before = place().register(before)?;
        assert_eq!(targets::add(30, 4), 40);
        let _after = Probe::builder()
            .address(before.address())
            .offset(3)
            .untraceable(UNTRACEABLE)
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
        // At a breakpoint, and at an ftrace site.
        let early = || Pre(|ctx: &mut ProbeCtx<'_>| ctx.return_early(&ALTER, 77));
        let _add = Probe::builder()
            .symbol(c"kprobe_api_add")
            .untraceable(UNTRACEABLE)
            .register(early())?;
        let _next = Probe::builder()
            .symbol(c"kprobe_api_next")
            .register(early())?;
        assert_eq!(targets::add(30, 4), 77);
        assert_eq!(targets::next(1), 77);
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
}
