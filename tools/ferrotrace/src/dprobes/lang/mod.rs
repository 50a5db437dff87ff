// SPDX-License-Identifier: GPL-2.0

//! The language of probe programs: files in, programs out, and back.
//!
//! [`source`] reads a file, [`token`] cuts its lines into tokens, [`parse`] makes programs of them, for which it uses [`field`],
//! [`command`] and [`expr`]; [`diagnostic`] shows what is wrong, all of it in one run. [`print`] writes programs as text again.

pub mod command;
pub mod diagnostic;
pub mod expr;
pub mod field;
pub mod parse;
pub mod print;
pub mod program;
pub mod source;
#[cfg(test)]
mod tests;
pub mod token;
mod verify;
