// SPDX-License-Identifier: GPL-2.0

//! A channel buffer: the writer's side, and its life from opening to closing.
//!
//! Contexts: [`Buf::switch`] runs where the client writes, on the buffer's CPU under [`Buf::writing`]
//! (`engine_write.rs`). The rest runs in process context.
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
use ferro_sys::cpu::task::cond_resched_killable;
use ferro_sys::cpu::with_irqs_off;
use ferro_sys::cpu::CpuId;
use ferro_sys::fs::dentry::Dentry;
use ferro_sys::mm::pages::PageBuf;
use ferro_sys::sync::nmi_lock::OwnerLock;
use ferro_sys::sync::refcounted::first_ref;
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
use kernel::sync::SetOnce;

use crate::channel::Channel;
use crate::raw::abi::RchanBuf;
use crate::spliced_pages::Loans;
use crate::spliced_pages::ScanBudget;

/// A channel buffer. C code sees the `struct rchan_buf` that it starts with.
#[repr(C)]
#[pin_data(PinnedDrop)]
pub(crate) struct Buf {
    #[pin]
    pub(crate) abi: RchanBuf,
    channel: ARef<Channel>,
    memory: PageBuf,
    padding: KVVec<Atomic<usize>>,
    dentry: SetOnce<Dentry>,
    /// Whether the writer is inside the current sub-buffer, rather than waiting to enter it.
    /// Written with release by the owner of the CPU, pairs with the acquire in `view()`.
    inside: Atomic<bool>,
    full: Atomic<u64>,
    big: Atomic<u64>,
    /// Serialises [`Buf::try_write`], [`Buf::try_switch`] and [`Buf::flush`].
    pub(crate) writing: OwnerLock,
    pub(crate) lost: Atomic<u64>,
    /// Serialises readers.
    #[pin]
    pub(crate) reading: Mutex<()>,
    /// Sub-buffers that readers are done with; `bytes_consumed` belongs to the next one. Ahead of
    /// `subbufs_consumed` by what is lent. Written with release under `reading`, pairs with the acquire
    /// in `settle()`.
    read: Atomic<usize>,
    /// Sub-buffers that users have reported as consumed, if that is ahead of `subbufs_consumed`, as it is when some of
    /// them are lent. Exchanged with release, pairs with the acquire in `settle()`.
    reported: Atomic<usize>,
    /// Begins and ends of [`Buf::reset`]: odd while it runs.
    resets: Atomic<usize>,
    /// CPUs that are in [`Buf::unless_reset`].
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

    /// The CPU that writes.
    pub(crate) fn cpu(&self) -> CpuId {
        CpuId::new(self.abi.cpu.load(Relaxed)).unwrap_or(CpuId::ZERO)
    }

    pub(crate) fn memory(&self) -> &PageBuf {
        &self.memory
    }

    /// Attaches the file that the client has made. On the CPU that writes, if it already does.
    pub(crate) fn set_dentry(&self, dentry: Dentry) {
        with_irqs_off(|irqs| {
            // In process context no write of this CPU is under way, so this waits and gets it.
            let _guard = self.writing.enter(irqs);
            dentry.set_size(self.abi.early_bytes.load(Relaxed));
            self.abi.dentry.store(dentry.as_ptr(), Relaxed);
            self.dentry.populate(dentry);
        });
    }

    /// Enters the first sub-buffer: the last step of opening.
    ///
    /// What the client answers is not asked for: it can refuse the next sub-buffers only.
    pub(crate) fn enter_first(&self) {
        let (_, reserved) = self.start_subbuf(self.abi.start, core::ptr::null_mut(), false);
        self.enter(self.geometry().index(0), self.abi.start, reserved);
    }

    /// Empties the buffer, as at its opening. The client does not write meanwhile.
    pub(crate) fn reset(&self) {
        let _guard = self.reading.lock();
        self.abi.wakeup_work.sync();
        // From here on nothing that was computed from the old counts gets into the new ones.
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

    /// Exchanges a count, with a value that was computed since `resets` had been read, and returns
    /// what `exchange` does. `None`, and nothing is exchanged, if the buffer has been reset since,
    /// or is being reset.
    ///
    /// Context: any. A reset waits for this, on another CPU: interrupts are off here, and an NMI
    /// that comes within the reset finds that it has begun.
    fn unless_reset(&self, resets: usize, exchange: impl FnOnce() -> bool) -> Option<bool> {
        with_irqs_off(|_| {
            // Before the look at `resets`; pairs with that in `reset()`: either this sees it, or it
            // waits for this.
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
            // Before the count: who sees the new count must not take the old sub-buffer's offset
            // for the new one's.
            self.inside.store(false, Release);
            // Who interrupts this from here on, in what it calls, writes neither here nor in the next one.
            self.abi.offset.store(geometry.blocked(), Relaxed);
            if let Some(padding) = self.padding.get(closed.index.get()) {
                padding.store(closed.padding, Relaxed);
            }
            produced = produced.wrapping_add(1);
            // Publishes the sub-buffer's data and its padding.
            self.abi.subbufs_produced.store(produced, Release);
            self.add_size(closed.bytes);
            // Between the count and the look at the queue; a poller has its barrier between
            // queueing itself and looking at the count.
            barrier::smp_mb(barrier::Full);
            if self.abi.read_wait.is_active() {
                // Waking takes locks that the scheduler may hold while it is being traced.
                self.abi.wakeup_work.queue();
            }
        }

        let index = geometry.index(produced);
        let new = self.abi.start.wrapping_add(geometry.start(index).get());
        let old = self.abi.data.load(Relaxed);
        // There is none if the first one was lent when the buffer was reset.
        let prev = match produced {
            0 => core::ptr::null_mut(),
            _ => old,
        };
        let full = self.is_full();
        if !full && !self.is_lent(index, &ScanBudget::few()) {
            // The client reserves bytes by setting the offset. Who interrupts it then writes after them already.
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

    /// Asks whether the next sub-buffer may be entered: the client if it has an opinion, else the
    /// default, which loses new data rather than old. Also tells how many bytes at its start the client has reserved.
    ///
    /// The writers of the header are blocked before and after it.
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
        // At once, for who comes in between.
        let offset = self.abi.offset.xchg(blocked, Relaxed);
        // A client that adds to what it finds, rather than setting it, means 0.
        (may_enter, offset.checked_sub(blocked).unwrap_or(offset))
    }

    /// Enters a sub-buffer, of which the first bytes are reserved, unless a part of it is lent.
    fn enter(&self, index: SubbufIndex, new: *mut u8, reserved: usize) -> bool {
        let looks = ScanBudget::few();
        self.loans.unless_lent(
            || self.is_lent(index, &looks),
            || {
                self.abi.data.store(new, Relaxed);
                // Before anybody writes there.
                self.inside.store(true, Release);
                // From here on the writers of the header find room, those among them that interrupt this.
                self.abi.offset.store(reserved, Release);
            },
        )
    }

    /// Whether somebody is still to read bytes of a sub-buffer that have been spliced, as far as looks tell.
    fn is_lent(&self, index: SubbufIndex, looks: &ScanBudget) -> bool {
        self.loans
            .is_lent(index, looks, |page| self.is_kept(index, page))
    }

    /// Lends a part of a sub-buffer: see [`Loans::lend`].
    pub(crate) fn lend(&self, index: SubbufIndex) {
        let start = self.geometry().start(index).get() % PAGE_SIZE;
        // No overflow: it is within the buffer.
        let pages = (start + self.geometry().subbuf_size()).div_ceil(PAGE_SIZE);
        self.loans.lend(index, pages);
    }

    /// A part of a sub-buffer has come back from pipes. Context: process.
    pub(crate) fn give_back(&self, index: SubbufIndex) {
        self.loans
            .give_back(index, |page| self.is_kept(index, page));
        self.settle(&ScanBudget::all());
    }

    /// Whether somebody has a reference to a page of a sub-buffer, counted from its first one.
    fn is_kept(&self, index: SubbufIndex, page: usize) -> bool {
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

    /// Whether no sub-buffer is free.
    pub(crate) fn is_full(&self) -> bool {
        let all_used = || {
            let consumed = self.abi.subbufs_consumed.load(Acquire);
            let produced = self.abi.subbufs_produced.load(Relaxed);
            produced.wrapping_sub(consumed) >= self.geometry().n_subbufs()
        };
        // Nobody tells us when a socket has finished with a page.
        all_used() && {
            self.settle(&ScanBudget::few());
            all_used()
        }
    }

    /// Consumes what has been read, or reported so, and is not lent any more.
    fn settle(&self, looks: &ScanBudget) {
        let resets = self.resets.load(Acquire);
        loop {
            let consumed = self.abi.subbufs_consumed.load(Acquire);
            let goal = later(self.read.load(Acquire), self.reported.load(Acquire));
            let new = settle(self.geometry(), consumed, goal, |index| {
                self.is_lent(index, looks)
            });
            // Release: what was read has been read before the writer may use the space.
            let exchange = || {
                let counter = &self.abi.subbufs_consumed;
                counter.cmpxchg(consumed, new, Release).is_ok()
            };
            if new == consumed || self.unless_reset(resets, exchange) != Some(false) {
                return;
            }
        }
    }

    /// How often a sub-buffer was needed and none was free.
    pub(crate) fn full_count(&self) -> u64 {
        self.full.load(Relaxed)
    }

    /// How many records were too large.
    pub(crate) fn big_count(&self) -> u64 {
        self.big.load(Relaxed)
    }

    /// A user has finished with `n` more sub-buffers. Those that are lent are consumed when they come back.
    pub(crate) fn consume(&self, n: usize) {
        let resets = self.resets.load(Acquire);
        loop {
            let reported = self.reported.load(Acquire);
            let consumed = later(reported, self.abi.subbufs_consumed.load(Acquire));
            let produced = self.abi.subbufs_produced.load(Acquire);
            let Some(new) = consume(self.geometry(), produced, consumed, n) else {
                return;
            };
            // Release: what was read has been read before the writer may use the space.
            let exchange = || self.reported.cmpxchg(reported, new, Release).is_ok();
            match self.unless_reset(resets, exchange) {
                Some(false) => {}
                Some(true) => break,
                // It was of what the buffer had before.
                None => return,
            }
        }
        self.settle(&ScanBudget::few());
    }

    /// The writer's counters, at one moment.
    pub(crate) fn view(&self) -> View {
        loop {
            let produced = self.abi.subbufs_produced.load(Acquire);
            let inside = self.inside.load(Acquire);
            let offset = self.abi.offset.load(Acquire);
            // If the offset or the flag is that of a later sub-buffer, so is this count.
            if self.abi.subbufs_produced.load(Relaxed) == produced {
                let offset = match inside {
                    true => offset,
                    false => self.geometry().blocked(),
                };
                return View { produced, offset };
            }
        }
    }

    /// Unused bytes at the end of a completed sub-buffer.
    pub(crate) fn padding(&self, index: SubbufIndex) -> usize {
        self.padding.get(index.get()).map_or(0, |p| p.load(Relaxed))
    }

    /// How far reading has come.
    pub(crate) fn position(&self) -> Position {
        let consumed = self.abi.subbufs_consumed.load(Relaxed);
        Position::new(
            later(self.reported.load(Relaxed), consumed),
            self.read.load(Relaxed),
            self.abi.bytes_consumed.load(Relaxed),
        )
    }

    /// Moves on from `old`, in [`Buf::reading`]. False if the client has consumed sub-buffers
    /// since.
    pub(crate) fn set_position(&self, old: Position, new: Position) -> bool {
        if self.position() != old {
            return false;
        }
        self.abi.bytes_consumed.store(new.bytes, Relaxed);
        // Release: what was read has been copied, or is lent.
        self.read.store(new.consumed, Release);
        self.settle(&ScanBudget::all());
        true
    }

    /// Whether the channel has been closed.
    pub(crate) fn is_finalized(&self) -> bool {
        self.abi.finalized.load(Acquire) != 0
    }

    /// The channel is being closed: nobody writes any more, the file goes. Open files and mappings
    /// keep the buffer.
    pub(crate) fn close(&self) {
        self.abi.finalized.store(1, Release);
        self.abi.wakeup_work.sync();
        self.abi.read_wait.wake_all();
        self.channel.client().remove_buf_file(self.dentry.as_ref());
    }

    /// Nobody has a reference any more.
    pub(crate) fn on_last_put(&self) {
        self.abi.wakeup_work.sync();
        self.channel.forget(self);
    }
}

/// Counts on the CPU that owns the counters, where nothing else writes them. The header's counter is the
/// lower half, also if a client has set it.
fn count(own: &Atomic<u64>, seen_by_c: &Atomic<u32>) {
    let low = seen_by_c.load(Relaxed);
    let high = own.load(Relaxed) & !u64::from(u32::MAX);
    own.store((high | u64::from(low)).wrapping_add(1), Relaxed);
    seen_by_c.store(low.wrapping_add(1), Relaxed);
}
