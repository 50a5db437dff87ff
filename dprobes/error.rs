// SPDX-License-Identifier: GPL-2.0

//! Errors of commands: a number for the caller, and a text for the user.
//!
//! Contexts: process.
#![deny(unsafe_code)]

use core::num::TryFromIntError;

use ferro_dprobes_core::Reason;
use ferro_dprobes_core::Refusal;
use ferro_sys::fs::text_buffer::TextBuffer;
use kernel::alloc::AllocError;
use kernel::fmt;
use kernel::fmt::Write;
use kernel::prelude::*;

/// Error of a refused command.
pub(crate) struct CommandError {
    pub(crate) error: Error,
    /// Line without its newline; empty if there is no memory for it.
    pub(crate) text: KVVec<u8>,
}

impl CommandError {
    fn format(error: Error, text: fmt::Arguments<'_>) -> Self {
        let mut buffer = TextBuffer::new();
        // If memory is short, the text is, too.
        let _ = buffer.write_fmt(text);
        Self {
            error,
            text: buffer.into_bytes(),
        }
    }

    /// Makes an error with a text.
    pub(crate) fn new(error: Error, text: &str) -> Self {
        Self::format(error, fmt!("{text}"))
    }

    /// Makes an error about a program.
    pub(crate) fn program(error: Error, name: impl fmt::Display, text: &str) -> Self {
        Self::format(error, fmt!("{name}: {text}"))
    }

    /// Makes an error about a set.
    pub(crate) fn set(refusal: Refusal) -> Self {
        let error = match refusal.reason {
            Reason::NeedsPermission => EPERM,
            _ => EINVAL,
        };
        Self::format(error, format_args!("{refusal}"))
    }

    /// Makes an error about a location that cannot be probed, in a program with this name.
    pub(crate) fn location(error: Error, name: &CStr, location: impl fmt::Display) -> Self {
        let why = match error {
            e if e == ENOENT => "there is no such symbol or file",
            e if e == EILSEQ => "it is not the start of an instruction",
            e if e == EOPNOTSUPP => "this cannot be probed or watched",
            e if e == EINVAL => "it must not be probed, or is not code",
            e if e == ENXIO => "the file is shorter",
            e if e == ENOSPC || e == EBUSY => "no debug register is free",
            e if e == ENODEV => "the kprobes engine is not loaded",
            e if e == ENOMEM => "no memory",
            _ => "it was refused",
        };
        let number = error.to_errno();
        Self::format(error, fmt!("{name}: {location}: {why} ({number})"))
    }
}

impl From<Error> for CommandError {
    fn from(error: Error) -> Self {
        Self::format(error, fmt!("error {}", error.to_errno()))
    }
}

impl From<AllocError> for CommandError {
    fn from(_: AllocError) -> Self {
        Self::from(ENOMEM)
    }
}

impl From<TryFromIntError> for CommandError {
    fn from(_: TryFromIntError) -> Self {
        Self::from(EINVAL)
    }
}
