// SPDX-License-Identifier: GPL-2.0

//! Call of a jprobe's handler, by the pre handler of its kprobe.
//!
//! Contexts: any that cannot change the CPU, NMI included.

use core::mem::offset_of;
use core::ptr::null_mut;
use core::ptr::without_provenance;

use ferro_sys::bindings;
use kernel::ffi::c_int;
use kernel::prelude::*;

/// Size of a stack word in bytes.
const WORD: usize = size_of::<usize>();

// `hit()` casts a kprobe pointer to a jprobe pointer.
static_assert!(offset_of!(bindings::jprobe, kp) == 0);

/// Pre handler of the jprobe's kprobe: calls the client's handler.
///
/// # Safety
///
/// `kprobe` begins a registered jprobe; `regs` are the registers of a probe.
#[link_section = ".kprobes.text"]
pub(super) unsafe extern "C" fn hit(
    kprobe: *mut bindings::kprobe,
    regs: *mut bindings::pt_regs,
) -> c_int {
    // SAFETY: The caller passes a registered kprobe, so it is valid; the engine changes this word
    // in one store.
    let flags = unsafe { (&raw const (*kprobe).flags).read_volatile() };
    if flags & bindings::KPROBE_FLAG_ON_FUNC_ENTRY == 0 {
        return 0;
    }
    // SAFETY: The kprobe begins a jprobe, as the caller guarantees, which is valid while it is
    // registered. The client may write the field, a word, at any time.
    let entry = unsafe { (&raw const (*kprobe.cast::<bindings::jprobe>()).entry).read_volatile() };
    if entry.is_null() {
        return 0;
    }
    // SAFETY: The caller passes the registers of the probe that is hit, which belong to this call
    // until it returns.
    let sp = unsafe { (*regs).sp };
    let mut frame = bindings::ferro_jprobe_frame {
        sp: 0,
        stack: [0; bindings::JPROBE_STACK_SIZE as usize / WORD],
        previous: null_mut(),
        graph_stack: 0,
        graph_depth: 0,
    };
    // The arguments are above the return address.
    read_stack(sp.wrapping_add(WORD), &mut frame.stack);
    // SAFETY: The frame stays in this function until `ferro_jprobe_leave()`, and a pre handler
    // stays on its CPU.
    unsafe { bindings::ferro_jprobe_enter(&raw mut frame) };
    // SAFETY: Not NULL, and by the rules of `register_jprobe()` a function with the parameters of
    // the probed one; `regs` and `frame` have the arguments. If it ends by `jprobe_return()`, that
    // returns to this frame, which is the innermost one, over frames of the handler only.
    unsafe { bindings::ferro_jprobe_call(regs, entry, &raw mut frame) };
    // SAFETY: The frame was entered above, and all frames entered since have been left: handlers
    // nest.
    unsafe { bindings::ferro_jprobe_leave(&raw mut frame) };
    0
}

/// Reads words of a stack. The stack may end in between; the words after its end stay as they are.
#[inline(always)]
fn read_stack(from: usize, words: &mut [usize]) {
    for (i, word) in words.iter_mut().enumerate() {
        let at = without_provenance(from.wrapping_add(i * WORD));
        // Not read into the word itself: a failed read may overwrite it.
        let mut value = 0usize;
        // SAFETY: The function takes any address as its source; the destination is a local word.
        if unsafe { bindings::copy_from_kernel_nofault((&raw mut value).cast(), at, WORD) } != 0 {
            return;
        }
        *word = value;
    }
}
