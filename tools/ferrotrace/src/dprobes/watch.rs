// SPDX-License-Identifier: GPL-2.0

//! Showing records as they come, in the order of their times.

#![deny(unsafe_code)]

use std::collections::BTreeMap;
use std::fmt::Write;
use std::io;
use std::time::Duration;
use std::time::Instant;

use nix::errno::Errno;
use serde::Serialize;
use serde_json::Value;
use serde_json::json;

use super::control::Control;
use super::error::Error;
use super::error::Result;
use super::event;
use super::loaded::Loaded;
use super::state::State;
use crate::clock::Stamp;
use crate::clock::monotonic;
use crate::fast::live::Live;
use crate::file::IoError;
use crate::probes::order::Order;
use crate::probes::order::Timed;
use crate::signals::StopSignals;

/// About how long a record may wait to be shown.
const ROUND: Duration = Duration::from_millis(100);

/// How long ago, in ns, a writer may have read the clock without having written yet.
const SLACK: u64 = 1_000_000;

/// Rounds after which to look for new CPUs.
const LOOK: u32 = 10;

/// Options of the user.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// A set to load while this runs.
    pub set: Option<Vec<u8>>,
    /// Stop after that many records.
    pub count: Option<u64>,
    /// Stop after this time.
    pub duration: Option<Duration>,
    /// One JSON object on each line.
    pub json: bool,
    /// Show dates: from the epoch to the zero of the clock, in nanoseconds.
    pub wall: Option<u64>,
}

/// Counts of records that were shown, damaged, late or lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Records.
    pub records: u64,
    /// Records that could not be read.
    pub damaged: u64,
    /// Records that were shown after later ones.
    pub late: u64,
    /// Records that were lost while this ran, as the buffers were full.
    pub lost: u64,
}

/// A record.
struct Held {
    time: u64,
    cpu: u32,
    data: Vec<u8>,
}

impl Timed for Held {
    fn time(&self) -> u64 {
        self.time
    }
}

struct Watch<'a> {
    options: &'a Options,
    live: Live,
    order: Order<Held>,
    places: BTreeMap<(u32, u32), Option<String>>,
    counts: Counts,
    /// Records that were lost before this ran.
    lost_before: u64,
}

/// Shows records with `print`, which returns whether there still is a reader, until a signal, the end of the time, or enough
/// records. `ready` is called when the programs are loaded.
pub fn watch(
    control: &Control,
    options: &Options,
    signals: &StopSignals,
    ready: impl FnOnce() -> Result<()>,
    mut print: impl FnMut(&str) -> Result<bool>,
) -> Result<Counts> {
    let _lock = control.lock()?;
    let mut live = Live::open(&control.channel())?;
    if options.set.is_some() {
        // Old records would only take room.
        live.round(|_, _| ())?;
    }
    let (loaded, state) = Loaded::load(control, options.set.as_deref())?;
    let mut watch = Watch {
        options,
        lost_before: live.lost(),
        live,
        order: Order::default(),
        places: places(&state),
        counts: Counts::default(),
    };
    ready()?;
    let start = Instant::now();
    let end = options.duration.and_then(|time| start.checked_add(time));
    let mut goes_on = true;
    let mut rounds = 0u32;
    while goes_on && end.is_none_or(|end| Instant::now() < end) {
        let began = now()?;
        watch.read()?;
        goes_on = watch.show(began.saturating_sub(SLACK), &mut print)?;
        rounds = rounds.wrapping_add(1);
        if rounds % LOOK == 0 {
            watch.live.scan()?;
            // Others may load and remove programs.
            watch.places = places(&control.state()?);
        }
        if goes_on {
            let left = end.map_or(ROUND, |end| end.saturating_duration_since(Instant::now()));
            let stopped = watch.live.wait(signals, left.min(ROUND));
            goes_on = !stopped.map_err(|errno| system("wait", errno))?;
        }
    }
    loaded.remove()?;
    watch.live.scan()?;
    watch.read()?;
    watch.show(u64::MAX, &mut print)?;
    watch.counts.late = watch.order.late();
    Ok(watch.counts)
}

fn system(action: &'static str, errno: Errno) -> Error {
    Error::Io(IoError {
        action,
        path: "/proc/self".into(),
        source: io::Error::from(errno),
    })
}

/// The clock of the records.
fn now() -> Result<u64> {
    let time = monotonic().map_err(|errno| system("read the clock", errno))?;
    Ok(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX))
}

/// Where the points with each pair of numbers are: nothing, if it is not just one.
fn places(state: &State) -> BTreeMap<(u32, u32), Option<String>> {
    let mut places = BTreeMap::new();
    for program in &state.programs {
        for point in &program.points {
            let place = match program.kind.as_str() {
                "kernel" => point.place.clone(),
                _ => format!("{}:{}", program.name, point.place),
            };
            places
                .entry((point.major, point.minor))
                .and_modify(|known| *known = None)
                .or_insert(Some(place));
        }
    }
    places
}

impl Watch<'_> {
    fn read(&mut self) -> Result<()> {
        let order = &mut self.order;
        self.live.round(|cpu, record| {
            if record.ty == event::TYPE {
                order.add(Held {
                    time: record.time.unwrap_or(0),
                    cpu: cpu.0,
                    data: record.data.clone(),
                });
            }
        })?;
        Ok(())
    }

    /// Shows what was before this time. Returns whether more is wanted.
    fn show(&mut self, until: u64, print: &mut impl FnMut(&str) -> Result<bool>) -> Result<bool> {
        let mut text = String::new();
        for held in self.order.before(until) {
            if Some(self.counts.records) == self.options.count {
                break;
            }
            match self.line(&held) {
                Some(line) => {
                    self.counts.records += 1;
                    text.push_str(&line);
                }
                None => self.counts.damaged += 1,
            }
        }
        text.push_str(&self.lost());
        if !print(&text)? {
            return Ok(false);
        }
        Ok(Some(self.counts.records) != self.options.count)
    }

    /// A line about records that have been lost since the last one, if any.
    fn lost(&mut self) -> String {
        let all = self.live.lost().saturating_sub(self.lost_before);
        let lost = all.saturating_sub(self.counts.lost);
        self.counts.lost = all;
        match (lost, self.options.json) {
            (0, _) => String::new(),
            (_, true) => format!("{}\n", json!({ "lost": lost })),
            (_, false) => format!("{lost} records lost: the buffers were full\n"),
        }
    }

    fn line(&self, held: &Held) -> Option<String> {
        let ids = event::ids(&held.data)?;
        let place = self.places.get(&ids).and_then(Option::as_deref);
        let (time, wall) = (held.time, self.options.wall);
        let stamp = Stamp { time, wall };
        let mut line = String::new();
        if self.options.json {
            let mut map = event::json(&held.data)?;
            map.insert("time".to_owned(), held.time.into());
            map.insert("cpu".to_owned(), held.cpu.into());
            if self.options.wall.is_some() {
                map.insert("wall".to_owned(), stamp.to_string().into());
            }
            if let Some(place) = place {
                map.insert("place".to_owned(), place.into());
            }
            let _ = writeln!(line, "{}", Value::Object(map));
        } else {
            let text = event::text(&held.data, place)?;
            let _ = writeln!(line, "[{:03}] {stamp} {text}", held.cpu);
        }
        Some(line)
    }
}

/// The line after the last record.
pub fn summary(counts: &Counts, json: bool) -> String {
    if json {
        return format!("{}\n", json!({ "summary": counts }));
    }
    let mut text = format!("{} records", counts.records);
    for (count, what) in [
        (counts.lost, "lost"),
        (counts.damaged, "not understood"),
        (counts.late, "late"),
    ] {
        if count != 0 {
            // Writing to a string does not fail.
            let _ = write!(text, ", {count} {what}");
        }
    }
    text + "\n"
}

#[cfg(test)]
mod tests {
    use super::super::state::tests::STATE;
    use super::*;

    #[test]
    fn what_is_lost_is_in_the_last_line() {
        let counts = Counts {
            records: 2046,
            lost: 17954,
            ..Counts::default()
        };
        assert_eq!(summary(&counts, false), "2046 records, 17954 lost\n");
        assert!(summary(&counts, true).contains("\"lost\":17954"));
        assert_eq!(summary(&Counts::default(), false), "0 records\n");
    }

    #[test]
    fn places_of_numbers_that_are_taken_once() {
        let mut state = State::parse(STATE).unwrap();
        let found = places(&state);
        assert_eq!(
            found.get(&(1, 2)),
            Some(&Some("kernel_clone+0x0".to_owned()))
        );
        let name = "/a b/libc.so.6:0x404040".to_owned();
        assert_eq!(found.get(&(2, 1)), Some(&Some(name)));
        let more = state.programs[0].clone();
        state.programs.push(more);
        assert_eq!(places(&state).get(&(1, 2)), Some(&None));
    }
}
