// SPDX-License-Identifier: GPL-2.0

//! Tracers: handlers for the calls of functions.
//!
//! Contexts: handlers any that ftrace traces, NMI included; the rest process.
#![deny(unsafe_code)]

use ferro_sys::sync::deferred_drop::Deferred;
use kernel::prelude::*;

use crate::call::FunctionCall;
use crate::error::must_sleep;
use crate::error::TraceError;
use crate::filter::Filter;
use crate::raw::fregs::Fregs;
use crate::raw::tracer::Callback;
use crate::raw::tracer::RawTracer;

/// Handler for the calls of traced functions. Closures are such handlers.
///
/// It may run on several CPUs at a time.
pub trait TraceHandler: Send + Sync + 'static {
    /// Handles a call; the function is about to run.
    ///
    /// Context: see the crate's documentation.
    fn call(&self, call: &FunctionCall<'_>);
}

impl<F: Fn(&FunctionCall<'_>) + Send + Sync + 'static> TraceHandler for F {
    #[inline(always)]
    fn call(&self, call: &FunctionCall<'_>) {
        self(call);
    }
}

impl<H: TraceHandler> Callback for H {
    #[inline(always)]
    fn on_call(&self, ip: usize, parent_ip: usize, fregs: &Fregs) {
        self.call(&FunctionCall::new(ip, parent_ip, fregs));
    }
}

/// Boxed closure, so that its tracer has a type that can be named.
pub struct Boxed(KBox<dyn Fn(&FunctionCall<'_>) + Send + Sync>);

impl TraceHandler for Boxed {
    #[inline]
    fn call(&self, call: &FunctionCall<'_>) {
        (self.0)(call);
    }
}

/// Builder for a [`Tracer`], with at least one function to trace.
#[derive(Clone, Copy)]
pub struct Builder<'a> {
    filter: Filter<'a>,
    all_registers: bool,
}

impl<'a> Builder<'a> {
    pub(crate) const fn new() -> Self {
        Self {
            filter: Filter::NONE,
            all_registers: false,
        }
    }

    /// Adds all functions of these names, of the kernel and of its modules.
    pub fn names(self, names: &'a [&'a CStr]) -> Self {
        let filter = Filter {
            names,
            ..self.filter
        };
        Self { filter, ..self }
    }

    /// Adds functions with names that match a pattern. `*` is any text, `?` any character and
    /// `[a-z]` a character of a range.
    pub fn globs(self, globs: &'a [&'a CStr]) -> Self {
        let filter = Filter {
            globs,
            ..self.filter
        };
        Self { filter, ..self }
    }

    /// Adds functions at these addresses.
    pub fn addresses(self, addresses: &'a [usize]) -> Self {
        let filter = Filter {
            addresses,
            ..self.filter
        };
        Self { filter, ..self }
    }

    /// Saves all registers for the handler, not only those for arguments. This makes calls more
    /// expensive.
    pub fn all_registers(self) -> Self {
        Self {
            all_registers: true,
            ..self
        }
    }

    /// Registers the tracer. The handler may be called before this returns.
    ///
    /// Each name, pattern and address has to match at least one function that ftrace can trace.
    ///
    /// Context: process; sleeps.
    pub fn register<H: TraceHandler>(self, handler: H) -> Result<Tracer<H>, TraceError> {
        self.register_code_of::<H, H>(handler)
    }

    /// Registers the tracer like [`Builder::register`]; `handler` calls code of `C`.
    fn register_code_of<C, H>(self, handler: H) -> Result<Tracer<H>, TraceError>
    where
        C: TraceHandler,
        H: TraceHandler,
    {
        must_sleep()?;
        self.filter.check()?;
        let code = (C::call as fn(&C, &FunctionCall<'_>) as *const ()).addr();
        let (patterns, addresses) = (self.filter.patterns(), self.filter.addresses);
        let raw = RawTracer::register(patterns, addresses, self.all_registers, handler, code)?;
        let functions = raw.functions();
        Ok(Tracer {
            raw: Deferred::new(Ok::<_, TraceError>(raw))?,
            functions,
        })
    }

    /// Registers a tracer with a type that can be named. Each call costs one more indirect call.
    pub fn register_boxed<F>(self, handler: F) -> Result<Tracer, TraceError>
    where
        F: Fn(&FunctionCall<'_>) + Send + Sync + 'static,
    {
        must_sleep()?;
        self.register_code_of::<F, Boxed>(Boxed(KBox::new(handler, GFP_KERNEL)?))
    }
}

/// Handler on the entry of functions, unregistered by the drop.
///
/// A tracer is one `struct ftrace_ops`, regardless of the number of its functions. A handler may
/// drop any tracer, even its own. Then a work item unregisters the tracer; until then calls are
/// still handled. The handler is dropped after its last call has ended. A leaked tracer, as by
/// `mem::forget()`, is unregistered when the module with the handler's code is unloaded.
pub struct Tracer<H: TraceHandler = Boxed> {
    raw: Deferred<RawTracer<H>>,
    functions: usize,
}

impl Tracer {
    /// Returns a builder for a tracer.
    pub const fn builder<'a>() -> Builder<'a> {
        Builder::new()
    }
}

impl<H: TraceHandler> Tracer<H> {
    /// Returns the handler.
    pub fn handler(&self) -> &H {
        self.raw.handler()
    }

    /// Returns the number of functions found at registration. Functions of a module that was
    /// unloaded later are no longer traced; functions of a module that was loaded later are not
    /// traced.
    pub fn functions(&self) -> usize {
        self.functions
    }
}
