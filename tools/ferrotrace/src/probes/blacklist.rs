// SPDX-License-Identifier: GPL-2.0

//! What the kernel says beforehand that it refuses a probe: `kprobes/blacklist` of debugfs. With
//! several probes in a call, the C engine says only that one of them was refused, and each try to
//! find it costs a grace period.

#![deny(unsafe_code)]

use std::fs;

/// The file, which both engines have.
const PATH: &str = "/sys/kernel/debug/kprobes/blacklist";

/// Code of the kernel, as pairs of a start and an end, in order and apart from each other.
#[derive(Debug, Default)]
pub(super) struct Blacklist(Vec<(u64, u64)>);

impl Blacklist {
    /// That of the running kernel; empty if there is none, or if it is not for this user.
    pub(super) fn read() -> Self {
        Self::parse(&fs::read_to_string(PATH).unwrap_or_default())
    }

    /// Lines of the form `0xSTART-0xEND NAME`; others are skipped.
    pub(super) fn parse(text: &str) -> Self {
        let number = |word: &str| u64::from_str_radix(word.strip_prefix("0x")?, 16).ok();
        let mut all: Vec<(u64, u64)> = text
            .lines()
            .filter_map(|line| {
                let (start, end) = line.split_ascii_whitespace().next()?.split_once('-')?;
                Some((number(start)?, number(end)?))
            })
            .collect();
        all.sort_unstable();
        // The area of a section and the functions in it.
        all.dedup_by(|next, last| {
            let is_within = next.0 <= last.1;
            if is_within {
                last.1 = last.1.max(next.1);
            }
            is_within
        });
        Self(all)
    }

    /// Returns true if the code at this address is listed.
    pub(super) fn contains(&self, address: u64) -> bool {
        let next = self.0.partition_point(|(start, _)| *start <= address);
        let area = next.checked_sub(1).and_then(|index| self.0.get(index));
        area.is_some_and(|(_, end)| address < *end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn areas() {
        let blacklist = Blacklist::parse(
            "0xffffffff81000300-0xffffffff81000310\tlater\n\
             0xffffffff81000000-0xffffffff81000200\tarea\n\
             0xffffffff81000010-0xffffffff81000020\twithin\n\
             0xffffffff81000200-0xffffffff81000210\tbehind\n\
             nothing\n\
             0x12-\tno end\n",
        );
        for (address, is_in) in [
            (0xffff_ffff_8100_0000, true),
            (0xffff_ffff_8100_0100, true),
            (0xffff_ffff_8100_020f, true),
            (0xffff_ffff_8100_0210, false),
            (0xffff_ffff_8100_02ff, false),
            (0xffff_ffff_8100_0300, true),
            (0xffff_ffff_8100_0310, false),
            (0x12, false),
            (0, false),
        ] {
            assert_eq!(blacklist.contains(address), is_in, "{address:#x}");
        }
        assert!(!Blacklist::default().contains(0));
        // Without the right to see addresses all are 0.
        assert!(!Blacklist::parse("0x0-0x0\tf\n").contains(0));
    }
}
