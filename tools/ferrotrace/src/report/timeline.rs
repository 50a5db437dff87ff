// SPDX-License-Identifier: GPL-2.0

//! What a timeline shows, in bounded memory, of a recording whose length is not known before.
//!
//! Each track has [`BUCKETS`] buckets, with how much of their time is taken and how many instants they have; when time goes
//! beyond the last one, each two become one. The longest slices and, as long as there are not too many, all instants are kept
//! as they are, too.

#![deny(unsafe_code)]

use std::collections::BTreeMap;

use serde_json::Value as Json;
use serde_json::json;

use crate::export::tracks::Item;
use crate::export::tracks::Span;
use crate::export::tracks::Track;

/// Buckets of a track.
const BUCKETS: usize = 1024;

/// The most tracks. Later ones are counted only.
const TRACKS: usize = 256;

/// The most slices that are kept.
const SLICES: usize = 40_000;

/// The most instants that are kept.
const INSTANTS: usize = 20_000;

/// The most characters of a name.
const NAME: usize = 64;

#[derive(Debug)]
struct Lane {
    /// Nanoseconds of slices in each bucket; more than its length if slices are within others.
    busy: Vec<u64>,
    instants: Vec<u64>,
}

impl Default for Lane {
    fn default() -> Self {
        Self {
            busy: vec![0; BUCKETS],
            instants: vec![0; BUCKETS],
        }
    }
}

/// Each two buckets become one.
fn halve(buckets: &mut Vec<u64>) {
    let sums = buckets
        .chunks(2)
        .map(|two| two.iter().fold(0u64, |sum, one| sum.saturating_add(*one)));
    let mut sums: Vec<u64> = sums.collect();
    sums.resize(BUCKETS, 0);
    *buckets = sums;
}

#[derive(Clone, Copy, Debug)]
struct Slice {
    track: Track,
    from: u64,
    to: u64,
    name: u32,
}

impl Slice {
    fn length(&self) -> u64 {
        self.to.saturating_sub(self.from)
    }
}

/// Names by number.
#[derive(Debug, Default)]
struct Names {
    numbers: BTreeMap<String, u32>,
    names: Vec<String>,
}

impl Names {
    fn number(&mut self, name: &str) -> u32 {
        let name: String = name.chars().take(NAME).collect();
        if let Some(number) = self.numbers.get(&name) {
            return *number;
        }
        // Not more than slices and instants.
        let number = u32::try_from(self.names.len()).unwrap_or(u32::MAX);
        self.names.push(name.clone());
        self.numbers.insert(name, number);
        number
    }

    fn name(&self, number: u32) -> &str {
        let index = usize::try_from(number).ok();
        let name = index.and_then(|index| self.names.get(index));
        name.map_or("", String::as_str)
    }
}

/// A timeline.
#[derive(Debug)]
pub struct Timeline {
    /// The time of the first record.
    origin: Option<u64>,
    last: u64,
    /// Nanoseconds of a bucket.
    width: u64,
    lanes: BTreeMap<Track, Lane>,
    slices: Vec<Slice>,
    instants: Vec<(Track, u64, u32)>,
    names: Names,
    /// Slices that are shorter than this are not kept.
    shortest: u64,
    dropped_slices: u64,
    dropped_instants: u64,
    /// Number of items on tracks that did not fit.
    left_out: u64,
}

impl Default for Timeline {
    fn default() -> Self {
        Self {
            origin: None,
            last: 0,
            width: 1,
            lanes: BTreeMap::new(),
            slices: Vec::new(),
            instants: Vec::new(),
            names: Names::default(),
            shortest: 0,
            dropped_slices: 0,
            dropped_instants: 0,
            left_out: 0,
        }
    }
}

impl Timeline {
    /// Says when the first record was, and that nothing is drawn yet.
    pub fn begin(&mut self, at: u64) {
        self.origin.get_or_insert(at);
    }

    /// Takes something to draw.
    pub fn item(&mut self, item: &Item<'_>) {
        if !self.lanes.contains_key(&item.track) {
            if self.lanes.len() >= TRACKS {
                self.left_out += 1;
                return;
            }
            self.lanes.insert(item.track, Lane::default());
        }
        match item.span {
            Span::Instant(at) => self.instant(item.track, at, item.name),
            Span::Slice(from, to) => self.slice(item.track, from, to, item.name),
        }
    }

    /// The bucket of a time, after those of later times have been made.
    fn bucket(&mut self, at: u64) -> usize {
        let origin = *self.origin.get_or_insert(at);
        self.last = self.last.max(at);
        let after = at.saturating_sub(origin);
        let most = u64::try_from(BUCKETS).unwrap_or(u64::MAX);
        while after / self.width >= most {
            self.width = self.width.saturating_mul(2);
            for lane in self.lanes.values_mut() {
                halve(&mut lane.busy);
                halve(&mut lane.instants);
            }
        }
        usize::try_from(after / self.width).unwrap_or(0)
    }

    fn instant(&mut self, track: Track, at: u64, name: &str) {
        let bucket = self.bucket(at);
        let lane = self.lanes.get_mut(&track);
        if let Some(count) = lane.and_then(|lane| lane.instants.get_mut(bucket)) {
            *count += 1;
        }
        if self.dropped_instants == 0 && self.instants.len() < INSTANTS {
            let name = self.names.number(name);
            self.instants.push((track, at, name));
        } else {
            // All or none: a part would look like a part of the time.
            let dropped = std::mem::take(&mut self.instants).len();
            self.dropped_instants += 1 + u64::try_from(dropped).unwrap_or(0);
        }
    }

    fn slice(&mut self, track: Track, from: u64, to: u64, name: &str) {
        self.origin.get_or_insert(from);
        let last = self.bucket(to);
        let first = self.bucket(from);
        let (origin, width) = (self.origin.unwrap_or(from), self.width);
        if let Some(lane) = self.lanes.get_mut(&track) {
            let buckets = lane.busy.iter_mut().enumerate();
            for (index, busy) in buckets.skip(first).take(last - first + 1) {
                let index = u64::try_from(index).unwrap_or(u64::MAX);
                let begin = origin.saturating_add(index.saturating_mul(width));
                let end = begin.saturating_add(width);
                let part = to.min(end).saturating_sub(from.max(begin));
                *busy = busy.saturating_add(part);
            }
        }
        if to.saturating_sub(from) < self.shortest {
            self.dropped_slices += 1;
            return;
        }
        let name = self.names.number(name);
        self.slices.push(Slice {
            track,
            from,
            to,
            name,
        });
        if self.slices.len() >= SLICES {
            self.prune();
        }
    }

    /// Drops the shortest slices, until there is room for as many again.
    fn prune(&mut self) {
        while self.slices.len() > SLICES / 2 {
            self.shortest = self.shortest.saturating_mul(2).max(1);
            let before = self.slices.len();
            let shortest = self.shortest;
            if shortest == u64::MAX {
                self.slices.clear();
            }
            self.slices.retain(|slice| slice.length() >= shortest);
            let dropped = before - self.slices.len();
            self.dropped_slices += u64::try_from(dropped).unwrap_or(0);
        }
        // Names that are not used any more.
        let old = std::mem::take(&mut self.names);
        for slice in &mut self.slices {
            slice.name = self.names.number(old.name(slice.name));
        }
        for (_, _, name) in &mut self.instants {
            *name = self.names.number(old.name(*name));
        }
    }

    /// Returns the data that the page draws. Times are nanoseconds from the first record.
    pub fn json(&self) -> Json {
        let origin = self.origin.unwrap_or(0);
        let relative = |time: u64| match time.checked_sub(origin) {
            Some(after) => i64::try_from(after).unwrap_or(i64::MAX),
            None => -i64::try_from(origin - time).unwrap_or(i64::MAX),
        };
        let numbers: BTreeMap<Track, usize> = self.lanes.keys().copied().zip(0..).collect();
        let number = |track: Track| numbers.get(&track).copied().unwrap_or(0);
        let filled = |buckets: &[u64]| -> Vec<(usize, u64)> {
            let buckets = buckets.iter().copied().enumerate();
            buckets.filter(|(_, value)| *value > 0).collect()
        };
        let tracks = self.lanes.iter().map(|(track, lane)| {
            json!({
                "name": track.to_string(),
                "busy": filled(&lane.busy),
                "instants": filled(&lane.instants),
            })
        });
        let mut slices = self.slices.clone();
        // Slices within others come after them.
        slices.sort_by_key(|slice| (slice.track, slice.from, u64::MAX - slice.to));
        let slices = slices.iter().map(|slice| {
            json!([
                number(slice.track),
                relative(slice.from),
                slice.length(),
                slice.name
            ])
        });
        let instants = self.instants.iter();
        let instants =
            instants.map(|(track, at, name)| json!([number(*track), relative(*at), name]));
        json!({
            "origin": origin.to_string(),
            "span": relative(self.last),
            "width": self.width,
            "names": self.names.names,
            "tracks": tracks.collect::<Vec<_>>(),
            "slices": slices.collect::<Vec<_>>(),
            "instants": instants.collect::<Vec<_>>(),
            "shortest": self.shortest,
            "dropped_slices": self.dropped_slices,
            "dropped_instants": self.dropped_instants,
            "left_out": self.left_out,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(track: Track, span: Span, name: &str) -> Item<'_> {
        Item {
            track,
            span,
            name,
            has_fields: false,
        }
    }

    fn sum(buckets: &[u64]) -> u64 {
        buckets.iter().sum()
    }

    /// Time that grows loses nothing of the density.
    #[test]
    fn buckets_grow_with_time() {
        let cpu = Track::Cpu(0);
        let mut timeline = Timeline::default();
        let mut busy = 0;
        for i in 0..40u32 {
            let at = 1_000 + (1u64 << i);
            timeline.item(&item(cpu, Span::Slice(at, at + u64::from(i)), "a"));
            timeline.item(&item(cpu, Span::Instant(at), "b"));
            busy += u64::from(i);
        }
        let lane = &timeline.lanes[&cpu];
        assert_eq!((lane.busy.len(), sum(&lane.busy)), (BUCKETS, busy));
        assert_eq!(sum(&lane.instants), 40);
        let span = timeline.last - timeline.origin.unwrap();
        assert!(span / timeline.width < 1024 && span / timeline.width >= 512);
        // A slice over everything is as long as it is.
        let (from, to) = (timeline.origin.unwrap(), timeline.last);
        let thread = Track::Thread(7);
        timeline.item(&item(thread, Span::Slice(from, to), "all"));
        assert_eq!(sum(&timeline.lanes[&thread].busy), to - from);
        // What began before the first record is cut in the buckets, and whole as a slice.
        timeline.item(&item(thread, Span::Slice(0, from + 5), "early"));
        assert_eq!(sum(&timeline.lanes[&thread].busy), to - from + 5);
        let json = timeline.json();
        let mut slices = json["slices"].as_array().unwrap().iter();
        let early = slices.find(|slice| slice[0] == 1).unwrap();
        assert_eq!(
            (early[1].as_i64(), early[2].as_u64()),
            (Some(-1_001), Some(1_006))
        );
    }

    #[test]
    fn the_longest_slices_are_kept() {
        let mut timeline = Timeline::default();
        let many = 10 * u64::try_from(SLICES).unwrap();
        for i in 0..many {
            let length = if i % 1000 == 0 { 1_000_000 } else { i % 97 };
            let name = format!("name{i}");
            let span = Span::Slice(i * 100, i * 100 + length);
            timeline.item(&item(Track::Thread(1), span, &name));
        }
        assert!(timeline.slices.len() < SLICES);
        assert!(timeline.names.names.len() < 2 * SLICES);
        let long = |slice: &&Slice| slice.length() == 1_000_000;
        assert_eq!(timeline.slices.iter().filter(long).count(), 400);
        let kept = u64::try_from(timeline.slices.len()).unwrap();
        assert_eq!(kept + timeline.dropped_slices, many);
        let last = timeline.slices.last().unwrap();
        assert_eq!(
            timeline.names.name(last.name),
            format!("name{}", last.from / 100)
        );
        let size = timeline.json().to_string().len();
        assert!(size < 8 << 20, "{size}");
    }

    #[test]
    fn many_instants_and_many_tracks() {
        let mut timeline = Timeline::default();
        let many = u64::try_from(INSTANTS).unwrap() + 10;
        for i in 0..many {
            timeline.item(&item(Track::Cpu(0), Span::Instant(i), "tick"));
        }
        assert!(timeline.instants.is_empty());
        assert_eq!(timeline.dropped_instants, many);
        assert_eq!(sum(&timeline.lanes[&Track::Cpu(0)].instants), many);
        for thread in 0..1_000 {
            timeline.item(&item(Track::Thread(thread), Span::Instant(5), "x"));
        }
        assert_eq!(timeline.lanes.len(), TRACKS);
        assert_eq!(timeline.left_out, 1_001 - 256);
        // The end of time.
        timeline.item(&item(Track::Cpu(0), Span::Instant(u64::MAX), "x"));
        assert_eq!(sum(&timeline.lanes[&Track::Cpu(0)].instants), many + 1);
    }
}
