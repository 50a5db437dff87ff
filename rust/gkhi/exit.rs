// SPDX-License-Identifier: GPL-2.0

//! Exits in Rust.
//!
//! Contexts: process, sleeps; the exits themselves wherever their hook is.
#![deny(unsafe_code)]

use core::any::TypeId;
use core::marker::PhantomData;

use ferro_core::hooks::Op;
use ferro_core::hooks::Priority;
use ferro_sys::cpu::CpuId;
use ferro_sys::hook::points::CpuPrepare;
use ferro_sys::hook::typed::Answer;
use ferro_sys::hook::typed::AsIs;
use ferro_sys::hook::typed::Call;
use ferro_sys::hook::typed::Entry;
use ferro_sys::hook::typed::ExitOn;
use ferro_sys::hook::typed::ReturnValue;
use ferro_sys::hook::typed::Spec;
use kernel::prelude::*;

use crate::error::Error;
use crate::ffi;
use crate::registry;
use crate::registry::Handle;
use crate::registry::NewExit;
use crate::registry::Shape;

/// A registered exit, of a hook `H`, called under the condition `C`.
///
/// Dropping it disarms and deregisters it and waits until no CPU is in it: at most a few grace periods.
///
/// # Examples
///
/// ```ignore
/// let exit = Registered::<TaskFork, AsIs>::new(c"count", Priority::Unspecified, |_call, (task, _flags)| {
///     FORKS.inc();
///     Answer::Continue
/// })?;
/// exit.arm()?;
/// ```
pub struct Registered<H: Spec, C: Entry = AsIs> {
    id: usize,
    // Dropped when `drop()` has waited.
    _exit: KBox<dyn Kept>,
    _hook: PhantomData<fn(H, C)>,
}

/// An exit of any type, to be dropped.
trait Kept: Send + Sync {}
impl<E: Send + Sync> Kept for E {}

impl<H: Spec, C: Entry> Registered<H, C> {
    /// Registers an exit. `name` is for debugfs.
    ///
    /// Errors: [`Error::NoHook`], [`Error::OtherParams`] if the hook of this name is not as `H` says,
    /// [`Error::CannotStop`], [`Error::Occupied`], [`Error::FirstTaken`], [`Error::LastTaken`],
    /// [`Error::NameTaken`], [`Error::BadName`], [`Error::NoMemory`].
    pub fn new<F>(name: &CStr, priority: Priority, exit: F) -> Result<Self, Error>
    where
        F: for<'a, 'b> Fn(&Call<'a, H, C>, H::Args<'b>) -> Answer<H::Return>,
        F: Send + Sync + 'static,
    {
        Self::with(name, priority, exit)
    }

    /// The same for an object that implements [`ExitOn`].
    pub fn with<E: ExitOn<H, C>>(name: &CStr, priority: Priority, exit: E) -> Result<Self, Error> {
        Self::register(name, priority, exit, false)
    }

    /// As [`Registered::new`], for an exit that others rely on: it is called although an exit before it has ended the
    /// dispatch, and debugfs neither arms nor disarms it.
    pub fn pinned<F>(name: &CStr, priority: Priority, exit: F) -> Result<Self, Error>
    where
        F: for<'a, 'b> Fn(&Call<'a, H, C>, H::Args<'b>) -> Answer<H::Return>,
        F: Send + Sync + 'static,
    {
        Self::register(name, priority, exit, true)
    }

    fn register<E: ExitOn<H, C>>(
        name: &CStr,
        priority: Priority,
        exit: E,
        pinned: bool,
    ) -> Result<Self, Error> {
        let exit = KBox::new(exit, GFP_KERNEL)?;
        let mut parts = ffi::parts_of::<H, C, E>(&exit);
        if pinned {
            parts.pin();
        }
        let id = registry::register(&NewExit {
            hook: H::NAME,
            name,
            priority,
            params: H::COUNT.try_into().map_err(|_| Error::TooManyParams)?,
            parts,
            shape: Some(Shape {
                params: H::PARAMS,
                modifiable: H::MODIFIABLE,
                has_return: <H::Return as ReturnValue>::SOME,
                context: H::CONTEXT,
                identity: (!H::IN_C).then(TypeId::of::<H>),
            }),
        })?;
        Ok(Self {
            id,
            _exit: exit,
            _hook: PhantomData,
        })
    }
}

impl Registered<CpuPrepare> {
    /// Has `prepare` called before a CPU comes up; an error keeps it down. It is pinned and armed, and not called for
    /// CPUs that are up already.
    ///
    /// Context: process; sleeps. `prepare` is called in process context with CPU hotplug held for writing.
    /// Errors: as for [`Registered::new`].
    pub fn before_cpus(name: &CStr, prepare: fn(CpuId) -> Result) -> Result<Self, Error> {
        let exit = Self::pinned(name, Priority::Unspecified, move |_call, (cpu,)| {
            let prepared = CpuId::new(cpu).ok_or(EINVAL).and_then(prepare);
            prepared.map_or_else(|e| Answer::Return(e.to_errno()), |()| Answer::Continue)
        })?;
        exit.arm()?;
        Ok(exit)
    }
}

impl<H: Spec, C: Entry> Drop for Registered<H, C> {
    fn drop(&mut self) {
        // It is gone already if its module went before. The exit must not go while it is called, so that a lack
        // of memory is waited out.
        let _ = registry::until_memory(|| registry::apply(Op::Deregister, &[handle(self.id())]));
    }
}

/// A registered exit of any hook.
pub trait AnyExit {
    #[doc(hidden)]
    fn id(&self) -> usize;

    /// Has the hook call it. Errors: [`Error::Deleted`] if the hook is gone, [`Error::NoMemory`].
    fn arm(&self) -> Result<(), Error> {
        registry::apply(Op::Arm, &[handle(self.id())])
    }

    /// Has the hook call it no longer, and waits until no CPU is in it. Errors: [`Error::NoMemory`].
    fn disarm(&self) -> Result<(), Error> {
        registry::apply(Op::Disarm, &[handle(self.id())])
    }

    /// Whether it is armed.
    fn is_armed(&self) -> bool {
        registry::is_armed(handle(self.id()))
    }

    /// How often it has been called.
    fn hits(&self) -> usize {
        registry::counts(self.id()).map_or(0, |c| c.hits)
    }
}

impl<H: Spec, C: Entry> AnyExit for Registered<H, C> {
    fn id(&self) -> usize {
        self.id
    }
}

/// Arms exits, all in one step or none.
///
/// Errors: as for [`AnyExit::arm`].
pub fn arm(exits: &[&dyn AnyExit]) -> Result<(), Error> {
    registry::apply(Op::Arm, &handles(exits)?)
}

/// Disarms exits, all in one step or none, and waits until no CPU is in them.
///
/// Errors: as for [`AnyExit::disarm`].
pub fn disarm(exits: &[&dyn AnyExit]) -> Result<(), Error> {
    registry::apply(Op::Disarm, &handles(exits)?)
}

fn handle(id: usize) -> Handle {
    Handle { id, record: 0 }
}

fn handles(exits: &[&dyn AnyExit]) -> Result<KVec<Handle>, Error> {
    let mut handles = KVec::with_capacity(exits.len(), GFP_KERNEL)?;
    for exit in exits {
        handles.push(handle(exit.id()), GFP_KERNEL)?;
    }
    Ok(handles)
}
