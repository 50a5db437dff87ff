// SPDX-License-Identifier: GPL-2.0

//! What happens when a probed instruction comes to be executed.
//!
//! Contexts: trap, with interrupts off, also within NMIs; nothing here sleeps, allocates or takes a lock. That a
//! handler runs on a CPU is kept in `kprobe_running()`: a probe that is hit then is counted as missed, and its
//! instruction is executed without any state of its own, however deep that nests.
#![deny(unsafe_code)]

use ferro_core::insn::Emulation;
use ferro_sys::address_map::AddressMap;
use ferro_sys::code::text;
use ferro_sys::code::text::BREAKPOINT;
use ferro_sys::cpu::preempt::PreemptOff;
use ferro_sys::kprobe::Kprobe;
use ferro_sys::regs;
use ferro_sys::regs::Regs;
use ferro_sys::running_probe;

use crate::point::Point;
use crate::point::Run;

/// The points, by their addresses.
pub(crate) static POINTS: AddressMap<Point> = AddressMap::new();
/// The points, by those addresses of their copies at which something can happen.
pub(crate) static COPIES: AddressMap<Point> = AddressMap::new();

/// What the engine does in traps: [`breakpoint`] and [`fault`].
pub(crate) struct Hits;

/// Numbers of exceptions.
pub(crate) const DIVIDE_ERROR: usize = 0;
const PAGE_FAULT: usize = 14;

/// A breakpoint of the kernel. Whether it is done with.
#[inline(always)]
pub(crate) fn breakpoint(regs: &mut Regs) -> bool {
    let address = regs.ip().wrapping_sub(1);
    POINTS
        .with(address, |point| point.hit(regs))
        .unwrap_or_else(|| no_point(address, regs))
}

/// A breakpoint where no point is.
#[cold]
fn no_point(address: usize, regs: &mut Regs) -> bool {
    COPIES
        .with(address, |point| point.stop(address, regs))
        .unwrap_or_else(|| is_stale(address, regs))
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

/// A function with a probe on its ftrace site has been called.
#[inline(always)]
pub(crate) fn site(address: usize, regs: &mut Regs) {
    POINTS.with(address, |point| point.called(address, regs));
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

/// A fault of the kernel. Whether it is done with.
pub(crate) fn fault(regs: &mut Regs, trapnr: usize) -> bool {
    // A general protection fault of a copy has interrupts on.
    let _here = PreemptOff::new();
    let at = regs.ip();
    COPIES
        .with(at, |point| point.fault(at, regs, trapnr))
        .flatten()
        .unwrap_or_else(|| fault_in_handler(regs, trapnr))
}

/// A fault while handlers run. Whether the probe has dealt with it.
fn fault_in_handler(regs: &mut Regs, trapnr: usize) -> bool {
    running_probe::current().is_some_and(|probe| handle_fault(probe, regs, trapnr))
}

/// Calls a probe's handler for faults. Faults of its own are not its.
fn handle_fault(probe: Kprobe, regs: &mut Regs, trapnr: usize) -> bool {
    let running = running_probe::get();
    running_probe::set(running_probe::other());
    let handled = probe.fault(regs, trapnr);
    running_probe::set(running);
    handled
}

impl Point {
    #[inline(always)]
    fn hit(&self, regs: &mut Regs) -> bool {
        if running_probe::is_running() {
            self.miss();
            self.execute(regs);
            return true;
        }
        if !self.call_pre(regs) {
            match self.has_post.load() {
                0 => {
                    self.execute(regs);
                }
                _ => return self.execute_and_finish(regs),
            }
        }
        running_probe::set(0);
        true
    }

    /// At an ftrace site. The handlers see it as if it were a breakpoint.
    #[inline(always)]
    fn called(&self, address: usize, regs: &mut Regs) {
        if running_probe::is_running() {
            return self.miss();
        }
        let ip = regs.ip();
        regs.set_ip(address.wrapping_add(1));
        match self.probes.only() {
            // The usual case, without a walk.
            Some(probe) => self.call_one(probe, ip, regs),
            None if self.call_pre(regs) => (),
            None => {
                if self.has_post.load() != 0 {
                    regs.set_ip(self.next);
                    self.call_post(regs);
                }
                regs.set_ip(ip);
            }
        }
        running_probe::set(0);
    }

    /// Calls the handlers of the only probe at an ftrace site, where execution goes on at `ip`.
    #[inline(always)]
    fn call_one(&self, probe: Kprobe, ip: usize, regs: &mut Regs) {
        if probe.is_enabled() {
            running_probe::set(probe.id());
            if probe.pre(regs) {
                return;
            }
            probe.post_at(regs, |regs| regs.set_ip(self.next));
        }
        regs.set_ip(ip);
    }

    /// Calls the handlers before the instruction. Whether one of them changed where execution goes on.
    #[inline(always)]
    pub(crate) fn call_pre(&self, regs: &mut Regs) -> bool {
        for probe in self.probes.iter().filter(|p| p.is_enabled()) {
            running_probe::set(probe.id());
            if probe.pre(regs) {
                return true;
            }
        }
        false
    }

    /// Calls the handlers after the instruction.
    #[inline(always)]
    pub(crate) fn call_post(&self, regs: &mut Regs) {
        for probe in self.probes.iter().filter(|p| p.is_enabled()) {
            running_probe::set(probe.id());
            probe.post(regs);
        }
    }

    #[cold]
    pub(crate) fn miss(&self) {
        for probe in self.probes.iter().filter(|p| p.is_enabled()) {
            probe.count_missed();
        }
    }

    /// Has the instruction executed. Whether it has been, or is a copy's with nothing to be done afterwards.
    #[inline(always)]
    fn execute(&self, regs: &mut Regs) -> bool {
        match &self.run {
            Run::Copied { .. } => regs.set_ip(self.copy),
            Run::Jumped(to) => regs.set_ip(*to),
            Run::Emulated(emulation) => return self.emulate(emulation, regs),
            Run::Ftrace => regs.set_ip(self.address),
        }
        true
    }

    /// Whether it has been executed. If not, its copy has the fault.
    #[inline(always)]
    fn emulate(&self, emulation: &Emulation, regs: &mut Regs) -> bool {
        if self.copy != 0 {
            return self.emulate_with_operand(emulation, regs);
        }
        // Of the others' accesses, to the stack, none fails.
        if let Ok(next) = emulation.run(self.address as u64, regs) {
            regs.set_ip(next as usize);
        }
        true
    }

    /// One with an operand in memory, which may not be there. That fault is nobody's: the copy has it once more.
    fn emulate_with_operand(&self, emulation: &Emulation, regs: &mut Regs) -> bool {
        let running = running_probe::get();
        running_probe::set(running_probe::other());
        let result = emulation.run(self.address as u64, regs);
        running_probe::set(running);
        regs.set_ip(result.map_or(self.copy, |next| next as usize));
        result.is_ok()
    }

    /// Has the instruction executed, and the handlers for after it called. The probes stay the running ones until then.
    #[inline(always)]
    fn execute_and_finish(&self, regs: &mut Regs) -> bool {
        if let Some(compute) = &self.in_trap {
            // A fault of it is not for the probes' handlers: the copy has it once more.
            running_probe::set(running_probe::other());
            if compute.run(regs).is_ok() {
                regs.set_ip(self.next);
                self.call_post(regs);
                running_probe::set(0);
                return true;
            }
            if self.after.load() == 0 {
                regs.set_ip(self.copy);
                running_probe::set(0);
                return true;
            }
        }
        let after = self.after.load();
        if matches!(self.run, Run::Copied { .. }) && after != 0 {
            regs.set_ip(after);
            if self.sees_interrupts {
                running_probe::set(0);
                return true;
            }
            let Some(first) = self.probes.iter().next() else {
                // Unregistered meanwhile. Without a running probe, an NMI could take what we keep.
                regs.set_ip(self.copy);
                running_probe::set(0);
                return true;
            };
            running_probe::set(first.id());
            running_probe::save_if(regs.mask_interrupts());
            return true;
        }
        if self.execute(regs) {
            self.call_post(regs);
        }
        running_probe::set(0);
        true
    }

    /// The copy of an instruction has run. Interrupts are off.
    #[inline(always)]
    fn finish(&self, regs: &mut Regs) {
        if !self.sees_interrupts {
            regs.unmask_interrupts(running_probe::saved_if());
        }
        regs.set_ip(self.next);
        self.call_post(regs);
        running_probe::set(0);
    }

    /// The breakpoint behind a copy.
    fn stop(&self, at: usize, regs: &mut Regs) -> bool {
        if at == self.after_end() {
            self.finish(regs);
        } else {
            regs.set_ip(self.next);
        }
        true
    }

    /// A fault of the instruction of a copy: of the instruction itself, to what looks up its address. Whether it is
    /// done with; `None` if it is not such a fault.
    fn fault(&self, at: usize, regs: &mut Regs, trapnr: usize) -> Option<bool> {
        let after = self.after.load();
        if at != self.copy && at != after {
            return None;
        }
        let finishes = at == after && !self.sees_interrupts;
        if finishes {
            regs.unmask_interrupts(running_probe::saved_if());
        }
        regs.set_ip(self.address);
        let handled = match running_probe::is_running() && !finishes {
            // A probe that was missed, in the handler of another.
            true => fault_in_handler(regs, trapnr),
            false => {
                let mut probes = self.probes.iter().filter(|p| p.is_enabled());
                probes.any(|probe| handle_fault(probe, regs, trapnr))
            }
        };
        if handled && regs.ip() == self.address {
            // Once more. The copy of a call is not what may call, and a fault leaves no room on the stack to emulate one: its
            // breakpoint is hit again.
            if matches!(self.run, Run::Emulated(_)) {
                return Some(true);
            }
            regs.set_ip(at);
            if finishes {
                running_probe::save_if(regs.mask_interrupts());
            }
            return Some(true);
        }
        if finishes {
            running_probe::set(0);
        }
        if handled || trapnr == PAGE_FAULT {
            return Some(handled);
        }
        // If it cannot go on, the kernel tells of the instruction, not of its copy.
        Some(regs::fix_up(regs, trapnr))
    }
}
