// SPDX-License-Identifier: GPL-2.0

//! What the running kernel offers for probes: our module, or without it `kprobe_events` of tracefs; for those in files always
//! `uprobe_events`.

#![deny(unsafe_code)]

use std::fs::File;
use std::os::fd::AsFd;
use std::path::Path;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

use nix::errno::Errno;
use nix::fcntl::Flock;
use nix::poll::PollFd;
use nix::poll::PollFlags;
use nix::poll::PollTimeout;
use nix::poll::poll;

use super::control::Control;
use super::error::Error;
use super::error::Result;
use super::event::Event;
use super::live;
use super::model::Probe;
use super::resolve::KnownRefusal;
use super::resolve::Wanted;
use super::stock::Stock;
use super::stock::instance::Instance;
use super::stock::live::StockLive;
use crate::kernel_dir;
use crate::lockdown;
use crate::near::Names;
use crate::signals::StopSignals;
use crate::tracepoints::resolve::Tracepoint;

/// The directory of the module.
const MODULE_DIR: &str = "/sys/kernel/debug/ferrotrace_kprobe_events";

/// Reads of a CPU before the other CPUs have their turn.
const TURN: usize = 16;

/// Where some probes have been refused, so many are added at once, and then more each time: to find
/// the one that is refused takes as much as there is in a call.
const FEW: usize = 64;

/// So many are added at most before it is asked whether to go on.
const MANY: usize = 1000;

/// Probes that have been added.
#[derive(Debug, Default)]
pub struct Added {
    /// Their names, which may differ from those that they were given.
    pub names: Vec<String>,
    /// Why others, of patterns, are not.
    pub refused: Vec<Error>,
}

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
    /// True once hits are wanted.
    is_started: bool,
}

impl Kernel {
    /// The module with this directory; without one, what the running kernel has.
    pub fn find(dir: Option<PathBuf>) -> Self {
        let is_given = dir.is_some();
        let dir =
            dir.unwrap_or_else(|| kernel_dir::find(MODULE_DIR.into(), "ferrotrace_kprobe_events"));
        if !is_given && (!dir.exists() || lockdown::closes(&dir)) {
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

    /// Makes tables, by the module's command, for the probes that the returned value adds. Returns
    /// `None` without a module that has tables.
    pub(super) fn with_totals(&self, command: &str) -> Result<Option<(Self, Rc<File>)>> {
        let Some(control) = &self.module else {
            return Ok(None);
        };
        let module = self.of_module(control.with_totals(command))?;
        Ok(module.map(|(control, file)| {
            let kernel = Self {
                module: Some(control),
                stock: None,
            };
            (kernel, file)
        }))
    }

    /// Opens a channel in reserved memory for the hits of the probes that the returned value adds.
    /// Its description has `recording`.
    pub(super) fn keep(&self, memory: &str, recording: &str) -> Result<Self> {
        let module = self.module()?.keep(memory, recording)?;
        Ok(Self {
            module: Some(module),
            stock: None,
        })
    }

    /// Reads the description of the records of the module's probes.
    pub(super) fn format(&self) -> Result<String> {
        self.module()?.format()
    }

    /// Returns the module's files, which only `record --keep` cannot do without.
    fn module(&self) -> Result<&Control> {
        let module = self.module.as_ref();
        module.ok_or_else(|| Error::Stock("--keep".to_owned()))
    }

    /// Returns tracefs, for probes in the kernel whose hits its histograms count. Returns `None` if
    /// it does not provide these.
    pub fn for_counts(&self) -> Option<Self> {
        let stock = self.stock.as_ref().filter(|_| self.is_stock())?;
        Some(Self {
            module: None,
            stock: Some(stock.for_counts()?),
        })
    }

    /// Returns true if tracefs provides probes in the kernel.
    pub fn is_stock(&self) -> bool {
        self.module.is_none()
    }

    /// The channel of the module, DIR/NAME.
    pub fn channel(&self) -> Option<PathBuf> {
        self.module.as_ref().map(Control::channel)
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

    /// Adds probes, all or none, but for those of patterns that the kernel refuses. `is_stopped` is
    /// asked now and then, and if it says so, none are added.
    pub fn add(&self, probes: &[Wanted], is_stopped: impl Fn() -> bool) -> Result<Added> {
        let mut added = Added::default();
        let mut good = Vec::new();
        for probe in probes {
            match probe.refused {
                Some(KnownRefusal::Blacklisted) => {
                    added.refused.push(Error::Blacklisted(probe.place.clone()));
                }
                Some(KnownRefusal::Untraceable) => {
                    added.refused.push(Error::Untraceable(probe.place.clone()));
                }
                None => good.push(probe.clone()),
            }
        }
        let mut rest = &good[..];
        let mut at_once = MANY;
        while !rest.is_empty() {
            if is_stopped() {
                return Err(self.give_up(added.names, Error::Stopped));
            }
            let (names, result) = self.add_first(rest.get(..at_once).unwrap_or(rest));
            at_once = match result {
                Ok(()) => at_once.saturating_mul(2).min(MANY),
                Err(_) => FEW,
            };
            rest = rest.get(names.len()..).unwrap_or_default();
            added.names.extend(names);
            match (result, rest.split_first()) {
                (Ok(()), _) => (),
                (Err(error @ Error::Refused { .. }), Some((one, others))) if one.of_pattern => {
                    added.refused.push(error);
                    rest = others;
                }
                (Err(error), _) => return Err(self.give_up(added.names, error)),
            }
        }
        match added.refused.pop() {
            Some(error) if added.names.is_empty() => Err(error),
            last => {
                added.refused.extend(last);
                Ok(added)
            }
        }
    }

    /// Adds those at the start that one serves for, up to the first that is refused.
    fn add_first(&self, probes: &[Wanted]) -> (Vec<String>, Result<()>) {
        let in_file = |probe: &Wanted| probe.at.is_some();
        let first = probes.first().is_some_and(in_file);
        let count = probes.iter().take_while(|probe| in_file(probe) == first);
        let some = probes.get(..count.count()).unwrap_or(probes);
        match (&self.module, &self.stock) {
            (Some(control), _) if !first => {
                if let Some(probe) = some.iter().find(|probe| probe.filter.is_some()) {
                    return (Vec::new(), Err(Error::Filter(probe.place.clone())));
                }
                let (count, result) = control.add(some);
                let names = some.iter().take(count).map(|probe| probe.name.clone());
                (names.collect(), result)
            }
            (_, Some(stock)) => stock.add(some),
            (_, None) => (Vec::new(), Err(Error::NoUprobes)),
        }
    }

    /// Removes what has been added again.
    fn give_up(&self, added: Vec<String>, error: Error) -> Error {
        // Others may have removed some meanwhile.
        match self.remove_present(&added) {
            Ok(()) => error,
            Err(source) => Error::Left {
                added: Names(self.those_there(added)),
                error: Box::new(error),
                source: Box::new(source),
            },
        }
    }

    /// Those of the names that there are, or all if nobody can say.
    fn those_there(&self, mut names: Vec<String>) -> Vec<String> {
        if let Ok(probes) = self.list() {
            names.retain(|name| probes.iter().any(|probe| probe.name == *name));
        }
        names
    }

    /// Removes probes, up to the first that is not there.
    pub fn remove(&self, names: &[String]) -> Result<()> {
        self.remove_all_of(names, Err)
    }

    /// Removes those of the probes that are there.
    pub(super) fn remove_present(&self, names: &[String]) -> Result<()> {
        self.remove_all_of(names, |_| Ok(()))
    }

    /// The same when their process has been killed, and may have left somebody who uses them.
    pub(super) fn remove_left(&self, names: &[String]) -> Result<()> {
        if let Some(stock) = &self.stock {
            stock.remove_stale_instances();
        }
        self.remove_present(names)
    }

    /// Removes probes; `absent` says whether to go on after one that is not there.
    fn remove_all_of(&self, names: &[String], absent: impl Fn(Error) -> Result<()>) -> Result<()> {
        let mut rest = names;
        while !rest.is_empty() {
            let (count, result) = match &self.module {
                Some(control) => control.remove(rest),
                // As if the first one were not there.
                None => (0, Err(Error::NoEngine)),
            };
            rest = rest.get(count..).unwrap_or_default();
            let (Err(error), Some((name, others))) = (result, rest.split_first()) else {
                continue;
            };
            rest = others;
            let error = match (self.stock.as_ref().map(|stock| stock.remove(name)), error) {
                (Some(Ok(())), _) => continue,
                // tracefs does not know what the module has, which may have failed for another
                // reason.
                (Some(Err(error @ Error::NoProbe { .. })), modules) if is_absence(&modules) => {
                    self.with_all_names(error)
                }
                (None, error @ Error::NoProbe { .. }) => error,
                (Some(Err(Error::NoProbe { .. })) | None, error) | (Some(Err(error)), _) => {
                    return Err(error);
                }
            };
            absent(error)?;
        }
        Ok(())
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

    /// Opens what hits of tracepoints are read from, without those of probes.
    pub fn live_tracepoints(&self) -> Live<'_> {
        Live {
            module: None,
            stock: None,
            instance: None,
            is_started: false,
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
            is_started: false,
        })
    }
}

/// Returns true if the error means that the module or its probe is absent.
fn is_absence(error: &Error) -> bool {
    matches!(
        error,
        Error::NoProbe { .. } | Error::NoModule(_) | Error::NoDebugfs(_) | Error::NoEngine
    )
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
            self.open_instance(&stock.tracing)?;
        }
        match &mut self.instance {
            Some(instance) => instance.attach(stock, probe),
            None => Ok(()),
        }
    }

    fn open_instance(&mut self, tracing: &Path) -> Result<()> {
        let instance = StockLive::open(tracing)?;
        if self.is_started {
            instance.start()?;
        }
        self.instance = Some(instance);
        Ok(())
    }

    /// Has hits of a tracepoint recorded. Returns the probe that they belong to.
    pub fn trace(&mut self, tracepoint: &Tracepoint) -> Result<Probe> {
        let tracing = Instance::tracing()?.ok_or(Error::NoTracefs)?;
        if self.instance.is_none() {
            self.open_instance(&tracing)?;
        }
        let instance = self.instance.as_mut().ok_or(Error::NoTracefs)?;
        instance.trace(&tracing, tracepoint)
    }

    /// Hits that were overwritten before they could be read; [`Live::dropped`] has them, too.
    pub fn overwritten(&self) -> u64 {
        self.instance.as_ref().map_or(0, StockLive::dropped)
    }

    /// Has hits recorded from now on, of those that are attached and of those that will be.
    pub fn start(&mut self) -> Result<()> {
        self.is_started = true;
        self.instance.as_ref().map_or(Ok(()), StockLive::start)
    }

    /// The opposite, of all probes, before they can be removed.
    pub fn detach(&mut self) {
        self.is_started = false;
        if let Some(instance) = &mut self.instance {
            instance.detach();
        }
    }

    /// Hits that found no room, since some time.
    pub fn dropped(&self) -> Result<u64> {
        let module = self.module.as_ref().map_or(Ok(0), live::Live::dropped)?;
        let instance = self.instance.as_ref().map_or(0, StockLive::dropped);
        Ok(module.saturating_add(instance))
    }

    /// Continues the round that began at this time. Returns whether there may be more hits from
    /// before it.
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

    /// Completes hits that are in order: pairs tracefs' events of entries and returns.
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

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::fs;

    use super::super::model::Kind;
    use super::*;

    #[test]
    fn adding_can_be_stopped() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("probes");
        fs::write(&file, "").unwrap();
        let kernel = Kernel::find(Some(dir.path().to_owned()));
        let probes = (0..3 * MANY)
            .map(|number| Wanted::of_place(&format!("n{number}"), "f", Kind::Probe, ""));
        let probes: Vec<_> = probes.collect();
        let asked = Cell::new(0);
        let third = || asked.replace(asked.get() + 1) == 2;
        assert!(matches!(kernel.add(&probes, third), Err(Error::Stopped)));
        // What had been added has been removed.
        let text = fs::read_to_string(&file).unwrap();
        assert!(text.contains(&format!("-n{}\n", 2 * MANY - 1)), "{text}");
        assert!(!text.contains(&format!("n{}\n", 2 * MANY)), "{text}");
        assert_eq!(kernel.add(&probes, || false).unwrap().names.len(), 3 * MANY);
    }
}
