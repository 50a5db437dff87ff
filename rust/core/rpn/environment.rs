// SPDX-License-Identifier: GPL-2.0

//! What programs look at and change.

use super::op::Scope;
use super::register::Register;

/// What a run acts upon. Nothing of it may fault, sleep or allocate; what is not there is `None` or `false`.
pub trait World {
    /// A register where the probe was hit.
    fn register(&self, register: Register) -> Option<u64>;
    /// Changes a register where the probe was hit.
    fn set_register(&mut self, register: Register, value: u64) -> bool;
    /// A register that the thread had when it left user space.
    fn user_register(&self, register: Register) -> Option<u64>;
    /// Changes such a register.
    fn set_user_register(&mut self, register: Register, value: u64) -> bool;

    /// Fills `to` with what is at an address, of the kernel or of user space.
    fn read(&self, address: u64, to: &mut [u8]) -> bool;
    /// Two words at an address, as [`World::read`] reads them.
    #[inline]
    fn read_pair(&self, address: u64) -> Option<[u64; 2]> {
        read_pair(self, address)
    }
    /// Fills `to` with a string, or the first part of it. Returns its length, without the zero at its end.
    fn read_string(&self, address: u64, to: &mut [u8]) -> Option<usize>;
    /// Stores `from` at an address.
    fn write(&mut self, address: u64, from: &[u8]) -> bool;
    /// Whether all of a range could be read, and written if `for_writing`.
    fn can_access(&self, address: u64, len: u64, for_writing: bool) -> bool;

    /// Reads a port, 1, 2 or 4 bytes wide.
    fn port_in(&mut self, port: u16, width: u8) -> Option<u32>;
    /// Writes to a port.
    fn port_out(&mut self, port: u16, width: u8, value: u32) -> bool;
    /// Where a segment starts.
    fn segment(&self, selector: u16) -> Option<u64>;

    /// A variable.
    fn variable(&self, scope: Scope, index: u32) -> Option<u64>;
    /// Stores a variable.
    fn set_variable(&self, scope: Scope, index: u32, value: u64) -> bool;
    /// Adds to a variable, in one step for all CPUs: so that what several add at a time is all counted.
    fn add_variable(&self, scope: Scope, index: u32, value: u64) -> bool;

    /// The address of the current task.
    fn task(&self) -> u64;
    /// The current process.
    fn process(&self) -> u32;
    /// The current thread.
    fn thread(&self) -> u32;
    /// This CPU.
    fn cpu(&self) -> u32;
    /// Nanoseconds of `CLOCK_MONOTONIC`.
    fn time(&self) -> u64;

    /// Has the watchpoint of this minor number, whose address comes later, watch an address soon, or nothing. False if the program
    /// has none.
    fn arm(&self, minor: u32, address: Option<u64>) -> bool;

    /// Calls what a module has registered under a number.
    fn call(&mut self, number: u32, argument: u64) -> Option<u64>;
}

/// Two words at an address of a world, by [`World::read`].
#[inline(never)]
pub fn read_pair<W: World + ?Sized>(world: &W, address: u64) -> Option<[u64; 2]> {
    let mut bytes = [0; 16];
    let is_there = world.read(address, &mut bytes);
    let words = u128::from_le_bytes(bytes);
    is_there.then_some([words as u64, (words >> 64) as u64])
}
