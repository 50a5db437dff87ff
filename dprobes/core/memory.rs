// SPDX-License-Identifier: GPL-2.0

//! Memory of a run: one for each CPU, as only one program runs there at a time.

use super::limits::*;
use super::record::EXCEPTION_LEN;
use super::record::RECORD_LEN;

/// Number of bytes of the log, with an exception after it.
pub(super) const LOG_BYTES: usize = LOG_MAX as usize + EXCEPTION_LEN;

/// A running subroutine.
#[derive(Clone, Copy)]
pub(super) struct Frame {
    /// Return position.
    pub(super) back: u32,
    /// Handler of exceptions: 1 more than the number of an instruction, or [`NO_HANDLER`].
    pub(super) handler: u32,
    /// State of the stack when the handler was set.
    pub(super) top: u16,
    pub(super) base: u16,
}

pub(super) const NO_HANDLER: u32 = 0;

/// A piece of the heap; free if empty.
#[derive(Clone, Copy)]
pub(super) struct Block {
    pub(super) start: u16,
    pub(super) len: u16,
}

/// State that few runs use. It is initialised only if the last run has used it.
#[derive(Clone, Copy)]
pub(super) struct Rest {
    pub(super) is_used: bool,
    pub(super) overflowed: bool,
    pub(super) has_heap: bool,
    pub(super) trace_len: usize,
    /// Last exception: its position, its bit or 0, and its argument.
    pub(super) last: (u32, u16, u64),
}

impl Rest {
    pub(super) const NEW: Self = Self {
        is_used: false,
        overflowed: false,
        has_heap: false,
        trace_len: 0,
        last: (0, 0, 0),
    };
}

/// Working memory of a run. It is not cleared between two runs: a program can find words of others
/// on the stack. Any bytes are valid, including zeros.
#[repr(C)]
pub struct Memory {
    pub(super) rest: Rest,
    pub(super) stack: [u64; STACK_WORDS],
    pub(super) frames: [Frame; CALL_DEPTH + 1],
    pub(super) blocks: [Block; HEAP_BLOCKS],
    /// Log, with room for a record's header before it, so that a record is in one piece, and copied
    /// once.
    pub(super) record: [u8; RECORD_LEN + LOG_BYTES],
    pub(super) trace: [u8; LOG_MAX as usize],
    pub(super) heap: [u8; HEAP_MAX as usize],
}

impl Memory {
    /// Makes memory of zeros.
    pub const fn new() -> Self {
        const FRAME: Frame = Frame {
            back: 0,
            handler: 0,
            top: 0,
            base: 0,
        };
        Self {
            rest: Rest::NEW,
            stack: [0; STACK_WORDS],
            frames: [FRAME; CALL_DEPTH + 1],
            blocks: [Block { start: 0, len: 0 }; HEAP_BLOCKS],
            record: [0; RECORD_LEN + LOG_BYTES],
            trace: [0; LOG_MAX as usize],
            heap: [0; HEAP_MAX as usize],
        }
    }

    #[inline(always)]
    pub(super) fn log(&self) -> &[u8] {
        self.record.get(RECORD_LEN..).unwrap_or_default()
    }

    #[inline(always)]
    pub(super) fn log_mut(&mut self) -> &mut [u8] {
        self.record.get_mut(RECORD_LEN..).unwrap_or_default()
    }
}

impl Default for Memory {
    fn default() -> Self {
        Self::new()
    }
}
