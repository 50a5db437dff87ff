// SPDX-License-Identifier: GPL-2.0

//! What a handler is given: a call of a traced function.
//!
//! Contexts: any that ftrace traces, NMI included.
#![deny(unsafe_code)]

use ferro_sys::cpu;
use ferro_sys::cpu::time::mono_fast_ns;
use ferro_sys::mm::nofault;
use ferro_sys::trace::tracepoint::TaskInfo;
use kernel::prelude::*;
use kernel::types::NotThreadSafe;

use crate::raw::fregs::Fregs;
use crate::raw::register::Register;

/// Arguments that are passed in registers.
pub const REGISTER_ARGUMENTS: usize = 6;

/// A call of a traced function, which is about to run. Proof that this is a handler.
///
/// It cannot be kept beyond the handler, nor given to another thread.
pub struct FunctionCall<'a> {
    ip: usize,
    parent_ip: usize,
    fregs: &'a Fregs,
    _here: NotThreadSafe,
}

impl<'a> FunctionCall<'a> {
    #[inline(always)]
    pub(crate) fn new(ip: usize, parent_ip: usize, fregs: &'a Fregs) -> Self {
        Self {
            ip,
            parent_ip,
            fregs,
            _here: NotThreadSafe,
        }
    }

    /// Where ftrace traces the function: its address, or that of what follows a landing pad at its start.
    pub fn ip(&self) -> usize {
        self.ip
    }

    /// Where the function returns to. If something else follows its returns too, that may be an address of it.
    pub fn parent_ip(&self) -> usize {
        self.parent_ip
    }

    /// The CPU that this runs on.
    pub fn cpu(&self) -> u32 {
        cpu::current_id()
    }

    /// Nanoseconds of `CLOCK_MONOTONIC`. Between CPUs it can seem to step back a little.
    pub fn time(&self) -> u64 {
        mono_fast_ns()
    }

    /// The thread that calls the function, or that an interrupt which does has interrupted.
    pub fn task(&self) -> TaskInfo {
        TaskInfo::current()
    }

    /// The function's first arguments, as far as these are integers or pointers. Of a type shorter than a word the upper
    /// bits mean nothing.
    #[inline]
    pub fn arguments(&self) -> [usize; REGISTER_ARGUMENTS] {
        self.fregs.arguments()
    }

    /// The value of a register, if all were saved: see [`Builder::all_registers`](crate::Builder::all_registers).
    pub fn register(&self, register: Register) -> Option<usize> {
        self.fregs.all().map(|regs| register.of(regs))
    }

    /// RFLAGS, if all registers were saved.
    pub fn flags(&self) -> Option<usize> {
        self.fregs.all().map(|regs| regs.flags)
    }

    /// Reads kernel memory that may not be there: `None` if it is not.
    ///
    /// What is read may be changing meanwhile; any bytes are a `T`.
    pub fn read<T: FromBytes>(&self, from: *const T) -> Option<T> {
        nofault::read_kernel_as(from.addr())
    }
}
