// SPDX-License-Identifier: GPL-2.0

//! The functions of `<linux/gkhi.h>`, and what C calls of the registry.
//!
//! Contexts: process, but [`gkh_disarm_self`] anywhere.

use core::panic::Location;
use core::ptr::NonNull;

use ferro_core::hooks::Op;
use ferro_core::hooks::Priority;
use ferro_sys::hook;
use ferro_sys::hook::typed;
use ferro_sys::hook::typed::Answer;
use ferro_sys::hook::typed::Call;
use ferro_sys::hook::typed::Entry;
use ferro_sys::hook::typed::ExitOn;
use ferro_sys::hook::typed::Spec;
use ferro_sys::hook::Condition;
use ferro_sys::hook::HookRef;
use ferro_sys::hook::Module;
use ferro_sys::hook::Note;
use ferro_sys::hook::Parts;
use ferro_sys::hook::Site;
use ferro_sys::sync::mutex::StaticGuard;
use ferro_sys::sync::mutex::StaticMutex;
use kernel::bindings;
use kernel::ffi::c_int;
use kernel::prelude::*;

use crate::error::Error;
use crate::exit::code_at;
use crate::exit::Builder;
use crate::exit::Registered;
use crate::registry;
use crate::registry::ExitId;
use crate::registry::Handle;
use crate::registry::NewExit;
use crate::registry::Registry;

/// The registry's lock. It is usable before any initcall.
pub(crate) fn lock() -> StaticGuard<Option<Registry>> {
    static REGISTRY: StaticMutex<Option<Registry>> =
        // SAFETY: A mutex from DEFINE_MUTEX(), for nothing else.
        unsafe { StaticMutex::new(&raw mut bindings::ferro_hook_lock, None) };
    REGISTRY.lock()
}

/// The lock that is held while files in debugfs appear and vanish.
pub(crate) fn lock_files() -> StaticGuard<()> {
    static FILES: StaticMutex<()> =
        // SAFETY: As above.
        unsafe { StaticMutex::new(&raw mut bindings::ferro_hook_files_lock, ()) };
    FILES.lock()
}

/// The calling side of a hook that is not in the registry yet.
pub(crate) fn site_of(hook: HookRef) -> Result<Site> {
    // SAFETY: Only `registry::identify()` calls this, with the registry locked and once for each hook that is in
    // it; and a hook is taken out of it before it goes.
    unsafe { Site::new(hook) }
}

/// What the registry needs to call an exit in Rust.
pub(crate) fn parts_of<H: Spec, C: Entry, E: ExitOn<H, C>>(exit: &KBox<E>) -> Parts {
    // SAFETY: What is in a box stays where it is; `Builder`, which alone calls this, gives the box to the registry, which
    // drops it when it has deregistered the exit and no call of it is left. It compares the description with the hook's.
    unsafe { typed::parts_of::<H, C, E>(exit) }
}

impl<H: Spec, C: Entry> Builder<'_, H, C> {
    /// Registers the exit of an engine, on a hook where an exit can break the kernel. It is pinned, as by
    /// [`Builder::pinned`].
    ///
    /// Context and errors: as for [`Builder::register`].
    ///
    /// # Safety
    ///
    /// The exit keeps what `<linux/gkhi_points.h>` says of the hook: it says of nothing that it is dealt with that is not.
    /// It does not sleep, and neither drops nor disarms itself. If the hook is a trap, nothing that the exit calls prints, or
    /// meets such a trap that this exit does not end at once.
    #[track_caller]
    pub unsafe fn register_engine<F>(self, exit: F) -> Result<Registered<H, C>, Error>
    where
        F: for<'a, 'b> Fn(&Call<'a, H, C>, H::Args<'b>) -> Answer<H::Return>,
        F: Send + Sync + 'static,
    {
        self.pinned()
            .register_from(exit, code_at(Location::caller()))
    }
}

fn errno(result: Result<(), Error>) -> c_int {
    result.map_or_else(|e| kernel::error::Error::from(e).to_errno(), |()| 0)
}

/// # Safety
///
/// `record` is NULL or a record, as the header describes it.
#[export]
unsafe extern "C" fn gkh_register(record: *mut bindings::gkh_record) -> c_int {
    // SAFETY: By the rules of this function.
    errno(unsafe { register(record) }.map(|id| {
        // SAFETY: It is not NULL, or it would not have been registered. The field is the registry's.
        unsafe { (*record).id = id.number() };
    }))
}

/// # Safety
///
/// As for [`gkh_register`].
unsafe fn register(pointer: *mut bindings::gkh_record) -> Result<ExitId, Error> {
    if pointer.is_null() {
        return Err(Error::Missing);
    }
    // SAFETY: By the rules of this function.
    let record = unsafe { pointer.read() };
    let function = record.exit.ok_or(Error::Missing)?;
    if record.hook.is_null() || record.name.is_null() {
        return Err(Error::Missing);
    }
    let (priority, condition) = flags_of(record.flags & !PINNED).ok_or(Error::BadFlags)?;
    // SAFETY: By the rules of this function it is a string.
    let hook = unsafe { CStr::from_char_ptr(record.hook) };
    // SAFETY: As above.
    let name = unsafe { CStr::from_char_ptr(record.name) };
    // SAFETY: By the rules of this function the registry may call it until the record is deregistered, for
    // which it waits.
    let mut parts = unsafe { Parts::new(function, condition, record.data, pointer) };
    if record.flags & PINNED != 0 {
        parts.pin();
    }
    registry::register(&NewExit {
        hook,
        name,
        priority,
        params: record.params,
        origin: parts.address(),
        parts,
        shape: None,
    })
}

const PINNED: u32 = bindings::gkh_record_flags_GKH_PINNED;

fn flags_of(flags: u32) -> Option<(Priority, Condition)> {
    const FIRST: u32 = bindings::gkh_record_flags_GKH_FIRST;
    const LAST: u32 = bindings::gkh_record_flags_GKH_LAST;
    const ONLY: u32 = bindings::gkh_record_flags_GKH_ONLY;
    const LIFO: u32 = bindings::gkh_record_flags_GKH_LIFO;
    const IRQS_OFF: u32 = bindings::gkh_record_flags_GKH_IRQS_OFF;
    const STOPPED: u32 = bindings::gkh_record_flags_GKH_CPUS_STOPPED;
    let priority = match flags & (ONLY | LIFO) {
        0 => Priority::Unspecified,
        LIFO => Priority::UnspecifiedLifo,
        FIRST => Priority::First,
        LAST => Priority::Last,
        ONLY => Priority::Only,
        _ => return None,
    };
    let condition = match flags & !(ONLY | LIFO) {
        0 => Condition::None,
        IRQS_OFF => Condition::IrqsOff,
        // With the CPUs stopped, interrupts are off.
        STOPPED => Condition::CpusStopped,
        both if both == IRQS_OFF | STOPPED => Condition::CpusStopped,
        _ => return None,
    };
    Some((priority, condition))
}

/// # Safety
///
/// `list` is NULL or the first of a list of records, as the header describes it.
unsafe fn apply(op: Op, list: *mut bindings::gkh_record) -> Result<(), Error> {
    let mut handles = KVec::new();
    let mut next = NonNull::new(list);
    if next.is_none() {
        return Err(Error::Missing);
    }
    let limit = registry::count();
    while let Some(record) = next {
        // SAFETY: By the rules of this function.
        let (id, following) = unsafe { (record.as_ref().id, record.as_ref().next) };
        if id == 0 {
            return Err(Error::Unregistered);
        }
        // There are not so many registered ones.
        if handles.len() > limit {
            return Err(Error::Endless);
        }
        let record = record.as_ptr().addr();
        handles.push(Handle { id, record }, GFP_KERNEL)?;
        next = NonNull::new(following);
    }
    registry::apply(op, &handles)?;
    if op == Op::Deregister {
        let mut next = NonNull::new(list);
        while let Some(mut record) = next {
            // SAFETY: By the rules of this function; it was walked before.
            let record = unsafe { record.as_mut() };
            record.id = 0;
            next = NonNull::new(record.next);
        }
    }
    Ok(())
}

/// # Safety
///
/// As for [`apply`].
#[export]
unsafe extern "C" fn gkh_arm(list: *mut bindings::gkh_record) -> c_int {
    // SAFETY: By the rules of this function.
    errno(unsafe { apply(Op::Arm, list) })
}

/// # Safety
///
/// As for [`apply`].
#[export]
unsafe extern "C" fn gkh_disarm(list: *mut bindings::gkh_record) -> c_int {
    // SAFETY: By the rules of this function.
    errno(unsafe { apply(Op::Disarm, list) })
}

/// # Safety
///
/// As for [`apply`].
#[export]
unsafe extern "C" fn gkh_deregister(list: *mut bindings::gkh_record) -> c_int {
    // SAFETY: By the rules of this function.
    errno(unsafe { apply(Op::Deregister, list) })
}

/// # Safety
///
/// `hook` is NULL, or from DEFINE_GKHOOK() and keeps the rules of the header.
#[export]
unsafe extern "C" fn gkh_identify(hook: *mut bindings::gkhook) -> c_int {
    // SAFETY: By the rules of this function; when its module goes the registry forgets it before.
    let hook = NonNull::new(hook).map(|hook| unsafe { HookRef::new(hook) });
    errno(
        hook.ok_or(Error::Missing)
            .and_then(|hook| registry::identify(hook, false).map(|_| ())),
    )
}

/// # Safety
///
/// As for [`gkh_identify`].
#[export]
unsafe extern "C" fn gkh_delete(hook: *mut bindings::gkhook) -> c_int {
    // SAFETY: By the rules of this function.
    let hook = NonNull::new(hook).map(|hook| unsafe { HookRef::new(hook) });
    errno(hook.ok_or(Error::Missing).and_then(registry::delete))
}

/// # Safety
///
/// `exit` is what the exit was called with that calls this.
#[export]
#[link_section = ".kprobes.text"]
unsafe extern "C" fn gkh_disarm_self(exit: *const bindings::gkh_exit) -> bool {
    // SAFETY: By the rules of this function.
    unsafe { hook::disarm_self(exit) }
}

/// # Safety
///
/// `record` is NULL or a record.
#[export]
unsafe extern "C" fn gkh_is_armed(record: *const bindings::gkh_record) -> bool {
    if record.is_null() {
        return false;
    }
    // SAFETY: By the rules of this function.
    let id = unsafe { (*record).id };
    let record = record.addr();
    registry::is_armed(Handle { id, record })
}

/// For `rust/sys/hook/hook.c`.
#[export]
extern "C" fn ferro_hook_tidy() {
    registry::tidy();
}

/// # Safety
///
/// `note` has been deferred, and is not used otherwise. For `rust/sys/hook/hook.c`.
#[export]
unsafe extern "C" fn ferro_hook_late(note: *mut bindings::ferro_hook_note) {
    if let Some(note) = NonNull::new(note) {
        // SAFETY: By the rules of this function.
        registry::finish(unsafe { Note::of(note) });
    }
}

/// For `rust/sys/hook/hook.c`.
#[export]
extern "C" fn ferro_hook_settle() {
    registry::settle();
}

/// For `rust/sys/hook/hook.c`.
#[export]
extern "C" fn ferro_hook_debugfs() {
    registry::make_files();
}

/// # Safety
///
/// `module` is going.
#[export]
unsafe extern "C" fn ferro_hook_module_going(module: *const bindings::module) {
    if let Some(module) = NonNull::new(module.cast_mut()) {
        // SAFETY: It is there during this call.
        registry::module_going(unsafe { &Module::new(module) });
    }
}
