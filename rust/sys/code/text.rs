// SPDX-License-Identifier: GPL-2.0

//! Reading and changing the code of the kernel and its modules.
//!
//! Contexts: process, sleeping; [`read_text()`] anywhere.
//! Locks, in order: CPU hotplug, `text_mutex`. Whoever wants the lock of jump labels too takes it between them.

use core::cell::UnsafeCell;
use core::ops::Deref;

use kernel::bindings;
use kernel::ffi::c_int;
use kernel::ffi::c_void;
use kernel::prelude::*;
use kernel::types::NotThreadSafe;

use crate::code::jump_site::note_sync;
use crate::code::jump_site::syncs;
use crate::code::symbols;
use crate::cpu::HotplugOff;

/// `int3`
pub const BREAKPOINT: u8 = 0xcc;

/// An address that was code of the kernel or of a module when it was made.
///
/// That code may be gone by now: [`PatchSite::arm`] looks again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TextAddress(usize);

impl TextAddress {
    /// For `symbols.rs`, which has looked.
    pub(crate) fn new_checked(addr: usize) -> Self {
        Self(addr)
    }

    /// The address.
    pub fn get(self) -> usize {
        self.0
    }
}

/// Why a byte of code is not written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotWritten {
    /// The code has gone, or is about to be freed.
    Gone,
    /// Another byte stands there than the one expected: a debugger has written it.
    Changed,
}

/// Copies memory of the kernel that may not be there. Context: any.
///
/// Errors: -EFAULT if it is not, -ERANGE for an address of user space.
pub fn read_text(addr: usize, to: &mut [u8]) -> Result {
    // SAFETY: The function takes any address as its source; the destination is a slice of this length.
    let result = unsafe {
        bindings::copy_from_kernel_nofault(
            to.as_mut_ptr().cast(),
            core::ptr::without_provenance(addr),
            to.len(),
        )
    };
    kernel::error::to_result(i32::try_from(result).unwrap_or(-1))
}

/// A module whose code is there.
struct Loaded {
    module: *mut bindings::module,
    /// Its initialisation code is, too.
    init: bool,
}

/// The modules between their coming and their going, whose code stays while `text_mutex` is held.
///
/// # Invariants
///
/// Only used with `text_mutex` held. Has every module that a notifier was told of as coming, and not yet as
/// going: its memory is freed after that.
struct TextModules(UnsafeCell<KVVec<Loaded>>);

// SAFETY: By the type invariant it is used with `text_mutex` held, which one task at a time has.
unsafe impl Sync for TextModules {}

static MODULES: TextModules = TextModules(UnsafeCell::new(KVVec::new()));

/// The right to write to slots of `exec_pool.rs`: `text_mutex` is held.
pub struct TextMutex(NotThreadSafe);

impl TextMutex {
    /// Context: process; sleeps.
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
        // SAFETY: `text_mutex` is held, and the slot is the caller's.
        unsafe { bindings::text_poke(addr, code.as_ptr().cast(), code.len()) };
    }

    /// Replaces an instruction that may be executing by one of the same length: every CPU executes the old or the new one,
    /// and the new one once this has returned.
    ///
    /// # Safety
    ///
    /// An instruction of this length is at `at`, in a slot that the caller has, and who executes it is ready for the new one:
    /// a call, a jump or a NOP with which the code goes on as it should.
    pub unsafe fn replace(&self, at: usize, code: &[u8; 5]) {
        let addr: *mut c_void = core::ptr::without_provenance_mut(at);
        // SAFETY: `text_mutex` is held. The caller guarantees that an instruction of 5 bytes is there, and that the new one is a
        // branch or a NOP, which the breakpoint that stands there meanwhile can be emulated by.
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
    /// Context: process; sleeps. Not from a hotplug callback.
    pub fn new() -> Self {
        let hotplug = HotplugOff::new();
        Self {
            mutex: TextMutex::new(),
            _hotplug: hotplug,
        }
    }

    /// Replaces one byte of code that is `old`.
    ///
    /// # Safety
    ///
    /// Code that executes the new byte goes on as before, or is ready for it.
    unsafe fn exchange_byte(
        &mut self,
        at: TextAddress,
        old: u8,
        new: u8,
    ) -> Result<(), NotWritten> {
        if !self.is_there(at.0) {
            return Err(NotWritten::Gone);
        }
        let mut now = [0];
        read_text(at.0, &mut now).map_err(|_| NotWritten::Gone)?;
        if now != [old] {
            return Err(NotWritten::Changed);
        }
        let addr: *mut c_void = core::ptr::without_provenance_mut(at.0);
        // SAFETY: `text_mutex` is held, as it has to be, and as long as it is the code stays, as `is_there()` has seen. The caller
        // guarantees that whoever executes it is ready for it.
        unsafe { bindings::text_poke(addr, (&raw const new).cast(), 1) };
        // SAFETY: Both hold one byte.
        unsafe {
            bindings::perf_event_text_poke(addr, now.as_ptr().cast(), 1, (&raw const new).cast(), 1)
        };
        Ok(())
    }

    /// Has every CPU execute what was written; once for a batch.
    pub fn sync(&mut self) {
        // SAFETY: No requirement; interrupts are on, as this context sleeps.
        unsafe { bindings::smp_text_poke_sync_each_cpu() };
        note_sync();
    }

    /// How often that has been done since boot, by anybody with this lock.
    pub fn syncs(&self) -> usize {
        syncs()
    }

    /// Whether there is code at an address that stays while the lock is held.
    pub fn is_there(&mut self, addr: usize) -> bool {
        if symbols::is_core_text(addr) {
            return true;
        }
        self.mutex.modules().iter().any(|loaded| {
            // SAFETY: By the type invariant of `TextModules` the module is there.
            let core = unsafe { bindings::ferro_in_core_text(addr, loaded.module) };
            // SAFETY: `self` still holds the lock, so by the type invariant of `TextModules` the module is still there.
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

/// Tells perf that there is code in a slot now.
pub(crate) fn slot_comes(at: usize, code: &[u8]) {
    let addr: *mut c_void = core::ptr::without_provenance_mut(at);
    // SAFETY: There is no old code; the new one has this length.
    unsafe {
        bindings::perf_event_text_poke(addr, core::ptr::null(), 0, code.as_ptr().cast(), code.len())
    };
}

/// Tells perf that the code of a slot goes.
pub(crate) fn slot_goes(at: usize, len: usize) {
    let addr: *const c_void = core::ptr::without_provenance(at);
    // SAFETY: The slot is the caller's, and has this length. There is no new code.
    unsafe {
        bindings::perf_event_text_poke(addr, addr.cast(), len, core::ptr::null(), 0);
    }
}

impl Default for TextLock {
    fn default() -> Self {
        Self::new()
    }
}

/// An instruction where a breakpoint may be put.
#[derive(Debug)]
pub struct PatchSite {
    at: TextAddress,
    original: u8,
}

/// An instruction with a breakpoint of ours in its place. It stays there, also if this is dropped, until it is disarmed or the
/// code is freed.
#[derive(Debug)]
pub struct ArmedSite {
    at: TextAddress,
    original: u8,
}

impl PatchSite {
    /// # Safety
    ///
    /// An instruction starts at the address, with the byte `original`, where nobody else puts a breakpoint by another such site, and both this and what
    /// is made of it are given up before other code comes to stand there. As long as the site is armed, and until every CPU has been told that it is not
    /// ([`TextLock::sync`]), the caller has whoever executes the breakpoint go on as the instruction would.
    pub unsafe fn new(at: TextAddress, original: u8) -> Self {
        Self { at, original }
    }

    /// Puts the breakpoint there. Every CPU sees the old or the new byte, and certainly the new one after [`TextLock::sync`].
    ///
    /// Fails if another byte stands there, or the code is, or is about to be, freed.
    pub fn arm(self, lock: &mut TextLock) -> Result<ArmedSite, (Self, NotWritten)> {
        // SAFETY: Whoever has made this handles the breakpoint.
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
    /// The address of the breakpoint.
    pub fn address(&self) -> usize {
        self.at.get()
    }

    /// Where it is, and the byte that it has replaced, for `jump_site.rs`.
    pub(super) fn parts(&self) -> (TextAddress, u8) {
        (self.at, self.original)
    }

    /// For `jump_site.rs`, which has put the breakpoint back.
    pub(super) fn from_parts(at: TextAddress, original: u8) -> Self {
        Self { at, original }
    }

    /// Takes the breakpoint away, unless it is no longer there. Every CPU sees the old or the new byte, and certainly the new one
    /// after [`TextLock::sync`].
    pub fn disarm(self, lock: &mut TextLock) -> PatchSite {
        let Self { at, original } = self;
        // Code that has gone has no breakpoint, and what a debugger has put in its place is not this one's.
        // SAFETY: It was there before the breakpoint, and by the contract of `PatchSite::new()` the code is still the same.
        let _ = unsafe { lock.exchange_byte(at, BREAKPOINT, original) };
        PatchSite { at, original }
    }
}

/// For the module notifier, before anybody else hears of the module.
///
/// # Safety
///
/// `module` is there until this returns.
#[export]
unsafe extern "C" fn ferro_text_module_coming(module: *mut bindings::module) -> c_int {
    let loaded = Loaded { module, init: true };
    match TextMutex::new().modules().push(loaded, GFP_KERNEL) {
        Ok(()) => 0,
        Err(_) => ENOMEM.to_errno(),
    }
}

/// For the module notifier, before the module's initialisation code is freed.
///
/// # Safety
///
/// No requirement: the pointer is only compared.
#[export]
unsafe extern "C" fn ferro_text_module_live(module: *mut bindings::module) {
    let mut mutex = TextMutex::new();
    for loaded in mutex.modules().iter_mut() {
        loaded.init &= loaded.module != module;
    }
}

/// For the module notifier, before the module is freed.
///
/// # Safety
///
/// No requirement: the pointer is only compared.
#[export]
unsafe extern "C" fn ferro_text_module_going(module: *mut bindings::module) {
    TextMutex::new()
        .modules()
        .retain(|loaded| loaded.module != module);
}
