// SPDX-License-Identifier: GPL-2.0

//! Probes that get a function's typed arguments.
#![deny(unsafe_code)]

use ferro_sys::bindings;
use kernel::prelude::*;

use super::Notes;
use crate::entry_probe;
use crate::field;
use crate::raw::targets;
use crate::ProbeError;

#[kunit_tests(ferro_kprobe_entries)]
mod suite {
    use super::*;

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
        // A kernel thread shares the kernel's memory.
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
}
