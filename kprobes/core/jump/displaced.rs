// SPDX-License-Identifier: GPL-2.0

//! Instructions that a jump displaces, and their relocated copies.

use super::linear_decode::ends_flow;
use super::linear_decode::is_padding;
use super::linear_decode::Code;
use super::Piece;
use super::Reason;
use super::Surroundings;
use super::JUMP_LEN;
use crate::relocate;
use crate::Probe;
use crate::RelocateError;
use core::ops::Range;
use ferro_core::insn::Flow;
use ferro_core::insn::Insn;
use ferro_core::insn::Target;
use ferro_core::insn::MAX_LEN;

/// Maximum number of displaced bytes: the last instruction begins in the fifth.
pub const MAX_DISPLACED: usize = JUMP_LEN - 1 + MAX_LEN;

/// Maximum number of bytes of relocated instructions: two short branches, of which `loop` becomes
/// 9 bytes, and a call through memory, which becomes 5 bytes longer.
pub const MAX_RELOCATED: usize = 2 * LOOP_LEN + PUSH_LEN + MAX_LEN;

/// `loop` over a short jump, which skips a near jump.
const LOOP_LEN: usize = 9;

/// `push` of 4 bytes.
const PUSH_LEN: usize = 5;

/// Instructions that a jump displaces.
///
/// # Invariants
///
/// `1..=5` consecutive instructions from `at` on. All except the last begin and end in the first 5
/// bytes, and each can be relocated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Displaced {
    at: u64,
    insns: [Option<Insn>; JUMP_LEN],
    len: u8,
}

impl Displaced {
    /// Reads the instructions at `at`, and checks them alone.
    pub(super) fn read<S: Surroundings>(
        code: &Code<'_, S>,
        at: u64,
        piece: Piece,
    ) -> Result<Self, Reason> {
        let mut new = Self {
            at,
            insns: [None; JUMP_LEN],
            len: 0,
        };
        let room = piece.end.saturating_sub(at);
        if room < JUMP_LEN as u64 {
            return Err(Reason::NoRoom);
        }
        for slot in new.insns.iter_mut() {
            let insn = code
                .one(at.wrapping_add(u64::from(new.len)), piece.end)
                .map_err(|reason| match reason {
                    // The symbol ends in the instruction.
                    Reason::Undecodable if room < MAX_DISPLACED as u64 => Reason::NoRoom,
                    reason => reason,
                })?;
            new.len = new.len.saturating_add(insn.len() as u8);
            check(&insn, usize::from(new.len))?;
            *slot = Some(insn);
            if ends_flow(&insn) {
                new.len = with_padding(code, at, new.len, piece)?;
            }
            if usize::from(new.len) >= JUMP_LEN {
                break;
            }
        }
        Ok(new)
    }

    /// Returns an error if the kernel's tables refer to one of the instructions, or lead into them.
    pub(super) fn check_tables<S: Surroundings>(&self, surroundings: &S) -> Result<(), Reason> {
        if let Some(what) = surroundings.reserved(self.range()) {
            return Err(Reason::Reserved(what));
        }
        // Such an entry leads to the start of an instruction, or the code was misunderstood.
        match surroundings.enters(self.inside()) {
            Some(by) => Err(Reason::Entered(by)),
            None => Ok(()),
        }
    }

    /// Returns their address.
    pub fn at(&self) -> u64 {
        self.at
    }

    /// Returns their length in bytes, at least 5: padding that never runs may follow the last one.
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> usize {
        usize::from(self.len)
    }

    /// Returns the addresses of all their bytes.
    pub fn range(&self) -> Range<u64> {
        self.at..self.end()
    }

    /// Returns the addresses of the bytes that must not be entered.
    pub fn inside(&self) -> Range<u64> {
        self.at.wrapping_add(1)..self.end()
    }

    /// Returns the address after them, where execution continues if [`Displaced::goes_on`].
    pub fn end(&self) -> u64 {
        self.at.wrapping_add(u64::from(self.len))
    }

    /// Returns the instructions, each with its address.
    pub fn instructions(&self) -> impl Iterator<Item = (u64, Insn)> + '_ {
        let mut next = self.at;
        self.insns.iter().flatten().map(move |insn| {
            let at = next;
            next = insn.next(at);
            (at, *insn)
        })
    }

    /// Returns the length of the first instruction, in bytes.
    pub fn first_len(&self) -> usize {
        self.first().map_or(0, |insn| insn.len())
    }

    /// Returns true if the next instruction always runs after the first one, so that a call of post
    /// handlers can follow a copy of it. Otherwise it is a branch or a return, which [`Probe::of`]
    /// emulates.
    pub fn first_goes_on(&self) -> bool {
        self.first().is_some_and(|insn| insn.flow() == Flow::Next)
    }

    /// Returns true if execution may continue after the last instruction, so that a jump to
    /// [`Displaced::end`] has to follow it.
    pub fn goes_on(&self) -> bool {
        // A call that became a push and a jump returns by itself.
        let last = self.insns.iter().flatten().last();
        last.is_some_and(|insn| !ends_flow(insn) && !matches!(insn.flow(), Flow::Call(_)))
    }

    /// Writes all instructions for `to`, with the same effect. Returns the number of bytes in
    /// `out`: at most [`MAX_RELOCATED`]. After an error, part of `out` may have been written.
    pub fn relocate(&self, to: u64, out: &mut [u8]) -> Result<usize, Reason> {
        self.relocate_some(0..JUMP_LEN, to, out)
    }

    /// Returns the distance from `to` to the copy of the instruction at `at`, as
    /// [`Displaced::relocate`] writes them for `to`.
    pub fn copy_of(&self, at: u64, to: u64) -> Option<usize> {
        let mut room = [0; MAX_RELOCATED];
        let mut out = Out::new(&mut room, to);
        for (from, insn) in self.instructions() {
            if from == at {
                return Some(out.len);
            }
            out.put_insn(from, &insn).ok()?;
        }
        None
    }

    /// Relocates the first instruction alone, as [`Displaced::relocate`].
    pub fn relocate_first(&self, to: u64, out: &mut [u8]) -> Result<usize, Reason> {
        self.relocate_some(0..1, to, out)
    }

    /// Relocates the instructions after the first, of which there may be none, as
    /// [`Displaced::relocate`].
    pub fn relocate_rest(&self, to: u64, out: &mut [u8]) -> Result<usize, Reason> {
        self.relocate_some(1..JUMP_LEN, to, out)
    }

    fn first(&self) -> Option<&Insn> {
        self.insns.first().and_then(Option::as_ref)
    }

    fn relocate_some(&self, which: Range<usize>, to: u64, out: &mut [u8]) -> Result<usize, Reason> {
        let mut out = Out::new(out, to);
        for (number, (at, insn)) in self.instructions().enumerate() {
            if which.contains(&number) {
                out.put_insn(at, &insn)?;
            }
        }
        Ok(out.len)
    }
}

/// Returns the number of bytes that a jump at `at` covers if the flow ends after `len` bytes. Only
/// padding may follow: other code may be entered through a pointer that no analysis sees.
fn with_padding<S: Surroundings>(
    code: &Code<'_, S>,
    at: u64,
    len: u8,
    piece: Piece,
) -> Result<u8, Reason> {
    let mut end = len;
    while usize::from(end) < JUMP_LEN {
        let next = at.wrapping_add(u64::from(end));
        let insn = code.one(next, piece.end).map_err(|_| Reason::NotPadding)?;
        if !is_padding(&insn) {
            return Err(Reason::NotPadding);
        }
        end = end.saturating_add(insn.len() as u8);
    }
    Ok(len.max(JUMP_LEN as u8))
}

/// Checks if an instruction that ends `end` bytes after the start of the jump can be displaced.
fn check(insn: &Insn, end: usize) -> Result<(), Reason> {
    match Probe::of(insn) {
        Probe::Unprobeable(rule) => return Err(Reason::Unprobeable(rule)),
        Probe::Step(_) => return Err(Reason::NewEncoding),
        Probe::Emulate(_) | Probe::Boost => (),
    }
    if is_monitor(insn) {
        return Err(Reason::Immovable);
    }
    match insn.flow() {
        // The return address has to be outside of the jump.
        Flow::Call(_) if end < JUMP_LEN => Err(Reason::Call),
        Flow::Call(target) => match pushed_before(target) {
            true => Err(Reason::Immovable),
            false => Ok(()),
        },
        Flow::Jump(Target::Absolute(_)) => Err(Reason::NewEncoding),
        _ => Ok(()),
    }
}

/// Returns true if the operand of a call depends on the stack pointer.
fn pushed_before(target: Target) -> bool {
    use ferro_core::insn::Register;
    match target {
        Target::Register(register) => register == Register::RSP,
        Target::Memory(memory) => memory.base == Some(Register::RSP),
        Target::Relative(_) | Target::Absolute(_) => false,
    }
}

/// `monitor` and its variants, `umwait`: a store in between, such as a handler's, would end the
/// wait.
fn is_monitor(insn: &Insn) -> bool {
    let modrm = insn.modrm().map_or(0, |modrm| modrm.0);
    insn.map() == 1
        && match insn.opcode() {
            0x01 => matches!(modrm, 0xc8 | 0xfa),
            // umonitor, umwait, tpause
            0xae => modrm >= 0xf0 && insn.has_mandatory_prefix(),
            _ => false,
        }
}

/// Buffer for code that will run at an address.
pub(super) struct Out<'a> {
    out: &'a mut [u8],
    len: usize,
    to: u64,
}

impl<'a> Out<'a> {
    /// Starts code for `to`.
    pub(super) fn new(out: &'a mut [u8], to: u64) -> Self {
        Self { out, len: 0, to }
    }

    /// Returns the number of bytes written.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Returns the address of the next byte.
    pub(super) fn next(&self) -> u64 {
        self.to
            .wrapping_add(u64::try_from(self.len).unwrap_or(u64::MAX))
    }

    pub(super) fn put(&mut self, bytes: &[u8]) -> Result<(), Reason> {
        let end = self.len.saturating_add(bytes.len());
        let room = self.out.get_mut(self.len..end).ok_or(Reason::OutOfReach)?;
        room.copy_from_slice(bytes);
        self.len = end;
        Ok(())
    }

    /// Writes a branch with this opcode to `target`.
    fn put_branch(&mut self, opcode: &[u8], target: u64) -> Result<(), Reason> {
        self.put(opcode)?;
        let after = self.next().wrapping_add(4);
        let way = i64::from_le_bytes(target.wrapping_sub(after).to_le_bytes());
        let way = i32::try_from(way).map_err(|_| Reason::OutOfReach)?;
        self.put(&way.to_le_bytes())
    }

    fn put_insn(&mut self, at: u64, insn: &Insn) -> Result<(), Reason> {
        let target = insn.branch_target(at);
        match (insn.flow(), target) {
            (Flow::Jump(_), Some(target)) => self.put_branch(&[0xe9], target),
            (Flow::JumpIf(..), Some(target)) => {
                self.put_branch(&[0x0f, 0x80 | insn.opcode() & 0xf], target)
            }
            (Flow::Loop(..), Some(target)) => {
                // With the prefix 67 it uses the lower half of the counter.
                if insn.prefixes().address_size {
                    self.put(&[0x67])?;
                }
                // Jumps to the second next jump.
                self.put(&[insn.opcode(), 2, 0xeb, 5])?;
                self.put_branch(&[0xe9], target)
            }
            (Flow::Call(_), target) => {
                self.put_return_address(insn.next(at))?;
                match target {
                    Some(target) => self.put_branch(&[0xe9], target),
                    None => self.put_call_as_jump(at, insn),
                }
            }
            _ => self.put_copy(at, insn),
        }
    }

    /// Pushes the return address of a call.
    fn put_return_address(&mut self, address: u64) -> Result<(), Reason> {
        let signed = i64::from_le_bytes(address.to_le_bytes());
        let value = i32::try_from(signed).map_err(|_| Reason::OutOfReach)?;
        self.put(&[0x68])?;
        self.put(&value.to_le_bytes())
    }

    /// Writes an indirect call as a jump: another member of the same group.
    fn put_call_as_jump(&mut self, at: u64, insn: &Insn) -> Result<(), Reason> {
        let start = self.len;
        self.put_copy(at, insn)?;
        let modrm = start.saturating_add(usize::from(insn.modrm_field().at));
        let byte = self.out.get_mut(modrm).ok_or(Reason::OutOfReach)?;
        *byte = *byte & !0x38 | 4 << 3;
        Ok(())
    }

    fn put_copy(&mut self, at: u64, insn: &Insn) -> Result<(), Reason> {
        let mut copy = [0; 16];
        let len = relocate(insn, at, self.next(), &mut copy).map_err(|error| match error {
            RelocateError::OutOfReach => Reason::OutOfReach,
            RelocateError::Branch => Reason::Immovable,
        })?;
        self.put(copy.get(..len).unwrap_or(&copy))
    }
}
