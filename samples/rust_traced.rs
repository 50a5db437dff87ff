// SPDX-License-Identifier: GPL-2.0

//! Driver with functions that ftrace can trace: `/dev/rust_traced` counts the lines and words that
//! are written to it.
//!
//! ```sh
//! cd /sys/kernel/tracing
//! # Rust symbols have the crate's name with its length.
//! echo '*11rust_traced*' >set_ftrace_filter
//! echo function >current_tracer
//! echo 'three words here' >/dev/rust_traced    # three times Totals::word, once Totals::line
//! cat /dev/rust_traced trace
//! ```
//!
//! `RUST_FTRACE_rust_traced.o` in the Makefile gives the module ftrace sites. All functions run in
//! process context. The only lock is the mutex of an open file's totals.
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

/// Counts of lines, words and bytes written to an open file.
#[derive(Default)]
struct Totals {
    lines: u64,
    words: u64,
    bytes: u64,
    in_word: bool,
}

impl Totals {
    /// Counts the text of one write, at most [`CHUNK`] bytes.
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

    /// Counts one word.
    #[inline(never)]
    fn word(&mut self) {
        self.words = self.words.saturating_add(1);
    }

    /// Counts one line.
    #[inline(never)]
    fn line(&mut self) {
        self.lines = self.lines.saturating_add(1);
    }
}

/// Maximum number of bytes that a write takes.
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

    /// Counts the text without keeping it.
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

    /// Returns the counts of lines, words and bytes written to this open file.
    fn read_iter(mut kiocb: Kiocb<'_, Self::Ptr>, to: &mut IovIterDest<'_>) -> Result<usize> {
        let line = {
            let counter = kiocb.file();
            let totals = counter.totals.lock();
            CString::try_from_fmt(fmt!("{} {} {}\n", totals.lines, totals.words, totals.bytes))?
        };
        to.simple_read_from_buffer(kiocb.ki_pos_mut(), line.to_bytes())
    }
}
