// SPDX-License-Identifier: GPL-2.0

//! Bytes to decode: random ones.

/// Bytes of a case: more than the longest instruction.
pub const CASE: usize = 16;

/// Returns the number of random cases of a test: a million, or the value of `INSN_CASES`.
pub fn cases() -> u64 {
    match std::env::var("INSN_CASES") {
        Ok(text) => text.parse().expect("INSN_CASES is a number"),
        Err(_) => 1_000_000,
    }
}

/// A sequence of random cases that depends on its seed only (splitmix64).
///
/// Every second case is made of parts that are likely to be an instruction: prefixes, one of the
/// ways to write an opcode, and then any bytes.
#[derive(Clone, Debug)]
pub struct Random {
    state: u64,
    turn: bool,
}

impl Random {
    /// The sequence of a seed.
    pub fn new(seed: u64) -> Self {
        Self {
            state: seed,
            turn: false,
        }
    }

    /// The next 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.bits() as usize % from.len()]
    }

    fn anything(&mut self) -> [u8; CASE] {
        let mut case = [0; CASE];
        case[..8].copy_from_slice(&self.bits().to_le_bytes());
        case[8..].copy_from_slice(&self.bits().to_le_bytes());
        case
    }

    /// Parts that are likely to be an instruction, at the start of `case`.
    fn parts(&mut self, case: &mut [u8; CASE]) {
        const PREFIXES: [u8; 11] = [
            0x26, 0x2e, 0x36, 0x3e, 0x64, 0x65, 0x66, 0x67, 0xf0, 0xf2, 0xf3,
        ];
        const OPCODES: [&[u8]; 10] = [
            &[],
            &[],
            &[0x0f],
            &[0x0f],
            &[0x0f, 0x38],
            &[0x0f, 0x3a],
            &[0xc5],
            &[0xc4],
            &[0x62],
            &[0x8f],
        ];
        let mut at = 0;
        let mut put = |byte| {
            case[at] = byte;
            at += 1;
        };
        for _ in 0..self.pick(&[0, 0, 0, 1, 1, 2, 4]) {
            put(self.pick(&PREFIXES));
        }
        if self.pick(&[false, true]) {
            put(0x40 | self.pick(&[0, 1, 2, 4, 8, 9, 15]));
        }
        for byte in self.pick(&OPCODES) {
            put(*byte);
        }
    }
}

impl Iterator for Random {
    type Item = [u8; CASE];

    fn next(&mut self) -> Option<[u8; CASE]> {
        let mut case = self.anything();
        self.turn = !self.turn;
        if self.turn {
            self.parts(&mut case);
        }
        Some(case)
    }
}
