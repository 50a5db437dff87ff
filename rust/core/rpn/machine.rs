// SPDX-License-Identifier: GPL-2.0

//! Running a program.
//!
//! A run is bounded: by the jumps that it may take, by the instructions that these repeat, and by what it may log. It ends with
//! an exception when that is used up, whatever the instructions are.

use super::exception::Exception;
use super::exception::Fault;
use super::insn::Insn;
use super::limits::*;
use super::memory::Frame;
use super::memory::Memory;
use super::memory::NO_HANDLER;
use super::op::Op;
use super::op::Scope;
use super::world::World;

/// What a run may do.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Jumps.
    pub jumps: u32,
    /// Bytes that it may log.
    pub log: u32,
    /// Bytes of its trace.
    pub trace: u32,
    /// Bytes of its heap.
    pub heap: u32,
    /// Which exceptions there are.
    pub ex_mask: u32,
    /// Whether an exception without a handler puts the calls into the trace.
    pub auto_stack_trace: bool,
    /// The numbers of its records, unless it sets others.
    pub major: u32,
    /// The other number.
    pub minor: u32,
}

/// How a run has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// By `exit`: the log is kept.
    Exit,
    /// By `exit 1`: then the debugger.
    Debugger,
    /// By `exit 2`: then a crash dump.
    CrashDump,
    /// By `exit 3`: then a core dump of the process.
    CoreDump,
    /// By `abort`: nothing is kept.
    Abort,
    /// By `rem`: the log is kept, and the probe removed.
    Remove,
    /// By an exception: the log is kept.
    Fault(Fault),
}

/// What a run has left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// How it has ended.
    pub end: End,
    /// Where, as the number of an instruction.
    pub at: u32,
    /// The numbers of its record.
    pub major: u32,
    /// The other number.
    pub minor: u32,
    /// Whether something was not logged as it did not fit.
    pub overflowed: bool,
    pub(super) log_len: usize,
    pub(super) trace_len: usize,
}

impl Outcome {
    /// What was logged, and the trace, as [`Entries`](super::Entries).
    pub fn data<'a>(&self, memory: &'a Memory) -> [&'a [u8]; 2] {
        [
            memory.log.get(..self.log_len).unwrap_or_default(),
            memory.trace.get(..self.trace_len).unwrap_or_default(),
        ]
    }

    /// Whether there is nothing to keep.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.end == End::Abort || self.log_len == 0 && self.trace_len == 0
    }
}

/// A run.
pub(super) struct Machine<'a, W> {
    pub(super) memory: &'a mut Memory,
    pub(super) limits: &'a Limits,
    pub(super) world: &'a mut W,
    /// The instruction after the one that is running.
    pub(super) next: usize,
    /// Indexes of the stack.
    pub(super) top: usize,
    pub(super) base: usize,
    pub(super) depth: usize,
    pub(super) jumps: u32,
    pub(super) steps: u32,
    pub(super) major: u32,
    pub(super) minor: u32,
    pub(super) log_len: usize,
    pub(super) log_before: usize,
    pub(super) trace_len: usize,
    pub(super) overflowed: bool,
    pub(super) has_heap: bool,
    pub(super) last: Option<(usize, Fault)>,
}

/// Masks an index of the stack.
pub(super) const MASK: usize = STACK_WORDS - 1;

const _: () = assert!(STACK_WORDS.is_power_of_two());

/// Runs a program. `code` should be that of a [`Code`](super::Code); with other instructions the run ends with an exception.
#[inline]
pub fn run<W: World>(
    limits: &Limits,
    code: &[Insn],
    memory: &mut Memory,
    world: &mut W,
) -> Outcome {
    let mut machine = Machine {
        memory,
        limits,
        world,
        next: 0,
        top: 0,
        base: 0,
        depth: 0,
        jumps: limits.jumps,
        steps: STEPS_MAX,
        major: limits.major,
        minor: limits.minor,
        log_len: 0,
        log_before: 0,
        trace_len: 0,
        overflowed: false,
        has_heap: false,
        last: None,
    };
    machine.memory.frames[0].handler = NO_HANDLER;
    let end = loop {
        match machine.go(code) {
            Ok(end) => break end,
            Err(fault) => {
                if !machine.handles(fault) {
                    break End::Fault(fault);
                }
            }
        }
    };
    Outcome {
        end,
        at: u32::try_from(machine.next.saturating_sub(1)).unwrap_or(u32::MAX),
        major: machine.major,
        minor: machine.minor,
        overflowed: machine.overflowed,
        log_len: machine.log_len,
        trace_len: machine.trace_len,
    }
}

impl<W: World> Machine<'_, W> {
    /// Goes on until the end, or an exception.
    #[inline(always)]
    fn go(&mut self, code: &[Insn]) -> Result<End, Fault> {
        loop {
            let Some(insn) = code.get(self.next) else {
                return Err(Fault::new(Exception::Opcode, self.next as u64));
            };
            // No overflow: it is less than the code's length.
            self.next += 1;
            match insn.op {
                Op::Nop => (),
                Op::Jmp => self.jump(insn)?,
                Op::Jlt => self.jump_if(insn, |top| top < 0)?,
                Op::Jle => self.jump_if(insn, |top| top <= 0)?,
                Op::Jgt => self.jump_if(insn, |top| top > 0)?,
                Op::Jge => self.jump_if(insn, |top| top >= 0)?,
                Op::Jz => self.jump_if(insn, |top| top == 0)?,
                Op::Jnz => self.jump_if(insn, |top| top != 0)?,
                Op::Loop => {
                    let top = self.top().wrapping_sub(1);
                    self.set_top(top);
                    if top != 0 {
                        self.jump(insn)?;
                    }
                }
                Op::Exit => {
                    return Ok(match insn.selector() {
                        1 => End::Debugger,
                        2 => End::CrashDump,
                        3 => End::CoreDump,
                        _ => End::Exit,
                    })
                }
                Op::Abort => return Ok(End::Abort),
                Op::Rem => return Ok(End::Remove),

                Op::PushLv => self.push_variable(Scope::Local, insn)?,
                Op::PopLv => self.pop_variable(Scope::Local, insn)?,
                Op::MoveLv => self.move_variable(Scope::Local, insn)?,
                Op::IncLv => self.add_variable(Scope::Local, insn, 1)?,
                Op::DecLv => self.add_variable(Scope::Local, insn, u64::MAX)?,
                Op::PushGv => self.push_variable(Scope::Global, insn)?,
                Op::PopGv => self.pop_variable(Scope::Global, insn)?,
                Op::MoveGv => self.move_variable(Scope::Global, insn)?,
                Op::IncGv => self.add_variable(Scope::Global, insn, 1)?,
                Op::DecGv => self.add_variable(Scope::Global, insn, u64::MAX)?,

                Op::Add => self.binary(u64::wrapping_add)?,
                Op::Sub => self.binary(u64::wrapping_sub)?,
                Op::Mul => self.binary(u64::wrapping_mul)?,
                Op::And => self.binary(|a, b| a & b)?,
                Op::Or => self.binary(|a, b| a | b)?,
                Op::Xor => self.binary(|a, b| a ^ b)?,
                Op::Neg => self.set_top(!self.top()),

                Op::Push => self.push(insn.word())?,
                Op::Pop => self.pop().map(drop)?,
                Op::PushR => {
                    let value = self.register(insn)?;
                    self.push(value)?;
                }
                _ => self.other(insn)?,
            }
        }
    }

    /// Commands that take longer anyway.
    #[inline(never)]
    fn other(&mut self, insn: &Insn) -> Result<(), Fault> {
        match insn.op {
            Op::Call => self.call(insn),
            Op::Ret => self.ret(),
            Op::CallK => self.call_kernel(insn),
            Op::SetMin | Op::SetMaj | Op::LogStr | Op::LogMrf | Op::Log | Op::LogLv | Op::LogGv => {
                self.log(insn)
            }
            Op::PushLp | Op::PushPlp | Op::PopLp => self.log_pointer(insn.op),
            Op::Div | Op::Idiv => self.divide(insn.op),
            Op::Rol | Op::Ror | Op::Shl | Op::Shr | Op::Pbl | Op::Pbr | Op::Pzl | Op::Pzr => {
                self.shift(insn)
            }
            Op::Xchg
            | Op::Dup
            | Op::Ros
            | Op::PushSbp
            | Op::PopSbp
            | Op::CopySbp
            | Op::PushTsp
            | Op::PopTsp
            | Op::CopyTsp
            | Op::Save
            | Op::Restore => self.arrange(insn),
            Op::PopR | Op::PushU | Op::PopU => self.user_or_set_register(insn),
            Op::PushMem | Op::PopMem | Op::VfyR | Op::VfyRw | Op::Seg2Lin => self.access(insn),
            Op::PushIo | Op::PopIo => self.port(insn),
            Op::PushTask => self.push(self.world.task()),
            Op::PushPid => self.push(self.world.process().into()),
            Op::PushTid => self.push(self.world.thread().into()),
            Op::PushProcId => self.push(self.world.cpu().into()),
            Op::PushTime => self.push(self.world.time()),
            Op::Sx | Op::Ux | Op::Rx | Op::PushX => self.exception(insn),
            Op::LogSt | Op::PurgeSt | Op::TraceLv | Op::TraceGv | Op::TracePv => self.trace(insn),
            Op::Malloc | Op::Free | Op::PushH | Op::PopH => self.heap(insn),
            // The others are in `go()`.
            _ => Err(Fault::new(Exception::Opcode, insn.op.number().into())),
        }
    }

    /// Whether an exception of this bit is one.
    #[inline(always)]
    pub(super) fn has(&self, exception: Exception) -> bool {
        self.limits.ex_mask & u32::from(exception.bit()) != 0
    }

    /// Uses up steps, for what takes long.
    pub(super) fn charge(&mut self, steps: u32) -> Result<(), Fault> {
        match self.steps.checked_sub(steps) {
            Some(left) => {
                self.steps = left;
                Ok(())
            }
            None => {
                self.steps = 0;
                Err(Fault::new(Exception::Jumps, STEPS_MAX.into()))
            }
        }
    }

    #[inline(always)]
    fn jump(&mut self, insn: &Insn) -> Result<(), Fault> {
        self.go_to(insn.number())
    }

    #[inline(always)]
    fn jump_if(&mut self, insn: &Insn, is: impl FnOnce(i64) -> bool) -> Result<(), Fault> {
        match is(self.top() as i64) {
            true => self.jump(insn),
            false => Ok(()),
        }
    }

    #[inline(always)]
    pub(super) fn go_to(&mut self, target: u32) -> Result<(), Fault> {
        let Some(left) = self.jumps.checked_sub(1) else {
            return Err(Fault::new(Exception::Jumps, self.limits.jumps.into()));
        };
        self.jumps = left;
        self.move_to(target)
    }

    /// Goes on elsewhere. What is repeated by that counts.
    #[inline(always)]
    fn move_to(&mut self, target: u32) -> Result<(), Fault> {
        let target = target as usize;
        if target < self.next {
            let repeated = self.next.wrapping_sub(target);
            self.charge(u32::try_from(repeated).unwrap_or(u32::MAX))?;
        }
        self.next = target;
        Ok(())
    }

    fn call(&mut self, insn: &Insn) -> Result<(), Fault> {
        let depth = self.depth.wrapping_add(1);
        let back = u32::try_from(self.next).unwrap_or(u32::MAX);
        let Some(frame) = self.memory.frames.get_mut(depth) else {
            return Err(Fault::new(Exception::Calls, depth as u64));
        };
        *frame = Frame {
            back,
            handler: NO_HANDLER,
            top: 0,
            base: 0,
        };
        self.depth = depth;
        self.go_to(insn.number())
    }

    fn ret(&mut self) -> Result<(), Fault> {
        let no_call = Fault::new(Exception::Calls, 0);
        let back = match self.memory.frames.get(self.depth) {
            Some(frame) if self.depth > 0 => frame.back,
            _ => return Err(no_call),
        };
        self.depth = self.depth.wrapping_sub(1);
        self.move_to(back)
    }

    fn call_kernel(&mut self, insn: &Insn) -> Result<(), Fault> {
        let number = self.number(insn)?;
        let argument = self.pop()?;
        self.charge(64)?;
        match self.world.call(number, argument) {
            Some(result) => self.push(result),
            None => Err(Fault::new(Exception::Operand, number.into())),
        }
    }
}
