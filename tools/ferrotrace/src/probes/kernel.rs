// SPDX-License-Identifier: GPL-2.0

//! What the running kernel offers for probes: our module, or without it `kprobe_events` of tracefs; for those in files always
//! `uprobe_events`.

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
use super::error::Error;
use super::error::Names;
use super::error::Result;
use super::event::Event;
use super::live;
use super::model::Probe;
use super::resolve::Wanted;
use super::stock::Stock;
use super::stock::live::StockLive;
use crate::signals::StopSignals;

/// The directory of the module.
const MODULE_DIR: &str = "/sys/kernel/debug/ferrotrace_kprobe_events";

/// Reads of a CPU before the other CPUs have their turn.
const TURN: usize = 16;

/// Who registers probes.
#[derive(Debug)]
pub struct Kernel {
    /// The module `ferrotrace_kprobe_events`, for those in the kernel.
    module: Option<Control>,
    /// tracefs, for those in files, and without the module for all.
    stock: Option<Stock>,
}

/// Where hits are read.
pub struct Live<'a> {
    /// The module's channel.
    module: Option<live::Live<'a>>,
    stock: Option<&'a Stock>,
    /// An instance of tracefs, once there is something to read from it.
    instance: Option<StockLive>,
}

impl Kernel {
    /// The module with this directory; without one, what the running kernel has.
    pub fn find(dir: Option<PathBuf>) -> Self {
        let is_given = dir.is_some();
        let dir = dir.unwrap_or_else(|| PathBuf::from(MODULE_DIR));
        if !is_given && !dir.exists() {
            let stock = Stock::find();
            if stock.is_some() {
                let module = None;
                return Self { module, stock };
            }
        }
        Self {
            // Which also says what is missing.
            module: Some(Control::new(dir)),
            stock: Stock::find_for_files(),
        }
    }

    /// Whether tracefs serves for probes in the kernel.
    pub fn is_stock(&self) -> bool {
        self.module.is_none()
    }

    /// Takes it that the module may be missing if all is to be had without it.
    fn of_module<T: Default>(&self, result: Result<T>) -> Result<T> {
        match result {
            Err(Error::NoModule(_) | Error::NoDebugfs(_)) if self.stock.is_some() => {
                Ok(T::default())
            }
            result => result,
        }
    }

    /// Reads the probes that exist now.
    pub fn list(&self) -> Result<Vec<Probe>> {
        let mut probes = match &self.module {
            Some(control) => self.of_module(control.list())?,
            None => Vec::new(),
        };
        if let Some(stock) = &self.stock {
            probes.extend(stock.list()?);
        }
        Ok(probes)
    }

    /// Adds a probe with this name. Returns the name, which may differ.
    pub fn add(&self, probe: &Wanted, name: &str) -> Result<String> {
        let Wanted {
            kind,
            place,
            at,
            args,
            ..
        } = probe;
        match (&self.module, &self.stock, at) {
            (_, None, Some(_)) => Err(Error::NoUprobes),
            (Some(control), _, None) => {
                let added = control.add(*kind, name, place, args);
                added.map(|()| name.to_owned())
            }
            (_, Some(stock), _) => stock.add(*kind, name, place, *at, args),
            // One of them is always there.
            (None, None, None) => Err(Error::NoEngine),
        }
    }

    /// Removes a probe.
    pub fn remove(&self, name: &str) -> Result<()> {
        let removed = self.module.as_ref().map(|control| control.remove(name));
        match (removed, &self.stock) {
            (Some(Ok(())), _) => Ok(()),
            (Some(Err(error)), None) => Err(error),
            (Some(Err(error)), Some(stock)) => match stock.remove(name) {
                Err(Error::NoProbe { .. }) => Err(self.with_all_names(error)),
                removed => removed,
            },
            (None, Some(stock)) => stock.remove(name),
            (None, None) => Err(Error::NoEngine),
        }
    }

    /// The error about a name, with the names that there are everywhere.
    fn with_all_names(&self, error: Error) -> Error {
        match error {
            Error::NoProbe { name, .. } => {
                let probes = self.list().unwrap_or_default();
                let others = Names(probes.into_iter().map(|probe| probe.name).collect());
                Error::NoProbe { name, others }
            }
            error => error,
        }
    }

    /// Removes all probes.
    pub fn remove_all(&self) -> Result<()> {
        if let Some(control) = &self.module {
            self.of_module(control.remove_all())?;
        }
        self.stock.as_ref().map_or(Ok(()), Stock::remove_all)
    }

    /// Keeps others from reading the hits, where only one process can.
    pub fn lock(&self) -> Result<Option<Flock<File>>> {
        match &self.module {
            Some(control) => self.of_module(control.lock().map(Some)),
            None => Ok(None),
        }
    }

    /// Opens what hits are read from.
    pub fn live(&self) -> Result<Live<'_>> {
        let module = match &self.module {
            // Without its list there is no channel either.
            Some(control) => match self.of_module(control.list().map(Some))? {
                Some(_) => Some(live::Live::open(control)?),
                None => None,
            },
            None => None,
        };
        Ok(Live {
            module,
            stock: self.stock.as_ref(),
            instance: None,
        })
    }
}

impl Live<'_> {
    /// Takes notice of CPUs that have come up.
    pub fn scan(&mut self) -> Result<()> {
        // An instance of tracefs has the files of all CPUs from the beginning.
        self.module.as_mut().map_or(Ok(()), live::Live::scan)
    }

    /// Has hits of this probe recorded, if that is not so anyway.
    pub fn attach(&mut self, probe: &Probe) -> Result<()> {
        let Some(stock) = self.stock.filter(|_| Stock::has(probe)) else {
            return Ok(());
        };
        if self.instance.is_none() {
            self.instance = Some(StockLive::open(stock)?);
        }
        match &mut self.instance {
            Some(instance) => instance.attach(stock, probe),
            None => Ok(()),
        }
    }

    /// The opposite, of all probes, before they can be removed.
    pub fn detach(&mut self) {
        if let Some(instance) = &self.instance {
            instance.detach();
        }
    }

    /// Hits that found no room, since some time.
    pub fn dropped(&self) -> Result<u64> {
        let module = self.module.as_ref().map_or(Ok(0), live::Live::dropped)?;
        let instance = self.instance.as_ref().map_or(0, StockLive::dropped);
        Ok(module.saturating_add(instance))
    }

    /// Continues the round that began at this time. Returns whether there may be more hits from before it.
    pub fn turn(&mut self, began: u64, mut to: impl FnMut(Event)) -> Result<bool> {
        let mut more = false;
        if let Some(live) = &mut self.module {
            more |= live.turn(began, &mut to)?;
        }
        if let Some(instance) = &mut self.instance {
            more |= instance.turn(TURN, |event| {
                let is_last = event.time >= began;
                to(event);
                is_last
            })?;
        }
        Ok(more)
    }

    /// The time of the first hit that has been read and not given yet.
    pub fn held_since(&self) -> Option<u64> {
        self.instance.as_ref().and_then(StockLive::held_since)
    }

    /// What is left to be done with hits that are in order.
    pub fn finish(&mut self, events: Vec<Event>) -> Vec<Event> {
        match &mut self.instance {
            None => events,
            Some(instance) => instance.pair(events),
        }
    }

    /// Waits for many hits, but not longer than this. Returns whether a signal came.
    pub fn wait(&self, signals: &StopSignals, most: Duration) -> nix::Result<bool> {
        if let Some(live) = &self.module {
            return live.wait(signals, most);
        }
        let mut fds = [PollFd::new(signals.as_fd(), PollFlags::POLLIN)];
        let most = PollTimeout::try_from(most).unwrap_or(PollTimeout::MAX);
        match poll(&mut fds, most) {
            Ok(_) | Err(Errno::EINTR) => signals.take(),
            Err(errno) => Err(errno),
        }
    }
}
