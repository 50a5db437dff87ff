// SPDX-License-Identifier: GPL-2.0

//! Point of a program, as a hit sees it.
//!
//! Contexts: making process; hits any, NMI included. Interrupts are off while a program is
//! interpreted. A hit while a program runs on the same CPU is counted but runs nothing. Such a hit
//! is in an NMI, or in code that the program itself uses.
#![deny(unsafe_code)]

use ferro_dprobes_core as rpn;
use ferro_dprobes_core::count;
use ferro_dprobes_core::fuse;
use ferro_dprobes_core::run;
use ferro_dprobes_core::End;
use ferro_dprobes_core::Form;
use ferro_dprobes_core::Insn;
use ferro_dprobes_core::Limits;
use ferro_dprobes_core::Memory;
use ferro_dprobes_core::OfWords;
use ferro_dprobes_core::Op;
use ferro_dprobes_core::Outcome;
use ferro_dprobes_core::Pair;
use ferro_dprobes_core::Plain;
use ferro_dprobes_core::PointRef;
use ferro_dprobes_core::Register;
use ferro_dprobes_core::Steps;
use ferro_kprobe::Next;
use ferro_kprobe::ProbeCtx;
use ferro_sys::cpu::with_irqs_off;
use ferro_sys::sync::shared_word::copy_slice;
use ferro_sys::sync::shared_word::Word;
use kernel::prelude::*;

use crate::cpu_records::CpuRecords;
use crate::hit_context::HitContext;
use crate::hit_context::PointEnv;
use crate::hit_counter::HitCounter;
use crate::raw::call_targets;
use crate::raw::current;
use crate::raw::regs::Regs;
use crate::raw::scratch::PendingRecords;
use crate::record;
use crate::record::header;
use crate::record::RunRecord;
use crate::registers::KernelRegs;
use crate::registers::KernelRegsMut;
use crate::registers::Registers;
use crate::strategy::Strategy;
use crate::watch_request::WatchRequest;

/// Time at which the record of a hit is written.
#[derive(Clone, Copy)]
enum Commit {
    /// At once.
    Now,
    /// After this CPU has executed the instruction at an address.
    OnCpu(usize),
    /// After this task has executed the instruction at an address.
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

/// Probe point. It runs no program before [`HitCounter::begin`].
pub(crate) struct Point {
    // Used at every hit.
    pub(crate) counter: HitCounter,
    code: KVVec<Insn>,
    strategy: Strategy,
    limits: Limits,
    env: PointEnv,
    // Used less often.
    faults: Word,
    /// 1 once the program has removed the point.
    is_removed: Word,
    /// Number of runs that logged more than was kept.
    truncated: Word,
    /// Unique number.
    number: usize,
    pub(crate) definition: rpn::Point,
    logs: bool,
}

impl Point {
    /// Makes a point that has not begun. Errors: -ENOMEM.
    pub(crate) fn new(header: &rpn::Header, point: &PointRef<'_>, env: PointEnv) -> Result<Self> {
        let PointRef { point, code, .. } = *point;
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
        let strategy = Strategy::new(&limits, env.output, &insns);
        fuse(&mut insns);
        Ok(Self {
            counter: HitCounter::new(&point, matches!(strategy, Strategy::Interpret))?,
            code: insns,
            strategy,
            limits,
            number: env.runtime.number_point(),
            env,
            faults: Word::new(0),
            is_removed: Word::new(0),
            truncated: Word::new(0),
            definition: point,
            logs: code.effects().logs,
        })
    }

    /// Returns when its records are written: at once if the program asks for records even of
    /// instructions that fault. Also at once if it logs nothing: it then has only records of
    /// exceptions, and writing these at once is quicker.
    pub(crate) fn write_time(&self) -> WriteTime {
        match self.logs && !self.definition.log_on_fault {
            true => WriteTime::AfterInsn,
            false => WriteTime::AtOnce,
        }
    }

    /// Returns the watch request, if a program supplies the watchpoint's address.
    pub(crate) fn watch_request(&self) -> Option<&WatchRequest> {
        match self.definition.is_later {
            true => self.env.watch_requests.get(self.definition.minor),
            false => None,
        }
    }

    /// Returns true if its program may change where execution continues.
    pub(crate) fn may_move_ip(&self) -> bool {
        self.code.contains(&Insn::register(Op::PopR, Register::Ip))
    }

    /// Handles a hit, and writes its record at once.
    pub(crate) fn hit(&self, regs: &mut Regs<'_>) {
        if !self.try_simple(regs.again(), Commit::Now) {
            self.run(regs, Commit::Now);
        }
    }

    /// Handles a hit of a kernel breakpoint, and writes its record at once. Returns where execution
    /// continues.
    #[inline(always)]
    pub(crate) fn hit_and_write(&self, ctx: &mut ProbeCtx<'_>) -> Next {
        match self.try_simple(KernelRegs(ctx), Commit::Now) {
            true => Next::Continue,
            false => self.run_in_kernel(&mut ctx.again(), Commit::Now),
        }
    }

    /// Handles a hit of a kernel breakpoint. The record waits on this CPU for [`Point::complete`].
    /// Returns where execution continues.
    #[inline(always)]
    pub(crate) fn hit_and_keep(&self, ctx: &mut ProbeCtx<'_>) -> Next {
        let commit = Commit::OnCpu(ctx.ip());
        if self.try_simple(KernelRegs(ctx), commit) {
            return Next::Continue;
        }
        let next = self.run_in_kernel(&mut ctx.again(), commit);
        if next != Next::Continue {
            // Neither the instruction nor the post handler will be executed.
            self.complete();
        }
        next
    }

    /// Handles a hit in user space. The record waits in the task for [`Runtime::complete_in_task`],
    /// as another CPU may execute the instruction. Context: process.
    pub(crate) fn hit_in_task(&self, regs: &mut Regs<'_>) {
        let address = regs.get(Register::Ip);
        // Drops the record of an earlier hit that was never reported as complete.
        drop(
            self.env
                .runtime
                .task_records
                .take_of(current::task(), self.number),
        );
        let commit = Commit::InTask(address.unwrap_or(0) as usize);
        if !self.try_simple(regs.again(), commit) {
            self.run(regs, commit);
        }
        if regs.get(Register::Ip) != address {
            // Execution continues elsewhere: the instruction is not executed.
            let pending = self
                .env
                .runtime
                .task_records
                .take_of(current::task(), self.number);
            if let Some(pending) = pending {
                self.env.runtime.write_task_record(&pending);
            }
        }
    }

    /// Counts a hit. Returns true if the hit is done: the program does not run at it, or was simple
    /// enough to be executed here. Returns false if the program has to be run.
    ///
    /// The registers are not passed to functions that are not inlined, and so need not be in
    /// memory.
    #[inline(always)]
    fn try_simple<R: Registers>(&self, mut regs: R, commit: Commit) -> bool {
        if self.counter.skips_hit() {
            if let Commit::OnCpu(address) = commit {
                self.drop_incomplete(address);
            }
            return true;
        }
        let ctx = HitContext {
            regs: &mut regs,
            env: &self.env,
        };
        match &self.strategy {
            Strategy::Count(one) => one.add(&ctx),
            Strategy::Counts => count(&self.code, &ctx),
            Strategy::Tally(tally) => return tally.count(&ctx),
            // Only at a kprobe: a program's reads may hit a watchpoint.
            Strategy::Pair(plain) if R::CANNOT_NEST => {
                return self.log::<Pair, R>(plain, &ctx, commit)
            }
            Strategy::Word(plain) if R::CANNOT_NEST => {
                return self.log::<OfWords<1>, R>(plain, &ctx, commit);
            }
            Strategy::TwoWords(plain) if R::CANNOT_NEST => {
                return self.log::<OfWords<2>, R>(plain, &ctx, commit);
            }
            _ => return false,
        }
        true
    }

    /// Builds the record of a program that only logs. Returns false, and does nothing, if the
    /// program has to be run.
    #[inline(always)]
    fn log<F: Form, R: Registers>(
        &self,
        plain: &Plain,
        ctx: &HitContext<'_, R>,
        commit: Commit,
    ) -> bool {
        match commit {
            Commit::Now => record::write_plain::<F, R>(plain, ctx),
            Commit::OnCpu(address) => self.keep_plain::<F, R>(plain, ctx, address),
            Commit::InTask(_) => false,
        }
    }

    /// Runs the program at a kernel breakpoint, unless its record can be built directly. Returns
    /// where execution continues.
    #[inline(never)]
    fn run_in_kernel(&self, probe: &mut ProbeCtx<'_>, commit: Commit) -> Next {
        let mut regs = KernelRegsMut::new(probe);
        if let Strategy::Steps(plain) = &self.strategy {
            let ctx = HitContext {
                regs: &mut regs,
                env: &self.env,
            };
            if self.log::<Steps, _>(plain, &ctx, commit) {
                return Next::Continue;
            }
        }
        self.run(&mut regs, commit);
        regs.next
    }

    /// Keeps the record of a program that only logs on this CPU, if no other record waits there.
    #[inline(always)]
    fn keep_plain<F: Form, R: Registers>(
        &self,
        plain: &Plain,
        ctx: &HitContext<'_, R>,
        address: usize,
    ) -> bool {
        let Some(mut scratch) = self.env.runtime.scratch.enter() else {
            return false;
        };
        let (_, pending) = scratch.parts();
        if !pending.is_empty() {
            return false;
        }
        let record = pending.reserve_first(self.number, address, F::len(plain));
        if record.is_some_and(|record| F::write(plain, ctx, record)) {
            return true;
        }
        pending.clear();
        false
    }

    /// Drops this CPU's records of instructions that did not complete.
    #[cold]
    fn drop_incomplete(&self, address: usize) {
        match self.env.runtime.scratch.enter() {
            Some(mut scratch) => scratch.parts().1.begin(self.number, address),
            None => self.env.runtime.scratch.invalidate_pending(),
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
        let mut ctx = HitContext {
            regs,
            env: &self.env,
        };
        let Some(mut scratch) = self.env.runtime.scratch.enter() else {
            self.counter.miss();
            if let Commit::OnCpu(_) = commit {
                self.env.runtime.scratch.invalidate_pending();
            }
            return;
        };
        let (memory, pending) = scratch.parts();
        if let Commit::OnCpu(address) = commit {
            pending.begin(self.number, address);
        }
        if !self.counter.begin_run() {
            return;
        }
        let outcome = run(&self.limits, &self.code, memory, &mut ctx);
        if outcome.overflowed {
            self.truncated.add(1);
        }
        if outcome.end != End::Exit || !outcome.is_empty() {
            if outcome.end != End::Exit {
                self.handle_abnormal_end(outcome.end);
            }
            if !outcome.is_empty() {
                let commit = match has_exit_action(outcome.end) {
                    true => Commit::Now,
                    false => commit,
                };
                match outcome.record(header(&outcome, &ctx), memory) {
                    Some(record) => self.commit(commit, pending, record),
                    None => self.commit_pieces(commit, pending, &outcome, &ctx, memory),
                }
            }
            if outcome.end != End::Exit {
                let [log, _] = outcome.data(memory);
                perform_exit_action(&outcome, log);
            }
        }
    }

    /// Writes a contiguous record, or keeps it until its instruction completes.
    #[inline(always)]
    fn commit(&self, commit: Commit, pending: &mut CpuRecords, record: &[u8]) {
        match commit {
            Commit::Now => self.env.runtime.write(record, self.env.output.target),
            Commit::OnCpu(_) => match pending.reserve(self.number, record.len()) {
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
    fn commit_pieces<R: Registers>(
        &self,
        commit: Commit,
        pending: &mut CpuRecords,
        outcome: &Outcome,
        ctx: &HitContext<'_, R>,
        memory: &Memory,
    ) {
        let record = RunRecord::new(outcome, ctx, outcome.data(memory));
        match commit {
            Commit::Now => record.write(),
            Commit::OnCpu(_) => match pending.reserve(self.number, record.len()) {
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
        let owner = (current::task(), self.number, address);
        let records = &self.env.runtime.task_records;
        if !records.keep(owner, self.env.output.target, len, fill) {
            self.truncated.add(1);
        }
    }

    /// Writes the pending record: the probed instruction has been executed.
    #[inline(always)]
    pub(crate) fn complete(&self) {
        let Some(mut scratch) = self.env.runtime.scratch.enter() else {
            return;
        };
        let (_, pending) = scratch.parts();
        pending.take(self.number, |record| {
            self.env.runtime.write(record, self.env.output.target);
        });
    }

    /// Counts a fault, or removes the point, after a run without a normal exit.
    #[cold]
    fn handle_abnormal_end(&self, end: End) {
        match end {
            End::Fault(_) => {
                self.faults.add(1);
            }
            End::Remove => {
                self.is_removed.store(1);
                self.counter.end();
                self.counter.request_detach();
            }
            _ => (),
        }
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

/// Returns true if a run ends with an action after which the kernel may not continue.
#[inline(always)]
fn has_exit_action(end: End) -> bool {
    matches!(
        end,
        End::Debugger | End::CrashDump | End::CoreDump | End::Facility(_)
    )
}

/// Performs the action at the end of a run. `log` is the log of the run.
#[cold]
fn perform_exit_action(outcome: &Outcome, log: &[u8]) {
    match outcome.end {
        End::Debugger => call_targets::debugger(),
        End::CrashDump => call_targets::crash(),
        End::CoreDump => call_targets::core_dump(),
        End::Facility(number) => call_targets::call_exit(number, outcome, log),
        End::Exit | End::Abort | End::Remove | End::Fault(_) => (),
    }
}
