// SPDX-License-Identifier: GPL-2.0

//! Times between which events are missing: what began before cannot be told from what began then.

#![deny(unsafe_code)]

/// Times between which a CPU has lost events.
#[derive(Debug, Default)]
pub(super) struct Losses(Vec<(u64, u64)>);

/// How a time relates to losses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Loss {
    /// None are known, or they are later.
    None,
    /// Some events of about this time may be missing.
    Within,
    /// Some are before it, and after the time that was asked about before.
    Passed,
}

impl Losses {
    pub(super) fn add(&mut self, from: u64, to: u64) {
        self.0.push((from, to));
    }

    /// Times have to be in order.
    pub(super) fn at(&mut self, time: u64) -> Loss {
        let count = self.0.len();
        self.0.retain(|(_, to)| *to >= time);
        match (
            self.0.iter().any(|(from, _)| *from <= time),
            count == self.0.len(),
        ) {
            (true, _) => Loss::Within,
            (false, false) => Loss::Passed,
            (false, true) => Loss::None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_losses() {
        let mut losses = Losses::default();
        assert_eq!(losses.at(5), Loss::None);
        losses.add(10, 20);
        losses.add(15, 30);
        let seen = [9, 10, 30, 31, 32].map(|time| losses.at(time));
        assert_eq!(
            seen,
            [
                Loss::None,
                Loss::Within,
                Loss::Within,
                Loss::Passed,
                Loss::None
            ]
        );
    }
}
