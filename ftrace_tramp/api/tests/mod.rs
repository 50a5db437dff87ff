// SPDX-License-Identifier: GPL-2.0

//! KUnit tests of the API, and through it of the trampolines, ours or mainline's.
#![deny(unsafe_code)]

use kernel::prelude::*;
use kernel::sync::atomic::Atomic;
use kernel::sync::atomic::Relaxed;
use kernel::sync::Arc;

use crate::FunctionCall;
use crate::TraceError;
use crate::Tracer;

mod calls;
mod drops;
mod sets;

/// Numbers noted by handlers.
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

/// Returns a handler that counts calls.
fn counter(notes: &Arc<Notes<1>>) -> impl Fn(&FunctionCall<'_>) + Send + Sync + 'static {
    let notes = notes.clone();
    move |_| notes.count(0)
}

#[kunit_tests(ferro_ftrace_filters)]
mod suite {
    use core::hint::black_box;

    use super::*;
    use crate::raw::targets;

    /// Calls each of the three functions once.
    fn call_all() {
        assert_eq!(targets::next(1), 2);
        assert_eq!(targets::twice(2), 4);
        assert_eq!(targets::hidden(3), 2);
    }

    #[test]
    fn a_name() -> Result {
        let notes = Notes::new()?;
        call_all();
        let builder = Tracer::builder().names(&[c"ftrace_api_next"]);
        let tracer = builder.register(counter(&notes))?;
        assert_eq!(tracer.functions(), 1);
        for _ in 0..100 {
            call_all();
        }
        drop(tracer);
        assert_eq!(notes.get(0), 100);
        call_all();
        assert_eq!(notes.get(0), 100);
        Ok(())
    }

    #[test]
    fn globs() -> Result {
        // Expected calls of each pattern: next is called twice, outer once, and each of the others
        // once.
        for (glob, functions, calls) in [
            (c"ftrace_api_*e*t*", 2, 2),
            (c"ftrace_api_t?ice", 1, 1),
            (c"ftrace_api_[tn]*", 2, 3),
            (c"*race_api_outer", 1, 1),
        ] {
            let notes = Notes::new()?;
            let tracer = Tracer::builder().globs(&[glob]).register(counter(&notes))?;
            let found = tracer.functions();
            call_all();
            assert_eq!(targets::outer(1), 2);
            drop(tracer);
            pr_info!("{glob:?}: {found} functions, {} calls\n", notes.get(0));
            assert_eq!((found, notes.get(0)), (functions, calls));
        }
        Ok(())
    }

    #[test]
    fn an_address() -> Result {
        let notes = Notes::new()?;
        let tracer = Tracer::builder()
            .addresses(&[targets::next_address()])
            .register(counter(&notes))?;
        call_all();
        drop(tracer);
        assert_eq!(notes.get(0), 1);
        Ok(())
    }

    #[test]
    fn all_together_and_each_once() -> Result {
        let notes = Notes::new()?;
        let tracer = Tracer::builder()
            .names(&[c"ftrace_api_next", c"ftrace_api_twice"])
            .globs(&[c"ftrace_api_next*"])
            .addresses(&[targets::next_address()])
            .register(counter(&notes))?;
        assert_eq!(tracer.functions(), 2);
        call_all();
        drop(tracer);
        assert_eq!(notes.get(0), 2);
        Ok(())
    }

    #[test]
    fn what_is_not_there() -> Result {
        let notes = Notes::new()?;
        let names = [
            c"ftrace_api_no_such_function",
            // Not traced.
            c"ftrace_api_hidden",
        ];
        for name in names {
            let found = Tracer::builder()
                .names(&[c"ftrace_api_next", name])
                .register(counter(&notes));
            assert_eq!(found.err(), Some(TraceError::NotFound));
        }
        let found = Tracer::builder().globs(&[c"ftrace_api_no_such*"]);
        assert_eq!(
            found.register(counter(&notes)).err(),
            Some(TraceError::NotFound)
        );
        let next = targets::next_address();
        // After ftrace's call, which a landing pad may precede. A little further another function
        // may begin. `black_box` stops the compiler from adding: objtool warns of code addresses
        // without a landing pad.
        let behind = black_box(next) + if cfg!(CONFIG_X86_KERNEL_IBT) { 9 } else { 5 };
        for address in [0, 1, usize::MAX, behind, targets::hidden_address()] {
            let found = Tracer::builder()
                .addresses(&[next, address])
                .register(counter(&notes));
            assert_eq!(found.err(), Some(TraceError::NotFound));
        }
        call_all();
        assert_eq!(notes.get(0), 0);
        Ok(())
    }

    #[test]
    fn what_is_no_filter() -> Result {
        let notes = Notes::new()?;
        let found = Tracer::builder().register(counter(&notes));
        assert_eq!(found.err(), Some(TraceError::NoFilter));
        for text in [
            c"",
            c"12",
            c"1*",
            c"!ftrace_api_next",
            c"ftrace_api_next:mod:x",
            c"ftrace api",
            c"ftrace_\\api",
            c"\xff",
        ] {
            let found = Tracer::builder().globs(&[text]).register(counter(&notes));
            assert_eq!(found.err(), Some(TraceError::BadPattern));
        }
        let found = Tracer::builder()
            .names(&[c"ftrace_api_*"])
            .register(counter(&notes));
        assert_eq!(found.err(), Some(TraceError::BadPattern));
        let mut long = KVec::new();
        long.resize(600, b'x', GFP_KERNEL)?;
        long.push(0, GFP_KERNEL)?;
        let long = CStr::from_bytes_with_nul(&long).map_err(|_| EINVAL)?;
        let found = Tracer::builder().names(&[long]).register(counter(&notes));
        assert_eq!(found.err(), Some(TraceError::BadPattern));
        call_all();
        assert_eq!(notes.get(0), 0);
        Ok(())
    }
}
