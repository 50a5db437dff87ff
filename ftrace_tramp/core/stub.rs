// SPDX-License-Identifier: GPL-2.0

//! Stubs, by which a function enters a trampoline with data of its own.

use super::target::JumpTarget;
use super::target::BRANCH_LEN;

/// `movabs $imm64, %r11`
const LOAD_R11: [u8; 2] = [0x49, 0xbb];
const LOAD_LEN: usize = 10;

/// Length of a stub in bytes.
pub const STUB_LEN: usize = LOAD_LEN + BRANCH_LEN;

/// Returns the stub at `at`, which jumps to a trampoline with data in R11
/// ([`Third::R11`](super::Third::R11)); [`None`] if that is more than 2 GiB away.
pub fn stub(at: u64, data: u64, to: JumpTarget) -> Option<[u8; STUB_LEN]> {
    let jump = to.jump(at.wrapping_add(LOAD_LEN as u64))?;
    let mut code = [0; STUB_LEN];
    let parts = LOAD_R11.into_iter().chain(data.to_le_bytes()).chain(jump);
    for (to, from) in code.iter_mut().zip(parts) {
        *to = from;
    }
    Some(code)
}
