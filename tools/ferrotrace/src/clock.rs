// SPDX-License-Identifier: GPL-2.0

//! The clock of the records, as seconds or as dates.

#![deny(unsafe_code)]

use std::fmt;
use std::time::Duration;
use std::time::SystemTime;

use nix::time::ClockId;
use nix::time::clock_gettime;

/// Returns the time of `CLOCK_MONOTONIC`.
pub fn monotonic() -> nix::Result<Duration> {
    clock_gettime(ClockId::CLOCK_MONOTONIC).map(Duration::from)
}

/// Returns the nanoseconds from the epoch to the zero of `CLOCK_MONOTONIC`, as it is now.
pub fn wall_offset() -> nix::Result<u64> {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let offset = since.unwrap_or_default().saturating_sub(monotonic()?);
    Ok(u64::try_from(offset.as_nanos()).unwrap_or(u64::MAX))
}

/// Nanoseconds as seconds.
pub struct Seconds(pub u64);

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (seconds, nanos) = (self.0 / 1_000_000_000, self.0 % 1_000_000_000);
        write!(f, "{seconds}.{nanos:09}")
    }
}

/// Nanoseconds since 1970 as a date and a time, UTC.
pub struct Wall(pub u64);

impl fmt::Display for Wall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let time = SystemTime::UNIX_EPOCH + Duration::from_nanos(self.0);
        humantime::format_rfc3339_nanos(time).fmt(f)
    }
}

/// A time of a record: a date and a time of day if the offset of the clock is known, otherwise
/// seconds.
#[derive(Clone, Copy, Debug)]
pub struct Stamp {
    /// Nanoseconds of `CLOCK_MONOTONIC`.
    pub time: u64,
    /// Nanoseconds from the epoch to the zero of that clock.
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
    fn times_have_nine_digits() {
        assert_eq!(Seconds(1).to_string(), "0.000000001");
        assert_eq!(
            Wall(1_700_000_000_000_000_005).to_string(),
            "2023-11-14T22:13:20.000000005Z"
        );
        assert_eq!(Seconds(12_345_678_901).to_string(), "12.345678901");
    }

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
