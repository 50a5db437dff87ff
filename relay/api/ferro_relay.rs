// SPDX-License-Identifier: GPL-2.0

//! Safe relay channels for Rust modules.
//!
//! A [`Channel`] is opened with a [`Builder`], written from any context, and closed when dropped.
//! The crate uses only functions of `<linux/relay.h>`, so it works with the C engine and with the
//! Rust engine. The channel's files follow the protocol of `Documentation/relay.rst`, which
//! `ferrotrace relay record` reads.
//!
//! # Examples
//!
//! ```
//! # use ferro_relay::{Channel, Mode};
//! # fn f(now: u64) -> Result<(), kernel::error::Error> {
//! let channel = Channel::builder(c"my_trace")
//!     .subbuf_size(64 * 1024)
//!     .n_subbufs(8)
//!     .mode(Mode::NoOverwrite)
//!     .open()?;
//! channel.write(b"hello")?;
//! channel.reserve(8, |record| {
//!     record.put(&now.to_ne_bytes());
//! })?;
//! # Ok(())
//! # }
//! ```

use ferro_sys::hook::module_notifier::ModuleNotifier;
use kernel::prelude::*;

use crate::raw::module_notifier::notifier;
use crate::raw::module_notifier::Listeners;

mod app;
mod channel;
mod channel_state;
mod control_files;
mod error;
mod padding_header;
mod raw;
#[cfg(CONFIG_RELAY_RUST_API_KUNIT_TEST)]
mod tests;

pub use app::App;
pub use app::AppChannel;
pub use channel::Builder;
pub use channel::Channel;
pub use channel::Dropped;
pub use channel::Record;
pub use channel::Stats;
pub use channel_state::Mode;
pub use error::ChannelError;
pub use raw::listener::Listener;

module! {
    type: RelayApi,
    name: "ferrotrace_relay",
    authors: ["Ferrotrace maintainers"],
    description: "Safe relay channels for Rust modules",
    license: "GPL v2",
}

struct RelayApi {
    _notifier: ModuleNotifier<Listeners>,
}

impl kernel::Module for RelayApi {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        Ok(Self {
            _notifier: notifier()?,
        })
    }
}

impl Drop for RelayApi {
    fn drop(&mut self) {
        raw::leaked_channels::drop_all();
    }
}
