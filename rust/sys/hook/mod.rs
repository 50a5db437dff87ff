// SPDX-License-Identifier: GPL-2.0

//! How hooks call exits: the mechanics under the hook registry.
//!
//! A hook's site calls whatever its [`Publisher`] has published, through the first word of it: nothing in
//! particular ([`Target::Idle`]), one exit, or a [`Chain`] of them. What a publisher takes back is still
//! being called for a while, so it goes to a [`RetireList`], which waits before it drops it.
//!
//! Contexts: dispatching wherever the hook is, NMI included; all else in process context.

use core::ptr::NonNull;

use kernel::bindings;
use kernel::prelude::*;
use kernel::sync::Arc;

mod chain;
mod deferred_release;
mod dispatch_tracker;
mod exit;
pub mod points;
mod site;
pub mod typed;

pub use chain::Chain;
pub use chain::Switch;
pub use deferred_release::Note;
pub use dispatch_tracker::can_wait;
pub use dispatch_tracker::wait_for_exits;
pub use dispatch_tracker::Readers;
pub use dispatch_tracker::RetireList;
pub use dispatch_tracker::Unquiet;
pub use exit::disarm_self;
pub use exit::AtRest;
pub use exit::Condition;
pub use exit::Counters;
pub use exit::Exit;
pub use exit::ExitFn;
pub use exit::Parts;
pub use site::count_of;
pub use site::Hook;

/// Parameters a hook can have.
pub const PARAMS_MAX: usize = bindings::GKH_PARAMS_MAX as usize;

/// Where a hook may fire: `enum gkh_context`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Context {
    /// In process context, where one may sleep.
    Sleep,
    /// Anywhere.
    Task,
    /// Where nothing is preempted.
    Atomic,
}

/// A `struct gkhook`.
///
/// # Invariants
///
/// The pointer is to a hook that stays where it is and whose description does not change, as long as anybody
/// uses this.
#[derive(Clone, Copy)]
pub struct HookRef(NonNull<bindings::gkhook>);

// SAFETY: The description does not change; what does is only touched through a `Publisher`.
unsafe impl Send for HookRef {}
// SAFETY: What several tasks read through it at once, the description, does not change.
unsafe impl Sync for HookRef {}

impl HookRef {
    /// # Safety
    ///
    /// `hook` comes from `DEFINE_GKHOOK()` or `Hook`, and neither moves nor goes as long as the result or a
    /// copy of it is used.
    pub unsafe fn new(hook: NonNull<bindings::gkhook>) -> Self {
        // INVARIANT: By the rules of this function.
        Self(hook)
    }

    fn get(&self) -> &bindings::gkhook {
        // SAFETY: By the type invariant; the key and `armed` are not looked at through this.
        unsafe { self.0.as_ref() }
    }

    /// Where it is.
    pub fn address(self) -> usize {
        self.0.as_ptr().addr()
    }

    /// Its name, if it has one.
    pub fn name(&self) -> Option<&CStr> {
        // SAFETY: By the type invariant a string, or NULL.
        (!self.get().name.is_null()).then(|| unsafe { CStr::from_char_ptr(self.get().name) })
    }

    /// The names of its parameters.
    pub fn params(&self) -> &CStr {
        match self.get().params.is_null() {
            true => c"",
            // SAFETY: By the type invariant a string.
            false => unsafe { CStr::from_char_ptr(self.get().params) },
        }
    }

    /// How many parameters it has.
    pub fn count(self) -> u32 {
        u32::from(self.get().count)
    }

    /// Whether exits get the addresses of the parameters.
    pub fn is_modifiable(self) -> bool {
        u32::from(self.get().access) & bindings::gkh_access_GKH_RW != 0
    }

    /// Whether an exit can make the function return.
    pub fn has_return(self) -> bool {
        u32::from(self.get().access) & bindings::gkh_access_GKH_RO_RET != 0
    }

    /// Where it fires.
    pub fn context(self) -> Context {
        match u32::from(self.get().context) {
            bindings::gkh_context_GKH_SLEEP => Context::Sleep,
            bindings::gkh_context_GKH_ATOMIC => Context::Atomic,
            _ => Context::Task,
        }
    }

    /// Whether it describes itself as hooks do: a known context, a number of parameters that can be passed.
    pub fn is_sound(self) -> bool {
        let hook = self.get();
        let room = PARAMS_MAX - usize::from(self.has_return());
        u32::from(hook.context) <= bindings::gkh_context_GKH_ATOMIC
            && u32::from(hook.access) <= bindings::gkh_access_GKH_RW_RET
            && usize::from(hook.count) <= room
    }

    /// Whether only one exit can be registered.
    pub fn is_exclusive(self) -> bool {
        u32::from(self.get().flags) & bindings::gkh_hook_flags_GKH_EXCLUSIVE != 0
    }

    /// Whether an exit can have the other CPUs stopped.
    pub fn can_stop(self) -> bool {
        let no = u32::from(self.get().flags) & bindings::gkh_hook_flags_GKH_NO_STOP != 0;
        self.context() == Context::Sleep && !no
    }

    /// How many sites the kernel and its modules have of this hook. `None`: nobody knows.
    pub fn sites(self) -> Option<usize> {
        // SAFETY: By the type invariant.
        let sites = unsafe { bindings::ferro_hook_sites(self.0.as_ptr()) };
        usize::try_from(sites).ok()
    }

    /// Whether it is a static of the kernel or of a module.
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

/// A module that goes.
///
/// # Invariants
///
/// The module is there as long as this is.
pub struct Module(NonNull<bindings::module>);

impl Module {
    /// # Safety
    ///
    /// `module` is there as long as the result is used.
    pub unsafe fn new(module: NonNull<bindings::module>) -> Self {
        // INVARIANT: By the rules of this function.
        Self(module)
    }

    /// Whether an address is in its code or data.
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

/// Returns true if an address is in a module that is being unloaded, from before its exit function
/// on.
///
/// A registry refuses what has code there: the module's notifiers may have looked for it already.
/// The registry asks with the lock held under which its notifier looks, so that either the notifier
/// finds what is registered or this is true. Context: any.
pub fn is_going(address: usize) -> bool {
    // SAFETY: No requirement.
    unsafe { bindings::ferro_is_going(address) }
}

/// The name of a module, or nothing for the kernel itself.
pub struct ModuleName([u8; MODULE_NAME_LEN]);

const MODULE_NAME_LEN: usize = bindings::FERRO_MODULE_NAME_LEN as usize;

impl ModuleName {
    /// That of the module which an address is in.
    pub fn of(address: usize) -> Self {
        let mut name = [0; MODULE_NAME_LEN];
        // SAFETY: The buffer is as long as such a name can be.
        unsafe { bindings::ferro_module_name_of(address, name.as_mut_ptr().cast()) };
        Self(name)
    }

    /// As it is shown.
    pub fn as_str(&self) -> &str {
        match CStr::from_bytes_until_nul(&self.0).map(CStr::to_str) {
            Ok(Ok("")) | Ok(Err(_)) | Err(_) => "-",
            Ok(Ok(name)) => name,
        }
    }
}

/// Whether a function can be called as long as its module is loaded.
pub fn is_lasting_text(address: usize) -> bool {
    // SAFETY: No requirement.
    unsafe { bindings::ferro_is_lasting_text(address) }
}

/// Has the registry look after a while for what nobody is in any more. Context: any but NMIs.
pub fn settle_later() {
    // SAFETY: No requirement.
    unsafe { bindings::ferro_hook_settle_later() };
}

/// Has the registry look soon for exits that have disarmed themselves. Context: any, NMI included.
pub fn tidy_later() {
    // SAFETY: No requirement.
    unsafe { bindings::ferro_hook_tidy_later() };
}

/// What a hook's site calls.
#[derive(Clone)]
pub enum Target {
    /// Nothing.
    Idle,
    /// One exit.
    Exit(Arc<Exit>),
    /// Several.
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

/// The right to say what a hook calls.
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
    /// Takes the hook over.
    ///
    /// # Safety
    ///
    /// There is no other `Publisher` of this hook, and its site stays as long as this is there.
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

    /// Where its dispatches are.
    pub fn readers(&self) -> &Readers {
        &self.readers
    }

    /// The hook.
    pub fn hook(&self) -> HookRef {
        self.hook
    }

    /// The hook, as long as this has it.
    pub fn hook_ref(&self) -> &HookRef {
        &self.hook
    }

    fn store(&mut self) {
        // SAFETY: The hook is there by the invariant of its type, and nobody else writes this word; sites
        // load it in one instruction. On x86 the store comes after those that made the target.
        unsafe {
            let armed = &raw mut (*self.hook.0.as_ptr()).armed;
            crate::sync::shared_word::store_release(armed, self.target.as_ptr());
        }
    }

    /// Has the site call something else, or nothing. It does when this returns; the former target is
    /// still being called until the graveyard has waited.
    ///
    /// Context: process; sleeps. `grave` must have room, else nothing changes: -ENOMEM.
    pub fn publish(&mut self, target: Target, grave: &mut RetireList) -> Result {
        if !grave.has_room() {
            return Err(ENOMEM);
        }
        let active = !matches!(target, Target::Idle);
        let was_active = !matches!(self.target, Target::Idle);
        // INVARIANT: Stored in the next line.
        let old = core::mem::replace(&mut self.target, target);
        self.store();
        if !matches!(old, Target::Idle) {
            grave.push(old)?;
            grave.note(&self.readers)?;
        }
        if active != was_active {
            // SAFETY: By the invariant of `HookRef`.
            unsafe { bindings::ferro_hook_activate(self.hook.0.as_ptr(), active) };
        }
        Ok(())
    }
}
