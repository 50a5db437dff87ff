// SPDX-License-Identifier: GPL-2.0

//! Channels in memory that survives a reboot, and what earlier ones have left there.
//!
//! Memory of a name has two halves. A channel takes one; the other one, with what the last boot left, can be read in debugfs
//! `ferrotrace_flight/NAME` until somebody drops it. So nothing has to be copied while the kernel boots, recording can begin at
//! once, and if the kernel dies again before somebody has looked, what is overwritten next is the older half.
//!
//! Contexts: process, except for [`dump`]. Locks: [`FLIGHTS`], within nothing.
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

use crate::raw::mutex::EarlyMutex;
use crate::raw::persistent::origin;
use crate::raw::persistent::Dumper;
use crate::raw::persistent::FlightMem;
use crate::raw::persistent::Half;
use crate::raw::persistent::Progress;
use crate::FastRelay;

/// The directory of debugfs.
const DIR: &CStr = c"ferrotrace_flight";
/// The file in it that takes commands.
const CONTROL: &CStr = c"control";
/// As many names as the kernel's command line can have.
const NAMES: usize = 8;
/// The longest line that the control file takes: a word and a name of the command line.
const LINE: usize = 32;

/// What is known of memory that survives a reboot.
static FLIGHTS: EarlyMutex<Flights> = EarlyMutex::of_flights(Flights {
    dir: None,
    known: KVec::new(),
});

/// The channels that are open there, for [`dump`].
static OPEN: [RcuSlot<Shared<Place>>; NAMES] = [const { RcuSlot::new() }; NAMES];

/// Whether the kernel has panicked: the seals of that moment are the last.
static PANICKED: Atomic<bool> = Atomic::new(false);

struct Flights {
    dir: Option<Dir>,
    known: KVec<Known>,
}

/// Memory of a name.
struct Known {
    name: CString,
    reserved: Reserved,
    /// The number of the next channel.
    opening: u64,
    /// Whether a channel is there.
    is_open: bool,
    left: Option<Left>,
}

/// What an earlier boot has left.
struct Left {
    half: usize,
    image: ARef<Shared<Image>>,
    file: Option<File<Shared<Image>>>,
}

/// The half that has it.
pub(crate) struct Image(Half);

static IMAGE_FILE: FileTable<Shared<Image>> = FileTable::new(this_module::<FastRelay>());

impl NodeOps for Image {
    /// Not to be opened where lockdown keeps user space from what was traced: debugfs itself keeps it only from what can be
    /// written or mapped, which channels' files can.
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

    /// Maps a half, of 0 and 1.
    fn map(reserved: &Reserved, half: usize) -> Result<Half> {
        let bytes = Self::half_bytes(reserved);
        Half::map(reserved, half * bytes, bytes)
    }

    /// Looks what there is. Errors: those of [`Reserved::find`] and [`Reserved::map`].
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

    /// The half other than `left`; of both, if there is no such, one that nobody has.
    ///
    /// Errors: -EAGAIN if somebody has it, -ENOMEM.
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
    /// What is known of the memory with this name.
    ///
    /// Errors: -ENXIO if there is none, -EINVAL if the name cannot be that of a file, -EAGAIN, -ENOMEM.
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

    /// Makes the files that are missing, when there is a directory for them.
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

/// The sizes of a channel, and its place in the memory called `reserved`, if it wants one. `name` is the channel's.
///
/// Errors: -EINVAL for sizes that cannot be; those of [`open`].
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

/// How a channel is to be.
struct Wanted<'a> {
    /// The name of the memory.
    memory: &'a CStr,
    /// That of the channel.
    name: &'a CStr,
    subbuf_size: usize,
    /// 0 for as many as there is room for.
    n_subbufs: usize,
    overwrite: bool,
    format: &'a [u8],
}

/// The place of a channel that is open.
pub(crate) struct Place {
    memory: FlightMem,
    name: CString,
    is_closed: Atomic<bool>,
}

impl Place {
    /// Where the buffers are.
    pub(crate) fn memory(&self) -> &FlightMem {
        &self.memory
    }
}

/// A channel's right to its place, which it gives up when this is dropped.
pub(crate) struct Seat(ARef<Shared<Place>>);

impl core::ops::Deref for Seat {
    type Target = Place;

    fn deref(&self) -> &Place {
        &self.0
    }
}

impl Seat {
    /// Nobody writes any more.
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
        // After that, so that it is the last. A channel that could not be opened must not stand in for one that the kernel died
        // with.
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

/// Makes room for a channel in the memory that it wants.
///
/// Errors: -ENXIO if there is no such memory, -EAGAIN while it is used, or by readers of an earlier channel, -ENOSPC if it is too
/// small, -EINVAL for sizes that cannot be, -ENOMEM, -EINTR if the task is being killed.
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
    // There is one for each name, and a name has one channel at a time.
    if let Some(slot) = OPEN.iter().find(|slot| slot.get().is_none()) {
        drop(slot.replace(Some(place.clone())));
    }
    Ok((*layout.ring(), Seat(place)))
}

/// The kernel panics, or is about to restart or to halt: makes the checksums of all that has been written.
///
/// Context: any. Where interrupts are on, they are between the steps: it may take seconds, and
/// others go on then.
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

/// Makes what the last boot left in memory of this name a file. Errors: those of looking it up, -ENODATA if nothing is left.
fn find(name: &CStr) -> Result {
    let mut flights = FLIGHTS.lock();
    match flights.look_up(name)?.left {
        Some(_) => Ok(()),
        None => Err(ENODATA),
    }
}

/// Gives up what earlier boots have left. Errors: as for [`find`], -EAGAIN while a channel's memory is held by its readers; then
/// everything is still there.
fn drop_left(name: &CStr) -> Result {
    let mut flights = FLIGHTS.lock();
    let known = flights.look_up(name)?;
    let half = known.left.as_ref().ok_or(ENODATA)?.half;
    if !known.is_open {
        // The boot before the last: nobody would find it before this module comes again, and should not then.
        known.free_half(Some(half))?.erase();
    }
    let left = known.left.take();
    drop(flights);
    // Without the lock: removing the file waits for whoever reads it.
    if let Some(left) = left {
        left.image.0.erase();
    }
    Ok(())
}

/// The file `control`.
pub(crate) struct Control;

static CONTROL_FILE: FileTable<Shared<Control>> = FileTable::new(this_module::<FastRelay>());

impl NodeOps for Control {
    // A command makes and removes files beside this one.
    const OUTLIVES: bool = true;

    /// A line for each name that has been looked up.
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

    /// `find NAME` or `drop NAME`.
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

/// What the module does beyond the channels that are opened.
pub(crate) struct Attached {
    control: Option<File<Shared<Control>>>,
    _dumper: Dumper,
}

impl Attached {
    /// Makes the files, if there is a debugfs for them, and listens for panics.
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
        // The commands first, as they make more of the rest.
        drop(self.control.take());
        let mut flights = FLIGHTS.lock();
        let rest = (core::mem::take(&mut flights.known), flights.dir.take());
        drop(flights);
        drop(rest);
    }
}
