// SPDX-License-Identifier: GPL-2.0

//! Programs that do nothing but count: a hit needs neither a stack nor a [`Memory`](super::Memory).

use super::environment::World;
use super::insn::Insn;
use super::op::Op;
use super::op::Scope;

/// What is added to a variable.
pub struct Count {
    scope: Scope,
    index: u32,
    by: u64,
}

impl Count {
    /// Of an instruction, if it does only that.
    #[inline(always)]
    fn of(insn: &Insn) -> Option<Self> {
        let (scope, by) = match insn.op {
            Op::IncLv => (Scope::Local, 1),
            Op::DecLv => (Scope::Local, u64::MAX),
            Op::IncGv => (Scope::Global, 1),
            Op::DecGv => (Scope::Global, u64::MAX),
            _ => return None,
        };
        Some(Self {
            scope,
            index: insn.number(),
            by,
        })
    }

    /// Of a program that does this once, and exits.
    pub fn new(code: &[Insn]) -> Option<Self> {
        match code {
            [insn, _] if only_counts(code) => Self::of(insn),
            _ => None,
        }
    }

    /// Adds it. There is such a variable, as the instruction has been checked.
    #[inline(always)]
    pub fn add<W: World>(&self, world: &W) {
        world.add_variable(self.scope, self.index, self.by);
    }
}

/// Whether a point's instructions do nothing but count in variables, and exit: then [`count`] runs them.
pub fn only_counts(code: &[Insn]) -> bool {
    let counts = |insn: &Insn| !insn.is_from_stack() && Count::of(insn).is_some();
    match code {
        [counting @ .., last] => *last == Insn::new(Op::Exit) && counting.iter().all(counts),
        [] => false,
    }
}

/// Runs instructions that do nothing but count, as [`only_counts`] says. It needs no memory, so that it can run while another
/// program does on the same CPU.
#[inline(always)]
pub fn count<W: World>(code: &[Insn], world: &W) {
    let counts = code.iter().map_while(Count::of);
    counts.for_each(|count| count.add(world));
}
