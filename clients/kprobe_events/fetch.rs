// SPDX-License-Identifier: GPL-2.0

//! Values that a probe reads at a hit, and records instead of the registers.
//!
//! Contexts: any, NMI included; [`Fetch::new`] and [`ChainBuffers::new`]: process.
#![deny(unsafe_code)]

use ferro_fast_relay::Placed;
use ferro_kprobe::ProbeCtx;
use ferro_kprobe::Register;
use ferro_kprobe_events_core::probe_args::Arg;
use ferro_kprobe_events_core::probe_args::Args;
use ferro_kprobe_events_core::probe_args::Condition;
use ferro_kprobe_events_core::probe_args::Env;
use ferro_kprobe_events_core::probe_args::Hit;
use ferro_kprobe_events_core::probe_args::Register as Name;
use ferro_kprobe_events_core::probe_args::Type;
use ferro_sys::cpu;
use ferro_sys::cpu::task;
use ferro_sys::cpu::CpuId;
use ferro_sys::mm::nofault;
use ferro_sys::sync::try_lock::TryGuard;
use ferro_sys::sync::try_lock::TryLock;
use ferro_sys::trace::stack;
use ferro_sys::trace::tracepoint::TaskInfo;
use kernel::prelude::*;
use kernel::sync::Arc;
use zerocopy::IntoBytes;

use crate::record::Area;
use crate::record::ARGS_AT;
use crate::totals::Key;
use crate::totals::Totals;

/// Maximum number of recorded calls in each stack.
const CALLS_MAX: usize = 64;

/// Arguments and conditions of a probe.
pub(crate) struct Fetch {
    args: KVVec<Arg>,
    conditions: KVVec<Condition>,
    size: usize,
    stacks: Option<Stacks>,
    /// Last argument, in a table with values.
    value: Option<Arg>,
}

/// Addresses of a call chain: kernel addresses, then user-space addresses, which are in the lower
/// half of the address space.
type ChainAddresses = [usize; 2 * CALLS_MAX];

/// Buffers for call chains, by CPU number: the stack of the probed code may be too small for them.
pub(crate) struct ChainBuffers(KVVec<TryLock<ChainAddresses>>);

impl ChainBuffers {
    /// Allocates a buffer for each CPU. Errors: -ENOMEM.
    pub(crate) fn new() -> Result<Self> {
        let mut buffers = KVVec::new();
        let count = cpu::possible().last().map_or(0, CpuId::get);
        for _ in 0..=count {
            buffers.push(TryLock::new([0; 2 * CALLS_MAX]), GFP_KERNEL)?;
        }
        Ok(Self(buffers))
    }

    /// Returns the buffer of this CPU; `None` if an NMI has interrupted the hit that uses it.
    fn here(&self) -> Option<TryGuard<'_, ChainAddresses>> {
        let cpu = usize::try_from(cpu::current_id()).ok()?;
        self.0.get(cpu)?.try_lock()
    }
}

/// Stacks that are among the arguments of a probe; at least one.
struct Stacks {
    kernel: bool,
    user: bool,
    buffers: Arc<ChainBuffers>,
}

/// Call chain of a hit, in the buffer of its CPU.
pub(crate) struct CallChain<'a> {
    addresses: TryGuard<'a, ChainAddresses>,
    len: usize,
}

impl CallChain<'_> {
    pub(crate) fn bytes(&self) -> &[u8] {
        self.addresses
            .get(..self.len)
            .unwrap_or_default()
            .as_bytes()
    }
}

impl Stacks {
    fn of(
        args: &[Arg],
        buffers: impl FnOnce() -> Result<Arc<ChainBuffers>>,
    ) -> Result<Option<Self>> {
        let has = |user| args.iter().any(|arg| arg.ty == Type::Stack { user });
        let (kernel, user) = (has(false), has(true));
        if !kernel && !user {
            return Ok(None);
        }
        Ok(Some(Self {
            kernel,
            user,
            buffers: buffers()?,
        }))
    }

    /// Collects the call chain. Returns `None` without a buffer.
    #[inline(never)]
    fn calls(&self, ctx: &ProbeCtx<'_>) -> Option<CallChain<'_>> {
        let mut addresses = self.buffers.here()?;
        let mut len = 0;
        if self.kernel {
            len = ctx.calls(addresses.get_mut(..CALLS_MAX)?);
        }
        if self.user {
            let end = len.saturating_add(CALLS_MAX);
            len = len.saturating_add(stack::user(addresses.get_mut(len..end)?));
        }
        Some(CallChain { addresses, len })
    }
}

/// Time at which values are read and conditions are tested.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum When {
    /// Once, at the hit.
    Hit,
    /// At the entry of a function with a return probe.
    Entry,
    /// At the return: everything except values read at the entry.
    Return,
}

impl When {
    /// Returns true if a value is read at this time. `is_of_entry` marks values that are read at
    /// the entry.
    fn is_now(self, is_of_entry: bool) -> bool {
        match self {
            Self::Hit => true,
            Self::Entry => is_of_entry,
            Self::Return => !is_of_entry,
        }
    }
}

/// Part of a record after its head. The record is built in place, so every byte has to be written:
/// gaps between values are filled with 0.
pub(crate) struct InRecord<'a, 'r> {
    record: &'a mut Placed<'r>,
    at: usize,
}

impl<'a, 'r> InRecord<'a, 'r> {
    #[inline(always)]
    pub(crate) fn new(record: &'a mut Placed<'r>) -> Self {
        Self { record, at: 0 }
    }

    #[inline(always)]
    fn append<const N: usize>(&mut self, bytes: [u8; N]) {
        self.record.put(ARGS_AT.saturating_add(self.at), bytes);
        self.at = self.at.saturating_add(N);
    }
}

impl Area for InRecord<'_, '_> {
    #[inline]
    fn put(&mut self, at: usize, bytes: &[u8]) {
        while self.at < at {
            match at.saturating_sub(self.at) {
                1..8 => self.append([0]),
                8..32 => self.append([0; 8]),
                _ => self.append([0; 32]),
            }
        }
        // Copying a known number of bytes takes only a few instructions.
        let mut words = bytes.chunks_exact(8);
        for word in words.by_ref() {
            self.append(*word.first_chunk::<8>().unwrap_or(&[0; 8]));
        }
        let mut rest = words.remainder();
        if let Some((half, after)) = rest.split_first_chunk::<4>() {
            self.append(*half);
            rest = after;
        }
        for byte in rest {
            self.append([*byte]);
        }
    }
}

impl Fetch {
    /// Converts the arguments and conditions. Stacks use `buffers`. Errors: -ENOMEM.
    pub(crate) fn new(
        text: Args<'_>,
        buffers: impl FnOnce() -> Result<Arc<ChainBuffers>>,
    ) -> Result<Self> {
        Self::of(text.iter().map(|(_, arg)| arg), None, text, buffers)
    }

    /// Converts the arguments that are parts of the key of a table, its value, and the conditions.
    ///
    /// Errors: -ENOMEM; -EINVAL without a numeric argument for the value; -E2BIG if keys have no
    /// room for the arguments.
    pub(crate) fn for_table(
        text: Args<'_>,
        totals: &Totals,
        buffers: impl FnOnce() -> Result<Arc<ChainBuffers>>,
    ) -> Result<Self> {
        let keys = totals.keys()?;
        let value = match totals.value()? {
            Some(name) => Some(text.value(keys, name).ok_or(EINVAL)?),
            None => None,
        };
        let selected = text.selected(keys).map(|(_, arg)| arg);
        let fetch = Self::of(selected, value, text, buffers)?;
        let stacks = fetch.stacks.as_ref().map_or(0, |stacks| {
            usize::from(stacks.kernel).saturating_add(usize::from(stacks.user))
        });
        match totals.has_room(fetch.size, stacks.saturating_mul(CALLS_MAX)) {
            true => Ok(fetch),
            false => Err(E2BIG),
        }
    }

    /// Converts these arguments and a value, and the conditions of `text`.
    fn of(
        selected: impl Iterator<Item = Arg>,
        value: Option<Arg>,
        text: Args<'_>,
        buffers: impl FnOnce() -> Result<Arc<ChainBuffers>>,
    ) -> Result<Self> {
        let (mut args, mut conditions) = (KVVec::new(), KVVec::new());
        for arg in selected.chain(value) {
            args.push(arg, GFP_KERNEL)?;
        }
        for condition in text.conditions() {
            conditions.push(condition, GFP_KERNEL)?;
        }
        Ok(Self {
            stacks: Stacks::of(&args, buffers)?,
            size: args.last().map_or(0, Arg::end),
            args,
            conditions,
            value,
        })
    }

    /// Returns the number of bytes of the arguments.
    pub(crate) fn size(&self) -> usize {
        self.size
    }

    /// Returns true if there are no arguments and no conditions.
    pub(crate) fn is_empty(&self) -> bool {
        self.args.is_empty() && self.conditions.is_empty()
    }

    /// Returns true if records have arguments rather than registers.
    pub(crate) fn has_args(&self) -> bool {
        !self.args.is_empty()
    }

    /// Returns true if some arguments are read at the entry of a function with a return probe.
    pub(crate) fn reads_at_entry(&self) -> bool {
        self.args.iter().any(|arg| arg.fetch.is_of_entry())
    }

    /// Returns the offset of the fault bits, which follow the arguments.
    pub(crate) fn faults_at(&self) -> usize {
        faults_at(self.size)
    }

    /// Returns the call chain, if a stack is among the arguments.
    #[inline]
    pub(crate) fn calls(&self, ctx: &ProbeCtx<'_>) -> Option<CallChain<'_>> {
        self.stacks.as_ref().and_then(|stacks| stacks.calls(ctx))
    }

    /// Returns true if the conditions hold.
    #[inline]
    pub(crate) fn conditions_hold(
        &self,
        ctx: &ProbeCtx<'_>,
        task: &TaskInfo,
        when: When,
        duration: u64,
    ) -> bool {
        if self.conditions.is_empty() {
            return true;
        }
        let ids = task::ids();
        let hit = Hit {
            thread: ids.thread,
            process: ids.process,
            comm: &task.comm,
            cpu: cpu::current_id(),
        };
        let mut now = self.conditions.iter();
        now.all(|condition| {
            !when.is_now(condition.is_of_entry()) || condition.holds(&hit, duration, &HitEnv(ctx))
        })
    }

    /// Returns the number that a table adds up: the value in the key, or else the duration.
    #[inline]
    pub(crate) fn number(&self, totals: &Totals, key: &mut Key, duration: u64) -> u64 {
        match &self.value {
            Some(arg) => totals.take_value(key, arg),
            None => duration,
        }
    }

    /// Writes the values. Returns a bit for each argument that could not be read, the lowest for
    /// the first.
    pub(crate) fn write(
        &self,
        ctx: &ProbeCtx<'_>,
        when: When,
        area: &mut (impl Area + ?Sized),
    ) -> u32 {
        let mut faults = 0;
        let mut bit = 1_u32;
        for arg in &self.args {
            if when.is_now(arg.fetch.is_of_entry()) && !write(arg, &HitEnv(ctx), area) {
                faults |= bit;
            }
            bit = bit.wrapping_shl(1);
        }
        faults
    }
}

/// Returns the offset of the fault bits for arguments of this size.
pub(crate) fn faults_at(size: usize) -> usize {
    size.saturating_add(3) & !3
}

/// Returns the offset of the stacks for fault bits at this offset.
pub(crate) fn stacks_at(faults_at: usize) -> usize {
    faults_at.saturating_add(size_of::<u32>()).saturating_add(7) & !7
}

/// Writes a value. Returns false if it could not be read: a text is then cut off, and a number is
/// 0.
fn write(arg: &Arg, env: &impl Env, area: &mut (impl Area + ?Sized)) -> bool {
    if arg.ty.is_stack() {
        // `put_args()` writes stacks, after all other values.
        return true;
    }
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

/// Registers, stack and memory at a hit, for the core that evaluates arguments.
struct HitEnv<'a, 'c>(&'a ProbeCtx<'c>);

impl Env for HitEnv<'_, '_> {
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
