// SPDX-License-Identifier: GPL-2.0

//! Instructions of a point as bytes, and their checks before execution.

use super::bytes::Pieces;
use super::definition::Header;
use super::insn::Insn;
use super::insn::INSN_LEN;
use super::limits::CODE_MAX;
use super::op::Op;
use super::op::ANY;
use super::refusal::Reason;

/// Instructions of a point.
#[derive(Clone, Copy)]
pub struct Code<'a>(Pieces<'a, INSN_LEN>);

/// Effects of a point's instructions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Effects {
    /// True if they need permission.
    pub writes: bool,
    /// True if they may disclose memory or registers.
    pub reads: bool,
    /// True if they may log data other than an exception.
    pub logs: bool,
}

/// Depth that has not been reached yet, and depth that differs by path.
const UNSEEN: u16 = 0;
const UNKNOWN: u16 = u16::MAX;

/// Number of rounds after which undecided depths are taken as unknown.
const ROUNDS: usize = 16;

impl<'a> Code<'a> {
    /// Takes `bytes` as `insns` instructions.
    pub(super) fn new(bytes: &'a [u8], insns: usize) -> Result<Self, Reason> {
        if insns == 0 || insns > CODE_MAX {
            return Err(Reason::Count);
        }
        match Pieces::new(bytes) {
            Some(code) if code.len() == insns => Ok(Self(code)),
            _ => Err(Reason::Length),
        }
    }

    /// Returns the number of instructions.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns false: there are instructions.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the instructions.
    pub fn insns(&self) -> impl Iterator<Item = Insn> + 'a {
        // All have been read before.
        self.0
            .iter()
            .map_while(|bytes| Insn::from_bytes(bytes).ok())
    }

    /// Returns the effects.
    pub fn effects(&self) -> Effects {
        let mut effects = Effects::default();
        for insn in self.insns() {
            effects.writes |= insn.needs_permission();
            effects.reads |= insn.op.reads();
            effects.logs |= insn.op.logs();
        }
        effects
    }

    /// Checks all instructions. The error has the number of the invalid one.
    pub(super) fn check(
        &self,
        header: &Header,
        may_write: bool,
        depths: &mut [u16],
    ) -> Result<(), (u32, Reason)> {
        let len = u32::try_from(self.len()).map_err(|_| (0, Reason::Count))?;
        let mut last = None;
        for (number, bytes) in (0..).zip(self.0.iter()) {
            let at = |reason| (number, reason);
            let insn = Insn::from_bytes(bytes).map_err(at)?;
            insn.check(len, header.locals, header.globals).map_err(at)?;
            if insn.needs_permission() && !may_write {
                return Err(at(Reason::NeedsPermission));
            }
            last = Some(insn.op);
        }
        if !last.is_some_and(Op::is_end) {
            return Err((len.saturating_sub(1), Reason::NoEnd));
        }
        match depths.get_mut(..self.len()) {
            Some(depths) => self.check_stack(depths),
            None => Ok(()),
        }
    }

    /// Tracks the number of words on the stack, as far as all paths to an instruction agree.
    /// Effects of a subroutine on the stack are not tracked to its caller.
    fn check_stack(&self, depths: &mut [u16]) -> Result<(), (u32, Reason)> {
        depths.fill(UNSEEN);
        if let Some(first) = depths.first_mut() {
            *first = 1;
        }
        for _ in 0..ROUNDS {
            let mut changed = false;
            for (number, insn) in (0u32..).zip(self.insns()) {
                let Some(depth) = usize::try_from(number).ok().and_then(|at| depths.get(at)) else {
                    break;
                };
                let depth = *depth;
                if depth == UNSEEN {
                    continue;
                }
                let next = after(&insn, depth).ok_or((number, Reason::Underflow))?;
                if let Some(target) = insn.target() {
                    changed |= merge(depths, target, next);
                }
                if !insn.op.is_end() {
                    let next = match insn.op {
                        Op::Call => UNKNOWN,
                        _ => next,
                    };
                    changed |= merge(depths, number.saturating_add(1), next);
                }
            }
            if !changed {
                break;
            }
        }
        Ok(())
    }
}

/// Returns the depth, plus 1, after an instruction; `None` if it takes more words than there are.
fn after(insn: &Insn, depth: u16) -> Option<u16> {
    if depth == UNKNOWN {
        return Some(UNKNOWN);
    }
    let (pops, pushes) = (insn.op.pops(), insn.op.pushes());
    let operand = u16::from(insn.op.takes_from_stack() && insn.is_from_stack());
    // One more than the words on the stack.
    let left = depth.checked_sub(operand).filter(|left| *left > 0)?;
    let needs = match insn.op {
        // Needs the top, and keeps it.
        Op::Jlt | Op::Jle | Op::Jgt | Op::Jge | Op::Jz | Op::Jnz | Op::Loop => 1,
        Op::MoveLv | Op::MoveGv | Op::TracePv => 1,
        Op::Log | Op::Dup if operand == 0 => {
            insn.number().saturating_add((insn.op == Op::Dup).into())
        }
        _ if pops == ANY => 0,
        _ => pops.into(),
    };
    if u32::from(left) <= needs {
        return None;
    }
    match insn.op {
        Op::Log if operand == 0 => u16::try_from(u32::from(left).checked_sub(needs)?).ok(),
        Op::Dup => left.checked_add(1),
        Op::PushSbp | Op::PushTsp => left.checked_add(1),
        Op::CopySbp | Op::CopyTsp => Some(left),
        Op::PopSbp | Op::PopTsp => left.checked_sub(1).filter(|left| *left > 0),
        _ if pops == ANY => Some(UNKNOWN),
        _ => left
            .checked_sub(pops.into())
            .filter(|left| *left > 0)?
            .checked_add(pushes.into()),
    }
}

/// Notes that an instruction can be reached at a depth. Returns true if that is new.
fn merge(depths: &mut [u16], number: u32, depth: u16) -> bool {
    let Some(slot) = usize::try_from(number)
        .ok()
        .and_then(|at| depths.get_mut(at))
    else {
        return false;
    };
    let merged = match *slot {
        UNSEEN => depth,
        seen if seen == depth => seen,
        _ => UNKNOWN,
    };
    let changed = merged != *slot;
    *slot = merged;
    changed
}
