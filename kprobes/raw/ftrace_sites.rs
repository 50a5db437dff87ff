// SPDX-License-Identifier: GPL-2.0

//! Sets of ftrace sites at which the engine is called.
//!
//! Contexts: as [`FtraceOps`] and [`FtraceData`].

use core::marker::PhantomData;

use ferro_sys::code::ftrace_data::DataHandler;
use ferro_sys::code::ftrace_data::FtraceData;
use ferro_sys::code::ftrace_data::SiteData;
use ferro_sys::code::ftrace_ops::FtraceHandler;
use ferro_sys::code::ftrace_ops::FtraceOps;
use ferro_sys::code::regs::Regs;
use ferro_sys::cpu::preempt::PreemptOff;
use kernel::prelude::*;
use kernel::rbtree::RBTree;
use kernel::rbtree::RBTreeNode;
use kernel::sync::Arc;

use super::address_map::Found;
use super::tasks_rcu::Since;
use super::tasks_rcu::TasksPeriod;
use super::trap_hooks::TrapHandler;
use crate::probe_point::Point;

/// Calls a [`TrapHandler`] of probes without a post handler.
pub(crate) struct Caller<H>(PhantomData<fn(H)>);

/// Calls a [`TrapHandler`] of probes with one.
pub(crate) struct PostCaller<H>(PhantomData<fn(H)>);

impl<H: TrapHandler> DataHandler for Caller<H> {
    type Data = Point;

    #[inline(always)]
    fn call(_ip: usize, point: &Point, regs: &mut Regs) {
        let here = PreemptOff::new();
        H::called(Found::known(point, &here), regs);
    }
}

impl<H: TrapHandler> FtraceHandler for PostCaller<H> {
    #[inline(always)]
    fn call(ip: usize, _parent_ip: usize, regs: &mut Regs) {
        H::called_with_post(ip, regs);
    }
}

/// For [`Observed`].
pub(crate) const fn observing<H: TrapHandler>() -> FtraceData<Caller<H>> {
    // SAFETY: `TrapHandler` guarantees what is wanted of the handler; the engine closes its sets when it goes.
    unsafe { FtraceData::new() }
}

/// A set for probes that are alone in changing where execution goes on.
pub(crate) const fn ip_modifying<H: TrapHandler>() -> FtraceOps<PostCaller<H>> {
    // SAFETY: `TrapHandler` guarantees what is wanted of the handler; the engine closes its sets when it goes.
    unsafe { FtraceOps::modifying() }
}

/// A point, as long as somebody may be called with it.
struct Held {
    point: Arc<Point>,
    /// Its site could not be taken out, and nobody wants it any more.
    abandoned: bool,
    /// When its site was taken out.
    left: Since,
    next: Option<KBox<Held>>,
}

/// The functions of probes without a post handler, beside which others may divert; each is called with its point.
///
/// # Invariants
///
/// Each function that was added by this has its point in `calling` or, from when it was taken out until nobody is called with it any
/// more, in `left`.
pub(crate) struct Observed<H: TrapHandler> {
    functions: &'static FtraceData<Caller<H>>,
    /// By the address of their sites.
    calling: RBTree<usize, KBox<Held>>,
    left: Option<KBox<Held>>,
    /// How many of `calling` are abandoned.
    abandoned: usize,
    /// ftrace has had functions of this since it was last told to be closed.
    open: bool,
}

impl<H: TrapHandler> Observed<H> {
    /// None yet.
    pub(crate) fn new(functions: &'static FtraceData<Caller<H>>) -> Self {
        // INVARIANT: Nothing was added.
        Self {
            functions,
            calling: RBTree::new(),
            left: None,
            abandoned: 0,
            open: false,
        }
    }

    /// Has the handler called at the sites of some more points: all or, when it fails, none.
    ///
    /// Errors: -EINVAL if there is no site; -EEXIST if one has been added; -ENOMEM; -ENODEV if ftrace has broken down.
    pub(crate) fn add<'a>(
        &mut self,
        points: impl ExactSizeIterator<Item = &'a Arc<Point>>,
    ) -> Result {
        if points.len() == 0 {
            return Ok(());
        }
        self.sweep()?;
        let mut sites = KVVec::with_capacity(points.len(), GFP_KERNEL)?;
        let mut nodes = KVVec::with_capacity(points.len(), GFP_KERNEL)?;
        for point in points {
            let held = Held {
                point: point.clone(),
                abandoned: false,
                left: Since::now(),
                next: None,
            };
            sites.push(SiteData::new(point.address, &**point), GFP_KERNEL)?;
            let held = KBox::new(held, GFP_KERNEL)?;
            let node = RBTreeNode::new(point.address, held, GFP_KERNEL)?;
            nodes.push(node, GFP_KERNEL)?;
        }
        // Also if it fails late.
        self.open = true;
        // SAFETY: By the type invariant each point is counted here until nobody is called with it; if this fails, those of `nodes`
        // are, for ever if it is with -ENODEV.
        if let Err(error) = unsafe { self.functions.add(&sites) } {
            if error == ENODEV {
                core::mem::forget(nodes);
            }
            return Err(error);
        }
        // INVARIANT: They have been added.
        while let Some(node) = nodes.pop() {
            // None of them was there: the function would have failed.
            core::mem::forget(self.calling.insert(node));
        }
        Ok(())
    }

    /// Has it no longer called there. Errors: -ENOENT if one has not been added, -ENOMEM, -ENODEV; then it is called at all of them.
    pub(crate) fn remove(&mut self, sites: &[usize]) -> Result {
        self.functions.remove(sites)?;
        for site in sites {
            if let Some(mut held) = self.calling.remove(site) {
                self.abandoned = self.abandoned.saturating_sub(usize::from(held.abandoned));
                // INVARIANT: It has been taken out.
                held.left = Since::now();
                held.next = self.left.take();
                self.left = Some(held);
            }
        }
        Ok(())
    }

    /// The same, for a caller that has no use for an error: without memory for it the handler is called there until there is some, at
    /// the next change.
    pub(crate) fn abandon(&mut self, site: usize) {
        if self.remove(&[site]).is_ok() {
            return;
        }
        if let Some(held) = self.calling.get_mut(&site) {
            self.abandoned += usize::from(!held.abandoned);
            held.abandoned = true;
        }
    }

    /// Takes out what was abandoned and is still there. Errors: -ENOMEM, -ENODEV.
    pub(crate) fn sweep(&mut self) -> Result {
        while self.abandoned != 0 {
            let abandoned = self.calling.values().find(|held| held.abandoned);
            let Some(site) = abandoned.map(|held| held.point.address) else {
                break;
            };
            self.remove(&[site])?;
        }
        Ok(())
    }

    /// Whether there is something that [`Self::release`] will give up: points, or, if there are none, what ftrace has.
    pub(crate) fn any_left(&self) -> bool {
        self.left.is_some() || self.is_idle()
    }

    fn is_idle(&self) -> bool {
        self.open && self.calling.is_empty()
    }

    /// Gives up the points that this period was long enough for. Whether that was the last: then the functions are to be closed, if
    /// they are still idle, without locks.
    pub(crate) fn release(&mut self, period: &TasksPeriod) -> bool {
        let mut all = self.left.take();
        while let Some(mut held) = all {
            all = held.next.take();
            if !held.left.is_over(period) {
                held.next = self.left.take();
                self.left = Some(held);
            }
        }
        let over = self.left.is_none() && self.is_idle();
        if over {
            self.open = false;
        }
        over
    }

    /// Takes all out, and waits until the handler is not called any more.
    pub(crate) fn close(&mut self) {
        let calling = core::mem::take(&mut self.calling);
        if self.functions.close().is_err() {
            // Functions may call with them for ever.
            core::mem::forget(calling);
            core::mem::forget(self.left.take());
        }
        self.abandoned = 0;
        self.open = false;
        // One by one: dropping the first would drop all within each other.
        while let Some(mut held) = self.left.take() {
            self.left = held.next.take();
        }
    }
}

impl<H: TrapHandler> Drop for Observed<H> {
    fn drop(&mut self) {
        self.close();
    }
}
