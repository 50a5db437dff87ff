// SPDX-License-Identifier: GPL-2.0

//! Merging the records of all CPUs by time, in bounded memory.
//!
//! Each file is nearly sorted: a record takes its time before it takes its place, so that an
//! interrupt in between, or another CPU writing to the same global buffer, may put a later time
//! first. A window of a fixed number of records a file puts that right. What is out of order by
//! more is still reported, and counted.

#![deny(unsafe_code)]

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io;
use std::io::Read;

/// Records of each file that are looked at before one is chosen.
pub const WINDOW: usize = 1024;

/// A record and where it comes from.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Record {
    /// By this they are sorted.
    pub time: u64,
    /// The number of the file in the list given to [`Merge::new`].
    pub file: usize,
    /// The number of the record in its file.
    pub number: u64,
    /// Its bytes.
    pub bytes: Vec<u8>,
}

/// One file.
struct Input<R> {
    reader: R,
    file: usize,
    number: u64,
    ended: bool,
    truncated: usize,
    window: BinaryHeap<Reverse<Record>>,
}

impl<R: Read> Input<R> {
    /// Reads until the window is full or the file ends.
    fn fill(&mut self, size: usize, window: usize, time: &impl Fn(&[u8]) -> u64) -> io::Result<()> {
        while !self.ended && self.window.len() < window {
            let mut bytes = vec![0; size];
            let len = read_up_to(&mut self.reader, &mut bytes)?;
            if len < size {
                self.ended = true;
                self.truncated = len;
                break;
            }
            self.window.push(Reverse(Record {
                time: time(&bytes),
                file: self.file,
                number: self.number,
                bytes,
            }));
            self.number += 1;
        }
        Ok(())
    }
}

fn read_up_to(reader: &mut impl Read, into: &mut [u8]) -> io::Result<usize> {
    let mut done = 0;
    while let Some(room) = into.get_mut(done..).filter(|room| !room.is_empty()) {
        match reader.read(room) {
            Ok(0) => break,
            Ok(len) => done += len,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => (),
            Err(error) => return Err(error),
        }
    }
    Ok(done)
}

/// The records of all files in the order of their times.
pub struct Merge<R, F> {
    inputs: Vec<Input<R>>,
    /// The earliest record of each file that has one.
    heads: BinaryHeap<Reverse<(u64, usize)>>,
    size: usize,
    window: usize,
    time: F,
    last: u64,
    late: u64,
}

impl<R: Read, F: Fn(&[u8]) -> u64> Merge<R, F> {
    /// Starts merging records of `size` bytes, at least one, whose time `time` extracts.
    pub fn new(
        readers: impl IntoIterator<Item = R>,
        size: usize,
        window: usize,
        time: F,
    ) -> io::Result<Self> {
        let mut merge = Self {
            inputs: Vec::new(),
            heads: BinaryHeap::new(),
            size: size.max(1),
            window: window.max(1),
            time,
            last: 0,
            late: 0,
        };
        for (file, reader) in readers.into_iter().enumerate() {
            merge.inputs.push(Input {
                reader,
                file,
                number: 0,
                ended: false,
                truncated: 0,
                window: BinaryHeap::new(),
            });
            merge.advance(file)?;
        }
        Ok(merge)
    }

    /// Fills the window of a file and puts its earliest record up for choice.
    fn advance(&mut self, file: usize) -> io::Result<()> {
        if let Some(input) = self.inputs.get_mut(file) {
            input.fill(self.size, self.window, &self.time)?;
            if let Some(Reverse(record)) = input.window.peek() {
                self.heads.push(Reverse((record.time, file)));
            }
        }
        Ok(())
    }

    /// The next record.
    fn take(&mut self) -> io::Result<Option<Record>> {
        let Some(Reverse((_, file))) = self.heads.pop() else {
            return Ok(None);
        };
        let record = self
            .inputs
            .get_mut(file)
            .and_then(|input| input.window.pop());
        self.advance(file)?;
        let Some(Reverse(record)) = record else {
            return Ok(None);
        };
        if record.time < self.last {
            self.late += 1;
        }
        self.last = self.last.max(record.time);
        Ok(Some(record))
    }

    /// Records given so far that are earlier than one given before.
    pub fn late(&self) -> u64 {
        self.late
    }

    /// The files that end inside a record, and how many bytes of it there are. Complete only when
    /// all records have been taken.
    pub fn truncated(&self) -> impl Iterator<Item = (usize, usize)> {
        self.inputs
            .iter()
            .filter(|input| input.truncated > 0)
            .map(|input| (input.file, input.truncated))
    }
}

impl<R: Read, F: Fn(&[u8]) -> u64> Iterator for Merge<R, F> {
    type Item = io::Result<Record>;

    fn next(&mut self) -> Option<Self::Item> {
        self.take().transpose()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SIZE: usize = 16;

    fn time(record: &[u8]) -> u64 {
        u64::from_ne_bytes(record[..8].try_into().unwrap())
    }

    fn file(records: &[(u64, u64)], extra: usize) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (time, payload) in records {
            bytes.extend(time.to_ne_bytes());
            bytes.extend(payload.to_ne_bytes());
        }
        bytes.resize(bytes.len() + extra, 0xee);
        bytes
    }

    /// Gives its bytes in pieces, as a file may.
    struct Pieces<'a>(&'a [u8], usize);

    impl Read for Pieces<'_> {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            self.1 = self.1 % 7 + 1;
            let len = self.1.min(into.len()).min(self.0.len());
            into[..len].copy_from_slice(&self.0[..len]);
            self.0 = &self.0[len..];
            Ok(len)
        }
    }

    fn drain(files: &[Vec<u8>], window: usize) -> (Vec<Record>, u64, Vec<(usize, usize)>) {
        let readers = files.iter().map(|bytes| Pieces(bytes, 0));
        let mut merge = Merge::new(readers, SIZE, window, time).unwrap();
        let mut records = Vec::new();
        for record in &mut merge {
            records.push(record.unwrap());
        }
        (records, merge.late(), merge.truncated().collect())
    }

    proptest! {
        #[test]
        fn sorted_files_give_a_sorted_whole(
            mut files in prop::collection::vec(
                prop::collection::vec((0u64..50, any::<u64>()), 0..40), 0..6),
            extra in 0usize..SIZE,
            window in 1usize..5,
        ) {
            for records in &mut files {
                records.sort_by_key(|record| record.0);
            }
            let bytes: Vec<_> = files.iter().map(|records| file(records, extra)).collect();
            let (merged, late, truncated) = drain(&bytes, window);

            prop_assert_eq!(late, 0);
            prop_assert!(merged.is_sorted_by_key(|record| record.time));
            let mut got: Vec<_> = merged
                .iter()
                .map(|record| (record.file, record.time, record.bytes.clone()))
                .collect();
            let mut all: Vec<_> = files
                .iter()
                .enumerate()
                .flat_map(|(i, records)| records.iter().map(move |r| (i, r.0, file(&[*r], 0))))
                .collect();
            got.sort();
            all.sort();
            prop_assert_eq!(got, all);
            // Records of one file and one time keep their order.
            for a in merged.windows(2) {
                if a[0].file == a[1].file {
                    prop_assert!(a[0].time < a[1].time || a[0].number < a[1].number);
                }
            }
            let expected = if extra > 0 { files.len() } else { 0 };
            prop_assert_eq!(truncated.len(), expected);
            prop_assert!(truncated.iter().all(|&(_, len)| len == extra));
        }

        /// Disorder within the window disappears; beyond it nothing is lost and it is counted.
        #[test]
        fn disorder_within_the_window_is_put_right(
            times in prop::collection::vec(0u64..1000, 0..60),
            window in 1usize..8,
        ) {
            let records: Vec<_> = times.iter().map(|&time| (time, time)).collect();
            let (merged, late, _) = drain(&[file(&records, 0)], window);
            let got: Vec<_> = merged.iter().map(|record| record.time).collect();
            let unsorted = got.iter().scan(0, |max, &time| {
                let late = time < *max;
                *max = time.max(*max);
                Some(u64::from(late))
            });
            prop_assert_eq!(unsorted.sum::<u64>(), late);
            // A record is out of place by less than the window if fewer than that many earlier
            // ones come after it.
            let near = times.iter().enumerate().all(|(i, time)| {
                times[i..].iter().filter(|later| *later < time).count() < window
                    && times[..i].iter().filter(|before| *before > time).count() < window
            });
            if near {
                prop_assert_eq!(late, 0);
            }
            let mut sorted = times.clone();
            sorted.sort_unstable();
            let mut again = got;
            again.sort_unstable();
            prop_assert_eq!(again, sorted);
        }
    }
}
