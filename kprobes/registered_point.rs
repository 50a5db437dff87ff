// SPDX-License-Identifier: GPL-2.0

//! Registry entries of points: the memory that a point owns, and the state of its breakpoint.
//!
//! Contexts: process, sleeps; with the engine's mutex.
#![deny(unsafe_code)]

use ferro_sys::code::text::ArmedSite;
use ferro_sys::code::text::PatchSite;
use ferro_sys::code::text::TextLock;
use kernel::prelude::*;
use kernel::sync::Arc;

use crate::error::Error;
use crate::ftrace_probes::FtraceMode;
use crate::insn_copy::InsnCopy;
use crate::optprobe::Optprobe;
use crate::raw::detour::Detour;
use crate::raw::detour::DetourKind;
use crate::raw::detour::DETOUR_ADDRESSES;
use crate::raw::grace_period::GracePeriod;
use crate::raw::kprobe::flags;
use crate::raw::kprobe::Kprobe;
use crate::raw::map_writer::MapWriter;
use crate::raw::map_writer::Removed;
use crate::raw::mutex::Locked;
use crate::raw::probe_point::Execution;
use crate::raw::probe_point::Point;
use crate::raw::probe_point::COPIES;
use crate::raw::probe_point::POINTS;

/// Writers of the lookup maps of hits.
pub(crate) struct PointMaps {
    pub(crate) points: MapWriter<Point>,
    pub(crate) copies: MapWriter<Point>,
}

impl PointMaps {
    /// Acquires both writers. Errors: -EBUSY if another owner has one.
    pub(crate) fn new() -> Result<Self> {
        Ok(Self {
            points: POINTS.writer().ok_or(EBUSY)?,
            copies: COPIES.writer().ok_or(EBUSY)?,
        })
    }

    /// Makes room for this many points.
    pub(crate) fn reserve(&mut self, points: usize) -> Result<(), Error> {
        // A sparse table, so that the first entry that a hit looks at is usually the right one.
        self.points.reserve(points.saturating_mul(4))?;
        // No point uses more than four of its own addresses; detours make room for theirs.
        Ok(self.copies.reserve(points.saturating_mul(4))?)
    }
}

/// Number of addresses in copies in the lookup map, for each point.
pub(crate) const SLOT_ADDRESSES: usize = 6 + 2 * DETOUR_ADDRESSES;

/// State of a point's breakpoint.
pub(crate) enum Breakpoint {
    /// No breakpoint: an ftrace site, or code that was freed.
    None,
    Disarmed(PatchSite),
    Armed(ArmedSite),
    /// A jump is in the place of the breakpoint.
    Jumped,
}

/// A point, with the memory that it owns.
pub(crate) struct RegisteredPoint {
    pub(crate) point: Arc<Point>,
    pub(crate) code: InsnCopy,
    pub(crate) breakpoint: Breakpoint,
    pub(crate) optprobe: Optprobe,
    /// A detour for the other kind of handlers (pre-handlers only, or also post-handlers). Tasks
    /// may still be in it.
    pub(crate) spare: Option<Detour>,
    /// No jump is possible while a probe has a post-handler.
    pub(crate) no_post_detour: bool,
    /// No probe is left, and `unoptimize_idle()` has to remove the jump.
    pub(crate) idle: bool,
    /// The log has the message that something else has changed the jump.
    pub(crate) warned: bool,
    /// The mode in which ftrace calls the engine from the site.
    pub(crate) ftrace_mode: Option<FtraceMode>,
    /// The point cannot be hit yet: its batch is still being prepared.
    pub(crate) fresh: bool,
    /// The map entries that were removed: of its own address, then of its copies.
    pub(crate) removed: [Option<Removed<Point>>; 1 + SLOT_ADDRESSES],
    /// The next in its [`PointList`].
    pub(crate) next: Option<KBox<RegisteredPoint>>,
}

/// A list of points. Adding a point allocates nothing.
pub(crate) struct PointList {
    first: Option<KBox<RegisteredPoint>>,
}

impl PointList {
    pub(crate) const fn new() -> Self {
        Self { first: None }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.first.is_none()
    }

    pub(crate) fn push(&mut self, mut entry: KBox<RegisteredPoint>) {
        entry.next = self.first.take();
        self.first = Some(entry);
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &RegisteredPoint> {
        core::iter::successors(self.first.as_deref(), |entry| entry.next.as_deref())
    }

    /// Frees points that were removed from the maps before this grace period. No task is in their
    /// copies.
    pub(crate) fn release(self, period: &GracePeriod) {
        for mut entry in self {
            for removed in entry.removed.iter_mut().filter_map(Option::take) {
                removed.release(period);
            }
        }
    }
}

/// Removes the points from the list, one by one.
impl Iterator for PointList {
    type Item = KBox<RegisteredPoint>;

    fn next(&mut self) -> Option<KBox<RegisteredPoint>> {
        let mut entry = self.first.take()?;
        self.first = entry.next.take();
        Some(entry)
    }
}

impl Drop for PointList {
    fn drop(&mut self) {
        // One by one: dropping the first would drop the others recursively.
        while self.next().is_some() {}
    }
}

impl RegisteredPoint {
    /// Returns true if a probe is enabled.
    pub(crate) fn has_enabled(&self, locked: &Locked) -> bool {
        self.point.probes.iter(locked).any(Kprobe::is_enabled)
    }

    /// Returns true if a probe has a post-handler.
    pub(crate) fn is_posting(&self) -> bool {
        self.point.has_post.load() != 0
    }

    /// Returns true if the point has no detour, or one that calls the kinds of handlers that the
    /// probes have.
    pub(crate) fn fits(&self) -> bool {
        let detour = self.optprobe.detour();
        detour.is_none_or(|detour| self.suits(detour))
    }

    /// Returns true if a detour calls the kinds of handlers that the probes have.
    pub(crate) fn suits(&self, detour: &Detour) -> bool {
        (detour.kind() != DetourKind::Before) == self.is_posting()
    }

    /// Sets `KPROBE_FLAG_OPTIMIZED` of all probes while a jump is placed, or about to be placed.
    pub(crate) fn set_optimized(&self, on: bool, locked: &Locked) {
        for probe in self.point.probes.iter(locked) {
            let flags = probe.flags() & !flags::OPTIMIZED;
            probe.set_flags(if on { flags | flags::OPTIMIZED } else { flags });
        }
    }

    /// Returns the bytes that the breakpoint or jump has replaced.
    pub(crate) fn replaced(&self) -> &[u8] {
        match (&self.breakpoint, &self.optprobe) {
            (Breakpoint::Armed(_), _) => core::slice::from_ref(&self.code.original),
            (Breakpoint::Jumped, Optprobe::Placed(_, site)) => site.original(),
            _ => &[],
        }
    }

    /// Returns the addresses by which the point is found, except its own; 0 is none.
    pub(crate) fn slot_addresses(&self) -> [usize; SLOT_ADDRESSES] {
        let point = &self.point;
        let [a, b, c, d, e] = self.optprobe.addresses();
        let spare = self.spare.as_ref();
        let [f, g, h, i, j] = spare.map_or([0; DETOUR_ADDRESSES], Detour::addresses);
        [
            point.copy,
            point.copy_end(),
            point.post_copy.load(),
            point.post_copy_end(),
            point.post_copy_return(),
            point.stub.access(),
            a,
            b,
            c,
            d,
            e,
            f,
            g,
            h,
            i,
            j,
        ]
    }

    /// Returns the mode in which ftrace has to call the engine from the site, if any.
    pub(crate) fn wanted_call(&self, enabled: bool, locked: &Locked) -> Option<FtraceMode> {
        if !enabled
            || !self.has_enabled(locked)
            || !matches!(self.point.execution, Execution::Ftrace)
        {
            return None;
        }
        Some(match self.point.has_post.load() {
            0 => FtraceMode::Observe,
            _ => FtraceMode::IpModify,
        })
    }

    /// Arms or disarms the breakpoint, as its probes need. Returns true if that changed the code.
    pub(crate) fn arm(
        &mut self,
        text: &mut TextLock,
        enabled: bool,
        locked: &Locked,
    ) -> Result<bool, Error> {
        let wanted = enabled && self.has_enabled(locked);
        let now = core::mem::replace(&mut self.breakpoint, Breakpoint::None);
        let (next, result) = match (now, wanted) {
            (Breakpoint::Disarmed(site), true) => match site.arm(text) {
                Ok(site) => (Breakpoint::Armed(site), Ok(true)),
                Err((site, why)) => (Breakpoint::Disarmed(site), Err(why.into())),
            },
            (Breakpoint::Armed(site), false) => (Breakpoint::Disarmed(site.disarm(text)), Ok(true)),
            (unchanged, _) => (unchanged, Ok(false)),
        };
        self.breakpoint = next;
        result
    }
}

/// Writes the code that a probe needs and its point does not have. The caller has to call
/// [`publish`]. Returns true if there was some.
pub(crate) fn write(
    entry: &mut RegisteredPoint,
    probe: Kprobe<'_>,
    text: &mut TextLock,
) -> Result<bool, Error> {
    let mut written = false;
    if entry.fresh {
        written |= entry.code.write(&entry.point, text)?;
    }
    if probe.has_post() {
        written |= entry.code.write_post(&entry.point, text)?;
    }
    Ok(written)
}

/// Publishes a probe, and a fresh point with it. The caller has made room for them in the maps.
pub(crate) fn publish(
    maps: &mut PointMaps,
    entry: &mut RegisteredPoint,
    probe: Kprobe<'_>,
    text: &mut TextLock,
    locked: &Locked,
) -> Result<(), Error> {
    let point = entry.point.clone();
    if entry.fresh {
        add_to_map(&mut maps.copies, &point, &[point.copy, point.copy_end()])?;
        add_to_map(&mut maps.points, &point, &[point.address])?;
        entry.fresh = false;
    }
    if probe.has_post() {
        let found_by = entry.code.use_post(&point, text);
        add_to_map(&mut maps.copies, &point, &found_by)?;
        point.has_post.store(1);
    }
    if point.detour.load() != 0 {
        probe.set_flags(probe.flags() | flags::OPTIMIZED);
    }
    entry.idle = false;
    probe.set_original(entry.code.original, point.copy);
    point.probes.push(probe, locked);
    Ok(())
}

/// Adds a point to a map at these addresses, except 0.
pub(crate) fn add_to_map(
    writer: &mut MapWriter<Point>,
    point: &Arc<Point>,
    addresses: &[usize],
) -> Result<(), Error> {
    for address in addresses.iter().filter(|address| **address != 0) {
        writer
            .insert(*address, point.clone())
            .ok_or(Error::NoMemory)?;
    }
    Ok(())
}
