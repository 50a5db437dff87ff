// SPDX-License-Identifier: GPL-2.0

//! Table of a CPU that adds up hits by keys.
//!
//! Rows are in an open hash table. An interrupt or an NMI may add to a table while an interrupted
//! hit does. The row that this hit is making has a mark. The interrupt takes another row, even for
//! the same key. A reader adds up the rows of a key, also of several CPUs.
//!
//! Contexts: any, NMI included.

use ferro_core::histogram::class;
use ferro_core::histogram::CLASSES;

/// Words of a CPU, which begin as 0. A change of a word is one instruction on that CPU.
pub trait Words {
    /// Returns a word.
    fn get(&self, index: usize) -> u64;
    /// Stores a word, after all stores before it.
    fn set(&self, index: usize, value: u64);
    /// Adds to a word.
    fn add(&self, index: usize, value: u64);
    /// Adds to a number of two words.
    fn add_wide(&self, low: usize, high: usize, value: u64);
    /// Replaces a word that is still `old`. Returns true after a replacement.
    fn replace(&self, index: usize, old: u64, new: u64) -> bool;
}

/// Word of the table with the number of hits that found no row.
const LEFT_OUT: usize = 0;

/// First row.
const ROWS_AT: usize = 1;

/// First word of a row: 0 for a free row, [`MAKING`], or the hash of its key.
const TAG: usize = 0;

/// Number of hits.
const COUNT: usize = 1;

/// First word behind the count: the key, or with figures their sum.
const SUM: usize = 2;
const MAX: usize = 3;

/// Classes of times.
const CLASSES_AT: usize = 4;

/// Upper word of the sum of values.
const CARRY: usize = 4;

/// Least value, inverted, so that words begin as 0.
const MIN: usize = 5;
const VALUES_END: usize = 6;

/// Tag of a row without its whole key.
const MAKING: u64 = 1;

/// Rows that a hit tries before the table leaves it out.
const LOOKS: usize = 64;

/// Maximum number of bytes of the tables of all CPUs.
const SIZE_MAX: usize = 256 << 20;

/// Figures of a row, besides its number of hits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Figures {
    /// There are none.
    None,
    /// The sum of the times, the longest, and a histogram.
    Times,
    /// The sum of the values, the least and the greatest.
    Values,
}

/// Sum, least and greatest number of a row. Times have no least.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Sums {
    pub sum: u64,
    /// Upper word of the sum.
    pub carry: u64,
    pub min: u64,
    pub max: u64,
}

/// Sizes of the tables of all CPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    rows: usize,
    key_words: usize,
    figures: Figures,
}

/// Row of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    at: usize,
    layout: Layout,
}

impl Layout {
    /// Makes a layout for at least `rows` rows, with keys of at most `key_words` words. Returns
    /// `None` if tables would be empty, or larger than 256 MiB for all `cpus`.
    pub fn new(rows: usize, key_words: usize, figures: Figures, cpus: usize) -> Option<Self> {
        if rows == 0 || key_words == 0 {
            return None;
        }
        let layout = Self {
            rows: rows.checked_next_power_of_two()?,
            key_words,
            figures,
        };
        let words = layout.stride().checked_mul(layout.rows)?;
        let all = words.checked_mul(cpus)?;
        (all < SIZE_MAX / size_of::<u64>()).then_some(layout)
    }

    /// Returns the maximum number of words of a key.
    pub fn key_words(self) -> usize {
        self.key_words
    }

    fn key_at(self) -> usize {
        match self.figures {
            Figures::None => SUM,
            Figures::Times => CLASSES_AT.saturating_add(CLASSES),
            Figures::Values => VALUES_END,
        }
    }

    fn stride(self) -> usize {
        self.key_at().saturating_add(self.key_words)
    }

    /// Returns the number of words of a table.
    pub fn words(self) -> usize {
        let rows = self.stride().saturating_mul(self.rows);
        rows.saturating_add(ROWS_AT)
    }

    fn row(self, index: usize) -> Row {
        let at = self.stride().saturating_mul(index);
        Row {
            at: at.saturating_add(ROWS_AT),
            layout: self,
        }
    }

    /// Adds a hit to the row of its key, which is `head` followed by `tail`. The first word tells
    /// the number of words. `number` is the time or the value, for a table with figures.
    ///
    /// A hit without a row is counted as left out: if the key is too long, or if no row is free.
    #[inline]
    pub fn add(self, words: &impl Words, head: &[u64], tail: &[u64], number: u64) {
        match self.find(words, head, tail) {
            Some(row) => row.add(words, number),
            None => words.add(LEFT_OUT, 1),
        }
    }

    #[inline]
    fn find(self, words: &impl Words, head: &[u64], tail: &[u64]) -> Option<Row> {
        if head.len().saturating_add(tail.len()) > self.key_words {
            return None;
        }
        let key = || head.iter().chain(tail).copied();
        let hash = key().fold(0_u64, |hash, word| {
            (hash.rotate_left(5) ^ word).wrapping_mul(0x517c_c1b7_2722_0a95)
        });
        let tag = hash | 2;
        let mut index = (hash >> 32) as usize;
        for _ in 0..LOOKS.min(self.rows) {
            // The number of rows is a power of two.
            let row = self.row(index & self.rows.wrapping_sub(1));
            index = index.wrapping_add(1);
            let found = words.get(row.at);
            if found == tag && row.has(words, key()) {
                return Some(row);
            }
            if found == 0 && words.replace(row.at, 0, MAKING) {
                row.make(words, key(), tag);
                return Some(row);
            }
        }
        None
    }

    /// Returns the number of hits that were left out.
    pub fn left_out(self, words: &impl Words) -> u64 {
        words.get(LEFT_OUT)
    }

    /// Returns the rows that have a key.
    pub fn rows<'a>(self, words: &'a impl Words) -> impl Iterator<Item = Row> + 'a {
        let rows = (0..self.rows).map(move |index| self.row(index));
        rows.filter(|row| words.get(row.at) > MAKING)
    }
}

impl Row {
    fn word(self, index: usize) -> usize {
        self.at.wrapping_add(index)
    }

    fn key_word(self, index: usize) -> usize {
        self.word(self.layout.key_at()).wrapping_add(index)
    }

    #[inline]
    fn has(self, words: &impl Words, key: impl Iterator<Item = u64>) -> bool {
        let mut numbered = (0_usize..).zip(key);
        numbered.all(|(index, word)| words.get(self.key_word(index)) == word)
    }

    fn make(self, words: &impl Words, key: impl Iterator<Item = u64>, tag: u64) {
        for (index, word) in (0_usize..).zip(key) {
            words.set(self.key_word(index), word);
        }
        // From this store on, readers and interrupts use the row.
        words.set(self.word(TAG), tag);
    }

    #[inline]
    fn add(self, words: &impl Words, number: u64) {
        words.add(self.word(COUNT), 1);
        match self.layout.figures {
            Figures::None => return,
            Figures::Times => {
                words.add(self.word(SUM), number);
                words.add(self.word(CLASSES_AT.wrapping_add(class(number))), 1);
            }
            Figures::Values => {
                words.add_wide(self.word(SUM), self.word(CARRY), number);
                self.raise(words, MIN, !number);
            }
        }
        self.raise(words, MAX, number);
    }

    /// Stores a number in a word that has a lower one.
    #[inline]
    fn raise(self, words: &impl Words, index: usize, number: u64) {
        // An interrupt may store a greater number in between.
        loop {
            let max = words.get(self.word(index));
            if number <= max || words.replace(self.word(index), max, number) {
                return;
            }
        }
    }

    /// Returns the number of hits.
    pub fn count(self, words: &impl Words) -> u64 {
        words.get(self.word(COUNT))
    }

    /// Returns a word of the key.
    pub fn key(self, words: &impl Words, index: usize) -> u64 {
        match index < self.layout.key_words {
            true => words.get(self.key_word(index)),
            false => 0,
        }
    }

    /// Returns the sum and the extremes of the times or the values.
    pub fn sums(self, words: &impl Words) -> Sums {
        let word = |index| words.get(self.word(index));
        match self.layout.figures {
            Figures::None => Sums::default(),
            Figures::Times => Sums {
                sum: word(SUM),
                max: word(MAX),
                ..Sums::default()
            },
            Figures::Values => Sums {
                sum: word(SUM),
                carry: word(CARRY),
                min: !word(MIN),
                max: word(MAX),
            },
        }
    }

    /// Returns the classes that have times, with their numbers.
    pub fn classes<'a>(self, words: &'a impl Words) -> impl Iterator<Item = (usize, u64)> + 'a {
        let last = match self.layout.figures {
            Figures::Times => CLASSES,
            Figures::None | Figures::Values => 0,
        };
        let all = (0..last).map(move |class| {
            let at = CLASSES_AT.wrapping_add(class);
            (class, words.get(self.word(at)))
        });
        all.filter(|(_, count)| *count != 0)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::cell::RefCell;
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    /// Words, with interrupts before some of their accesses.
    struct Memory<'a> {
        words: Vec<Cell<u64>>,
        interrupt: RefCell<Option<Box<dyn FnMut(&Memory<'a>) + 'a>>>,
        /// Accesses until the interrupt.
        until: Cell<u32>,
    }

    impl<'a> Memory<'a> {
        fn new(layout: Layout) -> Self {
            Self {
                words: vec![Cell::new(0); layout.words()],
                interrupt: RefCell::new(None),
                until: Cell::new(u32::MAX),
            }
        }

        fn access(&self) {
            let left = self.until.get();
            self.until.set(left.wrapping_sub(1));
            if left == 0 {
                let handler = self.interrupt.borrow_mut().take();
                if let Some(mut handler) = handler {
                    handler(self);
                }
            }
        }
    }

    impl Words for Memory<'_> {
        fn get(&self, index: usize) -> u64 {
            self.access();
            self.words[index].get()
        }

        fn set(&self, index: usize, value: u64) {
            self.access();
            self.words[index].set(value);
        }

        fn add(&self, index: usize, value: u64) {
            self.access();
            let word = &self.words[index];
            word.set(word.get().wrapping_add(value));
        }

        fn add_wide(&self, low: usize, high: usize, value: u64) {
            self.access();
            let (sum, carry) = self.words[low].get().overflowing_add(value);
            self.words[low].set(sum);
            self.access();
            let word = &self.words[high];
            word.set(word.get().wrapping_add(carry.into()));
        }

        fn replace(&self, index: usize, old: u64, new: u64) -> bool {
            self.access();
            let word = &self.words[index];
            let is_old = word.get() == old;
            if is_old {
                word.set(new);
            }
            is_old
        }
    }

    fn key(value: u64, len: usize) -> Vec<u64> {
        let mut key = vec![len as u64];
        key.resize(len, value);
        key
    }

    /// Returns the hits by key.
    fn read(layout: Layout, memory: &Memory<'_>) -> HashMap<Vec<u64>, u64> {
        let mut all = HashMap::new();
        for row in layout.rows(memory) {
            let len = row.key(memory, 0) as usize;
            let key: Vec<_> = (0..len).map(|index| row.key(memory, index)).collect();
            *all.entry(key).or_default() += row.count(memory);
        }
        all
    }

    #[test]
    fn layouts() {
        assert_eq!(Layout::new(0, 1, Figures::None, 1), None);
        assert_eq!(Layout::new(1, 0, Figures::None, 1), None);
        assert_eq!(Layout::new(usize::MAX, 1, Figures::None, 1), None);
        assert_eq!(Layout::new(1 << 20, 1 << 10, Figures::None, 1), None);
        assert!(Layout::new(1 << 10, 1 << 10, Figures::None, 31).is_some());
        assert_eq!(Layout::new(1 << 10, 1 << 10, Figures::None, 33), None);
        assert_eq!(
            Layout::new(3, 2, Figures::None, 1).unwrap().words(),
            4 * 4 + 1
        );
    }

    #[test]
    fn times_of_a_key() {
        let layout = Layout::new(4, 2, Figures::Times, 1).unwrap();
        let memory = Memory::new(layout);
        for time in [3, 40, u64::MAX, 0] {
            layout.add(&memory, &key(1, 2), &[], time);
        }
        let row = layout.rows(&memory).next().unwrap();
        assert_eq!(row.count(&memory), 4);
        let times = Sums {
            sum: 42,
            max: u64::MAX,
            ..Sums::default()
        };
        assert_eq!(row.sums(&memory), times);
        let classes: Vec<_> = row.classes(&memory).collect();
        assert_eq!(
            classes,
            [(0, 1), (3, 1), (class(40), 1), (class(u64::MAX), 1)]
        );
    }

    #[test]
    fn values_of_a_key() {
        let layout = Layout::new(4, 2, Figures::Values, 1).unwrap();
        let memory = Memory::new(layout);
        for value in [30, u64::MAX, 7, u64::MAX] {
            layout.add(&memory, &key(1, 2), &[], value);
        }
        layout.add(&memory, &key(2, 2), &[], 0);
        let mut rows: Vec<_> = layout.rows(&memory).map(|row| row.sums(&memory)).collect();
        rows.sort_by_key(|sums| sums.max);
        let sums = Sums {
            sum: 35,
            carry: 2,
            min: 7,
            max: u64::MAX,
        };
        assert_eq!(rows, [Sums::default(), sums]);
        assert_eq!(layout.words(), 4 * 8 + 1);
        let row = layout.rows(&memory).next().unwrap();
        assert_eq!(row.classes(&memory).count(), 0);
    }

    #[test]
    fn a_key_that_is_too_long_is_left_out() {
        let layout = Layout::new(4, 2, Figures::None, 1).unwrap();
        let memory = Memory::new(layout);
        layout.add(&memory, &key(1, 2), &[1], 0);
        assert_eq!(
            (layout.left_out(&memory), layout.rows(&memory).count()),
            (1, 0)
        );
    }

    /// The parts of a key are one key.
    #[test]
    fn head_and_tail() {
        let layout = Layout::new(4, 3, Figures::None, 1).unwrap();
        let memory = Memory::new(layout);
        layout.add(&memory, &[3, 5], &[6], 0);
        layout.add(&memory, &[3, 5, 6], &[], 0);
        assert_eq!(read(layout, &memory), HashMap::from([(vec![3, 5, 6], 2)]));
    }

    proptest! {
        /// Each hit is in a row or left out, also with interrupts.
        #[test]
        fn each_hit_counts(
            hits in proptest::collection::vec((0_u64..40, 1_usize..4), 1..200),
            nested in proptest::collection::vec((0_u64..40, 1_usize..4), 0..8),
            until in 0_u32..2000,
            rows in 1_usize..64,
            has_times in any::<bool>(),
        ) {
            let figures = if has_times { Figures::Times } else { Figures::Values };
            // Sums have carries.
            let number = |value: u64| if has_times { value } else { u64::MAX - value };
            let layout = Layout::new(rows, 3, figures, 1).unwrap();
            let memory = Memory::new(layout);
            let mut expected: HashMap<Vec<u64>, u64> = HashMap::new();
            for (value, len) in &hits {
                *expected.entry(key(*value, *len)).or_default() += 1;
            }
            let is_nested = std::rc::Rc::new(Cell::new(false));
            let (flag, inner) = (is_nested.clone(), nested.clone());
            *memory.interrupt.borrow_mut() = Some(Box::new(move |memory| {
                flag.set(true);
                for (value, len) in &inner {
                    layout.add(memory, &key(*value, *len), &[], number(*value));
                }
            }));
            memory.until.set(until);
            for (value, len) in &hits {
                layout.add(&memory, &key(*value, *len), &[], number(*value));
            }
            memory.until.set(u32::MAX);
            if is_nested.get() {
                for (value, len) in &nested {
                    *expected.entry(key(*value, *len)).or_default() += 1;
                }
            }
            let found = read(layout, &memory);
            let total: u64 = expected.values().sum();
            let counted: u64 = found.values().sum();
            prop_assert_eq!(counted + layout.left_out(&memory), total);
            for (key, count) in &found {
                prop_assert!(count <= &expected[key]);
            }
            if layout.left_out(&memory) == 0 {
                prop_assert_eq!(found, expected);
            }
            let mut all = 0;
            for row in layout.rows(&memory) {
                let sums = row.sums(&memory);
                // Keys of one word have no value to compare with.
                if row.key(&memory, 0) > 1 {
                    let value = number(row.key(&memory, 1));
                    let sum = u128::from(value) * u128::from(row.count(&memory));
                    prop_assert_eq!(u128::from(sums.sum) | u128::from(sums.carry) << 64, sum);
                    let min = if has_times { 0 } else { value };
                    prop_assert_eq!((sums.min, sums.max), (min, value));
                }
                all += row.classes(&memory).map(|(_, count)| count).sum::<u64>();
            }
            prop_assert_eq!(all, if has_times { counted } else { 0 });
        }
    }
}
