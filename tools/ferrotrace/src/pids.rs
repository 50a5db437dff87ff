// SPDX-License-Identifier: GPL-2.0

//! Processes by their numbers, with all of their threads.

#![deny(unsafe_code)]

use std::collections::HashMap;
use std::path::Path;

/// Returns true if this process's PID namespace is the first one, whose numbers records have.
pub fn are_those_of_records() -> bool {
    // The kernel's PROC_PID_INIT_INO. Where it cannot be asked, nothing can be said.
    let own = std::fs::read_link("/proc/self/ns/pid");
    own.map_or(true, |own| own == Path::new("pid:[4026531836]"))
}

/// The processes or threads that the user wants; all, if none are named.
#[derive(Clone, Debug, Default)]
pub struct Pids {
    named: Vec<i32>,
    /// This process, if it is not wanted.
    own: Option<i32>,
    /// Threads that were looked up, and whether they are of one of the processes.
    known: HashMap<i32, bool>,
}

impl Pids {
    /// Those of `named`.
    pub fn new(named: Vec<i32>) -> Self {
        Self {
            named,
            own: None,
            known: HashMap::new(),
        }
    }

    /// Leaves out this process unless it is named, if records have its number.
    #[must_use]
    pub fn without_own(self) -> Self {
        let own = are_those_of_records().then(|| nix::unistd::getpid().as_raw());
        Self { own, ..self }
    }

    /// Returns the numbers that the user has named.
    pub fn numbers(&self) -> &[i32] {
        &self.named
    }

    /// Returns true if the thread belongs to these processes. The first record of a thread looks it
    /// up in `/proc`; an exited thread is not found there.
    pub fn contain(&mut self, thread: i32) -> bool {
        if self.named.contains(&thread) {
            return true;
        }
        let (named, own) = (&self.named, self.own);
        if named.is_empty() && own.is_none() {
            return true;
        }
        let is_of = |pid: i32| Path::new(&format!("/proc/{pid}/task/{thread}")).exists();
        *self.known.entry(thread).or_insert_with(|| {
            if named.is_empty() {
                !own.is_some_and(is_of)
            } else {
                named.iter().any(|pid| is_of(*pid))
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_belong_to_their_process() {
        let thread = || nix::unistd::gettid().as_raw();
        let other = std::thread::spawn(move || {
            let own = nix::unistd::getpid().as_raw();
            // While it lives.
            (thread(), Pids::new(vec![own]).contain(thread()))
        });
        assert!(other.join().unwrap().1);
        let mut pids = Pids::new(vec![1]);
        assert!(pids.contain(1));
        assert!(!pids.contain(thread()));
        assert!(Pids::default().contain(thread()));
        let own = nix::unistd::getpid().as_raw();
        let mut others = Pids {
            own: Some(own),
            ..Pids::default()
        };
        assert!(!others.contain(thread()));
        assert!(others.contain(1));
        let mut named = Pids {
            own: Some(own),
            ..Pids::new(vec![own])
        };
        assert!(named.contain(own) && named.contain(thread()));
    }
}
