// SPDX-License-Identifier: GPL-2.0

//! Sharing and waiting: counted objects, locks, RCU, work that is left to a context that may sleep.

pub mod counted;
pub mod deferred;
pub mod errand;
pub mod mutex;
pub mod owner_lock;
pub mod rcu_slot;
#[cfg(CONFIG_KPROBES_ENGINE_RUST)]
pub mod rcu_tasks;
pub mod try_lock;
pub mod wait;
pub mod word;
