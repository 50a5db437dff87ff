// SPDX-License-Identifier: GPL-2.0

//! The sets of ftrace sites from which the engine is called.
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

use super::grace_period::Since;
use super::grace_period::TasksPeriod;
use super::lookup::Found;
use super::probe_point::Point;
use super::trap_hooks::TrapHandler;

/// Calls a [`TrapHandler`] for probes without a post-handler.
pub(crate) struct Caller<H>(PhantomData<fn(H)>);

/// Calls a [`TrapHandler`] for probes with a post-handler.
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

/// Makes the set for [`Observed`].
pub(crate) const fn observing<H: TrapHandler>() -> FtraceData<Caller<H>> {
    // SAFETY: `TrapHandler` guarantees the requirements on the handler; the engine closes its sets
    // when it stops.
    unsafe { FtraceData::new() }
}

/// Makes a set for probes that are the only user to change the instruction pointer.
pub(crate) const fn ip_modifying<H: TrapHandler>() -> FtraceOps<PostCaller<H>> {
    // SAFETY: `TrapHandler` guarantees the requirements on the handler; the engine closes its sets
    // when it stops.
    unsafe { FtraceOps::modifying() }
}

/// A point, held as long as ftrace may call the engine with it.
struct Held {
    point: Arc<Point>,
    /// The site could not be removed, and no probe needs it.
    abandoned: bool,
    /// Time when its site was removed.
    left: Since,
    next: Option<KBox<Held>>,
}

/// Functions with probes, but without post-handlers. Other users of ftrace may divert these
/// functions. ftrace calls the engine with the point of the function.
///
/// # Invariants
///
/// Each function that was added by this has its point in `calling`. From its removal until ftrace
/// no longer calls the engine with it, the point is in `left`.
pub(crate) struct Observed<H: TrapHandler> {
    functions: &'static FtraceData<Caller<H>>,
    /// By the address of their sites.
    calling: RBTree<usize, KBox<Held>>,
    left: Option<KBox<Held>>,
    /// Number of abandoned points in `calling`.
    abandoned: usize,
    /// Functions were added since this was last closed.
    open: bool,
}

impl<H: TrapHandler> Observed<H> {
    /// Creates an empty set.
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

    /// Adds the sites of some more points: all or, when it fails, none.
    ///
    /// Errors: -EINVAL if there is no site; -EEXIST if one has been added; -ENOMEM; -ENODEV if
    /// ftrace has broken down.
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
        // Set even if `add()` fails: it may fail late.
        self.open = true;
        // SAFETY: By the type invariant each point is counted here until ftrace no longer calls the
        // engine with it. If this fails, the points in `nodes` are counted, permanently if it fails
        // with -ENODEV.
        if let Err(error) = unsafe { self.functions.add(&sites) } {
            if error == ENODEV {
                core::mem::forget(nodes);
            }
            return Err(error);
        }
        // INVARIANT: They have been added.
        while let Some(node) = nodes.pop() {
            // None of them was in the tree: `add()` would have failed.
            core::mem::forget(self.calling.insert(node));
        }
        Ok(())
    }

    /// Removes sites. Errors: -ENOENT if one has not been added, -ENOMEM, -ENODEV; then no site is
    /// removed.
    pub(crate) fn remove(&mut self, sites: &[usize]) -> Result {
        self.functions.remove(sites)?;
        for site in sites {
            if let Some(mut held) = self.calling.remove(site) {
                self.abandoned = self.abandoned.saturating_sub(usize::from(held.abandoned));
                // INVARIANT: It has been removed.
                held.left = Since::now();
                held.next = self.left.take();
                self.left = Some(held);
            }
        }
        Ok(())
    }

    /// Removes a site, for a caller that cannot handle an error. If there is no memory, ftrace
    /// calls the handler until the next change finds some.
    pub(crate) fn abandon(&mut self, site: usize) {
        if self.remove(&[site]).is_ok() {
            return;
        }
        if let Some(held) = self.calling.get_mut(&site) {
            self.abandoned += usize::from(!held.abandoned);
            held.abandoned = true;
        }
    }

    /// Removes the abandoned sites that are still there. Errors: -ENOMEM, -ENODEV.
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

    /// Returns true if [`Self::release`] has work to do: points to free or, if there are none,
    /// ftrace functions to close.
    pub(crate) fn any_left(&self) -> bool {
        self.left.is_some() || self.is_idle()
    }

    fn is_idle(&self) -> bool {
        self.open && self.calling.is_empty()
    }

    /// Frees the points that this period covers. Returns true if the caller has to close the
    /// functions, without locks, unless sites are added before.
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

    /// Removes all sites, and waits until the handler is no longer called.
    pub(crate) fn close(&mut self) {
        let calling = core::mem::take(&mut self.calling);
        if self.functions.close().is_err() {
            // ftrace may call with these points at any later time.
            core::mem::forget(calling);
            core::mem::forget(self.left.take());
        }
        self.abandoned = 0;
        self.open = false;
        // One by one: dropping the first would drop the others recursively.
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
