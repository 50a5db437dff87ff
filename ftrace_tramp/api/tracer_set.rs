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
use crate::raw::fregs::Fregs;
use crate::raw::tracer_set::DataCallback;
use crate::raw::tracer_set::RawSet;

/// Handler for the calls of functions with data. Closures are such handlers.
///
/// It may run on several CPUs at a time.
pub trait SetHandler<T>: Send + Sync + 'static {
    /// Handles a call; a function with this data is about to run.
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

impl<T, H: SetHandler<T>> DataCallback<T> for H {
    #[inline(always)]
    fn on_call(&self, ip: usize, parent_ip: usize, fregs: &Fregs, data: &T) {
        self.call(&FunctionCall::new(ip, parent_ip, fregs), data);
    }
}

/// Handler closure, called with the data of the function.
type OnCall<T> = dyn Fn(&FunctionCall<'_>, &T) + Send + Sync;

/// Boxed closure, so that its set has a type that can be named.
pub struct BoxedSet<T>(KBox<OnCall<T>>);

impl<T: 'static> SetHandler<T> for BoxedSet<T> {
    #[inline]
    fn call(&self, call: &FunctionCall<'_>, data: &T) {
        (self.0)(call, data);
    }
}

/// Functions, each with a value of its own, and a handler that gets the value without a lookup
/// (`ftrace_data_attach()` of `<linux/ferrotrace_ftrace.h>`). With closures as values, each
/// function has a handler of its own.
///
/// The drop detaches all functions and waits for the handlers. A handler may drop a set, as it may
/// a [`Tracer`](crate::Tracer). A leaked set ends when the module with the handler's code is
/// unloaded.
pub struct TracerSet<T: Send + Sync + 'static, H: SetHandler<T> = BoxedSet<T>> {
    raw: Deferred<RawSet<T, H>>,
}

impl<T: Send + Sync + 'static> TracerSet<T> {
    /// Makes a set with a type that can be named, like [`TracerSet::new`]. Each call costs one more
    /// indirect call.
    pub fn boxed<F>(handler: F) -> Result<Self, TraceError>
    where
        F: Fn(&FunctionCall<'_>, &T) + Send + Sync + 'static,
    {
        must_sleep()?;
        Self::with::<F>(false, BoxedSet(KBox::new(handler, GFP_KERNEL)?))
    }
}

impl<T: Send + Sync + 'static, H: SetHandler<T>> TracerSet<T, H> {
    /// Makes a set without functions.
    ///
    /// Context: process; sleeps. Errors: no memory.
    pub fn new(handler: H) -> Result<Self, TraceError> {
        Self::with::<H>(false, handler)
    }

    /// Makes a set like [`TracerSet::new`] that saves all registers for the handler. R11 is not the
    /// caller's.
    pub fn with_all_registers(handler: H) -> Result<Self, TraceError> {
        Self::with::<H>(true, handler)
    }

    /// Makes a set; `handler` calls code of `C`.
    fn with<C: SetHandler<T>>(all_registers: bool, handler: H) -> Result<Self, TraceError> {
        must_sleep()?;
        let code = (C::call as fn(&C, &FunctionCall<'_>, &T) as *const ()).addr();
        let raw = RawSet::new(all_registers, handler, code)?;
        Ok(Self {
            raw: Deferred::new(Ok::<_, TraceError>(raw))?,
        })
    }

    /// Attaches functions, by their addresses, each with its value: all or none. Calls may be
    /// handled before this returns.
    ///
    /// Context: process; sleeps. Errors: [`TraceError::NotFound`] for an address without a function
    /// that ftrace can trace, [`TraceError::Duplicate`] for one that is attached already,
    /// [`TraceError::ModuleGoes`] if the handler's module has been removed. On an error the values
    /// are dropped.
    pub fn attach(&mut self, functions: KVVec<(usize, T)>) -> Result<(), TraceError> {
        must_sleep()?;
        Ok(self.raw.get_mut().attach(functions)?)
    }

    /// Detaches functions, by the addresses that they were attached with: all or none. Drops their
    /// values before it returns.
    ///
    /// Context: process; sleeps, and waits, once for all. Errors: [`TraceError::NotFound`] for a
    /// function that is not attached, [`TraceError::ModuleGoes`] as for [`Self::attach`].
    pub fn detach(&mut self, functions: &[usize]) -> Result<(), TraceError> {
        must_sleep()?;
        Ok(self.raw.get_mut().detach(functions)?)
    }

    /// Returns the number of functions.
    pub fn functions(&self) -> usize {
        self.raw.len()
    }

    /// Returns the handler.
    pub fn handler(&self) -> &H {
        self.raw.handler()
    }
}
