// SPDX-License-Identifier: GPL-2.0

//! Probes on an instruction.
//!
//! Contexts: handlers any, NMI included; the rest process.
#![deny(unsafe_code)]

use ferro_sys::sync::deferred::Deferred;
use kernel::error::VTABLE_DEFAULT_ERROR;
use kernel::prelude::*;

use crate::builder::Builder;
use crate::builder::Place;
use crate::context::Next;
use crate::context::ProbeCtx;
use crate::error::must_sleep;
use crate::error::ProbeError;
use crate::ffi::RawProbe;

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
        must_sleep()?;
        Ok(Self {
            raw: Deferred::new(RawProbe::register(place, handler))?,
        })
    }

    /// The handlers.
    pub fn handler(&self) -> &H {
        self.raw.handler()
    }

    /// The address of the probed instruction.
    pub fn address(&self) -> usize {
        self.raw.address()
    }

    /// Hits for which no handler was called, as one was running on this CPU already.
    pub fn missed(&self) -> usize {
        self.raw.missed()
    }

    /// Has the handlers called. Sleeps; refused in a handler.
    pub fn arm(&self) -> Result<(), ProbeError> {
        self.raw.arm()
    }

    /// Has the handlers called no longer. Sleeps, and is refused in a handler. One may still be running afterwards.
    pub fn disarm(&self) -> Result<(), ProbeError> {
        self.raw.disarm()
    }

    /// Whether the handlers are called: not if the probe is disarmed, or its code has gone with its module.
    pub fn is_armed(&self) -> bool {
        self.raw.is_armed()
    }
}
