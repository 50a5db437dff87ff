// SPDX-License-Identifier: GPL-2.0

//! Commands that are run as one: a constant that is pushed, and the arithmetic with it.

use super::insn::Insn;
use super::op::Op;

/// Has each `push` do what the command after it does, where that is one of arithmetic, and go on after that. The numbers of the
/// instructions stay, and so does what the second is, for who jumps there: a program does the same as before, only in less time.
/// What comes of it cannot be loaded.
pub fn fuse(code: &mut [Insn]) {
    let mut rest = code;
    while let [first, second, ..] = rest {
        match second.op.after_push() {
            Some(fused) if first.op == Op::Push => first.op = fused,
            _ => (),
        }
        rest = rest.get_mut(1..).unwrap_or_default();
    }
}
