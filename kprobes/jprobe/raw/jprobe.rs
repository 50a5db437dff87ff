// SPDX-License-Identifier: GPL-2.0

//! Clients' structures, and the kprobes in them.
//!
//! A call of `<linux/jprobes.h>` first *claims* each jprobe, which sets its kprobe's handler, and
//! then registers all jprobes of the call ([`Claims`], [`Registered`]). Jprobes that are not
//! registered in the end are restored to the client's values.
//!
//! Contexts: process, and sleeping.

use core::marker::PhantomData;
use core::ptr::NonNull;

use ferro_sys::bindings;
use kernel::alloc::AllocError;
use kernel::error::to_result;
use kernel::ffi::c_int;
use kernel::fmt;
use kernel::prelude::*;

use super::handler::hit;

/// Client's values of the fields that registration changes.
#[derive(Clone, Copy)]
struct Given {
    address: *mut bindings::kprobe_opcode_t,
    flags: u32,
}

/// Client's `struct jprobe`, in a call of a function of `<linux/jprobes.h>`.
///
/// # Invariants
///
/// Valid for `'a`. Only this call changes it for `'a`, and the engine while its kprobe is
/// registered.
#[derive(Clone, Copy)]
pub(crate) struct Jprobe<'a>(NonNull<bindings::jprobe>, PhantomData<&'a bindings::jprobe>);

impl<'a> Jprobe<'a> {
    fn kprobe(self) -> *mut bindings::kprobe {
        // A jprobe begins with its kprobe, see `handler.rs`.
        self.0.as_ptr().cast()
    }

    fn entry(self) -> *mut kernel::ffi::c_void {
        // SAFETY: Valid by the type invariant; a word.
        unsafe { (&raw const (*self.0.as_ptr()).entry).read_volatile() }
    }

    fn flags(self) -> u32 {
        // SAFETY: Valid by the type invariant; the engine changes this word in one store.
        unsafe { (&raw const (*self.kprobe()).flags).read_volatile() }
    }

    /// Returns true if this is registered, or about to be.
    pub(crate) fn is_claimed(self) -> bool {
        // SAFETY: Valid by the type invariant; the engines do not write this field.
        let pre = unsafe { (*self.kprobe()).pre_handler };
        pre.is_some_and(|pre| pre as usize == hit as *const () as usize)
    }

    /// Returns true if the client has set kprobe handlers, too.
    pub(crate) fn has_handlers(self) -> bool {
        // SAFETY: Valid by the type invariant; the engines do not write this field.
        let pre = unsafe { (*self.kprobe()).pre_handler };
        // SAFETY: Valid by the type invariant; the engines do not write this field.
        let post = unsafe { (*self.kprobe()).post_handler };
        pre.is_some() || post.is_some()
    }

    /// Returns true if there is a handler.
    pub(crate) fn has_entry(self) -> bool {
        !self.entry().is_null()
    }

    /// Returns true if the handler is code.
    pub(crate) fn entry_is_text(self) -> bool {
        // SAFETY: Takes any address.
        unsafe { bindings::ferro_is_text(self.entry()) }
    }

    /// Sets the kprobe's handler. Returns the client's values.
    fn claim(self) -> Given {
        // SAFETY: Valid by the type invariant. Not claimed and so not registered, it belongs to
        // this call alone.
        let kprobe = unsafe { &mut *self.kprobe() };
        kprobe.pre_handler = Some(hit);
        Given {
            address: kprobe.addr,
            flags: kprobe.flags,
        }
    }

    /// Undoes [`Jprobe::claim`] of an unregistered jprobe.
    fn give_back(self, given: Given) {
        // SAFETY: Valid by the type invariant; not registered, so it belongs to this call alone.
        let kprobe = unsafe { &mut *self.kprobe() };
        kprobe.pre_handler = None;
        kprobe.addr = given.address;
        kprobe.flags = given.flags;
    }

    /// Undoes the claim of an earlier call, after unregistering.
    fn release(self) {
        // SAFETY: Valid by the type invariant; no longer registered, so it belongs to this call
        // alone.
        let kprobe = unsafe { &mut *self.kprobe() };
        kprobe.pre_handler = None;
        // The C engine leaves the flag set, and would take it for the client's.
        kprobe.flags &= !bindings::KPROBE_FLAG_DISABLED;
    }

    /// Returns the place, for log messages.
    pub(crate) fn target(self) -> Target<'a> {
        Target(self)
    }
}

/// Place of a jprobe, for log messages.
pub(crate) struct Target<'a>(Jprobe<'a>);

impl fmt::Display for Target<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kprobe = self.0.kprobe();
        // SAFETY: Valid by the type invariant of `Jprobe`; the engines do not write these fields.
        let (name, offset) = unsafe { ((*kprobe).symbol_name, (*kprobe).offset) };
        if name.is_null() {
            // The log must not reveal kernel addresses.
            return f.write_str("an address");
        }
        // SAFETY: By the rules of `register_jprobe()` the client's string, which stays as long as
        // the structure.
        let name = unsafe { CStr::from_char_ptr(name) };
        f.write_fmt(fmt!("{name}+{offset:#x}"))
    }
}

/// Jprobes of one call.
///
/// # Invariants
///
/// The pointers are NULL, or to structures that satisfy the invariants of [`Jprobe`].
#[derive(Clone, Copy)]
pub(crate) struct Batch<'a>(&'a [*mut bindings::jprobe]);

impl<'a> Batch<'a> {
    /// Wraps the jprobes of a call. Returns `None` for an empty batch.
    ///
    /// # Safety
    ///
    /// `jprobes` is NULL or has `count` pointers. Each is NULL, or a client's structure, valid for
    /// `'a`, which no other code changes during it. A structure stays in place until it is
    /// unregistered if this call registers it.
    pub(crate) unsafe fn new(jprobes: *mut *mut bindings::jprobe, count: c_int) -> Option<Self> {
        let count = usize::try_from(count).ok().filter(|count| *count > 0)?;
        let first = NonNull::new(jprobes)?;
        // SAFETY: The caller guarantees that the array has `count` pointers and stays for `'a`.
        let all = unsafe { core::slice::from_raw_parts(first.as_ptr(), count) };
        // INVARIANT: The caller guarantees it.
        Some(Self(all))
    }

    /// Returns the number of jprobes.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns the jprobes; `None` for NULL.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Option<Jprobe<'a>>> + 'a {
        // INVARIANT: By the type invariant.
        let jprobe = |jprobe: &*mut bindings::jprobe| {
            NonNull::new(*jprobe).map(|jprobe| Jprobe(jprobe, PhantomData))
        };
        self.0.iter().map(jprobe)
    }

    /// Unregisters the registered ones, and waits until none of their handlers runs.
    pub(crate) fn unregister(&self) {
        let registered = || self.iter().flatten().filter(|jprobe| jprobe.is_claimed());
        if registered().count() == self.len() {
            // The length was a `c_int`.
            let count = c_int::try_from(self.len()).unwrap_or(c_int::MAX);
            // SAFETY: By the type invariant an array of `count` pointers to valid jprobes, and a
            // pointer to a jprobe is one to its kprobe. Neither engine writes to the array.
            unsafe { bindings::unregister_kprobes(self.0.as_ptr().cast_mut().cast(), count) };
        } else {
            for jprobe in registered() {
                // SAFETY: Valid by the type invariant; an engine ignores an unknown kprobe.
                unsafe { bindings::unregister_kprobe(jprobe.kprobe()) };
            }
        }
        registered().for_each(Jprobe::release);
    }
}

/// Jprobes that are about to be registered. Dropping this restores the client's values.
///
/// # Invariants
///
/// Those in `given` have been claimed by this and are not registered; `kprobes` are their kprobes,
/// in the same order.
pub(crate) struct Claims<'a> {
    given: KVVec<(Jprobe<'a>, Given)>,
    kprobes: KVVec<*mut bindings::kprobe>,
}

impl<'a> Claims<'a> {
    /// Makes an empty list with room for `count`.
    pub(crate) fn with_capacity(count: usize) -> Result<Self> {
        // INVARIANT: None.
        Ok(Self {
            given: KVVec::with_capacity(count, GFP_KERNEL)?,
            kprobes: KVVec::with_capacity(count, GFP_KERNEL)?,
        })
    }

    /// Claims a jprobe. Returns false if it is claimed already, or its handler is missing or not
    /// code.
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

    /// Returns the number of jprobes.
    pub(crate) fn len(&self) -> usize {
        self.given.len()
    }

    /// Registers them, all or none.
    pub(crate) fn register(mut self) -> Result<Registered<'a>, (Self, Error)> {
        let count = c_int::try_from(self.kprobes.len()).unwrap_or(c_int::MAX);
        // SAFETY: By the type invariant pointers to valid and unregistered kprobes, with a pre
        // handler of its type. By the rules of `Batch::new()` they stay until they are
        // unregistered.
        let result = unsafe { bindings::register_kprobes(self.kprobes.as_mut_ptr(), count) };
        match to_result(result) {
            // INVARIANT: Just registered, and this gives up its claims.
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
/// As for [`Claims`], except that they are registered.
pub(crate) struct Registered<'a> {
    given: KVVec<(Jprobe<'a>, Given)>,
    kprobes: KVVec<*mut bindings::kprobe>,
}

impl<'a> Registered<'a> {
    /// Returns the first jprobe with a kprobe elsewhere than at a function's entry, where the
    /// arguments are.
    pub(crate) fn first_not_at_entry(&self) -> Option<Jprobe<'a>> {
        let mut jprobes = self.given.iter().map(|(jprobe, _)| *jprobe);
        jprobes.find(|jprobe| jprobe.flags() & bindings::KPROBE_FLAG_ON_FUNC_ENTRY == 0)
    }

    /// Unregisters them and restores the client's values.
    pub(crate) fn undo(mut self) {
        let count = c_int::try_from(self.kprobes.len()).unwrap_or(c_int::MAX);
        // SAFETY: By the type invariant `count` pointers to valid kprobes.
        unsafe { bindings::unregister_kprobes(self.kprobes.as_mut_ptr(), count) };
        // INVARIANT: They are claimed, and no longer registered.
        drop(Claims {
            given: self.given,
            kprobes: self.kprobes,
        });
    }
}
