// SPDX-License-Identifier: GPL-2.0

//! `ferrotrace doctor`: the parts of this command that work on a machine, and the commands that
//! mend the others.
//!
//! [`system`] reads the files of a system and changes nothing, [`findings`] judges them, and
//! [`works`] concludes for each subcommand. Tests build a system below a directory.

#![deny(unsafe_code)]

mod findings;
mod report;
mod system;
mod works;

pub use report::Report;
