// SPDX-License-Identifier: GPL-2.0

//! Point of a program, as a hit sees it.
//!
//! Contexts: making process; hits any, NMI included. Interrupts are off while a program is
//! interpreted. A hit while a program runs on the same CPU is counted but runs nothing. Such a hit
//! is in an NMI, or in code that the program itself uses.
#![deny(unsafe_code)]

use ferro_core::rpn;
use ferro_core::rpn::count;
use ferro_core::rpn::fuse;
use ferro_core::rpn::run;
use ferro_core::rpn::End;
use ferro_core::rpn::Form;
use ferro_core::rpn::Insn;
use ferro_core::rpn::Limits;
use ferro_core::rpn::Memory;
use ferro_core::rpn::OfWords;
use ferro_core::rpn::Op;
use ferro_core::rpn::Outcome;
use ferro_core::rpn::Pair;
use ferro_core::rpn::Plain;
use ferro_core::rpn::PointRef;
use ferro_core::rpn::Register;
use ferro_core::rpn::Scope;
use ferro_core::rpn::Steps;
use ferro_core::rpn::Target;
use ferro_fast_relay::Channel;
use ferro_kprobe::Next;
use ferro_kprobe::ProbeCtx;
use ferro_sys::cpu::with_irqs_off;
use ferro_sys::sync::deferred_call::Errand;
use ferro_sys::sync::shared_word::copy_slice;
use ferro_sys::sync::shared_word::Word;
use kernel::prelude::*;
use kernel::sync::Arc;
use kernel::sync::Mutex;

use crate::cpu_records::CpuRecords;
use crate::exit_action;
use crate::hit_context::HitContext;
use crate::raw::permission::Permission;
use crate::raw::regs::Regs;
use crate::raw::scratch::PendingRecords;
use crate::raw::scratch::Scratch;
use crate::raw::task;
use crate::rearm::WatchRequest;
use crate::rearm::WatchRequests;
use crate::record;
use crate::record::header;
use crate::record::Record;
use crate::registers::KernelRegs;
use crate::registers::KernelRegsMut;
use crate::registers::Registers;
use crate::registry::Program;
use crate::strategy::Strategy;
use crate::task_records::TaskRecord;
use crate::task_records::TaskRecords;
use crate::variables::Variables;

/// Bias of the hit counter before [`Point::begin`], larger than any number of hits.
const DORMANT: usize = 1 << (usize::BITS - 1);

/// State that all points share.
#[pin_data]
pub(crate) struct Shared {
    pub(crate) globals: Variables,
    pub(crate) scratch: Scratch<CpuRecords>,
    pub(crate) channel: Channel,
    /// CpuRecords records of points in user space.
    #[pin]
    pub(crate) in_task: TaskRecords,
    /// Loaded programs. Empty by the time this is dropped.
    #[pin]
    pub(crate) programs: Mutex<KVVec<Program>>,
    /// Number of the next point.
    pub(crate) numbers: Word,
}

impl Shared {
    /// Takes all records of the current task, once a probed instruction in user space was executed
    /// or not. Writes the records of the instruction at `address` if it was executed; drops the
    /// rest.
    pub(crate) fn completed_in_task(&self, address: usize, is_executed: bool) {
        let task = task::address();
        while let Some(waiting) = self.in_task.take(task) {
            if is_executed && waiting.address == address {
                self.write(&waiting);
            }
        }
    }

    fn write(&self, waiting: &TaskRecord) {
        crate::record::write(&waiting.record, &self.channel, waiting.target);
    }
}

/// Destination of a point's records, and the fields that they have.
#[derive(Clone, Copy)]
pub(crate) struct Output {
    pub(crate) fields: u16,
    pub(crate) target: Target,
}

/// Event that a record of a hit waits for.
#[derive(Clone, Copy)]
enum Commit {
    /// None: the record is written at once.
    Now,
    /// This CPU has executed the instruction at an address.
    OnCpu(usize),
    /// This task has executed the instruction at an address.
    InTask(usize),
}

/// Time at which the records of a point are written.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum WriteTime {
    /// At once.
    AtOnce,
    /// After the probed instruction has been executed.
    AfterInsn,
}

/// Probe point. It runs no program before [`Point::begin`].
pub(crate) struct Point {
    // Used at every hit.
    /// Hit counter, biased by [`DORMANT`] so that hits before [`Point::begin`] are ignored.
    hits: Word,
    /// Number of initial hits at which the program does not run.
    pass: usize,
    /// Index of the last hit that may run if none is missed. From this hit on, [`Point::is_over`]
    /// decides.
    last: Word,
    code: KVVec<Insn>,
    strategy: Strategy,
    limits: Limits,
    pub(crate) locals: Arc<Variables>,
    pub(crate) shared: Arc<Errand<Shared>>,
    // Used less often.
    /// Most hits at which the program runs; 0 after [`Point::end`].
    runs: Word,
    pub(crate) permission: Option<Permission>,
    /// Requests for the watchpoints that its program may arm.
    pub(crate) mailboxes: Arc<WatchRequests>,
    pub(crate) output: Output,
    missed: Word,
    faults: Word,
    /// 1 once the program has removed the point.
    is_removed: Word,
    /// Runs that logged more than was kept.
    truncated: Word,
    /// 1 once the reaper was asked to check whether the breakpoint can be removed.
    asked: Word,
    /// Runs of a [`Strategy::Run`] program. A run is counted only once it can no longer be missed, so
    /// that a missed hit uses up no run.
    began: Word,
    /// Hits beyond `runs` that replaced a missed one, for programs of other strategies.
    replaced: Word,
    /// Unique number; numbers are never reused.
    number: usize,
    pub(crate) point: rpn::Point,
    logs: bool,
}

impl Point {
    /// Makes a point that has not begun. Errors: -ENOMEM.
    pub(crate) fn new(
        header: &rpn::Header,
        point: &PointRef<'_>,
        output: Output,
        permission: Option<Permission>,
        mailboxes: Arc<WatchRequests>,
        locals: Arc<Variables>,
        shared: Arc<Errand<Shared>>,
    ) -> Result<Self> {
        let PointRef { point, code, .. } = *point;
        let pass = usize::try_from(point.pass_count)?;
        let runs = usize::try_from(point.max_hits)?;
        let mut insns = KVVec::with_capacity(code.len(), GFP_KERNEL)?;
        for insn in code.insns() {
            insns.push(insn, GFP_KERNEL)?;
        }
        let limits = Limits {
            jumps: header.jmpmax,
            log: header.logmax,
            trace: header.ex_logmax,
            heap: point.heap_size,
            ex_mask: point.ex_mask,
            auto_stack_trace: header.auto_stack_trace,
            major: point.major,
            minor: point.minor,
        };
        Ok(Self {
            hits: Word::new(pass.wrapping_add(DORMANT)),
            pass,
            last: Word::new(runs.saturating_sub(1)),
            runs: Word::new(runs),
            strategy: Strategy::new(&limits, output, &insns),
            code: {
                fuse(&mut insns);
                insns
            },
            limits,
            locals,
            number: shared.numbers.add(1),
            shared,
            permission,
            mailboxes,
            output,
            missed: Word::new(0),
            faults: Word::new(0),
            is_removed: Word::new(0),
            truncated: Word::new(0),
            asked: Word::new(0),
            began: Word::new(0),
            replaced: Word::new(0),
            point,
            logs: code.effects().logs,
        })
    }

    /// Makes hits count and run the program. Forgets earlier hits.
    pub(crate) fn begin(&self) {
        self.hits.store(0);
    }

    /// Stops further runs of the program. A run that has begun continues.
    pub(crate) fn end(&self) {
        self.runs.store(0);
        self.last.store(0);
    }

    /// Returns when its records are written: at once if they are wanted although the instruction
    /// faults, or if the program logs nothing. In that case it has only records of exceptions, and
    /// writing these at once is quicker.
    pub(crate) fn write_time(&self) -> WriteTime {
        match self.logs && !self.point.log_on_fault {
            true => WriteTime::AfterInsn,
            false => WriteTime::AtOnce,
        }
    }

    /// Returns the watch request, if a program supplies the watchpoint's address.
    pub(crate) fn mailbox(&self) -> Option<&WatchRequest> {
        match self.point.is_later {
            true => self.mailboxes.get(self.point.minor),
            false => None,
        }
    }

    /// Returns a variable of its program.
    #[inline(always)]
    pub(crate) fn variable(&self, scope: Scope, index: u32) -> Option<&Word> {
        match scope {
            Scope::Local => self.locals.get(index),
            Scope::Global => self.shared.globals.get(index),
        }
    }

    /// Returns true if its program may change where execution continues.
    pub(crate) fn moves(&self) -> bool {
        self.code.contains(&Insn::register(Op::PopR, Register::Ip))
    }

    /// Handles a hit, and writes its record at once.
    pub(crate) fn hit(&self, regs: &mut Regs<'_>) {
        if !self.is_done(regs.again(), Commit::Now) {
            self.run(regs, Commit::Now);
        }
    }

    /// Handles a hit of a kernel breakpoint, and writes its record at once. Returns where execution
    /// continues.
    #[inline(always)]
    pub(crate) fn hit_quickly(&self, ctx: &mut ProbeCtx<'_>) -> Next {
        match self.is_done(KernelRegs(ctx), Commit::Now) {
            true => Next::Continue,
            false => self.run_in_kernel(&mut ctx.again(), Commit::Now),
        }
    }

    /// Handles a hit of a kernel breakpoint. The record waits on this CPU for [`Point::completed`].
    /// Returns where execution continues.
    #[inline(always)]
    pub(crate) fn hit_before(&self, ctx: &mut ProbeCtx<'_>) -> Next {
        let commit = Commit::OnCpu(ctx.ip());
        if self.is_done(KernelRegs(ctx), commit) {
            return Next::Continue;
        }
        let next = self.run_in_kernel(&mut ctx.again(), commit);
        if next != Next::Continue {
            // Neither the instruction nor the post handler is executed.
            self.completed();
        }
        next
    }

    /// Handles a hit in user space. The record waits in the task for [`Shared::completed_in_task`],
    /// as another CPU may execute the instruction. Context: process.
    pub(crate) fn hit_in_task(&self, regs: &mut Regs<'_>) {
        let address = regs.get(Register::Ip);
        // Drops the record of an earlier hit that was never reported as complete.
        drop(self.shared.in_task.take_of(task::address(), self.number));
        let commit = Commit::InTask(address.unwrap_or(0) as usize);
        if !self.is_done(regs.again(), commit) {
            self.run(regs, commit);
        }
        if regs.get(Register::Ip) != address {
            // Execution continues elsewhere: the instruction is not executed.
            if let Some(waiting) = self.shared.in_task.take_of(task::address(), self.number) {
                self.shared.write(&waiting);
            }
        }
    }

    /// Counts a hit. Returns true if the hit is done: its program does not run, or was simple
    /// enough to be finished here. Returns false if the program has to be run.
    ///
    /// Functions that are not inlined do not get the registers, so that the registers need not be
    /// in memory.
    #[inline(always)]
    fn is_done<R: Registers>(&self, mut regs: R, commit: Commit) -> bool {
        let hit = self.hits.add(1);
        // Very large for hits before the first that counts.
        let nth = hit.wrapping_sub(self.pass);
        if nth >= self.last.load() && self.is_over(nth) {
            if let Commit::OnCpu(address) = commit {
                self.forget(address);
            }
            return true;
        }
        let here = HitContext {
            regs: &mut regs,
            point: self,
        };
        match &self.strategy {
            Strategy::Count(one) => one.add(&here),
            Strategy::Counts => count(&self.code, &here),
            Strategy::Tally(tally) => return tally.count(&here),
            // Not at a watchpoint: the reads of a program may hit it.
            Strategy::Pair(plain) if R::IS_ALONE => {
                return self.log::<Pair, R>(plain, &here, commit)
            }
            Strategy::Word(plain) if R::IS_ALONE => {
                return self.log::<OfWords<1>, R>(plain, &here, commit);
            }
            Strategy::TwoWords(plain) if R::IS_ALONE => {
                return self.log::<OfWords<2>, R>(plain, &here, commit);
            }
            _ => return false,
        }
        true
    }

    /// Builds the record of a plain program. Returns false if nothing was done, and the program has
    /// to be run.
    #[inline(always)]
    fn log<F: Form, R: Registers>(
        &self,
        plain: &Plain,
        here: &HitContext<'_, R>,
        commit: Commit,
    ) -> bool {
        match commit {
            Commit::Now => record::place::<F, R>(plain, here, &self.shared.channel),
            Commit::OnCpu(address) => self.keep_plain::<F, R>(plain, here, address),
            Commit::InTask(_) => false,
        }
    }

    /// Runs the program at a kernel breakpoint, unless its record can be built directly. Returns
    /// where execution continues.
    #[inline(never)]
    fn run_in_kernel(&self, ctx: &mut ProbeCtx<'_>, commit: Commit) -> Next {
        let mut regs = KernelRegsMut::new(ctx);
        if let Strategy::Steps(plain) = &self.strategy {
            let here = HitContext {
                regs: &mut regs,
                point: self,
            };
            if self.log::<Steps, _>(plain, &here, commit) {
                return Next::Continue;
            }
        }
        self.run(&mut regs, commit);
        regs.next
    }

    /// Keeps the record of a plain program on this CPU, if no other record waits there.
    #[inline(always)]
    fn keep_plain<F: Form, R: Registers>(
        &self,
        plain: &Plain,
        here: &HitContext<'_, R>,
        address: usize,
    ) -> bool {
        let Some(mut scratch) = self.shared.scratch.enter() else {
            return false;
        };
        let (_, pending) = scratch.parts();
        if !pending.is_empty() {
            return false;
        }
        let record = pending.first(self.number, address, F::len(plain));
        if record.is_some_and(|record| F::write(plain, here, record)) {
            return true;
        }
        pending.clear();
        false
    }

    /// Returns true if the program does not run at the hit with this index, counted after `pass`.
    /// Called from the last hit on that may run if none is missed.
    #[cold]
    fn is_over(&self, nth: usize) -> bool {
        if nth >= DORMANT {
            return true;
        }
        let runs = self.runs.load();
        let is_over = match self.strategy {
            // `run_now()` decides.
            Strategy::Run => self.began.load() >= runs,
            _ => nth >= runs && (runs == 0 || !self.replaces()),
        };
        if is_over || !matches!(self.strategy, Strategy::Run) && nth < runs {
            self.ask();
        }
        is_over
    }

    /// Replaces a missed hit. Returns false if all missed hits have been replaced.
    fn replaces(&self) -> bool {
        let is_one = self.replaced.add(1) < self.missed();
        if !is_one {
            self.replaced.add(usize::MAX);
        }
        is_one
    }

    /// Begins a run that can no longer be missed. Returns false if all permitted runs have begun.
    #[inline(always)]
    fn begins(&self) -> bool {
        let nth = self.began.add(1);
        // Decided in `begins_last()` from the last run on.
        if nth < self.last.load() {
            return true;
        }
        self.begins_last(nth)
    }

    #[cold]
    fn begins_last(&self, nth: usize) -> bool {
        let is_one = nth < self.runs.load();
        if !is_one {
            self.began.add(usize::MAX);
        }
        self.ask();
        is_one
    }

    /// Asks the reaper to check whether the breakpoint can be removed.
    #[cold]
    fn ask(&self) {
        if self.asked.load() == 0 {
            self.asked.store(1);
            self.shared.ask();
        }
    }

    /// Returns true if the reaper was asked to look at this point, and its program never runs
    /// again. Clears the request: the point is examined again after the next one.
    pub(crate) fn is_to_go(&self) -> bool {
        self.asked.swap(0) != 0 && self.is_used_up()
    }

    /// Forgets the record of an instruction that did not complete.
    #[cold]
    fn forget(&self, address: usize) {
        match self.shared.scratch.enter() {
            Some(mut scratch) => scratch.parts().1.begin(self.number, address),
            None => self.shared.scratch.invalidate_pending(),
        }
    }

    /// Runs the program with interrupts off. Interrupts, and hits in them, wait until the program
    /// and the probe handler have finished.
    #[inline(never)]
    fn run<R: Registers>(&self, regs: &mut R, commit: Commit) {
        regs.hold_irqs();
        with_irqs_off(|_| self.run_now(regs, commit));
    }

    #[inline(always)]
    fn run_now<R: Registers>(&self, regs: &mut R, commit: Commit) {
        let mut here = HitContext { regs, point: self };
        let Some(mut scratch) = self.shared.scratch.enter() else {
            self.missed.add(1);
            if let Commit::OnCpu(_) = commit {
                self.shared.scratch.invalidate_pending();
            }
            return;
        };
        let (memory, pending) = scratch.parts();
        if let Commit::OnCpu(address) = commit {
            pending.begin(self.number, address);
        }
        if matches!(self.strategy, Strategy::Run) && !self.begins() {
            return;
        }
        let outcome = run(&self.limits, &self.code, memory, &mut here);
        if outcome.overflowed {
            self.truncated.add(1);
        }
        if outcome.end != End::Exit || !outcome.is_empty() {
            if outcome.end != End::Exit {
                self.note(&outcome);
            }
            if !outcome.is_empty() {
                let commit = match exit_action::is_asked(outcome.end) {
                    true => Commit::Now,
                    false => commit,
                };
                match outcome.record(header(&outcome, &here), memory) {
                    Some(record) => self.keep(commit, pending, record),
                    None => self.keep_pieces(commit, pending, &outcome, &here, memory),
                }
            }
            if outcome.end != End::Exit {
                let [log, _] = outcome.data(memory);
                exit_action::leave(&outcome, log);
            }
        }
    }

    /// Writes a contiguous record, or keeps it until its instruction completes.
    #[inline(always)]
    fn keep(&self, commit: Commit, pending: &mut CpuRecords, record: &[u8]) {
        match commit {
            Commit::Now => record::write(record, &self.shared.channel, self.output.target),
            Commit::OnCpu(_) => match pending.room(self.number, record.len()) {
                Some(room) => copy_slice(room, record),
                None => drop(self.truncated.add(1)),
            },
            Commit::InTask(address) => {
                self.keep_in_task(address, record.len(), |room| copy_slice(room, record));
            }
        }
    }

    /// Writes or keeps a record with fields or a trace.
    #[inline(never)]
    fn keep_pieces<R: Registers>(
        &self,
        commit: Commit,
        pending: &mut CpuRecords,
        outcome: &Outcome,
        here: &HitContext<'_, R>,
        memory: &Memory,
    ) {
        let record = Record::new(outcome, here, outcome.data(memory));
        match commit {
            Commit::Now => record.write(&self.shared.channel, self.output.target),
            Commit::OnCpu(_) => match pending.room(self.number, record.len()) {
                Some(room) => record.fill(room),
                None => drop(self.truncated.add(1)),
            },
            Commit::InTask(address) => {
                self.keep_in_task(address, record.len(), |room| record.fill(room));
            }
        }
    }

    /// Keeps a record of this length in the current task.
    #[inline(never)]
    fn keep_in_task(&self, address: usize, len: usize, fill: impl FnOnce(&mut [u8])) {
        let whose = (task::address(), self.number, address);
        let in_task = &self.shared.in_task;
        if !in_task.keep(whose, self.output.target, len, fill) {
            self.truncated.add(1);
        }
    }

    /// Writes the pending record: the probed instruction has been executed.
    #[inline(always)]
    pub(crate) fn completed(&self) {
        let Some(mut scratch) = self.shared.scratch.enter() else {
            return;
        };
        let (_, pending) = scratch.parts();
        pending.take(self.number, |record| {
            record::write(record, &self.shared.channel, self.output.target);
        });
    }

    #[cold]
    fn note(&self, outcome: &Outcome) {
        match outcome.end {
            End::Fault(_) => {
                self.faults.add(1);
            }
            End::Remove => {
                self.is_removed.store(1);
                self.end();
                self.ask();
            }
            _ => (),
        }
    }

    /// Returns the number of hits, including the initial hits that do not run the program.
    pub(crate) fn hits(&self) -> usize {
        self.hits.load()
    }

    /// Returns true if its program has run as often as it may.
    pub(crate) fn is_used_up(&self) -> bool {
        let runs = self.runs.load();
        match self.strategy {
            Strategy::Run => self.began.load() >= runs,
            _ => {
                let has_all = |hits| hits >= runs && self.replaced.load() >= self.missed();
                runs == 0 || self.hits().checked_sub(self.pass).is_some_and(has_all)
            }
        }
    }

    /// Returns the number of hits at which the program ran, or is running.
    pub(crate) fn runs(&self) -> usize {
        let most = usize::try_from(self.point.max_hits).unwrap_or(usize::MAX);
        match self.strategy {
            Strategy::Run => self.began.load(),
            // These programs do not remove their point.
            _ => {
                let hits = self.hits().saturating_sub(self.pass).min(most);
                let missed = self.missed().saturating_sub(self.replaced.load());
                hits.saturating_sub(missed)
            }
        }
    }

    /// Returns the number of hits that did not run the program because another was running on the
    /// CPU.
    pub(crate) fn missed(&self) -> usize {
        self.missed.load()
    }

    /// Returns the number of runs that logged more than there was room for. Includes runs that lost
    /// their record because other points of the instruction had taken the room, or for lack of
    /// memory.
    pub(crate) fn truncated(&self) -> usize {
        self.truncated.load()
    }

    /// Returns the number of runs that ended with an exception.
    pub(crate) fn faults(&self) -> usize {
        self.faults.load()
    }

    /// Returns true if its program has removed it.
    pub(crate) fn is_removed(&self) -> bool {
        self.is_removed.load() != 0
    }
}
