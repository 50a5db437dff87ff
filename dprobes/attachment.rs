// SPDX-License-Identifier: GPL-2.0

//! Breakpoints, uprobes and watchpoints of points.
//!
//! Contexts: handlers any, NMI included; the rest process, sleeps.
#![deny(unsafe_code)]

use ferro_core::insn::Insn;
use ferro_dprobes_core::PointKind;
use ferro_kprobe::Next;
use ferro_kprobe::Probe;
use ferro_kprobe::ProbeCtx;
use ferro_kprobe::ProbeError;
use ferro_kprobe::ProbeHandler;
use ferro_sys::code::kallsyms;
use ferro_sys::code::modules;
use ferro_sys::sync::deferred_drop::Deferred;
use kernel::prelude::*;
use kernel::sync::Arc;

use crate::location::Location;
use crate::point::Point;
use crate::point::WriteTime;
use crate::raw::probed_file::ProbedFile;
use crate::raw::regs::Regs;
use crate::raw::uprobe::UprobeHandler;
use crate::raw::uprobe::UserProbe;
use crate::raw::watch::Watch;
use crate::raw::watch::WatchHandler;

/// First byte of the instruction at an ftrace site: a call, or a NOP of five bytes.
const FTRACE_SITE_BYTES: [u8; 2] = [0xe8, 0x0f];

/// Reason why nothing is attached at a point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DetachReason {
    /// Its module is not loaded, or its breakpoint is not armed.
    Waiting,
    /// The code differs from the expected code. Has its first byte; `None` for an ftrace site.
    Mismatch(Option<u8>),
    /// The module that was loaded has no such symbol.
    Invalid,
    /// No debug register was free.
    Unavailable,
    /// The registration was refused.
    Refused,
    /// Its program never runs again.
    UsedUp,
    /// No program has supplied an address to watch.
    Disarmed,
}

impl DetachReason {
    /// Returns the reason for an error of registering.
    pub(crate) fn of(error: Error) -> Self {
        match error {
            e if e == ENOENT => Self::Invalid,
            e if e == ENOSPC || e == EBUSY => Self::Unavailable,
            _ => Self::Refused,
        }
    }
}

/// Breakpoint or watchpoint attached at a point.
pub(crate) enum Attachment {
    Detached(DetachReason),
    /// Breakpoint with records that are written at once: the program asks for that, or the
    /// instruction cannot fault.
    Immediate(Probe<ImmediateHandler>),
    /// Breakpoint with records that are written after the instruction has been executed.
    Delayed(Probe<DelayedHandler>),
    User(Deferred<UserProbe<UserPointHandler>>),
    Watch(Deferred<Watch<WatchPointHandler>>),
}

/// Type that has an attachment.
pub(crate) trait HasAttachment {
    fn attachment(&self) -> &Attachment;
    fn attachment_mut(&mut self) -> &mut Attachment;
}

impl HasAttachment for Attachment {
    fn attachment(&self) -> &Attachment {
        self
    }

    fn attachment_mut(&mut self) -> &mut Attachment {
        self
    }
}

pub(crate) struct ImmediateHandler(Arc<Point>);

#[vtable]
impl ProbeHandler for ImmediateHandler {
    #[inline(always)]
    fn pre(&self, ctx: &mut ProbeCtx<'_>) -> Next {
        self.0.hit_and_write(ctx)
    }
}

pub(crate) struct DelayedHandler(Arc<Point>);

#[vtable]
impl ProbeHandler for DelayedHandler {
    #[inline(always)]
    fn pre(&self, ctx: &mut ProbeCtx<'_>) -> Next {
        self.0.hit_and_keep(ctx)
    }

    #[inline(always)]
    fn post(&self, _ctx: &mut ProbeCtx<'_>) {
        self.0.complete();
    }
}

pub(crate) struct UserPointHandler(Arc<Point>);

impl UprobeHandler for UserPointHandler {
    fn hit(&self, mut regs: Regs<'_>) {
        match self.0.write_time() {
            WriteTime::AtOnce => self.0.hit(&mut regs),
            WriteTime::AfterInsn => self.0.hit_in_task(&mut regs),
        }
    }
}

pub(crate) struct WatchPointHandler(Arc<Point>);

impl WatchHandler for WatchPointHandler {
    fn hit(&self, mut regs: Regs<'_>) {
        self.0.hit(&mut regs);
    }
}

/// Comparison of the code with the opcode that a point expects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OpcodeCheck {
    Compare,
    Ignore,
}

impl Attachment {
    /// Attaches a point. Hits may occur at once, even before its program begins.
    ///
    /// Opening the file of a `Location::File`, which a user names, may block indefinitely and may
    /// load a module: the caller must not hold a lock that others wait for.
    ///
    /// Errors: those of registering; -ENOENT if there is no such symbol or file. A symbol of a
    /// module is not found as a symbol of the kernel.
    pub(crate) fn new(
        location: &Location,
        point: &Arc<Point>,
        opcodes: OpcodeCheck,
    ) -> Result<Self> {
        if let Location::Later = location {
            return Ok(Self::Detached(DetachReason::Disarmed));
        }
        if let Location::Kernel(symbol, _) = location {
            // A module's code is freed with the module, and this point would not be notified.
            if kallsyms::lookup_name(symbol).is_none_or(modules::is_of_module) {
                return Err(ENOENT);
            }
        }
        let wanted = match opcodes {
            OpcodeCheck::Compare => point.definition.opcode,
            OpcodeCheck::Ignore => None,
        };
        if point.definition.kind != PointKind::Breakpoint {
            return Self::watch(location, point);
        }
        let attachment = match location {
            Location::File(name, offset) => {
                let (file, byte) = ProbedFile::open(name, *offset)?;
                if wanted.is_some_and(|wanted| wanted != byte) {
                    return Ok(Self::Detached(DetachReason::Mismatch(Some(byte))));
                }
                let handler = UserPointHandler(point.clone());
                let probe = UserProbe::register(file, *offset, handler);
                return Ok(Self::User(Deferred::new(probe)?));
            }
            _ => {
                let probe = breakpoint(location, ImmediateHandler(point.clone()))?;
                match point.write_time() == WriteTime::AtOnce
                    || cannot_fault(&probe) && !point.may_move_ip()
                {
                    true => Self::Immediate(probe),
                    false => {
                        drop(probe);
                        Self::Delayed(breakpoint(location, DelayedHandler(point.clone()))?)
                    }
                }
            }
        };
        let fits = |wanted| match attachment.opcode() {
            Some(opcode) => wanted == opcode,
            None => FTRACE_SITE_BYTES.contains(&wanted),
        };
        if !wanted.is_none_or(fits) {
            return Ok(Self::Detached(DetachReason::Mismatch(attachment.opcode())));
        }
        attachment.arm()?;
        Ok(attachment)
    }

    fn watch(location: &Location, point: &Arc<Point>) -> Result<Self> {
        // Holds a reference: the module must not be freed before its notifier can see this point.
        let mut _module = None;
        let address = match location {
            Location::Address(address) => *address,
            Location::Kernel(symbol, offset) | Location::Module(symbol, offset) => {
                let start = kallsyms::lookup_name(symbol).ok_or(ENOENT)?;
                if let Location::Module(..) = location {
                    _module = Some(modules::module_of(start).ok_or(ENOENT)?);
                    if kallsyms::lookup_name(symbol) != Some(start) {
                        return Err(ENOENT);
                    }
                }
                (start as u64).checked_add(*offset).ok_or(EINVAL)?
            }
            Location::File(..) | Location::Later => return Err(EINVAL),
        };
        Self::at(address, point)
    }

    /// Registers a watchpoint at an address. Errors: those of [`Watch::register`].
    pub(crate) fn at(address: u64, point: &Arc<Point>) -> Result<Self> {
        let rpn = &point.definition;
        let watch = Watch::register(
            rpn.kind,
            address,
            rpn.watch_len,
            WatchPointHandler(point.clone()),
        )?;
        Ok(Self::Watch(Deferred::new(Ok::<_, Error>(watch))?))
    }

    /// Frees the debug register, if it has one. Handlers may still be running.
    pub(crate) fn release(&self) {
        if let Self::Watch(watch) = self {
            watch.release();
        }
    }

    /// Arms a breakpoint in the kernel. Registering arms other attachments.
    fn arm(&self) -> Result {
        let armed = match self {
            Self::Immediate(probe) => probe.arm(),
            Self::Delayed(probe) => probe.arm(),
            Self::Detached(_) | Self::User(_) | Self::Watch(_) => Ok(()),
        };
        armed.map_err(errno)
    }

    /// Detaches all points and waits for their handlers: once for some dozens of points, not once
    /// for each.
    pub(crate) fn detach_all<T: HasAttachment>(all: &mut [T]) {
        UserProbe::unregister_all(all.iter().filter_map(|one| match one.attachment() {
            Self::User(probe) => Some(&**probe),
            _ => None,
        }));
        Watch::unregister_all(all.iter().filter_map(|one| match one.attachment() {
            Self::Watch(watch) => Some(&**watch),
            _ => None,
        }));
        Probe::drop_all(
            all.iter_mut()
                .filter_map(|one| one.attachment_mut().take_immediate()),
        );
        Probe::drop_all(
            all.iter_mut()
                .filter_map(|one| one.attachment_mut().take_delayed()),
        );
        for attachment in all.iter_mut().map(T::attachment_mut) {
            *attachment = Self::Detached(DetachReason::Waiting);
        }
    }

    fn take_immediate(&mut self) -> Option<Probe<ImmediateHandler>> {
        match core::mem::replace(self, Self::Detached(DetachReason::Waiting)) {
            Self::Immediate(probe) => Some(probe),
            other => {
                *self = other;
                None
            }
        }
    }

    fn take_delayed(&mut self) -> Option<Probe<DelayedHandler>> {
        match core::mem::replace(self, Self::Detached(DetachReason::Waiting)) {
            Self::Delayed(probe) => Some(probe),
            other => {
                *self = other;
                None
            }
        }
    }

    /// Returns the first byte of a probed instruction of the kernel; `None` at an ftrace site.
    fn opcode(&self) -> Option<u8> {
        match self {
            Self::Immediate(probe) => probe.opcode(),
            Self::Delayed(probe) => probe.opcode(),
            Self::Detached(_) | Self::User(_) | Self::Watch(_) => None,
        }
    }

    /// Returns true if records wait until the instruction has been executed.
    pub(crate) fn delays_records(&self, point: &Point) -> bool {
        match self {
            Self::Delayed(_) => true,
            Self::User(_) => point.write_time() == WriteTime::AfterInsn,
            Self::Detached(_) | Self::Immediate(_) | Self::Watch(_) => false,
        }
    }

    /// Returns the address of a breakpoint in the kernel; 0 for other attachments.
    pub(crate) fn address(&self) -> usize {
        match self {
            Self::Immediate(probe) => probe.address(),
            Self::Delayed(probe) => probe.address(),
            Self::Detached(_) | Self::User(_) | Self::Watch(_) => 0,
        }
    }

    /// Returns true if another file has replaced the probed one for processes that start later.
    pub(crate) fn is_replaced(&self) -> bool {
        match self {
            Self::User(probe) => !probe.is_current(),
            Self::Detached(_) | Self::Immediate(_) | Self::Delayed(_) | Self::Watch(_) => false,
        }
    }

    /// Returns the number of hits that did not reach the point.
    pub(crate) fn missed(&self) -> usize {
        match self {
            Self::Immediate(probe) => probe.missed(),
            Self::Delayed(probe) => probe.missed(),
            Self::Detached(_) | Self::User(_) | Self::Watch(_) => 0,
        }
    }

    /// Returns the reason for not being armed; `None` if armed.
    pub(crate) fn detach_reason(&self) -> Option<DetachReason> {
        let is_armed = match self {
            Self::Detached(reason) => return Some(*reason),
            Self::Immediate(probe) => probe.is_armed(),
            Self::Delayed(probe) => probe.is_armed(),
            Self::User(_) | Self::Watch(_) => true,
        };
        (!is_armed).then_some(DetachReason::Waiting)
    }
}

/// Returns true if the probed instruction is certain to complete, so that records need not wait.
fn cannot_fault<H: ProbeHandler>(probe: &Probe<H>) -> bool {
    let Some(opcode) = probe.opcode() else {
        // The call at an ftrace site completes.
        return true;
    };
    match probe.copied() {
        Some(code) => Insn::decode(&code).is_ok_and(|insn| insn.cannot_fault()),
        // Without a copy, only branches complete for certain: short conditional jumps, and the two
        // unconditional ones.
        None => matches!(opcode, 0x70..=0x7f | 0xe9 | 0xeb),
    }
}

fn breakpoint<H: ProbeHandler>(location: &Location, handler: H) -> Result<Probe<H>> {
    let builder = Probe::builder().disarmed();
    let builder = match location {
        Location::Kernel(symbol, offset) | Location::Module(symbol, offset) => {
            let offset = u32::try_from(*offset).map_err(|_| EINVAL)?;
            builder.symbol(symbol).offset(offset)
        }
        Location::Address(address) => builder.address(usize::try_from(*address)?),
        Location::File(..) | Location::Later => return Err(EINVAL),
    };
    builder.register(handler).map_err(errno)
}

/// Converts an error; user space does not know -EPROBE_DEFER.
fn errno(error: ProbeError) -> Error {
    match error {
        ProbeError::NoEngine => ENODEV,
        other => other.into(),
    }
}
