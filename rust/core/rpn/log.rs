// SPDX-License-Identifier: GPL-2.0

//! What a run logs, its trace, and its exceptions.

use super::bytes::put_words;
use super::exception::Exception;
use super::exception::Fault;
use super::insn::Insn;
use super::limits::ACCESS_STEPS;
use super::machine::Machine;
use super::memory::NO_HANDLER;
use super::op::Op;
use super::op::Scope;
use super::record::Token;
use super::record::ENTRY_LEN;
use super::record::NOT_THERE;
use super::world::World;

/// Where entries are added.
struct Buffer<'a> {
    bytes: &'a mut [u8],
    len: &'a mut usize,
    /// Bytes that there may be.
    limit: usize,
}

impl Buffer<'_> {
    /// Adds an entry with room for `len` bytes, which the caller fills; `None` if they do not fit.
    fn entry(&mut self, token: Token, len: usize) -> Option<&mut [u8]> {
        let start = *self.len;
        let data = start.checked_add(ENTRY_LEN)?;
        let end = data.checked_add(len)?;
        let short = u16::try_from(len).ok().filter(|len| *len != NOT_THERE)?;
        if end > self.limit {
            return None;
        }
        let entry = self.bytes.get_mut(start..end)?;
        let (head, rest) = entry.split_first_chunk_mut::<ENTRY_LEN>()?;
        let [low, high] = short.to_le_bytes();
        *head = [token as u8, low, high];
        *self.len = end;
        Some(rest)
    }

    /// Makes the entry that starts at `start` one of what is not there.
    fn not_there(&mut self, start: usize, token: Token, address: u64) -> Option<()> {
        let end = start.checked_add(ENTRY_LEN)?.checked_add(8)?;
        if end > self.limit {
            return None;
        }
        let entry = self.bytes.get_mut(start..end)?;
        let (head, rest) = entry.split_first_chunk_mut::<ENTRY_LEN>()?;
        let [low, high] = NOT_THERE.to_le_bytes();
        *head = [token as u8, low, high];
        rest.copy_from_slice(&address.to_le_bytes());
        *self.len = end;
        Some(())
    }

    fn words(&mut self, token: Token, words: impl ExactSizeIterator<Item = u64>) -> Option<()> {
        let room = self.entry(token, words.len().checked_mul(8)?)?;
        put_words(room, words);
        Some(())
    }

    fn variables(
        &mut self,
        token: Token,
        first: u32,
        words: impl ExactSizeIterator<Item = u64>,
    ) -> Option<()> {
        let len = words.len().checked_mul(8)?.checked_add(4)?;
        let (index, room) = self.entry(token, len)?.split_first_chunk_mut()?;
        *index = first.to_le_bytes();
        put_words(room, words);
        Some(())
    }
}

impl<W: World> Machine<'_, W> {
    /// The log, with nothing else borrowed.
    fn log_buffer(&mut self) -> Buffer<'_> {
        self.memory.rest.log_before = self.log_len;
        Buffer {
            bytes: &mut self.memory.log,
            len: &mut self.log_len,
            limit: self.limits.log as usize,
        }
    }

    /// What was to be logged did not fit.
    fn full(&mut self, len: u64) -> Result<(), Fault> {
        self.memory.rest.overflowed = true;
        match self.has(Exception::Log) {
            true => Err(Fault::new(Exception::Log, len)),
            false => Ok(()),
        }
    }

    #[inline(never)]
    pub(super) fn log(&mut self, insn: &Insn) -> Result<(), Fault> {
        match insn.op {
            Op::SetMin => self.minor = self.number(insn)?,
            Op::SetMaj => self.major = self.number(insn)?,
            Op::LogStr | Op::LogMrf => return self.log_memory(insn.op),
            Op::Log => {
                let count = self.number(insn)?;
                return self.log_words(count);
            }
            Op::LogLv => return self.log_variables(Scope::Local, Token::Locals, insn),
            _ => return self.log_variables(Scope::Global, Token::Globals, insn),
        }
        Ok(())
    }

    fn log_memory(&mut self, op: Op) -> Result<(), Fault> {
        let address = self.pop()?;
        let len = self.pop()?;
        let token = match op {
            Op::LogMrf => Token::Memory,
            _ => Token::Text,
        };
        let start = self.log_len;
        let left = (self.limits.log as usize).saturating_sub(start);
        let wanted = match op {
            Op::LogMrf => len,
            // As much of the string as fits.
            _ => len.min(left.saturating_sub(ENTRY_LEN) as u64),
        };
        let Ok(room) = usize::try_from(wanted) else {
            return self.full(len);
        };
        // Whether it is there or not; what does not fit is not read.
        let read = u32::try_from(room.min(left) / 8).unwrap_or(u32::MAX);
        self.charge(read.saturating_add(ACCESS_STEPS))?;
        self.memory.rest.log_before = start;
        let mut buffer = Buffer {
            bytes: &mut self.memory.log,
            len: &mut self.log_len,
            limit: self.limits.log as usize,
        };
        let Some(place) = buffer.entry(token, room) else {
            return self.full(len);
        };
        let is_there = match op {
            Op::LogMrf => self.world.read(address, place).then_some(room),
            _ => self.world.read_string(address, place),
        };
        match is_there {
            Some(done) if done <= room => {
                // A string may be shorter.
                *buffer.len = start;
                let _ = buffer.entry(token, done);
            }
            _ => {
                *buffer.len = start;
                let is_noted = buffer.not_there(start, token, address).is_some();
                if self.has(Exception::Address) {
                    return Err(Fault::new(Exception::Address, address));
                }
                if !is_noted {
                    return self.full(len);
                }
            }
        }
        Ok(())
    }

    fn log_words(&mut self, count: u32) -> Result<(), Fault> {
        let n = count as usize;
        self.charge(count.saturating_add(1))?;
        let mut room = self.log_buffer();
        let Some(place) = room
            .entry(Token::Words, n.saturating_mul(8))
            .map(|place| place.len())
        else {
            // They are taken nevertheless.
            self.top = self.top.wrapping_sub(n) & super::machine::MASK;
            return self.full(count.into());
        };
        let start = self.log_len.saturating_sub(place);
        for index in 0..n {
            let word = match self.pop() {
                Ok(word) => word.to_le_bytes(),
                Err(fault) => {
                    // The rest of the entry is not written: what is there are others' bytes.
                    self.log_len = self.memory.rest.log_before;
                    return Err(fault);
                }
            };
            let at = start.saturating_add(index.saturating_mul(8));
            if let Some(place) = self.memory.log.get_mut(at..at.saturating_add(8)) {
                place.copy_from_slice(&word);
            }
        }
        Ok(())
    }

    fn log_variables(&mut self, scope: Scope, token: Token, insn: &Insn) -> Result<(), Fault> {
        let (first, count) = (insn.number(), insn.word());
        let Ok(count) = u32::try_from(count) else {
            return self.full(count);
        };
        let limit = self.limits.log;
        self.charge(count.min(limit / 8))?;
        let world = &*self.world;
        self.memory.rest.log_before = self.log_len;
        let mut buffer = Buffer {
            bytes: &mut self.memory.log,
            len: &mut self.log_len,
            limit: limit as usize,
        };
        let value = |index: u32| {
            world
                .variable(scope, first.wrapping_add(index))
                .unwrap_or(0)
        };
        let added = buffer.variables(token, first, (0..count).map(value));
        match added {
            Some(()) => Ok(()),
            None => self.full(count.into()),
        }
    }

    #[inline(never)]
    pub(super) fn log_pointer(&mut self, insn: &Insn) -> Result<(), Fault> {
        match insn.op {
            Op::PushLp => self.push(self.log_len as u64),
            Op::PushPlp => self.push(self.memory.rest.log_before as u64),
            _ => {
                let pointer = self.pop()?;
                // All entries before it are looked at.
                let len = u32::try_from(self.log_len).unwrap_or(u32::MAX);
                self.charge(len / ENTRY_LEN as u32)?;
                match usize::try_from(pointer) {
                    // Not forwards: what is there, this run has not written.
                    Ok(len) if len <= self.log_len && self.is_boundary(len) => {
                        self.log_len = len;
                        self.memory.rest.log_before = self.memory.rest.log_before.min(len);
                        Ok(())
                    }
                    _ => Err(Fault::new(Exception::Operand, pointer)),
                }
            }
        }
    }

    /// Whether an entry ends there.
    fn is_boundary(&self, len: usize) -> bool {
        let log = &self.memory.log;
        let mut at = 0usize;
        while at < len {
            let Some([_, low, high]) = log.get(at..).and_then(<[u8]>::first_chunk) else {
                return false;
            };
            let data = match u16::from_le_bytes([*low, *high]) {
                NOT_THERE => 8,
                data => data.into(),
            };
            at = at.saturating_add(ENTRY_LEN).saturating_add(data);
        }
        at == len
    }

    #[inline(never)]
    pub(super) fn trace(&mut self, insn: &Insn) -> Result<(), Fault> {
        match insn.op {
            Op::LogSt => {
                let here = self.next.saturating_sub(1);
                self.charge(u32::try_from(self.depth).unwrap_or(u32::MAX))?;
                self.trace_calls(u32::try_from(here).unwrap_or(u32::MAX));
                Ok(())
            }
            Op::PurgeSt => {
                self.memory.rest.trace_len = 0;
                Ok(())
            }
            Op::TracePv => {
                let top = self.top();
                let added = self.trace_buffer().words(Token::Top, [top].into_iter());
                self.memory.rest.overflowed |= added.is_none();
                Ok(())
            }
            op => {
                let (scope, token) = match op {
                    Op::TraceLv => (Scope::Local, Token::Locals),
                    _ => (Scope::Global, Token::Globals),
                };
                let index = self.number(insn)?;
                let value = self.world.variable(scope, index);
                let value = value.ok_or(Fault::new(Exception::Operand, index.into()))?;
                let mut trace = self.trace_buffer();
                let added = trace.variables(token, index, [value].into_iter());
                self.memory.rest.overflowed |= added.is_none();
                Ok(())
            }
        }
    }

    fn trace_buffer(&mut self) -> Buffer<'_> {
        Buffer {
            bytes: &mut self.memory.trace,
            len: &mut self.memory.rest.trace_len,
            limit: self.limits.trace as usize,
        }
    }

    /// Adds where the program is and its calls, the innermost first.
    fn trace_calls(&mut self, here: u32) {
        let here = u64::from(here);
        let frames = self.memory.frames.get(1..=self.depth).unwrap_or_default();
        let calls = frames.iter().rev().map(|frame| u64::from(frame.back));
        let mut buffer = Buffer {
            bytes: &mut self.memory.trace,
            len: &mut self.memory.rest.trace_len,
            limit: self.limits.trace as usize,
        };
        let added = buffer
            .entry(
                Token::Calls,
                frames.len().saturating_add(1).saturating_mul(8),
            )
            .map(|room| put_words(room, core::iter::once(here).chain(calls)));
        self.memory.rest.overflowed |= added.is_none();
    }

    #[inline(never)]
    pub(super) fn exception(&mut self, insn: &Insn) -> Result<(), Fault> {
        match insn.op {
            Op::Rx => {
                let number = self.number(insn)?;
                Err(Fault::new(Exception::User, number.into()))
            }
            Op::PushX => {
                let (at, bit, argument) = self.memory.rest.last;
                self.push(at.into())?;
                self.push(argument)?;
                self.push(bit.into())
            }
            op => {
                let (top, base) = (self.top as u16, self.base as u16);
                if let Some(frame) = self.memory.frames.get_mut(self.depth) {
                    frame.handler = match op {
                        Op::Sx => insn.number().saturating_add(1),
                        _ => NO_HANDLER,
                    };
                    (frame.top, frame.base) = (top, base);
                }
                Ok(())
            }
        }
    }

    /// Goes on in the nearest handler of an exception. False if there is none: then it is in the log, and the run is at its end.
    #[cold]
    pub(super) fn handles(&mut self, fault: Fault) -> bool {
        let at = u32::try_from(self.next).unwrap_or(u32::MAX);
        let exception = fault.exception;
        self.memory.rest.is_used = true;
        self.memory.rest.last = (at, exception.bit(), fault.argument);
        let is_one = self.has(exception) || exception == Exception::User;
        // Without jumps left, there is none to the handler.
        if is_one && exception != Exception::Jumps && self.enter_handler() {
            return true;
        }
        if is_one {
            if self.limits.auto_stack_trace {
                self.trace_calls(at);
            }
            self.note(fault, at);
        }
        false
    }

    /// Goes to the handler of this subroutine, or of one that has called it.
    fn enter_handler(&mut self) -> bool {
        let frames = self
            .memory
            .frames
            .get_mut(..=self.depth)
            .unwrap_or_default();
        let Some(depth) = frames.iter().rposition(|frame| frame.handler != NO_HANDLER) else {
            return false;
        };
        let Some(frame) = frames.get_mut(depth) else {
            return false;
        };
        let handler = core::mem::replace(&mut frame.handler, NO_HANDLER);
        self.depth = depth;
        (self.top, self.base) = (frame.top.into(), frame.base.into());
        self.go_to(handler.saturating_sub(1)).is_ok()
    }

    /// Adds an exception to the log, where there is always room for one.
    fn note(&mut self, fault: Fault, at: u32) {
        let mut buffer = Buffer {
            limit: self.memory.log.len(),
            bytes: &mut self.memory.log,
            len: &mut self.log_len,
        };
        let Some(room) = buffer.entry(Token::Exception, 14) else {
            return;
        };
        let parts = [
            &fault.exception.bit().to_le_bytes()[..],
            &at.to_le_bytes(),
            &fault.argument.to_le_bytes(),
        ];
        for (to, from) in room.iter_mut().zip(parts.into_iter().flatten()) {
            *to = *from;
        }
    }
}
