// SPDX-License-Identifier: GPL-2.0

//! DProbes: programs that run when an instruction is executed, or memory is accessed.
//!
//! `ferro_core::rpn` has the programs and their interpreter. The files here have the points:
//!
//! - `attachment.rs`: breakpoints, uprobes and watchpoints of points
//! - `point.rs`: handling of a hit; `hit_context.rs`: state that a program reads and changes
//! - `record.rs`: records of runs; `klog_text.rs`: their text for klog; `cpu_records.rs`, `task_records.rs`: records that wait for the
//!   instruction
//! - `reaper.rs`, `rearm.rs`: work that hits ask for
//! - `registry.rs`: loaded programs; `control.rs`: the file that loads them
//!
//! See `Documentation/dprobes.rst`.

mod attachment;
mod control;
mod cpu_records;
mod error;
mod exit_action;
mod hit_context;
mod klog_text;
mod point;
mod raw;
mod reaper;
mod rearm;
mod record;
mod registers;
mod registry;
mod status;
mod strategy;
mod task_records;
mod variables;

use ferro_core::rpn::VARIABLES_MAX;
use ferro_fast_relay::Channel;
use ferro_gkhi::points::ModuleEvent;
use ferro_gkhi::points::TaskExit;
use ferro_gkhi::points::UprobeDone;
use ferro_gkhi::Answer;
use ferro_gkhi::Registered;
use ferro_sys::fs::debugfs::File;
use ferro_sys::sync::deferred_call::Errand;
use ferro_sys::sync::refcounted;
use ferro_sys::sync::shared_word::Word;
use kernel::new_mutex;
use kernel::prelude::*;
use kernel::sync::Arc;

use crate::control::ControlFile;
use crate::control::CONTROL_FILE;
use crate::cpu_records::RECORD_MAX;
use crate::point::Shared;
use crate::raw::exit_facility;
use crate::raw::module_notifier;
use crate::raw::scratch::Scratch;
use crate::raw::watch::Cpus;
use crate::raw::worker::Worker;
use crate::record::FORMAT;
use crate::registry::Registry;
use crate::task_records::TaskRecords;
use crate::variables::Variables;

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

/// Least size of a sub-buffer: the longest record fits.
const SUBBUF_MIN: usize = RECORD_MAX.next_power_of_two();

struct DProbes {
    // Dropped in this order: programs are unloaded when no new ones can be loaded.
    _file: File<refcounted::Shared<ControlFile>>,
    _modules: Registered<ModuleEvent>,
    _instructions: Registered<UprobeDone>,
    _tasks: Registered<TaskExit>,
    registry: Arc<Registry>,
    _worker: Worker<Errand<Shared>>,
    _cpus: Cpus,
}

impl kernel::Module for DProbes {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        let subbuf_size = module_parameters::subbuf_size.value();
        if subbuf_size < SUBBUF_MIN {
            pr_err!("subbuf_size={subbuf_size}: the longest record needs {SUBBUF_MIN}\n");
            return Err(EINVAL);
        }
        let channel = Channel::builder(c"ferrotrace_dprobes")
            .subbuf_size(subbuf_size)
            .n_subbufs(module_parameters::n_subbufs.value())
            .format(FORMAT)
            .open()?;
        let dir = channel.dir()?;
        let shared = Arc::pin_init(
            Errand::new(try_pin_init!(Shared {
                globals: Variables::new(VARIABLES_MAX)?,
                scratch: Scratch::new()?,
                channel,
                in_task <- TaskRecords::new(),
                programs <- new_mutex!(KVVec::new()),
                numbers: Word::new(1),
            })),
            GFP_KERNEL,
        )?;
        let cpus = Cpus::new()?;
        let worker = Worker::new(shared.clone())?;
        let instructions = {
            let shared = shared.clone();
            Registered::<UprobeDone>::builder(c"rust_dprobes")
                .pinned()
                .register(move |_call, (_regs, address, is_executed)| {
                    shared.completed_in_task(address, is_executed);
                    Answer::Continue
                })?
        };
        let tasks = {
            let shared = shared.clone();
            Registered::<TaskExit>::builder(c"rust_dprobes")
                .pinned()
                .register(move |_call, (task,)| {
                    shared.in_task.forget(task.as_ptr().addr());
                    Answer::Continue
                })?
        };
        let registry = Registry::new(shared)?;
        let watched = registry.clone();
        let modules = module_notifier::watch(move |name, event| watched.module(name, event))?;
        let file = refcounted::Shared::new(Ok(ControlFile::new(registry.clone())))?;
        let file = dir.file(c"control", 0o600, &CONTROL_FILE, file)?;
        Ok(Self {
            _file: file,
            _modules: modules,
            _instructions: instructions,
            _tasks: tasks,
            registry,
            _worker: worker,
            _cpus: cpus,
        })
    }
}

impl Drop for DProbes {
    fn drop(&mut self) {
        self.registry.remove_all();
        exit_facility::finish();
    }
}
