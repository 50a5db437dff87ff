// SPDX-License-Identifier: GPL-2.0

//! Locations of points.
//!
//! Contexts: process.
#![deny(unsafe_code)]

use ferro_dprobes_core::ModuleKind;
use ferro_dprobes_core::PointRef;
use kernel::fmt;
use kernel::prelude::*;
use kernel::str::CString;

/// Location of a point.
pub(crate) enum Location {
    /// Symbol of the kernel, and an offset.
    Kernel(CString, u64),
    /// Symbol of a module in the form `module:symbol`, and an offset.
    Module(CString, u64),
    /// Address.
    Address(u64),
    /// File, and an offset.
    File(CString, u64),
    /// Address that a program supplies.
    Later,
}

impl Location {
    /// Makes the location of a point of a program with this kind and name. Errors: -ENOMEM, -EINVAL
    /// for a name that is not UTF-8.
    pub(crate) fn new(kind: ModuleKind, name: &CStr, point: &PointRef<'_>) -> Result<Self> {
        let offset = point.point.offset;
        let symbol = point.symbol;
        // A C string is formatted with escapes for bytes that are not ASCII: no file has that name.
        let name = name.to_str().map_err(|_| EINVAL)?;
        Ok(match kind {
            _ if point.point.is_later => Self::Later,
            _ if point.point.is_absolute => Self::Address(offset),
            ModuleKind::User => Self::File(CString::try_from_fmt(fmt!("{name}"))?, offset),
            ModuleKind::Kernel => Self::Kernel(CString::try_from_fmt(fmt!("{symbol}"))?, offset),
            ModuleKind::Module => {
                Self::Module(CString::try_from_fmt(fmt!("{name}:{symbol}"))?, offset)
            }
        })
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kernel(symbol, offset) | Self::Module(symbol, offset) => {
                f.write_fmt(fmt!("{}+{offset:#x}", **symbol))
            }
            Self::Address(address) => f.write_fmt(fmt!("{address:#x}")),
            Self::File(_, offset) => f.write_fmt(fmt!("{offset:#x}")),
            Self::Later => f.write_str("later"),
        }
    }
}
