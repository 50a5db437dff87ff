// SPDX-License-Identifier: GPL-2.0

//! Programs as text, which [`parse`](super::parse::parse) reads.

#![deny(unsafe_code)]

use std::collections::BTreeSet;
use std::fmt::Write;

use ferro_dprobes_core::Header;
use ferro_dprobes_core::Insn;
use ferro_dprobes_core::ModuleKind;
use ferro_dprobes_core::Operand;
use ferro_dprobes_core::Point;
use ferro_dprobes_core::PointKind;
use ferro_dprobes_core::PointRef;
use ferro_dprobes_core::ProgramRef;
use ferro_dprobes_core::Register;
use ferro_dprobes_core::SetRef;

use super::parse::LATER;

/// All programs of a set.
pub fn set(set: &SetRef<'_>) -> String {
    let programs: Vec<String> = set.programs().map(|one| program(&one)).collect();
    programs.join("\n")
}

/// A program: its fields that are not as they are by default, and its points.
fn program(program: &ProgramRef<'_>) -> String {
    let mut text = String::new();
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
    } = program.header;
    let default = Header::new(kind);
    // Writing to a string does not fail.
    let _ = writeln!(text, "name = \"{}\"", program.name);
    let _ = writeln!(text, "modtype = {}", kind_name(kind));
    for (name, value, default) in [
        ("major", major, default.major),
        ("id", id, default.id),
        ("jmpmax", jmpmax, default.jmpmax),
        ("logmax", logmax, default.logmax),
        ("ex_logmax", ex_logmax, default.ex_logmax),
        ("vars", locals, default.locals),
        ("gvars", globals, default.globals),
        ("heapmax", heapmax, default.heapmax),
    ] {
        if value != default {
            let _ = writeln!(text, "{name} = {value}");
        }
    }
    if auto_stack_trace {
        text.push_str("autostacktrace = yes\n");
    }
    for point in program.points() {
        text.push('\n');
        self::point(&point, major, &mut text);
    }
    text
}

fn point(point: &PointRef<'_>, of_program: u32, text: &mut String) {
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
    } = point.point;
    let default = Point::new(of_program);
    let _ = match (is_later, is_absolute) {
        (true, _) => writeln!(text, "address = {LATER}"),
        (false, true) => writeln!(text, "address = {}", place(point.symbol, offset)),
        (false, false) => writeln!(text, "offset = {}", place(point.symbol, offset)),
    };
    let watched = match kind {
        PointKind::Breakpoint => None,
        PointKind::WatchExecute => Some("x"),
        PointKind::WatchWrite => Some("w"),
        PointKind::WatchAccess => Some("rw"),
        PointKind::WatchIo => Some("io"),
    };
    if let Some(watched) = watched {
        let _ = writeln!(text, "watch = {watched}\nlength = {}", watch_len.max(1));
    }
    if let Some(opcode) = opcode {
        let _ = writeln!(text, "opcode = {opcode:#04x}");
    }
    for (name, value, default) in [
        ("major", major, default.major),
        ("minor", minor, default.minor),
        ("group", group, default.group),
        ("type", kind_number, default.kind_number),
        ("heap_size", heap_size, default.heap_size),
    ] {
        if value != default {
            let _ = writeln!(text, "{name} = {value}");
        }
    }
    if ex_mask != default.ex_mask {
        let _ = writeln!(text, "ex_mask = {ex_mask:#x}");
    }
    for (name, value, default) in [
        ("maxhits", max_hits, default.max_hits),
        ("passcount", pass_count, default.pass_count),
    ] {
        if value != default {
            let _ = writeln!(text, "{name} = {value}");
        }
    }
    if log_on_fault {
        text.push_str("logonfault = yes\n");
    }
    let insns: Vec<Insn> = point.code.insns().collect();
    let targets: BTreeSet<u32> = insns.iter().filter_map(Insn::target).collect();
    for (number, insn) in (0..).zip(&insns) {
        if targets.contains(&number) {
            let _ = writeln!(text, "L{number}:");
        }
        let _ = writeln!(text, "\t{}", command(insn));
    }
}

/// The kind of a program, as `modtype` names it.
pub fn kind_name(kind: ModuleKind) -> &'static str {
    match kind {
        ModuleKind::User => "user",
        ModuleKind::Kernel => "kernel",
        ModuleKind::Module => "kmod",
    }
}

/// A symbol and an offset from it, or a number.
fn place(symbol: &str, offset: u64) -> String {
    match (symbol, offset) {
        ("", _) => format!("{offset:#x}"),
        (_, 0) => quoted(symbol),
        _ => format!("{} + {offset:#x}", quoted(symbol)),
    }
}

/// A symbol, in quotes if it is not a plain name.
fn quoted(symbol: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '$' | '@');
    match symbol.chars().all(plain) && !symbol.starts_with(|c: char| c.is_ascii_digit()) {
        true => symbol.to_owned(),
        false => format!("\"{symbol}\""),
    }
}

/// An instruction. Where it jumps to is `L` and the number of that instruction.
pub fn command(insn: &Insn) -> String {
    let (op, name) = (insn.op, insn.op.name());
    if op.takes_from_stack() && insn.is_from_stack() {
        return name.to_owned();
    }
    let number = insn.number();
    let distance = i64::from_ne_bytes(insn.word().to_ne_bytes());
    let second = name.contains(' ');
    let operand = match op.operand() {
        Operand::None => return name.to_owned(),
        Operand::Exit if insn.selector() == 0 => return name.to_owned(),
        Operand::Exit => insn.selector().to_string(),
        Operand::Target => format!("L{number}"),
        Operand::Word if insn.word() < 1 << 16 => insn.word().to_string(),
        Operand::Word => format!("{:#x}", insn.word()),
        Operand::Distance => distance.to_string(),
        Operand::Variables(_) => format!("{number}, {}", insn.word()),
        Operand::Number | Operand::Later | Operand::Bit | Operand::Variable(_) | Operand::Words => {
            number.to_string()
        }
        Operand::Width | Operand::PortWidth => {
            format!("u{}", u32::from(insn.selector()) * 8)
        }
        Operand::Register
        | Operand::WritableRegister
        | Operand::UserRegister
        | Operand::WritableUserRegister => {
            let register = Register::from_number(insn.selector());
            register.map_or("?", Register::name).to_owned()
        }
    };
    let comma = if second { "," } else { "" };
    format!("{name}{comma} {operand}")
}
