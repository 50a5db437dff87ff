// SPDX-License-Identifier: GPL-2.0

//! `struct kprobe`, as clients fill it in.
//!
//! Contexts: calling handlers and counting any, NMI included; the rest process.

use core::marker::PhantomData;
use core::ptr::addr_of_mut;
use core::ptr::null_mut;
use core::ptr::NonNull;

use ferro_sys::code::regs::Regs;
use ferro_sys::sync::shared_word;
use kernel::bindings;
use kernel::ffi::c_int;
use kernel::prelude::*;

use super::address_map::GracePeriod;

/// Bits of `kprobe::flags`.
pub(crate) mod flags {
    use kernel::bindings;

    /// The code that it is in has gone.
    pub(crate) const GONE: u32 = bindings::KPROBE_FLAG_GONE;
    /// Its handlers are not called.
    pub(crate) const DISABLED: u32 = bindings::KPROBE_FLAG_DISABLED;
    /// A jump is in its place, or about to be put there.
    pub(crate) const OPTIMIZED: u32 = bindings::KPROBE_FLAG_OPTIMIZED;
    /// It is on an ftrace site.
    pub(crate) const FTRACE: u32 = bindings::KPROBE_FLAG_FTRACE;
    /// It is at the start of a function.
    pub(crate) const ON_FUNC_ENTRY: u32 = bindings::KPROBE_FLAG_ON_FUNC_ENTRY;
}

/// Warns, once, of a client that registers a probe twice, and shows who it is.
pub(crate) fn warn_registered_twice() {
    // SAFETY: The function takes nothing, and can be called in process context.
    unsafe { bindings::ferro_registered_twice() };
}

/// A handler for faults: `<linux/kprobes_fault.h>`.
pub(crate) type FaultHandler = bindings::kprobe_fault_handler_t;

/// A client's `struct kprobe`.
///
/// # Invariants
///
/// It is there for `'a`; if it is put in a list, until a grace period of RCU has passed since it was taken out. Others access
/// the fields that change in single words. Handlers in it are functions of their types or NULL, also where a client exchanges
/// them while the probe is registered: each use reads the field once, and tests it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Kprobe<'a>(NonNull<bindings::kprobe>, PhantomData<&'a bindings::kprobe>);

// SAFETY: What is changed while others look at it are single words.
unsafe impl Send for Kprobe<'_> {}
// SAFETY: What is changed while others look at it are single words.
unsafe impl Sync for Kprobe<'_> {}

impl<'a> Kprobe<'a> {
    /// # Safety
    ///
    /// `kprobe` is NULL, or a structure that is there for `'a`, and as long as a probe list has it, and a grace period of RCU
    /// longer. Handlers in it are functions of their types or NULL, its symbol a string or NULL.
    pub(crate) unsafe fn new(kprobe: *mut bindings::kprobe) -> Option<Self> {
        // SAFETY: Not NULL, so that the caller guarantees what `from_raw()` wants, which is the same.
        NonNull::new(kprobe).map(|kprobe| unsafe { Self::from_raw(kprobe) })
    }

    /// # Safety
    ///
    /// As for [`Kprobe::new`].
    #[inline(always)]
    pub(crate) unsafe fn from_raw(kprobe: NonNull<bindings::kprobe>) -> Self {
        // INVARIANT: The caller guarantees it.
        Self(kprobe, PhantomData)
    }

    /// Its address, which is its name here.
    #[inline(always)]
    pub(crate) fn id(self) -> usize {
        self.0.as_ptr() as usize
    }

    /// The client's structure.
    #[inline(always)]
    pub(crate) fn as_ptr(self) -> *mut bindings::kprobe {
        self.0.as_ptr()
    }

    #[inline(always)]
    fn get<T: Copy>(self, field: impl FnOnce(*mut bindings::kprobe) -> *mut T) -> T {
        // SAFETY: By the type invariant it is there, and `field` makes the address of a field, which is a word or less.
        unsafe { field(self.0.as_ptr()).read_volatile() }
    }

    fn set<T>(self, field: impl FnOnce(*mut bindings::kprobe) -> *mut T, value: T) {
        // SAFETY: By the type invariant it is there, and `field` makes the address of a field, which is a word or less.
        unsafe { field(self.0.as_ptr()).write_volatile(value) }
    }

    /// The address of the probed instruction; 0 if it was not given.
    pub(crate) fn address(self) -> usize {
        // SAFETY: By the type invariant it is there; only an address is made.
        self.get(|k| unsafe { addr_of_mut!((*k).addr) }) as usize
    }

    /// Says where it is, or with 0, that it is nowhere.
    pub(crate) fn set_address(self, address: usize) {
        // SAFETY: By the type invariant it is there; only an address is made.
        self.set(|k| unsafe { addr_of_mut!((*k).addr) }, address as *mut u8);
    }

    /// The name of a function, if the client gave one.
    pub(crate) fn symbol(self) -> Option<&'a CStr> {
        // SAFETY: By the type invariant it is there; only an address is made.
        let name = self.get(|k| unsafe { addr_of_mut!((*k).symbol_name) });
        // SAFETY: By the type invariant a string, which stays as long as the structure.
        (!name.is_null()).then(|| unsafe { CStr::from_char_ptr(name) })
    }

    /// How far from the symbol, or the address, it is.
    pub(crate) fn offset(self) -> usize {
        // SAFETY: By the type invariant it is there; only an address is made.
        self.get(|k| unsafe { addr_of_mut!((*k).offset) }) as usize
    }

    /// See [`flags`].
    #[inline(always)]
    pub(crate) fn flags(self) -> u32 {
        // SAFETY: By the type invariant it is there; only an address is made.
        self.get(|k| unsafe { addr_of_mut!((*k).flags) })
    }

    /// Changes the flags.
    pub(crate) fn set_flags(self, flags: u32) {
        // SAFETY: By the type invariant it is there; only an address is made.
        self.set(|k| unsafe { addr_of_mut!((*k).flags) }, flags);
    }

    /// Whether its handlers are called.
    #[inline(always)]
    pub(crate) fn is_enabled(self) -> bool {
        self.flags() & (flags::DISABLED | flags::GONE) == 0
    }

    /// Notes whether it has a handler for after the instruction: what the engine prepares for one does not follow the field, which
    /// the client may write at any time.
    pub(crate) fn note_post(self) {
        // SAFETY: By the type invariant it is there; only an address is made.
        let post = self.get(|k| unsafe { addr_of_mut!((*k).post_handler) });
        // Only the C engine has a use for this field.
        // SAFETY: By the type invariant it is there; only an address is made.
        self.set(
            |k| unsafe { addr_of_mut!((*k).ainsn.size) },
            u8::from(post.is_some()),
        );
    }

    /// Returns true if it had a handler for after the instruction when it was registered.
    pub(crate) fn has_post(self) -> bool {
        // SAFETY: By the type invariant it is there; only an address is made.
        self.get(|k| unsafe { addr_of_mut!((*k).ainsn.size) }) != 0
    }

    /// Whether the handler before the instruction is this one.
    pub(crate) fn has_pre(self, handler: bindings::kprobe_pre_handler_t) -> bool {
        // SAFETY: By the type invariant it is there; only an address is made.
        let own = self.get(|k| unsafe { addr_of_mut!((*k).pre_handler) });
        own.map(|f| f as usize) == handler.map(|f| f as usize)
    }

    /// The addresses of both handlers; 0 for one that there is not.
    pub(crate) fn handlers(self) -> [usize; 2] {
        // SAFETY: By the type invariant it is there; only an address is made.
        let pre = self.get(|k| unsafe { addr_of_mut!((*k).pre_handler) });
        // SAFETY: By the type invariant it is there; only an address is made.
        let post = self.get(|k| unsafe { addr_of_mut!((*k).post_handler) });
        [
            pre.map_or(0, |f| f as usize),
            post.map_or(0, |f| f as usize),
        ]
    }

    /// Has this one handler, before the instruction, and none after it.
    pub(super) fn set_pre(
        self,
        pre: unsafe extern "C" fn(*mut bindings::kprobe, *mut bindings::pt_regs) -> c_int,
    ) {
        // SAFETY: By the type invariant it is there; only an address is made.
        self.set(|k| unsafe { addr_of_mut!((*k).pre_handler) }, Some(pre));
        // SAFETY: By the type invariant it is there; only an address is made.
        self.set(|k| unsafe { addr_of_mut!((*k).post_handler) }, None);
    }

    /// Calls the handler before the instruction. Whether it changed where execution goes on.
    #[inline(always)]
    pub(crate) fn pre(self, regs: &mut Regs) -> bool {
        // SAFETY: By the type invariant it is there; only an address is made.
        let handler = self.get(|k| unsafe { addr_of_mut!((*k).pre_handler) });
        // SAFETY: By the type invariant a function of this type; the registers are this context's.
        handler.is_some_and(|f| unsafe { f(self.0.as_ptr(), regs.as_ptr()) } != 0)
    }

    /// Calls the handler after the instruction.
    #[inline(always)]
    pub(crate) fn post(self, regs: &mut Regs) {
        self.post_at(regs, |_| ());
    }

    /// Calls the handler after the instruction, if there is one, with the registers as `prepare` makes them.
    #[inline(always)]
    pub(crate) fn post_at(self, regs: &mut Regs, prepare: impl FnOnce(&mut Regs)) {
        // SAFETY: By the type invariant it is there; only an address is made.
        if let Some(f) = self.get(|k| unsafe { addr_of_mut!((*k).post_handler) }) {
            prepare(regs);
            // SAFETY: By the type invariant a function of this type; the registers are this context's.
            unsafe { f(self.0.as_ptr(), regs.as_ptr(), 0) };
        }
    }

    /// The handler for faults of a probe that is registered.
    #[inline(always)]
    pub(crate) fn fault_handler(self) -> FaultHandler {
        // SAFETY: By the type invariant it is there; only an address is made.
        let handler = self.get(|k| unsafe { addr_of_mut!((*k).hlist.next) });
        // SAFETY: `prepare()` has put such a function there, or NULL, and a client does not write this field.
        unsafe { core::mem::transmute::<*mut bindings::hlist_node, FaultHandler>(handler) }
    }

    /// Calls the handler for faults. Whether it has dealt with this one.
    pub(crate) fn fault(self, regs: &mut Regs, trapnr: usize) -> bool {
        let trapnr = c_int::try_from(trapnr).unwrap_or(0);
        let handler = self.fault_handler();
        // SAFETY: By the type invariant a function of this type; the registers are this context's.
        handler.is_some_and(|f| unsafe { f(self.0.as_ptr(), regs.as_ptr(), trapnr) } != 0)
    }

    /// Counts a hit whose handlers were not called.
    #[inline(always)]
    pub(crate) fn count_missed(self) {
        // SAFETY: By the type invariant it is there; everybody who changes this word does it at once.
        unsafe { shared_word::fetch_add((&raw mut (*self.0.as_ptr()).nmissed).cast(), 1) };
    }

    /// Makes it one that is about to be registered at `address`, with these flags and this handler for faults. Whether
    /// it is: not if it is in a list, or a copy of what it was while it was in one stands there.
    #[must_use]
    pub(crate) fn prepare(self, address: usize, flags: u32, fault: FaultHandler) -> bool {
        if self.is_listed() {
            return false;
        }
        self.set_address(address);
        self.set_flags(flags);
        let kprobe = self.0.as_ptr();
        // SAFETY: By the type invariant it is there, and as it is in no list, nobody else uses it yet.
        unsafe { (*kprobe).nmissed = 0 };
        // The handler has no field of its own; only the C engine has a use for this one.
        let fault = fault.map_or(null_mut(), |f| f as *mut bindings::hlist_node);
        // SAFETY: By the type invariant it is there, and as it is in no list, nobody else uses it yet.
        unsafe { (*kprobe).hlist.next = fault };
        self.empty_list();
        true
    }

    /// Shows clients what the instruction was.
    pub(crate) fn set_original(self, opcode: u8, copy: usize) {
        // SAFETY: By the type invariant it is there; nobody else writes this field, nor does the engine read it.
        unsafe { (*self.0.as_ptr()).opcode = opcode };
        // SAFETY: By the type invariant it is there; nobody else writes this field, nor does the engine read it.
        unsafe { (*self.0.as_ptr()).ainsn.insn = copy as *mut u8 };
    }

    /// Makes it one that is in no list, as `list_empty()` asks, when nobody is in the list any more who has found it there.
    pub(crate) fn clear_list(self, _over: &GracePeriod) {
        if !self.is_listed() {
            self.empty_list();
        }
    }

    fn empty_list(self) {
        let list = self.list();
        // SAFETY: By the type invariant it is there; both callers know that it is in no list, and nobody uses this field.
        unsafe {
            *list = bindings::list_head {
                next: list,
                prev: list,
            }
        };
    }

    /// Its entry for lists.
    #[inline(always)]
    pub(super) fn list(self) -> *mut bindings::list_head {
        // SAFETY: By the type invariant it is there; only an address is made.
        unsafe { addr_of_mut!((*self.0.as_ptr()).list) }
    }

    /// Whether it is in a list: then a field for which only the C engine has a use points to its entry.
    pub(super) fn is_listed(self) -> bool {
        // SAFETY: By the type invariant it is there; only an address is made.
        let mark = self.get(|k| unsafe { addr_of_mut!((*k).hlist.pprev) });
        mark.cast() == self.list()
    }

    /// Notes whether it is in a list.
    pub(super) fn set_listed(self, is_listed: bool) {
        let mark = if is_listed { self.list() } else { null_mut() };
        // SAFETY: By the type invariant it is there; only an address is made.
        self.set(|k| unsafe { addr_of_mut!((*k).hlist.pprev) }, mark.cast());
    }
}
