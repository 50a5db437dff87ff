// SPDX-License-Identifier: GPL-2.0

//! The programs that are loaded.
//!
//! Contexts: process; sleeps. Locks: the table's mutex, then those of what points are registered with.
#![deny(unsafe_code)]

use ferro_core::rpn;
use ferro_core::rpn::ModuleKind;
use ferro_core::rpn::ProgramRef;
use ferro_core::rpn::SetHeader;
use ferro_core::rpn::SetRef;
use ferro_core::rpn::CODE_MAX;
use ferro_core::rpn::IGNORE_OPCODES;
use ferro_core::rpn::MERGE;
use ferro_core::rpn::REPLACE;
use ferro_core::rpn::UNSAFE_WRITES;
use kernel::new_mutex;
use kernel::prelude::*;
use kernel::str::CString;
use kernel::sync::Arc;
use kernel::sync::Mutex;

use crate::place::Idle;
use crate::place::Opcodes;
use crate::place::Place;
use crate::place::Stop;
use crate::point::Output;
use crate::point::Point;
use crate::point::Shared;
use crate::raw::module_name::Event;
use crate::raw::permission::is_locked_down;
use crate::raw::permission::Permission;
use crate::refused::Refused;
use crate::variables::Variables;

/// A point of a loaded program.
pub(crate) struct Slot {
    // In the order in which they have to go.
    pub(crate) stop: Stop,
    pub(crate) place: Place,
    pub(crate) point: Arc<Point>,
    opcodes: Opcodes,
}

/// A loaded program.
pub(crate) struct Program {
    pub(crate) name: CString,
    pub(crate) header: rpn::Header,
    pub(crate) set: SetHeader,
    pub(crate) locals: Arc<Variables>,
    pub(crate) slots: KVVec<Slot>,
}

/// The programs. When this is dropped, none runs any more.
#[pin_data]
pub(crate) struct Table {
    #[pin]
    pub(crate) programs: Mutex<KVVec<Program>>,
    pub(crate) shared: Arc<Shared>,
}

impl Table {
    pub(crate) fn new(shared: Arc<Shared>) -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                programs <- new_mutex!(KVVec::new()),
                shared,
            }),
            GFP_KERNEL,
        )
    }

    /// Loads a set: all of it, or nothing.
    pub(crate) fn insert(&self, bytes: &[u8]) -> Result<(), Refused> {
        let mut depths = KVVec::new();
        depths.resize(CODE_MAX, 0, GFP_KERNEL)?;
        let set = SetRef::decode(bytes, &mut depths).map_err(Refused::set)?;
        drop(depths);
        if set.header.flags & UNSAFE_WRITES != 0 && Permission::ask().is_none() {
            return Err(Refused::new(EPERM, "UNSAFE_WRITES is not permitted"));
        }
        if is_locked_down(false) {
            return Err(Refused::new(EPERM, "the kernel is locked down"));
        }
        let mut new = KVVec::with_capacity(usize::try_from(set.len())?, GFP_KERNEL)?;
        let mut old = KVVec::new();
        let mut programs = self.programs.lock();
        for program in set.programs() {
            let twice = |other: &Program| other.name.to_bytes() == program.name.as_bytes();
            if new.iter().any(twice) {
                return Err(Refused::of(EEXIST, program.name, "is twice in the set"));
            }
            let there = programs.iter().find(|other| twice(other));
            if there.is_some() && set.header.flags & (REPLACE | MERGE) == 0 {
                return Err(Refused::of(EEXIST, program.name, "is loaded already"));
            }
            let merged = there.filter(|_| set.header.flags & MERGE != 0);
            new.push(self.build(&program, set.header, merged)?, GFP_KERNEL)?;
        }
        // What may fail comes first.
        old.reserve(new.len(), GFP_KERNEL)?;
        programs.reserve(new.len(), GFP_KERNEL)?;
        for program in &mut new {
            if let Some(there) = find(&mut programs, &program.name) {
                there.slots.reserve(program.slots.len(), GFP_KERNEL)?;
            }
            for slot in &program.slots {
                slot.stop
                    .arm()
                    .map_err(|error| slot.refused(&program.name, error))?;
            }
        }
        for program in new {
            match find(&mut programs, &program.name) {
                None => put(&mut programs, program),
                Some(there) if set.header.flags & MERGE != 0 => {
                    for slot in program.slots {
                        put(&mut there.slots, slot);
                    }
                }
                Some(there) => put(&mut old, core::mem::replace(there, program)),
            }
        }
        drop(programs);
        // Waits for the handlers, which nobody else has to.
        drop(old);
        Ok(())
    }

    fn build(
        &self,
        program: &ProgramRef<'_>,
        set: SetHeader,
        merged: Option<&Program>,
    ) -> Result<Program, Refused> {
        let header = program.header;
        let locals = match merged {
            None => Arc::new(Variables::new(header.locals)?, GFP_KERNEL)?,
            Some(there) if there.locals.len() >= usize::try_from(header.locals)? => {
                there.locals.clone()
            }
            Some(_) => {
                let text = "has fewer local variables than the points that are added";
                return Err(Refused::of(EINVAL, program.name, text));
            }
        };
        let name = CString::try_from_fmt(fmt!("{}", program.name))?;
        let mut slots = KVVec::with_capacity(usize::try_from(program.len())?, GFP_KERNEL)?;
        for point in program.points() {
            let permission = match set.flags & UNSAFE_WRITES != 0 {
                true => Some(Permission::ask().ok_or(EPERM)?),
                false => None,
            };
            let output = Output {
                fields: u16::try_from(set.fields)?,
                target: set.target,
            };
            let place = Place::new(header.kind, program.name, &point)?;
            let point = Point::new(
                &header,
                &point,
                output,
                permission,
                locals.clone(),
                self.shared.clone(),
            )?;
            let mut slot = Slot {
                stop: Stop::None(Idle::Waiting),
                place,
                point: Arc::new(point, GFP_KERNEL)?,
                opcodes: match set.flags & IGNORE_OPCODES != 0 {
                    true => Opcodes::Ignore,
                    false => Opcodes::Compare,
                },
            };
            slot.stop = match Stop::new(&slot.place, &slot.point, slot.opcodes) {
                // The module may come.
                Err(error) if header.kind == ModuleKind::Module && error == ENOENT => {
                    Stop::None(Idle::Waiting)
                }
                other => other.map_err(|error| slot.refused(&name, error))?,
            };
            slots.push(slot, GFP_KERNEL)?;
        }
        Ok(Program {
            name,
            header,
            set,
            locals,
            slots,
        })
    }

    /// Unloads a program.
    pub(crate) fn remove(&self, name: &str) -> Result<(), Refused> {
        let mut programs = self.programs.lock();
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
        Ok(())
    }

    /// Unloads all programs.
    pub(crate) fn remove_all(&self) {
        let removed = core::mem::take(&mut *self.programs.lock());
        drop(removed);
    }

    /// Makes the local variables of a program 0.
    pub(crate) fn reset(&self, name: &str) -> Result<(), Refused> {
        let programs = self.programs.lock();
        let found = programs
            .iter()
            .find(|program| program.name.to_bytes() == name.as_bytes());
        match found {
            Some(program) => {
                program.locals.reset();
                Ok(())
            }
            None => Err(Refused::of(ENOENT, name, "is not loaded")),
        }
    }

    /// Makes all variables 0.
    pub(crate) fn reset_all(&self) {
        let programs = self.programs.lock();
        programs.iter().for_each(|program| program.locals.reset());
        self.shared.globals.reset();
    }

    /// A module has come, or is about to go.
    pub(crate) fn module(&self, name: &CStr, event: Event) {
        let mut programs = self.programs.lock();
        let of_module = |program: &&mut Program| {
            program.header.kind == ModuleKind::Module && program.name.to_bytes() == name.to_bytes()
        };
        for program in programs.iter_mut().filter(of_module) {
            for slot in &mut program.slots {
                // First the old one has to go.
                slot.stop = Stop::None(Idle::Waiting);
                if event == Event::Comes {
                    slot.attach();
                }
            }
        }
    }
}

impl Slot {
    /// Stops in a module that has come.
    fn attach(&mut self) {
        let stop = Stop::new(&self.place, &self.point, self.opcodes);
        let armed = stop.and_then(|stop| stop.arm().map(|()| stop));
        self.stop = armed.unwrap_or_else(|error| {
            Stop::None(match error {
                e if e == ENOENT => Idle::Invalid,
                e if e == ENOSPC || e == EBUSY => Idle::Unavailable,
                _ => Idle::Refused,
            })
        });
    }

    fn refused(&self, name: &CStr, error: Error) -> Refused {
        Refused::place(error, name, &self.place)
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
