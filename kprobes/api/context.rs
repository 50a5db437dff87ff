// SPDX-License-Identifier: GPL-2.0

//! State of the CPU at a probe, as passed to a handler.
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

use crate::raw::permissions;
use crate::raw::permissions::Alter;
use crate::raw::permissions::Destination;
use crate::raw::regs;
use crate::raw::regs::Register;
use crate::raw::regs::Regs;
use crate::raw::regs::Saved;

/// Number of arguments that are passed in registers.
pub(crate) const REGISTER_ARGUMENTS: usize = 6;

/// Registers of arguments, in order.
const ARGUMENTS: [Register; REGISTER_ARGUMENTS] = [
    Register::Di,
    Register::Si,
    Register::Dx,
    Register::Cx,
    Register::R8,
    Register::R9,
];

/// Continuation of the probed code after a handler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Next {
    /// Continues with the probed instruction.
    Continue,
    /// Continues elsewhere. Neither the instruction is executed, nor the handlers of further probes
    /// that were registered here before.
    Elsewhere(Destination),
}

impl Next {
    /// Continues at `address`. The instruction there has to be a sensible one to continue with.
    pub fn at(alter: &Alter, address: usize) -> Self {
        Self::Elsewhere(Destination::new(alter, address))
    }
}

/// Registers and memory of the probed code. Proof that the code runs in a handler.
///
/// A handler cannot keep it, nor give it to another thread.
pub struct ProbeCtx<'a> {
    regs: &'a mut Regs,
    ip: usize,
    _here: NotThreadSafe,
}

impl<'a> ProbeCtx<'a> {
    /// Makes a context; [`ProbeCtx::ip`] returns `ip`.
    #[inline]
    pub(crate) fn new(regs: &'a mut Regs, ip: usize) -> Self {
        Self {
            regs,
            ip,
            _here: NotThreadSafe,
        }
    }

    /// Returns a copy for a function that is not inlined. This keeps the original out of memory.
    #[inline(always)]
    pub fn again(&mut self) -> ProbeCtx<'_> {
        ProbeCtx::new(self.regs, self.ip)
    }

    /// Returns the probe's address before an instruction and at the entry of a function. Returns
    /// the next instruction's address after an instruction, and the return address at the return of
    /// a function.
    pub fn ip(&self) -> usize {
        self.ip
    }

    /// Disables interrupts until the probed code continues. Pending interrupts then arrive when no
    /// handler runs, so the probes that they hit are not missed. At a breakpoint interrupts are
    /// disabled anyway.
    ///
    /// Does nothing with `CONFIG_TRACE_IRQFLAGS` and with `CONFIG_PARAVIRT_XXL`.
    pub fn hold_irqs(&mut self) {
        self.regs.hold_irqs();
    }

    /// Returns the current CPU.
    pub fn cpu(&self) -> u32 {
        cpu::current_id()
    }

    /// Returns nanoseconds of `CLOCK_MONOTONIC`. Between CPUs the clock can seem to step back a
    /// little.
    pub fn time(&self) -> u64 {
        mono_fast_ns()
    }

    /// Returns the current thread: the one that executes the probed code, or that this interrupt
    /// has interrupted.
    pub fn task(&self) -> TaskInfo {
        TaskInfo::current()
    }

    /// Returns the stack pointer.
    pub fn sp(&self) -> usize {
        self.regs.sp()
    }

    /// Writes the call chain to `to`: [`ProbeCtx::ip`], then the return addresses, innermost first.
    /// Returns the number of addresses.
    pub fn calls(&self, to: &mut [usize]) -> usize {
        self.regs.calls(self.ip, to)
    }

    /// Returns RFLAGS.
    pub fn flags(&self) -> usize {
        self.regs.flags()
    }

    /// Returns the value of a register.
    pub fn register(&self, register: Register) -> usize {
        self.regs.get(register)
    }

    /// Returns the value of a register; the stack pointer and RFLAGS are possible, too.
    #[inline(always)]
    pub fn saved(&self, register: Saved) -> usize {
        self.regs.saved(register)
    }

    /// Changes a register of the probed code.
    pub fn set_register(&mut self, alter: &Alter, register: Register, value: usize) {
        self.regs.set(alter, register, value);
    }

    /// Returns the first arguments at the entry of a function, if these are integers or pointers.
    /// For a type shorter than a word the upper bits are undefined.
    pub fn register_arguments(&self) -> [usize; REGISTER_ARGUMENTS] {
        ARGUMENTS.map(|register| self.register(register))
    }

    /// Returns argument number `n`, from 0, at the entry of a function. The argument has a word's
    /// size; from number 6 on it is on the stack. Returns `None` if the stack cannot be read.
    pub fn argument(&self, n: usize) -> Option<usize> {
        match ARGUMENTS.get(n) {
            Some(register) => Some(self.register(*register)),
            // The return address precedes them.
            None => self.stack(n.wrapping_sub(REGISTER_ARGUMENTS).checked_add(1)?),
        }
    }

    /// Changes argument number `n`, from 0 to 5, at the entry of a function. Returns false for
    /// others.
    pub fn set_argument(&mut self, alter: &Alter, n: usize, value: usize) -> bool {
        let register = ARGUMENTS.get(n);
        if let Some(register) = register {
            self.set_register(alter, *register, value);
        }
        register.is_some()
    }

    /// Returns the return value at the return of a function. For a type shorter than a word the
    /// upper bits are undefined.
    pub fn return_value(&self) -> usize {
        self.regs.get(Register::Ax)
    }

    /// Changes the return value at the return of a function.
    pub fn set_return_value(&mut self, alter: &Alter, value: usize) {
        self.set_register(alter, Register::Ax, value);
    }

    /// Makes a function return `value` without being executed, at its entry.
    pub fn return_early(&mut self, alter: &Alter, value: usize) -> Next {
        self.set_return_value(alter, value);
        Next::at(alter, permissions::just_return())
    }

    /// Returns word number `n` of the stack, from its top, or `None` if the stack cannot be read.
    /// At the entry of a function word 0 is the return address.
    pub fn stack(&self, n: usize) -> Option<usize> {
        let at = n.checked_mul(size_of::<usize>())?;
        nofault::read_kernel_as(self.sp().checked_add(at)?)
    }

    /// Reads kernel memory. Returns `None` if the memory is unmapped.
    ///
    /// The memory may change during the read; any bytes are a `T`.
    pub fn read<T: FromBytes>(&self, from: *const T) -> Option<T> {
        nofault::read_kernel_as(from.addr())
    }

    /// Reads memory of the process whose thread executes the probed code, or was interrupted by it.
    ///
    /// Pages nothing in. A function's argument may point to memory that is absent at its entry and
    /// present at its return, because the function has read it. So [`UserFault::Absent`] does not
    /// mean a wrong pointer.
    ///
    /// The process may change the memory during the read; any bytes are a `T`.
    pub fn read_user<T: FromBytes>(&self, from: UserPtr) -> Result<T, UserFault> {
        let from = from.as_const_ptr().addr();
        nofault::read_user_as(from).ok_or(UserFault::at(from))
    }

    /// Reads text of that process into `to`, as [`ProbeCtx::read_user`] does. Returns the part of
    /// `to` up to the NUL, without the NUL. Returns all of `to` if that has no NUL: the text may be
    /// longer.
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

    /// Writes the stack of the probed code to the log, as `dump_stack()` does. This takes
    /// milliseconds with a slow console, so use it for a few hits only.
    pub fn dump_stack(&self) {
        regs::dump_stack();
    }
}

/// Reason why memory of a process could not be read (`EFAULT`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UserFault {
    /// The address is not in user space.
    NotUser,
    /// The memory is not present now, or not readable; or there is no process, as in a kernel
    /// thread.
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

/// Returns the address of a field without access to its structure; see [`field!`](crate::field).
#[doc(hidden)]
pub fn field_at<T, F>(from: *const T, offset: usize, _type: fn(&T) -> &F) -> *const F {
    from.wrapping_byte_add(offset).cast()
}

/// Returns the address of a field, for [`ProbeCtx::read`], from the address of the structure.
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
