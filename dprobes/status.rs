// SPDX-License-Identifier: GPL-2.0

//! State of all programs as text.
//!
//! Contexts: process; sleeps. Locks: the registry's mutex.
#![deny(unsafe_code)]

use ferro_dprobes_core::ModuleKind;
use ferro_dprobes_core::PointKind;
use ferro_dprobes_core::Target;
use ferro_dprobes_core::UNSAFE_WRITES;
use ferro_sys::fs::text_buffer::TextBuffer;
use kernel::fmt;
use kernel::fmt::Write;
use kernel::prelude::*;

use crate::attachment::Attachment;
use crate::attachment::DetachReason;
use crate::klog_text::KlogStatus;
use crate::program::Program;
use crate::program::ProgramPoint;
use crate::registry::Registry;

impl Registry {
    /// Appends a line for each program and point, and the variables. New keys may be added later.
    pub(crate) fn write(&self, text: &mut TextBuffer) -> fmt::Result {
        for program in &*self.programs.lock() {
            program.write(text)?;
        }
        self.runtime.globals.write("globals", text)?;
        text.write_fmt(fmt!("{KlogStatus}"))
    }
}

impl Program {
    fn write(&self, text: &mut TextBuffer) -> fmt::Result {
        let header = &self.header;
        let kind = match header.kind {
            ModuleKind::User => "user",
            ModuleKind::Kernel => "kernel",
            ModuleKind::Module => "kmod",
        };
        let target = match self.set.target {
            Target::Relay => "relay",
            Target::Klog => "klog",
        };
        let writes = u8::from(self.set.flags & UNSAFE_WRITES != 0);
        text.write_fmt(fmt!(
            "program kind={kind} major={} id={} locals={} globals={} jmpmax={} logmax={} \
             target={target} writes={writes} name={}\n",
            header.major,
            header.id,
            header.locals,
            header.globals,
            header.jmpmax,
            header.logmax,
            *self.name
        ))?;
        for point in &self.points {
            point.write(text)?;
        }
        self.locals.write("locals", text)
    }
}

impl ProgramPoint {
    /// Returns the word for its state.
    fn state(&self) -> &'static str {
        match self.attachment.detach_reason() {
            _ if self.point.is_removed() => "removed",
            Some(DetachReason::UsedUp) => "disabled",
            Some(DetachReason::Disarmed) if self.point.counter.is_used_up() => "disabled",
            Some(DetachReason::Disarmed) => "disarmed",
            Some(DetachReason::Waiting) => "waiting",
            Some(DetachReason::Mismatch(_)) => "mismatch",
            Some(DetachReason::Invalid) => "invalid",
            Some(DetachReason::Unavailable) => "unavailable",
            Some(DetachReason::Refused) => "error",
            None if self.point.counter.is_used_up() => "disabled",
            None if self.attachment.is_replaced() => "replaced",
            None => "active",
        }
    }

    /// Returns the address if it is known and the location does not show it; else 0.
    fn address(&self) -> usize {
        match self.point.watch_request() {
            Some(request) => request.watched(),
            None => self.attachment.address(),
        }
    }

    fn write(&self, text: &mut TextBuffer) -> fmt::Result {
        let definition = &self.point.definition;
        let counter = &self.point.counter;
        let kind = match definition.kind {
            PointKind::Breakpoint => "break",
            PointKind::WatchExecute => "x",
            PointKind::WatchWrite => "w",
            PointKind::WatchAccess => "rw",
            PointKind::WatchIo => "io",
        };
        let missed = counter.missed().saturating_add(self.missed());
        text.write_fmt(fmt!(
            "point state={} kind={kind} major={} minor={} group={} type={} hits={} runs={} \
             missed={missed} faults={} truncated={} max_hits={} pass_count={} waits={} \
             address={:#x}{} place={}\n",
            self.state(),
            definition.major,
            definition.minor,
            definition.group,
            definition.kind_number,
            counter.hits(),
            counter.runs(),
            self.point.faults(),
            self.point.truncated(),
            definition.max_hits,
            definition.pass_count,
            u8::from(self.attachment.delays_records(&self.point)),
            self.address(),
            FoundOpcode(&self.attachment),
            self.location
        ))
    }
}

/// First byte of the code, if that differs from the opcode that a point expects.
struct FoundOpcode<'a>(&'a Attachment);

impl fmt::Display for FoundOpcode<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Attachment::Detached(DetachReason::Mismatch(Some(byte))) => {
                f.write_fmt(fmt!(" found={byte:#04x}"))
            }
            Attachment::Detached(DetachReason::Mismatch(None)) => f.write_str(" found=ftrace"),
            _ => Ok(()),
        }
    }
}
