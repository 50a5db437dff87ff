// SPDX-License-Identifier: GPL-2.0

//! The operations of the files in debugfs.
//!
//! Opening copies nothing. The first read takes the contents as they are then, and later ones serve them, until the file is
//! closed or written to: writing resets the counters.
//!
//! Contexts: process. Locks: that of an open file, within it those of `engine.rs`.
#![deny(unsafe_code)]

use ferro_sys::fs::fops::FileTable;
use ferro_sys::fs::fops::NodeOps;
use ferro_sys::fs::fops::UserDst;
use ferro_sys::fs::fops::UserSrc;
use ferro_sys::sync::counted::Shared;
use kernel::module::this_module;
use kernel::new_mutex;
use kernel::prelude::*;
use kernel::sync::Mutex;

use crate::engine;
use crate::engine::Enough;
use crate::engine::FileRef;
use crate::file::File;
use crate::table::Key;
use crate::table::Named;

pub(crate) static FILES: FileTable<Shared<Node>> =
    FileTable::new(this_module::<crate::GcovEngine>());

type Locked<T> = Pin<KBox<Mutex<T>>>;

pub(crate) enum Node {
    /// Of one name.
    File(FileRef),
    Reset,
    /// With all counters.
    All,
    /// One that is open, and its contents once they have been read.
    OpenFile(FileRef, Locked<Option<KVVec<u8>>>),
    OpenAll(Locked<Dump>),
}

fn locked<T>(value: T) -> Result<Locked<T>> {
    Ok(KBox::pin_init(new_mutex!(value), GFP_KERNEL)?)
}

impl NodeOps for Node {
    const OUTLIVES: bool = true;

    fn snapshot(&self) -> Result<Option<Self>> {
        Ok(match self {
            Self::File(file) => Some(Self::OpenFile(file.clone(), locked(None)?)),
            Self::All => Some(Self::OpenAll(locked(Dump::new())?)),
            Self::Reset | Self::OpenFile(..) | Self::OpenAll(_) => None,
        })
    }

    fn read(&self, to: &mut UserDst) -> Result {
        match self {
            Self::OpenFile(file, contents) => {
                let mut contents = contents.lock();
                if contents.is_none() {
                    *contents = Some(file.contents()?);
                }
                match &*contents {
                    Some(bytes) => to.copy_at_position(bytes),
                    None => Ok(()),
                }
            }
            Self::OpenAll(dump) => dump.lock().read(to),
            // So that a recursive copy does not fail.
            Self::Reset => Ok(()),
            Self::File(_) | Self::All => Err(EINVAL),
        }
    }

    /// Whatever is written.
    fn write(&self, _from: &UserSrc) -> Result {
        match self {
            Self::OpenFile(file, contents) => {
                engine::reset(file);
                *contents.lock() = None;
                Ok(())
            }
            Self::OpenAll(dump) => {
                engine::reset_all();
                *dump.lock() = Dump::new();
                Ok(())
            }
            Self::Reset => {
                engine::reset_all();
                Ok(())
            }
            Self::File(_) | Self::All => Err(EINVAL),
        }
    }
}

/// How much of the dump is made at once, in words.
const CHUNK: usize = 1 << 13;

/// All counters, as someone reads them: for each file the length of its name, its name, padded to 8 bytes, how many counters
/// there are, and the counters. All numbers have 8 bytes.
pub(crate) struct Dump {
    /// Made, and where it is in the whole, in bytes.
    words: KVVec<u64>,
    start: usize,
    /// The file that comes after that.
    next: Option<Key>,
}

impl Dump {
    fn new() -> Self {
        Self {
            words: KVVec::new(),
            start: 0,
            next: Some(Key::FIRST),
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

    /// Makes what comes next.
    fn fill(&mut self) -> Result {
        let Some(next) = self.next else {
            return Ok(());
        };
        let made = self.words.len().saturating_mul(size_of::<u64>());
        self.start = self.start.saturating_add(made);
        self.words.clear();
        let words = &mut self.words;
        let next = engine::files_from(next, |file| {
            add(words, file)?;
            Ok(match words.len() < CHUNK {
                true => Enough::No,
                false => Enough::Yes,
            })
        });
        // What is half made is made again.
        self.next = next.inspect_err(|_| words.clear())?;
        Ok(())
    }
}

/// Adds what a dump has of a file.
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
            // Another one has just gone, or is not as it was: the rest can be read.
            match error == ENOMEM {
                true => Err(error),
                false => Ok(()),
            }
        }
    }
}
