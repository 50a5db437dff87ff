// SPDX-License-Identifier: GPL-2.0

//! Tracers, registered at the C interface, and the callback that it makes.
//!
//! Contexts: callbacks any that ftrace traces, NMI included; the rest process. Locks: that of the list of tracers, then those of
//! ftrace.

use core::mem::ManuallyDrop;

use ferro_sys::hook::is_going;
use ferro_sys::hook::Module;
use ferro_sys::sync::mutex::StaticGuard;
use ferro_sys::sync::mutex::StaticMutex;
use kernel::bindings;
use kernel::container_of;
use kernel::error::to_result;
use kernel::ffi::c_ulong;
use kernel::prelude::*;
use kernel::types::Opaque;

use super::fregs::Fregs;
use crate::call::FunctionCall;
use crate::error::TraceError;
use crate::filter::Filter;
use crate::tracer::TraceHandler;

extern "C" {
    /// `filter.h`
    static mut ferro_ftrace_api_lock: bindings::mutex;
    /// `filter.h`
    fn ferro_ftrace_filter_count(ops: *mut bindings::ftrace_ops) -> c_ulong;
}

/// What is registered: the address of each ops, and of the code that its calls need.
static LIVE: StaticMutex<KVec<Live>> =
    // SAFETY: A mutex of `filter.c` that protects nothing else.
    unsafe { StaticMutex::new(&raw mut ferro_ftrace_api_lock, KVec::new()) };

#[derive(Clone, Copy)]
pub(super) struct Live {
    /// Of a set the first field of its `struct ftrace_data_ops`.
    pub(super) ops: *mut bindings::ftrace_ops,
    /// The callback, which may be code of who registers it, and the handler's own.
    pub(super) code: [usize; 2],
    pub(super) is_set: bool,
}

// SAFETY: An ops is passed to functions of ftrace only, which have locks of their own.
unsafe impl Send for Live {}

impl Live {
    /// Ends the calls of a registered ops, and waits for those under way.
    ///
    /// Errors: -ENODEV if ftrace has given up; then the ops may still be called.
    fn end(self) -> Result {
        // SAFETY: What is in the list is registered, or a set, and stays where it is until it has been taken out; this is called
        // once, when it has.
        to_result(unsafe {
            match self.is_set {
                true => bindings::ftrace_data_release(self.ops.cast()),
                false => bindings::unregister_ftrace_function(self.ops),
            }
        })
    }

    /// Puts it into the list. Errors: no memory, or its module is being unloaded; then it is not
    /// there.
    pub(super) fn add(self) -> Result<(), TraceError> {
        let mut live = self.lock_list()?;
        // There is room.
        let _ = live.push_within_capacity(self);
        Ok(())
    }

    /// Locks the list, with room for this. Errors: as for [`Live::add`].
    fn lock_list(&self) -> Result<StaticGuard<KVec<Self>>, TraceError> {
        let mut live = LIVE.lock();
        if self.code.into_iter().any(is_going) {
            return Err(TraceError::ModuleGoes);
        }
        live.reserve(1, GFP_KERNEL)?;
        Ok(live)
    }
}

/// Calls `f` with the lock of the list held, so that the tracer is not ended meanwhile; `None` if it has been.
pub(super) fn while_live<R>(ops: *mut bindings::ftrace_ops, f: impl FnOnce() -> R) -> Option<R> {
    let live = LIVE.lock();
    live.iter().any(|live| live.ops == ops).then(f)
}

/// Takes a tracer out of the list, and ends it with the lock held, so that nobody takes it for ended before it is.
///
/// `None` if it is not there.
pub(super) fn end(is_it: impl Fn(&Live) -> bool) -> Option<Result> {
    let mut live = LIVE.lock();
    let at = live.iter().position(is_it)?;
    let found = live.remove(at).ok()?;
    if live.is_empty() {
        // Nobody frees a static when the module goes.
        *live = KVec::new();
    }
    Some(found.end())
}

/// A module goes: ends the tracers that it has forgotten.
pub(crate) fn module_goes(module: &Module) {
    let is_its = |live: &Live| live.code.iter().any(|code| module.contains(*code));
    while let Some(ended) = end(is_its) {
        pr_warn!("a module that goes has left a tracer\n");
        if ended.is_err() {
            pr_err!("and ftrace, which has given up, may still call it\n");
        }
    }
}

/// What is at a place that does not change.
#[pin_data]
struct Pinned<H> {
    handler: H,
    #[pin]
    ops: Opaque<bindings::ftrace_ops>,
}

/// A registered `struct ftrace_ops` with its handler. Its drop sleeps: it belongs in a `Deferred`.
///
/// # Invariants
///
/// The ops is registered, and in [`LIVE`], unless [`module_goes`] has ended it. Its callback is [`callback::<H>`].
pub(crate) struct RawTracer<H: TraceHandler>(ManuallyDrop<Pin<KBox<Pinned<H>>>>, usize);

// SAFETY: Any thread may unregister an ops, whichever has registered it; handlers are `Send`.
unsafe impl<H: TraceHandler> Send for RawTracer<H> {}
// SAFETY: A shared reference reaches the handler only, which is `Sync`.
unsafe impl<H: TraceHandler> Sync for RawTracer<H> {}

/// A filter of an ops that is not registered, which goes unless it is kept.
struct Prepared(*mut bindings::ftrace_ops);

impl Prepared {
    /// Adds what `filter` asks for. An address has all registered functions at it found, or none.
    fn add(&self, filter: &Filter<'_>) -> Result<(), TraceError> {
        for pattern in Iterator::chain(filter.names.iter(), filter.globs) {
            self.add_pattern(pattern)?;
        }
        if !filter.addresses.is_empty() {
            let count = u32::try_from(filter.addresses.len()).map_err(|_| TraceError::NoMemory)?;
            let ips = filter.addresses.as_ptr().cast_mut();
            // SAFETY: The ops is ours and not registered; ftrace only reads the addresses, of which there are `count`.
            let added =
                to_result(unsafe { bindings::ftrace_set_filter_ips(self.0, ips, count, 0, 0) });
            added.map_err(not_found)?;
        }
        // It can be empty without an error where memory is short, and would be all functions then.
        match self.count() {
            0 => Err(TraceError::NoMemory),
            _ => Ok(()),
        }
    }

    fn add_pattern(&self, pattern: &CStr) -> Result<(), TraceError> {
        // ftrace writes to it.
        let mut text = KVec::new();
        text.extend_from_slice(pattern.to_bytes_with_nul(), GFP_KERNEL)?;
        let len = i32::try_from(pattern.to_bytes().len()).map_err(|_| TraceError::BadPattern)?;
        // SAFETY: The ops is ours and not registered; the text is a string of this length, and ours.
        let added =
            to_result(unsafe { bindings::ftrace_set_filter(self.0, text.as_mut_ptr(), len, 0) });
        added.map_err(not_found)
    }

    fn count(&self) -> usize {
        // SAFETY: The ops is ours and not registered, so that nobody changes its filter. It has one since it was initialised,
        // which adding to it does.
        unsafe { ferro_ftrace_filter_count(self.0) }
    }
}

impl Drop for Prepared {
    fn drop(&mut self) {
        // SAFETY: The ops is ours and not registered.
        unsafe { bindings::ftrace_free_filter(self.0) };
    }
}

/// ftrace's answer to what it does not find.
fn not_found(error: Error) -> TraceError {
    match error {
        e if e == EINVAL || e == ENOENT => TraceError::NotFound,
        e => e.into(),
    }
}

impl<H: TraceHandler> RawTracer<H> {
    /// `handler_code` is the address of the code of which `handler` is.
    pub(crate) fn register(
        filter: &Filter<'_>,
        all_registers: bool,
        handler: H,
        handler_code: usize,
    ) -> Result<Self, TraceError> {
        let mut flags = bindings::FTRACE_OPS_FL_RECURSION | bindings::FTRACE_OPS_FL_RCU;
        if all_registers {
            flags |= bindings::FTRACE_OPS_FL_SAVE_REGS;
        }
        let ops = bindings::ftrace_ops {
            func: Some(callback::<H>),
            flags: flags as c_ulong,
            ..Default::default()
        };
        let pinned = KBox::pin_init(
            pin_init!(Pinned {
                handler,
                ops: Opaque::new(ops),
            }),
            GFP_KERNEL,
        )
        .map_err(|_| TraceError::NoMemory)?;
        let ops = pinned.ops.get();
        let prepared = Prepared(ops);
        prepared.add(filter)?;
        let functions = prepared.count();
        let entry = Live {
            ops,
            code: [callback::<H> as *const () as usize, handler_code],
            is_set: false,
        };
        let mut live = entry.lock_list()?;
        // SAFETY: The ops is initialised and stays where it is until `drop()` has unregistered it, or for good. The callback takes
        // it for a field of a `Pinned<H>`, which it is.
        let registered = to_result(unsafe { bindings::register_ftrace_function(ops) });
        if let Err(error) = registered {
            // If ftrace has given up meanwhile, it may call it.
            if error == ENODEV {
                core::mem::forget((prepared, pinned));
            }
            return Err(error.into());
        }
        core::mem::forget(prepared);
        // There is room.
        let _ = live.push_within_capacity(entry);
        // INVARIANT: Registered and in the list.
        Ok(Self(ManuallyDrop::new(pinned), functions))
    }

    pub(crate) fn handler(&self) -> &H {
        &self.0.handler
    }

    /// How many functions the filter had when it was registered.
    pub(crate) fn functions(&self) -> usize {
        self.1
    }
}

impl<H: TraceHandler> Drop for RawTracer<H> {
    fn drop(&mut self) {
        let ops = self.0.ops.get();
        if let Some(Err(_)) = end(|live| live.ops == ops) {
            // ftrace has given up, and may still call it: it stays.
            return;
        }
        // SAFETY: By the type invariant it was registered, and has been unregistered just now, or when its module went.
        unsafe { bindings::ftrace_free_filter(ops) };
        // SAFETY: Nothing calls it any more, and `self` is not used after this.
        unsafe { ManuallyDrop::drop(&mut self.0) };
    }
}

/// What ftrace calls.
///
/// # Safety
///
/// `ops` is a field of a `Pinned<H>` that stays until this returns, and `fregs` are those of a call.
unsafe extern "C" fn callback<H: TraceHandler>(
    ip: c_ulong,
    parent_ip: c_ulong,
    ops: *mut bindings::ftrace_ops,
    fregs: *mut bindings::ftrace_regs,
) {
    let field = Opaque::cast_from(ops).cast_mut();
    // SAFETY: By the rules of this function it is this field.
    let pinned = unsafe { container_of!(field, Pinned<H>, ops) };
    // SAFETY: ftrace passes the ops that was registered with this function. Unregistering it waits for this call, and the handler
    // goes after that.
    let handler = unsafe { &(*pinned).handler };
    // SAFETY: ftrace passes the registers of this call, and nobody else has them until this returns.
    let fregs = unsafe { Fregs::from_raw(fregs) };
    handler.call(&FunctionCall::new(ip, parent_ip, fregs));
}
