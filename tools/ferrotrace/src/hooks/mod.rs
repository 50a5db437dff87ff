// SPDX-License-Identifier: GPL-2.0

//! The kernel's hooks, and the exits registered on them: the debugfs directory `gkhi`.
//!
//! [`registry`] reads and writes it, [`parse`] understands its text, [`select`] finds what the user
//! names in it; [`table`] shows it, [`watch`] and [`report`] what changes.

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
