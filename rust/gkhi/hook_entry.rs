// SPDX-License-Identifier: GPL-2.0

//! What the registry keeps of a hook.
//!
//! Contexts: process.
#![deny(unsafe_code)]

use ferro_sys::cpu::percpu::PerCpuCounter;
use ferro_sys::fs::debugfs::Dir;
use ferro_sys::hook::ModuleName;
use ferro_sys::hook::Publisher;
use kernel::prelude::*;
use kernel::sync::Arc;

/// What the registry keeps of a hook.
pub(crate) struct HookEntry {
    pub(crate) publisher: Publisher,
    pub(crate) owner: ModuleName,
    /// Whether it was defined in Rust, with a type for its exits.
    pub(crate) typed: bool,
    /// Dispatches of chains.
    pub(crate) dispatches: Arc<PerCpuCounter>,
    /// Dispatches to single exits that are gone.
    pub(crate) past_hits: usize,
    pub(crate) dir: Option<Dir>,
}

impl HookEntry {
    pub(crate) fn name(&self) -> &CStr {
        self.publisher.hook_ref().name().unwrap_or(c"")
    }
}
