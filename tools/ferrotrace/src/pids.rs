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
    /// Threads that were looked up, and whether they are of one of the processes.
    known: HashMap<i32, bool>,
}

impl Pids {
    /// Those of `named`.
    pub fn new(named: Vec<i32>) -> Self {
        Self {
            named,
            known: HashMap::new(),
        }
    }

    /// Returns true if the thread belongs to these processes. The first record of a thread looks it
    /// up in `/proc`; an exited thread is not found there.
    pub fn contain(&mut self, thread: i32) -> bool {
        if self.named.is_empty() || self.named.contains(&thread) {
            return true;
        }
        let named = &self.named;
        *self.known.entry(thread).or_insert_with(|| {
            named
                .iter()
                .any(|pid| Path::new(&format!("/proc/{pid}/task/{thread}")).exists())
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
    }
}
