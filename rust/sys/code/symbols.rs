// SPDX-License-Identifier: GPL-2.0

//! Symbols, owners of code, and code that the kernel has reserved.
//!
//! Contexts: process, unless stated.

use core::ptr::NonNull;

use crate::bindings;
use kernel::error::to_result;
use kernel::ffi::c_ulong;
use kernel::fmt;
use kernel::prelude::*;
use kernel::types::NotThreadSafe;

use crate::code::kallsyms::NAME_LEN;
use crate::code::modules::ModuleRef;

extern "C" {
    /// `symbols.h`
    fn ferro_is_decoded_on_fault(addr: usize) -> bool;
    /// `symbols.h`
    fn ferro_is_cfi_check(addr: usize) -> bool;
    /// `symbols.h`
    fn ferro_is_kgdb_breakpoint(addr: usize) -> bool;
}

/// Returns true for an address in the text of the kernel image, initialisation included until it is
/// freed.
/// Context: any.
pub fn is_core_text(addr: usize) -> bool {
    // SAFETY: Compares the address with the limits of the image, and does not follow it.
    unsafe { bindings::core_kernel_text(addr) != 0 }
}

/// An address that was code of the kernel or of a module when this was made.
///
/// The code may have been freed since: `PatchSite::arm()` checks again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TextAddress(usize);

impl TextAddress {
    /// Makes an address that is known to be code.
    pub(crate) fn new_checked(addr: usize) -> Self {
        Self(addr)
    }

    /// Returns the address.
    pub fn get(self) -> usize {
        self.0
    }
}

/// Returns the address as code of the kernel or of a loaded module.
pub fn text_address(addr: usize) -> Option<TextAddress> {
    owner(addr).ok().map(|_| TextAddress::new_checked(addr))
}

/// Owner of code, which holds a reference to it.
pub enum Owner {
    /// The kernel's image.
    Kernel,
    /// A module. It cannot be unloaded as long as this exists.
    Module(ModuleRef),
}

/// Reason why an address has no owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoOwner {
    /// The address is not code.
    NotText,
    /// The module of the code is being unloaded.
    Going,
}

/// Finds the owner of the code at an address.
pub fn owner(addr: usize) -> Result<Owner, NoOwner> {
    let mut module = core::ptr::null_mut();
    // SAFETY: `module` is a variable of this function; any address can be looked up, which `text.c`
    // does under RCU.
    let result = unsafe { bindings::ferro_text_module_get(addr, &raw mut module) };
    match to_result(result) {
        // SAFETY: If there is a module, `text.c` has taken a reference to it for this object.
        Ok(()) => Ok(NonNull::new(module).map_or(Owner::Kernel, |m| {
            Owner::Module(unsafe { ModuleRef::from_raw(m) })
        })),
        Err(error) if error == ENOENT => Err(NoOwner::Going),
        Err(_) => Err(NoOwner::NotText),
    }
}

/// Holds the lock of jump labels: no site becomes a jump label, or stops being one.
///
/// Taken after CPU hotplug is held off and before `text_mutex`.
pub struct JumpLabelLock(NotThreadSafe);

impl JumpLabelLock {
    /// Takes the lock. Context: process; sleeps.
    pub fn new() -> Self {
        // SAFETY: A mutex may be taken in process context, which this function requires. `drop()`
        // unlocks it in the same task, as the guard is not `Send`; a forgotten guard keeps it
        // locked.
        unsafe { bindings::ferro_jump_label_lock() };
        Self(NotThreadSafe)
    }

    /// Returns true if a jump label patches one of the bytes from `start` to `last`.
    pub fn has_jump_label(&self, start: usize, last: usize) -> bool {
        // SAFETY: The tables of jump labels are walked with their lock held, as `self` says; the
        // addresses are only compared.
        unsafe { bindings::ferro_jump_label_reserved(start, last) }
    }

    /// Returns true if a static call patches one of the bytes from `start` to `last`.
    pub fn has_static_call(&self, start: usize, last: usize) -> bool {
        // SAFETY: The image's table stays, and a module's is walked with a reference to it; the
        // addresses are only compared.
        unsafe { bindings::ferro_static_call_reserved(start, last) }
    }
}

impl Default for JumpLabelLock {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for JumpLabelLock {
    fn drop(&mut self) {
        // SAFETY: `new()` has locked it, in this task, and only this drop unlocks it.
        unsafe { bindings::ferro_jump_label_unlock() };
    }
}

/// Returns true if the instruction at an address is a `WARN()` or `BUG()`, which the trap finds by
/// its address.
pub fn is_bug(addr: usize) -> bool {
    // SAFETY: The address is only compared with those in tables: the image's stays, modules' are
    // walked under RCU.
    unsafe { bindings::ferro_is_bug(addr) }
}

/// Returns true if the fixup for a fault of the instruction decodes the instruction in place.
pub fn is_decoded_on_fault(addr: usize) -> bool {
    // SAFETY: The address is only compared with those in tables: the image's stays, and `text.c`
    // holds RCU for modules'.
    unsafe { ferro_is_decoded_on_fault(addr) }
}

/// Returns true if the instruction is one of those before a kCFI trap, which the trap decodes.
pub fn is_cfi_check(addr: usize) -> bool {
    // SAFETY: The address is only compared with those in tables: the image's stays, modules' are
    // walked under RCU.
    unsafe { ferro_is_cfi_check(addr) }
}

/// Returns true if a debugger has put a breakpoint at an address.
pub fn is_kgdb_breakpoint(addr: usize) -> bool {
    // SAFETY: The address is only compared with those in kgdb's table, which stays.
    unsafe { ferro_is_kgdb_breakpoint(addr) }
}

/// Returns true if an address is in the pages that the kernel maps into every process.
pub fn in_gate_area(addr: usize) -> bool {
    // SAFETY: The address is only compared with the limits of that area.
    unsafe { bindings::ferro_in_gate_area(addr) }
}

/// Returns true if ftrace patches the instruction at this address.
pub fn is_ftrace_site(addr: usize) -> bool {
    // SAFETY: ftrace compares the addresses with those of its records, under RCU.
    unsafe { bindings::ftrace_location_range(addr, addr) == addr as c_ulong }
}

/// Returns true if the bytes are an `ENDBR`, or the NOP with which the kernel has replaced one.
pub fn is_endbr(bytes: [u8; 4]) -> bool {
    // SAFETY: Compares the number with those of the instructions, and uses nothing else.
    unsafe { bindings::ferro_is_endbr(u32::from_le_bytes(bytes)) }
}

/// Symbol, offset and module of an address, for messages.
pub struct Description {
    name: [u8; NAME_LEN],
    module: [u8; bindings::FERRO_MODULE_NAME_LEN as usize],
    /// Distance of the address from the start of the symbol.
    pub offset: usize,
}

impl Description {
    /// Describes a code address in a symbol.
    pub fn of(addr: usize) -> Option<Self> {
        let mut new = Self {
            name: [0; NAME_LEN],
            module: [0; bindings::FERRO_MODULE_NAME_LEN as usize],
            offset: 0,
        };
        // SAFETY: By their types `name` has KSYM_NAME_LEN bytes and `module` MODULE_NAME_LEN, as
        // `text.h` requires; the offset is a word of `new`; any address can be looked up, which
        // `text.c` does under RCU.
        let found = unsafe {
            let module = new.module.as_mut_ptr().cast();
            bindings::ferro_describe(
                addr,
                new.name.as_mut_ptr().cast(),
                &raw mut new.offset,
                module,
            )
        };
        found.then_some(new)
    }

    /// Returns the symbol.
    pub fn name(&self) -> &CStr {
        CStr::from_bytes_until_nul(&self.name).unwrap_or(c"?")
    }

    /// Returns the module; empty for the kernel.
    pub fn module(&self) -> &CStr {
        CStr::from_bytes_until_nul(&self.module).unwrap_or(c"?")
    }
}

/// For the log, which must not show addresses: they would disclose the base of the kernel.
impl fmt::Display for Description {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_fmt(fmt!("{}+{:#x}", self.name(), self.offset))?;
        match self.module() {
            module if module.is_empty() => Ok(()),
            module => f.write_fmt(fmt!(" [{module}]")),
        }
    }
}

/// An address of code as the log shows it: `function+0x3`.
pub struct Shown(pub usize);

impl fmt::Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match Description::of(self.0) {
            Some(place) => place.fmt(f),
            None => f.write_str("an address without a symbol"),
        }
    }
}

/// Returns true if the current task may see kernel addresses.
pub fn shows_addresses() -> bool {
    // SAFETY: Reads the credentials of the current task, which only the task itself replaces.
    unsafe { bindings::ferro_shows_addresses() }
}
