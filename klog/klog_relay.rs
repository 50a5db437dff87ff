// SPDX-License-Identifier: GPL-2.0

//! The klog handler: writes what is logged to a relay channel.
//!
//! The channel is made and removed by user space, through debugfs `klog/`; `ferrotrace klog` does.
//! See `Documentation/klog.rst`.
#![deny(unsafe_code)]

use ferro_klog::Handler;
use ferro_klog::Registration;
use ferro_relay::App;
use ferro_relay::AppChannel;
use ferro_sys::cpu::IrqsOff;
use ferro_sys::fs::debugfs::File;
use ferro_sys::fs::fops::FileTable;
use ferro_sys::fs::fops::NodeOps;
use ferro_sys::fs::uaccess::UserDst;
use ferro_sys::sync::rcu_slot::RcuSlot;
use ferro_sys::sync::refcounted::Shared;
use kernel::module::this_module;
use kernel::prelude::*;
use kernel::str::CString;

module! {
    type: KlogRelay,
    name: "klog_relay",
    authors: ["Ferrotrace maintainers"],
    description: "klog handler that writes to a relay channel",
    license: "GPL v2",
}

/// Bytes in a sub-buffer until somebody writes another number.
const SUBBUF_SIZE: usize = 262_144;
/// Sub-buffers of a CPU, likewise.
const N_SUBBUFS: usize = 4;

/// Where the handler writes, while the module is there.
static CHANNEL: RcuSlot<Shared<AppChannel>> = RcuSlot::new();

/// The handler, likewise. It is armed only while the application is enabled.
static HANDLER: RcuSlot<Shared<Registration<Writer>>> = RcuSlot::new();

/// Arms the handler when the application is enabled, and disarms it when that ends. Errors: -EBUSY
/// if another handler is registered.
fn switch(enabled: bool) -> Result {
    let handler = HANDLER.get().ok_or(ENODEV)?;
    match enabled {
        true => handler.arm_if_free()?,
        false => handler.disarm()?,
    }
    Ok(())
}

struct Writer;

impl Handler for Writer {
    #[inline]
    fn klog(irqs: &IrqsOff, message: &[u8]) {
        // klog enters a handler once at a time on a CPU, so no write is interrupted by another. What
        // does not fit the channel counts.
        let _ = CHANNEL.with(irqs, |channel| channel.write(irqs, message));
    }
}

/// The file `missed`: what the handler did not get.
struct Missed;

static MISSED_FILE: FileTable<Shared<Missed>> = FileTable::new(this_module::<KlogRelay>());

impl NodeOps for Missed {
    fn read(&self, to: &mut UserDst) -> Result {
        let text = CString::try_from_fmt(fmt!("{}\n", ferro_klog::missed()))?;
        to.copy_at_position(text.to_bytes())
    }
}

struct KlogRelay {
    // In the order in which they have to go.
    _missed: File<Shared<Missed>>,
    _app: App,
    _slots: Slots,
}

/// Empties the slots. After the application has ended, which disarms the handler.
struct Slots;

impl Drop for Slots {
    fn drop(&mut self) {
        drop(HANDLER.replace(None));
        drop(CHANNEL.replace(None));
    }
}

impl kernel::Module for KlogRelay {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        let slots = Slots;
        let handler = Shared::new(Ok(Registration::disarmed()?))?;
        drop(HANDLER.replace(Some(handler)));
        let app = App::with_listener(c"klog", SUBBUF_SIZE, N_SUBBUFS, switch)?;
        let missed = Shared::new(Ok(Missed))?;
        let missed = app.dir().file(c"missed", 0o400, &MISSED_FILE, missed)?;
        drop(CHANNEL.replace(Some(app.channel())));
        Ok(Self {
            _missed: missed,
            _app: app,
            _slots: slots,
        })
    }
}
