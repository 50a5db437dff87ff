// SPDX-License-Identifier: GPL-2.0

//! Elimination of instructions in copies of `ftrace_regs_caller`.
//!
//! A copy has no direct calls, and need not suit several callers as the macro does. The functions
//! below change instructions only if they, and those around them, match the output of the kernel's
//! source byte by byte; other code stays as it is. All remaining instructions keep their place and
//! their stack, so that the unwinder's tables for the kernel's code hold.

use super::template::Template;
use super::template::LOAD_RDX;
use super::template::MAX_TEMPLATE;
use super::template::NOP_2;
use ferro_core::insn::Boundaries;

/// `mov disp8(%rsp), %rax`
const LOAD_RAX: [u8; 4] = [0x48, 0x8b, 0x44, 0x24];
/// `mov %rax, disp32(%rsp)`
const STORE_RAX: [u8; 4] = [0x48, 0x89, 0x84, 0x24];
/// `test %rax, %rax`
const TEST_RAX: [u8; 3] = [0x48, 0x85, 0xc0];
/// `mov %rbp, %rdx`
const MOVE_RBP_RDX: [u8; 3] = [0x48, 0x89, 0xea];
/// `mov %rdx, disp8(%rsp)`
const STORE_RDX: [u8; 4] = [0x48, 0x89, 0x54, 0x24];
/// `mov %rbp, disp32(%rsp)`
const STORE_RBP: [u8; 4] = [0x48, 0x89, 0xac, 0x24];
/// `mov $imm32, %rcx`
const SET_RCX: [u8; 3] = [0x48, 0xc7, 0xc1];
/// `mov %rcx, disp32(%rsp)`
const STORE_RCX: [u8; 4] = [0x48, 0x89, 0x8c, 0x24];
/// `lea disp32(%rsp), %rcx`
const ADDRESS_IN_RCX: [u8; 4] = [0x48, 0x8d, 0x8c, 0x24];
/// `movq $imm32, disp32(%rsp)`, three bytes longer by prefixes without an effect.
const STORE_CONSTANT: [u8; 7] = [0x3e, 0x3e, 0x3e, 0x48, 0xc7, 0x84, 0x24];
/// `jmp` over 16 bytes, which trap.
const JUMP_OVER: [u8; 18] = {
    let mut code = [0xcc; 18];
    (code[0], code[1]) = (0xeb, 0x10);
    code
};

/// Returns true if the bytes are at an offset of the code.
fn found<const N: usize>(code: &[u8], at: usize, what: [u8; N]) -> bool {
    code.get(at..).is_some_and(|code| code.starts_with(&what))
}

fn bytes<const N: usize>(code: &[u8], at: usize) -> Option<[u8; N]> {
    code.get(at..)?.first_chunk().copied()
}

/// Replacement of the instructions at an offset, with its length.
struct Shorter {
    len: usize,
    code: [u8; 18],
}

impl Shorter {
    fn new(parts: &[&[u8]]) -> Option<Self> {
        let mut shorter = Self {
            len: 0,
            code: [0; 18],
        };
        for part in parts {
            let end = shorter.len.checked_add(part.len())?;
            shorter
                .code
                .get_mut(shorter.len..end)?
                .copy_from_slice(part);
            shorter.len = end;
        }
        Some(shorter)
    }
}

/// Shortens a store of a constant through a register that is overwritten at once.
fn constant(code: &[u8], at: usize) -> Option<Shorter> {
    let store = at.checked_add(7)?;
    let next = store.checked_add(8)?;
    let dead = found(code, next, SET_RCX) || found(code, next, ADDRESS_IN_RCX);
    if !found(code, at, SET_RCX) || !found(code, store, STORE_RCX) || !dead {
        return None;
    }
    let value: [u8; 4] = bytes(code, at.checked_add(3)?)?;
    let slot: [u8; 4] = bytes(code, store.checked_add(4)?)?;
    Shorter::new(&[&STORE_CONSTANT, &slot, &value])
}

/// Shortens a store of RBP through RDX, which is overwritten after instructions that do not use it.
fn frame_pointer(code: &[u8], at: usize) -> Option<Shorter> {
    /// Their first bytes, and their lengths.
    const UNUSED: [(&[u8], usize); 7] = [
        // `mov disp32(%rsp), %rsi`, `mov disp32(%rsp), %rdi`
        (&[0x48, 0x8b, 0xb4, 0x24], 8),
        (&[0x48, 0x8b, 0xbc, 0x24], 8),
        // `mov %rdi, disp32(%rsp)`
        (&[0x48, 0x89, 0xbc, 0x24], 8),
        // `sub $imm8, %rdi`
        (&[0x48, 0x83, 0xef], 4),
        // `lea disp32(%rsp), %rcx`, `mov %rcx, disp32(%rsp)`
        (&ADDRESS_IN_RCX, 8),
        (&STORE_RCX, 8),
        // `sarq $imm8, %gs:disp32(%rip)`: the depth of calls
        (&[0x65, 0x48, 0xc1, 0x3d], 9),
    ];
    let store = at.checked_add(3)?;
    if !found(code, at, MOVE_RBP_RDX) || !found(code, store, STORE_RDX) {
        return None;
    }
    let [slot] = bytes(code, store.checked_add(4)?)?;
    let mut next = store.checked_add(5)?;
    while !found(code, next, LOAD_RDX) {
        let rest = code.get(next..)?;
        let (_, len) = UNUSED.iter().find(|(what, _)| rest.starts_with(what))?;
        next = next.checked_add(*len)?;
    }
    // A sign, if there were one, would be lost.
    (slot < 0x80).then_some(())?;
    Shorter::new(&[&STORE_RBP, &[slot, 0, 0, 0]])
}

/// Shortens a test for a direct call, after which RAX is overwritten after loads of other
/// registers. `at` is three instructions before the branch to direct calls, which has been removed.
fn direct(code: &[u8], at: usize) -> Option<Shorter> {
    let (store, test, end) = (at.checked_add(5)?, at.checked_add(13)?, at.checked_add(18)?);
    let asks = found(code, at, LOAD_RAX) && found(code, store, STORE_RAX);
    if !asks || !found(code, test, TEST_RAX) || !found(code, at.checked_add(16)?, NOP_2) {
        return None;
    }
    let slot = u32::from_le_bytes(bytes(code, store.checked_add(4)?)?);
    let mut next = end;
    loop {
        // `mov disp8(%rsp), register`
        let [rex, 0x8b, modrm, 0x24, from] = bytes(code, next)? else {
            return None;
        };
        let loads = (rex == 0x48 || rex == 0x4c) && modrm & 0xc7 == 0x44;
        if !loads || from >= 0x80 || u32::from(from) == slot {
            return None;
        }
        if found(code, next, LOAD_RAX) {
            return Shorter::new(&[&JUMP_OVER]);
        }
        next = next.checked_add(5)?;
    }
}

impl Template {
    /// Removes instructions that copies do not need. Returns the number of instructions saved.
    ///
    /// Copies then differ from the kernel's, but have the same effect, except for the memory left
    /// below the stack, and RCX and RDX until they get their values.
    pub fn shorten(&mut self) -> usize {
        let mut fewer = 0usize;
        let mut code = [0; MAX_TEMPLATE];
        let len = self.bytes().len();
        for (to, from) in code.iter_mut().zip(self.bytes()) {
            *to = *from;
        }
        let Some(code) = code.get(..len) else {
            return 0;
        };
        let way_out = self.direct_at().and_then(|at| at.checked_sub(16));
        // Only at the start of an instruction.
        for (at, _) in Boundaries::new(code).map_while(Result::ok) {
            let (shorter, less) = if Some(at) == way_out {
                (direct(code, at), 3)
            } else if at < self.call() {
                (constant(code, at).or_else(|| frame_pointer(code, at)), 1)
            } else {
                continue;
            };
            if let Some(shorter) = shorter {
                let new = shorter.code.get(..shorter.len).unwrap_or_default();
                if self.overwrite(at, new) {
                    fewer = fewer.saturating_add(less);
                }
            }
        }
        fewer
    }
}
