// SPDX-License-Identifier: GPL-2.0

//! Lists of `ferro_gkhi_core`, as vectors of the kernel.
//!
//! Contexts: process.
#![deny(unsafe_code)]

use ferro_gkhi_core as hooks;
use ferro_gkhi_core::List;
use ferro_gkhi_core::Lists;
use ferro_gkhi_core::NoMemory;
use kernel::prelude::*;

use crate::entries::ExitEntry;
use crate::entries::HookEntry;

/// Table of all hooks and exits.
pub(crate) type Hooks = hooks::Table<KernelLists, HookEntry, ExitEntry>;
/// A hook and its exits.
pub(crate) type Hook = hooks::Hook<KernelLists, HookEntry, ExitEntry>;
/// An exit.
pub(crate) type Exit = hooks::Exit<ExitEntry>;

/// Lists backed by `KVec`.
pub(crate) struct KernelLists;

impl Lists for KernelLists {
    type Of<T> = Items<T>;
}

/// A list backed by `KVec`.
pub(crate) struct Items<T>(KVec<T>);

impl<T> List<T> for Items<T> {
    fn new() -> Self {
        Self(KVec::new())
    }

    fn reserve(&mut self, more: usize) -> Result<(), NoMemory> {
        self.0.reserve(more, GFP_KERNEL).map_err(|_| NoMemory)
    }

    fn insert(&mut self, at: usize, item: T) -> Result<(), NoMemory> {
        self.reserve(1)?;
        self.0
            .insert_within_capacity(at, item)
            .map_err(|_| NoMemory)
    }

    fn remove(&mut self, at: usize) -> Option<T> {
        self.0.remove(at).ok()
    }

    fn as_slice(&self) -> &[T] {
        &self.0
    }

    fn as_mut_slice(&mut self) -> &mut [T] {
        &mut self.0
    }
}
