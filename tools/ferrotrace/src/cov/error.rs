// SPDX-License-Identifier: GPL-2.0

//! What can go wrong with coverage.

#![deny(unsafe_code)]

use std::fmt;
use std::io;
use std::path::Path;
use std::path::PathBuf;

use thiserror::Error;

use super::data::DataError;
use super::dump::DumpError;
use super::notes::NotesError;
use super::tracefile::TracefileError;
use super::version::Compiler;
use crate::file::IoError;
use crate::lockdown;
use crate::probes;
use crate::probes::types;

/// The library's result.
pub type Result<T> = std::result::Result<T, Error>;

/// How many names a message has.
const NAMES: usize = 5;

/// An error of `ferrotrace cov`.
#[derive(Debug, Error)]
pub enum Error {
    /// Nothing is mounted where debugfs should be.
    #[error(
        "{}: nothing there: is debugfs mounted? (mount -t debugfs debugfs {})",
        dir.display(), debugfs.display()
    )]
    NoDebugfs {
        /// The directory of the counters.
        dir: PathBuf,
        /// Where it should be.
        debugfs: PathBuf,
    },

    /// debugfs is there, but no counters.
    #[error(
        "{}: no such directory: this kernel does not count what it executes, which takes CONFIG_GCOV_KERNEL, and code that \
         is compiled for it",
        .0.display()
    )]
    NoGcov(PathBuf),

    /// The counters are there, but not the file that has all.
    #[error(
        "{}: no file vmlinux: the kernel's own gcov has no file with all counters, only Ferrotrace's has (modprobe rust_gcov; \
         it comes with CONFIG_GCOV_RUST)",
        .0.display()
    )]
    NoDump(PathBuf),

    /// The user may not do that.
    #[error(
        "{}: permission denied: {}",
        .0.display(),
        lockdown::cause(.0, "only root may read and reset the kernel's counters")
    )]
    Denied(PathBuf),

    /// The kernel's code cannot be read.
    #[error(
        "/proc/kcore: not there (CONFIG_PROC_KCORE): give the image that the kernel was booted from, \
         with its symbols, by --vmlinux"
    )]
    NoCode,

    /// An image is of no use.
    #[error("{}: not the image of a kernel", path.display())]
    Image {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },

    /// The debugging information of an image is of no use.
    #[error("{}: cannot be used", .0.display())]
    Types(PathBuf, #[source] types::Error),

    /// Lines without an image.
    #[error("source files take the image that the kernel was booted from: --vmlinux FILE")]
    NoImage,

    /// The running kernel has no build ID.
    #[error("the kernel has no build ID (/sys/kernel/notes): a run must tell its image")]
    NoBuildId,

    /// A saved run is of no use.
    #[error("{}: cannot be used", .0.display())]
    Run(PathBuf, #[source] io::Error),

    /// The image of runs is not there.
    #[error(
        "no image has the build ID {0} of the runs, nor has the running kernel: --vmlinux FILE"
    )]
    NoImageOf(String),

    /// No session in the background.
    #[error("no blocks are watched: ferrotrace cov live start begins")]
    NoSession,

    /// The session in the background reports an error.
    #[error("{0}")]
    Session(String),

    /// There is no tracefs.
    #[error("no tracefs: is it mounted? (mount -t tracefs tracefs /sys/kernel/tracing)")]
    NoTracefs,

    /// Recording by tracefs fails.
    #[error(transparent)]
    Tracefs(#[from] probes::error::Error),

    /// A pattern selects nothing.
    #[error("{0}: no such function in the running kernel")]
    NoFunction(String),

    /// The image has no functions of a source file or directory.
    #[error("{0}: the image has no functions of such a source file or directory")]
    NoPath(String),

    /// A module has no functions.
    #[error("{0}: no such module with code: is it loaded?")]
    NoModule(String),

    /// The module is not there.
    #[error(
        "{}: no such directory: live coverage of blocks takes the module ferrotrace_coverage; without it, --functions-only tells which functions are executed",
        .0.display()
    )]
    NoLive(PathBuf),

    /// Another process watches.
    #[error("another process watches blocks: only one can")]
    LiveBusy,

    /// The user may not watch.
    #[error(
        "{}: permission denied: {}",
        .0.display(),
        lockdown::cause(.0, "only root may watch the kernel's code")
    )]
    LiveDenied(PathBuf),

    /// A dump is not one.
    #[error("{}: not a dump of counters: {source}", path.display())]
    Dump {
        /// The file.
        path: PathBuf,
        /// Where and why.
        source: DumpError,
    },

    /// A tracefile is not one.
    #[error("{}", path.display())]
    Tracefile {
        /// The file.
        path: PathBuf,
        /// The line and the reason.
        source: TracefileError,
    },

    /// A dump without any object.
    #[error(
        "{}: no counters: nothing of that kernel was compiled to count what it executes (GCOV_PROFILE_ALL, or GCOV_PROFILE in a Makefile)",
        .0.display()
    )]
    Empty(PathBuf),

    /// A pattern that nothing matches.
    #[error("no object is called {pattern}, is in such a directory or belongs to such a module{}", such_as(.examples))]
    NoMatch {
        /// The pattern.
        pattern: String,
        /// Objects that there are.
        examples: Vec<PathBuf>,
    },

    /// Objects that cannot be used.
    #[error("{} of {total} objects cannot be used{}:{}", problems.len(), option(*total, problems), Listed(problems))]
    Unfit {
        /// All objects.
        total: usize,
        /// Errors of some objects.
        problems: Vec<Problem>,
    },

    /// No program reads the files of a compiler.
    #[error("no program reads the .gcno files of {compiler}: {tried} (--gcov PROGRAM names one)")]
    NoProgram {
        /// The compiler.
        compiler: Compiler,
        /// Programs that were tried.
        tried: String,
    },

    /// Nothing reads what is counted in Rust code.
    #[error(
        "no program reads the counters of Rust code: there is no llvm-cov with its llvm-profdata, of LLVM 19 or later (--gcov PROGRAM \
         names an llvm-cov; --only leaves Rust code out)"
    )]
    NoLlvm,

    /// A program that is no gcov.
    #[error("{}: {reason}", path.display())]
    Program {
        /// The program.
        path: PathBuf,
        /// Why it cannot be used.
        reason: String,
    },

    /// Any other refusal of the system.
    #[error(transparent)]
    Io(#[from] IoError),
}

/// Says what was being done to which file.
pub(super) fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Error {
    let path = path.to_owned();
    move |source| match source.kind() {
        io::ErrorKind::PermissionDenied => Error::Denied(path),
        _ => Error::Io(IoError {
            action,
            path,
            source,
        }),
    }
}

/// Why an object cannot be used.
#[derive(Debug, Error)]
pub enum Unfit {
    /// Its name is not that of a `.gcda` file.
    #[error("not the name of a .gcda file")]
    Name,
    /// Rust code in a dump of another kernel.
    #[error("Rust code, whose dump is of use only while the same kernel runs")]
    NotRunning,
    /// Rust code that the running kernel does not have, or not so.
    #[error("Rust code that the running kernel does not have")]
    Gone,
    /// The image or module is another.
    #[error("{} is of another build than what runs: it has other functions", path.display())]
    Build {
        /// The file.
        path: PathBuf,
    },
    /// There is no image or module.
    #[error("no vmlinux or .ko file below {} (--objdir DIR names the directory of the build)", names(looked.iter()))]
    NoBinary {
        /// Where it was looked for.
        looked: Vec<PathBuf>,
    },
    /// There is no `.gcno` file.
    #[error("no .gcno file")]
    NoNotes {
        /// Where it was looked for.
        looked: Vec<PathBuf>,
    },
    /// The `.gcno` file cannot be used.
    #[error("{} {source}", path.display())]
    Notes {
        /// The file.
        path: PathBuf,
        /// Why.
        source: NotesError,
    },
    /// The counters are not those of the `.gcno` file.
    #[error(transparent)]
    Data(#[from] DataError),
    /// The kernel's object and the `.gcno` file are of different builds.
    #[error("{} is of another build than the running kernel: their stamps differ", path.display())]
    Stamp {
        /// The `.gcno` file.
        path: PathBuf,
    },
    /// The program that reads the files failed.
    #[error("{program}: {reason}")]
    Program {
        /// Its name.
        program: String,
        /// Message of the program.
        reason: String,
    },
}

/// An object that cannot be used.
#[derive(Debug, Error)]
#[error("{}: {what}", object.display())]
pub struct Problem {
    /// Its `.gcda` file.
    pub object: PathBuf,
    /// Why.
    pub what: Unfit,
}

fn option(total: usize, problems: &[Problem]) -> &'static str {
    if problems.len() < total {
        " (--keep-going leaves them out)"
    } else {
        ""
    }
}

fn names<'a>(names: impl Iterator<Item = &'a PathBuf>) -> String {
    let names: Vec<_> = names.map(|name| name.display().to_string()).collect();
    let first = names.get(..NAMES).unwrap_or(&names).join(", ");
    match names.len().saturating_sub(NAMES) {
        0 => first,
        more => format!("{first} and {more} more"),
    }
}

fn such_as(examples: &[PathBuf]) -> String {
    if examples.is_empty() {
        return String::new();
    }
    format!("; objects are called {}", names(examples.iter()))
}

/// Problems, a line for each; those without notes share one.
pub(super) struct Listed<'a>(pub &'a [Problem]);

impl fmt::Display for Listed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut looked_for: Option<&[PathBuf]> = None;
        let mut missing = Vec::new();
        let mut others = Vec::new();
        for problem in self.0 {
            match &problem.what {
                Unfit::NoNotes { looked } => {
                    looked_for.get_or_insert(looked);
                    missing.push(&problem.object);
                }
                _ => others.push(problem),
            }
        }
        if let Some(looked) = looked_for {
            write!(
                f,
                "\n  {} without a .gcno file: {}; looked for {} (--objdir DIR names the directory of the build, where it \
                 is elsewhere now)",
                missing.len(),
                names(missing.into_iter()),
                names(looked.iter()),
            )?;
        }
        for problem in others.iter().take(NAMES) {
            write!(f, "\n  {problem}")?;
        }
        match others.len().saturating_sub(NAMES) {
            0 => Ok(()),
            more => write!(f, "\n  and {more} more"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(object: &str, what: Unfit) -> Problem {
        let object = object.into();
        Problem { object, what }
    }

    #[test]
    fn messages_are_not_too_long() {
        let missing = |number| {
            let looked = vec![format!("/b/{number}.gcno").into(), "/x/y.gcno".into()];
            problem(&format!("/b/{number}.gcda"), Unfit::NoNotes { looked })
        };
        let mut problems: Vec<_> = (0..8).map(missing).collect();
        problems.extend((0..7).map(|_| problem("/c/odd", Unfit::Name)));
        let error = Error::Unfit {
            total: 20,
            problems,
        };
        let text = error.to_string();
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(
            lines[0],
            "15 of 20 objects cannot be used (--keep-going leaves them out):"
        );
        assert_eq!(
            lines[1],
            "  8 without a .gcno file: /b/0.gcda, /b/1.gcda, /b/2.gcda, /b/3.gcda, /b/4.gcda and 3 more; looked for \
             /b/0.gcno, /x/y.gcno (--objdir DIR names the directory of the build, where it is elsewhere now)"
        );
        assert_eq!(lines[2], "  /c/odd: not the name of a .gcda file");
        assert_eq!(lines.len(), 8);
        assert_eq!(lines[7], "  and 2 more");
    }

    #[test]
    fn nothing_is_left_out_of_nothing() {
        let problems = vec![problem("/c/odd", Unfit::Name)];
        let error = Error::Unfit { total: 1, problems };
        assert_eq!(
            error.to_string(),
            "1 of 1 objects cannot be used:\n  /c/odd: not the name of a .gcda file"
        );
    }
}
