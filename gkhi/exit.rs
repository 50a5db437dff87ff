// SPDX-License-Identifier: GPL-2.0

//! Exits in Rust.
//!
//! Contexts: process, sleeps; drop of an exit: any; the exits themselves: the context of their
//! hook.
#![deny(unsafe_code)]

use core::marker::PhantomData;
use core::panic::Location;

use ferro_gkhi_core::Op;
use ferro_gkhi_core::Priority;
use ferro_sys::cpu::CpuId;
use ferro_sys::hook::points::CpuPrepare;
use ferro_sys::hook::typed::Answer;
use ferro_sys::hook::typed::AsIs;
use ferro_sys::hook::typed::Call;
use ferro_sys::hook::typed::EnginePromise;
use ferro_sys::hook::typed::Entry;
use ferro_sys::hook::typed::ExitOn;
use ferro_sys::hook::typed::Hook;
use ferro_sys::hook::typed::Open;
use ferro_sys::hook::typed::ReturnValue;
use ferro_sys::hook::typed::Spec;
use ferro_sys::hook::Counters;
use ferro_sys::hook::DeferredRelease;
use kernel::prelude::*;

use crate::entries::Handle;
use crate::error::check_context;
use crate::error::Error;
use crate::raw::parts_of;
use crate::raw::set_exit;
use crate::raw::ExitId;
use crate::register;
use crate::register::NewExit;
use crate::register::Shape;
use crate::transaction::apply;
use crate::unregister::release_or_defer;

/// A registered exit, of a hook `H`, called under the condition `C`.
///
/// Dropping it disarms and deregisters the exit and waits until no CPU runs it: at most a few grace
/// periods. In an exit, or if the caller cannot sleep, the deregistration follows soon afterwards.
/// The data that the exit owns is dropped after the last call, and at the latest when the module
/// that registered it is unloaded, even if this handle was forgotten.
///
/// # Examples
///
/// ```
/// # use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};
/// # use ferro_gkhi::{points::TaskFork, Answer, Registered};
/// # static FORKS: AtomicUsize = AtomicUsize::new(0);
/// # fn f() -> Result<(), ferro_gkhi::Error> {
/// let exit = Registered::<TaskFork>::builder(c"count").register(|_call, (task, _flags)| {
///     FORKS.fetch_add(1, Relaxed);
///     Answer::Continue
/// })?;
/// # Ok(())
/// # }
/// ```
pub struct Registered<H: Spec, C: Entry = AsIs> {
    id: ExitId,
    /// `Some` until the drop takes it.
    release: Option<KBox<DeferredRelease>>,
    _hook: PhantomData<fn(H, C)>,
}

/// Builder for an exit; made by [`Registered::builder`].
pub struct Builder<'a, H: Spec, C: Entry = AsIs> {
    name: &'a CStr,
    priority: Priority,
    is_pinned: bool,
    is_armed: bool,
    _hook: PhantomData<fn(H, C)>,
}

/// Returns an address in the module of the calling code. The location is data of that module. The
/// exit's function may be an instance in another module, if generic.
fn code_at(location: &'static Location<'static>) -> usize {
    core::ptr::from_ref(location).addr()
}

impl<H: Spec, C: Entry> Builder<'_, H, C> {
    /// Sets the position among the exits of the hook; the default is [`Priority::Unspecified`].
    pub fn priority(self, priority: Priority) -> Self {
        Self { priority, ..self }
    }

    /// Pins an exit that other code relies on. A pinned exit is called even if an exit before it
    /// has ended the dispatch, except on a hook of engines. Debugfs can neither arm nor disarm it.
    pub fn pinned(self) -> Self {
        Self {
            is_pinned: true,
            ..self
        }
    }

    /// Registers the exit disarmed. [`AnyExit::arm`] arms it; [`arm`] arms several exits in one
    /// step.
    pub fn disarmed(self) -> Self {
        Self {
            is_armed: false,
            ..self
        }
    }

    pub(crate) fn register_from<E: ExitOn<H, C>>(
        self,
        exit: E,
        origin: usize,
    ) -> Result<Registered<H, C>, Error> {
        check_context()?;
        let exit = KBox::new(exit, GFP_KERNEL)?;
        let mut parts = parts_of::<H, C, E>(&exit);
        if self.is_pinned {
            // A trap that an exit has handled is over: its registers belong to other code now.
            parts.pin(!H::ENGINE);
        }
        // Allocated before the registration, so that the drop cannot fail.
        let mut release = DeferredRelease::new().map_err(|_| Error::NoMemory)?;
        let (id, counters) = register::register(&NewExit {
            hook: H::NAME,
            name: self.name,
            priority: self.priority,
            params: H::COUNT.try_into().map_err(|_| Error::TooManyParams)?,
            parts,
            shape: Some(Shape {
                params: H::PARAMS,
                modifiable: H::MODIFIABLE,
                has_return: <H::Return as ReturnValue>::SOME,
                context: H::CONTEXT,
                defined: H::defined().map(Hook::to_ref),
            }),
            origin,
        })?;
        register::set_object(id, exit);
        set_exit(&mut release, id, counters);
        let registered = Registered {
            id,
            release: Some(release),
            _hook: PhantomData,
        };
        if self.is_armed {
            registered.arm()?;
        }
        Ok(registered)
    }
}

impl<H: Open, C: Entry> Builder<'_, H, C> {
    /// Registers the exit, and arms it.
    ///
    /// Context: process; sleeps. Errors: [`Error::NoHook`], [`Error::OtherParams`] if the hook of
    /// this name is not as `H` describes it, [`Error::CannotStop`], [`Error::Occupied`],
    /// [`Error::FirstTaken`], [`Error::LastTaken`], [`Error::NameTaken`], [`Error::BadName`],
    /// [`Error::ModuleGoes`], [`Error::CannotWait`], [`Error::NoMemory`].
    #[track_caller]
    pub fn register<F>(self, exit: F) -> Result<Registered<H, C>, Error>
    where
        F: for<'a, 'b> Fn(&Call<'a, H, C>, H::Args<'b>) -> Answer<H::Return>,
        F: Send + Sync + 'static,
    {
        self.register_exit(exit)
    }

    /// Registers an object that implements [`ExitOn`], as [`Builder::register`] does for a closure.
    #[track_caller]
    pub fn register_exit<E: ExitOn<H, C>>(self, exit: E) -> Result<Registered<H, C>, Error> {
        self.register_from(exit, code_at(Location::caller()))
    }
}

impl<H: Spec, C: Entry> Builder<'_, H, C> {
    /// Registers and pins the exit of an engine on a hook where an exit can break the kernel. The
    /// promise of the engine covers this exit. The hook does not call it for an event that an exit
    /// before it has handled.
    ///
    /// Context and errors: as for [`Builder::register`].
    #[track_caller]
    pub fn register_engine<F>(
        self,
        _promise: EnginePromise<H>,
        exit: F,
    ) -> Result<Registered<H, C>, Error>
    where
        F: for<'a, 'b> Fn(&Call<'a, H, C>, H::Args<'b>) -> Answer<H::Return>,
        F: Send + Sync + 'static,
    {
        self.pinned()
            .register_from(exit, code_at(Location::caller()))
    }
}

impl<H: Spec, C: Entry> Registered<H, C> {
    /// Returns a builder for an exit. `name` is its name in debugfs.
    pub fn builder(name: &CStr) -> Builder<'_, H, C> {
        Builder {
            name,
            priority: Priority::Unspecified,
            is_pinned: false,
            is_armed: true,
            _hook: PhantomData,
        }
    }
}

impl Registered<CpuPrepare> {
    /// Registers `prepare`, which is called before a CPU is brought up; an error keeps the CPU
    /// offline. The exit is pinned and armed. CPUs that are online already get no call.
    ///
    /// Context: process; sleeps. `prepare` is called in process context with CPU hotplug held for
    /// writing.
    /// Errors: as for [`Builder::register`](crate::Builder::register).
    pub fn before_cpus(name: &CStr, prepare: fn(CpuId) -> Result) -> Result<Self, Error> {
        let call = move |_call: &Call<'_, _, _>, (cpu,)| {
            let prepared = CpuId::new(cpu).ok_or(EINVAL).and_then(prepare);
            prepared.map_or_else(|e| Answer::Return(e.to_errno()), |()| Answer::Continue)
        };
        // The module of `prepare` must outlive the exit, even if another module calls this
        // function.
        let origin = (prepare as *const ()).addr();
        Self::builder(name).pinned().register_from(call, origin)
    }
}

impl<H: Spec, C: Entry> Drop for Registered<H, C> {
    fn drop(&mut self) {
        if let Some(release) = self.release.take() {
            release_or_defer(release);
        }
    }
}

mod sealed {
    /// Exits that the registry knows by a number.
    pub trait Numbered {
        fn id(&self) -> crate::raw::ExitId;
        fn counters(&self) -> Option<&ferro_sys::hook::Counters>;
    }
}

/// A registered exit of any hook.
pub trait AnyExit: sealed::Numbered {
    /// Arms the exit: its hook calls it afterwards.
    ///
    /// Context: process; sleeps.
    /// Errors: [`Error::Deleted`] if the hook has been deleted, [`Error::CannotWait`],
    /// [`Error::NoMemory`].
    fn arm(&self) -> Result<(), Error> {
        apply(Op::Arm, &[self.id().handle()])
    }

    /// Disarms the exit and waits until no CPU runs it.
    ///
    /// Context: process; sleeps.
    /// Errors: [`Error::CannotWait`] in an exit and where sleeping is not allowed;
    /// [`Error::StillCalled`] if the exit is disarmed, but a call has not returned, because it
    /// sleeps where it must not or is the caller; [`Error::NoMemory`].
    fn disarm(&self) -> Result<(), Error> {
        apply(Op::Disarm, &[self.id().handle()])
    }

    /// Returns true if the exit is armed. Context: any, exits included.
    fn is_armed(&self) -> bool {
        self.counters().is_some_and(Counters::is_armed)
    }

    /// Returns the number of calls. Context: any, exits included.
    fn hits(&self) -> usize {
        self.counters().map_or(0, Counters::hits)
    }
}

impl<H: Spec, C: Entry> sealed::Numbered for Registered<H, C> {
    fn id(&self) -> ExitId {
        self.id
    }

    fn counters(&self) -> Option<&Counters> {
        self.release.as_ref().and_then(|release| release.counters())
    }
}

impl<H: Spec, C: Entry> AnyExit for Registered<H, C> {}

/// Arms exits, all in one step or none.
///
/// Errors: as for [`AnyExit::arm`].
pub fn arm(exits: &[&dyn AnyExit]) -> Result<(), Error> {
    apply(Op::Arm, &handles(exits)?)
}

/// Disarms exits, all in one step or none, and waits until no CPU is in them.
///
/// Errors: as for [`AnyExit::disarm`].
pub fn disarm(exits: &[&dyn AnyExit]) -> Result<(), Error> {
    apply(Op::Disarm, &handles(exits)?)
}

fn handles(exits: &[&dyn AnyExit]) -> Result<KVec<Handle>, Error> {
    let mut handles = KVec::with_capacity(exits.len(), GFP_KERNEL)?;
    for exit in exits {
        handles.push(exit.id().handle(), GFP_KERNEL)?;
    }
    Ok(handles)
}
