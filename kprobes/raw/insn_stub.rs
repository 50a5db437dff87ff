// SPDX-License-Identifier: GPL-2.0

//! Generated code that executes a point's instruction within the trap (`insn_stub_call.S`), and CPU
//! features that affect copies of instructions.
//!
//! Contexts: making it process, sleeps; running it the trap, also within NMIs.

use ferro_core::insn::Insn;
use ferro_kprobes_core::write_apart;
use ferro_kprobes_core::Platform;
use ferro_kprobes_core::Saved;
use ferro_kprobes_core::MAX_APART;
use ferro_sys::bindings;
use ferro_sys::code::text::TextLock;
use ferro_sys::code::text::BREAKPOINT;
use ferro_sys::code::trap_frame::Trap;
use ferro_sys::code::trap_frame::SHORT_OFFSETS;
use ferro_sys::mm::exec_pool;
use ferro_sys::mm::exec_pool::Slot;
use ferro_sys::mm::exec_pool::User;
use ferro_sys::sync::shared_word::Word;
use kernel::alloc::AllocError;
use kernel::ffi::c_ulong;
use kernel::prelude::*;

extern "C" {
    /// `post_trampoline.S`
    fn ferro_kprobe_post_trampoline();
    /// `insn_stub_call.S`
    fn ferro_kprobe_insn_stub(regs: *mut bindings::pt_regs, code: c_ulong) -> c_ulong;
    /// `insn_stub_call.S`
    fn ferro_kprobe_insn_stub_done();
    /// `detour.h`
    fn ferro_kprobe_address_bits() -> u8;
}

/// Reason why code for a point cannot be generated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CodeError {
    /// No memory.
    NoMemory,
    /// The code does not fit into its slot, or an address is out of its reach.
    OutOfReach,
}

impl From<AllocError> for CodeError {
    fn from(_: AllocError) -> Self {
        Self::NoMemory
    }
}

/// Layout of the registers that a trap saves.
const SAVED: Saved = Saved {
    registers: SHORT_OFFSETS,
    flags: core::mem::offset_of!(bindings::pt_regs, flags) as u32,
};

/// The code of a point, as hits use it.
///
/// # Invariants
///
/// `code` is 0, or the address of the code that [`InsnStub::write`] has written for the instruction
/// of the point that this is part of, whose registry entry has it; every CPU has been synchronised
/// since.
pub(crate) struct StubRunner {
    code: Word,
    access: Word,
    failed: Word,
}

impl StubRunner {
    /// Creates the runner of a point without such code.
    pub(crate) const fn new() -> Self {
        // INVARIANT: 0.
        Self {
            code: Word::new(0),
            access: Word::new(0),
            failed: Word::new(0),
        }
    }

    /// Returns true if there is code.
    #[inline(always)]
    pub(crate) fn is_there(&self) -> bool {
        self.code.load() != 0
    }

    /// Returns the address of the instruction that may fault, or 0.
    #[inline(always)]
    pub(crate) fn access(&self) -> usize {
        self.access.load()
    }

    /// Returns the address to resume at after that fault.
    pub(crate) fn failed(&self) -> usize {
        self.failed.load()
    }

    /// Executes the instruction. Returns false if that was not possible; then nothing has changed.
    #[inline(always)]
    pub(crate) fn run(&self, trap: &mut Trap) -> bool {
        let code = self.code.load();
        // SAFETY: By the type invariant the code of the point's instruction, which a `Trap` of this
        // point is there to execute. The hit that has found the point keeps it, and its registry
        // entry with the code, in a read-side section of RCU.
        // The code changes the registers of `trap`. Of the CPU's registers, the code changes only
        // those that the function has saved or may change.
        code != 0 && unsafe { ferro_kprobe_insn_stub(trap.as_ptr(), code as c_ulong) } == 0
    }
}

/// Memory of a point's stub.
///
/// # Invariants
///
/// If `written` is `Some`, the slot has the code of the instruction, and `TextLock::syncs()`
/// returned this number after the code was written.
pub(crate) struct InsnStub {
    slot: Slot,
    access: usize,
    failed: usize,
    written: Option<usize>,
}

impl InsnStub {
    /// Allocates the code of an instruction at `at`, with a copy at `copy`. Returns `None` if the
    /// instruction cannot be executed like this. Instructions that access memory can only if
    /// `memory` is true.
    ///
    /// Errors: `NoMemory`.
    pub(crate) fn new(
        insn: &Insn,
        at: usize,
        copy: usize,
        memory: bool,
    ) -> Result<Option<Self>, CodeError> {
        let mut code = [0; MAX_APART];
        // The length does not depend on the address.
        let Some((len, access)) = Self::code(insn, at, copy, &mut code) else {
            return Ok(None);
        };
        if access.0 != 0 && !memory {
            return Ok(None);
        }
        let slot = exec_pool::alloc(len, User::Probes).map_err(|_| CodeError::NoMemory)?;
        let made = Self::code(insn, at, slot.address(), &mut code);
        Ok(made.map(|(_, (access, failed))| Self {
            slot,
            access,
            failed,
            written: None,
        }))
    }

    /// Generates the code for `to`. Returns its length, the address of the instruction if it may
    /// fault, and the address to resume at after that fault.
    fn code(
        insn: &Insn,
        at: usize,
        to: usize,
        out: &mut [u8; MAX_APART],
    ) -> Option<(usize, (usize, usize))> {
        let platform = Platform {
            landing_pad: cfg!(CONFIG_X86_KERNEL_IBT),
            // SAFETY: The function only reads a feature of the CPU.
            address_bits: unsafe { ferro_kprobe_address_bits() },
        };
        let done = ferro_kprobe_insn_stub_done as *const () as u64;
        let stub = write_apart(insn, at as u64, &SAVED, platform, to as u64, done, out)?;
        let access = stub.access.map_or(0, |access| to.wrapping_add(access));
        Some((stub.len, (access, to.wrapping_add(stub.failed))))
    }

    /// Writes the code, for the instruction that [`InsnStub::new`] got.
    pub(crate) fn write(
        &mut self,
        insn: &Insn,
        at: usize,
        text: &mut TextLock,
    ) -> Result<(), CodeError> {
        let mut code = [BREAKPOINT; MAX_APART];
        let to = self.slot.address();
        let (len, _) = Self::code(insn, at, to, &mut code).ok_or(CodeError::OutOfReach)?;
        let code = code.get(..len).ok_or(CodeError::OutOfReach)?;
        self.slot
            .write(code, text)
            .map_err(|_| CodeError::OutOfReach)?;
        // INVARIANT: Just written.
        self.written = Some(text.syncs());
        Ok(())
    }

    /// Makes the runner of the point use the code, if it has been written. First synchronises every
    /// CPU, unless that was done since the code was written. A trap calls the code without a return
    /// from an exception in between, so that a CPU could otherwise execute the slot's earlier
    /// contents.
    pub(crate) fn publish(&self, runner: &StubRunner, text: &mut TextLock) {
        let Some(written) = self.written else {
            return;
        };
        if text.syncs() == written {
            text.sync();
        }
        runner.access.store(self.access);
        runner.failed.store(self.failed);
        // INVARIANT: It has been written, and every CPU has been synchronised since.
        runner.code.store(self.slot.address());
    }

    /// Returns [`StubRunner::access`].
    pub(crate) fn access(&self) -> usize {
        self.access
    }
}

/// Returns the address that a copy calls when it has run, or `None` if copies have to stop at a
/// breakpoint on this CPU.
pub(crate) fn post_trampoline() -> Option<usize> {
    // SAFETY: The function only reads a parameter of the module and features of the CPU.
    let must_stop = unsafe { bindings::ferro_kprobe_must_stop() };
    (!must_stop).then_some(ferro_kprobe_post_trampoline as *const () as usize)
}

/// Returns true if a CPU may return from a breakpoint to a copy without serialising, and execute
/// the slot's earlier contents.
pub(crate) fn returns_early() -> bool {
    // SAFETY: The function only reads a parameter of the module and a feature of the CPU.
    unsafe { bindings::ferro_kprobe_returns_early() }
}
