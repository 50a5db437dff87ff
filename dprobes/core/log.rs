// SPDX-License-Identifier: GPL-2.0

//! Log, trace and exceptions of a run.

use super::bytes::put_words;
use super::environment::World;
use super::exception::Exception;
use super::exception::Fault;
use super::insn::Insn;
use super::limits::ACCESS_STEPS;
use super::machine::Machine;
use super::machine::MASK;
use super::memory::NO_HANDLER;
use super::op::Op;
use super::op::Scope;
use super::record::Token;
use super::record::ENTRY_LEN;
use super::record::NOT_THERE;
use super::record::RECORD_LEN;

/// Buffer of entries.
struct Buffer<'a> {
    bytes: &'a mut [u8],
    len: &'a mut usize,
    /// Maximum number of bytes.
    limit: usize,
}

impl Buffer<'_> {
    /// Adds an entry with room for `len` bytes, which the caller fills; returns `None` if they do
    /// not fit.
    #[inline(always)]
    fn entry(&mut self, token: Token, len: usize) -> Option<&mut [u8]> {
        let start = *self.len;
        if len >= NOT_THERE.into() {
            return None;
        }
        // Neither is longer than the log, or 16 bits.
        let end = start.wrapping_add(ENTRY_LEN).wrapping_add(len);
        if end > self.limit {
            return None;
        }
        let entry = self.bytes.get_mut(start..end)?;
        let (head, rest) = entry.split_first_chunk_mut::<ENTRY_LEN>()?;
        let [low, high, ..] = len.to_le_bytes();
        *head = [token as u8, low, high];
        *self.len = end;
        Some(rest)
    }

    /// Turns the entry that starts at `start` into one for missing memory.
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
    /// Returns the log, with nothing else borrowed. The next entry begins at its present end.
    #[inline(always)]
    fn log_buffer(&mut self) -> Buffer<'_> {
        self.log_before = self.log_len;
        Buffer {
            bytes: self.memory.log_mut(),
            len: &mut self.log_len,
            limit: self.limits.log as usize,
        }
    }

    /// Handles data that did not fit.
    #[cold]
    fn full(&mut self, len: u64) -> Result<(), Fault> {
        self.memory.rest.is_used = true;
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
            Op::LogStr => return self.log_string(),
            Op::LogLv => return self.log_variables(Scope::Local, Token::Locals, insn),
            _ => return self.log_variables(Scope::Global, Token::Globals, insn),
        }
        Ok(())
    }

    /// Returns the number of bytes left in the log.
    #[inline(always)]
    fn left(&self) -> usize {
        (self.limits.log as usize).saturating_sub(self.log_len)
    }

    /// Charges steps for memory of this length, mapped or not; bytes that do not fit are not read.
    #[inline(always)]
    fn charge_memory(&mut self, len: usize) -> Result<(), Fault> {
        // Not longer than the log.
        let words = (len.min(self.left()) / 8) as u32;
        self.charge(words.wrapping_add(ACCESS_STEPS))
    }

    /// `log mrf`.
    #[inline(never)]
    pub(super) fn log_memory(&mut self) -> Result<(), Fault> {
        let address = self.pop()?;
        let len = self.pop()?;
        let Ok(room) = usize::try_from(len) else {
            return self.full(len);
        };
        self.charge_memory(room)?;
        let mut buffer = Buffer {
            bytes: self.memory.log_mut(),
            len: &mut self.log_len,
            limit: self.limits.log as usize,
        };
        self.log_before = *buffer.len;
        let Some(place) = buffer.entry(Token::Memory, room) else {
            return self.full(len);
        };
        match self.world.read(address, place) {
            true => Ok(()),
            false => self.not_there(Token::Memory, address, len),
        }
    }

    fn log_string(&mut self) -> Result<(), Fault> {
        let address = self.pop()?;
        let len = self.pop()?;
        // As much of it as fits.
        let most = len.min(self.left().saturating_sub(ENTRY_LEN) as u64);
        let Ok(room) = usize::try_from(most) else {
            return self.full(len);
        };
        self.charge_memory(room)?;
        self.log_before = self.log_len;
        let mut buffer = Buffer {
            bytes: self.memory.log_mut(),
            len: &mut self.log_len,
            limit: self.limits.log as usize,
        };
        let Some(place) = buffer.entry(Token::Text, room) else {
            return self.full(len);
        };
        match self.world.read_string(address, place) {
            Some(done) if done <= room => {
                // Its end may be earlier.
                let token = if done < room {
                    Token::Text
                } else {
                    Token::CutText
                };
                *buffer.len = self.log_before;
                let _ = buffer.entry(token, done);
                if done == room && most < len {
                    self.memory.rest.is_used = true;
                    self.memory.rest.overflowed = true;
                }
                Ok(())
            }
            _ => self.not_there(Token::Text, address, len),
        }
    }

    /// Turns the last entry into one for missing memory.
    #[cold]
    fn not_there(&mut self, token: Token, address: u64, len: u64) -> Result<(), Fault> {
        let start = self.log_before;
        self.log_len = start;
        let is_noted = self.log_buffer().not_there(start, token, address).is_some();
        if self.has(Exception::Address) {
            return Err(Fault::new(Exception::Address, address));
        }
        match is_noted {
            true => Ok(()),
            false => self.full(len),
        }
    }

    /// `log n`: takes the words even if they do not fit.
    #[inline(never)]
    pub(super) fn log_words(&mut self, insn: &Insn) -> Result<(), Fault> {
        let count = self.number(insn)?;
        let n = count as usize;
        self.charge(count.saturating_add(1))?;
        // If a wrap of the stack is an exception, the words are taken one by one.
        if n > self.top && self.has(Exception::Stack) {
            return self.log_wrapping(n);
        }
        let top = self.top;
        self.top = top.wrapping_sub(n) & MASK;
        self.log_before = self.log_len;
        let stack = &self.memory.stack;
        let record = &mut self.memory.record;
        let mut buffer = Buffer {
            bytes: record.get_mut(RECORD_LEN..).unwrap_or_default(),
            len: &mut self.log_len,
            limit: self.limits.log as usize,
        };
        let Some(place) = buffer.entry(Token::Words, n.saturating_mul(8)) else {
            return self.full(count.into());
        };
        let mut from = top;
        for word in place.chunks_exact_mut(8) {
            word.copy_from_slice(&stack[from & MASK].to_le_bytes());
            from = from.wrapping_sub(1);
        }
        Ok(())
    }

    /// Handles [`Self::log_words`] with more words than before the wrap of the stack. Lack of room
    /// is no exception then.
    #[cold]
    fn log_wrapping(&mut self, n: usize) -> Result<(), Fault> {
        let len = n.saturating_mul(8);
        let fits = self.log_buffer().entry(Token::Words, len).is_some();
        // The bytes there belong to earlier runs.
        self.log_len = self.log_before;
        match fits {
            true => {
                self.top = 0;
                Err(Fault::new(Exception::Stack, 0))
            }
            false => {
                self.top = self.top.wrapping_sub(n) & MASK;
                self.full(n as u64)
            }
        }
    }

    fn log_variables(&mut self, scope: Scope, token: Token, insn: &Insn) -> Result<(), Fault> {
        let (first, count) = (insn.number(), insn.word());
        let Ok(count) = u32::try_from(count) else {
            return self.full(count);
        };
        let limit = self.limits.log;
        self.charge(count.min(limit / 8))?;
        let world = &*self.world;
        self.log_before = self.log_len;
        let mut buffer = Buffer {
            bytes: self.memory.log_mut(),
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
            Op::PushPlp => self.push(self.log_before as u64),
            _ => {
                let pointer = self.pop()?;
                // All entries before it are checked.
                let len = u32::try_from(self.log_len).unwrap_or(u32::MAX);
                self.charge(len / ENTRY_LEN as u32)?;
                match usize::try_from(pointer) {
                    // Not forwards: this run has not written the bytes there.
                    Ok(len) if len <= self.log_len && self.is_boundary(len) => {
                        self.log_len = len;
                        self.log_before = self.log_before.min(len);
                        Ok(())
                    }
                    _ => Err(Fault::new(Exception::Operand, pointer)),
                }
            }
        }
    }

    /// Returns true if an entry ends there.
    fn is_boundary(&self, len: usize) -> bool {
        let log = self.memory.log();
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

    /// Adds the position of the program and its calls, innermost first.
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

    /// Continues in the nearest handler of an exception. Returns false if there is none: then the
    /// exception is in the log, and the run ends.
    #[cold]
    pub(super) fn handles(&mut self, fault: Fault) -> bool {
        let at = u32::try_from(self.next).unwrap_or(u32::MAX);
        let exception = fault.exception;
        self.memory.rest.is_used = true;
        self.memory.rest.last = (at, exception.bit(), fault.argument);
        let is_one = self.has(exception) || exception == Exception::User;
        // Without jumps left, the handler cannot be entered.
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

    /// Enters the handler of this subroutine, or of one of its callers.
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

    /// Adds an exception to the log, which always has room for one.
    fn note(&mut self, fault: Fault, at: u32) {
        let log = self.memory.log_mut();
        let mut buffer = Buffer {
            limit: log.len(),
            bytes: log,
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
