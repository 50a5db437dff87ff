// SPDX-License-Identifier: GPL-2.0

//! Fields of sets, programs and points.

use super::exception::MASK_DEFAULT;
use super::limits::*;

/// Destination of records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Target {
    /// The relay channel.
    #[default]
    Relay = 0,
    /// klog, as text for its handler; without a handler they are lost.
    Klog = 1,
}

/// Fields that apply to all programs of a set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SetHeader {
    /// [`UNSAFE_WRITES`] and others.
    pub flags: u32,
    /// Fields of records' headers, a bit each: see [`Field`](super::Field).
    pub fields: u32,
    /// Destination of records.
    pub target: Target,
}

/// Kind of a program's target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum ModuleKind {
    /// An executable or a library, by its path.
    User = 0,
    /// The kernel.
    Kernel = 1,
    /// A module of the kernel, by its name.
    Module = 2,
}

/// Fields of a program, apart from its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Kind of its target.
    pub kind: ModuleKind,
    /// Major number of its records, unless a point has its own.
    pub major: u32,
    /// A number that the user chooses.
    pub id: u32,
    /// Maximum number of jumps of a run.
    pub jmpmax: u32,
    /// Maximum number of bytes of a run's log.
    pub logmax: u32,
    /// Maximum number of bytes of a run's trace of exceptions.
    pub ex_logmax: u32,
    /// Number of local variables.
    pub locals: u32,
    /// Number of global variables that it uses, from 0 on.
    pub globals: u32,
    /// Maximum of a point's `heap_size`.
    pub heapmax: u32,
    /// True if an exception without a handler puts the calls into the trace.
    pub auto_stack_trace: bool,
}

impl Header {
    /// Returns the defaults of the fields.
    pub const fn new(kind: ModuleKind) -> Self {
        Self {
            kind,
            major: 0,
            id: 0,
            jmpmax: JUMPS_MAX,
            logmax: LOG_DEFAULT,
            ex_logmax: LOG_DEFAULT,
            locals: 0,
            globals: 0,
            heapmax: HEAP_MAX,
            auto_stack_trace: false,
        }
    }
}

/// Kind of a point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum PointKind {
    /// An instruction, by a breakpoint in the code.
    Breakpoint = 0,
    /// Execution at an address, by a debug register.
    WatchExecute = 1,
    /// Writing.
    WatchWrite = 2,
    /// Reading or writing.
    WatchAccess = 3,
    /// Ports.
    WatchIo = 4,
}

/// Fields of a point, apart from its symbol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Point {
    /// Kind.
    pub kind: PointKind,
    /// Number of watched bytes: 1, 2, 4 or 8.
    pub watch_len: u8,
    /// Expected first byte of the code.
    pub opcode: Option<u8>,
    /// True if the log is kept even if the probed instruction faults.
    pub log_on_fault: bool,
    /// True if `offset` is an address.
    pub is_absolute: bool,
    /// True for a watchpoint with an address from a program, by its minor number. Then it has no
    /// symbol, and `offset` is 0.
    pub is_later: bool,
    /// Major number of its records.
    pub major: u32,
    /// Minor number of its records.
    pub minor: u32,
    /// Number of its group.
    pub group: u32,
    /// Number of its type.
    pub kind_number: u32,
    /// Mask of enabled exceptions.
    pub ex_mask: u32,
    /// Number of bytes of the heap.
    pub heap_size: u32,
    /// Number of runs after which it is disabled, at most [`HITS_MAX`]. A missed hit does not
    /// count.
    pub max_hits: u64,
    /// Number of hits before the first run, at most [`HITS_MAX`].
    pub pass_count: u64,
    /// Offset in bytes from the symbol; for user space from the start of the file; or an address.
    pub offset: u64,
}

impl Point {
    /// Returns the defaults of the fields, for a program of this major number.
    pub const fn new(major: u32) -> Self {
        Self {
            kind: PointKind::Breakpoint,
            watch_len: 0,
            opcode: None,
            log_on_fault: false,
            is_absolute: false,
            is_later: false,
            major,
            minor: 0,
            group: 0,
            kind_number: 0,
            ex_mask: MASK_DEFAULT,
            heap_size: 0,
            max_hits: 0x7fff_ffff,
            pass_count: 0,
            offset: 0,
        }
    }
}
