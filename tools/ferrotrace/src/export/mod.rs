// SPDX-License-Identifier: GPL-2.0

//! Recordings in the formats of programs that draw them: the merged records as slices and instants on tracks.
//!
//! [`tracks`] says what a record is, [`chrome`] and [`perfetto`] write it. Memory is bounded by the number of CPUs and
//! threads, however long the recording is.

pub mod chrome;
pub mod perfetto;
pub mod tracks;
