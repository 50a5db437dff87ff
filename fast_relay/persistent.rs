// SPDX-License-Identifier: GPL-2.0

//! Channels in memory that survives a reboot, and the data of earlier boots in it.
//!
//! Each named memory has two halves. A channel uses one half. The other half has the data of the
//! last boot, which are readable in debugfs `ferrotrace_flight/NAME` until they are dropped. So
//! nothing is copied during boot, and recording can start at once. If the kernel dies again before
//! the data were read, the next channel overwrites the older half.
//!
//! Contexts: process, except [`dump`]. Locks: [`MEMORIES`], not within other locks.
#![deny(unsafe_code)]

use ferro_fast_relay_core::persistent::checksum::Reason;
use ferro_fast_relay_core::persistent::Crc;
use ferro_fast_relay_core::persistent::Header;
use ferro_fast_relay_core::persistent::HeaderError;
use ferro_fast_relay_core::persistent::Layout;
use ferro_fast_relay_core::persistent::Repair;
use ferro_fast_relay_core::persistent::NAME_BYTES;
use ferro_fast_relay_core::ring::Ring;
use ferro_sys::cpu;
use ferro_sys::cpu::task::cond_resched;
use ferro_sys::cpu::with_irqs_off;
use ferro_sys::fs::debugfs::Dir;
use ferro_sys::fs::debugfs::File;
use ferro_sys::fs::fops::FileTable;
use ferro_sys::fs::fops::NodeOps;
use ferro_sys::fs::uaccess::UserDst;
use ferro_sys::fs::uaccess::UserSrc;
use ferro_sys::mm::reserve_mem::Reserved;
use ferro_sys::static_mutex;
use ferro_sys::sync::mutex::StaticMutex;
use ferro_sys::sync::rcu_slot::RcuSlot;
use ferro_sys::sync::refcounted::Shared;
use ferro_sys::trace::lockdown;
use kernel::module::this_module;
use kernel::page::PAGE_SIZE;
use kernel::prelude::*;
use kernel::str::CString;
use kernel::sync::aref::ARef;
use kernel::sync::atomic::Atomic;
use kernel::sync::atomic::Full;
use kernel::sync::atomic::Relaxed;

use crate::raw::persistent::origin;
use crate::raw::persistent::Dumper;
use crate::raw::persistent::Half;
use crate::raw::persistent::PersistentMem;
use crate::raw::persistent::Progress;
use crate::FastRelay;

/// Directory in debugfs.
const DIR: &CStr = c"ferrotrace_flight";
/// Name of the control file in it.
const CONTROL: &CStr = c"control";
/// Maximum number of named memories that the kernel's command line can reserve.
const NAMES: usize = 8;
/// Longest line that the control file takes, in bytes: a command and a name.
const LINE: usize = 32;

/// The named memory with channels or data. C defines the mutex: channels may be opened before Rust
/// could initialise one.
static MEMORIES: StaticMutex<Memories> = static_mutex!(
    relay_fast_persistent_mutex,
    Memories {
        dir: None,
        list: KVec::new(),
    }
);

/// The open channels in persistent memory, for [`dump`].
static OPEN: [RcuSlot<Shared<OpenMemory>>; NAMES] = [const { RcuSlot::new() }; NAMES];

/// Set by a panic: its seals are final, and later calls make none.
static PANICKED: Atomic<bool> = Atomic::new(false);

struct Memories {
    dir: Option<Dir>,
    list: KVec<NamedMemory>,
}

/// Memory of one name.
struct NamedMemory {
    name: CString,
    reserved: Reserved,
    /// Number of the next channel.
    opening: u64,
    /// Set while a channel uses the memory.
    is_open: bool,
    old: Option<OldData>,
}

/// Data of an earlier boot.
struct OldData {
    half: usize,
    image: ARef<Shared<Image>>,
    file: Option<File<Shared<Image>>>,
}

/// A half with data of an earlier boot.
pub(crate) struct Image(Half);

static IMAGE_FILE: FileTable<Shared<Image>> = FileTable::new(this_module::<FastRelay>());

impl NodeOps for Image {
    /// Refuses to open the file if lockdown denies traces to user space. Debugfs itself denies only
    /// files that can be written or mapped, such as channels' files.
    fn snapshot(&self, _for_reading: bool) -> Result<Option<Self>> {
        if lockdown::forbids_traces() {
            return Err(EPERM);
        }
        Ok(None)
    }

    fn read(&self, to: &mut UserDst) -> Result {
        if let Some(range) = self.0.range(to.position(), to.left()) {
            to.copy(range)?;
            to.commit(range.len());
        }
        Ok(())
    }
}

impl NamedMemory {
    fn half_bytes(reserved: &Reserved) -> usize {
        reserved.len() / 2 / PAGE_SIZE * PAGE_SIZE
    }

    /// Maps a half: 0 or 1.
    fn map(reserved: &Reserved, half: usize) -> Result<Half> {
        let bytes = Self::half_bytes(reserved);
        Half::map(reserved, half * bytes, bytes)
    }

    /// Looks for data of earlier boots. Errors: as for [`Reserved::find`] and
    /// `PageBuf::of_reserved()`.
    fn new(name: &CStr) -> Result<Self> {
        let reserved = Reserved::find(name)?;
        let mut named = Self {
            name: CString::try_from(name)?,
            reserved,
            opening: 0,
            is_open: false,
            old: None,
        };
        for half in 0..2 {
            let memory = Self::map(&reserved, half)?;
            let (header, repair) = match memory.header() {
                Ok(found) => found,
                Err(HeaderError::Absent) => continue,
                Err(e) => {
                    pr_warn!("{:?}: half {} has an invalid header: {:?}\n", name, half, e);
                    continue;
                }
            };
            if repair != Repair::Intact {
                pr_warn!(
                    "{:?}: half {} has a damaged header: {:?}\n",
                    name,
                    half,
                    repair
                );
            }
            if named.old.is_none() || header.opening >= named.opening {
                let image = Shared::new(Ok(Image(memory)))?;
                named.old = Some(OldData {
                    half,
                    image,
                    file: None,
                });
            }
            named.opening = named.opening.max(header.opening.wrapping_add(1));
        }
        Ok(named)
    }

    /// Maps the half other than `used`, or any free half if `used` is `None`.
    ///
    /// Errors: -EAGAIN if it is in use, -ENOMEM.
    fn free_half(&self, used: Option<usize>) -> Result<Half> {
        let mut halves = (0..2).filter(|half| Some(*half) != used);
        let mut memory = Err(EAGAIN);
        while let (Err(EAGAIN), Some(half)) = (&memory, halves.next()) {
            memory = Self::map(&self.reserved, half);
        }
        memory
    }
}

impl Memories {
    /// Returns the entry of a named memory; adds it if needed.
    ///
    /// Errors: -ENXIO if there is no such memory, -EINVAL if the name cannot be a file's, -EAGAIN,
    /// -ENOMEM.
    fn look_up(&mut self, name: &CStr) -> Result<&mut NamedMemory> {
        let text = name.to_bytes();
        if matches!(text, b"" | b"." | b"..") || text.contains(&b'/') || name == CONTROL {
            return Err(EINVAL);
        }
        let mut named = self.list.iter();
        let index = match named.position(|named| *named.name == *name) {
            Some(index) => index,
            None => {
                self.list.push(NamedMemory::new(name)?, GFP_KERNEL)?;
                self.list.len() - 1
            }
        };
        self.make_files();
        self.list.get_mut(index).ok_or(EINVAL)
    }

    /// Makes the missing files, if the directory exists.
    fn make_files(&mut self) {
        let Some(dir) = self.dir.as_ref().map(Dir::to_ref) else {
            return;
        };
        for named in self.list.iter_mut() {
            let Some(old) = named.old.as_mut().filter(|old| old.file.is_none()) else {
                continue;
            };
            match dir.file(&named.name, 0o400, &IMAGE_FILE, old.image.clone()) {
                Ok(file) => old.file = Some(file),
                Err(e) => pr_err!(
                    "no file for the data of earlier boots in {:?}: {:?}\n",
                    named.name,
                    e
                ),
            }
        }
    }
}

/// Returns the sizes of the channel `name`, and its claim on the memory called `reserved`, if
/// given.
///
/// Errors: -EINVAL for invalid sizes; otherwise as for [`open`].
pub(crate) fn allocate(
    reserved: Option<&CStr>,
    name: &CStr,
    subbuf_size: usize,
    n_subbufs: usize,
    overwrite: bool,
    format: &[u8],
) -> Result<(Ring, Option<MemoryClaim>)> {
    let Some(memory) = reserved else {
        let ring = Ring::new(subbuf_size, n_subbufs, overwrite).map_err(|_| EINVAL)?;
        return Ok((ring, None));
    };
    let request = Request {
        memory,
        name,
        subbuf_size,
        n_subbufs,
        overwrite,
        format,
    };
    let (ring, claim) = open(&request)?;
    Ok((ring, Some(claim)))
}

/// Parameters of a channel.
struct Request<'a> {
    /// Name of the memory.
    memory: &'a CStr,
    /// Name of the channel.
    name: &'a CStr,
    subbuf_size: usize,
    /// 0 for as many as fit.
    n_subbufs: usize,
    overwrite: bool,
    format: &'a [u8],
}

/// Memory of an open channel.
pub(crate) struct OpenMemory {
    memory: PersistentMem,
    name: CString,
    is_closed: Atomic<bool>,
}

impl OpenMemory {
    /// Returns the memory of the buffers.
    pub(crate) fn memory(&self) -> &PersistentMem {
        &self.memory
    }
}

/// A channel's claim on its memory. Released when dropped.
pub(crate) struct MemoryClaim(ARef<Shared<OpenMemory>>);

impl core::ops::Deref for MemoryClaim {
    type Target = OpenMemory;

    fn deref(&self) -> &OpenMemory {
        &self.0
    }
}

impl MemoryClaim {
    /// Closes the memory after the last write.
    pub(crate) fn close(&self) {
        if self.0.is_closed.xchg(true, Full) {
            return;
        }
        let same = |memory: &OpenMemory| core::ptr::eq(memory, &**self.0);
        for slot in &OPEN {
            if slot.get().is_some_and(|memory| same(&memory)) {
                drop(slot.replace(None));
            }
        }
        // After the removal from `OPEN`, so that `dump()` makes no later seal. A channel without
        // records is erased: the next boot must not take it for the channel of a crash.
        match (PANICKED.load(Relaxed), self.0.memory.is_blank()) {
            (true, _) => {}
            (false, true) => self.0.memory.erase(),
            (false, false) => {
                let mut progress = Progress::default();
                while self.0.memory.seal_some(&mut progress, Reason::Closed) {
                    cond_resched();
                }
            }
        }
        let mut memories = MEMORIES.lock();
        let mut named = memories.list.iter_mut();
        if let Some(named) = named.find(|named| *named.name == *self.0.name) {
            named.is_open = false;
        }
    }
}

impl Drop for MemoryClaim {
    fn drop(&mut self) {
        self.close();
    }
}

/// Returns a text as a header has it: cut or filled with NULs.
fn padded_name(text: &[u8]) -> [u8; NAME_BYTES] {
    let mut name = [0; NAME_BYTES];
    for (to, byte) in name.iter_mut().zip(text) {
        *to = *byte;
    }
    name
}

/// Makes room for a channel in its memory.
///
/// Errors: -ENXIO if there is no such memory, -EAGAIN while a channel or readers of an earlier one
/// use it, -ENOSPC if it is too small, -EINVAL for invalid sizes, -ENOMEM, -EINTR if the task is
/// being killed.
fn open(request: &Request<'_>) -> Result<(Ring, MemoryClaim)> {
    let mut memories = MEMORIES.lock();
    let named = memories.look_up(request.memory)?;
    if named.is_open {
        return Err(EAGAIN);
    }
    let bytes = u64::try_from(NamedMemory::half_bytes(&named.reserved))?;
    let format_bytes = u64::try_from(request.format.len())?;
    let cpus = cpu::possible()
        .map(|cpu| u64::from(cpu.get()) + 1)
        .max()
        .unwrap_or(1);
    let min_subbufs = match request.n_subbufs {
        0 => 2,
        n_subbufs => n_subbufs,
    };
    let ring =
        Ring::new(request.subbuf_size, min_subbufs, request.overwrite).map_err(|_| EINVAL)?;
    let layout = match request.n_subbufs {
        0 => Layout::largest(
            request.subbuf_size,
            request.overwrite,
            cpus,
            format_bytes,
            bytes,
        ),
        _ => Layout::new(ring, cpus, format_bytes),
    };
    let layout = layout
        .filter(|layout| layout.bytes() <= bytes)
        .ok_or_else(|| {
            let needed = Layout::new(ring, cpus, format_bytes).map_or(0, |layout| layout.bytes());
            pr_err!(
                "{:?} has {} bytes, and the channel needs {}\n",
                request.memory,
                2 * bytes,
                2 * needed
            );
            ENOSPC
        })?;
    let now = origin();
    let header = Header {
        bytes,
        opening: named.opening,
        boot: now.boot,
        monotonic_ns: now.monotonic_ns,
        real_ns: now.real_ns,
        cpus,
        subbuf_size: layout.ring().subbuf_size(),
        n_subbufs: layout.ring().n_subbufs(),
        overwrite: request.overwrite,
        format_bytes,
        format_crc: Crc::new().bytes(request.format).finish(),
        name: padded_name(request.name.to_bytes()),
        release: padded_name(&now.release),
    };
    let half = named.free_half(named.old.as_ref().map(|old| old.half))?;
    let memory = Shared::new(Ok(OpenMemory {
        memory: PersistentMem::new(half, &header, request.format)?,
        name: CString::try_from(request.memory)?,
        is_closed: Atomic::new(false),
    }))?;
    memory.memory.publish(&header);
    named.opening = named.opening.wrapping_add(1);
    named.is_open = true;
    // A free slot exists: one per name, and a name has one channel at a time.
    if let Some(slot) = OPEN.iter().find(|slot| slot.get().is_none()) {
        drop(slot.replace(Some(memory.clone())));
    }
    Ok((*layout.ring(), MemoryClaim(memory)))
}

/// Computes the checksums of all written data, as the kernel panics or is about to restart or halt.
///
/// Context: any. This may take seconds. If the caller has interrupts on, they stay on between the
/// steps, so that other tasks can run.
pub(crate) fn dump(reason: Reason) {
    let panicked = match reason {
        Reason::Panic => PANICKED.xchg(true, Full),
        _ => PANICKED.load(Relaxed),
    };
    if panicked {
        return;
    }
    for slot in &OPEN {
        let mut progress = Progress::default();
        let mut step = || {
            with_irqs_off(|irqs| {
                slot.with(irqs, |memory| {
                    memory.memory.seal_some(&mut progress, reason)
                })
            })
        };
        while step() == Some(true) {}
    }
}

/// Makes a file with the data that the last boot has left in this memory. Errors: -ENODATA if there
/// are none; otherwise as for [`Memories::look_up`].
fn find(name: &CStr) -> Result {
    let mut memories = MEMORIES.lock();
    match memories.look_up(name)?.old {
        Some(_) => Ok(()),
        None => Err(ENODATA),
    }
}

/// Drops the data of earlier boots. Errors: as for [`find`], -EAGAIN while readers hold a channel's
/// memory; then nothing is dropped.
fn drop_old(name: &CStr) -> Result {
    let mut memories = MEMORIES.lock();
    let named = memories.look_up(name)?;
    let half = named.old.as_ref().ok_or(ENODATA)?.half;
    if !named.is_open {
        // Erases the other half, too: this module would otherwise find its older data when loaded
        // again.
        named.free_half(Some(half))?.erase();
    }
    let old = named.old.take();
    drop(memories);
    // Without the lock: the removal of the file waits for its readers.
    if let Some(old) = old {
        old.image.0.erase();
    }
    Ok(())
}

/// The file `control`.
pub(crate) struct Control;

static CONTROL_FILE: FileTable<Shared<Control>> = FileTable::new(this_module::<FastRelay>());

impl NodeOps for Control {
    // A command makes and removes files in the same directory.
    const OUTLIVES: bool = true;

    /// Prints a line for each name that has been looked up.
    fn read(&self, to: &mut UserDst) -> Result {
        let mut lines = KVec::new();
        for named in MEMORIES.lock().list.iter() {
            let line = CString::try_from_fmt(fmt!(
                "{} bytes={} channel={} left={}\n",
                named.name.to_str().map_err(|_| EINVAL)?,
                named.reserved.len(),
                u8::from(named.is_open),
                u8::from(named.old.is_some())
            ))?;
            lines.extend_from_slice(line.to_bytes(), GFP_KERNEL)?;
        }
        to.copy_at_position(&lines)
    }

    /// Executes `find NAME` or `drop NAME`.
    fn write(&self, from: &UserSrc) -> Result {
        let mut bytes = [0; LINE];
        let line = core::str::from_utf8(from.text(&mut bytes)?).map_err(|_| EINVAL)?;
        let (command, name) = line.split_once(' ').ok_or(EINVAL)?;
        let name = CString::try_from_fmt(fmt!("{name}"))?;
        match command {
            "find" => find(&name),
            "drop" => drop_old(&name),
            _ => Err(EINVAL),
        }
    }
}

/// Control file and panic notifier of the module.
pub(crate) struct Attached {
    control: Option<File<Shared<Control>>>,
    _dumper: Dumper,
}

impl Attached {
    /// Makes the files, if debugfs is available, and registers for panics.
    ///
    /// Errors: -ENOMEM, -EBUSY.
    pub(crate) fn new() -> Result<Self> {
        let dumper = Dumper::register()?;
        let control = Shared::new(Ok(Control))?;
        let file = Dir::new(DIR).and_then(|dir| {
            let file = dir.to_ref().file(CONTROL, 0o600, &CONTROL_FILE, control)?;
            let mut memories = MEMORIES.lock();
            memories.dir = Some(dir);
            memories.make_files();
            Ok(file)
        });
        Ok(Self {
            control: file
                .inspect_err(|e| pr_err!("no directory for the data of earlier boots: {:?}\n", e))
                .ok(),
            _dumper: dumper,
        })
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        // The control file first: its commands add to the list.
        drop(self.control.take());
        let mut memories = MEMORIES.lock();
        let rest = (core::mem::take(&mut memories.list), memories.dir.take());
        drop(memories);
        drop(rest);
    }
}
