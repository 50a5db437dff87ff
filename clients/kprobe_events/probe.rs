// SPDX-License-Identifier: GPL-2.0

//! Probes that write their hits to the channel, or add them up in tables.
//!
//! Contexts: handlers any, NMI included; the rest process.
#![deny(unsafe_code)]

use ferro_fast_relay::Channel;
use ferro_fast_relay::Outcome;
use ferro_kprobe::Keep;
use ferro_kprobe::Next;
use ferro_kprobe::Probe;
use ferro_kprobe::ProbeCtx;
use ferro_kprobe::ProbeError;
use ferro_kprobe::ProbeHandler;
use ferro_kprobe::Retprobe;
use ferro_kprobe::RetprobeHandler;
use ferro_kprobe_events_core::probe_args::AREA_MAX;
use ferro_kprobe_events_core::probe_command::Kind;
use ferro_sys::cpu::time::mono_fast_ns;
use ferro_sys::trace::tracepoint::TaskInfo;
use kernel::prelude::*;
use kernel::sync::atomic::Atomic;
use kernel::sync::atomic::Relaxed;
use kernel::sync::Arc;

use crate::fetch::stacks_at;
use crate::fetch::CallChain;
use crate::fetch::Fetch;
use crate::fetch::InRecord;
use crate::fetch::When;
use crate::record::put_registers;
use crate::record::Area;
use crate::record::Head;
use crate::record::ARGS_AT;
use crate::record::RECORD_LEN;
use crate::record::WITH_REGISTERS;
use crate::totals::Key;
use crate::totals::Totals;

/// Maximum number of calls of a function that are followed at a time. A busy machine has many
/// sleeping calls.
const MAX_ACTIVE: u32 = 128;

/// Size of the fault bits in bytes.
const FAULTS_SIZE: usize = size_of::<u32>();

/// Destination of hits.
#[derive(Clone)]
pub(crate) enum Sink {
    /// A record for each hit.
    Channel(Arc<Channel>),
    /// A number for each key.
    Totals(Arc<Totals>),
}

/// Destination of the hits of one probe.
pub(crate) struct Output {
    /// Number of the probe, also the type of its records if they have arguments.
    pub(crate) probe: u16,
    hits: Atomic<u64>,
    sink: Sink,
}

impl Output {
    pub(crate) fn new(probe: u16, sink: Sink) -> Self {
        Self {
            probe,
            hits: Atomic::new(0),
            sink,
        }
    }

    /// Adds a hit to tables, if hits of this thread count. `fill` writes `size` bytes of arguments,
    /// and returns the fault bits and the number to add up.
    #[inline(never)]
    fn add(
        &self,
        totals: &Totals,
        task: &TaskInfo,
        (size, calls): (usize, Option<&CallChain<'_>>),
        fill: impl FnOnce(&mut Key) -> (u32, u64),
    ) {
        if !totals.has_current() {
            return;
        }
        self.hits.fetch_add(1, Relaxed);
        let mut key = totals.key();
        let (faults, number) = fill(&mut key);
        let calls = calls.map_or(&[][..], CallChain::bytes);
        totals.hit((self.probe, task), (&mut key, size, faults), calls, number);
    }

    #[inline(always)]
    fn head(&self, kind: Kind, ctx: &ProbeCtx<'_>, task: &TaskInfo, duration: u64) -> Head {
        Head::new(self.probe.into(), kind, ctx, task, duration)
    }

    /// Counts a hit and writes a record with the registers. Builds the record in place, because a
    /// hit has little room on its stack.
    #[inline(never)]
    fn put(&self, kind: Kind, ctx: &ProbeCtx<'_>, task: &TaskInfo, duration: u64) {
        let channel = match &self.sink {
            Sink::Channel(channel) => channel,
            Sink::Totals(totals) => {
                return self.add(totals, task, (0, None), |_| (0, duration));
            }
        };
        self.hits.fetch_add(1, Relaxed);
        // The channel counts the records that it loses.
        let _ = channel.place_timed(WITH_REGISTERS, RECORD_LEN, |record| {
            self.head(kind, ctx, task, duration).put(record);
            put_registers(ctx, record);
            Outcome::Commit
        });
    }

    /// Counts a hit and writes a record with arguments of that many bytes, followed by `calls`.
    /// `fill` writes the arguments and returns the fault bits.
    #[inline(always)]
    fn put_args(
        &self,
        channel: &Channel,
        head: impl FnOnce() -> Head,
        size: usize,
        calls: Option<&CallChain<'_>>,
        fill: impl FnOnce(&mut InRecord<'_, '_>) -> u32,
    ) {
        let end = match calls {
            None => size.saturating_add(FAULTS_SIZE),
            Some(calls) => stacks_at(size).saturating_add(calls.bytes().len()),
        };
        let len = ARGS_AT.saturating_add(end);
        self.hits.fetch_add(1, Relaxed);
        // The channel counts the records that it loses.
        let _ = channel.place_timed(self.probe, len, |record| {
            head().put(record);
            let mut rest = InRecord::new(record);
            let faults = fill(&mut rest);
            rest.put(size, &faults.to_le_bytes());
            if let Some(calls) = calls {
                rest.put(stacks_at(size), calls.bytes());
            }
            Outcome::Commit
        });
    }
}

/// Handler of a probe on an instruction that records the registers.
pub(crate) struct OnPoint(Output);

#[vtable]
impl ProbeHandler for OnPoint {
    const MAY_GO_ELSEWHERE: bool = false;

    fn pre(&self, ctx: &mut ProbeCtx<'_>) -> Next {
        self.0.put(Kind::Point, ctx, &TaskInfo::current(), 0);
        Next::Continue
    }
}

/// Handler of a return probe that records the registers.
pub(crate) struct OnReturn(Output);

#[vtable]
impl RetprobeHandler for OnReturn {
    /// Time of the entry.
    type Data = u64;

    fn entry(&self, _ctx: &mut ProbeCtx<'_>, entered: &mut u64) -> Keep {
        *entered = mono_fast_ns();
        Keep::Yes
    }

    fn returned(&self, ctx: &mut ProbeCtx<'_>, entered: &mut u64) {
        let duration = since(*entered);
        self.0
            .put(Kind::Return, ctx, &TaskInfo::current(), duration);
    }
}

/// Returns the time since the entry. The clock can seem to step back between CPUs.
#[inline]
fn since(entered: u64) -> u64 {
    mono_fast_ns().saturating_sub(entered)
}

/// Common part of the handlers with arguments or conditions.
pub(crate) struct Reader {
    output: Output,
    fetch: Fetch,
}

// The steps of a hit are separate functions, so that the stack has one of their frames at a time.
impl Reader {
    /// Writes a record with the values read at `when`.
    #[inline(never)]
    fn put(
        &self,
        (kind, when): (Kind, When),
        ctx: &ProbeCtx<'_>,
        task: &TaskInfo,
        duration: u64,
        calls: Option<&CallChain<'_>>,
    ) {
        let Self { output, fetch } = self;
        let channel = match &output.sink {
            Sink::Channel(channel) => channel,
            Sink::Totals(totals) => {
                let args = (fetch.size(), calls);
                return output.add(totals, task, args, |key| {
                    let faults = fetch.write(ctx, when, key);
                    (faults, fetch.number(totals, key, duration))
                });
            }
        };
        let head = || output.head(kind, ctx, task, duration);
        output.put_args(channel, head, fetch.faults_at(), calls, |area| {
            fetch.write(ctx, when, area)
        });
    }

    /// Writes a record with values of both times: `kept` has those read at the entry of the
    /// function, and this reads the others.
    #[inline(never)]
    fn put_kept<const N: usize>(
        &self,
        ctx: &ProbeCtx<'_>,
        task: &TaskInfo,
        duration: u64,
        calls: Option<&CallChain<'_>>,
        kept: &mut Kept<N>,
    ) {
        let Self { output, fetch } = self;
        kept.faults |= fetch.write(ctx, When::Return, &mut kept.area);
        let channel = match &output.sink {
            Sink::Channel(channel) => channel,
            Sink::Totals(totals) => {
                let args = (fetch.size(), calls);
                return output.add(totals, task, args, |key| {
                    key.put(0, kept.area.get(..fetch.size()).unwrap_or_default());
                    (kept.faults, fetch.number(totals, key, duration))
                });
            }
        };
        let size = fetch.faults_at();
        let head = || output.head(Kind::Return, ctx, task, duration);
        output.put_args(channel, head, size, calls, |area| {
            area.put(0, kept.area.get(..size).unwrap_or_default());
            kept.faults
        });
    }
}

/// Handler of a probe on an instruction, with arguments or conditions.
pub(crate) struct ReadsAtPoint(Reader);

#[vtable]
impl ProbeHandler for ReadsAtPoint {
    const MAY_GO_ELSEWHERE: bool = false;

    fn pre(&self, ctx: &mut ProbeCtx<'_>) -> Next {
        let Reader { output, fetch } = &self.0;
        let task = TaskInfo::current();
        if !fetch.conditions_hold(ctx, &task, When::Hit, 0) {
            return Next::Continue;
        }
        match fetch.has_args() {
            true => {
                let calls = fetch.calls(ctx);
                let now = (Kind::Point, When::Hit);
                self.0.put(now, ctx, &task, 0, calls.as_ref());
            }
            false => output.put(Kind::Point, ctx, &task, 0),
        }
        Next::Continue
    }
}

/// Handler of a return probe, with arguments or conditions. Calls have room for `N` bytes of
/// arguments that are read at the entry.
pub(crate) struct ReadsAtReturn<const N: usize>(Reader);

/// Data of a call until it returns, zeroed at each entry.
#[derive(Clone, Copy, Zeroable)]
pub(crate) struct Kept<const N: usize> {
    /// Time of the entry.
    entered: u64,
    /// Fault bits of the entry.
    faults: u32,
    /// Values read at the entry.
    area: [u8; N],
}

#[vtable]
impl<const N: usize> RetprobeHandler for ReadsAtReturn<N> {
    type Data = Kept<N>;

    fn entry(&self, ctx: &mut ProbeCtx<'_>, kept: &mut Kept<N>) -> Keep {
        let fetch = &self.0.fetch;
        if !fetch.conditions_hold(ctx, &TaskInfo::current(), When::Entry, 0) {
            return Keep::No;
        }
        kept.faults = fetch.write(ctx, When::Entry, &mut kept.area);
        kept.entered = mono_fast_ns();
        Keep::Yes
    }

    fn returned(&self, ctx: &mut ProbeCtx<'_>, kept: &mut Kept<N>) {
        let duration = since(kept.entered);
        let Reader { output, fetch } = &self.0;
        let task = TaskInfo::current();
        if !fetch.conditions_hold(ctx, &task, When::Return, duration) {
            return;
        }
        if !fetch.has_args() {
            return output.put(Kind::Return, ctx, &task, duration);
        }
        let calls = fetch.calls(ctx);
        if N == 0 {
            // All arguments are read at the return.
            let now = (Kind::Return, When::Return);
            return self.0.put(now, ctx, &task, duration, calls.as_ref());
        }
        self.0.put_kept(ctx, &task, duration, calls.as_ref(), kept);
    }
}

/// Registered probe of any form.
pub(crate) enum Live {
    Point(Probe<OnPoint>),
    Return(Retprobe<OnReturn>),
    ReadsAtPoint(Probe<ReadsAtPoint>),
    /// Reads all arguments at the return.
    ReadsAtReturn(Retprobe<ReadsAtReturn<0>>),
    /// Reads some arguments at the entry, and keeps them until the return.
    KeepsToReturn(Retprobe<ReadsAtReturn<AREA_MAX>>),
}

/// Parameters of a probe to register.
pub(crate) struct Request<'a> {
    pub(crate) kind: Kind,
    pub(crate) symbol: &'a CStr,
    pub(crate) offset: u32,
    pub(crate) fetch: Fetch,
    /// Destination of its hits.
    pub(crate) output: Output,
}

/// Form of a probe in [`Live`].
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Point,
    Return,
    ReadsAtPoint,
    ReadsAtReturn,
    KeepsToReturn,
}

impl Request<'_> {
    fn reader(self) -> Reader {
        Reader {
            output: self.output,
            fetch: self.fetch,
        }
    }

    fn form(&self) -> Form {
        let fetch = &self.fetch;
        match self.kind {
            Kind::Point if fetch.is_empty() => Form::Point,
            Kind::Point => Form::ReadsAtPoint,
            Kind::Return if fetch.is_empty() => Form::Return,
            Kind::Return if fetch.reads_at_entry() => Form::KeepsToReturn,
            Kind::Return => Form::ReadsAtReturn,
        }
    }
}

/// Registers requests of one form, up to the first refusal, and returns its error. Appends the
/// registered probes to `to`, which has room.
fn points<H: ProbeHandler>(
    requests: KVVec<Request<'_>>,
    handler: impl Fn(Reader) -> H,
    live: impl Fn(Probe<H>) -> Live,
    to: &mut KVVec<Live>,
) -> Result<Option<ProbeError>, ProbeError> {
    let made = Probe::register_all(requests.into_iter().map(|request| {
        let builder = Probe::builder().symbol(request.symbol);
        let builder = builder.offset(request.offset);
        (builder, handler(request.reader()))
    }));
    append(made?, live, to)
}

/// Registers return probes, like [`points`].
fn returns<H: RetprobeHandler>(
    requests: KVVec<Request<'_>>,
    handler: impl Fn(Reader) -> H,
    live: impl Fn(Retprobe<H>) -> Live,
    to: &mut KVVec<Live>,
) -> Result<Option<ProbeError>, ProbeError> {
    let made = Retprobe::register_all(requests.into_iter().map(|request| {
        let builder = Retprobe::builder().symbol(request.symbol);
        let builder = builder.max_active(MAX_ACTIVE);
        (builder, handler(request.reader()))
    }));
    append(made?, live, to)
}

/// Appends registered probes to `to`, and returns the refusal.
fn append<P>(
    (probes, refusal): (KVVec<P>, Option<ProbeError>),
    live: impl Fn(P) -> Live,
    to: &mut KVVec<Live>,
) -> Result<Option<ProbeError>, ProbeError> {
    for probe in probes {
        to.push(live(probe), GFP_KERNEL)?;
    }
    Ok(refusal)
}

impl Live {
    /// Registers probes in their order, up to the first refusal. Adjacent probes of one form are
    /// registered at once. Returns the registered ones and the refusal.
    pub(crate) fn register_all(
        requests: KVVec<Request<'_>>,
    ) -> Result<(KVVec<Self>, Option<ProbeError>), ProbeError> {
        let mut all = KVVec::with_capacity(requests.len(), GFP_KERNEL)?;
        let mut requests = requests.into_iter().peekable();
        while let Some(form) = requests.peek().map(Request::form) {
            let mut some = KVVec::new();
            while let Some(request) = requests.next_if(|next| next.form() == form) {
                some.push(request, GFP_KERNEL)?;
            }
            let to = &mut all;
            let refusal = match form {
                Form::Point => points(some, |reader| OnPoint(reader.output), Self::Point, to),
                Form::Return => returns(some, |reader| OnReturn(reader.output), Self::Return, to),
                Form::ReadsAtPoint => points(some, ReadsAtPoint, Self::ReadsAtPoint, to),
                Form::ReadsAtReturn => returns(some, ReadsAtReturn, Self::ReadsAtReturn, to),
                Form::KeepsToReturn => returns(some, ReadsAtReturn, Self::KeepsToReturn, to),
            };
            // If memory runs out for some, the earlier ones are still registered.
            let refusal = refusal.unwrap_or_else(Some);
            if refusal.is_some() {
                return Ok((all, refusal));
            }
        }
        Ok((all, None))
    }

    /// Drops many probes faster than one by one.
    pub(crate) fn drop_all(all: impl Iterator<Item = Self>) {
        let (mut points, mut readers) = (KVVec::new(), KVVec::new());
        let (mut returns, mut return_readers, mut keeping) =
            (KVVec::new(), KVVec::new(), KVVec::new());
        for live in all {
            // Dropped at once if there is no memory.
            let _ = match live {
                Self::Point(probe) => points.push(probe, GFP_KERNEL),
                Self::ReadsAtPoint(probe) => readers.push(probe, GFP_KERNEL),
                Self::Return(probe) => returns.push(probe, GFP_KERNEL),
                Self::ReadsAtReturn(probe) => return_readers.push(probe, GFP_KERNEL),
                Self::KeepsToReturn(probe) => keeping.push(probe, GFP_KERNEL),
            };
        }
        Probe::drop_all(points.into_iter());
        Probe::drop_all(readers.into_iter());
        Retprobe::drop_all(returns.into_iter());
        Retprobe::drop_all(return_readers.into_iter());
        Retprobe::drop_all(keeping.into_iter());
    }

    pub(crate) fn kind(&self) -> Kind {
        match self {
            Self::Point(_) | Self::ReadsAtPoint(_) => Kind::Point,
            Self::Return(_) | Self::ReadsAtReturn(_) | Self::KeepsToReturn(_) => Kind::Return,
        }
    }

    pub(crate) fn address(&self) -> usize {
        match self {
            Self::Point(probe) => probe.address(),
            Self::Return(probe) => probe.address(),
            Self::ReadsAtPoint(probe) => probe.address(),
            Self::ReadsAtReturn(probe) => probe.address(),
            Self::KeepsToReturn(probe) => probe.address(),
        }
    }

    fn output(&self) -> &Output {
        match self {
            Self::Point(probe) => &probe.handler().0,
            Self::Return(probe) => &probe.handler().0,
            Self::ReadsAtPoint(probe) => &probe.handler().0.output,
            Self::ReadsAtReturn(probe) => &probe.handler().0.output,
            Self::KeepsToReturn(probe) => &probe.handler().0.output,
        }
    }

    /// Returns the probe's number.
    pub(crate) fn number(&self) -> u16 {
        self.output().probe
    }

    /// Returns true if hits are added to these tables.
    pub(crate) fn is_of(&self, totals: &Arc<Totals>) -> bool {
        matches!(&self.output().sink, Sink::Totals(other) if Arc::ptr_eq(other, totals))
    }

    /// Returns the number of hits that satisfied the conditions.
    pub(crate) fn hits(&self) -> u64 {
        self.output().hits.load(Relaxed)
    }

    /// Returns the number of hits that called no handler.
    pub(crate) fn missed(&self) -> usize {
        match self {
            Self::Point(probe) => probe.missed(),
            Self::ReadsAtPoint(probe) => probe.missed(),
            Self::Return(probe) => probe.missed().saturating_add(probe.nested()),
            Self::ReadsAtReturn(probe) => probe.missed().saturating_add(probe.nested()),
            Self::KeepsToReturn(probe) => probe.missed().saturating_add(probe.nested()),
        }
    }

    /// Returns true if the probed code is still loaded.
    pub(crate) fn is_loaded(&self) -> bool {
        match self {
            Self::Point(probe) => probe.is_armed(),
            Self::Return(probe) => probe.is_armed(),
            Self::ReadsAtPoint(probe) => probe.is_armed(),
            Self::ReadsAtReturn(probe) => probe.is_armed(),
            Self::KeepsToReturn(probe) => probe.is_armed(),
        }
    }
}
