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
use crate::engine::FileRef;
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

/// How much of the dump is made at once.
const CHUNK: usize = 1 << 16;

/// All counters, as someone reads them: for each file the length of its name, its name, padded to 8 bytes, how many counters
/// there are, and the counters. All numbers have 8 bytes.
pub(crate) struct Dump {
    /// Made, and where it is in the whole.
    bytes: KVVec<u8>,
    start: usize,
    /// The file that comes after that.
    next: Option<Key>,
}

impl Dump {
    fn new() -> Self {
        Self {
            bytes: KVVec::new(),
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
            match self.bytes.get(at.saturating_sub(self.start)..) {
                Some(rest) if !rest.is_empty() => {
                    to.copy_bytes(rest)?;
                }
                _ => {
                    if !self.fill()? {
                        return Ok(());
                    }
                }
            }
        }
        Ok(())
    }

    /// Makes what comes next. Whether there is something.
    fn fill(&mut self) -> Result<bool> {
        self.start = self.start.saturating_add(self.bytes.len());
        self.bytes.clear();
        while self.bytes.len() < CHUNK {
            let Some((next, file)) = self.next.and_then(engine::file_from) else {
                self.next = None;
                break;
            };
            self.add(&file)?;
            self.next = Some(next);
        }
        Ok(!self.bytes.is_empty())
    }

    fn add(&mut self, file: &FileRef) -> Result {
        let name = file.name();
        let start = self.bytes.len();
        let flags = GFP_KERNEL | __GFP_NOWARN;
        self.bytes
            .extend_from_slice(&name.len().to_ne_bytes(), flags)?;
        self.bytes.extend_from_slice(name, flags)?;
        let padding = name.len().next_multiple_of(8).saturating_sub(name.len());
        self.bytes.extend_with(padding, 0, flags)?;
        let count_at = self.bytes.len();
        self.bytes.extend_with(size_of::<usize>(), 0, flags)?;
        match file.counters(&mut self.bytes) {
            Ok(count) => {
                let end = count_at.saturating_add(size_of::<usize>());
                if let Some(place) = self.bytes.get_mut(count_at..end) {
                    place.copy_from_slice(&count.to_ne_bytes());
                }
                Ok(())
            }
            // It has just gone.
            Err(error) if error == ENODEV => {
                self.bytes.truncate(start);
                Ok(())
            }
            Err(error) => {
                self.bytes.truncate(start);
                Err(error)
            }
        }
    }
}
