// SPDX-License-Identifier: GPL-2.0

//! Code of the kernel and its modules: its symbols, its rules, and its patching.
//!
//! Contexts: process, sleeps. Locks, in order: CPU hotplug, `text_mutex`.

use core::cell::UnsafeCell;
use core::ptr::NonNull;

use ferro_core::insn::MAX_LEN;
use ferro_coverage_core::Site;
use ferro_coverage_core::PAGE;
use ferro_sys::bindings;
use ferro_sys::code::kallsyms::NAME_LEN;
use ferro_sys::cpu::HotplugOff;
use kernel::error::to_result;
use kernel::ffi::c_char;
use kernel::ffi::c_int;
use kernel::ffi::c_uint;
use kernel::ffi::c_ulong;
use kernel::ffi::c_void;
use kernel::prelude::*;
use kernel::types::NotThreadSafe;

/// `int3`
pub(crate) const BREAKPOINT: u8 = 0xcc;

/// `struct ferro_coverage_text`, with that name because CFI compares function types by name.
#[repr(C)]
struct ferro_coverage_text {
    module: *mut c_void,
    start: c_ulong,
    end: c_ulong,
}

extern "C" {
    // All of `builtin.h`.
    fn ferro_coverage_init() -> c_int;
    fn ferro_coverage_text_get(addr: c_ulong, text: *mut ferro_coverage_text) -> c_int;
    fn ferro_coverage_text_put(text: *const ferro_coverage_text);
    fn ferro_coverage_is_init(text: *const ferro_coverage_text, addr: c_ulong) -> bool;
    fn ferro_coverage_symbol(
        addr: c_ulong,
        start: *mut c_ulong,
        size: *mut c_ulong,
        name: *mut c_char,
    ) -> bool;
    fn ferro_coverage_is_marked(addr: c_ulong) -> bool;
    fn ferro_coverage_ftrace_site(start: c_ulong, last: c_ulong) -> c_ulong;
    fn ferro_coverage_sites(
        text: *const ferro_coverage_text,
        add: unsafe extern "C" fn(*mut c_void, u32, u32) -> bool,
        context: *mut c_void,
    );
    fn ferro_coverage_lock();
    fn ferro_coverage_unlock();
    fn ferro_coverage_poke(addr: c_ulong, code: *const u8, len: usize);
    fn ferro_coverage_sync();
    fn ferro_coverage_has_kprobe(addr: c_ulong, count: c_uint) -> bool;
    fn ferro_coverage_restore(addr: c_ulong, code: *mut u8) -> bool;
}

/// Proof that everything that this file needs of the kernel has been found.
#[derive(Clone, Copy)]
pub(crate) struct Ready(());

impl Ready {
    /// Finds it. Errors: -ENOENT, which is logged.
    pub(crate) fn new() -> Result<Self> {
        // SAFETY: Called by the module's initialisation, before any other function of `builtin.h`.
        to_result(unsafe { ferro_coverage_init() })?;
        Ok(Self(()))
    }

    /// # Safety
    ///
    /// There has been another one.
    pub(super) unsafe fn again() -> Self {
        Self(())
    }
}

/// Address of a module, for comparisons only.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct ModuleId(usize);

impl ModuleId {
    /// Returns the identity of a module.
    pub(crate) fn of(module: *mut bindings::module) -> Self {
        Self(module.addr())
    }
}

/// Code of the image or of a module, without initialisation code.
///
/// # Invariants
///
/// From `ferro_coverage_text_get()`. Owns a reference to the module, if there is one.
pub(crate) struct Text(ferro_coverage_text);

impl Text {
    /// Finds the text with an address. Errors: -ENOENT.
    pub(crate) fn of(_ready: Ready, addr: usize) -> Result<Self> {
        let mut text = ferro_coverage_text {
            module: core::ptr::null_mut(),
            start: 0,
            end: 0,
        };
        // SAFETY: A variable of this function, with the layout of C; any address can be looked up.
        to_result(unsafe { ferro_coverage_text_get(addr, &raw mut text) })?;
        // INVARIANT: It has just returned 0, and taken a reference.
        Ok(Self(text))
    }

    /// Returns the start of the text.
    pub(crate) fn start(&self) -> usize {
        self.0.start
    }

    /// Returns true if an address is in the text.
    pub(crate) fn contains(&self, addr: usize) -> bool {
        (self.0.start..self.0.end).contains(&addr)
    }

    /// Returns the module; `None` for the image.
    pub(crate) fn module(&self) -> Option<ModuleId> {
        NonNull::new(self.0.module).map(|module| ModuleId(module.as_ptr().addr()))
    }

    /// Returns true if an address is in initialisation code of the same owner.
    pub(crate) fn is_init(&self, addr: usize) -> bool {
        // SAFETY: By the type invariant; the address is only compared.
        unsafe { ferro_coverage_is_init(&raw const self.0, addr) }
    }

    /// Copies code of the text.
    ///
    /// Errors: -ERANGE if a byte is outside of the text, -EFAULT.
    pub(crate) fn read(&self, _lock: &TextGuard, addr: usize, to: &mut [u8]) -> Result {
        let end = addr.checked_add(to.len()).ok_or(ERANGE)?;
        if !self.contains(addr) || end > self.0.end {
            return Err(ERANGE);
        }
        // SAFETY: The function takes any address as its source; the destination is a slice of this
        // length.
        let result = unsafe {
            bindings::copy_from_kernel_nofault(
                to.as_mut_ptr().cast(),
                core::ptr::without_provenance(addr),
                to.len(),
            )
        };
        to_result(i32::try_from(result).unwrap_or(-1))
    }

    /// Returns the packed sites of the kernel's tables in the text, in ascending order.
    pub(crate) fn sites(&self) -> Result<KVVec<u64>> {
        /// The result, and if memory was short.
        struct Found(KVVec<u64>, bool);

        /// # Safety
        ///
        /// `context` is a `Found` that the caller does not use until this returns.
        unsafe extern "C" fn add(context: *mut c_void, offset: u32, kind: u32) -> bool {
            // SAFETY: The caller guarantees it.
            let found = unsafe { &mut *context.cast::<Found>() };
            let site = match kind {
                0 => Site::JumpLabel,
                1 => Site::StaticCall,
                _ => Site::Exception,
            };
            found.1 |= found.0.push(site.packed(offset), GFP_KERNEL).is_err();
            !found.1
        }
        let mut found = Found(KVVec::new(), false);
        // SAFETY: By the type invariant, so the module's tables stay; `add()` gets its context.
        unsafe { ferro_coverage_sites(&raw const self.0, add, (&raw mut found).cast()) };
        if found.1 {
            return Err(ENOMEM);
        }
        let mut sites = found.0;
        sites.sort_unstable();
        Ok(sites)
    }
}

impl Drop for Text {
    fn drop(&mut self) {
        // SAFETY: By the type invariant this owns the reference, and gives it up once.
        unsafe { ferro_coverage_text_put(&raw const self.0) };
    }
}

/// A function: a symbol with code.
pub(crate) struct Function {
    /// Its address.
    pub(crate) start: usize,
    /// Its size, up to the next symbol.
    pub(crate) size: usize,
    name: [u8; NAME_LEN],
}

impl Function {
    /// Finds the function with an address.
    pub(crate) fn of(_ready: Ready, addr: usize) -> Option<Self> {
        let mut found = Self {
            start: 0,
            size: 0,
            name: [0; NAME_LEN],
        };
        // SAFETY: Variables of this function; the name has KSYM_NAME_LEN bytes. Any address can be
        // looked up.
        let is_found = unsafe {
            let name = found.name.as_mut_ptr().cast();
            ferro_coverage_symbol(addr, &raw mut found.start, &raw mut found.size, name)
        };
        is_found.then_some(found)
    }

    /// Returns the name.
    pub(crate) fn name(&self) -> &CStr {
        CStr::from_bytes_until_nul(&self.name).unwrap_or(c"")
    }

    /// Returns true if the kernel forbids probes in the function.
    pub(crate) fn is_marked(&self) -> bool {
        // SAFETY: The address is only compared.
        unsafe { ferro_coverage_is_marked(self.start) }
    }

    /// Returns the address of the function's ftrace site.
    pub(crate) fn ftrace_site(&self) -> Option<usize> {
        let last = self.start.wrapping_add(self.size.saturating_sub(1));
        // SAFETY: ftrace compares the addresses with those of its records.
        let site = unsafe { ferro_coverage_ftrace_site(self.start, last) };
        (site != 0).then_some(site)
    }
}

/// Holds the locks for patching code, and has the copy of a page to write.
pub(crate) struct TextGuard {
    _not_send: NotThreadSafe,
    _hotplug: HotplugOff,
}

/// Copy of a page of text.
struct Copy(UnsafeCell<[u8; PAGE]>);

// SAFETY: Only `TextGuard` uses it, with `text_mutex` held.
unsafe impl Sync for Copy {}

static COPY: Copy = Copy(UnsafeCell::new([0; PAGE]));

impl TextGuard {
    /// Takes the locks.
    pub(crate) fn new(_ready: Ready) -> Self {
        let hotplug = HotplugOff::new();
        // SAFETY: A mutex of the kernel, in a context that sleeps; `drop()` unlocks it in the same
        // task, as the guard is not `Send`.
        unsafe { ferro_coverage_lock() };
        Self {
            _not_send: NotThreadSafe,
            _hotplug: hotplug,
        }
    }

    /// Returns the guard, with memory for a copy of a page.
    pub(super) fn with_copy(&mut self) -> (&Self, &mut [u8; PAGE]) {
        // SAFETY: The guard holds `text_mutex`, so this is the only guard, and it is borrowed
        // mutably as long as the copy.
        (self, unsafe { &mut *COPY.0.get() })
    }

    /// Returns true if a kprobe is at one of `count` addresses up to `addr`.
    pub(crate) fn has_kprobe(&self, addr: usize, count: u32) -> bool {
        // SAFETY: The lock is held; the addresses are only compared.
        unsafe { ferro_coverage_has_kprobe(addr, count) }
    }

    /// Restores the code at an address, if a kprobe has changed it there. Returns false if none
    /// has.
    pub(crate) fn restore(&self, addr: usize, code: &mut [u8; MAX_LEN]) -> bool {
        // SAFETY: The lock is held; the code has the 15 bytes that are stored.
        unsafe { ferro_coverage_restore(addr, code.as_mut_ptr()) }
    }

    /// Overwrites code.
    ///
    /// # Safety
    ///
    /// The code at `addr` is in one page, and loaded. Each byte that differs from the present one
    /// is the first of an instruction, and a CPU is ready for both.
    pub(super) unsafe fn poke(&self, addr: usize, code: &[u8]) {
        // SAFETY: The lock is held; the caller guarantees the rest.
        unsafe { ferro_coverage_poke(addr, code.as_ptr(), code.len()) };
    }

    /// Makes every CPU execute the written code. No CPU is in a trap of an earlier breakpoint then.
    pub(crate) fn sync(&self) {
        // SAFETY: No requirement; interrupts are on, as this context sleeps.
        unsafe { ferro_coverage_sync() };
    }
}

impl Drop for TextGuard {
    fn drop(&mut self) {
        // SAFETY: `new()` has locked it, in this task.
        unsafe { ferro_coverage_unlock() };
    }
}
