// SPDX-License-Identifier: GPL-2.0

//! The programs that are loaded.
//!
//! Contexts: process; sleeps. Locks: the table's mutex, then those of what points of modules are registered with. Each module that
//! comes or goes waits for the table's mutex. So it is not held while files are opened, nor while handlers are waited for: points
//! elsewhere than in modules are made before a program comes into the table, and go after it has left it.
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
use crate::attachment::Opcodes;
use crate::attachment::Place;
use crate::error::Refused;
use crate::point::Output;
use crate::point::Point;
use crate::point::Shared;
use crate::raw::module_name::Event;
use crate::raw::permission::Permission;
use crate::raw::worker;
use crate::reaper::end_some;
use crate::rearm::WatchRequests;
use crate::variables::Range;
use crate::variables::Taken;
use crate::variables::Variables;

/// A point of a loaded program.
pub(crate) struct ProgramPoint {
    // In the order in which they have to go.
    pub(crate) stop: Attachment,
    pub(crate) place: Place,
    pub(crate) point: Arc<Point>,
    opcodes: Opcodes,
    /// Hits that the point was not told of, where nothing stops any more.
    pub(crate) missed: usize,
}

/// A loaded program.
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

    /// Whether a program of this name may be loaded, which takes the place of this one, or becomes a part of it.
    fn accepts(&self, header: &rpn::Header, set: SetHeader) -> Result<(), Refused> {
        if set.flags & (REPLACE | MERGE) == 0 {
            return Err(Refused::of(EEXIST, &*self.name, "is loaded already"));
        }
        if set.flags & MERGE == 0 {
            return Ok(());
        }
        // What is told of the program has to be true of all its points.
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
        Err(Refused::of(EINVAL, &*self.name, why))
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        Attachment::end_all(&mut self.slots);
    }
}

/// The programs. When this is dropped, none runs any more.
pub(crate) struct Table {
    pub(crate) shared: Arc<Errand<Shared>>,
}

/// Whether lockdown, and what the current task may do, let a set begin.
fn may_begin(set: SetHeader) -> Result<(), Refused> {
    if set.flags & UNSAFE_WRITES != 0 && Permission::ask().is_none() {
        return Err(Refused::new(EPERM, "UNSAFE_WRITES is not permitted"));
    }
    if lockdown::forbids_probes() {
        return Err(Refused::new(EPERM, "the kernel is locked down"));
    }
    Ok(())
}

impl Table {
    /// Errors: -ENOMEM.
    pub(crate) fn new(shared: Arc<Errand<Shared>>) -> Result<Arc<Self>> {
        Ok(Arc::new(Self { shared }, GFP_KERNEL)?)
    }

    /// Loads a set: all of it, or nothing.
    pub(crate) fn insert(&self, bytes: &[u8]) -> Result<(), Refused> {
        let mut depths = KVVec::new();
        depths.resize(CODE_MAX, 0, GFP_KERNEL)?;
        let set = SetRef::decode(bytes, &mut depths).map_err(Refused::set)?;
        drop(depths);
        may_begin(set.header)?;
        let mut new = KVVec::with_capacity(usize::try_from(set.len())?, GFP_KERNEL)?;
        for program in set.programs() {
            let twice = |other: &Program| other.is_named(program.name);
            if new.iter().any(twice) {
                return Err(Refused::of(EEXIST, program.name, "is twice in the set"));
            }
            new.push(self.build(&program, set.header)?, GFP_KERNEL)?;
        }
        self.publish(new, set.header)
    }

    /// Makes a program whose points have not begun. No lock is held meanwhile: see [`Attachment::new`].
    fn build(&self, program: &ProgramRef<'_>, set: SetHeader) -> Result<Program, Refused> {
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
            // Modules come and go meanwhile: that is for later.
            if !new.is_of_module() {
                slot.stop = slot.found(&new.name)?;
            }
            new.slots.push(slot, GFP_KERNEL)?;
        }
        Ok(new)
    }

    /// The local variables that a program will have.
    fn locals(&self, program: &ProgramRef<'_>, set: SetHeader) -> Result<Arc<Variables>, Refused> {
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
    ) -> Result<ProgramPoint, Refused> {
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
        let place = Place::new(program.header.kind, name, point)?;
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
            stop: Attachment::None(DetachReason::Waiting),
            place,
            point: Arc::new(point, GFP_KERNEL)?,
            opcodes: match set.flags & IGNORE_OPCODES != 0 {
                true => Opcodes::Ignore,
                false => Opcodes::Compare,
            },
            missed: 0,
        })
    }

    /// Has all programs of a set loaded, and begin. What is refused, and what they replace, goes when the table is not locked: it
    /// waits for handlers, which nobody else has to.
    fn publish(&self, mut new: KVVec<Program>, set: SetHeader) -> Result<(), Refused> {
        let mut old = KVVec::with_capacity(new.len(), GFP_KERNEL)?;
        let mut programs = self.shared.programs.lock();
        // Files may have taken any time to open. What is made has not begun.
        may_begin(set)?;
        // What may fail comes first.
        for program in &mut new {
            if let Some(there) = find(&mut programs, &program.name) {
                // It may have come since the new one was made.
                there.accepts(&program.header, set)?;
                if set.flags & MERGE != 0 {
                    if !Arc::ptr_eq(&there.locals, &program.locals) {
                        let text = "has come while points for it were made";
                        return Err(Refused::of(EBUSY, &*program.name, text));
                    }
                    there.slots.reserve(program.slots.len(), GFP_KERNEL)?;
                }
            }
            if program.is_of_module() {
                for slot in &mut program.slots {
                    slot.stop = slot.found_in_module(&program.name)?;
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
    pub(crate) fn remove(&self, name: &str) -> Result<(), Refused> {
        let mut programs = self.shared.programs.lock();
        let index = programs
            .iter()
            .position(|program| program.name.to_bytes() == name.as_bytes());
        let Some(index) = index else {
            return Err(Refused::of(ENOENT, name, "is not loaded"));
        };
        let removed = programs.remove(index);
        drop(programs);
        // Waits for the handlers, which nobody else has to.
        drop(removed);
        // Of its points some may be about to go since before.
        self.wait();
        Ok(())
    }

    /// Waits until what hits have asked for before is done.
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

    /// Makes local variables of a program 0. Returns what they were.
    pub(crate) fn reset(&self, name: &str, range: Range) -> Result<AllTaken, Refused> {
        let programs = self.shared.programs.lock();
        let mut found = programs.iter().filter(|program| program.is_named(name));
        match found.next() {
            Some(program) => Ok(take(core::iter::once(program), None, range)?),
            None => Err(Refused::of(ENOENT, name, "is not loaded")),
        }
    }

    /// Makes global variables 0. Returns what they were.
    pub(crate) fn reset_globals(&self, range: Range) -> Result<AllTaken> {
        take(core::iter::empty(), Some(&self.shared.globals), range)
    }

    /// Makes variables of all programs and global ones 0. Returns what they were.
    pub(crate) fn reset_all(&self, range: Range) -> Result<AllTaken> {
        let programs = self.shared.programs.lock();
        take(programs.iter(), Some(&self.shared.globals), range)
    }

    /// A module has come, or is about to go.
    pub(crate) fn module(&self, name: &CStr, event: Event) {
        let of_module = |program: &Program| {
            program.is_of_module() && program.name.to_bytes() == name.to_bytes()
        };
        // First the old ones have to go.
        while end_some(&self.shared, of_module, ProgramPoint::detach) {}
        let mut programs = self.shared.programs.lock();
        for program in programs.iter_mut().filter(|program| of_module(program)) {
            for slot in &mut program.slots {
                // A set that was loaded since has its points there already.
                if let Attachment::None(_) = slot.stop {
                    slot.stop = Attachment::None(DetachReason::Waiting);
                    slot.disarm();
                    if event == Event::Comes {
                        slot.attach();
                    }
                }
            }
        }
    }
}

/// The values that variables had before they were made 0.
#[derive(Default)]
pub(crate) struct AllTaken {
    /// Those of programs, with their names.
    programs: KVVec<(CString, Taken)>,
    globals: Option<Taken>,
}

impl AllTaken {
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

/// Makes variables 0, once there is memory for what all of them were. Errors: -ENOMEM.
fn take<'a>(
    programs: impl Iterator<Item = &'a Program> + Clone,
    globals: Option<&Variables>,
    range: Range,
) -> Result<AllTaken> {
    let mut all = AllTaken::default();
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
    /// Takes what stops in a module that has come again or is about to go.
    fn detach(&mut self) -> Option<Attachment> {
        if let Attachment::None(_) = self.stop {
            return None;
        }
        self.keep_missed();
        Some(core::mem::replace(
            &mut self.stop,
            Attachment::None(DetachReason::Waiting),
        ))
    }

    /// Stops in a module that has come.
    fn attach(&mut self) {
        if self.point.is_used_up() {
            self.stop = Attachment::None(DetachReason::UsedUp);
            return;
        }
        self.stop = self
            .find()
            .unwrap_or_else(|error| Attachment::None(DetachReason::of(error)));
    }

    /// Nothing is going to stop there any more. What it was not told of still counts.
    pub(crate) fn keep_missed(&mut self) {
        self.missed = self.missed.saturating_add(self.stop.missed());
    }

    fn find(&self) -> Result<Attachment> {
        Attachment::new(&self.place, &self.point, self.opcodes)
    }

    /// Stops where a program of this name is to be loaded.
    fn found(&self, name: &CStr) -> Result<Attachment, Refused> {
        self.find()
            .map_err(|error| Refused::place(error, name, &self.place))
    }

    /// The same in a module, which may come later.
    fn found_in_module(&self, name: &CStr) -> Result<Attachment, Refused> {
        match self.find() {
            Err(error) if error == ENOENT => Ok(Attachment::None(DetachReason::Waiting)),
            Err(error) => Err(Refused::place(error, name, &self.place)),
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
