// SPDX-License-Identifier: GPL-2.0

//! Detours: where the jump goes that stands in the place of a probed instruction, and of those that it covers.
//!
//! A detour saves what a trap would have saved, calls `detoured.S`, which has the handlers called, executes the *displaced*
//! instructions from copies, and jumps back to what follows them.
//!
//! A task can be preempted in any of this. What it needs, the detour, its point and the engine itself, stays until a grace
//! period of RCU tasks is over that began after the jump was taken away.
//!
//! Contexts: process, sleeps.

use core::mem::offset_of;

use ferro_core::insn::jump::Displaced;
use ferro_sys::code::jump_site::JumpBatch;
use ferro_sys::code::jump_site::JumpedSite;
use ferro_sys::code::text::ArmedSite;
use ferro_sys::code::text::TextLock;
use ferro_sys::code::text::BREAKPOINT;
use ferro_sys::mm::exec_pool;
use ferro_sys::mm::exec_pool::Slot;
use ferro_sys::mm::exec_pool::User;
use ferro_sys::sync::rcu_tasks;
use kernel::bindings;
use kernel::prelude::*;
use kernel::sync::atomic::Acquire;
use kernel::sync::atomic::Atomic;
use kernel::sync::atomic::Full;
use kernel::sync::Arc;

use crate::parts::Parts;
use crate::point::Point;

extern "C" {
    /// `detoured.S`
    fn ferro_kprobe_detour();
    /// `detour.h`
    fn ferro_kprobe_has_smap() -> bool;
}

/// In front of the code: the address of the point.
const POINT: usize = size_of::<usize>();
/// How long the code is up to the return address of its call, with `clac`. `detour.h` has the sum of both.
const ENTRY: usize = 29;
const CLAC: [u8; 3] = [0x0f, 0x01, 0xca];
/// How long a call or jump with a 32-bit distance is.
const BRANCH: usize = 5;
/// Room for the usual ones, and for all.
const SIZES: [usize; 2] = [64, 128];

static_assert!(POINT + ENTRY == 37);
// What the entry pushes and `detoured.S` counts on.
static_assert!(offset_of!(bindings::pt_regs, orig_ax) == 15 * 8);
static_assert!(offset_of!(bindings::pt_regs, ip) == 16 * 8);
static_assert!(offset_of!(bindings::pt_regs, sp) == 19 * 8);
static_assert!(size_of::<bindings::pt_regs>() == 21 * 8);

/// How many waits for all tasks have begun.
static WAITS: Atomic<usize> = Atomic::new(0);

/// When breakpoint hits began to use a detour: a wait that begins later has this number, or a greater one.
#[derive(Clone, Copy)]
pub(crate) struct Since(usize);

/// A wait for all tasks that is over.
pub(crate) struct Waited(usize);

impl Waited {
    /// Waits until every task has left, by its own will, what it was executing. Sleeps; not with the engine's mutex.
    pub(crate) fn wait() -> Self {
        let number = WAITS.fetch_add(1, Full);
        rcu_tasks::synchronize();
        Self(number)
    }

    /// Whether it began after that.
    pub(crate) fn covers(&self, since: Since) -> bool {
        self.0 >= since.0
    }
}

/// A detour, for one point.
///
/// # Invariants
///
/// Its code is in the slot, from when it is written: that for the point whose address is in front of it, with the displaced
/// instructions at `copies`.
pub(crate) struct Detour {
    slot: Slot,
    code: [u8; SIZES[1]],
    len: usize,
    entry: usize,
    copies: usize,
    /// How many bytes of the function it stands in for.
    displaced: usize,
    parts: Parts,
}

impl Detour {
    /// Makes room for the detour of a point. `None` if there is no memory, or the copies do not fit or reach.
    pub(crate) fn new(point: &Arc<Point>, displaced: &Displaced) -> Option<Self> {
        SIZES
            .into_iter()
            .find_map(|size| Self::of_size(size, point, displaced))
    }

    fn of_size(size: usize, point: &Arc<Point>, displaced: &Displaced) -> Option<Self> {
        let slot = exec_pool::alloc(size, User::Probes).ok()?;
        let at = slot.address();
        let mut code = [BREAKPOINT; SIZES[1]];
        let mut to = Cursor {
            code: code.get_mut(..size)?,
            len: 0,
            at,
        };
        // INVARIANT: The address of this point.
        to.put(&(Arc::as_ptr(point) as usize).to_le_bytes())?;
        // SAFETY: The function only reads a feature of the CPU.
        let has_smap = unsafe { ferro_kprobe_has_smap() };
        let skipped = if has_smap { 0 } else { CLAC.len() };
        to.len += skipped;
        // push %rsp; push (%rsp); movq $__KERNEL_DS, 8(%rsp); pushf: ss, sp and flags.
        to.put(&[0x54, 0xff, 0x34, 0x24])?;
        to.put(&[0x48, 0xc7, 0x44, 0x24, 0x08])?;
        to.put(&bindings::__KERNEL_DS.to_le_bytes())?;
        to.put(&[0x9c])?;
        if has_smap {
            to.put(&CLAC)?;
        }
        // push $__KERNEL_CS; push $ip, as after the breakpoint.
        to.put(&[0x6a, u8::try_from(bindings::__KERNEL_CS).ok()?, 0x68])?;
        let ip = i32::try_from(point.address.wrapping_add(1) as isize).ok()?;
        to.put(&ip.to_le_bytes())?;
        to.branch(0xe8, ferro_kprobe_detour as *const () as usize)?;
        let copies = at.wrapping_add(to.len);
        let len = displaced
            .relocate(copies as u64, to.code.get_mut(to.len..)?)
            .ok()?;
        to.len += len;
        to.branch(0xe9, point.address.wrapping_add(displaced.len()))?;
        let len = to.len;
        Some(Self {
            slot,
            code,
            len,
            entry: at.wrapping_add(POINT).wrapping_add(skipped),
            copies,
            displaced: displaced.len(),
            parts: Parts::of(displaced, copies),
        })
    }

    /// Writes it, before anybody comes there.
    pub(crate) fn write(&mut self, text: &mut TextLock) -> Result {
        self.slot
            .write(self.code.get(..self.len).ok_or(EINVAL)?, text)
    }

    /// Where the copies of the displaced instructions are.
    pub(crate) fn copies(&self) -> usize {
        self.copies
    }

    /// How many bytes, from the point on, are executed here.
    pub(crate) fn displaced(&self) -> usize {
        self.displaced
    }

    /// Has the hits of the point's breakpoint go on in the copies. Nobody enters the displaced instructions any more, but for those
    /// who are on their way. The detour has been written.
    pub(crate) fn publish(&self, point: &Point) -> Since {
        point.parts.store(self.parts.word());
        point.detour.store(self.copies);
        Since(WAITS.load(Acquire))
    }

    /// Puts the jump in the place of the breakpoint when the batch is over, once nobody can be in what it covers. Fails as
    /// [`ArmedSite::jump`], and if the wait began too early.
    pub(crate) fn enter(
        &self,
        site: ArmedSite,
        since: Since,
        waited: &Waited,
        batch: &mut JumpBatch<'_>,
    ) -> Result<JumpedSite, ArmedSite> {
        if !waited.covers(since) {
            return Err(site);
        }
        // SAFETY: `displace.rs` has found that nothing leads to the displaced instructions but the first of them. Since `publish()` who
        // hits the breakpoint does not come to them either, and whoever was among them, or in a copy that leads there, has
        // left: a grace period of RCU tasks has passed. The engine has no other point there: `leave_covering()` restores the site
        // before one is made. By the type invariant the detour does what the instructions do, after the handlers that their
        // breakpoint calls; the registry keeps it, with its point, until the tasks in it have left.
        unsafe { site.jump(self.entry, batch) }
    }
}

/// Code that is being put together.
struct Cursor<'a> {
    code: &'a mut [u8],
    len: usize,
    at: usize,
}

impl Cursor<'_> {
    fn put(&mut self, bytes: &[u8]) -> Option<()> {
        let end = self.len.checked_add(bytes.len())?;
        self.code.get_mut(self.len..end)?.copy_from_slice(bytes);
        self.len = end;
        Some(())
    }

    fn branch(&mut self, opcode: u8, target: usize) -> Option<()> {
        let behind = self.at.wrapping_add(self.len).wrapping_add(BRANCH);
        let distance = i32::try_from(target.wrapping_sub(behind) as isize).ok()?;
        self.put(&[opcode])?;
        self.put(&distance.to_le_bytes())
    }
}
