// SPDX-License-Identifier: GPL-2.0

//! Expressions: numbers, symbols, and operators as in C.

#![deny(unsafe_code)]

use super::diagnostic::Diagnostic;
use super::program::Symbol;
use super::source::Span;
use super::token::Kind;
use super::token::Token;

/// Parentheses and signs within each other.
const DEEP: usize = 64;

/// The rest of a line.
#[derive(Clone, Debug)]
pub struct Cursor<'a> {
    tokens: &'a [Token],
    end: Span,
}

/// Value of an expression: a number, and optionally a symbol's address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Value {
    /// The number.
    pub number: i128,
    /// Symbol that the number is added to.
    pub symbol: Option<Symbol>,
    /// The whole expression.
    pub span: Span,
}

type Result<T> = std::result::Result<T, Diagnostic>;

impl<'a> Cursor<'a> {
    /// At the first of these tokens. `end` is where the line ends.
    pub fn new(tokens: &'a [Token], end: Span) -> Self {
        Self { tokens, end }
    }

    /// The next token, which stays.
    pub fn peek(&self) -> Option<&'a Token> {
        self.tokens.first()
    }

    /// The name that is next, and which stays.
    pub fn peek_name(&self) -> Option<&'a str> {
        match self.peek()? {
            Token {
                kind: Kind::Name(name),
                ..
            } => Some(name),
            _ => None,
        }
    }

    /// Takes the next token.
    pub fn take(&mut self) -> Option<&'a Token> {
        let (first, rest) = self.tokens.split_first()?;
        self.tokens = rest;
        Some(first)
    }

    /// Takes this punctuation, if it is next.
    pub fn takes(&mut self, punct: &str) -> bool {
        let is_next = self
            .peek()
            .is_some_and(|token| matches!(token.kind, Kind::Punct(one) if one == punct));
        if is_next {
            self.take();
        }
        is_next
    }

    /// Returns true if no token is left.
    pub fn is_done(&self) -> bool {
        self.tokens.is_empty()
    }

    /// Where the next token is, or the end of the line.
    pub fn span(&self) -> Span {
        self.peek().map_or(self.end, |token| token.span)
    }

    /// Returns the span of the remaining tokens.
    pub fn rest(&self) -> Span {
        match self.tokens {
            [first, .., last] => first.span.to(last.span),
            _ => self.span(),
        }
    }

    /// An error if something is left.
    pub fn done(&self) -> Result<()> {
        match self.is_done() {
            true => Ok(()),
            false => Err(Diagnostic::error(self.rest(), "this is too much")),
        }
    }

    /// An expression.
    pub fn value(&mut self) -> Result<Value> {
        self.binary(0, DEEP)
    }

    /// An expression without symbols, in a range.
    pub fn number(&mut self, what: &str, min: i128, max: i128) -> Result<i128> {
        let value = self.value()?;
        if let Some(symbol) = &value.symbol {
            return Err(Diagnostic::error(
                symbol.span,
                format!("{what} is a number, and {} is none", symbol.name),
            )
            .help("-D NAME=VALUE and #define give names to numbers"));
        }
        if !(min..=max).contains(&value.number) {
            return Err(Diagnostic::error(
                value.span,
                format!(
                    "{what} has to be from {min} to {max}, and this is {}",
                    value.number
                ),
            ));
        }
        Ok(value.number)
    }

    /// A number from 0 to the largest of its type.
    pub fn unsigned<T: TryFrom<i128> + Into<u64>>(&mut self, what: &str, max: T) -> Result<T> {
        let span = self.span();
        let max: u64 = max.into();
        let number = self.number(what, 0, max.into())?;
        T::try_from(number).map_err(|_| Diagnostic::error(span, format!("{what} is too large")))
    }

    /// The operators, the weakest first.
    fn binary(&mut self, level: usize, deep: usize) -> Result<Value> {
        const LEVELS: &[&[&str]] = &[
            &["|"],
            &["^"],
            &["&"],
            &["<<", ">>"],
            &["+", "-"],
            &["*", "/", "%"],
        ];
        let Some(operators) = LEVELS.get(level) else {
            return self.unary(deep);
        };
        let mut left = self.binary(level + 1, deep)?;
        loop {
            let operator = match self.peek() {
                Some(Token {
                    kind: Kind::Punct(punct),
                    span,
                }) if operators.contains(punct) => (*punct, *span),
                _ => return Ok(left),
            };
            self.take();
            let right = self.binary(level + 1, deep)?;
            left = apply(left, operator, right)?;
        }
    }

    fn unary(&mut self, deep: usize) -> Result<Value> {
        let Some(deeper) = deep.checked_sub(1) else {
            return Err(Diagnostic::error(self.span(), "this is nested too deep"));
        };
        let Some(token) = self.take() else {
            return Err(Diagnostic::error(
                self.end,
                "a number or a symbol is missing",
            ));
        };
        let span = token.span;
        match &token.kind {
            Kind::Number(number) => Ok(Value {
                number: (*number).into(),
                symbol: None,
                span,
            }),
            Kind::Name(name) | Kind::Text(name) => Ok(Value {
                number: 0,
                symbol: Some(Symbol {
                    name: name.clone(),
                    span,
                }),
                span,
            }),
            Kind::Punct("(") => {
                let inner = self.binary(0, deeper)?;
                let end = self.span();
                if !self.takes(")") {
                    return Err(Diagnostic::error(end, "a ) is missing"));
                }
                Ok(Value {
                    span: span.to(end),
                    ..inner
                })
            }
            Kind::Punct("&") => {
                let operand = self.unary(deeper)?;
                match operand.symbol {
                    Some(_) => Ok(operand),
                    None => Err(Diagnostic::error(operand.span, "a symbol should follow &")),
                }
            }
            Kind::Punct(sign @ ("-" | "~")) => {
                let operand = self.unary(deeper)?;
                if let Some(symbol) = operand.symbol {
                    return Err(not_for_symbols(sign, symbol.span));
                }
                Ok(Value {
                    number: match *sign {
                        "-" => operand.number.wrapping_neg(),
                        _ => !operand.number,
                    },
                    symbol: None,
                    span: span.to(operand.span),
                })
            }
            Kind::Punct(punct) => Err(Diagnostic::error(
                span,
                format!("a number or a symbol should be here, not {punct}"),
            )),
        }
    }
}

fn not_for_symbols(operator: &str, span: Span) -> Diagnostic {
    Diagnostic::error(span, format!("{operator} cannot be done with a symbol"))
        .help("numbers can be added to a symbol, and subtracted from it")
}

fn apply(left: Value, operator: (&str, Span), right: Value) -> Result<Value> {
    let span = left.span.to(right.span);
    let symbol = match (operator.0, left.symbol, right.symbol) {
        (_, None, None) => None,
        ("+", Some(symbol), None) | ("+", None, Some(symbol)) | ("-", Some(symbol), None) => {
            Some(symbol)
        }
        (operator, one, other) => {
            let span = other.or(one).map_or(span, |symbol| symbol.span);
            return Err(not_for_symbols(operator, span));
        }
    };
    let (a, b) = (left.number, right.number);
    let shift = u32::try_from(b).ok().filter(|bits| *bits < 64);
    let number = match operator.0 {
        "+" => a.checked_add(b),
        "-" => a.checked_sub(b),
        "*" => a.checked_mul(b),
        "/" => a.checked_div(b),
        "%" => a.checked_rem(b),
        "&" => Some(a & b),
        "|" => Some(a | b),
        "^" => Some(a ^ b),
        "<<" => shift.and_then(|bits| a.checked_mul(1 << bits)),
        _ => shift.map(|bits| a >> bits),
    };
    let wrong = |message: &str| Err(Diagnostic::error(right.span, message));
    match number {
        Some(number) => Ok(Value {
            number,
            symbol,
            span,
        }),
        None if matches!(operator.0, "/" | "%") => wrong("this divides by zero"),
        None if shift.is_none() && matches!(operator.0, "<<" | ">>") => {
            wrong("a shift has to be by 0 to 63 bits")
        }
        None => Err(Diagnostic::error(span, "the result is far too large")),
    }
}

/// A number as a word, if it fits: signed or unsigned.
pub fn word(value: &Value) -> Result<u64> {
    let unsigned = u64::try_from(value.number);
    let signed = || {
        let number = i64::try_from(value.number);
        number.map(|number| u64::from_ne_bytes(number.to_ne_bytes()))
    };
    unsigned
        .or_else(|_| signed())
        .map_err(|_| Diagnostic::error(value.span, "this does not fit in 64 bits"))
}

#[cfg(test)]
mod tests {
    use super::super::source::Source;
    use super::super::token::tokenize;
    use super::*;

    fn value(text: &str) -> Result<Value> {
        let mut errors = Vec::new();
        let lines = tokenize(&Source::of_text("f", text), &[], &mut errors);
        assert_eq!(errors, []);
        let mut cursor = Cursor::new(&lines[0].tokens, lines[0].end);
        let value = cursor.value()?;
        cursor.done()?;
        Ok(value)
    }

    #[test]
    fn as_in_c() {
        for (text, expected) in [
            ("1 + 2 * 3", 7),
            ("(1 + 2) * 3", 9),
            ("1 << 4 | 3", 19),
            ("10 - 2 - 3", 5),
            ("7 / 2 % 2", 1),
            ("6 & 3 ^ 1", 3),
            ("-(2) + 5", 3),
            ("0x100 >> 4", 16),
            ("- - 1", 1),
        ] {
            assert_eq!(value(text).unwrap().number, expected, "{text}");
        }
        assert_eq!(word(&value("~0").unwrap()), Ok(u64::MAX));
        assert_eq!(word(&value("-1").unwrap()), Ok(u64::MAX));
        assert_eq!(word(&value("0xffffffffffffffff").unwrap()), Ok(u64::MAX));
        assert!(word(&value("0xffffffffffffffff + 1").unwrap()).is_err());
        assert!(word(&value("-0x8000000000000001").unwrap()).is_err());
    }

    #[test]
    fn symbols() {
        let found = value("4 + (&do_it - 2)").unwrap();
        assert_eq!(found.number, 2);
        assert_eq!(found.symbol.unwrap().name, "do_it");
    }

    #[test]
    fn what_is_wrong() {
        for (text, start, message) in [
            ("1 +", 3, "a number or a symbol is missing"),
            ("1 2", 2, "this is too much"),
            ("(1", 2, "a ) is missing"),
            ("1 / (2 - 2)", 4, "this divides by zero"),
            ("1 << 64", 5, "a shift has to be by 0 to 63 bits"),
            ("a + b", 4, "+ cannot be done with a symbol"),
            ("2 * a", 4, "* cannot be done with a symbol"),
            ("1 + * 2", 4, "a number or a symbol should be here, not *"),
        ] {
            let error = value(text).unwrap_err();
            assert_eq!(
                (error.span.start, &*error.message),
                (start, message),
                "{text}"
            );
        }
        assert!(value(&"(".repeat(10_000)).is_err());
        assert!(value(&"-".repeat(10_000)).is_err());
    }
}
