// SPDX-License-Identifier: GPL-2.0

//! Conditions: tests joined by `&&`, `||` and parentheses, with text in quotes.

#![deny(unsafe_code)]

use std::str::FromStr;

/// Error in a condition.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error(
    "{0}: not of the form LEFT OPERATOR RIGHT, with ==, !=, <, <=, >, >=, & or ~; && is between conditions"
)]
pub struct ConditionError(pub String);

/// A condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConditionSpec {
    /// Left operand.
    pub left: String,
    /// How, and with what.
    pub rest: String,
}

/// Parentheses within parentheses; more are a mistake.
const DEPTH: usize = 16;

/// A condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Condition {
    /// A comparison.
    Test(ConditionSpec),
    /// All of them hold.
    All(Vec<Condition>),
    /// At least one of them holds.
    Any(Vec<Condition>),
}

/// Splits a text at a word of two characters, but not within quotes or parentheses.
fn split<'a>(text: &'a str, word: &str) -> Vec<&'a str> {
    let mut parts = Vec::new();
    let (mut quote, mut depth, mut from) = (None, 0_usize, 0);
    let mut rest = text.char_indices();
    while let Some((at, c)) = rest.next() {
        match (quote, c) {
            (Some(open), _) if c == open => quote = None,
            (Some(_), _) => (),
            (None, '"' | '\'') => quote = Some(c),
            (None, '(') => depth += 1,
            (None, ')') => depth = depth.saturating_sub(1),
            (None, _) => {
                let found = text.get(at..).is_some_and(|rest| rest.starts_with(word));
                if depth == 0 && found {
                    parts.push(text.get(from..at).unwrap_or_default());
                    from = at + word.len();
                    rest.next();
                }
            }
        }
    }
    parts.push(text.get(from..).unwrap_or_default());
    parts
}

/// The text within parentheses that are around all of it.
fn within(text: &str) -> Option<&str> {
    let inner = text.strip_prefix('(')?.strip_suffix(')')?;
    let (mut depth, mut quote) = (0_usize, None);
    for c in inner.chars() {
        match (quote, c) {
            (Some(open), _) if c == open => quote = None,
            (Some(_), _) => (),
            (None, '"' | '\'') => quote = Some(c),
            (None, '(') => depth += 1,
            // The first parenthesis ends before.
            (None, ')') => depth = depth.checked_sub(1)?,
            _ => (),
        }
    }
    (depth == 0 && quote.is_none()).then_some(inner)
}

impl Condition {
    /// Parses a condition.
    pub fn parse(text: &str) -> Result<Self, ConditionError> {
        Self::nested(text, 0)
    }

    fn nested(text: &str, depth: usize) -> Result<Self, ConditionError> {
        let text = text.trim();
        if depth > DEPTH {
            return Err(ConditionError(text.to_owned()));
        }
        for (word, join) in [("||", Self::Any as fn(_) -> _), ("&&", Self::All)] {
            let parts = split(text, word);
            if parts.len() > 1 {
                let parts = parts.into_iter().map(|part| Self::nested(part, depth));
                return Ok(join(parts.collect::<Result<_, _>>()?));
            }
        }
        match within(text) {
            Some(inner) => Self::nested(inner, depth + 1),
            None => Ok(Self::Test(text.parse()?)),
        }
    }

    /// The tests, if all of them have to hold.
    pub fn conjunction(&self) -> Option<Vec<ConditionSpec>> {
        match self {
            Self::Test(test) => Some(vec![test.clone()]),
            Self::Any(_) => None,
            Self::All(parts) => {
                let parts = parts.iter().map(Self::conjunction);
                let parts = parts.collect::<Option<Vec<_>>>()?;
                Some(parts.into_iter().flatten().collect())
            }
        }
    }

    /// Joins two conditions that both have to hold.
    pub fn and(self, other: Self) -> Self {
        match self {
            Self::All(mut parts) => {
                parts.push(other);
                Self::All(parts)
            }
            one => Self::All(vec![one, other]),
        }
    }

    /// All tests.
    pub fn tests(&self) -> Vec<&ConditionSpec> {
        match self {
            Self::Test(test) => vec![test],
            Self::All(parts) | Self::Any(parts) => parts.iter().flat_map(Self::tests).collect(),
        }
    }

    /// Replaces each test by what `change` makes of it.
    pub fn map<E>(
        &self,
        change: &mut impl FnMut(&ConditionSpec) -> Result<ConditionSpec, E>,
    ) -> Result<Self, E> {
        let mut all = |parts: &[Self]| -> Result<Vec<Self>, E> {
            parts.iter().map(|part| part.map(change)).collect()
        };
        Ok(match self {
            Self::All(parts) => Self::All(all(parts)?),
            Self::Any(parts) => Self::Any(all(parts)?),
            Self::Test(test) => Self::Test(change(test)?),
        })
    }

    /// Writes the condition as tracefs has filters; `test` writes a comparison.
    pub fn filter<E>(
        &self,
        test: &mut impl FnMut(&ConditionSpec) -> Result<String, E>,
    ) -> Result<String, E> {
        let (parts, join) = match self {
            Self::Test(one) => return test(one),
            Self::All(parts) => (parts, " && "),
            Self::Any(parts) => (parts, " || "),
        };
        let mut texts = Vec::new();
        for part in parts {
            let text = part.filter(test)?;
            texts.push(match part {
                Self::Test(_) => text,
                _ => format!("({text})"),
            });
        }
        Ok(texts.join(join))
    }
}

/// The value of a test without its quotes, which it needs if it has blanks or parentheses.
fn unquoted(text: &str) -> Option<&str> {
    let quoted = |quote| text.strip_prefix(quote)?.strip_suffix(quote);
    match quoted('"').or_else(|| quoted('\'')) {
        Some(inner) => (!inner.contains(['"', '\''])).then_some(inner),
        None => {
            let is_bad = |c: char| c.is_whitespace() || ['"', '\'', '(', ')'].contains(&c);
            (!text.is_empty() && !text.contains(is_bad)).then_some(text)
        }
    }
}

impl FromStr for ConditionSpec {
    type Err = ConditionError;

    fn from_str(text: &str) -> Result<Self, ConditionError> {
        let wrong = || ConditionError(text.trim().to_owned());
        // A `->` is no operator.
        let hidden = text.replace("->", "..");
        let end = hidden
            .find(['=', '!', '<', '>', '&', '~'])
            .ok_or_else(wrong)?;
        let (left, rest) = text.split_at_checked(end).ok_or_else(wrong)?;
        let operator = rest.len()
            - rest
                .trim_start_matches(['=', '!', '<', '>', '&', '~'])
                .len();
        let (operator, right) = rest.split_at_checked(operator).ok_or_else(wrong)?;
        let (left, right) = (left.trim(), right.trim());
        // Parentheses are a part of memory only, as in `+0(%di)`.
        let is_memory = left.starts_with(['+', '-']);
        let has_parentheses = left.contains(['(', ')']) && !is_memory;
        if left.is_empty() || has_parentheses || left.contains(['"', '\'']) {
            return Err(wrong());
        }
        if !["==", "!=", "<", "<=", ">", ">=", "&", "~"].contains(&operator) {
            return Err(wrong());
        }
        let rest = match unquoted(right).ok_or_else(wrong)? {
            text if text.contains(char::is_whitespace) || right.contains(['|', '&', '(', ')']) => {
                format!("{operator}\"{text}\"")
            }
            text => format!("{operator}{text}"),
        };
        Ok(Self {
            left: left.to_owned(),
            rest,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filter(text: &str) -> String {
        let condition = Condition::parse(text).unwrap();
        let written: Result<_, ()> =
            condition.filter(&mut |test| Ok(format!("{}{}", test.left, test.rest)));
        written.unwrap()
    }

    #[test]
    fn conditions_of_all_forms() {
        assert_eq!(filter("a==1"), "a==1");
        assert_eq!(
            filter("a == 1 && b->c & 2 && d~x*"),
            "a==1 && b->c&2 && d~x*"
        );
        assert_eq!(filter("a==1||b==2&&c==3"), "a==1 || (b==2 && c==3)");
        assert_eq!(filter("((a==1||b==2))&&c==3"), "(a==1 || b==2) && c==3");
        assert_eq!(filter("(a==1)&&(b==2)"), "a==1 && b==2");
        assert_eq!(
            filter("a==\"x || (y\" || b=='&& z'"),
            "a==\"x || (y\" || b==\"&& z\""
        );
        for bad in [
            "", "a", "a==1||", "(a==1", "a==1)", "()", "a==\"x", "a==x y",
        ] {
            assert!(Condition::parse(bad).is_err(), "{bad}");
        }
        let deep = "(".repeat(40) + "a==1" + &")".repeat(40);
        assert!(Condition::parse(&deep).is_err());
    }

    #[test]
    fn conjunctions() {
        let count = |text: &str| {
            Condition::parse(text)
                .unwrap()
                .conjunction()
                .map(|all| all.len())
        };
        assert_eq!(count("a==1 && (b==2 && c==3)"), Some(3));
        assert_eq!(count("a==1 && (b==2 || c==3)"), None);
        assert_eq!(
            Condition::parse("a==1 && (b==2 || c==3)")
                .unwrap()
                .tests()
                .len(),
            3
        );
    }
}
