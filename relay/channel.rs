// SPDX-License-Identifier: GPL-2.0

//! Relay channels: the state that all buffers of a channel share.
//!
//! Contexts: process, except where stated.
#![deny(unsafe_code)]

use ferro_core::relay::Geometry;
use ferro_sys::bindings;
use ferro_sys::cpu;
use ferro_sys::cpu::percpu::PerCpuPtr;
use ferro_sys::cpu::CpuId;
use ferro_sys::impl_always_refcounted;
use ferro_sys::sync::refcounted::first_ref;
use ferro_sys::sync::refcounted::Counted;
use kernel::ffi::c_void;
use kernel::page::PAGE_SIZE;
use kernel::prelude::*;
use kernel::str::CString;
use kernel::sync::aref::ARef;
use kernel::sync::atomic::Atomic;
use kernel::sync::atomic::Relaxed;
use kernel::sync::atomic::Release;
use kernel::sync::Refcount;

use crate::raw::abi;
use crate::raw::abi::Rchan;
use crate::raw::client::CBuf;
use crate::raw::client::Client;

/// A channel. It starts with the `struct rchan` that C code sees.
#[repr(C)]
pub(crate) struct Channel {
    pub(crate) abi: Rchan,
    geometry: Geometry,
    client: Client,
}

// SAFETY: The count is in the structure that C sees, and C code does not lower it.
// `Channel::new()`, the only constructor as the fields are private, makes instances in a box with a
// count of 1.
#[expect(unsafe_code)]
unsafe impl Counted for Channel {
    fn count(&self) -> &Refcount {
        &self.abi.kref
    }
}
impl_always_refcounted!(Channel);

/// Arguments of `relay_open()`.
pub(crate) struct OpenRequest<'a> {
    pub(crate) base_filename: Option<&'a CStr>,
    pub(crate) parent: *mut bindings::dentry,
    pub(crate) geometry: Geometry,
    pub(crate) client: Client,
    pub(crate) callbacks: *const bindings::rchan_callbacks,
    pub(crate) private_data: *mut c_void,
}

impl Channel {
    /// Creates a channel without buffers.
    ///
    /// Errors: -ENOMEM.
    pub(crate) fn new(request: OpenRequest<'_>) -> Result<ARef<Self>> {
        let geometry = request.geometry;
        let channel = KBox::new(
            Self {
                abi: Rchan {
                    version: abi::VERSION,
                    subbuf_size: geometry.subbuf_size(),
                    n_subbufs: geometry.n_subbufs(),
                    // Cannot overflow: the buffer has fewer than 2^32 bytes.
                    alloc_size: geometry.bytes().next_multiple_of(PAGE_SIZE),
                    cb: request.callbacks,
                    kref: Refcount::new(1),
                    private_data: request.private_data,
                    buf: PerCpuPtr::new()?,
                    is_global: Atomic::new(0),
                    list: [0; 2],
                    parent: Atomic::new(core::ptr::null_mut()),
                    has_base_filename: Atomic::new(0),
                    base_filename: core::array::from_fn(|_| Atomic::new(0)),
                },
                geometry,
                client: request.client,
            },
            GFP_KERNEL,
        )?;
        channel.set_name(request.base_filename, request.parent);
        Ok(first_ref(channel.into()))
    }

    pub(crate) fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    /// Returns true if all CPUs share one buffer. Context: any.
    pub(crate) fn is_global(&self) -> bool {
        self.abi.is_global.load(Relaxed) != 0
    }

    /// Returns true if `cpu` has a buffer.
    pub(crate) fn has_buf(&self, cpu: CpuId) -> bool {
        !self.abi.buf.slot(cpu).load(Relaxed).is_null()
    }

    /// Publishes the buffer of `cpu` to writers.
    pub(crate) fn publish(&self, cpu: CpuId, buf: &impl CBuf) {
        let pointer = buf.as_raw().cast();
        if self.is_global() {
            for cpu in cpu::possible() {
                self.abi.buf.slot(cpu).store(pointer, Release);
            }
        } else {
            self.abi.buf.slot(cpu).store(pointer, Release);
        }
    }

    /// Removes a buffer from the slots before it is freed, so that writers do not find it.
    pub(crate) fn unpublish(&self, buf: &impl CBuf) {
        let pointer = buf.as_raw().cast();
        for cpu in cpu::possible() {
            let slot = self.abi.buf.slot(cpu);
            if slot.load(Relaxed) == pointer {
                slot.store(core::ptr::null_mut(), Relaxed);
            }
        }
    }

    /// Sets the base name of the files, truncated to fit, and their directory.
    pub(crate) fn set_name(&self, base: Option<&CStr>, parent: *mut bindings::dentry) {
        let bytes = base.map_or(&[][..], CStr::to_bytes);
        // The last byte stays NUL.
        let places = self.abi.base_filename.iter().take(abi::NAME_MAX - 1);
        for (i, place) in places.enumerate() {
            let byte = bytes.get(i).copied().unwrap_or(0);
            place.store(i8::from_ne_bytes([byte]), Relaxed);
        }
        self.abi.parent.store(parent, Relaxed);
        self.abi
            .has_base_filename
            .store(base.is_some().into(), Relaxed);
    }

    /// Returns true if the buffers have files.
    pub(crate) fn has_name(&self) -> bool {
        self.abi.has_base_filename.load(Relaxed) != 0
    }

    /// Returns the file name of `cpu`, with a NUL at its end, if the files have names.
    pub(crate) fn file_name(&self, cpu: CpuId) -> Result<Option<KVec<u8>>> {
        if !self.has_name() {
            return Ok(None);
        }
        let number = CString::try_from_fmt(fmt!("{}", cpu.get()))?;
        let mut name = KVec::new();
        for byte in &self.abi.base_filename {
            match byte.load(Relaxed).to_ne_bytes() {
                [0] => break,
                [byte] => name.push(byte, GFP_KERNEL)?,
            }
        }
        name.extend_from_slice(number.to_bytes_with_nul(), GFP_KERNEL)?;
        Ok(Some(name))
    }
}
