// SPDX-License-Identifier: GPL-2.0

//! Optprobe jumps in the place of breakpoints.
//!
//! A jump is longer than a breakpoint, and may be longer than the instruction that the breakpoint
//! replaces. Patching starts with the breakpoint in both directions, so a CPU that executes the
//! site during the change takes the breakpoint.
//!
//! Contexts: process, sleeping. Locks: as in `text.rs`.

use crate::bindings;
use kernel::ffi::c_void;
use kernel::prelude::*;

use super::symbols::TextAddress;
use super::text::read_text;
use super::text::ArmedSite;
use super::text::TextLock;
use super::text::BREAKPOINT;

/// Length of a jump, in bytes.
pub const JUMP_LEN: usize = 5;

/// Opcode of the jump; its displacement follows.
const JUMP: u8 = 0xe9;

/// Batch of jumps that replace breakpoints.
pub struct JumpBatch<'a> {
    lock: &'a mut TextLock,
    is_empty: bool,
}

/// Lets `f` add jumps, and writes them with the same few synchronisations of the CPUs. The jumps
/// are in place when this returns.
pub fn jump_all<R>(lock: &mut TextLock, f: impl FnOnce(&mut JumpBatch<'_>) -> R) -> R {
    let mut batch = JumpBatch {
        lock,
        is_empty: true,
    };
    let result = f(&mut batch);
    // The kernel synchronises nothing for an empty batch.
    if !batch.is_empty {
        finish(lock);
    }
    result
}

/// Not generic, so that the compiled code is in the image, as its callees are.
#[inline(never)]
fn finish(lock: &mut TextLock) {
    // SAFETY: `text_mutex` is held, as the lock says.
    unsafe { bindings::smp_text_poke_batch_finish() };
    lock.note_sync();
}

/// A jump that has replaced an armed breakpoint. It stays, even if this is dropped, until it is
/// stopped or the code is freed.
#[derive(Debug)]
pub struct JumpedSite {
    at: TextAddress,
    original: [u8; JUMP_LEN],
    /// Bytes of the jump.
    code: [u8; JUMP_LEN],
}

/// A breakpoint that has replaced the first byte of a jump, before the other bytes are restored.
#[derive(Debug)]
pub struct StoppedSite {
    jump: JumpedSite,
    /// Number of [`TextLock::syncs`] at that time.
    syncs: usize,
}

impl ArmedSite {
    /// Replaces the breakpoint and the bytes after it by a jump to `target`, in effect when
    /// [`jump_all`] returns. `expected` has the original bytes there, or the first of them.
    ///
    /// Fails if the bytes differ, if the code is, or is about to be, freed, or if the target is too
    /// far away.
    ///
    /// # Safety
    ///
    /// No CPU executes the breakpoint's instruction, or the instructions after it that the jump
    /// covers, unless it has passed the breakpoint after this call. Only the caller changes them,
    /// until the site is [restored](StoppedSite::restore). A CPU that jumps to `target` continues
    /// as if it had executed these instructions. The code there exists until no CPU is in it, after
    /// the jump has been removed.
    pub unsafe fn jump(
        self,
        target: usize,
        expected: &[u8],
        batch: &mut JumpBatch<'_>,
    ) -> Result<JumpedSite, Self> {
        let (at, first) = self.parts();
        let behind = at.get().wrapping_add(JUMP_LEN);
        let Ok(distance) = i32::try_from(target.wrapping_sub(behind) as isize) else {
            return Err(self);
        };
        let mut original = [0; JUMP_LEN];
        if !batch.lock.is_there(at.get()) || read_text(at.get(), &mut original).is_err() {
            return Err(self);
        }
        let now = core::mem::replace(&mut original[0], first);
        // Another user, such as a debugger, has written there.
        if now != BREAKPOINT || original.iter().zip(expected).any(|(is, was)| is != was) {
            return Err(self);
        }
        let [a, b, c, d] = distance.to_le_bytes();
        let code = [JUMP, a, b, c, d];
        let addr: *mut c_void = core::ptr::without_provenance_mut(at.get());
        // SAFETY: `text_mutex` is held until the batch is finished. As long as it is held, the code
        // stays, as `is_there()` has checked. A CPU that executes the intermediate breakpoint
        // jumps, too. For both ways the caller guarantees that the target is ready, and that no CPU
        // is in the middle of the replaced bytes. The bytes are copied.
        unsafe {
            bindings::smp_text_poke_batch_add(
                addr,
                code.as_ptr().cast(),
                code.len(),
                core::ptr::null(),
            )
        };
        batch.is_empty = false;
        Ok(JumpedSite { at, original, code })
    }
}

impl JumpedSite {
    /// Puts the breakpoint back, unless the code has been freed. Until [`TextLock::sync`], a CPU
    /// executes the jump or the breakpoint; afterwards it executes the breakpoint.
    ///
    /// Fails if the jump has been overwritten: another user, such as a debugger, has written there
    /// and is going to restore the jump's bytes.
    pub fn stop(self, lock: &mut TextLock) -> Result<StoppedSite, Self> {
        let mut now = self.code;
        if lock.is_there(self.at.get()) && read_text(self.at.get(), &mut now).is_ok() {
            if now != self.code {
                return Err(self);
            }
            write(self.at.get(), &[BREAKPOINT]);
        }
        Ok(StoppedSite {
            jump: self,
            syncs: lock.syncs(),
        })
    }

    /// Returns the bytes that the jump has replaced, the breakpoint's instruction included.
    pub fn original(&self) -> &[u8; JUMP_LEN] {
        &self.original
    }
}

impl StoppedSite {
    /// Restores the bytes after the breakpoint. The instructions are complete for each CPU after
    /// [`TextLock::sync`].
    pub fn restore(self, lock: &mut TextLock) -> ArmedSite {
        // No CPU executes the jump afterwards.
        if self.syncs == lock.syncs() {
            lock.sync();
        }
        let JumpedSite { at, original, code } = self.jump;
        let [first, tail @ ..] = original;
        if lock.is_there(at.get()) {
            write(at.get().wrapping_add(1), &tail);
            let addr: *mut c_void = core::ptr::without_provenance_mut(at.get());
            let [a, b, c, d] = tail;
            let now = [BREAKPOINT, a, b, c, d];
            // SAFETY: Both buffers have this many bytes.
            unsafe {
                bindings::perf_event_text_poke(
                    addr,
                    code.as_ptr().cast(),
                    JUMP_LEN,
                    now.as_ptr().cast(),
                    JUMP_LEN,
                )
            };
        }
        ArmedSite::from_parts(at, first)
    }
}

/// Writes to existing code, with `text_mutex` held: the breakpoint in the place of a jump, or bytes
/// that no CPU executes because a breakpoint precedes them.
fn write(at: usize, code: &[u8]) {
    let addr: *mut c_void = core::ptr::without_provenance_mut(at);
    // SAFETY: Both callers have the lock, and have checked that the code exists. A breakpoint of
    // ours is handled by the contract of `PatchSite::new()`; the bytes after it are the original
    // ones.
    unsafe { bindings::text_poke(addr, code.as_ptr().cast(), code.len()) };
}
