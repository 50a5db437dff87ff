// SPDX-License-Identifier: GPL-2.0

//! Program files. A line has one of: a field (`jmpmax = 32`), a command with or without a label before it (`again: loop again`),
//! nothing but a label, nothing. `name =` begins a program, `offset =` or `address =` a point.

#![deny(unsafe_code)]

use std::collections::BTreeMap;

use ferro_dprobes_core::Insn;
use ferro_dprobes_core::Op;
use ferro_dprobes_core::Point;
use ferro_dprobes_core::PointKind;
use ferro_dprobes_core::Scope;
use ferro_dprobes_core::VARIABLES_MAX;

use super::command;
use super::diagnostic::Diagnostic;
use super::diagnostic::is_error;
use super::expr::Cursor;
use super::field;
use super::field::FIELDS;
use super::field::Field;
use super::field::Fields;
use super::field::Owner;
use super::program::Command;
use super::program::Place;
use super::program::ProbePoint;
use super::program::Program;
use super::program::Symbol;
use super::source::Define;
use super::source::Source;
use super::source::Span;
use super::token::Kind;
use super::token::Token;
use super::token::Tokens;
use super::token::name_value;
use super::token::tokenize;
use super::verify::verify;

/// Programs and diagnostics of a file. If a diagnostic is an error, the programs are incomplete.
#[derive(Debug, Default)]
pub struct File {
    /// The programs.
    pub programs: Vec<Program>,
    /// Diagnostics, in no order.
    pub diagnostics: Vec<Diagnostic>,
}

/// Reads the programs of a file, and checks all that can be checked without a kernel.
pub fn parse(source: &Source, defines: &[Define]) -> File {
    let mut parser = Parser::default();
    let lines = tokenize(source, defines, &mut parser.errors);
    for line in &lines {
        parser.line(line, defines);
    }
    parser.end_program();
    if parser.programs.is_empty() && parser.errors.is_empty() {
        let error = Diagnostic::error(Span::default(), "there is no program in this file");
        parser
            .errors
            .push(error.help("a program begins with name = FILE"));
    }
    if !is_error(&parser.errors) {
        for program in &parser.programs {
            verify(program, &mut parser.errors);
        }
    }
    File {
        programs: parser.programs,
        diagnostics: parser.errors,
    }
}

/// The address of a watchpoint that a program says.
pub const LATER: &str = "later";

/// A program that has not ended.
#[derive(Debug, Default)]
struct Open {
    fields: Fields,
    name: Option<(String, Span)>,
    points: Vec<ProbePoint>,
    point: Option<OpenPoint>,
    /// Its first line.
    span: Span,
}

/// A point that has not ended.
#[derive(Debug)]
struct OpenPoint {
    point: Point,
    place: Place,
    returns: bool,
    code: Vec<Command>,
    labels: BTreeMap<String, (u32, Span)>,
    jumps: Vec<(usize, Symbol)>,
    /// Where `length =` is.
    length: Option<Span>,
}

impl OpenPoint {
    fn new(point: Point, symbol: Option<String>, number: i128, span: Span) -> Self {
        Self {
            point,
            place: Place {
                symbol,
                number,
                span,
            },
            returns: false,
            code: Vec::new(),
            labels: BTreeMap::new(),
            jumps: Vec::new(),
            length: None,
        }
    }
}

#[derive(Debug, Default)]
struct Parser {
    programs: Vec<Program>,
    open: Option<Open>,
    errors: Vec<Diagnostic>,
}

impl Parser {
    fn line(&mut self, line: &Tokens, defines: &[Define]) {
        if let Some((start, value)) = name_value(&line.text) {
            let span = Span {
                line: line.end.line,
                start,
                end: start + value.len(),
            };
            return self.name(value, span, defines);
        }
        let mut cursor = Cursor::new(&line.tokens, line.end);
        if let [
            Token {
                kind: Kind::Name(name),
                span,
            },
            Token {
                kind: Kind::Punct("="),
                ..
            },
            ..,
        ] = &line.tokens[..]
        {
            cursor.take();
            cursor.take();
            return self.field(name, *span, &mut cursor);
        }
        while let Some(label) = label(&mut cursor) {
            self.label(label);
        }
        if !cursor.is_done() {
            self.command(&mut cursor);
        }
    }

    fn error(&mut self, error: Diagnostic) {
        self.errors.push(error);
    }

    /// `name =`: of this program if it has none yet, otherwise of the next one.
    fn name(&mut self, value: &str, span: Span, defines: &[Define]) {
        let value = match defines.iter().rev().find(|one| one.key == value) {
            Some(define) => define.value.as_str(),
            None => value,
        };
        let plain = value
            .strip_prefix('"')
            .and_then(|rest| rest.strip_suffix('"'))
            .unwrap_or(value);
        if plain.is_empty() || plain.contains('"') || plain.chars().any(char::is_control) {
            self.error(
                Diagnostic::error(span, "a name should follow")
                    .help("bzImage for the kernel, the name of a module, or the path of a file"),
            );
        }
        let is_taken = |open: &Open| open.name.is_some() || open.point.is_some();
        if self.open.as_ref().is_some_and(is_taken) {
            self.end_program();
        }
        self.program(span).name = Some((plain.to_owned(), span));
    }

    fn program(&mut self, span: Span) -> &mut Open {
        self.open.get_or_insert_with(|| Open {
            span,
            ..Open::default()
        })
    }

    fn field(&mut self, name: &str, span: Span, value: &mut Cursor<'_>) {
        let Some(field) = field::find(name) else {
            let known = FIELDS.iter().flat_map(|field| field.names);
            let error = Diagnostic::error(span, format!("there is no field {name}"));
            return self.error(error.near(name, known.copied()));
        };
        let result = match field.name() {
            "offset" | "address" => self.place(field, span, value),
            _ => self.set(field, span, value),
        };
        match result.and_then(|()| value.done()) {
            Ok(()) => (),
            Err(error) => self.error(error),
        }
    }

    fn set(&mut self, field: &Field, span: Span, value: &mut Cursor<'_>) -> Result<(), Diagnostic> {
        let name = field.name();
        let program = self.program(span);
        match (&mut program.point, field.owner) {
            (None, Owner::Header | Owner::Both) => program.fields.set(field, value),
            (None, Owner::Point) => Err(Diagnostic::error(
                span,
                format!("{name} belongs to a point, and none has begun"),
            )
            .help("a point begins with offset = or address =")),
            (Some(_), Owner::Header) => Err(Diagnostic::error(
                span,
                format!("{name} belongs to the program"),
            )
            .help("write it before the first point")),
            (Some(point), _) if !point.code.is_empty() => Err(Diagnostic::error(
                span,
                format!("{name} comes after the first command of the point"),
            )
            .help("the fields of a point come first; offset = or address = begins the next point")),
            (Some(point), _) => {
                if name == "return" {
                    point.returns = field::is_yes(value)?;
                    return Ok(());
                }
                if name == "length" {
                    point.length = Some(span);
                }
                field::set_point(&mut point.point, field, value)
            }
        }
    }

    /// `offset =` and `address =` begin a point.
    fn place(
        &mut self,
        field: &Field,
        span: Span,
        value: &mut Cursor<'_>,
    ) -> Result<(), Diagnostic> {
        self.end_point();
        let program = self.program(span);
        let mut point = Point::new(program.fields.header.major);
        point.is_absolute = field.name() == "address";
        let at = value.span();
        if point.is_absolute && value.peek_name() == Some(LATER) {
            value.take();
            point.is_absolute = false;
            point.is_later = true;
            program.point = Some(OpenPoint::new(point, None, 0, at));
            return Ok(());
        }
        let found = value.value();
        let (symbol, number, at) = match &found {
            Ok(value) => {
                let symbol = value.symbol.as_ref().map(|symbol| symbol.name.clone());
                (symbol, value.number, value.span)
            }
            Err(_) => (None, 0, at),
        };
        if point.is_absolute && symbol.is_some() {
            // The symbol's address, wherever that is.
            point.is_absolute = false;
        }
        program.point = Some(OpenPoint::new(point, symbol, number, at));
        let value = found?;
        match value.symbol.is_none() && u64::try_from(value.number).is_err() {
            true => Err(Diagnostic::error(
                value.span,
                "a place has to be from 0 to 0xffffffffffffffff",
            )),
            false => Ok(()),
        }
    }

    fn label(&mut self, label: Symbol) {
        let point = self.open.as_mut().and_then(|open| open.point.as_mut());
        let Some(point) = point else {
            return self.error(no_point(label.span));
        };
        let next = u32::try_from(point.code.len()).unwrap_or(u32::MAX);
        if let Some((_, first)) = point.labels.get(&label.name) {
            let line = label.span.line.saturating_sub(first.line);
            return self.error(
                Diagnostic::error(
                    label.span,
                    format!("the label {} is there twice", label.name),
                )
                .help(format!("the first is {line} lines before")),
            );
        }
        point.labels.insert(label.name, (next, label.span));
    }

    fn command(&mut self, cursor: &mut Cursor<'_>) {
        let span = cursor.rest();
        let locals = match &self.open {
            Some(open) => open.fields.header.locals,
            None => 0,
        };
        let parsed = command::parse(cursor, locals);
        let point = self.open.as_mut().and_then(|open| open.point.as_mut());
        let Some(point) = point else {
            // Rather than that a command is wrong: what is no field is taken for one.
            return self.error(match parsed {
                Err(error) if self.open.is_none() => error,
                _ => no_point(span),
            });
        };
        match parsed {
            Ok(parsed) => {
                if let Some(label) = parsed.label {
                    point.jumps.push((point.code.len(), label));
                }
                point.code.push(parsed.command);
            }
            Err(error) => {
                // So that the point is not empty because of it.
                point.code.push(Command {
                    insn: Insn::new(Op::Nop),
                    symbol: None,
                    span,
                });
                self.errors.push(error);
            }
        }
    }

    fn end_point(&mut self) {
        let Some(open) = &mut self.open else { return };
        let Some(mut point) = open.point.take() else {
            return;
        };
        let errors = &mut self.errors;
        if point.code.is_empty() {
            errors.push(Diagnostic::error(
                point.place.span,
                "this point has no commands",
            ));
        }
        let count = u32::try_from(point.code.len()).unwrap_or(u32::MAX);
        for (name, (at, span)) in &point.labels {
            if *at >= count && count != 0 {
                errors.push(Diagnostic::error(
                    *span,
                    format!("no command follows the label {name}"),
                ));
            }
        }
        for (index, label) in point.jumps {
            let target = point.labels.get(&label.name).map(|(at, _)| *at);
            match (target, point.code.get_mut(index)) {
                (Some(target), Some(command)) => {
                    command.insn = Insn::with(command.insn.op, target);
                }
                _ => errors.push(
                    Diagnostic::error(
                        label.span,
                        format!("there is no label {} in this point", label.name),
                    )
                    .near(&label.name, point.labels.keys().map(String::as_str)),
                ),
            }
        }
        let kind = point.point.kind;
        match (kind, point.length) {
            (PointKind::Breakpoint, Some(span)) => errors.push(
                Diagnostic::error(span, "a breakpoint has no length")
                    .help("watch = x, w, rw or io makes it a watchpoint"),
            ),
            (PointKind::Breakpoint, None) => (),
            (PointKind::WatchExecute, Some(span)) if point.point.watch_len != 1 => {
                errors.push(Diagnostic::error(
                    span,
                    "execution is watched at one address: length = 1",
                ));
            }
            (PointKind::WatchExecute, _) => point.point.watch_len = 1,
            (_, None) => point.point.watch_len = 1,
            (_, Some(_)) => (),
        }
        // In a file of user space a number can be where a function begins.
        let can_be_function = match point.place.symbol {
            Some(_) => point.place.number == 0,
            None => !point.point.is_absolute,
        };
        let is_function = kind == PointKind::Breakpoint && can_be_function;
        if point.returns && !is_function {
            errors.push(Diagnostic::error(
                point.place.span,
                "returns are those of a function, which has to be named here, without an offset",
            ));
        }
        open.points.push(ProbePoint {
            point: point.point,
            place: point.place,
            returns: point.returns,
            code: point.code,
        });
    }

    fn end_program(&mut self) {
        self.end_point();
        let Some(open) = self.open.take() else { return };
        let Some((name, name_span)) = open.name else {
            return self.error(
                Diagnostic::error(open.span, "this program has no name")
                    .help("name = bzImage for the kernel, or the name of a module, or a path"),
            );
        };
        if open.points.is_empty() {
            self.error(
                Diagnostic::error(name_span, "this program has no points")
                    .help("a point begins with offset = or address ="),
            );
        }
        let mut header = open.fields.header;
        header.kind = match open.fields.kind {
            Some(kind) => kind,
            None => field::kind_of_name(&name),
        };
        self.count_globals(&mut header.globals, open.fields.globals, &open.points);
        self.programs.push(Program {
            name,
            name_span,
            header,
            points: open.points,
        });
    }

    /// How many global variables a program uses, where it does not say so; otherwise that it uses no more.
    fn count_globals(&mut self, globals: &mut u32, is_given: bool, points: &[ProbePoint]) {
        for command in points.iter().flat_map(|point| &point.code) {
            let insn = command.insn;
            let needed = match insn.op.operand() {
                ferro_dprobes_core::Operand::Variable(Scope::Global) if insn.is_from_stack() => {
                    // Whatever is on the stack.
                    if is_given { 0 } else { VARIABLES_MAX }
                }
                ferro_dprobes_core::Operand::Variable(Scope::Global) => insn.number() + 1,
                ferro_dprobes_core::Operand::Variables(Scope::Global) => {
                    let count = u32::try_from(insn.word()).unwrap_or(VARIABLES_MAX);
                    insn.number() + count
                }
                _ => 0,
            };
            if needed <= *globals {
                continue;
            }
            if is_given {
                self.errors.push(
                    Diagnostic::error(
                        command.span,
                        format!("there is no global variable {}", needed - 1),
                    )
                    .help(format!(
                        "gvars = {needed} before the first point makes room for it"
                    )),
                );
            } else {
                *globals = needed;
            }
        }
    }
}

fn no_point(span: Span) -> Diagnostic {
    Diagnostic::error(span, "this is in no point")
        .help("offset = or address = begins a point, and its commands follow")
}

/// Takes `LABEL:`.
fn label(cursor: &mut Cursor<'_>) -> Option<Symbol> {
    let mut ahead = cursor.clone();
    let span = ahead.span();
    let name = ahead.peek_name()?.to_owned();
    ahead.take();
    if !ahead.takes(":") {
        return None;
    }
    *cursor = ahead;
    Some(Symbol { name, span })
}
