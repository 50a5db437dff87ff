// SPDX-License-Identifier: GPL-2.0

//! The tokens of a line.

#![deny(unsafe_code)]

use super::diagnostic::Diagnostic;
use super::source::Define;
use super::source::Source;
use super::source::Span;

/// Kind of a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A name: of a command, a field, a register, a symbol, a label.
    Name(String),
    /// A number.
    Number(u64),
    /// A text in quotes, without them.
    Text(String),
    /// `,`, `=`, `:`, `(`, an operator.
    Punct(&'static str),
}

/// A token, and where it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    /// Kind of the token.
    pub kind: Kind,
    /// Where it is.
    pub span: Span,
}

/// Longer ones first.
const PUNCTS: &[&str] = &[
    "<<", ">>", ",", "=", ":", "(", ")", "+", "-", "*", "/", "%", "&", "|", "^", "~",
];

/// Definitions within definitions.
const DEFINES_DEEP: usize = 16;

/// The tokens of a line, and where it ends.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tokens {
    /// The tokens, definitions replaced.
    pub tokens: Vec<Token>,
    /// After the last of them.
    pub end: Span,
    /// The line without comments.
    pub text: String,
}

/// The tokens of all lines. What is wrong goes to `errors`; such a line has the tokens before that, and is not `good`.
pub fn tokenize(source: &Source, defines: &[Define], errors: &mut Vec<Diagnostic>) -> Vec<Tokens> {
    let mut comment = None;
    let mut lines = Vec::new();
    for (number, line) in source.lines.iter().enumerate() {
        let text = without_comments(&line.text, number, &mut comment);
        let mut tokens = Vec::new();
        if !is_name_line(&text) {
            let mut at = Some((number, 0));
            scan(&text, &mut at, &mut tokens, errors);
            tokens = expand(tokens, defines, DEFINES_DEEP, errors);
        }
        let len = text.trim_end().len();
        let end = Span {
            line: number,
            start: len,
            end: len,
        };
        lines.push(Tokens { tokens, end, text });
    }
    if let Some(start) = comment {
        errors
            .push(Diagnostic::error(start, "this comment does not end").help("*/ ends a comment"));
    }
    lines
}

/// Returns true for a line `name = ...`, whose value is a path: text, not tokens.
pub fn is_name_line(text: &str) -> bool {
    name_value(text).is_some()
}

/// Where the value of `name = ...` is in the line.
pub fn name_value(text: &str) -> Option<(usize, &str)> {
    let (key, value) = text.split_once('=')?;
    if !key.trim().eq_ignore_ascii_case("name") {
        return None;
    }
    let blank = value.len() - value.trim_start().len();
    Some((key.len() + 1 + blank, value.trim()))
}

/// The line with blanks for comments. `comment` is where one began that has not ended yet.
fn without_comments(line: &str, number: usize, comment: &mut Option<Span>) -> String {
    let mut text = String::new();
    let mut quote = false;
    let mut rest = line.char_indices().peekable();
    while let Some((at, c)) = rest.next() {
        let next = rest.peek().map(|(_, c)| *c);
        if comment.is_some() {
            if c == '*' && next == Some('/') {
                rest.next();
                *comment = None;
                text.push(' ');
            }
            (0..c.len_utf8()).for_each(|_| text.push(' '));
            continue;
        }
        match (c, next) {
            ('/', Some('/')) if !quote && !is_path_text(&text) => break,
            ('/', Some('*')) if !quote => {
                rest.next();
                text.push_str("  ");
                *comment = Some(Span {
                    line: number,
                    start: at,
                    end: at + 2,
                });
            }
            ('"', _) => {
                quote = !quote;
                text.push(c);
            }
            // Columns are bytes.
            _ => text.push(c),
        }
    }
    text
}

/// Returns true if a `//` after this text is part of a path: it follows other characters of the
/// value of `name = ...`.
fn is_path_text(text: &str) -> bool {
    name_value(text)
        .is_some_and(|(start, value)| !value.is_empty() && text.len() == start + value.len())
}

/// Cuts `text` into tokens. `at` is the line and the column of its start; with `None`, all tokens are where `text` stands in for
/// another one.
fn scan(
    text: &str,
    at: &mut Option<(usize, usize)>,
    tokens: &mut Vec<Token>,
    errors: &mut Vec<Diagnostic>,
) {
    let span = |start: usize, end: usize| match *at {
        Some((line, column)) => Span {
            line,
            start: column + start,
            end: column + end,
        },
        None => Span::default(),
    };
    let mut from = 0;
    while let Some(rest) = text.get(from..).filter(|rest| !rest.is_empty()) {
        let Some(c) = rest.chars().next() else { break };
        let is_word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '$' | '@');
        let mut len = c.len_utf8();
        let kind = if c.is_whitespace() {
            None
        } else if is_word(c) {
            len = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
            let word = rest.get(..len).unwrap_or_default();
            match c.is_ascii_digit() {
                true => match number(word) {
                    Ok(number) => Some(Kind::Number(number)),
                    Err(why) => {
                        errors.push(Diagnostic::error(span(from, from + len), why));
                        Some(Kind::Number(0))
                    }
                },
                false => Some(Kind::Name(word.to_owned())),
            }
        } else if c == '"' {
            match rest.get(1..).and_then(|rest| rest.find('"')) {
                Some(end) => {
                    len = end + 2;
                    Some(Kind::Text(rest.get(1..=end).unwrap_or_default().to_owned()))
                }
                None => {
                    len = rest.len();
                    errors.push(Diagnostic::error(
                        span(from, from + len),
                        "a quote is missing",
                    ));
                    None
                }
            }
        } else if c == '\'' {
            match character(rest) {
                Some((value, taken)) => {
                    len = taken;
                    Some(Kind::Number(value))
                }
                None => {
                    errors.push(Diagnostic::error(
                        span(from, from + len),
                        "one character, and another ', should follow",
                    ));
                    None
                }
            }
        } else if let Some(punct) = PUNCTS.iter().find(|punct| rest.starts_with(**punct)) {
            len = punct.len();
            Some(Kind::Punct(punct))
        } else {
            let error = Diagnostic::error(span(from, from + len), format!("{c:?} means nothing"));
            errors.push(match c {
                ';' => error.help("comments begin with //"),
                _ => error,
            });
            None
        };
        if let Some(kind) = kind {
            tokens.push(Token {
                kind,
                span: span(from, from + len),
            });
        }
        from += len;
    }
}

/// A number as C writes them: decimal, `0x` hexadecimal, `0b` binary, `0` octal.
fn number(word: &str) -> Result<u64, String> {
    let lower = word.to_ascii_lowercase();
    let (digits, base, what) = match lower.as_bytes() {
        [b'0', b'x', ..] => (lower.get(2..), 16, "a hexadecimal"),
        [b'0', b'b', ..] => (lower.get(2..), 2, "a binary"),
        [b'0', _, ..] => (lower.get(1..), 8, "an octal"),
        _ => (Some(&lower[..]), 10, "a decimal"),
    };
    let digits = digits.unwrap_or_default();
    if digits.is_empty() || !digits.chars().all(|c| c.is_digit(base)) {
        return Err(format!("{word} is not {what} number"));
    }
    u64::from_str_radix(digits, base).map_err(|_| format!("{word} has more than 64 bits"))
}

/// A character in single quotes, and how many bytes that took.
fn character(text: &str) -> Option<(u64, usize)> {
    let mut chars = text.chars();
    chars.next();
    let (value, len) = match chars.next()? {
        '\\' => {
            let value = match chars.next()? {
                'n' => '\n',
                't' => '\t',
                '0' => '\0',
                c @ ('\\' | '\'') => c,
                _ => return None,
            };
            (value, 4)
        }
        '\'' => return None,
        c if c.is_ascii() => (c, 3),
        _ => return None,
    };
    (chars.next()? == '\'').then_some((u32::from(value).into(), len))
}

/// Puts in what names stand for.
fn expand(
    tokens: Vec<Token>,
    defines: &[Define],
    deep: usize,
    errors: &mut Vec<Diagnostic>,
) -> Vec<Token> {
    let mut all = Vec::new();
    for token in tokens {
        let define = match &token.kind {
            Kind::Name(name) => defines.iter().rev().find(|one| one.key == *name),
            _ => None,
        };
        let Some(define) = define else {
            all.push(token);
            continue;
        };
        if deep == 0 {
            errors.push(Diagnostic::error(
                token.span,
                format!("-D {}: it stands for itself", define.key),
            ));
            continue;
        }
        let (mut inner, mut wrong) = (Vec::new(), Vec::new());
        scan(&define.value, &mut None, &mut inner, &mut wrong);
        errors.extend(wrong.into_iter().map(|error| {
            let message = format!("-D {}={}: {}", define.key, define.value, error.message);
            Diagnostic::error(token.span, message)
        }));
        for token_of_value in &mut inner {
            token_of_value.span = token.span;
        }
        all.extend(expand(inner, defines, deep - 1, errors));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str, defines: &[&str]) -> (Vec<Tokens>, Vec<Diagnostic>) {
        let defines: Vec<Define> = defines.iter().map(|one| one.parse().unwrap()).collect();
        let mut errors = Vec::new();
        let lines = tokenize(&Source::of_text("f", text), &defines, &mut errors);
        (lines, errors)
    }

    fn words(text: &str, defines: &[&str]) -> Vec<String> {
        let (lines, errors) = lines(text, defines);
        assert_eq!(errors, []);
        let tokens = lines.into_iter().flat_map(|line| line.tokens);
        let word = |token: Token| match token.kind {
            Kind::Name(name) => name,
            Kind::Number(number) => number.to_string(),
            Kind::Text(text) => format!("\"{text}\""),
            Kind::Punct(punct) => punct.to_owned(),
        };
        tokens.map(word).collect()
    }

    #[test]
    fn tokens() {
        assert_eq!(
            words(
                "l: push r,esp+0x10<<010 // x\n/* a\nb */ 'a' '\\n' 0b11",
                &[]
            ),
            [
                "l", ":", "push", "r", ",", "esp", "+", "16", "<<", "8", "97", "10", "3"
            ]
        );
        assert_eq!(
            words("push foo.isra.0 a@b", &[]),
            ["push", "foo.isra.0", "a@b"]
        );
        assert_eq!(
            words("push N", &["N=M+1", "M=(2)"]),
            ["push", "(", "2", ")", "+", "1"]
        );
    }

    #[test]
    fn what_is_wrong() {
        let messages = |text: &str| {
            let (_, errors) = lines(text, &["A=A", "B=0x"]);
            let mut all = errors.iter().map(|one| (one.span.start, &*one.message));
            let first = all.next().unwrap();
            (first.0, first.1.to_owned())
        };
        for (text, start, message) in [
            ("push 0xg", 5, "0xg is not a hexadecimal number"),
            (
                "push 18446744073709551616",
                5,
                "18446744073709551616 has more than 64 bits",
            ),
            ("push 09", 5, "09 is not an octal number"),
            ("a \"b", 2, "a quote is missing"),
            ("  ? 1", 2, "'?' means nothing"),
            ("x /* y\n", 2, "this comment does not end"),
            ("push A", 5, "-D A: it stands for itself"),
            ("push B", 5, "-D B=0x: 0x is not a hexadecimal number"),
            ("push ''", 5, "one character, and another ', should follow"),
        ] {
            assert_eq!(messages(text), (start, message.to_owned()), "{text}");
        }
    }

    #[test]
    fn names_are_paths() {
        let (found, errors) = lines("name = \"/a b//c\"  // comment\nNAME=/lib/x.so//y", &[]);
        assert_eq!(errors, []);
        assert_eq!(name_value(&found[0].text), Some((7, "\"/a b//c\"")));
        assert_eq!(name_value(&found[1].text), Some((5, "/lib/x.so//y")));
        assert!(found[0].tokens.is_empty());
    }
}
