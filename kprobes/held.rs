// SPDX-License-Identifier: GPL-2.0

//! Points as the registry holds them: with their memory, and whether their breakpoints are there.
//!
//! Contexts: process, sleeps; with the engine's mutex.
#![deny(unsafe_code)]

use ferro_sys::address_map::GracePeriod;
use ferro_sys::address_map::Removed;
use ferro_sys::address_map::Writer;
use ferro_sys::code::text::TextAddress;
use ferro_sys::code::text::TextLock;
use ferro_sys::code::text::BREAKPOINT;
use ferro_sys::kprobe::Kprobe;
use kernel::prelude::*;
use kernel::sync::Arc;

use crate::error::Error;
use crate::hit::COPIES;
use crate::hit::POINTS;
use crate::point::Code;
use crate::point::Point;
use crate::point::Run;
use crate::site::Kind;

/// Who may have points found.
pub(crate) struct Finders {
    pub(crate) points: Writer<Point>,
    pub(crate) copies: Writer<Point>,
}

impl Finders {
    /// Errors: -EBUSY if there is one.
    pub(crate) fn new() -> Result<Self> {
        Ok(Self {
            points: POINTS.writer().ok_or(EBUSY)?,
            copies: COPIES.writer().ok_or(EBUSY)?,
        })
    }

    /// Makes room for this many points.
    pub(crate) fn reserve(&mut self, points: usize) -> Result<(), Error> {
        // More than are used: a hit is to find its point at once.
        self.points.reserve(points.saturating_mul(4))?;
        // None is found by more of its five.
        Ok(self.copies.reserve(points.saturating_mul(4))?)
    }
}

/// The addresses of copies by which a point is found.
pub(crate) const KEYS: usize = 5;

/// A point and what it has memory for.
pub(crate) struct Held {
    pub(crate) point: Arc<Point>,
    pub(crate) code: Code,
    pub(crate) text: TextAddress,
    /// Its breakpoint is there.
    pub(crate) armed: bool,
    /// ftrace calls us from there.
    pub(crate) called: Option<Kind>,
    /// It cannot be hit yet: it is part of a batch that is being prepared.
    pub(crate) fresh: bool,
    /// What the maps have given up of it: its own address, and those of its copies.
    pub(crate) removed: [Option<Removed<Point>>; 1 + KEYS],
    /// The next in its [`Chain`].
    pub(crate) next: Option<KBox<Held>>,
}

/// Points one behind the other, to which another can be added without memory.
pub(crate) struct Chain {
    first: Option<KBox<Held>>,
}

impl Chain {
    pub(crate) const fn new() -> Self {
        Self { first: None }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.first.is_none()
    }

    pub(crate) fn push(&mut self, mut held: KBox<Held>) {
        held.next = self.first.take();
        self.first = Some(held);
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Held> {
        core::iter::successors(self.first.as_deref(), |held| held.next.as_deref())
    }

    /// Frees points that were removed from the maps before this grace period, and that nobody is in any more.
    pub(crate) fn release(self, period: &GracePeriod) {
        for mut held in self {
            for removed in held.removed.iter_mut().filter_map(Option::take) {
                removed.release(period);
            }
        }
    }
}

/// Takes out one after the other.
impl Iterator for Chain {
    type Item = KBox<Held>;

    fn next(&mut self) -> Option<KBox<Held>> {
        let mut held = self.first.take()?;
        self.first = held.next.take();
        Some(held)
    }
}

impl Drop for Chain {
    fn drop(&mut self) {
        // One by one: dropping the first would drop all within each other.
        while self.next().is_some() {}
    }
}

impl Held {
    fn has_enabled(&self) -> bool {
        self.point.probes.iter().any(Kprobe::is_enabled)
    }

    /// The addresses by which it is found, beside its own; 0 is none.
    pub(crate) fn keys(&self) -> [usize; KEYS] {
        let point = &self.point;
        [
            point.copy,
            point.copy_end(),
            point.after.load(),
            point.after_end(),
            point.after_return(),
        ]
    }

    /// How ftrace is to call us from there.
    pub(crate) fn wanted_call(&self, enabled: bool) -> Option<Kind> {
        if !enabled || !self.has_enabled() || !matches!(self.point.run, Run::Ftrace) {
            return None;
        }
        Some(match self.point.has_post.load() {
            0 => Kind::Look,
            _ => Kind::Divert,
        })
    }

    /// Puts the breakpoint there, or takes it away, as it is wanted. Whether that was to be done and is.
    pub(crate) fn arm(&mut self, text: &mut TextLock, enabled: bool) -> Result<bool, Error> {
        let wanted = enabled && self.has_enabled();
        if wanted == self.armed || matches!(self.point.run, Run::Ftrace) {
            return Ok(false);
        }
        let byte = if wanted {
            BREAKPOINT
        } else {
            self.code.original
        };
        text.set_byte(self.text, byte).map_err(|_| Error::Gone)?;
        self.armed = wanted;
        Ok(true)
    }
}

/// Lets a probe be found, and its point if it is fresh. There is room for them.
pub(crate) fn publish(
    finders: &mut Finders,
    held: &mut Held,
    probe: Kprobe,
    text: &mut TextLock,
) -> Result<(), Error> {
    let point = held.point.clone();
    if held.fresh {
        held.code.write(&point, text)?;
        find_by(&mut finders.copies, &point, &[point.copy, point.copy_end()])?;
        find_by(&mut finders.points, &point, &[point.address])?;
        held.fresh = false;
    }
    if probe.has_post() {
        if point.needs_after() {
            held.code.write_after(&point, text)?;
            find_by(
                &mut finders.copies,
                &point,
                &[point.after.load(), point.after_end(), point.after_return()],
            )?;
        }
        point.has_post.store(1);
    }
    probe.set_original(held.code.original, point.copy);
    point.probes.push(probe);
    Ok(())
}

/// Has a point found by those of these addresses that are not 0.
fn find_by(writer: &mut Writer<Point>, point: &Arc<Point>, keys: &[usize]) -> Result<(), Error> {
    for key in keys.iter().filter(|key| **key != 0) {
        writer.insert(*key, point.clone()).ok_or(Error::NoMemory)?;
    }
    Ok(())
}
