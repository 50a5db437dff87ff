// SPDX-License-Identifier: GPL-2.0

//! Division, shifts, and copied bits.

use super::environment::World;
use super::exception::Exception;
use super::exception::Fault;
use super::insn::Insn;
use super::machine::Machine;
use super::op::Op;

impl<W: World> Machine<'_, W> {
    /// Divides, and leaves the quotient on top of the remainder. The minimum divided by -1 is
    /// itself, with remainder 0.
    #[inline(never)]
    pub(super) fn divide(&mut self, insn: &Insn) -> Result<(), Fault> {
        let right = self.pop()?;
        let left = self.pop()?;
        if right == 0 {
            return Err(Fault::new(Exception::Divide, left));
        }
        let (quotient, remainder) = match insn.op {
            Op::Div => (left.wrapping_div(right), left.wrapping_rem(right)),
            _ => {
                let (left, right) = (left as i64, right as i64);
                let quotient = left.wrapping_div(right);
                (quotient as u64, left.wrapping_rem(right) as u64)
            }
        };
        self.push(remainder)?;
        self.push(quotient)
    }

    #[inline(never)]
    pub(super) fn shift(&mut self, insn: &Insn) -> Result<(), Fault> {
        let by = self.number(insn)?;
        let top = self.top();
        let value = match insn.op {
            Op::Rol => top.rotate_left(by % u64::BITS),
            Op::Ror => top.rotate_right(by % u64::BITS),
            Op::Shl => top.checked_shl(by).unwrap_or(0),
            Op::Shr => top.checked_shr(by).unwrap_or(0),
            op => copied(op, top, by).ok_or(Fault::new(Exception::Operand, by.into()))?,
        };
        self.set_top(value);
        Ok(())
    }
}

/// Copies bit number `bit` of `word`, or 0, to all higher or lower bits.
fn copied(op: Op, word: u64, bit: u32) -> Option<u64> {
    let this = 1u64.checked_shl(bit)?;
    let lower = this.wrapping_sub(1);
    let higher = !(this | lower);
    let is_set = word & this != 0;
    Some(match (op, is_set) {
        (Op::Pbl, true) => word | higher,
        (Op::Pbr, true) => word | lower,
        (Op::Pbl | Op::Pzl, _) => word & !higher,
        _ => word & !lower,
    })
}
