// SPDX-License-Identifier: GPL-2.0

//! The names of hooks and exits.
//!
//! Contexts: any.
#![deny(unsafe_code)]

use kernel::bindings;
use kernel::prelude::*;

/// Bytes of a name.
const NAME_MAX: usize = bindings::GKH_NAME_MAX as usize;

/// Whether a name can be one.
pub(crate) fn is_name(name: &CStr) -> bool {
    let bytes = name.to_bytes();
    let ok = |b: &u8| b.is_ascii_alphanumeric() || b"_-.".contains(b);
    (1..=NAME_MAX).contains(&bytes.len()) && bytes.iter().all(ok) && !bytes.starts_with(b".")
}

/// Whether a hook's directory would have the name of a file.
pub(crate) fn is_reserved(name: &CStr) -> bool {
    [c"hooks", c"arm", c"disarm"].contains(&name)
}
