// SPDX-License-Identifier: GPL-2.0

//! KUnit tests of the API, and through it of the active engine.
#![deny(unsafe_code)]

use kernel::prelude::*;
use kernel::sync::atomic::Atomic;
use kernel::sync::atomic::Relaxed;
use kernel::sync::Arc;

use crate::Next;
use crate::ProbeCtx;
use crate::ProbeHandler;
use crate::RetprobeHandler;

mod altering;
mod entries;
mod handlers;
mod registering;
mod returns;
mod self_removal;

/// Numbers noted by handlers.
struct Notes<const N: usize>([Atomic<usize>; N]);

impl<const N: usize> Notes<N> {
    fn new() -> Result<Arc<Self>> {
        Ok(Arc::new(Self([const { Atomic::new(0) }; N]), GFP_KERNEL)?)
    }

    fn set(&self, n: usize, value: usize) {
        self.0[n].store(value, Relaxed);
    }

    fn count(&self, n: usize) {
        self.0[n].fetch_add(1, Relaxed);
    }

    fn get(&self, n: usize) -> usize {
        self.0[n].load(Relaxed)
    }
}

/// Handler before the instruction.
struct Pre<F>(F);

#[vtable]
impl<F: Fn(&mut ProbeCtx<'_>) -> Next + Send + Sync + 'static> ProbeHandler for Pre<F> {
    fn pre(&self, ctx: &mut ProbeCtx<'_>) -> Next {
        (self.0)(ctx)
    }
}

/// Handler after the instruction.
struct Post<F>(F);

#[vtable]
impl<F: Fn(&mut ProbeCtx<'_>) + Send + Sync + 'static> ProbeHandler for Post<F> {
    fn post(&self, ctx: &mut ProbeCtx<'_>) {
        (self.0)(ctx)
    }
}

/// Handlers before and after the instruction.
struct Both<F, G>(F, G);

#[vtable]
impl<F, G> ProbeHandler for Both<F, G>
where
    F: Fn(&mut ProbeCtx<'_>) + Send + Sync + 'static,
    G: Fn(&mut ProbeCtx<'_>) + Send + Sync + 'static,
{
    fn pre(&self, ctx: &mut ProbeCtx<'_>) -> Next {
        (self.0)(ctx);
        Next::Continue
    }

    fn post(&self, ctx: &mut ProbeCtx<'_>) {
        (self.1)(ctx)
    }
}

/// Handler at the return.
struct Returned<F>(F);

#[vtable]
impl<F: Fn(&mut ProbeCtx<'_>, &mut usize) + Send + Sync + 'static> RetprobeHandler for Returned<F> {
    type Data = usize;

    fn returned(&self, ctx: &mut ProbeCtx<'_>, data: &mut usize) {
        (self.0)(ctx, data)
    }
}
