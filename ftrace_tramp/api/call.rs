// SPDX-License-Identifier: GPL-2.0

//! Call of a traced function, as passed to a handler.
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
use crate::raw::fregs::REGISTER_ARGUMENTS;
use crate::raw::gpr::Register;

/// Call of a traced function, which is about to run. Proof that the code runs in a handler.
///
/// A handler cannot keep it, nor give it to another thread.
pub struct FunctionCall<'a> {
    ip: usize,
    parent_ip: usize,
    fregs: &'a Fregs,
    _in_handler: NotThreadSafe,
}

impl<'a> FunctionCall<'a> {
    #[inline(always)]
    pub(crate) fn new(ip: usize, parent_ip: usize, fregs: &'a Fregs) -> Self {
        Self {
            ip,
            parent_ip,
            fregs,
            _in_handler: NotThreadSafe,
        }
    }

    /// Returns the address of the function's site: its first instruction, or the one after its
    /// landing pad.
    pub fn ip(&self) -> usize {
        self.ip
    }

    /// Returns the return address of the function. If another tracer follows its returns too, that
    /// may be an address in the tracer.
    pub fn parent_ip(&self) -> usize {
        self.parent_ip
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

    /// Returns the current thread: the caller, or the thread that the calling interrupt has
    /// interrupted.
    pub fn task(&self) -> TaskInfo {
        TaskInfo::current()
    }

    /// Returns the function's first arguments, if these are integers or pointers. For a type
    /// shorter than a word the upper bits are undefined.
    #[inline]
    pub fn arguments(&self) -> [usize; REGISTER_ARGUMENTS] {
        self.fregs.arguments()
    }

    /// Returns the value of a register, if all were saved: see
    /// [`Builder::all_registers`](crate::Builder::all_registers).
    pub fn register(&self, register: Register) -> Option<usize> {
        self.fregs.all().map(|regs| register.of(regs))
    }

    /// Returns RFLAGS, if all registers were saved.
    pub fn flags(&self) -> Option<usize> {
        self.fregs.all().map(|regs| regs.flags)
    }

    /// Reads kernel memory. Returns `None` for unmapped memory.
    ///
    /// The memory may change during the read; any bytes are a `T`.
    pub fn read<T: FromBytes>(&self, from: *const T) -> Option<T> {
        nofault::read_kernel_as(from.addr())
    }
}
