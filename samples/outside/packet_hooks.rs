// SPDX-License-Identifier: GPL-2.0

//! Driver with a hook. Writing a length to debugfs `packets` stands for a received packet. The
//! crate offers the hook's type to other modules; `packet_count.rs` attaches to it.
#![forbid(unsafe_code)]

use ferro_gkhi::define_hook;
use ferro_gkhi::hook;
use ferro_gkhi::Outcome;
use ferro_gkhi::RegisteredHook;
use ferro_sys::fs::debugfs::DirRef;
use ferro_sys::fs::debugfs::File;
use ferro_sys::fs::fops::FileTable;
use ferro_sys::fs::fops::NodeOps;
use ferro_sys::fs::uaccess::UserDst;
use ferro_sys::fs::uaccess::UserSrc;
use ferro_sys::sync::refcounted::Shared;
use kernel::module::this_module;
use kernel::prelude::*;
use kernel::str::CString;
use kernel::sync::atomic::Atomic;
use kernel::sync::atomic::Relaxed;

module! {
    type: Packets,
    name: "packets",
    authors: ["Me"],
    description: "A driver with a hook",
    license: "GPL v2",
}

/// Source of packets.
pub struct Device {
    /// Number of the device.
    pub number: u32,
}

define_hook! {
    /// Fires when a packet is received. An exit that ends the dispatch drops the packet; the marks
    /// are for exits.
    pub static PACKET_IN: PacketIn<'a> =
        c"packet_in" in Task(len: usize, marks: &'a mut u32, device: &'a Device);
}

/// File with the counts of packets that were not dropped, and of their marks.
struct Received {
    packets: Atomic<u32>,
    marks: Atomic<u32>,
}

impl NodeOps for Received {
    fn read(&self, to: &mut UserDst) -> Result {
        let counts = [self.packets.load(Relaxed), self.marks.load(Relaxed)];
        let text = CString::try_from_fmt(fmt!("{} {}\n", counts[0], counts[1]))?;
        to.copy_at_position(text.to_bytes())
    }

    fn write(&self, from: &UserSrc) -> Result {
        let mut marks = 0;
        let outcome = hook!(PACKET_IN, from.number()?, &mut marks, &Device { number: 7 });
        if matches!(outcome, Outcome::Continued) {
            self.packets.fetch_add(1, Relaxed);
            self.marks.fetch_add(marks, Relaxed);
        }
        Ok(())
    }
}

static FILES: FileTable<Shared<Received>> = FileTable::new(this_module::<Packets>());

struct Packets {
    // Dropped first, so that the hook no longer fires when it is deleted.
    _file: File<Shared<Received>>,
    _hook: RegisteredHook,
}

impl kernel::Module for Packets {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        let received = Received {
            packets: Atomic::new(0),
            marks: Atomic::new(0),
        };
        let hook = RegisteredHook::register(&PACKET_IN)?;
        let file = DirRef::ROOT.file(c"packets", 0o600, &FILES, Shared::new(Ok(received))?)?;
        Ok(Self {
            _file: file,
            _hook: hook,
        })
    }
}
