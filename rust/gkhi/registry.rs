// SPDX-License-Identifier: GPL-2.0

//! The registry: which hooks and exits there are, and every operation on them.
//!
//! Contexts: process; sleeps. Locks, outermost first: that of module notifiers, while a module goes; the files'
//! lock, held while files appear and vanish; the registry's; then those of debugfs's directories, of static
//! keys and of CPU hotplug. Operations come from no exit, but for those of `Task` hooks that fire where one may sleep.
//! Waiting for exits holds none but the first, and removing a file does not hold the registry's, which whoever has the
//! file open may be waiting for. What an exit owns is dropped without a lock: by whoever dropped the exit, by the unload of
//! its module, or by a work item of its own, and by nobody else, who may hold what it needs.
#![deny(unsafe_code)]

use ferro_core::hooks::Exit as Entry;
use ferro_core::hooks::Hook as HookEntry;
use ferro_core::hooks::Op;
use ferro_core::hooks::Priority;
use ferro_core::hooks::State;
use ferro_core::hooks::Table;
use ferro_sys::cpu::percpu::PerCpuCounter;
use ferro_sys::fs::debugfs::Dir;
use ferro_sys::hook::can_wait;
use ferro_sys::hook::count_of;
use ferro_sys::hook::is_lasting_text;
use ferro_sys::hook::settle_later;
use ferro_sys::hook::wait_for_exits;
use ferro_sys::hook::AtRest;
use ferro_sys::hook::Condition;
use ferro_sys::hook::Context;
use ferro_sys::hook::Counters;
use ferro_sys::hook::Exit;
use ferro_sys::hook::Graveyard;
use ferro_sys::hook::HookRef;
use ferro_sys::hook::Module;
use ferro_sys::hook::ModuleName;
use ferro_sys::hook::Note;
use ferro_sys::hook::Parts;
use ferro_sys::hook::Readers;
use ferro_sys::hook::Site;
use ferro_sys::hook::Unquiet;
use ferro_sys::sync::mutex::StaticGuard;
use kernel::prelude::*;
use kernel::str::CString;
use kernel::sync::Arc;
use kernel::time::delay::fsleep;
use kernel::time::Delta;

use crate::effect;
use crate::error::Error;
use crate::ffi;
use crate::files;
use crate::files::ExitFile;
use crate::lists::KernelLists;

/// What the registry keeps of a hook.
pub(crate) struct Host {
    pub(crate) site: Site,
    pub(crate) owner: ModuleName,
    /// Whether it was defined in Rust, with a type for its exits.
    typed: bool,
    /// Dispatches of chains.
    pub(crate) dispatches: Arc<PerCpuCounter>,
    /// Dispatches to single exits that are gone.
    pub(crate) past_hits: usize,
    dir: Option<Dir>,
}

impl Host {
    pub(crate) fn name(&self) -> &CStr {
        self.site.hook_ref().name().unwrap_or(c"")
    }
}

/// What the registry keeps of an exit.
pub(crate) struct Guest {
    pub(crate) name: CString,
    pub(crate) owner: ModuleName,
    pub(crate) params: u32,
    pub(crate) node: Arc<Exit>,
    counters: Arc<Counters>,
    parts: Parts,
    /// Where its hook's dispatches are.
    readers: Readers,
    /// Whether no CPU can be in it.
    quiet: bool,
    /// How often it has been armed.
    armings: usize,
    file: Option<ExitFile>,
    /// An address in the module that registered it, which need not be the one with the function.
    origin: usize,
    /// What it is in Rust; dropped when it is not called any more.
    owned: Option<KBox<dyn Kept>>,
}

/// An exit of any type, to be dropped.
pub(crate) trait Kept: Send + Sync {}
impl<E: Send + Sync> Kept for E {}

/// An exit that is no longer registered. It is here until what it owns has been dropped: its module cannot go before.
struct Leaving {
    id: usize,
    guest: Guest,
    stage: Stage,
    /// To have it dropped by; none if its owner has forgotten it.
    note: Option<KBox<Note>>,
}

#[derive(PartialEq, Eq)]
enum Stage {
    /// Whoever deregistered it waits until it is not called.
    Waiting,
    /// It has been waited for, and a call of it sleeps where it must not, or is the caller.
    Abandoned,
    /// It was abandoned and was at rest then, as it should still be after a wait.
    Resting(AtRest),
    /// No call is left, and nobody is on the way back from one.
    Quiet,
    /// What it owns is being dropped.
    Dropping,
}

/// An exit that a change takes out of use, for whoever waits for it.
struct Watched {
    id: usize,
    /// How often it had been armed before the change: if it is armed again it is left alone.
    armings: usize,
    /// Whether it was at rest before it was waited for.
    rest: Option<AtRest>,
}

/// The number of an exit, which only the registry makes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct ExitId(usize);

impl ExitId {
    /// For a [`Note`].
    pub(crate) fn number(self) -> usize {
        self.0
    }

    /// As an exit in Rust is named in a change.
    pub(crate) fn handle(self) -> Handle {
        Handle {
            id: self.0,
            record: 0,
        }
    }
}

impl Guest {
    /// What it has counted.
    pub(crate) fn counters(&self) -> &Counters {
        &self.counters
    }

    /// The exit anew, as it was before it disarmed itself.
    pub(crate) fn new_node(&self, hook: HookRef) -> Exit {
        Exit::new(&self.parts, hook, self.counters.clone())
    }

    /// Whether something of it is in a module.
    fn is_of(&self, module: &Module) -> bool {
        module.contains(self.parts.address())
            || module.contains(self.parts.record_address())
            || module.contains(self.origin)
    }

    /// What names it in a change.
    pub(crate) fn handle(&self, id: usize) -> Handle {
        Handle {
            id,
            record: self.parts.record_address(),
        }
    }

    /// Whether debugfs leaves it alone.
    pub(crate) fn is_pinned(&self) -> bool {
        self.parts.is_pinned()
    }

    pub(crate) fn condition(&self) -> Condition {
        self.parts.condition()
    }

    /// It is about to be called, as `node` if it has disarmed itself before.
    pub(crate) fn arm(&mut self, node: Option<Arc<Exit>>) {
        if let Some(node) = node {
            self.node = node;
        }
        self.quiet = false;
        self.armings = self.armings.wrapping_add(1);
    }
}

pub(crate) type Hooks = Table<KernelLists, Host, Guest>;
pub(crate) type Hook = HookEntry<KernelLists, Host, Guest>;

/// All there is.
pub(crate) struct Registry {
    pub(crate) table: Hooks,
    root: Option<files::Root>,
    leaving: KVec<Leaving>,
    unquiet: Unquiet,
    /// How many graveyards with a counted chain are being waited for.
    waiting: usize,
}

impl Registry {
    fn hook(&self, wanted: impl Fn(&Host) -> bool) -> Option<&Hook> {
        self.table.hooks().iter().find(|h| wanted(&h.body))
    }

    /// Takes note of exits that have disarmed themselves.
    fn note_spent(&mut self) {
        loop {
            let is_spent = |e: &&Entry<Guest>| e.state() == State::Armed && e.body.node.is_spent();
            let Some(id) = self.table.exits().find(is_spent).map(|e| e.id) else {
                return;
            };
            self.table.spend(id);
        }
    }

    /// Makes a change of these exits, or none. What has been taken out of use is for [`finish_change`]; what is gone
    /// is leaving until then, and its files are handed over.
    fn change(&mut self, op: Op, ids: &[usize]) -> Result<(Graveyard, KVec<ExitFile>), Error> {
        self.note_spent();
        let mut files = KVec::with_capacity(ids.len(), GFP_KERNEL)?;
        self.leaving.reserve(ids.len(), GFP_KERNEL)?;
        self.table.stage(op, ids)?;
        let applied = effect::apply(&mut self.table, ids.len());
        let mut grave = applied.inspect_err(|_| self.table.abort())?;
        if op != Op::Arm {
            for exit in self.table.exits().filter(|e| ids.contains(&e.id)) {
                if !exit.body.quiet {
                    // There is room for one of each.
                    let _ = grave.note(&exit.body.readers);
                }
            }
        }
        for hook in self.table.hooks_mut() {
            let leaving = hook.exits().iter().filter(|e| e.next() == State::Gone);
            let hits = leaving.map(|e| e.body.counters.direct_hits());
            let hits = hits.fold(0, usize::wrapping_add);
            hook.body.past_hits = hook.body.past_hits.wrapping_add(hits);
        }
        let leaving = &mut self.leaving;
        self.table.commit(|mut exit| {
            // There is room for all of them.
            if let Some(file) = exit.body.file.take() {
                let _ = files.push_within_capacity(file);
            }
            let _ = leaving.push_within_capacity(Leaving {
                id: exit.id,
                guest: exit.body,
                stage: Stage::Waiting,
                note: None,
            });
        });
        self.waiting += usize::from(grave.has_counted_chain());
        Ok((grave, files))
    }

    /// What to watch of these exits.
    fn watch(&self, ids: &[usize]) -> Result<KVec<Watched>, Error> {
        let mut watched = KVec::with_capacity(ids.len(), GFP_KERNEL)?;
        for exit in self.table.exits().filter(|e| ids.contains(&e.id)) {
            let one = Watched {
                id: exit.id,
                armings: exit.body.armings,
                rest: None,
            };
            watched.push(one, GFP_KERNEL)?;
        }
        Ok(watched)
    }

    /// One that is watched, unless it has been armed again.
    fn watched(&self, one: &Watched) -> Option<&Guest> {
        let leaving = self.leaving.iter().find(|l| l.id == one.id);
        let leaving = leaving.map(|l| &l.guest);
        leaving.or_else(|| {
            let same = |e: &&Entry<Guest>| e.id == one.id && e.body.armings == one.armings;
            self.table.exits().find(same).map(|e| &e.body)
        })
    }

    /// Before they are waited for.
    fn look(&self, watched: &mut [Watched]) {
        for one in watched {
            let guest = self.watched(one);
            one.rest = guest.and_then(|guest| guest.counters.at_rest());
        }
    }

    /// After the wait: whether one was called meanwhile, or is.
    fn has_stirred(&self, one: &Watched) -> bool {
        let rests = |guest: &Guest| one.rest.is_some() && guest.counters.at_rest() == one.rest;
        self.watched(one).is_some_and(|guest| !rests(guest))
    }

    /// Whether an exit sleeps where it must not, in a chain that this graveyard or an earlier one has: the exits after it
    /// may be called still.
    fn has_called_chain(&self, grave: &Graveyard) -> bool {
        // Those that others are waiting for may have been taken out before this one.
        let others = self.waiting > usize::from(grave.has_counted_chain());
        others || grave.has_called_chain() || self.unquiet.has_called_chain()
    }

    /// No dispatch calls these exits any more, not even one that has begun before and sleeps in another exit where it must
    /// not.
    fn cut_off(&self, watched: &[Watched]) {
        for guest in watched.iter().filter_map(|one| self.watched(one)) {
            guest.node.spend();
        }
    }

    /// These exits have been waited for, and the graveyard too. [`Error::StillCalled`]: for one that is still registered it
    /// was in vain.
    fn note_waited(&mut self, grave: Graveyard, watched: &[Watched]) -> Result<(), Error> {
        self.waiting -= usize::from(grave.has_counted_chain());
        self.unquiet.bury(grave);
        let mut result = Ok(());
        for one in watched {
            let quiet = !self.has_stirred(one);
            match self.table.exit_mut(one.id) {
                Some(exit) if exit.body.armings == one.armings => {
                    exit.body.quiet |= quiet;
                    if !quiet {
                        result = Err(Error::StillCalled);
                    }
                }
                Some(_) | None => {}
            }
        }
        result
    }

    /// The same for those that are leaving, by whoever has deregistered them.
    fn note_left(&mut self, watched: &[Watched]) {
        for one in watched {
            let quiet = !self.has_stirred(one);
            if let Some(leaving) = self.leaving.iter_mut().find(|l| l.id == one.id) {
                leaving.stage = match quiet {
                    true => Stage::Quiet,
                    false => Stage::Abandoned,
                };
            }
        }
    }

    /// Whether there is something for [`settle`].
    fn is_unsettled(&self) -> bool {
        let unsettled = |l: &Leaving| matches!(l.stage, Stage::Abandoned | Stage::Resting(_));
        !self.unquiet.is_empty() || self.leaving.iter().any(unsettled)
    }
}

/// The registry, for who looks at it.
pub(crate) fn lock() -> StaticGuard<Option<Registry>> {
    ffi::lock()
}

/// The registry, made if this is the first time.
fn with<R>(f: impl FnOnce(&mut Registry) -> R) -> R {
    f(lock().get_or_insert_with(|| Registry {
        table: Table::new(),
        root: None,
        leaving: KVec::new(),
        unquiet: Unquiet::new(),
        waiting: 0,
    }))
}

/// Which exit is meant: its number, and the address of its record, or 0.
#[derive(Clone, Copy)]
pub(crate) struct Handle {
    pub(crate) id: usize,
    pub(crate) record: usize,
}

/// What a Rust exit was compiled for.
pub(crate) struct Shape {
    pub(crate) params: &'static CStr,
    pub(crate) modifiable: bool,
    pub(crate) has_return: bool,
    pub(crate) context: Context,
    /// The hook that the type was made with; none for a hook of C.
    pub(crate) defined: Option<HookRef>,
}

/// An exit to be registered.
pub(crate) struct NewExit<'a> {
    pub(crate) hook: &'a CStr,
    pub(crate) name: &'a CStr,
    pub(crate) priority: Priority,
    pub(crate) params: u32,
    pub(crate) parts: Parts,
    pub(crate) shape: Option<Shape>,
    /// An address in the module that registers it.
    pub(crate) origin: usize,
}

/// Whether a name can be one.
fn is_name(name: &CStr) -> bool {
    let bytes = name.to_bytes();
    let ok = |b: &u8| b.is_ascii_alphanumeric() || b"_-.".contains(b);
    (1..=files::NAME_MAX).contains(&bytes.len()) && bytes.iter().all(ok) && !bytes.starts_with(b".")
}

/// Whether an exit that was compiled for the first can be called with the second.
///
/// The static that the exit's type was made with says it all; the names of C do not say what their types are, which is
/// promised where an exit's types are declared.
fn fits(shape: &Shape, host: &Host) -> bool {
    let hook = host.site.hook();
    let rest = hook
        .params()
        .to_bytes()
        .strip_prefix(shape.params.to_bytes());
    let same = match shape.defined {
        Some(defined) => host.typed && defined == hook,
        None => !host.typed && shape.modifiable == hook.is_modifiable(),
    };
    same && shape.has_return == hook.has_return()
        && shape.context == hook.context()
        && rest.is_some_and(|r| r.is_empty() || r.starts_with(b",") || shape.params.is_empty())
}

/// Whether the caller can wait for dispatches, as every change does.
pub(crate) fn check_context() -> Result<(), Error> {
    can_wait().then_some(()).ok_or(Error::CannotWait)
}

/// Registers an exit. Returns its number.
pub(crate) fn register(new: &NewExit<'_>) -> Result<ExitId, Error> {
    check_context()?;
    if !is_name(new.name) {
        return Err(Error::BadName);
    }
    if !is_lasting_text(new.parts.address()) {
        return Err(Error::NoCode);
    }
    let _files = ffi::lock_files();
    with(|registry| {
        let record = new.parts.record_address();
        let same = |e: &Entry<Guest>| record != 0 && e.body.parts.record_address() == record;
        if registry.table.exits().any(same) {
            return Err(Error::Already);
        }
        let hook = registry
            .hook(|h| h.name() == new.hook)
            .ok_or(Error::NoHook)?;
        let (hook_id, hook_ref) = (hook.id, hook.body.site.hook());
        if new.params > hook_ref.count() {
            return Err(Error::TooManyParams);
        }
        if new.shape.as_ref().is_some_and(|s| !fits(s, &hook.body)) {
            return Err(Error::OtherParams);
        }
        if new.parts.condition() == Condition::CpusStopped && !hook_ref.can_stop() {
            return Err(Error::CannotStop);
        }
        if hook.exits().iter().any(|e| *e.body.name == *new.name) {
            return Err(Error::NameTaken);
        }
        let counters = Counters::new(&new.parts).map_err(|_| Error::NoMemory)?;
        let counters = Arc::new(counters, GFP_KERNEL)?;
        let node = Exit::new(&new.parts, hook_ref, counters.clone());
        let guest = Guest {
            name: CString::try_from_fmt(fmt!("{}", new.name)).map_err(|_| Error::NoMemory)?,
            owner: ModuleName::of(new.origin),
            params: new.params,
            node: Arc::new(node, GFP_KERNEL)?,
            counters,
            parts: new.parts,
            readers: hook.body.site.readers().clone(),
            quiet: true,
            armings: 0,
            file: None,
            origin: new.origin,
            owned: None,
        };
        let id = registry.table.register(hook_id, new.priority, guest)?;
        let dir = registry.hook(|h| h.site.hook() == hook_ref);
        let dir = dir.and_then(|h| h.body.dir.as_ref());
        // debugfs is a convenience: without a file the exit is still there.
        let file = dir.and_then(|dir| files::exit_file(dir, new.name, id).ok());
        if let Some(exit) = registry.table.exit_mut(id) {
            exit.body.file = file;
        }
        Ok(ExitId(id))
    })
}

/// Gives the registry what an exit owns.
pub(crate) fn own(id: ExitId, owned: KBox<dyn Kept>) {
    let mut owned = Some(owned);
    with(|registry| {
        if let Some(exit) = registry.table.exit_mut(id.0) {
            exit.body.owned = owned.take();
        }
    });
    // What is left is dropped without the lock; the exit has just been taken away, and is not called.
}

/// Arms, disarms or deregisters exits, all in one step. When it has disarmed them no CPU is in them, or it says
/// [`Error::StillCalled`]; what has been deregistered and is still called is kept as long.
pub(crate) fn apply(op: Op, handles: &[Handle]) -> Result<(), Error> {
    check_context()?;
    let mut ids = KVec::with_capacity(handles.len(), GFP_KERNEL)?;
    for handle in handles {
        ids.push(handle.id, GFP_KERNEL)?;
    }
    let lock_files = (op == Op::Deregister).then(ffi::lock_files);
    let (grave, files, mut watched) = with(|registry| {
        for handle in handles {
            let same = |e: &Entry<Guest>| {
                e.id == handle.id && e.body.parts.record_address() == handle.record
            };
            if !registry.table.exits().any(same) {
                return Err(Error::Unregistered);
            }
        }
        let watched = registry.watch(&ids)?;
        let (grave, files) = registry.change(op, &ids)?;
        Ok((grave, files, watched))
    })?;
    drop(files);
    drop(lock_files);
    match op {
        Op::Arm => finish_change(grave, &mut []),
        Op::Disarm => finish_change(grave, &mut watched),
        Op::Deregister => {
            let result = finish_change(grave, &mut watched);
            with(|registry| registry.note_left(&watched));
            drop_left(|l| watched.iter().any(|one| one.id == l.id));
            settle_if_needed();
            result
        }
    }
}

/// Waits until nobody is in these exits, which have been taken out of use.
///
/// An exit that sleeps where it must not is not waited for, as it may be the caller: whatever it may come back to is kept
/// until it has, and that dispatch calls none of these exits.
fn finish_change(mut grave: Graveyard, watched: &mut [Watched]) -> Result<(), Error> {
    with(|registry| registry.look(watched));
    grave.wait();
    let again = with(|registry| {
        let called = !watched.is_empty() && registry.has_called_chain(&grave);
        if called {
            registry.cut_off(watched);
        }
        // One that has slept during the wait may be about to return.
        let again = called || watched.iter().any(|one| registry.has_stirred(one));
        if again {
            registry.look(watched);
        }
        again
    });
    if again {
        grave.wait();
    }
    let result = with(|registry| registry.note_waited(grave, watched));
    settle_if_needed();
    result
}

/// Drops those of these exits that nobody is in.
fn drop_left(wanted: impl Fn(&Leaving) -> bool) {
    let take = |registry: &mut Registry| {
        let is_quiet = |l: &&mut Leaving| l.stage == Stage::Quiet && wanted(l);
        let quiet = registry.leaving.iter_mut().find(is_quiet)?;
        quiet.stage = Stage::Dropping;
        Some((quiet.id, quiet.guest.owned.take()))
    };
    while let Some((id, owned)) = with(take) {
        // It may use this registry when it is dropped.
        drop(owned);
        drop(with(|registry| {
            let at = registry.leaving.iter().position(|l| l.id == id)?;
            registry.leaving.remove(at).ok()
        }));
    }
}

/// Looks for what was still called when it had been waited for, and is no longer. It is dropped by others, as it may wait for
/// whom it wants. Looks again later if there is more. Context: a work item.
pub(crate) fn settle() {
    let any_rests = with(|registry| {
        registry.unquiet.settle();
        let mut any = false;
        for leaving in registry.leaving.iter_mut() {
            if let (Stage::Abandoned, Some(rest)) =
                (&leaving.stage, leaving.guest.counters.at_rest())
            {
                leaving.stage = Stage::Resting(rest);
                any = true;
            }
        }
        any
    });
    if any_rests {
        // The last calls have counted their ends, and still have to return.
        wait_for_exits();
    }
    let rested = |registry: &mut Registry| {
        for leaving in registry.leaving.iter_mut() {
            if let Stage::Resting(rest) = &leaving.stage {
                if leaving.guest.counters.at_rest() != Some(*rest) {
                    leaving.stage = Stage::Abandoned;
                    continue;
                }
                leaving.stage = Stage::Quiet;
                if let Some(note) = leaving.note.take() {
                    return Some(note);
                }
            }
        }
        None
    };
    while let Some(note) = with(rested) {
        note.defer();
    }
    settle_if_needed();
}

fn settle_if_needed() {
    if with(|registry| registry.is_unsettled()) {
        settle_later();
    }
}

/// The owner of an exit or of a hook has no more use for it: takes it away, or has that done where one can wait.
pub(crate) fn finish(note: KBox<Note>) {
    if !can_wait() {
        return note.defer();
    }
    let id = note.what();
    // Nothing may be left, so that a lack of memory is waited out; and it is gone already if its module went before. No
    // hook has the number of an exit.
    let _ = until_memory(|| match delete_where(|hook| hook.id == id) {
        Err(Error::Unregistered) => apply(Op::Deregister, &[ExitId(id).handle()]),
        result => result,
    });
    // If it is still called, the note comes back here when it is not.
    with(|registry| {
        let is_it = |l: &&mut Leaving| l.id == id && l.stage != Stage::Quiet;
        if let Some(leaving) = registry.leaving.iter_mut().find(is_it) {
            leaving.note = Some(note);
        }
    });
    drop_left(|l| l.id == id);
}

/// Whether an exit is armed.
pub(crate) fn is_armed(handle: Handle) -> bool {
    with(|registry| {
        let mut exits = registry.table.exits();
        exits.any(|e| {
            e.id == handle.id
                && e.body.parts.record_address() == handle.record
                && e.state() == State::Armed
                && !e.body.node.is_spent()
        })
    })
}

/// How many exits are registered.
pub(crate) fn count() -> usize {
    with(|registry| registry.table.len())
}

/// How often an exit has been called.
pub(crate) fn hits(id: ExitId) -> usize {
    let hits = |registry: &mut Registry| {
        registry
            .table
            .exit_mut(id.0)
            .map(|e| e.body.counters.hits())
    };
    with(hits).unwrap_or(0)
}

/// Makes a hook known; `typed` says that it was defined in Rust. Returns its number.
pub(crate) fn identify(hook: HookRef, typed: bool) -> Result<usize, Error> {
    check_context()?;
    let name = hook.name().ok_or(Error::BadName)?;
    if !is_name(name) || files::is_reserved(name) {
        return Err(Error::BadName);
    }
    // One on the heap would outlive its module.
    if !hook.is_sound() || !hook.is_static() {
        return Err(Error::BadHook);
    }
    if !typed && usize::try_from(hook.count()) != Ok(count_of(hook.params())) {
        return Err(Error::BadHook);
    }
    let _files = ffi::lock_files();
    with(|registry| {
        if registry.hook(|h| h.site.hook() == hook).is_some() {
            return Err(Error::Already);
        }
        if registry.hook(|h| h.name() == name).is_some() {
            return Err(Error::NameTaken);
        }
        let dispatches = PerCpuCounter::new().map_err(|_| Error::NoMemory)?;
        let host = Host {
            site: ffi::site_of(hook).map_err(|_| Error::NoMemory)?,
            owner: ModuleName::of(hook.address()),
            typed,
            dispatches: Arc::new(dispatches, GFP_KERNEL)?,
            past_hits: 0,
            dir: registry
                .root
                .as_ref()
                .and_then(|root| root.dir().subdir(name).ok()),
        };
        Ok(registry.table.identify(hook.is_exclusive(), host)?)
    })
}

/// A hook is no longer there. Its exits stay registered, on nothing.
pub(crate) fn delete(hook: HookRef) -> Result<(), Error> {
    delete_where(|h| h.body.site.hook() == hook)
}

fn delete_where(wanted: impl Fn(&Hook) -> bool) -> Result<(), Error> {
    check_context()?;
    let lock_files = ffi::lock_files();
    // What is taken out of use leaves this with the registry unlocked, since it is waited for.
    let (grave, host, files, mut watched) = with(|registry| {
        let mut hooks = registry.table.hooks().iter();
        let hook = hooks.find(|h| wanted(h)).ok_or(Error::Unregistered)?;
        let (id, mut ids) = (hook.id, KVec::new());
        for exit in hook.exits() {
            ids.push(exit.id, GFP_KERNEL)?;
        }
        let mut files = KVec::with_capacity(ids.len(), GFP_KERNEL)?;
        let watched = registry.watch(&ids)?;
        registry.table.prepare_delete(id)?;
        let (grave, _) = registry.change(Op::Disarm, &ids)?;
        // There is room, so that this does not fail.
        let host = registry.table.delete(id).ok();
        for id in ids {
            if let Some(file) = registry.table.exit_mut(id).and_then(|e| e.body.file.take()) {
                let _ = files.push_within_capacity(file);
            }
        }
        Ok::<_, Error>((grave, host, files, watched))
    })?;
    drop(files);
    let (dir, site) = host.map_or((None, None), |host| (host.dir, Some(host.site)));
    drop(dir);
    drop(lock_files);
    // An exit that still sleeps where it must not keeps what it needs.
    let _ = finish_change(grave, &mut watched);
    drop(site);
    Ok(())
}

/// Does what has to be done, whether or not there is memory at first.
pub(crate) fn until_memory(mut f: impl FnMut() -> Result<(), Error>) -> Result<(), Error> {
    loop {
        match f() {
            Err(Error::NoMemory) => fsleep(Delta::from_millis(10)),
            other => return other,
        }
    }
}

/// Takes exits that have disarmed themselves out of their hooks.
pub(crate) fn tidy() {
    // Without memory they stay, skipped, until the next change.
    let _ = with(|registry| {
        registry.note_spent();
        let mut ids = KVec::new();
        for exit in registry.table.exits() {
            if exit.state() == State::Spent {
                ids.push(exit.id, GFP_KERNEL)?;
            }
        }
        registry.change(Op::Disarm, &ids).map(|(grave, _)| grave)
    })
    .map(|grave| finish_change(grave, &mut []));
}

/// A module goes: with its hooks, and with its exits, wherever they are.
pub(crate) fn module_going(module: &Module) {
    // Nothing of the module may stay, so that a lack of memory is waited out.
    let its = |hook: &Hook| module.contains(hook.body.site.hook().address());
    while until_memory(|| delete_where(its)).is_ok() {}
    loop {
        let of_module = |e: &&Entry<Guest>| e.body.is_of(module);
        let found = with(|registry| {
            registry.table.exits().find(of_module).map(|exit| {
                pr_notice!(
                    "{}: its module goes and has not deregistered it\n",
                    &*exit.body.name
                );
                exit.body.handle(exit.id)
            })
        });
        let Some(handle) = found else { break };
        // Somebody else may just have done it.
        let _ = until_memory(|| apply(Op::Deregister, &[handle]));
    }
    // Others may be waiting for exits of it, and an exit may sleep where it must not.
    while with(|registry| registry.leaving.iter().any(|l| l.guest.is_of(module))) {
        fsleep(Delta::from_millis(10));
        drop_left(|l| l.guest.is_of(module));
    }
}

/// debugfs is there.
pub(crate) fn make_files() {
    let _files = ffi::lock_files();
    with(|registry| {
        let Ok(root) = files::root() else {
            return;
        };
        for hook in registry.table.hooks_mut() {
            let dir = root.dir().subdir(hook.body.name()).ok();
            for exit in hook.exits_mut() {
                let file = dir
                    .as_ref()
                    .map(|dir| files::exit_file(dir, &exit.body.name, exit.id));
                exit.body.file = file.and_then(Result::ok);
            }
            hook.body.dir = dir;
        }
        registry.root = Some(root);
    });
}
