// SPDX-License-Identifier: GPL-2.0

//! Sets of functions with data of their own, at the C interface, and their callback.
//!
//! Contexts: callbacks any that ftrace traces, NMI included; the rest process. Locks: the list of
//! tracers, then the locks of `data.c` and of ftrace.

use core::mem::offset_of;
use core::mem::ManuallyDrop;

use ferro_sys::bindings;
use kernel::error::to_result;
use kernel::ffi::c_ulong;
use kernel::ffi::c_void;
use kernel::prelude::*;
use kernel::types::Opaque;

use super::fregs::Fregs;
use super::tracer::end;
use super::tracer::not_found;
use super::tracer::while_live;
use super::tracer::LiveTracer;

/// Callback for calls of functions with data. It may run on several CPUs at a time.
pub(crate) trait DataCallback<T>: Send + Sync + 'static {
    /// Handles a call of the function at `ip`, which has this data.
    fn on_call(&self, ip: usize, parent_ip: usize, fregs: &Fregs, data: &T);
}

// `struct ftrace_regs` is opaque and has no fields.
#[allow(improper_ctypes)]
extern "C" {
    /// `tracer.h`
    fn ferro_ftrace_call_node(
        ip: c_ulong,
        parent_ip: c_ulong,
        node: *mut c_void,
        fregs: *mut bindings::ftrace_regs,
    );
}

/// Data of one function.
///
/// # Invariants
///
/// `handler` stays as long as this.
#[repr(C)]
struct Node<T, H> {
    // `struct ferro_ftrace_node`
    call: bindings::ftrace_data_func_t,
    handler: *const H,
    data: T,
}

// SAFETY: The handler is shared, and `Sync`; its box may be dropped by any thread, as both are
// `Send`.
unsafe impl<T: Send, H: Send + Sync> Send for Node<T, H> {}

/// Pinned parts of a set.
#[pin_data]
struct Pinned<H> {
    handler: H,
    #[pin]
    ops: Opaque<bindings::ftrace_data_ops>,
}

/// Functions with their data, by the addresses that they were attached with.
type Nodes<T, H> = KVVec<(usize, KBox<Node<T, H>>)>;

/// A `struct ftrace_data_ops` with its handler and the data of its functions. The drop sleeps: wrap
/// this in a `Deferred`.
///
/// # Invariants
///
/// In the list of tracers, unless `module_going()` has ended it. `nodes` contains at least the
/// attached functions.
pub(crate) struct RawSet<T: Send + Sync + 'static, H: DataCallback<T>> {
    pinned: ManuallyDrop<Pin<KBox<Pinned<H>>>>,
    nodes: ManuallyDrop<Nodes<T, H>>,
}

// SAFETY: Any thread may attach and detach; handlers and data are `Send`.
unsafe impl<T: Send + Sync, H: DataCallback<T>> Send for RawSet<T, H> {}
// SAFETY: A shared reference reaches the handler only, which is `Sync`.
unsafe impl<T: Send + Sync, H: DataCallback<T>> Sync for RawSet<T, H> {}

const _: () = assert!(offset_of!(bindings::ftrace_data_ops, ops) == 0);

impl<T: Send + Sync + 'static, H: DataCallback<T>> RawSet<T, H> {
    /// Makes a set without functions; `handler_code` is an address of the handler's code.
    /// Errors: as for [`LiveTracer::add`].
    pub(crate) fn new(all_registers: bool, handler: H, handler_code: usize) -> Result<Self> {
        let ops = bindings::ftrace_data_ops {
            func: Some(ferro_ftrace_call_node),
            flags: match all_registers {
                true => bindings::FTRACE_OPS_FL_SAVE_REGS as c_ulong,
                false => 0,
            },
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
        let live = LiveTracer {
            ops: pinned.ops.get().cast(),
            code: [callback::<T, H> as *const () as usize, handler_code],
            is_set: true,
        };
        live.add()?;
        // INVARIANT: In the list, and nothing is attached.
        Ok(Self {
            pinned: ManuallyDrop::new(pinned),
            nodes: ManuallyDrop::new(KVVec::new()),
        })
    }

    /// Ends the set, as `module_going()` does when the handler's module is removed. Returns true if
    /// it was live.
    #[cfg(CONFIG_FTRACE_RUST_API_KUNIT_TEST)]
    pub(crate) fn end(&self) -> bool {
        let ops = self.pinned.ops.get().cast();
        matches!(end(|live| live.ops == ops), Some(Ok(())))
    }

    /// Returns the number of functions.
    pub(crate) fn len(&self) -> usize {
        self.nodes.len()
    }

    pub(crate) fn handler(&self) -> &H {
        &self.pinned.handler
    }

    /// Attaches all functions or none, and drops the values of those not attached.
    ///
    /// Errors: -ENOENT for a function that ftrace cannot trace; -EEXIST for one that is attached or
    /// listed twice; -ESHUTDOWN if [`module_going`](super::tracer::module_going) has ended the set;
    /// -ENOMEM, and ftrace's.
    pub(crate) fn attach(&mut self, functions: KVVec<(usize, T)>) -> Result {
        let count = functions.len();
        let mut raw = KVVec::with_capacity(count, GFP_KERNEL)?;
        let mut nodes: Nodes<T, H> = KVVec::with_capacity(count, GFP_KERNEL)?;
        self.nodes.reserve(count, GFP_KERNEL)?;
        for (ip, data) in functions {
            let node = KBox::new(
                Node {
                    call: Some(callback::<T, H>),
                    // INVARIANT: The handler is dropped after all nodes.
                    handler: &raw const self.pinned.handler,
                    data,
                },
                GFP_KERNEL,
            )?;
            let pair = bindings::ftrace_data {
                ip,
                data: (&raw const *node).cast_mut().cast(),
            };
            // There is room.
            let _ = raw.push_within_capacity(pair);
            let _ = nodes.push_within_capacity((ip, node));
        }
        let count = u32::try_from(count).map_err(|_| ENOMEM)?;
        let ops = self.pinned.ops.get();
        // SAFETY: The ops is initialised. It and the nodes stay until the ops has been released, or
        // forever. The callback takes each node for the type that it has.
        let attach = || unsafe { bindings::ftrace_data_attach(ops, raw.as_ptr(), count) };
        // With the list locked: functions attached after the end of the set would never be
        // released.
        let attached = while_live(ops.cast(), || to_result(attach())).ok_or(ESHUTDOWN)?;
        if let Err(error) = attached {
            // If ftrace has failed within the call, it may use the nodes.
            if error == ENODEV {
                core::mem::forget(nodes);
            }
            return Err(not_found(error));
        }
        for node in nodes {
            // There is room.
            let _ = self.nodes.push_within_capacity(node);
        }
        self.nodes.sort_unstable_by_key(|(ip, _)| *ip);
        Ok(())
    }

    /// Detaches all functions or none, and waits until no handler runs for them.
    ///
    /// Errors: -ENOENT for a function that is not attached; -ESHUTDOWN as for [`Self::attach`];
    /// ftrace's.
    pub(crate) fn detach(&mut self, functions: &[usize]) -> Result {
        let count = u32::try_from(functions.len()).map_err(|_| ENOENT)?;
        for ip in functions {
            let found = self.nodes.binary_search_by_key(ip, |(ip, _)| *ip);
            found.map_err(|_| ENOENT)?;
        }
        let ops = self.pinned.ops.get();
        // If the set ends after this, no function is attached.
        while_live(ops.cast(), || ()).ok_or(ESHUTDOWN)?;
        // SAFETY: The ops stays; the addresses are read only.
        to_result(unsafe { bindings::ftrace_data_detach(ops, functions.as_ptr(), count) })
            .map_err(not_found)?;
        // No handler uses the nodes after the wait.
        for ip in functions {
            if let Ok(at) = self.nodes.binary_search_by_key(ip, |(ip, _)| *ip) {
                drop(self.nodes.remove(at));
            }
        }
        Ok(())
    }
}

impl<T: Send + Sync + 'static, H: DataCallback<T>> Drop for RawSet<T, H> {
    fn drop(&mut self) {
        let ops = self.pinned.ops.get().cast();
        if let Some(Err(_)) = end(|live| live.ops == ops) {
            // ftrace has failed and may still call it: leak it.
            return;
        }
        // SAFETY: No code calls it: it has been released just now, or when its module was unloaded.
        // `self` is not used after this.
        unsafe {
            ManuallyDrop::drop(&mut self.nodes);
            ManuallyDrop::drop(&mut self.pinned);
        }
    }
}

/// Callback of a node, called by `tracer.c`.
///
/// # Safety
///
/// `node` is a `Node<T, H>` that stays until this returns, and `fregs` are the registers of a call.
unsafe extern "C" fn callback<T: Send + Sync + 'static, H: DataCallback<T>>(
    ip: c_ulong,
    parent_ip: c_ulong,
    node: *mut c_void,
    fregs: *mut bindings::ftrace_regs,
) {
    // SAFETY: `attach()` has passed it with this function. Detaching waits for this call before the
    // node is freed.
    let node = unsafe { &*node.cast::<Node<T, H>>() };
    // SAFETY: By the invariant of the node.
    let handler = unsafe { &*node.handler };
    // SAFETY: ftrace passes the registers of this call, and no other code has them until this
    // returns.
    let fregs = unsafe { Fregs::from_raw(fregs) };
    handler.on_call(ip, parent_ip, fregs, &node.data);
}
