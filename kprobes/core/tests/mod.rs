// SPDX-License-Identifier: GPL-2.0

//! Tests of single cases from the manuals. The comparisons with other decoders, with the text of
//! kernels and with the CPU are in `tools/testing/host`.

mod apart;
mod relocate;

use super::*;
use ferro_core::insn::*;

/// Decodes bytes that have to be exactly one instruction.
fn insn(bytes: &[u8]) -> Insn {
    let insn = Insn::decode(bytes).unwrap();
    assert_eq!(insn.bytes(), bytes);
    insn
}
