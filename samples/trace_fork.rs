// SPDX-License-Identifier: GPL-2.0

//! Sample: the first example of the ftrace document, in Rust.
//!
//! Counts the calls of functions that match a pattern, and writes the flags of the first forks to
//! the log. The compiler checks the signature of the function that forks against the kernel's.
#![deny(unsafe_code)]

use ferro_ftrace::trace_function;
use ferro_ftrace::FunctionCall;
use ferro_ftrace::TraceHandler;
use ferro_ftrace::Tracer;
use ferro_sys::bindings;
use kernel::prelude::*;
use kernel::sync::atomic::Atomic;
use kernel::sync::atomic::Relaxed;

module! {
    type: TraceFork,
    name: "trace_fork",
    authors: ["Ferrotrace maintainers"],
    description: "Sample: counts calls of functions, and prints the flags of forks",
    license: "GPL v2",
    params: {
        reports: u64 {
            default: 3,
            description: "How many forks to report in the log",
        },
    },
}

/// Counts calls.
struct Calls(Atomic<u64>);

impl TraceHandler for Calls {
    fn call(&self, _call: &FunctionCall<'_>) {
        self.0.fetch_add(1, Relaxed);
    }
}

struct TraceFork {
    calls: Tracer<Calls>,
    _forks: Tracer,
}

impl kernel::Module for TraceFork {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        let left: i64 = module_parameters::reports.value().try_into()?;
        let left = Atomic::new(left);
        let forks = trace_function!(
            bindings::kernel_clone,
            |call, args: *mut bindings::kernel_clone_args| {
                if left.fetch_sub(1, Relaxed) > 0 {
                    // The flags are the first field of the structure.
                    if let Some(flags) = call.read(args.cast::<u64>()) {
                        pr_info!("clone flags {flags:#x}\n");
                    }
                }
            }
        );
        let calls = Tracer::builder()
            .globs(&[c"vfs_*"])
            .names(&[c"kernel_clone"])
            .register(Calls(Atomic::new(0)))?;
        pr_info!("{} functions\n", calls.functions());
        Ok(Self {
            calls,
            _forks: forks.register()?,
        })
    }
}

impl Drop for TraceFork {
    fn drop(&mut self) {
        pr_info!("{} calls\n", self.calls.handler().0.load(Relaxed));
    }
}
