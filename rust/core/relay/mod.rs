// SPDX-License-Identifier: GPL-2.0

//! Arithmetic of a relay buffer: sub-buffers, padding, and the readable data.
//!
//! A buffer is a ring of `n_subbufs` sub-buffers. The writer counts the sub-buffers it has
//! *produced* and keeps an offset into the current one. The reader counts the sub-buffers it has
//! *consumed* and the bytes of the next one. Nothing here accesses memory: the engine samples the
//! counters, asks, and acts.

mod geometry;
mod reader;
#[cfg(test)]
mod tests;

pub use geometry::ByteOffset;
pub use geometry::Closed;
pub use geometry::Geometry;
pub use geometry::GeometryError;
pub use geometry::SubbufIndex;
pub use reader::consume;
pub use reader::later;
pub use reader::settle;
pub use reader::Chunk;
pub use reader::Position;
pub use reader::View;
