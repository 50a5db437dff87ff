// SPDX-License-Identifier: GPL-2.0

//! Relocation of instructions.

use ferro_core::insn::Insn;

/// Reason why an instruction cannot be relocated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RelocateError {
    /// The operand is more than 2 GiB from the new address.
    OutOfReach,
    /// A relative branch: a copy would jump elsewhere, and a call would leave the copy's address on
    /// the stack. Such instructions are emulated.
    Branch,
}

/// Copies an instruction from `from` to run at `to`: the same bytes, except that a RIP-relative
/// operand keeps its address. Returns the number of bytes in `out`.
///
/// # Examples
///
/// ```
/// use ferro_core::insn::Insn;
/// use ferro_kprobes_core::relocate;
///
/// // lea 0x10(%rip), %rax
/// let insn = Insn::decode(&[0x48, 0x8d, 0x05, 0x10, 0, 0, 0]).unwrap();
/// let mut copy = [0; 16];
/// assert_eq!(relocate(&insn, 0x1000, 0x3000, &mut copy), Ok(7));
/// assert_eq!(copy[3..7], (0x10i32 - 0x2000).to_le_bytes());
/// ```
pub fn relocate(
    insn: &Insn,
    from: u64,
    to: u64,
    out: &mut [u8; 16],
) -> Result<usize, RelocateError> {
    if insn.is_relative_branch() {
        return Err(RelocateError::Branch);
    }
    let displacement = match insn.is_rip_relative() {
        true => Some(moved_displacement(insn, from, to)?),
        false => None,
    };
    for (to, from) in out.iter_mut().zip(insn.bytes()) {
        *to = *from;
    }
    let at = usize::from(insn.displacement_field().at);
    for (to, from) in out.iter_mut().skip(at).zip(displacement.iter().flatten()) {
        *to = *from;
    }
    Ok(insn.len())
}

fn moved_displacement(insn: &Insn, from: u64, to: u64) -> Result<[u8; 4], RelocateError> {
    let way = i64::from_le_bytes(from.wrapping_sub(to).to_le_bytes());
    let displacement = insn.displacement().wrapping_add(way);
    // The sum is truncated to 32 bits anyway, so every address is within reach.
    if insn.prefixes().address_size {
        let [a, b, c, d, ..] = displacement.to_le_bytes();
        return Ok([a, b, c, d]);
    }
    i32::try_from(displacement)
        .map(i32::to_le_bytes)
        .map_err(|_| RelocateError::OutOfReach)
}
