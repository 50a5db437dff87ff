// SPDX-License-Identifier: GPL-2.0

//! Debugfs `gcov/`: its directories, and open files.
//!
//! Opening copies nothing. The first read takes a snapshot of the contents, which later reads serve
//! until the file is closed or written to. A write resets the counters.
//!
//! Contexts: process. Locks: the mutex of an open file, then the locks of `registry.rs`.
#![deny(unsafe_code)]

use core::ops::ControlFlow;

use ferro_sys::fs::fops::FileTable;
use ferro_sys::fs::fops::NodeOps;
use ferro_sys::fs::uaccess::UserDst;
use ferro_sys::fs::uaccess::UserSrc;
use ferro_sys::sync::refcounted::Shared;
use kernel::module::this_module;
use kernel::new_mutex;
use kernel::prelude::*;
use kernel::sync::aref::ARef;
use kernel::sync::Mutex;

use crate::file::File;
use crate::file::FileRef;
use crate::raw::tree::DebugfsTree;
use crate::raw::tree::DirEntry;
use crate::raw::tree::Id;
use crate::raw::tree::Node;
use crate::raw::tree::Source;
use crate::registry;

/// The tree of files.
struct Files;

impl Source for Files {
    type Open = Open;

    const FILES: &'static FileTable<Shared<Open>> = &FILES;

    fn lookup(dir: Id, name: &[u8]) -> Option<Node> {
        registry::with_tree(|tree| tree.lookup(dir, name))?
    }

    fn list(dir: Id, position: u64, f: impl FnMut(DirEntry<'_>) -> bool) {
        registry::with_tree(|tree| tree.list(dir, position, f));
    }

    fn target(id: Id) -> Result<KVec<u8>> {
        registry::with_tree(|tree| tree.target(id)).ok_or(ENOENT)?
    }

    fn open(id: Id) -> Result<ARef<Shared<Open>>> {
        Open::new(match id {
            Id::RESET => What::Reset,
            Id::ALL => What::All(Dump::new()),
            id => {
                let file = registry::with_tree(|tree| tree.get(id).cloned());
                What::File(file.flatten().ok_or(ENOENT)?, None)
            }
        })
    }
}

/// Shows the files in debugfs, the later ones too.
///
/// Errors: -EEXIST if debugfs `gcov/` already exists, -ENOMEM. A missing debugfs is no error:
/// returns `None`.
pub(crate) fn show() -> Result<Option<DebugfsTree>> {
    match DebugfsTree::new::<Files>() {
        Err(error) if error == EPERM || error == ENODEV => {
            pr_warn!("no debugfs, so no files\n");
            Ok(None)
        }
        shown => shown.map(Some),
    }
}

static FILES: FileTable<Shared<Open>> = FileTable::new(this_module::<crate::GcovEngine>());

/// An open file.
#[pin_data]
struct Open {
    #[pin]
    what: Mutex<What>,
}

enum What {
    /// A file of one name, with its contents after the first read.
    File(FileRef, Option<KVVec<u8>>),
    Reset,
    /// The file with all counters.
    All(Dump),
}

impl Open {
    /// Errors: -ENOMEM.
    fn new(what: What) -> Result<ARef<Shared<Self>>> {
        Shared::new(try_pin_init!(Self { what <- new_mutex!(what) }? Error))
    }
}

impl NodeOps for Open {
    fn read(&self, to: &mut UserDst) -> Result {
        match &mut *self.what.lock() {
            What::File(file, contents) => {
                let contents = match contents {
                    Some(contents) => contents,
                    None => contents.insert(file.contents()?),
                };
                to.copy_at_position(contents)
            }
            What::All(dump) => dump.read(to),
            // Reads as empty, so that a recursive copy does not fail.
            What::Reset => Ok(()),
        }
    }

    /// Resets the counters; the written bytes are ignored.
    fn write(&self, _from: &UserSrc) -> Result {
        match &mut *self.what.lock() {
            What::File(file, contents) => {
                registry::reset(file);
                *contents = None;
            }
            What::All(dump) => {
                registry::reset_all();
                *dump = Dump::new();
            }
            What::Reset => registry::reset_all(),
        }
        Ok(())
    }
}

/// Size of a piece of the dump, in words.
const CHUNK: usize = 1 << 13;

/// A dump of all counters, made piece by piece as the reader reads. Each file has the length of its
/// name, the name padded to 8 bytes, the number of counters, and the counters. Each number has 8
/// bytes.
struct Dump {
    /// The current piece, and its offset in the dump, in bytes.
    words: KVVec<u64>,
    start: usize,
    /// The file after this piece.
    next: Option<Id>,
}

impl Dump {
    fn new() -> Self {
        Self {
            words: KVVec::new(),
            start: 0,
            next: Some(Id::FIRST),
        }
    }

    fn read(&mut self, to: &mut UserDst) -> Result {
        if to.position() < self.start {
            *self = Self::new();
        }
        while to.left() != 0 {
            let at = to.position().saturating_add(to.done());
            let bytes = self.words.as_slice().as_bytes();
            match bytes.get(at.saturating_sub(self.start)..) {
                Some(rest) if !rest.is_empty() => {
                    to.copy_bytes(rest)?;
                }
                _ if self.next.is_none() => return Ok(()),
                _ => self.fill()?,
            }
        }
        Ok(())
    }

    /// Makes the next piece.
    fn fill(&mut self) -> Result {
        let Some(next) = self.next else {
            return Ok(());
        };
        let made = self.words.len().saturating_mul(size_of::<u64>());
        self.start = self.start.saturating_add(made);
        self.words.clear();
        let words = &mut self.words;
        let next = registry::files_from(next, |file| {
            add(words, file)?;
            Ok(match words.len() < CHUNK {
                true => ControlFlow::Continue(()),
                false => ControlFlow::Break(()),
            })
        });
        // A piece that failed halfway is made again.
        self.next = next.inspect_err(|_| words.clear())?;
        Ok(())
    }
}

/// Appends the dump of one file.
fn add(words: &mut KVVec<u64>, file: &File) -> Result {
    let flags = GFP_KERNEL | __GFP_NOWARN;
    let name = file.name();
    let start = words.len();
    words.push(name.len() as u64, flags)?;
    for part in name.chunks(size_of::<u64>()) {
        let mut word = [0; size_of::<u64>()];
        word.iter_mut().zip(part).for_each(|(to, from)| *to = *from);
        words.push(u64::from_ne_bytes(word), flags)?;
    }
    let count_at = words.len();
    words.push(0, flags)?;
    match file.counters(words) {
        Ok(count) => {
            if let Some(place) = words.get_mut(count_at) {
                *place = count as u64;
            }
            Ok(())
        }
        Err(error) => {
            words.truncate(start);
            // The file was just removed or has changed: the rest of the dump can be read.
            match error == ENOMEM {
                true => Err(error),
                false => Ok(()),
            }
        }
    }
}
