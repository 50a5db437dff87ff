// SPDX-License-Identifier: GPL-2.0

//! Probes on the return of a function.
//!
//! Contexts: handlers any, NMI included; the rest process.
#![deny(unsafe_code)]

use core::marker::PhantomData;

use ferro_sys::sync::deferred_drop::Deferred;
use kernel::error::VTABLE_DEFAULT_ERROR;
use kernel::prelude::*;

use crate::context::ProbeCtx;
use crate::error::must_sleep;
use crate::error::ProbeError;
use crate::raw::batch;
use crate::raw::regs::Regs;
use crate::raw::retprobe::RawRetprobe;
use crate::raw::retprobe::ReturnCallbacks;
use crate::raw::untraceable::Untraceable;
use crate::target::Place;

/// Whether the return of a call is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Keep {
    /// It is.
    Yes,
    /// It is not: `returned` is not called for this call.
    No,
}

/// What to do when a function with a [`Retprobe`] is called and returns.
///
/// Handlers of one probe can run on several CPUs at a time, but for one call one after the other.
#[vtable]
pub trait RetprobeHandler: Send + Sync + Sized + 'static {
    /// What is kept from the entry to the return, for each call. It is zero at first. At most 4096 bytes.
    type Data: Zeroable + Copy + Send;

    /// Before the first instruction of the function.
    ///
    /// Context: see the crate's documentation.
    fn entry(&self, _ctx: &mut ProbeCtx<'_>, _data: &mut Self::Data) -> Keep {
        build_error!(VTABLE_DEFAULT_ERROR)
    }

    /// When the function has returned.
    ///
    /// Context: see the crate's documentation.
    fn returned(&self, ctx: &mut ProbeCtx<'_>, data: &mut Self::Data);
}

impl<H: RetprobeHandler> ReturnCallbacks for H {
    type Kept = H::Data;

    const CALLS_ENTRY: bool = H::HAS_ENTRY;

    #[inline(always)]
    fn entered(&self, regs: &mut Regs, address: usize, data: &mut H::Data) -> bool {
        self.entry(&mut ProbeCtx::new(regs, address), data) == Keep::Yes
    }

    #[inline(always)]
    fn left(&self, regs: &mut Regs, address: usize, data: &mut H::Data) {
        self.returned(&mut ProbeCtx::new(regs, address), data);
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

    /// Permits a function that ftrace cannot trace.
    pub fn untraceable(self, permission: Untraceable) -> Self {
        Self {
            place: self.place.untraceable(permission),
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
        let (mut probes, refusal) = Retprobe::register_all([(self, handler)].into_iter())?;
        probes.pop().ok_or(refusal.unwrap_or(ProbeError::Refused))
    }
}

/// A probe on the return of a function, unregistered when it is dropped. Returns of calls that were made
/// before that are not reported afterwards.
///
/// A handler may drop it, its own one included. Then it is unregistered by a work item, until which calls are still
/// followed, and the handlers stay until none of them runs any more.
pub struct Retprobe<H: RetprobeHandler> {
    raw: Deferred<RawRetprobe<H>>,
}

impl<H: RetprobeHandler> Retprobe<H> {
    /// Describes a probe.
    pub fn builder<'a>() -> RetBuilder<'a, H> {
        RetBuilder::new()
    }

    /// Registers many, in their order, in less time than one after another takes, up to the first that is refused. Returns those before
    /// it, and why it is.
    ///
    /// Context: process; sleeps.
    pub fn register_all<'a>(
        all: impl Iterator<Item = (RetBuilder<'a, H>, H)>,
    ) -> Result<(KVVec<Self>, Option<ProbeError>), ProbeError> {
        must_sleep()?;
        let prepared = all.map(|(builder, handler)| {
            let target = builder.place.target()?;
            Ok(RawRetprobe::unregistered(
                target,
                builder.max_active,
                handler,
            )?)
        });
        batch::register_all(prepared, |raw| Self { raw })
    }

    /// Drops many probes, in less time than one after another takes: waits for their handlers once.
    pub fn drop_all(probes: impl Iterator<Item = Self>) {
        batch::drop_all(probes.map(|probe| probe.raw));
    }

    /// The handlers.
    pub fn handler(&self) -> &H {
        self.raw.handler()
    }

    /// The address of the function's first instruction.
    pub fn address(&self) -> usize {
        self.raw.registered().address()
    }

    /// Calls that were not followed since `max_active` others were going on.
    pub fn missed(&self) -> usize {
        self.raw.missed()
    }

    /// Calls that were not followed since they came from a handler.
    pub fn nested(&self) -> usize {
        self.raw.registered().missed()
    }

    /// Has the handlers called. Sleeps; refused in a handler.
    pub fn arm(&self) -> Result<(), ProbeError> {
        must_sleep()?;
        Ok(self.raw.registered().arm()?)
    }

    /// Has no more calls followed; those that are going on still are. Sleeps; refused in a handler.
    pub fn disarm(&self) -> Result<(), ProbeError> {
        must_sleep()?;
        Ok(self.raw.registered().disarm()?)
    }

    /// Whether calls are followed: not if the probe is disarmed, or its code has gone with its module.
    pub fn is_armed(&self) -> bool {
        self.raw.registered().is_armed()
    }
}
