// SPDX-License-Identifier: GPL-2.0

//! The running kernel's code and tables, as `ferro_kprobes_core::jump` needs them to find the
//! instructions that a jump can displace.
//!
//! Contexts: process; sleeps; with the engine's mutex. Locks, outermost first: jump labels;
//! `text_mutex`, for a piece of code at a time.
#![deny(unsafe_code)]

use core::ops::Range;

use ferro_kprobes_core::jump;
use ferro_kprobes_core::jump::Displaced;
use ferro_kprobes_core::jump::Entry;
use ferro_kprobes_core::jump::Piece;
use ferro_kprobes_core::jump::Reserved;
use ferro_kprobes_core::jump::Surroundings;
use ferro_sys::code::kallsyms;
use ferro_sys::code::kallsyms::NAME_LEN;
use ferro_sys::code::symbols;
use ferro_sys::code::text;
use ferro_sys::code::text::TextMutex;
use ferro_sys::code::text::BREAKPOINT;
use ferro_sys::code::text_tables;
use kernel::page::PAGE_SIZE;

use crate::insn_copy::is_sti;
use crate::registry::State;

/// The running kernel's code, without the engine's breakpoints and jumps.
struct KernelCode<'a>(&'a State);

/// Converts a range of addresses: an address has 64 bits in the kernel.
fn addresses(range: Range<u64>) -> Range<usize> {
    range.start as usize..range.end as usize
}

impl KernelCode<'_> {
    /// Copies readable code. Returns the number of known bytes, from the first on.
    fn read(&self, at: usize, out: &mut [u8]) -> Option<usize> {
        text::read_text(at, out).ok()?;
        self.0.restore(at, out);
        // Only the debugger knows the byte under its breakpoint.
        let debugged = (at..)
            .zip(out.iter())
            .position(|(at, byte)| *byte == BREAKPOINT && symbols::is_kgdb_breakpoint(at));
        Some(debugged.unwrap_or(out.len()))
    }
}

/// Returns true if the name is of a part of a function that the compiler or Propeller moved
/// elsewhere.
fn is_cold(name: &[u8]) -> bool {
    let mut parts = name.split(|byte| *byte == b'.');
    parts.any(|part| part == b"cold" || part == b"__part")
}

impl Surroundings for KernelCode<'_> {
    fn piece(&self, address: u64) -> Option<Piece> {
        // A jump to a return thunk is a return. The symbol of a thunk may be the last before a hole
        // of a megabyte.
        if text_tables::thunk(address as usize) == Some(text_tables::Thunk::Return) {
            return None;
        }
        let symbol = kallsyms::symbol_of(address as usize)?;
        text_tables::stays(address as usize).then(|| Piece {
            start: symbol.start as u64,
            end: symbol.start.saturating_add(symbol.size) as u64,
        })
    }

    fn code(&self, at: u64, out: &mut [u8]) -> usize {
        let at = at as usize;
        // The mutex keeps other patching out, so that the bytes are consistent.
        let _text = TextMutex::new();
        if let Some(len) = self.read(at, out) {
            return len;
        }
        // If the read fails, the next page is unreadable: this is the last function.
        let here = out.len().min(PAGE_SIZE - at % PAGE_SIZE);
        let known = out.get_mut(..here).and_then(|out| self.read(at, out));
        known.unwrap_or(0)
    }

    fn rodata(&self, at: u64, out: &mut [u8]) -> bool {
        text_tables::read_rodata(at as usize, out)
    }

    fn is_compiled(&self, start: u64) -> bool {
        let start = start as usize;
        // The site is at the start, or after the landing pad.
        if symbols::is_ftrace_site(start) || symbols::is_ftrace_site(start.wrapping_add(4)) {
            return true;
        }
        let mut name = [0; NAME_LEN];
        let name = kallsyms::name_of(start, &mut name).map(|name| name.to_bytes());
        // Calls enter a function only at its start, never at a cold part.
        name.is_some_and(|name| name.starts_with(b"_R") && !is_cold(name))
    }

    fn is_part(&self, start: u64) -> bool {
        let mut name = [0; NAME_LEN];
        let name = kallsyms::name_of(start as usize, &mut name);
        name.is_none_or(|name| is_cold(name.to_bytes()))
    }

    fn is_indirect_thunk(&self, address: u64) -> bool {
        text_tables::thunk(address as usize) == Some(text_tables::Thunk::Indirect)
    }

    fn has_jump_tables(&self) -> bool {
        !cfg!(CONFIG_X86_KERNEL_IBT)
    }

    fn reserved(&self, range: Range<u64>) -> Option<Reserved> {
        Some(match text_tables::reserved(addresses(range))? {
            text_tables::Reserved::JumpLabel => Reserved::JumpLabel,
            text_tables::Reserved::StaticCall => Reserved::StaticCall,
            text_tables::Reserved::Ftrace => Reserved::Ftrace,
            text_tables::Reserved::Exception => Reserved::Exception,
        })
    }

    fn enters(&self, range: Range<u64>) -> Option<Entry> {
        Some(match text_tables::entered(addresses(range))? {
            text_tables::Way::JumpLabel => Entry::JumpLabel,
            text_tables::Way::Fixup => Entry::Fixup,
        })
    }

    fn exits(&self, range: Range<u64>, found: &mut dyn FnMut(u64)) {
        text_tables::exits(addresses(range)).for_each(|to| found(to as u64));
    }
}

impl State {
    /// Returns the instructions that a jump at this address would displace, or `None` if it must
    /// not stand there. Ignores other probes.
    pub(crate) fn displaceable(&self, address: usize) -> Option<Displaced> {
        let displaced = jump::displaceable(address as u64, &KernelCode(self)).ok()?;
        // No interrupt may arrive between sti and the next instruction: hlt would miss it.
        let has_sti = displaced.instructions().any(|(_, insn)| is_sti(&insn));
        (!has_sti).then_some(displaced)
    }
}
