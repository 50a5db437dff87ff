// SPDX-License-Identifier: GPL-2.0

//! Data of a timeline, in bounded memory, of a recording whose length is not known before.
//!
//! All slices and instants are kept, up to [`MOST`] of each: then the longest slices only, and no
//! instants. For those, each track has [`BUCKETS`] buckets, with the time taken and the number of
//! instants in each. When time exceeds the last one, each two become one.

#![deny(unsafe_code)]

use std::collections::BTreeMap;

use miniz_oxide::deflate::compress_to_vec;
use serde_json::Value as Json;
use serde_json::json;

use super::items::Fields;
use super::items::Kept;
use super::items::Texts;
use super::items::base64;
use super::items::stream;
use crate::export::tracks::Item;
use crate::export::tracks::Span;
use crate::export::tracks::Track;
use crate::merge::format::Format;
use crate::merge::source::Event;
use crate::text::printable;

/// Buckets of a track.
const BUCKETS: usize = 1024;

/// The most tracks. Later ones are counted only.
const TRACKS: usize = 256;

/// The most slices that are kept, and the most instants.
const MOST: usize = 1_500_000;

/// The most threads with names.
const COMMS: usize = 1 << 16;

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

/// Makes one bucket of each two.
fn halve(buckets: &mut Vec<u64>) {
    let sums = buckets
        .chunks(2)
        .map(|two| two.iter().fold(0u64, |sum, one| sum.saturating_add(*one)));
    let mut sums: Vec<u64> = sums.collect();
    sums.resize(BUCKETS, 0);
    *buckets = sums;
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
    /// The most slices, and the most instants.
    most: usize,
    slices: Vec<Kept>,
    instants: Vec<Kept>,
    names: Texts,
    fields: Fields,
    comms: BTreeMap<i64, String>,
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
            most: MOST,
            slices: Vec::new(),
            instants: Vec::new(),
            names: Texts::default(),
            fields: Fields::default(),
            comms: BTreeMap::new(),
            shortest: 0,
            dropped_slices: 0,
            dropped_instants: 0,
            left_out: 0,
        }
    }
}

impl Timeline {
    /// Sets the time of the first record, unless it is known.
    pub fn begin(&mut self, at: u64) {
        self.origin.get_or_insert(at);
    }

    /// Takes the name that a thread has.
    pub fn comm(&mut self, thread: i64, comm: &str) {
        let comm = &*printable(comm);
        let has_room = self.comms.len() < COMMS;
        match self.comms.get_mut(&thread) {
            Some(known) if known == comm => (),
            Some(known) => comm.clone_into(known),
            None if has_room => {
                self.comms.insert(thread, comm.to_owned());
            }
            None => (),
        }
    }

    /// Takes something to draw, with its record if it has fields.
    pub fn item(&mut self, item: &Item<'_>, record: Option<(&Event, &Format)>) {
        if !self.lanes.contains_key(&item.track) {
            if self.lanes.len() >= TRACKS {
                self.left_out += 1;
                return;
            }
            self.lanes.insert(item.track, Lane::default());
        }
        match item.span {
            Span::Instant(at) => self.instant(item, at, record),
            Span::Slice(from, to) => self.slice(item, (from, to), record),
        }
    }

    fn kept(
        &mut self,
        item: &Item<'_>,
        from: u64,
        to: Option<u64>,
        record: Option<(&Event, &Format)>,
    ) -> Kept {
        let fields = record.map(|(event, format)| self.fields.add(event, format, &mut self.names));
        Kept {
            track: item.track,
            from,
            to,
            name: self.names.number(item.name),
            fields: fields.unwrap_or_default(),
        }
    }

    /// Returns the bucket of a time. Beyond the last one, each two buckets become one first.
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

    fn instant(&mut self, item: &Item<'_>, at: u64, record: Option<(&Event, &Format)>) {
        let bucket = self.bucket(at);
        let lane = self.lanes.get_mut(&item.track);
        if let Some(count) = lane.and_then(|lane| lane.instants.get_mut(bucket)) {
            *count += 1;
        }
        if self.dropped_instants == 0 && self.instants.len() < self.most {
            let kept = self.kept(item, at, None, record);
            self.instants.push(kept);
        } else {
            // All or none: a part would look like a part of the time.
            let dropped = std::mem::take(&mut self.instants).len();
            self.dropped_instants += 1 + u64::try_from(dropped).unwrap_or(0);
            if dropped > 0 {
                self.fields.keep(&mut self.slices);
            }
        }
    }

    fn slice(
        &mut self,
        item: &Item<'_>,
        (from, to): (u64, u64),
        record: Option<(&Event, &Format)>,
    ) {
        self.origin.get_or_insert(from);
        let last = self.bucket(to);
        let first = self.bucket(from);
        let (origin, width) = (self.origin.unwrap_or(from), self.width);
        if let Some(lane) = self.lanes.get_mut(&item.track) {
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
        let kept = self.kept(item, from, Some(to), record);
        self.slices.push(kept);
        if self.slices.len() > self.most {
            self.prune();
        }
    }

    /// Drops the shortest slices, until there is room for as many again.
    fn prune(&mut self) {
        while self.slices.len() > self.most / 2 {
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
        let slices = self.slices.len();
        let mut all = std::mem::take(&mut self.slices);
        all.append(&mut self.instants);
        self.fields.keep(&mut all);
        self.instants = all.split_off(slices);
        self.slices = all;
    }

    /// Returns the data that the page draws: tables, and the items as text. Times are nanoseconds
    /// from the first record.
    pub fn data(&self) -> (Json, String) {
        let origin = self.origin.unwrap_or(0);
        let relative = |time: u64| match time.checked_sub(origin) {
            Some(after) => i64::try_from(after).unwrap_or(i64::MAX),
            None => -i64::try_from(origin - time).unwrap_or(i64::MAX),
        };
        let mut items = [self.slices.as_slice(), &self.instants].concat();
        // Slices within others come after them.
        items.sort_by_key(|item| (item.track, item.from, u64::MAX - item.length()));
        let mut counts: BTreeMap<Track, u64> = BTreeMap::new();
        for item in &items {
            *counts.entry(item.track).or_default() += 1;
        }
        let filled = |buckets: &[u64], dropped: u64| -> Vec<(usize, u64)> {
            let buckets = buckets.iter().copied().enumerate();
            buckets
                .filter(|(_, value)| dropped > 0 && *value > 0)
                .collect()
        };
        let tracks = self.lanes.iter().map(|(track, lane)| {
            let (kind, comm) = match track {
                Track::Cpu(_) => ("cpu", None),
                Track::Thread(thread) => ("thread", self.comms.get(thread)),
            };
            json!({
                "name": track.to_string(),
                "kind": kind,
                "comm": comm,
                "items": counts.get(track).copied().unwrap_or(0),
                "busy": filled(&lane.busy, self.dropped_slices),
                "instants": filled(&lane.instants, self.dropped_instants),
            })
        });
        let first = items.iter().map(|item| item.from).min().unwrap_or(origin);
        let mut data = json!({
            "first": relative(first),
            "span": relative(self.last.max(origin)),
            "width": self.width,
            "names": self.names.all(),
            "tracks": tracks.collect::<Vec<_>>(),
            "dropped_slices": self.dropped_slices,
            "dropped_instants": self.dropped_instants,
            "left_out": self.left_out,
            "without_fields": self.fields.left_out,
        });
        if let Some(data) = data.as_object_mut() {
            let tables = self.fields.json().into_iter();
            data.extend(tables.map(|(name, table)| (name.to_owned(), table)));
        }
        let items = stream(&items, &self.fields, first);
        (data, base64(&compress_to_vec(&items, 6)))
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
            timeline.item(&item(cpu, Span::Slice(at, at + u64::from(i)), "a"), None);
            timeline.item(&item(cpu, Span::Instant(at), "b"), None);
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
        timeline.item(&item(thread, Span::Slice(from, to), "all"), None);
        assert_eq!(sum(&timeline.lanes[&thread].busy), to - from);
        // What began before the first record is cut in the buckets, and whole as a slice.
        timeline.item(&item(thread, Span::Slice(0, from + 5), "early"), None);
        assert_eq!(sum(&timeline.lanes[&thread].busy), to - from + 5);
        let (json, _) = timeline.data();
        assert_eq!(json["first"].as_i64(), Some(-1_001));
        let early = timeline.slices.iter().find(|slice| slice.from == 0);
        assert_eq!(early.unwrap().length(), 1_006);
    }

    /// The limits hold, and everything is counted.
    #[test]
    fn the_longest_slices_are_kept() {
        let mut timeline = Timeline {
            most: 10_000,
            ..Timeline::default()
        };
        let many = 10_010;
        for i in 0..many {
            let length = if i % 1000 == 0 { 1_000_000 } else { i % 97 };
            let span = Span::Slice(i * 100, i * 100 + length);
            timeline.item(&item(Track::Thread(1), span, "name"), None);
        }
        assert!(timeline.slices.len() < 10_000);
        let long = |slice: &&Kept| slice.length() == 1_000_000;
        let kept = timeline.slices.iter().filter(long).count();
        assert_eq!(u64::try_from(kept).unwrap(), many.div_ceil(1000));
        let kept = u64::try_from(timeline.slices.len()).unwrap();
        assert_eq!(kept + timeline.dropped_slices, many);
    }

    #[test]
    fn many_instants_and_many_tracks() {
        let mut timeline = Timeline {
            most: 10_000,
            ..Timeline::default()
        };
        let many = 10_010;
        for i in 0..many {
            timeline.item(&item(Track::Cpu(0), Span::Instant(i), "tick"), None);
        }
        assert!(timeline.instants.is_empty());
        assert_eq!(timeline.dropped_instants, many);
        assert_eq!(sum(&timeline.lanes[&Track::Cpu(0)].instants), many);
        for thread in 0..1_000 {
            let track = Track::Thread(thread);
            timeline.item(&item(track, Span::Instant(5), "x"), None);
        }
        assert_eq!(timeline.lanes.len(), TRACKS);
        assert_eq!(timeline.left_out, 1_001 - 256);
        // The end of time.
        let end = Span::Instant(u64::MAX);
        timeline.item(&item(Track::Cpu(0), end, "x"), None);
        assert_eq!(sum(&timeline.lanes[&Track::Cpu(0)].instants), many + 1);
        assert!(timeline.data().0["span"].is_i64());
    }
}
