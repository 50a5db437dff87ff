// SPDX-License-Identifier: GPL-2.0

//! Drops a channel, a fast channel and an application in a handler of a probe: "scheduling while
//! atomic". Where the caller may not sleep, a work item closes them, and calls that would sleep are
//! refused.
#![forbid(unsafe_code)]

use ferro_kprobe::Next;
use ferro_kprobe::Probe;
use ferro_kprobe::ProbeCtx;
use ferro_kprobe::ProbeHandler;
use ferro_relay::App;
use kernel::new_spinlock;
use kernel::prelude::*;
use kernel::sync::Arc;
use kernel::sync::SpinLock;

module! {
    type: Client,
    name: "relay_dropped_in_a_handler",
    authors: ["Ferrotrace maintainers"],
    description: "Drops channels in a handler of a probe",
    license: "GPL v2",
}

type Channels = (ferro_relay::Channel, ferro_fast_relay::Channel, App);

/// Place where the handler finds the channels.
#[pin_data]
struct Place {
    #[pin]
    channels: SpinLock<Option<Channels>>,
}

struct Handler(Arc<Place>);

#[vtable]
impl ProbeHandler for Handler {
    fn pre(&self, _ctx: &mut ProbeCtx<'_>) -> Next {
        let taken = self.0.channels.try_lock();
        if let Some(channels) = taken.and_then(|mut channels| channels.take()) {
            if refuses_to_sleep(&channels) {
                drop(channels);
                pr_info!("dropped\n");
            }
        }
        Next::Continue
    }
}

/// Returns true if calls that would sleep in a handler return an error instead.
fn refuses_to_sleep((relay, fast, _): &Channels) -> bool {
    let refused = Some(ferro_relay::ChannelError::MustNotSleep);
    let fast_refused = Some(ferro_fast_relay::ChannelError::MustNotSleep);
    let name = c"opened_in_a_handler";
    relay.flush().err() == refused
        && fast.dir().err() == fast_refused
        && ferro_relay::Channel::builder(name).open().err() == refused
        && ferro_fast_relay::Channel::builder(name).open().err() == fast_refused
        && App::new(name, 4096, 4).err() == refused
}

struct Client {
    _probe: Probe<Handler>,
}

impl kernel::Module for Client {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        let channels = (
            ferro_relay::Channel::builder(c"dropped_relay").open()?,
            ferro_fast_relay::Channel::builder(c"dropped_fast").open()?,
            App::new(c"dropped_app", 4096, 4)?,
        );
        let place = Arc::pin_init(
            pin_init!(Place {
                channels <- new_spinlock!(Some(channels)),
            }),
            GFP_KERNEL,
        )?;
        let probe = Probe::builder().symbol(c"kernel_clone");
        Ok(Self {
            _probe: probe.register(Handler(place))?,
        })
    }
}
