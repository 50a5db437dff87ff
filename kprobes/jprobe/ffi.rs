// SPDX-License-Identifier: GPL-2.0

//! The C side: `<linux/jprobes.h>`, the kprobes below, and the call of a handler.
//!
//! Contexts: process, and sleeping; [`hit`] any, NMI included.

use core::mem::offset_of;
use core::ptr::null_mut;
use core::ptr::without_provenance;
use core::ptr::NonNull;

use kernel::bindings;
use kernel::error::to_result;
use kernel::ffi::c_int;
use kernel::fmt;
use kernel::prelude::*;

use crate::register;

const _: () = assert!(offset_of!(bindings::jprobe, kp) == 0);

/// The bytes of a word of the stack.
const WORD: usize = size_of::<usize>();

/// What a client has put into the fields that registering changes.
#[derive(Clone, Copy)]
pub(crate) struct Given {
    address: *mut bindings::kprobe_opcode_t,
    flags: u32,
}

/// A client's `struct jprobe`.
///
/// # Invariants
///
/// It is there, and nobody but its kprobe's engine changes it, as long as a function of `<linux/jprobes.h>` has been called
/// with it, and while it is registered.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(crate) struct Jprobe(NonNull<bindings::jprobe>);

impl Jprobe {
    fn kprobe(self) -> *mut bindings::kprobe {
        // It begins with it.
        self.0.as_ptr().cast()
    }

    fn entry(self) -> *mut kernel::ffi::c_void {
        // SAFETY: By the type invariant.
        unsafe { (*self.0.as_ptr()).entry }
    }

    fn flags(self) -> u32 {
        // SAFETY: By the type invariant; a word that the engine changes.
        unsafe { (&raw const (*self.kprobe()).flags).read_volatile() }
    }

    /// Whether it is registered, or about to be.
    pub(crate) fn is_claimed(self) -> bool {
        // SAFETY: By the type invariant.
        let pre = unsafe { (*self.kprobe()).pre_handler };
        pre.is_some_and(|pre| pre as usize == hit as *const () as usize)
    }

    /// Whether the client wants handlers of a kprobe, too.
    pub(crate) fn has_handlers(self) -> bool {
        // SAFETY: By the type invariant.
        let kprobe = unsafe { &*self.kprobe() };
        kprobe.pre_handler.is_some() || kprobe.post_handler.is_some()
    }

    /// Whether there is a handler.
    pub(crate) fn has_entry(self) -> bool {
        !self.entry().is_null()
    }

    /// Whether the handler can be one.
    pub(crate) fn entry_is_text(self) -> bool {
        // SAFETY: Takes any address.
        unsafe { bindings::ferro_is_text(self.entry()) }
    }

    /// What the client has given, if it is not registered.
    pub(crate) fn given(self) -> Given {
        // SAFETY: By the type invariant.
        let kprobe = unsafe { &*self.kprobe() };
        Given {
            address: kprobe.addr,
            flags: kprobe.flags,
        }
    }

    /// Makes it one that is about to be registered.
    pub(crate) fn claim(self) {
        // SAFETY: By the type invariant, and not registered yet.
        unsafe { (*self.kprobe()).pre_handler = Some(hit) };
    }

    /// Undoes [`Jprobe::claim`].
    pub(crate) fn give_back(self, given: Given) {
        // SAFETY: By the type invariant, and not registered.
        let kprobe = unsafe { &mut *self.kprobe() };
        kprobe.pre_handler = None;
        kprobe.addr = given.address;
        kprobe.flags = given.flags;
    }

    /// Makes it one that is not registered, when it has been unregistered.
    pub(crate) fn release(self) {
        // SAFETY: By the type invariant, and not registered.
        let kprobe = unsafe { &mut *self.kprobe() };
        kprobe.pre_handler = None;
        // The C engine leaves it there, and would take it for the client's.
        kprobe.flags &= !bindings::KPROBE_FLAG_DISABLED;
    }

    /// Unregisters its kprobe.
    pub(crate) fn unregister(self) {
        // SAFETY: By the type invariant.
        unsafe { bindings::unregister_kprobe(self.kprobe()) };
    }

    /// Whether its kprobe, which is registered, is where the function's arguments are.
    pub(crate) fn is_at_entry(self) -> bool {
        self.flags() & bindings::KPROBE_FLAG_ON_FUNC_ENTRY != 0
    }

    /// Where it was to be, for people.
    pub(crate) fn place(self) -> impl fmt::Display {
        Place(self)
    }
}

struct Place(Jprobe);

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // SAFETY: By the type invariant of `Jprobe`.
        let kprobe = unsafe { &*self.0.kprobe() };
        if kprobe.symbol_name.is_null() {
            // Who reads the log is not to learn from it where the kernel lies.
            return f.write_str("an address");
        }
        // SAFETY: The client's string.
        let name = unsafe { CStr::from_char_ptr(kprobe.symbol_name) };
        f.write_fmt(fmt!("{name}+{:#x}", kprobe.offset))
    }
}

/// The jprobes of one call.
#[derive(Clone, Copy)]
pub(crate) struct Batch<'a>(&'a [*mut bindings::jprobe]);

impl<'a> Batch<'a> {
    /// `None` unless it has a member.
    ///
    /// # Safety
    ///
    /// `jprobes` has `count` pointers, which are NULL or as [`Jprobe`] wants them.
    unsafe fn new(jprobes: *mut *mut bindings::jprobe, count: c_int) -> Option<Self> {
        let count = usize::try_from(count).ok().filter(|count| *count > 0)?;
        let first = NonNull::new(jprobes)?;
        // SAFETY: By the rules of this function.
        Some(Self(unsafe {
            core::slice::from_raw_parts(first.as_ptr(), count)
        }))
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// The jprobes; `None` for NULL.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Option<Jprobe>> + 'a {
        // INVARIANT: By the rules of `new()`.
        self.0
            .iter()
            .map(|jprobe| NonNull::new(*jprobe).map(Jprobe))
    }

    fn kprobes(&self) -> *mut *mut bindings::kprobe {
        // A pointer to a jprobe is one to its kprobe. Neither engine writes to the array.
        self.0.as_ptr().cast_mut().cast()
    }

    /// Registers the kprobes, of which none is NULL: all or none.
    pub(crate) fn register(&self) -> Result {
        // It came from one.
        let count = c_int::try_from(self.len())?;
        // SAFETY: By the rules of `new()`.
        to_result(unsafe { bindings::register_kprobes(self.kprobes(), count) })
    }

    /// Unregisters the kprobes, of which none is NULL.
    pub(crate) fn unregister(&self) {
        let count = c_int::try_from(self.len()).unwrap_or(c_int::MAX);
        // SAFETY: By the rules of `new()`.
        unsafe { bindings::unregister_kprobes(self.kprobes(), count) };
    }
}

/// The probed function has been called: the handler of the jprobe's kprobe.
///
/// # Safety
///
/// `kprobe` begins a jprobe that is registered; `regs` are those of a probe.
#[link_section = ".kprobes.text"]
unsafe extern "C" fn hit(kprobe: *mut bindings::kprobe, regs: *mut bindings::pt_regs) -> c_int {
    // SAFETY: By the rules of this function.
    let flags = unsafe { (&raw const (*kprobe).flags).read_volatile() };
    if flags & bindings::KPROBE_FLAG_ON_FUNC_ENTRY == 0 {
        return 0;
    }
    // SAFETY: As above.
    let entry = unsafe { (*kprobe.cast::<bindings::jprobe>()).entry };
    // SAFETY: As above.
    let sp = unsafe { (*regs).sp };
    let mut frame = bindings::ferro_jprobe_frame {
        sp: 0,
        stack: [0; bindings::JPROBE_STACK_SIZE as usize / WORD],
        previous: null_mut(),
        graph_stack: 0,
        graph_depth: 0,
    };
    // Above the return address.
    read_stack(sp.wrapping_add(WORD), &mut frame.stack);
    // SAFETY: The frame is there until it is left; probes do not leave the CPU.
    unsafe { bindings::ferro_jprobe_enter(&raw mut frame) };
    // SAFETY: The client's function, which has the parameters of the probed one and gets its arguments. It may go back by
    // `jprobe_return()` over frames of its own only.
    unsafe { bindings::ferro_jprobe_call(regs, entry, &raw mut frame) };
    // SAFETY: Entered above.
    unsafe { bindings::ferro_jprobe_leave(&raw mut frame) };
    0
}

/// Reads words of a stack, which may end in between: what is not there stays as it is.
#[inline(always)]
fn read_stack(from: usize, words: &mut [usize]) {
    for (i, word) in words.iter_mut().enumerate() {
        let at = without_provenance(from.wrapping_add(i * WORD));
        // Not read into the word itself, which a read that fails may overwrite.
        let mut value = 0usize;
        // SAFETY: Any address will do; the destination is a word.
        if unsafe { bindings::copy_from_kernel_nofault((&raw mut value).cast(), at, WORD) } != 0 {
            return;
        }
        *word = value;
    }
}

fn errno(result: Result) -> c_int {
    result.map_or_else(|e| e.to_errno(), |()| 0)
}

/// `<linux/jprobes.h>`
///
/// # Safety
///
/// As clients in C have to call it: with a structure that stays until it is unregistered, or NULL.
#[export]
unsafe extern "C" fn register_jprobe(jprobe: *mut bindings::jprobe) -> c_int {
    let mut jprobe = jprobe;
    // SAFETY: By the rules of the C interface.
    unsafe { register_jprobes(&raw mut jprobe, 1) }
}

/// `<linux/jprobes.h>`
///
/// # Safety
///
/// As clients in C have to call it: with structures that stay until they are unregistered, or NULL.
#[export]
unsafe extern "C" fn register_jprobes(jprobes: *mut *mut bindings::jprobe, count: c_int) -> c_int {
    // SAFETY: By the rules of the C interface.
    let batch = unsafe { Batch::new(jprobes, count) }.ok_or(EINVAL);
    errno(batch.and_then(register::register))
}

/// `<linux/jprobes.h>`
///
/// # Safety
///
/// As clients in C have to call it.
#[export]
unsafe extern "C" fn unregister_jprobe(jprobe: *mut bindings::jprobe) {
    let mut jprobe = jprobe;
    // SAFETY: By the rules of the C interface.
    unsafe { unregister_jprobes(&raw mut jprobe, 1) }
}

/// `<linux/jprobes.h>`
///
/// # Safety
///
/// As clients in C have to call it.
#[export]
unsafe extern "C" fn unregister_jprobes(jprobes: *mut *mut bindings::jprobe, count: c_int) {
    // SAFETY: By the rules of the C interface.
    if let Some(batch) = unsafe { Batch::new(jprobes, count) } {
        register::unregister(batch);
    }
}
