// SPDX-License-Identifier: GPL-2.0

//! Stack of a run.
//!
//! The stack is a ring. It starts with nothing on it at index 0; an exception of `ex_mask` tells
//! when it wraps.

use super::environment::World;
use super::exception::Exception;
use super::exception::Fault;
use super::insn::Insn;
use super::machine::Machine;
use super::machine::MASK;
use super::op::Op;

impl<W: World> Machine<'_, W> {
    #[inline(always)]
    pub(super) fn top(&self) -> u64 {
        self.word(self.top)
    }

    #[inline(always)]
    pub(super) fn set_top(&mut self, value: u64) {
        self.memory.stack[self.top & MASK] = value;
    }

    #[inline(always)]
    fn word(&self, index: usize) -> u64 {
        self.memory.stack[index & MASK]
    }

    #[inline(always)]
    pub(super) fn push(&mut self, value: u64) -> Result<(), Fault> {
        let top = self.top.wrapping_add(1) & MASK;
        if top == 0 {
            self.wrapped()?;
        }
        self.top = top;
        self.set_top(value);
        Ok(())
    }

    #[inline(always)]
    pub(super) fn pop(&mut self) -> Result<u64, Fault> {
        let value = self.top();
        if self.top == 0 {
            self.wrapped()?;
        }
        self.top = self.top.wrapping_sub(1) & MASK;
        Ok(value)
    }

    #[cold]
    fn wrapped(&self) -> Result<(), Fault> {
        match self.has(Exception::Stack) {
            true => Err(Fault::new(Exception::Stack, self.top as u64)),
            false => Ok(()),
        }
    }

    /// Returns an operand of up to 32 bits.
    #[inline(always)]
    pub(super) fn number(&mut self, insn: &Insn) -> Result<u32, Fault> {
        if !insn.is_from_stack() {
            return Ok(insn.number());
        }
        let word = self.pop()?;
        u32::try_from(word).map_err(|_| Fault::new(Exception::Operand, word))
    }

    /// Runs commands that move words in the stack.
    #[inline(never)]
    pub(super) fn arrange(&mut self, insn: &Insn) -> Result<(), Fault> {
        // Of any size: the index is masked.
        let distance = insn.word() as usize;
        let of_base = self.base.wrapping_add(distance);
        match insn.op {
            Op::Xchg => {
                let below = self.top.wrapping_sub(1) & MASK;
                self.memory.stack.swap(self.top & MASK, below);
            }
            Op::Dup => {
                let n = self.number(insn)?;
                self.push(self.word(self.top.wrapping_sub(n as usize)))?;
            }
            Op::Ros => self.top = self.top.wrapping_sub(distance) & MASK,
            Op::PushSbp => self.push(self.word(of_base))?,
            Op::PopSbp => {
                let value = self.pop()?;
                self.memory.stack[of_base & MASK] = value;
            }
            Op::CopySbp => self.memory.stack[of_base & MASK] = self.top(),
            Op::PushTsp => self.push(self.word(self.top.wrapping_add(distance)))?,
            Op::PopTsp => {
                let value = self.pop()?;
                self.memory.stack[self.top.wrapping_add(distance) & MASK] = value;
            }
            Op::CopyTsp => {
                self.memory.stack[self.top.wrapping_add(distance) & MASK] = self.top();
            }
            Op::Save => {
                let top = self.top;
                self.push(self.base as u64)?;
                self.push(top as u64)?;
                self.base = self.top;
            }
            _ => {
                // The program may have overwritten it: any value is masked to an index.
                let top = self.word(self.base) as usize;
                let base = self.word(self.base.wrapping_sub(1)) as usize;
                (self.top, self.base) = (top & MASK, base & MASK);
            }
        }
        Ok(())
    }
}
