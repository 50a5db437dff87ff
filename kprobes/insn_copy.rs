// SPDX-License-Identifier: GPL-2.0

//! Copies of a point's instruction, and their memory: prepares the execution of a probed
//! instruction outside of its place.
//!
//! Contexts: process, sleeps.
#![deny(unsafe_code)]

use ferro_core::insn::Insn;
use ferro_core::insn::MAX_LEN;
use ferro_kprobes_core::relocate;
use ferro_kprobes_core::Compute;
use ferro_kprobes_core::Probe;
use ferro_kprobes_core::RelocateError;
use ferro_kprobes_core::Unprobeable;
use ferro_sys::code::text::TextLock;
use ferro_sys::code::text::BREAKPOINT;
use ferro_sys::mm::exec_pool;
use ferro_sys::mm::exec_pool::Slot;
use ferro_sys::mm::exec_pool::User;
use kernel::prelude::*;

use crate::error::Error;
use crate::raw::insn_stub;
use crate::raw::insn_stub::InsnStub;
use crate::raw::probe_point::Execution;
use crate::raw::probe_point::Point;
use crate::raw::probe_point::BRANCH;

const CALL: u8 = 0xe8;
const JUMP: u8 = 0xe9;
/// Size of a copy with the branch after it.
const SLOT: usize = 32;

/// True if an instruction that accesses memory finds the same values within the trap: the words
/// that a trap counts are then accessed with a segment prefix, which [`Compute`] never handles.
const MEMORY_IS_THE_SAME: bool = cfg!(CONFIG_SMP) && !cfg!(CONFIG_LOCKDEP);

/// The memory of a point, which only the registry has.
pub(crate) struct InsnCopy {
    pub(crate) original: u8,
    insn: Option<Insn>,
    copy: Option<Slot>,
    post_copy: Option<Slot>,
    stub: Option<InsnStub>,
    /// No such code is possible.
    never_stub: bool,
}

impl InsnCopy {
    /// Makes the point of an ftrace site. The instruction there, a call or a NOP, is `len` bytes
    /// long.
    pub(crate) fn ftrace_point(address: usize, len: usize) -> (Point, InsnCopy) {
        let code = InsnCopy {
            original: 0,
            insn: None,
            copy: None,
            post_copy: None,
            stub: None,
            never_stub: true,
        };
        (
            Point::new(address, address + len, Execution::Ftrace, 0),
            code,
        )
    }

    /// Makes the point of an instruction. Nothing is written yet: the caller has to call
    /// [`InsnCopy::write`].
    pub(crate) fn breakpoint_point(
        address: usize,
        insn: &Insn,
        next: Option<&Insn>,
    ) -> Result<(Point, InsnCopy), Error> {
        let (execution, copied) = match Probe::of(insn) {
            // A landing pad is a NOP in kernels without IBT.
            Probe::Unprobeable(Unprobeable::LandingPad) if !cfg!(CONFIG_X86_KERNEL_IBT) => {
                (Execution::Copied { stops: false }, true)
            }
            Probe::Unprobeable(rule) => return Err(Error::Unprobeable(rule)),
            // An instruction that may fault has a copy as well, which takes the fault.
            Probe::Emulate(emulation) => match emulation.destination(address as u64) {
                Some(to) => (Execution::Jumped(to as usize), false),
                None => (
                    Execution::Emulated(emulation),
                    insn.memory_operand().is_some(),
                ),
            },
            Probe::Boost => (Execution::Copied { stops: false }, true),
            Probe::Step(_) => (Execution::Copied { stops: true }, true),
        };
        if is_sti(insn)
            && next.is_some_and(|next| Probe::of(next) == Probe::Unprobeable(Unprobeable::Halt))
        {
            return Err(Error::Unprobeable(Unprobeable::Halt));
        }
        let copied = copied && !insn.is_relative_branch();
        let copy = match copied {
            true => Some(exec_pool::alloc(SLOT, User::Probes).map_err(|_| Error::NoMemory)?),
            false => None,
        };
        let at = copy.as_ref().map_or(0, Slot::address);
        let code = InsnCopy {
            original: insn.bytes().first().copied().unwrap_or(BREAKPOINT),
            insn: Some(*insn),
            copy,
            post_copy: None,
            stub: None,
            never_stub: false,
        };
        let mut point = Point::new(address, address + insn.len(), execution, at);
        point.in_trap = Compute::of(insn, address as u64)
            .filter(|compute| MEMORY_IS_THE_SAME || !compute.has_operand_in_memory());
        point.sees_interrupts = is_flags(insn);
        point.post_copy_stops = matches!(execution, Execution::Copied { stops: true })
            || insn_stub::post_trampoline().is_none();
        // Fails now if the copy cannot be moved to its slot.
        if copied {
            code_for(&point, insn, at, false)?;
        }
        Ok((point, code))
    }

    /// Allocates the memory that post-handlers need, if there is none.
    ///
    /// Nothing is written yet, and `point` does not use it: the caller has to call
    /// [`InsnCopy::write_post`].
    pub(crate) fn make_post(&mut self, point: &Point) -> Result<(), Error> {
        let is_copied = matches!(point.execution, Execution::Copied { .. });
        if is_copied && point.in_trap.is_none() && self.stub.is_none() && !self.never_stub {
            let insn = self.insn.as_ref().ok_or(Error::NotAnInstruction)?;
            self.stub = InsnStub::new(insn, point.address, point.copy, MEMORY_IS_THE_SAME)?;
            self.never_stub = self.stub.is_none();
        }
        if is_copied && self.may_need_post_copy(point) {
            self.make_post_copy(point)?;
        }
        Ok(())
    }

    /// Returns true if a copy is needed that calls the post-handlers. Instructions that fault in
    /// the trap use it.
    fn may_need_post_copy(&self, point: &Point) -> bool {
        match (&point.in_trap, &self.stub) {
            (Some(compute), _) => compute.has_operand_in_memory(),
            (None, Some(stub)) => stub.access() != 0,
            (None, None) => true,
        }
    }

    /// Writes the code for which [`InsnCopy::make_post`] has allocated memory, if `point` does not
    /// use it yet. The caller has to call [`InsnCopy::use_post`]. Returns true if there was some.
    pub(crate) fn write_post(&mut self, point: &Point, text: &mut TextLock) -> Result<bool, Error> {
        let mut written = false;
        let Some(insn) = &self.insn else {
            return Ok(written);
        };
        if let Some(slot) = self
            .post_copy
            .as_mut()
            .filter(|_| point.post_copy.load() == 0)
        {
            let code = code_for(point, insn, slot.address(), true)?;
            slot.write(&code, text).map_err(|_| Error::OutOfReach)?;
            written = true;
        }
        if let Some(stub) = self.stub.as_mut().filter(|_| !point.stub.is_there()) {
            stub.write(insn, point.address, text)?;
            written = true;
        }
        Ok(written)
    }

    /// Makes `point` use the written code. Returns the addresses in that code, which the caller has
    /// to add to the map of copies; 0 is none.
    pub(crate) fn use_post(&self, point: &Point, text: &mut TextLock) -> [usize; 4] {
        let mut found_by = [0; 4];
        let [post_copy, end, back, access] = &mut found_by;
        if let Some(slot) = self
            .post_copy
            .as_ref()
            .filter(|_| point.post_copy.load() == 0)
        {
            point.post_copy.store(slot.address());
            (*post_copy, *end, *back) = (
                slot.address(),
                point.post_copy_end(),
                point.post_copy_return(),
            );
        }
        if let Some(stub) = self.stub.as_ref().filter(|_| !point.stub.is_there()) {
            stub.publish(&point.stub, text);
            *access = stub.access();
        }
        found_by
    }

    /// Allocates the copy that calls the post-handlers, if there is none.
    fn make_post_copy(&mut self, point: &Point) -> Result<(), Error> {
        if self.post_copy.is_none() {
            let insn = self.insn.as_ref().ok_or(Error::NotAnInstruction)?;
            let slot = exec_pool::alloc(SLOT, User::Probes).map_err(|_| Error::NoMemory)?;
            code_for(point, insn, slot.address(), true)?;
            self.post_copy = Some(slot);
        }
        Ok(())
    }

    /// Writes the copy. Returns true if there is one.
    pub(crate) fn write(&mut self, point: &Point, text: &mut TextLock) -> Result<bool, Error> {
        let (Some(insn), Some(slot)) = (&self.insn, &mut self.copy) else {
            return Ok(false);
        };
        let code = code_for(point, insn, slot.address(), false)?;
        slot.write(&code, text).map_err(|_| Error::OutOfReach)?;
        Ok(true)
    }
}

/// Returns the code for a slot at `to`.
fn code_for(point: &Point, insn: &Insn, to: usize, is_post: bool) -> Result<[u8; SLOT], Error> {
    let mut copy = [0; MAX_LEN + 1];
    let len = match relocate(insn, point.address as u64, to as u64, &mut copy) {
        Ok(len) => len,
        Err(RelocateError::OutOfReach | RelocateError::Branch) => return Err(Error::OutOfReach),
    };
    let mut code = [BREAKPOINT; SLOT];
    for (to, from) in code.iter_mut().zip(copy.iter().take(len)) {
        *to = *from;
    }
    let branch = match (is_post, point.execution) {
        (true, _) => insn_stub::post_trampoline()
            .filter(|_| !point.post_copy_stops)
            .map(|trampoline| (CALL, trampoline)),
        (false, Execution::Copied { stops: true }) => None,
        (false, _) => Some((JUMP, point.next)),
    };
    let Some((opcode, target)) = branch else {
        return Ok(code);
    };
    let end = to.wrapping_add(len).wrapping_add(BRANCH);
    let distance = target.wrapping_sub(end) as isize;
    let distance = i32::try_from(distance).map_err(|_| Error::OutOfReach)?;
    let branch = Iterator::chain(core::iter::once(opcode), distance.to_le_bytes());
    for (to, from) in code.iter_mut().skip(len).zip(branch) {
        *to = from;
    }
    Ok(code)
}

/// Returns true for `pushf` and `popf`.
fn is_flags(insn: &Insn) -> bool {
    insn.map() == 0 && matches!(insn.opcode(), 0x9c | 0x9d)
}

/// Returns true for `sti`, which enables interrupts after the next instruction.
pub(crate) fn is_sti(insn: &Insn) -> bool {
    insn.map() == 0 && insn.opcode() == 0xfb
}
