// SPDX-License-Identifier: GPL-2.0

//! State that a program reads and changes: registers, memory, variables.
//!
//! Contexts: any, NMI included, on one CPU.
#![deny(unsafe_code)]

use ferro_dprobes_core::read_pair;
use ferro_dprobes_core::Register;
use ferro_dprobes_core::Scope;
use ferro_dprobes_core::World;
use ferro_sys::cpu;
use ferro_sys::cpu::time::mono_fast_ns;
use ferro_sys::mm::nofault;
use ferro_sys::sync::shared_word::Word;
use kernel::sync::Arc;

use crate::raw::call_targets;
use crate::raw::current;
use crate::raw::permission::Permission;
use crate::raw::regs::Regs;
use crate::registers::Registers;
use crate::runtime::Output;
use crate::runtime::Runtime;
use crate::variables::Variables;
use crate::watch_request::WatchRequests;

/// Maximum number of bytes of a string that are read at a time. Such a piece never crosses a page
/// boundary.
const PIECE: usize = 64;

/// Smallest size of a page.
const PAGE: u64 = 4096;

/// End of the addresses of user space.
const USER_END: u64 = 1 << 63;

/// Selectors of segments that start at 0: the kernel's code and data; user space's 32-bit code,
/// data, and 64-bit code.
const FLAT: [u16; 5] = [0x10, 0x18, 0x23, 0x2b, 0x33];

/// Environment of a point's program, the same at each hit.
pub(crate) struct PointEnv {
    pub(crate) locals: Arc<Variables>,
    pub(crate) runtime: Arc<Runtime>,
    pub(crate) output: Output,
    pub(crate) permission: Option<Permission>,
    /// Requests for the watchpoints that the program may arm.
    pub(crate) watch_requests: Arc<WatchRequests>,
}

impl PointEnv {
    #[inline(always)]
    fn variable(&self, scope: Scope, index: u32) -> Option<&Word> {
        match scope {
            Scope::Local => self.locals.get(index),
            Scope::Global => self.runtime.globals.get(index),
        }
    }
}

/// Context of a hit.
pub(crate) struct HitContext<'a, R> {
    pub(crate) regs: &'a mut R,
    pub(crate) env: &'a PointEnv,
}

#[inline(always)]
fn read(address: u64, to: &mut [u8]) -> bool {
    let from = address as usize;
    match nofault::is_user(from) {
        true => nofault::read_user(from, to),
        false => nofault::read_kernel(from, to),
    }
}

impl<R: Registers> World for HitContext<'_, R> {
    #[inline(always)]
    fn register(&self, register: Register) -> Option<u64> {
        let value = self.regs.get(register);
        value.or_else(|| current::register(register))
    }

    fn set_register(&mut self, register: Register, value: u64) -> bool {
        match &self.env.permission {
            Some(permission) => self.regs.set(permission, register, value),
            None => false,
        }
    }

    fn user_register(&self, register: Register) -> Option<u64> {
        let value = Regs::of_user()?.get(register);
        value.or_else(|| match register {
            Register::FsBase | Register::GsBase => current::register(register),
            Register::Ds | Register::Es | Register::Fs | Register::Gs => {
                current::register(register)
            }
            _ => None,
        })
    }

    fn set_user_register(&mut self, register: Register, value: u64) -> bool {
        match (&self.env.permission, Regs::of_user()) {
            (Some(permission), Some(mut regs)) => regs.set(permission, register, value),
            _ => false,
        }
    }

    #[inline(always)]
    fn read(&self, address: u64, to: &mut [u8]) -> bool {
        read(address, to)
    }

    #[inline(always)]
    fn read_pair(&self, address: u64) -> Option<[u64; 2]> {
        // Most programs log words on the stack, which is always mapped.
        nofault::read_stack(address as usize).or_else(|| read_pair(self, address))
    }

    fn read_string(&self, address: u64, to: &mut [u8]) -> Option<usize> {
        let mut done = 0usize;
        while done < to.len() {
            let at = address.checked_add(done as u64)?;
            // Up to the next multiple of PIECE, so that no page after the end of the string is
            // read.
            let piece = PIECE.wrapping_sub(at as usize % PIECE);
            let end = done.saturating_add(piece).min(to.len());
            let piece = to.get_mut(done..end)?;
            if !read(at, piece) {
                return None;
            }
            if let Some(len) = piece.iter().position(|byte| *byte == 0) {
                return done.checked_add(len);
            }
            done = end;
        }
        Some(done)
    }

    fn write(&mut self, address: u64, from: &[u8]) -> bool {
        let to = address as usize;
        match &self.env.permission {
            None => false,
            Some(_) if nofault::is_user(to) => nofault::write_user(to, from),
            Some(permission) => permission.write_kernel(to, from),
        }
    }

    /// Returns true if memory can be accessed. A test for writing writes the present value back, as
    /// only a write shows that a page is writable.
    fn can_access(&self, address: u64, len: u64, for_writing: bool) -> bool {
        let Some(last) = len.checked_sub(1).and_then(|n| address.checked_add(n)) else {
            return len == 0;
        };
        if (address < USER_END) != (last < USER_END) {
            return false;
        }
        let permission = self.env.permission.as_ref();
        let can_write = |at: u64| permission.is_some_and(|one| one.can_write(at as usize));
        let mut at = address;
        loop {
            if !read(at, &mut [0]) || for_writing && !can_write(at) {
                return false;
            }
            match (at | (PAGE - 1)).checked_add(1) {
                Some(next) if next <= last => at = next,
                _ => return true,
            }
        }
    }

    fn port_in(&mut self, port: u16, width: u8) -> Option<u32> {
        let permission = self.env.permission.as_ref()?;
        Some(current::port_in(permission, port, width))
    }

    fn port_out(&mut self, port: u16, width: u8, value: u32) -> bool {
        match &self.env.permission {
            Some(permission) => {
                current::port_out(permission, port, width, value);
                true
            }
            None => false,
        }
    }

    /// Returns the base of a segment, which is 0 for the segments that the kernel provides. Returns
    /// `None` for a segment that a process has made: its descriptor table is not read.
    fn segment(&self, selector: u16) -> Option<u64> {
        match selector {
            0 if self.user_register(Register::Fs) == Some(0) => {
                self.user_register(Register::FsBase)
            }
            _ if FLAT.contains(&selector) => Some(0),
            _ => None,
        }
    }

    #[inline(always)]
    fn variable(&self, scope: Scope, index: u32) -> Option<u64> {
        self.env
            .variable(scope, index)
            .map(|word| word.load() as u64)
    }

    #[inline(always)]
    fn set_variable(&self, scope: Scope, index: u32, value: u64) -> bool {
        match self.env.variable(scope, index) {
            Some(word) => {
                word.store(value as usize);
                true
            }
            None => false,
        }
    }

    #[inline(always)]
    fn add_variable(&self, scope: Scope, index: u32, value: u64) -> bool {
        match self.env.variable(scope, index) {
            Some(word) => {
                word.add(value as usize);
                true
            }
            None => false,
        }
    }

    fn task(&self) -> u64 {
        current::task() as u64
    }

    fn process(&self) -> u32 {
        current::ids().0
    }

    fn thread(&self) -> u32 {
        current::ids().1
    }

    fn cpu(&self) -> u32 {
        cpu::current_id()
    }

    fn time(&self) -> u64 {
        mono_fast_ns()
    }

    fn arm(&self, minor: u32, address: Option<u64>) -> bool {
        let request = self.env.watch_requests.get(minor);
        request.map(|request| request.send(address)).is_some()
    }

    fn call(&mut self, number: u32, argument: u64) -> Option<u64> {
        call_targets::call(number, argument)
    }
}
