// SPDX-License-Identifier: GPL-2.0

//! Resolution of a probe's address, and the rules that refuse it.
//!
//! Contexts: process, sleeps. Locks: jump labels; `text_mutex`, for a piece of code at a time.
#![deny(unsafe_code)]

use crate::raw::kprobe::Kprobe;
use ferro_core::insn::Insn;
use ferro_core::insn::MAX_LEN;
use ferro_kprobes_builtin::raw::blacklist;
use ferro_kprobes_core::blacklist_names;
use ferro_kprobes_core::Probe;
use ferro_kprobes_core::Unprobeable;
use ferro_sys::code::kallsyms;
use ferro_sys::code::modules::ModuleRef;
use ferro_sys::code::modules::ModuleState;
use ferro_sys::code::symbols;
use ferro_sys::code::symbols::Description;
use ferro_sys::code::symbols::JumpLabelLock;
use ferro_sys::code::symbols::NoOwner;
use ferro_sys::code::symbols::Owner;
use ferro_sys::code::symbols::TextAddress;
use ferro_sys::code::text;
use ferro_sys::code::text::TextMutex;
use ferro_sys::code::text::BREAKPOINT;
use kernel::prelude::*;

use crate::error::Error;
use crate::error::Refusal;

/// A checked address, at which no rule refuses a probe.
pub(crate) struct Permit {
    pub(crate) address: usize,
    /// Start of its function.
    function: usize,
    pub(crate) at_entry: bool,
    /// True for an ftrace site.
    pub(crate) is_ftrace: bool,
    /// For patching it.
    pub(crate) text: TextAddress,
    /// Keeps the module loaded.
    _module: Option<ModuleRef>,
}

/// An address in a function.
pub(crate) struct Location {
    pub(crate) address: usize,
    /// The symbol that contains it.
    symbol: Description,
    /// Start of its function.
    pub(crate) function: usize,
    /// True if the address is the function's entry.
    pub(crate) at_entry: bool,
}

/// Resolves the address that a client asks for.
pub(crate) fn resolve(
    address: usize,
    symbol: Option<&CStr>,
    offset: usize,
) -> Result<Location, Error> {
    let base = match (address, symbol) {
        (0, None) => return Err(Error::NoTarget),
        (0, Some(name)) => kallsyms::lookup_name(name).ok_or(Error::NoSymbol)?,
        (address, None) => address,
        (_, Some(_)) => return Err(Error::TwoTargets),
    };
    let address = base.wrapping_add(offset);
    let symbol = Description::of(address).ok_or(Error::NoFunction)?;
    let function = address.wrapping_sub(symbol.offset);
    let mut first = [0; 4];
    // A landing pad cannot be probed; the next instruction is the entry.
    let landing = match text::read_text(function, &mut first) {
        Ok(()) if symbols::is_endbr(first) => first.len(),
        _ => 0,
    };
    let at_entry = symbol.offset == 0 || symbol.offset == landing;
    let offset = if at_entry { landing } else { symbol.offset };
    Ok(Location {
        address: function.wrapping_add(offset),
        symbol,
        function,
        at_entry,
    })
}

impl Permit {
    /// Checks the address of `probe`, and returns a permit for it.
    pub(crate) fn obtain(probe: Kprobe<'_>) -> Result<Self, Error> {
        let Location {
            address,
            symbol,
            function,
            at_entry,
        } = resolve(probe.address(), probe.symbol(), probe.offset())?;
        let module = match symbols::owner(address) {
            Ok(Owner::Kernel) => None,
            Ok(Owner::Module(module)) => Some(module),
            Err(NoOwner::Going) => return Err(Error::Gone),
            Err(NoOwner::NotText) => return Err(Error::Refused(Refusal::NotText)),
        };
        if let Some(refusal) = refusal(address, function, symbol.name()) {
            return Err(Error::Refused(refusal));
        }
        let is_over = |m: &ModuleRef| m.has_init_text(address) && m.state() != ModuleState::Coming;
        if module.as_ref().is_some_and(is_over) {
            return Err(Error::Gone);
        }
        Ok(Self {
            address,
            function,
            at_entry,
            is_ftrace: symbols::is_ftrace_site(address),
            text: symbols::text_address(address).ok_or(Error::Gone)?,
            _module: module,
        })
    }
}

/// Decodes functions from their starts, to find where instructions begin.
///
/// Takes `text_mutex` for a piece of code at a time.
pub(crate) struct Decoder<R> {
    window: Window,
    /// Start of the function that is being decoded.
    function: usize,
    /// Start of an instruction of that function.
    at: usize,
    /// Replaces probes in code that was read at an address by the original bytes.
    restore: R,
}

impl<R: Fn(usize, &mut [u8])> Decoder<R> {
    pub(crate) fn new(restore: R) -> Self {
        Self {
            window: Window::new(),
            function: 0,
            at: 0,
            restore,
        }
    }

    /// Returns the instruction at a permit's address, and the one after it.
    ///
    /// Decoding continues where the last call found an instruction of the same function. That
    /// function is decoded once for all permits in the order of their addresses.
    pub(crate) fn instructions(&mut self, permit: &Permit) -> Result<(Insn, Option<Insn>), Error> {
        if self.function != permit.function || self.at > permit.address {
            self.function = permit.function;
            self.at = permit.function;
        }
        while self.at < permit.address {
            let len = self.window.decode(self.at, &self.restore)?.len();
            self.at = self.at.wrapping_add(len);
        }
        let at = permit.address;
        if self.at != at {
            return Err(Error::NotAnInstruction);
        }
        let insn = self.window.decode(at, &self.restore)?;
        // Only an undefined instruction can be in the table.
        if Probe::of(&insn) == Probe::Unprobeable(Unprobeable::Undefined) && symbols::is_bug(at) {
            return Err(Error::Refused(Refusal::Bug));
        }
        let next = at.wrapping_add(insn.len());
        Ok((insn, self.window.decode(next, &self.restore).ok()))
    }
}

fn refusal(address: usize, function: usize, name: &CStr) -> Option<Refusal> {
    if symbols::in_gate_area(address) {
        return Some(Refusal::Gate);
    }
    if let Some(forbidden) = blacklist::forbids_in(address, function, name) {
        return Some(Refusal::Marked(forbidden));
    }
    let labels = JumpLabelLock::new();
    if labels.has_jump_label(address, address) {
        return Some(Refusal::JumpLabel);
    }
    if labels.has_static_call(address, address) {
        return Some(Refusal::StaticCall);
    }
    if symbols::is_decoded_on_fault(address) || symbols::is_cfi_check(address) {
        return Some(Refusal::Decoded);
    }
    blacklist_names::refuses(name.to_bytes()).map(Refusal::Named)
}

/// A piece of code.
struct Window {
    bytes: [u8; 256],
    start: usize,
    len: usize,
}

impl Window {
    fn new() -> Self {
        Self {
            bytes: [0; 256],
            start: 0,
            len: 0,
        }
    }

    /// Returns the bytes at `at`: as many as an instruction may have, or as many as are readable.
    fn at(&mut self, at: usize, restore: impl Fn(usize, &mut [u8])) -> Option<&[u8]> {
        let offset = at.wrapping_sub(self.start);
        if offset.saturating_add(MAX_LEN) > self.len {
            // If the read fails, the next page is unreadable: this is the last function.
            let to_page = 4096 - at % 4096;
            self.start = at;
            self.len = 0;
            // The mutex keeps other patching out, so that the bytes are consistent.
            let _text = TextMutex::new();
            for len in [self.bytes.len(), to_page.min(self.bytes.len())] {
                if text::read_text(at, self.bytes.get_mut(..len)?).is_ok() {
                    self.len = len;
                    break;
                }
            }
            restore(at, self.bytes.get_mut(..self.len)?);
        }
        let offset = at.wrapping_sub(self.start);
        let end = self.len.min(offset.saturating_add(MAX_LEN));
        self.bytes.get(offset..end)
    }

    fn decode(&mut self, at: usize, restore: impl Fn(usize, &mut [u8])) -> Result<Insn, Error> {
        let bytes = self.at(at, restore).ok_or(Error::NotAnInstruction)?;
        // Only the debugger knows the byte under its breakpoint.
        if bytes.first() == Some(&BREAKPOINT) && symbols::is_kgdb_breakpoint(at) {
            return Err(Error::Debugged);
        }
        Insn::decode(bytes).map_err(|_| Error::NotAnInstruction)
    }
}
