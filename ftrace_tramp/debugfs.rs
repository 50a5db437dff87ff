// SPDX-License-Identifier: GPL-2.0

//! debugfs `ftrace_tramp/`. `list` shows the trampolines, and the sets of ops with functions that
//! call ftrace's list function. `pool` shows the pool of executable memory, which kprobes share.
//!
//! Contexts: process.
#![deny(unsafe_code)]

use ferro_ftrace_tramp_core::MAX_MEMBERS;
use ferro_sys::code::symbols;
use ferro_sys::fs::debugfs::Dir;
use ferro_sys::fs::debugfs::File;
use ferro_sys::fs::fops::FileTable;
use ferro_sys::fs::fops::NodeOps;
use ferro_sys::fs::text_buffer::TextBuffer;
use ferro_sys::fs::uaccess::UserDst;
use ferro_sys::mm::exec_pool;
use ferro_sys::sync::refcounted::Shared;
use kernel::fmt::Write;
use kernel::prelude::*;

use crate::raw::ops_sets::FallbackReason;
use crate::raw::trampoline::TrampolineInfo;
use crate::registry;

/// Directory `ftrace_tramp/` with its files.
pub(crate) struct Files {
    // In drop order: files before the directory.
    _list: File<Shared<Node>>,
    _pool: File<Shared<Node>>,
    _dir: Dir,
}

/// File of the directory.
pub(crate) enum Node {
    List,
    Pool,
    /// Snapshot of a file's text, taken when the file was opened.
    Snapshot(KVVec<u8>),
}

impl Files {
    /// Creates the directory and its files. Errors: -EEXIST, -ENOMEM, -ENODEV without debugfs.
    pub(crate) fn new(table: &'static FileTable<Shared<Node>>) -> Result<Self> {
        let dir = Dir::new(c"ftrace_tramp")?;
        Ok(Self {
            _list: dir.file(c"list", 0o400, table, Shared::new(Ok(Node::List))?)?,
            _pool: dir.file(c"pool", 0o400, table, Shared::new(Ok(Node::Pool))?)?,
            _dir: dir,
        })
    }
}

impl NodeOps for Node {
    fn snapshot(&self, _for_reading: bool) -> Result<Option<Self>> {
        let mut lines = TextBuffer::new();
        match self {
            Self::List => Self::list(&mut lines),
            Self::Pool => Self::pool(&mut lines),
            Self::Snapshot(_) => return Ok(None),
        }
        .map_err(|_| ENOMEM)?;
        Ok(Some(Self::Snapshot(lines.into_bytes())))
    }

    fn read(&self, to: &mut UserDst) -> Result {
        match self {
            Self::Snapshot(text) => to.copy_at_position(text),
            Self::List | Self::Pool => Err(EINVAL),
        }
    }
}

impl Node {
    fn pool(lines: &mut TextBuffer) -> core::fmt::Result {
        for slots in exec_pool::in_use().iter().filter(|slots| slots.pages != 0) {
            let used = slots.probes + slots.detours + slots.trampolines;
            lines.write_fmt(fmt!(
                "{} bytes: {} pages, used {used} (probes {}, detours {}, ",
                slots.size,
                slots.pages,
                slots.probes,
                slots.detours
            ))?;
            lines.write_fmt(fmt!(
                "trampolines {}), waiting {}, free {}\n",
                slots.trampolines,
                slots.waiting,
                slots.free
            ))?;
        }
        Ok(())
    }

    fn list(lines: &mut TextBuffer) -> core::fmt::Result {
        let shown = symbols::shows_addresses();
        registry::each(|trampoline| {
            write_trampoline(lines, trampoline, shown)?;
            lines.write_str("\n")
        })?;
        registry::each_data(|trampoline| {
            write_trampoline(lines, trampoline, shown)?;
            lines.write_str(", with data of functions\n")
        })?;
        registry::each_set(|set| {
            let (members, functions) = (set.members, set.functions);
            match &set.trampoline {
                Ok(trampoline) => {
                    write_trampoline(lines, trampoline, shown)?;
                    lines.write_fmt(fmt!(", {members} ops, {functions} functions\n"))
                }
                Err(FallbackReason::Many) => lines.write_fmt(fmt!(
                    "list function: more than {MAX_MEMBERS} ops, {functions} functions\n"
                )),
                Err(FallbackReason::Direct) => lines.write_fmt(fmt!(
                    "list function: direct calls, {members} ops, {functions} functions\n"
                )),
                Err(FallbackReason::NoMemory) => lines.write_fmt(fmt!(
                    "list function: no memory, {members} ops, {functions} functions\n"
                )),
            }
        })
    }
}

/// Writes the properties of a trampoline. Writes its address as 0 unless `shown`.
fn write_trampoline(
    lines: &mut TextBuffer,
    trampoline: &TrampolineInfo,
    shown: bool,
) -> core::fmt::Result {
    let address = if shown { trampoline.address } else { 0 };
    let kind = match trampoline.saves_regs {
        true => "regs",
        false => "plain",
    };
    let (used, slot) = (trampoline.used, trampoline.slot);
    lines.write_fmt(fmt!("{address:016x} {kind} {used} of {slot} bytes"))
}
