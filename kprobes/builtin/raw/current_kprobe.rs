// SPDX-License-Identifier: GPL-2.0

//! The probe whose handlers run on this CPU: `kprobe_running()` of `<linux/kprobes.h>`, and the
//! other per-CPU words of `builtin.c`.
//!
//! The engine begins and ends a run of handlers with [`run`], so that no probe stays in the word
//! after it may be freed. Only a copy with interrupts off keeps the probe there, for the
//! post-handlers ([`Running::leave_to_copy`]).
//!
//! Contexts: any in which the task stays on the CPU, NMI included.

use core::marker::PhantomData;
use core::ptr::with_exposed_provenance;

use ferro_sys::bindings;
use ferro_sys::code::regs::Regs;
use ferro_sys::cpu::preempt::PreemptOff;
use ferro_sys::this_cpu;
use kernel::types::Opaque;

extern "C" {
    /// `<linux/kprobes.h>`; in `builtin.c`.
    static mut current_kprobe: *mut bindings::kprobe;
    /// `builtin.c`
    static mut ferro_kprobe_saved_if: usize;
    /// `builtin.c`
    static mut ferro_kprobe_busy: bindings::kprobe;
}

/// Returns the value that makes hits count as missed without running handlers: the address of a
/// `struct kprobe` without handlers that is never freed.
#[inline(always)]
pub(crate) fn busy() -> usize {
    (&raw mut ferro_kprobe_busy) as usize
}

/// Returns the address of the probe with running handlers, or [`busy`], or 0 without one.
#[inline(always)]
pub(crate) fn get() -> usize {
    // SAFETY: A per-CPU pointer, which only this CPU accesses, in single instructions. A caller
    // that migrates gets a stale value, but always one that was stored.
    unsafe { this_cpu!(load current_kprobe) }
}

/// Sets the probe with running handlers.
///
/// # Safety
///
/// `probe` is 0, [`busy`], or the address of a `struct kprobe` that stays until this CPU's value
/// changes. The caller stays on this CPU until then; nested callers restore the value that they
/// have found.
#[inline(always)]
pub(crate) unsafe fn set(probe: usize) {
    // SAFETY: A per-CPU pointer, which only this CPU accesses, in single instructions; by the
    // caller's guarantee to a `struct kprobe`, or NULL.
    unsafe { this_cpu!(store current_kprobe, probe) };
}

/// Records that no handlers run.
#[inline(always)]
fn clear() {
    // SAFETY: A per-CPU pointer, which only this CPU accesses, in single instructions; NULL means
    // none.
    unsafe { this_cpu!(clear current_kprobe) };
}

/// Saves RFLAGS.IF of the interrupted code while the copy of an instruction runs. The caller stays
/// on this CPU. No hit that saves the flag, too, can interrupt the copy.
#[inline(always)]
fn save_if(flag: usize) {
    // SAFETY: A per-CPU word, which only this CPU accesses, in single instructions; it may have any
    // value.
    unsafe { this_cpu!(store ferro_kprobe_saved_if, flag) };
}

/// Returns the saved RFLAGS.IF.
#[inline(always)]
fn saved_if() -> usize {
    // SAFETY: A per-CPU word, which only this CPU accesses, in single instructions.
    unsafe { this_cpu!(load ferro_kprobe_saved_if) }
}

/// Returns true if a handler is running, or C code has called `kprobe_busy_begin()`.
#[inline(always)]
pub fn is_running() -> bool {
    get() != 0
}

/// Returns the probe with running handlers, or the busy one, if any.
#[inline(always)]
pub fn running(_here: &PreemptOff) -> Option<&Opaque<bindings::kprobe>> {
    // SAFETY: By the rules of `set()` NULL or a `struct kprobe` that stays until this CPU's value
    // changes: when the running handler has ended, and so not before the caller returns, which has
    // interrupted the handler. If the kernel has died in a handler, `builtin.c` has stored NULL.
    // The type allows changes by others.
    unsafe { with_exposed_provenance::<Opaque<bindings::kprobe>>(get()).as_ref() }
}

/// A run of handlers on this CPU, of probes that stay for `'a`.
pub struct Running<'a>(PhantomData<(*mut (), &'a ())>);

/// End of a run of handlers.
#[must_use]
pub enum End {
    /// No handler is running.
    Over,
    /// A copy is going to run, and then the post-handlers.
    InCopy(InCopy),
}

/// Proof that the copy keeps the running probe.
pub struct InCopy(());

/// Calls `f`, which calls handlers. No handler is running before, nor afterwards, except with
/// [`End::InCopy`].
#[inline(always)]
pub fn run<'a>(f: impl FnOnce(&mut Running<'a>) -> End) {
    match f(&mut Running(PhantomData)) {
        End::Over => clear(),
        End::InCopy(InCopy(())) => (),
    }
}

/// Calls `f`, which calls handlers, within a run of handlers that `optprobe_template.S` begins and
/// ends.
#[inline(always)]
pub fn run_within<'a, R>(f: impl FnOnce(&mut Running<'a>) -> R) -> R {
    let begun = get();
    let result = f(&mut Running(PhantomData));
    // SAFETY: The word keeps its value: not a client's probe, but the one of `engine.c`, which has
    // called this from its handler.
    unsafe { set(begun) };
    result
}

/// Ends the run that a copy has kept.
#[inline(always)]
pub fn end() {
    clear();
}

/// Calls `f`. Hits are missed until it returns, and faults are passed to no probe.
#[inline(always)]
pub fn while_busy<R>(f: impl FnOnce() -> R) -> R {
    let running = get();
    // SAFETY: The busy probe always stays; the old value is restored below.
    unsafe { set(busy()) };
    let result = f();
    // SAFETY: The word had this value before, and the code that stored it has yet to clear it.
    unsafe { set(running) };
    result
}

/// Turns interrupts off in the interrupted code, until [`unmask`].
#[inline(always)]
pub fn mask(regs: &mut Regs) {
    save_if(regs.mask_interrupts());
}

/// Restores RFLAGS.IF of the interrupted code.
#[inline(always)]
pub fn unmask(regs: &mut Regs) {
    regs.unmask_interrupts(saved_if());
}

impl<'a> Running<'a> {
    /// Marks this probe as the running one.
    #[inline(always)]
    pub fn enter(&mut self, probe: &'a Opaque<bindings::kprobe>) {
        // SAFETY: It stays for `'a`, which is longer than this run: `run()` clears the word before
        // it returns, unless `leave_to_copy()` has been called.
        unsafe { set(probe.get().expose_provenance()) };
    }

    /// Makes later hits missed, and passes faults to no probe.
    #[inline(always)]
    pub fn be_busy(&mut self) {
        // SAFETY: The busy probe always stays.
        unsafe { set(busy()) };
    }

    /// Keeps this probe as the running one for a copy, at which `regs` resume with interrupts off.
    #[inline(always)]
    pub fn leave_to_copy(
        &mut self,
        regs: &mut Regs,
        probe: &'a Opaque<bindings::kprobe>,
    ) -> InCopy {
        // SAFETY: The copy runs with interrupts off on this CPU, up to the call or the fault that
        // ends the run. The copy is a read-side section of RCU, which begins within the section of
        // the lookup: unregistering the probe waits for it.
        unsafe { set(probe.get().expose_provenance()) };
        mask(regs);
        InCopy(())
    }
}
