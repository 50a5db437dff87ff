// SPDX-License-Identifier: GPL-2.0

//! How often exits are called, from one sample of the hooks to the next.

#![deny(unsafe_code)]

use std::collections::BTreeMap;
use std::time::Duration;

use super::model::ExitId;
use super::model::Hook;
use super::report::Event;
use super::report::Report;
use super::report::Row;

/// Counters of an exit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// How often it was called.
    pub hits: u64,
    /// How often it ended the dispatch.
    pub stops: u64,
}

impl Counts {
    /// The increase since `before`, and whether the kernel has begun to count from 0 again, since
    /// the exit was deregistered and registered again.
    fn since(self, before: Self) -> (Self, bool) {
        let differences = (
            self.hits.checked_sub(before.hits),
            self.stops.checked_sub(before.stops),
        );
        match differences {
            (Some(hits), Some(stops)) => (Self { hits, stops }, false),
            _ => (self, true),
        }
    }

    fn add(&mut self, more: Self) {
        self.hits = self.hits.saturating_add(more.hits);
        self.stops = self.stops.saturating_add(more.stops);
    }

    const fn is_zero(self) -> bool {
        self.hits == 0 && self.stops == 0
    }
}

/// Compares successive samples of the hooks.
#[derive(Debug)]
pub struct Watch {
    start: Duration,
    last: Duration,
    before: BTreeMap<ExitId, Counts>,
    total: BTreeMap<ExitId, Counts>,
}

fn exits(hooks: &[Hook]) -> impl Iterator<Item = (ExitId, Counts, bool)> {
    hooks.iter().flat_map(|hook| {
        hook.exits.iter().map(|exit| {
            let counts = Counts {
                hits: exit.hits,
                stops: exit.stops,
            };
            (hook.id(exit), counts, exit.armed)
        })
    })
}

impl Watch {
    /// Takes the first sample, at `time`. Reports the exits that are armed.
    pub fn start(hooks: &[Hook], time: Duration) -> (Self, Report) {
        let rows = exits(hooks).filter(|&(_, _, armed)| armed);
        let report = Report {
            time,
            span: None,
            rows: rows
                .map(|(exit, counts, _)| Row {
                    exit,
                    counts,
                    event: Event::None,
                })
                .collect(),
        };
        let watch = Self {
            start: time,
            last: time,
            before: exits(hooks)
                .map(|(exit, counts, _)| (exit, counts))
                .collect(),
            total: BTreeMap::new(),
        };
        (watch, report)
    }

    /// Takes another sample. Reports the exits that were called since the last one, and those that
    /// have come or gone.
    pub fn look(&mut self, hooks: &[Hook], time: Duration) -> Report {
        let mut rows = Vec::new();
        let mut gone = std::mem::take(&mut self.before);
        for (exit, now, _) in exits(hooks) {
            let (counts, event) = match gone.remove(&exit) {
                None => (now, Event::New),
                Some(before) => match now.since(before) {
                    (counts, true) => (counts, Event::Restarted),
                    (counts, false) => (counts, Event::None),
                },
            };
            self.before.insert(exit.clone(), now);
            if !counts.is_zero() {
                self.total.entry(exit.clone()).or_default().add(counts);
            }
            // A new one may not have been called yet.
            if !counts.is_zero() || event == Event::New {
                rows.push(Row {
                    exit,
                    counts,
                    event,
                });
            }
        }
        rows.extend(gone.into_keys().map(|exit| Row {
            exit,
            counts: Counts::default(),
            event: Event::Gone,
        }));
        let span = time.saturating_sub(self.last);
        self.last = time;
        Report {
            time,
            span: Some(span),
            rows,
        }
    }

    /// The totals from the first sample to the last.
    pub fn total(&self) -> Report {
        Report {
            time: self.last,
            span: Some(self.last.saturating_sub(self.start)),
            rows: self
                .total
                .iter()
                .map(|(exit, &counts)| Row {
                    exit: exit.clone(),
                    counts,
                    event: Event::None,
                })
                .collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::parse::parse;
    use super::super::report::Style;
    use super::super::sample;
    use super::*;

    /// A hook with these exits: name, armed, hits, stops.
    fn hooks(exits: &[(&str, bool, u64, u64)]) -> Vec<Hook> {
        let [_, mut hook] = parse(sample::TEXT).unwrap().try_into().unwrap();
        let exit = hook.exits.remove(0);
        hook.exits = exits
            .iter()
            .map(|&(name, armed, hits, stops)| {
                let mut exit = exit.clone();
                exit.name = name.parse().unwrap();
                (exit.armed, exit.hits, exit.stops) = (armed, hits, stops);
                exit
            })
            .collect();
        vec![hook]
    }

    /// Exit, hits, stops, event.
    fn rows(report: &Report) -> Vec<(&str, u64, u64, Event)> {
        let mut rows = Vec::new();
        for row in &report.rows {
            let name = row.exit.exit.as_str();
            rows.push((name, row.counts.hits, row.counts.stops, row.event));
        }
        rows
    }

    const SECOND: Duration = Duration::from_secs(1);

    fn text(report: &Report) -> String {
        report.text(Style::default())
    }

    #[test]
    fn the_first_look_shows_what_is_armed() {
        let (_, report) = Watch::start(&hooks(&[("a", true, 0, 0), ("b", false, 9, 1)]), SECOND);
        assert_eq!(rows(&report), [("a", 0, 0, Event::None)]);
        assert_eq!(report.span, None);
    }

    #[test]
    fn differences() {
        let (mut watch, _) = Watch::start(
            &hooks(&[("a", true, 5, 1), ("b", false, 9, 1), ("c", true, 7, 0)]),
            SECOND,
        );
        let report = watch.look(
            &hooks(&[("a", true, 5, 1), ("b", true, 19, 3), ("c", false, 8, 0)]),
            SECOND * 3,
        );
        assert_eq!(
            rows(&report),
            [("b", 10, 2, Event::None), ("c", 1, 0, Event::None)]
        );
        assert_eq!(report.span, Some(SECOND * 2));
        let report = watch.look(&hooks(&[("a", true, 6, 1)]), SECOND * 4);
        assert_eq!(
            rows(&report),
            [
                ("a", 1, 0, Event::None),
                ("b", 0, 0, Event::Gone),
                ("c", 0, 0, Event::Gone)
            ]
        );
        assert_eq!(report.span, Some(SECOND));
        assert_eq!(
            rows(&watch.total()),
            [
                ("a", 1, 0, Event::None),
                ("b", 10, 2, Event::None),
                ("c", 1, 0, Event::None)
            ]
        );
        assert_eq!(watch.total().span, Some(SECOND * 3));
    }

    #[test]
    fn exits_come_again() {
        let (mut watch, _) = Watch::start(&hooks(&[("a", true, 100, 0)]), SECOND);
        let again = hooks(&[("a", true, 30, 0), ("b", true, 2, 0)]);
        let report = watch.look(&again, SECOND * 2);
        assert_eq!(
            rows(&report),
            [("a", 30, 0, Event::Restarted), ("b", 2, 0, Event::New)]
        );
        // More hits, but fewer stops: another exit.
        let (mut watch, _) = Watch::start(&hooks(&[("a", true, 5, 2)]), SECOND);
        let report = watch.look(&hooks(&[("a", true, 6, 1)]), SECOND * 2);
        assert_eq!(rows(&report), [("a", 6, 1, Event::Restarted)]);
        assert_eq!(
            rows(&watch.look(&[], SECOND * 3)),
            [("a", 0, 0, Event::Gone)]
        );
        assert_eq!(rows(&watch.look(&[], SECOND * 4)), []);
        let report = watch.look(&hooks(&[("a", true, 4, 0)]), SECOND * 5);
        assert_eq!(rows(&report), [("a", 4, 0, Event::New)]);
        let report = watch.look(&hooks(&[("a", true, 4, 0), ("b", true, 0, 0)]), SECOND * 6);
        assert_eq!(rows(&report), [("b", 0, 0, Event::New)]);
        assert_eq!(rows(&watch.total()), [("a", 10, 1, Event::None)]);
    }

    #[test]
    fn lines() {
        let (mut watch, first) = Watch::start(
            &hooks(&[("a", true, 5, 1), ("b", true, 0, 0)]),
            SECOND * 100,
        );
        let next = watch.look(
            &hooks(&[("a", true, 8, 1), ("c", true, 1, 0)]),
            Duration::from_millis(102_025),
        );
        let quiet = watch.look(
            &hooks(&[("a", true, 8, 1), ("c", true, 1, 0)]),
            SECOND * 103,
        );
        assert_eq!(
            [
                Style::default().header(),
                text(&first),
                text(&next),
                text(&quiet)
            ]
            .concat(),
            "          time         hits       hits/s    stops  exit
       100.000            5            -        1  cpu_prepare/a
       100.000            0            -        0  cpu_prepare/b
       102.025            3          1.4        0  cpu_prepare/a
       102.025            1          0.4        0  cpu_prepare/c (new)
       102.025            -            -        -  cpu_prepare/b (gone)
       103.000 no hits\n"
        );
        let (_, none) = Watch::start(&[], SECOND);
        assert_eq!(text(&none), "         1.000 no exit is armed\n");
    }

    proptest! {
        /// Whatever the kernel counts, the total is the sum of the reports.
        #[test]
        fn totals_are_sums(looks in prop::collection::vec(prop::option::of((0..50u64, 0..5u64)), 1..20)) {
            let at = |look: &Option<(u64, u64)>| match *look {
                Some((hits, stops)) => hooks(&[("a", true, hits, stops)]),
                None => hooks(&[]),
            };
            let (mut watch, _) = Watch::start(&at(&looks[0]), SECOND);
            let mut sum = Counts::default();
            for look in &looks[1..] {
                for row in watch.look(&at(look), SECOND).rows {
                    sum.add(row.counts);
                }
            }
            let total = watch.total();
            let counts = total.rows.first().map_or(Counts::default(), |row| row.counts);
            prop_assert_eq!(counts, sum);
        }

        /// Counters that only grow lose nothing.
        #[test]
        fn nothing_is_lost(steps in prop::collection::vec((0..50u64, 0..5u64), 1..20)) {
            let mut now = Counts { hits: 7, stops: 2 };
            let (mut watch, _) = Watch::start(&hooks(&[("a", true, 7, 2)]), SECOND);
            for (hits, stops) in steps {
                now.add(Counts { hits, stops });
                watch.look(&hooks(&[("a", true, now.hits, now.stops)]), SECOND);
            }
            let total = watch.total();
            let counts = total.rows.first().map_or(Counts::default(), |row| row.counts);
            prop_assert_eq!(counts, Counts { hits: now.hits - 7, stops: now.stops - 2 });
        }
    }
}
