// SPDX-License-Identifier: GPL-2.0

//! A probe that writes its hits to the channel.
//!
//! Contexts: handlers any, NMI included; the rest process. Handlers never nest on a CPU, and nobody else
//! writes to the channel, so no NMI writes into another write.
#![deny(unsafe_code)]

use ferro_core::probe_command::Kind;
use ferro_kprobe::Keep;
use ferro_kprobe::Next;
use ferro_kprobe::Probe;
use ferro_kprobe::ProbeCtx;
use ferro_kprobe::ProbeError;
use ferro_kprobe::ProbeHandler;
use ferro_kprobe::Retprobe;
use ferro_kprobe::RetprobeHandler;
use ferro_relay::Channel;
use ferro_sys::cpu::time::mono_fast_ns;
use kernel::prelude::*;
use kernel::sync::atomic::Atomic;
use kernel::sync::atomic::Relaxed;
use kernel::sync::Arc;

use crate::record::Record;

/// Calls of a function that are followed at a time. Those that sleep are many on a busy machine.
const MAX_ACTIVE: u32 = 128;

/// Where hits go.
struct Output {
    probe: u32,
    hits: Atomic<u64>,
    channel: Arc<Channel>,
}

impl Output {
    #[inline]
    fn put(&self, kind: Kind, ctx: &ProbeCtx<'_>, time: u64, duration: u64) {
        self.hits.fetch_add(1, Relaxed);
        let record = Record::new(self.probe, kind, ctx, time, duration);
        // The channel counts what it has no room for.
        let _ = self.channel.write_record(&record);
    }
}

pub(crate) struct OnPoint(Output);

#[vtable]
impl ProbeHandler for OnPoint {
    fn pre(&self, ctx: &mut ProbeCtx<'_>) -> Next {
        self.0.put(Kind::Point, ctx, mono_fast_ns(), 0);
        Next::Continue
    }
}

pub(crate) struct OnReturn(Output);

#[vtable]
impl RetprobeHandler for OnReturn {
    /// When the function was entered.
    type Data = u64;

    fn entry(&self, _ctx: &mut ProbeCtx<'_>, entered: &mut u64) -> Keep {
        *entered = mono_fast_ns();
        Keep::Yes
    }

    fn returned(&self, ctx: &mut ProbeCtx<'_>, entered: &mut u64) {
        let now = mono_fast_ns();
        // The clock is one that can seem to step back between CPUs.
        let duration = now.saturating_sub(*entered);
        self.0.put(Kind::Return, ctx, now, duration);
    }
}

/// Either kind of probe, registered.
pub(crate) enum Live {
    Point(Probe<OnPoint>),
    Return(Retprobe<OnReturn>),
}

impl Live {
    /// Registers a probe, whose hits are written as those of number `probe`.
    pub(crate) fn register(
        kind: Kind,
        symbol: &CStr,
        offset: u32,
        probe: u32,
        channel: Arc<Channel>,
    ) -> Result<Self, ProbeError> {
        let output = Output {
            probe,
            hits: Atomic::new(0),
            channel,
        };
        Ok(match kind {
            Kind::Point => {
                let place = Probe::builder().symbol(symbol).offset(offset);
                Self::Point(place.register(OnPoint(output))?)
            }
            Kind::Return => {
                let place = Retprobe::builder().symbol(symbol).max_active(MAX_ACTIVE);
                Self::Return(place.register(OnReturn(output))?)
            }
        })
    }

    pub(crate) fn kind(&self) -> Kind {
        match self {
            Self::Point(_) => Kind::Point,
            Self::Return(_) => Kind::Return,
        }
    }

    pub(crate) fn address(&self) -> usize {
        match self {
            Self::Point(probe) => probe.address(),
            Self::Return(probe) => probe.address(),
        }
    }

    pub(crate) fn hits(&self) -> u64 {
        let output = match self {
            Self::Point(probe) => &probe.handler().0,
            Self::Return(probe) => &probe.handler().0,
        };
        output.hits.load(Relaxed)
    }

    /// Hits that no handler was called for.
    pub(crate) fn missed(&self) -> usize {
        match self {
            Self::Point(probe) => probe.missed(),
            Self::Return(probe) => probe.missed().saturating_add(probe.nested()),
        }
    }

    /// Whether the probed code is still there.
    pub(crate) fn is_there(&self) -> bool {
        match self {
            Self::Point(probe) => probe.is_armed(),
            Self::Return(probe) => probe.is_armed(),
        }
    }
}
