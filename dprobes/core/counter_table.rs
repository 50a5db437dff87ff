// SPDX-License-Identifier: GPL-2.0

//! Programs that count in a variable whose index is computed from one available word, such as the
//! process's number. A hit needs neither a stack nor a [`Memory`](super::Memory).

use super::environment::World;
use super::insn::Insn;
use super::log_only::Source;
use super::op::Op;
use super::op::Scope;

/// Maximum number of operations.
const OPERATIONS: usize = 4;

/// Such a program: a word, operations with constants, and the addition to the variable with the
/// resulting index.
pub struct Tally {
    source: Source,
    operations: [Option<(Op, u64)>; OPERATIONS],
    scope: Scope,
    by: u64,
}

impl Tally {
    /// Returns `None` for other programs.
    pub fn new(code: &[Insn]) -> Option<Self> {
        let [first, calculation @ .., last, exit] = code else {
            return None;
        };
        if *exit != Insn::new(Op::Exit) || !last.is_from_stack() {
            return None;
        }
        let (scope, by) = match last.op {
            Op::IncLv => (Scope::Local, 1),
            Op::DecLv => (Scope::Local, u64::MAX),
            Op::IncGv => (Scope::Global, 1),
            Op::DecGv => (Scope::Global, u64::MAX),
            _ => return None,
        };
        let mut operations = [None; OPERATIONS];
        let mut places = operations.iter_mut();
        let mut rest = calculation;
        while let [push, operation, after @ ..] = rest {
            if push.op != Op::Push || apply(operation.op, 0, 0).is_none() {
                return None;
            }
            *places.next()? = Some((operation.op, push.word()));
            rest = after;
        }
        rest.is_empty().then_some(Self {
            source: Source::of(first)?,
            operations,
            scope,
            by,
        })
    }

    /// Counts. Returns false, without an effect, if there is no such variable, or no such word.
    /// Then [`run()`](super::run()) determines the result.
    #[inline(always)]
    pub fn count<W: World>(&self, world: &W) -> bool {
        let Some(mut index) = self.source.value(world) else {
            return false;
        };
        for (op, word) in self.operations.iter().map_while(|operation| *operation) {
            index = apply(op, index, word).unwrap_or(index);
        }
        u32::try_from(index).is_ok_and(|index| world.add_variable(self.scope, index, self.by))
    }
}

/// Computes an operation with two words, if allowed in such a program.
#[inline(always)]
fn apply(op: Op, left: u64, right: u64) -> Option<u64> {
    Some(match op {
        Op::Add => left.wrapping_add(right),
        Op::Sub => left.wrapping_sub(right),
        Op::Mul => left.wrapping_mul(right),
        Op::And => left & right,
        Op::Or => left | right,
        Op::Xor => left ^ right,
        _ => return None,
    })
}
