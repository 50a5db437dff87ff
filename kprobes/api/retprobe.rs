// SPDX-License-Identifier: GPL-2.0

//! Probes on the return of a function.
//!
//! Contexts: handlers any, NMI included; the rest process.
#![deny(unsafe_code)]

use ferro_sys::sync::deferred::Deferred;
use kernel::error::VTABLE_DEFAULT_ERROR;
use kernel::prelude::*;

use crate::builder::Place;
use crate::builder::RetBuilder;
use crate::context::ProbeCtx;
use crate::error::must_sleep;
use crate::error::ProbeError;
use crate::retprobe_ffi::RawRetprobe;

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

    pub(crate) fn register(
        place: Place<'_>,
        max_active: u32,
        handler: H,
    ) -> Result<Self, ProbeError> {
        must_sleep()?;
        Ok(Self {
            raw: Deferred::new(RawRetprobe::register(place, max_active, handler))?,
        })
    }

    /// The handlers.
    pub fn handler(&self) -> &H {
        self.raw.handler()
    }

    /// The address of the function's first instruction.
    pub fn address(&self) -> usize {
        self.raw.address()
    }

    /// Calls that were not followed since `max_active` others were going on.
    pub fn missed(&self) -> usize {
        self.raw.missed()
    }

    /// Calls that were not followed since they came from a handler.
    pub fn nested(&self) -> usize {
        self.raw.nested()
    }

    /// Has the handlers called. Sleeps; refused in a handler.
    pub fn arm(&self) -> Result<(), ProbeError> {
        self.raw.arm()
    }

    /// Has no more calls followed; those that are going on still are. Sleeps; refused in a handler.
    pub fn disarm(&self) -> Result<(), ProbeError> {
        self.raw.disarm()
    }

    /// Whether calls are followed: not if the probe is disarmed, or its code has gone with its module.
    pub fn is_armed(&self) -> bool {
        self.raw.is_armed()
    }
}
