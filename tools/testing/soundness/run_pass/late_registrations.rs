// SPDX-License-Identifier: GPL-2.0

//! Registers all kinds of objects while its module is being unloaded, and leaks them; in each case
//! from another place. The data of an exit was dropped after the module's exits and hooks had been
//! collected. An exit that it registered was called, and a hook that it identified was read, after
//! the module was freed. Each registry now refuses objects of such a module. The log reports
//! failures with "BUG: ".
//!
//! Contexts: the cases' own. No locks but theirs.
#![forbid(unsafe_code)]

use core::mem::forget;

use ferro_fast_relay as fast;
use ferro_ftrace::FunctionCall;
use ferro_ftrace::Tracer;
use ferro_ftrace::TracerSet;
use ferro_gkhi::define_hook;
use ferro_gkhi::points::CpuPrepare;
use ferro_gkhi::points::TaskFork;
use ferro_gkhi::Answer;
use ferro_gkhi::Registered;
use ferro_gkhi::RegisteredHook;
use ferro_klog::Handler;
use ferro_klog::Registration;
use ferro_kprobe::entry_probe;
use ferro_kprobe::Next;
use ferro_kprobe::Probe;
use ferro_kprobe::ProbeCtx;
use ferro_kprobe::ProbeHandler;
use ferro_kprobe::Retprobe;
use ferro_kprobe::RetprobeHandler;
use ferro_relay as relay;
use ferro_sys::cpu::IrqsOff;
use ferro_sys::fs::debugfs::Dir;
use ferro_sys::fs::debugfs::DirRef;
use ferro_sys::fs::fops::FileTable;
use ferro_sys::fs::fops::NodeOps;
use ferro_sys::fs::uaccess::UserDst;
use ferro_sys::sync::deferred_drop::Deferred;
use ferro_sys::sync::refcounted::Shared;
use ferro_sys::trace::tracepoint::SchedSwitch;
use ferro_sys::trace::tracepoint::SchedSwitchProbe;
use ferro_sys::trace::tracepoint::Switch;
use kernel::module::this_module;
use kernel::new_spinlock;
use kernel::prelude::*;
use kernel::sync::atomic::Atomic;
use kernel::sync::atomic::Full;
use kernel::sync::atomic::Relaxed;
use kernel::sync::Arc;
use kernel::sync::SpinLock;
use kernel::time::delay::fsleep;
use kernel::time::Delta;

module! {
    type: LateRegistrations,
    name: "late_registrations",
    authors: ["Ferrotrace maintainers"],
    description: "Registers things while it is being unloaded",
    license: "GPL v2",
    params: {
        case: usize {
            default: 0,
            description: "Where from: see late_registrations.sh",
        },
    },
}

define_hook! {
    /// A hook of this module.
    static LATE: LateHook<'a> = c"sound_late" in Task(value: usize);
}

static HITS: Atomic<u64> = Atomic::new(0);

fn hit() {
    HITS.fetch_add(1, Relaxed);
}

struct Count;

#[vtable]
impl ProbeHandler for Count {
    fn pre(&self, _ctx: &mut ProbeCtx<'_>) -> Next {
        hit();
        Next::Continue
    }
}

#[vtable]
impl RetprobeHandler for Count {
    type Data = u64;

    fn returned(&self, _ctx: &mut ProbeCtx<'_>, _data: &mut u64) {
        hit();
    }
}

impl SchedSwitch for Count {
    fn switch(&self, _event: &Switch) {
        hit();
    }
}

impl Handler for Count {
    fn klog(_irqs: &IrqsOff, _message: &[u8]) {
        hit();
    }
}

struct Node;

impl NodeOps for Node {
    fn read(&self, to: &mut UserDst) -> Result {
        to.copy_at_position(b"node\n")
    }
}

static TABLE: FileTable<Shared<Node>> = FileTable::new(this_module::<LateRegistrations>());

fn prepare(_cpu: ferro_sys::cpu::CpuId) -> Result {
    Ok(())
}

/// Leaks a registration, which must have been refused.
fn attempt<T, E: core::fmt::Debug>(what: &str, result: Result<T, E>) {
    match result {
        Ok(registered) => {
            forget(registered);
            pr_err!("BUG: {what}: registered while the module is being unloaded\n");
        }
        Err(error) => pr_info!("{what}: {error:?}\n"),
    }
}

/// Registers things when dropped.
struct Late;

impl Drop for Late {
    fn drop(&mut self) {
        let symbol = c"kernel_clone";
        attempt("probe", Probe::builder().symbol(symbol).register(Count));
        attempt(
            "entry probe",
            entry_probe!("do_sys_openat2", |_ctx, _dfd: i32| hit()).register(),
        );
        attempt(
            "return probe",
            Retprobe::builder().symbol(symbol).register(Count),
        );
        let exit = Registered::<TaskFork>::builder(c"sound_late");
        attempt(
            "exit",
            exit.register(|_, _| {
                hit();
                Answer::Continue
            }),
        );
        attempt(
            "CPU exit",
            Registered::<CpuPrepare>::before_cpus(c"sound_late", prepare),
        );
        attempt("hook", RegisteredHook::register(&LATE));
        let names = Tracer::builder().names(&[c"vfs_write"]);
        attempt("tracer", names.register(|_: &FunctionCall<'_>| hit()));
        attempt("boxed tracer", names.register_boxed(|_| hit()));
        attempt(
            "set",
            TracerSet::boxed(|_: &FunctionCall<'_>, _: &u8| hit()),
        );
        attempt(
            "fast channel",
            fast::Channel::builder(c"sound_late_fast").open(),
        );
        attempt(
            "relay channel",
            relay::Channel::builder(c"sound_late_relay").open(),
        );
        attempt(
            "relay application",
            relay::App::new(c"sound_late_app", 4096, 4),
        );
        attempt("klog handler", Registration::<Count>::register());
        if let Ok(count) = Arc::new(Count, GFP_KERNEL) {
            attempt("switch probe", SchedSwitchProbe::register(count));
        }
        attempt("directory", Dir::new(c"sound_late_dir"));
        attempt("link", DirRef::ROOT.link(c"sound_late_link", c"gkhi"));
        if let Ok(node) = Shared::new(Ok::<_, Error>(Node)) {
            attempt(
                "file",
                DirRef::ROOT.file(c"sound_late_file", 0o600, &TABLE, node),
            );
        }
        pr_info!("over\n");
    }
}

/// An exit that owns a [`Late`] and sleeps in its first call.
fn exit(sleeps: bool) -> Result {
    let late = Late;
    let exit = Registered::<TaskFork>::builder(c"sound_early").register(move |_, _| {
        let _late = &late;
        if HITS.fetch_add(1, Full) == 0 && sleeps {
            fsleep(Delta::from_millis(1500));
        }
        Answer::Continue
    })?;
    forget(exit);
    Ok(())
}

/// Drops one of these at each switch, where a work item has to do it, until the handler itself is
/// taken away.
struct Dropper(Arc<SpinLock<KVec<Deferred<Late>>>>);

impl SchedSwitch for Dropper {
    fn switch(&self, _event: &Switch) {
        if let Some(mut late) = self.0.try_lock() {
            drop(late.pop());
        }
    }
}

struct LateRegistrations {
    _late: Option<Late>,
    dropped: Option<Arc<SpinLock<KVec<Deferred<Late>>>>>,
}

impl kernel::Module for LateRegistrations {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        let mut this = Self {
            _late: None,
            dropped: None,
        };
        match module_parameters::case.value() {
            1 => exit(false)?,
            2 => exit(true)?,
            3 => this._late = Some(Late),
            4 => {
                let late = Arc::pin_init(
                    new_spinlock!(KVec::with_capacity(4, GFP_KERNEL)?),
                    GFP_KERNEL,
                )?;
                let dropper = Arc::new(Dropper(late.clone()), GFP_KERNEL)?;
                forget(SchedSwitchProbe::register(dropper)?);
                this.dropped = Some(late);
            }
            _ => return Err(EINVAL),
        }
        Ok(this)
    }
}

impl Drop for LateRegistrations {
    fn drop(&mut self) {
        for _ in 0..4 {
            let late = Deferred::new(Ok::<_, Error>(Late));
            if let (Some(dropped), Ok(late)) = (&self.dropped, late) {
                let refused = dropped.lock().push_within_capacity(late);
                drop(refused);
            }
        }
    }
}
