// SPDX-License-Identifier: GPL-2.0

//! The kernel's symbol table, and the functions that ftrace can trace.
//!
//! Contexts: process.

use crate::bindings;
use kernel::error::to_result;
use kernel::ffi::c_ulong;
use kernel::prelude::*;

/// Room for the longest symbol name and its terminating 0.
pub const NAME_LEN: usize = bindings::KSYM_NAME_LEN as usize;

/// Position of an address in its symbol, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Symbol {
    /// The symbol's address.
    pub start: usize,
    /// Its size, up to the next symbol.
    pub size: usize,
    /// Distance of the address from `start`.
    pub offset: usize,
}

/// Looks up the address of a symbol: of the kernel, of a module, or of a module in the form
/// `module:name`.
pub fn lookup_name(name: &CStr) -> Option<usize> {
    // SAFETY: A `CStr` ends in 0, and exists during the call, which only compares it with names.
    let addr = unsafe { bindings::kallsyms_lookup_name(name.as_char_ptr()) };
    (addr != 0).then_some(addr as usize)
}

/// Returns the symbol that contains a code address.
pub fn symbol_of(addr: usize) -> Option<Symbol> {
    let mut size: c_ulong = 0;
    let mut offset: c_ulong = 0;
    // SAFETY: Both pointers are to variables of this function, of the type that is written; any
    // address can be looked up.
    let found =
        unsafe { bindings::kallsyms_lookup_size_offset(addr, &raw mut size, &raw mut offset) };
    (found != 0).then(|| Symbol {
        start: addr.wrapping_sub(offset),
        size,
        offset,
    })
}

/// Returns the name of the symbol that contains a code address.
pub fn name_of(addr: usize, to: &mut [u8; NAME_LEN]) -> Option<&CStr> {
    // SAFETY: By its type, `to` has the KSYM_NAME_LEN bytes that this may write; any address can be
    // looked up.
    let result = unsafe { bindings::lookup_symbol_name(addr, to.as_mut_ptr().cast()) };
    to_result(result).ok()?;
    CStr::from_bytes_until_nul(to).ok()
}

/// Returns false for a function that ftrace cannot trace because it has no site, such as a tracer's
/// own code. A part with a suffix, which the compiler has placed elsewhere, counts as its function.
/// Also returns true for an address without a symbol, and if the kernel lets its own events probe
/// such functions.
#[cfg(all(CONFIG_DYNAMIC_FTRACE, not(CONFIG_KPROBE_EVENTS_ON_NOTRACE)))]
pub fn is_traceable(addr: usize) -> bool {
    let has_site = |symbol: Symbol| {
        let last = symbol.start.wrapping_add(symbol.size.saturating_sub(1));
        // SAFETY: ftrace compares the addresses with those of its records, under RCU.
        unsafe { bindings::ftrace_location_range(symbol.start, last) != 0 }
    };
    let Some(symbol) = symbol_of(addr) else {
        return true;
    };
    has_site(symbol) || whole_of(addr).and_then(symbol_of).is_some_and(has_site)
}

/// Returns true: the kernel lets its own events probe any function.
#[cfg(not(all(CONFIG_DYNAMIC_FTRACE, not(CONFIG_KPROBE_EVENTS_ON_NOTRACE))))]
pub fn is_traceable(_addr: usize) -> bool {
    true
}

/// Returns the address of the function that has a part at an address, by the name in front of the
/// suffix.
#[cfg(all(CONFIG_DYNAMIC_FTRACE, not(CONFIG_KPROBE_EVENTS_ON_NOTRACE)))]
fn whole_of(addr: usize) -> Option<usize> {
    let mut name = [0; NAME_LEN];
    let name = name_of(addr, &mut name)?.to_bytes();
    let len = name.iter().position(|byte| *byte == b'.')?;
    let mut whole = [0; NAME_LEN];
    whole.get_mut(..len)?.copy_from_slice(name.get(..len)?);
    lookup_name(CStr::from_bytes_until_nul(&whole).ok()?)
}

/// Returns true if mainline's engine would use ftrace for a probe at an address: ftrace patches
/// the instruction there, or the one after the `ENDBR` of a function that starts there.
#[cfg(all(CONFIG_KPROBES_ON_FTRACE, not(CONFIG_KPROBES_ENGINE_RUST)))]
pub fn is_probed_by_ftrace(addr: usize) -> bool {
    let is_site = |addr: usize| {
        // SAFETY: ftrace compares the addresses with those of its records, under RCU.
        unsafe { bindings::ftrace_location_range(addr, addr) == addr as c_ulong }
    };
    let starts = || symbol_of(addr).is_some_and(|symbol| symbol.offset == 0);
    is_site(addr) || is_site(addr.wrapping_add(4)) && starts()
}

/// Returns false: the kernel has another engine, or no probes with ftrace.
#[cfg(not(all(CONFIG_KPROBES_ON_FTRACE, not(CONFIG_KPROBES_ENGINE_RUST))))]
pub fn is_probed_by_ftrace(_addr: usize) -> bool {
    false
}
