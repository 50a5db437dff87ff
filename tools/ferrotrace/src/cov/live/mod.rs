// SPDX-License-Identifier: GPL-2.0

//! Live coverage: the basic blocks of the running kernel that are executed, without a kernel that
//! was compiled for it.
//!
//! [`text`] reads the code, [`blocks`] finds the blocks of a function and where each can have a
//! breakpoint, and [`functions`] does so for the functions that a user selects. [`control`] has the
//! module's files, [`session`] puts the breakpoints there, and [`print`] and
//! [`lines`] show the result. [`server`] keeps a session in the background. [`run`] saves a
//! session in a file, with lists of `ranges`, and [`fleet`] merges those of many hosts.
//! Without the module, [`ftrace`] finds which functions are executed.

#![deny(unsafe_code)]

pub mod blocks;
pub mod control;
pub mod fleet;
pub mod ftrace;
pub mod functions;
pub mod lines;
pub mod print;
mod ranges;
pub mod run;
pub mod server;
pub mod session;
pub mod text;
