// SPDX-License-Identifier: GPL-2.0

//! Reading and changing the code of the kernel and its modules.
//!
//! Contexts: process, sleeping; [`read_text()`]: any.
//! Locks, in order: CPU hotplug, `text_mutex`. The lock of jump labels, if a caller needs it, is
//! taken between them.

use core::cell::UnsafeCell;
use core::ops::Deref;
use core::sync::atomic::AtomicUsize;
use core::sync::atomic::Ordering::Relaxed;

use crate::bindings;
use kernel::ffi::c_int;
use kernel::ffi::c_void;
use kernel::prelude::*;
use kernel::types::NotThreadSafe;

use crate::code::symbols;
use crate::code::symbols::TextAddress;
use crate::cpu::HotplugOff;

/// `int3`
pub const BREAKPOINT: u8 = 0xcc;

/// Reason why a byte of code was not written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotWritten {
    /// The code has been freed, or is about to be.
    Gone,
    /// The byte differs from the expected one: a debugger has written it.
    Changed,
}

/// Copies kernel memory that may be unmapped. Context: any.
///
/// Errors: -EFAULT if the memory is unmapped, -ERANGE for an address of user space.
pub fn read_text(addr: usize, to: &mut [u8]) -> Result {
    // SAFETY: The function takes any address as its source; the destination is a slice of this
    // length.
    let result = unsafe {
        bindings::copy_from_kernel_nofault(
            to.as_mut_ptr().cast(),
            core::ptr::without_provenance(addr),
            to.len(),
        )
    };
    kernel::error::to_result(i32::try_from(result).unwrap_or(-1))
}

/// A module with loaded code.
struct Loaded {
    module: *mut bindings::module,
    /// True if its initialisation code is loaded, too.
    init: bool,
}

/// Modules between their COMING and GOING notifications. Their code stays while `text_mutex` is
/// held.
///
/// # Invariants
///
/// Only used with `text_mutex` held. Has every module between its COMING and its GOING
/// notification: its memory is freed after the latter.
struct TextModules(UnsafeCell<KVVec<Loaded>>);

// SAFETY: By the type invariant it is used with `text_mutex` held, which one task at a time has.
unsafe impl Sync for TextModules {}

static MODULES: TextModules = TextModules(UnsafeCell::new(KVVec::new()));

/// Number of synchronisations of all CPUs with new code. Changed only with `text_mutex` held.
static SYNCS: AtomicUsize = AtomicUsize::new(0);

/// The right to write to slots of `exec_pool.rs`: holds `text_mutex`.
pub struct TextMutex(NotThreadSafe);

impl TextMutex {
    /// Takes the lock. Context: process; sleeps.
    pub fn new() -> Self {
        // SAFETY: A mutex with static lifetime, initialised by `DEFINE_MUTEX()`.
        unsafe { bindings::mutex_lock(&raw mut bindings::text_mutex) };
        Self(NotThreadSafe)
    }

    fn modules(&mut self) -> &mut KVVec<Loaded> {
        // SAFETY: The guard holds the mutex and is borrowed mutably.
        unsafe { &mut *MODULES.0.get() }
    }

    /// Writes to a slot of `exec_pool.rs`, in one page.
    pub(crate) fn write_slot(&self, at: usize, code: &[u8]) {
        let addr: *mut c_void = core::ptr::without_provenance_mut(at);
        // SAFETY: `text_mutex` is held, and the caller owns the slot.
        unsafe { bindings::text_poke(addr, code.as_ptr().cast(), code.len()) };
    }

    /// Replaces an instruction that may be executing by another of the same length. Every CPU
    /// executes the old or the new one; after the return, only the new one.
    ///
    /// # Safety
    ///
    /// An instruction of this length is at `at`, in a slot that the caller owns. Every CPU that
    /// executes the slot is ready for the new one: a call, a jump or a NOP after which the code
    /// continues correctly.
    pub unsafe fn replace(&self, at: usize, code: &[u8; 5]) {
        let addr: *mut c_void = core::ptr::without_provenance_mut(at);
        // SAFETY: `text_mutex` is held. The caller guarantees that an instruction of 5 bytes is
        // there, and that the new one is a branch or a NOP, which the handler of the intermediate
        // breakpoint can emulate.
        unsafe {
            bindings::smp_text_poke_single(
                addr,
                code.as_ptr().cast(),
                code.len(),
                core::ptr::null(),
            )
        };
    }
}

impl Default for TextMutex {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for TextMutex {
    fn drop(&mut self) {
        // SAFETY: Taken by `new()` in this task, as the guard is not `Send`.
        unsafe { bindings::mutex_unlock(&raw mut bindings::text_mutex) };
    }
}

/// The right to change code, slots included.
pub struct TextLock {
    // Dropped in this order.
    mutex: TextMutex,
    _hotplug: HotplugOff,
}

impl TextLock {
    /// Takes the locks. Context: process; sleeps. Not from a hotplug callback.
    pub fn new() -> Self {
        let hotplug = HotplugOff::new();
        Self {
            mutex: TextMutex::new(),
            _hotplug: hotplug,
        }
    }

    /// Replaces one byte of code with the value `old`.
    ///
    /// # Safety
    ///
    /// Code that executes the new byte continues as before, or is ready for it.
    unsafe fn exchange_byte(
        &mut self,
        at: TextAddress,
        old: u8,
        new: u8,
    ) -> Result<(), NotWritten> {
        if !self.is_there(at.get()) {
            return Err(NotWritten::Gone);
        }
        let mut now = [0];
        read_text(at.get(), &mut now).map_err(|_| NotWritten::Gone)?;
        if now != [old] {
            return Err(NotWritten::Changed);
        }
        let addr: *mut c_void = core::ptr::without_provenance_mut(at.get());
        // SAFETY: `text_mutex` is held, as required. As long as it is held, the code stays, as
        // `is_there()` has checked. The caller guarantees that every CPU that executes the byte is
        // ready for it.
        unsafe { bindings::text_poke(addr, (&raw const new).cast(), 1) };
        // SAFETY: Both buffers have one byte.
        unsafe {
            bindings::perf_event_text_poke(addr, now.as_ptr().cast(), 1, (&raw const new).cast(), 1)
        };
        Ok(())
    }

    /// Makes every CPU execute the written code; once for a batch.
    pub fn sync(&mut self) {
        // SAFETY: No requirement; interrupts are on, as this context sleeps.
        unsafe { bindings::smp_text_poke_sync_each_cpu() };
        self.note_sync();
    }

    /// Counts a synchronisation of all CPUs with new code.
    pub(super) fn note_sync(&mut self) {
        SYNCS.store(SYNCS.load(Relaxed).wrapping_add(1), Relaxed);
    }

    /// Returns the number of synchronisations since boot, by all holders of this lock.
    pub fn syncs(&self) -> usize {
        SYNCS.load(Relaxed)
    }

    /// Returns true if an address is in code that stays while the lock is held.
    pub fn is_there(&mut self, addr: usize) -> bool {
        if symbols::is_core_text(addr) {
            return true;
        }
        self.mutex.modules().iter().any(|loaded| {
            // SAFETY: By the type invariant of `TextModules` the module exists.
            let core = unsafe { bindings::ferro_in_core_text(addr, loaded.module) };
            // SAFETY: `self` still holds the lock, so by the type invariant of `TextModules` the
            // module still exists.
            let init = unsafe { bindings::ferro_in_init_text(addr, loaded.module) };
            core || init && loaded.init
        })
    }
}

impl Deref for TextLock {
    type Target = TextMutex;

    fn deref(&self) -> &TextMutex {
        &self.mutex
    }
}

/// Tells perf about new code in a slot.
pub(crate) fn slot_comes(at: usize, code: &[u8]) {
    let addr: *mut c_void = core::ptr::without_provenance_mut(at);
    // SAFETY: There is no old code; the new one has this length.
    unsafe {
        bindings::perf_event_text_poke(addr, core::ptr::null(), 0, code.as_ptr().cast(), code.len())
    };
}

/// Tells perf that a slot's code is being removed.
pub(crate) fn slot_goes(at: usize, len: usize) {
    let addr: *const c_void = core::ptr::without_provenance(at);
    // SAFETY: The caller owns the slot, which has this length. There is no new code.
    unsafe {
        bindings::perf_event_text_poke(addr, addr.cast(), len, core::ptr::null(), 0);
    }
}

impl Default for TextLock {
    fn default() -> Self {
        Self::new()
    }
}

/// An instruction that a breakpoint may replace.
#[derive(Debug)]
pub struct PatchSite {
    at: TextAddress,
    original: u8,
}

/// An instruction that our breakpoint has replaced. The breakpoint stays, even if this is dropped,
/// until it is disarmed or the code is freed.
#[derive(Debug)]
pub struct ArmedSite {
    at: TextAddress,
    original: u8,
}

impl PatchSite {
    /// # Safety
    ///
    /// An instruction starts at the address, with the byte `original`. No other such site puts a
    /// breakpoint there. This object, and the objects made of it, are given up before other code is
    /// loaded at the address. While the site is armed, and until every CPU has been synchronised
    /// after the disarming ([`TextLock::sync`]), the caller makes a CPU that executes the
    /// breakpoint continue as the instruction would.
    pub unsafe fn new(at: TextAddress, original: u8) -> Self {
        Self { at, original }
    }

    /// Writes the breakpoint. Every CPU sees the old or the new byte; after [`TextLock::sync`],
    /// only the new one.
    ///
    /// Fails if the byte differs from the original, or if the code is, or is about to be, freed.
    pub fn arm(self, lock: &mut TextLock) -> Result<ArmedSite, (Self, NotWritten)> {
        // SAFETY: The maker of this object handles the breakpoint.
        match unsafe { lock.exchange_byte(self.at, self.original, BREAKPOINT) } {
            Ok(()) => Ok(ArmedSite {
                at: self.at,
                original: self.original,
            }),
            Err(why) => Err((self, why)),
        }
    }
}

impl ArmedSite {
    /// Returns the address of the breakpoint.
    pub fn address(&self) -> usize {
        self.at.get()
    }

    /// Returns the address and the replaced byte, for `jump_site.rs`.
    pub(super) fn parts(&self) -> (TextAddress, u8) {
        (self.at, self.original)
    }

    /// Makes a site for `jump_site.rs`, which has put the breakpoint back.
    pub(super) fn from_parts(at: TextAddress, original: u8) -> Self {
        Self { at, original }
    }

    /// Removes the breakpoint, unless it has been overwritten. Every CPU sees the old or the new
    /// byte; after [`TextLock::sync`], only the new one.
    pub fn disarm(self, lock: &mut TextLock) -> PatchSite {
        let Self { at, original } = self;
        // Freed code has no breakpoint, and a debugger's byte is not ours to replace.
        // SAFETY: The byte was there before the breakpoint, and by the contract of
        // `PatchSite::new()` the code is still the same.
        let _ = unsafe { lock.exchange_byte(at, BREAKPOINT, original) };
        PatchSite { at, original }
    }
}

/// Entry point of the module notifier, before other notifiers learn of the module.
///
/// # Safety
///
/// `module` exists until this returns.
#[no_mangle]
unsafe extern "C" fn ferro_text_module_coming(module: *mut bindings::module) -> c_int {
    let loaded = Loaded { module, init: true };
    match TextMutex::new().modules().push(loaded, GFP_KERNEL) {
        Ok(()) => 0,
        Err(_) => ENOMEM.to_errno(),
    }
}

/// Entry point of the module notifier, before the module's initialisation code is freed.
///
/// # Safety
///
/// No requirement: the pointer is only compared.
#[no_mangle]
unsafe extern "C" fn ferro_text_module_live(module: *mut bindings::module) {
    let mut mutex = TextMutex::new();
    for loaded in mutex.modules().iter_mut() {
        loaded.init &= loaded.module != module;
    }
}

/// Entry point of the module notifier, before the module is freed.
///
/// # Safety
///
/// No requirement: the pointer is only compared.
#[no_mangle]
unsafe extern "C" fn ferro_text_module_going(module: *mut bindings::module) {
    TextMutex::new()
        .modules()
        .retain(|loaded| loaded.module != module);
}

crate::declared_in_c!(
    ferro_text_module_coming,
    ferro_text_module_live,
    ferro_text_module_going
);
