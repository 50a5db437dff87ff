// SPDX-License-Identifier: GPL-2.0

//! Uses the API of `ferro_relay` and `ferro_fast_relay` from outside of the tree, as `api_hooks.rs`
//! does with hooks.
#![forbid(unsafe_code)]

use ferro_fast_relay as fast;
use ferro_relay::App;
use ferro_relay::AppChannel;
use ferro_relay::Builder;
use ferro_relay::Channel;
use ferro_relay::ChannelError;
use ferro_relay::Dropped;
use ferro_relay::Mode;
use ferro_relay::Stats;
use ferro_sys::cpu;
use ferro_sys::fs::debugfs::Dir;
use kernel::prelude::*;
use kernel::sync::Arc;
use zerocopy_derive::Immutable;
use zerocopy_derive::IntoBytes;

module! {
    type: Client,
    name: "api_channels",
    authors: ["Ferrotrace maintainers"],
    description: "Uses channels",
    license: "GPL v2",
}

#[derive(IntoBytes, Immutable)]
#[repr(C)]
struct Event {
    time: u64,
    cpu: u32,
    kind: u32,
}

const EVENT: Event = Event {
    time: 1,
    cpu: 2,
    kind: 3,
};

fn small(builder: Builder<'_>) -> Builder<'_> {
    builder.subbuf_size(4096).n_subbufs(2)
}

fn relay() -> Result {
    let channel = small(Channel::builder(c"api_relay")).base_name(c"buf");
    let channel = channel
        .mode(Mode::Overwrite)
        .permissions(0o444)
        .format("event\n");
    let mut channel = channel.padding_header().open()?;
    let lost = |_: Dropped| ENOSPC;
    channel.write(b"bytes").map_err(lost)?;
    channel.write_record(&EVENT).map_err(lost)?;
    let fill = |record: &mut ferro_relay::Record<'_>| {
        record.put(b"1234");
        assert!(record.left() == 4);
    };
    channel.reserve(8, fill).map_err(lost)?;
    channel.flush()?;
    let Stats { dropped, .. } = channel.stats();
    let here = cpu::possible().next().ok_or(EINVAL)?;
    if dropped != 0 || channel.subbufs(here).is_none() {
        return Err(EINVAL);
    }
    channel.reset()?;
    channel.dir().subdir(c"inner")?;
    let global = small(Channel::builder(c"api_relay_global")).global();
    global.open()?.write(b"bytes").map_err(lost)?;
    let dir = Arc::new(Dir::new(c"api_relay_dir")?, GFP_KERNEL)?;
    small(Channel::builder(c"")).open_in(dir)?;
    let app = App::new(c"api_relay_app", 4096, 4)?;
    app.dir().subdir(c"inner")?;
    let end: &AppChannel = &app.channel();
    end.set_mode(Mode::NoOverwrite);
    let written = cpu::with_irqs_off(|irqs| end.write(irqs, b"bytes"));
    match written || end.is_enabled() || end.mode() != Mode::NoOverwrite {
        true => Err(EINVAL),
        false => Ok(()),
    }
}

fn fast_builder(dir: &CStr) -> fast::Builder<'_> {
    let builder = fast::Channel::builder(dir)
        .base_name(c"buf")
        .permissions(0o600);
    builder
        .subbuf_size(4096)
        .n_subbufs(4)
        .mode(fast::Mode::Overwrite)
}

fn fast() -> Result {
    let channel = fast_builder(c"api_fast").format("event\n").open()?;
    let lost = |_: fast::Dropped| ENOSPC;
    channel.write(1, &EVENT).map_err(lost)?;
    channel.write_timed(1, b"bytes").map_err(lost)?;
    let fill = |record: &mut fast::Record<'_>| {
        record.put(b"1234");
        assert!(record.left() == 4);
        fast::Outcome::Commit
    };
    channel.reserve(1, 8, fill).map_err(lost)?;
    channel.reserve_timed(1, 8, fill).map_err(lost)?;
    let place = |placed: &mut fast::Placed<'_>| {
        assert!(placed.put(4, [0; 4]) && placed.put(0, [1; 4]));
        fast::Outcome::Commit
    };
    channel.place_timed(1, 8, place).map_err(lost)?;
    channel.dir()?.link(c"link", c"buf0")?;
    let nowhere = fast_builder(c"api_fast_nowhere")
        .reserved(c"api_nowhere")
        .open();
    match channel.lost() == 0 && matches!(nowhere.err(), Some(fast::ChannelError::Other(_))) {
        true => Ok(()),
        false => Err(EINVAL),
    }
}

struct Client;

impl kernel::Module for Client {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        relay()?;
        fast()?;
        match Channel::builder(c"api_relay").subbuf_size(0).open().err() {
            Some(ChannelError::Invalid) => Ok(Self),
            _ => Err(EINVAL),
        }
    }
}
