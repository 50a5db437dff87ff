// SPDX-License-Identifier: GPL-2.0

//! Tracers of one function whose handler gets its arguments with their types.
#![deny(unsafe_code)]

use kernel::prelude::*;
use kernel::str::CString;

use crate::call::FunctionCall;
use crate::error::must_sleep;
use crate::error::TraceError;
use crate::tracer::Tracer;

/// Describes a tracer of one function; made by [`trace_function!`](crate::trace_function).
pub struct FunctionBuilder<'a, F> {
    name: &'a str,
    call: F,
}

impl<'a, F: Fn(&FunctionCall<'_>) + Send + Sync + 'static> FunctionBuilder<'a, F> {
    /// `path` is a function's name, with or without the modules that it is in.
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

/// Describes a tracer of one function; [`FunctionBuilder::register`] registers it.
///
/// The handler looks like a closure. Its first parameter is the `&FunctionCall`, the others are the function's parameters, of
/// types that [`Argument`](crate::Argument) knows, at most six; those that are not needed can be left out from the end. It is a
/// `Fn`, and what it captures it owns.
///
/// Where the kernel's bindings have the function, name it by its path: then the types have to be those of the binding, all of
/// them, which is checked at compile time. With a string nobody checks them. Neither calls nor links the function, so it need not
/// be exported.
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
    ($($function:ident)::+, |$call:pat_param $(, $argument:ident: $type:ty)* $(,)?| $body:expr) => {{
        // Not called, so that nothing refers to the function: only its type matters.
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
