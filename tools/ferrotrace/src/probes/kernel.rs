// SPDX-License-Identifier: GPL-2.0

//! What the running kernel offers for probes: our module, or without it `kprobe_events` of tracefs.

#![deny(unsafe_code)]

use std::fs::File;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::time::Duration;

use nix::errno::Errno;
use nix::fcntl::Flock;
use nix::poll::PollFd;
use nix::poll::PollFlags;
use nix::poll::PollTimeout;
use nix::poll::poll;

use super::control::Control;
use super::error::Result;
use super::event::Event;
use super::live;
use super::model::Kind;
use super::model::Place;
use super::model::Probe;
use super::stock::Stock;
use super::stock::live::StockLive;
use crate::signals::StopSignals;

/// The directory of the module.
const MODULE_DIR: &str = "/sys/kernel/debug/ferrotrace_kprobe_events";

/// Reads of a CPU before the other CPUs have their turn.
const TURN: usize = 16;

/// Who registers probes.
#[derive(Clone, Debug)]
pub enum Kernel {
    /// The module `ferrotrace_kprobe_events`.
    Module(Control),
    /// `kprobe_events`.
    Stock(Stock),
}

/// Where hits are read.
pub enum Live<'a> {
    /// The module's channel.
    Module(live::Live<'a>),
    /// An instance of tracefs.
    Stock(&'a Stock, StockLive),
}

impl Kernel {
    /// The module with this directory; without one, what the running kernel has.
    pub fn find(dir: Option<PathBuf>) -> Self {
        let control = |dir| Self::Module(Control::new(dir));
        match dir {
            Some(dir) => control(dir),
            None => {
                let dir = PathBuf::from(MODULE_DIR);
                match Stock::find().filter(|_| !dir.exists()) {
                    Some(stock) => Self::Stock(stock),
                    // Which also says what is missing.
                    None => control(dir),
                }
            }
        }
    }

    /// Reads the probes that exist now.
    pub fn list(&self) -> Result<Vec<Probe>> {
        match self {
            Self::Module(control) => control.list(),
            Self::Stock(stock) => stock.list(),
        }
    }

    /// Adds a probe. Returns its name, which may differ.
    pub fn add(&self, kind: Kind, name: &str, place: &Place, args: &str) -> Result<String> {
        match self {
            Self::Module(control) => {
                let added = control.add(kind, name, place, args);
                added.map(|()| name.to_owned())
            }
            Self::Stock(stock) => stock.add(kind, name, place, args),
        }
    }

    /// Removes a probe.
    pub fn remove(&self, name: &str) -> Result<()> {
        match self {
            Self::Module(control) => control.remove(name),
            Self::Stock(stock) => stock.remove(name),
        }
    }

    /// Removes all probes.
    pub fn remove_all(&self) -> Result<()> {
        match self {
            Self::Module(control) => control.remove_all(),
            Self::Stock(stock) => stock.remove_all(),
        }
    }

    /// Keeps others from reading the hits, where only one process can.
    pub fn lock(&self) -> Result<Option<Flock<File>>> {
        match self {
            Self::Module(control) => control.lock().map(Some),
            Self::Stock(_) => Ok(None),
        }
    }

    /// Opens what hits are read from.
    pub fn live(&self) -> Result<Live<'_>> {
        Ok(match self {
            Self::Module(control) => Live::Module(live::Live::open(control)?),
            Self::Stock(stock) => Live::Stock(stock, StockLive::open(stock)?),
        })
    }
}

impl Live<'_> {
    /// Takes notice of CPUs that have come up.
    pub fn scan(&mut self) -> Result<()> {
        match self {
            Self::Module(live) => live.scan(),
            // It has the files of all CPUs from the beginning.
            Self::Stock(..) => Ok(()),
        }
    }

    /// Has hits of this probe recorded, if that is not so anyway.
    pub fn attach(&mut self, probe: &Probe) -> Result<()> {
        match self {
            Self::Module(_) => Ok(()),
            Self::Stock(stock, live) => live.attach(stock, probe),
        }
    }

    /// The opposite, of all probes, before they can be removed.
    pub fn detach(&mut self) {
        if let Self::Stock(_, live) = self {
            live.detach();
        }
    }

    /// Hits that found no room, since some time.
    pub fn dropped(&self) -> Result<u64> {
        match self {
            Self::Module(live) => live.dropped(),
            Self::Stock(_, live) => Ok(live.dropped()),
        }
    }

    /// Continues the round that began at this time. Returns whether there may be more hits from before it.
    pub fn turn(&mut self, began: u64, mut to: impl FnMut(Event)) -> Result<bool> {
        match self {
            Self::Module(live) => live.turn(began, to),
            Self::Stock(_, live) => live.turn(TURN, |event| {
                let is_last = event.time >= began;
                to(event);
                is_last
            }),
        }
    }

    /// What is left to be done with hits that are in order.
    pub fn finish(&mut self, events: Vec<Event>) -> Vec<Event> {
        match self {
            Self::Module(_) => events,
            Self::Stock(_, live) => live.pair(events),
        }
    }

    /// Waits for many hits, but not longer than this. Returns whether a signal came.
    pub fn wait(&self, signals: &StopSignals, most: Duration) -> nix::Result<bool> {
        match self {
            Self::Module(live) => live.wait(signals, most),
            Self::Stock(..) => {
                let mut fds = [PollFd::new(signals.as_fd(), PollFlags::POLLIN)];
                let most = PollTimeout::try_from(most).unwrap_or(PollTimeout::MAX);
                match poll(&mut fds, most) {
                    Ok(_) | Err(Errno::EINTR) => signals.take(),
                    Err(errno) => Err(errno),
                }
            }
        }
    }
}
