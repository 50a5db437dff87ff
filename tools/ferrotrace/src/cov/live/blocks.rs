// SPDX-License-Identifier: GPL-2.0

//! Basic blocks of a function, and the instruction of each where a breakpoint can be.

#![deny(unsafe_code)]

use std::collections::BTreeSet;
use std::ops::Range;

use ferro_core::insn::Flow;
use ferro_core::insn::Insn;
use ferro_core::insn::Target;
use ferro_coverage_core::Executable;

/// Opcode of `int3`, with which linkers and compilers fill gaps.
const INT3: u8 = 0xcc;
/// Opcodes of `nop`.
const NOP: u8 = 0x90;
const LONG_NOP: u8 = 0x1f;

/// A function whose bytes are instructions.
#[derive(Clone, Debug)]
pub struct Code {
    address: u64,
    end: u64,
    /// Instructions, with their offsets.
    insns: Vec<(u32, Insn)>,
}

/// A basic block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// Its addresses.
    pub range: Range<u64>,
    /// Addresses where a breakpoint can be, in the order of execution.
    pub places: Vec<u64>,
}

/// Returns true if the CPU does not execute the next instruction after this one, or not always.
fn ends_block(flow: &Flow) -> bool {
    !matches!(flow, Flow::Next | Flow::Call(_) | Flow::SystemCall)
}

/// Returns true for instructions without an effect.
fn is_filler(insn: &Insn) -> bool {
    matches!((insn.map(), insn.opcode()), (0, INT3 | NOP) | (1, LONG_NOP))
}

impl Code {
    /// Decodes a function at an address. Returns `None` if its bytes are not all instructions.
    pub fn decode(address: u64, bytes: &[u8]) -> Option<Self> {
        let mut insns = Vec::new();
        let mut at = 0;
        while let Some(rest) = bytes.get(at..).filter(|rest| !rest.is_empty()) {
            let insn = Insn::decode(rest).ok()?;
            let len = insn.len();
            insns.push((u32::try_from(at).ok()?, insn));
            at += len;
        }
        Some(Self {
            address,
            end: address.checked_add(u64::try_from(at).ok()?)?,
            insns,
        })
    }

    fn at(&self, offset: u32) -> u64 {
        self.address.wrapping_add(offset.into())
    }

    /// Returns the targets of direct jumps.
    pub fn targets(&self) -> impl Iterator<Item = u64> + use<'_> {
        self.insns.iter().filter_map(|(offset, insn)| {
            let is_jump = !matches!(insn.flow(), Flow::Call(_));
            insn.branch_target(self.at(*offset)).filter(|_| is_jump)
        })
    }

    /// Returns the blocks. `targets` are those of jumps in other functions.
    ///
    /// Blocks that only fill a gap are left out. A call does not end a block. The targets of an
    /// indirect jump are unknown: such a block may be a part of the one before.
    pub fn blocks(&self, targets: &BTreeSet<u64>) -> Vec<Block> {
        let mut leaders: BTreeSet<u64> = targets.range(self.address..self.end).copied().collect();
        leaders.extend(self.targets().filter(|target| *target < self.end));
        leaders.insert(self.address);
        let mut blocks = Vec::new();
        let mut block: Option<Open> = None;
        for (offset, insn) in &self.insns {
            let address = self.at(*offset);
            if leaders.contains(&address) {
                blocks.extend(block.take().and_then(Open::close));
            }
            let open = block.get_or_insert_with(|| Open::new(address));
            open.add(address, insn, *offset);
            if ends_block(&insn.flow()) {
                blocks.extend(block.take().and_then(Open::close));
            }
        }
        blocks.extend(block.and_then(Open::close));
        blocks
    }
}

/// A block whose end is not known yet.
struct Open {
    block: Block,
    is_filler: bool,
}

impl Open {
    fn new(start: u64) -> Self {
        Self {
            block: Block {
                range: start..start,
                places: Vec::new(),
            },
            is_filler: true,
        }
    }

    fn add(&mut self, address: u64, insn: &Insn, offset: u32) {
        let len = u64::try_from(insn.len()).unwrap_or(0);
        self.block.range.end = address.saturating_add(len);
        if is_filler(insn) {
            return;
        }
        self.is_filler = false;
        // The first instruction, after a landing pad, may be a call that ftrace has written.
        let is_of_ftrace = offset <= 4 && matches!(insn.flow(), Flow::Call(Target::Relative(_)));
        if !is_of_ftrace && Executable::of(insn, address).is_ok() {
            self.block.places.push(address);
        }
    }

    fn close(self) -> Option<Block> {
        (!self.is_filler).then_some(self.block)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blocks(bytes: &[u8], targets: &[u64]) -> Vec<(Range<u64>, Vec<u64>)> {
        let code = Code::decode(0x1000, bytes).unwrap();
        let blocks = code.blocks(&targets.iter().copied().collect());
        blocks
            .into_iter()
            .map(|block| (block.range, block.places))
            .collect()
    }

    #[test]
    fn branches() {
        let code = [
            0xf3, 0x0f, 0x1e, 0xfa, // 1000: endbr64
            0x0f, 0x1f, 0x44, 0x00, 0x00, // 1004: nop, of ftrace
            0x48, 0x85, 0xff, // 1009: test %rdi,%rdi
            0x74, 0x05, // 100c: je 1013
            0x8b, 0x07, // 100e: mov (%rdi),%eax
            0xc3, // 1010: ret
            0x66, 0x90, // 1011: nop
            0x31, 0xc0, // 1013: xor %eax,%eax
            0xe8, 0x00, 0x00, 0x00, 0x00, // 1015: call
            0xc3, // 101a: ret
            0xcc, 0xcc, 0xcc,
        ];
        let expected = [
            (0x1000..0x100e, vec![0x1009, 0x100c]),
            (0x100e..0x1011, vec![0x1010]),
            (0x1013..0x101b, vec![0x1013, 0x1015, 0x101a]),
        ];
        assert_eq!(blocks(&code, &[]), expected);
        // A jump from another function.
        let parts = blocks(&code, &[0xfff, 0x101a, 0x2000]);
        assert_eq!(parts[2], (0x1013..0x101a, vec![0x1013, 0x1015]));
        assert_eq!(parts[3], (0x101a..0x101b, vec![0x101a]));
    }

    #[test]
    fn blocks_without_a_place() {
        // ud2; a load and an indirect jump, which is emulated.
        let code = [0x0f, 0x0b, 0xff, 0x27];
        let expected = [(0x1000..0x1002, vec![]), (0x1002..0x1004, vec![0x1002])];
        assert_eq!(blocks(&code, &[]), expected);
        // Written by ftrace: the place is behind it.
        let code = [0xe8, 0, 0, 0, 0, 0x55, 0xc3];
        assert_eq!(blocks(&code, &[]), [(0x1000..0x1007, vec![0x1005, 0x1006])]);
    }

    #[test]
    fn no_instructions() {
        assert!(Code::decode(0, &[0x0f]).is_none());
        assert!(Code::decode(0, &[0x06]).is_none());
        assert_eq!(blocks(&[], &[]), []);
        assert_eq!(blocks(&[INT3; 5], &[]), []);
    }
}
