// SPDX-License-Identifier: GPL-2.0

//! Slices that overlap, on tracks whose slices have to be within each other.
//!
//! Calls are within each other, and come in the order of their ends. But records with a duration may be of something else, and two
//! calls may begin in the same nanosecond, so that it is not known which is within the other. Such slices go to another lane:
//! a further track of the same thread.

#![deny(unsafe_code)]

use std::collections::BTreeMap;
use std::collections::VecDeque;

use super::tracks::Track;

/// The most lanes of a track; the last one takes whatever comes.
const LANES: usize = 8;

/// How many of its last slices a lane knows, without those within them.
const KNOWN: usize = 64;

/// The last slices of a lane, from when to when.
#[derive(Debug, Default)]
struct Lane(VecDeque<(u64, u64)>);

impl Lane {
    fn has_room(&self, from: u64, to: u64) -> bool {
        self.0.iter().all(|&(begin, end)| {
            let apart = end <= from || to <= begin;
            let around = from < begin && end <= to;
            let within = begin < from && to <= end;
            apart || around || within
        })
    }

    fn add(&mut self, from: u64, to: u64) {
        self.0.retain(|&(begin, end)| begin < from || to < end);
        if self.0.len() >= KNOWN {
            self.0.pop_front();
        }
        self.0.push_back((from, to));
    }
}

/// The lanes of all tracks.
#[derive(Debug, Default)]
pub struct Lanes(BTreeMap<Track, Vec<Lane>>);

impl Lanes {
    /// The number of the lane for a slice, from 0.
    pub fn place(&mut self, track: Track, from: u64, to: u64) -> u32 {
        let lanes = self.0.entry(track).or_default();
        let free = lanes.iter().position(|lane| lane.has_room(from, to));
        let index = match free {
            Some(index) => index,
            None if lanes.len() < LANES => {
                lanes.push(Lane::default());
                lanes.len() - 1
            }
            None => LANES - 1,
        };
        if let Some(lane) = lanes.get_mut(index) {
            lane.add(from, to);
        }
        u32::try_from(index).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(slices: &[(u64, u64)]) -> Vec<u32> {
        let mut lanes = Lanes::default();
        let place = |&(from, to): &(u64, u64)| lanes.place(Track::Thread(1), from, to);
        slices.iter().map(place).collect()
    }

    #[test]
    fn calls_within_calls_are_one_lane() {
        assert_eq!(places(&[(2, 3), (4, 5), (1, 6), (6, 9), (0, 10)]), [0; 5]);
        // A record that came late.
        assert_eq!(places(&[(0, 10), (2, 3), (10, 11)]), [0; 3]);
    }

    #[test]
    fn what_overlaps_is_another_lane() {
        assert_eq!(places(&[(1, 4), (2, 5), (3, 6), (6, 7)]), [0, 1, 2, 0]);
        // Nobody knows which of two that begin at once is within the other.
        assert_eq!(places(&[(2, 3), (2, 5), (1, 6)]), [0, 1, 0]);
        // However many there are.
        let many: Vec<_> = (0..100).map(|i| (i, 200 + i)).collect();
        assert!(places(&many).iter().all(|lane| *lane < 8));
    }
}
