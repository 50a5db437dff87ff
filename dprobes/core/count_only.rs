// SPDX-License-Identifier: GPL-2.0

//! Programs that only count: a hit needs neither a stack nor a [`Memory`](super::Memory).

use super::environment::World;
use super::insn::Insn;
use super::op::Op;
use super::op::Scope;

/// Addition to a variable.
pub struct Count {
    scope: Scope,
    index: u32,
    by: u64,
}

impl Count {
    /// Returns the addition of an instruction that only counts.
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

    /// Returns the addition of a program that counts once, and exits.
    pub fn new(code: &[Insn]) -> Option<Self> {
        match code {
            [insn, _] if only_counts(code) => Self::of(insn),
            _ => None,
        }
    }

    /// Adds it. The variable exists, as the instruction has been checked.
    #[inline(always)]
    pub fn add<W: World>(&self, world: &W) {
        world.add_variable(self.scope, self.index, self.by);
    }
}

/// Returns true if a point's instructions only count in variables, and exit: then [`count`] runs
/// them.
pub fn only_counts(code: &[Insn]) -> bool {
    let counts = |insn: &Insn| !insn.is_from_stack() && Count::of(insn).is_some();
    match code {
        [counting @ .., last] => *last == Insn::new(Op::Exit) && counting.iter().all(counts),
        [] => false,
    }
}

/// Runs instructions that [`only_counts`] accepts. Needs no memory, so that it can run during
/// another program on the same CPU.
#[inline(always)]
pub fn count<W: World>(code: &[Insn], world: &W) {
    let counts = code.iter().map_while(Count::of);
    counts.for_each(|count| count.add(world));
}
