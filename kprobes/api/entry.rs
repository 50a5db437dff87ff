// SPDX-License-Identifier: GPL-2.0

//! Probes on the entry of a function that get its arguments: the successor of jprobes.
//!
//! Contexts: handlers any, NMI included; the rest process.
#![deny(unsafe_code)]

use kernel::prelude::*;
use kernel::sync::atomic::Atomic;
use kernel::sync::atomic::Relaxed;

use crate::context::Next;
use crate::context::ProbeCtx;
use crate::error::must_sleep;
use crate::error::ProbeError;
use crate::probe::Probe;
use crate::probe::ProbeHandler;
use crate::raw::permissions::Untraceable;
use crate::target::Target;

/// Boxed handler, so that probes have a type that can be named.
struct Entry {
    hits: Atomic<u64>,
    call: KBox<dyn Fn(&mut ProbeCtx<'_>) + Send + Sync>,
}

#[vtable]
impl ProbeHandler for Entry {
    const MAY_GO_ELSEWHERE: bool = false;

    fn pre(&self, ctx: &mut ProbeCtx<'_>) -> Next {
        self.hits.fetch_add(1, Relaxed);
        (self.call)(ctx);
        Next::Continue
    }
}

/// Builder for an [`EntryProbe`]; made by [`entry_probe!`](crate::entry_probe).
pub struct EntryBuilder<'a, F> {
    target: Target<'a>,
    call: F,
}

impl<'a, F: Fn(&mut ProbeCtx<'_>) + Send + Sync + 'static> EntryBuilder<'a, F> {
    /// Makes a builder. `path` is a function's name, with or without its modules.
    #[doc(hidden)]
    pub fn new(path: &'a str, call: F) -> Self {
        let name = path.rsplit(':').next().unwrap_or(path).trim();
        Self {
            target: Target::of_function(name),
            call,
        }
    }

    /// Permits a function that ftrace cannot trace.
    pub fn untraceable(self, permission: Untraceable) -> Self {
        Self {
            target: self.target.untraceable(permission),
            ..self
        }
    }

    /// Leaves the probe disarmed until [`EntryProbe::arm`].
    pub fn disarmed(self) -> Self {
        Self {
            target: self.target.disarmed(),
            ..self
        }
    }

    /// Registers the probe.
    ///
    /// Context: process; sleeps.
    pub fn register(self) -> Result<EntryProbe, ProbeError> {
        must_sleep()?;
        let entry = Entry {
            hits: Atomic::new(0),
            call: KBox::new(self.call, GFP_KERNEL)?,
        };
        Ok(EntryProbe {
            probe: Probe::register(self.target, entry)?,
        })
    }
}

/// Probe on the entry of a function, unregistered by the drop, as a [`Probe`] is.
///
/// [`entry_probe!`](crate::entry_probe) makes one.
pub struct EntryProbe {
    probe: Probe<Entry>,
}

impl EntryProbe {
    /// Returns the number of calls of the handler.
    pub fn hits(&self) -> u64 {
        self.probe.handler().hits.load(Relaxed)
    }

    /// Returns the address of the function's first instruction.
    pub fn address(&self) -> usize {
        self.probe.address()
    }

    /// Returns the number of missed calls, where another handler was running on this CPU.
    pub fn missed(&self) -> usize {
        self.probe.missed()
    }

    /// Arms the probe. Sleeps.
    pub fn arm(&self) -> Result<(), ProbeError> {
        self.probe.arm()
    }

    /// Disarms the probe. Sleeps; the handler may still be running afterwards.
    pub fn disarm(&self) -> Result<(), ProbeError> {
        self.probe.disarm()
    }

    /// Returns true if the probe is armed.
    pub fn is_armed(&self) -> bool {
        self.probe.is_armed()
    }
}

/// Returns a builder for a probe on the entry of a function; [`EntryBuilder::register`] registers
/// it.
///
/// The handler looks like a closure. Its first parameter is the `&mut ProbeCtx`, the others are the
/// function's parameters, at most six, with types that implement [`Argument`]. Unneeded parameters
/// can be left out from the end. The handler is a `Fn` and owns its captures.
///
/// If the kernel's bindings have the function, name it by its path. Then all types have to be those
/// of the binding, as checked at compile time. With a string the types are not checked. The macro
/// neither calls nor links the function, so it need not be exported.
///
/// # Examples
///
/// ```ignore
/// let forks = entry_probe!(
///     bindings::kernel_clone,
///     |ctx, args: *mut bindings::kernel_clone_args| {
///         let flags = ctx.read(field!(args, bindings::kernel_clone_args, flags));
///         // ...
///     }
/// )
/// .register()?;
/// let opens = entry_probe!("do_sys_openat2", |_ctx, dfd: i32| { /* ... */ }).register()?;
/// ```
#[macro_export]
macro_rules! entry_probe {
    ($name:literal, |$ctx:pat_param $(, $argument:ident: $type:ty)* $(,)?| $body:expr) => {
        $crate::EntryBuilder::new($name, move |context: &mut $crate::ProbeCtx<'_>| {
            let [$($argument,)* ..] = $crate::ProbeCtx::register_arguments(context);
            $(let $argument = <$type as $crate::Argument>::from_register($argument);)*
            let $ctx = context;
            $body
        })
    };
    ($($function:ident)::+, |$ctx:pat_param $(, $argument:ident: $type:ty)* $(,)?| $body:expr) => {{
        // Never called, so nothing refers to the function: only its type matters.
        let _ = || {
            let _: $crate::c_function!($($type),*) = $($function)::+;
        };
        $crate::EntryBuilder::new(
            ::core::stringify!($($function)::+),
            move |context: &mut $crate::ProbeCtx<'_>| {
                let [$($argument,)* ..] = $crate::ProbeCtx::register_arguments(context);
                $(let $argument = <$type as $crate::Argument>::from_register($argument);)*
                let $ctx = context;
                $body
            },
        )
    }};
}
