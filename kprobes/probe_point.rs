// SPDX-License-Identifier: GPL-2.0

//! An address with probes: how its instruction is executed while a breakpoint stands in its place.
//!
//! A copy of the instruction runs in a slot of the pool. After it is a jump to the next instruction, or, for the probes
//! that want to know when it has run, a call of `post_trampoline.S`, which comes to the handlers without a second breakpoint. What
//! works on registers, or accesses memory once, is for those executed within the trap. An instruction that may
//! go on elsewhere has no such copy: nothing would undo that interrupts were masked for it.
//!
//! A task can be preempted in a copy that is followed by a jump: nothing on this CPU remembers it, so that another may go
//! on with it, and the slot is given back after an RCU-tasks grace period, when it has left. That is what makes one
//! trap enough also with preemption. The copy that is followed by the call runs with interrupts off, so that the
//! handlers before and after the instruction run on one CPU; but for the instructions that would notice.
//!
//! Contexts: making one process, sleeps; the fields are read in any.
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
/// Room for a copy and the branch after it.
const SLOT: usize = 32;
/// How long a call or jump with a 32-bit distance is.
const BRANCH: usize = 5;

/// Whether an instruction that accesses memory finds the same there within the trap: what a trap counts is after a segment
/// then, with which [`Compute`] has nothing to do.
const MEMORY_IS_THE_SAME: bool = cfg!(CONFIG_SMP) && !cfg!(CONFIG_LOCKDEP);

/// How the instruction is executed.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Execution {
    /// By going on at an address.
    Jumped(usize),
    /// By changing the registers.
    Emulated(Emulation),
    /// By a copy. If `stops`, with a breakpoint after it and not a branch.
    Copied { stops: bool },
    /// It is the call of an ftrace site, which calls us.
    Ftrace,
}

/// An address with probes.
#[repr(C)]
pub(crate) struct Point {
    /// At the start: `detour.rs`.
    pub(crate) probes: ProbeList,
    pub(crate) address: usize,
    /// The address of the next instruction.
    pub(crate) next: usize,
    pub(crate) execution: Execution,
    /// How the instruction of a copy is executed within the trap when there is something to do afterwards.
    pub(crate) in_trap: Option<Compute>,
    /// The same for others, by code of its own.
    pub(crate) apart: Runner,
    /// Whether a probe has a handler for after the instruction: 0 or 1.
    pub(crate) has_post: Word,
    /// The address of the copy, or 0.
    pub(crate) copy: usize,
    /// The address of the copy that calls the handlers after it, or 0.
    pub(crate) after: Word,
    /// That one has a breakpoint after it instead: where its length could be misjudged, and on CPUs without `post_trampoline.S`.
    after_stops: bool,
    /// Where hits go on that have nothing to be done after the instruction, or 0 if it is emulated.
    pub(crate) onward: Word,
    /// The copies of the instruction and of those after it which a jump covers, or is about to, as [`Parts`]: hits go on there.
    /// Otherwise 0.
    pub(crate) detour: Word,
    /// The same, but it stays when hits do not go on there any more: a task may have come to the detour before.
    pub(crate) parts: Word,
    /// The address of the first instruction's copy that runs in a detour between handlers, or 0. It stays as well.
    pub(crate) within: Word,
    /// The address of the copies of the others that run after that, or 0. It stays as well.
    pub(crate) rest: Word,
    /// The address of a breakpoint that stands for the point's own, for who has.
    pub(crate) stop: Word,
    /// The instruction reads or writes RFLAGS.IF, so that its copy runs with interrupts as they are.
    pub(crate) sees_interrupts: bool,
}

/// What a point has memory for. Only the registry has it.
pub(crate) struct Code {
    pub(crate) original: u8,
    insn: Option<Insn>,
    copy: Option<Slot>,
    after: Option<Slot>,
    apart: Option<Apart>,
    /// There can be no such code.
    never_apart: bool,
}

impl Point {
    /// Of an ftrace site, whose instruction, a call or a NOP, is `len` long.
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

    /// Of an instruction. Nothing is written yet: [`Code::write`] is due.
    pub(crate) fn breakpoint(
        address: usize,
        insn: &Insn,
        next: Option<&Insn>,
    ) -> Result<(Self, Code), Error> {
        let (execution, copied) = match Probe::of(insn) {
            // Nothing but a NOP where no branch looks for it.
            Probe::Unprobeable(Unprobeable::LandingPad) if !cfg!(CONFIG_X86_KERNEL_IBT) => {
                (Execution::Copied { stops: false }, true)
            }
            Probe::Unprobeable(rule) => return Err(Error::Unprobeable(rule)),
            // A copy as well if it may fault, for the fault to happen to it.
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
        // Whether it can be moved there is to be known now.
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

    /// Where the trap finds the breakpoint after the copy, or 0 if there is none: a branch is.
    pub(crate) fn copy_end(&self) -> usize {
        match self.execution {
            Execution::Copied { stops: true } if self.copy != 0 => {
                self.copy.wrapping_add(self.len())
            }
            _ => 0,
        }
    }

    /// Where the trap finds the breakpoint after the copy at `after`, or 0 if there is none: a call is.
    pub(crate) fn after_end(&self) -> usize {
        match self.after.load() {
            after if after != 0 && self.after_stops => after.wrapping_add(self.len()),
            _ => 0,
        }
    }

    /// Where the call after the copy at `after` returns to, or 0 if there is none.
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

    /// Whether the instruction can be executed by changing the registers.
    pub(crate) fn runs_on_registers(&self) -> bool {
        let by_itself = matches!(
            self.execution,
            Execution::Jumped(_) | Execution::Emulated(_)
        );
        by_itself || self.in_trap.is_some()
    }

    /// Has hits go on in these copies of what a jump is going to cover, or where they did without.
    pub(crate) fn set_detour(&self, copies: Option<Parts>) {
        self.detour.store(copies.map_or(0, Parts::word));
        let onward = match copies {
            None => onward(&self.execution, self.address, self.copy),
            Some(parts) => Parts::copies(parts.word()),
        };
        self.onward.store(onward);
    }

    /// What is to be written to a slot at `to`.
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

/// As [`Point::onward`], of a point without a detour.
fn onward(execution: &Execution, address: usize, copy: usize) -> usize {
    match execution {
        Execution::Copied { .. } => copy,
        Execution::Jumped(to) => *to,
        Execution::Ftrace => address,
        Execution::Emulated(_) => 0,
    }
}

/// `pushf`, `popf`
fn is_flags(insn: &Insn) -> bool {
    insn.map() == 0 && matches!(insn.opcode(), 0x9c | 0x9d)
}

/// Whether it lets interrupts come, after the next instruction.
pub(crate) fn is_sti(insn: &Insn) -> bool {
    insn.map() == 0 && insn.opcode() == 0xfb
}

impl Code {
    /// Gets the memory for what handlers for after the instruction need, as far as there is none.
    ///
    /// Nothing is written yet, and `point` does not know of it: [`Code::write_post`] is due.
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

    /// Whether a copy has to be there that calls the handlers after it. What faults in the trap is left to it.
    fn may_need_after(&self, point: &Point) -> bool {
        match (&point.in_trap, &self.apart) {
            (Some(compute), _) => compute.has_operand_in_memory(),
            (None, Some(apart)) => apart.access() != 0,
            (None, None) => true,
        }
    }

    /// Writes what [`Code::make_post`] has got memory for, as far as `point` does not know of it: [`Code::tell_post`] is due.
    /// Whether there was some.
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

    /// Tells `point` of what has been written, all of it. The addresses by which it is to be found from now on; 0 is none.
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

    /// Gets the memory for the copy that calls the handlers after it, if there is none.
    fn make_after(&mut self, point: &Point) -> Result<(), Error> {
        if self.after.is_none() {
            let insn = self.insn.as_ref().ok_or(Error::NotAnInstruction)?;
            let slot = exec_pool::alloc(SLOT, User::Probes).map_err(|_| Error::NoMemory)?;
            point.code_for(insn, slot.address(), true)?;
            self.after = Some(slot);
        }
        Ok(())
    }

    /// Writes the copy. Whether there is one.
    pub(crate) fn write(&mut self, point: &Point, text: &mut TextLock) -> Result<bool, Error> {
        let (Some(insn), Some(slot)) = (&self.insn, &mut self.copy) else {
            return Ok(false);
        };
        let code = point.code_for(insn, slot.address(), false)?;
        slot.write(&code, text).map_err(|_| Error::OutOfReach)?;
        Ok(true)
    }
}
