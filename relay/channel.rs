// SPDX-License-Identifier: GPL-2.0

//! A channel: what its buffers have in common.
//!
//! Contexts: process, except where stated.
#![deny(unsafe_code)]

use ferro_core::relay::Geometry;
use ferro_sys::cpu;
use ferro_sys::cpu::percpu::PerCpuPtr;
use ferro_sys::cpu::CpuId;
use ferro_sys::fs::dentry::Dentry;
use ferro_sys::sync::refcounted::first_ref;
use kernel::bindings;
use kernel::ffi::c_void;
use kernel::page::PAGE_SIZE;
use kernel::prelude::*;
use kernel::str::CString;
use kernel::sync::aref::ARef;
use kernel::sync::atomic::Atomic;
use kernel::sync::atomic::Relaxed;
use kernel::sync::atomic::Release;
use kernel::sync::Refcount;

use crate::buf::Buf;
use crate::raw::abi;
use crate::raw::abi::Rchan;
use crate::raw::client::Client;

/// A channel. C code sees the `struct rchan` that it starts with.
#[repr(C)]
pub(crate) struct Channel {
    pub(crate) abi: Rchan,
    geometry: Geometry,
    client: Client,
}

/// What a client passes to `relay_open()`.
pub(crate) struct OpenRequest<'a> {
    pub(crate) base_filename: Option<&'a CStr>,
    pub(crate) parent: *mut bindings::dentry,
    pub(crate) geometry: Geometry,
    pub(crate) client: Client,
    pub(crate) callbacks: *const bindings::rchan_callbacks,
    pub(crate) private_data: *mut c_void,
}

impl Channel {
    /// A channel without buffers.
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
                    // No overflow: the buffer has fewer than 2^32 bytes.
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

    /// Whether all CPUs share one buffer. Context: any.
    pub(crate) fn is_global(&self) -> bool {
        self.abi.is_global.load(Relaxed) != 0
    }

    /// Whether `cpu` has a buffer.
    pub(crate) fn has_buf(&self, cpu: CpuId) -> bool {
        !self.abi.buf.slot(cpu).load(Relaxed).is_null()
    }

    /// Makes the buffer of `cpu` and its file, and lets writers find it.
    ///
    /// The first buffer decides whether it is the only one; it has `may_be_global` set.
    ///
    /// Errors: -ENOMEM, -EINTR if the task is being killed, -EINVAL if the client does not make a file, or if it
    /// makes another buffer global than the first.
    pub(crate) fn add_buf(self: &ARef<Self>, cpu: CpuId, may_be_global: bool) -> Result<ARef<Buf>> {
        let buf = Buf::new(self, cpu)?;
        if let Some(dentry) = self.create_file(&buf, may_be_global)? {
            buf.set_dentry(dentry);
        }
        if self.is_global() {
            buf.abi.cpu.store(CpuId::ZERO.get(), Relaxed);
        }
        buf.enter_first();
        self.publish(cpu, &buf);
        Ok(buf)
    }

    /// Lets writers find the buffer.
    fn publish(&self, cpu: CpuId, buf: &Buf) {
        let pointer = core::ptr::from_ref(buf).cast_mut().cast();
        if self.is_global() {
            for cpu in cpu::possible() {
                self.abi.buf.slot(cpu).store(pointer, Release);
            }
        } else {
            self.abi.buf.slot(cpu).store(pointer, Release);
        }
    }

    /// Takes a buffer that is about to be freed out of the writers' reach.
    pub(crate) fn forget(&self, buf: &Buf) {
        let pointer = core::ptr::from_ref(buf).cast_mut().cast();
        for cpu in cpu::possible() {
            let slot = self.abi.buf.slot(cpu);
            if slot.load(Relaxed) == pointer {
                slot.store(core::ptr::null_mut(), Relaxed);
            }
        }
    }

    /// Sets what the files are called, as much of it as fits, and where they are.
    pub(crate) fn set_name(&self, base: Option<&CStr>, parent: *mut bindings::dentry) {
        let bytes = base.map_or(&[][..], CStr::to_bytes);
        // The last one stays a NUL.
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

    /// Whether the buffers have files.
    pub(crate) fn has_name(&self) -> bool {
        self.abi.has_base_filename.load(Relaxed) != 0
    }

    /// Has the client make the file of a buffer, if the files have names.
    ///
    /// Errors: those of the client, -ENOMEM, -EINVAL if the client has changed its mind about whether
    /// the channel is global.
    fn create_file(&self, buf: &Buf, may_be_global: bool) -> Result<Option<Dentry>> {
        let global = self.is_global();
        let name = self.file_name(buf.cpu())?;
        let dentry = self
            .client
            .create_buf_file(&self.abi, buf, name.as_deref())?;
        if self.is_global() != global && !may_be_global {
            self.abi.is_global.store(global.into(), Relaxed);
            self.client.remove_buf_file(dentry.as_ref());
            return Err(EINVAL);
        }
        Ok(dentry)
    }

    /// Makes the files of buffers that have none.
    ///
    /// Errors: those of [`Channel::create_file`]; then there is none.
    pub(crate) fn create_files(&self, bufs: &[ARef<Buf>]) -> Result<KVec<Dentry>> {
        let mut files = KVec::with_capacity(bufs.len(), GFP_KERNEL)?;
        for buf in bufs {
            let made = self
                .create_file(buf, false)
                .and_then(|file| Ok(files.push(file.ok_or(EINVAL)?, GFP_KERNEL)?));
            if let Err(e) = made {
                for file in &files {
                    self.client.remove_buf_file(Some(file));
                }
                return Err(e);
            }
        }
        Ok(files)
    }

    /// The name of the file of `cpu`, with a NUL at its end, if the files have names.
    fn file_name(&self, cpu: CpuId) -> Result<Option<KVec<u8>>> {
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
