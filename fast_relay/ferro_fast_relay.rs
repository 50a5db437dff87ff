// SPDX-License-Identifier: GPL-2.0

//! Fast relay channels: records written in place, from any context, without turning interrupts off.
//!
//! A [`Channel`] is opened with a [`Builder`], written from any context, NMI included, and closed
//! when dropped. C clients have `<linux/ferrotrace_relay.h>`. Readers have `read()`, `poll()` and a
//! control page that is mapped with the data, see `<uapi/linux/ferrotrace_relay.h>`.
//!
//! `ferro_fast_relay_core::ring` has the algorithm, `raw/ring.rs` its memory. `registry.rs` has the
//! open channels, `channel_state.rs`, `buffer.rs` and `debugfs.rs` their parts, and `persistent.rs`
//! the channels in memory that survives a reboot. `channel.rs` and `record.rs` are the interface
//! for clients, `exports.rs` has the C functions.
//!
//! # Examples
//!
//! ```
//! # use ferro_fast_relay::{Channel, Dropped};
//! # fn f() -> Result<(), kernel::error::Error> {
//! let channel = Channel::builder(c"example").subbuf_size(65536).open()?;
//! channel.write(1, b"a record of type 1")?;
//! channel.write_timed(2, b"one with the time")?;
//! # Ok(())
//! # }
//! ```

use ferro_gkhi::points::CpuPrepare;
use ferro_gkhi::points::ModuleEvent;
use ferro_gkhi::Registered;
use kernel::prelude::*;

mod buffer;
mod channel;
mod channel_state;
// Both APIs include the same file, as neither crate depends on the other.
mod debugfs;
#[path = "../relay/api/error.rs"]
mod error;
mod exports;
mod persistent;
mod raw;
mod record;
mod registry;
#[cfg(CONFIG_RELAY_FAST_KUNIT_TEST)]
mod tests;

pub use channel::Builder;
pub use channel::Channel;
pub use channel::Mode;
pub use error::ChannelError;
pub use record::Dropped;
pub use record::Outcome;
pub use record::Placed;
pub use record::Record;

module! {
    type: FastRelay,
    name: "ferrotrace_fast_relay",
    authors: ["Ferrotrace maintainers"],
    description: "Fast relay channels: written from any context, read without system calls",
    license: "GPL v2",
}

struct FastRelay {
    _prepare: Registered<CpuPrepare>,
    _modules: Registered<ModuleEvent>,
    _persistent: persistent::Attached,
}

impl kernel::Module for FastRelay {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        // Before the files, so that each CPU that is brought up between the two has a buffer.
        let prepare = Registered::before_cpus(c"fast_relay", registry::prepare_cpu)?;
        registry::make_late_files();
        Ok(Self {
            _prepare: prepare,
            _modules: raw::module_notifier::register(c"fast_relay", registry::close_for_module)?,
            _persistent: persistent::Attached::new()?,
        })
    }
}
