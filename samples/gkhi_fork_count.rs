// SPDX-License-Identifier: GPL-2.0

//! Counts forks: an exit on the kernel's hook point `task_fork`.
//!
//! `/sys/kernel/debug/gkhi/hooks` shows the count as the exit's hits; writing 0 to
//! `gkhi/task_fork/fork_count` disarms it. The counts are printed when the module is unloaded.
#![deny(unsafe_code)]

use ferro_gkhi::points::TaskFork;
use ferro_gkhi::Answer;
use ferro_gkhi::AnyExit;
use ferro_gkhi::Registered;
use kernel::prelude::*;
use kernel::sync::atomic::Atomic;
use kernel::sync::atomic::Relaxed;

module! {
    type: ForkCount,
    name: "gkhi_fork_count",
    authors: ["Ferrotrace maintainers"],
    description: "Counts forks at a kernel hook",
    license: "GPL v2",
}

/// Flag of a new thread: it shares the memory of its creator.
const CLONE_VM: u64 = ferro_sys::bindings::CLONE_VM as u64;

static PROCESSES: Atomic<u64> = Atomic::new(0);
static THREADS: Atomic<u64> = Atomic::new(0);

struct ForkCount {
    exit: Registered<TaskFork>,
}

impl kernel::Module for ForkCount {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        let exit = Registered::<TaskFork>::builder(c"fork_count").register(
            |_call, (_task, clone_flags)| {
                let counter = if clone_flags & CLONE_VM == 0 {
                    &PROCESSES
                } else {
                    &THREADS
                };
                counter.fetch_add(1, Relaxed);
                Answer::Continue
            },
        )?;
        Ok(Self { exit })
    }
}

impl Drop for ForkCount {
    fn drop(&mut self) {
        // Nothing is counted after this, so that the numbers agree.
        if self.exit.disarm().is_err() {
            return;
        }
        pr_info!(
            "{} processes, {} threads, {} calls\n",
            PROCESSES.load(Relaxed),
            THREADS.load(Relaxed),
            self.exit.hits()
        );
    }
}
