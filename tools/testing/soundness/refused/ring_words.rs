// SPDX-License-Identifier: GPL-2.0

//! Tries to change the words of a fast channel's buffer from any CPU, and to give a buffer to a CPU that it is not for.
//!
//! All of this compiled: a limit without end let the next record leave the buffer's memory, and a buffer of two CPUs
//! had records in one another. Now `RingMem` can only be looked at, and knows its CPU.
#![forbid(unsafe_code)]

use ferro_core::ring::LocalWords;
use ferro_core::ring::Ring;
use ferro_core::ring::Word;
use ferro_sys::sync::counted::Shared;
use ferro_sys::cpu::CpuId;
use ferro_sys::ring::RingMem;
use ferro_sys::ring::RingSlots;
use kernel::prelude::*;

module! {
    type: Client,
    name: "ring_words",
    authors: ["Ferrotrace maintainers"],
    description: "Changes words that belong to another CPU",
    license: "GPL v2",
}

struct Client;

fn commit(ring: &Ring, memory: &RingMem) {
    ring.commit(memory); //~ E0277 LocalWords
}

impl kernel::Module for Client {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        let ring = Ring::new(4096, 2, false).map_err(|_| EINVAL)?;
        let first = CpuId::new(0).ok_or(EINVAL)?;
        let memory = Shared::new(RingMem::new(ring, first))?;
        memory.set_limit(u64::MAX); //~ E0599
        memory.set_stalled(0); //~ E0599
        let _ = memory.exchange(Word(0), Word(1)); //~ E0599
        let slots = RingSlots::new()?;
        let second = CpuId::new(1).ok_or(EINVAL)?;
        slots.publish(second, memory); //~ E0061
        commit(&ring, slots.memory(first).ok_or(EINVAL)?);
        Ok(Self)
    }
}
