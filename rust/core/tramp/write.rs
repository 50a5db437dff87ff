// SPDX-License-Identifier: GPL-2.0

//! Copies of a template.

use super::target::distance;
use super::target::CallTarget;
use super::target::JumpTarget;
use super::target::BRANCH_LEN;
use super::template::Template;

/// How a copy ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// `ret`
    Return,
    /// `ret` and `int3`, which ends what a CPU may guess about what follows.
    ReturnTrap,
    /// `jmp` to the kernel's return thunk.
    Thunk(JumpTarget),
}

/// Why a copy cannot be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteError {
    /// The memory is not [`Template::copy_len`] bytes long.
    Length,
    /// Something that it uses is more than 2 GiB away.
    OutOfReach,
}

/// What makes a copy a trampoline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trampoline {
    /// The function that it calls.
    pub function: CallTarget,
    /// The address of the `ftrace_ops`, which the function gets.
    pub ops: u64,
    /// How it returns.
    pub ending: Ending,
}

/// `mov disp32(%rip), %rdx`: the displacement, and the end.
const LOAD_DISPLACEMENT: usize = 3;
const LOAD_LEN: usize = 7;
/// The word with the address of the ops, at the end.
const OPS_LEN: usize = 8;

impl Ending {
    const fn len(self) -> usize {
        match self {
            Self::Return => 1,
            Self::ReturnTrap => 2,
            Self::Thunk(_) => BRANCH_LEN,
        }
    }
}

impl Template {
    /// The length of a copy, in bytes: the code, how it returns, and the address of its ops, which it loads from there.
    pub fn copy_len(&self, ending: Ending) -> usize {
        self.bytes()
            .len()
            .saturating_add(ending.len())
            .saturating_add(OPS_LEN)
    }

    /// Writes a copy that is going to run at `at`. After an error the memory is of no use.
    pub fn write(&self, to: &mut [u8], at: u64, trampoline: &Trampoline) -> Result<(), WriteError> {
        if to.len() != self.copy_len(trampoline.ending) {
            return Err(WriteError::Length);
        }
        let code = self.bytes();
        let end = code.len();
        put(to, 0, code)?;
        for moved in self.moved() {
            let next = at.wrapping_add(u64::from(moved.next));
            let field = distance(next, moved.target).ok_or(WriteError::OutOfReach)?;
            put(to, usize::from(moved.field), &field)?;
        }

        let address = |offset: usize| at.wrapping_add(offset as u64);
        let ops = end.saturating_add(trampoline.ending.len());
        let load = self.load_ops();
        let way = distance(address(load.saturating_add(LOAD_LEN)), address(ops));
        put(
            to,
            load.saturating_add(LOAD_DISPLACEMENT),
            &way.ok_or(WriteError::OutOfReach)?,
        )?;
        put(to, ops, &trampoline.ops.to_le_bytes())?;

        let call = trampoline.function.call(address(self.call()));
        put(to, self.call(), &call.ok_or(WriteError::OutOfReach)?)?;
        match trampoline.ending {
            Ending::Return => put(to, end, &[0xc3]),
            Ending::ReturnTrap => put(to, end, &[0xc3, 0xcc]),
            Ending::Thunk(thunk) => {
                let jump = thunk.jump(address(end)).ok_or(WriteError::OutOfReach)?;
                put(to, end, &jump)
            }
        }
    }
}

/// Copies `bytes` to the offset `at`.
fn put(to: &mut [u8], at: usize, bytes: &[u8]) -> Result<(), WriteError> {
    let place = at
        .checked_add(bytes.len())
        .and_then(|end| to.get_mut(at..end))
        .ok_or(WriteError::Length)?;
    place.copy_from_slice(bytes);
    Ok(())
}
