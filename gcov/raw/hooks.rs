// SPDX-License-Identifier: GPL-2.0

//! The engine's exits on the hook points for new objects and for modules.
//!
//! Contexts: process, sleeps; the exits for objects run with the lock that constructors take.

use ferro_gkhi::points::GcovObject;
use ferro_gkhi::points::LlvmGcovObject;
use ferro_gkhi::points::ModuleEvent;
use ferro_gkhi::Answer;
use ferro_gkhi::Priority;
use ferro_gkhi::Registered;
use ferro_sys::bindings;
use kernel::prelude::*;

use super::object::Candidate;
use super::owner;
use super::owner::ModuleId;

/// Result of offering an object to the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Offer {
    /// The engine has taken the object, or has refused it for good.
    Done,
    /// Memory was short.
    NoMemory,
    /// The engine is detaching: the object is left to later exits.
    Detaching,
}

/// The registered exits. After the drop the kernel calls none of them, and no data of a module can
/// be used.
pub(crate) struct Exits {
    // In drop order.
    _gcc: Registered<GcovObject>,
    _llvm: Registered<LlvmGcovObject>,
    // Closes all owners while `module_event`'s exit is registered: `Owner` relies on that exit.
    // Objects of modules with Rust code may still offer through it; `_closed` closes their owners.
    _closing: Closing,
    _modules: Registered<ModuleEvent>,
    _closed: Closing,
}

struct Closing;

impl Drop for Closing {
    fn drop(&mut self) {
        owner::close_all();
    }
}

/// Offers an object to the engine.
fn offer(object: bindings::gcov_object, take: fn(Candidate) -> Offer) -> Offer {
    // SAFETY: The hook passes the constructor's arguments. The module of the object is being
    // loaded. This exit was armed together with `module_event`.
    let candidate = unsafe { Candidate::new(object) };
    candidate.map(take).unwrap_or_else(|error| {
        pr_warn!("a new object is not taken: error {}\n", error.to_errno());
        Offer::NoMemory
    })
}

impl Exits {
    /// Registers and arms the exits. `object` is called with each new object, `going` with each
    /// module that is unloaded.
    ///
    /// Errors: as for `Builder::register()`.
    pub(crate) fn new(
        name: &CStr,
        object: fn(Candidate) -> Offer,
        going: fn(ModuleId),
    ) -> Result<Self, ferro_gkhi::Error> {
        // After other exits, which may want to see the objects.
        let gcc = Registered::<GcovObject>::builder(name)
            .disarmed()
            .priority(Priority::Last)
            .register(move |_call, (info,)| {
                let object_of = bindings::gcov_object {
                    info: info.cast(),
                    ..Default::default()
                };
                match offer(object_of, object) {
                    Offer::Done => Answer::Terminate,
                    Offer::NoMemory | Offer::Detaching => Answer::Continue,
                }
            })?;
        let llvm =
            Registered::<LlvmGcovObject>::builder(name)
                .disarmed()
                .priority(Priority::Last)
                .register(move |_call, (writeout, flush)| {
                    // SAFETY: The hook passes the two functions that the constructor has been
                    // called with, as pointers, or NULL.
                    let (writeout, flush) = unsafe {
                        (
                            core::mem::transmute::<
                                *mut core::ffi::c_void,
                                bindings::gcov_llvm_callback,
                            >(writeout),
                            core::mem::transmute::<
                                *mut core::ffi::c_void,
                                bindings::gcov_llvm_callback,
                            >(flush),
                        )
                    };
                    let object_of = bindings::gcov_object {
                        writeout,
                        flush,
                        ..Default::default()
                    };
                    match offer(object_of, object) {
                        // No later exit may have it: kernel/gcov would allocate memory for it, and
                        // leaks that memory if the module is unloaded while it has no files.
                        Offer::Done | Offer::NoMemory => Answer::Terminate,
                        // The engine gives its objects back after this: kernel/gcov has files again
                        // before the module can be unloaded.
                        Offer::Detaching => Answer::Continue,
                    }
                })?;
        // `Owner` relies on this exit.
        let modules = Registered::<ModuleEvent>::builder(name)
            .disarmed()
            .pinned()
            .register(move |_call, (module, state)| {
                // LIVE covers modules that were COMING before this exit was armed; other modules
                // are known by then.
                let is_here = state == bindings::module_state_MODULE_STATE_COMING
                    || state == bindings::module_state_MODULE_STATE_LIVE;
                if is_here {
                    // SAFETY: The hook passes a module that is being loaded.
                    let profile = unsafe { bindings::ferro_gcov_profile_of(module.cast()) };
                    if !profile.is_null() {
                        let object_of = bindings::gcov_object {
                            profile,
                            ..Default::default()
                        };
                        offer(object_of, object);
                    }
                }
                if state == bindings::module_state_MODULE_STATE_GOING {
                    if let Some(module) = ModuleId::new(module) {
                        going(module);
                        owner::close(module);
                    }
                }
                Answer::Continue
            })?;
        ferro_gkhi::arm(&[&gcc, &llvm, &modules])?;
        Ok(Self {
            _gcc: gcc,
            _llvm: llvm,
            _closing: Closing,
            _modules: modules,
            _closed: Closing,
        })
    }
}
