// SPDX-License-Identifier: GPL-2.0

//! What happens when a probed instruction comes to be executed.
//!
//! Contexts: trap, with interrupts off, also within NMIs; nothing here sleeps, allocates or takes a lock. That a
//! handler runs on a CPU is kept in `kprobe_running()`: a probe that is hit then is counted as missed, and its
//! instruction is executed without any state of its own, however deep that nests.
#![deny(unsafe_code)]

use ferro_core::insn::jump::JUMP_LEN;
use ferro_core::insn::Emulation;
use ferro_sys::code::regs::Regs;
use ferro_sys::code::symbols::Shown;
use ferro_sys::code::text;
use ferro_sys::code::text::BREAKPOINT;
use ferro_sys::cpu::preempt::PreemptOff;
use ferro_sys::hook::typed::Atomic;
use kernel::bindings::kprobe;
use kernel::prelude::*;

use crate::detour_word::Parts;
use crate::probe_point::Execution;
use crate::probe_point::Point;
use crate::raw::address_map::AddressMap;
use crate::raw::address_map::Found;
use crate::raw::current_kprobe;
use crate::raw::current_kprobe::End;
use crate::raw::current_kprobe::Running;
use crate::raw::detour;
use crate::raw::extable::fix_up;
use crate::raw::kprobe::Kprobe;
use crate::raw::probe_list::ProbeList;
use crate::raw::trap_frame::Trap;

/// The points, by their addresses.
pub(crate) static POINTS: AddressMap<Point> = AddressMap::new();
/// The points, by those addresses of their copies at which something can happen.
pub(crate) static COPIES: AddressMap<Point> = AddressMap::new();

/// What the engine does in traps: [`breakpoint`] and [`fault`].
pub(crate) struct Hits;

/// The number of the exception.
const PAGE_FAULT: usize = 14;

/// A breakpoint of the kernel. Whether it is done with.
#[inline(always)]
pub(crate) fn breakpoint(trap: &mut Trap, here: &Atomic) -> bool {
    let address = trap.ip().wrapping_sub(1);
    let hit = POINTS.with_atomic(address, here, |point| point.hit(trap));
    hit.is_some() || no_point(address, trap)
}

/// A breakpoint where no point is.
#[cold]
fn no_point(address: usize, trap: &mut Trap) -> bool {
    let stop = COPIES.with(address, |point| point.stop(address, trap));
    stop.is_some() || is_stale(address, trap)
}

/// Whether the breakpoint was taken away between the trap and us. Then what is there now is executed.
#[cold]
fn is_stale(address: usize, regs: &mut Regs) -> bool {
    let mut byte = [BREAKPOINT];
    let stale = text::read_text(address, &mut byte).is_ok() && byte != [BREAKPOINT];
    if stale {
        regs.set_ip(address);
    }
    stale
}

/// A function with a probe on its ftrace site has been called, whose point this is, or was: then it has no probes.
#[inline(always)]
pub(crate) fn called(point: Found<'_, Point>, regs: &mut Regs) {
    point.called(regs);
}

/// The same, where a probe has a handler for after the instruction.
#[inline(always)]
pub(crate) fn called_with_post(address: usize, regs: &mut Regs) {
    POINTS.with(address, |point| point.called_with_post(address, regs));
}

/// The copy of an instruction has run, and has called. `at` is where it would go on.
#[inline(always)]
pub(crate) fn posted(at: usize, regs: &mut Regs) {
    let known = COPIES.with(at, |point| point.finish(regs));
    if known.is_none() {
        // Behind the call is a breakpoint, which nobody knows either.
        regs.set_ip(at);
    }
}

/// The first instruction of a detour has run, whose probes are not those that it had in mind. `at` is where the detour goes on.
pub(crate) fn call_after(at: usize, regs: &mut Regs) {
    COPIES.with(at, |point| {
        current_kprobe::run_within(|running| point.call_post(running, regs));
    });
}

/// The newest probe at an address, which stays as long as the caller has preemption off.
///
/// 0 is where nothing is, and stands for free places of the maps.
pub(crate) fn newest_at(address: usize) -> Option<*mut kprobe> {
    if address == 0 {
        return None;
    }
    let newest = POINTS.with(address, |point| {
        point.probes().iter().next().map(Kprobe::as_ptr)
    });
    newest.flatten()
}

/// A fault of the kernel. Whether it is done with.
pub(crate) fn fault(regs: &mut Regs, trapnr: usize) -> bool {
    // A general protection fault of a copy has interrupts on.
    let here = PreemptOff::new();
    let at = regs.ip();
    // A call of address 0 is no copy's: it stands for free places of the map.
    if at == 0 {
        return fault_in_handler(regs, trapnr, &here);
    }
    COPIES
        .with(at, |point| point.fault(at, regs, trapnr, &here))
        .flatten()
        .unwrap_or_else(|| fault_in_handler(regs, trapnr, &here))
}

/// The kernel dies of what has happened here. The log tells of the instruction if it is one that runs in a detour.
///
/// The instruction pointer stays: what is in the place of those after the first is no instruction, and others may yet repair it.
pub(crate) fn died(regs: &Regs) {
    let at = regs.ip();
    if let Some(place) = detour::with_detour(at, |point| point.displaced(at)) {
        pr_emerg!("the instruction at {} runs in a detour\n", Shown(place));
    }
}

/// A fault while handlers run. Whether the probe has dealt with it.
fn fault_in_handler(regs: &mut Regs, trapnr: usize, here: &PreemptOff) -> bool {
    current_kprobe::current(here).is_some_and(|probe| handle_fault(probe, regs, trapnr))
}

/// Calls a probe's handler for faults. Faults of its own are not its.
fn handle_fault(probe: Kprobe<'_>, regs: &mut Regs, trapnr: usize) -> bool {
    current_kprobe::while_busy(|| probe.fault(regs, trapnr))
}

/// A point that was found, and what happens there.
impl<'a> Found<'a, Point> {
    /// The probes.
    #[inline(always)]
    fn probes(self) -> Found<'a, ProbeList> {
        self.part(|point| &point.probes)
    }

    #[inline(always)]
    fn hit(self, trap: &mut Trap) {
        if current_kprobe::is_running() {
            return self.hit_within(trap);
        }
        let Some(probe) = self.probes().before() else {
            return self.hit_around(trap);
        };
        // The usual case, without a walk. The others are functions of their own, for which this one saves no registers.
        current_kprobe::run(|running| {
            running.enter(probe);
            match probe.pre(trap) {
                false => self.execute(trap),
                true => self.keep_out(trap),
            }
            End::Over
        });
    }

    /// While a handler runs.
    #[cold]
    fn hit_within(self, trap: &mut Trap) {
        self.miss();
        self.execute(trap);
    }

    /// Where the one probe has a handler for after the instruction, too, or where there is not one.
    #[inline(never)]
    fn hit_around(self, trap: &mut Trap) {
        let Some(probe) = self.probes().around() else {
            return self.hit_all(trap);
        };
        current_kprobe::run(|running| {
            running.enter(probe);
            if probe.pre(trap) {
                self.keep_out(trap);
                return End::Over;
            }
            let end = self.execute_and_finish(running, trap, |running, trap| {
                running.enter(probe);
                probe.post(trap);
            });
            self.keep_out(trap);
            end
        });
    }

    /// Whatever its probes are.
    #[cold]
    fn hit_all(self, trap: &mut Trap) {
        current_kprobe::run(|running| {
            if self.call_pre(running, trap) {
                self.keep_out(trap);
                return End::Over;
            }
            if self.has_post.load() == 0 {
                self.execute(trap);
                return End::Over;
            }
            let end = self.execute_and_finish(running, trap, |running, trap| {
                self.call_post(running, trap);
            });
            self.keep_out(trap);
            end
        });
    }

    /// At an ftrace site. The handlers see it as if it were a breakpoint.
    #[inline(always)]
    fn called(self, regs: &mut Regs) {
        if current_kprobe::is_running() {
            return self.miss();
        }
        let ip = regs.ip();
        regs.set_ip(self.address.wrapping_add(1));
        current_kprobe::run(|running| {
            match self.probes().before() {
                // The usual case, without a walk.
                Some(probe) => {
                    running.enter(probe);
                    if !probe.pre(regs) {
                        regs.set_ip(ip);
                    }
                }
                None => self.call_all(running, ip, regs),
            }
            End::Over
        });
    }

    /// The same, where a probe has a handler for after the instruction.
    #[inline(always)]
    fn called_with_post(self, address: usize, regs: &mut Regs) {
        if current_kprobe::is_running() {
            return self.miss();
        }
        let ip = regs.ip();
        regs.set_ip(address.wrapping_add(1));
        current_kprobe::run(|running| {
            match self.probes().around() {
                Some(probe) => {
                    running.enter(probe);
                    if !probe.pre(regs) {
                        probe.post_at(regs, |regs| regs.set_ip(self.next));
                        regs.set_ip(ip);
                    }
                }
                None => self.call_all(running, ip, regs),
            }
            End::Over
        });
    }

    /// A jump has come here in place of a breakpoint, and the instruction is executed on the registers.
    #[inline(always)]
    pub(crate) fn detoured(self, trap: &mut Trap) {
        if current_kprobe::is_running() {
            return self.missed(trap);
        }
        current_kprobe::run(|running| {
            if !self.call_pre(running, trap) {
                running.be_busy();
                match self.execute_here(trap) {
                    true => self.call_post(running, trap),
                    // The fault is for the copy, after which nobody is called.
                    false => self.missed(trap),
                }
            }
            self.keep_out(trap);
            End::Over
        });
    }

    /// A jump has come here, while a handler runs.
    #[cold]
    pub(crate) fn missed(self, regs: &mut Regs) {
        self.miss();
        regs.set_ip(Parts::copies(self.parts.load()));
    }

    /// Executes the instruction on the registers. Whether that was possible.
    fn execute_here(self, trap: &mut Trap) -> bool {
        match (&self.in_trap, &self.execution) {
            (Some(compute), _) => {
                let done = compute.run(trap).is_ok();
                trap.set_ip(self.next);
                done
            }
            (None, Execution::Jumped(to)) => {
                trap.set_ip(*to);
                true
            }
            (None, Execution::Emulated(emulation)) => self.emulate(emulation, trap),
            (None, Execution::Copied { .. } | Execution::Ftrace) => false,
        }
    }

    /// Who goes on at a displaced instruction other than the first goes on at its copy.
    #[inline(always)]
    pub(crate) fn keep_out(self, regs: &mut Regs) {
        let detour = self.detour.load();
        if detour != 0 {
            self.keep_out_of(detour, regs);
        }
    }

    #[cold]
    fn keep_out_of(self, detour: usize, regs: &mut Regs) {
        let from = regs.ip().wrapping_sub(self.address);
        if let Some(copy) = Parts::find(detour, from) {
            regs.set_ip(copy);
        }
    }

    /// Calls the handlers of several probes that have none after the instruction; one that has is only just being registered.
    #[cold]
    pub(crate) fn call_before(self, regs: &mut Regs) -> bool {
        current_kprobe::run_within(|running| {
            let mut probes = self.probes().iter();
            probes.any(|probe| {
                probe.is_enabled() && !probe.has_post() && {
                    running.enter(probe);
                    probe.pre(regs)
                }
            })
        })
    }

    /// The same for those that may have such a handler.
    #[cold]
    pub(crate) fn call_around(self, regs: &mut Regs) -> bool {
        current_kprobe::run_within(|running| self.call_pre(running, regs))
    }

    /// Calls the handlers of all probes at an ftrace site, where execution goes on at `ip`.
    #[cold]
    fn call_all(self, running: &mut Running<'a>, ip: usize, regs: &mut Regs) {
        if self.call_pre(running, regs) {
            return;
        }
        if self.has_post.load() != 0 {
            regs.set_ip(self.next);
            self.call_post(running, regs);
        }
        regs.set_ip(ip);
    }

    /// Calls the handlers before the instruction. Whether one of them changed where execution goes on.
    #[inline(always)]
    fn call_pre(self, running: &mut Running<'a>, regs: &mut Regs) -> bool {
        for probe in self.probes().iter().filter(|p| p.is_enabled()) {
            running.enter(probe);
            if probe.pre(regs) {
                return true;
            }
        }
        false
    }

    /// Calls the handlers after the instruction.
    #[inline(always)]
    fn call_post(self, running: &mut Running<'a>, regs: &mut Regs) {
        for probe in self.probes().iter().filter(|p| p.is_enabled()) {
            running.enter(probe);
            probe.post(regs);
        }
    }

    #[cold]
    fn miss(self) {
        for probe in self.probes().iter().filter(|p| p.is_enabled()) {
            probe.count_missed();
        }
    }

    /// Has the instruction executed, with nothing to be done afterwards.
    #[inline(always)]
    fn execute(self, trap: &mut Trap) {
        match self.onward.load() {
            0 => self.emulate_here(trap),
            onward => trap.set_ip(onward),
        }
    }

    /// One for which it takes more than going on elsewhere.
    #[inline(never)]
    fn emulate_here(self, trap: &mut Trap) {
        self.execute_once(trap);
    }

    /// Has it executed, without those after it that a jump is going to cover. Whether it has been, or is a copy's.
    #[inline(always)]
    fn execute_once(self, trap: &mut Trap) -> bool {
        match &self.execution {
            Execution::Copied { .. } => trap.set_ip(self.copy),
            Execution::Jumped(to) => trap.set_ip(*to),
            Execution::Emulated(emulation) => return self.emulate(emulation, trap),
            Execution::Ftrace => trap.set_ip(self.address),
        }
        true
    }

    /// Whether it has been executed. If not, its copy has the fault.
    #[inline(always)]
    fn emulate(self, emulation: &Emulation, trap: &mut Trap) -> bool {
        if self.copy != 0 {
            return self.emulate_with_operand(emulation, trap);
        }
        // Of the others' accesses, to the stack, none fails.
        if let Ok(next) = emulation.run(self.address as u64, trap) {
            trap.set_ip(next as usize);
        }
        true
    }

    /// One with an operand in memory. If the access faults, the copy runs instead, where the fault is handled.
    fn emulate_with_operand(self, emulation: &Emulation, trap: &mut Trap) -> bool {
        let result = current_kprobe::while_busy(|| emulation.run(self.address as u64, trap));
        trap.set_ip(result.map_or(self.copy, |next| next as usize));
        result.is_ok()
    }

    /// Has the instruction executed, and the handlers for after it called. The probes stay the running ones until then.
    #[inline(always)]
    fn execute_and_finish(
        self,
        running: &mut Running<'a>,
        trap: &mut Trap,
        finish: impl FnOnce(&mut Running<'a>, &mut Trap),
    ) -> End {
        if self.in_trap.is_some() || self.apart.is_there() {
            // If the access faults, the copy runs instead, where the fault is handled.
            running.be_busy();
            let done = match &self.in_trap {
                Some(compute) => compute.run(trap).is_ok(),
                None => self.apart.run(trap),
            };
            if done {
                trap.set_ip(self.next);
                finish(running, trap);
                return End::Over;
            }
            if self.after.load() == 0 {
                self.execute(trap);
                return End::Over;
            }
        }
        let after = self.after.load();
        if matches!(self.execution, Execution::Copied { .. }) && after != 0 {
            trap.set_ip(after);
            if self.sees_interrupts {
                return End::Over;
            }
            let Some(first) = self.probes().iter().next() else {
                // Unregistered meanwhile. Without a running probe, an NMI could take what we keep. A jump may still be there.
                self.execute(trap);
                return End::Over;
            };
            return End::InCopy(running.leave_to_copy(trap, first));
        }
        if self.execute_once(trap) {
            finish(running, trap);
        }
        End::Over
    }

    /// The copy of an instruction has run. Interrupts are off.
    #[inline(always)]
    fn finish(self, regs: &mut Regs) {
        if !self.sees_interrupts {
            current_kprobe::unmask(regs);
        }
        regs.set_ip(self.next);
        current_kprobe::run(|running| {
            self.call_post(running, regs);
            End::Over
        });
        self.keep_out(regs);
    }

    /// The breakpoint after a copy, or the one of a detour.
    fn stop(self, at: usize, trap: &mut Trap) {
        if at == self.after_end() {
            self.finish(trap);
        } else if at == self.copy_end() {
            trap.set_ip(self.next);
        } else {
            trap.set_ip(self.address.wrapping_add(1));
            self.hit(trap);
        }
    }

    /// The address of the instruction whose copy in a detour is at an address, for those after the first.
    fn displaced(self, at: usize) -> Option<usize> {
        let parts = self.parts.load();
        // Where handlers are called after the first, the others have copies of their own.
        let same = match self.rest.load() {
            0 => None,
            rest => Parts::find(parts, self.next.wrapping_sub(self.address))
                .map(|second| at.wrapping_sub(rest).wrapping_add(second)),
        };
        let is_at = |from: &usize| {
            Parts::find(parts, *from).is_some_and(|copy| copy == at || Some(copy) == same)
        };
        let from = (1..JUMP_LEN).find(is_at)?;
        Some(self.address.wrapping_add(from))
    }

    /// A fault of the instruction of a copy: of the instruction itself, to what looks up its address. Whether it is
    /// done with; `None` if it is not such a fault.
    fn fault(self, at: usize, regs: &mut Regs, trapnr: usize, here: &PreemptOff) -> Option<bool> {
        let after = self.after.load();
        let access = self.apart.access();
        if at == access && access != 0 {
            // Within the trap. The copy has the fault once more.
            regs.set_ip(self.apart.failed());
            return Some(true);
        }
        if detour::leave_within(self, regs) {
            // The kernel tells of the instruction. If the fault can be repaired, the jump is executed once more.
            return Some(trapnr != PAGE_FAULT && fix_up(regs, trapnr));
        }
        if at != self.copy && at != after && at != Parts::copies(self.detour.load()) {
            return None;
        }
        let finishes = at == after && !self.sees_interrupts;
        if finishes {
            current_kprobe::unmask(regs);
        }
        regs.set_ip(self.address);
        let handled = match current_kprobe::is_running() && !finishes {
            // A probe that was missed, in the handler of another.
            true => fault_in_handler(regs, trapnr, here),
            false => {
                let mut probes = self.probes().iter().filter(|p| p.is_enabled());
                probes.any(|probe| handle_fault(probe, regs, trapnr))
            }
        };
        if handled && regs.ip() == self.address {
            // Once more. The copy of a call is not what may call, and a fault leaves no room on the stack to emulate one: its
            // breakpoint is hit again.
            if matches!(self.execution, Execution::Emulated(_)) {
                return Some(true);
            }
            regs.set_ip(at);
            if finishes {
                current_kprobe::mask(regs);
            }
            return Some(true);
        }
        if finishes {
            current_kprobe::end();
        }
        if handled || trapnr == PAGE_FAULT {
            return Some(handled);
        }
        // If it cannot go on, the kernel tells of the instruction, not of its copy.
        Some(fix_up(regs, trapnr))
    }
}
