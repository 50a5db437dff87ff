// SPDX-License-Identifier: GPL-2.0

//! Probes functions that a tracer executes for each traced call: hits nested until the stack was
//! full, a double fault. Such functions are not traced themselves, and the API refuses functions
//! that ftrace cannot trace. The log reports failures with "BUG: ".
#![forbid(unsafe_code)]

use ferro_kprobe::entry_probe;
use ferro_kprobe::Keep;
use ferro_kprobe::Next;
use ferro_kprobe::Probe;
use ferro_kprobe::ProbeCtx;
use ferro_kprobe::ProbeError;
use ferro_kprobe::ProbeHandler;
use ferro_kprobe::Retprobe;
use ferro_kprobe::RetprobeHandler;
use kernel::prelude::*;

module! {
    type: Client,
    name: "probe_of_a_tracer",
    authors: ["Ferrotrace maintainers"],
    description: "Probes on what tracers execute",
    license: "GPL v2",
}

struct Nothing;

#[vtable]
impl ProbeHandler for Nothing {
    fn pre(&self, _ctx: &mut ProbeCtx<'_>) -> Next {
        Next::Continue
    }
}

#[vtable]
impl RetprobeHandler for Nothing {
    type Data = u64;

    fn entry(&self, _ctx: &mut ProbeCtx<'_>, _data: &mut u64) -> Keep {
        Keep::Yes
    }

    fn returned(&self, _ctx: &mut ProbeCtx<'_>, _data: &mut u64) {}
}

fn check<T>(what: &str, made: Result<T, ProbeError>) {
    if made.err() != Some(ProbeError::Untraceable) {
        pr_err!("BUG: {what} is not refused\n");
    }
}

struct Client;

impl kernel::Module for Client {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        let tracers = [
            c"function_trace_call",
            c"ftrace_graph_func",
            c"function_graph_enter_regs",
        ];
        for name in tracers {
            let probe = Probe::builder().symbol(name);
            check("a probe", probe.register(Nothing));
            let probe = Probe::builder().symbol(name).offset(1);
            check("a probe within", probe.register(Nothing));
            let probe = Retprobe::builder().symbol(name);
            check("a probe of the return", probe.register(Nothing));
        }
        let probe = entry_probe!("ftrace_graph_func", |_ctx| ());
        check("a probe of the entry", probe.register());
        Ok(Self)
    }
}
