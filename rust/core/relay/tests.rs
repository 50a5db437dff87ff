// SPDX-License-Identifier: GPL-2.0

//! Property tests: a relay buffer simulated with this arithmetic against a plain byte queue.

use super::*;
use proptest::collection::vec;
use proptest::prelude::*;

/// A buffer in memory, written as `<linux/relay.h>` writes and read as the engine reads.
struct Sim {
    geometry: Geometry,
    overwrite: bool,
    header: usize,
    memory: Vec<u8>,
    padding: Vec<usize>,
    view: View,
    position: Position,
}

impl Sim {
    fn new(geometry: Geometry, overwrite: bool, header: usize) -> Self {
        let mut sim = Self {
            geometry,
            overwrite,
            header,
            memory: vec![0xee; geometry.bytes()],
            padding: vec![0; geometry.n_subbufs()],
            view: View {
                produced: 0,
                offset: 0,
            },
            position: Position {
                consumed: 0,
                bytes: 0,
            },
        };
        sim.start();
        sim
    }

    /// Calls the client's `subbuf_start()`, and acts as the engine does.
    fn start(&mut self) -> bool {
        let full = self.view.produced - self.position.consumed >= self.geometry.n_subbufs();
        if full && !self.overwrite {
            self.view.offset = self.geometry.blocked();
            return false;
        }
        let at = self
            .geometry
            .start(self.geometry.index(self.view.produced))
            .get();
        self.memory[at..at + self.header].fill(b'H');
        self.view.offset = self.header;
        true
    }

    /// Returns true if the record was written.
    fn write(&mut self, record: &[u8]) -> bool {
        if !self.geometry.fits(self.view.offset, record.len()) {
            if record.len() > self.geometry.subbuf_size() {
                return false;
            }
            if let Some(closed) = self.geometry.close(self.view.produced, self.view.offset) {
                self.padding[closed.index.get()] = closed.padding;
                self.view.produced += 1;
            }
            if !self.start() || !self.geometry.fits(self.view.offset, record.len()) {
                return false;
            }
        }
        let index = self.geometry.index(self.view.produced);
        let at = self.geometry.start(index).get() + self.view.offset;
        self.memory[at..at + record.len()].copy_from_slice(record);
        self.view.offset += record.len();
        true
    }

    fn read(&mut self, mut count: usize) -> Vec<u8> {
        let mut out = Vec::new();
        loop {
            let padding = &self.padding;
            let (position, chunk) = self
                .position
                .next_chunk(&self.geometry, self.view, |i| padding[i.get()]);
            self.position = position;
            let Some(chunk) = chunk.filter(|_| count > 0) else {
                return out;
            };
            let len = chunk.len.min(count);
            let at = chunk.start.get();
            out.extend_from_slice(&self.memory[at..at + len]);
            self.position = position.advance(len);
            count -= len;
        }
    }
}

#[derive(Clone, Debug)]
enum Op {
    Write(usize),
    Read(usize),
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    vec(
        prop_oneof![
            3 => (0usize..40).prop_map(Op::Write),
            1 => (0usize..100).prop_map(Op::Read),
        ],
        1..120,
    )
}

/// Runs under Miri too, with fewer cases.
fn config() -> ProptestConfig {
    ProptestConfig {
        cases: if cfg!(miri) { 4 } else { 2000 },
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(config())]

    /// No-overwrite mode loses no accepted record, adds none, and keeps the order.
    #[test]
    fn no_overwrite_is_a_queue(size in 1usize..64, n in 1usize..6, ops in ops()) {
        let geometry = Geometry::new(size, n).unwrap();
        let mut sim = Sim::new(geometry, false, 0);
        let mut written = Vec::new();
        let mut read = Vec::new();
        let mut next = 0u8;
        for op in ops {
            match op {
                Op::Write(len) => {
                    let record: Vec<u8> = (0..len).map(|i| next.wrapping_add(i as u8)).collect();
                    if sim.write(&record) {
                        written.extend_from_slice(&record);
                        next = next.wrapping_add(len as u8);
                    } else {
                        // Only a full buffer or too large a record justifies a refusal.
                        let full = sim.view.produced - sim.position.consumed >= n;
                        prop_assert!(full || len > size);
                    }
                }
                Op::Read(count) => {
                    let got = sim.read(count);
                    prop_assert!(got.len() <= count);
                    read.extend(got);
                }
            }
        }
        read.extend(sim.read(usize::MAX));
        prop_assert_eq!(read, written);
    }

    /// Overwrite mode never refuses, and a reader that drains at the end gets exactly the newest
    /// sub-buffers, whole.
    #[test]
    fn overwrite_keeps_the_newest(
        size in 8usize..64,
        n in 1usize..6,
        header in 0usize..4,
        lens in vec(1usize..5, 1..200),
    ) {
        let geometry = Geometry::new(size, n).unwrap();
        let mut sim = Sim::new(geometry, true, header);
        let mut subbufs: Vec<Vec<u8>> = vec![vec![b'H'; header]];
        for (i, len) in lens.into_iter().enumerate() {
            let record = vec![i as u8; len];
            let before = sim.view.produced;
            prop_assert!(sim.write(&record));
            if sim.view.produced != before {
                subbufs.push(vec![b'H'; header]);
            }
            subbufs.last_mut().unwrap().extend(record);
        }
        let newest = subbufs.len().saturating_sub(n);
        prop_assert_eq!(sim.read(usize::MAX), subbufs[newest..].concat());
    }

    /// A chunk is inside of the buffer and of one sub-buffer, for any counters: user space and
    /// clients can make them inconsistent.
    #[test]
    fn chunks_stay_inside(
        size in 1usize..64,
        n in 1usize..6,
        view in any::<(usize, usize)>(),
        position in any::<(usize, usize)>(),
        near in any::<bool>(),
        padding in any::<usize>(),
    ) {
        let geometry = Geometry::new(size, n).unwrap();
        let (produced, offset) = view;
        let consumed = if near { produced.wrapping_sub(position.0 % 8) } else { position.0 };
        let offset = if near { offset % (size + 2) } else { offset };
        let position = Position { consumed, bytes: position.1 % (size + 2) };
        let padding = if near { padding % (size + 1) } else { padding };
        let (position, chunk) =
            position.next_chunk(&geometry, View { produced, offset }, |_| padding);
        prop_assert!(produced.wrapping_sub(position.consumed) <= n);
        if let Some(chunk) = chunk {
            prop_assert!(chunk.len > 0);
            let start = chunk.start.get();
            prop_assert!(start % size + chunk.len <= size);
            prop_assert!(start + chunk.len <= geometry.bytes());
        }
    }

    /// Busy sub-buffers are not skipped, others are, and the count never decreases.
    #[test]
    fn settling_stops_at_the_first_busy(
        size in 1usize..9,
        n in 1usize..9,
        consumed: usize,
        ahead in 0usize..30,
        behind: bool,
        busy: u8,
    ) {
        let geometry = Geometry::new(size, n).unwrap();
        let read = match behind {
            true => consumed.wrapping_sub(ahead + 1),
            false => consumed.wrapping_add(ahead),
        };
        let is_busy = |index: SubbufIndex| busy & 1 << index.get() != 0;
        let new = settle(&geometry, consumed, read, is_busy);
        let position = Position::new(new, read, 3);
        if behind {
            prop_assert_eq!(new, consumed);
            prop_assert_eq!(position, Position { consumed, bytes: 0 });
            return Ok(());
        }
        prop_assert_eq!(position, Position { consumed: read, bytes: 3 });
        let (moved, left) = (new.wrapping_sub(consumed), read.wrapping_sub(new));
        prop_assert_eq!(moved + left, ahead);
        prop_assert!(left <= n);
        prop_assert!(left == 0 || is_busy(geometry.index(new)));
        // Positions older than the buffer are lost anyway.
        for count in ahead.saturating_sub(n)..moved {
            prop_assert!(!is_busy(geometry.index(consumed.wrapping_add(count))));
        }
    }

    #[test]
    fn consume_is_bounded(
        size in 1usize..9,
        n in 1usize..9,
        produced: usize,
        ready in 0usize..20,
        more: usize,
    ) {
        let geometry = Geometry::new(size, n).unwrap();
        let consumed = produced.wrapping_sub(ready);
        match consume(&geometry, produced, consumed, more) {
            None => prop_assert!(more > n),
            Some(new) => {
                prop_assert!(more <= n);
                prop_assert_eq!(new.wrapping_sub(consumed), more.min(ready));
            }
        }
    }
}

#[test]
fn sizes_are_checked() {
    assert_eq!(Geometry::new(0, 4), Err(GeometryError::Zero));
    assert_eq!(Geometry::new(4, 0), Err(GeometryError::Zero));
    assert_eq!(Geometry::new(usize::MAX, 2), Err(GeometryError::TooLarge));
    assert_eq!(
        Geometry::new(0x1_0000, 0x1_0000),
        Err(GeometryError::TooLarge)
    );
    assert!(Geometry::new(Geometry::MAX_BYTES, 1).is_ok());
}

#[test]
fn a_blocked_writer_closes_nothing_twice() {
    let geometry = Geometry::new(16, 2).unwrap();
    assert_eq!(
        geometry
            .close(5, 10)
            .map(|c| (c.index.get(), c.padding, c.bytes)),
        Some((1, 6, 10))
    );
    assert_eq!(geometry.close(5, geometry.blocked()), None);
    assert!(!geometry.fits(geometry.blocked(), 0));
    assert!(!geometry.fits(1, usize::MAX));
}
