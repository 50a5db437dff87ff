// SPDX-License-Identifier: GPL-2.0

//! KUnit tests of handlers that drop their own probes, and of refused calls that sleep.
#![deny(unsafe_code)]

use kernel::new_spinlock;
use kernel::prelude::*;
use kernel::sync::atomic::Atomic;
use kernel::sync::atomic::Relaxed;
use kernel::sync::Arc;
use kernel::sync::SpinLock;

use crate::EntryProbe;
use crate::Keep;
use crate::Next;
use crate::Probe;
use crate::ProbeCtx;
use crate::ProbeError;
use crate::ProbeHandler;
use crate::Retprobe;
use crate::RetprobeHandler;

/// Shared place where a handler finds its own probe.
#[pin_data]
struct Place<P> {
    #[pin]
    probe: SpinLock<Option<P>>,
    /// Number of hits after which the handler still existed.
    survived: Atomic<u32>,
    /// The handler has been dropped.
    gone: Atomic<bool>,
}

impl<P: Unpin> Place<P> {
    fn new() -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                probe <- new_spinlock!(None),
                survived: Atomic::new(0),
                gone: Atomic::new(false),
            }),
            GFP_KERNEL,
        )
    }

    fn put(&self, probe: P) {
        *self.probe.lock() = Some(probe);
    }

    /// Handles a hit: drops the probe and continues.
    fn hit(&self) {
        // Never spins: a breakpoint is like an NMI.
        let probe = self.probe.try_lock().and_then(|mut probe| probe.take());
        drop(probe);
        if !self.gone.load(Relaxed) {
            self.survived.fetch_add(1, Relaxed);
        }
    }
}

/// Handler that drops its probe.
struct Once<P>(Arc<Place<P>>);

impl<P> Drop for Once<P> {
    fn drop(&mut self) {
        self.0.gone.store(true, Relaxed);
    }
}

struct Before(Once<Probe<Before>>);

#[vtable]
impl ProbeHandler for Before {
    fn pre(&self, _ctx: &mut ProbeCtx<'_>) -> Next {
        self.0 .0.hit();
        Next::Continue
    }
}

struct After(Once<Probe<After>>);

#[vtable]
impl ProbeHandler for After {
    fn post(&self, _ctx: &mut ProbeCtx<'_>) {
        self.0 .0.hit();
    }
}

struct Entered(Once<Retprobe<Entered>>);

#[vtable]
impl RetprobeHandler for Entered {
    type Data = usize;

    fn entry(&self, _ctx: &mut ProbeCtx<'_>, _data: &mut usize) -> Keep {
        self.0 .0.hit();
        Keep::Yes
    }

    fn returned(&self, _ctx: &mut ProbeCtx<'_>, _data: &mut usize) {}
}

struct Returned(Once<Retprobe<Returned>>);

#[vtable]
impl RetprobeHandler for Returned {
    type Data = usize;

    fn returned(&self, _ctx: &mut ProbeCtx<'_>, _data: &mut usize) {
        self.0 .0.hit();
    }
}

/// Handler that tries the sleeping operations on its own probe.
struct Sleeper(Arc<Place<Probe<Sleeper>>>);

#[vtable]
impl ProbeHandler for Sleeper {
    fn pre(&self, _ctx: &mut ProbeCtx<'_>) -> Next {
        let refused = Some(Err(ProbeError::MustNotSleep));
        if let Some(probe) = self.0.probe.try_lock() {
            let probe = probe.as_ref();
            let again = Probe::builder().register(Self(self.0.clone())).map(drop);
            if probe.map(Probe::disarm) == refused
                && probe.map(Probe::arm) == refused
                && Some(again) == refused
            {
                self.0.survived.fetch_add(1, Relaxed);
            }
        }
        Next::Continue
    }
}

#[kunit_tests(ferro_kprobe_self_removal)]
mod suite {
    use super::*;
    use crate::entry_probe;
    use crate::raw::targets;
    use crate::raw::targets::UNTRACEABLE;
    use kernel::time::delay::fsleep;
    use kernel::time::Delta;

    /// Returns true if the handler survives the drop of its own probe, and is dropped afterwards.
    fn drops_itself<P: Unpin>(place: &Place<P>, call: impl Fn()) -> bool {
        call();
        let survived = place.survived.load(Relaxed);
        for _ in 0..5000 {
            if place.gone.load(Relaxed) {
                break;
            }
            fsleep(Delta::from_millis(1));
        }
        let hits = place.survived.load(Relaxed);
        call();
        survived == 1 && place.gone.load(Relaxed) && place.survived.load(Relaxed) == hits
    }

    #[test]
    fn before_an_instruction() -> Result {
        let place = Place::new()?;
        let probe = Probe::builder()
            .symbol(c"kprobe_api_add")
            .untraceable(UNTRACEABLE);
        place.put(probe.register(Before(Once(place.clone())))?);
        assert!(drops_itself(&place, || assert_eq!(targets::add(30, 4), 34)));
        Ok(())
    }

    #[test]
    fn after_an_instruction() -> Result {
        let place = Place::new()?;
        let probe = Probe::builder()
            .symbol(c"kprobe_api_add")
            .untraceable(UNTRACEABLE)
            .offset(3);
        place.put(probe.register(After(Once(place.clone())))?);
        assert!(drops_itself(&place, || assert_eq!(targets::add(30, 4), 34)));
        Ok(())
    }

    #[test]
    fn at_an_ftrace_site() -> Result {
        let place = Place::new()?;
        let probe = Probe::builder().symbol(c"kprobe_api_next");
        place.put(probe.register(Before(Once(place.clone())))?);
        assert!(drops_itself(&place, || assert_eq!(targets::next(1), 2)));
        Ok(())
    }

    #[test]
    fn at_the_entry_of_a_call() -> Result {
        let place = Place::new()?;
        let probe = Retprobe::builder().symbol(c"kprobe_api_next");
        place.put(probe.register(Entered(Once(place.clone())))?);
        assert!(drops_itself(&place, || assert_eq!(targets::next(1), 2)));
        Ok(())
    }

    #[test]
    fn at_the_return_of_a_call() -> Result {
        let place = Place::new()?;
        let probe = Retprobe::builder().symbol(c"kprobe_api_next");
        place.put(probe.register(Returned(Once(place.clone())))?);
        assert!(drops_itself(&place, || assert_eq!(targets::next(1), 2)));
        Ok(())
    }

    #[test]
    fn by_an_entry_probe() -> Result {
        let place = Place::<EntryProbe>::new()?;
        let once = Once(place.clone());
        let probe = entry_probe!("kprobe_api_next", |_ctx, _value: i32| once.0.hit());
        place.put(probe.register()?);
        assert!(drops_itself(&place, || assert_eq!(targets::next(1), 2)));
        Ok(())
    }

    #[test]
    fn what_sleeps_is_refused_in_handlers() -> Result {
        let place = Place::new()?;
        for symbol in [c"kprobe_api_add", c"kprobe_api_next"] {
            let probe = Probe::builder().symbol(symbol).untraceable(UNTRACEABLE);
            place.put(probe.register(Sleeper(place.clone()))?);
            assert_eq!(targets::add(30, 4) + targets::next(1) as usize, 36);
            let probe = place.probe.lock().take();
            assert!(probe.as_ref().is_some_and(Probe::is_armed));
            drop(probe);
        }
        assert_eq!(place.survived.load(Relaxed), 2);
        Ok(())
    }
}
