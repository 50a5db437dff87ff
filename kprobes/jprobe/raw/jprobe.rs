// SPDX-License-Identifier: GPL-2.0

//! The clients' structures, and the kprobes in them.
//!
//! A jprobe of a call of `<linux/jprobes.h>` is *claimed*, which makes its kprobe one of ours, and registered with the
//! others of the call ([`Claims`], [`Registered`]). What is not registered in the end is put back as the client gave it.
//!
//! Contexts: process, and sleeping.

use core::marker::PhantomData;
use core::ptr::NonNull;

use kernel::alloc::AllocError;
use kernel::bindings;
use kernel::error::to_result;
use kernel::ffi::c_int;
use kernel::fmt;
use kernel::prelude::*;

use super::handler::hit;

/// What a client has put into the fields that registering changes.
#[derive(Clone, Copy)]
struct Given {
    address: *mut bindings::kprobe_opcode_t,
    flags: u32,
}

/// A client's `struct jprobe`, in a call of a function of `<linux/jprobes.h>`.
///
/// # Invariants
///
/// It is there for `'a`. Nobody but this call, and the engine once its kprobe is registered, changes it meanwhile.
#[derive(Clone, Copy)]
pub(crate) struct Jprobe<'a>(NonNull<bindings::jprobe>, PhantomData<&'a bindings::jprobe>);

impl<'a> Jprobe<'a> {
    fn kprobe(self) -> *mut bindings::kprobe {
        // It begins with it, see `handler.rs`.
        self.0.as_ptr().cast()
    }

    fn entry(self) -> *mut kernel::ffi::c_void {
        // SAFETY: By the type invariant it is there; a word.
        unsafe { (&raw const (*self.0.as_ptr()).entry).read_volatile() }
    }

    fn flags(self) -> u32 {
        // SAFETY: By the type invariant it is there; the engine changes this word at once.
        unsafe { (&raw const (*self.kprobe()).flags).read_volatile() }
    }

    /// Whether it is registered, or about to be.
    pub(crate) fn is_claimed(self) -> bool {
        // SAFETY: By the type invariant it is there; the engines do not write this field.
        let pre = unsafe { (*self.kprobe()).pre_handler };
        pre.is_some_and(|pre| pre as usize == hit as *const () as usize)
    }

    /// Whether the client wants handlers of a kprobe, too.
    pub(crate) fn has_handlers(self) -> bool {
        // SAFETY: By the type invariant it is there; the engines do not write this field.
        let pre = unsafe { (*self.kprobe()).pre_handler };
        // SAFETY: By the type invariant it is there; the engines do not write this field.
        let post = unsafe { (*self.kprobe()).post_handler };
        pre.is_some() || post.is_some()
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

    /// Makes its kprobe ours.
    fn claim(self) -> Given {
        // SAFETY: By the type invariant it is there, and as it was not claimed, it is not registered: it is this call's alone.
        let kprobe = unsafe { &mut *self.kprobe() };
        kprobe.pre_handler = Some(hit);
        Given {
            address: kprobe.addr,
            flags: kprobe.flags,
        }
    }

    /// Undoes [`Jprobe::claim`], for one that is not registered.
    fn give_back(self, given: Given) {
        // SAFETY: By the type invariant it is there; it is not registered, so it is this call's alone.
        let kprobe = unsafe { &mut *self.kprobe() };
        kprobe.pre_handler = None;
        kprobe.addr = given.address;
        kprobe.flags = given.flags;
    }

    /// The same for one that was registered in an earlier call.
    fn release(self) {
        // SAFETY: By the type invariant it is there; it is not registered any more, so it is this call's alone.
        let kprobe = unsafe { &mut *self.kprobe() };
        kprobe.pre_handler = None;
        // The C engine leaves it there, and would take it for the client's.
        kprobe.flags &= !bindings::KPROBE_FLAG_DISABLED;
    }

    /// Where it was to be, for people.
    pub(crate) fn target(self) -> Target<'a> {
        Target(self)
    }
}

/// Where a jprobe was to be, for people.
pub(crate) struct Target<'a>(Jprobe<'a>);

impl fmt::Display for Target<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kprobe = self.0.kprobe();
        // SAFETY: By the type invariant of `Jprobe` it is there; the engines do not write these fields.
        let (name, offset) = unsafe { ((*kprobe).symbol_name, (*kprobe).offset) };
        if name.is_null() {
            // Who reads the log is not to learn from it where the kernel lies.
            return f.write_str("an address");
        }
        // SAFETY: By the rules of `register_jprobe()` the client's string, which stays as long as the structure.
        let name = unsafe { CStr::from_char_ptr(name) };
        f.write_fmt(fmt!("{name}+{offset:#x}"))
    }
}

/// The jprobes of one call.
///
/// # Invariants
///
/// The pointers are NULL, or to structures as [`Jprobe`] wants them.
#[derive(Clone, Copy)]
pub(crate) struct Batch<'a>(&'a [*mut bindings::jprobe]);

impl<'a> Batch<'a> {
    /// `None` unless it has a member.
    ///
    /// # Safety
    ///
    /// `jprobes` is NULL or has `count` pointers. Each is NULL, or a client's structure that is there for `'a`, that nobody
    /// else changes meanwhile, and that stays where it is until it is unregistered if this call registers it.
    pub(crate) unsafe fn new(jprobes: *mut *mut bindings::jprobe, count: c_int) -> Option<Self> {
        let count = usize::try_from(count).ok().filter(|count| *count > 0)?;
        let first = NonNull::new(jprobes)?;
        // SAFETY: The caller guarantees that the array has `count` pointers and stays for `'a`.
        let all = unsafe { core::slice::from_raw_parts(first.as_ptr(), count) };
        // INVARIANT: The caller guarantees it.
        Some(Self(all))
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// The jprobes; `None` for NULL.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Option<Jprobe<'a>>> + 'a {
        // INVARIANT: By the type invariant.
        let jprobe = |jprobe: &*mut bindings::jprobe| {
            NonNull::new(*jprobe).map(|jprobe| Jprobe(jprobe, PhantomData))
        };
        self.0.iter().map(jprobe)
    }

    /// Unregisters those that are registered. No handler of theirs runs any more when this returns.
    pub(crate) fn unregister(&self) {
        let registered = || self.iter().flatten().filter(|jprobe| jprobe.is_claimed());
        if registered().count() == self.len() {
            // It came from one.
            let count = c_int::try_from(self.len()).unwrap_or(c_int::MAX);
            // SAFETY: By the type invariant an array of `count` pointers to jprobes that are there, and a pointer to a jprobe
            // is one to its kprobe. Neither engine writes to the array.
            unsafe { bindings::unregister_kprobes(self.0.as_ptr().cast_mut().cast(), count) };
        } else {
            for jprobe in registered() {
                // SAFETY: By the type invariant it is there; an engine ignores what it does not know.
                unsafe { bindings::unregister_kprobe(jprobe.kprobe()) };
            }
        }
        registered().for_each(Jprobe::release);
    }
}

/// Jprobes that are about to be registered. Dropping this puts them back as the client gave them.
///
/// # Invariants
///
/// Those in `given` have been claimed by this and are not registered; `kprobes` are their kprobes, in the same order.
pub(crate) struct Claims<'a> {
    given: KVVec<(Jprobe<'a>, Given)>,
    kprobes: KVVec<*mut bindings::kprobe>,
}

impl<'a> Claims<'a> {
    /// None yet, with room for `count`.
    pub(crate) fn with_capacity(count: usize) -> Result<Self> {
        // INVARIANT: None.
        Ok(Self {
            given: KVVec::with_capacity(count, GFP_KERNEL)?,
            kprobes: KVVec::with_capacity(count, GFP_KERNEL)?,
        })
    }

    /// Claims a jprobe. False if it is claimed already, has no handler, or one that is not code.
    pub(crate) fn add(&mut self, jprobe: Jprobe<'a>) -> Result<bool, AllocError> {
        if jprobe.is_claimed() || !jprobe.entry_is_text() {
            return Ok(false);
        }
        self.given.reserve(1, GFP_KERNEL)?;
        self.kprobes.push(jprobe.kprobe(), GFP_KERNEL)?;
        // INVARIANT: It was not claimed, so it is not registered either. There is room.
        let _ = self.given.push_within_capacity((jprobe, jprobe.claim()));
        Ok(true)
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.given.len()
    }

    /// Registers them, all or none.
    pub(crate) fn register(mut self) -> Result<Registered<'a>, (Self, Error)> {
        let count = c_int::try_from(self.kprobes.len()).unwrap_or(c_int::MAX);
        // SAFETY: By the type invariant pointers to kprobes that are there and not registered, with a pre handler of its type.
        // By the rules of `Batch::new()` they stay until they are unregistered.
        let result = unsafe { bindings::register_kprobes(self.kprobes.as_mut_ptr(), count) };
        match to_result(result) {
            // INVARIANT: Just registered, and this gives up what it has claimed.
            Ok(()) => Ok(Registered {
                given: core::mem::take(&mut self.given),
                kprobes: core::mem::take(&mut self.kprobes),
            }),
            Err(error) => Err((self, error)),
        }
    }
}

impl Drop for Claims<'_> {
    fn drop(&mut self) {
        for (jprobe, given) in &self.given {
            jprobe.give_back(*given);
        }
    }
}

/// Jprobes that this call has registered. Dropping this leaves them registered.
///
/// # Invariants
///
/// As for [`Claims`], but they are registered.
pub(crate) struct Registered<'a> {
    given: KVVec<(Jprobe<'a>, Given)>,
    kprobes: KVVec<*mut bindings::kprobe>,
}

impl<'a> Registered<'a> {
    /// The first whose kprobe is not where the function's arguments are.
    pub(crate) fn first_not_at_entry(&self) -> Option<Jprobe<'a>> {
        let mut jprobes = self.given.iter().map(|(jprobe, _)| *jprobe);
        jprobes.find(|jprobe| jprobe.flags() & bindings::KPROBE_FLAG_ON_FUNC_ENTRY == 0)
    }

    /// Unregisters them again, and puts them back as the client gave them.
    pub(crate) fn undo(mut self) {
        let count = c_int::try_from(self.kprobes.len()).unwrap_or(c_int::MAX);
        // SAFETY: By the type invariant `count` pointers to kprobes that are there.
        unsafe { bindings::unregister_kprobes(self.kprobes.as_mut_ptr(), count) };
        // INVARIANT: They are claimed, and not registered any more.
        drop(Claims {
            given: self.given,
            kprobes: self.kprobes,
        });
    }
}
