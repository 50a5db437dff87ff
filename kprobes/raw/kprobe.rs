// SPDX-License-Identifier: GPL-2.0

//! `struct kprobe`, as clients fill it in.
//!
//! Contexts: calling handlers and counting any, NMI included; the rest process.

use core::marker::PhantomData;
use core::ptr::addr_of_mut;
use core::ptr::null_mut;
use core::ptr::NonNull;

use ferro_kprobes_builtin::raw::current_kprobe;
use ferro_sys::bindings;
use ferro_sys::code::regs::Regs;
use ferro_sys::cpu::preempt::PreemptOff;
use ferro_sys::sync::shared_word;
use kernel::ffi::c_int;
use kernel::prelude::*;
use kernel::types::Opaque;

use super::grace_period::GracePeriod;

/// Bits of `kprobe::flags`.
pub(crate) mod flags {
    use ferro_sys::bindings;

    /// Its code was freed.
    pub(crate) const GONE: u32 = bindings::KPROBE_FLAG_GONE;
    /// Its handlers are not called.
    pub(crate) const DISABLED: u32 = bindings::KPROBE_FLAG_DISABLED;
    /// A jump is in its place, or about to be placed.
    pub(crate) const OPTIMIZED: u32 = bindings::KPROBE_FLAG_OPTIMIZED;
    /// On an ftrace site.
    pub(crate) const FTRACE: u32 = bindings::KPROBE_FLAG_FTRACE;
    /// At the start of a function.
    pub(crate) const ON_FUNC_ENTRY: u32 = bindings::KPROBE_FLAG_ON_FUNC_ENTRY;
}

/// Warns, once, of a client that registers a probe twice, with its call trace.
pub(crate) fn warn_registered_twice() {
    // SAFETY: The function takes nothing, and can be called in process context.
    unsafe { bindings::ferro_registered_twice() };
}

/// Fault handler: `<linux/kprobes_fault.h>`.
pub(crate) type FaultHandler = bindings::kprobe_fault_handler_t;

/// A client's `struct kprobe`.
///
/// # Invariants
///
/// Valid for `'a`; if a list has it, until a grace period of RCU has passed since its removal.
/// Fields that change are accessed in single words. Handlers in it are functions of their types or
/// NULL, also where a client exchanges them while the probe is registered: each use reads the field
/// once, and tests it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Kprobe<'a>(NonNull<bindings::kprobe>, PhantomData<&'a bindings::kprobe>);

// SAFETY: All fields that change while others read them are single words.
unsafe impl Send for Kprobe<'_> {}
// SAFETY: All fields that change while others read them are single words.
unsafe impl Sync for Kprobe<'_> {}

impl<'a> Kprobe<'a> {
    /// # Safety
    ///
    /// `kprobe` is NULL, or a structure that is valid for `'a`, and as long as a probe list has it,
    /// and a grace period of RCU longer. Handlers in it are functions of their types or NULL, its
    /// symbol a string or NULL.
    pub(crate) unsafe fn new(kprobe: *mut bindings::kprobe) -> Option<Self> {
        // SAFETY: Not NULL, so that the caller guarantees the requirements of `from_raw()`, which
        // are the same.
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

    /// Returns the probe with running handlers on this CPU, if any.
    pub(crate) fn running(here: &'a PreemptOff) -> Option<Self> {
        let probe = current_kprobe::running(here)?;
        // SAFETY: Not NULL, and valid for `'a`, as the function guarantees: a probe that a run of
        // handlers has entered, the start of a kretprobe with a running handler, or the busy one,
        // which has no handlers.
        unsafe { Self::new(probe.get()) }
    }

    /// Returns the client's structure, which others change.
    #[inline(always)]
    pub(crate) fn shared(self) -> &'a Opaque<bindings::kprobe> {
        // SAFETY: Valid for `'a` by the type invariant; the type has the same layout, and allows
        // changes.
        unsafe { self.0.cast().as_ref() }
    }

    /// Returns its address, which identifies it here.
    #[inline(always)]
    pub(crate) fn id(self) -> usize {
        self.0.as_ptr() as usize
    }

    /// Returns the client's structure.
    #[inline(always)]
    pub(crate) fn as_ptr(self) -> *mut bindings::kprobe {
        self.0.as_ptr()
    }

    #[inline(always)]
    fn get<T: Copy>(self, field: impl FnOnce(*mut bindings::kprobe) -> *mut T) -> T {
        // SAFETY: By the type invariant the structure is live, and `field` makes the address of a
        // field, which is a word or less.
        unsafe { field(self.0.as_ptr()).read_volatile() }
    }

    fn set<T>(self, field: impl FnOnce(*mut bindings::kprobe) -> *mut T, value: T) {
        // SAFETY: By the type invariant the structure is live, and `field` makes the address of a
        // field, which is a word or less.
        unsafe { field(self.0.as_ptr()).write_volatile(value) }
    }

    /// Returns the address of the probed instruction; 0 if it was not given.
    pub(crate) fn address(self) -> usize {
        // SAFETY: By the type invariant the structure is live; this only makes an address.
        self.get(|k| unsafe { addr_of_mut!((*k).addr) }) as usize
    }

    /// Sets the address; 0 is none.
    pub(crate) fn set_address(self, address: usize) {
        // SAFETY: By the type invariant the structure is live; this only makes an address.
        self.set(|k| unsafe { addr_of_mut!((*k).addr) }, address as *mut u8);
    }

    /// Returns the name of a function, if the client gave one.
    pub(crate) fn symbol(self) -> Option<&'a CStr> {
        // SAFETY: By the type invariant the structure is live; this only makes an address.
        let name = self.get(|k| unsafe { addr_of_mut!((*k).symbol_name) });
        // SAFETY: By the type invariant a string, which stays as long as the structure.
        (!name.is_null()).then(|| unsafe { CStr::from_char_ptr(name) })
    }

    /// Returns its distance from the symbol, or the address.
    pub(crate) fn offset(self) -> usize {
        // SAFETY: By the type invariant the structure is live; this only makes an address.
        self.get(|k| unsafe { addr_of_mut!((*k).offset) }) as usize
    }

    /// Returns its [`flags`].
    #[inline(always)]
    pub(crate) fn flags(self) -> u32 {
        // SAFETY: By the type invariant the structure is live; this only makes an address.
        self.get(|k| unsafe { addr_of_mut!((*k).flags) })
    }

    /// Sets its [`flags`].
    pub(crate) fn set_flags(self, flags: u32) {
        // SAFETY: By the type invariant the structure is live; this only makes an address.
        self.set(|k| unsafe { addr_of_mut!((*k).flags) }, flags);
    }

    /// Returns true if its handlers are called.
    #[inline(always)]
    pub(crate) fn is_enabled(self) -> bool {
        self.flags() & (flags::DISABLED | flags::GONE) == 0
    }

    /// Records whether it has a post-handler. The engine's preparations do not follow the field,
    /// which the client may write at any time.
    pub(crate) fn note_post(self) {
        // SAFETY: By the type invariant the structure is live; this only makes an address.
        let post = self.get(|k| unsafe { addr_of_mut!((*k).post_handler) });
        // Only the C engine uses this field.
        // SAFETY: By the type invariant the structure is live; this only makes an address.
        self.set(
            |k| unsafe { addr_of_mut!((*k).ainsn.size) },
            u8::from(post.is_some()),
        );
    }

    /// Returns true if it had a post-handler when it was registered.
    pub(crate) fn has_post(self) -> bool {
        // SAFETY: By the type invariant the structure is live; this only makes an address.
        self.get(|k| unsafe { addr_of_mut!((*k).ainsn.size) }) != 0
    }

    /// Returns true if its pre-handler is this one.
    pub(crate) fn has_pre(self, handler: bindings::kprobe_pre_handler_t) -> bool {
        // SAFETY: By the type invariant the structure is live; this only makes an address.
        let own = self.get(|k| unsafe { addr_of_mut!((*k).pre_handler) });
        own.map(|f| f as usize) == handler.map(|f| f as usize)
    }

    /// Returns the addresses of both handlers; 0 is none.
    pub(crate) fn handlers(self) -> [usize; 2] {
        // SAFETY: By the type invariant the structure is live; this only makes an address.
        let pre = self.get(|k| unsafe { addr_of_mut!((*k).pre_handler) });
        // SAFETY: By the type invariant the structure is live; this only makes an address.
        let post = self.get(|k| unsafe { addr_of_mut!((*k).post_handler) });
        [
            pre.map_or(0, |f| f as usize),
            post.map_or(0, |f| f as usize),
        ]
    }

    /// Sets its pre-handler, and removes its post-handler.
    pub(super) fn set_pre(
        self,
        pre: unsafe extern "C" fn(*mut bindings::kprobe, *mut bindings::pt_regs) -> c_int,
    ) {
        // SAFETY: By the type invariant the structure is live; this only makes an address.
        self.set(|k| unsafe { addr_of_mut!((*k).pre_handler) }, Some(pre));
        // SAFETY: By the type invariant the structure is live; this only makes an address.
        self.set(|k| unsafe { addr_of_mut!((*k).post_handler) }, None);
    }

    /// Calls the pre-handler. Returns true if it changed the instruction pointer.
    #[inline(always)]
    pub(crate) fn pre(self, regs: &mut Regs) -> bool {
        // SAFETY: By the type invariant the structure is live; this only makes an address.
        let handler = self.get(|k| unsafe { addr_of_mut!((*k).pre_handler) });
        // SAFETY: By the type invariant a function of this type; the registers are this context's.
        handler.is_some_and(|f| unsafe { f(self.0.as_ptr(), regs.as_ptr()) } != 0)
    }

    /// Calls the post-handler.
    #[inline(always)]
    pub(crate) fn post(self, regs: &mut Regs) {
        self.post_at(regs, |_| ());
    }

    /// Calls the post-handler, if there is one, with the registers as `prepare` makes them.
    #[inline(always)]
    pub(crate) fn post_at(self, regs: &mut Regs, prepare: impl FnOnce(&mut Regs)) {
        // SAFETY: By the type invariant the structure is live; this only makes an address.
        if let Some(f) = self.get(|k| unsafe { addr_of_mut!((*k).post_handler) }) {
            prepare(regs);
            // SAFETY: By the type invariant a function of this type; the registers are this
            // context's.
            unsafe { f(self.0.as_ptr(), regs.as_ptr(), 0) };
        }
    }

    /// Returns the fault handler of a registered probe.
    #[inline(always)]
    pub(crate) fn fault_handler(self) -> FaultHandler {
        // SAFETY: By the type invariant the structure is live; this only makes an address.
        let handler = self.get(|k| unsafe { addr_of_mut!((*k).hlist.next) });
        // SAFETY: `prepare()` has put such a function there, or NULL, and a client does not write
        // this field.
        unsafe { core::mem::transmute::<*mut bindings::hlist_node, FaultHandler>(handler) }
    }

    /// Calls the fault handler. Returns true if it has handled the fault.
    pub(crate) fn fault(self, regs: &mut Regs, trapnr: usize) -> bool {
        let trapnr = c_int::try_from(trapnr).unwrap_or(0);
        let handler = self.fault_handler();
        // SAFETY: By the type invariant a function of this type; the registers are this context's.
        handler.is_some_and(|f| unsafe { f(self.0.as_ptr(), regs.as_ptr(), trapnr) } != 0)
    }

    /// Counts a hit at which no handler was called.
    #[inline(always)]
    pub(crate) fn count_missed(self) {
        // SAFETY: By the type invariant the structure is live; every writer of this word changes it
        // at once.
        unsafe { shared_word::fetch_add((&raw mut (*self.0.as_ptr()).nmissed).cast(), 1) };
    }

    /// Prepares it for registration at `address`, with these flags and this fault handler.
    ///
    /// Returns false if the structure is in a list, or has the bytes that it had while it was in
    /// one.
    #[must_use]
    pub(crate) fn prepare(self, address: usize, flags: u32, fault: FaultHandler) -> bool {
        if self.is_listed() {
            return false;
        }
        self.set_address(address);
        self.set_flags(flags);
        let kprobe = self.0.as_ptr();
        // SAFETY: By the type invariant the structure is live, and in no list, so that nothing else
        // uses it yet.
        unsafe { (*kprobe).nmissed = 0 };
        // The fault handler has no field of its own; only the C engine uses this one.
        let fault = fault.map_or(null_mut(), |f| f as *mut bindings::hlist_node);
        // SAFETY: By the type invariant the structure is live, and in no list, so that nothing else
        // uses it yet.
        unsafe { (*kprobe).hlist.next = fault };
        self.empty_list();
        true
    }

    /// Shows clients the original instruction.
    pub(crate) fn set_original(self, opcode: u8, copy: usize) {
        // SAFETY: By the type invariant the structure is live; nothing else writes this field, nor
        // does the engine read it.
        unsafe { (*self.0.as_ptr()).opcode = opcode };
        // SAFETY: By the type invariant the structure is live; nothing else writes this field, nor
        // does the engine read it.
        unsafe { (*self.0.as_ptr()).ainsn.insn = copy as *mut u8 };
    }

    /// Makes `list_empty()` true for it, after the readers that found it in a list have finished.
    pub(crate) fn clear_list(self, _over: &GracePeriod) {
        if !self.is_listed() {
            self.empty_list();
        }
    }

    fn empty_list(self) {
        let list = self.list();
        // SAFETY: By the type invariant the structure is live; both callers know that it is in no
        // list, and no reader uses this field.
        unsafe {
            *list = bindings::list_head {
                next: list,
                prev: list,
            }
        };
    }

    /// Returns its entry for lists.
    #[inline(always)]
    pub(super) fn list(self) -> *mut bindings::list_head {
        // SAFETY: By the type invariant the structure is live; this only makes an address.
        unsafe { addr_of_mut!((*self.0.as_ptr()).list) }
    }

    /// Returns true if the structure is in a list: then a field that only the C engine uses points
    /// to its entry.
    pub(super) fn is_listed(self) -> bool {
        // SAFETY: By the type invariant the structure is live; this only makes an address.
        let mark = self.get(|k| unsafe { addr_of_mut!((*k).hlist.pprev) });
        mark.cast() == self.list()
    }

    /// Records whether the structure is in a list.
    pub(super) fn set_listed(self, is_listed: bool) {
        let mark = if is_listed { self.list() } else { null_mut() };
        // SAFETY: By the type invariant the structure is live; this only makes an address.
        self.set(|k| unsafe { addr_of_mut!((*k).hlist.pprev) }, mark.cast());
    }
}
