// SPDX-License-Identifier: GPL-2.0

//! Environment of programs.

use super::op::Scope;
use super::register::Register;

/// Environment of a run. Its functions do not fault, sleep or allocate; they return `None` or
/// `false` for missing data.
pub trait World {
    /// Returns a register at the probe hit.
    fn register(&self, register: Register) -> Option<u64>;
    /// Sets a register at the probe hit.
    fn set_register(&mut self, register: Register, value: u64) -> bool;
    /// Returns a register of the thread in user space.
    fn user_register(&self, register: Register) -> Option<u64>;
    /// Sets a register of the thread in user space.
    fn set_user_register(&mut self, register: Register, value: u64) -> bool;

    /// Copies memory of the kernel or of user space into `to`.
    fn read(&self, address: u64, to: &mut [u8]) -> bool;
    /// Reads two words at an address, as [`World::read`].
    #[inline]
    fn read_pair(&self, address: u64) -> Option<[u64; 2]> {
        read_pair(self, address)
    }
    /// Copies a string, or its first part, into `to`. Returns its length, without the terminating
    /// zero.
    fn read_string(&self, address: u64, to: &mut [u8]) -> Option<usize>;
    /// Stores `from` at an address.
    fn write(&mut self, address: u64, from: &[u8]) -> bool;
    /// Returns true if all of a range could be read, and written if `for_writing`.
    fn can_access(&self, address: u64, len: u64, for_writing: bool) -> bool;

    /// Reads a port, 1, 2 or 4 bytes wide.
    fn port_in(&mut self, port: u16, width: u8) -> Option<u32>;
    /// Writes to a port.
    fn port_out(&mut self, port: u16, width: u8, value: u32) -> bool;
    /// Returns the base of a segment.
    fn segment(&self, selector: u16) -> Option<u64>;

    /// Returns a variable.
    fn variable(&self, scope: Scope, index: u32) -> Option<u64>;
    /// Stores a variable.
    fn set_variable(&self, scope: Scope, index: u32, value: u64) -> bool;
    /// Adds to a variable, atomically for all CPUs, so that concurrent additions are all counted.
    fn add_variable(&self, scope: Scope, index: u32, value: u64) -> bool;

    /// Returns the address of the current task.
    fn task(&self) -> u64;
    /// Returns the number of the current process.
    fn process(&self) -> u32;
    /// Returns the number of the current thread.
    fn thread(&self) -> u32;
    /// Returns the number of this CPU.
    fn cpu(&self) -> u32;
    /// Returns nanoseconds of `CLOCK_MONOTONIC`.
    fn time(&self) -> u64;

    /// Makes the watchpoint of this minor number, which has a later address, watch an address soon,
    /// or none. Returns false if the program has no such watchpoint.
    fn arm(&self, minor: u32, address: Option<u64>) -> bool;

    /// Calls the function that a module has registered under a number.
    fn call(&mut self, number: u32, argument: u64) -> Option<u64>;
}

/// Reads two words at an address of a world, by [`World::read`].
#[inline(never)]
pub fn read_pair<W: World + ?Sized>(world: &W, address: u64) -> Option<[u64; 2]> {
    let mut bytes = [0; 16];
    let is_there = world.read(address, &mut bytes);
    let words = u128::from_le_bytes(bytes);
    is_there.then_some([words as u64, (words >> 64) as u64])
}
