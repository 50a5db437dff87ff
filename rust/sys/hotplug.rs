// SPDX-License-Identifier: GPL-2.0

//! A call before a CPU comes up.
//!
//! Contexts: process; sleeps. The call runs on another CPU, with hotplug held for writing.

use core::marker::PhantomData;

use kernel::bindings;
use kernel::error::to_result;
use kernel::prelude::*;

use crate::cpu::CpuId;

/// What to do before a CPU comes up.
pub trait PrepareCpu {
    /// An error keeps the CPU down.
    fn prepare(cpu: CpuId) -> Result;
}

/// Keeps `T::prepare()` registered.
pub struct PrepareHook<T: PrepareCpu> {
    state: bindings::cpuhp_state,
    _prepare: PhantomData<fn(T)>,
}

impl<T: PrepareCpu> PrepareHook<T> {
    /// Registers `T`. It is not called for CPUs that are online already.
    ///
    /// Errors: -ENOSPC if the kernel's table of dynamic states is full.
    pub fn new(name: &'static CStr) -> Result<Self> {
        // SAFETY: The name lives for ever, and so does the function until `drop()`.
        let state = unsafe {
            bindings::__cpuhp_setup_state(
                bindings::cpuhp_state_CPUHP_BP_PREPARE_DYN,
                name.as_char_ptr(),
                false,
                Some(startup::<T>),
                None,
                false,
            )
        };
        to_result(state)?;
        Ok(Self {
            state,
            _prepare: PhantomData,
        })
    }
}

impl<T: PrepareCpu> Drop for PrepareHook<T> {
    fn drop(&mut self) {
        // SAFETY: `new()` got this state.
        unsafe { bindings::__cpuhp_remove_state(self.state, false) };
    }
}

/// # Safety
///
/// Called by the kernel's table of CPU states.
unsafe extern "C" fn startup<T: PrepareCpu>(cpu: u32) -> i32 {
    let prepared = CpuId::new(cpu).ok_or(EINVAL).and_then(T::prepare);
    prepared.map_or_else(|e| e.to_errno(), |()| 0)
}
