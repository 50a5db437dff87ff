// SPDX-License-Identifier: GPL-2.0

//! From objects to lines and functions: the compilers' own programs, several at once.

#![deny(unsafe_code)]

use std::collections::BTreeSet;
use std::path::Path;
use std::path::PathBuf;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering;
use std::sync::mpsc;
use std::thread;

use tempfile::TempDir;

use super::coverage::Coverage;
use super::error::Error;
use super::error::Problem;
use super::error::Result;
use super::error::Unfit;
use super::gcov::Programs;
use super::objects::Ready;
use super::output::Document;
use super::sources::Sources;
use crate::file::IoError;

/// How objects are read.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The program to use, instead of those that are found.
    pub program: Option<PathBuf>,
    /// The source tree.
    pub sources: Option<PathBuf>,
}

/// A directory for files that a program reads.
pub(super) fn temporary() -> Result<TempDir> {
    TempDir::with_prefix("ferrotrace-cov-").map_err(|source| {
        Error::Io(IoError {
            action: "create a directory",
            path: std::env::temp_dir(),
            source,
        })
    })
}

fn read(object: &Ready, programs: &Programs, dir: &Path) -> std::result::Result<Document, Unfit> {
    let failed = |program: &str, reason: String| Unfit::Program {
        program: program.to_owned(),
        reason,
    };
    let program = programs.get(object.notes.compiler);
    let program = program.ok_or_else(|| failed("gcov", "not found".to_owned()))?;
    let document = program.read(object, dir);
    document.map_err(|reason| failed(&program.name(), reason))
}

/// The coverage of objects.
#[derive(Debug, Default)]
pub struct Report {
    /// The lines and functions that were executed.
    pub coverage: Coverage,
    /// Objects that cannot be read.
    pub problems: Vec<Problem>,
    /// Remarks, a line each.
    pub remarks: Vec<String>,
}

/// Says of which objects counts were negative.
fn remarks(mut negative: Vec<(&Ready, usize)>) -> Option<String> {
    negative.sort_by(|(one, _), (other, _)| one.name.cmp(&other.name));
    let (first, _) = negative.first()?;
    let more = match negative.len() {
        1 => String::new(),
        count => format!(" and {} more", count - 1),
    };
    let counts: usize = negative.iter().map(|(_, counts)| counts).sum();
    Some(format!(
        "{}{more}: {counts} counts are less than 0, as the counters were damaged, or read while they changed: these say \
         \"not executed\", which may be wrong",
        first.name.display()
    ))
}

/// Reads all objects.
pub fn report(objects: &[Ready], options: &Options) -> Result<Report> {
    let compilers: BTreeSet<_> = objects.iter().map(|object| object.notes.compiler).collect();
    let programs = Programs::find(&compilers, options.program.as_deref())?;
    let count = thread::available_parallelism()
        .map_or(1, usize::from)
        .min(objects.len());
    let dirs: Vec<TempDir> = (0..count).map(|_| temporary()).collect::<Result<_>>()?;
    let mut sources = Sources::new(options.sources.clone());
    let mut coverage = Coverage::default();
    let mut problems = Vec::new();
    let mut negative = Vec::new();
    // Takes the next object. The threads share nothing else that changes.
    let next = AtomicUsize::new(0);
    let (sender, receiver) = mpsc::channel();
    thread::scope(|scope| {
        for dir in &dirs {
            let (sender, next, programs) = (sender.clone(), &next, &programs);
            scope.spawn(move || {
                while let Some(object) = objects.get(next.fetch_add(1, Ordering::Relaxed)) {
                    // The receiver stays until all senders have gone.
                    let _ = sender.send((object, read(object, programs, dir.path())));
                }
            });
        }
        drop(sender);
        for (object, document) in receiver {
            match document {
                Ok(document) => {
                    if document.negative > 0 {
                        negative.push((object, document.negative));
                    }
                    for (name, file) in document.files {
                        let directory = document.directory.as_deref();
                        coverage.add(sources.find(&name, directory, &object.path), file);
                    }
                }
                Err(what) => problems.push(Problem {
                    object: object.name.clone(),
                    what,
                }),
            }
        }
    });
    problems.sort_by(|one, other| one.object.cmp(&other.object));
    Ok(Report {
        coverage,
        problems,
        remarks: remarks(negative).into_iter().collect(),
    })
}
