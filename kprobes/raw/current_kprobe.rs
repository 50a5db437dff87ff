// SPDX-License-Identifier: GPL-2.0

//! The probe whose handlers run on this CPU: `kprobe_running()` of `<linux/kprobes.h>`.
//!
//! A run of handlers begins and ends with [`run`], so that no probe stays in the per-CPU word after
//! it may be freed. Only a copy with interrupts off keeps the probe there, for the post-handlers
//! ([`Running::leave_to_copy`]).
//!
//! Contexts: any in which the task stays on the CPU, NMI included.

use core::marker::PhantomData;

use ferro_kprobes_builtin::raw::current_kprobe as word;
use ferro_sys::code::regs::Regs;
use ferro_sys::cpu::preempt::PreemptOff;

use super::kprobe::Kprobe;

/// Returns true if a handler is running, or C code has called `kprobe_busy_begin()`.
#[inline(always)]
pub(crate) fn is_running() -> bool {
    word::get() != 0
}

/// Returns the probe of the running handler, if any.
pub(crate) fn current<'a>(_here: &'a PreemptOff) -> Option<Kprobe<'a>> {
    // SAFETY: By the rules of `word::set()` NULL or a `struct kprobe` that stays until this CPU
    // stores something else. It does so when the running handler has ended: not before the caller
    // returns, which has interrupted the handler. If the kernel has died in a handler, `builtin.c`
    // has stored NULL.
    unsafe { Kprobe::new(core::ptr::with_exposed_provenance_mut(word::get())) }
}

/// A run of handlers on this CPU, of probes that stay for `'a`.
pub(crate) struct Running<'a>(PhantomData<(*mut (), &'a ())>);

/// End of a run of handlers.
#[must_use]
pub(crate) enum End {
    /// No handler is running.
    Over,
    /// A copy is going to run, and then the post-handlers.
    InCopy(InCopy),
}

/// Proof that the copy keeps the running probe.
pub(crate) struct InCopy(());

/// Calls `f`, which calls handlers. No handler is running before, nor afterwards, except with
/// [`End::InCopy`].
#[inline(always)]
pub(crate) fn run<'a>(f: impl FnOnce(&mut Running<'a>) -> End) {
    match f(&mut Running(PhantomData)) {
        End::Over => word::clear(),
        End::InCopy(InCopy(())) => (),
    }
}

/// Calls `f`, which calls handlers, within a run of handlers that `optprobe_template.S` begins and
/// ends.
#[inline(always)]
pub(crate) fn run_within<'a, R>(f: impl FnOnce(&mut Running<'a>) -> R) -> R {
    let begun = word::get();
    let result = f(&mut Running(PhantomData));
    // SAFETY: The word keeps its value: not a client's probe, but the one of `engine.c`, which has
    // called this from its handler.
    unsafe { word::set(begun) };
    result
}

/// Ends the run that a copy has kept.
#[inline(always)]
pub(crate) fn end() {
    word::clear();
}

/// Calls `f`. Hits are missed until it returns, and faults are passed to no probe.
#[inline(always)]
pub(crate) fn while_busy<R>(f: impl FnOnce() -> R) -> R {
    let running = word::get();
    // SAFETY: The busy probe always stays; the old value is restored below.
    unsafe { word::set(word::busy()) };
    let result = f();
    // SAFETY: It was there before, and the code that stored it has yet to clear it.
    unsafe { word::set(running) };
    result
}

/// Turns interrupts off in the interrupted code, until [`unmask`].
#[inline(always)]
pub(crate) fn mask(regs: &mut Regs) {
    word::save_if(regs.mask_interrupts());
}

/// Restores RFLAGS.IF of the interrupted code.
#[inline(always)]
pub(crate) fn unmask(regs: &mut Regs) {
    regs.unmask_interrupts(word::saved_if());
}

impl<'a> Running<'a> {
    /// Marks this probe as the running one.
    #[inline(always)]
    pub(crate) fn enter(&mut self, probe: Kprobe<'a>) {
        // SAFETY: It stays for `'a`, which is longer than this run: `run()` clears the word before
        // it returns, unless `leave_to_copy()` has been called.
        unsafe { word::set(probe.id()) };
    }

    /// Makes hits missed from here on, and passes faults to no probe.
    #[inline(always)]
    pub(crate) fn be_busy(&mut self) {
        // SAFETY: The busy probe always stays.
        unsafe { word::set(word::busy()) };
    }

    /// Keeps this probe as the running one for a copy, at which `regs` resume with interrupts off.
    #[inline(always)]
    pub(crate) fn leave_to_copy(&mut self, regs: &mut Regs, probe: Kprobe<'a>) -> InCopy {
        // SAFETY: The copy runs with interrupts off on this CPU, up to the call or the fault that
        // ends the run. That is a read-side section of RCU, which begins before the end of the
        // section in which the probe was found: unregistering the probe waits for it.
        unsafe { word::set(probe.id()) };
        mask(regs);
        InCopy(())
    }
}
