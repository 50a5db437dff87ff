// SPDX-License-Identifier: GPL-2.0

//! The clock of the records, and what it shows of dates.

#![deny(unsafe_code)]

use std::fmt;
use std::time::Duration;
use std::time::SystemTime;

use nix::time::ClockId;
use nix::time::clock_gettime;

use crate::merge::lines::Seconds;
use crate::merge::lines::Wall;

/// `CLOCK_MONOTONIC`.
pub fn monotonic() -> nix::Result<Duration> {
    clock_gettime(ClockId::CLOCK_MONOTONIC).map(Duration::from)
}

/// From the epoch to the zero of `CLOCK_MONOTONIC`, in nanoseconds, as it is now.
pub fn wall_offset() -> nix::Result<u64> {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let offset = since.unwrap_or_default().saturating_sub(monotonic()?);
    Ok(u64::try_from(offset.as_nanos()).unwrap_or(u64::MAX))
}

/// A time of a record: as a date and a time of day if the offset of the clock is known, otherwise as seconds.
#[derive(Clone, Copy, Debug)]
pub struct Stamp {
    /// Nanoseconds of `CLOCK_MONOTONIC`.
    pub time: u64,
    /// From the epoch to the zero of that clock.
    pub wall: Option<u64>,
}

impl fmt::Display for Stamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.wall {
            Some(offset) => Wall(self.time.saturating_add(offset)).fmt(f),
            None => Seconds(self.time).fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates() {
        let time = 7_000_000_001;
        let stamp = |wall| Stamp { time, wall }.to_string();
        assert_eq!(stamp(None), "7.000000001");
        let wall = Some(1_700_000_000_000_000_000);
        assert_eq!(stamp(wall), "2023-11-14T22:13:27.000000001Z");
        // The offset is that of the clocks: now is now.
        let now = monotonic().unwrap() + Duration::from_nanos(wall_offset().unwrap());
        let real = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let behind = real.unwrap().saturating_sub(now);
        assert!(behind < Duration::from_secs(60), "{behind:?}");
    }
}
