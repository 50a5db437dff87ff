// SPDX-License-Identifier: GPL-2.0

//! Drops of tracers: under load, and by their own handlers; refusal of sleeping calls in handlers.
#![deny(unsafe_code)]

use kernel::new_spinlock;
use kernel::prelude::*;
use kernel::sync::atomic::Atomic;
use kernel::sync::atomic::Relaxed;
use kernel::sync::Arc;
use kernel::sync::SpinLock;

use crate::FunctionCall;
use crate::TraceError;
use crate::TraceHandler;
use crate::Tracer;

/// Shared place where a handler finds its own tracer.
#[pin_data]
struct Place {
    #[pin]
    tracer: SpinLock<Option<Tracer<Once>>>,
    /// Number of calls after which the handler still existed.
    survived: Atomic<u32>,
    /// Number of refused registrations.
    refused: Atomic<u32>,
    /// The handler has been dropped.
    gone: Atomic<bool>,
}

/// Handler that drops its tracer.
struct Once(Arc<Place>);

impl TraceHandler for Once {
    fn call(&self, _call: &FunctionCall<'_>) {
        let place = &*self.0;
        let again = Tracer::builder()
            .names(&[c"ftrace_api_next"])
            .register(|_: &FunctionCall<'_>| ());
        if again.err() == Some(TraceError::MustNotSleep) {
            place.refused.fetch_add(1, Relaxed);
        }
        let tracer = place.tracer.try_lock().and_then(|mut tracer| tracer.take());
        drop(tracer);
        if !place.gone.load(Relaxed) {
            place.survived.fetch_add(1, Relaxed);
        }
    }
}

impl Drop for Once {
    fn drop(&mut self) {
        self.0.gone.store(true, Relaxed);
    }
}

/// Capture of a handler, with a flag that is true until the capture is dropped.
struct Alive(Arc<Atomic<bool>>);

impl Drop for Alive {
    fn drop(&mut self) {
        self.0.store(false, Relaxed);
    }
}

#[kunit_tests(ferro_ftrace_drops)]
mod suite {
    use super::*;
    use crate::raw::targets;
    use kernel::time::delay::fsleep;
    use kernel::time::Delta;

    #[test]
    fn a_handler_drops_its_tracer() -> Result {
        let place = Arc::pin_init(
            pin_init!(Place {
                tracer <- new_spinlock!(None),
                survived: Atomic::new(0),
                refused: Atomic::new(0),
                gone: Atomic::new(false),
            }),
            GFP_KERNEL,
        )?;
        let builder = Tracer::builder().names(&[c"ftrace_api_next"]);
        let tracer = builder.register(Once(place.clone()))?;
        *place.tracer.lock() = Some(tracer);
        assert_eq!(targets::next(1), 2);
        assert_eq!(place.survived.load(Relaxed), 1);
        assert_eq!(place.refused.load(Relaxed), 1);
        for _ in 0..60000 {
            if place.gone.load(Relaxed) {
                break;
            }
            fsleep(Delta::from_millis(1));
        }
        assert!(place.gone.load(Relaxed));
        assert_eq!(targets::next(1), 2);
        assert_eq!(place.survived.load(Relaxed), 1);
        Ok(())
    }

    #[test]
    fn dropping_waits_for_handlers() -> Result {
        let _callers = targets::Callers::start()?;
        let late = Arc::new(Atomic::new(0), GFP_KERNEL)?;
        for _ in 0..5 {
            let calls = Arc::new(Atomic::new(0), GFP_KERNEL)?;
            let is_there = Arc::new(Atomic::new(true), GFP_KERNEL)?;
            let alive = Alive(is_there.clone());
            let (counted, late) = (calls.clone(), late.clone());
            let tracer = Tracer::builder()
                .names(&[c"ftrace_api_next"])
                .register_boxed(move |_| {
                    counted.fetch_add(1, Relaxed);
                    if !alive.0.load(Relaxed) {
                        late.fetch_add(1, Relaxed);
                    }
                })?;
            while calls.load(Relaxed) < 10 {
                fsleep(Delta::from_millis(1));
            }
            drop(tracer);
            assert!(!is_there.load(Relaxed));
            let after = calls.load(Relaxed);
            fsleep(Delta::from_millis(1));
            assert_eq!(calls.load(Relaxed), after);
        }
        assert_eq!(late.load(Relaxed), 0);
        Ok(())
    }
}
