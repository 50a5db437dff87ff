// SPDX-License-Identifier: GPL-2.0

//! Code coverage of a kernel that a compiler has instrumented: its gcov counters.
//!
//! [`control`] reads and resets the counters of the running kernel, [`dump`] is the one file that has them all,
//! [`select`] names some of its objects, and [`difference`] compares two dumps. A dump has counters only. What they mean
//! is in the `.gcno` file that the compiler wrote for each object: [`locate`] finds it, [`notes`] reads from it what a
//! `.gcda` file needs, and [`data`] writes that. [`objects`] does this for all objects, [`export`] leaves the files to
//! the user, and [`gcov`] and [`report`] have the compiler's own tool turn them into lines and functions ([`coverage`]),
//! which [`tracefile`] and [`print`] write.
//!
//! Rust code has no `.gcno` files: [`profile`] is what is counted in the image or a module, [`binaries`] finds that file,
//! and [`llvm`] has LLVM's programs read both.
//!
//! [`patch`] compares coverage, which may also be that of another tool's tracefile, with commits.

pub mod binaries;
pub mod control;
pub mod coverage;
pub mod data;
pub mod difference;
pub mod dump;
pub mod error;
pub mod export;
pub mod gcov;
pub mod listing;
pub mod live;
pub mod llvm;
pub mod locate;
pub mod notes;
pub mod objects;
pub mod output;
pub mod patch;
pub mod paths;
pub mod print;
pub mod profile;
pub mod report;
pub mod select;
pub mod sources;
pub mod tracefile;
pub mod version;
