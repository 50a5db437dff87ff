// SPDX-License-Identifier: GPL-2.0

//! CRC-32C, eight bytes at a time.

/// The polynomial of Castagnoli, reflected.
const POLYNOMIAL: u32 = 0x82f6_3b78;

/// `TABLES[n][b]` is the contribution of the byte `b` with `n` bytes after it.
static TABLES: [[u32; 256]; 8] = tables();

const fn tables() -> [[u32; 256]; 8] {
    let mut tables = [[0; 256]; 8];
    let (mut index, mut byte) = (0, 0u32);
    while index < 256 {
        let (mut crc, mut bit) = (byte, 0);
        while bit < 8 {
            crc = match crc & 1 {
                0 => crc >> 1,
                _ => (crc >> 1) ^ POLYNOMIAL,
            };
            bit += 1;
        }
        tables[0][index] = crc;
        index += 1;
        byte += 1;
    }
    let mut table = 1;
    while table < 8 {
        let mut index = 0;
        while index < 256 {
            let crc = tables[table - 1][index];
            let [low, ..] = crc.to_le_bytes();
            // Widening, which `from()` could not do in a constant.
            tables[table][index] = (crc >> 8) ^ tables[0][low as usize];
            index += 1;
        }
        table += 1;
    }
    tables
}

/// State of a checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Crc(u32);

impl Crc {
    /// Returns the state of no bytes.
    pub const fn new() -> Self {
        Self(!0)
    }

    /// Adds the eight bytes of a little-endian word.
    #[inline]
    #[must_use]
    pub fn word(self, word: u64) -> Self {
        let bytes = (word ^ u64::from(self.0)).to_le_bytes();
        let tables = TABLES.iter().rev();
        Self(
            tables
                .zip(bytes)
                .fold(0, |crc, (table, byte)| crc ^ table[usize::from(byte)]),
        )
    }

    /// Adds bytes.
    #[must_use]
    pub fn bytes(self, bytes: &[u8]) -> Self {
        Self(bytes.iter().fold(self.0, |crc, byte| {
            let [low, ..] = crc.to_le_bytes();
            (crc >> 8) ^ TABLES[0][usize::from(low ^ byte)]
        }))
    }

    /// Returns the checksum.
    pub const fn finish(self) -> u32 {
        !self.0
    }
}

impl Default for Crc {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn it_is_the_one_that_everybody_means() {
        // The check value of CRC-32C, and of RFC 3720's 32 bytes of zeros.
        assert_eq!(Crc::new().bytes(b"123456789").finish(), 0xe306_9283);
        assert_eq!(Crc::new().bytes(&[0; 32]).finish(), 0x8a91_36aa);
        assert_eq!(Crc::new().finish(), 0);
    }

    proptest! {
        #[test]
        fn words_are_eight_bytes(words in prop::collection::vec(any::<u64>(), 0..20), before: u8) {
            let start = Crc::new().bytes(&[before]);
            let (mut by_words, mut by_bytes) = (start, start);
            for word in words {
                by_words = by_words.word(word);
                by_bytes = by_bytes.bytes(&word.to_le_bytes());
            }
            prop_assert_eq!(by_words, by_bytes);
        }
    }
}
