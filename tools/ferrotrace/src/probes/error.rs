// SPDX-License-Identifier: GPL-2.0

//! What can go wrong with probes.

#![deny(unsafe_code)]

use std::fmt;
use std::io;
use std::path::PathBuf;

use nix::errno::Errno;
use thiserror::Error;

use super::model::ParseError;
use super::model::Place;
use crate::file::IoError;
use crate::lockdown;
use crate::near::Names;
use crate::near::did_you_mean;

/// The library's result.
pub type Result<T> = std::result::Result<T, Error>;

/// Why the kernel refuses a probe, in words.
#[derive(Debug)]
pub struct Refusal {
    /// Its answer.
    pub errno: Errno,
    /// Lines of its own about it.
    pub log: Vec<String>,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let errno = self.errno;
        f.write_str(match errno {
            Errno::EINVAL => {
                "there must be no probe: not kernel code, code that probes depend on \
                 (kprobes/blacklist in debugfs), or, for a return, not the start of a function"
            }
            Errno::EILSEQ => "not the start of an instruction",
            Errno::EOPNOTSUPP => "this instruction cannot be executed in another place",
            Errno::ENOENT => "the code has gone",
            Errno::EADDRNOTAVAIL => "several functions have this name",
            _ => errno.desc(),
        })?;
        write!(f, " ({errno:?})")?;
        match &self.log[..] {
            [] => Ok(()),
            log => write!(f, "; the kernel says: {}", log.join("; ")),
        }
    }
}

/// An error of the probe commands.
#[derive(Debug, Error)]
pub enum Error {
    /// Nothing is mounted where debugfs should be.
    #[error(
        "{}: nothing there: is debugfs mounted? (mount -t debugfs debugfs /sys/kernel/debug){}",
        .0.display(),
        lockdown::note()
    )]
    NoDebugfs(PathBuf),

    /// debugfs is there, but not the directory of the module.
    #[error(
        "{}: no such directory: the module ferrotrace_kprobe_events is not loaded (modprobe ferrotrace_kprobe_events; \
         it comes with CONFIG_KPROBES_RUST_EVENTS){}",
        .0.display(),
        lockdown::note()
    )]
    NoModule(PathBuf),

    /// The user may not do that.
    #[error(
        "{}: permission denied: {}",
        .0.display(),
        lockdown::cause(.0, "only root may probe the kernel")
    )]
    Denied(PathBuf),

    /// The list is not as it should be.
    #[error("{}: not understood", path.display())]
    Parse {
        /// The file.
        path: PathBuf,
        /// Where, and why.
        source: ParseError,
    },

    /// There is a probe with that name already.
    #[error("there is a probe {0} already; --name gives this one another name")]
    Exists(String),

    /// There is no probe with that name.
    #[error("there is no probe {name}; probes: {others}")]
    NoProbe {
        /// The name.
        name: String,
        /// Those that there are.
        others: Names,
    },

    /// A signal came while probes were being added.
    #[error("stopped before all probes were there; none are left")]
    Stopped,

    /// The kernel has no such function.
    #[error("the kernel has no function {symbol}{}", or_these(near))]
    NoSymbol {
        /// The name.
        symbol: String,
        /// Names like this one.
        near: Vec<String>,
    },

    /// The kernel refuses a probe there.
    #[error("no probe at {}: {refusal}", place.shown())]
    Refused {
        /// The place.
        place: Place,
        /// Why.
        refusal: Refusal,
    },

    /// The kernel lists this function among those that it refuses.
    #[error(
        "no probe at {}: it is in the kernel's list of code that probes depend on (kprobes/blacklist in debugfs)",
        .0.shown()
    )]
    Blacklisted(Place),

    /// ftrace cannot trace this function of a pattern.
    #[error(
        "no probe at {}: ftrace cannot trace it (available_filter_functions in tracefs lists what it can)",
        .0.shown()
    )]
    Untraceable(Place),

    /// The API's module is loaded, but no engine.
    #[error("there is no kprobes engine yet (modprobe rust_kprobes)")]
    NoEngine,

    /// One was refused, and the others stay.
    #[error("{error}; and what was added cannot be removed again: {added}")]
    Left {
        /// Probes that remain.
        added: Names,
        /// Why one was refused.
        error: Box<Error>,
        /// Why others cannot be removed.
        source: Box<Error>,
    },

    /// Return probes are on functions, without an offset.
    #[error("{0}: the return of a function is probed at its start, without an offset")]
    ReturnOffset(Place),

    /// Another process is reading the hits, and would get a part of them.
    #[error("another \"ferrotrace probe watch\" is running")]
    Watched,

    /// Any other refusal of the system.
    #[error(transparent)]
    Io(#[from] IoError),

    /// The command that is run meanwhile.
    #[error(transparent)]
    Command(#[from] crate::signals::CommandError),

    /// Only our module can do that.
    #[error("{0} takes the module ferrotrace_kprobe_events: kprobe_events of tracefs cannot do it")]
    Stock(String),

    /// The module is an earlier one.
    #[error(
        "the module ferrotrace_kprobe_events that is loaded is too old to keep hits: rmmod it, and load this version's"
    )]
    NoKeep,

    /// No memory is reserved by this name.
    #[error(
        "no memory called {0} is reserved: add reserve_mem=16M:4096:{0} to the kernel's command line (GRUB_CMDLINE_LINUX in \
         /etc/default/grub, then update-grub), and reboot"
    )]
    NoMemory(String),

    /// Another channel uses this memory, or a closed one is still being read.
    #[error("the memory {0} is in use by another channel, or an earlier one is still being read")]
    MemoryInUse(String),

    /// There is no room for the buffers of all CPUs.
    #[error("the memory {0} is too small: reserve 1M for each CPU (reserve_mem=SIZE:4096:{0})")]
    SmallMemory(String),

    /// No memory can have this name.
    #[error("{0}: not a name of memory (reserve_mem=SIZE:4096:NAME on the kernel's command line)")]
    MemoryName(String),

    /// Probes are kept already.
    #[error(
        "the hits of {0} probes are being kept already: \"ferrotrace record --keep --stop\" ends that"
    )]
    Kept(usize),

    /// Only filters of tracefs can have such a condition.
    #[error(
        "{0}: the module ferrotrace_kprobe_events takes conditions of which all have to hold (&&), and values without blanks; \
         ||, parentheses and blanks take filters of tracefs: tracepoints, system calls, probes in files, and kernels without \
         the module have them"
    )]
    Filter(Place),

    /// tracefs refuses a filter.
    #[error("{event}: the kernel refuses the condition {filter}: {why}")]
    TracefsFilter {
        /// The event.
        event: Place,
        /// The filter.
        filter: String,
        /// Its answer.
        why: String,
    },

    /// Tracepoints.
    #[error(transparent)]
    Tracepoint(#[from] Box<crate::tracepoints::error::Error>),

    /// Tracepoints take tracefs.
    #[error(
        "tracepoints take tracefs: is it mounted? (mount -t tracefs tracefs /sys/kernel/tracing)"
    )]
    NoTracefs,

    /// Nothing serves probes in files.
    #[error(
        "probes in files take uprobe_events of tracefs (CONFIG_UPROBE_EVENTS): is it mounted? \
         (mount -t tracefs tracefs /sys/kernel/tracing)"
    )]
    NoUprobes,

    /// The channel of the hits.
    #[error(transparent)]
    Channel(#[from] crate::relay::error::Error),
}

impl From<crate::tracepoints::error::Error> for Error {
    fn from(error: crate::tracepoints::error::Error) -> Self {
        Self::Tracepoint(Box::new(error))
    }
}

impl Error {
    /// A refusal of the system, when something is done to a file that belongs to root.
    pub(super) fn of_file(action: &'static str, path: PathBuf, source: io::Error) -> Self {
        IoError::or_denied(Self::Denied, action, &path, source)
    }
}

/// Returns the suggestions after a name that the kernel lacks.
pub(crate) fn or_these(near: &[String]) -> String {
    match did_you_mean(near) {
        None => " (/proc/kallsyms has all)".to_owned(),
        Some(question) => format!("; {question}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_say_why() {
        let text = |errno, log: &[&str]| {
            let log = log.iter().map(|line| line.to_string()).collect();
            let place = "f+0x3".parse().unwrap();
            let refusal = Refusal { errno, log };
            Error::Refused { place, refusal }.to_string()
        };
        assert_eq!(
            text(Errno::EILSEQ, &[]),
            "no probe at f+0x3: not the start of an instruction (EILSEQ)"
        );
        assert!(text(Errno::EINVAL, &["a", "b"]).ends_with("(EINVAL); the kernel says: a; b"));
        assert!(text(Errno::ENOMEM, &[]).contains("(ENOMEM)"));
    }

    #[test]
    fn names_are_not_too_many() {
        let names = |count: usize| Names((0..count).map(|n| n.to_string()).collect()).to_string();
        assert_eq!(names(0), "none at all");
        assert_eq!(names(2), "0, 1");
        assert!(names(22).ends_with(", 19 and 2 more"));
    }
}
