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
use crate::raw::permissions::Destination;
use crate::raw::permissions::Untraceable;
use crate::raw::probe::Callbacks;
use crate::raw::probe::RawProbe;
use crate::raw::regs::Regs;
use crate::target::Target;

/// Number of code bytes that [`Probe::copied`] returns, at least the instruction's length.
pub const COPIED: usize = 16;

/// Handlers for the hits of a [`Probe`]. Leaving a method out makes hits cheaper.
///
/// Handlers of one probe may run on several CPUs at a time.
#[vtable]
pub trait ProbeHandler: Send + Sync + Sized + 'static {
    /// True if `pre` may continue elsewhere. With false, an answer to do so has no effect.
    ///
    /// Mainline's engine ignores such an answer where it has put a jump in place of the breakpoint.
    /// With true it puts none, and hits cost more.
    const MAY_GO_ELSEWHERE: bool = true;

    /// Runs before the instruction.
    ///
    /// Context: see the crate's documentation.
    fn pre(&self, _ctx: &mut ProbeCtx<'_>) -> Next {
        build_error!(VTABLE_DEFAULT_ERROR)
    }

    /// Runs after the instruction, unless `pre` of this or another probe continued elsewhere.
    ///
    /// On mainline's engine, at an ftrace site, it runs directly after `pre` of this probe: before
    /// `pre` of the next probe there.
    ///
    /// Context: see the crate's documentation.
    fn post(&self, _ctx: &mut ProbeCtx<'_>) {
        build_error!(VTABLE_DEFAULT_ERROR)
    }
}

impl<H: ProbeHandler> Callbacks for H {
    const CALLS_BEFORE: bool = H::HAS_PRE;
    const CALLS_AFTER: bool = H::HAS_POST;
    const MAY_GO_ELSEWHERE: bool = H::MAY_GO_ELSEWHERE;

    #[inline(always)]
    fn before(&self, regs: &mut Regs, address: usize) -> Option<Destination> {
        match self.pre(&mut ProbeCtx::new(regs, address)) {
            Next::Elsewhere(destination) if H::MAY_GO_ELSEWHERE => Some(destination),
            _ => None,
        }
    }

    #[inline(always)]
    fn after(&self, regs: &mut Regs, next: usize) {
        self.post(&mut ProbeCtx::new(regs, next));
    }
}

/// Builder for a [`Probe`].
pub struct Builder<'a, H> {
    target: Target<'a>,
    _handler: PhantomData<fn(H)>,
}

impl<'a, H: ProbeHandler> Builder<'a, H> {
    pub(crate) fn new() -> Self {
        Self::of(Target::NONE)
    }

    fn of(target: Target<'a>) -> Self {
        Self {
            target,
            _handler: PhantomData,
        }
    }

    /// Probes a function of the kernel, or of a module. Skips an indirect-branch landing pad at its
    /// start.
    pub fn symbol(self, symbol: &'a CStr) -> Self {
        Self::of(self.target.symbol_at(symbol))
    }

    /// Probes an address instead of a symbol.
    pub fn address(self, address: usize) -> Self {
        Self::of(self.target.address_at(address))
    }

    /// Sets the offset of the instruction in bytes.
    pub fn offset(self, offset: u32) -> Self {
        Self::of(self.target.offset(offset))
    }

    /// Permits a function that ftrace cannot trace.
    pub fn untraceable(self, permission: Untraceable) -> Self {
        Self::of(self.target.untraceable(permission))
    }

    /// Leaves the probe disarmed until [`Probe::arm`].
    pub fn disarmed(self) -> Self {
        Self::of(self.target.disarmed())
    }

    /// Registers the probe.
    ///
    /// Context: process; sleeps.
    pub fn register(self, handler: H) -> Result<Probe<H>, ProbeError> {
        Probe::register(self.target, handler)
    }
}

/// Probe on an instruction, unregistered by the drop.
///
/// A handler may drop any probe, even its own. Then a work item unregisters it; until then hits are
/// still handled. The handlers are dropped after the last hit has been handled.
pub struct Probe<H: ProbeHandler> {
    raw: Deferred<RawProbe<H>>,
}

impl<H: ProbeHandler> Probe<H> {
    /// Returns a builder for a probe.
    pub fn builder<'a>() -> Builder<'a, H> {
        Builder::new()
    }

    pub(crate) fn register(target: Target<'_>, handler: H) -> Result<Self, ProbeError> {
        let (mut probes, refusal) =
            Self::register_all([(Builder::of(target), handler)].into_iter())?;
        probes.pop().ok_or(refusal.unwrap_or(ProbeError::Refused))
    }

    /// Registers many probes in their order, faster than one by one, up to the first refusal.
    /// Returns the registered ones and the refusal.
    ///
    /// Context: process; sleeps.
    pub fn register_all<'a>(
        all: impl Iterator<Item = (Builder<'a, H>, H)>,
    ) -> Result<(KVVec<Self>, Option<ProbeError>), ProbeError> {
        must_sleep()?;
        let prepared = all.map(|(builder, handler)| {
            Ok(RawProbe::unregistered(builder.target.owned()?, handler)?)
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

    /// Returns the address of the probed instruction.
    pub fn address(&self) -> usize {
        self.raw.registered().address()
    }

    /// Returns the first byte of the probed instruction, even while a breakpoint replaces it.
    /// Returns `None` for an ftrace site at the entry of a function, which has a call or a NOP.
    pub fn opcode(&self) -> Option<u8> {
        self.raw.registered().opcode()
    }

    /// Returns the engine's copy of the probed instruction, and the bytes that follow it. In the
    /// copy, RIP-relative distances differ from the original. Returns `None` without a copy: at an
    /// ftrace site, or if the engine emulates the instruction.
    pub fn copied(&self) -> Option<[u8; COPIED]> {
        let mut code = [0; COPIED];
        self.opcode()?;
        match self.raw.registered().copy() {
            0 => None,
            // The engine keeps the copy as long as the probe, but fewer than `COPIED` bytes may be
            // readable.
            copy => nofault::read_kernel(copy, &mut code).then_some(code),
        }
    }

    /// Returns the number of missed hits, where a handler was already running on this CPU.
    pub fn missed(&self) -> usize {
        self.raw.registered().missed()
    }

    /// Arms the probe. Sleeps; refused in a handler.
    pub fn arm(&self) -> Result<(), ProbeError> {
        must_sleep()?;
        Ok(self.raw.registered().arm()?)
    }

    /// Disarms the probe. Sleeps; refused in a handler. A handler may still be running afterwards.
    pub fn disarm(&self) -> Result<(), ProbeError> {
        must_sleep()?;
        Ok(self.raw.registered().disarm()?)
    }

    /// Returns true if the probe is armed: not disarmed, and its code not unloaded.
    pub fn is_armed(&self) -> bool {
        self.raw.registered().is_armed()
    }
}
