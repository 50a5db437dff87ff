// SPDX-License-Identifier: GPL-2.0

//! Detour buffers: the targets of the jumps that stand in the place of a probed instruction and of
//! the others that they cover.
//!
//! A detour saves the registers that a trap would have saved, and calls `optprobe_template.S`,
//! which calls the handlers. It executes the *displaced* instructions from copies, and jumps back
//! to the instruction after them. It leaves [`GAP`] bytes of the stack free below the stack pointer
//! of the probed code, for handlers that push. The entry of breakpoints does the same.
//!
//! A task can be preempted at any place here. The detour, its point and the engine itself stay
//! until a grace period of RCU tasks is over that began after the jump was removed.
//!
//! Contexts: process, sleeps.

use core::mem::offset_of;

use ferro_kprobes_builtin::raw::current_kprobe;
use ferro_kprobes_core::jump::Branch;
use ferro_kprobes_core::jump::Displaced;
use ferro_kprobes_core::jump::Frame;
use ferro_kprobes_core::jump::Reason;
use ferro_sys::bindings;
use ferro_sys::code::jump_site::JumpBatch;
use ferro_sys::code::jump_site::JumpedSite;
use ferro_sys::code::regs::Regs;
use ferro_sys::code::symbols;
use ferro_sys::code::text::ArmedSite;
use ferro_sys::code::text::TextLock;
use ferro_sys::code::text::BREAKPOINT;
use ferro_sys::code::trap_frame::SHORT_OFFSETS;
use ferro_sys::cpu::preempt;
use ferro_sys::mm::exec_pool;
use ferro_sys::mm::exec_pool::Slot;
use ferro_sys::mm::exec_pool::User;
use kernel::prelude::*;
use kernel::sync::Arc;

use super::grace_period::Since;
use super::grace_period::TasksPeriod;
use super::insn_stub::CodeError;
use super::lookup::Found;
use super::probe_point::Point;
use super::probe_point::ResumeMap;
use super::probe_point::BRANCH;
use super::probe_point::COPIES;

extern "C" {
    /// `optprobe_template.S`
    fn ferro_kprobe_detour();
    /// `optprobe_template.S`
    fn ferro_kprobe_detour_around();
    /// `optprobe_template.S`
    fn ferro_kprobe_detour_instead();
    /// `optprobe_template.S`
    fn ferro_kprobe_detour_watched();
    /// `optprobe_template.S`
    fn ferro_kprobe_detour_around_watched();
    /// `optprobe_template.S`
    fn ferro_kprobe_detour_instead_watched();
    /// `optprobe_template.S`
    fn ferro_kprobe_detour_after();
    /// `detour.h`
    fn ferro_kprobe_has_smap() -> bool;
}

const CLAC: [u8; 3] = [0x0f, 0x01, 0xca];
/// Sizes of slots: for usual detours, for most detours of kind `Around`, which have two copies of
/// the first instruction, and for all detours.
const SIZES: [usize; 3] = [128, 256, 512];
/// Bytes of the stack that are free for handlers.
const GAP: u8 = 48;

/// push of rdi, rsi, rdx, rcx, rax, r8 to r11, rbx, rbp, r12 to r15
const PUSH_ALL: [u8; 23] = [
    0x57, 0x56, 0x52, 0x51, 0x50, 0x41, 0x50, 0x41, 0x51, 0x41, 0x52, 0x41, 0x53, 0x53, 0x55, 0x41,
    0x54, 0x41, 0x55, 0x41, 0x56, 0x41, 0x57,
];
/// pop of all these, the last first
const POP_ALL: [u8; 23] = [
    0x41, 0x5f, 0x41, 0x5e, 0x41, 0x5d, 0x41, 0x5c, 0x5d, 0x5b, 0x41, 0x5b, 0x41, 0x5a, 0x41, 0x59,
    0x41, 0x58, 0x58, 0x59, 0x5a, 0x5e, 0x5f,
];

// Layout of the frame that detours push, as `optprobe_template.S` expects it.
static_assert!(offset_of!(bindings::pt_regs, r15) == 0);
static_assert!(offset_of!(bindings::pt_regs, di) == 14 * 8);
static_assert!(offset_of!(bindings::pt_regs, orig_ax) == 15 * 8);
static_assert!(offset_of!(bindings::pt_regs, ip) == IP as usize);
static_assert!(offset_of!(bindings::pt_regs, flags) == 18 * 8);
static_assert!(offset_of!(bindings::pt_regs, sp) == 19 * 8);
static_assert!(size_of::<bindings::pt_regs>() == 21 * 8);
// `optprobe_template.S` finds the list of probes at the start of a point.
static_assert!(offset_of!(Point, probes) == 0);

const IP: u8 = 16 * 8;

/// Returns the layout of the registers that a detour saves.
fn frame() -> Frame {
    Frame {
        registers: SHORT_OFFSETS,
        flags: offset_of!(bindings::pt_regs, flags) as u32,
        stack: size_of::<bindings::pt_regs>() as u32 + u32::from(GAP),
        smap: has_smap(),
    }
}

fn has_smap() -> bool {
    // SAFETY: The function only reads a feature of the CPU.
    unsafe { ferro_kprobe_has_smap() }
}

/// Number of [`Detour::addresses`].
pub(crate) const DETOUR_ADDRESSES: usize = 5;

/// Kind of a detour: which handlers it calls, and how the first instruction is executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DetourKind {
    /// Pre-handlers, then the copy of the instruction.
    Before,
    /// Pre- and post-handlers; between them the copy runs with the registers saved.
    Around,
    /// Pre- and post-handlers; between them the instruction is executed on the saved registers.
    Instead,
}

/// Addresses of the code that only [`DetourKind::Around`] has; 0 is none.
#[derive(Clone, Copy, Default)]
struct Around {
    /// Return addresses of the calls after the first instruction: a branch has one for each way.
    between: [usize; 2],
    /// The copy of the first instruction that runs with the registers saved.
    within: usize,
    /// The copies of the other instructions that run after it.
    rest: usize,
}

/// A detour, for one point.
///
/// # Invariants
///
/// The slot has the code for `point`, which refers to it by address. `TextLock::syncs()` returned
/// `written` after the code was written. The copies of all displaced instructions are at `copies`,
/// and `expected` has the original bytes of these instructions.
pub(crate) struct Detour {
    slot: Slot,
    point: Arc<Point>,
    written: usize,
    kind: DetourKind,
    copies: usize,
    around: Around,
    /// Number of bytes of the function that it replaces.
    displaced: usize,
    expected: KVec<u8>,
    resume: ResumeMap,
}

impl Detour {
    /// Makes the detour of a point, still unused.
    ///
    /// Errors: `NoMemory`; `OutOfReach` if the copies are too far, or if no detour of this kind is
    /// possible.
    pub(crate) fn new(
        point: &Arc<Point>,
        displaced: &Displaced,
        kind: DetourKind,
    ) -> Result<Self, CodeError> {
        let mut result = Err(CodeError::OutOfReach);
        for size in SIZES {
            result = Self::of_size(size, point, displaced, kind);
            // A detour that does not fit may fit into the next size.
            if !matches!(result, Err(CodeError::OutOfReach)) {
                break;
            }
        }
        result
    }

    fn of_size(
        size: usize,
        point: &Arc<Point>,
        displaced: &Displaced,
        kind: DetourKind,
    ) -> Result<Self, CodeError> {
        let mut code = KVec::from_elem(BREAKPOINT, size, GFP_KERNEL)?;
        let mut expected = KVec::new();
        for (_, insn) in displaced.instructions() {
            expected.extend_from_slice(insn.bytes(), GFP_KERNEL)?;
        }
        let mut slot = exec_pool::alloc(size, User::Detours).map_err(|_| CodeError::NoMemory)?;
        let mut to = CodeWriter {
            code: &mut code,
            len: 0,
            at: slot.address(),
        };
        let (copies, around) = to
            .put_detour(point, displaced, kind)
            .ok_or(CodeError::OutOfReach)?;
        let len = to.len;
        code.truncate(len);
        let resume = ResumeMap::of(displaced, copies).ok_or(CodeError::OutOfReach)?;
        let text = TextLock::new();
        slot.write(&code, &text)
            .map_err(|_| CodeError::OutOfReach)?;
        // INVARIANT: Just written, by `put_detour()`.
        Ok(Self {
            slot,
            point: point.clone(),
            written: text.syncs(),
            kind,
            copies,
            around,
            displaced: displaced.len(),
            expected,
            resume,
        })
    }

    /// Returns the addresses by which a point is found; 0 is none.
    ///
    /// These are the copies of the displaced instructions, the breakpoint in front of the detour,
    /// and the return addresses of the calls after the first instruction. The last is the copy of
    /// that instruction that runs with the registers saved.
    pub(crate) fn addresses(&self) -> [usize; DETOUR_ADDRESSES] {
        let Around {
            between: [next, taken],
            within,
            ..
        } = self.around;
        [self.copies, self.slot.address(), next, taken, within]
    }

    /// Returns the kind of the detour.
    pub(crate) fn kind(&self) -> DetourKind {
        self.kind
    }

    /// Returns the number of bytes, from the point on, that the detour executes.
    pub(crate) fn displaced(&self) -> usize {
        self.displaced
    }

    /// Redirects the hits of the point's breakpoint to the copies. No task enters the displaced
    /// instructions afterwards, except tasks that were already on the way there.
    ///
    /// A CPU may have fetched earlier contents of the slot, such as another detour, and executes
    /// them until it serialises. It reaches the copies in these ways, all of which begin with one
    /// of the stores here:
    ///
    /// - from the point's breakpoint, by the return from the exception. `iret` serialises, and the
    ///   breakpoint was hit after the code was written. But `erets`, which CPUs with FRED use, does
    ///   not discard the next instructions that the CPU has fetched;
    /// - from another detour of the point, which a task may still be in: `optprobe_template.S`
    ///   resumes at [`Point::last_detour`] with a `ret`, without any exception;
    /// - from the jump, or from the breakpoint that the kernel puts in its place while it writes
    ///   the jump, both later.
    ///
    /// So every CPU is synchronised after the code is written and before the stores, here, or by
    /// another holder of `text_mutex` in between. The first of several detours does it for all.
    pub(crate) fn publish(&self, text: &mut TextLock) -> Since {
        if text.syncs() == self.written {
            text.sync();
        }
        self.point.last_detour.store(self.resume.word());
        self.point.substitute.store(self.slot.address());
        if self.kind == DetourKind::Around {
            self.point.within.store(self.around.within);
            self.point.rest.store(self.around.rest);
        }
        self.point.set_detour(Some(self.resume));
        // After that store: a grace period that covers this time begins when every CPU sees it.
        Since::now()
    }

    /// Adds the jump to a batch. The end of the batch writes it over the point's breakpoint. No
    /// task can be in the bytes that the jump covers.
    ///
    /// Errors: the site, as [`ArmedSite::jump`], at another point's breakpoint, or if the wait
    /// began too early.
    pub(crate) fn place_jump(
        &self,
        site: ArmedSite,
        since: Since,
        waited: &TasksPeriod,
        batch: &mut JumpBatch<'_>,
    ) -> Result<JumpedSite, ArmedSite> {
        if !since.is_over(waited) || site.address() != self.point.address {
            return Err(site);
        }
        // SAFETY: `can_optimize.rs` has found that nothing leads to the displaced instructions
        // except the first of them. Since `publish()` tasks that hit the breakpoint do not enter
        // them either. Every task that was among them, or in a copy that leads there, has left: a
        // grace period of RCU tasks has passed. The engine has no other point there:
        // `unoptimize_disturbed()` restores the site before one is made. By the type invariant the
        // detour does what the instructions do, after the handlers that their breakpoint calls. The
        // registry keeps the detour, with its point, until the tasks in it have left.
        unsafe { site.jump(self.slot.address().wrapping_add(1), &self.expected, batch) }
    }
}

/// Ends a hit after a fault of the first instruction, in the copy that runs between the handlers.
/// Changes `regs` to the registers of the probed instruction itself. Returns false for any other
/// fault.
pub(crate) fn abort_around(point: Found<'_, Point>, regs: &mut Regs) -> bool {
    let within = point.within.load();
    if within == 0 || regs.ip() != within {
        return false;
    }
    let saved = core::ptr::with_exposed_provenance::<bindings::pt_regs>(regs.sp());
    let regs = regs.as_ptr();
    // SAFETY: By the invariants of `Detour`, which has stored the address, the copy runs on the
    // stack of this context with the stack pointer at the registers that `put_entry()` has saved.
    // These and the registers of the fault are this context's.
    unsafe {
        let fault = regs.read();
        regs.write(bindings::pt_regs {
            ip: point.address,
            // The exception's: its error code, and its entry state.
            orig_ax: fault.orig_ax,
            __bindgen_anon_1: fault.__bindgen_anon_1,
            __bindgen_anon_2: fault.__bindgen_anon_2,
            ..saved.read()
        });
    }
    current_kprobe::end();
    // SAFETY: `optprobe_template.S` has turned preemption off in front of the copy, and is not
    // going to turn it on.
    unsafe { preempt::end() };
    true
}

/// Calls `f` with the point of the detour at an address, if points are found by that detour.
/// Context: any with preemption off.
pub(crate) fn with_detour<R>(
    at: usize,
    mut f: impl FnMut(Found<'_, Point>) -> Option<R>,
) -> Option<R> {
    if !exec_pool::contains(at) {
        return None;
    }
    // A slot lies at a multiple of its size, and the point is found by its start.
    let mut slots = SIZES.iter().map(|size| at & !(size - 1));
    slots.find_map(|slot| COPIES.with(slot, &mut f).flatten())
}

/// Writer of a detour's code.
struct CodeWriter<'a> {
    code: &'a mut [u8],
    len: usize,
    at: usize,
}

impl CodeWriter<'_> {
    /// Writes a detour. Returns the address of the copies of all displaced instructions, and the
    /// addresses of a detour with post-handlers.
    fn put_detour(
        &mut self,
        point: &Arc<Point>,
        displaced: &Displaced,
        kind: DetourKind,
    ) -> Option<(usize, Around)> {
        // The substitute breakpoint.
        self.put(&[BREAKPOINT])?;
        self.put_entry(point)?;
        // RCU always watches in core text, except in entry and idle code. That code has sections of
        // its own, as objtool checks, and `can_optimize.rs` refuses them. In a module, code that
        // RCU does not watch may be anywhere.
        let is_watched = symbols::is_core_text(point.address);
        let called = match (kind, is_watched) {
            (DetourKind::Before, true) => ferro_kprobe_detour_watched,
            (DetourKind::Around, true) => ferro_kprobe_detour_around_watched,
            (DetourKind::Instead, true) => ferro_kprobe_detour_instead_watched,
            (DetourKind::Before, false) => ferro_kprobe_detour,
            (DetourKind::Around, false) => ferro_kprobe_detour_around,
            (DetourKind::Instead, false) => ferro_kprobe_detour_instead,
        };
        self.put_branch(0xe8, called as *const () as usize)?;
        let mut around = Around::default();
        match kind {
            DetourKind::Before => self.put_exit(0)?,
            DetourKind::Around => self.put_around(point, displaced, &mut around)?,
            // `optprobe_template.S` resumes where the registers say.
            DetourKind::Instead => (),
        }
        let copies = self.here();
        self.extend(|to, out| displaced.relocate(to, out))?;
        self.put_branch(0xe9, displaced.end() as usize)?;
        Some((copies, around))
    }

    /// Writes the first instruction, the call of the post-handlers, and the other instructions.
    fn put_around(
        &mut self,
        point: &Arc<Point>,
        displaced: &Displaced,
        around: &mut Around,
    ) -> Option<()> {
        let [next, taken] = &mut around.between;
        let Some(Branch { condition, target }) = displaced.first_branch() else {
            let mut stack_moves = 0;
            let start = self.here();
            self.extend(|to, out| {
                let within = displaced.first_within(&frame(), to, out)?;
                stack_moves = within.stack_moves;
                around.within = within.copy.map_or(0, |copy| start.wrapping_add(copy));
                Ok(within.len)
            })?;
            *next = self.put_post_call(point.next, stack_moves)?;
            around.rest = self.here();
            return self.put_rest(displaced);
        };
        // Each way of the branch has its own call and end. So handlers cannot change the way by
        // writing to ip or to the flags.
        let mut over = None;
        if let Some(mut condition) = condition {
            self.extend(|_, out| {
                let (len, now) = Displaced::put_condition(condition, &frame(), out)?;
                condition = now;
                Ok(len)
            })?;
            over = Some(self.len);
            self.put(&[0x70 | condition ^ 1, 0])?;
        }
        *taken = self.put_post_call(usize::try_from(target).ok()?, 0)?;
        self.put_branch(0xe9, usize::try_from(target).ok()?)?;
        if let Some(over) = over {
            self.end_short_jump(over)?;
            *next = self.put_post_call(point.next, 0)?;
            around.rest = self.here();
            self.put_rest(displaced)?;
        }
        Some(())
    }

    /// Writes a call of the post-handlers, which see this ip, and [`Self::put_exit`]. Returns the
    /// call's return address.
    fn put_post_call(&mut self, ip: usize, stack_moves: i8) -> Option<usize> {
        // movq $ip, ip(%rsp)
        self.put(&[0x48, 0xc7, 0x84, 0x24, IP, 0, 0, 0])?;
        self.put(&i32::try_from(ip as isize).ok()?.to_le_bytes())?;
        self.put_branch(0xe8, ferro_kprobe_detour_after as *const () as usize)?;
        let back = self.here();
        self.put_exit(stack_moves)?;
        Some(back)
    }

    /// Writes the instructions after the first, and the jump back to the instruction after them.
    fn put_rest(&mut self, displaced: &Displaced) -> Option<()> {
        self.extend(|to, out| displaced.relocate_rest(to, out))?;
        self.put_branch(0xe9, displaced.end() as usize)
    }

    /// Makes the next byte the target of the short jump at `jump`.
    fn end_short_jump(&mut self, jump: usize) -> Option<()> {
        let distance = self.len.checked_sub(jump.checked_add(2)?)?;
        *self.code.get_mut(jump.checked_add(1)?)? = i8::try_from(distance).ok()?.to_le_bytes()[0];
        Some(())
    }

    /// Writes code that makes `struct pt_regs`.
    fn put_entry(&mut self, point: &Arc<Point>) -> Option<()> {
        // lea -GAP(%rsp), %rsp; push $__KERNEL_DS; push %rsp; pushf; addq $GAP + 8, 8(%rsp)
        self.put(&[0x48, 0x8d, 0x64, 0x24, 0u8.wrapping_sub(GAP)])?;
        self.put(&[0x6a, u8::try_from(bindings::__KERNEL_DS).ok()?, 0x54, 0x9c])?;
        self.put(&[0x48, 0x83, 0x44, 0x24, 8, GAP + 8])?;
        if has_smap() {
            self.put(&CLAC)?;
        }
        // push $__KERNEL_CS; push $ip, as after the breakpoint; push $-1
        self.put(&[0x6a, u8::try_from(bindings::__KERNEL_CS).ok()?, 0x68])?;
        let ip = i32::try_from(point.address.wrapping_add(1) as isize).ok()?;
        self.put(&ip.to_le_bytes())?;
        self.put(&[0x6a, 0xff])?;
        self.put(&PUSH_ALL)?;
        // movabs $point, %rbx
        self.put(&[0x48, 0xbb])?;
        self.put(&(Arc::as_ptr(point) as usize).to_le_bytes())
    }

    /// Writes code that undoes `put_entry()`, with the stack pointer moved by `stack_moves`.
    fn put_exit(&mut self, stack_moves: i8) -> Option<()> {
        self.put(&POP_ALL)?;
        // lea 24(%rsp), %rsp, past orig_ax, ip and cs; popf; lea past sp, ss and the gap.
        self.put(&[0x48, 0x8d, 0x64, 0x24, 24, 0x9d])?;
        let above = (16 + GAP).checked_add_signed(stack_moves)?;
        self.put(&[0x48, 0x8d, 0x64, 0x24, above])
    }

    /// Returns the address of the next byte.
    fn here(&self) -> usize {
        self.at.wrapping_add(self.len)
    }

    fn put(&mut self, bytes: &[u8]) -> Option<()> {
        let end = self.len.checked_add(bytes.len())?;
        self.code.get_mut(self.len..end)?.copy_from_slice(bytes);
        self.len = end;
        Some(())
    }

    /// Appends the code that `write` makes for the address that it gets.
    fn extend(
        &mut self,
        write: impl FnOnce(u64, &mut [u8]) -> Result<usize, Reason>,
    ) -> Option<()> {
        let to = self.here() as u64;
        self.len += write(to, self.code.get_mut(self.len..)?).ok()?;
        Some(())
    }

    fn put_branch(&mut self, opcode: u8, target: usize) -> Option<()> {
        let end = self.here().wrapping_add(BRANCH);
        let distance = i32::try_from(target.wrapping_sub(end) as isize).ok()?;
        self.put(&[opcode])?;
        self.put(&distance.to_le_bytes())
    }
}
