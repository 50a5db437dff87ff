// SPDX-License-Identifier: GPL-2.0

//! The live rate of a recording, on a terminal only.

#![deny(unsafe_code)]

use std::time::Duration;
use std::time::Instant;

use indicatif::BinaryBytes;
use indicatif::ProgressBar;
use indicatif::ProgressStyle;

use super::tally::Tally;

/// One line on stderr; nothing if stderr is not a terminal.
#[derive(Debug)]
pub struct Progress {
    bar: ProgressBar,
    last: Instant,
    last_bytes: u64,
}

/// Bytes per second.
pub fn rate(bytes: u64, time: Duration) -> u64 {
    let nanos = time.as_nanos().max(1);
    let per_second = u128::from(bytes) * 1_000_000_000 / nanos;
    u64::try_from(per_second).unwrap_or(u64::MAX)
}

impl Progress {
    /// Starts the line.
    pub fn new(quiet: bool) -> Self {
        let bar = if quiet {
            ProgressBar::hidden()
        } else {
            ProgressBar::new_spinner()
        };
        if let Ok(style) = ProgressStyle::with_template("{spinner} {elapsed_precise} {msg}") {
            bar.set_style(style);
        }
        Self {
            bar,
            last: Instant::now(),
            last_bytes: 0,
        }
    }

    /// Updates the line.
    pub fn update(&mut self, total: &Tally, cpus: usize, dropped: Option<u64>) {
        if self.bar.is_hidden() {
            return;
        }
        let now = Instant::now();
        let rate = rate(
            total.bytes.saturating_sub(self.last_bytes),
            now.duration_since(self.last),
        );
        self.last = now;
        self.last_bytes = total.bytes;
        let mut message = format!(
            "{cpus} CPUs, {}, {}/s",
            BinaryBytes(total.bytes),
            BinaryBytes(rate),
        );
        if total.lost_subbufs > 0 {
            message.push_str(&format!(", {} sub-buffers lost", total.lost_subbufs));
        }
        if total.overwritten_bytes > 0 {
            let lost = BinaryBytes(total.overwritten_bytes);
            message.push_str(&format!(", {lost} overwritten"));
        }
        if let Some(dropped) = dropped {
            message.push_str(&format!(", {dropped} records dropped"));
        }
        self.bar.set_message(message);
        self.bar.tick();
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
