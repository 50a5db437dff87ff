// SPDX-License-Identifier: GPL-2.0

//! Names of hooks and exits.
//!
//! Contexts: any.
#![deny(unsafe_code)]

use kernel::bindings;
use kernel::prelude::*;

/// Maximum number of bytes of a name.
const NAME_MAX: usize = bindings::GKH_NAME_MAX as usize;

/// Returns true if `name` is valid for a hook or an exit.
pub(crate) fn is_name(name: &CStr) -> bool {
    let bytes = name.to_bytes();
    let ok = |b: &u8| b.is_ascii_alphanumeric() || b"_-.".contains(b);
    (1..=NAME_MAX).contains(&bytes.len()) && bytes.iter().all(ok) && !bytes.starts_with(b".")
}

/// Returns true if a hook's directory would have the name of a file.
pub(crate) fn is_reserved(name: &CStr) -> bool {
    [c"hooks", c"arm", c"disarm"].contains(&name)
}
