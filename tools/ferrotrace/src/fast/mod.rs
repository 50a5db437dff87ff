// SPDX-License-Identifier: GPL-2.0

//! Fast relay channels: the format of `<linux/ferrotrace_relay.h>`, in a buffer and in a recording.

pub mod drain;
pub mod live;
pub mod record;
pub mod ring;
pub mod walk;
