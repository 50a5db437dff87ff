// SPDX-License-Identifier: GPL-2.0

//! Reading recordings: the records of all CPUs in the order of their times, as text, as JSON or
//! as a Common Trace Format trace of version 1.8 or 2; [`crate::export`] has more formats.
//!
//! A [`source`] finds the records in the file of a CPU, [`order`] merges the files, a [`sink`]
//! writes; [`run`] puts these together. Memory is bounded, however long the recording is.

pub mod calls;
pub mod ctf;
mod ctf2;
pub mod field;
pub mod format;
pub mod lines;
pub mod order;
pub mod recording;
pub mod run;
pub mod sink;
pub mod source;
mod tsdl;
pub mod value;
