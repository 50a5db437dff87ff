// SPDX-License-Identifier: GPL-2.0

//! The text of `gkhi/hooks`: a line for each hook, and after it an indented line for each of its
//! exits, in the order in which they are called. A line consists of `key=value` pairs, separated by
//! spaces.
//!
//! Unknown keys are skipped, since later kernels may add some; known keys must be there.

#![deny(unsafe_code)]

use std::str::FromStr;

use thiserror::Error;

use super::model::Exit;
use super::model::Hook;
use super::model::NAME_FORM;
use super::model::Name;

/// Error in the text, with its line.
#[derive(Debug, PartialEq, Eq, Error)]
#[error("line {line}: {fault}")]
pub struct ParseError {
    /// The line, from 1.
    pub line: usize,
    /// Error in that line.
    pub fault: Fault,
}

/// Errors that a line can have.
#[derive(Debug, PartialEq, Eq, Error)]
pub enum Fault {
    /// No `=` in it.
    #[error("{0:?} is not of the form key=value")]
    NoPair(String),
    /// A key more than once.
    #[error("{0:?} is there twice")]
    Twice(String),
    /// A key that has to be there.
    #[error("there is no {0}=")]
    Missing(&'static str),
    /// An impossible value.
    #[error("{key}={value}: not {expected}")]
    BadValue {
        /// Its key.
        key: &'static str,
        /// The value.
        value: String,
        /// Expected value.
        expected: &'static str,
    },
    /// The first line is of an exit.
    #[error("an exit without a hook")]
    NoHook,
    /// A hook has more or fewer exits than it says.
    #[error("exits={said}, but {found} follow")]
    WrongCount {
        /// How many it says.
        said: usize,
        /// How many lines there are.
        found: usize,
    },
}

/// The pairs of a line.
struct Line<'a> {
    number: usize,
    pairs: Vec<(&'a str, &'a str)>,
}

impl<'a> Line<'a> {
    fn new(number: usize, text: &'a str) -> Result<Self, ParseError> {
        let mut line = Self {
            number,
            pairs: Vec::new(),
        };
        for word in text.split_ascii_whitespace() {
            let (key, value) = word
                .split_once('=')
                .ok_or_else(|| line.error(Fault::NoPair(word.to_owned())))?;
            if line.find(key).is_some() {
                return Err(line.error(Fault::Twice(key.to_owned())));
            }
            line.pairs.push((key, value));
        }
        Ok(line)
    }

    fn error(&self, fault: Fault) -> ParseError {
        ParseError {
            line: self.number,
            fault,
        }
    }

    fn find(&self, key: &str) -> Option<&'a str> {
        self.pairs
            .iter()
            .find_map(|&(other, value)| (other == key).then_some(value))
    }

    fn text(&self, key: &'static str) -> Result<&'a str, ParseError> {
        self.find(key)
            .ok_or_else(|| self.error(Fault::Missing(key)))
    }

    /// The value of a key, converted by `convert`.
    fn value<T>(
        &self,
        key: &'static str,
        expected: &'static str,
        convert: impl FnOnce(&str) -> Option<T>,
    ) -> Result<T, ParseError> {
        let text = self.text(key)?;
        convert(text).ok_or_else(|| {
            self.error(Fault::BadValue {
                key,
                value: text.to_owned(),
                expected,
            })
        })
    }

    fn number<T: FromStr>(&self, key: &'static str) -> Result<T, ParseError> {
        self.value(key, "a number", parsed)
    }

    fn name(&self, key: &'static str) -> Result<Name, ParseError> {
        self.value(key, NAME_FORM, parsed)
    }

    fn flag(&self, key: &'static str) -> Result<bool, ParseError> {
        self.value(key, "0 or 1", |text| match text {
            "0" => Some(false),
            "1" => Some(true),
            _ => None,
        })
    }

    /// An optional value; `-` stands for none.
    fn optional<T: FromStr>(
        &self,
        key: &'static str,
        expected: &'static str,
    ) -> Result<Option<T>, ParseError> {
        self.value(key, expected, |text| match text {
            "-" => Some(None),
            _ => parsed(text).map(Some),
        })
    }

    fn hook(&self) -> Result<Hook, ParseError> {
        Ok(Hook {
            name: self.name("hook")?,
            module: self.optional("module", NAME_FORM)?,
            context: self.value("context", "sleep, task or atomic", parsed)?,
            access: self.value("access", "ro, rw, ro_ret or rw_ret", parsed)?,
            params: self.value("params", "names", |text| match text {
                "-" => Some(Vec::new()),
                _ => text.split(',').map(parsed).collect(),
            })?,
            sites: self.optional("sites", "a number")?,
            active: self.flag("active")?,
            hits: self.number("hits")?,
            exits: Vec::new(),
        })
    }

    fn exit(&self) -> Result<Exit, ParseError> {
        Ok(Exit {
            name: self.name("exit")?,
            order: self.number("order")?,
            priority: self.value("priority", "first, last, only or unspecified", parsed)?,
            conditions: self.value("conditions", "none, irqs_off or cpus_stopped", parsed)?,
            params: self.number("params")?,
            armed: self.flag("armed")?,
            hits: self.number("hits")?,
            stops: self.number("stops")?,
            module: self.optional("module", NAME_FORM)?,
        })
    }
}

fn parsed<T: FromStr>(text: &str) -> Option<T> {
    text.parse().ok()
}

/// Checks that a hook has all its exits.
fn complete(head: &Line<'_>, hook: &Hook) -> Result<(), ParseError> {
    let (said, found) = (head.number("exits")?, hook.exits.len());
    if said == found {
        Ok(())
    } else {
        Err(head.error(Fault::WrongCount { said, found }))
    }
}

/// Parses the whole text.
pub fn parse(text: &str) -> Result<Vec<Hook>, ParseError> {
    let mut hooks = Vec::new();
    let mut open: Option<(Line<'_>, Hook)> = None;
    for (number, text) in (1..).zip(text.lines()) {
        let line = Line::new(number, text)?;
        if text.starts_with([' ', '\t']) {
            let exit = line.exit()?;
            match &mut open {
                Some((_, hook)) => hook.exits.push(exit),
                None => return Err(line.error(Fault::NoHook)),
            }
        } else {
            let hook = line.hook()?;
            if let Some((head, hook)) = open.replace((line, hook)) {
                complete(&head, &hook)?;
                hooks.push(hook);
            }
        }
    }
    if let Some((head, hook)) = open {
        complete(&head, &hook)?;
        hooks.push(hook);
    }
    Ok(hooks)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::model::Access;
    use super::super::model::Conditions;
    use super::super::model::Context;
    use super::super::model::Priority;
    use super::super::sample;
    use super::*;

    #[test]
    fn what_the_kernel_writes() {
        let hooks = parse(sample::TEXT).unwrap();
        let names: Vec<_> = hooks.iter().map(|hook| hook.name.as_str()).collect();
        assert_eq!(names, ["int3", "cpu_prepare"]);
        let [int3, prepare] = hooks.try_into().unwrap();
        assert_eq!(int3.context, Context::Atomic);
        assert_eq!(int3.access, Access::ReadOnly);
        assert!(!int3.active && int3.exits.is_empty() && int3.module.is_none());
        assert_eq!(prepare.access, Access::ReadOnlyReturn);
        assert_eq!((prepare.sites, prepare.hits), (Some(1), 3));
        let [first, second] = prepare.exits.try_into().unwrap();
        assert_eq!(first.priority, Priority::First);
        assert_eq!(first.conditions, Conditions::None);
        assert!(first.armed && !second.armed);
        assert_eq!(second.conditions, Conditions::IrqsOff);
        assert_eq!(second.module.unwrap().as_str(), "mymod");
        assert_eq!((second.order, second.params), (2, 1));
    }

    #[test]
    fn nothing_at_all() {
        assert_eq!(parse(""), Ok(Vec::new()));
    }

    #[test]
    fn later_keys_are_let_through() {
        let later = sample::TEXT.replace("module=", "colour=red,green missed=7 module=");
        assert_eq!(parse(&later), parse(sample::TEXT));
    }

    #[test]
    fn every_key_is_wanted() {
        for (at, text) in sample::TEXT.lines().enumerate() {
            for word in text.split_whitespace() {
                let (key, _) = word.split_once('=').unwrap();
                let mut lines: Vec<_> = sample::TEXT.lines().map(str::to_owned).collect();
                lines[at] = text.replacen(&format!("{word} "), "", 1);
                if lines[at] == text {
                    lines[at] = text.strip_suffix(word).unwrap().to_owned();
                }
                let error = parse(&lines.join("\n")).unwrap_err();
                assert_eq!(
                    error.to_string(),
                    format!("line {}: there is no {key}=", at + 1)
                );
            }
        }
    }

    #[test]
    fn faults_are_named() {
        for (from, to, message) in [
            (
                "hits=3 stops",
                "hits=x stops",
                "line 3: hits=x: not a number",
            ),
            (
                "hits=3 stops",
                "hits=18446744073709551616 stops",
                "line 3: hits=18446744073709551616: not a number",
            ),
            ("active=1", "active=2", "line 2: active=2: not 0 or 1"),
            (
                "access=ro_ret",
                "access=wr",
                "line 2: access=wr: not ro, rw, ro_ret or rw_ret",
            ),
            (
                "params=regs",
                "params=a,,b",
                "line 1: params=a,,b: not names",
            ),
            ("hook=int3", "hook=a/b", "line 1: hook=a/b: not a name"),
            (
                "order=1",
                "order",
                "line 3: \"order\" is not of the form key=value",
            ),
            (
                "order=1",
                "order=1 order=2",
                "line 3: \"order\" is there twice",
            ),
            ("exits=2", "exits=3", "line 2: exits=3, but 2 follow"),
            ("exits=0", "exits=1", "line 1: exits=1, but 0 follow"),
            ("  exit=mine", "exit=mine", "line 4: there is no hook="),
        ] {
            let text = sample::TEXT.replacen(from, to, 1);
            let error = parse(&text).unwrap_err().to_string();
            assert!(error.starts_with(message), "{error}");
        }
        let (_, exits) = sample::TEXT.split_at(sample::TEXT.find("  exit").unwrap());
        assert_eq!(
            parse(exits).unwrap_err().to_string(),
            "line 1: an exit without a hook"
        );
    }

    proptest! {
        #[test]
        fn what_was_written_is_read(hooks in sample::hooks()) {
            prop_assert_eq!(parse(&sample::text(&hooks)), Ok(hooks));
        }

        #[test]
        fn no_text_is_too_much(text in any::<String>()) {
            let _ = parse(&text);
        }

        /// A text that was cut off somewhere is refused, or has whole hooks.
        #[test]
        fn a_part_is_no_other_whole(hooks in sample::hooks(), end in any::<prop::sample::Index>()) {
            let text = sample::text(&hooks);
            let part = text.get(..end.index(text.len() + 1)).unwrap_or_default();
            if part.is_empty() || part.ends_with('\n') {
                match parse(part) {
                    Ok(some) => prop_assert!(hooks.starts_with(&some)),
                    Err(error) => {
                        let cut = matches!(error.fault, Fault::WrongCount { .. });
                        prop_assert!(cut);
                    }
                }
            } else {
                let _ = parse(part);
            }
        }
    }
}
