// SPDX-License-Identifier: GPL-2.0

//! Fusion of two commands: a push of a constant, and its use in an operation.

use super::insn::Insn;
use super::op::Op;

/// Fuses each `push` with an arithmetic command after it: it does the work of both, and continues
/// after the second. The instructions keep their numbers, and the second one stays for jumps to it.
/// So a program has the same effect in less time. The result cannot be loaded.
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
