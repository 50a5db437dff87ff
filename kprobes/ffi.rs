// SPDX-License-Identifier: GPL-2.0

//! The C side: `<linux/kprobes.h>`, and what the hook points and the copies of instructions call.
//!
//! Contexts: process, and sleeping, for what clients call; trap for the rest.

use core::ptr::null_mut;

use ferro_gkhi::points::Int3;
use ferro_gkhi::points::KernelFault;
use ferro_gkhi::Answer;
use ferro_gkhi::NoReturn;
use ferro_gkhi::Registered;
use ferro_sys::code::symbols::Shown;
use ferro_sys::kprobe::warn_registered_twice;
use ferro_sys::kprobe::FaultHandler;
use ferro_sys::kprobe::Kprobe;
use ferro_sys::kretprobe::Kretprobe;
use ferro_sys::regs::Regs;
use ferro_sys::sync::mutex::StaticGuard;
use ferro_sys::sync::mutex::StaticMutex;
use kernel::bindings;
use kernel::ffi::c_char;
use kernel::ffi::c_int;
use kernel::ffi::c_uint;
use kernel::ffi::c_void;
use kernel::prelude::*;

use crate::address;
use crate::error::Error;
use crate::hit;
use crate::kretprobe;
use crate::registry;
use crate::registry::Engine;

extern "C" {
    /// `exports.c`
    static mut kprobes_rust_mutex: bindings::mutex;
    /// `post.S`
    fn ferro_kprobe_after();
    /// `builtin.c`
    fn ferro_kprobe_post_enter();
    fn ferro_kprobe_post_leave();
    /// `exports.c`
    fn ferro_kprobe_must_stop() -> bool;
    fn ferro_kprobes_call_reap();
    fn ferro_kprobes_wait_for_reap();
}

static ENGINE: StaticMutex<Option<Engine>> =
    // SAFETY: A mutex of `exports.c` that protects nothing else.
    unsafe { StaticMutex::new(&raw mut kprobes_rust_mutex, None) };

/// What is registered.
pub(crate) fn engine() -> StaticGuard<Option<Engine>> {
    ENGINE.lock()
}

/// Has [`registry::reap`] called after a grace period of RCU tasks. One call at a time.
pub(crate) fn call_reap() {
    // SAFETY: The registry calls this when the last call is over. The engine waits for it before it goes.
    unsafe { ferro_kprobes_call_reap() };
}

/// Waits until that has been called, if it is going to be.
pub(crate) fn wait_for_reap() {
    // SAFETY: No requirement.
    unsafe { ferro_kprobes_wait_for_reap() };
}

/// For `exports.c`, in a work item.
#[no_mangle]
extern "C" fn ferro_kprobes_reap() {
    registry::reap();
}

/// Where a copy calls when it has run; `None` if the CPU is one on which it has to stop at a breakpoint.
pub(crate) fn after() -> Option<usize> {
    // SAFETY: No requirement.
    let must_stop = unsafe { ferro_kprobe_must_stop() };
    (!must_stop).then_some(ferro_kprobe_after as *const () as usize)
}

/// The answer of an exit that may have dealt with its event.
#[inline(always)]
fn answer(done: bool) -> Answer<NoReturn> {
    match done {
        true => Answer::Terminate,
        false => Answer::Continue,
    }
}

/// The exits on breakpoints and on faults, not armed yet. Errors: as for `Registered::engine()`.
pub(crate) fn trap_exits(
    name: &CStr,
) -> Result<(Registered<Int3>, Registered<KernelFault>), ferro_gkhi::Error> {
    // SAFETY: Only the engine's own breakpoints are said to be dealt with. It does not sleep; a breakpoint that it meets on
    // the way is a probe's, which `hit` ends at once as a missed one.
    let int3 = unsafe {
        Registered::<Int3>::builder(name)
            .disarmed()
            .register_engine(|_call, (regs,)| answer(breakpoint(regs)))
    }?;
    // SAFETY: As above, of faults in copies of instructions and of those that a probe's fault handler has repaired.
    let fault = unsafe {
        Registered::<KernelFault>::builder(name)
            .disarmed()
            .register_engine(|_call, (regs, trapnr, _)| answer(fault(regs, trapnr)))
    }?;
    Ok((int3, fault))
}

/// The exit on breakpoints.
#[inline(always)]
fn breakpoint(regs: *mut bindings::pt_regs) -> bool {
    // SAFETY: The hook passes the registers of a breakpoint.
    unsafe { Regs::of(regs) }.is_some_and(hit::breakpoint)
}

/// The exit on faults.
fn fault(regs: *mut bindings::pt_regs, trapnr: usize) -> bool {
    // SAFETY: The hook passes the registers of a fault.
    unsafe { Regs::of(regs) }.is_some_and(|regs| hit::fault(regs, trapnr))
}

/// The exit on modules.
pub(crate) fn module_event(module: *mut bindings::module, state: u32) {
    match state {
        bindings::module_state_MODULE_STATE_LIVE => {
            // SAFETY: The hook passes a module that is there.
            registry::kill(|at| unsafe { bindings::ferro_in_init_text(at, module) });
        }
        bindings::module_state_MODULE_STATE_GOING => {
            // SAFETY: As above.
            registry::kill(|at| unsafe {
                bindings::ferro_in_core_text(at, module) || bindings::ferro_in_init_text(at, module)
            });
            // SAFETY: As above.
            registry::evict(|id| unsafe { bindings::ferro_in_module(id, module) });
        }
        _ => (),
    }
}

/// For `post.S`: the copy of an instruction has run. The word in the place of ss is where its call returns to.
#[no_mangle]
#[link_section = ".kprobes.text"]
extern "C" fn ferro_kprobe_posted(regs: *mut bindings::pt_regs) {
    // SAFETY: `post.S` made them on its stack.
    let at = unsafe {
        let at = (*regs).__bindgen_anon_2.ssx as usize;
        (*regs).__bindgen_anon_2.ssx = u64::from(bindings::__KERNEL_DS);
        // Above the return address.
        (*regs).sp = (*regs).sp.wrapping_add(size_of::<usize>());
        at
    };
    // As in a breakpoint: handlers may ask, and locks that are only tried there must not be waited for.
    // SAFETY: Interrupts are off; undone below.
    unsafe { ferro_kprobe_post_enter() };
    // SAFETY: As above; what is below the copy's stack pointer is nobody's.
    if let Some(regs) = unsafe { Regs::of(regs) } {
        hit::posted(at, regs);
    }
    // SAFETY: Undoes the above.
    unsafe { ferro_kprobe_post_leave() };
}

/// The clients' structures.
///
/// # Safety
///
/// `kprobes` has `count` pointers to structures as [`Kprobe::new`] wants them.
unsafe fn batch(kprobes: *mut *mut bindings::kprobe, count: c_int) -> Result<KVVec<Kprobe>> {
    let count = usize::try_from(count).map_err(|_| EINVAL)?;
    if count == 0 || kprobes.is_null() {
        return Err(EINVAL);
    }
    let mut all = KVVec::with_capacity(count, GFP_KERNEL)?;
    for i in 0..count {
        // SAFETY: By the rules of this function.
        let kprobe = unsafe { Kprobe::new(*kprobes.add(i)) };
        all.push(kprobe.ok_or(EINVAL)?, GFP_KERNEL)?;
    }
    Ok(all)
}

/// Registers probes, all or none, and says in the log what refused one.
pub(crate) fn register(probes: &[Kprobe]) -> Result {
    register_with(probes, None)
}

/// The same, with a handler for faults.
fn register_with(probes: &[Kprobe], fault: FaultHandler) -> Result {
    let mut addresses = KVVec::with_capacity(probes.len(), GFP_KERNEL)?;
    for probe in probes {
        addresses.push((probe.address(), probe.flags()), GFP_KERNEL)?;
    }
    registry::register(probes, fault).map_err(|(at, error)| {
        if let Some(probe) = probes.get(at) {
            report(*probe, error);
        }
        // As they were, so that a client can try again.
        let given = probes.iter().zip(&addresses);
        for (probe, (address, flags)) in
            given.filter(|(probe, _)| !registry::is_registered(**probe))
        {
            probe.set_address(*address);
            probe.set_flags(*flags);
        }
        error.errno()
    })
}

/// Says in the log what refused a probe.
pub(crate) fn report(probe: Kprobe, error: Error) {
    if !error.is_refusal() {
        return;
    }
    if error == Error::Registered {
        warn_registered_twice();
    }
    match probe.symbol() {
        Some(name) => pr_info!("no probe at {}+{:#x}: {}\n", name, probe.offset(), error),
        None => pr_info!(
            "no probe at {}: {}\n",
            Shown(probe.address().wrapping_add(probe.offset())),
            error
        ),
    }
}

/// Whether a probe is the one at the entry of a kretprobe.
pub(crate) fn is_kretprobe(probe: Kprobe) -> bool {
    probe.has_pre(Some(entered))
}

/// The kretprobe whose entry a probe is at, if it is one.
pub(crate) fn kretprobe_of(probe: Kprobe) -> Option<Kretprobe> {
    if !is_kretprobe(probe) {
        return None;
    }
    let kretprobe = core::ptr::with_exposed_provenance_mut(probe.id());
    // SAFETY: It begins with its probe, and is there as long as that.
    unsafe { Kretprobe::new(kretprobe) }
}

/// The addresses of what a client has to keep for a probe: the structure and its handlers, or 0.
pub(crate) fn parts_of(probe: Kprobe) -> [usize; 6] {
    let [pre, post] = probe.handlers();
    let [entry, returned] = kretprobe_of(probe).map_or([0; 2], Kretprobe::handlers);
    let fault = probe.fault_handler().map_or(0, |f| f as usize);
    [probe.id(), pre, post, fault, entry, returned]
}

/// Makes a kretprobe's probe the one at its entry.
pub(crate) fn set_entry_handler(kretprobe: Kretprobe) {
    kretprobe.probe().set_handlers(Some(entered), None);
}

/// The handler at the entry of kretprobes.
///
/// # Safety
///
/// `kprobe` begins a kretprobe that is registered; `regs` are those of a probe.
#[link_section = ".kprobes.text"]
unsafe extern "C" fn entered(kprobe: *mut bindings::kprobe, regs: *mut bindings::pt_regs) -> c_int {
    const { assert!(core::mem::offset_of!(bindings::kretprobe, kp) == 0) };
    // SAFETY: By the rules of this function.
    let parts = unsafe { (Kretprobe::new(kprobe.cast()), Regs::of(regs)) };
    if let (Some(kretprobe), Some(regs)) = parts {
        kretprobe.enter(regs);
    }
    0
}

fn errno(result: Result) -> c_int {
    result.map_or_else(|e| e.to_errno(), |()| 0)
}

/// `<linux/kprobes.h>`
///
/// # Safety
///
/// As clients in C have to call it: with strings, and structures that stay until they are unregistered, or NULL.
#[export]
unsafe extern "C" fn register_kprobe(kprobe: *mut bindings::kprobe) -> c_int {
    let mut kprobe = kprobe;
    // SAFETY: By the rules of the C interface.
    unsafe { register_kprobes(&raw mut kprobe, 1) }
}

/// `<linux/kprobes.h>`
///
/// # Safety
///
/// As clients in C have to call it: with strings, and structures that stay until they are unregistered, or NULL.
#[export]
unsafe extern "C" fn register_kprobes(kprobes: *mut *mut bindings::kprobe, count: c_int) -> c_int {
    // SAFETY: By the rules of the C interface.
    errno(unsafe { batch(kprobes, count) }.and_then(|probes| register(&probes)))
}

/// `<linux/kprobes_fault.h>`
///
/// # Safety
///
/// As clients in C have to call it: with strings, and structures that stay until they are unregistered, or NULL.
#[export]
unsafe extern "C" fn register_kprobe_fault(
    kprobe: *mut bindings::kprobe,
    fault: FaultHandler,
) -> c_int {
    // SAFETY: By the rules of the C interface.
    let probe = unsafe { Kprobe::new(kprobe) }.filter(|_| fault.is_some());
    errno(
        probe
            .ok_or(EINVAL)
            .and_then(|probe| register_with(&[probe], fault)),
    )
}

/// `<linux/kprobes.h>`
///
/// # Safety
///
/// As clients in C have to call it: with strings, and structures that stay until they are unregistered, or NULL.
#[export]
unsafe extern "C" fn unregister_kprobe(kprobe: *mut bindings::kprobe) {
    // SAFETY: By the rules of the C interface.
    if let Some(probe) = unsafe { Kprobe::new(kprobe) } {
        registry::unregister([probe].into_iter());
    }
}

/// `<linux/kprobes.h>`
///
/// # Safety
///
/// As clients in C have to call it: with strings, and structures that stay until they are unregistered, or NULL.
#[export]
unsafe extern "C" fn unregister_kprobes(kprobes: *mut *mut bindings::kprobe, count: c_int) {
    let Some(count) = usize::try_from(count)
        .ok()
        .filter(|n| *n > 0 && !kprobes.is_null())
    else {
        return;
    };
    // SAFETY: By the rules of the C interface.
    let kprobes = unsafe { core::slice::from_raw_parts(kprobes, count) };
    // SAFETY: As above.
    let probes = kprobes
        .iter()
        .filter_map(|kprobe| unsafe { Kprobe::new(*kprobe) });
    registry::unregister(probes);
}

/// `<linux/kprobes.h>`
///
/// # Safety
///
/// As clients in C have to call it: with strings, and structures that stay until they are unregistered, or NULL.
#[export]
unsafe extern "C" fn enable_kprobe(kprobe: *mut bindings::kprobe) -> c_int {
    // SAFETY: By the rules of the C interface.
    unsafe { switch(kprobe, true) }
}

/// `<linux/kprobes.h>`
///
/// # Safety
///
/// As clients in C have to call it: with strings, and structures that stay until they are unregistered, or NULL.
#[export]
unsafe extern "C" fn disable_kprobe(kprobe: *mut bindings::kprobe) -> c_int {
    // SAFETY: By the rules of the C interface.
    unsafe { switch(kprobe, false) }
}

/// # Safety
///
/// As [`Kprobe::new`].
unsafe fn switch(kprobe: *mut bindings::kprobe, on: bool) -> c_int {
    // SAFETY: By the rules of this function.
    let probe = unsafe { Kprobe::new(kprobe) }.ok_or(EINVAL);
    errno(probe.and_then(|probe| registry::enable(probe, on).map_err(Error::errno)))
}

/// `<linux/kprobes.h>`
///
/// # Safety
///
/// As clients in C have to call it: with strings, and structures that stay until they are unregistered, or NULL.
#[export]
unsafe extern "C" fn kprobe_lookup_name(name: *const c_char, _offset: c_uint) -> *mut u8 {
    // SAFETY: By the rules of the C interface.
    let name = unsafe { CStr::from_char_ptr(name) };
    ferro_sys::code::symbols::lookup_name(name).unwrap_or(0) as *mut u8
}

/// `<linux/kprobes.h>`
///
/// # Safety
///
/// As clients in C have to call it: with strings, and structures that stay until they are unregistered, or NULL.
#[export]
unsafe extern "C" fn kprobe_on_func_entry(
    at: *mut u8,
    name: *const c_char,
    offset: usize,
) -> c_int {
    // SAFETY: By the rules of the C interface.
    let name = (!name.is_null()).then(|| unsafe { CStr::from_char_ptr(name) });
    match address::resolve(at as usize, name, offset) {
        Ok(place) if place.at_entry => 0,
        Ok(_) => EINVAL.to_errno(),
        Err(error) => error.errno().to_errno(),
    }
}

/// `<linux/kprobes.h>`: the probe at an address, the newest of several; NULL if there is none.
///
/// Context: preemption off, as long as the probe is used.
#[export]
extern "C" fn get_kprobe(at: *mut c_void) -> *mut bindings::kprobe {
    let newest = hit::POINTS.with(at as usize, |point| point.probes.iter().next());
    newest.flatten().map_or(null_mut(), Kprobe::as_ptr)
}

/// `<linux/kprobes.h>`
///
/// # Safety
///
/// As clients in C have to call it: with strings, and structures that stay until they are unregistered, or NULL.
#[export]
unsafe extern "C" fn kprobes_inc_nmissed_count(kprobe: *mut bindings::kprobe) {
    // SAFETY: By the rules of the C interface.
    if let Some(probe) = unsafe { Kprobe::new(kprobe) } {
        probe.count_missed();
    }
}

/// `<linux/kprobes.h>`
///
/// # Safety
///
/// As clients in C have to call it: with strings, and structures that stay until they are unregistered, or NULL.
#[export]
unsafe extern "C" fn dump_kprobe(kprobe: *mut bindings::kprobe) {
    // SAFETY: By the rules of the C interface.
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
#[no_mangle]
extern "C" fn ferro_kprobes_start() -> c_int {
    // It is there for good.
    errno(crate::Attached::new().map(core::mem::forget))
}

/// `<linux/kprobes.h>`: the kernel's own initialisation code goes.
#[cfg(not(MODULE))]
#[export]
extern "C" fn kprobe_free_init_mem() {
    // SAFETY: Takes any address.
    registry::kill(|at| unsafe { bindings::ferro_in_kernel_init(at) });
}

/// The clients' structures, if it is a batch of at least one, and all are there.
///
/// # Safety
///
/// `kretprobes` has `count` pointers to structures as [`Kretprobe::new`] wants them, or NULL.
unsafe fn kretprobes<'a>(
    kretprobes: *mut *mut bindings::kretprobe,
    count: c_int,
) -> Option<&'a [Kretprobe]> {
    let count = usize::try_from(count)
        .ok()
        .filter(|n| *n > 0 && !kretprobes.is_null())?;
    // SAFETY: By the rules of this function.
    let all = unsafe { core::slice::from_raw_parts(kretprobes, count) };
    if all.iter().any(|rp| rp.is_null()) {
        return None;
    }
    // SAFETY: By the rules of this function; a `Kretprobe` is such a pointer that is not NULL.
    Some(unsafe { core::slice::from_raw_parts(kretprobes.cast(), count) })
}

/// `<linux/kprobes.h>`
///
/// # Safety
///
/// As clients in C have to call it: with strings, and structures that stay until they are unregistered, or NULL.
#[export]
unsafe extern "C" fn register_kretprobe(kretprobe: *mut bindings::kretprobe) -> c_int {
    let mut kretprobe = kretprobe;
    // SAFETY: By the rules of the C interface.
    unsafe { register_kretprobes(&raw mut kretprobe, 1) }
}

/// `<linux/kprobes.h>`
///
/// # Safety
///
/// As clients in C have to call it: with strings, and structures that stay until they are unregistered, or NULL.
#[export]
unsafe extern "C" fn register_kretprobes(
    all: *mut *mut bindings::kretprobe,
    count: c_int,
) -> c_int {
    // SAFETY: By the rules of the C interface.
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
/// As clients in C have to call it: with strings, and structures that stay until they are unregistered, or NULL.
#[export]
unsafe extern "C" fn unregister_kretprobe(kretprobe: *mut bindings::kretprobe) {
    let mut kretprobe = kretprobe;
    // SAFETY: By the rules of the C interface.
    unsafe { unregister_kretprobes(&raw mut kretprobe, 1) }
}

/// `<linux/kprobes.h>`
///
/// # Safety
///
/// As clients in C have to call it: with strings, and structures that stay until they are unregistered, or NULL.
#[export]
unsafe extern "C" fn unregister_kretprobes(all: *mut *mut bindings::kretprobe, count: c_int) {
    // SAFETY: By the rules of the C interface.
    if let Some(all) = unsafe { kretprobes(all, count) } {
        kretprobe::unregister(all.iter().copied());
    }
}
