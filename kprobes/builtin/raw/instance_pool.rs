// SPDX-License-Identifier: GPL-2.0

//! Instances of a kretprobe, allocated when it is registered, or of a client of
//! `<linux/rethook.h>`.
//!
//! Each CPU has a share of them, with a bit for each free one in words of its own cache line.
//! Taking an instance and giving it back change one bit there atomically, so any context may
//! interrupt them. A CPU without a free instance takes one of another share. With fewer instances
//! than CPUs, several CPUs use one share: memory depends on the number of instances, not on the
//! number of possible CPUs.
//!
//! Contexts: taking and giving back any with preemption off, NMI included; making a pool process,
//! sleeps.

use core::arch::asm;
use core::cell::UnsafeCell;
use core::mem::offset_of;
use core::ptr::null_mut;

use ferro_sys::bindings;
use ferro_sys::cpu;
use ferro_sys::sync::shared_word;
use ferro_sys::sync::shared_word::Word;
#[cfg(CONFIG_SMP)]
use ferro_sys::this_cpu;
use kernel::ffi::c_int;
use kernel::ffi::c_void;
use kernel::prelude::*;
use kernel::types::Opaque;

use super::current_kprobe;

#[cfg(CONFIG_SMP)]
extern "C" {
    /// `asm/smp.h`
    static mut cpu_number: c_int;
}

/// Returns the number of this CPU.
#[inline(always)]
fn this_cpu_number() -> usize {
    #[cfg(CONFIG_SMP)]
    // SAFETY: A per-CPU `int`, which is constant.
    return unsafe { this_cpu!(load32 cpu_number) } as usize;
    #[cfg(not(CONFIG_SMP))]
    0
}

/// Start of an instance: `struct rethook_node`, the first field of `struct kretprobe_instance`,
/// with our own words in place of its `rcu`.
///
/// # Invariants
///
/// `pool` is the pool that it belongs to, and `number` its number there.
#[repr(C)]
pub(crate) struct Node {
    pub(super) number: usize,
    /// The next node on the list has the same frame: a function that ended with a tail call, or one
    /// with two kretprobes.
    pub(super) shares_frame: usize,
    pub(super) link: Link,
    pub(super) pool: *mut Pool,
    /// Original return address.
    pub(super) ret_addr: usize,
    /// Address of the return address on the stack; 0 before the return is diverted.
    pub(super) frame: usize,
}

/// `struct llist_node`
#[repr(transparent)]
pub(super) struct Link(pub(super) *mut Link);

static_assert!(size_of::<Node>() == size_of::<bindings::rethook_node>());
static_assert!(offset_of!(Node, link) == offset_of!(bindings::rethook_node, llist));
static_assert!(offset_of!(Node, pool) == offset_of!(bindings::rethook_node, rethook));
static_assert!(offset_of!(Node, ret_addr) == offset_of!(bindings::rethook_node, ret_addr));
static_assert!(offset_of!(Node, frame) == offset_of!(bindings::rethook_node, frame));
static_assert!(offset_of!(bindings::kretprobe_instance, node) == 0);

/// Handler of a return. It must not sleep.
type Handler =
    unsafe extern "C" fn(*mut bindings::kretprobe_instance, *mut bindings::pt_regs) -> c_int;

/// Client that the instances are for.
pub(crate) enum Client {
    Kretprobe(*mut bindings::kretprobe),
    /// The client's data and handler.
    Rethook(*mut c_void, RethookHandler),
}

/// `rethook_handler_t`
pub(crate) type RethookHandler =
    unsafe extern "C" fn(*mut bindings::rethook_node, *mut c_void, usize, *mut bindings::pt_regs);

/// Maximum number of bytes for instances: a larger allocation would warn instead of fail.
const MOST_BYTES: usize = 1 << 30;

/// Bits in a word.
const BITS: usize = 64;
/// Bits in a [`Line`].
const LINE_BITS: usize = 8 * BITS;

/// Cache line of bits.
#[repr(align(64))]
struct Line([u64; 8]);

/// `struct rethook`, with nodes of our own.
///
/// # Invariants
///
/// In memory from `KBox`. Each of `shares` shares has `share` nodes, the last one perhaps fewer,
/// and the bits at the start of `lines_per_share` lines. Node n of a share is free if its bit n is
/// set, and otherwise owned by a call. A node that does not exist has no bit.
#[repr(C)]
pub(crate) struct Pool {
    /// `data`, which `get_kretprobe()` reads.
    data: *mut c_void,
    /// Value of `current_kprobe` while the handler runs.
    running: usize,
    /// Handler that [`call_rethook`] calls.
    rethook: Option<RethookHandler>,
    /// Address of an `Option<Handler>`, or 0 if the pool is being freed. For a kretprobe this is in
    /// the client's structure, which may have been freed by then.
    handler: Word,
    lines: KVVec<Line>,
    nodes: KVVec<u64>,
    lines_per_share: usize,
    /// Number of nodes of a share.
    share: usize,
    /// Number of shares.
    shares: usize,
    /// Size of a node in bytes, with the client's data.
    node_size: usize,
    count: usize,
    /// Number of unreturned calls while the pool is being freed; before that number is known, minus
    /// the returned ones. Changed atomically only.
    missing: UnsafeCell<u64>,
    rcu: Opaque<bindings::callback_head>,
    work: Opaque<bindings::irq_work>,
}

static_assert!(offset_of!(bindings::rethook, data) == 0);

/// Handler of pools for `<linux/rethook.h>`; kretprobes have their client's.
static CALL_RETHOOK: Option<Handler> = Some(call_rethook);

/// Clears a bit. Returns true if it was set.
///
/// # Safety
///
/// `word` is a live word that all code changes like this, `bit` is less than 64.
#[inline(always)]
unsafe fn clear_bit(word: *mut u64, bit: usize) -> bool {
    let was: u8;
    // SAFETY: The caller guarantees a live word, and that no code changes it in another way; the
    // bit has a number of less than 64, so that the instruction accesses this word only.
    unsafe {
        asm!("lock btr qword ptr [{word}], {bit}", "setc {was}",
            word = in(reg) word, bit = in(reg) bit,
            was = out(reg_byte) was, options(nostack))
    };
    was != 0
}

/// Sets the bit of a number.
///
/// # Safety
///
/// `words` are live words, with a bit of this number, that all code changes like this.
#[inline(always)]
unsafe fn set_bit(words: *mut u64, number: usize) {
    // SAFETY: The instruction accesses the word with this bit. The caller guarantees that the word
    // is live, and that no code changes it in another way.
    unsafe {
        asm!("lock bts qword ptr [{words}], {number}",
            words = in(reg) words, number = in(reg) number, options(nostack))
    };
}

/// Handler of pools for `<linux/rethook.h>`.
///
/// # Safety
///
/// As for a client's handler: `instance` begins with a node owned by a call, `regs` are the
/// registers of its return.
#[link_section = ".kprobes.text"]
unsafe extern "C" fn call_rethook(
    instance: *mut bindings::kretprobe_instance,
    regs: *mut bindings::pt_regs,
) -> c_int {
    let node: *mut Node = instance.cast();
    // SAFETY: The caller guarantees that a call owns the node, so its pool stays. The handler is
    // the client's function until a grace period has passed since the pool's handler, which is this
    // function, was exchanged for 0. This was called after reading that, with preemption off.
    unsafe {
        let pool = (*node).pool;
        if let Some(handler) = (*pool).rethook {
            handler(node.cast(), (*pool).data, (*node).ret_addr, regs);
        }
    }
    0
}

/// Returns the number of instances in a share, and the number of shares: at most one a CPU, and
/// none empty.
pub(crate) fn shares(count: usize, cpus: usize) -> (usize, usize) {
    let share = count.div_ceil(cpus.max(1)).max(1);
    (share, count.div_ceil(share).max(1))
}

impl Pool {
    /// Makes a pool of `count` instances with `data_size` bytes of client data each.
    ///
    /// Context: process; sleeps. Errors: -ENOMEM.
    pub(crate) fn new(client: Client, count: usize, data_size: usize) -> Result<*mut Self> {
        let (share, shares) = shares(count, cpu::possible().count());
        let lines_per_share = share.div_ceil(LINE_BITS).max(1);
        let bytes = size_of::<Node>()
            .checked_add(data_size)
            .and_then(|bytes| bytes.checked_next_multiple_of(size_of::<u64>()))
            .ok_or(ENOMEM)?;
        if bytes.saturating_mul(count) > MOST_BYTES {
            return Err(ENOMEM);
        }
        let words = count.checked_mul(bytes / size_of::<u64>()).ok_or(ENOMEM)?;
        let mut lines = KVVec::with_capacity(lines_per_share * shares, GFP_KERNEL)?;
        for _ in 0..lines_per_share * shares {
            lines.push(Line([0; 8]), GFP_KERNEL)?;
        }
        let mut nodes = KVVec::new();
        nodes.resize(words, 0, GFP_KERNEL)?;
        let (data, running, handler, rethook): (*mut c_void, _, *const Option<Handler>, _) =
            match client {
                Client::Kretprobe(kretprobe) => {
                    let at = offset_of!(bindings::kretprobe, handler);
                    let handler = kretprobe.wrapping_byte_add(at).cast_const().cast();
                    (kretprobe.cast(), kretprobe.addr(), handler, None)
                }
                Client::Rethook(data, handler) => (
                    data,
                    current_kprobe::busy(),
                    &raw const CALL_RETHOOK,
                    Some(handler),
                ),
            };
        let pool = KBox::new(
            Self {
                data,
                running,
                rethook,
                handler: Word::new(handler.expose_provenance()),
                lines,
                nodes,
                lines_per_share,
                share,
                shares,
                node_size: bytes,
                count,
                missing: UnsafeCell::new(0),
                rcu: Opaque::zeroed(),
                work: Opaque::zeroed(),
            },
            GFP_KERNEL,
        )?;
        // INVARIANT: In that memory from this point on; no node is free yet.
        let pool = KBox::into_raw(pool);
        // SAFETY: Just made; no other code knows it.
        unsafe {
            bindings::ferro_init_irq_work((*pool).work.get(), Some(all_returned));
            for index in 0..count {
                let (of, i) = (index / share, index % share);
                let node = (*pool).node(of, i);
                // INVARIANT: Its own bit and pool, before it is free.
                (*node).number = of * lines_per_share * LINE_BITS + i;
                (*node).pool = pool;
                set_bit((*pool).bits(0), (*node).number);
            }
        }
        Ok(pool)
    }

    /// Returns the share that this CPU takes from first.
    #[inline(always)]
    fn own_share(&self) -> usize {
        let cpu = this_cpu_number();
        match cpu < self.shares {
            true => cpu,
            false => cpu.checked_rem(self.shares).unwrap_or(0),
        }
    }

    /// Returns the words with the bits of a share.
    #[inline(always)]
    fn bits(&self, of: usize) -> *mut u64 {
        let first = of.wrapping_mul(self.lines_per_share);
        self.lines.as_ptr().wrapping_add(first).cast_mut().cast()
    }

    /// Returns a node of a share, by its number there.
    #[inline(always)]
    fn node(&self, of: usize, number: usize) -> *mut Node {
        let index = of.wrapping_mul(self.share).wrapping_add(number);
        let nodes = self.nodes.as_ptr().cast_mut();
        nodes
            .wrapping_byte_add(index.wrapping_mul(self.node_size))
            .cast()
    }

    /// Takes a node out of the pool, from this CPU's share if possible. Returns NULL if all are
    /// taken.
    ///
    /// # Safety
    ///
    /// `pool` is not freed while preemption stays off.
    #[inline(always)]
    pub(crate) unsafe fn take(pool: *mut Self) -> *mut Node {
        // SAFETY: The caller guarantees that it is not freed while preemption stays off, which is
        // as long as this uses it.
        let pool = unsafe { &*pool };
        let own = pool.take_from(pool.own_share());
        match own.is_null() {
            false => own,
            true => pool.take_any(),
        }
    }

    /// Takes a node from one share. Returns NULL if all are taken.
    #[inline(always)]
    fn take_from(&self, of: usize) -> *mut Node {
        let words = self.bits(of);
        let mut first = 0;
        while first < self.share {
            let word = words.wrapping_add(first / BITS);
            // SAFETY: By the type invariant these are the words of the share, up to the last one
            // with a bit.
            let mut free = unsafe { shared_word::load(word) };
            while free != 0 {
                let bit = free.trailing_zeros() as usize;
                // SAFETY: The same word, which all code changes bit by bit; trailing zeros of one
                // that is not 0 are less than 64.
                if unsafe { clear_bit(word, bit) } {
                    return self.node(of, first.wrapping_add(bit));
                }
                // SAFETY: The same word of this share.
                free = unsafe { shared_word::load(word) };
            }
            first = first.wrapping_add(BITS);
        }
        null_mut()
    }

    /// Takes a node from any share. Calls no other code: the rest of the kernel may be probed, even
    /// by this probe.
    #[cold]
    #[link_section = ".kprobes.text"]
    fn take_any(&self) -> *mut Node {
        for of in 0..self.shares {
            let node = self.take_from(of);
            if !node.is_null() {
                return node;
            }
        }
        null_mut()
    }

    /// Returns a node to its pool.
    ///
    /// # Safety
    ///
    /// It was taken out, and no code uses it after this. Preemption is off.
    #[inline(always)]
    pub(crate) unsafe fn give_back(node: *mut Node) {
        // SAFETY: By the type invariant of `Node`; a pool stays until its last node is back, and a
        // grace period longer.
        unsafe {
            let pool = (*node).pool;
            if (*pool).handler.load() != 0 {
                set_bit((*pool).bits(0), (*node).number);
            } else {
                Self::returned_late(pool);
            }
        }
    }

    /// Calls the client's handler, unless it is NULL or stopped.
    ///
    /// # Safety
    ///
    /// `node` is one of this pool, owned by a call, and `regs` are the registers of its return.
    /// Preemption is off.
    #[inline(always)]
    pub(crate) unsafe fn call(&self, node: *mut Node, regs: *mut bindings::pt_regs) {
        let handler = self.handler.load();
        if handler == 0 {
            return;
        }
        let handler = core::ptr::with_exposed_provenance::<Option<Handler>>(handler);
        // SAFETY: `new()` has made the word from the address of a static, or of a field of the
        // client's structure. The client keeps the structure until a grace period has passed since
        // `stop()` exchanged the word for 0, and so while preemption is off here. The client may
        // write the field, which is a word, at any time: NULL means none.
        let Some(handler) = (unsafe { handler.read_volatile() }) else {
            return;
        };
        // SAFETY: `busy()`, or the address of a kretprobe, which begins with a kprobe. By the rules
        // of `Kretprobe::new()` the client keeps it for a grace period after the handler was
        // exchanged for 0, and so while preemption is off here. `handle_return()` then restores the
        // earlier value.
        unsafe { current_kprobe::set(self.running) };
        // SAFETY: The function stays as long, too. The caller guarantees that a call owns the node,
        // which is the start of an instance, and that the registers are those at its return.
        unsafe { handler(node.cast(), regs) };
    }

    /// Returns true if the handler is no longer called.
    #[inline(always)]
    pub(crate) fn has_stopped(&self) -> bool {
        self.handler.load() == 0
    }

    /// Stops calls of the handler; running ones continue.
    pub(crate) fn stop(&self) {
        self.handler.store(0);
    }

    /// Frees the pool after the last call has returned. Once an RCU grace period is over, the
    /// handler is no longer called.
    ///
    /// # Safety
    ///
    /// From `Pool::new()`, and not freed before. No code finds it to take nodes out, except
    /// contexts with preemption off that already have it.
    pub(crate) unsafe fn free(pool: *mut Self) {
        // SAFETY: By the caller's guarantee from `new()`, and this is called once. The callback,
        // which frees it at the earliest, waits for contexts that have it with preemption off; its
        // `rcu` is for this.
        unsafe {
            (*pool).stop();
            bindings::call_rcu((*pool).rcu.get(), Some(count_missing));
        }
    }

    /// Counts a node that returns after [`Pool::stop`]; the last one makes an irq_work free the
    /// pool.
    #[cold]
    #[inline(never)]
    #[link_section = ".kprobes.text"]
    fn returned_late(pool: *mut Self) {
        // SAFETY: The pool stays until all nodes have reached this point, or set their bit, and a
        // grace period longer.
        unsafe {
            if shared_word::fetch_add((*pool).missing.get(), u64::MAX) == 1 {
                bindings::irq_work_queue((*pool).work.get());
            }
        }
    }
}

/// Returns the pool that contains this head.
fn of_rcu(head: *mut bindings::callback_head) -> *mut Pool {
    head.wrapping_byte_sub(offset_of!(Pool, rcu)).cast()
}

/// Counts the missing nodes, after a grace period since [`Pool::free`]: no node is taken out, and
/// returning nodes find the pool stopped and do not set their bit.
///
/// # Safety
///
/// `head` is the `rcu` of a pool that [`Pool::free`] has stopped, and a grace period has passed
/// since.
unsafe extern "C" fn count_missing(head: *mut bindings::callback_head) {
    let pool = of_rcu(head);
    // SAFETY: The caller, RCU, passes the `rcu` of a pool. The pool stays until all of its nodes
    // are back and this has counted them: the code that makes `missing` 0, this or the last return,
    // frees it.
    unsafe {
        let free: u32 = (*pool)
            .lines
            .iter()
            .flat_map(|line| line.0.iter())
            .map(|word| word.count_ones())
            .sum();
        let missing = ((*pool).count as u64).wrapping_sub(u64::from(free));
        if shared_word::fetch_add((*pool).missing.get(), missing).wrapping_add(missing) == 0 {
            free_now(head);
        }
    }
}

/// Frees the pool after another grace period: the last call has returned, but its CPU may still
/// access the pool.
///
/// # Safety
///
/// `work` belongs to a pool with all nodes back.
unsafe extern "C" fn all_returned(work: *mut bindings::irq_work) {
    let pool: *mut Pool = work.wrapping_byte_sub(offset_of!(Pool, work)).cast();
    // SAFETY: The caller guarantees that the work belongs to a pool with all nodes back:
    // `count_missing()` has already run, so its `rcu` is free, and no other code frees it.
    unsafe { bindings::call_rcu((*pool).rcu.get(), Some(free_now)) };
}

/// Frees a pool.
///
/// # Safety
///
/// `head` is the `rcu` of an unused pool.
unsafe extern "C" fn free_now(head: *mut bindings::callback_head) {
    // SAFETY: By the type invariant it is memory of a `KBox`, and the caller guarantees that it is
    // unused.
    drop(unsafe { KBox::from_raw(of_rcu(head)) });
}
