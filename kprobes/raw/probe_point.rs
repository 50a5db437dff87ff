// SPDX-License-Identifier: GPL-2.0

//! Probe points: probed addresses, as hits see them, and the maps in which a hit finds its point.
//!
//! A copy of the instruction runs in a slot of the executable pool. A jump to the next instruction
//! follows it, or, for probes with post-handlers, a call of `post_trampoline.S`, which reaches the
//! handlers without a second breakpoint. With post-handlers, an instruction that works on
//! registers, or accesses memory once, is executed within the trap. An instruction that may branch
//! has no copy with such a call: nothing would restore the interrupt flag that was cleared for it.
//!
//! A task can be preempted in a copy that is followed by a jump. The CPU keeps no state of it, so
//! that another CPU may continue the task. The slot is freed after an RCU-tasks grace period, when
//! the task has left it. Thus one trap is enough, also with preemption. The copy that is followed
//! by the call runs with interrupts off, so that the handlers before and after the instruction run
//! on one CPU. Instructions that would notice this are exceptions.
//!
//! `insn_copy.rs` makes points, and `detour.rs` writes the words for its detours.
//!
//! Contexts: any.
#![deny(unsafe_code)]

use ferro_kprobes_core::jump::Displaced;
use ferro_kprobes_core::jump::JUMP_LEN;
use ferro_kprobes_core::Compute;
use ferro_kprobes_core::Emulation;
use ferro_sys::sync::shared_word::Word;

use super::insn_stub::StubRunner;
use super::lookup::AddressMap;
use super::lookup::ProbeList;

/// The points, by their addresses.
pub(crate) static POINTS: AddressMap<Point> = AddressMap::new();
/// The points, by the addresses in their copies at which a trap can happen.
pub(crate) static COPIES: AddressMap<Point> = AddressMap::new();

/// Length of a call or jump with a 32-bit distance.
pub(crate) const BRANCH: usize = 5;

/// How the instruction is executed.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Execution {
    /// By resuming at an address.
    Jumped(usize),
    /// By changing the registers.
    Emulated(Emulation),
    /// By a copy. If `stops`, a breakpoint follows it instead of a branch.
    Copied { stops: bool },
    /// By ftrace: the instruction is the call of an ftrace site.
    Ftrace,
}

/// A probed address.
#[repr(C)]
pub(crate) struct Point {
    /// At the start, as `detour.rs` requires.
    pub(crate) probes: ProbeList,
    pub(crate) address: usize,
    /// Address of the next instruction.
    pub(crate) next: usize,
    pub(crate) execution: Execution,
    /// Executes a copied instruction within the trap if a probe has a post-handler.
    pub(crate) in_trap: Option<Compute>,
    /// Executes other instructions within the trap, by generated code.
    pub(crate) stub: StubRunner,
    /// 1 if a probe has a post-handler, otherwise 0.
    pub(crate) has_post: Word,
    /// Address of the copy, or 0.
    pub(crate) copy: usize,
    /// Address of the copy that calls the post-handlers, or 0.
    pub(crate) post_copy: Word,
    /// A breakpoint follows the copy at `post_copy`, not a call: where its length could be
    /// misjudged, and on CPUs without `post_trampoline.S`.
    pub(crate) post_copy_stops: bool,
    /// Address where hits without post-handlers resume, or 0 if the instruction is emulated.
    pub(crate) onward: Word,
    /// Copies of the instruction and of the others which a jump covers, or is about to, as
    /// [`ResumeMap`]: hits resume there. Otherwise 0.
    pub(crate) detour: Word,
    /// As `detour`, but never reset: a task may still be in the detour when hits no longer resume
    /// there.
    pub(crate) last_detour: Word,
    /// Address of the first instruction's copy that runs in a detour between handlers, or 0. Never
    /// reset.
    pub(super) within: Word,
    /// Address of the copies of the other instructions that run after that, or 0. Never reset.
    pub(crate) rest: Word,
    /// Address of a substitute breakpoint, or 0.
    pub(crate) substitute: Word,
    /// The instruction reads or writes RFLAGS.IF, so that its copy runs with interrupts as they
    /// are.
    pub(crate) sees_interrupts: bool,
}

impl Point {
    /// Makes a point that is not hit yet.
    pub(crate) fn new(address: usize, next: usize, execution: Execution, copy: usize) -> Self {
        Self {
            probes: ProbeList::new(),
            address,
            next,
            execution,
            in_trap: None,
            stub: StubRunner::new(),
            has_post: Word::new(0),
            copy,
            post_copy: Word::new(0),
            post_copy_stops: false,
            onward: Word::new(onward(&execution, address, copy)),
            detour: Word::new(0),
            last_detour: Word::new(0),
            within: Word::new(0),
            rest: Word::new(0),
            substitute: Word::new(0),
            sees_interrupts: false,
        }
    }

    /// Returns the address of the breakpoint after the copy, or 0 if a branch is there.
    pub(crate) fn copy_end(&self) -> usize {
        match self.execution {
            Execution::Copied { stops: true } if self.copy != 0 => {
                self.copy.wrapping_add(self.len())
            }
            _ => 0,
        }
    }

    /// Returns the address of the breakpoint after the copy at `post_copy`, or 0 if a call is
    /// there.
    pub(crate) fn post_copy_end(&self) -> usize {
        match self.post_copy.load() {
            after if after != 0 && self.post_copy_stops => after.wrapping_add(self.len()),
            _ => 0,
        }
    }

    /// Returns the return address of the call after the copy at `post_copy`, or 0 without a call.
    pub(crate) fn post_copy_return(&self) -> usize {
        match self.post_copy.load() {
            after if after != 0 && !self.post_copy_stops => {
                after.wrapping_add(self.len()).wrapping_add(BRANCH)
            }
            _ => 0,
        }
    }

    /// Returns the length of the instruction.
    fn len(&self) -> usize {
        self.next.wrapping_sub(self.address)
    }

    /// Returns true if the instruction can be executed by changing the registers.
    pub(crate) fn runs_on_registers(&self) -> bool {
        let by_itself = matches!(
            self.execution,
            Execution::Jumped(_) | Execution::Emulated(_)
        );
        by_itself || self.in_trap.is_some()
    }

    /// Makes hits resume in these copies of the displaced instructions, or, with `None`, where they
    /// do without a detour.
    pub(crate) fn set_detour(&self, copies: Option<ResumeMap>) {
        self.detour.store(copies.map_or(0, ResumeMap::word));
        let onward = match copies {
            None => onward(&self.execution, self.address, self.copy),
            Some(copies) => ResumeMap::copies(copies.word()),
        };
        self.onward.store(onward);
    }
}

/// Returns [`Point::onward`] of a point without a detour.
fn onward(execution: &Execution, address: usize, copy: usize) -> usize {
    match execution {
        Execution::Copied { .. } => copy,
        Execution::Jumped(to) => *to,
        Execution::Ftrace => address,
        Execution::Emulated(_) => 0,
    }
}

/// Width of the address of the copies: a signed number, as all executable memory is within 2 GiB.
const ADDRESS_BITS: u32 = 32;
/// Width of each offset above the address. Field `n - 1` is for the instruction `n` bytes after the
/// first: the distance of its copy from the first copy, or 0 if there is none.
const WIDTH: u32 = 8;

/// Resume addresses of a detour, packed into one word. 0 stands for no detour.
///
/// The word has the address of the copies of the displaced instructions, and for each instruction
/// except the first the offset of its copy. A handler may send execution to an instruction that a
/// jump covers. The single word keeps readers from mixing the addresses of two detours.
#[derive(Clone, Copy)]
pub(crate) struct ResumeMap(usize);

impl ResumeMap {
    /// Packs the addresses of copies at `to`. `None` if `to` does not fit into 32 bits with a sign,
    /// or an offset does not fit.
    pub(crate) fn of(displaced: &Displaced, to: usize) -> Option<Self> {
        let mut word = 0;
        // All of these instructions begin within the jump.
        for from in (1..JUMP_LEN).rev() {
            let at = displaced.at().wrapping_add(from as u64);
            let copy = displaced.copy_of(at, to as u64).unwrap_or(0);
            word = word << WIDTH | usize::from(u8::try_from(copy).ok()?);
        }
        let low = to & ((1 << ADDRESS_BITS) - 1);
        let word = word << ADDRESS_BITS | low;
        (Self::copies(word) == to).then_some(Self(word))
    }

    pub(crate) fn word(self) -> usize {
        self.0
    }

    /// Returns the address of the first copy.
    #[inline(always)]
    pub(crate) fn copies(word: usize) -> usize {
        word as u32 as i32 as usize
    }

    /// Returns the address of the copy of the instruction `from` bytes after the first, or `None`
    /// if no instruction begins there.
    pub(crate) fn find(word: usize, from: usize) -> Option<usize> {
        if from == 0 || from >= JUMP_LEN {
            return None;
        }
        let place = word >> ADDRESS_BITS >> ((from - 1) as u32 * WIDTH);
        let copy = place & ((1 << WIDTH) - 1);
        (copy != 0).then(|| Self::copies(word).wrapping_add(copy))
    }
}
