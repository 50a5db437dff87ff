// SPDX-License-Identifier: GPL-2.0

//! Substitute for the crate `kernel` on a kernel older than 7.3.
//!
//! Re-exports that kernel's crate, and adds the items of 7.3's crate that our code uses. Our crates
//! are compiled with this crate under the name `kernel` (`stock.mk`), and have one source for all
//! kernels. An item of this file takes precedence over one of a glob import. Each function is generic
//! or inlined: a module that calls it has a copy.

pub use kernel::*;

/// 7.3 has constants for all error codes.
pub mod error {
    pub use kernel::error::*;

    /// Error codes.
    pub mod code {
        use kernel::bindings;
        use kernel::error::Error;

        pub use kernel::error::code::*;

        // `error()` depends on the private layout of `Error`.
        // SAFETY: An `Error` has the size of an `i32`, or this does not compile.
        const _: () = assert!(
            unsafe { core::mem::transmute::<Error, i32>(EINVAL) } == -(bindings::EINVAL as i32)
        );

        const fn error(code: u32) -> Error {
            assert!(code > 0 && code <= bindings::MAX_ERRNO);
            // SAFETY: The value is an error code. The check above shows that `Error` contains only it.
            unsafe { core::mem::transmute::<i32, Error>(-(code as i32)) }
        }

        macro_rules! errors {
            ($($name:ident),*) => {
                $(
                    #[doc = concat!("The error ", stringify!($name), ".")]
                    pub const $name: Error = error(bindings::$name);
                )*
            };
        }
        errors!(EILSEQ, ELOOP, ENODATA, EOPNOTSUPP, ESHUTDOWN);
    }
}

/// Module-related types.
pub mod module {
    use kernel::bindings;
    pub use kernel::{
        InPlaceModule,
        Module,
        ModuleMetadata,
        ThisModule, //
    };

    /// Returns the `THIS_MODULE` of the module that is compiled.
    #[inline(always)]
    pub const fn this_module<M: ModuleMetadata>() -> &'static ThisModule {
        extern "C" {
            static __this_module: bindings::module;
        }
        // SAFETY: The kernel makes it when it loads the module, and frees it after the module's last
        // use. The function is generic, and has the symbol of the module that it is compiled for.
        const { &unsafe { ThisModule::from_ptr((&raw const __this_module).cast_mut()) } }
    }
}

/// Parameters of modules.
pub mod module_param {
    use kernel::ffi::c_void;

    pub use kernel::module_param::*;

    /// Parameter whose value is copied.
    pub struct ModuleParamAccess<T>(kernel::module_param::ModuleParamAccess<T>);

    impl<T> ModuleParamAccess<T> {
        /// Creates a parameter. The macro `module!` calls it.
        pub const fn new(default: T) -> Self {
            Self(kernel::module_param::ModuleParamAccess::new(default))
        }

        /// Returns the value that was set when the module was loaded, or the default.
        #[inline]
        pub fn value(&self) -> T
        where
            T: Copy,
        {
            *self.0.value()
        }

        /// Returns the pointer for `struct kernel_param`.
        pub const fn as_void_ptr(&self) -> *mut c_void {
            self.0.as_void_ptr()
        }
    }
}

/// Common items.
pub mod prelude {
    pub use kernel::prelude::*;

    pub use crate::error::code::{
        EILSEQ,
        ELOOP,
        ENODATA,
        EOPNOTSUPP,
        ESHUTDOWN, //
    };
}

/// Synchronisation.
pub mod sync {
    pub use kernel::sync::*;

    /// Memory barriers, whose kind is an argument.
    pub mod barrier {
        use kernel::sync::barrier;

        pub use kernel::sync::{
            atomic::Full,
            barrier::*, //
        };

        /// Orders loads.
        pub struct Read;

        /// Kind of barrier.
        pub trait Kind {
            /// Executes the barrier.
            fn run();
        }

        impl Kind for Full {
            #[inline(always)]
            fn run() {
                barrier::smp_mb();
            }
        }

        impl Kind for Read {
            #[inline(always)]
            fn run() {
                barrier::smp_rmb();
            }
        }

        /// Executes a barrier between CPUs.
        #[inline(always)]
        pub fn smp_mb<K: Kind>(_: K) {
            K::run();
        }
    }

    /// RCU.
    pub mod rcu {
        use kernel::bindings;

        pub use kernel::sync::rcu::*;

        /// Waits for a grace period. Context: task that may sleep.
        #[inline]
        pub fn synchronize_rcu() {
            // SAFETY: The caller may sleep, as the function above says.
            unsafe { bindings::synchronize_rcu() };
        }
    }
}
