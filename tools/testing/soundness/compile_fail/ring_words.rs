// SPDX-License-Identifier: GPL-2.0

//! Tries to get at the words of a fast channel's buffer, and to give a buffer to another CPU than
//! its own.
//!
//! While the memory was a public type of `ferro_sys`, all of this compiled: a limit without end let
//! the next record leave the buffer's memory, and a buffer of two CPUs had records in one another.
//! Now the memory is private to fast channels, can only be inspected, and knows its CPU.
#![forbid(unsafe_code)]

use ferro_fast_relay_core::ring::Ring;
use ferro_fast_relay::raw::ring::RingMem; //~ E0603
use ferro_fast_relay::raw::ring::RingSlots; //~ E0603
use ferro_fast_relay::Channel;
use ferro_sys::cpu::CpuId;
use ferro_sys::sync::refcounted::Shared;
use kernel::prelude::*;

module! {
    type: Client,
    name: "ring_words",
    authors: ["Ferrotrace maintainers"],
    description: "Changes words that belong to another CPU",
    license: "GPL v2",
}

struct Client;

impl kernel::Module for Client {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        let ring = Ring::new(4096, 2, false).map_err(|_| EINVAL)?;
        let first = CpuId::new(0).ok_or(EINVAL)?;
        let memory = Shared::new(RingMem::new(ring, first))?;
        memory.set_limit(u64::MAX);
        let slots = RingSlots::new()?;
        slots.publish(memory);
        let channel = Channel::builder(c"ring_words").open()?;
        channel.state.slots.publish(memory); //~ E0616 private
        Ok(Self)
    }
}
