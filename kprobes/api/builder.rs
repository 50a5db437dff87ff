// SPDX-License-Identifier: GPL-2.0

//! Where a probe is to be.
#![deny(unsafe_code)]

use core::marker::PhantomData;

use kernel::prelude::*;
use kernel::str::CString;

use crate::error::ProbeError;
use crate::probe::Probe;
use crate::probe::ProbeHandler;
use crate::retprobe::Retprobe;
use crate::retprobe::RetprobeHandler;

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
    pub(crate) offset: u32,
    pub(crate) is_disarmed: bool,
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

    /// A copy of the symbol's name, if it is one.
    pub(crate) fn symbol(&self) -> Result<Option<CString>, ProbeError> {
        Ok(match self.base {
            Base::Symbol(symbol) => Some(CString::try_from(symbol)?),
            Base::Name(name) => Some(CString::try_from_fmt(fmt!("{name}"))?),
            Base::Nothing | Base::Address(_) => None,
        })
    }

    /// The address, 0 if there is none.
    pub(crate) fn address(&self) -> usize {
        match self.base {
            Base::Address(address) => address,
            _ => 0,
        }
    }
}

/// Describes a [`Probe`] before it is registered.
pub struct Builder<'a, H> {
    place: Place<'a>,
    _handler: PhantomData<fn(H)>,
}

impl<'a, H: ProbeHandler> Builder<'a, H> {
    pub(crate) fn new() -> Self {
        Self::of(Place::NONE)
    }

    fn of(place: Place<'a>) -> Self {
        Self {
            place,
            _handler: PhantomData,
        }
    }

    /// A function of the kernel, or of a module. A landing pad of indirect branches at its start is skipped.
    pub fn symbol(self, symbol: &'a CStr) -> Self {
        Self::of(self.place.symbol_at(symbol))
    }

    /// An address in place of a symbol.
    pub fn address(self, address: usize) -> Self {
        Self::of(self.place.address_at(address))
    }

    /// Bytes from there to the instruction.
    pub fn offset(self, offset: u32) -> Self {
        Self::of(Place {
            offset,
            ..self.place
        })
    }

    /// The handlers are not called before [`Probe::arm`].
    pub fn disarmed(self) -> Self {
        Self::of(self.place.disarmed())
    }

    /// Registers the probe.
    ///
    /// Context: process; sleeps.
    pub fn register(self, handler: H) -> Result<Probe<H>, ProbeError> {
        Probe::register(self.place, handler)
    }
}

/// Describes a [`Retprobe`] before it is registered.
pub struct RetBuilder<'a, H> {
    place: Place<'a>,
    max_active: u32,
    _handler: PhantomData<fn(H)>,
}

impl<'a, H: RetprobeHandler> RetBuilder<'a, H> {
    pub(crate) fn new() -> Self {
        Self {
            place: Place::NONE,
            max_active: 0,
            _handler: PhantomData,
        }
    }

    /// A function of the kernel, or of a module.
    pub fn symbol(self, symbol: &'a CStr) -> Self {
        Self {
            place: self.place.symbol_at(symbol),
            ..self
        }
    }

    /// The address of a function in place of its symbol.
    pub fn address(self, address: usize) -> Self {
        Self {
            place: self.place.address_at(address),
            ..self
        }
    }

    /// The handlers are not called before [`Retprobe::arm`].
    pub fn disarmed(self) -> Self {
        Self {
            place: self.place.disarmed(),
            ..self
        }
    }

    /// How many calls of the function can be followed at a time. Memory for them is allocated at once. The
    /// default, 0, stands for twice the number of CPUs, and at least 10. More than 64 MiB of it is refused.
    pub fn max_active(self, max_active: u32) -> Self {
        Self { max_active, ..self }
    }

    /// Registers the probe.
    ///
    /// Context: process; sleeps.
    pub fn register(self, handler: H) -> Result<Retprobe<H>, ProbeError> {
        Retprobe::register(self.place, self.max_active, handler)
    }
}
