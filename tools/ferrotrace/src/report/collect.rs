// SPDX-License-Identifier: GPL-2.0

//! Takes the merged records.

#![deny(unsafe_code)]

use std::convert::Infallible;

use super::tables::Tables;
use super::timeline::Timeline;
use crate::export::tracks::Item;
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
    /// For the tables.
    pub tables: Tables,
    /// For the timeline.
    pub timeline: Timeline,
}

impl Collected {
    fn draw(tables: &mut Tables, timeline: &mut Timeline, item: &Item<'_>) {
        tables.item(item);
        timeline.item(item);
    }
}

impl Sink for Collected {
    fn event(&mut self, event: &Event, format: &Format) -> Result<(), WriteError> {
        let (tables, timeline) = (&mut self.tables, &mut self.timeline);
        tables.record(event, format);
        if event.timed {
            timeline.begin(event.time);
        }
        let Ok(()) = self.tracks.add(event, format, |item| {
            Self::draw(tables, timeline, &item);
            Ok::<_, Infallible>(())
        });
        Ok(())
    }

    fn end(&mut self, counts: &Counts) -> Result<(), WriteError> {
        let (tables, timeline) = (&mut self.tables, &mut self.timeline);
        let Ok(()) = self.tracks.finish(counts.last_ns.unwrap_or(0), |item| {
            Self::draw(tables, timeline, &item);
            Ok::<_, Infallible>(())
        });
        tables.losses(counts);
        Ok(())
    }
}
