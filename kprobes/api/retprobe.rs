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
use crate::raw::permissions::Untraceable;
use crate::raw::regs::Regs;
use crate::raw::retprobe::RawRetprobe;
use crate::raw::retprobe::ReturnCallbacks;
use crate::target::Target;

/// Answer of an entry handler: follow the call to its return or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Keep {
    /// Follows the call.
    Yes,
    /// Does not follow it: `returned` is not called for this call.
    No,
}

/// Handlers for the calls and returns of a function with a [`Retprobe`].
///
/// Handlers of one probe may run on several CPUs at a time. The handlers of one call run one after
/// the other.
#[vtable]
pub trait RetprobeHandler: Send + Sync + Sized + 'static {
    /// Data kept from the entry to the return of each call, zero at first. At most 4096 bytes.
    type Data: Zeroable + Copy + Send;

    /// Runs before the first instruction of the function.
    ///
    /// Context: see the crate's documentation.
    fn entry(&self, _ctx: &mut ProbeCtx<'_>, _data: &mut Self::Data) -> Keep {
        build_error!(VTABLE_DEFAULT_ERROR)
    }

    /// Runs after the function has returned.
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

/// Builder for a [`Retprobe`].
pub struct RetBuilder<'a, H> {
    target: Target<'a>,
    max_active: u32,
    _handler: PhantomData<fn(H)>,
}

impl<'a, H: RetprobeHandler> RetBuilder<'a, H> {
    pub(crate) fn new() -> Self {
        Self {
            target: Target::NONE,
            max_active: 0,
            _handler: PhantomData,
        }
    }

    /// Probes a function of the kernel, or of a module.
    pub fn symbol(self, symbol: &'a CStr) -> Self {
        Self {
            target: self.target.symbol_at(symbol),
            ..self
        }
    }

    /// Probes the function at an address instead of a symbol.
    pub fn address(self, address: usize) -> Self {
        Self {
            target: self.target.address_at(address),
            ..self
        }
    }

    /// Permits a function that ftrace cannot trace.
    pub fn untraceable(self, permission: Untraceable) -> Self {
        Self {
            target: self.target.untraceable(permission),
            ..self
        }
    }

    /// Leaves the probe disarmed until [`Retprobe::arm`].
    pub fn disarmed(self) -> Self {
        Self {
            target: self.target.disarmed(),
            ..self
        }
    }

    /// Sets the maximum number of calls that can be followed at a time. Their memory is allocated
    /// at once; more than 64 MiB is refused. The default, 0, means twice the number of CPUs, and at
    /// least 10.
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

/// Probe on the return of a function, unregistered by the drop. Returns after the drop are not
/// reported, even of earlier calls.
///
/// A handler may drop any probe, even its own. Then a work item unregisters it; until then calls
/// are still followed. The handlers are dropped after the last of them has returned.
pub struct Retprobe<H: RetprobeHandler> {
    raw: Deferred<RawRetprobe<H>>,
}

impl<H: RetprobeHandler> Retprobe<H> {
    /// Returns a builder for a probe.
    pub fn builder<'a>() -> RetBuilder<'a, H> {
        RetBuilder::new()
    }

    /// Registers many probes in their order, faster than one by one, up to the first refusal.
    /// Returns the registered ones and the refusal.
    ///
    /// Context: process; sleeps.
    pub fn register_all<'a>(
        all: impl Iterator<Item = (RetBuilder<'a, H>, H)>,
    ) -> Result<(KVVec<Self>, Option<ProbeError>), ProbeError> {
        must_sleep()?;
        let prepared = all.map(|(builder, handler)| {
            let target = builder.target.owned()?;
            Ok(RawRetprobe::unregistered(
                target,
                builder.max_active,
                handler,
            )?)
        });
        batch::register_all(prepared, |raw| Self { raw })
    }

    /// Drops many probes faster than one by one: waits for their handlers once.
    pub fn drop_all(probes: impl Iterator<Item = Self>) {
        batch::drop_all(probes.map(|probe| probe.raw));
    }

    /// Returns the handlers.
    pub fn handler(&self) -> &H {
        self.raw.handler()
    }

    /// Returns the address of the function's first instruction.
    pub fn address(&self) -> usize {
        self.raw.registered().address()
    }

    /// Returns the number of calls that were not followed because `max_active` others were active.
    pub fn missed(&self) -> usize {
        self.raw.missed()
    }

    /// Returns the number of calls that were not followed because a handler made them.
    pub fn nested(&self) -> usize {
        self.raw.registered().missed()
    }

    /// Arms the probe. Sleeps; refused in a handler.
    pub fn arm(&self) -> Result<(), ProbeError> {
        must_sleep()?;
        Ok(self.raw.registered().arm()?)
    }

    /// Disarms the probe: new calls are not followed, active ones still are. Sleeps; refused in a
    /// handler.
    pub fn disarm(&self) -> Result<(), ProbeError> {
        must_sleep()?;
        Ok(self.raw.registered().disarm()?)
    }

    /// Returns true if the probe is armed: not disarmed, and its code not unloaded.
    pub fn is_armed(&self) -> bool {
        self.raw.registered().is_armed()
    }
}
