// SPDX-License-Identifier: GPL-2.0

//! Registry of the loaded programs.
//!
//! Contexts: process; sleeps. Locks: the registry's mutex, then the locks that attaching points in
//! modules takes.
//!
//! Loading or unloading a module waits for the registry's mutex. It is therefore not held while
//! files are opened or while handlers are waited for. Points outside modules are attached before
//! their program enters the registry, and detached after the program has left the registry.
#![deny(unsafe_code)]

use ferro_core::rpn;
use ferro_core::rpn::ModuleKind;
use ferro_core::rpn::PointRef;
use ferro_core::rpn::ProgramRef;
use ferro_core::rpn::SetHeader;
use ferro_core::rpn::SetRef;
use ferro_core::rpn::CODE_MAX;
use ferro_core::rpn::IGNORE_OPCODES;
use ferro_core::rpn::MERGE;
use ferro_core::rpn::REPLACE;
use ferro_core::rpn::UNSAFE_WRITES;
use ferro_sys::fs::text_buffer::TextBuffer;
use ferro_sys::sync::deferred_call::Errand;
use ferro_sys::trace::lockdown;
use kernel::fmt;
use kernel::fmt::Write;
use kernel::prelude::*;
use kernel::str::CString;
use kernel::sync::Arc;

use crate::attachment::Attachment;
use crate::attachment::DetachReason;
use crate::attachment::Location;
use crate::attachment::OpcodeCheck;
use crate::error::CommandError;
use crate::point::Output;
use crate::point::Point;
use crate::point::Shared;
use crate::raw::module_notifier::Event;
use crate::raw::permission::Permission;
use crate::raw::worker;
use crate::reaper::end_some;
use crate::rearm::WatchRequests;
use crate::variables::OldValues;
use crate::variables::Range;
use crate::variables::Variables;

/// Point of a loaded program.
pub(crate) struct ProgramPoint {
    // Dropped in this order.
    pub(crate) attachment: Attachment,
    pub(crate) place: Location,
    pub(crate) point: Arc<Point>,
    opcodes: OpcodeCheck,
    /// Hits missed by attachments that have been detached.
    pub(crate) missed: usize,
}

/// Loaded program.
pub(crate) struct Program {
    pub(crate) name: CString,
    pub(crate) header: rpn::Header,
    pub(crate) set: SetHeader,
    pub(crate) locals: Arc<Variables>,
    pub(crate) slots: KVVec<ProgramPoint>,
}

impl Program {
    fn is_named(&self, name: &str) -> bool {
        self.name.to_bytes() == name.as_bytes()
    }

    pub(crate) fn is_of_module(&self) -> bool {
        self.header.kind == ModuleKind::Module
    }

    /// Checks that a new program of this name may replace this one, or be merged into it. Errors:
    /// -EEXIST, -EINVAL.
    fn accepts(&self, header: &rpn::Header, set: SetHeader) -> Result<(), CommandError> {
        if set.flags & (REPLACE | MERGE) == 0 {
            return Err(CommandError::of(EEXIST, &*self.name, "is loaded already"));
        }
        if set.flags & MERGE == 0 {
            return Ok(());
        }
        // Properties that are shown for a program have to hold for all its points.
        let why = if self.header.kind != header.kind {
            "is of another kind than the points that are added"
        } else if (self.set.flags ^ set.flags) & UNSAFE_WRITES != 0 {
            "and the points that are added do not both have UNSAFE_WRITES"
        } else if self.set.target != set.target {
            "has another target of its log than the points that are added"
        } else if (self.header.jmpmax, self.header.logmax) != (header.jmpmax, header.logmax) {
            "has another jmpmax or logmax than the points that are added"
        } else if self.locals.len() < usize::try_from(header.locals)? {
            "has fewer local variables than the points that are added"
        } else {
            return Ok(());
        };
        Err(CommandError::of(EINVAL, &*self.name, why))
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        Attachment::detach_all(&mut self.slots);
    }
}

/// Registry of programs. All programs are unloaded before it is dropped.
pub(crate) struct Registry {
    pub(crate) shared: Arc<Errand<Shared>>,
}

/// Checks that lockdown, and the permissions of the current task, let a set begin. Errors: -EPERM.
fn may_begin(set: SetHeader) -> Result<(), CommandError> {
    if set.flags & UNSAFE_WRITES != 0 && Permission::ask().is_none() {
        return Err(CommandError::new(EPERM, "UNSAFE_WRITES is not permitted"));
    }
    if lockdown::forbids_probes() {
        return Err(CommandError::new(EPERM, "the kernel is locked down"));
    }
    Ok(())
}

impl Registry {
    /// Makes an empty registry. Errors: -ENOMEM.
    pub(crate) fn new(shared: Arc<Errand<Shared>>) -> Result<Arc<Self>> {
        Ok(Arc::new(Self { shared }, GFP_KERNEL)?)
    }

    /// Loads a set: all of it, or nothing.
    pub(crate) fn insert(&self, bytes: &[u8]) -> Result<(), CommandError> {
        let mut depths = KVVec::new();
        depths.resize(CODE_MAX, 0, GFP_KERNEL)?;
        let set = SetRef::decode(bytes, &mut depths).map_err(CommandError::set)?;
        drop(depths);
        may_begin(set.header)?;
        let mut new = KVVec::with_capacity(usize::try_from(set.len())?, GFP_KERNEL)?;
        for program in set.programs() {
            let twice = |other: &Program| other.is_named(program.name);
            if new.iter().any(twice) {
                return Err(CommandError::of(
                    EEXIST,
                    program.name,
                    "is twice in the set",
                ));
            }
            new.push(self.build(&program, set.header)?, GFP_KERNEL)?;
        }
        self.publish(new, set.header)
    }

    /// Builds a program without beginning its points. Called without locks: see
    /// [`Attachment::new`].
    fn build(&self, program: &ProgramRef<'_>, set: SetHeader) -> Result<Program, CommandError> {
        let mut new = Program {
            name: CString::try_from_fmt(fmt!("{}", program.name))?,
            header: program.header,
            set,
            locals: self.locals(program, set)?,
            slots: KVVec::with_capacity(usize::try_from(program.len())?, GFP_KERNEL)?,
        };
        let mailboxes = Arc::new(WatchRequests::new(program)?, GFP_KERNEL)?;
        for point in program.points() {
            let mut slot = self.slot(&new, &point, mailboxes.clone())?;
            // `publish()` attaches points in modules: modules may be loaded and unloaded until
            // then.
            if !new.is_of_module() {
                slot.attachment = slot.found(&new.name)?;
            }
            new.slots.push(slot, GFP_KERNEL)?;
        }
        Ok(new)
    }

    /// Returns the local variables of a program: new ones, or the existing ones if it will be
    /// merged.
    fn locals(
        &self,
        program: &ProgramRef<'_>,
        set: SetHeader,
    ) -> Result<Arc<Variables>, CommandError> {
        let programs = self.shared.programs.lock();
        if let Some(there) = programs.iter().find(|there| there.is_named(program.name)) {
            there.accepts(&program.header, set)?;
            if set.flags & MERGE != 0 {
                return Ok(there.locals.clone());
            }
        }
        drop(programs);
        let locals = Variables::new(program.header.locals)?;
        Ok(Arc::new(locals, GFP_KERNEL)?)
    }

    fn slot(
        &self,
        program: &Program,
        point: &PointRef<'_>,
        mailboxes: Arc<WatchRequests>,
    ) -> Result<ProgramPoint, CommandError> {
        let set = program.set;
        let permission = match set.flags & UNSAFE_WRITES != 0 {
            true => Some(Permission::ask().ok_or(EPERM)?),
            false => None,
        };
        let output = Output {
            fields: u16::try_from(set.fields)?,
            target: set.target,
        };
        let name = program.name.to_str().map_err(|_| EINVAL)?;
        let place = Location::new(program.header.kind, name, point)?;
        let point = Point::new(
            &program.header,
            point,
            output,
            permission,
            mailboxes,
            program.locals.clone(),
            self.shared.clone(),
        )?;
        Ok(ProgramPoint {
            attachment: Attachment::Detached(DetachReason::Waiting),
            place,
            point: Arc::new(point, GFP_KERNEL)?,
            opcodes: match set.flags & IGNORE_OPCODES != 0 {
                true => OpcodeCheck::Ignore,
                false => OpcodeCheck::Compare,
            },
            missed: 0,
        })
    }

    /// Publishes and begins all programs of a set. Refused and replaced programs are dropped
    /// after the registry has been unlocked: dropping waits for handlers, and other callers should not
    /// have to.
    fn publish(&self, mut new: KVVec<Program>, set: SetHeader) -> Result<(), CommandError> {
        let mut old = KVVec::with_capacity(new.len(), GFP_KERNEL)?;
        let mut programs = self.shared.programs.lock();
        // Checked again, as opening files may have taken any time. The new points have not begun.
        may_begin(set)?;
        // Steps that may fail are done first.
        for program in &mut new {
            if let Some(there) = find(&mut programs, &program.name) {
                // This program may have been loaded since the new one was built.
                there.accepts(&program.header, set)?;
                if set.flags & MERGE != 0 {
                    if !Arc::ptr_eq(&there.locals, &program.locals) {
                        let text = "has come while points for it were made";
                        return Err(CommandError::of(EBUSY, &*program.name, text));
                    }
                    there.slots.reserve(program.slots.len(), GFP_KERNEL)?;
                }
            }
            if program.is_of_module() {
                for slot in &mut program.slots {
                    slot.attachment = slot.found_in_module(&program.name)?;
                }
            }
        }
        programs.reserve(new.len(), GFP_KERNEL)?;
        for mut program in new {
            if let Some(there) = find(&mut programs, &program.name) {
                if set.flags & MERGE == 0 {
                    there.slots.iter().for_each(|slot| slot.point.end());
                }
            }
            program.slots.iter().for_each(|slot| slot.point.begin());
            match find(&mut programs, &program.name) {
                None => put(&mut programs, program),
                Some(there) if set.flags & MERGE != 0 => {
                    for slot in core::mem::take(&mut program.slots) {
                        put(&mut there.slots, slot);
                    }
                }
                Some(there) => put(&mut old, core::mem::replace(there, program)),
            }
        }
        Ok(())
    }

    /// Unloads a program.
    pub(crate) fn remove(&self, name: &str) -> Result<(), CommandError> {
        let mut programs = self.shared.programs.lock();
        let index = programs
            .iter()
            .position(|program| program.name.to_bytes() == name.as_bytes());
        let Some(index) = index else {
            return Err(CommandError::of(ENOENT, name, "is not loaded"));
        };
        let removed = programs.remove(index);
        drop(programs);
        // Waits for handlers, without the lock that other callers need.
        drop(removed);
        // The work items may have taken some of its attachments before; this waits for them, too.
        self.wait();
        Ok(())
    }

    /// Waits until the earlier requests of hits are done.
    fn wait(&self) {
        self.shared.wait();
        worker::wait();
    }

    /// Unloads all programs.
    pub(crate) fn remove_all(&self) {
        let removed = core::mem::take(&mut *self.shared.programs.lock());
        drop(removed);
        self.wait();
    }

    /// Sets local variables of a program to 0. Returns their previous values.
    pub(crate) fn reset(&self, name: &str, range: Range) -> Result<ResetReport, CommandError> {
        let programs = self.shared.programs.lock();
        let mut found = programs.iter().filter(|program| program.is_named(name));
        match found.next() {
            Some(program) => Ok(take(core::iter::once(program), None, range)?),
            None => Err(CommandError::of(ENOENT, name, "is not loaded")),
        }
    }

    /// Sets global variables to 0. Returns their previous values.
    pub(crate) fn reset_globals(&self, range: Range) -> Result<ResetReport> {
        take(core::iter::empty(), Some(&self.shared.globals), range)
    }

    /// Sets variables of all programs and global variables to 0. Returns their previous values.
    pub(crate) fn reset_all(&self, range: Range) -> Result<ResetReport> {
        let programs = self.shared.programs.lock();
        take(programs.iter(), Some(&self.shared.globals), range)
    }

    /// Handles a module that has been loaded or is about to be unloaded.
    pub(crate) fn module(&self, name: &CStr, event: Event) {
        let of_module = |program: &Program| {
            program.is_of_module() && program.name.to_bytes() == name.to_bytes()
        };
        // Old attachments have to be detached first.
        while end_some(&self.shared, of_module, ProgramPoint::detach) {}
        let mut programs = self.shared.programs.lock();
        for program in programs.iter_mut().filter(|program| of_module(program)) {
            for slot in &mut program.slots {
                // A set that was loaded since has attached its points already.
                if let Attachment::Detached(_) = slot.attachment {
                    slot.attachment = Attachment::Detached(DetachReason::Waiting);
                    slot.disarm();
                    if event == Event::Coming {
                        slot.attach();
                    }
                }
            }
        }
    }
}

/// Values of variables before they were set to 0.
#[derive(Default)]
pub(crate) struct ResetReport {
    /// Values of local variables, with the names of their programs.
    programs: KVVec<(CString, OldValues)>,
    globals: Option<OldValues>,
}

impl ResetReport {
    /// Appends a line for each program, and one for the global variables.
    pub(crate) fn write(&self, text: &mut TextBuffer) -> fmt::Result {
        for (name, taken) in &self.programs {
            text.write_fmt(fmt!("taken {taken} name={}\n", **name))?;
        }
        match &self.globals {
            Some(taken) => text.write_fmt(fmt!("taken_globals {taken}\n")),
            None => Ok(()),
        }
    }
}

/// Sets variables to 0, once there is memory for all their previous values. Errors: -ENOMEM.
fn take<'a>(
    programs: impl Iterator<Item = &'a Program> + Clone,
    globals: Option<&Variables>,
    range: Range,
) -> Result<ResetReport> {
    let mut all = ResetReport::default();
    for program in programs.clone() {
        let name = CString::try_from_fmt(fmt!("{}", *program.name))?;
        let taken = program.locals.room(range)?;
        all.programs.push((name, taken), GFP_KERNEL)?;
    }
    all.globals = globals.map(|globals| globals.room(range)).transpose()?;
    for (program, (_, taken)) in programs.zip(all.programs.iter_mut()) {
        program.locals.take(range, taken);
    }
    if let (Some(globals), Some(taken)) = (globals, &mut all.globals) {
        globals.take(range, taken);
    }
    Ok(all)
}

impl ProgramPoint {
    /// Takes the attachment in a module that was loaded again or is about to be unloaded.
    fn detach(&mut self) -> Option<Attachment> {
        if let Attachment::Detached(_) = self.attachment {
            return None;
        }
        self.keep_missed();
        Some(core::mem::replace(
            &mut self.attachment,
            Attachment::Detached(DetachReason::Waiting),
        ))
    }

    /// Attaches the point in a module that has been loaded.
    fn attach(&mut self) {
        if self.point.is_used_up() {
            self.attachment = Attachment::Detached(DetachReason::UsedUp);
            return;
        }
        self.attachment = self
            .find()
            .unwrap_or_else(|error| Attachment::Detached(DetachReason::of(error)));
    }

    /// Saves the count of missed hits before the attachment is removed.
    pub(crate) fn keep_missed(&mut self) {
        self.missed = self.missed.saturating_add(self.attachment.missed());
    }

    fn find(&self) -> Result<Attachment> {
        Attachment::new(&self.place, &self.point, self.opcodes)
    }

    /// Attaches a point of a program before the program is loaded.
    fn found(&self, name: &CStr) -> Result<Attachment, CommandError> {
        self.find()
            .map_err(|error| CommandError::place(error, name, &self.place))
    }

    /// Attaches a point in a module. If the module is not loaded, the point waits for it.
    fn found_in_module(&self, name: &CStr) -> Result<Attachment, CommandError> {
        match self.find() {
            Err(error) if error == ENOENT => Ok(Attachment::Detached(DetachReason::Waiting)),
            Err(error) => Err(CommandError::place(error, name, &self.place)),
            Ok(stop) => Ok(stop),
        }
    }
}

fn find<'a>(programs: &'a mut KVVec<Program>, name: &CStr) -> Option<&'a mut Program> {
    let mut all = programs.iter_mut();
    all.find(|program| program.name.to_bytes() == name.to_bytes())
}

/// Appends to a vector that has room.
fn put<T>(to: &mut KVVec<T>, what: T) {
    let _ = to.push_within_capacity(what);
}
