// SPDX-License-Identifier: GPL-2.0

//! Reading the hits as they come.
//!
//! The records of a CPU are read with `read(2)`, which returns whole ones, those of the unfinished
//! sub-buffer too.

#![deny(unsafe_code)]

use std::time::Duration;

use super::control::Control;
use super::error::Result;
use super::event::Event;
use crate::fast::live;
use crate::signals::StopSignals;

/// Reads of a CPU before the other CPUs have their turn.
const TURN: usize = 16;

/// The hits of all CPUs.
pub struct Live<'a> {
    control: &'a Control,
    live: live::Live,
}

impl<'a> Live<'a> {
    /// Opens the files that exist.
    pub fn open(control: &'a Control) -> Result<Self> {
        let live = live::Live::open(&control.channel())?;
        Ok(Self { control, live })
    }

    /// Opens the files of CPUs that have come up.
    pub fn scan(&mut self) -> Result<()> {
        Ok(self.live.scan()?)
    }

    /// Records that found no room since the module was loaded.
    pub fn dropped(&self) -> Result<u64> {
        self.control.lost()
    }

    /// Continues the round that began at this time. Returns whether there may be more records from
    /// before it.
    pub fn turn(&mut self, began: u64, mut to: impl FnMut(Event)) -> Result<bool> {
        Ok(self.live.turn(TURN, |record| {
            let event = Event::parse(record)?;
            let time = event.time;
            to(event);
            // Not whether there are any more: the read itself may cause hits.
            Some(time >= began)
        })?)
    }

    /// Waits for a full sub-buffer, but not longer than this. Returns whether a signal came.
    pub fn wait(&self, signals: &StopSignals, most: Duration) -> nix::Result<bool> {
        self.live.wait(signals, most)
    }
}
