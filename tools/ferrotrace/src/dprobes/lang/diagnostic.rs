// SPDX-License-Identifier: GPL-2.0

//! What is wrong with a program file, and where.

#![deny(unsafe_code)]

use std::fmt::Write;

use annotate_snippets::Level;
use annotate_snippets::Renderer;
use annotate_snippets::Snippet;

use super::source::Source;
use super::source::Span;
use crate::near::did_you_mean;
use crate::near::near;
use crate::text::printable;
use crate::text::printable_columns;

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// The programs cannot be used.
    Error,
    /// They can.
    Warning,
}

/// Something that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// How bad it is.
    pub severity: Severity,
    /// Where.
    pub span: Span,
    /// Text of the error.
    pub message: String,
    /// Advice for the user.
    pub help: Option<String>,
}

impl Diagnostic {
    /// An error.
    pub fn error(span: Span, message: impl Into<String>) -> Self {
        Self {
            severity: Severity::Error,
            span,
            message: message.into(),
            help: None,
        }
    }

    /// A warning.
    pub fn warning(span: Span, message: impl Into<String>) -> Self {
        Self {
            severity: Severity::Warning,
            ..Self::error(span, message)
        }
    }

    /// With what to do.
    pub fn help(self, help: impl Into<String>) -> Self {
        Self {
            help: Some(help.into()),
            ..self
        }
    }

    /// With the names that are like one that is not known, if there are any.
    pub fn near<'a>(self, name: &str, known: impl IntoIterator<Item = &'a str>) -> Self {
        match did_you_mean(&near(name, known)) {
            None => self,
            Some(question) => self.help(question),
        }
    }
}

/// Returns true if any diagnostic is an error.
pub fn is_error(diagnostics: &[Diagnostic]) -> bool {
    let mut all = diagnostics.iter();
    all.any(|one| one.severity == Severity::Error)
}

/// Each with its line and a caret, in the order of the file.
pub fn render(source: &Source, diagnostics: &[Diagnostic], colours: bool) -> String {
    let renderer = match colours {
        true => Renderer::styled(),
        false => Renderer::plain(),
    };
    let mut ordered: Vec<_> = diagnostics.iter().collect();
    ordered.sort_by_key(|one| (one.span.line, one.span.start));
    let mut text = String::new();
    for one in ordered {
        let level = match one.severity {
            Severity::Error => Level::Error,
            Severity::Warning => Level::Warning,
        };
        let title = printable(&one.message);
        let mut message = level.title(&title);
        // A caret needs one character at least, also after the end of the line.
        let line = source.lines.get(one.span.line).or(source.lines.last());
        let shown = line.map(|line| printable_columns(&line.text.replace('\t', " ")) + " ");
        let origin = line.map(|line| printable(&line.file));
        if let (Some(line), Some(shown), Some(origin)) = (line, &shown, &origin) {
            let last = shown.len().saturating_sub(1);
            let start = one.span.start.min(last);
            let end = one.span.end.clamp(start.saturating_add(1), shown.len());
            let snippet = Snippet::source(shown)
                .line_start(line.number)
                .origin(origin)
                .annotation(level.span(start..end));
            message = message.snippet(snippet);
        }
        let help = one.help.as_deref().map(printable);
        if let Some(help) = &help {
            message = message.footer(Level::Help.title(help));
        }
        // Writing to a string does not fail.
        let _ = writeln!(text, "{}", renderer.render(message));
    }
    // The room for the caret is not part of the line.
    let lines = text.lines().map(str::trim_end);
    lines.fold(String::new(), |all, line| all + line + "\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_column_and_caret() {
        let source = Source::of_text("a.dp", "first\n\tpush r, exp\nlast\n");
        let span = |line, start, end| Span { line, start, end };
        let errors = [
            Diagnostic::error(span(2, 4, 4), "more is missing"),
            Diagnostic::error(span(1, 9, 12), "no register exp").near("exp", ["esp", "eax", "rbp"]),
        ];
        let expected = "\
error: no register exp
 --> a.dp:2:10
  |
2 |  push r, exp
  |          ^^^
  |
  = help: did you mean esp?
error: more is missing
 --> a.dp:3:5
  |
3 | last
  |     ^
  |
";
        assert_eq!(render(&source, &errors, false), expected);
        // Nothing of a file is a command for the terminal.
        let source = Source::of_text("a\x1b.dp", "push \x1b[2J\u{9b}m\n");
        let error = Diagnostic::error(span(0, 5, 6), "no \x1b").help("\x1b[2J");
        let text = render(&source, &[error], false);
        assert!(
            !text.contains(|c: char| c.is_control() && c != '\n'),
            "{text}"
        );
        assert!(text.contains("push ?[2J??m"), "{text}");
    }
}
