// SPDX-License-Identifier: GPL-2.0

//! A per-CPU buffer: wake-ups for the writer, and the operations of the buffer's file.
//!
//! Contexts: [`Buffer::wake_readers`] in the writing context, any; the rest in process context.
//! Locks: [`Buffer::reading`], around each `read()`.
#![deny(unsafe_code)]

use ferro_fast_relay_core::ring::Ring;
use ferro_fast_relay_core::ring::Run;
use ferro_fast_relay_core::ring::Words;
use ferro_sys::cpu::irq_work::WithIrqWork;
use ferro_sys::cpu::CpuId;
use ferro_sys::fs::fops::events;
use ferro_sys::fs::fops::FileOps;
use ferro_sys::fs::fops::MmapRequest;
use ferro_sys::fs::uaccess::UserDst;
use ferro_sys::impl_always_refcounted;
use ferro_sys::mm::pages::PageRef;
use ferro_sys::sync::refcounted::first_ref;
use ferro_sys::sync::refcounted::Counted;
use ferro_sys::sync::refcounted::Shared;
use ferro_sys::sync::wait::WaitQueue;
use kernel::new_mutex;
use kernel::page::PAGE_SIZE;
use kernel::prelude::*;
use kernel::static_lock_class;
use kernel::sync::aref::ARef;
use kernel::sync::barrier;
use kernel::sync::Mutex;
use kernel::sync::Refcount;

use crate::persistent::OpenMemory;
use crate::raw::ring::RingMem;

/// A buffer. Its channel and each open file or mapping hold a reference.
#[pin_data]
pub(crate) struct Buffer {
    count: Refcount,
    memory: ARef<Shared<RingMem>>,
    /// Queue of waiting readers, with the work that wakes them.
    #[pin]
    readers: WithIrqWork<WaitQueue>,
    /// Serialises readers that do not map the buffer.
    #[pin]
    reading: Mutex<()>,
}

// SAFETY: `Buffer::new()`, the only constructor as the fields are private, makes instances in a
// pinned box with a count of 1; only the code that `impl_always_refcounted!` generates lowers the
// count.
#[expect(unsafe_code)]
unsafe impl Counted for Buffer {
    fn count(&self) -> &Refcount {
        &self.count
    }
}
impl_always_refcounted!(Buffer);

impl Buffer {
    /// Makes the empty buffer of `cpu`, without a file. A persistent channel's buffer is in
    /// `memory`.
    ///
    /// Errors: -ENOMEM, -EINTR if the task is being killed.
    pub(crate) fn new(ring: Ring, cpu: CpuId, memory: Option<&OpenMemory>) -> Result<ARef<Self>> {
        let memory = Shared::new(match memory {
            Some(memory) => RingMem::persistent(ring, cpu, memory.memory()),
            None => RingMem::new(ring, cpu),
        })?;
        let buffer = KBox::pin_init(
            pin_init!(Self {
                count: Refcount::new(1),
                memory,
                readers <- WithIrqWork::new(WaitQueue::new(c"fast_relay", static_lock_class!())),
                reading <- new_mutex!(()),
            }),
            GFP_KERNEL,
        )?;
        Ok(first_ref(buffer))
    }

    /// Returns the memory.
    pub(crate) fn memory(&self) -> &ARef<Shared<RingMem>> {
        &self.memory
    }

    /// Wakes waiting readers: the data that they wait for may be complete, or they can make room.
    pub(crate) fn wake_readers(&self) {
        // `Ring::reserve()` has the barrier between the change of the writer's words and this
        // check.
        if self.readers.is_active() {
            // Waking takes locks that the traced code may hold.
            self.readers.queue();
        }
    }

    /// Returns the number of bytes of a run that fit into `left` bytes, in whole records.
    fn whole_records(&self, run: &Run, left: u64) -> u64 {
        if run.bytes <= left {
            return run.bytes;
        }
        let mut bytes = 0;
        // Each record has at least a header, so the loop ends, whatever user space and the writer
        // have written there.
        while let Some(header) = self.memory.header(run.start + bytes) {
            let next = bytes + header.bytes();
            if next > left {
                break;
            }
            bytes = next;
        }
        bytes
    }

    /// Closes the buffer after the last write.
    pub(crate) fn close(&self) {
        self.memory.set_closed();
        self.readers.sync();
        self.readers.wake_all();
    }
}

impl FileOps for Buffer {
    const MAPPABLE: bool = true;

    /// Copies and consumes as many complete records as fit, without padding. A record is
    /// never split: a reader that was overtaken continues at a record's start, too.
    ///
    /// An empty buffer reads as 0 bytes. Errors: -EMSGSIZE if the next record does not fit, -EBUSY
    /// if another reader has moved the position at the same time, -EFAULT; each only if nothing has
    /// been copied. Bytes that were not copied are not consumed.
    fn read(&self, to: &mut UserDst) -> Result {
        let _guard = self.reading.lock();
        while to.left() > 0 {
            let consumed = self.memory.consumed();
            let (position, run) = self.memory.next_run(consumed);
            let Some(run) = run else {
                self.memory.set_consumed(consumed, position);
                return Ok(());
            };
            let bytes = self.whole_records(&run, u64::try_from(to.left())?);
            let from = self.memory.data(run.start, bytes).ok_or(EIO)?;
            let len = from.len();
            // If user memory ends early, the copied bytes are cut to whole records, possibly none.
            let copied = u64::try_from(to.copy_some(from))?;
            let bytes = match copied < bytes {
                true => self.whole_records(&run, copied),
                false => bytes,
            };
            if !self.memory.is_kept(run.start) {
                continue;
            }
            if len == 0 {
                return Err(EMSGSIZE);
            }
            if bytes == 0 {
                return Err(EFAULT);
            }
            // Consumes padding with the last byte before it, not with the next read.
            let (next, _) = self.memory.next_run(run.start + bytes);
            if !self.memory.set_consumed(consumed, next) {
                return Err(EBUSY);
            }
            to.commit(usize::try_from(bytes)?);
        }
        Ok(())
    }

    fn wait_queue(&self) -> Option<&WaitQueue> {
        Some(&self.readers)
    }

    /// Readable if the data reach the reader's watermark, if a record was lost because
    /// the buffer was full, or if the channel is closed and data are left.
    fn events(&self) -> u32 {
        if self.memory.is_closed() {
            let left = self.memory.next_run(self.memory.consumed()).1.is_some();
            let readable = match left {
                true => events::IN | events::RDNORM,
                false => 0,
            };
            return events::ERR | events::HUP | readable;
        }
        // The poller is in the queue. The barrier orders that before its look at the writer's
        // words.
        barrier::smp_mb(barrier::Full);
        if !self.memory.is_due() {
            self.memory.refresh_limit();
        }
        match self.memory.is_due() {
            true => events::IN | events::RDNORM,
            false => 0,
        }
    }

    fn size(&self) -> usize {
        self.memory.len()
    }

    /// Allows mappings of any pages, read-only, or of the reader's page alone, writable.
    ///
    /// Errors: -EINVAL past the end, -EPERM for another writable mapping.
    fn mmap(&self, request: &MmapRequest) -> Result {
        let start = request.page_offset.checked_mul(PAGE_SIZE).ok_or(EINVAL)?;
        let end = start.checked_add(request.size).ok_or(EINVAL)?;
        if end > self.memory.len() {
            return Err(EINVAL);
        }
        if request.writable
            && !self
                .memory
                .is_consumer_page(request.page_offset, request.size)
        {
            return Err(EPERM);
        }
        Ok(())
    }

    fn page(&self, index: usize) -> Option<PageRef> {
        self.memory.page(index)
    }
}
