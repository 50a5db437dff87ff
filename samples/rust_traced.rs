// SPDX-License-Identifier: GPL-2.0

//! A driver whose functions ftrace sees: `/dev/rust_traced` counts lines and words of what is written to it.
//!
//! ```sh
//! cd /sys/kernel/tracing
//! echo '*11rust_traced*' >set_ftrace_filter    # the crate's name, with its length, is in the symbols of Rust
//! echo function >current_tracer
//! echo 'three words here' >/dev/rust_traced    # three times Totals::word, once Totals::line
//! cat /dev/rust_traced trace
//! ```
//!
//! `RUST_FTRACE_rust_traced.o` in the Makefile is what gives it ftrace's sites. All of it runs in process context; the
//! only lock is that of an open file's totals.
#![deny(unsafe_code)]

use kernel::{
    fs::{
        File,
        Kiocb, //
    },
    iov::{
        IovIterDest,
        IovIterSource, //
    },
    miscdevice::{
        MiscDevice,
        MiscDeviceOptions,
        MiscDeviceRegistration, //
    },
    new_mutex,
    prelude::*,
    str::CString,
    sync::Mutex, //
};

module! {
    type: RustTraced,
    name: "rust_traced",
    authors: ["Ferrotrace maintainers"],
    description: "A driver in Rust whose functions are traced",
    license: "GPL v2",
}

#[pin_data]
struct RustTraced {
    #[pin]
    device: MiscDeviceRegistration<Counter>,
}

impl kernel::InPlaceModule for RustTraced {
    fn init(_module: &'static ThisModule) -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            device <- MiscDeviceRegistration::register(MiscDeviceOptions { name: c"rust_traced" }),
        })
    }
}

/// What has been written to an open file.
#[derive(Default)]
struct Totals {
    lines: u64,
    words: u64,
    bytes: u64,
    in_word: bool,
}

impl Totals {
    /// One call for each write, of at most [`CHUNK`] bytes.
    #[inline(never)]
    fn text(&mut self, text: &[u8]) {
        for &byte in text {
            let space = byte.is_ascii_whitespace();
            if !space && !self.in_word {
                self.word();
            }
            if byte == b'\n' {
                self.line();
            }
            self.in_word = !space;
            self.bytes = self.bytes.saturating_add(1);
        }
    }

    /// One call for each word.
    #[inline(never)]
    fn word(&mut self) {
        self.words = self.words.saturating_add(1);
    }

    /// One call for each line.
    #[inline(never)]
    fn line(&mut self) {
        self.lines = self.lines.saturating_add(1);
    }
}

/// How much one write takes at most.
const CHUNK: usize = 256;

#[pin_data]
struct Counter {
    #[pin]
    totals: Mutex<Totals>,
}

#[vtable]
impl MiscDevice for Counter {
    type Ptr = Pin<KBox<Self>>;

    fn open(_file: &File, _device: &MiscDeviceRegistration<Self>) -> Result<Pin<KBox<Self>>> {
        KBox::try_pin_init(
            try_pin_init!(Self {
                totals <- new_mutex!(Totals::default()),
            }),
            GFP_KERNEL,
        )
    }

    /// Counts what it takes, and forgets it.
    fn write_iter(kiocb: Kiocb<'_, Self::Ptr>, from: &mut IovIterSource<'_>) -> Result<usize> {
        let mut chunk = [0; CHUNK];
        let count = from.copy_from_iter(&mut chunk);
        if count == 0 && !from.is_empty() {
            return Err(EFAULT);
        }
        let text = chunk.get(..count).ok_or(EINVAL)?;
        kiocb.file().totals.lock().text(text);
        Ok(count)
    }

    /// Lines, words and bytes that were written to this open file.
    fn read_iter(mut kiocb: Kiocb<'_, Self::Ptr>, to: &mut IovIterDest<'_>) -> Result<usize> {
        let line = {
            let counter = kiocb.file();
            let totals = counter.totals.lock();
            CString::try_from_fmt(fmt!("{} {} {}\n", totals.lines, totals.words, totals.bytes))?
        };
        to.simple_read_from_buffer(kiocb.ki_pos_mut(), line.to_bytes())
    }
}
