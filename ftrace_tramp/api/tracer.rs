// SPDX-License-Identifier: GPL-2.0

//! Tracers: a handler for the calls of functions.
//!
//! Contexts: handlers any that ftrace traces, NMI included; the rest process.
#![deny(unsafe_code)]

use ferro_sys::sync::deferred_drop::Deferred;
use kernel::prelude::*;

use crate::call::FunctionCall;
use crate::error::must_sleep;
use crate::error::TraceError;
use crate::filter::Filter;
use crate::raw::tracer::RawTracer;

/// What to do when a traced function is called. Closures are such handlers.
///
/// It runs on several CPUs at a time.
pub trait TraceHandler: Send + Sync + 'static {
    /// A function is about to run.
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

/// A closure behind a pointer, so that its tracer has a type that can be named.
pub struct Boxed(KBox<dyn Fn(&FunctionCall<'_>) + Send + Sync>);

impl TraceHandler for Boxed {
    #[inline]
    fn call(&self, call: &FunctionCall<'_>) {
        (self.0)(call);
    }
}

/// Describes a [`Tracer`] before it is registered: which functions it traces. There have to be some.
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

    /// Functions of these names, of the kernel and of its modules: all of each name.
    pub fn names(self, names: &'a [&'a CStr]) -> Self {
        let filter = Filter {
            names,
            ..self.filter
        };
        Self { filter, ..self }
    }

    /// Functions whose names match one of these patterns, in which `*` is any text, `?` any character and `[a-z]` one of
    /// several.
    pub fn globs(self, globs: &'a [&'a CStr]) -> Self {
        let filter = Filter {
            globs,
            ..self.filter
        };
        Self { filter, ..self }
    }

    /// Functions at these addresses.
    pub fn addresses(self, addresses: &'a [usize]) -> Self {
        let filter = Filter {
            addresses,
            ..self.filter
        };
        Self { filter, ..self }
    }

    /// Saves all registers for the handler, not only those of arguments, which makes calls dearer.
    pub fn all_registers(self) -> Self {
        Self {
            all_registers: true,
            ..self
        }
    }

    /// Registers the tracer: the handler is called from now on.
    ///
    /// Each name, pattern and address has to stand for at least one function that ftrace can trace.
    ///
    /// Context: process; sleeps.
    pub fn register<H: TraceHandler>(self, handler: H) -> Result<Tracer<H>, TraceError> {
        self.register_code_of::<H, H>(handler)
    }

    /// As [`Builder::register`]; what `handler` calls is code of `C`.
    fn register_code_of<C, H>(self, handler: H) -> Result<Tracer<H>, TraceError>
    where
        C: TraceHandler,
        H: TraceHandler,
    {
        must_sleep()?;
        self.filter.check()?;
        let code = (C::call as fn(&C, &FunctionCall<'_>) as *const ()).addr();
        let raw = RawTracer::register(&self.filter, self.all_registers, handler, code)?;
        let functions = raw.functions();
        Ok(Tracer {
            raw: Deferred::new(Ok::<_, TraceError>(raw))?,
            functions,
        })
    }

    /// As [`Builder::register`], for a tracer whose type can be named. Each call costs an indirect call more.
    pub fn register_boxed<F>(self, handler: F) -> Result<Tracer, TraceError>
    where
        F: Fn(&FunctionCall<'_>) + Send + Sync + 'static,
    {
        must_sleep()?;
        self.register_code_of::<F, Boxed>(Boxed(KBox::new(handler, GFP_KERNEL)?))
    }
}

/// A handler on the entry of functions, unregistered when it is dropped.
///
/// However many functions it traces, it is one `struct ftrace_ops`. A handler may drop it, its own one included. Then a work
/// item unregisters it, until which calls still come, and the handler stays until none is being handled any more. One that is
/// forgotten, as with `mem::forget()`, is unregistered when the module that its handler is code of goes.
pub struct Tracer<H: TraceHandler = Boxed> {
    raw: Deferred<RawTracer<H>>,
    functions: usize,
}

impl Tracer {
    /// Describes a tracer.
    pub const fn builder<'a>() -> Builder<'a> {
        Builder::new()
    }
}

impl<H: TraceHandler> Tracer<H> {
    /// The handler.
    pub fn handler(&self) -> &H {
        self.raw.handler()
    }

    /// How many functions were found when it was registered. Of a module that has gone since, they are traced no longer; those of
    /// one that comes later are not traced.
    pub fn functions(&self) -> usize {
        self.functions
    }
}
