// SPDX-License-Identifier: GPL-2.0

//! Recordings in the formats of programs that draw them, the merged records as slices and instants on tracks, and of
//! programs that query them, as a table.
//!
//! [`tracks`] says what a record is, [`chrome`], [`perfetto`] and [`firefox`] write it. Memory is bounded by the number of CPUs
//! and threads, however long the recording is, but for [`firefox`], which has a limit.
//!
//! [`parquet`] writes the [`columns`] of a table.

pub mod chrome;
pub mod columns;
pub mod firefox;
pub mod lanes;
pub mod parquet;
pub mod perfetto;
pub mod tracks;
