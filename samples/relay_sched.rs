// SPDX-License-Identifier: GPL-2.0

//! Sample: records every scheduler switch into a relay channel, or with `fast=1` into a fast one.
//!
//! Drain it with `ferrotrace relay record /sys/kernel/debug/relay_sched/cpu -o OUT` and print it
//! with `ferrotrace relay merge OUT`. Writing 0 to `enabled` stops recording.
//!
//! With `reserved=1 overwrite=1` the module is a flight recorder: after a crash, `ferrotrace
//! recover relay_sched -o OUT` recovers the last switches before the crash. This needs
//! `reserve_mem=8M:4096:relay_sched` on the kernel's command line.
#![deny(unsafe_code)]

use ferro_fast_relay as fast_relay;
use ferro_relay as relay;
use ferro_sys::cpu;
use ferro_sys::cpu::time::mono_fast_ns;
use ferro_sys::fs::debugfs::File;
use ferro_sys::fs::fops::FileTable;
use ferro_sys::fs::fops::NodeOps;
use ferro_sys::fs::uaccess::UserDst;
use ferro_sys::fs::uaccess::UserSrc;
use ferro_sys::sync::refcounted::Shared;
use ferro_sys::trace::tracepoint::SchedSwitch;
use ferro_sys::trace::tracepoint::SchedSwitchProbe;
use ferro_sys::trace::tracepoint::Switch;
use kernel::module::this_module;
use kernel::prelude::*;
use kernel::sync::aref::ARef;
use kernel::sync::atomic::Atomic;
use kernel::sync::atomic::Relaxed;
use kernel::sync::Arc;
use zerocopy_derive::Immutable;
use zerocopy_derive::IntoBytes;

module! {
    type: RelaySched,
    name: "relay_sched",
    authors: ["Ferrotrace maintainers"],
    description: "Sample: scheduler switches through relay",
    license: "GPL v2",
    params: {
        subbuf_size: usize {
            default: 65536,
            description: "Bytes in a sub-buffer",
        },
        n_subbufs: usize {
            default: 8,
            description: "Sub-buffers of each CPU",
        },
        overwrite: bool {
            default: false,
            description: "Lose the oldest records rather than the newest",
        },
        fast: bool {
            default: false,
            description: "Use a fast channel",
        },
        reserved: bool {
            default: false,
            description: "Use a fast channel in the memory reserve_mem=SIZE:4096:relay_sched",
        },
    },
}

/// Record with the layout of [`FORMAT`].
#[derive(IntoBytes, Immutable)]
#[repr(C)]
struct Record {
    time: u64,
    cpu: u32,
    preempt: u32,
    prev_pid: i32,
    next_pid: i32,
    prev_comm: [u8; 16],
    next_comm: [u8; 16],
}

const FORMAT: &str = "name: sched_switch
ID: 0
format:
\tfield:u64 time;\toffset:0;\tsize:8;\tsigned:0;
\tfield:u32 cpu;\toffset:8;\tsize:4;\tsigned:0;
\tfield:u32 preempt;\toffset:12;\tsize:4;\tsigned:0;
\tfield:s32 prev_pid;\toffset:16;\tsize:4;\tsigned:1;
\tfield:s32 next_pid;\toffset:20;\tsize:4;\tsigned:1;
\tfield:char prev_comm[16];\toffset:24;\tsize:16;\tsigned:0;
\tfield:char next_comm[16];\toffset:40;\tsize:16;\tsigned:0;
";

/// Relay channel or fast relay channel, as the parameters choose.
enum Channel {
    Relay(relay::Channel),
    Fast(fast_relay::Channel),
}

impl Channel {
    /// Opens the kind of channel that the parameters choose.
    fn open() -> Result<Self> {
        let subbuf_size = module_parameters::subbuf_size.value();
        let n_subbufs = module_parameters::n_subbufs.value();
        let overwrite = module_parameters::overwrite.value();
        let reserved = module_parameters::reserved.value();
        if module_parameters::fast.value() || reserved {
            let mode = match overwrite {
                true => fast_relay::Mode::Overwrite,
                false => fast_relay::Mode::NoOverwrite,
            };
            let builder = fast_relay::Channel::builder(c"relay_sched")
                .subbuf_size(subbuf_size)
                .n_subbufs(n_subbufs)
                .mode(mode)
                .format(FORMAT);
            let builder = match reserved {
                // The channel gets as many sub-buffers as fit the reserved memory.
                true => builder.reserved(c"relay_sched"),
                false => builder,
            };
            return Ok(Self::Fast(builder.open()?));
        }
        let mode = match overwrite {
            true => relay::Mode::Overwrite,
            false => relay::Mode::NoOverwrite,
        };
        let builder = relay::Channel::builder(c"relay_sched")
            .subbuf_size(subbuf_size)
            .n_subbufs(n_subbufs)
            .mode(mode)
            .format(FORMAT);
        Ok(Self::Relay(builder.open()?))
    }

    /// Creates the file `enabled`.
    fn enabled_file(&self, enabled: ARef<Shared<Enabled>>) -> Result<File<Shared<Enabled>>> {
        let dir = match self {
            Self::Relay(channel) => channel.dir().to_ref(),
            Self::Fast(channel) => channel.dir()?,
        };
        dir.file(c"enabled", 0o600, &ENABLED_FILE, enabled)
    }

    /// Writes a record. The channel counts records that it drops.
    fn write(&self, record: &Record) {
        match self {
            Self::Relay(channel) => {
                let _ = channel.write_record(record);
            }
            Self::Fast(channel) => {
                let _ = channel.write_timed(0, record);
            }
        }
    }
}

/// Probe handler that writes the records.
struct Recorder {
    enabled: ARef<Shared<Enabled>>,
    channel: Channel,
}

impl SchedSwitch for Recorder {
    fn switch(&self, event: &Switch) {
        if !self.enabled.0.load(Relaxed) {
            return;
        }
        self.channel.write(&Record {
            time: mono_fast_ns(),
            cpu: cpu::current_id(),
            preempt: event.preempt.into(),
            prev_pid: event.prev.pid,
            next_pid: event.next.pid,
            prev_comm: event.prev.comm,
            next_comm: event.next.comm,
        });
    }
}

/// Content of the file `enabled`: true while switches are recorded.
struct Enabled(Atomic<bool>);

static ENABLED_FILE: FileTable<Shared<Enabled>> = FileTable::new(this_module::<RelaySched>());

impl NodeOps for Enabled {
    fn read(&self, to: &mut UserDst) -> Result {
        let text = if self.0.load(Relaxed) { b"1\n" } else { b"0\n" };
        to.copy_at_position(text)
    }

    fn write(&self, from: &UserSrc) -> Result {
        self.0.store(from.flag()?, Relaxed);
        Ok(())
    }
}

struct RelaySched {
    // Dropped in this order.
    _probe: SchedSwitchProbe<Recorder>,
    _file: File<Shared<Enabled>>,
    _recorder: Arc<Recorder>,
}

impl kernel::Module for RelaySched {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        let channel = Channel::open()?;
        let enabled = Shared::new(Ok(Enabled(Atomic::new(true))))?;
        let file = channel.enabled_file(enabled.clone())?;
        let recorder = Arc::new(Recorder { enabled, channel }, GFP_KERNEL)?;
        Ok(Self {
            _probe: SchedSwitchProbe::register(recorder.clone())?,
            _file: file,
            _recorder: recorder,
        })
    }
}
