// SPDX-License-Identifier: GPL-2.0

//! Files of debugfs `gkhi/`.
//!
//! `hooks` lists all hooks and exits. `arm` and `disarm` take names, HOOK/EXIT, and change them in
//! one step. Each exit has a file HOOK/EXIT, with 0 or 1.
//!
//! Contexts: process.
#![deny(unsafe_code)]

use ferro_gkhi_core::Op;
use ferro_gkhi_core::Priority;
use ferro_gkhi_core::State;
use ferro_sys::fs::fops::NodeOps;
use ferro_sys::fs::text_buffer::TextBuffer;
use ferro_sys::fs::uaccess::UserDst;
use ferro_sys::fs::uaccess::UserSrc;
use ferro_sys::hook::Condition;
use ferro_sys::hook::Context;
use kernel::fmt;
use kernel::fmt::Write;
use kernel::prelude::*;

use crate::debugfs_nodes::exit_file;
use crate::debugfs_nodes::lock_files;
use crate::debugfs_nodes::ArmedFile;
use crate::debugfs_nodes::Root;
use crate::debugfs_nodes::RootFile;
use crate::entries::ExitEntry;
use crate::entries::Handle;
use crate::error::Error;
use crate::kvec_lists::Hook;
use crate::registry;
use crate::registry::with;
use crate::transaction::apply;

/// Maximum number of bytes of one write to `arm` or `disarm`.
const LIST_MAX: usize = 65536;

impl NodeOps for RootFile {
    fn snapshot(&self, _for_reading: bool) -> Result<Option<Self>> {
        match self {
            Self::Hooks => Ok(Some(Self::Listed(list()?))),
            Self::Listed(_) | Self::Change(_) => Ok(None),
        }
    }

    fn read(&self, to: &mut UserDst) -> Result {
        match self {
            Self::Listed(text) => to.copy_at_position(text),
            Self::Hooks | Self::Change(_) => Err(EINVAL),
        }
    }

    fn write(&self, from: &UserSrc) -> Result {
        let Self::Change(op) = self else {
            return Err(EINVAL);
        };
        if from.len() > LIST_MAX {
            return Err(E2BIG);
        }
        let mut bytes = KVVec::with_capacity(from.len(), GFP_KERNEL)?;
        bytes.resize(from.len(), 0, GFP_KERNEL)?;
        let text = from.text(&mut bytes)?;
        Ok(apply(*op, &named(text)?)?)
    }
}

/// Returns the exits that a text names as HOOK/EXIT. Errors: -EINVAL, -ENOENT; -EPERM for a pinned
/// exit.
fn named(text: &[u8]) -> Result<KVec<Handle>> {
    let mut handles = KVec::new();
    let guard = registry::lock();
    let words = text.split(u8::is_ascii_whitespace);
    for word in words.filter(|w| !w.is_empty()) {
        let slash = word.iter().position(|b| *b == b'/').ok_or(EINVAL)?;
        let (hook, exit) = word.split_at_checked(slash).ok_or(EINVAL)?;
        let exit = exit.get(1..).ok_or(EINVAL)?;
        let mut hooks = guard.iter().flat_map(|r| r.table.hooks());
        let hook = hooks
            .find(|h| h.body.name().to_bytes() == hook)
            .ok_or(ENOENT)?;
        let mut exits = hook.exits().iter();
        let exit = exits
            .find(|e| e.body.name.to_bytes() == exit)
            .ok_or(ENOENT)?;
        if exit.body.is_pinned() {
            return Err(EPERM);
        }
        handles.push(exit.body.handle(exit.id), GFP_KERNEL)?;
    }
    match handles.is_empty() {
        true => Err(EINVAL),
        false => Ok(handles),
    }
}

impl ArmedFile {
    fn with<R>(&self, f: impl FnOnce(&ExitEntry) -> R) -> Result<R> {
        let guard = registry::lock();
        let mut exits = guard.iter().flat_map(|r| r.table.exits());
        let exit = exits.find(|e| e.id == self.id).ok_or(Error::Unregistered)?;
        Ok(f(&exit.body))
    }

    fn handle(&self) -> Result<Handle> {
        self.with(|exit| exit.handle(self.id))
    }

    fn is_pinned(&self) -> Result<bool> {
        self.with(ExitEntry::is_pinned)
    }
}

impl NodeOps for ArmedFile {
    fn read(&self, to: &mut UserDst) -> Result {
        match registry::is_armed(self.handle()?) {
            true => to.copy_at_position(b"1\n"),
            false => to.copy_at_position(b"0\n"),
        }
    }

    fn write(&self, from: &UserSrc) -> Result {
        if self.is_pinned()? {
            return Err(EPERM);
        }
        let op = match from.flag()? {
            true => Op::Arm,
            false => Op::Disarm,
        };
        Ok(apply(op, &[self.handle()?])?)
    }
}

/// Returns the contents of `hooks`: a line for each hook and each exit. Later versions may add keys
/// at the ends of lines.
fn list() -> Result<KVVec<u8>> {
    let mut text = TextBuffer::new();
    let guard = registry::lock();
    for hook in guard.iter().flat_map(|r| r.table.hooks()) {
        write_hook(&mut text, hook).map_err(|_| ENOMEM)?;
    }
    Ok(text.into_bytes())
}

fn write_hook(text: &mut TextBuffer, hook: &Hook) -> fmt::Result {
    let (entry, hook_ref) = (&hook.body, hook.body.publisher.hook());
    let armed = |exit: &ExitEntry, state| state == State::Armed && !exit.node.is_self_disarmed();
    let (mut hits, mut active) = (entry.past_hits.wrapping_add(entry.dispatches.sum()), false);
    for exit in hook.exits() {
        hits = hits.wrapping_add(exit.body.counters().direct_hits());
        active |= armed(&exit.body, exit.state());
    }
    let context = match hook_ref.context() {
        Context::Sleep => "sleep",
        Context::Task => "task",
        Context::Atomic => "atomic",
    };
    let access = match (hook_ref.is_modifiable(), hook_ref.has_return()) {
        (false, false) => "ro",
        (true, false) => "rw",
        (false, true) => "ro_ret",
        (true, true) => "rw_ret",
    };
    let owner = entry.owner.as_str();
    text.write_fmt(fmt!(
        "hook={} module={owner} context={context} access={access}",
        entry.name()
    ))?;
    write_params(text, hook_ref.params().to_bytes())?;
    match hook_ref.sites() {
        Some(sites) => text.write_fmt(fmt!(" sites={sites}"))?,
        None => text.write_str(" sites=-")?,
    }
    let (active, exits) = (u8::from(active), hook.exits().len());
    text.write_fmt(fmt!(" active={active} hits={hits} exits={exits}\n"))?;
    for (index, exit) in hook.exits().iter().enumerate() {
        let entry = &exit.body;
        let priority = match exit.priority {
            Priority::First => "first",
            Priority::Last => "last",
            Priority::Only => "only",
            Priority::Unspecified | Priority::UnspecifiedLifo => "unspecified",
        };
        let conditions = match entry.condition() {
            Condition::None => "none",
            Condition::IrqsOff => "irqs_off",
            Condition::CpusStopped => "cpus_stopped",
        };
        let counters = entry.counters();
        let armed = u8::from(armed(entry, exit.state()));
        text.write_fmt(fmt!(
            "  exit={} order={} priority={priority}",
            &*entry.name,
            index + 1
        ))?;
        text.write_fmt(fmt!(
            " conditions={conditions} params={} armed={armed}",
            entry.params
        ))?;
        let (hits, stops) = (counters.hits(), counters.stops());
        text.write_fmt(fmt!(
            " hits={hits} stops={stops} module={} pinned={}\n",
            entry.owner.as_str(),
            u8::from(entry.is_pinned())
        ))?;
    }
    Ok(())
}

/// Writes the names of parameters, without types and spaces.
fn write_params(text: &mut TextBuffer, params: &[u8]) -> fmt::Result {
    text.write_str(" params=")?;
    if params.is_empty() {
        return text.write_str("-");
    }
    // Commas in the brackets of a type are not separators.
    let mut depth = 0_i32;
    let commas = params.split(|byte| {
        depth += i32::from(b"<([".contains(byte)) - i32::from(b">)]".contains(byte));
        *byte == b',' && depth == 0
    });
    for (index, param) in commas.enumerate() {
        let name = param.split(|b| *b == b':').next().unwrap_or_default();
        let name = core::str::from_utf8(name.trim_ascii()).unwrap_or("?");
        let comma = if index == 0 { "" } else { "," };
        text.write_fmt(fmt!("{comma}{name}"))?;
    }
    Ok(())
}

/// Creates the nodes, once debugfs is initialised.
pub(crate) fn make_files() {
    let _files = lock_files();
    with(|registry| {
        let Ok(root) = Root::new() else {
            return;
        };
        for hook in registry.table.hooks_mut() {
            let dir = root.dir().subdir(hook.body.name()).ok();
            for exit in hook.exits_mut() {
                let file = dir
                    .as_ref()
                    .map(|dir| exit_file(dir, &exit.body.name, exit.id));
                exit.body.file = file.and_then(Result::ok);
            }
            hook.body.dir = dir;
        }
        registry.root = Some(root);
    });
}
