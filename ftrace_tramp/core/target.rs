// SPDX-License-Identifier: GPL-2.0

//! Destinations of calls and jumps.

/// Length of a `call` or `jmp` with a distance of 32 bits.
pub const BRANCH_LEN: usize = 5;

const CALL: u8 = 0xe8;
const JUMP: u8 = 0xe9;

/// Address of a called function. A jump has another type: ftrace keeps both in one word and marks
/// jumps with bit 0, which function addresses may have, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CallTarget(u64);

/// Address of code that is entered by a jump.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct JumpTarget(u64);

impl CallTarget {
    /// Makes the target of the function at `address`.
    pub const fn new(address: u64) -> Self {
        Self(address)
    }

    /// Returns its address.
    pub const fn address(self) -> u64 {
        self.0
    }

    /// Returns the instruction at `at` that calls it; [`None`] if it is out of reach.
    pub fn call(self, at: u64) -> Option<[u8; BRANCH_LEN]> {
        branch(CALL, at, self.0)
    }

    /// Returns the function that the instruction at `at` calls; [`None`] if it is not a direct
    /// call.
    pub fn of_call(code: &[u8; BRANCH_LEN], at: u64) -> Option<Self> {
        let [CALL, distance @ ..] = code else {
            return None;
        };
        Some(Self(next(at).wrapping_add_signed(i64::from(
            i32::from_le_bytes(*distance),
        ))))
    }
}

impl JumpTarget {
    /// Makes the target of the code at `address`.
    pub const fn new(address: u64) -> Self {
        Self(address)
    }

    /// Returns its address.
    pub const fn address(self) -> u64 {
        self.0
    }

    /// Returns the instruction at `at` that jumps there; [`None`] if it is out of reach.
    pub fn jump(self, at: u64) -> Option<[u8; BRANCH_LEN]> {
        branch(JUMP, at, self.0)
    }
}

/// Returns the address after a branch at `at`.
fn next(at: u64) -> u64 {
    at.wrapping_add(BRANCH_LEN as u64)
}

fn branch(opcode: u8, at: u64, to: u64) -> Option<[u8; BRANCH_LEN]> {
    let [a, b, c, d] = distance(next(at), to)?;
    Some([opcode, a, b, c, d])
}

/// Returns the distance between two addresses, as encoded in instructions; [`None`] if 32 bits are
/// not enough.
pub(super) fn distance(from: u64, to: u64) -> Option<[u8; 4]> {
    let way = i64::from_le_bytes(to.wrapping_sub(from).to_le_bytes());
    i32::try_from(way).ok().map(i32::to_le_bytes)
}
