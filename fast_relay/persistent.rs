// SPDX-License-Identifier: GPL-2.0

//! Channels in memory that survives a reboot, and the data of earlier boots in it.
//!
//! Each named memory has two halves. A channel takes one. The other has the data of the last boot,
//! which are readable in debugfs `ferrotrace_flight/NAME` until they are dropped. So nothing is
//! copied during boot, and recording can start at once. If the kernel dies again before the data
//! were read, the next channel overwrites the older half.
//!
//! Contexts: process, except [`dump`]. Locks: [`FLIGHTS`], not within other locks.
#![deny(unsafe_code)]

use ferro_core::persistent::checksum::Reason;
use ferro_core::persistent::Crc;
use ferro_core::persistent::Header;
use ferro_core::persistent::HeaderError;
use ferro_core::persistent::Layout;
use ferro_core::persistent::Repair;
use ferro_core::persistent::NAME_BYTES;
use ferro_core::ring::Ring;
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
use crate::raw::persistent::FlightMem;
use crate::raw::persistent::Half;
use crate::raw::persistent::Progress;
use crate::FastRelay;

/// Directory in debugfs.
const DIR: &CStr = c"ferrotrace_flight";
/// Name of the control file in it.
const CONTROL: &CStr = c"control";
/// Largest number of names on the kernel's command line.
const NAMES: usize = 8;
/// Longest line that the control file takes, in bytes: a command and a name.
const LINE: usize = 32;

/// The known persistent memory. C defines the mutex: channels may be opened before Rust could
/// initialise one.
static FLIGHTS: StaticMutex<Flights> = static_mutex!(
    relay_fast_flight_mutex,
    Flights {
        dir: None,
        known: KVec::new(),
    }
);

/// The open channels in persistent memory, for [`dump`].
static OPEN: [RcuSlot<Shared<Place>>; NAMES] = [const { RcuSlot::new() }; NAMES];

/// Set after a panic: the seals of the panic are the last ones.
static PANICKED: Atomic<bool> = Atomic::new(false);

struct Flights {
    dir: Option<Dir>,
    known: KVec<Known>,
}

/// Memory of one name.
struct Known {
    name: CString,
    reserved: Reserved,
    /// Number of the next channel.
    opening: u64,
    /// Set while a channel uses the memory.
    is_open: bool,
    left: Option<Left>,
}

/// Data of an earlier boot.
struct Left {
    half: usize,
    image: ARef<Shared<Image>>,
    file: Option<File<Shared<Image>>>,
}

/// The half with the data.
pub(crate) struct Image(Half);

static IMAGE_FILE: FileTable<Shared<Image>> = FileTable::new(this_module::<FastRelay>());

impl NodeOps for Image {
    /// Refuses the open where lockdown denies traces to user space. Debugfs itself denies only
    /// files that can be written or mapped, such as channels' files.
    fn snapshot(&self) -> Result<Option<Self>> {
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

impl Known {
    fn half_bytes(reserved: &Reserved) -> usize {
        reserved.len() / 2 / PAGE_SIZE * PAGE_SIZE
    }

    /// Maps a half: 0 or 1.
    fn map(reserved: &Reserved, half: usize) -> Result<Half> {
        let bytes = Self::half_bytes(reserved);
        Half::map(reserved, half * bytes, bytes)
    }

    /// Looks for data of earlier boots. Errors: as for [`Reserved::find`] and [`Reserved::map`].
    fn new(name: &CStr) -> Result<Self> {
        let reserved = Reserved::find(name)?;
        let mut known = Self {
            name: CString::try_from(name)?,
            reserved,
            opening: 0,
            is_open: false,
            left: None,
        };
        for half in 0..2 {
            let memory = Self::map(&reserved, half)?;
            let (header, repair) = match memory.header() {
                Ok(found) => found,
                Err(HeaderError::Absent) => continue,
                Err(e) => {
                    pr_warn!(
                        "{:?}: half {} has a header that is of no use: {:?}\n",
                        name,
                        half,
                        e
                    );
                    continue;
                }
            };
            if repair != Repair::Intact {
                pr_warn!(
                    "{:?}: half {} has a header that was hit: {:?}\n",
                    name,
                    half,
                    repair
                );
            }
            if known.left.is_none() || header.opening >= known.opening {
                let image = Shared::new(Ok(Image(memory)))?;
                known.left = Some(Left {
                    half,
                    image,
                    file: None,
                });
            }
            known.opening = known.opening.max(header.opening.wrapping_add(1));
        }
        Ok(known)
    }

    /// Maps the half other than `left`, or an unused one of both if `left` is `None`.
    ///
    /// Errors: -EAGAIN if it is in use, -ENOMEM.
    fn free_half(&self, left: Option<usize>) -> Result<Half> {
        let mut halves = (0..2).filter(|half| Some(*half) != left);
        let mut memory = Err(EAGAIN);
        while let (Err(EAGAIN), Some(half)) = (&memory, halves.next()) {
            memory = Self::map(&self.reserved, half);
        }
        memory
    }
}

impl Flights {
    /// Returns the entry of a named memory; adds it if needed.
    ///
    /// Errors: -ENXIO if there is no such memory, -EINVAL if the name cannot be a file's, -EAGAIN,
    /// -ENOMEM.
    fn look_up(&mut self, name: &CStr) -> Result<&mut Known> {
        let text = name.to_bytes();
        if matches!(text, b"" | b"." | b"..") || text.contains(&b'/') || name == CONTROL {
            return Err(EINVAL);
        }
        let mut known = self.known.iter();
        let index = match known.position(|known| *known.name == *name) {
            Some(index) => index,
            None => {
                self.known.push(Known::new(name)?, GFP_KERNEL)?;
                self.known.len() - 1
            }
        };
        self.make_files();
        self.known.get_mut(index).ok_or(EINVAL)
    }

    /// Makes the missing files, if the directory exists.
    fn make_files(&mut self) {
        let Some(dir) = self.dir.as_ref().map(Dir::to_ref) else {
            return;
        };
        for known in self.known.iter_mut() {
            let Some(left) = known.left.as_mut().filter(|left| left.file.is_none()) else {
                continue;
            };
            match dir.file(&known.name, 0o400, &IMAGE_FILE, left.image.clone()) {
                Ok(file) => left.file = Some(file),
                Err(e) => pr_err!("no file for what is left in {:?}: {:?}\n", known.name, e),
            }
        }
    }
}

/// Returns the sizes of the channel `name`, and its place in the memory called `reserved`, if
/// given.
///
/// Errors: -EINVAL for invalid sizes; otherwise as for [`open`].
pub(crate) fn place(
    reserved: Option<&CStr>,
    name: &CStr,
    subbuf_size: usize,
    n_subbufs: usize,
    overwrite: bool,
    format: &[u8],
) -> Result<(Ring, Option<Seat>)> {
    let Some(memory) = reserved else {
        let ring = Ring::new(subbuf_size, n_subbufs, overwrite).map_err(|_| EINVAL)?;
        return Ok((ring, None));
    };
    let wanted = Wanted {
        memory,
        name,
        subbuf_size,
        n_subbufs,
        overwrite,
        format,
    };
    let (ring, seat) = open(&wanted)?;
    Ok((ring, Some(seat)))
}

/// Parameters of a channel.
struct Wanted<'a> {
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

/// Place of an open channel.
pub(crate) struct Place {
    memory: FlightMem,
    name: CString,
    is_closed: Atomic<bool>,
}

impl Place {
    /// Returns the memory of the buffers.
    pub(crate) fn memory(&self) -> &FlightMem {
        &self.memory
    }
}

/// A channel's claim on its place. Released when dropped.
pub(crate) struct Seat(ARef<Shared<Place>>);

impl core::ops::Deref for Seat {
    type Target = Place;

    fn deref(&self) -> &Place {
        &self.0
    }
}

impl Seat {
    /// Closes the place after the last write.
    pub(crate) fn close(&self) {
        if self.0.is_closed.xchg(true, Full) {
            return;
        }
        let same = |place: &Place| core::ptr::eq(place, &**self.0);
        for slot in &OPEN {
            if slot.get().is_some_and(|place| same(&place)) {
                drop(slot.replace(None));
            }
        }
        // After that, so that this seal is the last. A channel that could not be opened is erased:
        // the next boot must not take it for the channel of a crash.
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
        let mut flights = FLIGHTS.lock();
        let mut known = flights.known.iter_mut();
        if let Some(known) = known.find(|known| *known.name == *self.0.name) {
            known.is_open = false;
        }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.close();
    }
}

fn name_of(text: &[u8]) -> [u8; NAME_BYTES] {
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
fn open(wanted: &Wanted<'_>) -> Result<(Ring, Seat)> {
    let mut flights = FLIGHTS.lock();
    let known = flights.look_up(wanted.memory)?;
    if known.is_open {
        return Err(EAGAIN);
    }
    let bytes = u64::try_from(Known::half_bytes(&known.reserved))?;
    let format_bytes = u64::try_from(wanted.format.len())?;
    let cpus = cpu::possible()
        .map(|cpu| u64::from(cpu.get()) + 1)
        .max()
        .unwrap_or(1);
    let least = match wanted.n_subbufs {
        0 => 2,
        n_subbufs => n_subbufs,
    };
    let ring = Ring::new(wanted.subbuf_size, least, wanted.overwrite).map_err(|_| EINVAL)?;
    let layout = match wanted.n_subbufs {
        0 => Layout::largest(
            wanted.subbuf_size,
            wanted.overwrite,
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
                wanted.memory,
                2 * bytes,
                2 * needed
            );
            ENOSPC
        })?;
    let now = origin();
    let header = Header {
        bytes,
        opening: known.opening,
        boot: now.boot,
        monotonic_ns: now.monotonic_ns,
        real_ns: now.real_ns,
        cpus,
        subbuf_size: layout.ring().subbuf_size(),
        n_subbufs: layout.ring().n_subbufs(),
        overwrite: wanted.overwrite,
        format_bytes,
        format_crc: Crc::new().bytes(wanted.format).finish(),
        name: name_of(wanted.name.to_bytes()),
        release: name_of(&now.release),
    };
    let half = known.free_half(known.left.as_ref().map(|left| left.half))?;
    let place = Shared::new(Ok(Place {
        memory: FlightMem::new(half, &header, wanted.format)?,
        name: CString::try_from(wanted.memory)?,
        is_closed: Atomic::new(false),
    }))?;
    place.memory.publish(&header);
    known.opening = known.opening.wrapping_add(1);
    known.is_open = true;
    // A free slot exists: one per name, and a name has one channel at a time.
    if let Some(slot) = OPEN.iter().find(|slot| slot.get().is_none()) {
        drop(slot.replace(Some(place.clone())));
    }
    Ok((*layout.ring(), Seat(place)))
}

/// Computes the checksums of all written data, as the kernel panics or is about to restart or halt.
///
/// Context: any. If interrupts are on, they are on between the steps, too: this may take seconds,
/// during which other tasks run.
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
                slot.with(irqs, |place| place.memory.seal_some(&mut progress, reason))
            })
        };
        while step() == Some(true) {}
    }
}

/// Makes a file with the data that the last boot left in this memory. Errors: as for the look-up,
/// -ENODATA if nothing is left.
fn find(name: &CStr) -> Result {
    let mut flights = FLIGHTS.lock();
    match flights.look_up(name)?.left {
        Some(_) => Ok(()),
        None => Err(ENODATA),
    }
}

/// Drops the data of earlier boots. Errors: as for [`find`], -EAGAIN while readers hold a channel's
/// memory; then nothing is dropped.
fn drop_left(name: &CStr) -> Result {
    let mut flights = FLIGHTS.lock();
    let known = flights.look_up(name)?;
    let half = known.left.as_ref().ok_or(ENODATA)?.half;
    if !known.is_open {
        // Erases the data of the boot before the last, which would be found when this module is
        // loaded again.
        known.free_half(Some(half))?.erase();
    }
    let left = known.left.take();
    drop(flights);
    // Without the lock: the removal of the file waits for its readers.
    if let Some(left) = left {
        left.image.0.erase();
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
        for known in FLIGHTS.lock().known.iter() {
            let line = CString::try_from_fmt(fmt!(
                "{} bytes={} channel={} left={}\n",
                known.name.to_str().map_err(|_| EINVAL)?,
                known.reserved.len(),
                u8::from(known.is_open),
                u8::from(known.left.is_some())
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
            "drop" => drop_left(&name),
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
            let mut flights = FLIGHTS.lock();
            flights.dir = Some(dir);
            flights.make_files();
            Ok(file)
        });
        Ok(Self {
            control: file
                .inspect_err(|e| pr_err!("no directory for what is left in memory: {:?}\n", e))
                .ok(),
            _dumper: dumper,
        })
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        // The control file first, as its commands make more of the rest.
        drop(self.control.take());
        let mut flights = FLIGHTS.lock();
        let rest = (core::mem::take(&mut flights.known), flights.dir.take());
        drop(flights);
        drop(rest);
    }
}
