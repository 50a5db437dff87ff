// SPDX-License-Identifier: GPL-2.0

//! Hooks and exits with typed parameters.
//!
//! Contexts: those of the hook.

use core::marker::PhantomData;

mod macros;
mod param;

pub use param::NoReturn;
pub use param::Param;
pub use param::ReturnValue;

use crate::bindings;
use kernel::ffi::c_long;
use kernel::ffi::c_ulong;
use kernel::prelude::*;

use super::Condition;
use super::Context;
use super::Hook as RawHook;
use super::HookRef;
use super::Parts;
use super::PARAMS_MAX;
use crate::cpu::preempt::PreemptOff;
use crate::cpu::IrqsOff;

/// Answer of an exit.
pub enum Answer<R = NoReturn> {
    /// Continues with the next exit.
    Continue,
    /// Ends the dispatch: no further exit is called.
    Terminate,
    /// Ends the dispatch, and the function with the hook returns this at once.
    Return(R),
}

/// Outcome of a dispatch.
#[derive(Debug, PartialEq, Eq)]
pub enum Outcome<R> {
    /// All exits have been called, if there are any.
    Continued,
    /// An exit ended it.
    Terminated,
    /// An exit ended it, and wants the function to return this.
    Return(R),
}

/// A hook and its parameters; [`define_hook!`](crate::define_hook) makes them.
///
/// # Safety
///
/// The constants describe the hook of this name. The two functions are inverse to each other, or to
/// the conversion of a site in C.
pub unsafe trait Spec: Sized + 'static {
    /// Name of the hook.
    const NAME: &'static CStr;
    /// Parameters: `name: type`, or only names for a hook of C.
    const PARAMS: &'static CStr;
    /// Number of parameters.
    const COUNT: usize;
    /// True if some parameters are modifiable.
    const MODIFIABLE: bool;
    /// True if attaching takes `unsafe`.
    const ENGINE: bool;
    /// Context in which the hook fires.
    const CONTEXT: Context;
    /// Types of the parameters.
    type Args<'a>;
    /// Type of the value that an exit can make the function return.
    type Return: ReturnValue;
    /// Token that tells an exit its context.
    type Token: Token;

    /// Returns the hook with which this type was made, or `None` if it is defined in C.
    ///
    /// This static identifies the types on which exits and sites have agreed. A compiler's type
    /// number is not enough: another crate of the same name can have the same number.
    fn defined() -> Option<&'static Hook<Self>>;

    /// Converts the parameters to registers.
    fn into_raw(args: Self::Args<'_>) -> [c_ulong; PARAMS_MAX];

    /// # Safety
    ///
    /// `raw` was passed by a site of this hook, within this lifetime.
    unsafe fn from_raw<'a>(raw: [c_ulong; PARAMS_MAX]) -> Self::Args<'a>;
}

/// A hook that safe code can attach to.
///
/// # Safety
///
/// No answer of an exit does harm. The hook is no trap: functions that an exit calls may trap
/// again, without end.
#[diagnostic::on_unimplemented(
    message = "attaching to `{Self}` is for engines: `Builder::register_engine()`, which takes an \
        `EnginePromise`"
)]
pub unsafe trait Open: Spec {}

/// An engine's promise about one exit of a hook where an exit can break the kernel.
pub struct EnginePromise<H>(PhantomData<fn(H)>);

impl<H: Spec> EnginePromise<H> {
    /// # Safety
    ///
    /// The exit for which this is used follows the rules of the hook in `<linux/gkhi_points.h>`: it
    /// claims to have handled only events that it has handled. It does not sleep, and neither drops
    /// nor disarms itself. If the hook is a trap, the exit calls nothing that prints, or that
    /// causes a trap that this exit does not end at once.
    pub unsafe fn new() -> Self {
        Self(PhantomData)
    }
}

mod sealed {
    pub trait Sealed {}
}

/// Type that stands for the context of an exit.
pub trait Token: sealed::Sealed {
    /// The context.
    const CONTEXT: Context;

    /// # Safety
    ///
    /// The caller is in this context, and the result does not leave it.
    #[doc(hidden)]
    unsafe fn assume() -> Self;
}

macro_rules! token {
    ($($(#[$doc:meta])* $name:ident)*) => { $(
        $(#[$doc])*
        pub struct $name(PhantomData<*mut ()>);

        impl sealed::Sealed for $name {}

        impl Token for $name {
            const CONTEXT: Context = Context::$name;

            #[inline(always)]
            unsafe fn assume() -> Self {
                Self(PhantomData)
            }
        }
    )* };
}

token! {
    /// Process context in which sleeping is allowed.
    Sleep
    /// Any context, without sleeping.
    Task
    /// Contexts that are not preempted: interrupts, NMIs, traps, or with interrupts off.
    Atomic
}

/// A condition under which an exit is called.
pub trait Entry: sealed::Sealed + 'static {
    /// The condition.
    const CONDITION: Condition;
    /// Proof of the condition.
    type Proof;
    /// Context of an exit of a hook with this token.
    type Context<T: Token>: Token;

    /// # Safety
    ///
    /// The condition holds, and the result does not outlive it.
    #[doc(hidden)]
    unsafe fn proof() -> Self::Proof;
}

/// No condition.
pub struct AsIs;

impl sealed::Sealed for AsIs {}

impl Entry for AsIs {
    const CONDITION: Condition = Condition::None;
    type Proof = ();
    type Context<T: Token> = T;

    #[inline(always)]
    unsafe fn proof() {}
}

/// With interrupts off.
pub struct WithIrqsOff;

impl sealed::Sealed for WithIrqsOff {}

impl Entry for WithIrqsOff {
    const CONDITION: Condition = Condition::IrqsOff;
    type Proof = IrqsOff;
    type Context<T: Token> = Atomic;

    #[inline(always)]
    unsafe fn proof() -> IrqsOff {
        // SAFETY: By the rules of this function, which is called for the duration of the exit.
        unsafe { IrqsOff::assume() }
    }
}

/// With interrupts off, while all other CPUs are stopped. On hooks that may sleep only.
pub struct WithCpusStopped;

impl sealed::Sealed for WithCpusStopped {}

/// All other CPUs are stopped, and interrupts are off.
pub struct CpusStopped(PhantomData<*mut ()>);

impl Entry for WithCpusStopped {
    const CONDITION: Condition = Condition::CpusStopped;
    type Proof = CpusStopped;
    type Context<T: Token> = Atomic;

    #[inline(always)]
    unsafe fn proof() -> CpusStopped {
        CpusStopped(PhantomData)
    }
}

/// The call of an exit.
pub struct Call<'a, H: Spec, C: Entry = AsIs> {
    /// A pointer, not a reference, because the function may change concurrently.
    exit: *const bindings::gkh_exit,
    context: C::Context<H::Token>,
    proof: C::Proof,
    _call: PhantomData<&'a ()>,
}

impl<H: Spec, C: Entry> Call<'_, H, C> {
    /// Returns the token of the exit's context.
    pub fn context(&self) -> &C::Context<H::Token> {
        &self.context
    }

    /// Returns the proof that the condition holds.
    pub fn proof(&self) -> &C::Proof {
        &self.proof
    }

    /// Returns the number of the hook's parameters, which may exceed the number that the exit was
    /// compiled for.
    pub fn count(&self) -> u32 {
        // SAFETY: The exit is being called, and this never changes.
        unsafe { (*self.exit).count }
    }

    /// Disarms the exit. No hook calls it afterwards, but other CPUs may be running it. Returns
    /// true for the one call that did it.
    pub fn disarm_self(&self) -> bool {
        // SAFETY: The exit is being called.
        unsafe { super::disarm_self(self.exit) }
    }
}

/// Handler of a hook. Closures with these parameters implement it.
pub trait ExitOn<H: Spec, C: Entry = AsIs>: Send + Sync + 'static {
    /// Handles a dispatch. It must not sleep, unless [`Call::context`] is [`Sleep`].
    fn call(&self, call: &Call<'_, H, C>, args: H::Args<'_>) -> Answer<H::Return>;
}

impl<H, C, F> ExitOn<H, C> for F
where
    H: Spec,
    C: Entry,
    F: for<'a, 'b> Fn(&Call<'a, H, C>, H::Args<'b>) -> Answer<H::Return> + Send + Sync + 'static,
{
    #[inline(always)]
    fn call(&self, call: &Call<'_, H, C>, args: H::Args<'_>) -> Answer<H::Return> {
        self(call, args)
    }
}

/// Returns the parts by which a registry calls `exit`.
///
/// # Safety
///
/// `exit` does not move until a `RetireList` has waited for the last hook that had it; it is
/// registered on hooks that `H` describes.
pub unsafe fn parts_of<H: Spec, C: Entry, E: ExitOn<H, C>>(exit: &E) -> Parts {
    let data = core::ptr::from_ref(exit).cast_mut().cast();
    // SAFETY: By the rules of this function.
    let mut parts =
        unsafe { Parts::new(call::<H, C, E>, C::CONDITION, data, core::ptr::null_mut()) };
    if counts_left::<H>() {
        parts.count_left();
    }
    parts
}

/// Returns true if exits on this hook count the ends of their calls, so that an exit that sleeps
/// where it must not is noticed. A hook that may sleep has a lock instead, and an engine's exits
/// are promised not to sleep.
const fn counts_left<H: Spec>() -> bool {
    !H::ENGINE && !matches!(H::CONTEXT, Context::Sleep)
}

/// Guard that counts the end of a call.
struct Inside(*const bindings::gkh_exit);

impl Drop for Inside {
    #[inline(always)]
    fn drop(&mut self) {
        // SAFETY: Only `call()` makes one, for an exit that counts; it is created first there, and
        // dropped last.
        unsafe { super::exit::leave(self.0) };
    }
}

/// # Safety
///
/// Called by a hook that `H` describes, with `data` pointing to an `E`, under the condition `C`.
#[link_section = ".kprobes.text"]
unsafe extern "C" fn call<H: Spec, C: Entry, E: ExitOn<H, C>>(
    exit: *const bindings::gkh_exit,
    p0: c_ulong,
    p1: c_ulong,
    p2: c_ulong,
    p3: c_ulong,
    p4: c_ulong,
) -> c_long {
    let _inside = (const { counts_left::<H>() }).then(|| Inside(exit));
    let call = Call {
        exit,
        // SAFETY: The hook fires in `H::CONTEXT`, which its site guarantees, or under the condition
        // `C`, which excludes sleep; `call` is dropped before this returns.
        context: unsafe { <C::Context<H::Token>>::assume() },
        // SAFETY: The function was published with `C::CONDITION`, so that the hook's site or a
        // wrapper in `exit.rs` has made it true before the call; `call` is dropped before this
        // returns.
        proof: unsafe { C::proof() },
        _call: PhantomData,
    };
    // SAFETY: By the rules of this function.
    let this = unsafe { &*(*exit).data.cast::<E>() };
    // SAFETY: The site has passed these parameters.
    let args = unsafe { H::from_raw([p0, p1, p2, p3, p4]) };
    match this.call(&call, args) {
        Answer::Continue => 0,
        Answer::Terminate => 1,
        Answer::Return(value) => {
            let value = value.into_raw();
            // SAFETY: With a return value, the last parameter is the address for it.
            unsafe { core::ptr::with_exposed_provenance_mut::<c_long>(p4).write(value) };
            -1
        }
    }
}

/// A hook that is defined in Rust.
#[repr(transparent)]
pub struct Hook<H>(RawHook, PhantomData<fn(H)>);

impl<H: Spec> Hook<H> {
    /// Makes a hook for a static; [`define_hook!`](crate::define_hook) does so.
    #[doc(hidden)]
    pub const fn new() -> Self {
        assert!(H::COUNT + H::Return::SOME as usize <= PARAMS_MAX);
        let hook = RawHook::new(
            H::NAME,
            H::PARAMS,
            H::COUNT,
            H::CONTEXT,
            H::MODIFIABLE,
            H::Return::SOME,
        );
        Self(hook, PhantomData)
    }

    /// Returns the hook's reference for the registry.
    pub fn to_ref(&'static self) -> HookRef {
        self.0.to_ref()
    }

    /// Returns true if an exit is armed, for kernels without patched NOPs. Use
    /// [`hook!`](crate::hook).
    #[doc(hidden)]
    #[cfg(not(CONFIG_JUMP_LABEL))]
    pub fn is_active(&self) -> bool {
        self.0.is_active()
    }

    /// Calls the armed exits. [`hook!`](crate::hook) does so, if an exit is armed.
    #[doc(hidden)]
    #[inline(always)]
    pub fn dispatch(&self, args: H::Args<'_>) -> Outcome<H::Return> {
        // Enforces the declared context, on which waiters for exits rely.
        let _preempt = (const { matches!(H::CONTEXT, Context::Atomic) }).then(PreemptOff::new);
        #[cfg(any(CONFIG_PROVE_RCU, CONFIG_DEBUG_ATOMIC_SLEEP))]
        let _checked = self.0.check();
        let mut raw = H::into_raw(args);
        let mut value: c_long = 0;
        // SAFETY: The parameters are those of `H`, which describes this hook.
        let answer = unsafe {
            if H::Return::SOME {
                if let Some(last) = raw.last_mut() {
                    *last = (&raw mut value).expose_provenance();
                }
                self.0.call::<PARAMS_MAX>(raw)
            } else {
                match H::COUNT {
                    0 => self.0.call::<0>(raw),
                    1 => self.0.call::<1>(raw),
                    2 => self.0.call::<2>(raw),
                    3 => self.0.call::<3>(raw),
                    _ => self.0.call::<PARAMS_MAX>(raw),
                }
            }
        };
        match answer {
            0 => Outcome::Continued,
            -1 if H::Return::SOME => Outcome::Return(H::Return::from_raw(value)),
            _ => Outcome::Terminated,
        }
    }
}
