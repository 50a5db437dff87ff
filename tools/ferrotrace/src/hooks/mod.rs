// SPDX-License-Identifier: GPL-2.0

//! The kernel's hooks, and the exits registered on them: the debugfs directory `gkhi`.
//!
//! [`registry`] reads and writes it, [`parse`] parses its text, [`select`] finds in it what the
//! user names; [`table`] shows it, and [`watch`] and [`report`] show what changes.

pub mod error;
pub mod model;
pub mod parse;
pub mod registry;
pub mod report;
#[cfg(test)]
mod sample;
pub mod select;
pub mod table;
pub mod watch;
