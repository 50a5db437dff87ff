// SPDX-License-Identifier: GPL-2.0

//! What a probe reads when it is hit, and writes in place of the registers.
//!
//! Contexts: any, NMI included; making one process.
#![deny(unsafe_code)]

use ferro_core::probe_args::Arg;
use ferro_core::probe_args::Args;
use ferro_core::probe_args::Condition;
use ferro_core::probe_args::Env;
use ferro_core::probe_args::Hit;
use ferro_core::probe_args::Register as Name;
use ferro_core::probe_args::Type;
use ferro_core::probe_args::AREA_MAX;
use ferro_fast_relay::Record as OpenRecord;
use ferro_kprobe::ProbeCtx;
use ferro_kprobe::Register;
use ferro_sys::cpu;
use ferro_sys::cpu::task;
use ferro_sys::mm::nofault;
use ferro_sys::trace::tracepoint::TaskInfo;
use kernel::prelude::*;

/// The arguments and conditions of a probe.
pub(crate) struct Reading {
    args: KVVec<Arg>,
    conditions: KVVec<Condition>,
    size: usize,
}

/// When something is read or judged.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum When {
    /// Once and for all.
    Hit,
    /// At the entry of a function whose return is probed.
    Entry,
    /// At the return, what was not at the entry.
    Return,
}

impl When {
    fn is_now(self, is_of_entry: bool) -> bool {
        match self {
            Self::Hit => true,
            Self::Entry => is_of_entry,
            Self::Return => !is_of_entry,
        }
    }
}

/// Where values are written, each at its place, in ascending order.
pub(crate) trait Area {
    fn put(&mut self, at: usize, bytes: &[u8]);
}

impl Area for [u8; AREA_MAX] {
    fn put(&mut self, at: usize, bytes: &[u8]) {
        let end = at.saturating_add(bytes.len());
        if let Some(room) = self.get_mut(at..end) {
            room.copy_from_slice(bytes);
        }
    }
}

/// The rest of a record.
pub(crate) struct InRecord<'a, 'r> {
    record: &'a mut OpenRecord<'r>,
    at: usize,
}

impl<'a, 'r> InRecord<'a, 'r> {
    pub(crate) fn new(record: &'a mut OpenRecord<'r>) -> Self {
        Self { record, at: 0 }
    }
}

impl Area for InRecord<'_, '_> {
    fn put(&mut self, at: usize, bytes: &[u8]) {
        const ZEROES: [u8; 64] = [0; 64];
        while self.at < at {
            let gap = at.saturating_sub(self.at).min(ZEROES.len());
            if !self.record.put(ZEROES.get(..gap).unwrap_or_default()) {
                return;
            }
            self.at = self.at.saturating_add(gap);
        }
        if self.record.put(bytes) {
            self.at = self.at.saturating_add(bytes.len());
        }
    }
}

impl Reading {
    /// `None` if there is nothing to read, and no condition.
    pub(crate) fn new(text: Args<'_>) -> Result<Option<Self>> {
        let mut args = KVVec::new();
        for (_, arg) in text.iter() {
            args.push(arg, GFP_KERNEL)?;
        }
        let mut conditions = KVVec::new();
        for condition in text.conditions() {
            conditions.push(condition, GFP_KERNEL)?;
        }
        let is_something = !args.is_empty() || !conditions.is_empty();
        Ok(is_something.then_some(Self {
            args,
            conditions,
            size: text.size(),
        }))
    }

    /// Whether arguments are written, rather than registers.
    pub(crate) fn has_args(&self) -> bool {
        !self.args.is_empty()
    }

    /// Where the word begins that says which arguments could not be read: behind them.
    pub(crate) fn faults_at(&self) -> usize {
        faults_at(self.size)
    }

    /// Whether the conditions hold.
    #[inline]
    pub(crate) fn counts(
        &self,
        ctx: &ProbeCtx<'_>,
        task: &TaskInfo,
        when: When,
        duration: u64,
    ) -> bool {
        let ids = task::ids();
        let hit = Hit {
            thread: ids.thread,
            process: ids.process,
            comm: &task.comm,
            cpu: cpu::current_id(),
        };
        let mut now = self.conditions.iter();
        now.all(|condition| {
            !when.is_now(condition.is_of_entry()) || condition.holds(&hit, duration, &Seen(ctx))
        })
    }

    /// Writes the values. Returns a bit for each argument that could not be read, the lowest for the first.
    pub(crate) fn write(
        &self,
        ctx: &ProbeCtx<'_>,
        when: When,
        area: &mut (impl Area + ?Sized),
    ) -> u32 {
        let mut faults = 0;
        let mut bit = 1_u32;
        for arg in &self.args {
            if when.is_now(arg.fetch.is_of_entry()) && !write(arg, &Seen(ctx), area) {
                faults |= bit;
            }
            bit = bit.wrapping_shl(1);
        }
        faults
    }
}

/// For arguments of this size.
pub(crate) fn faults_at(size: usize) -> usize {
    size.saturating_add(3) & !3
}

/// Writes a value. False if it could not be read; then it is as much of a text as could be, or 0.
fn write(arg: &Arg, env: &impl Env, area: &mut (impl Area + ?Sized)) -> bool {
    if let Type::Text { len } = arg.ty {
        let mut at = arg.offset;
        return arg.fetch.text(len.into(), env, |piece| {
            area.put(at, piece);
            at = at.saturating_add(piece.len());
        });
    }
    let value = arg.fetch.number(arg.ty, env);
    let bytes = value.unwrap_or(0).to_le_bytes();
    area.put(arg.offset, bytes.get(..arg.ty.size()).unwrap_or_default());
    value.is_some()
}

/// What a handler sees.
struct Seen<'a, 'c>(&'a ProbeCtx<'c>);

impl Env for Seen<'_, '_> {
    fn register(&self, register: Name) -> u64 {
        let ctx = self.0;
        let register = match register {
            Name::Ax => Register::Ax,
            Name::Bx => Register::Bx,
            Name::Cx => Register::Cx,
            Name::Dx => Register::Dx,
            Name::Si => Register::Si,
            Name::Di => Register::Di,
            Name::Bp => Register::Bp,
            Name::R8 => Register::R8,
            Name::R9 => Register::R9,
            Name::R10 => Register::R10,
            Name::R11 => Register::R11,
            Name::R12 => Register::R12,
            Name::R13 => Register::R13,
            Name::R14 => Register::R14,
            Name::R15 => Register::R15,
            Name::Sp => return ctx.sp() as u64,
            Name::Ip => return ctx.ip() as u64,
            Name::Flags => return ctx.flags() as u64,
        };
        ctx.register(register) as u64
    }

    fn argument(&self, index: u8) -> Option<u64> {
        self.0.argument(index.into()).map(|word| word as u64)
    }

    fn stack(&self, index: u16) -> Option<u64> {
        self.0.stack(index.into()).map(|word| word as u64)
    }

    fn returned(&self) -> u64 {
        self.0.return_value() as u64
    }

    fn read(&self, at: u64, to: &mut [u8]) -> bool {
        let at = at as usize;
        match nofault::is_user(at) {
            true => nofault::read_user(at, to),
            false => nofault::read_kernel(at, to),
        }
    }
}
