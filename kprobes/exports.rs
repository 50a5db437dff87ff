// SPDX-License-Identifier: GPL-2.0

//! Where C comes in: `<linux/kprobes.h>`, and what `engine.c`, `post_trampoline.S` and `builtin.c` call. Nobody imports this.
//!
//! Contexts: process, and sleeping, for what clients call; trap for what `post_trampoline.S` calls.

use core::ptr::null_mut;

use crate::raw::kprobe::FaultHandler;
use crate::raw::kprobe::Kprobe;
use ferro_kprobes_builtin::raw::kretprobe::Kretprobe;
use ferro_sys::code::regs::Regs;
use ferro_sys::code::symbols::Shown;
use ferro_sys::cpu::preempt::PreemptOff;
use ferro_sys::hook::typed::Atomic;
use kernel::bindings;
use kernel::ffi::c_char;
use kernel::ffi::c_int;
use kernel::ffi::c_uint;
use kernel::ffi::c_ulong;
use kernel::ffi::c_void;
use kernel::prelude::*;

use crate::error::Error;
use crate::hit;
use crate::hit::Hits;
use crate::kretprobe;
use crate::probe_address;
use crate::probe_point::Point;
use crate::raw::address_map::Found;
use crate::raw::tasks_rcu::TasksPeriod;
use crate::raw::trap_frame::Trap;
use crate::raw::trap_hooks::TrapHandler;
use crate::registration;
use crate::registry;

// SAFETY: `hit::breakpoint()` returns true where it has found a point, or a copy, of the address, whose instruction it has
// executed or has on its way, and where the breakpoint is no longer there; `hit::fault()` where the fault is that of a copy or
// the running probe's, and a handler or the exception table has repaired it. A point executes on a trap what stands at its
// address.
//
// Breakpoints are for points of the registry. `Decoder::instructions()` has decoded the function up to the address, so that an
// instruction starts there; `publish()` has the point found before the first breakpoint is put there, and `retire()` and `kill()`
// have it no longer found after every CPU has been told that there is none, or that the code goes.
//
// Nothing of this sleeps, allocates or takes a lock. What it runs on cannot be probed (`ferro_core::blacklist_names`), but for functions of the
// kernel that it or a handler calls: such a breakpoint finds a probe running, so that no handler is called and nothing else with
// a breakpoint. At an ftrace site it is the same, and registers are changed by handlers only.
unsafe impl TrapHandler for Hits {
    #[inline(always)]
    fn breakpoint(trap: &mut Trap, here: &Atomic) -> bool {
        hit::breakpoint(trap, here)
    }

    #[inline(always)]
    fn fault(regs: &mut Regs, trapnr: usize) -> bool {
        hit::fault(regs, trapnr)
    }

    fn died(regs: &Regs) {
        hit::died(regs);
    }

    #[inline(always)]
    fn called(point: Found<'_, Point>, regs: &mut Regs) {
        hit::called(point, regs);
    }

    #[inline(always)]
    fn called_with_post(site: usize, regs: &mut Regs) {
        hit::called_with_post(site, regs);
    }
}

/// For `engine.c`, in a work item.
///
/// # Safety
///
/// `number` is what `raw::reap` has given, and the grace periods are over that began then.
#[export]
unsafe extern "C" fn ferro_kprobes_reap(number: c_ulong) {
    // SAFETY: The caller guarantees it.
    registry::reap(&unsafe { TasksPeriod::new(number) });
}

/// For `post_trampoline.S`: the copy of an instruction has run. The word in the place of ss is where its call returns to.
///
/// # Safety
///
/// `regs` are on the caller's stack, around the word that the copy's call has pushed; they are this function's until it returns,
/// and then the caller goes on with all of them. Interrupts are off.
#[no_mangle]
#[link_section = ".kprobes.text"]
unsafe extern "C" fn ferro_kprobe_posted(regs: *mut bindings::pt_regs) {
    // SAFETY: The caller guarantees that they are there and nobody else's. All variants of the union are words of this size.
    let at = unsafe { (*regs).__bindgen_anon_2.ssx } as usize;
    // SAFETY: The caller guarantees that they are there and nobody else's, to be written, too.
    unsafe {
        (*regs).__bindgen_anon_2.ssx = u64::from(bindings::__KERNEL_DS);
        // Above the return address.
        (*regs).sp = (*regs).sp.wrapping_add(size_of::<usize>());
    }
    // As in a breakpoint: handlers may ask, and locks that are only tried there must not be waited for.
    // SAFETY: The function wants this CPU not to be left before `ferro_kprobe_post_leave()`, which follows below: the caller
    // guarantees that interrupts are off.
    unsafe { bindings::ferro_kprobe_post_enter() };
    // SAFETY: The caller guarantees that they are a copy's, with which it goes on when this has returned, and nobody else's.
    if let Some(regs) = unsafe { Regs::from_raw(regs) } {
        hit::posted(at, regs);
    }
    // SAFETY: It ends what `ferro_kprobe_post_enter()` has begun, on the same CPU, as interrupts have been off since.
    unsafe { bindings::ferro_kprobe_post_leave() };
}

/// Does something with what `optprobe_template.S` gives the functions that it calls.
///
/// # Safety
///
/// `point` is that of the detour that has been entered, and `regs` are on the caller's stack, as [`Trap::in_detour`] wants them until
/// this returns.
#[inline(always)]
unsafe fn in_detour<T>(
    point: *const Point,
    regs: *mut bindings::pt_regs,
    f: impl FnOnce(Found<'_, Point>, &mut Trap) -> T,
) -> T {
    let here = PreemptOff::new();
    // SAFETY: A detour has the address of its point, which the registry gives up when every task has left the detour: after a grace
    // period of RCU tasks since the jump was taken away.
    let point = Found::known(unsafe { &*point }, &here);
    // SAFETY: The caller guarantees it.
    f(point, unsafe { Trap::in_detour(regs) })
}

/// For `optprobe_template.S`: a jump has come to a detour that executes the instruction on the registers, between its handlers.
///
/// # Safety
///
/// As for [`in_detour`], until this returns; then the caller goes on with all of the registers.
#[no_mangle]
#[link_section = ".kprobes.text"]
unsafe extern "C" fn ferro_kprobe_detoured(point: *const Point, regs: *mut bindings::pt_regs) {
    // SAFETY: The caller guarantees it.
    unsafe { in_detour(point, regs, |point, regs| point.detoured(regs)) };
}

/// For `optprobe_template.S`: the handlers are those of another hit.
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

/// For `optprobe_template.S`: a handler has changed where execution goes on.
///
/// # Safety
///
/// As for [`ferro_kprobe_detoured`].
#[no_mangle]
#[link_section = ".kprobes.text"]
unsafe extern "C" fn ferro_kprobe_diverted(point: *const Point, regs: *mut bindings::pt_regs) {
    // SAFETY: The caller guarantees it.
    unsafe { in_detour(point, regs, |point, regs| point.keep_out(regs)) };
}

/// For `optprobe_template.S`: RCU does not watch.
///
/// # Safety
///
/// As for [`ferro_kprobe_detoured`].
#[no_mangle]
#[link_section = ".kprobes.text"]
unsafe extern "C" fn ferro_kprobe_unwatched(point: *const Point, regs: *mut bindings::pt_regs) {
    // SAFETY: The point stays until a grace period of RCU tasks is over, and a rude one where code that RCU does not watch may be
    // probed: elsewhere that is `noinstr`, and no detour is entered from there. The caller guarantees that the registers are there.
    unsafe { (*regs).ip = (*point).stop.load() };
}

/// A handler of `engine.c`: a point has not one probe, which `optprobe_template.S` has in mind.
///
/// # Safety
///
/// As for [`in_detour`], until this returns. No handler runs but this.
#[no_mangle]
#[link_section = ".kprobes.text"]
unsafe extern "C" fn ferro_kprobe_call_before(
    point: *const Point,
    regs: *mut bindings::pt_regs,
) -> c_int {
    // SAFETY: The caller guarantees it.
    c_int::from(unsafe { in_detour(point, regs, |point, regs| point.call_before(regs)) })
}

/// The same, where there are handlers after the instruction, too.
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

/// The handler after the instruction. `at` is where the detour goes on.
///
/// # Safety
///
/// `regs` are those that the detour has saved, which are this function's until it returns. Preemption is off.
#[no_mangle]
#[link_section = ".kprobes.text"]
unsafe extern "C" fn ferro_kprobe_call_after(at: usize, regs: *mut bindings::pt_regs) {
    // SAFETY: The caller guarantees that they are there and nobody else's; only code of the kernel has detours.
    hit::call_after(at, unsafe { Regs::at_site(regs) });
}

/// For `engine.c`, in a work item.
#[no_mangle]
extern "C" fn ferro_kprobes_optimise() {
    registry::optimise();
}

/// For `engine.c`, in another work item.
#[no_mangle]
extern "C" fn ferro_kprobes_leave_idle() {
    registry::leave_idle();
}

/// For `engine.c`. Context: process.
#[no_mangle]
extern "C" fn ferro_kprobes_wants_jumps() -> bool {
    registry::wants_jumps()
}

/// For `engine.c`. Context: process.
#[no_mangle]
extern "C" fn ferro_kprobes_want_jumps(on: bool) {
    registry::want_jumps(on);
}

/// The clients' structures.
///
/// # Safety
///
/// `kprobes` is NULL, or an array of `count` pointers, each as [`Kprobe::new`] wants it for `'a`.
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
        // SAFETY: Not NULL, as checked above, and `i` is less than `count`; the caller guarantees so many pointers, of such
        // structures.
        let kprobe = unsafe { Kprobe::new(*kprobes.add(i)) };
        all.push(kprobe.ok_or(EINVAL)?, GFP_KERNEL)?;
    }
    Ok(all)
}

fn errno(result: Result) -> c_int {
    result.map_or_else(|e| e.to_errno(), |()| 0)
}

/// `<linux/kprobes.h>`
///
/// # Safety
///
/// `kprobe` is NULL, or a structure that stays in its place until this fails or [`unregister_kprobe`] has returned. Its symbol is
/// a string or NULL, its handlers are functions of their types or NULL, which stay as long.
#[export]
unsafe extern "C" fn register_kprobe(kprobe: *mut bindings::kprobe) -> c_int {
    let mut kprobe = kprobe;
    // SAFETY: The array is this local, with one pointer, of which the caller guarantees what the function wants.
    unsafe { register_kprobes(&raw mut kprobe, 1) }
}

/// `<linux/kprobes.h>`
///
/// # Safety
///
/// `kprobes` is NULL, or an array of `count` pointers, each as [`register_kprobe`] wants it.
#[export]
unsafe extern "C" fn register_kprobes(kprobes: *mut *mut bindings::kprobe, count: c_int) -> c_int {
    // SAFETY: The caller guarantees that the structures stay until they are unregistered: a list has none longer, and
    // `registry::unregister()` waits for a grace period after it has taken one out.
    errno(unsafe { batch(kprobes, count) }.and_then(|probes| registration::register(&probes)))
}

/// `<linux/kprobes_fault.h>`
///
/// # Safety
///
/// As for [`register_kprobe`]; `fault` is a function of its type or NULL, which stays as long as the structure.
#[export]
unsafe extern "C" fn register_kprobe_fault(
    kprobe: *mut bindings::kprobe,
    fault: FaultHandler,
) -> c_int {
    // SAFETY: The caller guarantees that the structure stays until it is unregistered: no list has it longer, and
    // `registry::unregister()` waits for a grace period after it has taken it out.
    let probe = unsafe { Kprobe::new(kprobe) }.filter(|_| fault.is_some());
    errno(
        probe
            .ok_or(EINVAL)
            .and_then(|probe| registration::register_with_fault(&[probe], fault)),
    )
}

/// `<linux/kprobes.h>`
///
/// # Safety
///
/// `kprobe` is NULL, or a structure that stays in its place until this returns. If it is registered, it is as it was then.
#[export]
unsafe extern "C" fn unregister_kprobe(kprobe: *mut bindings::kprobe) {
    // SAFETY: The caller guarantees that it stays until this returns. When it does, no list has the structure any more, and a
    // grace period has passed: `registry::unregister()` sees to both.
    if let Some(probe) = unsafe { Kprobe::new(kprobe) } {
        registry::unregister([probe].into_iter());
    }
}

/// `<linux/kprobes.h>`
///
/// # Safety
///
/// `kprobes` is NULL, or an array of `count` pointers, which nobody changes meanwhile, each as [`unregister_kprobe`] wants it.
#[export]
unsafe extern "C" fn unregister_kprobes(kprobes: *mut *mut bindings::kprobe, count: c_int) {
    let Some(count) = usize::try_from(count)
        .ok()
        .filter(|n| *n > 0 && !kprobes.is_null())
    else {
        return;
    };
    // SAFETY: Neither NULL nor empty, as checked above; the caller guarantees that it has so many pointers, which nobody changes
    // until this returns.
    let kprobes = unsafe { core::slice::from_raw_parts(kprobes, count) };
    // SAFETY: The caller guarantees that the structures stay until this returns. When it does, no list has one of them any more,
    // and a grace period has passed: `registry::unregister()` sees to both.
    let probes = kprobes
        .iter()
        .filter_map(|kprobe| unsafe { Kprobe::new(*kprobe) });
    registry::unregister(probes);
}

/// `<linux/kprobes.h>`
///
/// # Safety
///
/// `kprobe` is NULL, or a structure that is there until this returns, registered or not.
#[export]
unsafe extern "C" fn enable_kprobe(kprobe: *mut bindings::kprobe) -> c_int {
    // SAFETY: The caller guarantees what the function wants.
    unsafe { switch(kprobe, true) }
}

/// `<linux/kprobes.h>`
///
/// # Safety
///
/// `kprobe` is NULL, or a structure that is there until this returns, registered or not.
#[export]
unsafe extern "C" fn disable_kprobe(kprobe: *mut bindings::kprobe) -> c_int {
    // SAFETY: The caller guarantees what the function wants.
    unsafe { switch(kprobe, false) }
}

/// # Safety
///
/// `kprobe` is NULL, or a structure that is there until this returns, registered or not.
unsafe fn switch(kprobe: *mut bindings::kprobe, on: bool) -> c_int {
    // SAFETY: The caller guarantees that it is there until this returns, which is as long as this uses it. If it is registered,
    // whoever did that guarantees the rest; if not, it is put in no list, and its fields are not looked at.
    let probe = unsafe { Kprobe::new(kprobe) }.ok_or(EINVAL);
    errno(probe.and_then(|probe| registry::enable(probe, on).map_err(Error::errno)))
}

/// `<linux/kprobes.h>`
///
/// # Safety
///
/// `name` is a string that nobody changes until this returns.
#[export]
unsafe extern "C" fn kprobe_lookup_name(name: *const c_char, _offset: c_uint) -> *mut u8 {
    // SAFETY: The caller guarantees a string, which is used until this returns only.
    let name = unsafe { CStr::from_char_ptr(name) };
    ferro_sys::code::symbols::lookup_name(name).unwrap_or(0) as *mut u8
}

/// `<linux/kprobes.h>`
///
/// # Safety
///
/// `name` is NULL, or a string that nobody changes until this returns.
#[export]
unsafe extern "C" fn kprobe_on_func_entry(
    at: *mut u8,
    name: *const c_char,
    offset: usize,
) -> c_int {
    // SAFETY: Not NULL, so that the caller guarantees a string, which is used until this returns only.
    let name = (!name.is_null()).then(|| unsafe { CStr::from_char_ptr(name) });
    match probe_address::resolve(at as usize, name, offset) {
        Ok(location) if location.at_entry => 0,
        Ok(_) => EINVAL.to_errno(),
        Err(error) => error.errno().to_errno(),
    }
}

/// `<linux/kprobes.h>`: the probe at an address, the newest of several; NULL if there is none.
///
/// Context: preemption off, as long as the probe is used.
///
/// # Safety
///
/// No requirement; whoever uses the result has preemption off.
#[export]
unsafe extern "C" fn get_kprobe(at: *mut c_void) -> *mut bindings::kprobe {
    hit::newest_at(at as usize).unwrap_or(null_mut())
}

/// `<linux/kprobes.h>`
///
/// # Safety
///
/// `kprobe` is NULL, or a structure that is there until this returns.
#[export]
unsafe extern "C" fn kprobes_inc_nmissed_count(kprobe: *mut bindings::kprobe) {
    // SAFETY: The caller guarantees that it is there until this returns; only its count is used.
    if let Some(probe) = unsafe { Kprobe::new(kprobe) } {
        probe.count_missed();
    }
}

/// `<linux/kprobes.h>`
///
/// # Safety
///
/// `kprobe` is NULL, or a structure that is there until this returns, with a string as its symbol, or NULL.
#[export]
unsafe extern "C" fn dump_kprobe(kprobe: *mut bindings::kprobe) {
    // SAFETY: The caller guarantees that it is there until this returns, as its symbol is; it is put in no list, and its handlers
    // are not used.
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

/// For `builtin.c`: probes of what is built in may be registered from here on.
#[cfg(not(MODULE))]
#[export]
unsafe extern "C" fn ferro_kprobes_start() -> c_int {
    // It is there for good.
    errno(crate::attach::Attached::new().map(core::mem::forget))
}

/// `<linux/kprobes.h>`: the kernel's own initialisation code goes.
#[cfg(not(MODULE))]
#[export]
unsafe extern "C" fn kprobe_free_init_mem() {
    // SAFETY: The function takes any address: it compares it with where the section begins and ends.
    registry::kill(|at| unsafe { bindings::ferro_in_kernel_init(at) });
}

/// The clients' structures, if it is a batch of at least one, and all are there.
///
/// # Safety
///
/// `kretprobes` is NULL, or an array of `count` pointers that nobody changes for `'a`, each as [`Kretprobe::new`] wants it.
unsafe fn kretprobes<'a>(
    kretprobes: *mut *mut bindings::kretprobe,
    count: c_int,
) -> Option<&'a [Kretprobe<'a>]> {
    let count = usize::try_from(count)
        .ok()
        .filter(|n| *n > 0 && !kretprobes.is_null())?;
    // SAFETY: Neither NULL nor empty, as checked above; the caller guarantees that it has so many pointers, which nobody changes
    // for `'a`.
    let all = unsafe { core::slice::from_raw_parts(kretprobes, count) };
    if all.iter().any(|rp| rp.is_null()) {
        return None;
    }
    // SAFETY: The same pointers, none of which is NULL. A `Kretprobe` is transparent to a pointer that is not; the caller
    // guarantees its invariants.
    Some(unsafe { core::slice::from_raw_parts(kretprobes.cast(), count) })
}

/// `<linux/kprobes.h>`
///
/// # Safety
///
/// `kretprobe` is NULL, or a structure that stays in its place until this fails or [`unregister_kretprobe`] has returned. The
/// symbol is a string or NULL, the handlers are functions of their types or NULL, which stay as long.
#[export]
unsafe extern "C" fn register_kretprobe(kretprobe: *mut bindings::kretprobe) -> c_int {
    let mut kretprobe = kretprobe;
    // SAFETY: The array is this local, with one pointer, of which the caller guarantees what the function wants.
    unsafe { register_kretprobes(&raw mut kretprobe, 1) }
}

/// `<linux/kprobes.h>`
///
/// # Safety
///
/// `all` is NULL, or an array of `count` pointers, which nobody changes meanwhile, each as [`register_kretprobe`] wants it.
#[export]
unsafe extern "C" fn register_kretprobes(
    all: *mut *mut bindings::kretprobe,
    count: c_int,
) -> c_int {
    // SAFETY: The caller guarantees the array, and that the structures and their handlers stay until this fails or they are
    // unregistered. Where a call may have been followed, neither returns before a grace period has passed since
    // `Kretprobe::free()`.
    errno(
        unsafe { kretprobes(all, count) }
            .ok_or(EINVAL)
            .and_then(kretprobe::register),
    )
}

/// `<linux/kprobes.h>`
///
/// # Safety
///
/// `kretprobe` is NULL, or a structure that stays in its place until this returns. If it is registered, it is as it was then.
#[export]
unsafe extern "C" fn unregister_kretprobe(kretprobe: *mut bindings::kretprobe) {
    let mut kretprobe = kretprobe;
    // SAFETY: The array is this local, with one pointer, of which the caller guarantees what the function wants.
    unsafe { unregister_kretprobes(&raw mut kretprobe, 1) }
}

/// `<linux/kprobes.h>`
///
/// # Safety
///
/// `all` is NULL, or an array of `count` pointers, which nobody changes meanwhile, each as [`unregister_kretprobe`] wants it.
#[export]
unsafe extern "C" fn unregister_kretprobes(all: *mut *mut bindings::kretprobe, count: c_int) {
    // SAFETY: The caller guarantees the array, and that the structures and their handlers stay until this returns. When it does, a
    // grace period has passed since `Kretprobe::free()`: `registry::unregister_with()` waits for one after it.
    if let Some(all) = unsafe { kretprobes(all, count) } {
        kretprobe::unregister(all.iter().copied());
    }
}
