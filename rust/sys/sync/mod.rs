// SPDX-License-Identifier: GPL-2.0

//! Sharing and waiting: counted objects, locks, RCU, and work deferred to a context that may sleep.

pub mod deferred_drop;
pub mod mutex;
pub mod nmi_lock;
pub mod rcu_slot;
#[cfg(CONFIG_KPROBES_ENGINE_RUST)]
pub mod rcu_tasks;
pub mod refcounted;
pub mod shared_word;
pub mod try_lock;
pub mod wait;
