// SPDX-License-Identifier: GPL-2.0

//! The engine's exits on the hook points of traps.
//!
//! Contexts: making them process, sleeps; handlers in the trap, also within NMIs.

use ferro_gkhi::points::Int3;
use ferro_gkhi::points::KernelFault;
use ferro_gkhi::Answer;
use ferro_gkhi::EnginePromise;
use ferro_gkhi::NoReturn;
use ferro_gkhi::Registered;
use ferro_sys::bindings;
use ferro_sys::code::regs::Regs;
use ferro_sys::code::symbols::TextAddress;
use ferro_sys::code::text::PatchSite;
use ferro_sys::hook::typed::Atomic;
use kernel::prelude::*;

use super::lookup::Found;
use super::probe_point::Point;
use super::trap_frame::Trap;

/// Handlers of the engine for executed probed instructions.
///
/// # Safety
///
/// A handler returns true only if the trap is one of the engine's: a breakpoint of a probe or of a
/// copy, a fault of a copy, or a fault that a probe's fault handler has repaired. It then leaves
/// registers with which the interrupted code continues as it would without the engine, except for
/// the changes of the probes' handlers. On a [`Trap`] it executes the instruction that the
/// breakpoint replaces, and no other.
///
/// A handler returns true for every breakpoint that was put at a [`breakpoint_at`] of this handler.
/// At every such site an instruction starts, with that first byte.
///
/// It does not sleep. Code that it executes has no breakpoint, except breakpoints for which it
/// returns true without calling itself again.
pub(crate) unsafe trait TrapHandler: 'static {
    /// Handles a breakpoint. Returns true if the breakpoint is handled.
    fn breakpoint(trap: &mut Trap, here: &Atomic) -> bool;

    /// Handles a fault. Returns true if the fault is handled.
    fn fault(regs: &mut Regs, trapnr: usize) -> bool;

    /// Notes that the kernel dies of a fault or trap, which it has logged.
    fn died(regs: &Regs);

    /// Handles a call of a function with a probe on its ftrace site. `point` may be retired.
    fn called(point: Found<'_, Point>, regs: &mut Regs);

    /// Handles a call of a function if a probe on its ftrace site has a post-handler.
    fn called_with_post(site: usize, regs: &mut Regs);
}

/// Makes the site of an instruction that a breakpoint may replace, as `H` handles it. `original` is
/// its first byte.
pub(crate) fn breakpoint_at<H: TrapHandler>(at: TextAddress, original: u8) -> PatchSite {
    // SAFETY: `TrapHandler` guarantees both: that an instruction starts there, with this byte, and
    // that its breakpoint is handled, as long as `POINTS` has the point, which is until no CPU
    // can be at the breakpoint.
    unsafe { PatchSite::new(at, original) }
}

/// Returns the answer of an exit that may have handled its event.
#[inline(always)]
fn answer(done: bool) -> Answer<NoReturn> {
    match done {
        true => Answer::Terminate,
        false => Answer::Continue,
    }
}

/// Calls the breakpoint handler: the exit on breakpoints.
///
/// # Safety
///
/// `regs` are the registers of a breakpoint, which are the caller's.
#[inline(always)]
unsafe fn breakpoint<H: TrapHandler>(regs: *mut bindings::pt_regs, here: &Atomic) -> bool {
    // SAFETY: The caller guarantees that they are the registers of a breakpoint, and `TrapHandler`
    // that only its instruction is executed on them.
    unsafe { Trap::from_raw(regs) }.is_some_and(|trap| H::breakpoint(trap, here))
}

/// Calls the fault handler: the exit on faults.
///
/// # Safety
///
/// `regs` are the registers of a fault, which are the caller's.
unsafe fn fault<H: TrapHandler>(regs: *mut bindings::pt_regs, trapnr: usize) -> bool {
    // SAFETY: The caller guarantees that they are the registers of a fault.
    unsafe { Regs::from_raw(regs) }.is_some_and(|regs| H::fault(regs, trapnr))
}

/// Registers the exits on breakpoints and on faults, not armed yet. Errors: as for
/// `Registered::engine()`.
pub(crate) fn register<H: TrapHandler>(
    name: &CStr,
) -> Result<(Registered<Int3>, Registered<KernelFault>), ferro_gkhi::Error> {
    // SAFETY: `TrapHandler` guarantees the hook's requirements on an exit: it ends the dispatch for
    // its own breakpoints only, does not sleep, and does not call itself without end. The hook
    // passes the registers of the breakpoint, which nothing else uses until the exit returns.
    let int3 = unsafe {
        Registered::<Int3>::builder(name)
            .disarmed()
            .register_engine(EnginePromise::new(), |call, (regs,)| {
                answer(breakpoint::<H>(regs, call.context()))
            })
    }?;
    // SAFETY: `TrapHandler` guarantees the hook's requirements on an exit: it ends the dispatch
    // only for faults that it has handled, and does not sleep. The hook passes the registers of the
    // fault, which nothing else uses until the exit returns.
    let fault = unsafe {
        Registered::<KernelFault>::builder(name)
            .disarmed()
            .register_engine(EnginePromise::new(), |_call, (regs, trapnr, _)| {
                answer(fault::<H>(regs, trapnr))
            })
    }?;
    Ok((int3, fault))
}
