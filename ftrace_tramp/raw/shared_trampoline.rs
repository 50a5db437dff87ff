// SPDX-License-Identifier: GPL-2.0

//! Trampolines that belong to no single ops. Each has a placeholder ops, through which ftrace lists
//! the trampoline and recognises its addresses.
//!
//! Contexts: process, sleeps.

use core::mem::ManuallyDrop;
use core::ptr::NonNull;

use ferro_ftrace_tramp_core::CallTarget;
use ferro_ftrace_tramp_core::Third;
use ferro_sys::bindings;
use kernel::prelude::*;

use super::template::Templates;
use super::trampoline::Trampoline;

/// Trampoline with its placeholder ops. Dropping this leaks it; only a [`Reclaimable`] frees it.
pub(crate) struct SharedTrampoline {
    trampoline: ManuallyDrop<Trampoline>,
    /// Placeholder ops, made by `builtin.c`.
    ops: NonNull<bindings::ftrace_ops>,
    /// Next one in the list of a [`Retired`].
    next: Option<KBox<SharedTrampoline>>,
}

// SAFETY: `ops` is dereferenced with `ftrace_lock` held, or by the only owner of this.
unsafe impl Send for SharedTrampoline {}

/// Placeholder ops, until a [`SharedTrampoline`] owns it.
struct NewOps(NonNull<bindings::ftrace_ops>);

impl NewOps {
    /// Makes a placeholder for a set of registered ops, or for no ops if `members` is empty.
    /// Context: `ftrace_lock` held.
    fn new(members: &mut [*mut bindings::ftrace_ops], saves_regs: bool) -> Result<Self> {
        let count = u32::try_from(members.len())?;
        // SAFETY: The caller holds `ftrace_lock`, and passes `count` members.
        let ops = unsafe { bindings::ferro_tramp_set_new(members.as_mut_ptr(), count, saves_regs) };
        NonNull::new(ops).map(Self).ok_or(ENOMEM)
    }

    fn into_inner(self) -> NonNull<bindings::ftrace_ops> {
        ManuallyDrop::new(self).0
    }
}

impl Drop for NewOps {
    fn drop(&mut self) {
        // SAFETY: No other code knows it.
        unsafe { bindings::ferro_tramp_set_free(self.0.as_ptr()) };
    }
}

impl SharedTrampoline {
    /// Makes the trampoline of a set of registered ops. Context: `ftrace_lock` held.
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

    /// Makes a trampoline that passes R11 to a function as third argument. Context: `ftrace_lock`
    /// held.
    ///
    /// Errors: -ENOMEM; -ERANGE if the function is more than 2 GiB away; -EOPNOTSUPP if the
    /// kernel's code uses R11.
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
        let trampoline = Trampoline::new(function, third, saves_regs, templates)?;
        let ops = ops.into_inner();
        // SAFETY: This function owns it, and no other code knows it yet.
        unsafe {
            (*ops.as_ptr()).trampoline = trampoline.address();
            (*ops.as_ptr()).trampoline_size = trampoline.used();
        }
        // SAFETY: The caller holds `ftrace_lock`. The ops stays until a `Reclaimable` has reported
        // its end to ftrace.
        unsafe { bindings::ftrace_set_trampoline_made(ops.as_ptr()) };
        Ok(KBox::write(
            room,
            Self {
                trampoline: ManuallyDrop::new(trampoline),
                ops,
                next: None,
            },
        ))
    }

    /// Returns the trampoline.
    pub(super) fn trampoline(&self) -> &Trampoline {
        &self.trampoline
    }

    /// Returns the placeholder ops.
    pub(super) fn ops(&self) -> *mut bindings::ftrace_ops {
        self.ops.as_ptr()
    }
}

/// Trampolines that no function calls. Dropping this leaks them.
#[derive(Default)]
pub(crate) struct Retired(Option<KBox<SharedTrampoline>>);

impl Retired {
    /// Adds one.
    pub(super) fn add(&mut self, mut trampoline: KBox<SharedTrampoline>) {
        trampoline.next = self.0.take();
        self.0 = Some(trampoline);
    }

    /// Returns true if there are none.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// Marks them as free to reclaim.
    ///
    /// # Safety
    ///
    /// No site calls them, and no task is in them.
    pub(super) unsafe fn into_reclaimable(self) -> Reclaimable {
        // INVARIANT: The caller guarantees it.
        Reclaimable(self.0)
    }
}

/// Trampolines that no site calls and no task is in. Dropping this frees them; drop it without
/// `ftrace_lock` and the engine's mutex.
///
/// # Invariants
///
/// The above is true for each one in the list.
pub(crate) struct Reclaimable(Option<KBox<SharedTrampoline>>);

impl Drop for Reclaimable {
    fn drop(&mut self) {
        let Some(first) = self.0.as_deref() else {
            return;
        };
        let mut at = first;
        while let Some(next) = at.next.as_deref() {
            // SAFETY: The ops is in none of ftrace's lists, so no other code uses the field.
            unsafe { (*at.ops()).next = next.ops() };
            at = next;
        }
        // SAFETY: `new()` has reported them to ftrace. By the type invariant no task is in them.
        // The last one's `next` is NULL, as `builtin.c` has made it.
        unsafe { bindings::ftrace_set_trampolines_gone(first.ops()) };
        while let Some(mut retired) = self.0.take() {
            self.0 = retired.next.take();
            // SAFETY: `retired` is dropped without using the field again. By the type invariant no
            // task is in the code, and no code finds it.
            unsafe { ManuallyDrop::take(&mut retired.trampoline).free() };
            // SAFETY: The code cannot be found, so its placeholder ops cannot, either.
            unsafe { bindings::ferro_tramp_set_free(retired.ops()) };
        }
    }
}
