// SPDX-License-Identifier: GPL-2.0

//! Jumps in the place of breakpoints, and what the breakpoint stood in front of.
//!
//! A jump is longer than a breakpoint, and may be longer than the instruction that the breakpoint replaces. Putting it there
//! starts with the breakpoint and so does taking it away: whoever comes by meanwhile executes that.
//!
//! Contexts: process, sleeping. Locks: as in `text.rs`.

use core::sync::atomic::AtomicUsize;
use core::sync::atomic::Ordering::Relaxed;

use kernel::bindings;
use kernel::ffi::c_void;
use kernel::prelude::*;

use super::text::read_text;
use super::text::ArmedSite;
use super::text::TextAddress;
use super::text::TextLock;
use super::text::BREAKPOINT;

/// How long a jump is, in bytes.
pub const JUMP_LEN: usize = 5;

/// The jump's opcode; its distance follows.
const JUMP: u8 = 0xe9;

/// How often all CPUs have been told of new code. Changes with `text_mutex` held only.
static SYNCS: AtomicUsize = AtomicUsize::new(0);

/// Jumps that are going to be put in the place of breakpoints.
pub struct JumpBatch<'a> {
    lock: &'a mut TextLock,
    is_empty: bool,
}

/// Has `f` add jumps, and puts them there with the same few synchronisations of the CPUs. They are there when this returns.
pub fn jump_all<R>(lock: &mut TextLock, f: impl FnOnce(&mut JumpBatch<'_>) -> R) -> R {
    let mut batch = JumpBatch {
        lock,
        is_empty: true,
    };
    let result = f(&mut batch);
    // The kernel tells nobody of nothing.
    if !batch.is_empty {
        finish(lock);
    }
    result
}

/// Not generic, so that it is in the image, which has what it calls.
#[inline(never)]
fn finish(_lock: &mut TextLock) {
    // SAFETY: `text_mutex` is held, as the lock says.
    unsafe { bindings::smp_text_poke_batch_finish() };
    note_sync();
}

/// A jump of ours in the place of a breakpoint of ours. It stays there, also if this is dropped, until it is stopped or the code
/// is freed.
#[derive(Debug)]
pub struct JumpedSite {
    at: TextAddress,
    original: [u8; JUMP_LEN],
    /// The jump itself.
    code: [u8; JUMP_LEN],
}

/// A breakpoint in the place of such a jump's first byte, before the other bytes are as they were.
#[derive(Debug)]
pub struct StoppedSite {
    jump: JumpedSite,
    /// [`SYNCS`] then.
    syncs: usize,
}

impl ArmedSite {
    /// Puts a jump to `target` in the place of the breakpoint, and of what follows it, when [`jump_all`] returns. `expected` is what
    /// is there without the breakpoint, or the first bytes of it.
    ///
    /// Fails if something else is there, if the code is, or is about to be, freed, or if the target is too far away.
    ///
    /// # Safety
    ///
    /// The breakpoint's instruction and those after it, as far as the jump reaches, are executed by nobody who has not come by the
    /// breakpoint after this, and nobody but the caller changes them, until the site is [restored](StoppedSite::restore).
    /// Who comes to `target` goes on as who executes these instructions would. The code there stays until nobody is in
    /// it any more, when the jump has gone.
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
        // Somebody else has written there, such as a debugger.
        if now != BREAKPOINT || original.iter().zip(expected).any(|(is, was)| is != was) {
            return Err(self);
        }
        let [a, b, c, d] = distance.to_le_bytes();
        let code = [JUMP, a, b, c, d];
        let addr: *mut c_void = core::ptr::without_provenance_mut(at.get());
        // SAFETY: `text_mutex` is held until the batch is finished, and as long as it is the code stays, as `is_there()` has seen.
        // Whoever executes the breakpoint that stands there meanwhile jumps, too; for both the caller guarantees that the target is
        // ready, and that nobody is in the middle of what is replaced. The bytes are copied.
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
    /// Puts the breakpoint back, unless the code has gone. Every CPU jumps or executes the breakpoint, and certainly the latter
    /// after [`TextLock::sync`].
    ///
    /// Fails if the jump is not there any more: somebody else, such as a debugger, has written there and is going to put back what
    /// was there then.
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
            syncs: SYNCS.load(Relaxed),
        })
    }

    /// What the jump has replaced, the breakpoint's instruction included.
    pub fn original(&self) -> &[u8; JUMP_LEN] {
        &self.original
    }
}

impl StoppedSite {
    /// Puts back what followed the breakpoint. The instructions are complete for whoever comes by after [`TextLock::sync`].
    pub fn restore(self, lock: &mut TextLock) -> ArmedSite {
        // Nobody executes the jump any more.
        if self.syncs == SYNCS.load(Relaxed) {
            lock.sync();
        }
        let JumpedSite { at, original, code } = self.jump;
        let [first, tail @ ..] = original;
        if lock.is_there(at.get()) {
            write(at.get().wrapping_add(1), &tail);
            let addr: *mut c_void = core::ptr::without_provenance_mut(at.get());
            let [a, b, c, d] = tail;
            let now = [BREAKPOINT, a, b, c, d];
            // SAFETY: Both hold so many bytes.
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

/// Writes to code that is there, with `text_mutex` held: the breakpoint in the place of a jump, or what nobody executes because
/// there is a breakpoint in front of it.
fn write(at: usize, code: &[u8]) {
    let addr: *mut c_void = core::ptr::without_provenance_mut(at);
    // SAFETY: Both callers have the lock, and have seen that the code is there. A breakpoint of ours is handled as the contract of
    // `PatchSite::new()` says; what follows it is what was there before the jump.
    unsafe { bindings::text_poke(addr, code.as_ptr().cast(), code.len()) };
}

/// Notes that all CPUs have been told of new code, for `text.rs`, with `text_mutex` held.
pub(super) fn note_sync() {
    SYNCS.store(SYNCS.load(Relaxed).wrapping_add(1), Relaxed);
}

/// How often that was.
pub(super) fn syncs() -> usize {
    SYNCS.load(Relaxed)
}
