// SPDX-License-Identifier: GPL-2.0

//! Reasons of the C engine for not optimising a probe at a place: the effect of its rules, as far
//! as they differ from ours. They explain where the two answers differ.

use crate::vmlinux::Vmlinux;
use ferro_core::insn::Flow;
use ferro_core::insn::Insn;
use ferro_kprobes_core::jump::Surroundings as _;

/// A rule of the C engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rule {
    /// The function has an entry in the exception table.
    Exception,
    /// The function has an indirect jump.
    IndirectJump,
    /// A branch targets the byte right after the jump, which the C engine counts as inside.
    BranchBehind,
    /// A displaced instruction is a branch or a call.
    Branch,
    /// A displaced instruction has an opcode that it does not list.
    Opcode,
    /// Something that ours refuses as well.
    Same,
    /// An instruction with VEX somewhere in the function is taken for a branch into the jump, as
    /// its opcode is one of a branch.
    Vex,
    /// No rule applies that can be seen here: the function has alternatives, so the kernel may run
    /// other instructions.
    Alternative,
}

/// For each 16 opcodes after 0f, those that it executes elsewhere: the lowest bit is the first.
const LISTED: [u16; 16] = [
    0x034c, 0x8000, 0x000f, 0x0002, 0xffff, 0x0000, 0xcfff, 0xc0f0, 0x0000, 0xffff, 0xbb3b, 0xf8ff,
    0xff03, 0xbb2e, 0xbb26, 0x772e,
];

/// The rule that refuses a place, if one of these does.
pub fn refuses(image: &Vmlinux, place: u64) -> Option<Rule> {
    let piece = image.piece(place)?;
    let bytes = image.bytes(piece);
    let mut at = 0;
    while at < bytes.len() {
        let address = piece.start + at as u64;
        let Ok(insn) = Insn::decode(&bytes[at..]) else {
            return Some(Rule::Same);
        };
        if image.is_exception(address) {
            return Some(Rule::Exception);
        }
        if insn.map() == 0
            && insn.opcode() == 0xff
            && insn.modrm().is_some_and(|modrm| modrm.reg() & 6 == 4)
        {
            return Some(Rule::IndirectJump);
        }
        let call = matches!(insn.flow(), Flow::Call(_));
        if let Some(target) = insn.branch_target(address).filter(|_| !call) {
            if (place + 1..place + 5).contains(&target) {
                return Some(Rule::Same);
            }
            if target == place + 5 {
                return Some(Rule::BranchBehind);
            }
        }
        if taken_for_branch(&insn, address)
            .is_some_and(|target| (place + 1..=place + 5).contains(&target))
        {
            return Some(Rule::Vex);
        }
        at += insn.len();
    }
    let mut len = 0;
    while len < 5 {
        let start = (place - piece.start) as usize + len;
        let Ok(insn) = Insn::decode(bytes.get(start..)?) else {
            return Some(Rule::Same);
        };
        if let Some(rule) = refuses_insn(&insn) {
            return Some(rule);
        }
        len += insn.len();
    }
    image.is_patched(piece).then_some(Rule::Alternative)
}

fn is_vex(insn: &Insn) -> bool {
    matches!(insn.bytes(), [0xc4 | 0xc5 | 0x62, ..])
}

/// Returns the apparent branch target of an instruction with VEX and an opcode that is a branch in
/// the first map.
fn taken_for_branch(insn: &Insn, address: u64) -> Option<u64> {
    let distance = match insn.opcode() {
        // These have a byte as an operand, which is the last.
        0x70..=0x73 => i64::from(i8::from_le_bytes([*insn.bytes().last()?])),
        0x74..=0x7f | 0xe0..=0xe3 | 0xe9 | 0xeb => 0,
        _ => return None,
    };
    is_vex(insn).then(|| {
        let next = address.wrapping_add(insn.len() as u64);
        next.wrapping_add_signed(distance)
    })
}

/// Returns the rule that refuses one of the displaced instructions, if any.
fn refuses_insn(insn: &Insn) -> Option<Rule> {
    let branch = !matches!(insn.flow(), Flow::Next | Flow::Return(_));
    // The C engine takes the opcode of one with VEX for one of the first map.
    let vex = is_vex(insn);
    match insn.map() {
        _ if branch => Some(Rule::Branch),
        map if map == 0 || vex => {
            let member = insn.modrm().map_or(0, |modrm| modrm.reg());
            let cs = insn.bytes().first() == Some(&0x2e);
            let refused = match insn.opcode() {
                0x70..=0x7f | 0xcc..=0xce | 0xe0..=0xe3 | 0xe8 | 0xe9 | 0xeb => vex,
                0x62 | 0x9a | 0xd6 | 0xd8..=0xdf | 0xf0..=0xf4 => true,
                0xc0 | 0xc1 | 0xd0..=0xd3 => member == 6,
                0xf6 | 0xf7 => member == 1,
                0xfe | 0xff => member > 1,
                _ => cs || insn.prefixes().address_size,
            };
            refused.then_some(Rule::Opcode)
        }
        1 => {
            let opcode = insn.opcode();
            let listed = LISTED[usize::from(opcode >> 4)] >> (opcode & 15) & 1 != 0;
            (!listed).then_some(Rule::Opcode)
        }
        _ => Some(Rule::Opcode),
    }
}
