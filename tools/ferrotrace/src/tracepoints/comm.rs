// SPDX-License-Identifier: GPL-2.0

//! Names of threads. Records of tracepoints do not have them.

#![deny(unsafe_code)]

use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::path::PathBuf;

use crate::probes::event::text;

/// Names of threads in one round of reading.
#[derive(Debug)]
pub struct Comms {
    saved: PathBuf,
    known: HashMap<i32, String>,
    /// Names that the kernel keeps, also of threads that have exited; read if one is missing.
    kept: Option<HashMap<i32, String>>,
}

impl Comms {
    /// Makes an empty list for the kernel with this tracefs.
    pub fn new(tracing: &Path) -> Self {
        Self {
            saved: tracing.join("saved_cmdlines"),
            known: HashMap::new(),
            kept: None,
        }
    }

    /// Begins a round: names may have changed since the last one.
    pub fn renew(&mut self) {
        self.known.clear();
        self.kept = None;
    }

    /// Returns the name of a thread; `<...>`, as in tracefs, if it is unknown.
    pub fn name(&mut self, thread: i32) -> &str {
        let (saved, kept) = (&self.saved, &mut self.kept);
        self.known.entry(thread).or_insert_with(|| {
            let live = fs::read(format!("/proc/{thread}/comm"));
            if let Ok(comm) = live {
                return text(comm.strip_suffix(b"\n").unwrap_or(&comm));
            }
            let kept = kept.get_or_insert_with(|| {
                let all = fs::read(saved).unwrap_or_default();
                parse(&String::from_utf8_lossy(&all))
            });
            let other = if thread == 0 { "<idle>" } else { "<...>" };
            kept.get(&thread)
                .cloned()
                .unwrap_or_else(|| other.to_owned())
        })
    }
}

fn parse(all: &str) -> HashMap<i32, String> {
    let lines = all.lines().filter_map(|line| line.split_once(' '));
    let pairs = lines.filter_map(|(pid, comm)| Some((pid.parse().ok()?, text(comm.as_bytes()))));
    pairs.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_threads() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(
            dir.path().join("saved_cmdlines"),
            "999999999 old one\n0 <idle>\nx\n",
        )
        .unwrap();
        let mut comms = Comms::new(dir.path());
        let own = nix::unistd::gettid().as_raw();
        assert!(!["<...>", ""].contains(&comms.name(own)));
        assert_eq!(comms.name(999_999_999), "old one");
        assert_eq!(comms.name(999_999_998), "<...>");
        assert_eq!(comms.name(0), "<idle>");
        fs::remove_file(dir.path().join("saved_cmdlines")).unwrap();
        assert_eq!(comms.name(999_999_999), "old one");
        comms.renew();
        assert_eq!(comms.name(999_999_999), "<...>");
    }
}
