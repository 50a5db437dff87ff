// SPDX-License-Identifier: GPL-2.0

//! Limits of programs.

/// Number of words of the stack.
pub const STACK_WORDS: usize = 1024;

/// Maximum depth of calls.
pub const CALL_DEPTH: usize = 32;

/// Maximum number of variables of a program, and of all programs together.
pub const VARIABLES_MAX: u32 = 256;

/// Maximum number of bytes of a record's data, and of a trace of exceptions.
pub const LOG_MAX: u32 = 4096;

/// Bound of the numbers of exits.
pub const EXITS: u8 = 64;

/// Default of `logmax` and `ex_logmax`.
pub const LOG_DEFAULT: u32 = 1024;

/// Maximum number of jumps, and the default.
pub const JUMPS_MAX: u32 = 65535;

/// Number of bytes of the heap.
pub const HEAP_MAX: u32 = 16 * 1024;

/// Maximum number of pieces of the heap.
pub const HEAP_BLOCKS: usize = 32;

/// Maximum number of instructions of a point.
pub const CODE_MAX: usize = 4096;

/// Maximum number of points of a program.
pub const POINTS_MAX: usize = 1024;

/// Maximum number of points of a program with a later address. There are four debug registers.
pub const LATER_MAX: usize = 16;

/// Maximum number of programs of a set.
pub const PROGRAMS_MAX: usize = 256;

/// Maximum number of bytes of a program's name, which may be a path.
pub const NAME_MAX: usize = 4095;

/// Maximum number of bytes of a symbol.
pub const SYMBOL_MAX: usize = 511;

/// Maximum number of bytes that `vfy` checks.
pub const VERIFY_MAX: u64 = 1 << 20;

/// Maximum of `max_hits` and `pass_count`: for ignored hits, the number of the hit minus
/// `pass_count` wraps to a larger value.
pub const HITS_MAX: u64 = i64::MAX as u64;

/// Maximum number of steps of a run. They bound what `jmpmax` does not: the length of repeated
/// code, and commands that take longer than an instruction. A step takes some nanoseconds, so a run
/// takes milliseconds at most. Miri takes some thousand times as long, and gets fewer.
pub const STEPS_MAX: u32 = if cfg!(miri) { 1 << 15 } else { 1 << 18 };

/// Steps of an access to memory that may be unmapped: it may be a page fault.
pub(super) const ACCESS_STEPS: u32 = 64;

/// Steps of an access to a port, which takes microseconds, and longer in a guest.
pub(super) const PORT_STEPS: u32 = 1024;

/// Steps of a CPU register: in a guest, reading it may exit to the hypervisor.
pub(super) const SYSTEM_STEPS: u32 = 64;
