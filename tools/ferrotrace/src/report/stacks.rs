// SPDX-License-Identifier: GPL-2.0

//! The stacks of a recording: those that its records carry, or its calls within each other.

#![deny(unsafe_code)]

use std::collections::BTreeMap;
use std::convert::Infallible;

use super::flame::Flame;
use super::flame::Unit;
use crate::export::tracks::Item;
use crate::export::tracks::Span;
use crate::export::tracks::Track;
use crate::export::tracks::Tracks;
use crate::merge::calls::BETWEEN;
use crate::merge::field::Kind;
use crate::merge::format::Format;
use crate::merge::run::Counts;
use crate::merge::sink::Sink;
use crate::merge::sink::WriteError;
use crate::merge::source::Event;
use crate::merge::value::text;

/// The most calls of a thread whose caller is not known yet. Beyond, neighbours become one.
const OPEN: usize = 4096;

/// The most calls within each other.
const DEPTH: u32 = 256;

/// A call with the calls in it, or the sum of several with one name.
#[derive(Debug, Default)]
struct Call {
    nanos: u64,
    calls: BTreeMap<String, Call>,
}

fn add_calls(to: &mut BTreeMap<String, Call>, calls: BTreeMap<String, Call>) {
    for (name, call) in calls {
        let known = to.entry(name).or_default();
        known.nanos = known.nanos.saturating_add(call.nanos);
        add_calls(&mut known.calls, call.calls);
    }
}

/// Neighbouring calls, of which the caller is not known yet.
#[derive(Debug)]
struct Open {
    from: u64,
    to: u64,
    depth: u32,
    calls: BTreeMap<String, Call>,
}

/// The calls of a thread. A call ends, and so arrives, after the calls in it.
#[derive(Debug, Default)]
struct Thread {
    comm: Option<String>,
    open: Vec<Open>,
}

impl Thread {
    fn add(&mut self, from: u64, to: u64, name: &str) {
        let mut call = Call {
            nanos: to.saturating_sub(from),
            calls: BTreeMap::new(),
        };
        let mut depth = 1;
        let within = |open: &Open| open.from >= from && open.to <= to;
        while self.open.last().is_some_and(within) {
            let Some(last) = self.open.pop() else {
                break;
            };
            // Deeper ones are time of their callers.
            if last.depth < DEPTH {
                depth = depth.max(last.depth + 1);
                add_calls(&mut call.calls, last.calls);
            }
        }
        self.open.push(Open {
            from,
            to,
            depth,
            calls: BTreeMap::from([(name.to_owned(), call)]),
        });
        if self.open.len() > OPEN {
            let mut all = std::mem::take(&mut self.open).into_iter();
            while let Some(mut one) = all.next() {
                if let Some(next) = all.next() {
                    one.from = one.from.min(next.from);
                    one.to = one.to.max(next.to);
                    one.depth = one.depth.max(next.depth);
                    add_calls(&mut one.calls, next.calls);
                }
                self.open.push(one);
            }
        }
    }
}

/// Adds what each call did itself, without the calls in it.
fn flatten(flame: &mut Flame, path: &str, calls: &BTreeMap<String, Call>) {
    for (name, call) in calls {
        let path = format!("{path}{BETWEEN}{}", name.replace(BETWEEN, ","));
        let inner = call
            .calls
            .values()
            .fold(0u64, |sum, inner| sum.saturating_add(inner.nanos));
        flame.add(&path, call.nanos.saturating_sub(inner));
        flatten(flame, &path, &call.calls);
    }
}

/// Collects the stacks of a recording.
#[derive(Debug)]
pub struct Stacks {
    tracks: Tracks,
    carried: Flame,
    threads: BTreeMap<i64, Thread>,
    running: Flame,
}

impl Default for Stacks {
    fn default() -> Self {
        Self {
            tracks: Tracks::default(),
            carried: Flame::new(Unit::Hits),
            threads: BTreeMap::new(),
            running: Flame::new(Unit::Time),
        }
    }
}

/// Returns the name that a thread had when it wrote the record.
pub fn comm(event: &Event, format: &Format) -> Option<String> {
    let mut fields = format.fields.iter();
    let comm = fields.find(|field| field.name == "comm" && field.kind == Kind::Text)?;
    Some(text(comm.bytes(&event.bytes)).replace(BETWEEN, ","))
}

impl Stacks {
    fn draw(
        threads: &mut BTreeMap<i64, Thread>,
        running: &mut Flame,
        item: &Item<'_>,
        comm: Option<String>,
    ) {
        match (item.track, item.span) {
            (Track::Thread(thread), Span::Slice(from, to)) => {
                let thread = threads.entry(thread).or_default();
                thread.comm = comm.or(thread.comm.take());
                thread.add(from, to, item.name);
            }
            (Track::Cpu(_), Span::Slice(from, to)) => {
                let track = item.track.to_string();
                let name = item.name.replace(BETWEEN, ",");
                running.add(&format!("{track}{BETWEEN}{name}"), to.saturating_sub(from));
            }
            _ => (),
        }
    }

    /// Returns the graph of the stacks that records carry, in hits. Without any, that of the calls
    /// within each other, in time, and without calls, that of the time of tasks on CPUs.
    pub fn flame(self) -> Flame {
        if self.carried.total() > 0 {
            return self.carried;
        }
        if self.threads.is_empty() {
            return self.running;
        }
        let mut flame = Flame::new(Unit::Time);
        for (number, thread) in self.threads {
            let comm = thread.comm.unwrap_or_else(|| format!("thread {number}"));
            for open in thread.open {
                flatten(&mut flame, &comm, &open.calls);
            }
        }
        flame
    }
}

impl Sink for Stacks {
    fn event(&mut self, event: &Event, format: &Format) -> Result<(), WriteError> {
        let comm = comm(event, format);
        if let Some(calls) = format.calls.and_then(|at| event.bytes.get(at..)) {
            let calls = String::from_utf8_lossy(calls);
            match &comm {
                Some(comm) => self.carried.add(&format!("{comm}{BETWEEN}{calls}"), 1),
                None => self.carried.add(&calls, 1),
            }
        }
        let (threads, running) = (&mut self.threads, &mut self.running);
        let Ok(()) = self.tracks.add(event, format, |item| {
            Self::draw(threads, running, &item, comm.clone());
            Ok::<_, Infallible>(())
        });
        Ok(())
    }

    fn end(&mut self, counts: &Counts) -> Result<(), WriteError> {
        let (threads, running) = (&mut self.threads, &mut self.running);
        let Ok(()) = self.tracks.finish(counts.last_ns.unwrap_or(0), |item| {
            Self::draw(threads, running, &item, None);
            Ok::<_, Infallible>(())
        });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the folded stacks of the calls of a thread.
    fn folded(calls: &[(u64, u64, &str)]) -> Vec<(String, u64)> {
        let mut thread = Thread::default();
        for &(from, to, name) in calls {
            thread.add(from, to, name);
        }
        fn all(path: &str, calls: &BTreeMap<String, Call>, to: &mut Vec<(String, u64)>) {
            for (name, call) in calls {
                let path = format!("{path};{name}");
                to.push((path.clone(), call.nanos));
                all(&path, &call.calls, to);
            }
        }
        let mut found = BTreeMap::new();
        for open in thread.open {
            add_calls(&mut found, open.calls);
        }
        let mut list = Vec::new();
        all("", &found, &mut list);
        list
    }

    #[test]
    fn calls_are_within_calls() {
        let calls = [
            (1, 2, "b"),
            (3, 4, "b"),
            (0, 10, "a"),
            (11, 12, "b"),
            (13, 15, "a"),
        ];
        let expected = [(";a", 12), (";a;b", 2), (";b", 1)];
        assert_eq!(
            folded(&calls),
            expected.map(|(path, nanos)| (path.to_owned(), nanos))
        );
    }

    /// Memory is bounded, and no time is lost.
    #[test]
    fn many_calls_and_deep_ones() {
        let many: Vec<_> = (0..100_000).map(|i| (i * 10, i * 10 + 4, "leaf")).collect();
        assert_eq!(folded(&many), [(";leaf".to_owned(), 400_000)]);
        let mut all = many;
        all.push((0, 1_000_000, "root"));
        let expected = [(";root", 1_000_000), (";root;leaf", 400_000)];
        assert_eq!(
            folded(&all),
            expected.map(|(path, nanos)| (path.to_owned(), nanos))
        );
        let deep: Vec<_> = (0..10_000).map(|i| (10_000 - i, 10_000 + i, "r")).collect();
        let deep = folded(&deep);
        assert!(deep.len() <= 256, "{}", deep.len());
        assert_eq!(deep.first(), Some(&(";r".to_owned(), 2 * 9_999)));
        // Calls in the same nanoseconds, and overlapping ones.
        let same = [(1, 2, "b"), (1, 2, "a"), (0, 3, "c"), (2, 5, "d")];
        assert_eq!(folded(&same).len(), 4);
    }
}
