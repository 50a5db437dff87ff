// SPDX-License-Identifier: GPL-2.0

//! The engine's exits on the hook points: objects that come, and modules that go.
//!
//! Contexts: process, sleeps; the exits for objects with the lock that constructors take.

use ferro_gkhi::points::GcovObject;
use ferro_gkhi::points::LlvmGcovObject;
use ferro_gkhi::points::ModuleEvent;
use ferro_gkhi::Answer;
use ferro_gkhi::Priority;
use ferro_gkhi::Registered;
use kernel::bindings;
use kernel::prelude::*;

use super::object::Candidate;
use super::owner;
use super::owner::ModuleId;

/// The result of offering an object to the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Offer {
    /// The engine has it, or has refused it for good.
    Done,
    /// There was no memory.
    NoMemory,
    /// The engine is about to go: the object is for those after it.
    Leaving,
}

/// The exits. When this is dropped they are not called any more, and no data of a module can be used.
pub(crate) struct Exits {
    // In the order in which they have to go.
    _gcc: Registered<GcovObject>,
    _llvm: Registered<LlvmGcovObject>,
    // While the exit on `module_event` is there, which `Home` relies on. After it none can come any more: not that of a module with
    // Rust code either, which that exit brings.
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
fn arrive(object: bindings::gcov_object, take: fn(Candidate) -> Offer) -> Offer {
    // SAFETY: The hook passes what the constructor has been called with. Its module is being loaded. It was armed together with
    // `module_event`.
    let arrived = unsafe { Candidate::new(object) };
    arrived.map(take).unwrap_or_else(|error| {
        pr_warn!(
            "an object that came is not taken: error {}\n",
            error.to_errno()
        );
        Offer::NoMemory
    })
}

impl Exits {
    /// Registers and arms them. `object` is offered each object; `going` says that a module goes.
    ///
    /// Errors: as for `Builder::register()`.
    pub(crate) fn new(
        name: &CStr,
        object: fn(Candidate) -> Offer,
        going: fn(ModuleId),
    ) -> Result<Self, ferro_gkhi::Error> {
        // After others, which may want to see what comes.
        let gcc = Registered::<GcovObject>::builder(name)
            .disarmed()
            .priority(Priority::Last)
            .register(move |_call, (info,)| {
                let object_of = bindings::gcov_object {
                    info: info.cast(),
                    ..Default::default()
                };
                match arrive(object_of, object) {
                    Offer::Done => Answer::Terminate,
                    Offer::NoMemory | Offer::Leaving => Answer::Continue,
                }
            })?;
        let llvm =
            Registered::<LlvmGcovObject>::builder(name)
                .disarmed()
                .priority(Priority::Last)
                .register(move |_call, (writeout, flush)| {
                    // SAFETY: The hook passes the two functions that the constructor has been called with, as pointers, or NULL.
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
                    match arrive(object_of, object) {
                        // Not for others: kernel/gcov would allocate for it, and does not free that
                        // when the module goes while it has no files.
                        Offer::Done | Offer::NoMemory => Answer::Terminate,
                        // The engine gives its objects back after this: kernel/gcov has files again
                        // before the module can go.
                        Offer::Leaving => Answer::Continue,
                    }
                })?;
        // What `Home` relies on.
        let modules = Registered::<ModuleEvent>::builder(name)
            .disarmed()
            .pinned()
            .register(move |_call, (module, state)| {
                // When it is there for those that came before this exit; all others are known by then.
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
                        arrive(object_of, object);
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
