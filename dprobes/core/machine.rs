// SPDX-License-Identifier: GPL-2.0

//! Interpreter of programs.
//!
//! A run is bounded by its jumps, its steps, and the size of its log. It ends with an exception
//! when these are used up, for any instructions. Steps count repeated instructions, and commands
//! that take longer than an instruction. Those are charged in advance, or for a failed access,
//! afterwards.

use super::environment::World;
use super::exception::Exception;
use super::exception::Fault;
use super::insn::Insn;
use super::limits::*;
use super::memory::Frame;
use super::memory::Memory;
use super::memory::Rest;
use super::memory::NO_HANDLER;
use super::op::Op;
use super::op::Scope;
use super::record::RecordHeader;
use super::record::RECORD_LEN;
use super::register::Register;

/// Limits of a run.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Number of jumps.
    pub jumps: u32,
    /// Number of bytes of the log.
    pub log: u32,
    /// Number of bytes of the trace.
    pub trace: u32,
    /// Number of bytes of the heap.
    pub heap: u32,
    /// Mask of enabled exceptions.
    pub ex_mask: u32,
    /// True if an exception without a handler puts the calls into the trace.
    pub auto_stack_trace: bool,
    /// Major number of its records, unless it sets another.
    pub major: u32,
    /// Minor number.
    pub minor: u32,
}

/// End of a run.
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
    /// By `exit` with a larger number: then the function that a module has registered by it.
    Facility(u8),
    /// By `abort`: nothing is kept.
    Abort,
    /// By `rem`: the log is kept, and the probe removed.
    Remove,
    /// By an exception: the log is kept.
    Fault(Fault),
}

/// Result of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// End of the run.
    pub end: End,
    /// Number of the last instruction.
    pub at: u32,
    /// Major number of its record.
    pub major: u32,
    /// Minor number.
    pub minor: u32,
    /// True if data was not logged because it did not fit.
    pub overflowed: bool,
    pub(super) log_len: usize,
    pub(super) trace_len: usize,
}

impl Outcome {
    /// Returns the log and the trace, as [`Entries`](super::Entries).
    pub fn data<'a>(&self, memory: &'a Memory) -> [&'a [u8]; 2] {
        [
            memory.log().get(..self.log_len).unwrap_or_default(),
            memory.trace.get(..self.trace_len).unwrap_or_default(),
        ]
    }

    /// Returns the record of a run without a trace, in one piece: this header, which must have no
    /// fields, and the log.
    #[inline(always)]
    pub fn record<'a>(&self, header: RecordHeader, memory: &'a mut Memory) -> Option<&'a [u8]> {
        if header.fields != 0 || self.trace_len != 0 {
            return None;
        }
        *memory.record.first_chunk_mut()? = header.to_bytes();
        memory.record.get(..RECORD_LEN.wrapping_add(self.log_len))
    }

    /// Returns true if there is nothing to keep.
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
    /// Index of the instruction after the running one.
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
    /// Value of `log_len` before the last entry.
    pub(super) log_before: usize,
}

/// Masks an index of the stack.
pub(super) const MASK: usize = STACK_WORDS - 1;

const _: () = assert!(STACK_WORDS.is_power_of_two());

/// Runs a program. `code` should be from a [`Code`](super::Code); with other instructions the run
/// ends with an exception.
#[inline(always)]
pub fn run<W: World>(
    limits: &Limits,
    code: &[Insn],
    memory: &mut Memory,
    world: &mut W,
) -> Outcome {
    if memory.rest.is_used {
        memory.rest = Rest::NEW;
        memory.frames[0].handler = NO_HANDLER;
    }
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
    };
    let end = loop {
        let ended = match machine.has(Exception::Stack) {
            true => machine.go::<true>(code),
            false => machine.go::<false>(code),
        };
        match ended {
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
        at: machine.next as u32,
        major: machine.major,
        minor: machine.minor,
        overflowed: machine.memory.rest.overflowed,
        log_len: machine.log_len,
        trace_len: machine.memory.rest.trace_len,
    }
}

impl<W: World> Machine<'_, W> {
    /// Runs until the end, or an exception; then `next` is the number of that instruction.
    ///
    /// The position and the index of the top are local variables, so that they stay in registers.
    /// Other functions find them in `self`, where the macros below store them. `WRAPS`: true if a
    /// wrap of the stack is an exception.
    #[inline(always)]
    fn go<const WRAPS: bool>(&mut self, code: &[Insn]) -> Result<End, Fault> {
        let mut rest = code.get(self.next..).unwrap_or_default().iter();
        let mut top = self.top & MASK;

        /// Returns the number of the instruction after the running one.
        macro_rules! next {
            () => {
                code.len().wrapping_sub(rest.len())
            };
        }
        /// Ends with an exception at the running instruction.
        macro_rules! fault {
            ($fault:expr) => {{
                self.next = next!().wrapping_sub(1);
                self.top = top;
                return Err($fault);
            }};
        }
        /// Calls a function of `self` that uses or changes the position or the stack.
        macro_rules! call {
            ($call:expr) => {{
                self.next = next!();
                self.top = top;
                match $call {
                    Ok(()) => {
                        rest = code.get(self.next..).unwrap_or_default().iter();
                        top = self.top & MASK;
                    }
                    Err(fault) => {
                        self.next = self.next.wrapping_sub(1);
                        return Err(fault);
                    }
                }
            }};
        }
        macro_rules! top {
            () => {
                self.memory.stack[top]
            };
        }
        macro_rules! push {
            ($value:expr) => {{
                let value = $value;
                let above = (top + 1) & MASK;
                if WRAPS && above == 0 {
                    fault!(Fault::new(Exception::Stack, top as u64));
                }
                top = above;
                top!() = value;
            }};
        }
        macro_rules! pop {
            () => {{
                let value = top!();
                if WRAPS && top == 0 {
                    fault!(Fault::new(Exception::Stack, 0));
                }
                top = top.wrapping_sub(1) & MASK;
                value
            }};
        }
        macro_rules! binary {
            ($left:ident, $right:ident, $result:expr) => {{
                let $right = pop!();
                let $left = top!();
                top!() = $result;
            }};
        }
        /// Runs a `push` of a constant and the operation after it.
        macro_rules! fused {
            ($insn:expr, $left:ident, $right:ident, $result:expr) => {{
                let $right = $insn.word();
                let above = (top + 1) & MASK;
                if above == 0 {
                    // The stack wraps: one after the other.
                    push!($right);
                } else {
                    // The constant stays above the top, for code that reads it there.
                    self.memory.stack[above] = $right;
                    let $left = top!();
                    top!() = $result;
                    rest.next();
                }
            }};
        }
        macro_rules! jump_if {
            ($insn:expr, $top:ident, $is:expr) => {{
                let $top = top!() as i64;
                if $is {
                    call!(self.go_to($insn.number()))
                }
            }};
        }
        /// Returns a variable's index.
        macro_rules! index {
            ($insn:expr) => {
                match $insn.is_from_stack() {
                    false => $insn.number(),
                    true => {
                        let word = pop!();
                        match u32::try_from(word) {
                            Ok(index) => index,
                            Err(_) => fault!(Fault::new(Exception::Operand, word)),
                        }
                    }
                }
            };
        }
        macro_rules! is_there {
            ($index:expr, $done:expr) => {
                if !$done {
                    fault!(Fault::new(Exception::Operand, $index.into()))
                }
            };
        }
        macro_rules! variable {
            (push $scope:ident, $insn:expr) => {{
                let index = index!($insn);
                match self.world.variable(Scope::$scope, index) {
                    Some(value) => push!(value),
                    None => fault!(Fault::new(Exception::Operand, index.into())),
                }
            }};
            (pop $scope:ident, $insn:expr) => {{
                let index = index!($insn);
                let value = pop!();
                is_there!(index, self.world.set_variable(Scope::$scope, index, value));
            }};
            (move $scope:ident, $insn:expr) => {{
                let index = index!($insn);
                is_there!(index, self.world.set_variable(Scope::$scope, index, top!()));
            }};
            (add $scope:ident, $insn:expr, $value:expr) => {{
                let index = index!($insn);
                is_there!(index, self.world.add_variable(Scope::$scope, index, $value));
            }};
        }

        loop {
            let Some(insn) = rest.next() else {
                self.next = code.len();
                self.top = top;
                return Err(Fault::new(Exception::Opcode, self.next as u64));
            };
            match insn.op {
                Op::Nop => (),
                Op::Jmp => call!(self.go_to(insn.number())),
                Op::Jlt => jump_if!(insn, top, top < 0),
                Op::Jle => jump_if!(insn, top, top <= 0),
                Op::Jgt => jump_if!(insn, top, top > 0),
                Op::Jge => jump_if!(insn, top, top >= 0),
                Op::Jz => jump_if!(insn, top, top == 0),
                Op::Jnz => jump_if!(insn, top, top != 0),
                Op::Loop => {
                    top!() = top!().wrapping_sub(1);
                    jump_if!(insn, top, top != 0);
                }
                Op::Exit | Op::Abort | Op::Rem => {
                    self.next = next!().wrapping_sub(1);
                    return Ok(match (insn.op, insn.selector()) {
                        (Op::Abort, _) => End::Abort,
                        (Op::Rem, _) => End::Remove,
                        (_, 0) => End::Exit,
                        (_, 1) => End::Debugger,
                        (_, 2) => End::CrashDump,
                        (_, 3) => End::CoreDump,
                        (_, number) => End::Facility(number),
                    });
                }

                Op::PushLv => variable!(push Local, insn),
                Op::PopLv => variable!(pop Local, insn),
                Op::MoveLv => variable!(move Local, insn),
                Op::IncLv => variable!(add Local, insn, 1),
                Op::DecLv => variable!(add Local, insn, u64::MAX),
                Op::PushGv => variable!(push Global, insn),
                Op::PopGv => variable!(pop Global, insn),
                Op::MoveGv => variable!(move Global, insn),
                Op::IncGv => variable!(add Global, insn, 1),
                Op::DecGv => variable!(add Global, insn, u64::MAX),

                Op::Add => binary!(left, right, left.wrapping_add(right)),
                Op::Sub => binary!(left, right, left.wrapping_sub(right)),
                Op::Mul => binary!(left, right, left.wrapping_mul(right)),
                Op::And => binary!(left, right, left & right),
                Op::Or => binary!(left, right, left | right),
                Op::Xor => binary!(left, right, left ^ right),
                Op::Neg => top!() = !top!(),

                Op::Push => push!(insn.word()),
                Op::PushAdd => fused!(insn, left, right, left.wrapping_add(right)),
                Op::PushSub => fused!(insn, left, right, left.wrapping_sub(right)),
                Op::PushMul => fused!(insn, left, right, left.wrapping_mul(right)),
                Op::PushAnd => fused!(insn, left, right, left & right),
                Op::PushOr => fused!(insn, left, right, left | right),
                Op::PushXor => fused!(insn, left, right, left ^ right),
                Op::Pop => {
                    pop!();
                }
                Op::PushR => {
                    let number = insn.selector();
                    match Register::from_number(number) {
                        Some(register) if register.is_saved() => {
                            match self.world.register(register) {
                                Some(value) => push!(value),
                                None => fault!(Fault::new(Exception::Operand, number.into())),
                            }
                        }
                        _ => call!(self.system_register(insn)),
                    }
                }
                Op::LogMrf => call!(self.log_memory()),
                Op::Log => call!(self.log_words(insn)),
                // Listed by name, so that the compiler needs no further comparisons.
                Op::Call
                | Op::Ret
                | Op::CallK
                | Op::SetMin
                | Op::SetMaj
                | Op::LogStr
                | Op::LogLv
                | Op::LogGv
                | Op::PushLp
                | Op::PushPlp
                | Op::PopLp
                | Op::Div
                | Op::Idiv
                | Op::Rol
                | Op::Ror
                | Op::Shl
                | Op::Shr
                | Op::Pbl
                | Op::Pbr
                | Op::Pzl
                | Op::Pzr
                | Op::Xchg
                | Op::Dup
                | Op::Ros
                | Op::PushSbp
                | Op::PopSbp
                | Op::CopySbp
                | Op::PushTsp
                | Op::PopTsp
                | Op::CopyTsp
                | Op::Save
                | Op::Restore
                | Op::PopR
                | Op::PushU
                | Op::PopU
                | Op::PushMem
                | Op::PopMem
                | Op::VfyR
                | Op::VfyRw
                | Op::PushTask
                | Op::PushPid
                | Op::PushProcId
                | Op::PushTid
                | Op::PushTime
                | Op::Sx
                | Op::Ux
                | Op::Rx
                | Op::PushX
                | Op::LogSt
                | Op::PurgeSt
                | Op::TraceLv
                | Op::TraceGv
                | Op::TracePv
                | Op::Malloc
                | Op::Free
                | Op::PushH
                | Op::PopH
                | Op::Seg2Lin
                | Op::PushIo
                | Op::PopIo
                | Op::Arm
                | Op::Disarm => call!(self.other(insn)),
            }
        }
    }

    /// Runs commands that take longer anyway. Each group has a function of its own, so that this
    /// one needs no stack.
    #[inline(never)]
    fn other(&mut self, insn: &Insn) -> Result<(), Fault> {
        self.memory.rest.is_used = true;
        match insn.op {
            Op::Call => self.call(insn),
            Op::Ret => self.ret(insn),
            Op::CallK => self.call_kernel(insn),
            Op::SetMin | Op::SetMaj | Op::LogStr | Op::LogLv | Op::LogGv => self.log(insn),
            Op::PushLp | Op::PushPlp | Op::PopLp => self.log_pointer(insn),
            Op::Div | Op::Idiv => self.divide(insn),
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
            Op::Arm | Op::Disarm => self.watch(insn),
            Op::PushTask | Op::PushPid | Op::PushTid | Op::PushProcId | Op::PushTime => {
                self.system(insn)
            }
            Op::Sx | Op::Ux | Op::Rx | Op::PushX => self.exception(insn),
            Op::LogSt | Op::PurgeSt | Op::TraceLv | Op::TraceGv | Op::TracePv => self.trace(insn),
            Op::Malloc | Op::Free | Op::PushH | Op::PopH => self.heap(insn),
            // `go()` handles the others.
            _ => Err(Fault::new(Exception::Opcode, insn.op.number().into())),
        }
    }

    #[inline(never)]
    fn system(&mut self, insn: &Insn) -> Result<(), Fault> {
        self.push(match insn.op {
            Op::PushTask => self.world.task(),
            Op::PushPid => self.world.process().into(),
            Op::PushTid => self.world.thread().into(),
            Op::PushProcId => self.world.cpu().into(),
            _ => self.world.time(),
        })
    }

    /// Returns true if this exception is enabled.
    #[inline(always)]
    pub(super) fn has(&self, exception: Exception) -> bool {
        self.limits.ex_mask & u32::from(exception.bit()) != 0
    }

    /// Charges steps, for long commands.
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
    pub(super) fn go_to(&mut self, target: u32) -> Result<(), Fault> {
        let Some(left) = self.jumps.checked_sub(1) else {
            return Err(Fault::new(Exception::Jumps, self.limits.jumps.into()));
        };
        self.jumps = left;
        self.move_to(target)
    }

    /// Continues elsewhere. Repeated code is charged.
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

    #[inline(never)]
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

    #[inline(never)]
    fn ret(&mut self, _insn: &Insn) -> Result<(), Fault> {
        let no_call = Fault::new(Exception::Calls, 0);
        let back = match self.memory.frames.get(self.depth) {
            Some(frame) if self.depth > 0 => frame.back,
            _ => return Err(no_call),
        };
        self.depth = self.depth.wrapping_sub(1);
        self.move_to(back)
    }
}
