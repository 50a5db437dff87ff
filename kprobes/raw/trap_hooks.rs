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
use ferro_sys::code::regs::Regs;
use ferro_sys::code::text::PatchSite;
use ferro_sys::code::text::TextAddress;
use ferro_sys::hook::typed::Atomic;
use kernel::bindings;
use kernel::prelude::*;

use super::address_map::Found;
use super::trap_frame::Trap;
use crate::probe_point::Point;

/// What the engine does where a probed instruction is executed.
///
/// # Safety
///
/// A handler returns true only if the trap is one of the engine's: a breakpoint of a probe or of a copy, a fault of a copy, or
/// one that a probe's handler for faults has repaired. It leaves registers then with which the interrupted code goes on as it
/// would without the engine, but for what the probes' handlers have changed. On a [`Trap`] it executes the instruction that the
/// breakpoint stands for, and none else.
///
/// Every breakpoint that was put at a [`breakpoint_at`] of this handler is one for which it returns true. Of what it is asked to make
/// such a site of, an instruction with that first byte starts there.
///
/// It does not sleep, and what it executes has no breakpoint for which it does not return true without calling itself again.
pub(crate) unsafe trait TrapHandler: 'static {
    /// A breakpoint. Whether it is done with.
    fn breakpoint(trap: &mut Trap, here: &Atomic) -> bool;

    /// A fault. Whether it is done with.
    fn fault(regs: &mut Regs, trapnr: usize) -> bool;

    /// The kernel dies of a fault or trap, and has told of it.
    fn died(regs: &Regs);

    /// A function with a probe on its ftrace site has been called, whose point this is, or was.
    fn called(point: Found<'_, Point>, regs: &mut Regs);

    /// The same, at a site where a probe has a handler for after the instruction.
    fn called_with_post(site: usize, regs: &mut Regs);
}

/// An instruction in whose place a breakpoint may stand, as `H` handles it. `original` is its first byte.
pub(crate) fn breakpoint_at<H: TrapHandler>(at: TextAddress, original: u8) -> PatchSite {
    // SAFETY: `TrapHandler` guarantees both: that an instruction starts there, with this byte, and that its breakpoint is handled, as long as
    // `hit::POINTS` has the point, which is until no CPU can be at the breakpoint.
    unsafe { PatchSite::new(at, original) }
}

/// The answer of an exit that may have dealt with its event.
#[inline(always)]
fn answer(done: bool) -> Answer<NoReturn> {
    match done {
        true => Answer::Terminate,
        false => Answer::Continue,
    }
}

/// The exit on breakpoints.
///
/// # Safety
///
/// `regs` are the registers of a breakpoint, which are the caller's.
#[inline(always)]
unsafe fn breakpoint<H: TrapHandler>(regs: *mut bindings::pt_regs, here: &Atomic) -> bool {
    // SAFETY: The caller guarantees that they are those of a breakpoint, and `TrapHandler` what is executed on it.
    unsafe { Trap::from_raw(regs) }.is_some_and(|trap| H::breakpoint(trap, here))
}

/// The exit on faults.
///
/// # Safety
///
/// `regs` are the registers of a fault, which are the caller's.
unsafe fn fault<H: TrapHandler>(regs: *mut bindings::pt_regs, trapnr: usize) -> bool {
    // SAFETY: The caller guarantees that they are those of a fault.
    unsafe { Regs::from_raw(regs) }.is_some_and(|regs| H::fault(regs, trapnr))
}

/// The exits on breakpoints and on faults, not armed yet. Errors: as for `Registered::engine()`.
pub(crate) fn register<H: TrapHandler>(
    name: &CStr,
) -> Result<(Registered<Int3>, Registered<KernelFault>), ferro_gkhi::Error> {
    // SAFETY: `TrapHandler` guarantees what the hook wants of an exit: it ends the dispatch for its own breakpoints only, does
    // not sleep, and does not come back to itself without end. The hook passes the registers of the breakpoint, which nobody
    // else uses until the exit returns.
    let int3 = unsafe {
        Registered::<Int3>::builder(name)
            .disarmed()
            .register_engine(EnginePromise::new(), |call, (regs,)| {
                answer(breakpoint::<H>(regs, call.context()))
            })
    }?;
    // SAFETY: `TrapHandler` guarantees what the hook wants of an exit: it ends the dispatch for faults that it has dealt with
    // only, and does not sleep. The hook passes the registers of the fault, which nobody else uses until the exit returns.
    let fault = unsafe {
        Registered::<KernelFault>::builder(name)
            .disarmed()
            .register_engine(EnginePromise::new(), |_call, (regs, trapnr, _)| {
                answer(fault::<H>(regs, trapnr))
            })
    }?;
    Ok((int3, fault))
}
