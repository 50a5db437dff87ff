// SPDX-License-Identifier: GPL-2.0

//! Handling of hits: breakpoints, jumps, ftrace calls and faults.
//!
//! Contexts: trap, with interrupts off, also within NMIs. Nothing here sleeps, allocates or takes a
//! lock. `kprobe_running()` returns true while a handler is running on a CPU. A probe that is hit
//! in that time is counted as missed, and its instruction is executed without per-CPU state. So
//! hits may nest to any depth.
#![deny(unsafe_code)]

use ferro_kprobes_builtin::raw::current_kprobe;
use ferro_kprobes_builtin::raw::current_kprobe::End;
use ferro_kprobes_builtin::raw::current_kprobe::Running;
use ferro_kprobes_core::jump::JUMP_LEN;
use ferro_kprobes_core::Emulation;
use ferro_sys::bindings::kprobe;
use ferro_sys::code::regs::Regs;
use ferro_sys::code::symbols::Shown;
use ferro_sys::code::text;
use ferro_sys::code::text::BREAKPOINT;
use ferro_sys::cpu::preempt::PreemptOff;
use ferro_sys::hook::typed::Atomic;
use kernel::prelude::*;

use crate::raw::detour;
use crate::raw::kprobe::Kprobe;
use crate::raw::lookup::Found;
use crate::raw::lookup::ProbeList;
use crate::raw::probe_point::Execution;
use crate::raw::probe_point::Point;
use crate::raw::probe_point::ResumeMap;
use crate::raw::probe_point::COPIES;
use crate::raw::probe_point::POINTS;
use crate::raw::trap_frame::fix_up;
use crate::raw::trap_frame::Trap;
use crate::raw::trap_hooks::TrapHandler;

/// Vector of the exception.
const PAGE_FAULT: usize = 14;

/// The engine's trap handlers.
pub(crate) struct Hits;

// SAFETY: `breakpoint()` returns true in two cases. It has found a point, or a copy, of the
// address, and has executed that instruction or resumes at a copy of it; or the breakpoint is no
// longer there. `fault()` returns true if the fault is of a copy or of the running probe, and a
// handler or the exception table has repaired it. On a trap, a point executes the instruction at
// its address.
//
// Breakpoints are for points of the registry. `Decoder::instructions()` has decoded the function up
// to the address, so that an instruction starts there. `publish()` adds the point to the lookup map
// before the first breakpoint is armed. `retire()` removes the point from the map after every CPU
// has been synchronised without the breakpoint, and `kill()` before the code is freed.
//
// Nothing here sleeps, allocates or takes a lock. The code on the way to a handler cannot be probed
// (`ferro_kprobes_core::blacklist_names`), except functions of the kernel that this file or a
// handler calls. A breakpoint in such a function finds a probe running, so that it calls no handler
// and nothing else with a breakpoint. The same holds at an ftrace site, where only handlers change
// registers.
#[expect(unsafe_code)]
unsafe impl TrapHandler for Hits {
    #[inline(always)]
    fn breakpoint(trap: &mut Trap, here: &Atomic) -> bool {
        let address = trap.ip().wrapping_sub(1);
        let hit = POINTS.with_atomic(address, here, |point| point.hit(trap));
        hit.is_some() || no_point(address, trap)
    }

    fn fault(regs: &mut Regs, trapnr: usize) -> bool {
        // A general protection fault of a copy has interrupts on.
        let here = PreemptOff::new();
        let at = regs.ip();
        // Address 0 is never in a copy, as it marks free entries of the map; a call of address 0
        // faults there.
        if at == 0 {
            return fault_in_handler(regs, trapnr, &here);
        }
        COPIES
            .with(at, |point| point.fault(at, regs, trapnr, &here))
            .flatten()
            .unwrap_or_else(|| fault_in_handler(regs, trapnr, &here))
    }

    /// Logs the probed instruction if the kernel dies in the copy of a detour.
    ///
    /// Does not move the instruction pointer to the probed code. A jump covers the displaced
    /// instructions there, and another notifier may still repair the fault in the copy.
    fn died(regs: &Regs) {
        let at = regs.ip();
        if let Some(place) = detour::with_detour(at, |point| point.displaced(at)) {
            pr_emerg!("the instruction at {} runs in a detour\n", Shown(place));
        }
    }

    #[inline(always)]
    fn called(point: Found<'_, Point>, regs: &mut Regs) {
        point.called(regs);
    }

    #[inline(always)]
    fn called_with_post(site: usize, regs: &mut Regs) {
        POINTS.with(site, |point| point.called_with_post(site, regs));
    }
}

/// Handles a breakpoint at an address without a point.
#[cold]
fn no_point(address: usize, trap: &mut Trap) -> bool {
    let own = COPIES.with(address, |point| point.hit_own_breakpoint(address, trap));
    own.is_some() || is_stale(address, trap)
}

/// Returns true if the breakpoint was removed between the trap and this call. Execution then
/// resumes at the instruction in its place.
#[cold]
fn is_stale(address: usize, regs: &mut Regs) -> bool {
    let mut byte = [BREAKPOINT];
    let stale = text::read_text(address, &mut byte).is_ok() && byte != [BREAKPOINT];
    if stale {
        regs.set_ip(address);
    }
    stale
}

/// Handles the call that ends an instruction's copy. `at` is its return address.
#[inline(always)]
pub(crate) fn post_copy_called(at: usize, regs: &mut Regs) {
    let known = COPIES.with(at, |point| point.finish(regs));
    if known.is_none() {
        // Resumes at the breakpoint after the call, which is handled as one without a point.
        regs.set_ip(at);
    }
}

/// Calls the post-handlers of a point, unless `optprobe_template.S` calls the handler of
/// `ProbeList::single_post`. `at` is the address where the detour continues.
pub(crate) fn call_after(at: usize, regs: &mut Regs) {
    COPIES.with(at, |point| {
        current_kprobe::run_within(|running| point.call_post(running, regs));
    });
}

/// Returns the newest probe at an address. The probe stays as long as the caller has preemption
/// off.
///
/// Address 0 never has a probe: it marks free entries of the maps.
pub(crate) fn newest_at(address: usize) -> Option<*mut kprobe> {
    if address == 0 {
        return None;
    }
    let newest = POINTS.with(address, |point| {
        point.probes().iter().next().map(Kprobe::as_ptr)
    });
    newest.flatten()
}

/// Handles a fault while handlers run. Returns true if the probe has handled it.
fn fault_in_handler(regs: &mut Regs, trapnr: usize, here: &PreemptOff) -> bool {
    Kprobe::running(here).is_some_and(|probe| handle_fault(probe, regs, trapnr))
}

/// Calls a probe's fault handler. Faults of that handler itself are not passed to it.
fn handle_fault(probe: Kprobe<'_>, regs: &mut Regs, trapnr: usize) -> bool {
    current_kprobe::while_busy(|| probe.fault(regs, trapnr))
}

/// Hits of a point that was found.
impl<'a> Found<'a, Point> {
    /// Returns the probes.
    #[inline(always)]
    fn probes(self) -> Found<'a, ProbeList> {
        self.part(|point| &point.probes)
    }

    #[inline(always)]
    fn hit(self, trap: &mut Trap) {
        if current_kprobe::is_running() {
            return self.hit_in_handler(trap);
        }
        let Some(probe) = self.probes().single() else {
            return self.hit_slow(trap);
        };
        // The usual case, without a walk. The other cases are functions of their own, so that this
        // one saves no registers for them.
        current_kprobe::run(|running| {
            running.enter(probe.shared());
            match probe.pre(trap) {
                false => self.execute(trap),
                true => self.avoid_displaced(trap),
            }
            End::Over
        });
    }

    /// Handles a hit while a handler runs.
    #[cold]
    fn hit_in_handler(self, trap: &mut Trap) {
        self.miss();
        self.execute(trap);
    }

    /// Handles a hit of a point that has several probes, a post-handler, or no enabled probe.
    #[inline(never)]
    fn hit_slow(self, trap: &mut Trap) {
        let Some(probe) = self.probes().single_post() else {
            return self.hit_all(trap);
        };
        current_kprobe::run(|running| {
            running.enter(probe.shared());
            if probe.pre(trap) {
                self.avoid_displaced(trap);
                return End::Over;
            }
            let end = self.execute_and_finish(running, trap, |running, trap| {
                running.enter(probe.shared());
                probe.post(trap);
            });
            self.avoid_displaced(trap);
            end
        });
    }

    /// Handles a hit by a walk through all probes.
    #[cold]
    fn hit_all(self, trap: &mut Trap) {
        current_kprobe::run(|running| {
            if self.call_pre(running, trap) {
                self.avoid_displaced(trap);
                return End::Over;
            }
            if self.has_post.load() == 0 {
                self.execute(trap);
                return End::Over;
            }
            let end = self.execute_and_finish(running, trap, |running, trap| {
                self.call_post(running, trap);
            });
            self.avoid_displaced(trap);
            end
        });
    }

    /// Handles a call at an ftrace site. The handlers see the registers of a breakpoint.
    #[inline(always)]
    fn called(self, regs: &mut Regs) {
        if current_kprobe::is_running() {
            return self.miss();
        }
        let ip = regs.ip();
        regs.set_ip(self.address.wrapping_add(1));
        current_kprobe::run(|running| {
            match self.probes().single() {
                // The usual case, without a walk.
                Some(probe) => {
                    running.enter(probe.shared());
                    if !probe.pre(regs) {
                        regs.set_ip(ip);
                    }
                }
                None => self.call_all(running, ip, regs),
            }
            End::Over
        });
    }

    /// Handles a call at an ftrace site if a probe has a post-handler.
    #[inline(always)]
    fn called_with_post(self, address: usize, regs: &mut Regs) {
        if current_kprobe::is_running() {
            return self.miss();
        }
        let ip = regs.ip();
        regs.set_ip(address.wrapping_add(1));
        current_kprobe::run(|running| {
            match self.probes().single_post() {
                Some(probe) => {
                    running.enter(probe.shared());
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

    /// Handles a hit by a jump to a detour of kind `Instead`: executes the instruction by changing
    /// the saved registers.
    #[inline(always)]
    pub(crate) fn detoured(self, trap: &mut Trap) {
        if current_kprobe::is_running() {
            return self.missed(trap);
        }
        current_kprobe::run(|running| {
            if !self.call_pre(running, trap) {
                running.be_busy();
                match self.execute_on_registers(trap) {
                    true => self.call_post(running, trap),
                    // The copy takes the fault; no post-handlers run after the copy.
                    false => self.missed(trap),
                }
            }
            self.avoid_displaced(trap);
            End::Over
        });
    }

    /// Handles a hit by a jump while a handler runs.
    #[cold]
    pub(crate) fn missed(self, regs: &mut Regs) {
        self.miss();
        regs.set_ip(ResumeMap::copies(self.last_detour.load()));
    }

    /// Executes the instruction by changing the saved registers. Returns true if that was possible.
    fn execute_on_registers(self, trap: &mut Trap) -> bool {
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

    /// Resumes at the copy if execution would resume inside the displaced bytes.
    #[inline(always)]
    pub(crate) fn avoid_displaced(self, regs: &mut Regs) {
        let detour = self.detour.load();
        if detour != 0 {
            self.avoid_displaced_slow(detour, regs);
        }
    }

    #[cold]
    fn avoid_displaced_slow(self, detour: usize, regs: &mut Regs) {
        let from = regs.ip().wrapping_sub(self.address);
        if let Some(copy) = ResumeMap::find(detour, from) {
            regs.set_ip(copy);
        }
    }

    /// Calls the pre-handlers of several probes without post-handlers. A probe that has one is
    /// still being registered, and is skipped.
    #[cold]
    pub(crate) fn call_before(self, regs: &mut Regs) -> bool {
        current_kprobe::run_within(|running| {
            let mut probes = self.probes().iter();
            probes.any(|probe| {
                probe.is_enabled() && !probe.has_post() && {
                    running.enter(probe.shared());
                    probe.pre(regs)
                }
            })
        })
    }

    /// Calls the pre-handlers of several probes that may have post-handlers.
    #[cold]
    pub(crate) fn call_around(self, regs: &mut Regs) -> bool {
        current_kprobe::run_within(|running| self.call_pre(running, regs))
    }

    /// Calls the handlers of all probes at an ftrace site. Execution resumes at `ip`.
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

    /// Calls the pre-handlers. Returns true if one of them changed the instruction pointer.
    #[inline(always)]
    fn call_pre(self, running: &mut Running<'a>, regs: &mut Regs) -> bool {
        for probe in self.probes().iter().filter(|p| p.is_enabled()) {
            running.enter(probe.shared());
            if probe.pre(regs) {
                return true;
            }
        }
        false
    }

    /// Calls the post-handlers.
    #[inline(always)]
    fn call_post(self, running: &mut Running<'a>, regs: &mut Regs) {
        for probe in self.probes().iter().filter(|p| p.is_enabled()) {
            running.enter(probe.shared());
            probe.post(regs);
        }
    }

    #[cold]
    fn miss(self) {
        for probe in self.probes().iter().filter(|p| p.is_enabled()) {
            probe.count_missed();
        }
    }

    /// Executes the instruction, or resumes at its copy. No handler runs after it.
    #[inline(always)]
    fn execute(self, trap: &mut Trap) {
        match self.onward.load() {
            0 => self.execute_out_of_line(trap),
            onward => trap.set_ip(onward),
        }
    }

    /// Executes an emulated instruction, in a function of its own so that [`Self::execute`] stays
    /// small.
    #[inline(never)]
    fn execute_out_of_line(self, trap: &mut Trap) {
        self.execute_alone(trap);
    }

    /// Executes the instruction alone, or resumes at its own copy, without the others that a jump
    /// is about to cover. Returns true unless emulation failed and the copy runs instead.
    #[inline(always)]
    fn execute_alone(self, trap: &mut Trap) -> bool {
        match &self.execution {
            Execution::Copied { .. } => trap.set_ip(self.copy),
            Execution::Jumped(to) => trap.set_ip(*to),
            Execution::Emulated(emulation) => return self.emulate(emulation, trap),
            Execution::Ftrace => trap.set_ip(self.address),
        }
        true
    }

    /// Emulates the instruction. Returns false if the access faulted; the copy then takes the
    /// fault.
    #[inline(always)]
    fn emulate(self, emulation: &Emulation, trap: &mut Trap) -> bool {
        if self.copy != 0 {
            return self.emulate_with_operand(emulation, trap);
        }
        // Without a copy, the only accesses are to the stack, and do not fail.
        if let Ok(next) = emulation.run(self.address as u64, trap) {
            trap.set_ip(next as usize);
        }
        true
    }

    /// Emulates an instruction with an operand in memory. If the access faults, the copy runs
    /// instead, and its fault is handled.
    fn emulate_with_operand(self, emulation: &Emulation, trap: &mut Trap) -> bool {
        let result = current_kprobe::while_busy(|| emulation.run(self.address as u64, trap));
        trap.set_ip(result.map_or(self.copy, |next| next as usize));
        result.is_ok()
    }

    /// Executes the instruction and calls `finish` after it. `kprobe_running()` returns a probe of
    /// the point until then, also while the copy runs.
    #[inline(always)]
    fn execute_and_finish(
        self,
        running: &mut Running<'a>,
        trap: &mut Trap,
        finish: impl FnOnce(&mut Running<'a>, &mut Trap),
    ) -> End {
        if self.in_trap.is_some() || self.stub.is_there() {
            // If the access faults, the copy runs instead, and its fault is handled.
            running.be_busy();
            let done = match &self.in_trap {
                Some(compute) => compute.run(trap).is_ok(),
                None => self.stub.run(trap),
            };
            if done {
                trap.set_ip(self.next);
                finish(running, trap);
                return End::Over;
            }
            if self.post_copy.load() == 0 {
                self.execute(trap);
                return End::Over;
            }
        }
        let after = self.post_copy.load();
        if matches!(self.execution, Execution::Copied { .. }) && after != 0 {
            trap.set_ip(after);
            if self.sees_interrupts {
                return End::Over;
            }
            let Some(first) = self.probes().iter().next() else {
                // Unregistered since. Without a running probe, an NMI could overwrite the saved
                // RFLAGS.IF. A jump may still be there.
                self.execute(trap);
                return End::Over;
            };
            return End::InCopy(running.leave_to_copy(trap, first.shared()));
        }
        if self.execute_alone(trap) {
            finish(running, trap);
        }
        End::Over
    }

    /// Calls the post-handlers after the copy of an instruction has run. Interrupts are off.
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
        self.avoid_displaced(regs);
    }

    /// Handles a breakpoint of the engine's own: after a copy, or in front of a detour.
    fn hit_own_breakpoint(self, at: usize, trap: &mut Trap) {
        if at == self.post_copy_end() {
            self.finish(trap);
        } else if at == self.copy_end() {
            trap.set_ip(self.next);
        } else {
            trap.set_ip(self.address.wrapping_add(1));
            self.hit(trap);
        }
    }

    /// Returns the address of the displaced instruction with a copy at `at`, except for the first
    /// instruction.
    fn displaced(self, at: usize) -> Option<usize> {
        let copies = self.last_detour.load();
        // If post-handlers are called after the first instruction, the other instructions have
        // second copies.
        let same = match self.rest.load() {
            0 => None,
            rest => ResumeMap::find(copies, self.next.wrapping_sub(self.address))
                .map(|second| at.wrapping_sub(rest).wrapping_add(second)),
        };
        let is_at = |from: &usize| {
            ResumeMap::find(copies, *from).is_some_and(|copy| copy == at || Some(copy) == same)
        };
        let from = (1..JUMP_LEN).find(is_at)?;
        Some(self.address.wrapping_add(from))
    }

    /// Handles a fault of a copied instruction. Fault handlers and the exception table see it at
    /// the address of the instruction itself.
    ///
    /// Returns `Some(true)` for a handled fault, and `None` for a fault elsewhere.
    fn fault(self, at: usize, regs: &mut Regs, trapnr: usize, here: &PreemptOff) -> Option<bool> {
        let after = self.post_copy.load();
        let access = self.stub.access();
        if at == access && access != 0 {
            // The stub faulted within the trap. The copy runs next and takes the fault once more.
            regs.set_ip(self.stub.failed());
            return Some(true);
        }
        if detour::abort_around(self, regs) {
            // The registers are now those of the probed instruction, which the kernel logs. If the
            // fault can be repaired, the jump is executed once more.
            return Some(trapnr != PAGE_FAULT && fix_up(regs, trapnr));
        }
        if at != self.copy && at != after && at != ResumeMap::copies(self.detour.load()) {
            return None;
        }
        let finishes = at == after && !self.sees_interrupts;
        if finishes {
            current_kprobe::unmask(regs);
        }
        regs.set_ip(self.address);
        let handled = match current_kprobe::is_running() && !finishes {
            // A missed probe, in the handler of another probe.
            true => fault_in_handler(regs, trapnr, here),
            false => {
                let mut probes = self.probes().iter().filter(|p| p.is_enabled());
                probes.any(|probe| handle_fault(probe, regs, trapnr))
            }
        };
        if handled && regs.ip() == self.address {
            // Retry. The copy of an emulated call must not run, and a fault leaves no room on the
            // stack to emulate a call: its breakpoint is hit again.
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
        // If the fault cannot be repaired, the kernel logs the instruction, not its copy.
        Some(fix_up(regs, trapnr))
    }
}
