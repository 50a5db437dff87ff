// SPDX-License-Identifier: GPL-2.0

//! Points: probed addresses, and how their instructions are executed while a breakpoint stands in
//! their place.
//!
//! A copy of the instruction runs in a slot of the executable pool. A jump to the next instruction
//! follows it, or, for probes with post-handlers, a call of `post_trampoline.S`, which reaches the
//! handlers without a second breakpoint. With post-handlers, an instruction that works on
//! registers, or accesses memory once, is executed within the trap. An instruction that may branch
//! has no copy with such a call: nothing would restore the interrupt flag that was cleared for it.
//!
//! A task can be preempted in a copy that is followed by a jump. The CPU keeps no state of it, so
//! that another CPU may continue the task. The slot is freed after an RCU-tasks grace period, when
//! the task has left it. Thus one trap is enough, also with preemption. The copy that is followed
//! by the call runs with interrupts off, so that the handlers before and after the instruction run
//! on one CPU. Instructions that would notice this are exceptions.
//!
//! Contexts: making a point process, sleeps; the fields are read in any.
#![deny(unsafe_code)]

use crate::raw::probe_list::ProbeList;
use ferro_core::insn::relocate;
use ferro_core::insn::Compute;
use ferro_core::insn::Emulation;
use ferro_core::insn::Insn;
use ferro_core::insn::Probe;
use ferro_core::insn::RelocateError;
use ferro_core::insn::Unprobeable;
use ferro_core::insn::MAX_LEN;
use ferro_sys::code::text::TextLock;
use ferro_sys::code::text::BREAKPOINT;
use ferro_sys::mm::exec_pool;
use ferro_sys::mm::exec_pool::Slot;
use ferro_sys::mm::exec_pool::User;
use ferro_sys::sync::shared_word::Word;
use kernel::prelude::*;

use crate::detour_word::Parts;
use crate::error::Error;
use crate::raw::insn_stub::Apart;
use crate::raw::insn_stub::Runner;
use crate::raw::post_copy;

const CALL: u8 = 0xe8;
const JUMP: u8 = 0xe9;
/// Size of a copy with the branch after it.
const SLOT: usize = 32;
/// Length of a call or jump with a 32-bit distance.
const BRANCH: usize = 5;

/// True if an instruction that accesses memory finds the same values within the trap: the words
/// that a trap counts are then accessed with a segment prefix, which [`Compute`] never handles.
const MEMORY_IS_THE_SAME: bool = cfg!(CONFIG_SMP) && !cfg!(CONFIG_LOCKDEP);

/// How the instruction is executed.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Execution {
    /// By resuming at an address.
    Jumped(usize),
    /// By changing the registers.
    Emulated(Emulation),
    /// By a copy. If `stops`, a breakpoint follows it instead of a branch.
    Copied { stops: bool },
    /// By ftrace: the instruction is the call of an ftrace site.
    Ftrace,
}

/// A probed address.
#[repr(C)]
pub(crate) struct Point {
    /// At the start, as `detour.rs` requires.
    pub(crate) probes: ProbeList,
    pub(crate) address: usize,
    /// Address of the next instruction.
    pub(crate) next: usize,
    pub(crate) execution: Execution,
    /// Executes a copied instruction within the trap if a probe has a post-handler.
    pub(crate) in_trap: Option<Compute>,
    /// Executes other instructions within the trap, by generated code.
    pub(crate) apart: Runner,
    /// 1 if a probe has a post-handler, otherwise 0.
    pub(crate) has_post: Word,
    /// Address of the copy, or 0.
    pub(crate) copy: usize,
    /// Address of the copy that calls the post-handlers, or 0.
    pub(crate) after: Word,
    /// A breakpoint follows the copy at `after`, not a call: where its length could be misjudged,
    /// and on CPUs without `post_trampoline.S`.
    after_stops: bool,
    /// Address where hits without post-handlers resume, or 0 if the instruction is emulated.
    pub(crate) onward: Word,
    /// Copies of the instruction and of the others which a jump covers, or is about to, as
    /// [`Parts`]: hits resume there. Otherwise 0.
    pub(crate) detour: Word,
    /// As `detour`, but never reset: a task may still be in the detour when hits no longer resume
    /// there.
    pub(crate) parts: Word,
    /// Address of the first instruction's copy that runs in a detour between handlers, or 0. Never
    /// reset.
    pub(crate) within: Word,
    /// Address of the copies of the other instructions that run after that, or 0. Never reset.
    pub(crate) rest: Word,
    /// Address of a substitute breakpoint, or 0.
    pub(crate) stop: Word,
    /// The instruction reads or writes RFLAGS.IF, so that its copy runs with interrupts as they
    /// are.
    pub(crate) sees_interrupts: bool,
}

/// The memory of a point, which only the registry has.
pub(crate) struct Code {
    pub(crate) original: u8,
    insn: Option<Insn>,
    copy: Option<Slot>,
    after: Option<Slot>,
    apart: Option<Apart>,
    /// No such code is possible.
    never_apart: bool,
}

impl Point {
    /// Makes the point of an ftrace site. The instruction there, a call or a NOP, is `len` bytes
    /// long.
    pub(crate) fn ftrace(address: usize, len: usize) -> (Self, Code) {
        let code = Code {
            original: 0,
            insn: None,
            copy: None,
            after: None,
            apart: None,
            never_apart: true,
        };
        (
            Self::with(address, address + len, Execution::Ftrace, 0),
            code,
        )
    }

    /// Makes the point of an instruction. Nothing is written yet: the caller has to call
    /// [`Code::write`].
    pub(crate) fn breakpoint(
        address: usize,
        insn: &Insn,
        next: Option<&Insn>,
    ) -> Result<(Self, Code), Error> {
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
        let code = Code {
            original: insn.bytes().first().copied().unwrap_or(BREAKPOINT),
            insn: Some(*insn),
            copy,
            after: None,
            apart: None,
            never_apart: false,
        };
        let mut point = Self::with(address, address + insn.len(), execution, at);
        point.in_trap = Compute::of(insn, address as u64)
            .filter(|compute| MEMORY_IS_THE_SAME || !compute.has_operand_in_memory());
        point.sees_interrupts = is_flags(insn);
        point.after_stops = matches!(execution, Execution::Copied { stops: true })
            || post_copy::address().is_none();
        // Fails now if the copy cannot be moved to its slot.
        if copied {
            point.code_for(insn, at, false)?;
        }
        Ok((point, code))
    }

    fn with(address: usize, next: usize, execution: Execution, copy: usize) -> Self {
        Self {
            probes: ProbeList::new(),
            address,
            next,
            execution,
            in_trap: None,
            apart: Runner::new(),
            has_post: Word::new(0),
            copy,
            after: Word::new(0),
            after_stops: false,
            onward: Word::new(onward(&execution, address, copy)),
            detour: Word::new(0),
            parts: Word::new(0),
            within: Word::new(0),
            rest: Word::new(0),
            stop: Word::new(0),
            sees_interrupts: false,
        }
    }

    /// Returns the address of the breakpoint after the copy, or 0 if a branch is there.
    pub(crate) fn copy_end(&self) -> usize {
        match self.execution {
            Execution::Copied { stops: true } if self.copy != 0 => {
                self.copy.wrapping_add(self.len())
            }
            _ => 0,
        }
    }

    /// Returns the address of the breakpoint after the copy at `after`, or 0 if a call is there.
    pub(crate) fn after_end(&self) -> usize {
        match self.after.load() {
            after if after != 0 && self.after_stops => after.wrapping_add(self.len()),
            _ => 0,
        }
    }

    /// Returns the return address of the call after the copy at `after`, or 0 if there is none.
    pub(crate) fn after_return(&self) -> usize {
        match self.after.load() {
            after if after != 0 && !self.after_stops => {
                after.wrapping_add(self.len()).wrapping_add(BRANCH)
            }
            _ => 0,
        }
    }

    fn len(&self) -> usize {
        self.next.wrapping_sub(self.address)
    }

    /// Returns true if the instruction can be executed by changing the registers.
    pub(crate) fn runs_on_registers(&self) -> bool {
        let by_itself = matches!(
            self.execution,
            Execution::Jumped(_) | Execution::Emulated(_)
        );
        by_itself || self.in_trap.is_some()
    }

    /// Makes hits resume in these copies of the displaced instructions, or, with `None`, where they
    /// do without a detour.
    pub(crate) fn set_detour(&self, copies: Option<Parts>) {
        self.detour.store(copies.map_or(0, Parts::word));
        let onward = match copies {
            None => onward(&self.execution, self.address, self.copy),
            Some(parts) => Parts::copies(parts.word()),
        };
        self.onward.store(onward);
    }

    /// Returns the code for a slot at `to`.
    fn code_for(&self, insn: &Insn, to: usize, after: bool) -> Result<[u8; SLOT], Error> {
        let mut copy = [0; MAX_LEN + 1];
        let len = match relocate(insn, self.address as u64, to as u64, &mut copy) {
            Ok(len) => len,
            Err(RelocateError::OutOfReach | RelocateError::Branch) => {
                return Err(Error::OutOfReach)
            }
        };
        let mut code = [BREAKPOINT; SLOT];
        for (to, from) in code.iter_mut().zip(copy.iter().take(len)) {
            *to = *from;
        }
        let branch = match (after, self.execution) {
            (true, _) => post_copy::address()
                .filter(|_| !self.after_stops)
                .map(|after| (CALL, after)),
            (false, Execution::Copied { stops: true }) => None,
            (false, _) => Some((JUMP, self.next)),
        };
        let Some((opcode, target)) = branch else {
            return Ok(code);
        };
        let behind = to.wrapping_add(len).wrapping_add(BRANCH);
        let distance = target.wrapping_sub(behind) as isize;
        let distance = i32::try_from(distance).map_err(|_| Error::OutOfReach)?;
        let branch = Iterator::chain(core::iter::once(opcode), distance.to_le_bytes());
        for (to, from) in code.iter_mut().skip(len).zip(branch) {
            *to = from;
        }
        Ok(code)
    }
}

/// Returns [`Point::onward`] of a point without a detour.
fn onward(execution: &Execution, address: usize, copy: usize) -> usize {
    match execution {
        Execution::Copied { .. } => copy,
        Execution::Jumped(to) => *to,
        Execution::Ftrace => address,
        Execution::Emulated(_) => 0,
    }
}

/// Returns true for `pushf` and `popf`.
fn is_flags(insn: &Insn) -> bool {
    insn.map() == 0 && matches!(insn.opcode(), 0x9c | 0x9d)
}

/// Returns true for `sti`, which enables interrupts after the next instruction.
pub(crate) fn is_sti(insn: &Insn) -> bool {
    insn.map() == 0 && insn.opcode() == 0xfb
}

impl Code {
    /// Allocates the memory that post-handlers need, if there is none.
    ///
    /// Nothing is written yet, and `point` does not use it: the caller has to call
    /// [`Code::write_post`].
    pub(crate) fn make_post(&mut self, point: &Point) -> Result<(), Error> {
        let is_copied = matches!(point.execution, Execution::Copied { .. });
        if is_copied && point.in_trap.is_none() && self.apart.is_none() && !self.never_apart {
            let insn = self.insn.as_ref().ok_or(Error::NotAnInstruction)?;
            self.apart = Apart::new(insn, point.address, point.copy, MEMORY_IS_THE_SAME)?;
            self.never_apart = self.apart.is_none();
        }
        if is_copied && self.may_need_after(point) {
            self.make_after(point)?;
        }
        Ok(())
    }

    /// Returns true if a copy is needed that calls the post-handlers. Instructions that fault in
    /// the trap use it.
    fn may_need_after(&self, point: &Point) -> bool {
        match (&point.in_trap, &self.apart) {
            (Some(compute), _) => compute.has_operand_in_memory(),
            (None, Some(apart)) => apart.access() != 0,
            (None, None) => true,
        }
    }

    /// Writes the code for which [`Code::make_post`] has allocated memory, if `point` does not use
    /// it yet. The caller has to call [`Code::tell_post`]. Returns true if there was some.
    pub(crate) fn write_post(&mut self, point: &Point, text: &mut TextLock) -> Result<bool, Error> {
        let mut written = false;
        let Some(insn) = &self.insn else {
            return Ok(written);
        };
        if let Some(slot) = self.after.as_mut().filter(|_| point.after.load() == 0) {
            let code = point.code_for(insn, slot.address(), true)?;
            slot.write(&code, text).map_err(|_| Error::OutOfReach)?;
            written = true;
        }
        if let Some(apart) = self.apart.as_mut().filter(|_| !point.apart.is_there()) {
            apart.write(insn, point.address, text)?;
            written = true;
        }
        Ok(written)
    }

    /// Makes `point` use the written code. Returns the addresses by which the caller has to make it
    /// found; 0 is none.
    pub(crate) fn tell_post(&self, point: &Point, text: &mut TextLock) -> [usize; 4] {
        let mut found_by = [0; 4];
        let [after, end, back, access] = &mut found_by;
        if let Some(slot) = self.after.as_ref().filter(|_| point.after.load() == 0) {
            point.after.store(slot.address());
            (*after, *end, *back) = (slot.address(), point.after_end(), point.after_return());
        }
        if let Some(apart) = self.apart.as_ref().filter(|_| !point.apart.is_there()) {
            apart.tell(&point.apart, text);
            *access = apart.access();
        }
        found_by
    }

    /// Allocates the copy that calls the post-handlers, if there is none.
    fn make_after(&mut self, point: &Point) -> Result<(), Error> {
        if self.after.is_none() {
            let insn = self.insn.as_ref().ok_or(Error::NotAnInstruction)?;
            let slot = exec_pool::alloc(SLOT, User::Probes).map_err(|_| Error::NoMemory)?;
            point.code_for(insn, slot.address(), true)?;
            self.after = Some(slot);
        }
        Ok(())
    }

    /// Writes the copy. Returns true if there is one.
    pub(crate) fn write(&mut self, point: &Point, text: &mut TextLock) -> Result<bool, Error> {
        let (Some(insn), Some(slot)) = (&self.insn, &mut self.copy) else {
            return Ok(false);
        };
        let code = point.code_for(insn, slot.address(), false)?;
        slot.write(&code, text).map_err(|_| Error::OutOfReach)?;
        Ok(true)
    }
}
