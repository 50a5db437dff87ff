// SPDX-License-Identifier: GPL-2.0

//! Layouts of the record of a [`Plain`] program. Common records have a length that is known at
//! compile time, so that a hit looks up and compares nothing.

use super::environment::World;
use super::log_only::Plain;
use super::log_only::Room;
use super::record::ENTRY_LEN;
use super::record::RECORD_LEN;

/// A layout of records.
pub trait Form {
    /// Returns the number of bytes of the record.
    fn len(plain: &Plain) -> usize;

    /// Writes the record of a hit, as [`Plain::write`]. For a program with another layout the
    /// record is wrong.
    fn write<W: World, R: Room + ?Sized>(plain: &Plain, world: &W, room: &mut R) -> bool;
}

/// One entry, of 16 bytes of memory.
pub struct Pair;

/// One entry, of this many words.
pub struct OfWords<const WORDS: usize>;

/// Any entries.
pub struct Steps;

/// Offset of the first entry's data.
const DATA: usize = RECORD_LEN + ENTRY_LEN;

/// Number of bytes of a word.
const WORD: usize = size_of::<u64>();

impl Form for Pair {
    #[inline(always)]
    fn len(_plain: &Plain) -> usize {
        DATA + 2 * WORD
    }

    #[inline(always)]
    fn write<W: World, R: Room + ?Sized>(plain: &Plain, world: &W, room: &mut R) -> bool {
        let [step, ..] = &plain.steps;
        let address = step.source.value(world);
        let Some([low, high]) = address.and_then(|address| world.read_pair(address)) else {
            return false;
        };
        plain.start(world, room);
        room.put(RECORD_LEN, step.head);
        room.put(DATA, low.to_le_bytes());
        room.put(DATA + WORD, high.to_le_bytes());
        true
    }
}

impl<const WORDS: usize> Form for OfWords<WORDS> {
    #[inline(always)]
    fn len(_plain: &Plain) -> usize {
        DATA + WORDS * WORD
    }

    #[inline(always)]
    fn write<W: World, R: Room + ?Sized>(plain: &Plain, world: &W, room: &mut R) -> bool {
        plain.start(world, room);
        let [first, ..] = &plain.steps;
        room.put(RECORD_LEN, first.head);
        let places = (DATA..).step_by(WORD);
        for (step, at) in plain.steps.iter().take(WORDS).zip(places) {
            let Some(value) = step.source.value(world) else {
                return false;
            };
            room.put(at, value.to_le_bytes());
        }
        true
    }
}

impl Form for Steps {
    #[inline(always)]
    fn len(plain: &Plain) -> usize {
        plain.len()
    }

    #[inline(always)]
    fn write<W: World, R: Room + ?Sized>(plain: &Plain, world: &W, room: &mut R) -> bool {
        plain.write(world, room)
    }
}
