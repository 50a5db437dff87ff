// SPDX-License-Identifier: GPL-2.0

//! Registers one handler of switches twice, which made the kernel warn. Arms and disarms it, also
//! in the handler, which must not sleep. Armed handlers are now recorded, so the second
//! registration is refused; calls that sleep are refused in a handler. The log reports failures
//! with "BUG: ".
//!
//! Contexts: process, and the scheduler. Locks: one of its own, which the handler only tries.
#![forbid(unsafe_code)]

use ferro_sys::trace::tracepoint::Error;
use ferro_sys::trace::tracepoint::SchedSwitch;
use ferro_sys::trace::tracepoint::SchedSwitchProbe;
use ferro_sys::trace::tracepoint::Switch;
use kernel::new_spinlock;
use kernel::prelude::*;
use kernel::sync::atomic::Atomic;
use kernel::sync::atomic::Relaxed;
use kernel::sync::Arc;
use kernel::sync::SpinLock;
use kernel::time::delay::fsleep;
use kernel::time::Delta;

module! {
    type: Client,
    name: "switch_probe_twice",
    authors: ["Ferrotrace maintainers"],
    description: "Registers a handler of switches twice",
    license: "GPL v2",
}

struct Switches {
    count: Atomic<u64>,
    refused: Atomic<u64>,
    /// For the handler, while it tries to arm and disarm.
    probe: Arc<SpinLock<Option<Arc<SchedSwitchProbe<Switches>>>>>,
}

impl SchedSwitch for Switches {
    fn switch(&self, _event: &Switch) {
        self.count.fetch_add(1, Relaxed);
        let Some(place) = self.probe.try_lock() else {
            return;
        };
        if let Some(probe) = &*place {
            let answers = [probe.arm(), probe.disarm()];
            if answers == [Err(Error::MustNotSleep); 2] && probe.is_armed() {
                self.refused.fetch_add(1, Relaxed);
            }
        }
    }
}

fn check(what: &str, holds: bool) {
    if !holds {
        pr_err!("BUG: {what}\n");
    }
}

/// Returns the number of switches that a handler sees while this thread sleeps.
fn seen(switches: &Switches) -> u64 {
    let before = switches.count.load(Relaxed);
    for _ in 0..10 {
        fsleep(Delta::from_millis(2));
    }
    switches.count.load(Relaxed) - before
}

struct Client;

impl kernel::Module for Client {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        let probe = Arc::pin_init(new_spinlock!(None), GFP_KERNEL)?;
        let switches = Switches {
            count: Atomic::new(0),
            refused: Atomic::new(0),
            probe,
        };
        let switches = Arc::new(switches, GFP_KERNEL)?;
        let first = SchedSwitchProbe::register(switches.clone())?;
        check("it is armed", first.is_armed() && seen(&switches) > 0);
        let second = SchedSwitchProbe::register(switches.clone());
        check(
            "one handler is registered twice",
            second.err() == Some(Error::Already),
        );
        check("it is armed twice", first.arm().is_ok() && first.is_armed());
        check(
            "it is disarmed",
            first.disarm().is_ok() && !first.is_armed(),
        );
        check("it is called when it is disarmed", seen(&switches) == 0);
        let second = SchedSwitchProbe::register(switches.clone())?;
        check(
            "it is armed beside another",
            first.arm() == Err(Error::Already),
        );
        check(
            "the other one is taken away",
            first.disarm().is_ok() && seen(&switches) > 0,
        );
        drop(second);
        check("it is called when all are disarmed", seen(&switches) == 0);
        check(
            "it is armed again",
            first.arm().is_ok() && seen(&switches) > 0,
        );
        let first = Arc::new(first, GFP_KERNEL)?;
        *switches.probe.lock() = Some(first.clone());
        seen(&switches);
        check("the handler is refused", switches.refused.load(Relaxed) > 0);
        first.disarm()?;
        let place = switches.probe.lock().take();
        drop(place);
        Ok(Self)
    }
}
