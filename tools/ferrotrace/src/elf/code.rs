// SPDX-License-Identifier: GPL-2.0

//! Instructions of a file.

#![deny(unsafe_code)]

use ferro_core::insn::Flow;
use ferro_core::insn::Insn;
use ferro_core::insn::Target;
use gimli::EhFrame;
use gimli::LittleEndian;
use gimli::UnwindSection;
use object::ObjectKind;

use super::Elf;
use super::Found;

/// Where a function returns.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Returns {
    /// Bytes from its start, of each return.
    pub offsets: Vec<u64>,
    /// Jumps to other functions, which return for it.
    pub leaves: usize,
}

/// The opcode of `lea`, which is in the map without escapes.
const LEA: u8 = 0x8d;

impl Elf {
    /// Returns the code of a symbol, if it is in the file.
    fn code_of(&self, found: &Found) -> Option<&[u8]> {
        let mut parts = self.parts.iter().filter(|part| part.is_code);
        let part = parts.find(|part| {
            part.has(found.address) && (part.section.is_none() || part.section == found.section)
        })?;
        let start = part.offset.checked_add(found.address - part.address)?;
        let size = match found.size {
            // Assembly often has none.
            0 => self.frame_of(found.address).map(|(_, size)| size)?,
            size => size,
        };
        let size = usize::try_from(size).ok()?;
        let code = self.bytes_at(start, size);
        (code.len() == size && size != 0).then_some(code)
    }

    /// Returns the returns of a function, if its code is known.
    pub fn returns(&self, function: &Found) -> Option<Returns> {
        if !self.is_x86_64 {
            return None;
        }
        let code = self.code_of(function)?;
        let size = u64::try_from(code.len()).ok()?;
        // Kernels with mitigations return by a jump.
        let thunk = self.lookup("__x86_return_thunk");
        let thunk = thunk.ok().map(|found| found.address);
        let mut returns = Returns::default();
        let mut offset = 0;
        let mut rest = code;
        while !rest.is_empty() {
            let insn = Insn::decode(rest).ok()?;
            let target = insn.branch_target(function.address.wrapping_add(offset));
            let is_outside = |target: u64| target.wrapping_sub(function.address) >= size;
            match insn.flow() {
                Flow::Return(_) => returns.offsets.push(offset),
                Flow::Jump(_) if target.is_some() && target == thunk => {
                    returns.offsets.push(offset)
                }
                Flow::Jump(Target::Relative(_)) | Flow::JumpIf(..)
                    if target.is_some_and(is_outside) =>
                {
                    returns.leaves += 1;
                }
                _ => (),
            }
            offset = offset.checked_add(u64::try_from(insn.len()).ok()?)?;
            rest = rest.get(insn.len()..)?;
        }
        Some(returns)
    }

    /// Returns the addresses of code that a resolver (`STT_GNU_IFUNC`) loads, one of which it
    /// returns.
    pub(super) fn chosen_by(&self, resolver: &Found) -> Vec<u64> {
        let mut rest = self.code_of(resolver).unwrap_or_default();
        let mut address = resolver.address;
        let mut all = Vec::new();
        while let Ok(insn) = Insn::decode(rest) {
            let target = insn.rip_relative_target(address);
            let is_lea = insn.opcode() == LEA && insn.map() == 0;
            let is_code = |target: &u64| {
                let offset = self.offset_of(*target);
                offset.is_some_and(|offset| self.is_code(offset))
            };
            all.extend(target.filter(|_| is_lea).filter(is_code));
            rest = rest.get(insn.len()..).unwrap_or_default();
            address = address.saturating_add(u64::try_from(insn.len()).unwrap_or(0));
        }
        all.sort_unstable();
        all.dedup();
        all
    }

    /// Returns the address and the bytes of the function that has an address, as unwinding knows
    /// it.
    fn frame_of(&self, address: u64) -> Option<(u64, u64)> {
        let frames = self.frames.as_ref()?;
        let bytes = self.bytes.get(frames.bytes.clone())?;
        let mut section = EhFrame::new(bytes, LittleEndian);
        section.set_address_size(frames.address_size);
        let found = section.fde_for_address(&frames.bases, address, EhFrame::cie_from_offset);
        let found = found.ok()?;
        Some((found.initial_address(), found.len()))
    }

    /// Returns the last address up to `address`, in its section, at which an instruction is known
    /// to begin: that of a function. `others` has symbols of the same build.
    fn known_start(&self, address: u64, others: Option<&Self>) -> Option<u64> {
        let last = |elf: &Self| {
            let next = elf.starts.partition_point(|start| *start <= address);
            elf.starts.get(next.checked_sub(1)?).copied()
        };
        let starts = [Some(self), others].into_iter().flatten();
        let start = starts.filter_map(last).max();
        if start == Some(address) {
            return start;
        }
        let sections = self.text.iter().filter(|(start, size)| {
            let inside = address.checked_sub(*start);
            inside.is_some_and(|inside| inside < *size)
        });
        let section = sections.map(|(start, _)| *start).max();
        // A file without sections has parts.
        let part = self.parts.iter().find(|part| part.has(address))?;
        let first = section.unwrap_or(part.address);
        let start = start.filter(|start| *start >= first);
        let frame = self.frame_of(address).map(|(start, _)| start);
        [Some(first), frame, start].into_iter().flatten().max()
    }

    /// Returns true if an instruction begins at an address of code: one after the other is decoded
    /// from the start of the function on. `others` has symbols of the same build.
    pub(super) fn is_instruction(&self, address: u64, others: Option<&Self>) -> bool {
        let Some(start) = self.known_start(address, others) else {
            return false;
        };
        if start == address {
            return true;
        }
        // Other machines have other instructions.
        if !self.is_x86_64 || self.kind == ObjectKind::Relocatable {
            return false;
        }
        let code = self
            .offset_of(start)
            .zip(usize::try_from(address - start).ok());
        // The last instruction before it may reach beyond it.
        let most = |behind: usize| behind.saturating_add(ferro_core::insn::MAX_LEN);
        let Some((code, behind)) =
            code.map(|(offset, behind)| (self.bytes_at(offset, most(behind)), behind))
        else {
            return false;
        };
        let mut at = 0;
        while at < behind {
            // Data between functions is skipped byte by byte, as objdump does.
            let insn = Insn::decode(code.get(at..).unwrap_or_default());
            at += insn.map_or(1, |insn| insn.len());
        }
        at == behind
    }
}
