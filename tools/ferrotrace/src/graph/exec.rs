// SPDX-License-Identifier: GPL-2.0

//! A filter for the calls between the start of the recording and the exec of the command, which are
//! those of this program.

#![deny(unsafe_code)]

use super::tree::Entry;
use super::tree::Item;

/// Passes on the history of all threads, that of the command from its exec on.
#[derive(Debug)]
pub struct AfterExec {
    /// Thread that becomes the command.
    main: Option<i32>,
    held: Vec<Entry>,
}

impl AfterExec {
    /// Makes a filter for a thread; `None` leaves out nothing.
    pub fn new(main: Option<i32>) -> Self {
        let held = Vec::new();
        Self { main, held }
    }

    /// Passes on an entry, or holds it.
    pub fn add(&mut self, entry: Entry, to: &mut impl FnMut(Entry)) {
        if self.main != Some(entry.pid) {
            to(entry);
        } else if entry.item == Item::Name {
            self.main = None;
            // Attempts in other directories of PATH are part of it.
            self.held.clear();
        } else {
            self.held.push(entry);
        }
    }

    /// Passes on the held entries: without an exec, they tell the reason.
    pub fn finish(&mut self, to: &mut impl FnMut(Entry)) {
        self.held.drain(..).for_each(to);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(pid: i32, item: Item) -> Entry {
        Entry {
            pid,
            comm: String::new(),
            cpu: 0,
            time: 0,
            item,
        }
    }

    fn passed(entries: &[Entry], finish: bool) -> Vec<Entry> {
        let mut out = Vec::new();
        let mut filter = AfterExec::new(Some(1));
        for entry in entries {
            filter.add(entry.clone(), &mut |entry| out.push(entry));
        }
        if finish {
            filter.finish(&mut |entry| out.push(entry));
        }
        out
    }

    #[test]
    fn from_the_exec_on() {
        let exit = |value| Item::SyscallExit { value };
        let before = entry(1, exit(-2));
        let other = entry(2, exit(-1));
        let exec = entry(1, Item::Name);
        let after = entry(1, exit(0));
        let again = entry(1, Item::Name);
        let all = [
            before.clone(),
            other.clone(),
            exec,
            after.clone(),
            again.clone(),
        ];
        assert_eq!(passed(&all, true), [other.clone(), after, again]);
        assert_eq!(passed(&all[..2], false), [other.clone()]);
        assert_eq!(passed(&all[..2], true), [other, before]);
    }
}
