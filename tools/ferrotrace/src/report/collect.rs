// SPDX-License-Identifier: GPL-2.0

//! Takes the merged records.

#![deny(unsafe_code)]

use std::convert::Infallible;

use super::stacks::comm;
use super::tables::Tables;
use super::timeline::Timeline;
use crate::export::tracks::Item;
use crate::export::tracks::Track;
use crate::export::tracks::Tracks;
use crate::merge::format::Format;
use crate::merge::run::Counts;
use crate::merge::sink::Sink;
use crate::merge::sink::WriteError;
use crate::merge::source::Event;

/// Data collected from a recording.
#[derive(Default)]
pub struct Collected {
    tracks: Tracks,
    /// Data of the tables.
    pub tables: Tables,
    /// Data of the timeline, if the report has one.
    pub timeline: Option<Timeline>,
}

impl Collected {
    /// Collects the data of tables and of a timeline.
    pub fn with_timeline() -> Self {
        Self {
            timeline: Some(Timeline::default()),
            ..Self::default()
        }
    }

    fn draw(
        tables: &mut Tables,
        timeline: &mut Option<Timeline>,
        item: &Item<'_>,
        record: Option<(&Event, &Format)>,
    ) {
        tables.item(item);
        let Some(timeline) = timeline else {
            return;
        };
        let record = record.filter(|_| item.has_fields);
        timeline.item(item, record);
        // The name of a task, and that in a record of a thread.
        if let (false, Some((comm, thread))) = (item.has_fields, item.name.rsplit_once('-')) {
            if let Ok(thread) = thread.parse() {
                timeline.comm(thread, comm);
            }
        }
        if let (Some((event, format)), Track::Thread(thread)) = (record, item.track) {
            if let Some(comm) = comm(event, format) {
                timeline.comm(thread, &comm);
            }
        }
    }
}

impl Sink for Collected {
    fn event(&mut self, event: &Event, format: &Format) -> Result<(), WriteError> {
        let (tables, timeline) = (&mut self.tables, &mut self.timeline);
        tables.record(event, format);
        if let Some(timeline) = timeline.as_mut().filter(|_| event.timed) {
            timeline.begin(event.time);
        }
        let Ok(()) = self.tracks.add(event, format, |item| {
            Self::draw(tables, timeline, &item, Some((event, format)));
            Ok::<_, Infallible>(())
        });
        Ok(())
    }

    fn end(&mut self, counts: &Counts) -> Result<(), WriteError> {
        let (tables, timeline) = (&mut self.tables, &mut self.timeline);
        let Ok(()) = self.tracks.finish(counts.last_ns.unwrap_or(0), |item| {
            Self::draw(tables, timeline, &item, None);
            Ok::<_, Infallible>(())
        });
        tables.losses(counts);
        Ok(())
    }
}
