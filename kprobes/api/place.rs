// SPDX-License-Identifier: GPL-2.0

//! Where a client asks for a probe.
#![deny(unsafe_code)]

use kernel::prelude::*;
use kernel::str::CString;

use crate::error::ProbeError;
use crate::raw::kprobe::Target;

/// What the offset counts from.
#[derive(Clone, Copy)]
enum Base<'a> {
    Nothing,
    Symbol(&'a CStr),
    Name(&'a str),
    Address(usize),
}

/// A place in the kernel's code.
#[derive(Clone, Copy)]
pub(crate) struct Place<'a> {
    base: Base<'a>,
    offset: u32,
    is_disarmed: bool,
}

impl<'a> Place<'a> {
    pub(crate) const NONE: Self = Self {
        base: Base::Nothing,
        offset: 0,
        is_disarmed: false,
    };

    /// The start of the function of this name.
    pub(crate) fn of_function(name: &'a str) -> Self {
        Self {
            base: Base::Name(name),
            ..Self::NONE
        }
    }

    pub(crate) fn symbol_at(self, symbol: &'a CStr) -> Self {
        Self {
            base: Base::Symbol(symbol),
            ..self
        }
    }

    pub(crate) fn address_at(self, address: usize) -> Self {
        Self {
            base: Base::Address(address),
            ..self
        }
    }

    pub(crate) fn disarmed(self) -> Self {
        Self {
            is_disarmed: true,
            ..self
        }
    }

    pub(crate) fn offset(self, offset: u32) -> Self {
        Self { offset, ..self }
    }

    /// With a copy of the symbol's name, if it is one.
    pub(crate) fn target(&self) -> Result<Target, ProbeError> {
        Ok(Target {
            symbol: match self.base {
                Base::Symbol(symbol) => Some(CString::try_from(symbol)?),
                Base::Name(name) => Some(CString::try_from_fmt(fmt!("{name}"))?),
                Base::Nothing | Base::Address(_) => None,
            },
            address: match self.base {
                Base::Address(address) => address,
                Base::Nothing | Base::Symbol(_) | Base::Name(_) => 0,
            },
            offset: self.offset,
            is_disarmed: self.is_disarmed,
        })
    }
}
