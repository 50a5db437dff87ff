// SPDX-License-Identifier: GPL-2.0

//! Events of several CPUs in the order of their times, as they come.

#![deny(unsafe_code)]

/// Item with a time.
pub trait Timed {
    /// When it was, in ns of the clock of its channel.
    fn time(&self) -> u64;
}

/// Events that are held back until no earlier one can come any more.
///
/// All buffers are read in rounds. At the end of a round everything that was written before it
/// began has been read, except by a writer that was delayed between reading the clock and writing;
/// either that lasts less than a round, or the event comes late.
#[derive(Debug)]
pub struct Order<E> {
    held: Vec<E>,
    last: u64,
    late: u64,
}

impl<E> Default for Order<E> {
    fn default() -> Self {
        Self {
            held: Vec::new(),
            last: 0,
            late: 0,
        }
    }
}

impl<E: Timed> Order<E> {
    /// Adds what has been read.
    pub fn add(&mut self, event: E) {
        self.held.push(event);
    }

    /// The events before `time`, in order.
    pub fn before(&mut self, time: u64) -> Vec<E> {
        // Stable: those of one CPU keep their order.
        self.held.sort_by_key(|event| event.time());
        let count = self.held.partition_point(|event| event.time() < time);
        let rest = self.held.split_off(count);
        let out = std::mem::replace(&mut self.held, rest);
        for event in &out {
            if event.time() < self.last {
                self.late += 1;
            }
            self.last = self.last.max(event.time());
        }
        out
    }

    /// Events that were returned after a later one.
    pub fn late(&self) -> u64 {
        self.late
    }
}

#[cfg(test)]
mod tests {
    use super::super::event::Event;
    use super::super::event::tests::event;
    use super::*;

    fn times(events: &[Event]) -> Vec<u64> {
        events.iter().map(|event| event.time).collect()
    }

    #[test]
    fn held_back_until_its_time() {
        let mut order = Order::default();
        for time in [30, 10, 40] {
            order.add(event(time));
        }
        assert_eq!(times(&order.before(35)), [10, 30]);
        order.add(event(35));
        order.add(event(20));
        assert_eq!(times(&order.before(36)), [20, 35]);
        assert_eq!(order.late(), 1);
        assert_eq!(times(&order.before(u64::MAX)), [40]);
        assert_eq!(order.late(), 1);
    }
}
