// SPDX-License-Identifier: GPL-2.0

//! A point, as a hit sees it.
//!
//! Contexts: making process; hits any, NMI included. A hit while a program runs on the same CPU is counted, and runs nothing.
#![deny(unsafe_code)]

use ferro_core::rpn;
use ferro_core::rpn::count;
use ferro_core::rpn::only_counts;
use ferro_core::rpn::run;
use ferro_core::rpn::End;
use ferro_core::rpn::Insn;
use ferro_core::rpn::Limits;
use ferro_core::rpn::Outcome;
use ferro_core::rpn::PointRef;
use ferro_core::rpn::Target;
use ferro_fast_relay::Channel;
use ferro_sys::sync::word::Word;
use kernel::prelude::*;
use kernel::sync::Arc;

use crate::here::Here;
use crate::leaving;
use crate::raw::permission::Permission;
use crate::raw::scratch::Scratch;
use crate::record::Record;
use crate::registers::Registers;
use crate::variables::Variables;

/// What all points share.
pub(crate) struct Shared {
    pub(crate) globals: Variables,
    pub(crate) scratch: Scratch,
    pub(crate) channel: Channel,
}

/// Where records of a point go, and what they tell.
#[derive(Clone, Copy)]
pub(crate) struct Output {
    pub(crate) fields: u16,
    pub(crate) target: Target,
}

/// When a record is written.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum When {
    /// At once.
    Now,
    /// When the probed instruction has been executed.
    After,
}

/// A point.
pub(crate) struct Point {
    // What every hit uses.
    hits: Word,
    /// Hits of which the program does not run, at the beginning.
    pass: usize,
    /// Hits of which it runs after that; 0 once it has been removed.
    runs: Word,
    code: KVVec<Insn>,
    only_counts: bool,
    limits: Limits,
    pub(crate) locals: Arc<Variables>,
    pub(crate) shared: Arc<Shared>,
    // The rest.
    pub(crate) permission: Option<Permission>,
    pub(crate) output: Output,
    missed: Word,
    faults: Word,
    /// Whether the program has removed it.
    is_removed: Word,
    pub(crate) point: rpn::Point,
    logs: bool,
}

impl Point {
    /// Errors: -ENOMEM.
    pub(crate) fn new(
        header: &rpn::Header,
        point: &PointRef<'_>,
        output: Output,
        permission: Option<Permission>,
        locals: Arc<Variables>,
        shared: Arc<Shared>,
    ) -> Result<Self> {
        let PointRef { point, code, .. } = *point;
        let mut insns = KVVec::with_capacity(code.len(), GFP_KERNEL)?;
        for insn in code.insns() {
            insns.push(insn, GFP_KERNEL)?;
        }
        Ok(Self {
            hits: Word::new(0),
            pass: usize::try_from(point.pass_count)?,
            runs: Word::new(usize::try_from(point.max_hits)?),
            only_counts: only_counts(&insns),
            code: insns,
            limits: Limits {
                jumps: header.jmpmax,
                log: header.logmax,
                trace: header.ex_logmax,
                heap: point.heap_size,
                ex_mask: point.ex_mask,
                auto_stack_trace: header.auto_stack_trace,
                major: point.major,
                minor: point.minor,
            },
            locals,
            shared,
            permission,
            output,
            missed: Word::new(0),
            faults: Word::new(0),
            is_removed: Word::new(0),
            point,
            logs: code.effects().logs,
        })
    }

    /// When its records are written: at once if it logs nothing, as that is quicker, and then an exception is all that there is.
    pub(crate) fn when(&self) -> When {
        match self.logs && !self.point.log_on_fault {
            true => When::After,
            false => When::Now,
        }
    }

    /// A number that no other point has at the same time.
    #[inline(always)]
    fn number(&self) -> usize {
        core::ptr::from_ref(self).addr()
    }

    /// It was hit. Returns the registers as the program has left them.
    #[inline(always)]
    pub(crate) fn hit<R: Registers>(&self, regs: R, when: When) -> R {
        let hit = self.hits.add(1);
        // Before the first that counts, this is a very large number.
        if hit.wrapping_sub(self.pass) >= self.runs.load() {
            return regs;
        }
        let here = Here { regs, point: self };
        if self.only_counts {
            count(&self.code, &here);
            return here.regs;
        }
        self.run(here, when)
    }

    /// Runs the program.
    #[inline(never)]
    fn run<'a, R: Registers>(&'a self, mut here: Here<'a, R>, when: When) -> R {
        let Some(mut room) = self.shared.scratch.enter() else {
            self.missed.add(1);
            return here.regs;
        };
        let (memory, pending) = room.parts();
        if when == When::After {
            // One of an instruction that has faulted, maybe.
            pending.clear();
        }
        let outcome = run(&self.limits, &self.code, memory, &mut here);
        if outcome.end != End::Exit || !outcome.is_empty() {
            if outcome.end != End::Exit {
                self.note(&outcome);
            }
            if !outcome.is_empty() {
                let record = Record::new(&outcome, &here, outcome.data(memory));
                match when {
                    When::After => {
                        pending.begin(self.number());
                        record.pieces(|piece| pending.put(piece));
                    }
                    When::Now => record.write(&self.shared.channel, self.output.target),
                }
            }
            if outcome.end != End::Exit {
                leaving::leave(outcome.end);
            }
        }
        here.regs
    }

    /// The probed instruction has been executed.
    #[inline(always)]
    pub(crate) fn completed(&self) {
        let Some(mut room) = self.shared.scratch.enter() else {
            return;
        };
        let (_, pending) = room.parts();
        if let Some(record) = pending.take(self.number()) {
            crate::record::write(record, &self.shared.channel, self.output.target);
        }
    }

    #[cold]
    fn note(&self, outcome: &Outcome) {
        match outcome.end {
            End::Fault(_) => {
                self.faults.add(1);
            }
            End::Remove => {
                self.is_removed.store(1);
                self.runs.store(0);
            }
            _ => (),
        }
    }

    /// Hits, those at the beginning included.
    pub(crate) fn hits(&self) -> usize {
        self.hits.load()
    }

    /// Whether its program has run as often as it may.
    pub(crate) fn is_used_up(&self) -> bool {
        self.hits().wrapping_sub(self.pass) >= self.runs.load() && self.hits() >= self.pass
    }

    /// Hits of which the program has run, or is running.
    pub(crate) fn runs(&self) -> usize {
        let most = usize::try_from(self.point.max_hits).unwrap_or(usize::MAX);
        let counted = self.hits().saturating_sub(self.pass).min(most);
        counted.saturating_sub(self.missed())
    }

    /// Hits of which it should have run, and another was running on the CPU.
    pub(crate) fn missed(&self) -> usize {
        self.missed.load()
    }

    /// Runs that an exception has ended.
    pub(crate) fn faults(&self) -> usize {
        self.faults.load()
    }

    /// Whether its program has removed it.
    pub(crate) fn is_removed(&self) -> bool {
        self.is_removed.load() != 0
    }
}
