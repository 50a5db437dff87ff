// SPDX-License-Identifier: GPL-2.0

//! The registry: which hooks and exits there are, and every operation on them.
//!
//! Contexts: process; sleeps. Locks, outermost first: that of module notifiers, while a module goes; the files'
//! lock, held while files appear and vanish; the registry's; then those of debugfs's directories, of static
//! keys and of CPU hotplug. Waiting for exits holds none but the first, and removing a file does not hold the
//! registry's, which whoever has the file open may be waiting for.
#![deny(unsafe_code)]

use core::any::TypeId;

use ferro_core::hooks::Exit as Entry;
use ferro_core::hooks::Hook as HookEntry;
use ferro_core::hooks::Op;
use ferro_core::hooks::Priority;
use ferro_core::hooks::State;
use ferro_core::hooks::Table;
use ferro_sys::debugfs::Dir;
use ferro_sys::hook::count_of;
use ferro_sys::hook::is_lasting_text;
use ferro_sys::hook::Condition;
use ferro_sys::hook::Context;
use ferro_sys::hook::Exit;
use ferro_sys::hook::Graveyard;
use ferro_sys::hook::HookRef;
use ferro_sys::hook::Module;
use ferro_sys::hook::ModuleName;
use ferro_sys::hook::Parts;
use ferro_sys::hook::Site;
use ferro_sys::mutex::StaticGuard;
use ferro_sys::percpu::PerCpuCounter;
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
    /// The type that describes it, if it was made with one.
    identity: Option<TypeId>,
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
    /// What was counted before it was armed again after it had disarmed itself.
    pub(crate) past: Counts,
    parts: Parts,
    context: Context,
    /// Whether no CPU can be in it.
    quiet: bool,
    /// How often it has been armed.
    armings: usize,
    file: Option<ExitFile>,
}

/// Counters of an exit.
#[derive(Clone, Copy, Default)]
pub(crate) struct Counts {
    pub(crate) direct: usize,
    pub(crate) hits: usize,
    pub(crate) stops: usize,
}

impl Guest {
    /// All that has been counted.
    pub(crate) fn counts(&self) -> Counts {
        let (past, node) = (self.past, &self.node);
        Counts {
            direct: past.direct.wrapping_add(node.direct_hits()),
            hits: past.hits.wrapping_add(node.hits()),
            stops: past.stops.wrapping_add(node.stops()),
        }
    }

    /// The exit anew, as it was before it disarmed itself.
    pub(crate) fn new_node(&self, hook: HookRef) -> Result<Exit> {
        Exit::new(&self.parts, hook)
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
            self.past = self.counts();
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

    /// Makes a change of these exits, or none. What has been taken out of use is to be waited for, and what
    /// is gone goes after that.
    fn change(&mut self, op: Op, ids: &[usize]) -> Result<(Graveyard, KVec<Guest>), Error> {
        self.note_spent();
        let mut gone = KVec::with_capacity(ids.len(), GFP_KERNEL)?;
        self.table.stage(op, ids)?;
        let mut grave = effect::apply(&mut self.table).inspect_err(|_| self.table.abort())?;
        if op != Op::Arm {
            for exit in self.table.exits().filter(|e| ids.contains(&e.id)) {
                if !exit.body.quiet {
                    grave.note(exit.body.context);
                }
            }
        }
        for hook in self.table.hooks_mut() {
            let leaving = hook.exits().iter().filter(|e| e.next() == State::Gone);
            let hits: usize = leaving.fold(0, |sum, e| sum.wrapping_add(e.body.counts().direct));
            hook.body.past_hits = hook.body.past_hits.wrapping_add(hits);
        }
        self.table.commit(|exit| {
            // There is room for all of them.
            let _ = gone.push_within_capacity(exit.body);
        });
        Ok((grave, gone))
    }

    /// How often these exits have been armed, to see later whether they were again.
    fn armings(&self, ids: &[usize]) -> Result<KVec<(usize, usize)>, Error> {
        let mut armings = KVec::with_capacity(ids.len(), GFP_KERNEL)?;
        for exit in self.table.exits().filter(|e| ids.contains(&e.id)) {
            armings.push((exit.id, exit.body.armings), GFP_KERNEL)?;
        }
        Ok(armings)
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
    /// The type that the hook was made with; none for a hook of C.
    pub(crate) identity: Option<TypeId>,
}

/// An exit to be registered.
pub(crate) struct NewExit<'a> {
    pub(crate) hook: &'a CStr,
    pub(crate) name: &'a CStr,
    pub(crate) priority: Priority,
    pub(crate) params: u32,
    pub(crate) parts: Parts,
    pub(crate) shape: Option<Shape>,
}

/// Whether a name can be one.
fn is_name(name: &CStr) -> bool {
    let bytes = name.to_bytes();
    let ok = |b: &u8| b.is_ascii_alphanumeric() || b"_-.".contains(b);
    (1..=files::NAME_MAX).contains(&bytes.len()) && bytes.iter().all(ok) && !bytes.starts_with(b".")
}

/// Whether an exit that was compiled for the first can be called with the second.
///
/// A type of Rust says it all, but for parameters that came later; the names of C do not say what their types are, which
/// is promised where an exit's types are declared.
fn fits(shape: &Shape, host: &Host) -> bool {
    let hook = host.site.hook();
    let rest = hook
        .params()
        .to_bytes()
        .strip_prefix(shape.params.to_bytes());
    shape.identity == host.identity
        && (host.identity.is_some() || shape.modifiable == hook.is_modifiable())
        && shape.has_return == hook.has_return()
        && shape.context == hook.context()
        && rest.is_some_and(|r| r.is_empty() || r.starts_with(b",") || shape.params.is_empty())
}

/// Registers an exit. Returns its number.
pub(crate) fn register(new: &NewExit<'_>) -> Result<usize, Error> {
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
        let node = Exit::new(&new.parts, hook_ref).map_err(|_| Error::NoMemory)?;
        let guest = Guest {
            name: CString::try_from_fmt(fmt!("{}", new.name)).map_err(|_| Error::NoMemory)?,
            owner: ModuleName::of(new.parts.address()),
            params: new.params,
            node: Arc::new(node, GFP_KERNEL)?,
            past: Counts::default(),
            parts: new.parts,
            context: hook_ref.context(),
            quiet: true,
            armings: 0,
            file: None,
        };
        let id = registry.table.register(hook_id, new.priority, guest)?;
        let dir = registry.hook(|h| h.site.hook() == hook_ref);
        let dir = dir.and_then(|h| h.body.dir.as_ref());
        // debugfs is a convenience: without a file the exit is still there.
        let file = dir.and_then(|dir| files::exit_file(dir, new.name, id).ok());
        if let Some(exit) = registry.table.exit_mut(id) {
            exit.body.file = file;
        }
        Ok(id)
    })
}

/// Arms, disarms or deregisters exits, all in one step. Unless it armed them, no CPU is in them
/// afterwards.
pub(crate) fn apply(op: Op, handles: &[Handle]) -> Result<(), Error> {
    let mut ids = KVec::with_capacity(handles.len(), GFP_KERNEL)?;
    for handle in handles {
        ids.push(handle.id, GFP_KERNEL)?;
    }
    let lock_files = (op == Op::Deregister).then(ffi::lock_files);
    let (grave, gone, armings) = with(|registry| {
        for handle in handles {
            let same = |e: &Entry<Guest>| {
                e.id == handle.id && e.body.parts.record_address() == handle.record
            };
            if !registry.table.exits().any(same) {
                return Err(Error::Unregistered);
            }
        }
        let armings = registry.armings(&ids)?;
        let (grave, gone) = registry.change(op, &ids)?;
        Ok((grave, gone, armings))
    })?;
    let gone = remove_files(gone);
    drop(lock_files);
    grave.wait();
    if op == Op::Disarm {
        with(|registry| {
            for (id, before) in armings {
                if let Some(exit) = registry.table.exit_mut(id) {
                    exit.body.quiet |= exit.body.armings == before;
                }
            }
        });
    }
    drop(gone);
    Ok(())
}

/// Removes the files of exits. Context: with the files' lock, but without the registry's.
fn remove_files(mut exits: KVec<Guest>) -> KVec<Guest> {
    for exit in exits.iter_mut() {
        exit.file = None;
    }
    exits
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

/// What an exit has counted.
pub(crate) fn counts(id: usize) -> Option<Counts> {
    with(|registry| registry.table.exit_mut(id).map(|e| e.body.counts()))
}

/// Makes a hook known; `identity` is the type that describes it, if it was made with one.
pub(crate) fn identify(hook: HookRef, identity: Option<TypeId>) -> Result<(), Error> {
    let name = hook.name().ok_or(Error::BadName)?;
    if !is_name(name) || files::is_reserved(name) {
        return Err(Error::BadName);
    }
    // One on the heap would outlive its module.
    if !hook.is_sound() || !hook.is_static() {
        return Err(Error::BadHook);
    }
    if identity.is_none() && usize::try_from(hook.count()) != Ok(count_of(hook.params())) {
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
            site: ffi::site_of(hook),
            owner: ModuleName::of(hook.address()),
            identity,
            dispatches: Arc::new(dispatches, GFP_KERNEL)?,
            past_hits: 0,
            dir: registry
                .root
                .as_ref()
                .and_then(|root| root.dir().subdir(name).ok()),
        };
        registry.table.identify(hook.is_exclusive(), host)?;
        Ok(())
    })
}

/// A hook is no longer there. Its exits stay registered, on nothing.
pub(crate) fn delete(hook: HookRef) -> Result<(), Error> {
    delete_where(|host| host.site.hook() == hook)
}

fn delete_where(wanted: impl Fn(&Host) -> bool) -> Result<(), Error> {
    let lock_files = ffi::lock_files();
    // What is taken out of use leaves this with the registry unlocked, since it is waited for.
    let (grave, host, files) = with(|registry| {
        let hook = registry.hook(&wanted).ok_or(Error::Unregistered)?;
        let (id, mut ids) = (hook.id, KVec::new());
        for exit in hook.exits() {
            ids.push(exit.id, GFP_KERNEL)?;
        }
        let mut files = KVec::with_capacity(ids.len(), GFP_KERNEL)?;
        registry.table.prepare_delete(id)?;
        let (grave, _) = registry.change(Op::Disarm, &ids)?;
        // There is room, so that this does not fail.
        let host = registry.table.delete(id).ok();
        for id in ids {
            if let Some(file) = registry.table.exit_mut(id).and_then(|e| e.body.file.take()) {
                let _ = files.push_within_capacity(file);
            }
        }
        Ok::<_, Error>((grave, host, files))
    })?;
    drop(files);
    let (dir, site) = host.map_or((None, None), |host| (host.dir, Some(host.site)));
    drop(dir);
    drop(lock_files);
    grave.wait();
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
    .map(Graveyard::wait);
}

/// A module goes: with its hooks, and with its exits, wherever they are.
pub(crate) fn module_going(module: &Module) {
    // Nothing of the module may stay, so that a lack of memory is waited out.
    let its = |host: &Host| module.contains(host.site.hook().address());
    while until_memory(|| delete_where(its)).is_ok() {}
    loop {
        let of_module = |e: &&Entry<Guest>| {
            module.contains(e.body.parts.address())
                || module.contains(e.body.parts.record_address())
        };
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
