// SPDX-License-Identifier: GPL-2.0

//! Coverage: the data that compilers put into objects, and the files that `gcov`, `llvm-cov` and others read.
//!
//! - [`Info`] is the `gcov_info` of an object that GCC compiled. [`Info::check`] reads it from [`Memory`], by the
//!   layout of the version that it names: any of GCC 8 to 16. What does not fit is refused, with a [`Refusal`].
//! - [`Info::write`] writes its `gcda` file.
//! - [`LlvmFile`] is the same for an object that LLVM compiled, from what its code tells the runtime.
//! - [`Gcda::parse`] reads such a file, and [`merge`] merges two.
//! - [`Profile`] writes a raw profile (`.profraw`) of the sections that source-based coverage has, and
//!   [`merge_profiles`] merges two.
//!
//! Where mainline differs, which is built for one compiler: it writes 0 for the checksum, and every zero; it writes
//! the addresses of lists; it relies on what is in memory, such as that each function is there and belongs to the
//! object; and it adds all counters when it merges, whatever their kind.
//!
//! The engine checks an object when it is registered, and keeps the [`Info`]. To read it, it allocates
//! [`Info::max_len`] bytes, calls [`Info::write`], and gives out the result in pieces: so what a reader gets is from one
//! pass, and does not change between two reads. The same bytes are what is kept of a module that is unloaded:
//! [`merge`] takes them and those of the module that is loaded again. To reset an object, the engine zeroes the
//! [`Set`]s of each function.
//!
//! Contexts: any. Nothing here allocates, locks or panics, whatever the memory or the bytes. It takes time in
//! proportion to the size of an object, so the caller should be able to sleep.

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
