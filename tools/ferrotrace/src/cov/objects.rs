// SPDX-License-Identifier: GPL-2.0

//! Objects whose counters and notes belong together.

#![deny(unsafe_code)]

use std::ffi::OsStr;
use std::path::Path;
use std::path::PathBuf;

use super::control::Control;
use super::data::gcda;
use super::data::start;
use super::dump::Object;
use super::error::Error;
use super::error::Problem;
use super::error::Result;
use super::error::Unfit;
use super::locate::Locator;
use super::notes::Notes;

/// An object that gcov can read.
#[derive(Clone, Debug)]
pub struct Ready {
    /// Its `.gcda` file, as the compiler has it.
    pub name: PathBuf,
    /// Where its `.gcno` file is.
    pub path: PathBuf,
    /// Contents of the `.gcno` file.
    pub notes: Notes,
    /// The contents of its `.gcda` file.
    pub data: Vec<u8>,
}

fn prepare(
    object: &Object,
    locator: &Locator,
    live: Option<&Control>,
) -> std::result::Result<Ready, Unfit> {
    let name = object.path();
    if name.extension() != Some(OsStr::new("gcda")) {
        return Err(Unfit::Name);
    }
    let path = locator
        .find(name)
        .map_err(|looked| Unfit::NoNotes { looked })?;
    let notes = Notes::read(&path).map_err(|source| {
        let path = path.clone();
        Unfit::Notes { path, source }
    })?;
    let data = gcda(&notes, &object.counters)?;
    // Without a file in the tree, only the number of counters says that they belong together.
    let expected = start(&notes);
    let found = live.and_then(|live| live.start(name, expected.len()));
    if found.is_some_and(|found| found != expected) {
        return Err(Unfit::Stamp { path });
    }
    let name = name.to_owned();
    Ok(Ready {
        name,
        path,
        notes,
        data,
    })
}

/// Finds the notes of objects, and checks that they fit. If the counters come from the running kernel, `live` is that.
pub fn ready(
    objects: &[&Object],
    locator: &Locator,
    live: Option<&Control>,
) -> (Vec<Ready>, Vec<Problem>) {
    let mut ready = Vec::with_capacity(objects.len());
    let mut problems = Vec::new();
    for object in objects {
        match prepare(object, locator, live) {
            Ok(object) => ready.push(object),
            Err(what) => problems.push(Problem {
                object: object.path().to_owned(),
                what,
            }),
        }
    }
    (ready, problems)
}

/// Fails if there are problems, unless the caller goes on without the objects that have them; then it says which. Without
/// any object there is nothing to go on with.
pub fn accept(problems: Vec<Problem>, total: usize, keep_going: bool) -> Result<Option<String>> {
    if problems.is_empty() {
        return Ok(None);
    }
    let count = problems.len();
    let error = Error::Unfit { total, problems };
    match &error {
        Error::Unfit { problems, .. } if keep_going && count < total => Ok(Some(format!(
            "{count} of {total} objects are left out:{}",
            super::error::Listed(problems)
        ))),
        _ => Err(error),
    }
}

/// The names of objects.
pub fn names(objects: &[Object]) -> Vec<&Path> {
    objects.iter().map(Object::path).collect()
}
