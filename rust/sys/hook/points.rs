// SPDX-License-Identifier: GPL-2.0

//! The kernel's own hook points, for exits in Rust; `<linux/gkhi_points.h>` describes them.
//!
//! The engine interprets parameters that are raw pointers. Where `engine` stands, attaching takes
//! `unsafe`. A trap that an exit claims to have handled, but has not, recurs at once. A trap in the
//! exit itself calls the exit again, until the stack overflows. An `ftrace_ops` calls the code that
//! the exit has stored in it.

use crate::bindings;
use crate::declare_hook;
use kernel::task::Task;

#[cfg(all(CONFIG_X86_64, not(CONFIG_UML)))]
mod x86 {
    use super::*;

    declare_hook! {
        /// A breakpoint instruction. [`Terminate`](crate::hook::typed::Answer): handled.
        pub engine Int3<'a> = c"int3" in Atomic(regs: *mut bindings::pt_regs);
        // SAFETY: `points.c` passes these parameters.
        unsafe { c"regs" }
    }

    declare_hook! {
        /// A debug trap, with the bits of DR6. [`Terminate`](crate::hook::typed::Answer): handled.
        pub engine Debug<'a> = c"debug" in Atomic(regs: *mut bindings::pt_regs, dr6: *mut usize);
        // SAFETY: `points.c` passes these parameters.
        unsafe { c"regs, dr6" }
    }

    declare_hook! {
        /// A fault of the kernel. [`Terminate`](crate::hook::typed::Answer): handled.
        pub engine KernelFault<'a> = c"kernel_fault" in Task(
            regs: *mut bindings::pt_regs,
            trapnr: usize,
            address: usize,
        );
        // SAFETY: `points.c` passes these parameters.
        unsafe { c"regs, trapnr, address" }
    }

    #[cfg(CONFIG_DYNAMIC_FTRACE)]
    declare_hook! {
        /// An ops needs its trampoline made or changed. [`Terminate`](crate::hook::typed::Answer):
        /// done.
        pub engine TrampolineUpdate<'a> =
            c"trampoline_update" in Sleep(ops: *mut bindings::ftrace_ops);
        // SAFETY: `points.c` passes these parameters.
        unsafe { c"ops" }
    }

    #[cfg(CONFIG_DYNAMIC_FTRACE)]
    declare_hook! {
        /// An ops no longer needs its trampoline. [`Terminate`](crate::hook::typed::Answer): freed.
        pub engine TrampolineFree<'a> = c"trampoline_free" in Sleep(ops: *mut bindings::ftrace_ops);
        // SAFETY: `points.c` passes these parameters.
        unsafe { c"ops" }
    }

    #[cfg(CONFIG_DYNAMIC_FTRACE)]
    declare_hook! {
        /// The ops of a function have changed. [`Terminate`](crate::hook::typed::Answer): the exit
        /// has set their set.
        pub engine TrampolineSet<'a> =
            c"trampoline_set" in Sleep(change: *mut bindings::ftrace_set_change);
        // SAFETY: `ferrotrace_ftrace.h` passes these parameters.
        unsafe { c"change" }
    }

    #[cfg(CONFIG_DYNAMIC_FTRACE)]
    declare_hook! {
        /// Functions change from one set of ops to another: a step of `enum ftrace_sets_step`.
        pub engine TrampolineSets<'a> = c"trampoline_sets" in Sleep(step: u32);
        // SAFETY: `ferrotrace_ftrace.h` passes these parameters.
        unsafe { c"step" }
    }

    #[cfg(CONFIG_DYNAMIC_FTRACE)]
    declare_hook! {
        /// Functions are attached to a `struct ftrace_data_ops`, or have been detached.
        pub engine TrampolineData<'a> =
            c"trampoline_data" in Sleep(change: *mut bindings::ftrace_data_change);
        // SAFETY: `data.c` passes these parameters.
        unsafe { c"change" }
    }
}

#[cfg(all(CONFIG_X86_64, not(CONFIG_UML)))]
pub use x86::*;

declare_hook! {
    /// A new task, complete and not running yet.
    pub TaskFork<'a> = c"task_fork" in Task(task: &'a Task, clone_flags: u64);
    // SAFETY: `points.c` passes these parameters.
    unsafe { c"task, clone_flags" }
}

declare_hook! {
    /// A task that has exited is about to be freed.
    pub TaskExit<'a> = c"task_exit" in Atomic(task: &'a Task);
    // SAFETY: `points.c` passes these parameters.
    unsafe { c"task" }
}

#[cfg(CONFIG_UPROBES)]
declare_hook! {
    /// The instruction at an address has been executed, or not, after consumers of a uprobe were
    /// called for it.
    pub UprobeDone<'a> =
        c"uprobe_done" in Task(regs: *mut bindings::pt_regs, address: usize, executed: bool);
    // SAFETY: `points.c` passes these parameters.
    unsafe { c"regs, address, executed" }
}

declare_hook! {
    /// A module has changed to this state of `enum module_state`.
    pub ModuleEvent<'a> = c"module_event" in Sleep(module: *mut bindings::module, state: u32);
    // SAFETY: `points.c` passes these parameters.
    unsafe { c"module, state" }
}

declare_hook! {
    /// A CPU is about to be brought up; a negative errno keeps it offline.
    pub CpuPrepare<'a> = c"cpu_prepare" in Sleep(cpu: u32) -> i32;
    // SAFETY: `points.c` passes these parameters.
    unsafe { c"cpu" }
}

#[cfg(any(CONFIG_GCOV_BUILTIN, all(CONFIG_GCOV_KERNEL, CONFIG_CC_IS_GCC)))]
declare_hook! {
    /// Constructor of an object with coverage. [`Terminate`](crate::hook::typed::Answer): the exit
    /// keeps the object.
    pub GcovObject<'a> = c"gcov_object" in Sleep(info: *mut core::ffi::c_void);
    // SAFETY: `points.c` passes these parameters.
    unsafe { c"info" }
}

#[cfg(any(CONFIG_GCOV_BUILTIN, all(CONFIG_GCOV_KERNEL, CONFIG_CC_IS_CLANG)))]
declare_hook! {
    /// Constructor of an object with coverage. [`Terminate`](crate::hook::typed::Answer): the exit
    /// keeps the object.
    pub LlvmGcovObject<'a> = c"llvm_gcov_object" in Sleep(
        writeout: *mut core::ffi::c_void,
        flush: *mut core::ffi::c_void,
    );
    // SAFETY: `points.c` passes these parameters.
    unsafe { c"writeout, flush" }
}
