// SPDX-License-Identifier: GPL-2.0

//! Adds a hook to the kernel: `task_switch`, which fires when a CPU switches from one task to
//! another.
//!
//! Modules in C can attach exits to it, as `samples/gkhi_idle_count.c` does. Unloading this module
//! removes the hook, and detaches the exits on it.
#![deny(unsafe_code)]

use ferro_gkhi::define_hook;
use ferro_gkhi::hook;
use ferro_gkhi::RegisteredHook;
use ferro_sys::trace::tracepoint::SchedSwitch;
use ferro_sys::trace::tracepoint::SchedSwitchProbe;
use ferro_sys::trace::tracepoint::Switch;
use kernel::prelude::*;
use kernel::sync::Arc;

module! {
    type: SwitchHook,
    name: "gkhi_switch",
    authors: ["Ferrotrace maintainers"],
    description: "A hook that fires when a CPU switches tasks",
    license: "GPL v2",
}

define_hook! {
    /// Fires when a CPU switches from the task with the PID `prev` to the task with the PID `next`;
    /// 0 is the idle task. Interrupts are off and the run queue is locked: exits must not wake a
    /// task.
    static TASK_SWITCH: TaskSwitch<'a> =
        c"task_switch" in Atomic(prev: i32, next: i32, preempted: bool);
}

/// Probe handler that fires the hook.
struct HookSite;

impl SchedSwitch for HookSite {
    fn switch(&self, event: &Switch) {
        hook!(TASK_SWITCH, event.prev.pid, event.next.pid, event.preempt);
    }
}

struct SwitchHook {
    // Dropped in this order.
    _probe: SchedSwitchProbe<HookSite>,
    _hook: RegisteredHook,
}

impl kernel::Module for SwitchHook {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        let hook = RegisteredHook::register(&TASK_SWITCH)?;
        Ok(Self {
            _probe: SchedSwitchProbe::register(Arc::new(HookSite, GFP_KERNEL)?)?,
            _hook: hook,
        })
    }
}
