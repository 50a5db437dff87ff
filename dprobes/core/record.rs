// SPDX-License-Identifier: GPL-2.0

//! Records, the results of runs for readers, and their encoding.
//!
//! ```text
//! record   0 u32 major  4 u32 minor  8 u16 fields  10 u16 exception  12 u32 CPU
//!          then the fields, in the order of their bits, then entries
//! entry    0 u8 token  1 u16 bytes  3 the bytes
//! ```
//!
//! An entry for missing memory or a missing string has 0xffff for its length, and 8 bytes with the
//! address.

use super::bytes::Bytes;
use super::bytes::Pieces;
use super::exception::Exception;
use super::exception::Fault;
use super::limits::CALL_DEPTH;
use super::refusal::Reason;

macro_rules! fields {
    ($($bit:literal $field:ident $name:literal $len:literal, $doc:literal;)*) => {
        /// A field of a record's header, chosen by `--log`.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u16)]
        pub enum Field {
            $(#[doc = $doc] $field = 1 << $bit,)*
        }

        /// All fields, in the order of a record.
        pub const FIELDS: &[Field] = &[$(Field::$field,)*];

        impl Field {
            /// Returns its name for `--log`.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$field => $name,)*
                }
            }

            /// Returns the number of its bytes.
            pub const fn len(self) -> usize {
                match self {
                    $(Self::$field => $len,)*
                }
            }
        }
    };
}

fields! {
    0 ProcName "PROCNAME" 16, "The name of the thread, ended by zero.";
    1 Pid "PID" 8, "The process, then the thread, each of 32 bits.";
    2 Uid "UID" 8, "The user's number.";
    3 SsEsp "SSESP" 16, "The stack's segment and pointer.";
    4 CsEip "CSEIP" 16, "The code's segment and pointer.";
    5 Psw "PSW" 8, "The flags.";
    6 Upsw "UPSW" 8, "The flags in user space.";
    7 Tsc "TSC" 8, "The time stamp counter.";
}

/// Mask of all fields.
pub const ALL_FIELDS: u32 = 0xff;

/// Number of bytes of a record's header, without fields.
pub const RECORD_LEN: usize = 16;
/// Number of bytes of all fields.
pub const FIELDS_LEN: usize = 88;
/// Number of bytes of an entry before its data.
pub(super) const ENTRY_LEN: usize = 3;
/// Number of bytes of an entry for an exception.
pub(super) const EXCEPTION_LEN: usize = ENTRY_LEN + 14;
/// Length value for missing data.
pub(super) const NOT_THERE: u16 = u16::MAX;

impl Field {
    /// Returns its bit.
    pub const fn bit(self) -> u16 {
        self as u16
    }

    /// Returns false: each field has bytes.
    pub const fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// Returns the field of a name.
    pub fn from_name(name: &str) -> Option<Self> {
        FIELDS.iter().copied().find(|field| field.name() == name)
    }
}

/// Kind of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Token {
    Memory = 0,
    Text = 1,
    Words = 2,
    Calls = 3,
    Locals = 4,
    Globals = 5,
    Top = 6,
    Exception = 7,
    CutText = 8,
}

/// Start of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordHeader {
    /// Major number.
    pub major: u32,
    /// Minor number.
    pub minor: u32,
    /// Mask of its fields.
    pub fields: u16,
    /// Bit of the exception that ended the run, or 0.
    pub exception: u16,
    /// The CPU.
    pub cpu: u32,
}

impl RecordHeader {
    /// Encodes it as two words.
    #[inline(always)]
    pub(super) fn to_words(self) -> [u64; 2] {
        [
            u64::from(self.minor) << 32 | u64::from(self.major),
            u64::from(self.cpu) << 32 | u64::from(self.exception) << 16 | u64::from(self.fields),
        ]
    }

    /// Encodes it.
    #[inline(always)]
    pub fn to_bytes(&self) -> [u8; RECORD_LEN] {
        let [low, high] = self.to_words();
        (u128::from(high) << 64 | u128::from(low)).to_le_bytes()
    }
}

/// A decoded record.
#[derive(Clone, Copy)]
pub struct RecordRef<'a> {
    /// Start.
    pub header: RecordHeader,
    fields: &'a [u8],
    entries: &'a [u8],
}

impl<'a> RecordRef<'a> {
    /// Decodes a record; returns `None` if it ends early or has unknown fields.
    pub fn decode(bytes: &'a [u8]) -> Option<Self> {
        let mut bytes = Bytes(bytes);
        let header = header(&mut bytes).ok()?;
        if u32::from(header.fields) & !ALL_FIELDS != 0 {
            return None;
        }
        let present = FIELDS
            .iter()
            .filter(|field| header.fields & field.bit() != 0);
        let len = present.map(|field| field.len()).sum();
        Some(Self {
            header,
            fields: bytes.take(len).ok()?,
            entries: bytes.0,
        })
    }

    /// Returns the bytes of a field, if the record has it.
    pub fn field(&self, field: Field) -> Option<&'a [u8]> {
        if self.header.fields & field.bit() == 0 {
            return None;
        }
        let before = FIELDS
            .iter()
            .filter(|one| one.bit() < field.bit() && self.header.fields & one.bit() != 0);
        let start: usize = before.map(|one| one.len()).sum();
        self.fields.get(start..start.checked_add(field.len())?)
    }

    /// Returns the logged entries.
    pub fn entries(&self) -> Entries<'a> {
        Entries(Bytes(self.entries))
    }
}

fn header(bytes: &mut Bytes<'_>) -> Result<RecordHeader, Reason> {
    Ok(RecordHeader {
        major: bytes.u32()?,
        minor: bytes.u32()?,
        fields: bytes.u16()?,
        exception: bytes.u16()?,
        cpu: bytes.u32()?,
    })
}

/// Words, as logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Words<'a>(Pieces<'a, 8>);

impl<'a> Words<'a> {
    /// Returns the words.
    pub fn iter(self) -> impl Iterator<Item = u64> + 'a {
        self.0.iter().map(|word| u64::from_le_bytes(*word))
    }
}

/// A logged entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry<'a> {
    /// Memory.
    Memory(&'a [u8]),
    /// A string, without a zero at its end.
    Text(&'a [u8]),
    /// The start of a string whose end is beyond the requested bytes, or beyond the room of the
    /// log.
    CutText(&'a [u8]),
    /// Missing memory or a missing string, with its address.
    NotThere(u64),
    /// Words of the stack, the top first.
    Words(Words<'a>),
    /// Position of the program, then the return position of each call: numbers of instructions.
    Calls(Words<'a>),
    /// Local variables from an index on.
    Locals(u32, Words<'a>),
    /// Global variables from an index on.
    Globals(u32, Words<'a>),
    /// The top of the stack.
    Top(u64),
    /// An exception, and the number of the instruction.
    Exception(Fault, u32),
}

/// Entries of a record.
#[derive(Clone, Copy)]
pub struct Entries<'a>(Bytes<'a>);

impl<'a> Entries<'a> {
    /// Makes an iterator over data from [`Outcome::data`](super::Outcome::data).
    pub fn new(bytes: &'a [u8]) -> Self {
        Self(Bytes(bytes))
    }

    fn read(&mut self) -> Result<Entry<'a>, Reason> {
        let bytes = &mut self.0;
        let token = bytes.u8()?;
        let len = bytes.u16()?;
        if token <= Token::Text as u8 && len == NOT_THERE {
            return bytes.u64().map(Entry::NotThere);
        }
        let mut data = Bytes(bytes.take(len.into())?);
        let words = |data: &Bytes<'a>| Pieces::new(data.0).map(Words).ok_or(Reason::Length);
        Ok(match token {
            0 => Entry::Memory(data.0),
            1 => Entry::Text(data.0),
            2 => Entry::Words(words(&data)?),
            3 => Entry::Calls(words(&data)?),
            4 => Entry::Locals(data.u32()?, words(&data)?),
            5 => Entry::Globals(data.u32()?, words(&data)?),
            6 => Entry::Top(data.u64()?),
            7 => {
                let bit = data.u16()?;
                let exception = Exception::from_bit(bit).ok_or(Reason::Kind(token))?;
                let at = data.u32()?;
                Entry::Exception(Fault::new(exception, data.u64()?), at)
            }
            8 => Entry::CutText(data.0),
            other => return Err(Reason::Kind(other)),
        })
    }
}

impl<'a> Iterator for Entries<'a> {
    /// `Err` once, at the end, with the unreadable bytes.
    type Item = Result<Entry<'a>, &'a [u8]>;

    fn next(&mut self) -> Option<Self::Item> {
        let all = self.0 .0;
        if all.is_empty() {
            return None;
        }
        let entry = self.read().map_err(|_| all);
        if entry.is_err() {
            self.0 = Bytes(&[]);
        }
        Some(entry)
    }
}

const _: () = {
    // An entry with all calls fits in the smallest useful trace.
    assert!(ENTRY_LEN + 8 * (CALL_DEPTH + 1) < 512);
    let (mut len, mut bits, mut at) = (0, 0, 0);
    while at < FIELDS.len() {
        len += FIELDS[at].len();
        bits |= FIELDS[at].bit() as u32;
        at += 1;
    }
    assert!(len == FIELDS_LEN && bits == ALL_FIELDS);
};
