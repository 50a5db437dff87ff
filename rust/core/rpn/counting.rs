// SPDX-License-Identifier: GPL-2.0

//! Programs that do nothing but count: a hit needs neither a stack nor a [`Memory`](super::Memory).

use super::insn::Insn;
use super::op::Op;
use super::op::Scope;
use super::world::World;

/// Whether a point's instructions do nothing but count in variables, and exit: then [`count`] runs them.
pub fn only_counts(code: &[Insn]) -> bool {
    let counts = |insn: &Insn| matches!(insn.op, Op::IncLv | Op::DecLv | Op::IncGv | Op::DecGv);
    match code {
        [counting @ .., last] => {
            let is_plain = *last == Insn::new(Op::Exit);
            is_plain
                && counting
                    .iter()
                    .all(|insn| counts(insn) && !insn.is_from_stack())
        }
        [] => false,
    }
}

/// Runs instructions that do nothing but count, as [`only_counts`] says. It needs no memory, so that it can run while another
/// program does on the same CPU.
#[inline(always)]
pub fn count<W: World>(code: &[Insn], world: &W) {
    for insn in code {
        let (scope, by) = match insn.op {
            Op::IncLv => (Scope::Local, 1),
            Op::DecLv => (Scope::Local, u64::MAX),
            Op::IncGv => (Scope::Global, 1),
            Op::DecGv => (Scope::Global, u64::MAX),
            _ => return,
        };
        // There is such a variable, as the instruction has been checked.
        world.add_variable(scope, insn.number(), by);
    }
}
