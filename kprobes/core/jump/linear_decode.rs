// SPDX-License-Identifier: GPL-2.0

//! Decoder of pieces of code.

use super::Piece;
use super::Reason;
use super::Surroundings;
use super::MOST_DECODED;
use crate::Probe;
use core::cell::Cell;
use core::ops::Range;
use ferro_core::insn::Flow;
use ferro_core::insn::Insn;
use ferro_core::insn::Target;
use ferro_core::insn::MAX_LEN;

/// Number of bytes that are read at once.
const WINDOW: usize = 128;

/// Code to decode, with a limit on the number of instructions.
pub(super) struct Code<'s, S> {
    pub(super) surroundings: &'s S,
    left: Cell<u32>,
}

/// Buffer with a part of the code.
struct Window {
    bytes: [u8; WINDOW],
    start: u64,
    len: usize,
}

impl Window {
    fn new() -> Self {
        Self {
            bytes: [0; WINDOW],
            start: 0,
            len: 0,
        }
    }

    /// Returns the bytes from `at` on, up to `end`: the maximum length of an instruction, or as
    /// many as exist.
    fn at<S: Surroundings>(&mut self, surroundings: &S, at: u64, end: u64) -> &[u8] {
        let wanted = usize::try_from(end.saturating_sub(at)).unwrap_or(usize::MAX);
        let mut offset = usize::try_from(at.wrapping_sub(self.start)).unwrap_or(usize::MAX);
        let has = self.len.saturating_sub(offset);
        if has < wanted.min(MAX_LEN) {
            let len = wanted.min(WINDOW);
            let room = self.bytes.get_mut(..len).unwrap_or(&mut []);
            self.len = surroundings.code(at, room).min(len);
            self.start = at;
            offset = 0;
        }
        let end = self.len.min(offset.saturating_add(wanted));
        self.bytes.get(offset..end).unwrap_or(&[])
    }
}

impl<'s, S: Surroundings> Code<'s, S> {
    pub(super) fn new(surroundings: &'s S) -> Self {
        Self {
            surroundings,
            left: Cell::new(MOST_DECODED),
        }
    }

    /// Decodes the instruction at `at`, in a piece that ends at `end`.
    fn decode(&self, window: &mut Window, at: u64, end: u64) -> Result<Insn, Reason> {
        let left = self.left.get().checked_sub(1).ok_or(Reason::TooLarge)?;
        self.left.set(left);
        Insn::decode(window.at(self.surroundings, at, end)).map_err(|_| Reason::Undecodable)
    }

    /// Calls `visit` with each instruction of a piece and its address, from the start on, until it
    /// fails.
    pub(super) fn sweep(
        &self,
        piece: Piece,
        mut visit: impl FnMut(u64, &Insn) -> Result<(), Reason>,
    ) -> Result<(), Reason> {
        let mut window = Window::new();
        let mut at = piece.start;
        while at < piece.end {
            let insn = self.decode(&mut window, at, piece.end)?;
            visit(at, &insn)?;
            at = insn.next(at);
        }
        Ok(())
    }

    /// Decodes the instruction at `at` alone.
    pub(super) fn one(&self, at: u64, end: u64) -> Result<Insn, Reason> {
        self.decode(&mut Window::new(), at, end)
    }

    /// Returns true if the code after a piece is reached from its end.
    pub(super) fn falls_out(&self, piece: Piece) -> Result<bool, Reason> {
        // Start of the padding at the end, if no code falls into it.
        let mut padding = None;
        self.sweep(piece, |at, insn| {
            if is_padding(insn) && padding.is_some() {
                return Ok(());
            }
            padding = ends_flow(insn).then(|| insn.next(at));
            Ok(())
        })?;
        match padding {
            None => Ok(true),
            Some(start) if start >= piece.end => Ok(false),
            Some(start) => self.branches_into(piece, &(start..piece.end)),
        }
    }

    /// Returns true if a piece has a jump into a range.
    pub(super) fn branches_into(&self, piece: Piece, range: &Range<u64>) -> Result<bool, Reason> {
        let mut found = false;
        self.sweep(piece, |at, insn| {
            found |= jump_target(at, insn).is_some_and(|target| range.contains(&target));
            Ok(())
        })?;
        Ok(found)
    }

    /// Returns true if it jumps to an address that the instruction does not contain.
    pub(super) fn is_indirect_jump(&self, at: u64, insn: &Insn) -> bool {
        match insn.flow() {
            Flow::Jump(Target::Register(_) | Target::Memory(_)) | Flow::FarJump => true,
            Flow::Jump(_) | Flow::JumpIf(..) => insn
                .branch_target(at)
                .is_some_and(|target| self.surroundings.is_indirect_thunk(target)),
            _ => false,
        }
    }
}

/// Returns the destination of a jump, unless it is a call or unknown.
pub(super) fn jump_target(at: u64, insn: &Insn) -> Option<u64> {
    match insn.flow() {
        Flow::Call(_) => None,
        _ => insn.branch_target(at),
    }
}

/// Returns true if the next instruction does not run after this one. After the `ud2` of a `WARN()`
/// it does, but that is never the last of a piece.
pub(super) fn ends_flow(insn: &Insn) -> bool {
    matches!(
        insn.flow(),
        Flow::Jump(_)
            | Flow::Return(_)
            | Flow::FarJump
            | Flow::FarReturn
            | Flow::InterruptReturn
            | Flow::SystemReturn
            | Flow::Undefined
    )
}

/// Returns true for filler between functions, and after calls that do not return.
pub(super) fn is_padding(insn: &Insn) -> bool {
    let nothing = match Probe::of(insn) {
        Probe::Emulate(emulation) => {
            insn.flow() == Flow::Next && emulation.destination(0).is_some()
        }
        _ => false,
    };
    nothing || insn.flow() == Flow::Interrupt(3)
}
