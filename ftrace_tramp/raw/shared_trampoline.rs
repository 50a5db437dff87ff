// SPDX-License-Identifier: GPL-2.0

//! Trampolines that are no ops's: an ops stands in for whom they are, so that ftrace shows and finds them.
//!
//! Contexts: process, sleeps.

use core::mem::ManuallyDrop;
use core::ptr::NonNull;

use ferro_core::tramp::CallTarget;
use ferro_core::tramp::Third;
use kernel::bindings;
use kernel::prelude::*;

use super::template::Templates;
use super::trampoline::Code;

/// A trampoline, and what stands for its ops. It stays, also if this is dropped, until a [`Reclaimable`] has it.
pub(crate) struct SharedTrampoline {
    code: ManuallyDrop<Code>,
    /// What `builtin.c` has made for it.
    ops: NonNull<bindings::ftrace_ops>,
    saves_regs: bool,
    /// The next of a [`Retired`].
    next: Option<KBox<SharedTrampoline>>,
}

// SAFETY: What `ops` points to is used with `ftrace_lock` held, or by who alone has this.
unsafe impl Send for SharedTrampoline {}

/// What `builtin.c` makes, until a [`SharedTrampoline`] has it.
struct NewOps(NonNull<bindings::ftrace_ops>);

impl NewOps {
    /// For a set of ops, which are registered; nobody's if there are none. Context: `ftrace_lock` held.
    fn new(members: &mut [*mut bindings::ftrace_ops], saves_regs: bool) -> Result<Self> {
        let count = u32::try_from(members.len())?;
        // SAFETY: The caller holds `ftrace_lock`, and has so many members.
        let ops = unsafe { bindings::ferro_tramp_set_new(members.as_mut_ptr(), count, saves_regs) };
        NonNull::new(ops).map(Self).ok_or(ENOMEM)
    }

    fn into_inner(self) -> NonNull<bindings::ftrace_ops> {
        ManuallyDrop::new(self).0
    }
}

impl Drop for NewOps {
    fn drop(&mut self) {
        // SAFETY: Nobody else knows it.
        unsafe { bindings::ferro_tramp_set_free(self.0.as_ptr()) };
    }
}

impl SharedTrampoline {
    /// For a set of ops, which are registered. Context: `ftrace_lock` held.
    ///
    /// Errors: -ENOMEM; -ERANGE if the image is more than 2 GiB away.
    pub(super) fn of_set(
        members: &mut [*mut bindings::ftrace_ops],
        saves_regs: bool,
        templates: &Templates,
    ) -> Result<KBox<Self>> {
        let ops = NewOps::new(members, saves_regs)?;
        // SAFETY: `builtin.c` has just made it.
        let function = unsafe { (*ops.0.as_ptr()).func }.map_or(0, |function| function as usize);
        let third = Third::Ops(ops.0.as_ptr().addr() as u64);
        Self::new(
            ops,
            CallTarget::new(function as u64),
            third,
            saves_regs,
            templates,
        )
    }

    /// One that calls a function with what is in R11. Context: `ftrace_lock` held.
    ///
    /// Errors: -ENOMEM; -ERANGE if the function is more than 2 GiB away; -EOPNOTSUPP if the kernel's code uses R11.
    pub(super) fn from_r11(
        function: CallTarget,
        saves_regs: bool,
        templates: &Templates,
    ) -> Result<KBox<Self>> {
        let ops = NewOps::new(&mut [], saves_regs)?;
        Self::new(ops, function, Third::R11, saves_regs, templates)
    }

    fn new(
        ops: NewOps,
        function: CallTarget,
        third: Third,
        saves_regs: bool,
        templates: &Templates,
    ) -> Result<KBox<Self>> {
        let room = KBox::new_uninit(GFP_KERNEL)?;
        let code = Code::new(function, third, templates.get(saves_regs))?;
        let ops = ops.into_inner();
        // SAFETY: It is ours, and nobody else knows it yet.
        unsafe {
            (*ops.as_ptr()).trampoline = code.address();
            (*ops.as_ptr()).trampoline_size = code.used();
        }
        // SAFETY: The caller holds `ftrace_lock`. It stays until a `Reclaimable` frees it, which takes it back first.
        unsafe { bindings::ftrace_set_trampoline_made(ops.as_ptr()) };
        Ok(KBox::write(
            room,
            Self {
                code: ManuallyDrop::new(code),
                ops,
                saves_regs,
                next: None,
            },
        ))
    }

    /// The trampoline.
    pub(crate) fn code(&self) -> &Code {
        &self.code
    }

    /// Whether callbacks get all registers.
    pub(crate) fn saves_regs(&self) -> bool {
        self.saves_regs
    }

    /// What stands for its ops.
    pub(super) fn ops(&self) -> *mut bindings::ftrace_ops {
        self.ops.as_ptr()
    }
}

/// Trampolines that no function calls any more. Dropped, they stay where they are.
#[derive(Default)]
pub(crate) struct Retired(Option<KBox<SharedTrampoline>>);

impl Retired {
    /// One more.
    pub(super) fn close(&mut self, mut code: KBox<SharedTrampoline>) {
        code.next = self.0.take();
        self.0 = Some(code);
    }

    /// Whether there is none.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// # Safety
    ///
    /// Nobody calls them, and nobody is in them.
    pub(super) unsafe fn left(self) -> Reclaimable {
        // INVARIANT: The caller guarantees it.
        Reclaimable(self.0)
    }
}

/// Trampolines that nobody calls and nobody is in. Dropping it frees them: without `ftrace_lock` and the engine's mutex.
///
/// # Invariants
///
/// As it says, of the first and those after it.
pub(crate) struct Reclaimable(Option<KBox<SharedTrampoline>>);

impl Drop for Reclaimable {
    fn drop(&mut self) {
        let Some(first) = self.0.as_deref() else {
            return;
        };
        let mut at = first;
        while let Some(next) = at.next.as_deref() {
            // SAFETY: Nobody uses the field of what is in no list of ftrace's.
            unsafe { (*at.ops()).next = next.ops() };
            at = next;
        }
        // SAFETY: `new()` has shown them. By the type invariant this is the end of them. The last one's `next` is NULL, as
        // `builtin.c` has made it.
        unsafe { bindings::ftrace_set_trampolines_gone(first.ops()) };
        while let Some(mut made) = self.0.take() {
            self.0 = made.next.take();
            // SAFETY: Nobody uses the field after this: `made` goes. By the type invariant nobody is in the code, and nobody finds
            // it.
            unsafe { ManuallyDrop::take(&mut made.code).free() };
            // SAFETY: As nobody finds the code nobody finds the ops that stands for it.
            unsafe { bindings::ferro_tramp_set_free(made.ops()) };
        }
    }
}
