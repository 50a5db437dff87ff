// SPDX-License-Identifier: GPL-2.0

//! `ferrotrace relay list`: the channels below a directory, as their files show them.

#![deny(unsafe_code)]

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::path::PathBuf;

use super::error::Error;
use super::error::Result;
use super::files::open_relay_file;
use super::files::split_number;
use super::output::Records;
use super::stat::Stat;
use super::stat::Watch;
use crate::fast::ring::Ring;

/// Directories within directories: those of debugfs are not as deep.
const DEPTH: u32 = 8;

/// The channels in `dir` and below it, by their paths. What cannot be read there is left out; `dir` itself must be readable.
pub fn list(dir: &Path) -> Result<Vec<Stat>> {
    fs::read_dir(dir).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => Error::NoDirectory(dir.into()),
        std::io::ErrorKind::NotADirectory => Error::NotADirectory(dir.into()),
        _ => Error::output("list the directory", dir, error),
    })?;
    let mut channels = Vec::new();
    let mut left = vec![(dir.to_owned(), DEPTH)];
    while let Some((dir, depth)) = left.pop() {
        let mut bases: BTreeMap<String, PathBuf> = BTreeMap::new();
        for entry in fs::read_dir(&dir).into_iter().flatten().flatten() {
            let Ok(kind) = entry.file_type() else {
                continue;
            };
            if kind.is_dir() && depth > 0 {
                left.push((entry.path(), depth - 1));
            }
            let name = entry.file_name();
            if let Some((base, _)) = name
                .to_str()
                .and_then(split_number)
                .filter(|_| kind.is_file())
            {
                bases.insert(base.to_owned(), entry.path());
            }
        }
        for (base, file) in bases {
            if is_channel(&dir, &file) {
                // One that goes meanwhile, or is of another kind after all, is left out.
                channels.extend(Watch::open(&dir.join(base)).and_then(|mut watch| watch.look()));
            }
        }
    }
    channels.sort_by_key(Stat::path);
    Ok(channels)
}

/// Returns true if a file belongs to a channel, by its control files or its control page.
fn is_channel(dir: &Path, file: &Path) -> bool {
    let mut produced = file.as_os_str().to_owned();
    produced.push(".produced");
    // blktrace has no other file than "dropped".
    let controls = [
        produced.into(),
        dir.join("subbuf_size"),
        dir.join("dropped"),
    ];
    if controls.iter().any(|control: &PathBuf| control.exists()) {
        return true;
    }
    // The file of a fast channel is as long as what can be mapped; most others of debugfs say 0, and are not opened.
    let has_length = file.metadata().is_ok_and(|metadata| metadata.len() > 0);
    has_length
        && open_relay_file(file, false)
            .and_then(|open| Ring::probe(&open, file))
            .is_ok_and(|description| description.is_some())
}

/// The channels as a table.
pub fn table(channels: &[Stat]) -> String {
    if channels.is_empty() {
        return "no channels\n".to_owned();
    }
    let known = |value: Option<u64>| value.map_or("-".to_owned(), |value| value.to_string());
    let mut rows = vec![
        [
            "channel",
            "kind",
            "cpus",
            "mode",
            "sub-buffers",
            "bytes each",
            "dropped",
        ]
        .map(str::to_owned),
    ];
    rows.extend(channels.iter().map(|channel| {
        let kind = match channel.records {
            Records::Plain => "compatible",
            Records::Fast => "fast",
        };
        [
            channel.path().display().to_string(),
            kind.to_owned(),
            channel.cpus.len().to_string(),
            channel.mode.to_string(),
            known(channel.n_subbufs),
            known(channel.subbuf_size),
            known(channel.dropped),
        ]
    }));
    let mut widths = [0; 7];
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = cell.len().max(*width);
        }
    }
    let [channel, kind, cpus, mode, count, size, dropped] = widths;
    let line = |[a, b, c, d, e, f, g]: &[String; 7]| {
        format!(
            "{a:channel$}  {b:kind$}  {c:>cpus$}  {d:mode$}  {e:>count$}  {f:>size$}  {g:>dropped$}\n"
        )
    };
    rows.iter().map(line).collect()
}
