// SPDX-License-Identifier: GPL-2.0

//! Functions of `<linux/gkhi.h>`, and the entry points of `hook.c` into the registry.
//!
//! Contexts: process; [`gkh_disarm_self`]: any.

use core::ptr::NonNull;

use ferro_gkhi_core::Op;
use ferro_gkhi_core::Priority;
use ferro_sys::bindings;
use ferro_sys::hook;
use ferro_sys::hook::Condition;
use ferro_sys::hook::DeferredRelease;
use ferro_sys::hook::HookRef;
use ferro_sys::hook::Module;
use ferro_sys::hook::Parts;
use kernel::ffi::c_int;
use kernel::prelude::*;

use crate::debugfs;
use crate::entries::Handle;
use crate::error::check_context;
use crate::error::Error;
use crate::hook_registration;
use crate::raw::ExitId;
use crate::reaper;
use crate::register;
use crate::register::NewExit;
use crate::registry;
use crate::transaction;
use crate::unregister;

fn errno(result: Result<(), Error>) -> c_int {
    result.map_or_else(|e| kernel::error::Error::from(e).to_errno(), |()| 0)
}

/// Registers an exit: `<linux/gkhi.h>`.
///
/// # Safety
///
/// `record` is NULL or a record, as the header describes it.
#[no_mangle]
unsafe extern "C" fn gkh_register(record: *mut bindings::gkh_record) -> c_int {
    // SAFETY: By the rules of this function.
    errno(unsafe { register(record) }.map(|id| {
        // SAFETY: `register()` has refused NULL, so this is a record. Only the registry uses the
        // field.
        unsafe { (*record).id = id.0 };
    }))
}

/// Registers the exit that a record describes.
///
/// # Safety
///
/// As for [`gkh_register`].
unsafe fn register(pointer: *mut bindings::gkh_record) -> Result<ExitId, Error> {
    if pointer.is_null() {
        return Err(Error::Missing);
    }
    // SAFETY: The pointer is not NULL, so the caller guarantees a record; C code does not change it
    // during this call.
    let record = unsafe { pointer.read() };
    let function = record.exit.ok_or(Error::Missing)?;
    if record.hook.is_null() || record.name.is_null() {
        return Err(Error::Missing);
    }
    // SAFETY: The pointer is not NULL. By the header, which the caller of this function follows, it
    // is a string.
    let hook = unsafe { CStr::from_char_ptr(record.hook) };
    // SAFETY: The pointer is not NULL. By the header this is a string, too.
    let name = unsafe { CStr::from_char_ptr(record.name) };
    let flags = flags_of(record.flags & !PINNED).ok_or(Error::BadFlags);
    let (priority, condition) = flags.inspect_err(|error| error.log_refusal(hook, Some(name)))?;
    // SAFETY: By the rules of this function the registry may call the function until the record is
    // deregistered, which waits for the calls.
    let mut parts = unsafe { Parts::new(function, condition, record.data, pointer) };
    if record.flags & PINNED != 0 {
        parts.pin(true);
    }
    let (id, _) = register::register(&NewExit {
        hook,
        name,
        priority,
        params: record.params,
        origin: parts.address(),
        parts,
        shape: None,
    })?;
    Ok(id)
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

/// Arms, disarms or deregisters the exits of a list.
///
/// # Safety
///
/// `list` is NULL or the first of a list of records, as the header describes it.
unsafe fn apply(op: Op, list: *mut bindings::gkh_record) -> Result<(), Error> {
    let mut handles = KVec::new();
    let mut next = NonNull::new(list);
    if next.is_none() {
        return Err(Error::Missing);
    }
    // Before the lock of the registry is taken.
    check_context()?;
    let limit = registry::count();
    while let Some(record) = next {
        // SAFETY: The pointer is not NULL, so it is a record of the list that the caller
        // guarantees. It exists until it has been deregistered, and other code only reads it.
        let (id, following) = unsafe { (record.as_ref().id, record.as_ref().next) };
        if id == 0 {
            return Err(Error::Unregistered);
        }
        // The list has more records than exits are registered.
        if handles.len() > limit {
            return Err(Error::Endless);
        }
        let record = record.as_ptr().addr();
        handles.push(Handle { id, record }, GFP_KERNEL)?;
        next = NonNull::new(following);
    }
    transaction::apply(op, &handles)?;
    if op == Op::Deregister {
        let mut next = NonNull::new(list);
        while let Some(mut record) = next {
            // SAFETY: The record is in the list that was walked above, and the caller owns these
            // records during this call. The registry has deregistered it, so no other code uses it.
            let record = unsafe { record.as_mut() };
            record.id = 0;
            next = NonNull::new(record.next);
        }
    }
    Ok(())
}

/// Arms the exits of a list, all in one step: `<linux/gkhi.h>`.
///
/// # Safety
///
/// As for [`apply`].
#[no_mangle]
unsafe extern "C" fn gkh_arm(list: *mut bindings::gkh_record) -> c_int {
    // SAFETY: By the rules of this function.
    errno(unsafe { apply(Op::Arm, list) })
}

/// Disarms the exits of a list, all in one step: `<linux/gkhi.h>`.
///
/// # Safety
///
/// As for [`apply`].
#[no_mangle]
unsafe extern "C" fn gkh_disarm(list: *mut bindings::gkh_record) -> c_int {
    // SAFETY: By the rules of this function.
    errno(unsafe { apply(Op::Disarm, list) })
}

/// Deregisters the exits of a list: `<linux/gkhi.h>`.
///
/// # Safety
///
/// As for [`apply`].
#[no_mangle]
unsafe extern "C" fn gkh_deregister(list: *mut bindings::gkh_record) -> c_int {
    // SAFETY: By the rules of this function.
    errno(unsafe { apply(Op::Deregister, list) })
}

/// Registers a hook: `<linux/gkhi.h>`.
///
/// # Safety
///
/// `hook` is NULL, or from DEFINE_GKHOOK() and keeps the rules of the header.
#[no_mangle]
unsafe extern "C" fn gkh_identify(hook: *mut bindings::gkhook) -> c_int {
    // SAFETY: The caller guarantees a hook from DEFINE_GKHOOK(), a static whose description does
    // not change. The registry forgets it before its module is freed (`ferro_hook_module_going()`).
    let hook = NonNull::new(hook).map(|hook| unsafe { HookRef::new(hook) });
    errno(
        hook.ok_or(Error::Missing)
            .and_then(|hook| hook_registration::register_hook(hook, false).map(|_| ())),
    )
}

/// Deletes a hook: `<linux/gkhi.h>`.
///
/// # Safety
///
/// As for [`gkh_identify`].
#[no_mangle]
unsafe extern "C" fn gkh_delete(hook: *mut bindings::gkhook) -> c_int {
    // SAFETY: The caller guarantees a hook from DEFINE_GKHOOK(), a static that exists during this
    // call; this reference is dropped at its end.
    let hook = NonNull::new(hook).map(|hook| unsafe { HookRef::new(hook) });
    errno(
        hook.ok_or(Error::Missing)
            .and_then(hook_registration::delete),
    )
}

/// Disarms the calling exit: `<linux/gkhi.h>`.
///
/// # Safety
///
/// `exit` is the argument with which the calling exit was called.
#[no_mangle]
#[link_section = ".kprobes.text"]
unsafe extern "C" fn gkh_disarm_self(exit: *const bindings::gkh_exit) -> bool {
    // SAFETY: By the rules of this function.
    unsafe { hook::disarm_self(exit) }
}

/// Returns true if an exit is armed: `<linux/gkhi.h>`.
///
/// # Safety
///
/// `record` is NULL or a record.
#[no_mangle]
unsafe extern "C" fn gkh_is_armed(record: *const bindings::gkh_record) -> bool {
    if record.is_null() {
        return false;
    }
    // SAFETY: The pointer is not NULL, so the caller guarantees a record.
    let id = unsafe { (*record).id };
    let record = record.addr();
    registry::is_armed(Handle { id, record })
}

/// Removes exits that have disarmed themselves from their hooks. Called by `rust/sys/hook/hook.c`.
///
/// # Safety
///
/// No requirement.
#[no_mangle]
unsafe extern "C" fn ferro_hook_remove_self_disarmed() {
    transaction::remove_self_disarmed();
}

/// Runs a deferred release.
///
/// # Safety
///
/// `release` has been deferred and has no other user. Called by `rust/sys/hook/hook.c`.
#[no_mangle]
unsafe extern "C" fn ferro_hook_run_release(release: *mut bindings::ferro_hook_release) {
    if let Some(release) = NonNull::new(release) {
        // SAFETY: By the rules of this function.
        unregister::release_or_defer(unsafe { DeferredRelease::of(release) });
    }
}

/// Runs the reaper. Called by `rust/sys/hook/hook.c`.
///
/// # Safety
///
/// No requirement.
#[no_mangle]
unsafe extern "C" fn ferro_hook_reap() {
    reaper::reap();
}

/// Creates the debugfs files. Called by `rust/sys/hook/hook.c`.
///
/// # Safety
///
/// No requirement.
#[no_mangle]
unsafe extern "C" fn ferro_hook_debugfs() {
    debugfs::make_files();
}

/// Frees the empty registry and its debugfs files. The module `ferrotrace_core` calls it when it is
/// unloaded; an image never does.
///
/// # Safety
///
/// None; called by `rust/sys/hook/hook.c`.
#[no_mangle]
unsafe extern "C" fn ferro_hook_free_registry() {
    registry::free();
}

/// Removes hooks and exits of a module being unloaded.
///
/// # Safety
///
/// `module` is being unloaded.
#[no_mangle]
unsafe extern "C" fn ferro_hook_module_going(module: *const bindings::module) {
    if let Some(module) = NonNull::new(module.cast_mut()) {
        // SAFETY: The module notifier passes a module being unloaded, which is not freed before
        // this function has returned.
        unregister::module_going(unsafe { &Module::new(module) });
    }
}

/// Returns true if a call of an exit of the module is running.
///
/// # Safety
///
/// `module` exists during this call. Called by `rust/sys/hook/hook.c`.
#[no_mangle]
unsafe extern "C" fn ferro_hook_is_called_of(module: *const bindings::module) -> bool {
    let module = NonNull::new(module.cast_mut());
    // SAFETY: By the rules of this function.
    module.is_some_and(|module| unregister::is_called_of(&unsafe { Module::new(module) }))
}

ferro_sys::declared_in_c!(
    gkh_register,
    gkh_arm,
    gkh_disarm,
    gkh_deregister,
    gkh_identify,
    gkh_delete,
    gkh_disarm_self,
    gkh_is_armed,
    ferro_hook_remove_self_disarmed,
    ferro_hook_run_release,
    ferro_hook_reap,
    ferro_hook_debugfs,
    ferro_hook_free_registry,
    ferro_hook_module_going,
    ferro_hook_is_called_of,
);
