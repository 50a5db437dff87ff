// SPDX-License-Identifier: GPL-2.0

//! Encoder of sets.

use super::bytes::padding;
use super::definition::*;
use super::insn::Insn;
use super::insn::INSN_LEN;
use super::set::*;

/// A point to encode.
#[derive(Clone, Copy, Debug)]
pub struct PointSource<'a> {
    /// Fields.
    pub point: Point,
    /// Symbol of the offset; empty if there is none.
    pub symbol: &'a str,
    /// Instructions.
    pub code: &'a [Insn],
}

/// A program to encode.
#[derive(Clone, Copy, Debug)]
pub struct ProgramSource<'a> {
    /// Fields.
    pub header: Header,
    /// Name.
    pub name: &'a str,
    /// Points.
    pub points: &'a [PointSource<'a>],
}

/// Error for data without room in a set: a name of more than 65535 bytes, or more than 4 GiB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooLong;

/// Encodes a set, for [`SetRef::decode`], which also checks it.
pub fn encode(
    out: &mut impl Extend<u8>,
    header: SetHeader,
    programs: &[ProgramSource<'_>],
) -> Result<(), TooLong> {
    out.extend(MAGIC.to_le_bytes());
    out.extend(VERSION.to_le_bytes());
    out.extend(count(programs.len())?.to_le_bytes());
    out.extend(header.flags.to_le_bytes());
    out.extend(header.fields.to_le_bytes());
    out.extend([header.target as u8, 0, 0, 0]);
    for program in programs {
        program.encode(out)?;
    }
    Ok(())
}

fn count(n: usize) -> Result<u32, TooLong> {
    u32::try_from(n).map_err(|_| TooLong)
}

fn text(out: &mut impl Extend<u8>, text: &str) {
    out.extend(text.bytes());
    out.extend(core::iter::repeat_n(0, padding(text.len())));
}

const fn padded(len: usize) -> usize {
    len.saturating_add(padding(len))
}

impl ProgramSource<'_> {
    fn encode(&self, out: &mut impl Extend<u8>) -> Result<(), TooLong> {
        let points = self.points.iter().map(PointSource::bytes);
        let len = points.fold(
            PROGRAM_LEN.saturating_add(padded(self.name.len())),
            |a, b| a.saturating_add(b),
        );
        let Header {
            kind,
            major,
            id,
            jmpmax,
            logmax,
            ex_logmax,
            locals,
            globals,
            heapmax,
            auto_stack_trace,
        } = self.header;
        out.extend(count(len)?.to_le_bytes());
        out.extend([
            kind as u8,
            match auto_stack_trace {
                true => AUTO_STACK_TRACE,
                false => 0,
            },
        ]);
        let name_len = u16::try_from(self.name.len()).map_err(|_| TooLong)?;
        out.extend(name_len.to_le_bytes());
        out.extend(count(self.points.len())?.to_le_bytes());
        for number in [
            major, id, jmpmax, logmax, ex_logmax, locals, globals, heapmax, 0,
        ] {
            out.extend(number.to_le_bytes());
        }
        text(out, self.name);
        self.points.iter().try_for_each(|point| point.encode(out))
    }
}

impl PointSource<'_> {
    /// Returns the number of bytes of the point.
    fn bytes(&self) -> usize {
        let code = self.code.len().saturating_mul(INSN_LEN);
        POINT_LEN
            .saturating_add(padded(self.symbol.len()))
            .saturating_add(code)
    }

    fn encode(&self, out: &mut impl Extend<u8>) -> Result<(), TooLong> {
        let Point {
            kind,
            watch_len,
            opcode,
            log_on_fault,
            is_absolute,
            is_later,
            major,
            minor,
            group,
            kind_number,
            ex_mask,
            heap_size,
            max_hits,
            pass_count,
            offset,
        } = self.point;
        let mut flags = 0;
        for (is_set, flag) in [
            (opcode.is_some(), HAS_OPCODE),
            (log_on_fault, LOG_ON_FAULT),
            (is_absolute, ABSOLUTE),
            (is_later, LATER),
        ] {
            if is_set {
                flags |= flag;
            }
        }
        out.extend(count(self.bytes())?.to_le_bytes());
        out.extend([kind as u8, watch_len, opcode.unwrap_or(0), flags]);
        out.extend(count(self.code.len())?.to_le_bytes());
        let symbol_len = u16::try_from(self.symbol.len()).map_err(|_| TooLong)?;
        out.extend(symbol_len.to_le_bytes());
        out.extend([0, 0]);
        for number in [major, minor, group, kind_number, ex_mask, heap_size] {
            out.extend(number.to_le_bytes());
        }
        for number in [max_hits, pass_count, offset] {
            out.extend(number.to_le_bytes());
        }
        text(out, self.symbol);
        for insn in self.code {
            out.extend(insn.to_bytes());
        }
        Ok(())
    }
}
