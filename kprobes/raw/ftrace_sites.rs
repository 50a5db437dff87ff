// SPDX-License-Identifier: GPL-2.0

//! Sets of ftrace sites at which the engine is called.
//!
//! Contexts: as [`FtraceOps`].

use core::marker::PhantomData;

use ferro_sys::code::ftrace_ops::FtraceHandler;
use ferro_sys::code::ftrace_ops::FtraceOps;
use ferro_sys::code::regs::Regs;

use super::traps::TrapHandler;

/// Calls a [`TrapHandler`] of probes without a post handler.
pub(crate) struct Caller<H>(PhantomData<fn(H)>);

/// Calls a [`TrapHandler`] of probes with one.
pub(crate) struct PostCaller<H>(PhantomData<fn(H)>);

impl<H: TrapHandler> FtraceHandler for Caller<H> {
    #[inline(always)]
    fn call(ip: usize, _parent_ip: usize, regs: &mut Regs) {
        H::called(ip, regs);
    }
}

impl<H: TrapHandler> FtraceHandler for PostCaller<H> {
    #[inline(always)]
    fn call(ip: usize, _parent_ip: usize, regs: &mut Regs) {
        H::called_with_post(ip, regs);
    }
}

/// A set for probes without a post handler, beside which others may divert.
pub(crate) const fn observing<H: TrapHandler>() -> FtraceOps<Caller<H>> {
    // SAFETY: `TrapHandler` guarantees what is wanted of the handler; the engine closes its sets when it goes.
    unsafe { FtraceOps::observing() }
}

/// A set for probes that are alone in changing where execution goes on.
pub(crate) const fn ip_modifying<H: TrapHandler>() -> FtraceOps<PostCaller<H>> {
    // SAFETY: `TrapHandler` guarantees what is wanted of the handler; the engine closes its sets when it goes.
    unsafe { FtraceOps::modifying() }
}
