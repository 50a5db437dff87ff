// SPDX-License-Identifier: GPL-2.0

//! Tracers of a single function, with a handler that gets typed arguments.
#![deny(unsafe_code)]

use kernel::prelude::*;
use kernel::str::CString;

use crate::call::FunctionCall;
use crate::error::must_sleep;
use crate::error::TraceError;
use crate::tracer::Tracer;

/// Builder for a tracer of one function; made by [`trace_function!`](crate::trace_function).
pub struct FunctionBuilder<'a, F> {
    name: &'a str,
    call: F,
}

impl<'a, F: Fn(&FunctionCall<'_>) + Send + Sync + 'static> FunctionBuilder<'a, F> {
    /// Makes a builder. `path` is a function's name, with or without its modules.
    #[doc(hidden)]
    pub fn new(path: &'a str, call: F) -> Self {
        let name = path.rsplit(':').next().unwrap_or(path).trim();
        Self { name, call }
    }

    /// Registers the tracer.
    ///
    /// Context: process; sleeps.
    pub fn register(self) -> Result<Tracer, TraceError> {
        must_sleep()?;
        let name = CString::try_from_fmt(fmt!("{}", self.name))?;
        Tracer::builder().names(&[&name]).register_boxed(self.call)
    }
}

/// Returns a builder for a tracer of one function; [`FunctionBuilder::register`] registers it.
///
/// The handler looks like a closure. Its first parameter is the `&FunctionCall`, the others are the
/// function's parameters, at most six, with types that implement [`Argument`](crate::Argument).
/// Unneeded parameters can be left out from the end. The handler is a `Fn` and owns its captures.
///
/// If the kernel's bindings have the function, name it by its path. Then all types have to be those
/// of the binding, as checked at compile time. With a string the types are not checked. The macro
/// neither calls nor links the function, so it need not be exported.
///
/// # Examples
///
/// ```ignore
/// let forks = trace_function!(
///     bindings::kernel_clone,
///     |call, args: *mut bindings::kernel_clone_args| { /* ... */ }
/// )
/// .register()?;
/// let opens = trace_function!("do_sys_openat2", |_call, dfd: i32| { /* ... */ }).register()?;
/// ```
#[macro_export]
macro_rules! trace_function {
    ($name:literal, |$call:pat_param $(, $argument:ident: $type:ty)* $(,)?| $body:expr) => {
        $crate::FunctionBuilder::new($name, move |context: &$crate::FunctionCall<'_>| {
            let [$($argument,)* ..] = $crate::FunctionCall::arguments(context);
            $(let $argument = <$type as $crate::Argument>::from_register($argument);)*
            let $call = context;
            $body
        })
    };
    (
        $($function:ident)::+,
        |$call:pat_param $(, $argument:ident: $type:ty)* $(,)?| $body:expr
    ) => {{
        // Never called, so nothing refers to the function: only its type matters.
        let _ = || {
            let _: $crate::c_function!($($type),*) = $($function)::+;
        };
        $crate::FunctionBuilder::new(
            ::core::stringify!($($function)::+),
            move |context: &$crate::FunctionCall<'_>| {
                let [$($argument,)* ..] = $crate::FunctionCall::arguments(context);
                $(let $argument = <$type as $crate::Argument>::from_register($argument);)*
                let $call = context;
                $body
            },
        )
    }};
}
