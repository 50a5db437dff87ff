// SPDX-License-Identifier: GPL-2.0

//! Sets of programs: their encoding, and their decoder.
//!
//! All numbers are little endian. Each part begins at a multiple of 8 bytes from the start.
//!
//! ```text
//! set       0 u32 magic  4 u32 version  8 u32 programs  12 u32 flags  16 u32 fields of records
//!           20 u8 target of the log  21 3 zero  24 the programs
//! program   0 u32 bytes of all of it  4 u8 kind of module  5 u8 flags  6 u16 bytes of the name
//!           8 u32 points  12 u32 major  16 u32 id  20 u32 jmpmax  24 u32 logmax  28 u32 ex_logmax
//!           32 u32 locals  36 u32 globals  40 u32 heapmax  44 4 zero  48 the name, padded
//!           then the points
//! point     0 u32 bytes of all of it  4 u8 kind  5 u8 length watched  6 u8 opcode  7 u8 flags
//!           8 u32 instructions  12 u16 bytes of the symbol  14 2 zero  16 u32 major  20 u32 minor
//!           24 u32 group  28 u32 type  32 u32 ex_mask  36 u32 heap_size  40 u64 max_hits
//!           48 u64 pass_count  56 u64 offset or address  64 the symbol, padded
//!           then the instructions, of 16 bytes each
//! ```

use super::bytes::Bytes;
use super::code::Code;
use super::definition::*;
use super::limits::*;
use super::op::Operand;
use super::refusal::Reason;
use super::refusal::Refusal;

/// Magic number of a set: `DPRS`.
pub const MAGIC: u32 = u32::from_le_bytes(*b"DPRS");

/// Version of the format.
pub const VERSION: u32 = 1;

/// Number of bytes of a program before its name.
pub(super) const PROGRAM_LEN: usize = 48;
/// Number of bytes of a point before its symbol.
pub(super) const POINT_LEN: usize = 64;

/// Flag of a set: programs may change registers and memory, use ports, and call functions of
/// modules.
pub const UNSAFE_WRITES: u32 = 1;
/// Flag of a set: `opcode` is not compared with the code.
pub const IGNORE_OPCODES: u32 = 2;
/// Flag of a set: a program replaces one with the same name.
pub const REPLACE: u32 = 4;
/// Flag of a set: a program with the same name gets the points.
pub const MERGE: u32 = 8;

/// Flag of a program: an exception without a handler puts the calls into the trace.
pub(super) const AUTO_STACK_TRACE: u8 = 1;

/// Flag of a point: `opcode` is valid.
pub(super) const HAS_OPCODE: u8 = 1;
/// Flag of a point: the log is kept even if the probed instruction faults.
pub(super) const LOG_ON_FAULT: u8 = 2;
/// Flag of a point: the offset is an address.
pub(super) const ABSOLUTE: u8 = 4;
/// Flag of a point: a program sets the watched address later.
pub(super) const LATER: u8 = 8;

/// A decoded point.
#[derive(Clone, Copy)]
pub struct PointRef<'a> {
    /// Fields.
    pub point: Point,
    /// Symbol of the offset; empty if there is none.
    pub symbol: &'a str,
    /// Instructions.
    pub code: Code<'a>,
}

/// A decoded program.
#[derive(Clone, Copy)]
pub struct ProgramRef<'a> {
    /// Fields.
    pub header: Header,
    /// Name.
    pub name: &'a str,
    points: u32,
    bytes: Bytes<'a>,
}

/// A set that has been checked completely.
#[derive(Clone, Copy)]
pub struct SetRef<'a> {
    /// Fields that apply to all programs.
    pub header: SetHeader,
    programs: u32,
    bytes: Bytes<'a>,
}

impl<'a> SetRef<'a> {
    /// Decodes and checks a set. `depths` is working memory for the stack depth at each
    /// instruction. If it is too short for a point, that point's stack is not checked.
    pub fn decode(bytes: &'a [u8], depths: &mut [u16]) -> Result<Self, Refusal> {
        let set = Self::begin(bytes).map_err(|reason| Refusal {
            program: 0,
            point: None,
            insn: None,
            reason,
        })?;
        let may_write = set.header.flags & UNSAFE_WRITES != 0;
        let mut rest = set.bytes;
        for number in 0..set.programs {
            let refused = |reason| Refusal {
                program: number,
                point: None,
                insn: None,
                reason,
            };
            let program = ProgramRef::read(&mut rest).map_err(refused)?;
            program.check(may_write, depths).map_err(|mut refusal| {
                refusal.program = number;
                refusal
            })?;
        }
        match rest.0 {
            [] => Ok(set),
            _ => Err(Refusal {
                program: set.programs,
                point: None,
                insn: None,
                reason: Reason::Length,
            }),
        }
    }

    fn begin(bytes: &'a [u8]) -> Result<Self, Reason> {
        let mut bytes = Bytes(bytes);
        if bytes.u32() != Ok(MAGIC) {
            return Err(Reason::NotASet);
        }
        match bytes.u32()? {
            VERSION => (),
            other => return Err(Reason::Version(other)),
        }
        let programs = bytes.u32()?;
        let flags = bytes.u32()?;
        let fields = bytes.u32()?;
        let target = match bytes.u8()? {
            0 => Target::Relay,
            1 => Target::Klog,
            other => return Err(Reason::Kind(other)),
        };
        bytes.zero::<3>()?;
        let known = UNSAFE_WRITES | IGNORE_OPCODES | REPLACE | MERGE;
        let both = REPLACE | MERGE;
        if flags & !known != 0 || flags & both == both || fields & !super::record::ALL_FIELDS != 0 {
            return Err(Reason::Reserved);
        }
        if programs == 0 || programs > PROGRAMS_MAX as u32 {
            return Err(Reason::Count);
        }
        Ok(Self {
            header: SetHeader {
                flags,
                fields,
                target,
            },
            programs,
            bytes,
        })
    }

    /// Returns the number of programs.
    pub fn len(&self) -> u32 {
        self.programs
    }

    /// Returns false: there are programs.
    pub fn is_empty(&self) -> bool {
        self.programs == 0
    }

    /// Returns the programs.
    pub fn programs(&self) -> impl Iterator<Item = ProgramRef<'a>> {
        let mut rest = self.bytes;
        // All have been read before.
        (0..self.programs).map_while(move |_| ProgramRef::read(&mut rest).ok())
    }
}

impl<'a> ProgramRef<'a> {
    fn read(rest: &mut Bytes<'a>) -> Result<Self, Reason> {
        let mut peek = *rest;
        let len = usize::try_from(peek.u32()?).map_err(|_| Reason::Length)?;
        let mut bytes = Bytes(rest.take(len)?);
        if len % 8 != 0 {
            return Err(Reason::Length);
        }
        bytes.u32()?;
        let kind = match bytes.u8()? {
            0 => ModuleKind::User,
            1 => ModuleKind::Kernel,
            2 => ModuleKind::Module,
            other => return Err(Reason::Kind(other)),
        };
        let flags = bytes.u8()?;
        if flags & !AUTO_STACK_TRACE != 0 {
            return Err(Reason::Reserved);
        }
        let name_len = bytes.u16()?.into();
        let points = bytes.u32()?;
        let header = Header {
            kind,
            major: bytes.u32()?,
            id: bytes.u32()?,
            jmpmax: bytes.u32()?,
            logmax: bytes.u32()?,
            ex_logmax: bytes.u32()?,
            locals: bytes.u32()?,
            globals: bytes.u32()?,
            heapmax: bytes.u32()?,
            auto_stack_trace: flags & AUTO_STACK_TRACE != 0,
        };
        bytes.zero::<4>()?;
        let name = bytes.text(name_len, NAME_MAX)?;
        // Commands that remove and reset programs could not name it.
        if name.is_empty() || name == "*" || name.trim_ascii() != name {
            return Err(Reason::Name);
        }
        Ok(Self {
            header,
            name,
            points,
            bytes,
        })
    }

    fn check(&self, may_write: bool, depths: &mut [u16]) -> Result<(), Refusal> {
        let refused = |point, insn, reason| Refusal {
            program: 0,
            point,
            insn,
            reason,
        };
        let of_program = |reason| refused(None, None, reason);
        for (name, value, max) in [
            ("jmpmax", self.header.jmpmax, JUMPS_MAX),
            ("logmax", self.header.logmax, LOG_MAX),
            ("ex_logmax", self.header.ex_logmax, LOG_MAX),
            (
                "the number of local variables",
                self.header.locals,
                VARIABLES_MAX,
            ),
            (
                "the number of global variables",
                self.header.globals,
                VARIABLES_MAX,
            ),
            ("heapmax", self.header.heapmax, HEAP_MAX),
        ] {
            if value > max {
                return Err(of_program(Reason::Limit(name)));
            }
        }
        if self.points == 0 || self.points > POINTS_MAX as u32 {
            return Err(of_program(Reason::Count));
        }
        let mut rest = self.bytes;
        for number in 0..self.points {
            let of_point = |insn, reason| refused(Some(number), insn, reason);
            let point = PointRef::read(&mut rest).map_err(|reason| of_point(None, reason))?;
            point
                .check(&self.header)
                .map_err(|reason| of_point(None, reason))?;
            point
                .code
                .check(&self.header, may_write, depths)
                .map_err(|(insn, reason)| of_point(Some(insn), reason))?;
        }
        if !rest.0.is_empty() {
            return Err(of_program(Reason::Length));
        }
        self.check_later()
            .map_err(|(point, insn, reason)| refused(Some(point), insn, reason))
    }

    /// Checks that points with a later address have unique numbers, and that each number in a
    /// command exists. The error has the point, and its instruction. Numbers from the stack are
    /// checked at run time.
    fn check_later(&self) -> Result<(), (u32, Option<u32>, Reason)> {
        let mut minors = [None; LATER_MAX];
        for (number, point) in (0..).zip(self.points()) {
            let minor = point.point.minor;
            if !point.point.is_later {
                continue;
            }
            if minors.contains(&Some(minor)) {
                return Err((number, None, Reason::LaterTwice(minor)));
            }
            let limit = Reason::Limit("the number of points whose address comes later");
            let free = minors.iter_mut().find(|one| one.is_none());
            *free.ok_or((number, None, limit))? = Some(minor);
        }
        for (number, point) in (0..).zip(self.points()) {
            for (at, insn) in (0..).zip(point.code.insns()) {
                let minor = insn.number();
                let names = insn.op.operand() == Operand::Later && !insn.is_from_stack();
                if names && !minors.contains(&Some(minor)) {
                    return Err((number, Some(at), Reason::NoLater(minor)));
                }
            }
        }
        Ok(())
    }

    /// Returns the number of points.
    pub fn len(&self) -> u32 {
        self.points
    }

    /// Returns false: there are points.
    pub fn is_empty(&self) -> bool {
        self.points == 0
    }

    /// Returns the points.
    pub fn points(&self) -> impl Iterator<Item = PointRef<'a>> {
        let mut rest = self.bytes;
        // All have been read before.
        (0..self.points).map_while(move |_| PointRef::read(&mut rest).ok())
    }
}

impl<'a> PointRef<'a> {
    fn read(rest: &mut Bytes<'a>) -> Result<Self, Reason> {
        let mut peek = *rest;
        let len = usize::try_from(peek.u32()?).map_err(|_| Reason::Length)?;
        let mut bytes = Bytes(rest.take(len)?);
        bytes.u32()?;
        let kind = match bytes.u8()? {
            0 => PointKind::Breakpoint,
            1 => PointKind::WatchExecute,
            2 => PointKind::WatchWrite,
            3 => PointKind::WatchAccess,
            4 => PointKind::WatchIo,
            other => return Err(Reason::Kind(other)),
        };
        let watch_len = bytes.u8()?;
        let opcode = bytes.u8()?;
        let flags = bytes.u8()?;
        let has_opcode = flags & HAS_OPCODE != 0;
        if flags & !(HAS_OPCODE | LOG_ON_FAULT | ABSOLUTE | LATER) != 0
            || (!has_opcode && opcode != 0)
        {
            return Err(Reason::Reserved);
        }
        let insns = usize::try_from(bytes.u32()?).map_err(|_| Reason::Count)?;
        let symbol_len = bytes.u16()?.into();
        bytes.zero::<2>()?;
        let point = Point {
            kind,
            watch_len,
            opcode: has_opcode.then_some(opcode),
            log_on_fault: flags & LOG_ON_FAULT != 0,
            is_absolute: flags & ABSOLUTE != 0,
            is_later: flags & LATER != 0,
            major: bytes.u32()?,
            minor: bytes.u32()?,
            group: bytes.u32()?,
            kind_number: bytes.u32()?,
            ex_mask: bytes.u32()?,
            heap_size: bytes.u32()?,
            max_hits: bytes.u64()?,
            pass_count: bytes.u64()?,
            offset: bytes.u64()?,
        };
        let symbol = bytes.text(symbol_len, SYMBOL_MAX)?;
        let code = Code::new(bytes.0, insns)?;
        Ok(Self {
            point,
            symbol,
            code,
        })
    }

    fn check(&self, header: &Header) -> Result<(), Reason> {
        let Point {
            kind,
            watch_len,
            is_absolute,
            is_later,
            offset,
            ..
        } = self.point;
        if self.point.heap_size > header.heapmax {
            return Err(Reason::Limit("heap_size"));
        }
        if self.point.max_hits > HITS_MAX {
            return Err(Reason::Limit("max_hits"));
        }
        if self.point.pass_count > HITS_MAX {
            return Err(Reason::Limit("pass_count"));
        }
        let is_breakpoint = kind == PointKind::Breakpoint;
        if !is_breakpoint && self.point.opcode.is_some() {
            return Err(Reason::NoOpcode);
        }
        let good_len = match kind {
            PointKind::Breakpoint => watch_len == 0,
            PointKind::WatchExecute => watch_len <= 1,
            _ => matches!(watch_len, 1 | 2 | 4 | 8),
        };
        if !good_len {
            return Err(Reason::Operand);
        }
        let has_symbol = !self.symbol.is_empty();
        if is_later {
            return match is_breakpoint || is_absolute || has_symbol || offset != 0 {
                true => Err(Reason::Later),
                false => Ok(()),
            };
        }
        let good_place = match header.kind {
            ModuleKind::User if is_breakpoint => !is_absolute && !has_symbol,
            ModuleKind::User => is_absolute && !has_symbol,
            _ => is_absolute != has_symbol,
        };
        match good_place {
            true => Ok(()),
            false => Err(Reason::Place),
        }
    }
}
