// SPDX-License-Identifier: GPL-2.0

//! Check that the caller can wait for dispatches.
//!
//! Contexts: any.
#![deny(unsafe_code)]

use ferro_sys::hook::can_wait;

use crate::error::Error;

/// Returns an error if the caller cannot wait for dispatches, as every change does.
pub(crate) fn check_context() -> Result<(), Error> {
    can_wait().then_some(()).ok_or(Error::CannotWait)
}
