// SPDX-License-Identifier: GPL-2.0

//! DProbes: programs that run when an instruction is executed, or memory is accessed.
//!
//! `ferro_dprobes_core` has the programs and their interpreter. The files here have the points,
//! from the bottom to the top:
//!
//! - `variables.rs`, `cpu_records.rs`, `task_records.rs`: variables, and records that wait for the
//!   instruction; `runtime.rs`: these and the channel, shared by all points
//! - `watch_request.rs`, `hit_counter.rs`: requests of hits, and their number
//! - `hit_context.rs`: state that a program reads and changes; `registers.rs`
//! - `record.rs`: records of runs; `klog_text.rs`: their text
//! - `strategy.rs`, `point.rs`: handling of a hit
//! - `location.rs`, `attachment.rs`: breakpoints, uprobes and watchpoints of points
//! - `program.rs`, `registry.rs`: loaded programs; `status.rs`: their state as text
//! - `control.rs`: the file that loads them
//!
//! See `Documentation/dprobes.rst`.

mod attachment;
mod control;
mod cpu_records;
mod error;
mod hit_context;
mod hit_counter;
mod klog_text;
mod location;
mod point;
mod program;
mod raw;
mod record;
mod registers;
mod registry;
mod runtime;
mod status;
mod strategy;
mod task_records;
mod variables;
mod watch_request;

use ferro_gkhi::points::ModuleEvent;
use ferro_gkhi::points::TaskExit;
use ferro_gkhi::points::UprobeDone;
use ferro_gkhi::Answer;
use ferro_gkhi::Registered;
use ferro_sys::fs::debugfs::File;
use ferro_sys::fs::fops::FileTable;
use ferro_sys::sync::refcounted::Shared;
use kernel::module::this_module;
use kernel::prelude::*;
use kernel::sync::Arc;

use crate::control::ControlFile;
use crate::raw::call_targets;
use crate::raw::module_notifier;
use crate::raw::watch::HotplugCallbacks;
use crate::raw::worker::Worker;
use crate::registry::Registry;
use crate::runtime::Runtime;

module! {
    type: DProbes,
    name: "rust_dprobes",
    authors: ["Ferrotrace maintainers"],
    description: "Probe programs",
    license: "GPL v2",
    params: {
        subbuf_size: usize {
            default: 131072,
            description: "Bytes in a sub-buffer",
        },
        n_subbufs: usize {
            default: 8,
            description: "Sub-buffers of a CPU",
        },
    },
}

static CONTROL_FILE: FileTable<Shared<ControlFile>> = FileTable::new(this_module::<DProbes>());

struct DProbes {
    // Dropped in this order: programs are unloaded when no new ones can be loaded.
    _file: File<Shared<ControlFile>>,
    _modules: Registered<ModuleEvent>,
    _instructions: Registered<UprobeDone>,
    _tasks: Registered<TaskExit>,
    registry: Arc<Registry>,
    _worker: Worker<Registry>,
    _hotplug: HotplugCallbacks,
}

impl kernel::Module for DProbes {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        let runtime = Runtime::new(
            module_parameters::subbuf_size.value(),
            module_parameters::n_subbufs.value(),
        )?;
        let dir = runtime.channel.dir()?;
        let registry = Registry::new(runtime.clone())?;
        let hotplug = HotplugCallbacks::new()?;
        let worker = Worker::new(registry.clone())?;
        let instructions = {
            let runtime = runtime.clone();
            Registered::<UprobeDone>::builder(c"rust_dprobes")
                .pinned()
                .register(move |_call, (_regs, address, is_executed)| {
                    runtime.complete_in_task(address, is_executed);
                    Answer::Continue
                })?
        };
        let tasks = Registered::<TaskExit>::builder(c"rust_dprobes")
            .pinned()
            .register(move |_call, (task,)| {
                runtime.task_records.drop_all(task.as_ptr().addr());
                Answer::Continue
            })?;
        let notified = registry.clone();
        let modules =
            module_notifier::register(move |name, event| notified.module_changed(name, event))?;
        let file = Shared::new(Ok(ControlFile::new(registry.clone())))?;
        let file = dir.file(c"control", 0o600, &CONTROL_FILE, file)?;
        Ok(Self {
            _file: file,
            _modules: modules,
            _instructions: instructions,
            _tasks: tasks,
            registry,
            _worker: worker,
            _hotplug: hotplug,
        })
    }
}

impl Drop for DProbes {
    fn drop(&mut self) {
        self.registry.remove_all();
        call_targets::flush_core_dumps();
    }
}
