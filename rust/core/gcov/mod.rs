// SPDX-License-Identifier: GPL-2.0

//! Coverage: the data that compilers put into objects, and the files that `gcov`, `llvm-cov` and others read.
//!
//! - [`Info`] is the `gcov_info` of an object that GCC compiled. [`Info::check`] reads it from [`Memory`], by the layout of
//!   the version that it names: any of GCC 8 to 16. What does not fit is refused, with a [`Refusal`].
//! - [`Info::write`] writes its `gcda` file.
//! - [`LlvmFile`] is the same for an object that LLVM compiled, from what its code tells the runtime.
//! - [`Gcda::parse`] reads such a file, and [`merge`] merges two.
//! - [`Profile`] writes a raw profile (`.profraw`) of the sections that source-based coverage has, and [`merge_profiles`] merges two.
//!
//! Contexts: any. Nothing here allocates, locks or panics, whatever the memory or the bytes. It takes time in proportion to the
//! size of an object, so the caller should be able to sleep.

mod format;
mod groups;
mod info;
mod lists;
mod llvm;
mod memory;
mod merge;
mod output;
mod profraw;
mod profraw_merge;
mod read;
mod record;
mod refusal;
#[cfg(test)]
mod tests;
mod version;
mod write;

pub use info::Function;
pub use info::Info;
pub use info::Set;
pub use info::MAX_BYTES;
pub use info::MAX_FUNCTIONS;
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
pub use profraw_merge::merge_profiles;
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
pub use version::Version;
pub use version::MAX_KINDS;
