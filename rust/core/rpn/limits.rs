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

/// Numbers of exits are less than this.
pub const EXITS: u8 = 64;

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

/// The most points of a program whose address comes later. There are four debug registers.
pub const LATER_MAX: usize = 16;

/// The most programs of a set.
pub const PROGRAMS_MAX: usize = 256;

/// The most bytes of a program's name, which may be a path.
pub const NAME_MAX: usize = 4095;

/// The most bytes of a symbol.
pub const SYMBOL_MAX: usize = 511;

/// The most bytes that `vfy` looks at.
pub const VERIFY_MAX: u64 = 1 << 20;

/// The most that `max_hits` and `pass_count` may be: a hit's number less `pass_count` is above it before the first that counts.
pub const HITS_MAX: u64 = i64::MAX as u64;

/// Steps that a run may take, over all its jumps: what `jmpmax` does not bound, the length of what is repeated, and what takes
/// longer than an instruction. A step is some nanoseconds, so that a run takes milliseconds at most. Miri takes some thousand times
/// as long, and gets fewer.
pub const STEPS_MAX: u32 = if cfg!(miri) { 1 << 15 } else { 1 << 18 };

/// Steps of an access to memory that may not be there: it may be a page fault.
pub(super) const ACCESS_STEPS: u32 = 64;

/// Steps of an access to a port, which takes microseconds, and longer in a guest.
pub(super) const PORT_STEPS: u32 = 1024;

/// Steps of a register that is the CPU's: in a guest, reading it may leave the guest.
pub(super) const SYSTEM_STEPS: u32 = 64;
