// SPDX-License-Identifier: GPL-2.0

//! Templates of trampolines: code of the kernel.

use super::target::BRANCH_LEN;
use ferro_core::insn::Boundaries;
use ferro_core::insn::Encoding;
use ferro_core::insn::Flow;
use ferro_core::insn::Insn;
use ferro_core::insn::Target;

/// Maximum number of bytes of a template. The kernel's have up to 327.
pub const MAX_TEMPLATE: usize = 512;

/// Maximum number of its instructions with a relative operand or target. The kernel's have up to
/// four: two of call-depth tracking, the ops, and the call.
const MAX_MOVED: usize = 8;

/// Addresses in the kernel's code, from its symbols.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Labels {
    /// `ftrace_caller`, `ftrace_regs_caller`: the first instruction.
    pub start: u64,
    /// `ftrace_caller_op_ptr`, `ftrace_regs_caller_op_ptr`: loads the ops into RDX.
    pub load_ops: u64,
    /// `ftrace_call`, `ftrace_regs_call`: the call of the function.
    pub call: u64,
    /// `ftrace_regs_caller_jmp`: branches to direct calls, which a copy does not have.
    pub direct: Option<u64>,
    /// `ftrace_caller_end`, `ftrace_regs_caller_end`: after the last copied instruction.
    pub end: u64,
}

/// Reason why code is not a template, with the offset of the faulty instruction or label.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The labels are not in order, or there are more than [`MAX_TEMPLATE`] bytes between them, or
    /// fewer in the text.
    Labels,
    /// No instruction begins at the label, or the one before extends beyond it.
    NoBoundary(u16),
    /// The bytes are not an instruction.
    Undecodable(u16),
    /// Not `mov offset(%rip), %rdx`.
    NoLoad(u16),
    /// Not a call with a distance of 32 bits.
    NoCall(u16),
    /// Not a conditional jump of two bytes that leaves the code.
    NoDirect(u16),
    /// Calls, returns, traps, or jumps to code outside of a copy.
    Leaves(u16),
    /// More position-dependent instructions than in a kernel's template.
    TooManyMoved(u16),
}

/// A field of 32 bits with the distance of a target from the end of its instruction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Moved {
    /// Offset of the field.
    pub(super) field: u16,
    /// Offset of the end of the instruction.
    pub(super) next: u16,
    /// Address of the target.
    pub(super) target: u64,
}

/// Code of the kernel from which trampolines are copied.
#[derive(Clone, Debug)]
pub struct Template {
    bytes: [u8; MAX_TEMPLATE],
    len: u16,
    load_ops: u16,
    call: u16,
    direct: Option<u16>,
    moved: [Moved; MAX_MOVED],
    moves: u8,
    keeps_r11: bool,
}

/// Purpose of an instruction of the template.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    LoadOps,
    Call,
    Direct,
    Other,
}

/// `mov disp32(%rip), %rdx`
pub(super) const LOAD_RDX: [u8; 3] = [0x48, 0x8b, 0x15];
/// `xchg %ax, %ax`
pub(super) const NOP_2: [u8; 2] = [0x66, 0x90];

impl Template {
    /// Makes a template of `text`, the code from [`Labels::start`] on.
    pub fn new(text: &[u8], labels: &Labels) -> Result<Self, Refusal> {
        let offset = |label: u64| {
            let offset = label.wrapping_sub(labels.start);
            u16::try_from(offset)
                .ok()
                .filter(|offset| usize::from(*offset) <= MAX_TEMPLATE)
                .ok_or(Refusal::Labels)
        };
        let (len, load_ops, call) = (
            offset(labels.end)?,
            offset(labels.load_ops)?,
            offset(labels.call)?,
        );
        let direct = labels.direct.map(offset).transpose()?;
        let text = text.get(..usize::from(len)).ok_or(Refusal::Labels)?;
        if load_ops >= call || call >= len || direct.is_some_and(|at| at <= call || at >= len) {
            return Err(Refusal::Labels);
        }

        let mut template = Self {
            bytes: [0; MAX_TEMPLATE],
            len,
            load_ops,
            call,
            direct,
            moved: [Moved::default(); MAX_MOVED],
            moves: 0,
            keeps_r11: true,
        };
        for (to, from) in template.bytes.iter_mut().zip(text) {
            *to = *from;
        }
        let mut labelled = [Some(load_ops), Some(call), direct];
        let mut walk = Boundaries::new(text);
        let mut at: u16 = 0;
        // Code before this offset is jumped over.
        let mut passed = 0;
        while at < len {
            let Some(Ok((_, insn))) = walk.next() else {
                return Err(Refusal::Undecodable(at));
            };
            if at < passed && insn.bytes() == [0xcc] {
                at = at.saturating_add(1);
                continue;
            }
            let role = match at {
                at if at == load_ops => Role::LoadOps,
                at if at == call => Role::Call,
                at if Some(at) == direct => Role::Direct,
                _ => Role::Other,
            };
            for label in &mut labelled {
                *label = label.filter(|label| *label != at);
            }
            template.take(&insn, role, at, labels.start)?;
            if let (Flow::Jump(_), Some(target)) = (insn.flow(), insn.branch_target(u64::from(at)))
            {
                // Filler of long gaps in the kernel: a jump over breakpoints, which are never
                // executed.
                passed = u16::try_from(target).unwrap_or(0);
            }
            template.keeps_r11 &= at >= load_ops || keeps_r11(&insn);
            // At most 15 more than one below `len`.
            at = at.saturating_add(u16::try_from(insn.len()).unwrap_or(u16::MAX));
        }
        match labelled.into_iter().flatten().next() {
            Some(label) => Err(Refusal::NoBoundary(label)),
            None => Ok(template),
        }
    }

    /// Takes an instruction, at the offset `at`.
    fn take(&mut self, insn: &Insn, role: Role, at: u16, start: u64) -> Result<(), Refusal> {
        let address = start.wrapping_add(u64::from(at));
        match role {
            Role::LoadOps if !insn.bytes().starts_with(&LOAD_RDX) => {
                return Err(Refusal::NoLoad(at))
            }
            // A copy has its own word for the ops, and its own function.
            Role::LoadOps => return Ok(()),
            Role::Call => {
                let direct = matches!(insn.flow(), Flow::Call(Target::Relative(_)));
                return match direct && insn.len() == BRANCH_LEN {
                    true => Ok(()),
                    false => Err(Refusal::NoCall(at)),
                };
            }
            Role::Direct => return self.drop_direct(insn, at),
            Role::Other => (),
        }
        match insn.flow() {
            Flow::Next => (),
            Flow::Jump(Target::Relative(_)) | Flow::JumpIf(..) if self.stays(insn, at) => {
                return Ok(())
            }
            _ => return Err(Refusal::Leaves(at)),
        }
        match insn.rip_relative_target(address) {
            // Truncated operands would be relative to the kernel's code, and so differ in a copy.
            Some(_) if insn.prefixes().address_size => Err(Refusal::Leaves(at)),
            Some(target) => self.moves(insn, at, target),
            None => Ok(()),
        }
    }

    /// Returns true if the branch stays in the copied code. The kernel guarantees that its target
    /// is the start of an instruction.
    fn stays(&self, insn: &Insn, at: u16) -> bool {
        let target = insn.branch_target(u64::from(at));
        target.is_some_and(|target| target < u64::from(self.len))
    }

    fn moves(&mut self, insn: &Insn, at: u16, target: u64) -> Result<(), Refusal> {
        let free = self.moved.get_mut(usize::from(self.moves));
        let field = insn.displacement_field();
        let (Some(free), 4) = (free, field.len) else {
            return Err(Refusal::TooManyMoved(at));
        };
        *free = Moved {
            field: at.saturating_add(u16::from(field.at)),
            next: at.saturating_add(u16::try_from(insn.len()).unwrap_or(u16::MAX)),
            target,
        };
        self.moves = self.moves.saturating_add(1);
        Ok(())
    }

    /// Removes the branch to direct calls.
    fn drop_direct(&mut self, insn: &Insn, at: u16) -> Result<(), Refusal> {
        let leaves = matches!(insn.flow(), Flow::JumpIf(..)) && !self.stays(insn, at);
        let place = self.bytes.iter_mut().skip(usize::from(at));
        if !leaves || insn.len() != NOP_2.len() {
            return Err(Refusal::NoDirect(at));
        }
        for (to, from) in place.zip(NOP_2) {
            *to = from;
        }
        Ok(())
    }

    /// Returns the code, for the address of the kernel's own.
    pub fn bytes(&self) -> &[u8] {
        self.bytes.get(..usize::from(self.len)).unwrap_or_default()
    }

    /// Returns the offset at which the ops is loaded.
    pub fn load_ops(&self) -> usize {
        usize::from(self.load_ops)
    }

    /// Returns true if R11 has the same value at [`Self::load_ops`] as at the beginning.
    pub(super) fn keeps_r11(&self) -> bool {
        self.keeps_r11
    }

    /// Returns the offset of the call of the function.
    pub fn call(&self) -> usize {
        usize::from(self.call)
    }

    /// Returns the offset of the former branch to direct calls.
    pub(super) fn direct_at(&self) -> Option<usize> {
        self.direct.map(usize::from)
    }

    /// Writes other code at an offset. Returns false, without a change, if a field that a copy
    /// changes is there.
    pub(super) fn overwrite(&mut self, at: usize, new: &[u8]) -> bool {
        let Some(end) = at.checked_add(new.len()) else {
            return false;
        };
        let within = |field: usize| field.saturating_add(BRANCH_LEN) > at && field < end;
        let mut fields = self.moved().iter().map(|moved| usize::from(moved.field));
        if within(self.call()) || within(self.load_ops()) || fields.any(within) {
            return false;
        }
        let len = self.bytes().len();
        match self
            .bytes
            .get_mut(..len)
            .and_then(|code| code.get_mut(at..end))
        {
            Some(place) => place.copy_from_slice(new),
            None => return false,
        }
        true
    }

    pub(super) fn moved(&self) -> &[Moved] {
        self.moved
            .get(..usize::from(self.moves))
            .unwrap_or_default()
    }
}

/// Returns true if an instruction surely keeps R11: R11 is not an operand, or is stored.
fn keeps_r11(insn: &Insn) -> bool {
    const B: u8 = 1;
    const R: u8 = 4;
    // R11 needs a bit of REX.
    const LOW: u8 = 3;
    if insn.encoding() != Encoding::Legacy {
        return false;
    }
    // A kernel that can count the depth of calls has long NOPs here, on CPUs without need for it.
    if (insn.map(), insn.opcode()) == (1, 0x1f) {
        return true;
    }
    if insn.map() != 0 {
        return false;
    }
    let before = usize::from(insn.opcode_field().at).checked_sub(1);
    let rex = before.and_then(|at| insn.bytes().get(at)).copied();
    let rex = rex.filter(|rex| rex & 0xf0 == 0x40).unwrap_or(0);
    match insn.modrm() {
        None => rex & B == 0 || insn.opcode() & 7 != LOW,
        Some(modrm) => {
            let in_memory = modrm.mode() != 3;
            let reg = rex & R != 0 && modrm.reg() == LOW;
            let rm = rex & B != 0 && modrm.rm() == LOW && !in_memory;
            !rm && (!reg || (insn.opcode() == 0x89 && in_memory))
        }
    }
}
