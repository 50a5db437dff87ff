// SPDX-License-Identifier: GPL-2.0

//! Stacks in tracefs: events of their own, each after that of the hit which it belongs to.

#![deny(unsafe_code)]

use super::record::Field;
use super::record::field;
use crate::probes::event::Event;
use crate::probes::event::Seen;
use crate::tracepoints::hit::add_calls;

/// The event that has a stack, which follows that of the hit.
#[derive(Clone, Copy, Debug)]
pub(super) struct StackEvent {
    pub(super) id: u16,
    calls: Field,
    is_of_user: bool,
}

/// A hit that may be waiting for its stacks.
pub(super) struct Held {
    pub(super) event: Event,
    /// True if the event has waited for a whole turn.
    pub(super) is_old: bool,
    /// The events whose stacks it has.
    stacks: Vec<u16>,
}

impl Held {
    pub(super) fn new(event: Event) -> Self {
        Self {
            event,
            is_old: false,
            stacks: Vec::new(),
        }
    }
}

/// The description of an event with a stack.
pub(super) fn stack_event(format: &str) -> Option<StackEvent> {
    let mut lines = format.lines();
    let id = lines.find_map(|line| line.strip_prefix("ID:"))?;
    Some(StackEvent {
        is_of_user: format.starts_with("name: user_stack"),
        id: id.trim().parse().ok()?,
        calls: field(format, "caller")?,
    })
}

/// Adds the stack that an event has to the hit before it, if it is one, and the thread is the same. A second one of a kind is that of
/// a hit which this one has interrupted.
pub(super) fn add_stack(stacks: &[StackEvent], held: &mut Held, data: &[u8]) -> bool {
    let id = data.first_chunk().map(|id| u16::from_le_bytes(*id));
    let Some(stack) = stacks.iter().find(|stack| Some(stack.id) == id) else {
        return false;
    };
    let pid = data.get(4..).and_then(|rest| rest.first_chunk());
    let calls = data.get(stack.calls.offset..).unwrap_or_default();
    let is_its = pid.map(|pid| i32::from_le_bytes(*pid)) == Some(held.event.pid);
    let is_first = !held.stacks.contains(&stack.id);
    if !(is_its && is_first) {
        return true;
    }
    let words = calls.chunks_exact(8).filter_map(|word| word.first_chunk());
    let words = words.map(|word| u64::from_le_bytes(*word));
    let calls = words.take_while(|call| ![0, u64::MAX].contains(call));
    match &mut held.event.seen {
        Seen::Args(bytes) => calls.for_each(|call| bytes.extend(call.to_ne_bytes())),
        Seen::Fields(fields) => add_calls(fields, calls.collect(), stack.is_of_user),
        Seen::Registers(_) => return true,
    }
    held.stacks.push(stack.id);
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stacks_follow_hits() {
        let format = "name: kernel_stack\nID: 4\nformat:\n\
            \tfield:int size;\toffset:8;\tsize:4;\tsigned:1;\n\
            \tfield:unsigned long caller[];\toffset:16;\tsize:0;\tsigned:0;\n";
        let stacks = [stack_event(format).unwrap()];
        let mut hit = crate::probes::event::tests::event(1);
        hit.seen = Seen::Args(vec![0; 8]);
        let mut data = 4u16.to_le_bytes().to_vec();
        data.extend([0, 0]);
        data.extend(hit.pid.to_le_bytes());
        data.extend([2, 0, 0, 0, 0, 0, 0, 0]);
        for call in [u64::MAX - 5, u64::MAX - 9, u64::MAX, 7] {
            data.extend(call.to_le_bytes());
        }
        let mut other = hit.clone();
        other.pid += 1;
        let mut held = Held::new(hit);
        assert!(add_stack(&stacks, &mut held, &data));
        let Seen::Args(bytes) = &held.event.seen else {
            panic!("{:?}", held.event);
        };
        assert_eq!(bytes.len(), 8 + 16);
        assert_eq!(bytes[8..16], (u64::MAX - 5).to_ne_bytes());
        // That of a hit which this one has interrupted, or of another thread, is not this one's, and nothing else is a stack.
        assert!(add_stack(&stacks, &mut held, &data));
        assert!(matches!(&held.event.seen, Seen::Args(bytes) if bytes.len() == 24));
        let mut held = Held::new(other);
        assert!(add_stack(&stacks, &mut held, &data));
        assert!(matches!(&held.event.seen, Seen::Args(bytes) if bytes.len() == 8));
        data[0] = 5;
        assert!(!add_stack(&stacks, &mut held, &data));
    }
}
