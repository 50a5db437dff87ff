// SPDX-License-Identifier: GPL-2.0

//! Copies of a template.

use super::target::distance;
use super::target::CallTarget;
use super::target::JumpTarget;
use super::target::BRANCH_LEN;
use super::template::Template;

/// End of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// `ret`
    Return,
    /// `ret` and `int3`, which ends speculation after it.
    ReturnTrap,
    /// `jmp` to the kernel's return thunk.
    Thunk(JumpTarget),
}

/// Reason why a copy cannot be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteError {
    /// The memory is not [`Template::copy_len`] bytes long.
    Length,
    /// An operand or a target is more than 2 GiB away.
    OutOfReach,
    /// R11 is changed before its use.
    R11,
}

/// The third argument of the function that a trampoline calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Third {
    /// The address of the `ftrace_ops`.
    Ops(u64),
    /// The value of R11 at the start of the trampoline, where the jumping code puts data
    /// ([`stub`](super::stub)).
    R11,
}

/// Parameters of a trampoline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trampoline {
    /// Function that it calls.
    pub function: CallTarget,
    /// Third argument of the function.
    pub third: Third,
    /// End of the copy.
    pub ending: Ending,
}

/// `mov disp32(%rip), %rdx`: the displacement, and the end.
const LOAD_DISPLACEMENT: usize = 3;
const LOAD_LEN: usize = 7;
/// `mov %r11, %rdx`, and a NOP: as long as the load.
const FROM_R11: [u8; LOAD_LEN] = [0x4c, 0x89, 0xda, 0x0f, 0x1f, 0x40, 0x00];
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
    /// Returns the length of a copy, in bytes: the code, its end, and the address of its ops, which
    /// it loads from there.
    pub fn copy_len(&self, ending: Ending) -> usize {
        self.bytes()
            .len()
            .saturating_add(ending.len())
            .saturating_add(OPS_LEN)
    }

    /// Writes a copy that will run at `at`. After an error the contents of the memory are
    /// undefined.
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
        let word = end.saturating_add(trampoline.ending.len());
        let load = self.load_ops();
        match trampoline.third {
            Third::Ops(ops) => {
                let way = distance(address(load.saturating_add(LOAD_LEN)), address(word));
                put(
                    to,
                    load.saturating_add(LOAD_DISPLACEMENT),
                    &way.ok_or(WriteError::OutOfReach)?,
                )?;
                put(to, word, &ops.to_le_bytes())?;
            }
            Third::R11 if !self.keeps_r11() => return Err(WriteError::R11),
            Third::R11 => {
                put(to, load, &FROM_R11)?;
                put(to, word, &[0; OPS_LEN])?;
            }
        }

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
