// SPDX-License-Identifier: GPL-2.0

//! Calls as handlers see them.
#![deny(unsafe_code)]

use ferro_sys::bindings;
use kernel::prelude::*;

use super::Notes;
use crate::raw::targets;
use crate::trace_function;
use crate::Register;
use crate::Tracer;

#[kunit_tests(ferro_ftrace_calls)]
mod suite {
    use super::*;

    #[test]
    fn typed_arguments() -> Result {
        const FAR: i64 = -1 << 40;
        let notes = Notes::<2>::new()?;
        let seen = notes.clone();
        let tracer = trace_function!(
            "ftrace_api_eight",
            |call, a: i32, b: u8, c: bool, d: *const u8, e: i64, f: u16| {
                seen.count(1);
                if (a, b, c, e, f) == (-5, 200, true, FAR, 65535) && call.read(d) == Some(b'A') {
                    seen.count(0);
                }
            }
        )
        .register()?;
        let sum = -5 + 200 + 1 + 65 + FAR + 65535 + 7 + 8;
        let call = || targets::eight(-5, 200, true, c"A", FAR, 65535, 7, 8) as i64;
        assert_eq!(call(), sum);
        drop(tracer);
        assert_eq!(call(), sum);
        assert_eq!((notes.get(0), notes.get(1)), (1, 1));
        Ok(())
    }

    #[test]
    fn functions_of_the_bindings() -> Result {
        let notes = Notes::<1>::new()?;
        let seen = notes.clone();
        let tracer = trace_function!(
            bindings::kernel_clone,
            |call, args: *mut bindings::kernel_clone_args| {
                // The first word has the flags: kernel threads share the kernel's memory.
                let flags = call.read(args.cast::<u64>());
                if flags.is_some_and(|flags| flags & u64::from(bindings::CLONE_VM) != 0) {
                    seen.count(0);
                }
            }
        )
        .register()?;
        drop(targets::Callers::start()?);
        drop(tracer);
        assert!(notes.get(0) >= 2);
        Ok(())
    }

    #[test]
    fn places_and_registers() -> Result {
        for all in [false, true] {
            let notes = Notes::<6>::new()?;
            let seen = notes.clone();
            let mut builder = Tracer::builder().names(&[c"ftrace_api_next"]);
            if all {
                builder = builder.all_registers();
            }
            let tracer = builder.register_boxed(move |call| {
                seen.set(0, call.ip());
                seen.set(1, call.parent_ip());
                seen.set(2, call.register(Register::Di).unwrap_or(usize::MAX));
                seen.set(3, call.flags().is_some().into());
                seen.set(4, call.task().pid.try_into().unwrap_or(0));
                seen.set(5, call.arguments()[0]);
            })?;
            assert_eq!(targets::outer(34), 35);
            drop(tracer);
            // A landing pad may precede the site.
            assert!(notes.get(0).wrapping_sub(targets::next_address()) <= 4);
            assert!(notes.get(1) != 0);
            assert_eq!(notes.get(2), if all { 34 } else { usize::MAX });
            assert_eq!(notes.get(3), all.into());
            assert_eq!(notes.get(4), kernel::current!().pid() as usize);
            assert_eq!(notes.get(5), 34);
        }
        Ok(())
    }

    #[test]
    fn a_handler_that_calls_what_it_traces() -> Result {
        let notes = Notes::<1>::new()?;
        let seen = notes.clone();
        let tracer = Tracer::builder()
            .names(&[c"ftrace_api_next", c"ftrace_api_outer"])
            .register_boxed(move |_| {
                seen.count(0);
                if targets::outer(1) != 2 {
                    seen.set(0, usize::MAX / 2);
                }
            })?;
        for _ in 0..10 {
            assert_eq!(targets::next(1), 2);
        }
        drop(tracer);
        // Each call, and within its handler outer and next, but nothing within those.
        assert_eq!(notes.get(0), 30);
        Ok(())
    }

    #[test]
    fn several_on_one_function() -> Result {
        let notes = Notes::<4>::new()?;
        let mut tracers = KVec::new();
        for n in 0..4 {
            let seen = notes.clone();
            let builder = Tracer::builder().globs(&[c"ftrace_api_nex*"]);
            tracers.push(builder.register_boxed(move |_| seen.count(n))?, GFP_KERNEL)?;
            assert_eq!(targets::next(1), 2);
        }
        for _ in 0..4 {
            drop(tracers.remove(0));
            assert_eq!(targets::next(1), 2);
        }
        // Number n saw all calls since its registration, and one after each of the n earlier drops.
        for n in 0..4 {
            assert_eq!(notes.get(n), 4);
        }
        Ok(())
    }
}
