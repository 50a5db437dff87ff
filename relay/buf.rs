// SPDX-License-Identifier: GPL-2.0

//! A channel buffer: the writer's side, and the lifetime from opening to closing.
//!
//! Contexts: [`Buf::switch`] runs in the client's writing context, on the buffer's CPU under
//! [`Buf::writing`] (`engine_write.rs`). The rest runs in process context.
//!
//! Locks, outermost first: CPU hotplug, the registry (`registry.rs`), [`Buf::reading`],
//! [`Buf::writing`].
#![deny(unsafe_code)]

use ferro_core::relay::consume;
use ferro_core::relay::later;
use ferro_core::relay::settle;
use ferro_core::relay::Geometry;
use ferro_core::relay::Position;
use ferro_core::relay::SubbufIndex;
use ferro_core::relay::View;
use ferro_sys::bindings;
use ferro_sys::cpu::task::cond_resched_killable;
use ferro_sys::cpu::with_irqs_off;
use ferro_sys::cpu::CpuId;
use ferro_sys::fs::dentry::Dentry;
use ferro_sys::impl_always_refcounted;
use ferro_sys::mm::pages::PageBuf;
use ferro_sys::sync::nmi_lock::OwnerLock;
use ferro_sys::sync::refcounted::first_ref;
use ferro_sys::sync::refcounted::Counted;
use kernel::new_mutex;
use kernel::page::PAGE_SIZE;
use kernel::prelude::*;
use kernel::processor::cpu_relax;
use kernel::sync::aref::ARef;
use kernel::sync::atomic::Acquire;
use kernel::sync::atomic::Atomic;
use kernel::sync::atomic::Full;
use kernel::sync::atomic::Relaxed;
use kernel::sync::atomic::Release;
use kernel::sync::barrier;
use kernel::sync::Mutex;
use kernel::sync::Refcount;
use kernel::sync::SetOnce;

use crate::channel::Channel;
use crate::raw::abi::RchanBuf;
use crate::raw::client::CBuf;
use crate::spliced_pages::Loans;
use crate::spliced_pages::ScanBudget;

/// A channel buffer. It starts with the `struct rchan_buf` that C code sees.
#[repr(C)]
#[pin_data(PinnedDrop)]
pub(crate) struct Buf {
    #[pin]
    pub(crate) abi: RchanBuf,
    channel: ARef<Channel>,
    memory: PageBuf,
    padding: KVVec<Atomic<usize>>,
    dentry: SetOnce<Dentry>,
    /// Set while the writer is inside a sub-buffer; clear while it waits to enter the next one.
    /// Written with release by the owner of the CPU, pairs with the acquire in `view()`.
    inside: Atomic<bool>,
    /// Number of times that no sub-buffer was free. `abi.full_count` has the lower half.
    full: Atomic<u64>,
    /// Number of records that were too large. `abi.big_count` has the lower half.
    big: Atomic<u64>,
    /// Serialises [`Buf::try_write`], [`Buf::try_switch`] and [`Buf::flush`].
    pub(crate) writing: OwnerLock,
    pub(crate) lost: Atomic<u64>,
    /// Serialises readers.
    #[pin]
    pub(crate) reading: Mutex<()>,
    /// Number of sub-buffers that readers have finished; `bytes_consumed` belongs to the next one.
    /// Ahead of `subbufs_consumed` by the lent sub-buffers. Written with release under `reading`,
    /// pairs with the acquire in `settle()`.
    read: Atomic<usize>,
    /// Number of sub-buffers that users have reported as consumed, if ahead of `subbufs_consumed`
    /// because some of them are lent. Exchanged with release, pairs with the acquire in `settle()`.
    reported: Atomic<usize>,
    /// Number of begins and ends of [`Buf::reset`]: odd during a reset.
    resets: Atomic<usize>,
    /// Number of CPUs in [`Buf::unless_reset`].
    exchanging: Atomic<usize>,
    loans: Loans,
}

impl Buf {
    /// Allocates the buffer of `cpu`, empty, without a file.
    ///
    /// Errors: -ENOMEM, -EINTR if the task is being killed.
    pub(crate) fn new(channel: &ARef<Channel>, cpu: CpuId) -> Result<ARef<Self>> {
        let geometry = channel.geometry();
        let memory = PageBuf::new(geometry.bytes())?;
        let mut padding = KVVec::with_capacity(geometry.n_subbufs(), GFP_KERNEL | __GFP_NOWARN)?;
        for _ in 0..geometry.n_subbufs() {
            cond_resched_killable()?;
            padding.push(Atomic::new(0usize), GFP_KERNEL)?;
        }
        let loans = Loans::new(geometry.n_subbufs())?;
        let raw_channel = core::ptr::from_ref::<Channel>(channel);
        let abi = RchanBuf::new(raw_channel.cast(), &memory, &padding, cpu)?;
        let buf = KBox::pin_init(
            pin_init!(Self {
                abi <- abi,
                channel: channel.clone(),
                memory,
                padding,
                dentry: SetOnce::new(),
                inside: Atomic::new(false),
                full: Atomic::new(0),
                big: Atomic::new(0),
                writing: OwnerLock::new(),
                lost: Atomic::new(0),
                reading <- new_mutex!(()),
                read: Atomic::new(0),
                reported: Atomic::new(0),
                resets: Atomic::new(0),
                exchanging: Atomic::new(0),
                loans,
            }),
            GFP_KERNEL,
        )?;
        Ok(first_ref(buf))
    }

    pub(crate) fn geometry(&self) -> &Geometry {
        self.channel.geometry()
    }

    /// Returns the CPU that writes.
    pub(crate) fn cpu(&self) -> CpuId {
        CpuId::new(self.abi.cpu.load(Relaxed)).unwrap_or(CpuId::ZERO)
    }

    pub(crate) fn memory(&self) -> &PageBuf {
        &self.memory
    }

    /// Calls the client to make the buffer's file, if the files have names.
    ///
    /// The client decides at the channel's first buffer if the channel is global; `may_be_global`
    /// is set for that call.
    ///
    /// Errors: the client's, -ENOMEM, -EINVAL if the client has changed its decision.
    pub(crate) fn create_file(&self, may_be_global: bool) -> Result<Option<Dentry>> {
        let channel = &self.channel;
        let client = channel.client();
        let global = channel.is_global();
        let name = channel.file_name(self.cpu())?;
        let dentry = client.create_buf_file(&channel.abi, self, name.as_deref())?;
        if channel.is_global() != global && !may_be_global {
            channel.abi.is_global.store(global.into(), Relaxed);
            client.remove_buf_file(dentry.as_ref());
            return Err(EINVAL);
        }
        Ok(dentry)
    }

    /// Attaches the client's file. Runs on the CPU that writes, if writing has begun.
    pub(crate) fn set_dentry(&self, dentry: Dentry) {
        with_irqs_off(|irqs| {
            // Gets the lock: process context interrupts no write on this CPU, and writers on other
            // CPUs are waited for.
            let _guard = self.writing.enter(irqs);
            dentry.set_size(self.abi.early_bytes.load(Relaxed));
            self.abi.dentry.store(dentry.as_ptr(), Relaxed);
            self.dentry.populate(dentry);
        });
    }

    /// Enters the first sub-buffer: the last step of opening.
    ///
    /// Ignores the client's answer, which can refuse only later sub-buffers.
    pub(crate) fn enter_first(&self) {
        let (_, reserved) = self.start_subbuf(self.abi.start, core::ptr::null_mut(), false);
        self.enter(self.geometry().index(0), self.abi.start, reserved);
    }

    /// Empties the buffer, as at its opening. The client must not write at the same time.
    pub(crate) fn reset(&self) {
        let _guard = self.reading.lock();
        self.abi.wakeup_work.sync();
        // After this, no value computed from the old counts can be stored.
        self.resets.fetch_add(1, Full);
        while self.exchanging.load(Acquire) != 0 {
            cpu_relax();
        }
        self.inside.store(false, Release);
        for counter in [
            &self.abi.subbufs_produced,
            &self.abi.bytes_consumed,
            &self.abi.offset,
            &self.read,
            &self.reported,
        ] {
            counter.store(0, Relaxed);
        }
        self.abi.subbufs_consumed.store(0, Relaxed);
        for counter in [
            &self.abi.full_count,
            &self.abi.big_count,
            &self.abi.finalized,
        ] {
            counter.store(0, Relaxed);
        }
        self.full.store(0, Relaxed);
        self.big.store(0, Relaxed);
        self.lost.store(0, Relaxed);
        for padding in &self.padding {
            padding.store(0, Relaxed);
        }
        self.abi.data.store(self.abi.start, Relaxed);
        self.enter_first();
        self.resets.fetch_add(1, Full);
    }

    /// Calls `exchange`, which stores a value computed after `resets` was read, and returns its
    /// result. Returns `None` without calling it if the buffer has been reset since, or a reset is
    /// running.
    ///
    /// Context: any. A reset waits for an exchange on another CPU, which runs with interrupts off.
    /// An NMI within a reset on its own CPU sees that the reset has begun.
    fn unless_reset(&self, resets: usize, exchange: impl FnOnce() -> bool) -> Option<bool> {
        with_irqs_off(|_| {
            // Before the load of `resets`; pairs with the increment in `reset()`. Either this CPU
            // sees the reset, or the reset waits for this CPU.
            self.exchanging.fetch_add(1, Full);
            let is_same = resets % 2 == 0 && self.resets.load(Acquire) == resets;
            let exchanged = is_same.then(exchange);
            self.exchanging.fetch_sub(1, Release);
            exchanged
        })
    }

    /// Moves to the next sub-buffer, so that a record of `length` bytes fits.
    ///
    /// Returns `length`, or 0 if the record cannot be written.
    pub(crate) fn switch(&self, length: usize) -> usize {
        let geometry = self.geometry();
        if length > geometry.subbuf_size() {
            return self.refuse_big();
        }

        let mut produced = self.abi.subbufs_produced.load(Relaxed);
        if let Some(closed) = geometry.close(produced, self.abi.offset.load(Relaxed)) {
            // Cleared before the count is stored: a reader that sees the new count must not use the
            // old sub-buffer's offset for the new sub-buffer.
            self.inside.store(false, Release);
            // From this store on, a write that interrupts this function or its callees cannot write
            // to the old or the new sub-buffer.
            self.abi.offset.store(geometry.blocked(), Relaxed);
            if let Some(padding) = self.padding.get(closed.index.get()) {
                padding.store(closed.padding, Relaxed);
            }
            produced = produced.wrapping_add(1);
            // Publishes the sub-buffer's data and its padding.
            self.abi.subbufs_produced.store(produced, Release);
            self.add_size(closed.bytes);
            // Orders the store of the count before the check of the queue. A poller has its barrier
            // between queueing itself and loading the count.
            barrier::smp_mb(barrier::Full);
            if self.abi.read_wait.is_active() {
                // Waking takes locks that the scheduler may hold while it is being traced.
                self.abi.wakeup_work.queue();
            }
        }

        let index = geometry.index(produced);
        let new = self.abi.start.wrapping_add(geometry.start(index).get());
        let old = self.abi.data.load(Relaxed);
        // A count of 0 means that no sub-buffer was entered: the first one was lent at the reset.
        let prev = match produced {
            0 => core::ptr::null_mut(),
            _ => old,
        };
        let full = self.is_full();
        if !full && !self.is_lent(index, &ScanBudget::few()) {
            // The client reserves bytes by setting the offset. A write that interrupts it then goes
            // after the reserved bytes.
            self.abi.data.store(new, Relaxed);
        }
        let (may_enter, reserved) = self.start_subbuf(new, prev, full);
        if !may_enter || !self.enter(index, new, reserved) {
            if may_enter && !full {
                count(&self.full, &self.abi.full_count);
            }
            self.abi.data.store(old, Relaxed);
            return 0;
        }
        if let Some(padding) = self.padding.get(index.get()) {
            padding.store(0, Relaxed);
        }

        if !geometry.fits(self.abi.offset.load(Relaxed), length) {
            return self.refuse_big();
        }
        length
    }

    /// Asks the client if the next sub-buffer may be entered. A client without a callback gets the
    /// default, which loses new data rather than old. Also returns the number of bytes that the
    /// client has reserved at the start of the sub-buffer.
    ///
    /// The header's inline writers are blocked before and after the call.
    fn start_subbuf(&self, new: *mut u8, prev: *mut u8, full: bool) -> (bool, usize) {
        if full {
            count(&self.full, &self.abi.full_count);
        }
        let blocked = self.geometry().blocked();
        self.abi.offset.store(blocked, Relaxed);
        let may_enter = self
            .channel
            .client()
            .subbuf_start(self, new, prev)
            .unwrap_or(!full);
        // One exchange: a write that interrupts must never find room here.
        let offset = self.abi.offset.xchg(blocked, Relaxed);
        // A client may add to the offset instead of setting it, and has then added to `blocked`.
        (may_enter, offset.checked_sub(blocked).unwrap_or(offset))
    }

    /// Enters a sub-buffer with its first `reserved` bytes reserved, unless a part of it is lent.
    fn enter(&self, index: SubbufIndex, new: *mut u8, reserved: usize) -> bool {
        let budget = ScanBudget::few();
        self.loans.unless_lent(
            || self.is_lent(index, &budget),
            || {
                self.abi.data.store(new, Relaxed);
                // Before any write to it.
                self.inside.store(true, Release);
                // From this store on, the header's inline writers find room, even one that
                // interrupts this function.
                self.abi.offset.store(reserved, Release);
            },
        )
    }

    /// Returns true if spliced bytes of a sub-buffer are still unread, or if the budget ends before
    /// the scan has shown that none are.
    fn is_lent(&self, index: SubbufIndex, budget: &ScanBudget) -> bool {
        self.loans
            .is_lent(index, budget, |page| self.is_page_shared(index, page))
    }

    /// Lends a part of a sub-buffer: see [`Loans::lend`].
    pub(crate) fn lend(&self, index: SubbufIndex) {
        let start = self.geometry().start(index).get() % PAGE_SIZE;
        // Cannot overflow: the sub-buffer is within the buffer.
        let pages = (start + self.geometry().subbuf_size()).div_ceil(PAGE_SIZE);
        self.loans.lend(index, pages);
    }

    /// Ends the loan of a part of a sub-buffer, which has left its pipes. Context: process.
    pub(crate) fn end_loan(&self, index: SubbufIndex) {
        self.loans
            .end(index, |page| self.is_page_shared(index, page));
        self.settle(&ScanBudget::all());
    }

    /// Returns true if a page of a sub-buffer, counted from its first one, has other references.
    fn is_page_shared(&self, index: SubbufIndex, page: usize) -> bool {
        let first = self.geometry().start(index).get() / PAGE_SIZE;
        self.memory.is_shared(first.saturating_add(page))
    }

    fn refuse_big(&self) -> usize {
        count(&self.big, &self.abi.big_count);
        0
    }

    fn add_size(&self, bytes: usize) {
        match self.dentry.as_ref() {
            Some(dentry) => dentry.add_size(bytes),
            None => {
                let early = self.abi.early_bytes.load(Relaxed);
                self.abi
                    .early_bytes
                    .store(early.wrapping_add(bytes), Relaxed);
            }
        }
    }

    /// Returns true if no sub-buffer is free.
    pub(crate) fn is_full(&self) -> bool {
        let all_used = || {
            let consumed = self.abi.subbufs_consumed.load(Acquire);
            let produced = self.abi.subbufs_produced.load(Relaxed);
            produced.wrapping_sub(consumed) >= self.geometry().n_subbufs()
        };
        // Scans the lent pages: a socket does not report when it has finished with one.
        all_used() && {
            self.settle(&ScanBudget::few());
            all_used()
        }
    }

    /// Consumes the sub-buffers that were read or reported as consumed, up to the first lent one.
    fn settle(&self, budget: &ScanBudget) {
        let resets = self.resets.load(Acquire);
        loop {
            let consumed = self.abi.subbufs_consumed.load(Acquire);
            let goal = later(self.read.load(Acquire), self.reported.load(Acquire));
            let new = settle(self.geometry(), consumed, goal, |index| {
                self.is_lent(index, budget)
            });
            // Release: the reads are complete before the writer may use the space.
            let exchange = || {
                let counter = &self.abi.subbufs_consumed;
                counter.cmpxchg(consumed, new, Release).is_ok()
            };
            if new == consumed || self.unless_reset(resets, exchange) != Some(false) {
                return;
            }
        }
    }

    /// Returns how often a sub-buffer was needed and none was free.
    pub(crate) fn full_count(&self) -> u64 {
        self.full.load(Relaxed)
    }

    /// Returns the number of records that were too large.
    pub(crate) fn big_count(&self) -> u64 {
        self.big.load(Relaxed)
    }

    /// Records that a user has finished with `n` more sub-buffers. A lent sub-buffer is consumed
    /// when its loan ends.
    pub(crate) fn consume(&self, n: usize) {
        let resets = self.resets.load(Acquire);
        loop {
            let reported = self.reported.load(Acquire);
            let consumed = later(reported, self.abi.subbufs_consumed.load(Acquire));
            let produced = self.abi.subbufs_produced.load(Acquire);
            let Some(new) = consume(self.geometry(), produced, consumed, n) else {
                return;
            };
            // Release: the reads are complete before the writer may use the space.
            let exchange = || self.reported.cmpxchg(reported, new, Release).is_ok();
            match self.unless_reset(resets, exchange) {
                Some(false) => {}
                Some(true) => break,
                // The report was about the data before the reset.
                None => return,
            }
        }
        self.settle(&ScanBudget::few());
    }

    /// Returns a consistent snapshot of the writer's counters.
    pub(crate) fn view(&self) -> View {
        loop {
            let produced = self.abi.subbufs_produced.load(Acquire);
            let inside = self.inside.load(Acquire);
            let offset = self.abi.offset.load(Acquire);
            // If the offset or the flag belongs to a later sub-buffer, this load sees a later
            // count.
            if self.abi.subbufs_produced.load(Relaxed) == produced {
                let offset = match inside {
                    true => offset,
                    false => self.geometry().blocked(),
                };
                return View { produced, offset };
            }
        }
    }

    /// Returns the number of unused bytes at the end of a completed sub-buffer.
    pub(crate) fn padding(&self, index: SubbufIndex) -> usize {
        self.padding.get(index.get()).map_or(0, |p| p.load(Relaxed))
    }

    /// Returns the position of the reader.
    pub(crate) fn position(&self) -> Position {
        let consumed = self.abi.subbufs_consumed.load(Relaxed);
        Position::new(
            later(self.reported.load(Relaxed), consumed),
            self.read.load(Relaxed),
            self.abi.bytes_consumed.load(Relaxed),
        )
    }

    /// Moves the position from `old` to `new`, under [`Buf::reading`]. Returns false if the client
    /// has consumed sub-buffers since.
    pub(crate) fn set_position(&self, old: Position, new: Position) -> bool {
        if self.position() != old {
            return false;
        }
        self.abi.bytes_consumed.store(new.bytes, Relaxed);
        // Release: the data were copied or lent before the writer may use the space.
        self.read.store(new.consumed, Release);
        self.settle(&ScanBudget::all());
        true
    }

    /// Returns true if the channel has been closed.
    pub(crate) fn is_finalized(&self) -> bool {
        self.abi.finalized.load(Acquire) != 0
    }

    /// Closes the buffer after the last write and removes its file. Open files and mappings keep
    /// the buffer.
    pub(crate) fn close(&self) {
        self.abi.finalized.store(1, Release);
        self.abi.wakeup_work.sync();
        self.abi.read_wait.wake_all();
        self.channel.client().remove_buf_file(self.dentry.as_ref());
    }
}

// SAFETY: The count is in the structure that C sees, and C code does not lower it. `Buf::new()`,
// the only constructor as the fields are private, makes instances in a pinned box with a count of
// 1.
#[expect(unsafe_code)]
unsafe impl Counted for Buf {
    fn count(&self) -> &Refcount {
        &self.abi.kref
    }
}
impl_always_refcounted!(Buf);

// SAFETY: `Buf` is `repr(C)` and starts with the structure; `abi.rs` compares its layout with the
// header's.
#[expect(unsafe_code)]
unsafe impl CBuf for Buf {
    fn as_raw(&self) -> *mut bindings::rchan_buf {
        core::ptr::from_ref(self).cast_mut().cast()
    }
}

#[pinned_drop]
#[expect(unsafe_code, reason = "`pinned_drop` makes an `unsafe` impl")]
impl PinnedDrop for Buf {
    /// Removes the buffer from the channel's slots, where writers find it.
    fn drop(self: Pin<&mut Self>) {
        self.abi.wakeup_work.sync();
        self.channel.unpublish(&*self);
    }
}

/// Increments a counter, on the only CPU that writes it. Takes the lower half from the header's
/// counter, which a client may have set.
fn count(own: &Atomic<u64>, seen_by_c: &Atomic<u32>) {
    let low = seen_by_c.load(Relaxed);
    let high = own.load(Relaxed) & !u64::from(u32::MAX);
    own.store((high | u64::from(low)).wrapping_add(1), Relaxed);
    seen_by_c.store(low.wrapping_add(1), Relaxed);
}
