// SPDX-License-Identifier: GPL-2.0

//! How much of everything a program may have.

/// Words of the stack.
pub const STACK_WORDS: usize = 1024;

/// Calls within calls.
pub const CALL_DEPTH: usize = 32;

/// The most variables of a program, and of all programs together.
pub const VARIABLES_MAX: u32 = 256;

/// The most bytes of a record's data, and of a trace of exceptions.
pub const LOG_MAX: u32 = 4096;

/// What `logmax` and `ex_logmax` are unless a program says so.
pub const LOG_DEFAULT: u32 = 1024;

/// The most jumps that may be allowed to be taken, and what is allowed unless a program says so.
pub const JUMPS_MAX: u32 = 65535;

/// Bytes of the heap.
pub const HEAP_MAX: u32 = 16 * 1024;

/// The most pieces of the heap at a time.
pub const HEAP_BLOCKS: usize = 32;

/// The most instructions of a point.
pub const CODE_MAX: usize = 4096;

/// The most points of a program.
pub const POINTS_MAX: usize = 1024;

/// The most programs of a set.
pub const PROGRAMS_MAX: usize = 256;

/// The most bytes of a program's name, which may be a path.
pub const NAME_MAX: usize = 4095;

/// The most bytes of a symbol.
pub const SYMBOL_MAX: usize = 511;

/// The most bytes that `vfy` looks at.
pub const VERIFY_MAX: u64 = 1 << 20;

/// Steps that a run may take, over all its jumps: what `jmpmax` does not bound, the length of what is repeated.
pub const STEPS_MAX: u32 = 1 << 20;

/// Steps that an access to memory that is not there counts for: the CPU faults, which takes a while.
pub const FAULT_STEPS: u32 = 512;
