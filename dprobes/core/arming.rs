// SPDX-License-Identifier: GPL-2.0

//! Watchpoints with an address from the program: `arm` and `disarm`, and checks of their numbers.

use super::environment::World;
use super::exception::Exception;
use super::exception::Fault;
use super::insn::Insn;
use super::limits::ACCESS_STEPS;
use super::limits::LATER_MAX;
use super::machine::Machine;
use super::op::Op;
use super::op::Operand;
use super::refusal::Reason;
use super::set::ProgramRef;

/// Checks that points with a later address have unique numbers, and that each number in a command
/// exists. The error has the point, and its instruction. Numbers from the stack are checked at run
/// time.
pub(super) fn check(program: &ProgramRef<'_>) -> Result<(), (u32, Option<u32>, Reason)> {
    let mut minors = [None; LATER_MAX];
    for (number, point) in (0..).zip(program.points()) {
        let minor = point.point.minor;
        if !point.point.is_later {
            continue;
        }
        if minors.contains(&Some(minor)) {
            return Err((number, None, Reason::LaterTwice(minor)));
        }
        let limit = Reason::Limit("the number of points whose address comes later");
        let free = minors.iter_mut().find(|one| one.is_none());
        *free.ok_or((number, None, limit))? = Some(minor);
    }
    for (number, point) in (0..).zip(program.points()) {
        for (at, insn) in (0..).zip(point.code.insns()) {
            let minor = insn.number();
            let names = insn.op.operand() == Operand::Later && !insn.is_from_stack();
            if names && !minors.contains(&Some(minor)) {
                return Err((number, Some(at), Reason::NoLater(minor)));
            }
        }
    }
    Ok(())
}

impl<W: World> Machine<'_, W> {
    #[inline(never)]
    pub(super) fn watch(&mut self, insn: &Insn) -> Result<(), Fault> {
        let minor = self.number(insn)?;
        let address = match insn.op {
            Op::Arm => Some(self.pop()?),
            _ => None,
        };
        // A null pointer is 0, where no object is.
        let address = address.filter(|address| *address != 0);
        self.charge(ACCESS_STEPS)?;
        match self.world.arm(minor, address) {
            true => Ok(()),
            false => Err(Fault::new(Exception::Operand, minor.into())),
        }
    }
}
