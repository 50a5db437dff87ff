// SPDX-License-Identifier: GPL-2.0

//! Drops a probe in its own handler: "scheduling while atomic", and then a return to freed memory.
//! Where the caller may not sleep, a work item drops the probe when none of its handlers runs. Each
//! fork makes another handler do that.
#![forbid(unsafe_code)]

use ferro_kprobe::entry_probe;
use ferro_kprobe::EntryProbe;
use ferro_kprobe::Next;
use ferro_kprobe::Probe;
use ferro_kprobe::ProbeCtx;
use ferro_kprobe::ProbeHandler;
use ferro_kprobe::Retprobe;
use ferro_kprobe::RetprobeHandler;
use ferro_sys::trace::tracepoint::SchedSwitch;
use ferro_sys::trace::tracepoint::SchedSwitchProbe;
use ferro_sys::trace::tracepoint::Switch;
use kernel::new_spinlock;
use kernel::prelude::*;
use kernel::sync::atomic::Atomic;
use kernel::sync::atomic::Relaxed;
use kernel::sync::Arc;
use kernel::sync::SpinLock;

module! {
    type: Client,
    name: "probe_drops_itself",
    authors: ["Ferrotrace maintainers"],
    description: "Handlers that drop their own probes",
    license: "GPL v2",
}

/// Place where a handler finds its probe.
#[pin_data]
struct Place<P> {
    #[pin]
    probe: SpinLock<Option<P>>,
    done: Atomic<bool>,
}

impl<P: Unpin> Place<P> {
    fn new() -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                probe <- new_spinlock!(None),
                done: Atomic::new(false),
            }),
            GFP_KERNEL,
        )
    }

    fn put(&self, probe: P) {
        *self.probe.lock() = Some(probe);
    }

    fn drop_it(&self) {
        let probe = self.probe.try_lock().and_then(|mut probe| probe.take());
        if probe.is_some() {
            drop(probe);
            self.done.store(true, Relaxed);
        }
    }
}

struct Before(Arc<Place<Probe<Before>>>);

#[vtable]
impl ProbeHandler for Before {
    fn pre(&self, _ctx: &mut ProbeCtx<'_>) -> Next {
        self.0.drop_it();
        Next::Continue
    }
}

struct Returned(Arc<Place<Retprobe<Returned>>>);

#[vtable]
impl RetprobeHandler for Returned {
    type Data = u64;

    fn returned(&self, _ctx: &mut ProbeCtx<'_>, _data: &mut u64) {
        self.0.drop_it();
    }
}

struct Switched(Arc<Place<SchedSwitchProbe<Switched>>>);

impl SchedSwitch for Switched {
    fn switch(&self, _event: &Switch) {
        self.0.drop_it();
    }
}

struct Client {
    before: Arc<Place<Probe<Before>>>,
    returned: Arc<Place<Retprobe<Returned>>>,
    entered: Arc<Place<EntryProbe>>,
    switched: Arc<Place<SchedSwitchProbe<Switched>>>,
}

impl kernel::Module for Client {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        let new = Self {
            before: Place::new()?,
            returned: Place::new()?,
            entered: Place::new()?,
            switched: Place::new()?,
        };
        let function = c"kernel_clone";
        let probe = Probe::builder().symbol(function);
        new.before.put(probe.register(Before(new.before.clone()))?);
        let probe = Retprobe::builder().symbol(function);
        new.returned
            .put(probe.register(Returned(new.returned.clone()))?);
        let place = new.entered.clone();
        let probe = entry_probe!("kernel_clone", |_ctx| place.drop_it());
        new.entered.put(probe.register()?);
        let handler = Arc::new(Switched(new.switched.clone()), GFP_KERNEL)?;
        new.switched.put(SchedSwitchProbe::register(handler)?);
        Ok(new)
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let done = [
            self.before.done.load(Relaxed),
            self.returned.done.load(Relaxed),
            self.entered.done.load(Relaxed),
            self.switched.done.load(Relaxed),
        ];
        if done == [true; 4] {
            pr_info!("all have dropped themselves\n");
        }
    }
}
