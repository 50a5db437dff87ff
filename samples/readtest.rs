// SPDX-License-Identifier: GPL-2.0

//! Relay application that writes events with known contents, to test readers with.
//!
//! debugfs `readtest/` has the controls of every relay application, and:
//!
//! - `event_n`, `event_size`: number of events that a test writes, and their size in bytes;
//! - `overwrite`: 1 if the next channel overwrites old records; sets `mode`, too;
//! - `start_test`: writing 1 writes the events on the caller's CPU. The write returns when all are
//!   written or a signal is pending (-EINTR). Several callers may write at the same time;
//! - `test_done`: 1 if no test is running;
//! - `write_count`, `write_byte_count`: numbers of events that found room, and of their bytes.
//!   Writing 0 to one of these files resets both.
//!
//! Byte `j` of event `i` is `i + j`, cut to eight bits. In events of four bytes or more, the first
//! four bytes are `i` in native byte order.
//!
//! Contexts: process.
#![deny(unsafe_code)]

use ferro_relay::App;
use ferro_relay::AppChannel;
use ferro_relay::Mode;
use ferro_sys::cpu::with_irqs_off;
use ferro_sys::fs::debugfs::File;
use ferro_sys::fs::fops::FileTable;
use ferro_sys::fs::fops::NodeOps;
use ferro_sys::fs::uaccess::UserDst;
use ferro_sys::fs::uaccess::UserSrc;
use ferro_sys::sync::refcounted::Shared;
use kernel::module::this_module;
use kernel::prelude::*;
use kernel::str::CString;
use kernel::sync::aref::ARef;
use kernel::sync::atomic::Atomic;
use kernel::sync::atomic::Full;
use kernel::sync::atomic::Relaxed;

module! {
    type: ReadTest,
    name: "readtest",
    authors: ["Ferrotrace maintainers"],
    description: "Relay application to test readers with",
    license: "GPL v2",
}

/// Maximum size of an event, in bytes.
const MAX_SIZE: usize = 1 << 20;
/// Maximum number of events of a test.
const MAX_COUNT: usize = 1 << 32;

/// State of the tests.
struct Tests {
    app: ARef<Shared<AppChannel>>,
    event_n: Atomic<usize>,
    event_size: Atomic<usize>,
    running: Atomic<usize>,
    written: Atomic<u64>,
    written_bytes: Atomic<u64>,
}

impl Tests {
    /// Writes the events. Errors: -ENODEV if the application is not enabled, -EINTR, -ENOMEM.
    fn run(&self) -> Result {
        if !self.app.is_enabled() {
            return Err(ENODEV);
        }
        self.running.fetch_add(1, Full);
        let result = self.write_events();
        self.running.fetch_sub(1, Full);
        result
    }

    fn write_events(&self) -> Result {
        let size = self.event_size.load(Relaxed);
        let mut event = KVVec::from_elem(0u8, size, GFP_KERNEL)?;
        for number in 0..self.event_n.load(Relaxed) {
            if current!().signal_pending() {
                return Err(EINTR);
            }
            fill(&mut event, number);
            if with_irqs_off(|irqs| self.app.write(irqs, &event)) {
                self.written.fetch_add(1, Relaxed);
                self.written_bytes
                    .fetch_add(u64::try_from(size).unwrap_or(0), Relaxed);
            }
        }
        Ok(())
    }
}

/// Fills the buffer with event `number`.
fn fill(event: &mut [u8], number: usize) {
    let [low, ..] = number.to_le_bytes();
    let mut value = low;
    for byte in event.iter_mut() {
        *byte = value;
        value = value.wrapping_add(1);
    }
    let bytes = u32::try_from(number).unwrap_or(u32::MAX).to_ne_bytes();
    if let Some(head) = event.first_chunk_mut() {
        *head = bytes;
    }
}

#[derive(Clone, Copy)]
enum Knob {
    EventN,
    EventSize,
    Overwrite,
    StartTest,
    TestDone,
    WriteCount,
    WriteByteCount,
}

const KNOBS: [(&CStr, Knob, u16); 7] = [
    (c"event_n", Knob::EventN, 0o600),
    (c"event_size", Knob::EventSize, 0o600),
    (c"overwrite", Knob::Overwrite, 0o600),
    (c"start_test", Knob::StartTest, 0o200),
    (c"test_done", Knob::TestDone, 0o400),
    (c"write_count", Knob::WriteCount, 0o600),
    (c"write_byte_count", Knob::WriteByteCount, 0o600),
];

/// File of a knob: one value as text, and a newline.
struct KnobFile {
    knob: Knob,
    tests: ARef<Shared<Tests>>,
}

static KNOB_FILES: FileTable<Shared<KnobFile>> = FileTable::new(this_module::<ReadTest>());

/// Parses a number from user space. Errors: -EINVAL if it is 0, -ERANGE if it is above `max`.
fn number(from: &UserSrc, max: usize) -> Result<usize> {
    match from.number()? {
        0 => Err(EINVAL),
        number if number <= max => Ok(number),
        _ => Err(ERANGE),
    }
}

impl NodeOps for KnobFile {
    fn read(&self, to: &mut UserDst) -> Result {
        let tests = &self.tests;
        let text = match self.knob {
            Knob::EventN => CString::try_from_fmt(fmt!("{}\n", tests.event_n.load(Relaxed))),
            Knob::EventSize => CString::try_from_fmt(fmt!("{}\n", tests.event_size.load(Relaxed))),
            Knob::Overwrite => {
                let overwrite = tests.app.mode() == Mode::Overwrite;
                CString::try_from_fmt(fmt!("{}\n", u8::from(overwrite)))
            }
            Knob::StartTest => return Err(EINVAL),
            Knob::TestDone => {
                let done = tests.running.load(Relaxed) == 0;
                CString::try_from_fmt(fmt!("{}\n", u8::from(done)))
            }
            Knob::WriteCount => CString::try_from_fmt(fmt!("{}\n", tests.written.load(Relaxed))),
            Knob::WriteByteCount => {
                CString::try_from_fmt(fmt!("{}\n", tests.written_bytes.load(Relaxed)))
            }
        }?;
        to.copy_at_position(text.to_bytes())
    }

    fn write(&self, from: &UserSrc) -> Result {
        let tests = &self.tests;
        match self.knob {
            Knob::EventN => tests.event_n.store(number(from, MAX_COUNT)?, Relaxed),
            Knob::EventSize => tests.event_size.store(number(from, MAX_SIZE)?, Relaxed),
            Knob::Overwrite => tests.app.set_mode(match from.flag()? {
                true => Mode::Overwrite,
                false => Mode::NoOverwrite,
            }),
            Knob::StartTest => match from.flag()? {
                true => tests.run()?,
                false => return Err(EINVAL),
            },
            // A counter can only be reset.
            Knob::WriteCount | Knob::WriteByteCount => {
                if from.number()? != 0 {
                    return Err(EINVAL);
                }
                tests.written.store(0, Relaxed);
                tests.written_bytes.store(0, Relaxed);
            }
            Knob::TestDone => return Err(EINVAL),
        }
        Ok(())
    }
}

struct ReadTest {
    // Dropped in this order.
    _files: KVec<File<Shared<KnobFile>>>,
    _app: App,
}

impl kernel::Module for ReadTest {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        let app = App::new(c"readtest", 262_144, 4)?;
        let tests = Shared::new(Ok(Tests {
            app: app.channel(),
            event_n: Atomic::new(1000),
            event_size: Atomic::new(64),
            running: Atomic::new(0),
            written: Atomic::new(0),
            written_bytes: Atomic::new(0),
        }))?;
        let mut files = KVec::new();
        for (name, knob, mode) in KNOBS {
            let file = Shared::new(Ok(KnobFile {
                knob,
                tests: tests.clone(),
            }))?;
            files.push(app.dir().file(name, mode, &KNOB_FILES, file)?, GFP_KERNEL)?;
        }
        Ok(Self {
            _files: files,
            _app: app,
        })
    }
}
