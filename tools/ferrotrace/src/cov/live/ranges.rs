// SPDX-License-Identifier: GPL-2.0

//! Lists of ranges in the file of a run: LEB128 numbers, of the lengths of gaps and ranges.

#![deny(unsafe_code)]

use std::ops::Range;

/// Parses the next LEB128 number.
fn take_number(bytes: &mut &[u8]) -> Option<u32> {
    let mut number = 0;
    for shift in (0..32).step_by(7) {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        number |= u64::from(byte & 0x7f) << shift;
        if *byte < 0x80 {
            return number.try_into().ok();
        }
    }
    None
}

/// Appends a LEB128 number.
fn put_number(bytes: &mut Vec<u8>, mut number: u32) {
    while number >= 0x80 {
        bytes.push(number.to_le_bytes()[0] | 0x80);
        number >>= 7;
    }
    bytes.push(number.to_le_bytes()[0]);
}

/// Parses the next list of ranges. Allocates nothing by their number, which may be wrong in a file.
pub fn take(bytes: &mut &[u8]) -> Option<Vec<Range<u32>>> {
    let mut ranges = Vec::new();
    let mut end: u32 = 0;
    for _ in 0..take_number(bytes)? {
        let start = end.checked_add(take_number(bytes)?)?;
        end = start.checked_add(take_number(bytes).filter(|len| *len > 0)?)?;
        ranges.push(start..end);
    }
    Some(ranges)
}

/// Appends a list of ranges in ascending order.
pub fn put(bytes: &mut Vec<u8>, ranges: &[Range<u32>]) {
    put_number(bytes, u32::try_from(ranges.len()).unwrap_or(0));
    let mut end = 0;
    for range in ranges {
        put_number(bytes, range.start - end);
        put_number(bytes, range.end - range.start);
        end = range.end;
    }
}
