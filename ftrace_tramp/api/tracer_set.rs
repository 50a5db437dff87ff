// SPDX-License-Identifier: GPL-2.0

//! Sets of functions with data of their own.
//!
//! Contexts: handlers any that ftrace traces, NMI included; the rest process.
#![deny(unsafe_code)]

use ferro_sys::sync::deferred_drop::Deferred;
use kernel::prelude::*;

use crate::call::FunctionCall;
use crate::error::must_sleep;
use crate::error::TraceError;
use crate::raw::tracer_set::RawSet;

/// What to do when a function with data is called. Closures are such handlers.
///
/// It runs on several CPUs at a time.
pub trait SetHandler<T>: Send + Sync + 'static {
    /// A function that has this data is about to run.
    ///
    /// Context: see the crate's documentation.
    fn call(&self, call: &FunctionCall<'_>, data: &T);
}

impl<T, F: Fn(&FunctionCall<'_>, &T) + Send + Sync + 'static> SetHandler<T> for F {
    #[inline(always)]
    fn call(&self, call: &FunctionCall<'_>, data: &T) {
        self(call, data);
    }
}

/// What a set calls, with the data of the function.
type OnCall<T> = dyn Fn(&FunctionCall<'_>, &T) + Send + Sync;

/// A closure behind a pointer, so that its set has a type that can be named.
pub struct BoxedSet<T>(KBox<OnCall<T>>);

impl<T: 'static> SetHandler<T> for BoxedSet<T> {
    #[inline]
    fn call(&self, call: &FunctionCall<'_>, data: &T) {
        (self.0)(call, data);
    }
}

/// Functions, each with a value of its own, and a handler that gets it, without looking for it (`ftrace_data_attach()` of
/// `<linux/ferrotrace_ftrace.h>`). With closures as values, each function has a handler of its own.
///
/// Dropped, it detaches all, and waits for the handlers; a handler may drop it, as it may a [`Tracer`](crate::Tracer). One that is
/// forgotten ends when the module that its handler is code of goes.
pub struct TracerSet<T: Send + Sync + 'static, H: SetHandler<T> = BoxedSet<T>> {
    raw: Deferred<RawSet<T, H>>,
}

impl<T: Send + Sync + 'static> TracerSet<T> {
    /// As [`TracerSet::new`], for a set whose type can be named. Each call costs an indirect call more.
    pub fn boxed<F>(handler: F) -> Result<Self, TraceError>
    where
        F: Fn(&FunctionCall<'_>, &T) + Send + Sync + 'static,
    {
        must_sleep()?;
        Self::with::<F>(false, BoxedSet(KBox::new(handler, GFP_KERNEL)?))
    }
}

impl<T: Send + Sync + 'static, H: SetHandler<T>> TracerSet<T, H> {
    /// A set without functions.
    ///
    /// Context: process; sleeps. Errors: no memory.
    pub fn new(handler: H) -> Result<Self, TraceError> {
        Self::with::<H>(false, handler)
    }

    /// The same; all registers are saved for the handler, not only those of arguments. R11 is not the caller's.
    pub fn with_all_registers(handler: H) -> Result<Self, TraceError> {
        Self::with::<H>(true, handler)
    }

    /// What `handler` calls is code of `C`.
    fn with<C: SetHandler<T>>(all_registers: bool, handler: H) -> Result<Self, TraceError> {
        must_sleep()?;
        let code = (C::call as fn(&C, &FunctionCall<'_>, &T) as *const ()).addr();
        let raw = RawSet::new(all_registers, handler, code)?;
        Ok(Self {
            raw: Deferred::new(Ok::<_, TraceError>(raw))?,
        })
    }

    /// Attaches functions, by their addresses, each with its value: all or none. Calls are handled from now on.
    ///
    /// Context: process; sleeps. Errors: [`TraceError::NotFound`] for what is not a function that ftrace can trace,
    /// [`TraceError::Twice`] for one that is there already, [`TraceError::ModuleGoes`] if the handler's module has been removed; the
    /// values are dropped then.
    pub fn attach(&mut self, functions: KVVec<(usize, T)>) -> Result<(), TraceError> {
        must_sleep()?;
        self.raw.get_mut().attach(functions)
    }

    /// Detaches functions, by the addresses that they were attached with: all or none. When this returns their values are dropped.
    ///
    /// Context: process; sleeps, and waits, once for all. Errors: [`TraceError::NotFound`] for one that is not there,
    /// [`TraceError::ModuleGoes`] as for [`Self::attach`].
    pub fn detach(&mut self, functions: &[usize]) -> Result<(), TraceError> {
        must_sleep()?;
        self.raw.get_mut().detach(functions)
    }

    /// How many functions it has.
    pub fn functions(&self) -> usize {
        self.raw.len()
    }

    /// The handler.
    pub fn handler(&self) -> &H {
        self.raw.handler()
    }
}
