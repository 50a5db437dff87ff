// SPDX-License-Identifier: GPL-2.0

//! Trampolines in slots of the pool.
//!
//! Contexts: process, sleeps.

use core::mem::ManuallyDrop;
use core::ptr::NonNull;

use ferro_core::tramp::CallTarget;
use ferro_core::tramp::Ending;
use ferro_core::tramp::JumpTarget;
use ferro_core::tramp::Third;
use ferro_core::tramp::Trampoline;
use ferro_core::tramp::WriteError;
use ferro_core::tramp::MAX_TEMPLATE;
use ferro_sys::code::text::TextMutex;
use ferro_sys::mm::exec_pool;
use ferro_sys::mm::exec_pool::Slot;
use ferro_sys::mm::exec_pool::User;
use kernel::bindings;
use kernel::prelude::*;

use super::ops::Ops;
use super::ops_sets::Step;
use super::template::KernelTemplate;

/// The longest ending of a copy, and the word with the ops.
const REST: usize = 16;

/// A trampoline. It stays, also if this is dropped, until it is detached or freed.
///
/// # Invariants
///
/// The slot has a copy of a kernel's template, whose call is at this address. `ops` is the one that it was attached to.
pub(crate) struct Code {
    slot: ManuallyDrop<Slot>,
    call: usize,
    len: usize,
    ops: Option<NonNull<bindings::ftrace_ops>>,
}

// SAFETY: What `ops` points to is used with what shows that it may be.
unsafe impl Send for Code {}

/// How what is at this address has to return.
fn ending_at(at: usize) -> Ending {
    // SAFETY: The function only looks at the address's bits, and at the CPU's features.
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

impl Code {
    /// A trampoline that calls a function with this third argument. It stays until [`Self::free`].
    ///
    /// Errors: -ENOMEM; -ERANGE if the function is more than 2 GiB away; -EOPNOTSUPP if the kernel's code uses R11, and the argument
    /// is to be there.
    pub(super) fn new(
        function: CallTarget,
        third: Third,
        template: &KernelTemplate,
    ) -> Result<Self> {
        let template = template.get();
        let longest = template.copy_len(Ending::Thunk(JumpTarget::new(0)));
        let mut slot = exec_pool::alloc(longest, User::Trampolines)?;
        let at = slot.address();
        // The return is behind the template's code.
        let ending = ending_at(at + template.bytes().len());
        let trampoline = Trampoline {
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
        // INVARIANT: It has just been written.
        Ok(Self {
            slot: ManuallyDrop::new(slot),
            call: at + template.call(),
            len,
            ops: None,
        })
    }

    /// Makes a trampoline for an ops that has none, and gives it to it.
    ///
    /// Errors: as for [`Self::new`].
    pub(crate) fn attach(ops: Ops<'_>, template: &KernelTemplate) -> Result<Self> {
        let third = Third::Ops(ops.address() as u64);
        let mut code = Self::new(ops.function(), third, template)?;
        // INVARIANT: It is attached next, which does not fail.
        code.ops = Some(ops.as_non_null());
        // SAFETY: The slot has a copy of the kernel's trampoline for this ops: by the invariant of `KernelTemplate` it is made of
        // that. It stays until `detach()`.
        unsafe { ops.set_trampoline(code.address(), code.len) };
        Ok(code)
    }

    /// Has it call another function.
    ///
    /// Errors: -ERANGE if that is more than 2 GiB away; it calls the old one then.
    pub(crate) fn aim(&mut self, function: CallTarget) -> Result {
        let code = function.call(self.call as u64).ok_or(ERANGE)?;
        // SAFETY: By the type invariant the call is there, in the slot that this has. Who executes it calls a function that
        // ftrace has for this ops, before and after.
        unsafe { TextMutex::new().replace(self.call, &code) };
        Ok(())
    }

    /// Whether it is what this ops has.
    pub(crate) fn is_of(&self, ops: Ops<'_>) -> bool {
        ops.trampoline() == self.slot.address()
    }

    /// Takes it from its ops, when ftrace says that nobody is in it. What is not this ops's stays as it is.
    pub(crate) fn detach(self, ops: Ops<'_>) {
        if !self.is_of(ops) {
            return;
        }
        ops.clear_trampoline();
        // SAFETY: The ops no longer has the code, and ftrace has waited for those who were in it.
        unsafe { self.free() };
    }

    /// ftrace has given up, and functions may go on calling this: no longer an ops that has just gone.
    ///
    /// Errors: as for [`Self::aim`].
    pub(crate) fn give_up(&mut self, _step: &Step<'_>) -> Result {
        let Some(ops) = self.ops else {
            return Ok(());
        };
        // SAFETY: By the type invariants this is its trampoline, so that it is there as long as the step.
        let ops = unsafe { Ops::new(ops.as_ptr()) };
        ops.map_or(Ok(()), |ops| self.aim(ops.last_function()))
    }

    /// Gives its memory back.
    ///
    /// # Safety
    ///
    /// Nobody calls it, and nobody is in it.
    pub(super) unsafe fn free(mut self) {
        // SAFETY: Nobody uses the field after this: `self` goes. The caller guarantees the rest.
        unsafe { ManuallyDrop::drop(&mut self.slot) };
    }

    /// Where it is.
    pub(crate) fn address(&self) -> usize {
        self.slot.address()
    }

    /// The length of what is used of it, in bytes.
    pub(crate) fn used(&self) -> usize {
        self.len
    }

    /// The length of its slot, in bytes.
    pub(crate) fn slot_len(&self) -> usize {
        self.slot.len()
    }
}
