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

use kernel::bindings;
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

/// What an exit says.
pub enum Answer<R = NoReturn> {
    /// Go on with the next exit.
    Continue,
    /// No further exit is called.
    Terminate,
    /// The same, and the function that has the hook returns this at once.
    Return(R),
}

/// What a dispatch came to.
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
/// The constants describe the hook of this name, and the two functions are inverse to each other, or to
/// what a site in C does.
pub unsafe trait Spec: Sized + 'static {
    /// Its name.
    const NAME: &'static CStr;
    /// Its parameters: `name: type`, or only names for a hook of C.
    const PARAMS: &'static CStr;
    /// How many.
    const COUNT: usize;
    /// Whether some are modifiable.
    const MODIFIABLE: bool;
    /// Whether attaching takes `unsafe`.
    const ENGINE: bool;
    /// Where it fires.
    const CONTEXT: Context;
    /// The parameters.
    type Args<'a>;
    /// What an exit can make the function return.
    type Return: ReturnValue;
    /// Says to an exit where it runs.
    type Token: Token;

    /// The hook that this type was made with; none if it is defined in C.
    ///
    /// It is this static that says which types exits and sites have agreed on: the number that the compiler gives a type
    /// is that of another one in a crate of the same name.
    fn defined() -> Option<&'static Hook<Self>>;

    /// The parameters in registers.
    fn into_raw(args: Self::Args<'_>) -> [c_ulong; PARAMS_MAX];

    /// # Safety
    ///
    /// `raw` is what a site of this hook passes, within this lifetime.
    unsafe fn from_raw<'a>(raw: [c_ulong; PARAMS_MAX]) -> Self::Args<'a>;
}

/// A hook that safe code can attach to.
///
/// # Safety
///
/// Whatever an exit answers does no harm. The hook is no trap: what an exit calls may trap again, without end.
#[diagnostic::on_unimplemented(
    message = "attaching to `{Self}` is for engines: `Builder::register_engine()`, which takes an `EnginePromise`"
)]
pub unsafe trait Open: Spec {}

/// An engine's promise about one exit of a hook where an exit can break the kernel.
pub struct EnginePromise<H>(PhantomData<fn(H)>);

impl<H: Spec> EnginePromise<H> {
    /// # Safety
    ///
    /// The exit that this is used for keeps what `<linux/gkhi_points.h>` says of the hook: it says of nothing that it is dealt
    /// with that is not. It does not sleep, and neither drops nor disarms itself. If the hook is a trap, nothing that the exit
    /// calls prints, or meets such a trap that this exit does not end at once.
    pub unsafe fn new() -> Self {
        Self(PhantomData)
    }
}

mod sealed {
    pub trait Sealed {}
}

/// A type that says where an exit runs.
pub trait Token: sealed::Sealed {
    /// Where.
    const CONTEXT: Context;

    /// # Safety
    ///
    /// This is where the caller is, and the result does not leave it.
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
    /// Process context, where one may sleep.
    Sleep
    /// Anywhere: no sleeping.
    Task
    /// Where nothing is preempted: interrupts, NMIs, traps, or with interrupts off.
    Atomic
}

/// A condition under which an exit is called.
pub trait Entry: sealed::Sealed + 'static {
    /// The condition.
    const CONDITION: Condition;
    /// Proves it.
    type Proof;
    /// Where an exit of a hook with this token runs.
    type Context<T: Token>: Token;

    /// # Safety
    ///
    /// The condition holds, and the result does not outlive it.
    #[doc(hidden)]
    unsafe fn proof() -> Self::Proof;
}

/// As it comes.
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
    /// Its function may change under us, so there is no reference.
    exit: *const bindings::gkh_exit,
    context: C::Context<H::Token>,
    proof: C::Proof,
    _call: PhantomData<&'a ()>,
}

impl<H: Spec, C: Entry> Call<'_, H, C> {
    /// Where the exit runs.
    pub fn context(&self) -> &C::Context<H::Token> {
        &self.context
    }

    /// That its condition holds.
    pub fn proof(&self) -> &C::Proof {
        &self.proof
    }

    /// How many parameters the hook has: perhaps more than the exit was compiled for.
    pub fn count(&self) -> u32 {
        // SAFETY: The exit is being called, and this never changes.
        unsafe { (*self.exit).count }
    }

    /// Disarms the exit. From now on no hook calls it; it may just be being called on other CPUs too.
    /// True for the one call that did it.
    pub fn disarm_self(&self) -> bool {
        // SAFETY: The exit is being called.
        unsafe { super::disarm_self(self.exit) }
    }
}

/// What is done at a hook. Closures with these parameters do.
pub trait ExitOn<H: Spec, C: Entry = AsIs>: Send + Sync + 'static {
    /// Does it. It must not sleep, unless [`Call::context`] is [`Sleep`].
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

/// What a registry needs to call `exit`.
///
/// # Safety
///
/// `exit` stays where it is until a `RetireList` has waited for the last hook that had it; it is registered on hooks
/// that `H` describes.
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

/// Whether calls of exits on this hook are counted when they are over, so that an exit that sleeps where it must not is
/// noticed. Where it may sleep a lock does it, and what engines attach is promised not to.
const fn counts_left<H: Spec>() -> bool {
    !H::ENGINE && !matches!(H::CONTEXT, Context::Sleep)
}

/// Counts the end of a call.
struct Inside(*const bindings::gkh_exit);

impl Drop for Inside {
    #[inline(always)]
    fn drop(&mut self) {
        // SAFETY: Only `call()` makes one, of an exit that counts this; it is the first thing there, and the last to go.
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
        // SAFETY: The hook fires in `H::CONTEXT`, which its site guarantees, or under the condition `C`, which excludes sleep;
        // `call` goes before this returns.
        context: unsafe { <C::Context<H::Token>>::assume() },
        // SAFETY: The function was published with `C::CONDITION`, so that the hook's site or a wrapper of this file's
        // neighbour `exit.rs` has made it true before the call; `call` goes before this returns.
        proof: unsafe { C::proof() },
        _call: PhantomData,
    };
    // SAFETY: By the rules of this function.
    let this = unsafe { &*(*exit).data.cast::<E>() };
    // SAFETY: These are what the site passes.
    let args = unsafe { H::from_raw([p0, p1, p2, p3, p4]) };
    match this.call(&call, args) {
        Answer::Continue => 0,
        Answer::Terminate => 1,
        Answer::Return(value) => {
            let value = value.into_raw();
            // SAFETY: With a return value, the last parameter is where it goes.
            unsafe { core::ptr::with_exposed_provenance_mut::<c_long>(p4).write(value) };
            -1
        }
    }
}

/// A hook that is defined in Rust.
#[repr(transparent)]
pub struct Hook<H>(RawHook, PhantomData<fn(H)>);

impl<H: Spec> Hook<H> {
    /// For a static; [`define_hook!`](crate::define_hook) does it.
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

    /// For the registry.
    pub fn to_ref(&'static self) -> HookRef {
        self.0.to_ref()
    }

    /// Whether an exit is armed, where there are no patched NOPs. Use [`hook!`](crate::hook).
    #[doc(hidden)]
    #[cfg(not(CONFIG_JUMP_LABEL))]
    pub fn is_active(&self) -> bool {
        self.0.is_active()
    }

    /// Calls the armed exits. [`hook!`](crate::hook) does it, when there are some.
    #[doc(hidden)]
    #[inline(always)]
    pub fn dispatch(&self, args: H::Args<'_>) -> Outcome<H::Return> {
        // What is declared so must be so: who waits for exits relies on it.
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
