// SPDX-License-Identifier: GPL-2.0

//! Calls, added up by function.

#![deny(unsafe_code)]

use std::collections::HashMap;

use super::histogram::Histogram;

/// Bytes of a record's data: `struct ferrotrace_function_record` of `<linux/ferrotrace_ftrace_functions.h>`.
pub const RECORD_SIZE: usize = 24;

/// A call, as the kernel writes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// Where the function is traced.
    pub ip: u64,
    /// Nanoseconds from its entry to its return; 0 if calls are only counted.
    pub duration: u64,
    /// The thread.
    pub pid: i32,
    /// The CPU.
    pub cpu: u32,
}

impl Call {
    /// Reads the data of a record; `None` if that is too short.
    pub fn parse(data: &[u8]) -> Option<Self> {
        let (ip, rest) = data.split_first_chunk()?;
        let (duration, rest) = rest.split_first_chunk()?;
        let (pid, rest) = rest.split_first_chunk()?;
        Some(Self {
            ip: u64::from_ne_bytes(*ip),
            duration: u64::from_ne_bytes(*duration),
            pid: i32::from_ne_bytes(*pid),
            cpu: u32::from_ne_bytes(*rest.first_chunk()?),
        })
    }
}

/// The calls of a function.
#[derive(Clone, Debug, Default)]
pub struct Stats {
    /// How many.
    pub calls: u64,
    /// Nanoseconds of all.
    pub total: u64,
    /// Nanoseconds of the longest.
    pub max: u64,
    pub(crate) histogram: Histogram,
}

impl Stats {
    pub(crate) fn add(&mut self, duration: u64) {
        self.calls += 1;
        self.total = self.total.saturating_add(duration);
        self.max = self.max.max(duration);
        self.histogram.add(duration);
    }

    /// Adds all calls of another one.
    pub(crate) fn merge(&mut self, other: &Self) {
        self.calls += other.calls;
        self.total = self.total.saturating_add(other.total);
        self.max = self.max.max(other.max);
        self.histogram.merge(&other.histogram);
    }

    /// Returns the calls since `before` was a copy of this. The longest of them is known by its
    /// class only.
    pub(crate) fn since(&self, before: &Self) -> Self {
        let histogram = self.histogram.since(&before.histogram);
        let max = match self.max > before.max {
            true => self.max,
            false => histogram.percentile(100).min(self.max),
        };
        Self {
            calls: self.calls.saturating_sub(before.calls),
            total: self.total.saturating_sub(before.total),
            max,
            histogram,
        }
    }

    /// Nanoseconds of one, on average.
    pub fn mean(&self) -> u64 {
        self.total.checked_div(self.calls).unwrap_or(0)
    }

    /// Nanoseconds that 99 of 100 do not exceed, up to an eighth too many.
    pub fn p99(&self) -> u64 {
        self.histogram.percentile(99).min(self.max)
    }
}

/// The calls of functions, by where these are traced.
#[derive(Clone, Debug, Default)]
pub struct Tally(HashMap<u64, Stats>);

impl Tally {
    /// Adds a call.
    pub fn add(&mut self, call: Call) {
        self.0.entry(call.ip).or_default().add(call.duration);
    }

    /// The functions that were called: those that took the longest first; of those that took as long, those that were called the
    /// most.
    pub fn sorted(&self) -> Vec<(u64, &Stats)> {
        let mut rows: Vec<_> = self.0.iter().map(|(ip, stats)| (*ip, stats)).collect();
        rows.sort_by_key(|(ip, stats)| {
            (
                std::cmp::Reverse(stats.total),
                std::cmp::Reverse(stats.calls),
                *ip,
            )
        });
        rows
    }

    /// All calls.
    pub fn calls(&self) -> u64 {
        self.0.values().map(|stats| stats.calls).sum()
    }

    /// Takes what there is, and begins anew.
    pub fn take(&mut self) -> Self {
        std::mem::take(self)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn call(ip: u64, duration: u64) -> Call {
        Call {
            ip,
            duration,
            pid: 42,
            cpu: 1,
        }
    }

    /// Returns the kernel's data for a call.
    pub(crate) fn data(call: &Call) -> Vec<u8> {
        let mut bytes = Vec::new();
        bytes.extend(call.ip.to_ne_bytes());
        bytes.extend(call.duration.to_ne_bytes());
        bytes.extend(call.pid.to_ne_bytes());
        bytes.extend(call.cpu.to_ne_bytes());
        bytes
    }

    #[test]
    fn records() {
        let call = call(0xffff_ffff_8100_0010, 1234);
        let bytes = data(&call);
        assert_eq!(bytes.len(), RECORD_SIZE);
        assert_eq!(Call::parse(&bytes), Some(call));
        assert_eq!(Call::parse(&bytes[..RECORD_SIZE - 1]), None);
    }

    #[test]
    fn sums() {
        let mut tally = Tally::default();
        for (ip, duration) in [(1, 10), (2, 100), (1, 30), (3, 40), (4, 0), (4, 0), (5, 0)] {
            tally.add(call(ip, duration));
        }
        let order: Vec<u64> = tally.sorted().iter().map(|(ip, _)| *ip).collect();
        assert_eq!(order, [2, 1, 3, 4, 5]);
        let (_, stats) = tally.sorted()[1];
        assert_eq!(
            (
                stats.calls,
                stats.total,
                stats.mean(),
                stats.max,
                stats.p99()
            ),
            (2, 40, 20, 30, 30)
        );
        assert_eq!(tally.calls(), 7);
        assert_eq!(Stats::default().mean(), 0);
        assert_eq!(tally.take().calls(), 7);
        assert_eq!(tally.calls(), 0);
    }
}
