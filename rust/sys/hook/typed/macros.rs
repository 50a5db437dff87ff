// SPDX-License-Identifier: GPL-2.0

//! Macros that define hooks and their sites.

/// Calls the armed exits of a hook from [`define_hook!`](crate::define_hook) with the parameters,
/// which are only evaluated if an exit is armed. Returns an
/// [`Outcome`](crate::hook::typed::Outcome).
///
/// # Examples
///
/// ```
/// # use ferro_sys::{define_hook, hook};
/// # define_hook! {
/// #     /// The clock has ticked.
/// #     pub static CLOCK_TICK: ClockTick<'a> =
/// #         c"clock_tick" in Atomic(now: u64, late: &'a mut bool);
/// # }
/// # fn f(now: u64) {
/// let mut late = false;
/// hook!(CLOCK_TICK, now, &mut late);
/// # }
/// ```
#[macro_export]
macro_rules! hook {
    ($hook:path $(, $arg:expr)* $(,)?) => {
        if $crate::hook_is_active!($hook) {
            $hook.dispatch(($($arg,)*))
        } else {
            $crate::hook::typed::Outcome::Continued
        }
    };
}

/// Returns true if an exit of a hook is armed: the patched NOP.
#[macro_export]
macro_rules! hook_is_active {
    ($hook:path) => {{
        // No deref coercion here: for a static that refers to a hook, the key would be elsewhere.
        let _: *const $crate::hook::typed::Hook<_> = ::core::ptr::addr_of!($hook);

        #[cfg(not(CONFIG_JUMP_LABEL))]
        {
            $hook.is_active()
        }

        #[cfg(CONFIG_JUMP_LABEL)]
        {
            // SAFETY: By its type above this is a hook, which only `Hook::new()` makes: a `struct
            // gkhook`, whose `key` is a static key that is false at first, as the last argument
            // says. The assembler needs its address, so it is a static.
            unsafe {
                ::kernel::jump_label::arch_static_branch! {
                    $hook, $crate::bindings::gkhook, key, false
                }
            }
        }
    }};
}

/// Defines a hook: a static for its sites, and a type for its exits.
///
/// # Examples
///
/// ```
/// # use ferro_sys::define_hook;
/// define_hook! {
///     /// The clock has ticked; exits can say that it was late.
///     pub static CLOCK_TICK: ClockTick<'a> =
///         c"clock_tick" in Atomic(now: u64, late: &'a mut bool);
/// }
/// ```
///
/// With `-> type` after the parameters, exits can make the function return such a value.
#[macro_export]
macro_rules! define_hook {
    (
        $(#[$meta:meta])*
        $vis:vis static $hook:ident: $spec:ident<$lt:lifetime> = $name:literal in $context:ident
        ($($param:ident: $ty:ty),* $(,)?) $(-> $ret:ty)?;
    ) => {
        $(#[$meta])*
        $vis static $hook: $crate::hook::typed::Hook<$spec> = $crate::hook::typed::Hook::new();

        $crate::hook_spec! {
            $(#[$meta])*
            $vis $spec<$lt> = $name in $context($($param: $ty),*) $(-> $ret)?;
            false, Some(&$hook), $crate::param_list!($($param: $ty),*)
        }

        // SAFETY: Only `hook!` fires it, in Rust code, which gets the answer as an `Outcome` and
        // must be sound with each, as with any value. It is no trap: a function that an exit calls
        // fires it only if it calls such code.
        unsafe impl $crate::hook::typed::Open for $spec {}
    };
}

/// Declares the type for exits of a hook that is defined in C.
///
/// The last line repeats the hook's parameter names, or the first of them. With `engine` before the
/// name, attaching takes `unsafe`, too: for hooks at which an exit can break the kernel by its
/// answer or its calls.
///
/// # Safety
///
/// Hence the word `unsafe`: the hook of this name passes parameters of these types, and mutable
/// references belong to the exit alone until it returns. Without `engine`, no answer of an exit can
/// do harm, and the hook is no trap.
///
/// # Examples
///
/// ```
/// # use ferro_sys::declare_hook;
/// # use kernel::task::Task;
/// declare_hook! {
///     /// A task that has exited is about to be freed.
///     pub TaskExit<'a> = c"task_exit" in Atomic(task: &'a Task);
///     // SAFETY: `points.c` passes a task that exists until the exits have returned.
///     unsafe { c"task" }
/// }
/// ```
#[macro_export]
macro_rules! declare_hook {
    (
        $(#[$meta:meta])*
        $vis:vis engine $spec:ident<$lt:lifetime> = $name:literal in $context:ident
        ($($param:ident: $ty:ty),* $(,)?) $(-> $ret:ty)?;
        $unsafe:tt $names:tt
    ) => {
        $crate::must_be_unsafe!($unsafe);

        $crate::hook_spec! {
            $(#[$meta])*
            $vis $spec<$lt> = $name in $context($($param: $ty),*) $(-> $ret)?;
            true, None, $unsafe $names
        }
    };
    (
        $(#[$meta:meta])*
        $vis:vis $spec:ident<$lt:lifetime> = $name:literal in $context:ident
        ($($param:ident: $ty:ty),* $(,)?) $(-> $ret:ty)?;
        $unsafe:tt $names:tt
    ) => {
        $crate::must_be_unsafe!($unsafe);

        $crate::hook_spec! {
            $(#[$meta])*
            $vis $spec<$lt> = $name in $context($($param: $ty),*) $(-> $ret)?;
            false, None, $unsafe $names
        }

        // SAFETY: The author of the `unsafe`, which `must_be_unsafe!` has required, has promised by
        // the rules of this macro that no answer does harm at this hook, as it has no `engine`, and
        // that it is no trap.
        unsafe impl $crate::hook::typed::Open for $spec {}
    };
}

/// Takes the word `unsafe` from the caller, so that `forbid(unsafe_code)` sees it.
#[doc(hidden)]
#[macro_export]
macro_rules! must_be_unsafe {
    (unsafe) => {};
}

/// Returns the parameters as a hook of Rust shows them.
#[doc(hidden)]
#[macro_export]
macro_rules! param_list {
    () => { c"" };
    ($param:ident: $ty:ty $(, $more:ident: $other:ty)*) => {
        ::kernel::c_str!(concat!(
            stringify!($param), ": ", stringify!($ty)
            $(, ", ", stringify!($more), ": ", stringify!($other))*
        ))
    };
}

/// Defines a type that describes a hook.
#[doc(hidden)]
#[macro_export]
macro_rules! hook_spec {
    (
        $(#[$meta:meta])*
        $vis:vis $spec:ident<$lt:lifetime> = $name:literal in $context:ident
        ($($param:ident: $ty:ty),* $(,)?) $(-> $ret:ty)?;
        $engine:literal, $hook:expr, $names:expr
    ) => {
        $(#[$meta])*
        $vis enum $spec {}

        // SAFETY: The constants and both conversions are made from one list of parameters, so that
        // they match. A hook that is defined here has the same list in its static. For a hook of C,
        // the author of the `unsafe` in `declare_hook!` has promised that it passes these
        // parameters.
        unsafe impl $crate::hook::typed::Spec for $spec {
            const NAME: &'static ::kernel::prelude::CStr = $name;
            #[allow(unused_unsafe)]
            const PARAMS: &'static ::kernel::prelude::CStr = $names;
            const ENGINE: bool = $engine;
            const COUNT: usize = 0 $(+ { let _ = stringify!($param); 1 })*;
            const MODIFIABLE: bool = {
                // Types without references do not use it.
                #[allow(clippy::extra_unused_lifetimes)]
                const fn any<$lt>() -> bool {
                    false $(|| <$ty as $crate::hook::typed::Param<$lt>>::MODIFIABLE)*
                }
                any()
            };
            const CONTEXT: $crate::hook::Context = $crate::hook::Context::$context;
            type Args<$lt> = ($($ty,)*);
            type Return = $crate::return_type!($($ret)?);
            type Token = $crate::hook::typed::$context;

            fn defined() -> Option<&'static $crate::hook::typed::Hook<Self>> {
                $hook
            }

            #[inline(always)]
            fn into_raw(args: Self::Args<'_>) -> [usize; $crate::hook::PARAMS_MAX] {
                let ($($param,)*) = args;
                let given = [$($crate::hook::typed::Param::into_raw($param)),*];
                let mut raw = [0; $crate::hook::PARAMS_MAX];
                for (raw, given) in ::core::iter::zip(&mut raw, given) {
                    *raw = given;
                }
                raw
            }

            // A hook without parameters passes nothing.
            #[allow(clippy::unused_unit)]
            #[inline(always)]
            unsafe fn from_raw<$lt>(raw: [usize; $crate::hook::PARAMS_MAX]) -> Self::Args<$lt> {
                let mut raw = raw.into_iter();
                // SAFETY: The caller guarantees that a site of this hook has passed `raw`, for this
                // lifetime: the n-th word is from `into_raw()` of the n-th type, or from C code
                // that passes the same.
                ($(unsafe {
                    <$ty as $crate::hook::typed::Param<$lt>>::from_raw(raw.next().unwrap_or(0))
                },)*)
            }
        }
    };
}

/// Type of the value that an exit can make the function return.
#[doc(hidden)]
#[macro_export]
macro_rules! return_type {
    () => {
        $crate::hook::typed::NoReturn
    };
    ($ret:ty) => {
        $ret
    };
}
