// SPDX-License-Identifier: GPL-2.0

//! Tests of Ferrotrace's pure logic that need other programs: a second decoder, the kernel's own, the CPU.
//!
//! The library has what the tests of `tests/` share.

pub mod corpus;
pub mod forms;
pub mod iced;
pub mod images;
pub mod kernel;
mod replay;

pub use replay::replay;
