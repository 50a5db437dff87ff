// SPDX-License-Identifier: GPL-2.0

//! Probe programs: their commands, their encoding, and their interpreter.
//!
//! - [`encode()`] encodes a set of programs. [`SetRef::decode`] reads and checks one: a refusal has
//!   the point, the instruction and the reason. Both sides use the same [`Insn`], [`Header`] and
//!   [`Point`].
//! - [`fuse()`] fuses pairs of commands.
//! - [`run()`] runs the instructions of a point. It acts upon a [`World`], with a [`Memory`] for
//!   each CPU.
//! - [`RecordRef`] reads the log of a run.
//!
//! The numbers of a program are words of 64 bits. Its stack is a ring of 1024 of them. Properties
//! that are unknown in advance are checked at run time: an [`Exception`] runs the program's
//! handler, or ends it.
//!
//! Contexts: any. Nothing here allocates, locks, sleeps or panics, for any bytes.

// Kbuild adds `no_std` to every crate itself.
#![cfg_attr(not(any(test, CONFIG_RUST)), no_std)]
#![forbid(unsafe_code)]

mod arithmetic;
mod bytes;
mod code;
mod count_only;
mod counter_table;
mod definition;
mod encode;
mod environment;
mod exception;
mod fuse;
mod heap;
mod insn;
mod limits;
mod log;
mod log_layout;
mod log_only;
mod machine;
mod memory;
mod memory_ops;
mod op;
mod record;
mod refusal;
mod register;
mod set;
mod stack;
#[cfg(test)]
mod tests;

pub use code::Code;
pub use code::Effects;
pub use count_only::count;
pub use count_only::only_counts;
pub use count_only::Count;
pub use counter_table::Tally;
pub use definition::Header;
pub use definition::ModuleKind;
pub use definition::Point;
pub use definition::PointKind;
pub use definition::SetHeader;
pub use definition::Target;
pub use encode::encode;
pub use encode::PointSource;
pub use encode::ProgramSource;
pub use encode::TooLong;
pub use environment::read_pair;
pub use environment::World;
pub use exception::Exception;
pub use exception::Fault;
pub use exception::EXCEPTIONS;
pub use exception::MASK_DEFAULT;
pub use fuse::fuse;
pub use insn::Insn;
pub use insn::INSN_LEN;
pub use limits::*;
pub use log_layout::Form;
pub use log_layout::OfWords;
pub use log_layout::Pair;
pub use log_layout::Steps;
pub use log_only::Plain;
pub use log_only::Room;
pub use log_only::Shape;
pub use machine::run;
pub use machine::End;
pub use machine::Limits;
pub use machine::Outcome;
pub use memory::Memory;
pub use op::Op;
pub use op::Operand;
pub use op::Scope;
pub use op::OPS;
pub use record::Entries;
pub use record::Entry;
pub use record::Field;
pub use record::RecordHeader;
pub use record::RecordRef;
pub use record::Words;
pub use record::ALL_FIELDS;
pub use record::FIELDS;
pub use record::FIELDS_LEN;
pub use record::RECORD_LEN;
pub use refusal::Reason;
pub use refusal::Refusal;
pub use register::Register;
pub use set::PointRef;
pub use set::ProgramRef;
pub use set::SetRef;
pub use set::IGNORE_OPCODES;
pub use set::MAGIC;
pub use set::MERGE;
pub use set::REPLACE;
pub use set::UNSAFE_WRITES;
pub use set::VERSION;
