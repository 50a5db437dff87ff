// SPDX-License-Identifier: GPL-2.0

//! Merging the records of all CPUs by time, in bounded memory.
//!
//! Each file is nearly sorted: a writer reads the clock before it reserves the place, so an
//! interrupt in between, or another CPU that writes to the same global buffer, may put a later time
//! first. A window of some records of each file sorts these. Records that are out of order by more
//! are returned late, and counted.

#![deny(unsafe_code)]

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::VecDeque;
use std::io;

use super::source::Damage;
use super::source::Event;
use super::source::Source;

/// How much of each file is read ahead before a record is chosen: the smaller of both, but at least
/// two records.
#[derive(Clone, Copy, Debug)]
pub struct Window {
    /// That many records.
    pub records: usize,
    /// That many bytes of records.
    pub bytes: usize,
}

impl Default for Window {
    fn default() -> Self {
        Self {
            records: 1024,
            bytes: 64 << 10,
        }
    }
}

/// A file that cannot be read to its end.
#[derive(Debug)]
pub struct Unreadable {
    /// Its number in the list given to [`Merge::new`].
    pub file: usize,
    /// The system's answer.
    pub source: io::Error,
}

/// One file.
struct Input<S> {
    source: S,
    ended: bool,
    /// The latest time read.
    latest: u64,
    /// Sorted by time; records with the same time in the order of the file.
    window: VecDeque<Event>,
    bytes: usize,
}

impl<S: Source> Input<S> {
    /// Reads until the window is full or the file ends. Returns how many records were put before
    /// others.
    fn fill(&mut self, window: Window) -> io::Result<u64> {
        let mut moved = 0;
        while !self.ended
            && (self.window.len() < 2
                || self.window.len() < window.records && self.bytes < window.bytes)
        {
            let Some(event) = self.source.next()? else {
                self.ended = true;
                break;
            };
            self.bytes += event.bytes.len();
            if event.time >= self.latest {
                self.latest = event.time;
                self.window.push_back(event);
            } else {
                moved += 1;
                let before = |other: &Event| other.time <= event.time;
                let index = self.window.partition_point(before);
                self.window.insert(index, event);
            }
        }
        Ok(moved)
    }

    fn pop(&mut self) -> Option<Event> {
        let event = self.window.pop_front()?;
        self.bytes -= event.bytes.len();
        Some(event)
    }
}

/// The records of all files in the order of their times; records with the same time in the order of
/// the files, then of the file.
pub struct Merge<S> {
    inputs: Vec<Input<S>>,
    /// The earliest time of each file that has one.
    heads: BinaryHeap<Reverse<(u64, usize)>>,
    window: Window,
    last: u64,
    moved: u64,
    late: u64,
}

impl<S: Source> Merge<S> {
    /// Starts merging.
    pub fn new(sources: impl IntoIterator<Item = S>, window: Window) -> Result<Self, Unreadable> {
        let mut merge = Self {
            inputs: Vec::new(),
            heads: BinaryHeap::new(),
            window,
            last: 0,
            moved: 0,
            late: 0,
        };
        for (file, source) in sources.into_iter().enumerate() {
            merge.inputs.push(Input {
                source,
                ended: false,
                latest: 0,
                window: VecDeque::new(),
                bytes: 0,
            });
            merge.advance(file)?;
        }
        Ok(merge)
    }

    /// Fills the window of a file and makes its earliest record a candidate.
    fn advance(&mut self, file: usize) -> Result<(), Unreadable> {
        if let Some(input) = self.inputs.get_mut(file) {
            let filled = input.fill(self.window);
            self.moved += filled.map_err(|source| Unreadable { file, source })?;
            if let Some(event) = input.window.front() {
                self.heads.push(Reverse((event.time, file)));
            }
        }
        Ok(())
    }

    fn take(&mut self) -> Result<Option<Event>, Unreadable> {
        let Some(Reverse((_, file))) = self.heads.pop() else {
            return Ok(None);
        };
        let event = self.inputs.get_mut(file).and_then(Input::pop);
        self.advance(file)?;
        if let Some(event) = &event {
            self.late += u64::from(event.time < self.last);
            self.last = self.last.max(event.time);
        }
        Ok(event)
    }

    /// Records read so far that are earlier than one before them in their file.
    pub fn moved(&self) -> u64 {
        self.moved
    }

    /// Records returned so far that are earlier than one returned before: the window was too small.
    pub fn late(&self) -> u64 {
        self.late
    }

    /// The damage of each file, with the file's number. Complete only when all records have been
    /// taken.
    pub fn damage(&self) -> impl Iterator<Item = (usize, Damage)> {
        let inputs = self.inputs.iter().enumerate();
        inputs.filter_map(|(file, input)| Some((file, input.source.damage()?)))
    }
}

impl<S: Source> Iterator for Merge<S> {
    type Item = Result<Event, Unreadable>;

    fn next(&mut self) -> Option<Self::Item> {
        self.take().transpose()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A file of prepared records.
    struct File(std::vec::IntoIter<Event>);

    impl Source for File {
        fn next(&mut self) -> io::Result<Option<Event>> {
            Ok(self.0.next())
        }

        fn damage(&self) -> Option<Damage> {
            None
        }
    }

    /// Files of records that contain their number and have different lengths.
    fn files(times: &[Vec<u64>]) -> Vec<Vec<Event>> {
        let mut files = Vec::new();
        for (cpu, times) in (0u32..).zip(times) {
            let events = times.iter().zip(0u64..).map(|(&time, number)| Event {
                time,
                timed: true,
                cpu,
                ty: 0,
                bytes: number
                    .to_ne_bytes()
                    .repeat((number % 5).try_into().unwrap()),
            });
            files.push(events.collect());
        }
        files
    }

    fn merge(files: &[Vec<Event>], window: Window) -> (Vec<Event>, u64, u64) {
        let files = files.iter().map(|events| File(events.clone().into_iter()));
        let mut merge = Merge::new(files, window).unwrap();
        let events = merge.by_ref().map(Result::unwrap).collect();
        (events, merge.moved(), merge.late())
    }

    fn windows() -> impl Strategy<Value = Window> {
        let window = (2usize..9, prop_oneof![Just(0), Just(100), Just(1 << 20)]);
        window.prop_map(|(records, bytes)| Window { records, bytes })
    }

    proptest! {
        /// A merge of sorted files is their stable sort by time.
        #[test]
        fn sorted_files_give_a_sorted_whole(
            mut times in prop::collection::vec(prop::collection::vec(0u64..50, 0..40), 0..6),
            window in windows(),
        ) {
            times.iter_mut().for_each(|times| times.sort());
            let files = files(&times);
            let mut sorted = files.concat();
            sorted.sort_by_key(|event| event.time);
            prop_assert_eq!(merge(&files, window), (sorted, 0, 0));
        }

        /// The same holds while each record is less out of place than the window is wide.
        #[test]
        fn disorder_within_the_window_is_put_right(
            times in prop::collection::vec(prop::collection::vec(0u64..50, 0..40), 0..6),
            swaps in prop::collection::vec(any::<prop::sample::Index>(), 0..9),
            records in 2usize..9,
        ) {
            let mut times = times;
            for times in &mut times {
                times.sort();
                // Moves the record at i back by up to records - 1 places; each place once.
                let mut free = 0;
                for swap in &swaps {
                    let i = free + swap.index(10);
                    let to = i + (swap.index(records));
                    if to < times.len() {
                        times[i..=to].rotate_left(1);
                        free = to + 1;
                    }
                }
            }
            let files = files(&times);
            let mut sorted = files.concat();
            sorted.sort_by_key(|event| event.time);
            let earlier = |times: &Vec<u64>| {
                let mut latest = 0;
                let moved = times.iter().filter(|time| {
                    latest = latest.max(**time);
                    **time < latest
                });
                moved.count()
            };
            let moved: usize = times.iter().map(earlier).sum();
            let window = Window { records, bytes: usize::MAX };
            prop_assert_eq!(merge(&files, window), (sorted, moved.try_into().unwrap(), 0));
        }

        /// Whatever the disorder, nothing is lost, and what comes too late is counted.
        #[test]
        fn nothing_is_lost(
            times in prop::collection::vec(prop::collection::vec(any::<u64>(), 0..40), 0..6),
            window in windows(),
        ) {
            let files = files(&times);
            let (mut merged, moved, late) = merge(&files, window);
            let mut latest = 0;
            let mut backwards = 0;
            for event in &merged {
                backwards += u64::from(event.time < latest);
                latest = latest.max(event.time);
            }
            prop_assert_eq!(late, backwards);
            prop_assert!(late == 0 || moved > 0);
            let mut all = files.concat();
            let key = |event: &Event| (event.time, event.cpu, event.bytes.clone());
            all.sort_by_key(key);
            merged.sort_by_key(key);
            prop_assert_eq!(merged, all);
        }
    }
}
