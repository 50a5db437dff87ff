// SPDX-License-Identifier: GPL-2.0

//! Destinations that user space opens by a line: tables, and a channel in memory that survives a
//! reboot.
//!
//! Contexts: process.
#![deny(unsafe_code)]

use ferro_fast_relay::Channel;
use ferro_fast_relay::Mode;
use ferro_kprobe_events_core::probe_command::KeepCommand;
use ferro_kprobe_events_core::probe_command::TableCommand;
use ferro_sys::fs::text_buffer::TextBuffer;
use kernel::fmt::Write;
use kernel::prelude::*;
use kernel::str::CString;
use kernel::sync::Arc;

use crate::format;
use crate::module_parameters;
use crate::probe::Sink;
use crate::totals::Totals;

/// Makes tables. Errors: -EINVAL for another line, -E2BIG for too large tables, -ENOMEM.
pub(crate) fn open_totals(line: &[u8]) -> Result<Sink> {
    let command = TableCommand::parse(line).ok_or(EINVAL)?;
    let totals = Arc::new(Totals::new(&command)?, GFP_KERNEL)?;
    Ok(Sink::Totals(totals))
}

/// Opens a channel in reserved memory. New records overwrite the oldest ones. The channel is closed
/// when its file is closed and its last probe is removed.
///
/// Errors: -EINVAL for a line that is no [`KeepCommand`], -EEXIST while such a channel is open,
/// even in other memory, -ENXIO if no memory has this name, -EAGAIN for memory in use, -ENOSPC for
/// too little memory, -ENOMEM.
pub(crate) fn open_kept(line: &[u8]) -> Result<Sink> {
    let command = KeepCommand::parse(line).ok_or(EINVAL)?;
    let memory = CString::try_from_fmt(fmt!("{}", command.memory))?;
    let mut text = TextBuffer::new();
    text.write_fmt(fmt!("recording: {}\n\n", command.recording))
        .map_err(|_| ENOMEM)?;
    format::write_plain(&mut text).map_err(|_| ENOMEM)?;
    let text = text.into_bytes();
    let channel = Channel::builder(c"ferrotrace_keep")
        .subbuf_size(module_parameters::subbuf_size.value())
        .reserved(&memory)
        .mode(Mode::Overwrite)
        .format(core::str::from_utf8(&text).map_err(|_| EINVAL)?)
        .open()?;
    Ok(Sink::Channel(Arc::new(channel, GFP_KERNEL)?))
}
