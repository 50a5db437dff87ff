// SPDX-License-Identifier: GPL-2.0

//! Mechanism by which hooks call exits, below the hook registry.
//!
//! A hook's site calls the target that its [`Publisher`] has published, through the first word of
//! it: an empty function ([`Target::Idle`]), one exit, or a [`Chain`] of exits. A retired target
//! may still be called for a while. It is added to a [`RetireList`], which waits before it drops
//! the target.
//!
//! Contexts: dispatch: the context of the hook, NMI included; otherwise process.

use core::ptr::NonNull;

use crate::bindings;
use kernel::prelude::*;
use kernel::sync::Arc;

mod chain;
mod deferred_release;
mod dispatch_tracker;
mod exit;
pub mod module_notifier;
pub mod points;
mod site;
pub mod typed;

pub use chain::Chain;
pub use chain::Switch;
pub use deferred_release::DeferredRelease;
pub use dispatch_tracker::can_wait;
pub use dispatch_tracker::wait_for_exits;
pub use dispatch_tracker::BusyList;
pub use dispatch_tracker::Readers;
pub use dispatch_tracker::RetireList;
pub use exit::disarm_self;
pub use exit::AtRest;
pub use exit::Condition;
pub use exit::Counters;
pub use exit::Exit;
pub use exit::ExitFn;
pub use exit::Parts;
pub use site::count_of;
pub use site::Hook;

/// Maximum number of parameters of a hook.
pub const PARAMS_MAX: usize = bindings::GKH_PARAMS_MAX as usize;

/// Context in which a hook may fire: `enum gkh_context`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Context {
    /// Process context in which sleeping is allowed.
    Sleep,
    /// Any context.
    Task,
    /// Contexts that are not preempted.
    Atomic,
}

/// A `struct gkhook`.
///
/// # Invariants
///
/// The pointer is to a hook that does not move and whose description does not change, as long as
/// this is used.
#[derive(Clone, Copy)]
pub struct HookRef(NonNull<bindings::gkhook>);

// SAFETY: The description does not change; the fields that do are only accessed through a
// `Publisher`.
unsafe impl Send for HookRef {}
// SAFETY: Several tasks at once only read the description, which does not change.
unsafe impl Sync for HookRef {}

impl HookRef {
    /// # Safety
    ///
    /// `hook` is from `DEFINE_GKHOOK()` or `Hook`, and is neither moved nor freed as long as the
    /// result or a copy of it is used.
    pub unsafe fn new(hook: NonNull<bindings::gkhook>) -> Self {
        // INVARIANT: By the rules of this function.
        Self(hook)
    }

    fn get(&self) -> &bindings::gkhook {
        // SAFETY: By the type invariant; the key and `armed` are not accessed through this.
        unsafe { self.0.as_ref() }
    }

    /// Returns the address of the hook.
    pub fn address(self) -> usize {
        self.0.as_ptr().addr()
    }

    /// Returns the name, if the hook has one.
    pub fn name(&self) -> Option<&CStr> {
        // SAFETY: By the type invariant a string, or NULL.
        (!self.get().name.is_null()).then(|| unsafe { CStr::from_char_ptr(self.get().name) })
    }

    /// Returns the names of the parameters.
    pub fn params(&self) -> &CStr {
        match self.get().params.is_null() {
            true => c"",
            // SAFETY: By the type invariant a string.
            false => unsafe { CStr::from_char_ptr(self.get().params) },
        }
    }

    /// Returns the number of parameters.
    pub fn count(self) -> u32 {
        u32::from(self.get().count)
    }

    /// Returns true if exits get the addresses of the parameters.
    pub fn is_modifiable(self) -> bool {
        u32::from(self.get().access) & bindings::gkh_access_GKH_RW != 0
    }

    /// Returns true if an exit can make the function return.
    pub fn has_return(self) -> bool {
        u32::from(self.get().access) & bindings::gkh_access_GKH_RO_RET != 0
    }

    /// Returns the context in which the hook fires.
    pub fn context(self) -> Context {
        match u32::from(self.get().context) {
            bindings::gkh_context_GKH_SLEEP => Context::Sleep,
            bindings::gkh_context_GKH_ATOMIC => Context::Atomic,
            _ => Context::Task,
        }
    }

    /// Returns true if the description is valid: a known context, and a number of parameters that
    /// can be passed.
    pub fn is_sound(self) -> bool {
        let hook = self.get();
        let room = PARAMS_MAX - usize::from(self.has_return());
        u32::from(hook.context) <= bindings::gkh_context_GKH_ATOMIC
            && u32::from(hook.access) <= bindings::gkh_access_GKH_RW_RET
            && usize::from(hook.count) <= room
    }

    /// Returns true if the hook accepts only one exit.
    pub fn is_exclusive(self) -> bool {
        u32::from(self.get().flags) & bindings::gkh_hook_flags_GKH_EXCLUSIVE != 0
    }

    /// Returns true if an exit can run with the other CPUs stopped.
    pub fn can_stop(self) -> bool {
        let no = u32::from(self.get().flags) & bindings::gkh_hook_flags_GKH_NO_STOP != 0;
        self.context() == Context::Sleep && !no
    }

    /// Returns the number of sites in the kernel and its modules, or `None` if it is unknown.
    pub fn sites(self) -> Option<usize> {
        // SAFETY: By the type invariant.
        let sites = unsafe { bindings::ferro_hook_sites(self.0.as_ptr()) };
        usize::try_from(sites).ok()
    }

    /// Returns true if the hook is a static of the kernel or of a module.
    pub fn is_static(self) -> bool {
        // SAFETY: No requirement.
        unsafe { bindings::ferro_is_image(self.address()) }
    }
}

impl PartialEq for HookRef {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

/// A module being unloaded.
///
/// # Invariants
///
/// The module exists as long as this does.
pub struct Module(NonNull<bindings::module>);

impl Module {
    /// # Safety
    ///
    /// `module` exists as long as the result is used.
    pub unsafe fn new(module: NonNull<bindings::module>) -> Self {
        // INVARIANT: By the rules of this function.
        Self(module)
    }

    /// Returns true if an address is in the module's code or data.
    pub fn contains(&self, address: usize) -> bool {
        // SAFETY: By the type invariant.
        unsafe { bindings::ferro_within_module(address, self.0.as_ptr()) }
    }
}

/// Returns false if enough refusals have been logged for now. Context: any.
pub fn may_tell() -> bool {
    // SAFETY: No requirement.
    unsafe { bindings::ferro_hook_may_tell() }
}

/// Returns true if an address is in a module being unloaded, even before its exit function
/// runs.
///
/// A registry refuses objects with code there: the module's notifiers may have searched for them
/// already. The registry asks with the lock held under which its notifier searches. So either the
/// notifier finds the registered object, or this is true. Context: any.
pub fn is_going(address: usize) -> bool {
    // SAFETY: No requirement.
    unsafe { bindings::ferro_is_going(address) }
}

/// Name of a module; empty for the kernel itself.
pub struct ModuleName([u8; MODULE_NAME_LEN]);

const MODULE_NAME_LEN: usize = bindings::FERRO_MODULE_NAME_LEN as usize;

impl ModuleName {
    /// Returns the name of the module that contains an address.
    pub fn of(address: usize) -> Self {
        let mut name = [0; MODULE_NAME_LEN];
        // SAFETY: The buffer is as long as such a name can be.
        unsafe { bindings::ferro_module_name_of(address, name.as_mut_ptr().cast()) };
        Self(name)
    }

    /// Returns the name as shown to users.
    pub fn as_str(&self) -> &str {
        match CStr::from_bytes_until_nul(&self.0).map(CStr::to_str) {
            Ok(Ok("")) | Ok(Err(_)) | Err(_) => "-",
            Ok(Ok(name)) => name,
        }
    }
}

/// Returns true if a function can be called as long as its module is loaded.
pub fn is_lasting_text(address: usize) -> bool {
    // SAFETY: No requirement.
    unsafe { bindings::ferro_is_lasting_text(address) }
}

/// Schedules the registry's reaper, which looks after a delay for exits that no CPU runs. Context:
/// any except NMI.
pub fn reap_later() {
    // SAFETY: No requirement.
    unsafe { bindings::ferro_hook_reap_later() };
}

/// Schedules the registry's search for exits that have disarmed themselves. Context: any, NMI
/// included.
pub fn remove_self_disarmed_later() {
    // SAFETY: No requirement.
    unsafe { bindings::ferro_hook_remove_self_disarmed_later() };
}

/// Target of a hook's site.
#[derive(Clone)]
pub enum Target {
    /// An empty function.
    Idle,
    /// One exit.
    Exit(Arc<Exit>),
    /// Several exits.
    Chain(Arc<Chain>),
}

impl Target {
    fn as_ptr(&self) -> *const bindings::gkh_exit {
        match self {
            Self::Idle => &raw const bindings::gkh_idle,
            Self::Exit(exit) => exit.as_ptr(),
            Self::Chain(chain) => chain.as_ptr(),
        }
    }
}

/// The right to set the target of a hook.
///
/// # Invariants
///
/// The hook's `armed` is the pointer of `target`.
pub struct Publisher {
    hook: HookRef,
    readers: Readers,
    target: Target,
}

impl Publisher {
    /// Takes over the hook.
    ///
    /// # Safety
    ///
    /// This hook has no other `Publisher`, and its site exists as long as this does.
    ///
    /// # Errors
    ///
    /// -ENOMEM.
    pub unsafe fn new(hook: HookRef) -> Result<Self> {
        let mut publisher = Self {
            hook,
            readers: Readers::new(hook.context())?,
            target: Target::Idle,
        };
        publisher.store();
        Ok(publisher)
    }

    /// Returns the readers of the hook.
    pub fn readers(&self) -> &Readers {
        &self.readers
    }

    /// Returns the hook.
    pub fn hook(&self) -> HookRef {
        self.hook
    }

    /// Returns the hook, borrowed from this.
    pub fn hook_ref(&self) -> &HookRef {
        &self.hook
    }

    fn store(&mut self) {
        // SAFETY: The hook exists by the invariant of its type, and no other code writes this word;
        // sites load it in one instruction. On x86 the store follows those that made the target.
        unsafe {
            let armed = &raw mut (*self.hook.0.as_ptr()).armed;
            crate::sync::shared_word::store_release(armed, self.target.as_ptr());
        }
    }

    /// Makes the site call another target, or none. The change is in effect when this returns. The
    /// former target may be called until the retire list has waited.
    ///
    /// Context: process; sleeps. Errors: -ENOMEM, without a change, if `retire_list` has no room.
    pub fn publish(&mut self, target: Target, retire_list: &mut RetireList) -> Result {
        if !retire_list.has_room() {
            return Err(ENOMEM);
        }
        let active = !matches!(target, Target::Idle);
        let was_active = !matches!(self.target, Target::Idle);
        // INVARIANT: Stored in the next line.
        let old = core::mem::replace(&mut self.target, target);
        self.store();
        if !matches!(old, Target::Idle) {
            retire_list.push(old)?;
            retire_list.add_readers(&self.readers)?;
        }
        if active != was_active {
            // SAFETY: By the invariant of `HookRef`.
            unsafe { bindings::ferro_hook_activate(self.hook.0.as_ptr(), active) };
        }
        Ok(())
    }
}
