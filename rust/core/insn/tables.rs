// SPDX-License-Identifier: GPL-2.0

//! Tables of the operand bytes of each opcode.

use super::operands::Encoding;

/// Length of an immediate operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Immediate {
    None,
    /// 1 byte.
    Byte,
    /// 2 bytes, for any operand size.
    Word,
    /// 4 bytes, for any operand size.
    Double,
    /// 8 bytes, for any operand size.
    Quad,
    /// As many bytes as the operand size, but at most 4.
    Operand,
    /// As many bytes as the operand size, up to 8: only `mov register, immediate`.
    FullOperand,
    /// An absolute address with as many bytes as the address size.
    Offset,
    /// The word and the byte of `enter`.
    Enter,
    /// Group 3 of byte operands: the first two members have a byte, the others nothing.
    Group3Byte,
    /// Group 3: the first two members have an operand as in [`Immediate::Operand`].
    Group3,
    /// A relative branch with a distance of 1 byte.
    Relative8,
    /// A relative branch with a distance of 4 bytes, for any operand size.
    Relative32,
    /// 2 bytes, if the prefix 66 or F2 makes it `extrq` or `insertq` (SSE4a).
    Extract,
}

/// Operand bytes of an opcode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    /// True if there is a ModRM byte.
    pub(super) modrm: bool,
    /// True if that byte may name memory, so that a SIB byte and a displacement may follow.
    pub(super) memory: bool,
    pub(super) immediate: Immediate,
}

const fn plain(immediate: Immediate) -> Layout {
    Layout {
        modrm: false,
        memory: false,
        immediate,
    }
}

const fn modrm(immediate: Immediate) -> Layout {
    Layout {
        modrm: true,
        memory: true,
        immediate,
    }
}

/// A map of 256 opcodes, a letter each, which [`layout_of`] explains.
struct Map(&'static [u8; 256]);

impl Map {
    fn layout(&self, opcode: u8) -> Option<Layout> {
        self.0.get(usize::from(opcode)).and_then(|&c| layout_of(c))
    }
}

/// Returns the meaning of a letter in the maps below; `x`, a prefix or an invalid instruction, has
/// none.
fn layout_of(letter: u8) -> Option<Layout> {
    Some(match letter {
        b'.' => plain(Immediate::None),
        b'b' => plain(Immediate::Byte),
        b'w' => plain(Immediate::Word),
        b'z' => plain(Immediate::Operand),
        b'v' => plain(Immediate::FullOperand),
        b'o' => plain(Immediate::Offset),
        b'e' => plain(Immediate::Enter),
        b'j' => plain(Immediate::Relative8),
        b'J' => plain(Immediate::Relative32),
        b'm' => modrm(Immediate::None),
        b'B' => modrm(Immediate::Byte),
        b'Z' => modrm(Immediate::Operand),
        b't' => modrm(Immediate::Group3Byte),
        b'T' => modrm(Immediate::Group3),
        b's' => modrm(Immediate::Extract),
        // Moves of control and debug registers: the operand is a register, for any mode field.
        b'r' => Layout {
            memory: false,
            ..modrm(Immediate::None)
        },
        _ => return None,
    })
}

/// One-byte opcodes in 64-bit mode.
#[rustfmt::skip]
const PRIMARY: Map = Map(
    // 0123456789abcdef
    b"mmmmbzxxmmmmbzxx\
      mmmmbzxxmmmmbzxx\
      mmmmbzxxmmmmbzxx\
      mmmmbzxxmmmmbzxx\
      xxxxxxxxxxxxxxxx\
      ................\
      xxxmxxxxzZbB....\
      jjjjjjjjjjjjjjjj\
      BZxBmmmmmmmmmmmm\
      ..........x.....\
      oooo....bz......\
      bbbbbbbbvvvvvvvv\
      BBw.xxBZe.w..bx.\
      mmmmxx..mmmmmmmm\
      jjjjbbbbJJxj....\
      x.xx..tT......mm",
);

/// Opcodes after 0f.
#[rustfmt::skip]
const SECONDARY: Map = Map(
    // 0123456789abcdef
    b"mmmmx.....x.xm.B\
      mmmmmmmmmmmmmmmm\
      rrrrxxxxmmmmmmmm\
      ......x.xxxxxxxx\
      mmmmmmmmmmmmmmmm\
      mmmmmmmmmmmmmmmm\
      mmmmmmmmmmmmmmmm\
      BBBBmmm.smxxmmmm\
      JJJJJJJJJJJJJJJJ\
      mmmmmmmmmmmmmmmm\
      ...mBmmm...mBmmm\
      mmmmmmmmmmBmmmmm\
      mmBmBBBm........\
      mmmmmmmmmmmmmmmm\
      mmmmmmmmmmmmmmmm\
      mmmmmmmmmmmmmmmm",
);

/// Returns the operand bytes of an opcode, or `None` for an invalid one.
pub(super) fn layout(encoding: Encoding, map: u8, opcode: u8) -> Option<Layout> {
    Some(match (encoding, map) {
        (Encoding::Legacy, 0) => return PRIMARY.layout(opcode),
        (Encoding::Legacy, 1) => return SECONDARY.layout(opcode),
        (Encoding::Rex2, 0) => match opcode {
            // `jmpabs`
            0xa1 => plain(Immediate::Quad),
            0x70..=0x7f | 0xa0..=0xaf | 0xe0..=0xef => return None,
            _ => return PRIMARY.layout(opcode),
        },
        (Encoding::Rex2, 1) => match opcode {
            0x30..=0x3f | 0x80..=0x8f => return None,
            _ => return SECONDARY.layout(opcode),
        },
        (Encoding::Vex | Encoding::Evex, 1) => match opcode {
            // `vzeroupper`, `vzeroall`
            0x77 if encoding == Encoding::Vex => plain(Immediate::None),
            0x70..=0x73 | 0xc2 | 0xc4..=0xc6 => modrm(Immediate::Byte),
            _ => modrm(Immediate::None),
        },
        // Opcodes that APX takes from the two maps above.
        (Encoding::Evex, 4) => match opcode {
            0x69 | 0x81 => modrm(Immediate::Operand),
            0x24 | 0x2c | 0x6b | 0x80 | 0x83 | 0xc0 | 0xc1 => modrm(Immediate::Byte),
            0xf6 => modrm(Immediate::Group3Byte),
            0xf7 => modrm(Immediate::Group3),
            _ => modrm(Immediate::None),
        },
        (Encoding::Legacy | Encoding::Vex | Encoding::Evex, 2) => modrm(Immediate::None),
        (Encoding::Legacy | Encoding::Vex | Encoding::Evex, 3) => modrm(Immediate::Byte),
        (Encoding::Vex | Encoding::Evex, 5 | 6) => modrm(Immediate::None),
        (Encoding::Vex | Encoding::Evex, 7) => modrm(Immediate::Double),
        (Encoding::Xop, 8) => modrm(Immediate::Byte),
        (Encoding::Xop, 9) => modrm(Immediate::None),
        (Encoding::Xop, 10) => modrm(Immediate::Double),
        _ => return None,
    })
}

/// Returns true if a member of a group of one-byte opcodes does not exist, so that its operand
/// bytes are unknown.
pub(super) fn is_hole(opcode: u8, modrm: u8) -> bool {
    let member = (modrm >> 3) & 7;
    match opcode {
        0x8f => member != 0,
        // `xabort`, `xbegin`
        0xc6 | 0xc7 => member != 0 && modrm != 0xf8,
        0xfe => member > 1,
        0xff => member == 7,
        _ => false,
    }
}
