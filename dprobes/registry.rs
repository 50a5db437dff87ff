// SPDX-License-Identifier: GPL-2.0

//! Registry of the loaded programs.
//!
//! Contexts: process; sleeps. Locks: the registry's mutex, then the locks that attaching points in
//! modules takes.
//!
//! Loading or unloading a module waits for the registry's mutex. The mutex is therefore not held
//! while files are opened or while handlers are waited for. Points outside modules are attached
//! before their program enters the registry, and detached after the program has left it.
//!
//! A hit cannot detach its point, or arm a watchpoint. It queues a work item, which does both. A
//! module may be unloaded at the same time: the kprobes engine removes its breakpoints before its
//! memory is freed.
#![deny(unsafe_code)]

use ferro_dprobes_core::ProgramRef;
use ferro_dprobes_core::SetHeader;
use ferro_dprobes_core::SetRef;
use ferro_dprobes_core::CODE_MAX;
use ferro_dprobes_core::MERGE;
use ferro_dprobes_core::UNSAFE_WRITES;
use ferro_sys::trace::lockdown;
use kernel::new_mutex;
use kernel::prelude::*;
use kernel::sync::Arc;
use kernel::sync::Mutex;

use crate::attachment::Attachment;
use crate::attachment::DetachReason;
use crate::error::CommandError;
use crate::program::Program;
use crate::program::ProgramPoint;
use crate::raw::module_notifier::Event;
use crate::raw::permission::Permission;
use crate::raw::worker;
use crate::raw::worker::WorkHandler;
use crate::runtime::Runtime;
use crate::variables;
use crate::variables::IndexRange;
use crate::variables::ResetReport;
use crate::variables::Variables;

/// Most attachments that are detached with one wait for their handlers.
const BATCH: usize = 16;

/// Checks that lockdown, and the permissions of the current task, let a set begin. Errors: -EPERM.
fn may_begin(set: SetHeader) -> Result<(), CommandError> {
    if set.flags & UNSAFE_WRITES != 0 && Permission::obtain().is_none() {
        return Err(CommandError::new(EPERM, "UNSAFE_WRITES is not permitted"));
    }
    if lockdown::forbids_probes() {
        return Err(CommandError::new(EPERM, "the kernel is locked down"));
    }
    Ok(())
}

/// Registry of programs.
#[pin_data]
pub(crate) struct Registry {
    pub(crate) runtime: Arc<Runtime>,
    #[pin]
    pub(crate) programs: Mutex<KVVec<Program>>,
}

impl Registry {
    /// Makes an empty registry. Errors: -ENOMEM.
    pub(crate) fn new(runtime: Arc<Runtime>) -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                runtime,
                programs <- new_mutex!(KVVec::new()),
            }),
            GFP_KERNEL,
        )
    }

    /// Loads a set: all of it, or nothing.
    pub(crate) fn load(&self, bytes: &[u8]) -> Result<(), CommandError> {
        let mut depths = KVVec::new();
        depths.resize(CODE_MAX, 0, GFP_KERNEL)?;
        let set = SetRef::decode(bytes, &mut depths).map_err(CommandError::set)?;
        drop(depths);
        may_begin(set.header)?;
        let mut new = KVVec::with_capacity(usize::try_from(set.len())?, GFP_KERNEL)?;
        for program in set.programs() {
            let is_same = |other: &Program| other.is_named(program.name.as_bytes());
            if new.iter().any(is_same) {
                let text = "is twice in the set";
                return Err(CommandError::program(EEXIST, program.name, text));
            }
            let locals = self.locals(&program, set.header)?;
            let built = Program::new(&program, set.header, locals, &self.runtime)?;
            new.push(built, GFP_KERNEL)?;
        }
        self.publish(new, set.header)
    }

    /// Returns the local variables of a program: new ones, or the existing ones if it will be
    /// merged.
    fn locals(
        &self,
        program: &ProgramRef<'_>,
        set: SetHeader,
    ) -> Result<Arc<Variables>, CommandError> {
        let mut programs = self.programs.lock();
        if let Some(loaded) = find(&mut programs, program.name.as_bytes()) {
            loaded.accepts(&program.header, set)?;
            if set.flags & MERGE != 0 {
                return Ok(loaded.locals.clone());
            }
        }
        drop(programs);
        let locals = Variables::new(program.header.locals)?;
        Ok(Arc::new(locals, GFP_KERNEL)?)
    }

    /// Publishes and begins all programs of a set. Drops refused and replaced programs after
    /// unlocking the registry: dropping waits for handlers, which would delay other callers.
    fn publish(&self, mut new: KVVec<Program>, set: SetHeader) -> Result<(), CommandError> {
        let mut old = KVVec::with_capacity(new.len(), GFP_KERNEL)?;
        let mut programs = self.programs.lock();
        // Checked again, as opening files may have taken long. The new points have not begun yet.
        may_begin(set)?;
        // Steps that may fail are done first.
        for program in &mut new {
            if let Some(loaded) = find(&mut programs, program.name.to_bytes()) {
                // This program may have been loaded since the new one was built.
                loaded.accepts(&program.header, set)?;
                if set.flags & MERGE != 0 {
                    if !Arc::ptr_eq(&loaded.locals, &program.locals) {
                        let text = "was loaded while points for it were built";
                        return Err(CommandError::program(EBUSY, &*program.name, text));
                    }
                    loaded.points.reserve(program.points.len(), GFP_KERNEL)?;
                }
            }
            if program.is_of_module() {
                // Under the lock: before it was taken, modules may have been loaded and unloaded.
                for point in &mut program.points {
                    point.attachment = point.attach_in_module(&program.name)?;
                }
            }
        }
        programs.reserve(new.len(), GFP_KERNEL)?;
        for mut program in new {
            if let Some(loaded) = find(&mut programs, program.name.to_bytes()) {
                if set.flags & MERGE == 0 {
                    loaded.points.iter().for_each(|old| old.point.counter.end());
                }
            }
            program
                .points
                .iter()
                .for_each(|new| new.point.counter.begin());
            match find(&mut programs, program.name.to_bytes()) {
                None => push_reserved(&mut programs, program),
                Some(loaded) if set.flags & MERGE != 0 => {
                    for point in core::mem::take(&mut program.points) {
                        push_reserved(&mut loaded.points, point);
                    }
                }
                Some(loaded) => push_reserved(&mut old, core::mem::replace(loaded, program)),
            }
        }
        Ok(())
    }

    /// Unloads a program.
    pub(crate) fn remove(&self, name: &str) -> Result<(), CommandError> {
        let mut programs = self.programs.lock();
        let mut names = programs.iter();
        let Some(index) = names.position(|program| program.is_named(name.as_bytes())) else {
            return Err(CommandError::program(ENOENT, name, "is not loaded"));
        };
        let removed = programs.remove(index);
        drop(programs);
        // Waits for handlers, without the lock that other callers need.
        drop(removed);
        // The work item may have taken some attachments before and be detaching them: waits for it.
        worker::flush();
        Ok(())
    }

    /// Unloads all programs.
    pub(crate) fn remove_all(&self) {
        let removed = core::mem::take(&mut *self.programs.lock());
        drop(removed);
        worker::flush();
    }

    /// Sets local variables of a program to 0. Returns their previous values.
    pub(crate) fn reset(&self, name: &str, range: IndexRange) -> Result<ResetReport, CommandError> {
        let programs = self.programs.lock();
        let is_named = |program: &&Program| program.is_named(name.as_bytes());
        match programs.iter().find(is_named) {
            Some(program) => {
                let locals = core::iter::once((&*program.name, &*program.locals));
                Ok(variables::reset(locals, None, range)?)
            }
            None => Err(CommandError::program(ENOENT, name, "is not loaded")),
        }
    }

    /// Sets global variables to 0. Returns their previous values.
    pub(crate) fn reset_globals(&self, range: IndexRange) -> Result<ResetReport> {
        variables::reset(core::iter::empty(), Some(&self.runtime.globals), range)
    }

    /// Sets variables of all programs and global variables to 0. Returns their previous values.
    pub(crate) fn reset_all(&self, range: IndexRange) -> Result<ResetReport> {
        let programs = self.programs.lock();
        let locals = programs.iter().map(|one| (&*one.name, &*one.locals));
        variables::reset(locals, Some(&self.runtime.globals), range)
    }

    /// Handles a module that has been loaded or is about to be unloaded.
    pub(crate) fn module_changed(&self, name: &CStr, event: Event) {
        let of_module =
            |program: &Program| program.is_of_module() && program.is_named(name.to_bytes());
        // Old attachments have to be detached first.
        while self.detach_batch(of_module, ProgramPoint::detach_from_module) {}
        let mut programs = self.programs.lock();
        for program in programs.iter_mut().filter(|program| of_module(program)) {
            for point in &mut program.points {
                point.module_changed(event == Event::Coming);
            }
        }
    }

    /// Detaches the attachments that `take` takes from points of `chosen` programs, and waits for
    /// their handlers after unlocking the registry. Returns true if there may be more.
    fn detach_batch(
        &self,
        chosen: impl Fn(&Program) -> bool,
        take: impl Fn(&mut ProgramPoint) -> Option<Attachment>,
    ) -> bool {
        let mut batch = [const { Attachment::Detached(DetachReason::UsedUp) }; BATCH];
        let mut free = batch.iter_mut().peekable();
        let mut programs = self.programs.lock();
        for program in programs.iter_mut().filter(|program| chosen(program)) {
            for point in &mut program.points {
                // `take` is not called if there is no place for its result.
                let taken = free.peek().and_then(|_| take(point));
                if let Some((attachment, place)) = taken.and_then(|one| Some((one, free.next()?))) {
                    *place = attachment;
                }
            }
        }
        let is_full = free.peek().is_none();
        drop(programs);
        Attachment::detach_all(&mut batch);
        is_full
    }
}

impl WorkHandler for Registry {
    /// Detaches points with programs that never run again, and arms watchpoints.
    fn run(&self) {
        if self.detach_batch(|_| true, ProgramPoint::handle_requests) {
            worker::queue();
        }
    }
}

fn find<'a>(programs: &'a mut KVVec<Program>, name: &[u8]) -> Option<&'a mut Program> {
    programs.iter_mut().find(|program| program.is_named(name))
}

/// Appends to a vector that has room.
fn push_reserved<T>(to: &mut KVVec<T>, what: T) {
    let _ = to.push_within_capacity(what);
}
