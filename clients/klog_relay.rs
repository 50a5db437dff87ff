// SPDX-License-Identifier: GPL-2.0

//! klog handler that writes messages to a relay channel.
//!
//! User space creates and removes the channel through debugfs `klog/`, as `ferrotrace klog` does.
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

/// Bytes in a sub-buffer, until user space writes another number.
const SUBBUF_SIZE: usize = 262_144;
/// Sub-buffers of a CPU, until user space writes another number.
const N_SUBBUFS: usize = 4;

/// Channel that the handler writes to, while the module is loaded.
static CHANNEL: RcuSlot<Shared<AppChannel>> = RcuSlot::new();

/// Registration of the handler, while the module is loaded. Armed only while the application is
/// enabled.
static HANDLER: RcuSlot<Shared<Registration<Writer>>> = RcuSlot::new();

/// Arms the handler when the application is enabled, and disarms it when the application is
/// disabled. Errors: -EBUSY if another handler is registered.
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
        // klog calls a handler once at a time on a CPU, so that no write interrupts another. The
        // channel counts messages that do not fit.
        let _ = CHANNEL.with(irqs, |channel| channel.write(irqs, message));
    }
}

/// File `missed`: the number of messages that klog did not pass to the handler.
struct Missed;

static MISSED_FILE: FileTable<Shared<Missed>> = FileTable::new(this_module::<KlogRelay>());

impl NodeOps for Missed {
    fn read(&self, to: &mut UserDst) -> Result {
        let text = CString::try_from_fmt(fmt!("{}\n", ferro_klog::missed()))?;
        to.copy_at_position(text.to_bytes())
    }
}

struct KlogRelay {
    // Dropped in this order.
    _missed: File<Shared<Missed>>,
    _app: App,
    _slots: Slots,
}

/// Empties both slots when dropped. By then the end of the application has disarmed the handler.
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
