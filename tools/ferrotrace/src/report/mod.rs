// SPDX-License-Identifier: GPL-2.0

//! Reading recordings: the description of the records, the merge, and the text.

pub mod format;
pub mod merge;
pub mod recording;
pub mod render;
