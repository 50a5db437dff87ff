// SPDX-License-Identifier: GPL-2.0

//! debugfs `kprobes/`: `list`, `blacklist` and `enabled`, as in the C engine, and `refused`.
//!
//! Contexts: process.
#![deny(unsafe_code)]

use crate::raw::kprobe::flags;
use crate::raw::kprobe::Kprobe;
use ferro_kprobes_builtin::raw::blacklist;
use ferro_sys::code::symbols;
use ferro_sys::code::symbols::Description;
use ferro_sys::fs::debugfs::Dir;
use ferro_sys::fs::debugfs::File;
use ferro_sys::fs::fops::FileTable;
use ferro_sys::fs::fops::NodeOps;
use ferro_sys::fs::text_buffer::TextBuffer;
use ferro_sys::fs::uaccess::UserDst;
use ferro_sys::fs::uaccess::UserSrc;
use ferro_sys::sync::refcounted::Shared;
use kernel::fmt;
use kernel::fmt::Write;
use kernel::module::this_module;
use kernel::prelude::*;

use crate::raw::kretprobe;
use crate::registry;

/// The debugfs directory and its files.
pub(crate) struct Files {
    // In the order of their removal.
    _files: KVec<File<Shared<KprobesFile>>>,
    _dir: Dir,
}

pub(crate) enum KprobesFile {
    List,
    Blacklist,
    Refused,
    /// The text of a list, as of when its file was opened.
    Listed(KVVec<u8>),
    Enabled,
}

static FILES: FileTable<Shared<KprobesFile>> =
    FileTable::new(this_module::<crate::KprobesEngine>());

impl Files {
    /// Creates the directory. Errors: -EEXIST, -ENOMEM, -ENODEV without debugfs.
    pub(crate) fn new() -> Result<Self> {
        let dir = Dir::new(c"kprobes")?;
        let mut files = KVec::new();
        let mut add = |name, mode, node| -> Result {
            let file = dir.file(name, mode, &FILES, Shared::new(Ok(node))?)?;
            Ok(files.push(file, GFP_KERNEL)?)
        };
        add(c"list", 0o400, KprobesFile::List)?;
        add(c"blacklist", 0o400, KprobesFile::Blacklist)?;
        add(c"refused", 0o400, KprobesFile::Refused)?;
        add(c"enabled", 0o600, KprobesFile::Enabled)?;
        Ok(Self {
            _files: files,
            _dir: dir,
        })
    }
}

impl NodeOps for KprobesFile {
    fn snapshot(&self, _for_reading: bool) -> Result<Option<Self>> {
        let mut lines = TextBuffer::new();
        let written = match self {
            Self::List => registry::each(|probe| write_probe(&mut lines, probe)),
            Self::Blacklist => write_blacklist(&mut lines),
            Self::Refused => return Ok(Some(Self::Listed(registry::refused()?))),
            Self::Listed(_) | Self::Enabled => return Ok(None),
        };
        written.map_err(|_| ENOMEM)?;
        Ok(Some(Self::Listed(lines.into_bytes())))
    }

    fn read(&self, to: &mut UserDst) -> Result {
        match self {
            Self::Listed(text) => to.copy_at_position(text),
            Self::Enabled if registry::are_enabled() => to.copy_at_position(b"1\n"),
            Self::Enabled => to.copy_at_position(b"0\n"),
            Self::List | Self::Blacklist | Self::Refused => Err(EINVAL),
        }
    }

    fn write(&self, from: &UserSrc) -> Result {
        match self {
            Self::Enabled => registry::enable_all(from.flag()?).map_err(|e| e.errno()),
            _ => Err(EINVAL),
        }
    }
}

fn visible(address: usize) -> usize {
    match symbols::shows_addresses() {
        true => address,
        false => 0,
    }
}

fn write_probe(lines: &mut TextBuffer, probe: Kprobe<'_>) -> fmt::Result {
    let address = probe.address();
    let kind = if kretprobe::is_kretprobe(probe) {
        'r'
    } else {
        'k'
    };
    lines.write_fmt(fmt!("{:016x}  {kind}  ", visible(address)))?;
    match Description::of(address) {
        Some(d) => lines.write_fmt(fmt!("{}+{:#x}  {} ", d.name(), d.offset, d.module()))?,
        None => lines.write_fmt(fmt!("{:#x} ", visible(address)))?,
    }
    let flags = probe.flags();
    if flags & flags::GONE != 0 {
        lines.write_str("[GONE]")?;
    } else if flags & flags::DISABLED != 0 {
        lines.write_str("[DISABLED]")?;
    }
    if flags & flags::OPTIMIZED != 0 {
        lines.write_str("[OPTIMIZED]")?;
    }
    if flags & flags::FTRACE != 0 {
        lines.write_str("[FTRACE]")?;
    }
    lines.write_str("\n")
}

fn write_blacklist(lines: &mut TextBuffer) -> fmt::Result {
    let mut from = 0;
    while let Some(area) = blacklist::next_from(from) {
        let (start, end) = (visible(area.start), visible(area.end));
        lines.write_fmt(fmt!("0x{start:016x}-0x{end:016x}\t"))?;
        match Description::of(area.start) {
            Some(d) => lines.write_fmt(fmt!("{}\n", d.name()))?,
            None => lines.write_str("?\n")?,
        }
        from = area.end;
    }
    Ok(())
}
