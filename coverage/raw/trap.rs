// SPDX-License-Identifier: GPL-2.0

//! Hits: the handler of breakpoints.
//!
//! The code that a hit executes, here and before, has no breakpoints of ours, and no ftrace sites.
//! The exception are functions called after a flag is set that keeps another hit from calling them.
//!
//! Contexts: registering in process context, sleeps; the handler in the trap, also within NMIs.

use core::sync::atomic::AtomicUsize;
use core::sync::atomic::Ordering::Relaxed;

use ferro_core::insn::Insn;
use ferro_core::insn::MAX_LEN;
use ferro_coverage_core::Executable;
use ferro_coverage_core::PAGE;
use ferro_sys::code::trap_frame::Trap;
use kernel::prelude::*;

use super::armed::with_published;
use super::table::Table;
use super::text::Ready;
use super::text::BREAKPOINT;
use super::worker;

/// Number of traps of our breakpoints.
static TRAPS: AtomicUsize = AtomicUsize::new(0);
/// Number of traps of our breakpoints that had been removed.
static STALE: AtomicUsize = AtomicUsize::new(0);

/// Returns the number of traps of our breakpoints since the module was loaded, and the number of
/// traps of breakpoints that had just been removed.
pub(crate) fn traps() -> (usize, usize) {
    (TRAPS.load(Relaxed), STALE.load(Relaxed))
}

/// The hook in the entry of breakpoints. Dropping it waits for running handlers.
pub(crate) struct Hook {
    _hook: imp::Hook,
}

impl Hook {
    /// Makes the kernel call the handler. Errors: -ENOENT if it has no place for that, -EEXIST if
    /// another exit is the first, -ENOMEM. Both reasons are logged.
    pub(crate) fn new(ready: Ready) -> Result<Self> {
        imp::hook(ready).map(|hook| Self { _hook: hook })
    }
}

/// On a kernel without our patches.
#[cfg(CONFIG_FERROTRACE_STOCK)]
mod imp {
    use super::*;
    use ferro_sys::bindings;
    use kernel::error::to_result;
    use kernel::ffi::c_int;

    extern "C" {
        /// `builtin.h`
        fn ferro_coverage_hook(on: bool) -> c_int;
    }

    pub(super) struct Hook(());

    pub(super) fn hook(_ready: Ready) -> Result<Hook> {
        // SAFETY: A `Ready` proves that its functions have been found; `drop()` undoes it.
        to_result(unsafe { ferro_coverage_hook(true) })?;
        Ok(Hook(()))
    }

    impl Drop for Hook {
        fn drop(&mut self) {
            // SAFETY: `hook()` has done it.
            unsafe { ferro_coverage_hook(false) };
        }
    }

    /// Entry point of `stock/coverage.c`.
    ///
    /// # Safety
    ///
    /// `regs` are the registers of an `int3`, of the kernel or of a user, which are the caller's.
    #[no_mangle]
    unsafe extern "C" fn ferro_coverage_hit(regs: *mut bindings::pt_regs) -> bool {
        // SAFETY: The caller guarantees it; `hit()` executes on them the instruction of the
        // breakpoint.
        let trap = unsafe { Trap::from_raw(regs) };
        // SAFETY: Interrupts are off in the entry of a breakpoint.
        trap.is_some_and(|trap| unsafe { hit(trap) })
    }
}

/// On a kernel with our hook points.
#[cfg(not(CONFIG_FERROTRACE_STOCK))]
mod imp {
    use super::*;
    use ferro_gkhi::points::Int3;
    use ferro_gkhi::Answer;
    use ferro_gkhi::EnginePromise;
    use ferro_gkhi::Priority;
    use ferro_gkhi::Registered;

    pub(super) type Hook = Registered<Int3>;

    pub(super) fn hook(_ready: Ready) -> Result<Hook> {
        // SAFETY: The exit ends the dispatch for its own breakpoints only, does not sleep, and has
        // no breakpoints itself. The hook passes the registers of the breakpoint, which nothing
        // else uses until the exit returns.
        let hook = unsafe {
            // The code of other exits may have breakpoints of ours: none of these reaches them.
            Registered::<Int3>::builder(c"ferrotrace_coverage")
                .priority(Priority::First)
                .register_engine(
                    EnginePromise::new(),
                    |_call, (regs,)| match Trap::from_raw(regs).is_some_and(|trap| hit(trap)) {
                        true => Answer::Terminate,
                        false => Answer::Continue,
                    },
                )
        };
        Ok(hook?)
    }
}

/// Handles a breakpoint. Returns true for one of ours.
///
/// # Safety
///
/// As for [`with_published`].
unsafe fn hit(trap: &mut Trap) -> bool {
    let addr = trap.ip().wrapping_sub(1);
    let mark = |table: &Table| {
        let (segment, index, original) = table.find(addr)?;
        // Before the byte: the bit is cleared after the byte has been restored.
        let is_armed = segment.is_armed(index);
        // SAFETY: A breakpoint has just been executed there, so the byte is readable.
        let byte = unsafe { core::ptr::with_exposed_provenance::<u8>(addr).read_volatile() };
        if byte != BREAKPOINT {
            return Some(None);
        }
        // A kprobe at a place, after our breakpoint has been removed.
        if !is_armed {
            return None;
        }
        let is_first = segment.mark(index);
        worker::note_hit(segment.queue(addr), is_first);
        Some(Some(original))
    };
    // SAFETY: The caller guarantees it.
    let found = unsafe { with_published(mark) };
    match found.flatten() {
        None => false,
        Some(None) => {
            STALE.fetch_add(1, Relaxed);
            trap.set_ip(addr);
            true
        }
        Some(Some(original)) => {
            TRAPS.fetch_add(1, Relaxed);
            execute(trap, addr, original)
        }
    }
}

/// Executes the instruction that a breakpoint replaces.
fn execute(trap: &mut Trap, addr: usize, original: u8) -> bool {
    let mut code = [0; MAX_LEN];
    let in_page = MAX_LEN.min(PAGE.wrapping_sub(addr % PAGE));
    let decoded = [in_page, MAX_LEN].into_iter().find_map(|len| {
        let bytes = code.get_mut(..len)?;
        for (at, byte) in bytes.iter_mut().enumerate() {
            let from = core::ptr::with_exposed_provenance::<u8>(addr.wrapping_add(at));
            // SAFETY: The page of a breakpoint that has been executed is readable. The second time,
            // the instruction did not end in that page, so it continues in the next one, which is
            // readable.
            *byte = unsafe { from.read_volatile() };
        }
        *bytes.first_mut()? = original;
        Insn::decode(bytes).ok()
    });
    let Some(insn) = decoded else { return false };
    match Executable::of(&insn, addr as u64).map(|executable| executable.run(addr as u64, trap)) {
        Ok(Ok(next)) => {
            trap.set_ip(next as usize);
            true
        }
        // Not possible: the instruction was checked, and the stack and the targets of branches are
        // readable. The kernel reports the trap.
        _ => false,
    }
}
