// SPDX-License-Identifier: GPL-2.0

//! Whose handlers run on this CPU: `kprobe_running()` of `<linux/kprobes.h>`.
//!
//! A run of handlers begins and ends with [`run`], so that no probe is left there that may go. Only a copy with interrupts
//! off takes one along, to the handlers after the instruction ([`Running::leave_to_copy`]).
//!
//! Contexts: any in which the CPU is not left, NMI included.

use core::marker::PhantomData;

use ferro_kprobes_builtin::raw::current_kprobe as word;
use ferro_sys::code::regs::Regs;
use ferro_sys::cpu::preempt::PreemptOff;

use super::kprobe::Kprobe;

/// Whether a handler runs, or C code has said so with `kprobe_busy_begin()`.
#[inline(always)]
pub(crate) fn is_running() -> bool {
    word::get() != 0
}

/// The probe whose handler runs, if one does.
pub(crate) fn current<'a>(_here: &'a PreemptOff) -> Option<Kprobe<'a>> {
    // SAFETY: By the rules of `word::set()` NULL or a `struct kprobe` that stays until this CPU says something else, which it
    // does when the handler that is running has ended: not while the caller, with which it is interrupted, is here. If the
    // kernel has died in a handler, `builtin.c` has put NULL there.
    unsafe { Kprobe::new(core::ptr::with_exposed_provenance_mut(word::get())) }
}

/// A run of handlers on this CPU, of probes that stay for `'a`.
pub(crate) struct Running<'a>(PhantomData<(*mut (), &'a ())>);

/// How a run of handlers ends.
#[must_use]
pub(crate) enum End {
    /// No handler runs any more.
    Over,
    /// A copy is going to run, and the handlers for after it.
    InCopy(InCopy),
}

/// A proof that the copy takes the running probe along.
pub(crate) struct InCopy(());

/// Calls `f`, which has handlers called. Nothing runs before, nor afterwards but for [`End::InCopy`].
#[inline(always)]
pub(crate) fn run<'a>(f: impl FnOnce(&mut Running<'a>) -> End) {
    match f(&mut Running(PhantomData)) {
        End::Over => word::clear(),
        End::InCopy(InCopy(())) => (),
    }
}

/// Calls `f`, which has handlers called, within a run of handlers that `optprobe_template.S` has begun, and ends.
#[inline(always)]
pub(crate) fn run_within<'a, R>(f: impl FnOnce(&mut Running<'a>) -> R) -> R {
    let begun = word::get();
    let result = f(&mut Running(PhantomData));
    // SAFETY: What was there stays: it is nobody's probe, but that of `engine.c` which has had this called.
    unsafe { word::set(begun) };
    result
}

/// Ends the run that a copy has taken along.
#[inline(always)]
pub(crate) fn end() {
    word::clear();
}

/// Calls `f` while hits are missed, and faults are no probe's.
#[inline(always)]
pub(crate) fn while_busy<R>(f: impl FnOnce() -> R) -> R {
    let running = word::get();
    // SAFETY: That one always stays; what was there is put back below.
    unsafe { word::set(word::busy()) };
    let result = f();
    // SAFETY: It was there before, and whoever has put it there is still to take it away.
    unsafe { word::set(running) };
    result
}

/// Turns interrupts off in what is interrupted, until [`unmask`].
#[inline(always)]
pub(crate) fn mask(regs: &mut Regs) {
    word::save_if(regs.mask_interrupts());
}

/// Puts RFLAGS.IF of what is interrupted back as it was.
#[inline(always)]
pub(crate) fn unmask(regs: &mut Regs) {
    regs.unmask_interrupts(word::saved_if());
}

impl<'a> Running<'a> {
    /// From here on the handlers of this probe run.
    #[inline(always)]
    pub(crate) fn enter(&mut self, probe: Kprobe<'a>) {
        // SAFETY: It stays for `'a`, which is longer than this run: `run()` says something else before it returns, unless
        // `leave_to_copy()` has been called.
        unsafe { word::set(probe.id()) };
    }

    /// From here on hits are missed, and faults are no probe's.
    #[inline(always)]
    pub(crate) fn be_busy(&mut self) {
        // SAFETY: That one always stays.
        unsafe { word::set(word::busy()) };
    }

    /// Leaves this probe as the running one to a copy, at which `regs` go on with interrupts off.
    #[inline(always)]
    pub(crate) fn leave_to_copy(&mut self, regs: &mut Regs, probe: Kprobe<'a>) -> InCopy {
        // SAFETY: The copy runs with interrupts off on this CPU, up to the call or the fault that ends the run. That is a
        // read-side section of RCU, which begins before the one ends in which the probe was found: unregistering the probe
        // waits for it.
        unsafe { word::set(probe.id()) };
        mask(regs);
        InCopy(())
    }
}
