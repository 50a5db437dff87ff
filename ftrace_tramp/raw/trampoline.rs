// SPDX-License-Identifier: GPL-2.0

//! Trampolines in slots of the pool.
//!
//! Contexts: process, sleeps.

use core::mem::ManuallyDrop;
use core::ptr::NonNull;

use ferro_ftrace_tramp_core as tramp;
use ferro_ftrace_tramp_core::CallTarget;
use ferro_ftrace_tramp_core::Ending;
use ferro_ftrace_tramp_core::JumpTarget;
use ferro_ftrace_tramp_core::Third;
use ferro_ftrace_tramp_core::WriteError;
use ferro_ftrace_tramp_core::MAX_TEMPLATE;
use ferro_sys::bindings;
use ferro_sys::code::text::TextMutex;
use ferro_sys::mm::exec_pool;
use ferro_sys::mm::exec_pool::Slot;
use ferro_sys::mm::exec_pool::User;
use kernel::prelude::*;

use super::ops::Ops;
use super::step::Step;
use super::template::Templates;

/// Bytes that a copy may have more than its template: its ending, and the word with the ops.
const REST: usize = 16;

/// Trampoline in a slot. Dropping this leaks it; detach or free it instead.
///
/// # Invariants
///
/// The slot has a copy of one of the kernel's trampolines, with its call at `call`. `ops` is the
/// ops of [`Self::attach`], if any.
pub(crate) struct Trampoline {
    slot: ManuallyDrop<Slot>,
    call: usize,
    len: usize,
    saves_regs: bool,
    ops: Option<NonNull<bindings::ftrace_ops>>,
}

/// Properties of a trampoline, for the debugfs list.
pub(crate) struct TrampolineInfo {
    pub(crate) address: usize,
    /// Length of the code in bytes.
    pub(crate) used: usize,
    /// Length of the slot in bytes.
    pub(crate) slot: usize,
    /// The callback gets all registers.
    pub(crate) saves_regs: bool,
}

// SAFETY: `ops` is dereferenced only with proof of its validity.
unsafe impl Send for Trampoline {}

/// Returns the kind of return that code at this address needs.
fn ending_at(at: usize) -> Ending {
    // SAFETY: The function reads only the address's bits and the CPU's features.
    match unsafe { bindings::ferro_tramp_return_thunk(core::ptr::without_provenance_mut(at)) } {
        0 => Ending::ReturnTrap,
        thunk => Ending::Thunk(JumpTarget::new(thunk as u64)),
    }
}

fn errno(error: WriteError) -> Error {
    match error {
        WriteError::Length => E2BIG,
        WriteError::OutOfReach => ERANGE,
        WriteError::R11 => EOPNOTSUPP,
    }
}

impl Trampoline {
    /// Makes a trampoline that calls a function with this third argument. It stays until
    /// [`Self::free`].
    ///
    /// Errors: -ENOMEM; -ERANGE if the function is more than 2 GiB away; -EOPNOTSUPP if the
    /// argument has to be in R11, but the kernel's code uses R11.
    pub(super) fn new(
        function: CallTarget,
        third: Third,
        saves_regs: bool,
        templates: &Templates,
    ) -> Result<Self> {
        let template = templates.get(saves_regs).get();
        let longest = template.copy_len(Ending::Thunk(JumpTarget::new(0)));
        let mut slot = exec_pool::alloc(longest, User::Trampolines)?;
        let at = slot.address();
        // The return instruction follows the template's code.
        let ending = ending_at(at + template.bytes().len());
        let trampoline = tramp::Trampoline {
            function,
            third,
            ending,
        };
        let len = template.copy_len(ending);
        let mut buffer = [0; MAX_TEMPLATE + REST];
        let code = buffer.get_mut(..len).ok_or(E2BIG)?;
        template
            .write(code, at as u64, &trampoline)
            .map_err(errno)?;
        slot.write_untold(code, &TextMutex::new())?;
        // INVARIANT: The copy was written above.
        Ok(Self {
            slot: ManuallyDrop::new(slot),
            call: at + template.call(),
            len,
            saves_regs,
            ops: None,
        })
    }

    /// Makes a trampoline for an ops without one, and attaches it.
    ///
    /// Errors: as for [`Self::new`].
    pub(crate) fn attach(ops: Ops<'_>, templates: &Templates) -> Result<Self> {
        let third = Third::Ops(ops.address() as u64);
        let mut code = Self::new(ops.function(), third, ops.saves_regs(), templates)?;
        // INVARIANT: `set_trampoline()` below attaches it, and cannot fail.
        code.ops = Some(ops.as_non_null());
        // SAFETY: By the invariant of `KernelTemplate` the slot has a copy of the kernel's
        // trampoline, made for this ops. It stays until `detach()`.
        unsafe { ops.set_trampoline(code.address(), code.len) };
        Ok(code)
    }

    /// Makes the trampoline call another function.
    ///
    /// Errors: -ERANGE if the function is more than 2 GiB away; the trampoline then calls the old
    /// function.
    pub(crate) fn retarget(&mut self, function: CallTarget) -> Result {
        let code = function.call(self.call as u64).ok_or(ERANGE)?;
        // SAFETY: By the type invariant the call is there, in this trampoline's own slot. A CPU
        // that executes it calls the old or the new function, and ftrace permits both for this ops.
        unsafe { TextMutex::new().replace(self.call, &code) };
        Ok(())
    }

    /// Returns true if this is the trampoline of the ops.
    pub(crate) fn is_of(&self, ops: Ops<'_>) -> bool {
        ops.trampoline() == self.slot.address()
    }

    /// Detaches and frees the trampoline. Its caller, ftrace, has waited until no task is in it.
    /// Does nothing if the ops has another trampoline.
    pub(crate) fn detach(self, ops: Ops<'_>) {
        if !self.is_of(ops) {
            return;
        }
        ops.clear_trampoline();
        // SAFETY: The ops no longer refers to the code, and ftrace has waited for tasks in it.
        unsafe { self.free() };
    }

    /// Retargets the call after ftrace has failed. Sites may still call the trampoline, which must
    /// not call an unregistered ops.
    ///
    /// Errors: as for [`Self::retarget`].
    pub(crate) fn handle_failure(&mut self, _step: &Step<'_>) -> Result {
        let Some(ops) = self.ops else {
            return Ok(());
        };
        // SAFETY: By the type invariants this is the trampoline of the ops, which is therefore
        // valid as long as the step.
        let ops = unsafe { Ops::new(ops.as_ptr()) };
        ops.map_or(Ok(()), |ops| self.retarget(ops.last_function()))
    }

    /// Frees the memory of the trampoline.
    ///
    /// # Safety
    ///
    /// No site calls it, and no task is in it.
    pub(super) unsafe fn free(mut self) {
        // SAFETY: `self` is dropped without using the field again. The caller guarantees the rest.
        unsafe { ManuallyDrop::drop(&mut self.slot) };
    }

    /// Returns the address of the code.
    pub(crate) fn address(&self) -> usize {
        self.slot.address()
    }

    /// Returns the length of the code in bytes.
    pub(super) fn used(&self) -> usize {
        self.len
    }

    /// Returns the properties, for the debugfs list.
    pub(crate) fn info(&self) -> TrampolineInfo {
        TrampolineInfo {
            address: self.slot.address(),
            used: self.len,
            slot: self.slot.len(),
            saves_regs: self.saves_regs,
        }
    }
}
