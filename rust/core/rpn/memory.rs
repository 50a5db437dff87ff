// SPDX-License-Identifier: GPL-2.0

//! The memory that a run needs: one for each CPU, as only one program runs there at a time.

use super::limits::*;
use super::record::EXCEPTION_LEN;
use super::record::RECORD_LEN;

/// Bytes of the log, with an exception after it.
pub(super) const LOG_BYTES: usize = LOG_MAX as usize + EXCEPTION_LEN;

/// A subroutine that is running.
#[derive(Clone, Copy)]
pub(super) struct Frame {
    /// Where it returns to.
    pub(super) back: u32,
    /// Its handler of exceptions: 1 more than the number of an instruction, or [`NO_HANDLER`].
    pub(super) handler: u32,
    /// The stack when the handler was set.
    pub(super) top: u16,
    pub(super) base: u16,
}

pub(super) const NO_HANDLER: u32 = 0;

/// A piece of the heap; free if it is empty.
#[derive(Clone, Copy)]
pub(super) struct Block {
    pub(super) start: u16,
    pub(super) len: u16,
}

/// What few runs use, so that it is set up only if the last run has used it.
#[derive(Clone, Copy)]
pub(super) struct Rest {
    pub(super) is_used: bool,
    pub(super) overflowed: bool,
    pub(super) has_heap: bool,
    pub(super) trace_len: usize,
    /// The last exception: where, its bit, or 0, and what it was about.
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

/// What a run works with. It is not cleared between two runs: a program can find there what others have left on the stack.
/// Any bytes will do: memory that is all zero is one.
#[repr(C)]
pub struct Memory {
    pub(super) rest: Rest,
    pub(super) stack: [u64; STACK_WORDS],
    pub(super) frames: [Frame; CALL_DEPTH + 1],
    pub(super) blocks: [Block; HEAP_BLOCKS],
    /// The log, with room for a record's header before it: so a record is in one piece, and copied once.
    pub(super) record: [u8; RECORD_LEN + LOG_BYTES],
    pub(super) trace: [u8; LOG_MAX as usize],
    pub(super) heap: [u8; HEAP_MAX as usize],
}

impl Memory {
    /// Memory that is all zero.
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
