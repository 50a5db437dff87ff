// SPDX-License-Identifier: GPL-2.0

//! File names, in the compilers' form and in the form of the debugfs tree.
#![deny(unsafe_code)]

use kernel::prelude::*;

/// Suffix of the link to the compiler's notes.
pub(crate) const NOTES: &[u8] = b".gcno";

/// Returns the last part of a path without `.tmp_`, the prefix that modversions adds during
/// compilation.
pub(crate) fn leaf(path: &[u8]) -> &[u8] {
    let leaf = split(path).1;
    leaf.strip_prefix(b".tmp_").unwrap_or(leaf)
}

/// Splits a path into its directory and its last part.
pub(crate) fn split(path: &[u8]) -> (&[u8], &[u8]) {
    match path.iter().rposition(|byte| *byte == b'/') {
        Some(at) => {
            let (dir, rest) = path.split_at(at);
            (dir, rest.get(1..).unwrap_or_default())
        }
        None => (&[], path),
    }
}

/// Returns a name without its extension.
pub(crate) fn stem(name: &[u8]) -> &[u8] {
    match name.iter().rposition(|byte| *byte == b'.') {
        Some(at) if at != 0 => name.split_at(at).0,
        _ => name,
    }
}

/// Returns a path without empty parts, `.` and `..`. The parent of the root is the root. Errors:
/// -ENOMEM.
pub(crate) fn normalized(path: &[u8]) -> Result<KVec<u8>> {
    let mut new = KVec::with_capacity(path.len(), GFP_KERNEL)?;
    for part in path.split(|byte| *byte == b'/') {
        match part {
            b"" | b"." => (),
            b".." => {
                let len = split(&new).0.len();
                new.truncate(len);
            }
            _ => {
                if !new.is_empty() {
                    new.push(b'/', GFP_KERNEL)?;
                }
                new.extend_from_slice(part, GFP_KERNEL)?;
            }
        }
    }
    Ok(new)
}

/// Returns the FNV-1a hash of a name.
pub(crate) fn hash(name: &[u8]) -> u64 {
    name.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}
