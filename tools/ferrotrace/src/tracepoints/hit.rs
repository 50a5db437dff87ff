// SPDX-License-Identifier: GPL-2.0

//! Hits of tracepoints from the kernel's records. The entry and the return of a system call are one
//! hit.

#![deny(unsafe_code)]

use std::collections::BTreeMap;
use std::collections::HashMap;

use super::comm::Comms;
use super::format::Field;
use super::resolve::Tracepoint;
use super::spec::STACKS;
use crate::probes::event::Event;
use crate::probes::event::Fields;
use crate::probes::event::Seen;
use crate::probes::event::Value;

/// Role of a record in a hit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    /// A hit.
    Hit,
    /// The entry of a system call whose return has this number.
    Entry(u16),
    /// The return of a system call.
    Return {
        /// True if the entry has a condition: a return without an entry is then no hit.
        needs_entry: bool,
    },
}

/// An event whose records are wanted.
#[derive(Debug)]
struct Traced {
    fields: Vec<Field>,
    role: Role,
}

/// Events whose records are wanted, by their numbers.
#[derive(Debug)]
pub struct Events {
    traced: BTreeMap<u16, Traced>,
    comms: Comms,
    /// System calls that have begun, by thread and the number of the return.
    inside: HashMap<(i32, u16), Event>,
    /// Bits that make the number of an event that of its probe.
    mark: u32,
}

impl Events {
    /// Makes a list without events.
    pub fn new(comms: Comms, mark: u32) -> Self {
        Self {
            traced: BTreeMap::new(),
            comms,
            inside: HashMap::new(),
            mark,
        }
    }

    /// Adds a tracepoint. Returns the number of its hits.
    pub fn add(&mut self, tracepoint: &Tracepoint) -> u16 {
        let id = tracepoint.format.id;
        let mut fields = tracepoint.shown();
        fields.extend(tracepoint.value.clone());
        let Some(exit) = &tracepoint.exit else {
            let role = Role::Hit;
            self.traced.insert(id, Traced { fields, role });
            return id;
        };
        let role = Role::Entry(exit.format.id);
        self.traced.insert(id, Traced { fields, role });
        let role = Role::Return {
            needs_entry: tracepoint.is_entry_tested(),
        };
        let fields = exit.format.fields.clone();
        self.traced.insert(exit.format.id, Traced { fields, role });
        exit.format.id
    }

    /// Begins a round of reading.
    pub fn renew(&mut self) {
        self.comms.renew();
    }

    /// Returns true if the events include this one.
    pub fn has(&self, id: u16) -> bool {
        self.traced.contains_key(&id)
    }

    /// Decodes a record; returns `None` if its event is not one of these.
    pub fn event(&mut self, time: u64, cpu: u32, data: &[u8]) -> Option<Event> {
        let id = u16::from_le_bytes(*data.first_chunk()?);
        let traced = self.traced.get(&id)?;
        let pid = i32::from_le_bytes(*data.get(4..)?.first_chunk()?);
        let mut seen = Fields {
            values: Vec::new(),
            returned: None,
        };
        for field in &traced.fields {
            match (field.value(data), traced.role) {
                (Value::Signed(value), Role::Return { .. }) => seen.returned = Some(value),
                (value, _) => seen.values.push((field.name.clone(), value)),
            }
        }
        Some(Event {
            time,
            cpu,
            pid,
            comm: self.comms.name(pid).to_owned(),
            probe: self.mark | u32::from(id),
            is_return: matches!(traced.role, Role::Return { .. }),
            ip: 0,
            duration: None,
            seen: Seen::Fields(seen),
        })
    }

    /// Drops the system calls that have begun, since records are missing.
    pub fn forget(&mut self) {
        self.inside.clear();
    }

    /// Joins the entry and the return of a system call. Events have to be in the order of time.
    pub fn pair(&mut self, id: u16, mut event: Event) -> Option<Event> {
        match self.traced.get(&id)?.role {
            Role::Hit => return Some(event),
            Role::Entry(exit) => {
                self.inside.insert((event.pid, exit), event);
                return None;
            }
            Role::Return { needs_entry } => {
                let began = self.inside.remove(&(event.pid, id));
                let Some(began) = began else {
                    return (!needs_entry).then_some(event);
                };
                event.duration = Some(event.time.saturating_sub(began.time));
                if let (Seen::Fields(seen), Seen::Fields(mut before)) =
                    (&mut event.seen, began.seen)
                {
                    before.values.append(&mut seen.values);
                    seen.values = before.values;
                }
            }
        }
        Some(event)
    }
}

/// Adds a stack to a hit, as an argument.
pub fn add_calls(fields: &mut Fields, calls: Vec<u64>, user: bool) {
    let [kernel, of_user] = STACKS;
    let name = if user { of_user } else { kernel };
    fields.values.push((name.into(), Value::Calls(calls)));
}
