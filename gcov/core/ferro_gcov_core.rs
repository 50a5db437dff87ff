// SPDX-License-Identifier: GPL-2.0

//! Coverage: data that compilers put into objects, and files for `gcov`, `llvm-cov` and others.
//!
//! - [`Info`] is the `gcov_info` of an object that GCC compiled. [`Info::check`] reads it from
//!   [`Memory`], by the layout of the version that it names: any of GCC 8 to 16. Invalid data is
//!   refused, with a [`Refusal`].
//! - [`Info::write`] writes its `gcda` file.
//! - [`LlvmFile`] does both for an object that LLVM compiled, from the calls of its code to the
//!   runtime.
//! - [`Gcda::parse`] reads such a file, and [`merge`] merges two.
//! - [`Profile`] writes a raw profile (`.profraw`) of the sections of source-based coverage, and
//!   [`merge_profiles`] merges two.
//!
//! Differences of mainline, which is built for one compiler: it writes 0 for the checksum, and
//! every zero. It writes the addresses of lists. It relies on the contents of memory, such as that
//! each function is present and belongs to the object. It adds all counters of every kind when it
//! merges.
//!
//! The engine checks an object when it is registered, and keeps the [`Info`]. To read it, the
//! engine allocates [`Info::max_len`] bytes, calls [`Info::write`], and returns the result in
//! pieces. So a reader gets the data of one pass, which does not change between two reads. For an
//! unloaded module, the engine keeps the same bytes: [`merge`] merges them with the bytes of the
//! module when it is loaded again. To reset an object, the engine zeroes the [`Set`]s of each
//! function.
//!
//! Contexts: any. Nothing here allocates, locks or panics, for any memory or bytes. The time is
//! proportional to the size of an object, so the caller should be able to sleep.

// Kbuild adds `no_std` to every crate itself.
#![cfg_attr(not(any(test, CONFIG_RUST)), no_std)]
#![forbid(unsafe_code)]

mod counter_merge;
mod format;
mod gcc_info;
mod llvm;
mod memory;
mod merge;
mod profraw;
mod profraw_merge;
mod read;
mod record;
mod refusal;
#[cfg(test)]
mod tests;
mod topn;
mod version;
mod write;
mod write_buf;

pub use gcc_info::Function;
pub use gcc_info::Info;
pub use gcc_info::Set;
pub use gcc_info::MAX_BYTES;
pub use gcc_info::MAX_FUNCTIONS;
pub use llvm::LlvmFile;
pub use llvm::LlvmFunction;
pub use memory::Memory;
pub use memory::Unreadable;
pub use merge::merge;
pub use merge::MergeError;
pub use profraw::Profile;
pub use profraw::ProfileRefusal;
pub use profraw::Section;
pub use profraw::Sections;
pub use profraw::MAX_PROFILE;
pub use profraw::PROFILE_VERSION;
pub use profraw_merge::is_profile;
pub use profraw_merge::merge_profiles;
pub use profraw_merge::profile_counters;
pub use profraw_merge::profile_names;
pub use profraw_merge::set_profile_counters;
pub use profraw_merge::ProfilesDiffer;
pub use read::Gcda;
pub use read::Malformed;
pub use read::Summary;
pub use record::Counters;
pub use record::Identity;
pub use record::Record;
pub use record::Records;
pub use record::Sets;
pub use refusal::Part;
pub use refusal::Refusal;
pub use version::Format;
pub use version::Kind;
pub use version::MergeFunction;
pub use version::Unit;
pub use version::Version;
pub use version::MAX_KINDS;
