// SPDX-License-Identifier: GPL-2.0

//! Programs that only push available words, log them, and exit: most programs that log.
//!
//! The length and the layout of their record are computed when they are loaded. A hit only fills in
//! the values: it needs no stack, and no [`Memory`](super::Memory).

use super::environment::World;
use super::insn::Insn;
use super::machine::Limits;
use super::op::Op;
use super::op::Scope;
use super::record::RecordHeader;
use super::record::Token;
use super::record::ENTRY_LEN;
use super::record::RECORD_LEN;
use super::register::Register;

/// Maximum number of bytes of a record.
const BYTES: usize = 64;
/// Maximum number of words on the stack.
const DEPTH: usize = 8;
/// Maximum number of steps of a hit for a record.
const STEPS: usize = 8;

/// Source of a word.
#[derive(Clone, Copy)]
pub(super) enum Source {
    Word(u64),
    Register(Register),
    Variable(Scope, u32),
    Task,
    Process,
    Thread,
    Cpu,
    Time,
}

impl Source {
    /// Returns the source of the word that an instruction pushes.
    pub(super) fn of(insn: &Insn) -> Option<Self> {
        let is_fixed = !insn.is_from_stack();
        Some(match insn.op {
            Op::Push => Self::Word(insn.word()),
            Op::PushR => {
                let register = Register::from_number(insn.selector())?;
                // The others cost steps.
                register.is_saved().then_some(Self::Register(register))?
            }
            Op::PushLv if is_fixed => Self::Variable(Scope::Local, insn.number()),
            Op::PushGv if is_fixed => Self::Variable(Scope::Global, insn.number()),
            Op::PushTask => Self::Task,
            Op::PushPid => Self::Process,
            Op::PushTid => Self::Thread,
            Op::PushProcId => Self::Cpu,
            Op::PushTime => Self::Time,
            _ => return None,
        })
    }

    #[inline(always)]
    pub(super) fn value<W: World>(self, world: &W) -> Option<u64> {
        match self {
            Self::Word(word) => Some(word),
            Self::Register(register) => world.register(register),
            Self::Variable(scope, index) => world.variable(scope, index),
            Self::Task => Some(world.task()),
            Self::Process => Some(world.process().into()),
            Self::Thread => Some(world.thread().into()),
            Self::Cpu => Some(world.cpu().into()),
            Self::Time => Some(world.time()),
        }
    }
}

/// Part of the record that a hit fills in.
#[derive(Clone, Copy)]
pub(super) struct Step {
    what: What,
    at: u8,
    /// Number of bytes of memory.
    len: u8,
    /// Start of the entry, if this is one.
    pub(super) head: [u8; HEAD],
    /// The word, or the address of memory.
    pub(super) source: Source,
}

/// Kind of a part.
#[derive(Clone, Copy)]
enum What {
    /// End of the record.
    End,
    /// A word.
    Word,
    /// An entry of words, with the first of them.
    Words,
    /// An entry of two words of memory, the most common one.
    Pair,
    /// An entry of other memory.
    Memory,
}

impl Step {
    const END: Self = Self {
        what: What::End,
        at: 0,
        len: 0,
        head: [0; HEAD],
        source: Source::Word(0),
    };
}

/// Number of bytes written for the start of an entry: one more than it has. The last is the first
/// byte of its data, which is written later.
const HEAD: usize = ENTRY_LEN + 1;

/// Buffer for a record.
pub trait Room {
    /// Writes bytes at an offset. Bytes outside of the buffer are lost: the record has the length
    /// of [`Plain::len`].
    fn put<const N: usize>(&mut self, at: usize, bytes: [u8; N]);
}

impl Room for [u8] {
    #[inline(always)]
    fn put<const N: usize>(&mut self, at: usize, bytes: [u8; N]) {
        let room = self.get_mut(at..).and_then(|room| room.first_chunk_mut());
        if let Some(room) = room {
            *room = bytes;
        }
    }
}

/// Layout of a program's record. `log_layout.rs` has a type for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// One entry, of 16 bytes of memory.
    Pair,
    /// One entry, of a word.
    Word,
    /// One entry, of two words.
    TwoWords,
    /// Any entries.
    Steps,
}

/// A program that only logs.
pub struct Plain {
    /// Start of the record, except for the CPU.
    start: u64,
    rest: u64,
    len: u8,
    count: u8,
    pub(super) steps: [Step; STEPS],
}

impl Plain {
    /// Returns `None` for other programs, or if the record is too long to be worth it.
    pub fn new(limits: &Limits, fields: u16, code: &[Insn]) -> Option<Self> {
        let [code @ .., last] = code else {
            return None;
        };
        if *last != Insn::new(Op::Exit) || fields != 0 {
            return None;
        }
        let header = RecordHeader {
            major: limits.major,
            minor: limits.minor,
            fields,
            exception: 0,
            cpu: 0,
        };
        let [start, rest] = header.to_words();
        let mut plain = Self {
            start,
            rest,
            len: RECORD_LEN as u8,
            count: 0,
            steps: [Step::END; STEPS],
        };
        let mut stack = [Source::Word(0); DEPTH];
        let mut depth = 0usize;
        for insn in code {
            let mut pop = || {
                depth = depth.checked_sub(1)?;
                stack.get(depth).copied()
            };
            match insn.op {
                Op::Pop => drop(pop()?),
                Op::LogMrf => {
                    let source = pop()?;
                    let Source::Word(len) = pop()? else {
                        return None;
                    };
                    let len = u8::try_from(len).ok()?;
                    let what = match len {
                        16 => What::Pair,
                        _ => What::Memory,
                    };
                    let entry = plain.entry(what, Token::Memory, len, source)?;
                    plain.add(entry)?;
                }
                Op::Log if !insn.is_from_stack() => {
                    let words = u8::try_from(insn.number()).ok()?;
                    let len = words.checked_mul(8)?;
                    let first = plain.entry(What::Words, Token::Words, len, pop()?)?;
                    plain.add(first)?;
                    for word in 1..words {
                        let at = first.at.checked_add(ENTRY_LEN as u8)?;
                        plain.add(Step {
                            what: What::Word,
                            at: at.checked_add(word.checked_mul(8)?)?,
                            source: pop()?,
                            ..Step::END
                        })?;
                    }
                }
                _ => {
                    *stack.get_mut(depth)? = Source::of(insn)?;
                    depth = depth.checked_add(1)?;
                }
            }
        }
        let logged = u32::from(plain.len).checked_sub(RECORD_LEN as u32)?;
        (logged > 0 && logged <= limits.log).then_some(plain)
    }

    /// Makes room for an entry with at least a byte of data.
    fn entry(&mut self, what: What, token: Token, len: u8, source: Source) -> Option<Step> {
        let at = self.len;
        let end = at.checked_add(ENTRY_LEN as u8)?.checked_add(len)?;
        if len == 0 || usize::from(end) > BYTES {
            return None;
        }
        self.len = end;
        Some(Step {
            what,
            at,
            len,
            head: [token as u8, len, 0, 0],
            source,
        })
    }

    fn add(&mut self, step: Step) -> Option<()> {
        *self.steps.get_mut(usize::from(self.count))? = step;
        self.count = self.count.checked_add(1)?;
        Some(())
    }

    /// Returns the number of bytes of the record.
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.len.into()
    }

    /// Returns false: the record has bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the layout of its record.
    pub fn shape(&self) -> Shape {
        match self.steps.map(|step| step.what) {
            [What::Pair, What::End, ..] => Shape::Pair,
            [What::Words, What::End, ..] => Shape::Word,
            [What::Words, What::Word, What::End, ..] => Shape::TwoWords,
            _ => Shape::Steps,
        }
    }

    /// Writes the header.
    #[inline(always)]
    pub(super) fn start<W: World, R: Room + ?Sized>(&self, world: &W, room: &mut R) {
        let rest = self.rest | u64::from(world.cpu()) << 32;
        let start = u128::from(rest) << 64 | u128::from(self.start);
        room.put(0, start.to_le_bytes());
    }

    /// Writes the record of a hit. Returns false if a value is missing: then the record is invalid,
    /// nothing else has happened, and [`run()`](super::run()) determines the result.
    #[inline(always)]
    pub fn write<W: World, R: Room + ?Sized>(&self, world: &W, room: &mut R) -> bool {
        self.start(world, room);
        for step in &self.steps {
            if matches!(step.what, What::End) {
                break;
            }
            let Some(value) = step.source.value(world) else {
                return false;
            };
            let at = usize::from(step.at);
            let data = at.wrapping_add(ENTRY_LEN);
            match step.what {
                What::Pair => {
                    let Some([low, high]) = world.read_pair(value) else {
                        return false;
                    };
                    let bytes = u128::from(high) << 64 | u128::from(low);
                    room.put(at, step.head);
                    room.put(data, bytes.to_le_bytes());
                }
                What::Words => {
                    room.put(at, step.head);
                    room.put(data, value.to_le_bytes());
                }
                What::Memory => {
                    let Some(bytes) = read(world, value, step.len) else {
                        return false;
                    };
                    room.put(at, step.head);
                    let bytes = bytes.iter().take(step.len.into());
                    (data..)
                        .zip(bytes)
                        .for_each(|(at, byte)| room.put(at, [*byte]));
                }
                What::Word | What::End => room.put(at, value.to_le_bytes()),
            }
        }
        true
    }
}

/// Reads `len` bytes of memory.
#[inline(never)]
fn read<W: World>(world: &W, address: u64, len: u8) -> Option<[u8; BYTES]> {
    let mut bytes = [0; BYTES];
    let is_there = world.read(address, bytes.get_mut(..len.into())?);
    is_there.then_some(bytes)
}
