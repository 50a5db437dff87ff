// SPDX-License-Identifier: GPL-2.0

//! `struct kprobe`, as clients fill it in, and lists of those at one address.
//!
//! Contexts: walking a list and calling handlers any, NMI included; changing lists in process context, one at a time.

use core::cell::UnsafeCell;
use core::ptr::addr_of_mut;
use core::ptr::null_mut;
use core::ptr::NonNull;

use kernel::bindings;
use kernel::ffi::c_int;
use kernel::prelude::*;
use kernel::sync::atomic::Atomic;
use kernel::sync::atomic::Full;
use kernel::sync::atomic::Release;

use crate::regs::Regs;
use crate::sync::word;

/// Bits of `kprobe::flags`.
pub mod flags {
    use kernel::bindings;

    /// The code that it is in has gone.
    pub const GONE: u32 = bindings::KPROBE_FLAG_GONE;
    /// Its handlers are not called.
    pub const DISABLED: u32 = bindings::KPROBE_FLAG_DISABLED;
    /// It is on an ftrace site.
    pub const FTRACE: u32 = bindings::KPROBE_FLAG_FTRACE;
    /// It is at the start of a function.
    pub const ON_FUNC_ENTRY: u32 = bindings::KPROBE_FLAG_ON_FUNC_ENTRY;
}

extern "C" {
    /// `symbols.h`
    fn ferro_registered_twice();
}

/// Warns, once, of a client that registers a probe twice, and shows who it is.
pub fn warn_registered_twice() {
    // SAFETY: No requirement in process context.
    unsafe { ferro_registered_twice() };
}

/// A handler for faults: `<linux/kprobes_fault.h>`.
pub type FaultHandler = bindings::kprobe_fault_handler_t;

/// A client's `struct kprobe`.
///
/// # Invariants
///
/// It is there, at this address, until the engine gives it back to its client.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(transparent)]
pub struct Kprobe(NonNull<bindings::kprobe>);

// SAFETY: What is changed while others look at it are single words.
unsafe impl Send for Kprobe {}
// SAFETY: As above.
unsafe impl Sync for Kprobe {}

impl Kprobe {
    /// # Safety
    ///
    /// The structure stays where it is until whoever holds the `Kprobe` gives it up, and the handlers in it are
    /// functions of their types or NULL.
    pub unsafe fn new(kprobe: *mut bindings::kprobe) -> Option<Self> {
        // INVARIANT: By the rules of this function.
        NonNull::new(kprobe).map(Self)
    }

    /// Its address, which is its name here.
    #[inline(always)]
    pub fn id(self) -> usize {
        self.0.as_ptr() as usize
    }

    /// The client's structure.
    pub fn as_ptr(self) -> *mut bindings::kprobe {
        self.0.as_ptr()
    }

    #[inline(always)]
    fn get<T: Copy>(self, field: impl FnOnce(*mut bindings::kprobe) -> *mut T) -> T {
        // SAFETY: By the type invariant; a field of it.
        unsafe { field(self.0.as_ptr()).read_volatile() }
    }

    fn set<T>(self, field: impl FnOnce(*mut bindings::kprobe) -> *mut T, value: T) {
        // SAFETY: As above.
        unsafe { field(self.0.as_ptr()).write_volatile(value) }
    }

    /// The address of the probed instruction; 0 if it was not given.
    pub fn address(self) -> usize {
        // SAFETY: Makes an address only.
        self.get(|k| unsafe { addr_of_mut!((*k).addr) }) as usize
    }

    /// Says where it is, or with 0, that it is nowhere.
    pub fn set_address(self, address: usize) {
        // SAFETY: Makes an address only.
        self.set(|k| unsafe { addr_of_mut!((*k).addr) }, address as *mut u8);
    }

    /// The name of a function, if the client gave one.
    pub fn symbol(&self) -> Option<&CStr> {
        // SAFETY: Makes an address only.
        let name = self.get(|k| unsafe { addr_of_mut!((*k).symbol_name) });
        // SAFETY: By the type invariant a string of the client's.
        (!name.is_null()).then(|| unsafe { CStr::from_char_ptr(name) })
    }

    /// How far from the symbol, or the address, it is.
    pub fn offset(self) -> usize {
        // SAFETY: Makes an address only.
        self.get(|k| unsafe { addr_of_mut!((*k).offset) }) as usize
    }

    /// See [`flags`].
    #[inline(always)]
    pub fn flags(self) -> u32 {
        // SAFETY: Makes an address only.
        self.get(|k| unsafe { addr_of_mut!((*k).flags) })
    }

    /// Changes the flags.
    pub fn set_flags(self, flags: u32) {
        // SAFETY: Makes an address only.
        self.set(|k| unsafe { addr_of_mut!((*k).flags) }, flags);
    }

    /// Whether its handlers are called.
    #[inline(always)]
    pub fn is_enabled(self) -> bool {
        self.flags() & (flags::DISABLED | flags::GONE) == 0
    }

    /// Whether it has a handler for after the instruction.
    pub fn has_post(self) -> bool {
        // SAFETY: Makes an address only.
        self.get(|k| unsafe { addr_of_mut!((*k).post_handler) })
            .is_some()
    }

    /// Whether the handler before the instruction is this one.
    pub fn has_pre(self, handler: bindings::kprobe_pre_handler_t) -> bool {
        // SAFETY: Makes an address only.
        let own = self.get(|k| unsafe { addr_of_mut!((*k).pre_handler) });
        own.map(|f| f as usize) == handler.map(|f| f as usize)
    }

    /// The addresses of both handlers; 0 for one that there is not.
    pub fn handlers(self) -> [usize; 2] {
        // SAFETY: Makes an address only.
        let pre = self.get(|k| unsafe { addr_of_mut!((*k).pre_handler) });
        // SAFETY: Makes an address only.
        let post = self.get(|k| unsafe { addr_of_mut!((*k).post_handler) });
        [
            pre.map_or(0, |f| f as usize),
            post.map_or(0, |f| f as usize),
        ]
    }

    /// Sets both handlers. For who registers it.
    pub fn set_handlers(
        self,
        pre: bindings::kprobe_pre_handler_t,
        post: bindings::kprobe_post_handler_t,
    ) {
        // SAFETY: Makes an address only.
        self.set(|k| unsafe { addr_of_mut!((*k).pre_handler) }, pre);
        // SAFETY: Makes an address only.
        self.set(|k| unsafe { addr_of_mut!((*k).post_handler) }, post);
    }

    /// Calls the handler before the instruction. Whether it changed where execution goes on.
    #[inline(always)]
    pub fn pre(self, regs: &mut Regs) -> bool {
        // SAFETY: Makes an address only.
        let handler = self.get(|k| unsafe { addr_of_mut!((*k).pre_handler) });
        // SAFETY: By the type invariant; the registers are this context's.
        handler.is_some_and(|f| unsafe { f(self.0.as_ptr(), regs.as_ptr()) } != 0)
    }

    /// Calls the handler after the instruction.
    #[inline(always)]
    pub fn post(self, regs: &mut Regs) {
        self.post_at(regs, |_| ());
    }

    /// Calls the handler after the instruction, if there is one, with the registers as `prepare` makes them.
    #[inline(always)]
    pub fn post_at(self, regs: &mut Regs, prepare: impl FnOnce(&mut Regs)) {
        // SAFETY: Makes an address only.
        if let Some(f) = self.get(|k| unsafe { addr_of_mut!((*k).post_handler) }) {
            prepare(regs);
            // SAFETY: By the type invariant; the registers are this context's.
            unsafe { f(self.0.as_ptr(), regs.as_ptr(), 0) };
        }
    }

    /// The handler for faults of a probe that is registered.
    #[inline(always)]
    pub fn fault_handler(self) -> FaultHandler {
        // SAFETY: Makes an address only.
        let handler = self.get(|k| unsafe { addr_of_mut!((*k).hlist.next) });
        // SAFETY: `prepare()` has put one there, or NULL.
        unsafe { core::mem::transmute::<*mut bindings::hlist_node, FaultHandler>(handler) }
    }

    /// Calls the handler for faults. Whether it has dealt with this one.
    pub fn fault(self, regs: &mut Regs, trapnr: usize) -> bool {
        let trapnr = c_int::try_from(trapnr).unwrap_or(0);
        let handler = self.fault_handler();
        // SAFETY: By the type invariant; the registers are this context's.
        handler.is_some_and(|f| unsafe { f(self.0.as_ptr(), regs.as_ptr(), trapnr) } != 0)
    }

    /// Counts a hit whose handlers were not called.
    #[inline(always)]
    pub fn count_missed(self) {
        // SAFETY: By the type invariant; C code only reads it.
        unsafe { word::fetch_add((&raw mut (*self.0.as_ptr()).nmissed).cast(), 1) };
    }

    /// Makes it one that is about to be registered at `address`, with these flags and this handler for faults.
    pub fn prepare(self, address: usize, flags: u32, fault: FaultHandler) {
        self.set_address(address);
        self.set_flags(flags);
        // SAFETY: By the type invariant; nobody else uses it yet.
        unsafe {
            let kprobe = self.0.as_ptr();
            (*kprobe).nmissed = 0;
            // The handler has no field of its own; only the C engine has a use for this one.
            (*kprobe).hlist.next = fault.map_or(null_mut(), |f| f as *mut bindings::hlist_node);
            (*kprobe).hlist.pprev = null_mut();
        }
        self.clear_list();
    }

    /// Shows clients what the instruction was.
    pub fn set_original(self, opcode: u8, copy: usize) {
        // SAFETY: By the type invariant; the engine does not look at these fields.
        unsafe {
            let kprobe = self.0.as_ptr();
            (*kprobe).opcode = opcode;
            (*kprobe).ainsn.insn = copy as *mut u8;
        }
    }

    /// Makes it one that is in no list, as `list_empty()` asks.
    pub fn clear_list(self) {
        let list = self.list();
        // SAFETY: By the type invariant.
        unsafe {
            *list = bindings::list_head {
                next: list,
                prev: list,
            }
        };
    }

    #[inline(always)]
    fn list(self) -> *mut bindings::list_head {
        // SAFETY: A field of a structure that is there.
        unsafe { addr_of_mut!((*self.0.as_ptr()).list) }
    }

    /// The probe that this list entry is part of.
    ///
    /// # Safety
    ///
    /// `list` is NULL or the list entry of a registered probe.
    #[inline(always)]
    unsafe fn of(list: *mut bindings::list_head) -> Option<Self> {
        // INVARIANT: By the rules of this function.
        // SAFETY: The probe is around its list entry.
        let start = |l: NonNull<bindings::list_head>| unsafe {
            l.byte_sub(core::mem::offset_of!(bindings::kprobe, list))
                .cast()
        };
        NonNull::new(list).map(|l| Self(start(l)))
    }
}

/// The probes of one address, the newest first. They are linked with `kprobe::list`.
///
/// # Invariants
///
/// A chain of list entries of registered probes by `next`, with NULL at its end.
pub struct ProbeList {
    first: UnsafeCell<*mut bindings::list_head>,
    /// Somebody changes the chain.
    changing: Atomic<bool>,
}

// SAFETY: The chain is changed in stores of single words, by one at a time, who has set `changing`.
unsafe impl Sync for ProbeList {}
// SAFETY: As above.
unsafe impl Send for ProbeList {}

impl ProbeList {
    /// An empty list.
    pub const fn new() -> Self {
        // INVARIANT: Only the end.
        Self {
            first: UnsafeCell::new(null_mut()),
            changing: Atomic::new(false),
        }
    }

    /// Calls `f`, when nobody else does. Whoever uses the engine has its mutex: this does not wait there.
    fn alone<R>(&self, f: impl FnOnce() -> R) -> R {
        while self.changing.xchg(true, Full) {
            core::hint::spin_loop();
        }
        let result = f();
        self.changing.store(false, Release);
        result
    }

    /// The probes. Who calls this is in the read-side section in which the list was found, or the one who changes it.
    #[inline(always)]
    pub fn iter(&self) -> Probes<'_> {
        // SAFETY: A live word that is stored at once.
        let next = unsafe { word::load(self.first.get()) };
        Probes { next, _list: self }
    }

    /// The probe, if there is one only. For the same callers as [`ProbeList::iter`].
    #[inline(always)]
    pub fn only(&self) -> Option<Kprobe> {
        let mut probes = self.iter();
        let first = probes.next()?;
        probes.next.is_null().then_some(first)
    }

    /// Puts a probe in front, unless it is in a list.
    pub fn push(&self, probe: Kprobe) {
        let list = probe.list();
        // INVARIANT: In front of the chain.
        self.alone(|| {
            // SAFETY: The fields of a probe and of this list, which only we change; readers see the probe when it is
            // complete.
            unsafe {
                if (*list).next == list {
                    (*list).prev = null_mut();
                    (*list).next = *self.first.get();
                    word::store_release(self.first.get(), list);
                }
            }
        });
    }

    /// Takes a probe out. Readers may still see it, until a grace period is over; then `Kprobe::clear_list()` is due.
    pub fn remove(&self, probe: Kprobe) {
        self.alone(|| {
            let mut link = self.first.get();
            // SAFETY: By the invariants of the list, which only we change.
            unsafe {
                while !(*link).is_null() && *link != probe.list() {
                    link = addr_of_mut!((**link).next);
                }
                if !(*link).is_null() {
                    // INVARIANT: The chain goes on behind it.
                    word::store_release(link, (*probe.list()).next);
                }
            }
        });
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.iter().next().is_none()
    }
}

impl Default for ProbeList {
    fn default() -> Self {
        Self::new()
    }
}

/// The probes of a [`ProbeList`].
pub struct Probes<'a> {
    next: *mut bindings::list_head,
    _list: &'a ProbeList,
}

impl Iterator for Probes<'_> {
    type Item = Kprobe;

    #[inline(always)]
    fn next(&mut self) -> Option<Kprobe> {
        // SAFETY: By the invariants of the list.
        let probe = unsafe { Kprobe::of(self.next) }?;
        // SAFETY: As above; a word that is stored at once.
        self.next = unsafe { word::load(&raw const (*self.next).next) };
        Some(probe)
    }
}
