// SPDX-License-Identifier: GPL-2.0

//! Probes on an instruction.
//!
//! Contexts: handlers any, NMI included; the rest process.
#![deny(unsafe_code)]

use core::marker::PhantomData;

use ferro_sys::mm::nofault;
use ferro_sys::sync::deferred_drop::Deferred;
use kernel::error::VTABLE_DEFAULT_ERROR;
use kernel::prelude::*;

use crate::context::Next;
use crate::context::ProbeCtx;
use crate::error::must_sleep;
use crate::error::ProbeError;
use crate::raw::batch;
use crate::raw::modify_token::Destination;
use crate::raw::probe::Callbacks;
use crate::raw::probe::RawProbe;
use crate::raw::regs::Regs;
use crate::raw::untraceable::Untraceable;
use crate::target::Place;

/// Bytes of code that [`Probe::copied`] tells, at least those of the instruction.
pub const COPIED: usize = 16;

/// What to do when a [`Probe`] is hit. Not implementing a method makes hits cheaper.
///
/// Handlers of one probe can run on several CPUs at a time.
#[vtable]
pub trait ProbeHandler: Send + Sync + Sized + 'static {
    /// Before the instruction.
    ///
    /// Context: see the crate's documentation.
    fn pre(&self, _ctx: &mut ProbeCtx<'_>) -> Next {
        build_error!(VTABLE_DEFAULT_ERROR)
    }

    /// After the instruction, unless `pre` of this or another probe went on elsewhere.
    ///
    /// Context: see the crate's documentation.
    fn post(&self, _ctx: &mut ProbeCtx<'_>) {
        build_error!(VTABLE_DEFAULT_ERROR)
    }
}

impl<H: ProbeHandler> Callbacks for H {
    const CALLS_BEFORE: bool = H::HAS_PRE;
    const CALLS_AFTER: bool = H::HAS_POST;

    #[inline(always)]
    fn before(&self, regs: &mut Regs, address: usize) -> Option<Destination> {
        match self.pre(&mut ProbeCtx::new(regs, address)) {
            Next::Continue => None,
            Next::Elsewhere(destination) => Some(destination),
        }
    }

    #[inline(always)]
    fn after(&self, regs: &mut Regs, next: usize) {
        self.post(&mut ProbeCtx::new(regs, next));
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
        Self::of(self.place.offset(offset))
    }

    /// Permits a function that ftrace cannot trace.
    pub fn untraceable(self, permission: Untraceable) -> Self {
        Self::of(self.place.untraceable(permission))
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

/// A probe on an instruction, unregistered when it is dropped.
///
/// A handler may drop it, its own one included. Then it is unregistered by a work item, until which hits still come,
/// and the handlers stay until no hit is being handled any more.
pub struct Probe<H: ProbeHandler> {
    raw: Deferred<RawProbe<H>>,
}

impl<H: ProbeHandler> Probe<H> {
    /// Describes a probe.
    pub fn builder<'a>() -> Builder<'a, H> {
        Builder::new()
    }

    pub(crate) fn register(place: Place<'_>, handler: H) -> Result<Self, ProbeError> {
        let (mut probes, refusal) =
            Self::register_all([(Builder::of(place), handler)].into_iter())?;
        probes.pop().ok_or(refusal.unwrap_or(ProbeError::Refused))
    }

    /// Registers many, in their order, in less time than one after another takes, up to the first that is refused. Returns those before
    /// it, and why it is.
    ///
    /// Context: process; sleeps.
    pub fn register_all<'a>(
        all: impl Iterator<Item = (Builder<'a, H>, H)>,
    ) -> Result<(KVVec<Self>, Option<ProbeError>), ProbeError> {
        must_sleep()?;
        let prepared = all.map(|(builder, handler)| {
            Ok(RawProbe::unregistered(builder.place.target()?, handler)?)
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

    /// The address of the probed instruction.
    pub fn address(&self) -> usize {
        self.raw.registered().address()
    }

    /// The first byte of the probed instruction, also while there is a breakpoint instead of it. `None` where ftrace has put its
    /// call, or a NOP, at the entry of a function.
    pub fn opcode(&self) -> Option<u8> {
        self.raw.registered().opcode()
    }

    /// The probed instruction in the engine's copy of it, and what follows there. In the copy the distance to an operand differs, where
    /// that is counted from the instruction. `None` where there is no copy, as ftrace has its call there, or the engine does what the
    /// instruction does.
    pub fn copied(&self) -> Option<[u8; COPIED]> {
        let mut code = [0; COPIED];
        self.opcode()?;
        match self.raw.registered().copy() {
            0 => None,
            // The engine keeps the copy as long as the probe, but there need not be so much after it.
            copy => nofault::read_kernel(copy, &mut code).then_some(code),
        }
    }

    /// Hits for which no handler was called, as one was running on this CPU already.
    pub fn missed(&self) -> usize {
        self.raw.registered().missed()
    }

    /// Has the handlers called. Sleeps; refused in a handler.
    pub fn arm(&self) -> Result<(), ProbeError> {
        must_sleep()?;
        Ok(self.raw.registered().arm()?)
    }

    /// Has the handlers called no longer. Sleeps, and is refused in a handler. One may still be running afterwards.
    pub fn disarm(&self) -> Result<(), ProbeError> {
        must_sleep()?;
        Ok(self.raw.registered().disarm()?)
    }

    /// Whether the handlers are called: not if the probe is disarmed, or its code has gone with its module.
    pub fn is_armed(&self) -> bool {
        self.raw.registered().is_armed()
    }
}
