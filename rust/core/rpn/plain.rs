// SPDX-License-Identifier: GPL-2.0

//! Programs that only push what is known where they are, log it, and exit: most of those that log.
//!
//! How long their record is, and where in it everything goes, is known before they run. So it is made when they are loaded, and a
//! hit fills in what is not known by then: it needs no stack, and no [`Memory`](super::Memory).

use super::insn::Insn;
use super::machine::Limits;
use super::op::Op;
use super::op::Scope;
use super::record::RecordHeader;
use super::record::Token;
use super::record::ENTRY_LEN;
use super::record::RECORD_LEN;
use super::register::Register;
use super::world::World;

/// The most bytes of a record.
const BYTES: usize = 64;
/// Words that are on the stack at a time.
const DEPTH: usize = 8;
/// Places of a record that a hit fills.
const FILLS: usize = 6;
/// Where the CPU is in a record.
const CPU_AT: usize = 12;

/// Where a word comes from.
#[derive(Clone, Copy)]
enum Source {
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
    /// What an instruction pushes.
    fn of(insn: &Insn) -> Option<Self> {
        let is_fixed = !insn.is_from_stack();
        Some(match insn.op {
            Op::Push => Self::Word(insn.word()),
            Op::PushR => {
                let register = Register::from_number(insn.selector())?;
                // The others are charged for.
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
    fn value<W: World>(self, world: &W) -> Option<u64> {
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

/// A place of the record.
#[derive(Clone, Copy)]
struct Fill {
    at: u8,
    /// Bytes of memory at the address that `source` is; 0 for `source` itself.
    memory: u8,
    source: Source,
}

/// Such a program.
pub struct Plain {
    record: [u8; BYTES],
    len: u8,
    count: u8,
    fills: [Fill; FILLS],
}

/// The memory that a hit needs.
pub const PLAIN_RECORD: [u8; BYTES] = [0; BYTES];

impl Plain {
    /// `None` if the program is none of these, or its record is longer than is worth it.
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
        let mut plain = Self {
            record: [0; BYTES],
            len: RECORD_LEN as u8,
            count: 0,
            fills: [Fill {
                at: 0,
                memory: 0,
                source: Source::Word(0),
            }; FILLS],
        };
        *plain.record.first_chunk_mut()? = header.to_bytes();
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
                    let len = usize::try_from(len).ok().filter(|len| *len > 0)?;
                    let at = plain.entry(Token::Memory, len)?;
                    plain.fill(at, u8::try_from(len).ok()?, source)?;
                }
                Op::Log if !insn.is_from_stack() => {
                    let words = usize::try_from(insn.number()).ok()?;
                    let at = plain.entry(Token::Words, words.checked_mul(8)?)?;
                    for word in 0..words {
                        let at = at.checked_add(word.checked_mul(8)?)?;
                        plain.fill(at, 0, pop()?)?;
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

    /// Adds an entry; where its data is.
    fn entry(&mut self, token: Token, len: usize) -> Option<usize> {
        let start = usize::from(self.len);
        let data = start.checked_add(ENTRY_LEN)?;
        let end = data.checked_add(len)?;
        let [low, high, ..] = len.to_le_bytes();
        let room = self.record.get_mut(start..end)?;
        *room.first_chunk_mut()? = [token as u8, low, high];
        self.len = u8::try_from(end).ok()?;
        Some(data)
    }

    fn fill(&mut self, at: usize, memory: u8, source: Source) -> Option<()> {
        if let (0, Source::Word(word)) = (memory, source) {
            let place = self.record.get_mut(at..at.checked_add(8)?)?;
            place.copy_from_slice(&word.to_le_bytes());
            return Some(());
        }
        *self.fills.get_mut(usize::from(self.count))? = Fill {
            at: u8::try_from(at).ok()?,
            memory,
            source,
        };
        self.count = self.count.checked_add(1)?;
        Some(())
    }

    /// Writes the record of a hit. `None` if something is not there: then nothing has happened, and [`run()`](super::run()) says
    /// what comes of it.
    #[inline(always)]
    pub fn write<'a, W: World>(&self, world: &W, to: &'a mut [u8; BYTES]) -> Option<&'a [u8]> {
        *to = self.record;
        let cpu = to.get_mut(CPU_AT..)?.first_chunk_mut()?;
        *cpu = world.cpu().to_le_bytes();
        for fill in self.fills.get(..usize::from(self.count))? {
            let value = fill.source.value(world)?;
            let place = to.get_mut(usize::from(fill.at)..)?;
            match fill.memory {
                0 => *place.first_chunk_mut()? = value.to_le_bytes(),
                len => {
                    if !world.read(value, place.get_mut(..usize::from(len))?) {
                        return None;
                    }
                }
            }
        }
        to.get(..usize::from(self.len))
    }
}
