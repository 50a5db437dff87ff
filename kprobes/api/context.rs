// SPDX-License-Identifier: GPL-2.0

//! What a handler is given: the state of the CPU at the probe.
//!
//! Contexts: any, NMI included.
#![deny(unsafe_code)]

use ferro_sys::cpu;
use ferro_sys::cpu::time::mono_fast_ns;
use ferro_sys::mm::nofault;
use ferro_sys::trace::tracepoint::TaskInfo;
use kernel::prelude::*;
use kernel::types::NotThreadSafe;
use kernel::uaccess::UserPtr;

use crate::raw::code;
use crate::raw::modify_token::Alter;
use crate::raw::modify_token::Destination;
use crate::raw::regs::Register;
use crate::raw::regs::Regs;
use crate::raw::regs::Saved;

/// Arguments that are passed in registers.
pub(crate) const REGISTER_ARGUMENTS: usize = 6;

/// The registers that arguments are passed in, in order.
const ARGUMENTS: [Register; REGISTER_ARGUMENTS] = [
    Register::Di,
    Register::Si,
    Register::Dx,
    Register::Cx,
    Register::R8,
    Register::R9,
];

/// How the probed code goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Next {
    /// With the probed instruction.
    Continue,
    /// Somewhere else; the instruction is not executed, and neither are the handlers of further probes
    /// that were registered here before.
    Elsewhere(Destination),
}

impl Next {
    /// Goes on at `address`. The instruction there has to be a sensible one to go on with.
    pub fn at(alter: &Alter, address: usize) -> Self {
        Self::Elsewhere(Destination::new(alter, address))
    }
}

/// Proof that this is a handler, and what it may look at: the registers and memory of the probed code.
///
/// It cannot be kept beyond the call, nor given to another thread.
pub struct ProbeCtx<'a> {
    regs: &'a mut Regs,
    ip: usize,
    _here: NotThreadSafe,
}

impl<'a> ProbeCtx<'a> {
    /// `ip` is what [`ProbeCtx::ip`] is to say.
    #[inline]
    pub(crate) fn new(regs: &'a mut Regs, ip: usize) -> Self {
        Self {
            regs,
            ip,
            _here: NotThreadSafe,
        }
    }

    /// The same, for a function that is not inlined: so this one need not be in memory for others.
    #[inline(always)]
    pub fn again(&mut self) -> ProbeCtx<'_> {
        ProbeCtx::new(self.regs, self.ip)
    }

    /// Before an instruction and at the entry of a function, the address of the probe; after an instruction
    /// the address of the next; at the return of a function the address that it returns to.
    pub fn ip(&self) -> usize {
        self.ip
    }

    /// Turns interrupts off until the probed code goes on. One that waits then comes when no handler runs, and the probes that it
    /// hits are not missed. At a breakpoint interrupts are off anyway.
    ///
    /// With `CONFIG_TRACE_IRQFLAGS`, and with `CONFIG_PARAVIRT_XXL`, this does nothing.
    pub fn hold_irqs(&mut self) {
        self.regs.hold_irqs();
    }

    /// The CPU that this runs on.
    pub fn cpu(&self) -> u32 {
        cpu::current_id()
    }

    /// Nanoseconds of `CLOCK_MONOTONIC`. Between CPUs it can seem to step back a little.
    pub fn time(&self) -> u64 {
        mono_fast_ns()
    }

    /// The thread that executes the probed code, or that this interrupt has interrupted.
    pub fn task(&self) -> TaskInfo {
        TaskInfo::current()
    }

    /// The stack pointer.
    pub fn sp(&self) -> usize {
        self.regs.sp()
    }

    /// Writes the calls that have led here to `to`: [`ProbeCtx::ip`], then the addresses that are returned to, the innermost first.
    /// Returns how many there are.
    pub fn calls(&self, to: &mut [usize]) -> usize {
        self.regs.calls(self.ip, to)
    }

    /// RFLAGS.
    pub fn flags(&self) -> usize {
        self.regs.flags()
    }

    /// The value of a register.
    pub fn register(&self, register: Register) -> usize {
        self.regs.get(register)
    }

    /// The value of a register, the stack pointer and RFLAGS included.
    #[inline(always)]
    pub fn saved(&self, register: Saved) -> usize {
        self.regs.saved(register)
    }

    /// Changes a register of the probed code.
    pub fn set_register(&mut self, alter: &Alter, register: Register, value: usize) {
        self.regs.set(alter, register, value);
    }

    /// At the entry of a function: its first arguments, as far as these are integers or pointers. Of a type
    /// shorter than a word the upper bits mean nothing.
    pub fn register_arguments(&self) -> [usize; REGISTER_ARGUMENTS] {
        ARGUMENTS.map(|register| self.register(register))
    }

    /// At the entry of a function: its argument number `n`, from 0, of a word's size; from number 6 on that
    /// is on the stack. `None` if the stack cannot be read.
    pub fn argument(&self, n: usize) -> Option<usize> {
        match ARGUMENTS.get(n) {
            Some(register) => Some(self.register(*register)),
            // The return address comes first.
            None => self.stack(n.wrapping_sub(REGISTER_ARGUMENTS).checked_add(1)?),
        }
    }

    /// At the entry of a function: changes its argument number `n`, from 0 to 5. False for others.
    pub fn set_argument(&mut self, alter: &Alter, n: usize, value: usize) -> bool {
        let register = ARGUMENTS.get(n);
        if let Some(register) = register {
            self.set_register(alter, *register, value);
        }
        register.is_some()
    }

    /// At the return of a function: its value. Of a type shorter than a word the upper bits mean nothing.
    pub fn return_value(&self) -> usize {
        self.regs.get(Register::Ax)
    }

    /// At the return of a function: changes its value.
    pub fn set_return_value(&mut self, alter: &Alter, value: usize) {
        self.set_register(alter, Register::Ax, value);
    }

    /// At the entry of a function: has it return `value` without being executed.
    pub fn return_early(&mut self, alter: &Alter, value: usize) -> Next {
        self.set_return_value(alter, value);
        Next::at(alter, code::just_return())
    }

    /// Word number `n` of the stack, from its top, or `None` if that cannot be read. At the entry of a
    /// function number 0 is the return address.
    pub fn stack(&self, n: usize) -> Option<usize> {
        let at = n.checked_mul(size_of::<usize>())?;
        nofault::read_kernel_as(self.sp().checked_add(at)?)
    }

    /// Reads kernel memory that may not be there: `None` if it is not.
    ///
    /// What is read may be changing meanwhile; any bytes are a `T`.
    pub fn read<T: FromBytes>(&self, from: *const T) -> Option<T> {
        nofault::read_kernel_as(from.addr())
    }

    /// Reads memory of the process whose thread executes the probed code; where an interrupt does, the process that it interrupted.
    ///
    /// Nothing is paged in for it. The memory that a function is given may be missing at its entry and present at its return, as
    /// the function has read it meanwhile: [`UserFault::Absent`] is no sign of a wrong pointer.
    ///
    /// The process may be changing what is read; any bytes are a `T`.
    pub fn read_user<T: FromBytes>(&self, from: UserPtr) -> Result<T, UserFault> {
        let from = from.as_const_ptr().addr();
        nofault::read_user_as(from).ok_or(UserFault::at(from))
    }

    /// Reads text of that process, as [`ProbeCtx::read_user`] does: `to` without its NUL, up to the NUL. All of `to` if there is none
    /// in that many bytes: the text may be longer then.
    ///
    /// # Examples
    ///
    /// ```ignore
    /// let mut name = [0; 64];
    /// match ctx.user_str(name_pointer, &mut name) {
    ///     Ok(name) => pr_info!("opens {}\n", BStr::from_bytes(name)),
    ///     Err(fault) => pr_info!("opens a file: {fault:?}\n"),
    /// }
    /// ```
    pub fn user_str<'t>(&self, from: UserPtr, to: &'t mut [u8]) -> Result<&'t [u8], UserFault> {
        let from = from.as_const_ptr().addr();
        let len = nofault::read_user_text(from, to).ok_or(UserFault::at(from))?;
        to.get(..len).ok_or(UserFault::Absent)
    }

    /// Writes the stack of the probed code to the log, as `dump_stack()` does. That takes milliseconds where
    /// the console is slow, so it is for a few hits, not for all.
    pub fn dump_stack(&self) {
        code::dump_stack();
    }
}

/// Why memory of a process could not be read (`EFAULT`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UserFault {
    /// It is not an address of user space.
    NotUser,
    /// It is not in memory now, or may not be read; or there is no process, as in a thread of the kernel.
    Absent,
}

impl UserFault {
    fn at(address: usize) -> Self {
        match nofault::is_user(address) {
            true => Self::Absent,
            false => Self::NotUser,
        }
    }
}

impl From<UserFault> for Error {
    fn from(_: UserFault) -> Self {
        EFAULT
    }
}

/// The address of a field of a structure that is not looked at; see [`field!`](crate::field).
#[doc(hidden)]
pub fn field_at<T, F>(from: *const T, offset: usize, _type: fn(&T) -> &F) -> *const F {
    from.wrapping_byte_add(offset).cast()
}

/// The address of a field, for [`ProbeCtx::read`], from the address of the structure.
///
/// # Examples
///
/// ```ignore
/// let flags = ctx.read(field!(args, bindings::kernel_clone_args, flags));
/// ```
#[macro_export]
macro_rules! field {
    ($from:expr, $structure:ty, $field:ident) => {
        $crate::field_at::<$structure, _>($from, ::core::mem::offset_of!($structure, $field), |s| {
            &s.$field
        })
    };
}
