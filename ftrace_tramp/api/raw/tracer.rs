// SPDX-License-Identifier: GPL-2.0

//! Tracers, registered at the C interface, and their callback.
//!
//! Contexts: callbacks any that ftrace traces, NMI included; the rest process. Locks: `LIVE`, then
//! ftrace's locks.

use core::mem::ManuallyDrop;

use ferro_sys::bindings;
use ferro_sys::hook::is_going;
use ferro_sys::hook::Module;
use ferro_sys::sync::mutex::StaticGuard;
use ferro_sys::sync::mutex::StaticMutex;
use kernel::container_of;
use kernel::error::to_result;
use kernel::ffi::c_ulong;
use kernel::prelude::*;
use kernel::types::Opaque;

use super::fregs::Fregs;

extern "C" {
    /// `tracer.h`
    static mut ferro_ftrace_api_lock: bindings::mutex;
    /// `tracer.h`
    fn ferro_ftrace_filter_count(ops: *mut bindings::ftrace_ops) -> c_ulong;
}

/// Callback for calls of traced functions. It may run on several CPUs at a time.
pub(crate) trait Callback: Send + Sync + 'static {
    /// Handles a call of the function at `ip`.
    fn on_call(&self, ip: usize, parent_ip: usize, fregs: &Fregs);
}

/// Registered ops, each with the addresses of the code that its calls need.
static LIVE: StaticMutex<KVec<LiveTracer>> =
    // SAFETY: A mutex of `tracer.c` that protects nothing else.
    unsafe { StaticMutex::new(&raw mut ferro_ftrace_api_lock, KVec::new()) };

#[derive(Clone, Copy)]
pub(super) struct LiveTracer {
    /// The registered ops. For a set this is the first field of its `struct ftrace_data_ops`.
    pub(super) ops: *mut bindings::ftrace_ops,
    /// Addresses of the callback, which may be the client's code, and of the handler's own code.
    pub(super) code: [usize; 2],
    pub(super) is_set: bool,
}

// SAFETY: An ops is passed to functions of ftrace only, which have locks of their own.
unsafe impl Send for LiveTracer {}

impl LiveTracer {
    /// Unregisters the ops and waits for running calls.
    ///
    /// Errors: -ENODEV if ftrace has failed; then the ops may still be called.
    fn unregister(self) -> Result {
        // SAFETY: An ops in the list is registered, or a set, and stays in place until it has been
        // removed. This is called once, after the removal.
        to_result(unsafe {
            match self.is_set {
                true => bindings::ftrace_data_release(self.ops.cast()),
                false => bindings::unregister_ftrace_function(self.ops),
            }
        })
    }

    /// Adds this to the list. Errors: -ENOMEM; -ESHUTDOWN if the module of the handler is being
    /// unloaded.
    pub(super) fn add(self) -> Result {
        let mut live = self.lock_list()?;
        // There is room.
        let _ = live.push_within_capacity(self);
        Ok(())
    }

    /// Locks the list with room for one more. Errors: as for [`LiveTracer::add`].
    fn lock_list(&self) -> Result<StaticGuard<KVec<Self>>> {
        let mut live = LIVE.lock();
        if self.code.into_iter().any(is_going) {
            return Err(ESHUTDOWN);
        }
        live.reserve(1, GFP_KERNEL)?;
        Ok(live)
    }
}

/// Calls `f` with the list locked, so that the tracer stays registered during the call. Returns
/// `None` if the tracer is no longer registered.
pub(super) fn while_live<R>(ops: *mut bindings::ftrace_ops, f: impl FnOnce() -> R) -> Option<R> {
    let live = LIVE.lock();
    live.iter().any(|live| live.ops == ops).then(f)
}

/// Removes a tracer from the list and unregisters it, under the lock. So a tracer outside
/// of the list is unregistered.
///
/// Returns `None` if the list has no such tracer.
pub(super) fn end(is_it: impl Fn(&LiveTracer) -> bool) -> Option<Result> {
    let mut live = LIVE.lock();
    let at = live.iter().position(is_it)?;
    let found = live.remove(at).ok()?;
    if live.is_empty() {
        // Free the memory of the list: a static is not dropped when the module is unloaded.
        *live = KVec::new();
    }
    Some(found.unregister())
}

/// Unregisters the tracers that a module being unloaded has left registered.
pub(crate) fn module_going(module: &Module) {
    let is_its = |live: &LiveTracer| live.code.iter().any(|code| module.contains(*code));
    while let Some(ended) = end(is_its) {
        pr_warn!("an unloaded module has left a tracer\n");
        if ended.is_err() {
            pr_err!("and ftrace, which has failed, may still call it\n");
        }
    }
}

/// Pinned parts of a tracer.
#[pin_data]
struct Pinned<H> {
    handler: H,
    #[pin]
    ops: Opaque<bindings::ftrace_ops>,
}

/// Registered `struct ftrace_ops` with its handler. The drop sleeps: wrap this in a `Deferred`.
///
/// # Invariants
///
/// The ops is registered, and in [`LIVE`], unless [`module_going`] has ended it. Its callback is
/// [`callback::<H>`].
pub(crate) struct RawTracer<H: Callback>(ManuallyDrop<Pin<KBox<Pinned<H>>>>, usize);

// SAFETY: Any thread may unregister an ops, regardless of the registering thread; handlers are
// `Send`.
unsafe impl<H: Callback> Send for RawTracer<H> {}
// SAFETY: A shared reference reaches the handler only, which is `Sync`.
unsafe impl<H: Callback> Sync for RawTracer<H> {}

/// Filter of an unregistered ops. Dropping this frees the filter.
struct PreparedFilter(*mut bindings::ftrace_ops);

impl PreparedFilter {
    /// Adds functions by their names or patterns, and by addresses. ftrace adds either all of the
    /// addresses, or none.
    fn add<'a>(&self, patterns: impl Iterator<Item = &'a CStr>, addresses: &[usize]) -> Result {
        for pattern in patterns {
            self.add_pattern(pattern)?;
        }
        if !addresses.is_empty() {
            let count = u32::try_from(addresses.len()).map_err(|_| ENOMEM)?;
            let ips = addresses.as_ptr().cast_mut();
            // SAFETY: The ops is ours and not registered; ftrace only reads the `count` addresses.
            let added =
                to_result(unsafe { bindings::ftrace_set_filter_ips(self.0, ips, count, 0, 0) });
            added.map_err(not_found)?;
        }
        // If memory is short, the filter may be empty although ftrace reported no error. An empty
        // filter would trace all functions.
        match self.count() {
            0 => Err(ENOMEM),
            _ => Ok(()),
        }
    }

    fn add_pattern(&self, pattern: &CStr) -> Result {
        // ftrace writes to it.
        let mut text = KVec::new();
        text.extend_from_slice(pattern.to_bytes_with_nul(), GFP_KERNEL)?;
        let len = i32::try_from(pattern.to_bytes().len())?;
        // SAFETY: The ops is ours and not registered; the text is a string of this length, and
        // ours.
        let added =
            to_result(unsafe { bindings::ftrace_set_filter(self.0, text.as_mut_ptr(), len, 0) });
        added.map_err(not_found)
    }

    fn count(&self) -> usize {
        // SAFETY: The ops is ours and not registered, so no other code changes its filter. Adding
        // to the filter has initialised the ops, and so the filter exists.
        unsafe { ferro_ftrace_filter_count(self.0) }
    }
}

impl Drop for PreparedFilter {
    fn drop(&mut self) {
        // SAFETY: The ops is ours and not registered.
        unsafe { bindings::ftrace_free_filter(self.0) };
    }
}

/// Returns -ENOENT for ftrace's errors for functions that it does not find.
pub(super) fn not_found(error: Error) -> Error {
    match error {
        e if e == EINVAL => ENOENT,
        e => e,
    }
}

impl<H: Callback> RawTracer<H> {
    /// Registers a tracer. `handler_code` is the address of the code of `handler`.
    ///
    /// Errors: -ENOENT if ftrace can trace no function of a pattern, or not the one at an address;
    /// -ENOMEM, -ESHUTDOWN as for [`LiveTracer::add`], and ftrace's.
    pub(crate) fn register<'a>(
        patterns: impl Iterator<Item = &'a CStr>,
        addresses: &[usize],
        all_registers: bool,
        handler: H,
        handler_code: usize,
    ) -> Result<Self> {
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
        .map_err(|_| ENOMEM)?;
        let ops = pinned.ops.get();
        let prepared = PreparedFilter(ops);
        prepared.add(patterns, addresses)?;
        let functions = prepared.count();
        let entry = LiveTracer {
            ops,
            code: [callback::<H> as *const () as usize, handler_code],
            is_set: false,
        };
        let mut live = entry.lock_list()?;
        // SAFETY: The ops is initialised and stays in place until `drop()` has unregistered it, or
        // forever. The callback takes it for a field of a `Pinned<H>`, as here.
        let registered = to_result(unsafe { bindings::register_ftrace_function(ops) });
        if let Err(error) = registered {
            // If ftrace has failed within the call, it may still call the ops: leak it.
            if error == ENODEV {
                core::mem::forget((prepared, pinned));
            }
            return Err(error);
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

    /// Returns the number of functions in the filter at the time of registration.
    pub(crate) fn functions(&self) -> usize {
        self.1
    }
}

impl<H: Callback> Drop for RawTracer<H> {
    fn drop(&mut self) {
        let ops = self.0.ops.get();
        if let Some(Err(_)) = end(|live| live.ops == ops) {
            // ftrace has failed and may still call it: leak it.
            return;
        }
        // SAFETY: By the type invariant it was registered. It was unregistered just now, or when
        // its module was unloaded.
        unsafe { bindings::ftrace_free_filter(ops) };
        // SAFETY: No code calls it after that, and `self` is not used after this.
        unsafe { ManuallyDrop::drop(&mut self.0) };
    }
}

/// Callback of the ops, called by ftrace.
///
/// # Safety
///
/// `ops` is a field of a `Pinned<H>` that stays until this returns, and `fregs` are the registers
/// of a call.
unsafe extern "C" fn callback<H: Callback>(
    ip: c_ulong,
    parent_ip: c_ulong,
    ops: *mut bindings::ftrace_ops,
    fregs: *mut bindings::ftrace_regs,
) {
    let field = Opaque::cast_from(ops).cast_mut();
    // SAFETY: By the rules of this function `field` is the `ops` of a `Pinned<H>`.
    let pinned = unsafe { container_of!(field, Pinned<H>, ops) };
    // SAFETY: ftrace passes the ops that was registered with this function. Unregistering it waits
    // for this call, and the handler is dropped after that.
    let handler = unsafe { &(*pinned).handler };
    // SAFETY: ftrace passes the registers of this call, and no other code has them until this
    // returns.
    let fregs = unsafe { Fregs::from_raw(fregs) };
    handler.on_call(ip, parent_ip, fregs);
}
