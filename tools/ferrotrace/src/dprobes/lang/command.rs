// SPDX-License-Identifier: GPL-2.0

//! One command, from its tokens.

#![deny(unsafe_code)]

use ferro_dprobes_core::EXITS;
use ferro_dprobes_core::Insn;
use ferro_dprobes_core::OPS;
use ferro_dprobes_core::Op;
use ferro_dprobes_core::Operand;
use ferro_dprobes_core::Register;
use ferro_dprobes_core::STACK_WORDS;
use ferro_dprobes_core::Scope;
use ferro_dprobes_core::VARIABLES_MAX;

use super::diagnostic::Diagnostic;
use super::expr::Cursor;
use super::expr::word;
use super::program::Command;
use super::program::Symbol;
use super::source::Span;

type Result<T> = std::result::Result<T, Diagnostic>;

/// Names of registers, for suggestions.
pub const REGISTERS: std::ops::RangeInclusive<u8> = 0..=u8::MAX;

/// A command, and where it jumps to.
#[derive(Clone, Debug, PartialEq)]
pub struct Parsed {
    /// The command; if there is a label, without its target.
    pub command: Command,
    /// The label that it jumps to.
    pub label: Option<Symbol>,
}

/// Takes a command, which is all that is left of the line. `locals` is how many local variables there are.
pub fn parse(cursor: &mut Cursor<'_>, locals: u32) -> Result<Parsed> {
    let span = cursor.rest();
    let start = cursor.span();
    let Some(name) = cursor.peek_name() else {
        return Err(Diagnostic::error(
            start,
            "a command, a field or a label should be here",
        ));
    };
    // Old programs write `log_mrf` and `exit_3`.
    let lower = name.to_ascii_lowercase();
    let mut words = lower.splitn(2, '_');
    let (first, joined) = (words.next().unwrap_or_default(), words.next());
    cursor.take();
    let mut name_span = start;
    let op = match joined {
        None => {
            let second = cursor.peek_name().map(str::to_ascii_lowercase);
            let both = second.and_then(|second| two_words(first, &second));
            if let Some(op) = both {
                name_span = start.to(cursor.span());
                cursor.take();
                cursor.takes(",");
                Some(op)
            } else {
                let one = Op::from_name(first).filter(|op| !is_wrong_second(*op, first, cursor));
                width_only(first, cursor).or(one)
            }
        }
        Some(second) => two_words(first, second).inspect(|_| {
            cursor.takes(",");
        }),
    };
    if let (None, "exit", Some(way)) = (op, first, joined.and_then(|way| way.parse().ok())) {
        let insn = Insn::width(Op::Exit, exit(way, start)?);
        cursor.done()?;
        return Ok(plain(insn, span));
    }
    let Some(op) = op else {
        return Err(unknown(&lower, first, cursor, start));
    };
    let parsed = operand(op, cursor, name_span, span, locals)?;
    cursor.done()?;
    Ok(parsed)
}

/// `push lv`, `log mrf`, ...
fn two_words(first: &str, second: &str) -> Option<Op> {
    match (first, second) {
        // As old programs write it.
        ("log", "i") => Some(Op::Log),
        _ => Op::from_name(&format!("{first} {second}")),
    }
}

/// Returns true if the next name can only be meant as the second word of a command, but no such
/// command exists.
fn is_wrong_second(op: Op, first: &str, cursor: &Cursor<'_>) -> bool {
    let takes_names = matches!(op.operand(), Operand::Word | Operand::Target);
    let mut two = OPS.iter().filter_map(|op| op.name().split_once(' '));
    !takes_names && cursor.peek_name().is_some() && two.any(|(one, _)| one == first)
}

/// `push u32` and `pop u32`, without an operand: memory at the address on the stack. The width is left.
fn width_only(first: &str, cursor: &Cursor<'_>) -> Option<Op> {
    let mut after = cursor.clone();
    let is_width = matches!(after.peek_name(), Some("u8" | "u16" | "u32" | "u64"));
    after.take();
    match first {
        "push" if is_width && after.is_done() => Some(Op::PushMem),
        "pop" if is_width && after.is_done() => Some(Op::PopMem),
        _ => None,
    }
}

fn plain(insn: Insn, span: Span) -> Parsed {
    Parsed {
        command: Command {
            insn,
            symbol: None,
            span,
        },
        label: None,
    }
}

fn unknown(name: &str, first: &str, cursor: &Cursor<'_>, span: Span) -> Diagnostic {
    let second: Vec<&str> = OPS
        .iter()
        .filter_map(|op| op.name().strip_prefix(first)?.strip_prefix(' '))
        .collect();
    if second.is_empty() {
        let firsts = OPS
            .iter()
            .map(|op| op.name().split(' ').next().unwrap_or_default());
        return Diagnostic::error(span, format!("there is no command {name}")).near(name, firsts);
    }
    let what = format!("{first} needs one of: {}", second.join(", "));
    match cursor.peek_name() {
        Some(given) => Diagnostic::error(cursor.span(), what).near(given, second),
        None => Diagnostic::error(span, what),
    }
}

fn exit(way: u8, span: Span) -> Result<u8> {
    match way {
        0..EXITS => Ok(way),
        _ => Err(Diagnostic::error(
            span,
            format!(
                "exit takes 0, 1 (debugger), 2 (crash dump), 3 (core dump) or a module's number, 4 to {}",
                EXITS - 1
            ),
        )),
    }
}

fn operand(
    op: Op,
    cursor: &mut Cursor<'_>,
    name_span: Span,
    span: Span,
    locals: u32,
) -> Result<Parsed> {
    let name = op.name();
    if cursor.is_done() && op.takes_from_stack() {
        return Ok(plain(Insn::from_stack(op), span));
    }
    let deep = STACK_WORDS.saturating_sub(1);
    let deep = i128::try_from(deep).unwrap_or_default();
    let insn = match op.operand() {
        Operand::None => {
            if !cursor.is_done() {
                return Err(Diagnostic::error(
                    cursor.rest(),
                    format!("{name} takes no operand"),
                ));
            }
            Insn::new(op)
        }
        Operand::Target => {
            let Some(label) = cursor.peek_name() else {
                return Err(Diagnostic::error(cursor.span(), "a label should be here"));
            };
            let label = Symbol {
                name: label.to_owned(),
                span: cursor.span(),
            };
            cursor.take();
            return Ok(Parsed {
                label: Some(label),
                ..plain(Insn::new(op), span)
            });
        }
        Operand::Word => return push(cursor, name_span, span),
        Operand::Number | Operand::Later => Insn::with(op, cursor.unsigned(name, u32::MAX)?),
        Operand::Bit => Insn::with(op, cursor.unsigned("a bit", u64::BITS - 1)?),
        Operand::Words => Insn::with(op, narrow(cursor.number("a count of words", 0, deep)?)),
        Operand::Distance => {
            let distance = cursor.number("a distance in the stack", -deep, deep)?;
            Insn::at(op, i64::try_from(distance).unwrap_or_default())
        }
        Operand::Variable(scope) => Insn::with(op, variable(cursor, scope, locals)?),
        Operand::Variables(scope) => {
            let at = cursor.span();
            let first = variable(cursor, scope, locals)?;
            let mut count = 1;
            if cursor.takes(",") {
                count = cursor.unsigned("a count of variables", VARIABLES_MAX)?;
            }
            let left = number_of(scope, locals).saturating_sub(first);
            if count == 0 || count > left {
                return Err(Diagnostic::error(
                    at,
                    format!("from variable {first} on there are {left}, and not {count}"),
                ));
            }
            Insn::variables(op, first, count.into())
        }
        Operand::Register
        | Operand::WritableRegister
        | Operand::UserRegister
        | Operand::WritableUserRegister => Insn::register(op, register(op, cursor)?),
        Operand::Width => Insn::width(op, width(cursor, &[1, 2, 4, 8])?),
        Operand::PortWidth => Insn::width(op, width(cursor, &[1, 2, 4])?),
        Operand::Exit => {
            let mut way = 0;
            if !cursor.is_done() {
                let at = cursor.span();
                way = exit(cursor.unsigned("exit", u8::MAX)?, at)?;
            }
            Insn::width(op, way)
        }
    };
    Ok(plain(insn, span))
}

fn narrow(number: i128) -> u32 {
    // All ranges that it is used for are smaller.
    u32::try_from(number).unwrap_or(u32::MAX)
}

fn number_of(scope: Scope, locals: u32) -> u32 {
    match scope {
        Scope::Local => locals,
        Scope::Global => VARIABLES_MAX,
    }
}

fn variable(cursor: &mut Cursor<'_>, scope: Scope, locals: u32) -> Result<u32> {
    let span = cursor.span();
    let index = cursor.unsigned("the index of a variable", u32::MAX)?;
    let count = number_of(scope, locals);
    if index < count {
        return Ok(index);
    }
    let (kind, field) = match scope {
        Scope::Local => ("local", "vars"),
        Scope::Global => ("global", "gvars"),
    };
    let error = Diagnostic::error(span, format!("there is no {kind} variable {index}"));
    let most = VARIABLES_MAX - 1;
    Err(match index <= most {
        true => error.help(format!(
            "{field} = {} before the first point makes room for it",
            index + 1
        )),
        false => error.help(format!("they have the numbers 0 to {most}")),
    })
}

fn register(op: Op, cursor: &mut Cursor<'_>) -> Result<Register> {
    let span = cursor.span();
    let known = || {
        let all = REGISTERS.filter_map(Register::from_number);
        all.filter(move |one| is_for(op, *one)).map(Register::name)
    };
    let Some(given) = cursor.peek_name() else {
        return Err(Diagnostic::error(span, "a register should be here"));
    };
    cursor.take();
    let given = given.to_ascii_lowercase();
    let Some(register) = Register::from_name(&given) else {
        return Err(
            Diagnostic::error(span, format!("there is no register {given}")).near(&given, known()),
        );
    };
    if !is_for(op, register) {
        let why = match op.operand() {
            Operand::UserRegister => "does not belong to a thread",
            _ => "cannot be changed",
        };
        return Err(Diagnostic::error(
            span,
            format!("{} {why}", register.name()),
        ));
    }
    Ok(register)
}

/// Returns true if a command can have this register.
pub fn is_for(op: Op, register: Register) -> bool {
    match op.operand() {
        Operand::WritableRegister | Operand::WritableUserRegister => register.is_writable(),
        Operand::UserRegister => register.is_saved(),
        _ => true,
    }
}

/// How wide memory or a port is: `u32`, `d`, or 4.
fn width(cursor: &mut Cursor<'_>, widths: &[u8]) -> Result<u8> {
    let span = cursor.span();
    let width = match cursor.peek_name() {
        Some(name) => {
            let width = width_of_name(&name.to_ascii_lowercase());
            cursor.take();
            width
        }
        None if cursor.is_done() => None,
        None => Some(cursor.unsigned("a width in bytes", u8::MAX)?),
    };
    width.filter(|width| widths.contains(width)).ok_or_else(|| {
        let names: Vec<_> = widths
            .iter()
            .map(|width| format!("u{}", u32::from(*width) * 8))
            .collect();
        Diagnostic::error(
            span,
            format!("a width should be here: {}", names.join(", ")),
        )
    })
}

fn width_of_name(name: &str) -> Option<u8> {
    Some(match name {
        "u8" | "b" => 1,
        "u16" | "w" => 2,
        "u32" | "d" => 4,
        "u64" | "q" => 8,
        _ => return None,
    })
}

/// `push VALUE`, or with how wide it may be `push d, VALUE`.
fn push(cursor: &mut Cursor<'_>, name_span: Span, span: Span) -> Result<Parsed> {
    let mut bits = 64;
    let mut ahead = cursor.clone();
    let name = ahead.take().and(cursor.peek_name());
    if let Some(width) = name.and_then(width_of_name).filter(|_| ahead.takes(",")) {
        bits = u32::from(width) * 8;
        *cursor = ahead;
    } else if let Some(name) = name.filter(|_| ahead.peek().is_some() && is_operand_next(&ahead)) {
        // `push x, 5`: no such second word.
        let second = OPS.iter().filter_map(|op| op.name().strip_prefix("push "));
        return Err(Diagnostic::error(
            name_span.to(cursor.span()),
            format!("there is no command push {name}"),
        )
        .near(name, second));
    }
    let value = cursor.value()?;
    let number = word(&value)?;
    if value.symbol.is_some() && bits < 64 {
        return Err(Diagnostic::error(
            value.span,
            "the address of a symbol has 64 bits",
        ));
    }
    let fits = value.number < 1 << bits && value.number >= -(1 << (bits - 1));
    if !fits {
        return Err(Diagnostic::error(
            value.span,
            format!("this does not fit in {bits} bits"),
        ));
    }
    Ok(Parsed {
        command: Command {
            insn: Insn::push(number),
            symbol: value.symbol,
            span,
        },
        label: None,
    })
}

/// Returns true if a comma follows.
fn is_operand_next(cursor: &Cursor<'_>) -> bool {
    cursor.clone().takes(",")
}
