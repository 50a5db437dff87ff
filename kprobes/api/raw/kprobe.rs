// SPDX-License-Identifier: GPL-2.0

//! Operations on a `struct kprobe` that both kinds of probes share.
//!
//! Contexts: process; arming and disarming sleep.

use core::ptr::null_mut;
use core::ptr::without_provenance_mut;

use ferro_sys::bindings;
use ferro_sys::code::kallsyms;
use kernel::error::to_result;
use kernel::prelude::*;
use kernel::str::CString;
use kernel::types::Opaque;

/// Target of a probe, with its own copy of the symbol's name.
pub(crate) struct OwnedTarget {
    pub(crate) symbol: Option<CString>,
    /// Address, or 0 with a symbol.
    pub(crate) address: usize,
    pub(crate) offset: u32,
    pub(crate) is_disarmed: bool,
}

impl OwnedTarget {
    /// Returns the target's address now, or `None` if the symbol does not exist.
    pub(crate) fn resolved(&self) -> Option<usize> {
        let base = match &self.symbol {
            Some(name) => kallsyms::lookup_name(name),
            None => Some(self.address),
        };
        base.map(|base| base.wrapping_add(self.offset as usize))
    }

    /// Returns a `struct kprobe` for it, without handlers. The structure points to the symbol's
    /// name, which stays in place when its owner is moved.
    pub(super) fn kprobe(&self) -> bindings::kprobe {
        let symbol = self.symbol.as_ref();
        bindings::kprobe {
            symbol_name: symbol.map_or(null_mut(), |name| name.as_char_ptr().cast_mut()),
            addr: without_provenance_mut(self.address),
            offset: self.offset,
            flags: match self.is_disarmed {
                true => bindings::KPROBE_FLAG_DISABLED,
                false => 0,
            },
            ..Default::default()
        }
    }
}

/// Registered kprobe.
///
/// # Invariants
///
/// The kprobe stays registered for `'a`.
pub(crate) struct Registered<'a>(&'a Opaque<bindings::kprobe>);

impl<'a> Registered<'a> {
    /// Wraps a registered kprobe.
    ///
    /// # Safety
    ///
    /// `kprobe` stays registered for `'a`.
    pub(super) unsafe fn new(kprobe: &'a Opaque<bindings::kprobe>) -> Self {
        // INVARIANT: The caller guarantees it.
        Self(kprobe)
    }

    pub(crate) fn address(&self) -> usize {
        // SAFETY: Registered by the type invariant; an engine writes this word only while
        // registering and unregistering.
        unsafe { (&raw const (*self.0.get()).addr).read_volatile() }.addr()
    }

    /// Returns the first byte of the original instruction, or `None` at an ftrace site.
    pub(crate) fn opcode(&self) -> Option<u8> {
        // SAFETY: Registered by the type invariant, and this bit stays constant while it is.
        let flags = unsafe { (&raw const (*self.0.get()).flags).read_volatile() };
        // SAFETY: Registered by the type invariant; the engine writes this byte only while
        // registering and unregistering.
        let opcode = unsafe { (&raw const (*self.0.get()).opcode).read_volatile() };
        (flags & bindings::KPROBE_FLAG_FTRACE == 0).then_some(opcode)
    }

    /// Returns the address of the instruction's copy that the engine executes, or 0.
    pub(crate) fn copy(&self) -> usize {
        // SAFETY: Registered by the type invariant; an engine writes this word only while
        // registering and unregistering.
        unsafe { (&raw const (*self.0.get()).ainsn.insn).read_volatile() }.addr()
    }

    pub(crate) fn missed(&self) -> usize {
        // SAFETY: Valid by the type invariant; the engine counts this word up, in one store.
        unsafe { (&raw const (*self.0.get()).nmissed).read_volatile() }
    }

    pub(crate) fn is_armed(&self) -> bool {
        // SAFETY: Valid by the type invariant; the engine changes this word in one store.
        let flags = unsafe { (&raw const (*self.0.get()).flags).read_volatile() };
        flags & (bindings::KPROBE_FLAG_DISABLED | bindings::KPROBE_FLAG_GONE) == 0
    }

    pub(crate) fn arm(&self) -> Result {
        // SAFETY: Registered by the type invariant; the engine takes its lock for this.
        to_result(unsafe { bindings::enable_kprobe(self.0.get()) })
    }

    pub(crate) fn disarm(&self) -> Result {
        // SAFETY: Registered by the type invariant; the engine takes its lock for this.
        to_result(unsafe { bindings::disable_kprobe(self.0.get()) })
    }
}
