// SPDX-License-Identifier: GPL-2.0

//! Names and places of code: symbols, the modules they belong to, and what the kernel has reserved.
//!
//! Contexts: process, unless stated.

use core::ptr::NonNull;

use kernel::bindings;
use kernel::error::to_result;
use kernel::ffi::c_ulong;
use kernel::fmt;
use kernel::prelude::*;
use kernel::types::NotThreadSafe;

pub use crate::code::kallsyms::lookup_name;
pub use crate::code::kallsyms::name_of;
pub use crate::code::kallsyms::symbol_of;
pub use crate::code::kallsyms::Symbol;
pub use crate::code::kallsyms::NAME_LEN;
use crate::code::text::TextAddress;

extern "C" {
    /// `symbols.h`
    fn ferro_is_decoded_on_fault(addr: usize) -> bool;
    /// `symbols.h`
    fn ferro_is_cfi_check(addr: usize) -> bool;
    /// `symbols.h`
    fn ferro_is_kgdb_breakpoint(addr: usize) -> bool;
    /// `symbols.h`
    fn ferro_is_module_address(addr: usize) -> bool;
}

/// Whether an address is code of the kernel's image, initialisation included as long as it is there.
/// Context: any.
pub fn is_core_text(addr: usize) -> bool {
    // SAFETY: Compares the address with the limits of the image, and does not follow it.
    unsafe { bindings::core_kernel_text(addr) != 0 }
}

/// Whether an address is in the code or the data of a module that is there now.
pub fn is_of_module(addr: usize) -> bool {
    // SAFETY: The address is only compared with where modules are, under RCU.
    unsafe { ferro_is_module_address(addr) }
}

/// The place of code of the kernel or of a module that is there now.
pub fn text_address(addr: usize) -> Option<TextAddress> {
    owner(addr).ok().map(|_| TextAddress::new_checked(addr))
}

/// Whose code an address is in, and keeps it.
pub enum Owner {
    /// The kernel's image.
    Kernel,
    /// A module, which cannot be removed as long as this is there.
    Module(ModuleRef),
}

/// Why nobody owns an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoOwner {
    /// There is no code.
    NotText,
    /// The code's module is on its way out.
    Going,
}

/// Finds whose code an address is in.
pub fn owner(addr: usize) -> Result<Owner, NoOwner> {
    let mut module = core::ptr::null_mut();
    // SAFETY: `module` is a variable of this function; any address can be looked up, which `text.c` does under RCU.
    let result = unsafe { bindings::ferro_text_module_get(addr, &raw mut module) };
    match to_result(result) {
        // INVARIANT: If there is a module, `text.c` has taken a reference to it, which is ours now.
        Ok(()) => Ok(NonNull::new(module).map_or(Owner::Kernel, |m| Owner::Module(ModuleRef(m)))),
        Err(error) if error == ENOENT => Err(NoOwner::Going),
        Err(_) => Err(NoOwner::NotText),
    }
}

/// Keeps the module whose code or data an address is in. `None` if there is none, or it is on its way out.
pub fn module_of(addr: usize) -> Option<ModuleRef> {
    // SAFETY: Any address can be looked up, which `text.c` does under RCU.
    let module = unsafe { bindings::ferro_module_get(addr) };
    // INVARIANT: `text.c` has taken a reference to it, which is ours now.
    NonNull::new(module).map(ModuleRef)
}

/// How far a module is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModuleState {
    /// Its initialisation has not finished.
    Coming,
    /// It works.
    Live,
    /// It is being removed.
    Going,
}

/// A module that is not removed before this is dropped.
///
/// # Invariants
///
/// Points to a module, and owns a reference to it.
pub struct ModuleRef(NonNull<bindings::module>);

// SAFETY: The count of a module's references is changed atomically: it may be put by another task than the one that got it.
unsafe impl Send for ModuleRef {}
// SAFETY: What `&self` reads are words that others may change meanwhile, one load each: its state, and where its code is.
unsafe impl Sync for ModuleRef {}

impl ModuleRef {
    /// How far it is; it may go on at once.
    pub fn state(&self) -> ModuleState {
        // SAFETY: By the type invariant this points to a module, which our reference keeps.
        match u32::try_from(unsafe { bindings::ferro_module_state(self.0.as_ptr()) }) {
            Ok(bindings::module_state_MODULE_STATE_LIVE) => ModuleState::Live,
            Ok(bindings::module_state_MODULE_STATE_COMING) => ModuleState::Coming,
            _ => ModuleState::Going,
        }
    }

    /// Whether an address is in its code that is freed after the initialisation.
    pub fn has_init_text(&self, addr: usize) -> bool {
        // SAFETY: By the type invariant this points to a module, which our reference keeps; the address is only compared.
        unsafe { bindings::ferro_in_init_text(addr, self.0.as_ptr()) }
    }
}

impl Drop for ModuleRef {
    fn drop(&mut self) {
        // SAFETY: By the type invariant the reference is ours; it is put once, and `self` is not used after this.
        unsafe { bindings::ferro_module_put(self.0.as_ptr()) };
    }
}

/// Holds the lock of jump labels: no place becomes one, or stops being one.
///
/// Taken after CPU hotplug is held off and before `text_mutex`.
pub struct JumpLabelLock(NotThreadSafe);

impl JumpLabelLock {
    /// Context: process; sleeps.
    pub fn new() -> Self {
        // SAFETY: A mutex may be taken in process context, which is this function's. `drop()` unlocks it in the same task, as the
        // guard is not `Send`; one that is forgotten keeps it locked.
        unsafe { bindings::ferro_jump_label_lock() };
        Self(NotThreadSafe)
    }

    /// Whether a jump label patches one of the bytes from `start` to `last`.
    pub fn has_jump_label(&self, start: usize, last: usize) -> bool {
        // SAFETY: The tables of jump labels are walked with their lock held, as `self` says; the addresses are only compared.
        unsafe { bindings::ferro_jump_label_reserved(start, last) }
    }

    /// Whether a static call patches one of the bytes from `start` to `last`.
    pub fn has_static_call(&self, start: usize, last: usize) -> bool {
        // SAFETY: The image's table stays, and a module's is walked with a reference to it; the addresses are only compared.
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
        // SAFETY: `new()` has locked it, in this task, and nobody has unlocked it: that is only done here.
        unsafe { bindings::ferro_jump_label_unlock() };
    }
}

/// Whether the instruction at an address is a `WARN()` or `BUG()`, which the trap finds by its address.
pub fn is_bug(addr: usize) -> bool {
    // SAFETY: The address is only compared with those in tables: the image's stays, modules' are walked under RCU.
    unsafe { bindings::ferro_is_bug(addr) }
}

/// Whether a fault of the instruction at an address is repaired by code that decodes the instruction where it is.
pub fn is_decoded_on_fault(addr: usize) -> bool {
    // SAFETY: The address is only compared with those in tables: the image's stays, and `text.c` holds RCU for modules'.
    unsafe { ferro_is_decoded_on_fault(addr) }
}

/// Whether the instruction at an address is one of those before a trap of kCFI, which the trap decodes.
pub fn is_cfi_check(addr: usize) -> bool {
    // SAFETY: The address is only compared with those in tables: the image's stays, modules' are walked under RCU.
    unsafe { ferro_is_cfi_check(addr) }
}

/// Whether a debugger has put a breakpoint at an address.
pub fn is_kgdb_breakpoint(addr: usize) -> bool {
    // SAFETY: The address is only compared with those in kgdb's table, which stays.
    unsafe { ferro_is_kgdb_breakpoint(addr) }
}

/// Whether an address is in the pages that the kernel shows to every process.
pub fn in_gate_area(addr: usize) -> bool {
    // SAFETY: The address is only compared with the limits of that area.
    unsafe { bindings::ferro_in_gate_area(addr) }
}

/// Whether ftrace patches the instruction at this address.
pub fn is_ftrace_site(addr: usize) -> bool {
    // SAFETY: ftrace compares the addresses with those of its records, under RCU.
    unsafe { bindings::ftrace_location_range(addr, addr) == addr as c_ulong }
}

/// Whether the bytes are an `ENDBR`, or the one that the kernel has made a NOP of.
pub fn is_endbr(bytes: [u8; 4]) -> bool {
    // SAFETY: Compares the number with those of the instructions, and uses nothing else.
    unsafe { bindings::ferro_is_endbr(u32::from_le_bytes(bytes)) }
}

/// The name of what an address is in, for people.
pub struct Description {
    name: [u8; NAME_LEN],
    module: [u8; bindings::FERRO_MODULE_NAME_LEN as usize],
    /// How far past its start the address is.
    pub offset: usize,
}

impl Description {
    /// Of an address of code, if it is in a symbol.
    pub fn of(addr: usize) -> Option<Self> {
        let mut new = Self {
            name: [0; NAME_LEN],
            module: [0; bindings::FERRO_MODULE_NAME_LEN as usize],
            offset: 0,
        };
        // SAFETY: By their types `name` has KSYM_NAME_LEN bytes and `module` MODULE_NAME_LEN, which `text.h` asks for; the offset
        // is a word of ours; any address can be looked up, which `text.c` does under RCU.
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

    /// The symbol.
    pub fn name(&self) -> &CStr {
        CStr::from_bytes_until_nul(&self.name).unwrap_or(c"?")
    }

    /// The module; empty for the kernel.
    pub fn module(&self) -> &CStr {
        CStr::from_bytes_until_nul(&self.module).unwrap_or(c"?")
    }
}

/// For the log, where addresses do not belong: they would tell where the kernel has been put.
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

/// Whether who runs may see addresses of the kernel.
pub fn shows_addresses() -> bool {
    // SAFETY: Looks at the credentials of the current task, which nobody else replaces.
    unsafe { bindings::ferro_shows_addresses() }
}
