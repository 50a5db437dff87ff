// SPDX-License-Identifier: GPL-2.0

//! C entry points: the functions of `<linux/kprobes.h>`, and the functions that `engine.c`,
//! `post_trampoline.S`, `optprobe_template.S` and `builtin.c` call. No other file imports this.
//!
//! Contexts: process, may sleep, for the clients' functions; trap for `post_trampoline.S`.

use core::ptr::null_mut;

use crate::raw::kprobe::FaultHandler;
use crate::raw::kprobe::Kprobe;
use ferro_kprobes_builtin::raw::kretprobe::Kretprobe;
use ferro_sys::bindings;
use ferro_sys::code::regs::Regs;
use ferro_sys::code::symbols::Shown;
use ferro_sys::cpu::preempt::PreemptOff;
use kernel::ffi::c_char;
use kernel::ffi::c_int;
use kernel::ffi::c_uint;
use kernel::ffi::c_ulong;
use kernel::ffi::c_void;
use kernel::prelude::*;

use crate::error::Error;
use crate::hit;
use crate::kretprobe;
use crate::probe_address;
use crate::raw::grace_period::TasksPeriod;
use crate::raw::lookup::Found;
use crate::raw::probe_point::Point;
use crate::raw::trap_frame::Trap;
use crate::registration;
use crate::registry;

/// Reaps retired points after a grace period, for `engine.c`. Context: work item.
///
/// # Safety
///
/// `number` is the one that `raw::grace_period` gave, and the grace periods that began then are
/// over.
#[no_mangle]
unsafe extern "C" fn ferro_kprobes_reap(number: c_ulong) {
    // SAFETY: The caller guarantees it.
    registry::reap(&unsafe { TasksPeriod::new(number) });
}

/// Handles the end of an instruction's copy, for `post_trampoline.S`. The word in the place of ss
/// is the return address of the copy's call.
///
/// # Safety
///
/// `regs` are on the caller's stack, around the word that the copy's call has pushed. They belong
/// to this function until it returns, and then the caller resumes with all of them. Interrupts are
/// off.
#[no_mangle]
#[link_section = ".kprobes.text"]
unsafe extern "C" fn ferro_kprobe_posted(regs: *mut bindings::pt_regs) {
    // SAFETY: The caller guarantees valid registers, exclusive to this function. All variants of
    // the union are words of this size.
    let at = unsafe { (*regs).__bindgen_anon_2.ssx } as usize;
    // SAFETY: The caller guarantees valid registers, exclusive to this function, to be written,
    // too.
    unsafe {
        (*regs).__bindgen_anon_2.ssx = u64::from(bindings::__KERNEL_DS);
        // Above the return address.
        (*regs).sp = (*regs).sp.wrapping_add(size_of::<usize>());
    }
    // As in a breakpoint: handlers may ask, and must not wait for locks that they only try there.
    // SAFETY: The function requires that the task stays on this CPU until
    // `ferro_kprobe_post_leave()`, which follows below: the caller guarantees that interrupts are
    // off.
    unsafe { bindings::ferro_kprobe_post_enter() };
    // SAFETY: The caller guarantees a copy's registers, exclusive, with which it resumes after this
    // has returned.
    if let Some(regs) = unsafe { Regs::from_raw(regs) } {
        hit::post_copy_called(at, regs);
    }
    // SAFETY: Ends the section that `ferro_kprobe_post_enter()` has begun, on the same CPU, as
    // interrupts have been off since.
    unsafe { bindings::ferro_kprobe_post_leave() };
}

/// Calls a function with the point and the registers that `optprobe_template.S` passes.
///
/// # Safety
///
/// `point` is the point of the detour that has been entered, and `regs` are on the caller's stack,
/// as [`Trap::in_detour`] requires until this returns.
#[inline(always)]
unsafe fn in_detour<T>(
    point: *const Point,
    regs: *mut bindings::pt_regs,
    f: impl FnOnce(Found<'_, Point>, &mut Trap) -> T,
) -> T {
    let here = PreemptOff::new();
    // SAFETY: A detour has the address of its point. The registry frees the point after every task
    // has left the detour: after a grace period of RCU tasks since the jump was removed.
    let point = Found::known(unsafe { &*point }, &here);
    // SAFETY: The caller guarantees it.
    f(point, unsafe { Trap::in_detour(regs) })
}

/// Handles a hit by a jump to a detour of kind `Instead`, for `optprobe_template.S`.
///
/// # Safety
///
/// As for [`in_detour`], until this returns; then the caller resumes with all of the registers.
#[no_mangle]
#[link_section = ".kprobes.text"]
unsafe extern "C" fn ferro_kprobe_detoured(point: *const Point, regs: *mut bindings::pt_regs) {
    // SAFETY: The caller guarantees it.
    unsafe { in_detour(point, regs, |point, regs| point.detoured(regs)) };
}

/// Counts a hit as missed because another hit's handlers are running, for `optprobe_template.S`.
///
/// # Safety
///
/// As for [`ferro_kprobe_detoured`].
#[no_mangle]
#[link_section = ".kprobes.text"]
unsafe extern "C" fn ferro_kprobe_missed(point: *const Point, regs: *mut bindings::pt_regs) {
    // SAFETY: The caller guarantees it.
    unsafe { in_detour(point, regs, |point, regs| point.missed(regs)) };
}

/// Keeps execution out of the displaced bytes after a handler has changed the instruction pointer,
/// for `optprobe_template.S`.
///
/// # Safety
///
/// As for [`ferro_kprobe_detoured`].
#[no_mangle]
#[link_section = ".kprobes.text"]
unsafe extern "C" fn ferro_kprobe_diverted(point: *const Point, regs: *mut bindings::pt_regs) {
    // SAFETY: The caller guarantees it.
    unsafe { in_detour(point, regs, |point, regs| point.avoid_displaced(regs)) };
}

/// Resumes at the substitute breakpoint because RCU is not watching, for `optprobe_template.S`.
///
/// # Safety
///
/// As for [`ferro_kprobe_detoured`].
#[no_mangle]
#[link_section = ".kprobes.text"]
unsafe extern "C" fn ferro_kprobe_unwatched(point: *const Point, regs: *mut bindings::pt_regs) {
    // SAFETY: The point stays until a grace period of RCU tasks is over, and also a rude one if
    // code that RCU does not watch may be probed. Elsewhere that code is `noinstr`, and no detour
    // is entered from there. The caller guarantees that the registers are there.
    unsafe { (*regs).ip = (*point).substitute.load() };
}

/// Calls the pre-handlers of a point without post-handlers, in place of a single probe's handler,
/// for `engine.c`.
///
/// # Safety
///
/// As for [`in_detour`], until this returns. No other handler is running.
#[no_mangle]
#[link_section = ".kprobes.text"]
unsafe extern "C" fn ferro_kprobe_call_before(
    point: *const Point,
    regs: *mut bindings::pt_regs,
) -> c_int {
    // SAFETY: The caller guarantees it.
    c_int::from(unsafe { in_detour(point, regs, |point, regs| point.call_before(regs)) })
}

/// Calls the pre-handlers of a point with post-handlers, in place of a single probe's handler, for
/// `engine.c`.
///
/// # Safety
///
/// As for [`ferro_kprobe_call_before`].
#[no_mangle]
#[link_section = ".kprobes.text"]
unsafe extern "C" fn ferro_kprobe_call_around(
    point: *const Point,
    regs: *mut bindings::pt_regs,
) -> c_int {
    // SAFETY: The caller guarantees it.
    c_int::from(unsafe { in_detour(point, regs, |point, regs| point.call_around(regs)) })
}

/// Calls the post-handlers, in place of a single probe's handler, for `engine.c`. `at` is the
/// address where the detour continues.
///
/// # Safety
///
/// `regs` are the registers that the detour has saved, which belong to this function until it
/// returns. Preemption is off.
#[no_mangle]
#[link_section = ".kprobes.text"]
unsafe extern "C" fn ferro_kprobe_call_after(at: usize, regs: *mut bindings::pt_regs) {
    // SAFETY: The caller guarantees valid registers, exclusive to this function; only code of the
    // kernel has detours.
    hit::call_after(at, unsafe { Regs::at_site(regs) });
}

/// Runs the optimizer, for `engine.c`. Context: work item.
#[no_mangle]
extern "C" fn ferro_kprobes_optimize() {
    registry::optimize();
}

/// Removes the jumps of unregistered probes, for `engine.c`. Context: a second work item.
#[no_mangle]
extern "C" fn ferro_kprobes_unoptimize_idle() {
    registry::unoptimize_idle();
}

/// Returns true if jump optimization is on, for `engine.c`. Context: process.
#[no_mangle]
extern "C" fn ferro_kprobes_is_optimizing() -> bool {
    registry::is_optimizing()
}

/// Switches jump optimization on or off, for `engine.c`. Context: process.
#[no_mangle]
extern "C" fn ferro_kprobes_set_optimizing(on: bool) {
    registry::set_optimizing(on);
}

/// Collects the clients' structures.
///
/// # Safety
///
/// `kprobes` is NULL, or an array of `count` pointers, each as [`Kprobe::new`] requires it for
/// `'a`.
unsafe fn batch<'a>(
    kprobes: *mut *mut bindings::kprobe,
    count: c_int,
) -> Result<KVVec<Kprobe<'a>>> {
    let count = usize::try_from(count).map_err(|_| EINVAL)?;
    if count == 0 || kprobes.is_null() {
        return Err(EINVAL);
    }
    let mut all = KVVec::with_capacity(count, GFP_KERNEL)?;
    for i in 0..count {
        // SAFETY: Not NULL, as checked above, and `i` is less than `count`; the caller guarantees
        // so many pointers, of such structures.
        let kprobe = unsafe { Kprobe::new(*kprobes.add(i)) };
        all.push(kprobe.ok_or(EINVAL)?, GFP_KERNEL)?;
    }
    Ok(all)
}

fn errno(result: Result) -> c_int {
    result.map_or_else(|e| e.to_errno(), |()| 0)
}

/// Registers a probe: `<linux/kprobes.h>`.
///
/// # Safety
///
/// `kprobe` is NULL, or a structure that stays in its place until this fails or
/// [`unregister_kprobe`] has returned. Its symbol is a string or NULL. Its handlers are functions
/// of their types or NULL. The symbol and the handlers stay as long as the structure.
#[no_mangle]
unsafe extern "C" fn register_kprobe(kprobe: *mut bindings::kprobe) -> c_int {
    let mut kprobe = kprobe;
    // SAFETY: The array is this local, with one pointer; the caller guarantees the function's
    // requirements on that.
    unsafe { register_kprobes(&raw mut kprobe, 1) }
}

/// Registers probes, all or none: `<linux/kprobes.h>`.
///
/// # Safety
///
/// `kprobes` is NULL, or an array of `count` pointers, each as [`register_kprobe`] requires it.
#[no_mangle]
unsafe extern "C" fn register_kprobes(kprobes: *mut *mut bindings::kprobe, count: c_int) -> c_int {
    // SAFETY: The caller guarantees that the structures stay until they are unregistered. No list
    // has them longer: `registry::unregister()` waits for a grace period after it has removed one.
    errno(unsafe { batch(kprobes, count) }.and_then(|probes| registration::register(&probes)))
}

/// Registers a probe with a fault handler: `<linux/kprobes_fault.h>`.
///
/// # Safety
///
/// As for [`register_kprobe`]; `fault` is a function of its type or NULL, which stays as long as
/// the structure.
#[no_mangle]
unsafe extern "C" fn register_kprobe_fault(
    kprobe: *mut bindings::kprobe,
    fault: FaultHandler,
) -> c_int {
    // SAFETY: The caller guarantees that the structure stays until it is unregistered. No list has
    // it longer: `registry::unregister()` waits for a grace period after it has removed it.
    let probe = unsafe { Kprobe::new(kprobe) }.filter(|_| fault.is_some());
    errno(
        probe
            .ok_or(EINVAL)
            .and_then(|probe| registration::register_with_fault(&[probe], fault)),
    )
}

/// Unregisters a probe: `<linux/kprobes.h>`.
///
/// # Safety
///
/// `kprobe` is NULL, or a structure that stays in its place until this returns. If it is
/// registered, it is as it was then.
#[no_mangle]
unsafe extern "C" fn unregister_kprobe(kprobe: *mut bindings::kprobe) {
    // SAFETY: The caller guarantees that it stays until this returns. By then no list has the
    // structure and a grace period has passed: `registry::unregister()` ensures both.
    if let Some(probe) = unsafe { Kprobe::new(kprobe) } {
        registry::unregister([probe].into_iter());
    }
}

/// Unregisters probes: `<linux/kprobes.h>`.
///
/// # Safety
///
/// `kprobes` is NULL, or an array of `count` pointers, which nothing changes until this returns,
/// each as [`unregister_kprobe`] requires it.
#[no_mangle]
unsafe extern "C" fn unregister_kprobes(kprobes: *mut *mut bindings::kprobe, count: c_int) {
    let Some(count) = usize::try_from(count)
        .ok()
        .filter(|n| *n > 0 && !kprobes.is_null())
    else {
        return;
    };
    // SAFETY: Neither NULL nor empty, as checked above; the caller guarantees that it has so many
    // pointers, which nothing changes until this returns.
    let kprobes = unsafe { core::slice::from_raw_parts(kprobes, count) };
    // SAFETY: The caller guarantees that the structures stay until this returns. By then no list
    // has one of them and a grace period has passed: `registry::unregister()` ensures both.
    let probes = kprobes
        .iter()
        .filter_map(|kprobe| unsafe { Kprobe::new(*kprobe) });
    registry::unregister(probes);
}

/// Enables a probe: `<linux/kprobes.h>`.
///
/// # Safety
///
/// `kprobe` is NULL, or a structure that stays valid until this returns, registered or not.
#[no_mangle]
unsafe extern "C" fn enable_kprobe(kprobe: *mut bindings::kprobe) -> c_int {
    // SAFETY: The caller guarantees the function's requirements.
    unsafe { switch(kprobe, true) }
}

/// Disables a probe: `<linux/kprobes.h>`.
///
/// # Safety
///
/// `kprobe` is NULL, or a structure that stays valid until this returns, registered or not.
#[no_mangle]
unsafe extern "C" fn disable_kprobe(kprobe: *mut bindings::kprobe) -> c_int {
    // SAFETY: The caller guarantees the function's requirements.
    unsafe { switch(kprobe, false) }
}

/// # Safety
///
/// `kprobe` is NULL, or a structure that stays valid until this returns, registered or not.
unsafe fn switch(kprobe: *mut bindings::kprobe, on: bool) -> c_int {
    // SAFETY: The caller guarantees a valid structure until this returns, which is as long as this
    // uses it. If it is registered, its registration guarantees the rest; if not, no list gets it,
    // and its fields are not read.
    let probe = unsafe { Kprobe::new(kprobe) }.ok_or(EINVAL);
    errno(probe.and_then(|probe| registry::enable(probe, on).map_err(Error::errno)))
}

/// Returns the address of a symbol: `<linux/kprobes.h>`.
///
/// # Safety
///
/// `name` is a string that nothing changes until this returns.
#[no_mangle]
unsafe extern "C" fn kprobe_lookup_name(name: *const c_char, _offset: c_uint) -> *mut u8 {
    // SAFETY: The caller guarantees a string, which is used only until this returns.
    let name = unsafe { CStr::from_char_ptr(name) };
    ferro_sys::code::kallsyms::lookup_name(name).unwrap_or(0) as *mut u8
}

/// Returns 0 if an address is the entry of a function: `<linux/kprobes.h>`.
///
/// # Safety
///
/// `name` is NULL, or a string that nothing changes until this returns.
#[no_mangle]
unsafe extern "C" fn kprobe_on_func_entry(
    at: *mut u8,
    name: *const c_char,
    offset: usize,
) -> c_int {
    // SAFETY: Not NULL, so that the caller guarantees a string, which is used only until this
    // returns.
    let name = (!name.is_null()).then(|| unsafe { CStr::from_char_ptr(name) });
    match probe_address::resolve(at as usize, name, offset) {
        Ok(location) if location.at_entry => 0,
        Ok(_) => EINVAL.to_errno(),
        Err(error) => error.errno().to_errno(),
    }
}

/// Returns the probe at an address, the newest of several, or NULL: `<linux/kprobes.h>`.
///
/// Context: preemption off, as long as the probe is used.
///
/// # Safety
///
/// No requirement; the user of the result has preemption off.
#[no_mangle]
unsafe extern "C" fn get_kprobe(at: *mut c_void) -> *mut bindings::kprobe {
    hit::newest_at(at as usize).unwrap_or(null_mut())
}

/// Counts a missed hit: `<linux/kprobes.h>`.
///
/// # Safety
///
/// `kprobe` is NULL, or a structure that stays valid until this returns.
#[no_mangle]
unsafe extern "C" fn kprobes_inc_nmissed_count(kprobe: *mut bindings::kprobe) {
    // SAFETY: The caller guarantees the structure until this returns; only its count is used.
    if let Some(probe) = unsafe { Kprobe::new(kprobe) } {
        probe.count_missed();
    }
}

/// Logs a probe: `<linux/kprobes.h>`.
///
/// # Safety
///
/// `kprobe` is NULL, or a structure that stays valid until this returns, with a string as its
/// symbol, or NULL.
#[no_mangle]
unsafe extern "C" fn dump_kprobe(kprobe: *mut bindings::kprobe) {
    // SAFETY: The caller guarantees a valid structure until this returns, and its symbol as well;
    // no list gets it, and its handlers are not used.
    if let Some(probe) = unsafe { Kprobe::new(kprobe) } {
        let name = probe.symbol().unwrap_or(c"-");
        pr_err!(
            "kprobe: {}+{:#x} at {}\n",
            name,
            probe.offset(),
            Shown(probe.address())
        );
    }
}

/// Starts the built-in engine, for `builtin.c`: built-in code may be probed from here on.
#[cfg(not(MODULE))]
#[no_mangle]
unsafe extern "C" fn ferro_kprobes_start() -> c_int {
    // Never detached.
    errno(crate::attach::Attached::new().map(core::mem::forget))
}

/// Kills the probes in the kernel's own initialisation code, which is about to be freed:
/// `<linux/kprobes.h>`.
#[cfg(not(MODULE))]
#[no_mangle]
unsafe extern "C" fn kprobe_free_init_mem() {
    // SAFETY: The function takes any address: it compares it with where the section begins and
    // ends.
    registry::kill(|at| unsafe { bindings::ferro_in_kernel_init(at) });
}

/// Returns the clients' structures, if there is at least one, and no pointer is NULL.
///
/// # Safety
///
/// `kretprobes` is NULL, or an array of `count` pointers that nothing changes for `'a`, each as
/// [`Kretprobe::new`] requires it.
unsafe fn kretprobes<'a>(
    kretprobes: *mut *mut bindings::kretprobe,
    count: c_int,
) -> Option<&'a [Kretprobe<'a>]> {
    let count = usize::try_from(count)
        .ok()
        .filter(|n| *n > 0 && !kretprobes.is_null())?;
    // SAFETY: Neither NULL nor empty, as checked above; the caller guarantees that it has so many
    // pointers, which nothing changes for `'a`.
    let all = unsafe { core::slice::from_raw_parts(kretprobes, count) };
    if all.iter().any(|rp| rp.is_null()) {
        return None;
    }
    // SAFETY: The same pointers, none of which is NULL. A `Kretprobe` is transparent to a pointer
    // that is not NULL; the caller guarantees its invariants.
    Some(unsafe { core::slice::from_raw_parts(kretprobes.cast(), count) })
}

/// Registers a kretprobe: `<linux/kprobes.h>`.
///
/// # Safety
///
/// `kretprobe` is NULL, or a structure that stays in its place until this fails or
/// [`unregister_kretprobe`] has returned. The symbol is a string or NULL. The handlers are
/// functions of their types or NULL. The symbol and the handlers stay as long as the structure.
#[no_mangle]
unsafe extern "C" fn register_kretprobe(kretprobe: *mut bindings::kretprobe) -> c_int {
    let mut kretprobe = kretprobe;
    // SAFETY: The array is this local, with one pointer; the caller guarantees the function's
    // requirements on that.
    unsafe { register_kretprobes(&raw mut kretprobe, 1) }
}

/// Registers kretprobes, all or none: `<linux/kprobes.h>`.
///
/// # Safety
///
/// `all` is NULL, or an array of `count` pointers, which nothing changes until this returns, each
/// as [`register_kretprobe`] requires it.
#[no_mangle]
unsafe extern "C" fn register_kretprobes(
    all: *mut *mut bindings::kretprobe,
    count: c_int,
) -> c_int {
    // SAFETY: The caller guarantees the array, and that the structures and their handlers stay
    // until this fails or they are unregistered. Where a call may have been followed, neither
    // returns before a grace period has passed since `Kretprobe::free()`.
    errno(
        unsafe { kretprobes(all, count) }
            .ok_or(EINVAL)
            .and_then(kretprobe::register),
    )
}

/// Unregisters a kretprobe: `<linux/kprobes.h>`.
///
/// # Safety
///
/// `kretprobe` is NULL, or a structure that stays in its place until this returns. If it is
/// registered, it is as it was then.
#[no_mangle]
unsafe extern "C" fn unregister_kretprobe(kretprobe: *mut bindings::kretprobe) {
    let mut kretprobe = kretprobe;
    // SAFETY: The array is this local, with one pointer; the caller guarantees the function's
    // requirements on that.
    unsafe { unregister_kretprobes(&raw mut kretprobe, 1) }
}

/// Unregisters kretprobes: `<linux/kprobes.h>`.
///
/// # Safety
///
/// `all` is NULL, or an array of `count` pointers, which nothing changes until this returns, each
/// as [`unregister_kretprobe`] requires it.
#[no_mangle]
unsafe extern "C" fn unregister_kretprobes(all: *mut *mut bindings::kretprobe, count: c_int) {
    // SAFETY: The caller guarantees the array, and that the structures and their handlers stay
    // until this returns. By then a grace period has passed since `Kretprobe::free()`:
    // `registry::unregister_with()` waits for one after it.
    if let Some(all) = unsafe { kretprobes(all, count) } {
        kretprobe::unregister(all.iter().copied());
    }
}

ferro_sys::declared_in_c!(
    ferro_kprobes_reap,
    register_kprobe,
    register_kprobes,
    register_kprobe_fault,
    unregister_kprobe,
    unregister_kprobes,
    enable_kprobe,
    disable_kprobe,
    kprobe_lookup_name,
    kprobe_on_func_entry,
    get_kprobe,
    kprobes_inc_nmissed_count,
    dump_kprobe,
    register_kretprobe,
    register_kretprobes,
    unregister_kretprobe,
    unregister_kretprobes,
);
#[cfg(not(MODULE))]
ferro_sys::declared_in_c!(ferro_kprobes_start, kprobe_free_init_mem);
