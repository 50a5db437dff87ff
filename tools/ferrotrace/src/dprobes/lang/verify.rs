// SPDX-License-Identifier: GPL-2.0

//! What the kernel would refuse, found before: each point is checked by what checks it there.

#![deny(unsafe_code)]

use ferro_dprobes_core::CODE_MAX;
use ferro_dprobes_core::Header;
use ferro_dprobes_core::Insn;
use ferro_dprobes_core::ModuleKind;
use ferro_dprobes_core::Op;
use ferro_dprobes_core::Point;
use ferro_dprobes_core::PointKind;
use ferro_dprobes_core::PointSource;
use ferro_dprobes_core::ProgramSource;
use ferro_dprobes_core::Reason;
use ferro_dprobes_core::Refusal;
use ferro_dprobes_core::SetHeader;
use ferro_dprobes_core::SetRef;
use ferro_dprobes_core::UNSAFE_WRITES;
use ferro_dprobes_core::encode;

use super::diagnostic::Diagnostic;
use super::program::ProbePoint;
use super::program::Program;
use super::source::Span;

/// Code of the other points.
const ENDS: &[Insn] = &[Insn::new(Op::Exit)];

/// Checks the points of a program that has been read.
pub fn verify(program: &Program, errors: &mut Vec<Diagnostic>) {
    for (index, point) in program.points.iter().enumerate() {
        // What its commands may arm.
        let others = program.points.iter().enumerate();
        let others = others.filter(|(other, one)| *other != index && one.point.is_later);
        let others = others.map(|(_, one)| one.point);
        if let Err(refusal) = check(&program.header, point, others) {
            let span = place_of(program, point, refusal);
            errors.push(explain(span, refusal.reason));
        }
    }
}

/// Checks a point of a program that has these other points whose address comes later. Its place is not known yet: it is taken for one
/// that is good.
fn check(
    header: &Header,
    point: &ProbePoint,
    others: impl Iterator<Item = Point>,
) -> Result<(), Refusal> {
    let refused = |reason| Refusal {
        program: 0,
        point: None,
        insn: None,
        reason,
    };
    let code: Vec<Insn> = point.code.iter().map(|command| command.insn).collect();
    let first = PointSource {
        point: Point {
            is_absolute: false,
            ..point.point
        },
        symbol: match point.point.is_later {
            true => "",
            false => "somewhere",
        },
        code: &code,
    };
    let others = others.map(|point| PointSource {
        point: Point {
            kind: PointKind::WatchWrite,
            watch_len: 1,
            opcode: None,
            heap_size: 0,
            ..point
        },
        symbol: "",
        code: ENDS,
    });
    let points: Vec<_> = std::iter::once(first).chain(others).collect();
    let program = ProgramSource {
        header: Header {
            kind: ModuleKind::Kernel,
            ..*header
        },
        name: "kernel",
        points: &points,
    };
    let set = SetHeader {
        flags: UNSAFE_WRITES,
        ..SetHeader::default()
    };
    let mut bytes = Vec::new();
    encode(&mut bytes, set, &[program]).map_err(|_| refused(Reason::Length))?;
    SetRef::decode(&bytes, &mut vec![0; CODE_MAX]).map(drop)
}

fn place_of(program: &Program, point: &ProbePoint, refusal: Refusal) -> Span {
    let insn = refusal.insn.and_then(|insn| usize::try_from(insn).ok());
    let command = insn.and_then(|insn| point.code.get(insn));
    match (command, refusal.point) {
        (Some(command), _) => command.span,
        (None, Some(_)) => point.place.span,
        (None, None) => program.name_span,
    }
}

fn explain(span: Span, reason: Reason) -> Diagnostic {
    let error = Diagnostic::error(span, reason.to_string());
    match reason {
        Reason::NoEnd => error.help("exit, abort, rem, jmp, ret or rx has to be the last command"),
        Reason::Limit("heap_size") => error.help("heapmax of the program bounds it"),
        Reason::Later => error.help("watch = w, rw or x makes it a watchpoint"),
        Reason::NoLater(minor) => error.help(format!(
            "address = later, watch = w and minor = {minor} make one"
        )),
        Reason::Count => error.help(format!("a point has at most {CODE_MAX} commands")),
        _ => error,
    }
}
