// SPDX-License-Identifier: GPL-2.0

//! Target of a probe, as a client asks for it.
#![deny(unsafe_code)]

use ferro_sys::code::kallsyms;
use ferro_sys::code::kallsyms::NAME_LEN;
use kernel::prelude::*;
use kernel::str::CString;

use crate::error::ProbeError;
use crate::raw::kprobe::OwnedTarget;
use crate::raw::permissions::Untraceable;

/// Base of the offset.
#[derive(Clone, Copy)]
enum Base<'a> {
    Nothing,
    Symbol(&'a CStr),
    Name(&'a str),
    Address(usize),
}

/// Target in the kernel's code.
#[derive(Clone, Copy)]
pub(crate) struct Target<'a> {
    base: Base<'a>,
    offset: u32,
    is_disarmed: bool,
    /// The client has an [`Untraceable`].
    may_be_untraceable: bool,
}

impl<'a> Target<'a> {
    pub(crate) const NONE: Self = Self {
        base: Base::Nothing,
        offset: 0,
        is_disarmed: false,
        may_be_untraceable: false,
    };

    /// Makes a target at the start of the function of this name.
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

    pub(crate) fn untraceable(self, _permission: Untraceable) -> Self {
        Self {
            may_be_untraceable: true,
            ..self
        }
    }

    /// Returns the target with a copy of the symbol's name.
    ///
    /// Errors: `Untraceable` without the permission; `NoMemory`.
    pub(crate) fn owned(&self) -> Result<OwnedTarget, ProbeError> {
        let target = OwnedTarget {
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
        };
        match self.may_be_untraceable || is_traceable(&target) {
            true => Ok(target),
            false => Err(ProbeError::Untraceable),
        }
    }
}

/// Returns false, with a log message, if ftrace cannot trace the function there. Returns true for a
/// place that does not exist, which the engine refuses.
fn is_traceable(target: &OwnedTarget) -> bool {
    let Some(address) = target.resolved() else {
        return true;
    };
    let is_traceable = kallsyms::is_traceable(address);
    if !is_traceable {
        let mut name = [0; NAME_LEN];
        // The Rust engine logs its own refusals in the same way.
        let name = kallsyms::name_of(address, &mut name).unwrap_or(c"?");
        pr_info!("no probe at {name}: ftrace cannot trace the function\n");
    }
    is_traceable
}
