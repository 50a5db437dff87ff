// SPDX-License-Identifier: GPL-2.0

//! What the user asks for in one word of the command line:
//! `[NAME=][PATH:]FUNCTION[+OFFSET|:LINE|%return] [[NAME=]EXPRESSION[:TYPE]...] [if CONDITION [&& CONDITION...]]`.

#![deny(unsafe_code)]

use std::str::FromStr;

use ferro_kprobe_events_core::probe_args::NAME_MAX;
use ferro_kprobe_events_core::probe_args::Type;
use thiserror::Error;

use super::condition::Condition;
use super::condition::ConditionError;
use super::condition::ConditionSpec;
use super::model::Kind;
use super::model::Place;
use super::model::PlaceError;
use super::model::parse_name;

/// Error in a probe's specification.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum SpecError {
    /// The function.
    #[error(transparent)]
    Place(#[from] PlaceError),
    /// The name of the probe.
    #[error("{0}")]
    Name(String),
    /// An argument.
    #[error("{0}: not of the form [NAME=]EXPRESSION[:TYPE]")]
    Arg(String),
    /// The type of an argument.
    #[error(
        "{0}: no type; types are u8 to u64, s8 to s64, x8 to x64, u, s and x of the size that it has, string, string32 (so many \
         bytes), symbol, and bWIDTH@OFFSET/SIZE"
    )]
    Type(String),
    /// A condition.
    #[error(transparent)]
    Condition(#[from] ConditionError),
}

/// The type that an argument is to have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wish {
    /// That of the expression.
    None,
    /// A number of the size that it has: `u`, `s` or `x`.
    Number(char),
    /// Text, of at most so many bytes; the kernel's number if it is empty.
    Text(String),
    /// Any other that the kernel knows.
    Exact(String),
}

/// Operation after the first name of an expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// `->NAME` or `.NAME`.
    Member(String),
    /// `[N]`.
    Index(u64),
    /// A `*` before it.
    Behind,
}

/// A value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expression {
    /// As the kernel has it, such as `+8(%di)`.
    Raw(String),
    /// From a parameter, or from `$retval`.
    Named {
        /// Name that the expression starts from.
        start: String,
        /// Operations on it.
        steps: Vec<Step>,
    },
}

/// An argument.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArgSpec {
    /// The name that it is to have.
    pub name: Option<String>,
    /// Its value.
    pub expression: Expression,
    /// Its type.
    pub wish: Wish,
    /// As the user has it.
    pub text: String,
}

/// A probe, or several.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spec {
    /// The name that it is to have.
    pub name: Option<String>,
    /// Where it is to be; the symbol may be a pattern.
    pub place: Place,
    /// The line of the function, the one with its name being 0, in place of an offset.
    pub line: Option<u64>,
    /// The kind, if the place says that.
    pub kind: Option<Kind>,
    /// Arguments to read.
    pub args: Vec<ArgSpec>,
    /// On what conditions hits count.
    pub conditions: Vec<ConditionSpec>,
    /// The same, if it has alternatives, or text with blanks.
    pub filter: Option<Condition>,
}

/// Returns true if the text is a C identifier.
pub fn is_identifier(text: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '_';
    text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') && text.chars().all(fits)
}

impl Spec {
    /// Adds a condition that has to hold, too.
    pub fn and(&mut self, condition: Condition) {
        let (tests, filter) = split(Some(condition));
        self.conditions.extend(tests);
        self.filter = match (self.filter.take(), filter) {
            (Some(one), Some(other)) => Some(one.and(other)),
            (one, other) => one.or(other),
        };
    }

    fn has_arg(&self, name: &str) -> bool {
        let mut numbered = self.args.iter().enumerate();
        numbered.any(|(index, arg)| arg.name_at(index) == name)
    }

    /// Has a probe on a return read the returned word, as an argument of this name, unless it has
    /// one. `returns`: the probe is on a return unless it says so itself.
    pub fn add_returned(&mut self, name: &str, returns: bool) {
        let is_return = self.kind.map_or(returns, |kind| kind == Kind::Return);
        if is_return && !self.has_arg(name) {
            self.args.push(ArgSpec {
                name: Some(name.to_owned()),
                expression: Expression::Raw("$retval".to_owned()),
                wish: Wish::None,
                text: "$retval".to_owned(),
            });
        }
    }

    /// Has it read the value that `text` asks for, an argument of this name or an expression, unless
    /// it does. `ret` is the return value.
    pub fn add_value(&mut self, text: &str) -> Result<(), SpecError> {
        let name = value_name(text);
        if !self.has_arg(name) {
            let expression = if text == "ret" { "$retval" } else { text };
            let arg: ArgSpec = expression.parse()?;
            self.args.push(ArgSpec {
                name: Some(name.to_owned()),
                ..arg
            });
        }
        Ok(())
    }

    /// Has it read a stack, as an argument called `stack`, of the kernel, or `ustack`, of user
    /// space, unless it does.
    pub fn add_stack(&mut self, name: &str) {
        let fetch = match name {
            "ustack" => "$ustack",
            _ => "$kstack",
        };
        let expression = Expression::Raw(fetch.to_owned());
        let has = |arg: &ArgSpec| {
            arg.name.as_deref() == Some(name)
                || (arg.name.is_none() && arg.expression == expression)
        };
        if !self.args.iter().any(has) {
            self.args.push(ArgSpec {
                name: Some(name.to_owned()),
                expression,
                wish: Wish::None,
                text: fetch.to_owned(),
            });
        }
    }
}

impl ArgSpec {
    /// Returns the name of the argument, which is the `index`th of its probe.
    pub(super) fn name_at(&self, index: usize) -> String {
        let last = match (&self.name, &self.expression) {
            (Some(name), _) => return name.clone(),
            (None, Expression::Raw(fetch)) => match fetch.trim_start_matches(['%', '$']) {
                // As --stack calls it.
                "kstack" => "stack",
                name => name,
            },
            (None, Expression::Named { start, steps }) => {
                let mut members = steps.iter().rev().filter_map(|step| match step {
                    Step::Member(name) => Some(name.as_str()),
                    _ => None,
                });
                match members.next().unwrap_or(start) {
                    "$retval" => "ret",
                    name => name,
                }
            }
        };
        match is_identifier(last) && last.len() <= NAME_MAX {
            true => last.to_owned(),
            false => format!("arg{}", index + 1),
        }
    }
}

/// Returns the name of the argument with the value that `text` asks for.
pub fn value_name(text: &str) -> &str {
    match is_identifier(text) && text.len() <= NAME_MAX {
        true => text,
        false => "_value",
    }
}

impl FromStr for Spec {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Self, SpecError> {
        let (text, conditions) = match text.split_once(" if ") {
            Some((text, conditions)) => (text, Some(conditions)),
            None => (text, None),
        };
        let mut words = text.split_whitespace();
        let place = words.next().ok_or(PlaceError::Symbol)?;
        // A path may have one, too.
        let (name, place) = match place.split_once('=') {
            Some((name, place)) if !name.contains('/') => {
                (Some(parse_name(name).map_err(SpecError::Name)?), place)
            }
            _ => (None, place),
        };
        let (place, kind) = match place.strip_suffix("%return") {
            Some(place) => (place, Some(Kind::Return)),
            None => (place, None),
        };
        // What follows a path and a colon is a function or a place in the file; only another colon
        // is before a line.
        let behind = place.rsplit_once('/').map_or(place, |(_, behind)| behind);
        let colons = usize::from(place.contains('/'));
        let line = place
            .rsplit_once(':')
            .filter(|_| behind.matches(':').count() > colons);
        let line = line.and_then(|(place, line)| {
            let is_line = line.bytes().all(|byte| byte.is_ascii_digit());
            Some((place, line.parse().ok().filter(|_| is_line)?))
        });
        let (place, line) = match line {
            Some((place, line)) => (place, Some(line)),
            None => (place, None),
        };
        let condition = conditions.map(Condition::parse).transpose()?;
        let (conditions, filter) = split(condition);
        Ok(Self {
            name,
            place: place.parse()?,
            line,
            kind,
            args: words.map(str::parse).collect::<Result<_, _>>()?,
            conditions,
            filter,
        })
    }
}

/// Takes a condition as plain tests that all have to hold, or as it is.
fn split(condition: Option<Condition>) -> (Vec<ConditionSpec>, Option<Condition>) {
    let Some(condition) = condition else {
        return (Vec::new(), None);
    };
    let is_plain = |test: &ConditionSpec| !test.rest.contains(['"', ' ']);
    match condition
        .conjunction()
        .filter(|tests| tests.iter().all(is_plain))
    {
        Some(tests) => (tests, None),
        None => (Vec::new(), Some(condition)),
    }
}

impl FromStr for ArgSpec {
    type Err = SpecError;

    fn from_str(word: &str) -> Result<Self, SpecError> {
        let wrong = || SpecError::Arg(word.to_owned());
        let (name, rest) = match word.split_once('=') {
            Some((name, rest)) if is_identifier(name) => (Some(name.to_owned()), rest),
            Some(_) => return Err(wrong()),
            None => (None, word),
        };
        let (expression, wish) = match rest.rsplit_once(':') {
            Some((expression, ty)) => (expression, ty.parse()?),
            None => (rest, Wish::None),
        };
        Ok(Self {
            name,
            expression: expression.parse().map_err(|()| wrong())?,
            wish,
            text: word.to_owned(),
        })
    }
}

impl FromStr for Wish {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Self, SpecError> {
        if let Ok(kind @ ('u' | 's' | 'x')) = text.parse() {
            return Ok(Self::Number(kind));
        }
        let Some(ty) = Type::parse(text) else {
            return Err(SpecError::Type(text.to_owned()));
        };
        let digits = text.trim_start_matches(|c: char| !c.is_ascii_digit());
        Ok(match ty {
            Type::Text { .. } => Self::Text(digits.to_owned()),
            _ => Self::Exact(text.to_owned()),
        })
    }
}

impl FromStr for Expression {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let is_returned = text.trim_start_matches('*').starts_with("$retval");
        if text.starts_with(['%', '+', '-', '$']) && !is_returned {
            return Ok(Self::Raw(text.to_owned()));
        }
        let mut rest = text.trim_start_matches('*');
        let stars = text.len() - rest.len();
        let start = first_name(&mut rest).ok_or(())?;
        let mut steps = Vec::new();
        while !rest.is_empty() {
            if let Some(after) = rest.strip_prefix("->").or(rest.strip_prefix('.')) {
                rest = after;
                steps.push(Step::Member(first_name(&mut rest).ok_or(())?));
            } else {
                let (index, after) = rest
                    .strip_prefix('[')
                    .ok_or(())?
                    .split_once(']')
                    .ok_or(())?;
                steps.push(Step::Index(index.parse().map_err(|_| ())?));
                rest = after;
            }
        }
        steps.extend(std::iter::repeat_n(Step::Behind, stars));
        Ok(Self::Named { start, steps })
    }
}

/// The name at the start, which may be `$retval`; `rest` is what follows it.
fn first_name(rest: &mut &str) -> Option<String> {
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '$';
    let end = rest.find(|c| !fits(c)).unwrap_or(rest.len());
    let (name, after) = rest.split_at_checked(end)?;
    *rest = after;
    (name == "$retval" || is_identifier(name)).then(|| name.to_owned())
}

impl ConditionSpec {
    /// The operator, and the value without quotes.
    pub fn operator(&self) -> Option<(&str, &str)> {
        let rest = &self.rest;
        let value = rest.trim_start_matches(['=', '!', '<', '>', '&', '~']);
        let (operator, value) = rest.split_at_checked(rest.len() - value.len())?;
        Some((operator, value.trim_matches('"')))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(start: &str, steps: &[Step]) -> Expression {
        Expression::Named {
            start: start.to_owned(),
            steps: steps.to_vec(),
        }
    }

    fn member(name: &str) -> Step {
        Step::Member(name.to_owned())
    }

    #[test]
    fn a_probe_with_everything() {
        let text = "open=do_sys_openat2%return filename:string flags=how->flags:x64 $retval if pid == 12 && how->flags&0x40 && comm~ba*";
        let spec: Spec = text.parse().unwrap();
        assert_eq!(spec.name.as_deref(), Some("open"));
        assert_eq!(spec.place.symbol, "do_sys_openat2");
        assert_eq!(spec.kind, Some(Kind::Return));
        let [filename, flags, ret] = &spec.args[..] else {
            panic!("{spec:?}");
        };
        assert_eq!(filename.expression, named("filename", &[]));
        assert_eq!(filename.wish, Wish::Text(String::new()));
        assert_eq!(flags.name.as_deref(), Some("flags"));
        assert_eq!(flags.expression, named("how", &[member("flags")]));
        assert_eq!(flags.wish, Wish::Exact("x64".to_owned()));
        assert_eq!(ret.expression, named("$retval", &[]));
        let conditions: Vec<_> = spec
            .conditions
            .iter()
            .map(|c| (&*c.left, &*c.rest))
            .collect();
        assert_eq!(
            conditions,
            [("pid", "==12"), ("how->flags", "&0x40"), ("comm", "~ba*")]
        );
    }

    #[test]
    fn stacks() {
        let mut spec: Spec = "f".parse().unwrap();
        spec.add_stack("ustack");
        spec.add_stack("ustack");
        let [arg] = &spec.args[..] else {
            panic!("{spec:?}");
        };
        assert_eq!(arg.expression, Expression::Raw("$ustack".to_owned()));
        spec.add_stack("stack");
        assert_eq!(spec.args.len(), 2);
    }

    #[test]
    fn values() {
        let mut spec: Spec = "f n=count how->flags".parse().unwrap();
        spec.add_value("n").unwrap();
        spec.add_value("flags").unwrap();
        assert_eq!(spec.args.len(), 2);
        spec.add_value("count").unwrap();
        spec.add_value("how->flags:u32").unwrap();
        spec.add_value("ret").unwrap();
        let args: Vec<_> = spec.args.iter().skip(2).collect();
        let names: Vec<_> = args.iter().map(|arg| arg.name_at(0)).collect();
        assert_eq!(names, ["count", "_value", "ret"]);
        assert_eq!(args[2].expression, named("$retval", &[]));
        spec.add_returned("ret", true);
        spec.add_returned("errno", false);
        assert_eq!(spec.args.len(), 5);
        spec.add_returned("errno", true);
        assert_eq!(spec.args[5].text, "$retval");
        for bad in ["a b", "", "n:y"] {
            let mut spec: Spec = "f".parse().unwrap();
            assert!(spec.add_value(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn simple_probes() {
        let spec: Spec = "f+0x10".parse().unwrap();
        assert_eq!((spec.place.offset, spec.kind), (16, None));
        assert!(spec.args.is_empty() && spec.conditions.is_empty() && spec.name.is_none());
        let spec: Spec = "mod:f:12 %di".parse().unwrap();
        assert_eq!((spec.place.symbol.as_str(), spec.line), ("mod:f", Some(12)));
        let spec: Spec = "mod:f".parse().unwrap();
        assert_eq!((spec.place.symbol.as_str(), spec.line), ("mod:f", None));
        let spec: Spec = "r=/bin/bash:readline%return $retval:x64".parse().unwrap();
        assert_eq!(spec.place.symbol, "/bin/bash:readline");
        assert_eq!((spec.kind, spec.line), (Some(Kind::Return), None));
        let spec: Spec = "./a.out:4660".parse().unwrap();
        assert_eq!(
            (spec.place.symbol.as_str(), spec.line),
            ("./a.out:4660", None)
        );
        let spec: Spec = "./a.out:main:12 n".parse().unwrap();
        assert_eq!(
            (spec.place.symbol.as_str(), spec.line),
            ("./a.out:main", Some(12))
        );
        let spec: Spec = "vfs_* if cpu<2".parse().unwrap();
        assert_eq!(spec.place.symbol, "vfs_*");
        assert_eq!(spec.conditions[0].rest, "<2");
    }

    #[test]
    fn expressions() {
        let is = |text: &str, expression| assert_eq!(text.parse(), Ok(expression), "{text}");
        is("%di", Expression::Raw("%di".to_owned()));
        is("+8($retval)", Expression::Raw("+8($retval)".to_owned()));
        is("$arg1", Expression::Raw("$arg1".to_owned()));
        is(
            "a.b[3]->c",
            named("a", &[member("b"), Step::Index(3), member("c")]),
        );
        is("**a", named("a", &[Step::Behind, Step::Behind]));
        is("*$retval", named("$retval", &[Step::Behind]));
        for bad in [
            "", "1a", "a-b", "a[", "a[x]", "a[]", "a->", "a..b", "*", "a b", "a$b",
        ] {
            assert_eq!(bad.parse::<Expression>(), Err(()), "{bad}");
        }
    }

    #[test]
    fn wishes() {
        let wish = |text: &str| text.parse::<Wish>();
        assert_eq!(wish("x"), Ok(Wish::Number('x')));
        assert_eq!(wish("string32"), Ok(Wish::Text("32".to_owned())));
        assert_eq!(wish("symbol"), Ok(Wish::Exact("symbol".to_owned())));
        for bad in ["", "y", "int", "u7", "string1"] {
            assert_eq!(wish(bad), Err(SpecError::Type(bad.to_owned())), "{bad}");
        }
    }

    #[test]
    fn what_is_not_understood() {
        let error = |text: &str| text.parse::<Spec>().unwrap_err();
        assert_eq!(error(""), SpecError::Place(PlaceError::Symbol));
        assert!(matches!(error("a+b=f"), SpecError::Name(_)));
        // A path may have one.
        let spec: Spec = "n=/a=b/c:f x=%di".parse().unwrap();
        assert_eq!(spec.place.symbol, "/a=b/c:f");
        let spec: Spec = "/a=b/c:f".parse().unwrap();
        assert_eq!((spec.name, &*spec.place.symbol), (None, "/a=b/c:f"));
        assert!(matches!(error("f a b=c=d"), SpecError::Arg(_)));
        assert!(matches!(error("f a:int"), SpecError::Type(_)));
        for bad in [
            "f if pid",
            "f if pid=1",
            "f if ==1",
            "f if pid==",
            "f if pid==1 cpu==2",
            "f if pid=== 1",
        ] {
            assert!(matches!(error(bad), SpecError::Condition(_)), "{bad}");
        }
    }
}
