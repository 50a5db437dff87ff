// SPDX-License-Identifier: GPL-2.0

//! Arguments of a probe, which a hit reads, and conditions on which a hit counts.
//!
//! An argument is `NAME=FETCH[:TYPE]`, as `kprobe_events` of tracefs has them:
//!
//! ```text
//! %REG             a register: ax, bx, ..., r15, sp, ip, flags
//! $argN            argument number N of the function, from 1, at its entry; a return probe keeps
//!                  that value
//! $stack  $stackN  the stack pointer; word number N from there
//! $retval          the return value of the function
//! $kstack  $ustack the stack trace, in the kernel and in user space; without a type
//! +N(F)  -N(F)     memory N bytes after, or before, the address F; so do `+uN(F)` and `-uN(F)`
//!
//! u8 u16 u32 u64   numbers; s8 ... with a sign, x8 ... in hexadecimal; x64 is the default
//! bW@O/S           W bits from bit O on, of S bits
//! symbol           the address of a function
//! string  string32 text in memory, cut to 128, or 32, bytes with its NUL; ustring is the same
//! ```
//!
//! A condition is `LEFT OP RIGHT` without spaces; all of a probe's have to hold:
//!
//! ```text
//! pid cpu comm duration NAME   the thread or its process, the CPU, the thread's name,
//!                              ns in the function, an argument
//! == != < <= > >= & ~          & holds if they have a bit in common;
//!                              ~ compares text with a pattern of * and ?
//! ```

mod condition;
mod fetch;
mod kind;
#[cfg(test)]
mod tests;

pub use condition::Condition;
pub use condition::Hit;
pub use condition::TEXT_MAX;
pub use fetch::Env;
pub use fetch::Fetch;
pub use fetch::Register;
pub use kind::Show;
pub use kind::Type;

use kind::align;

/// Maximum number of arguments of a probe.
pub const ARGS_MAX: usize = 16;

/// Maximum number of conditions of a probe.
pub const CONDITIONS_MAX: usize = 8;

/// Maximum number of bytes of a probe's arguments in a record.
pub const AREA_MAX: usize = 512;

/// Maximum number of bytes of an argument's name.
pub const NAME_MAX: usize = 31;

/// An argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arg {
    /// Source of its value.
    pub fetch: Fetch,
    /// Type.
    pub ty: Type,
    /// Offset among the values of the arguments, in bytes.
    pub offset: usize,
}

impl Arg {
    /// Returns the end offset.
    pub fn end(&self) -> usize {
        self.offset.saturating_add(self.ty.size())
    }
}

/// Arguments and conditions as valid text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Args<'a> {
    args: &'a str,
    conditions: &'a str,
}

/// Returns the words of a line.
pub(crate) fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split([' ', '\t']).filter(|word| !word.is_empty())
}

impl<'a> Args<'a> {
    /// Parses `ARG... [if CONDITION...]`. Only a probe on the `return` of a function can have its
    /// values.
    ///
    /// Returns `None` if a part is invalid, repeated, or too much.
    pub fn parse(text: &'a str, returns: bool) -> Option<Self> {
        let (args, conditions) = split_if(text);
        let parsed = Self { args, conditions };
        if args.is_empty() && conditions.is_empty() {
            return Some(parsed);
        }
        // Counted first: the rest reads each word several times.
        let count = words(args).take(ARGS_MAX.saturating_add(1)).count();
        let tests = words(conditions).take(CONDITIONS_MAX.saturating_add(1));
        if count > ARGS_MAX || tests.count() > CONDITIONS_MAX {
            return None;
        }
        for (index, word) in words(args).enumerate() {
            let (name, arg) = parse_arg(word)?;
            let again = words(args).skip(index.checked_add(1)?);
            let twice = again
                .filter_map(|word| word.split_once('='))
                .any(|(other, _)| other == name);
            if twice || (!returns && arg.fetch.is_of_return()) {
                return None;
            }
        }
        let size = parsed.iter().last().map_or(0, |(_, arg)| arg.end());
        for word in words(conditions) {
            let condition = parsed.condition(word)?;
            if !returns && condition.is_of_return() {
                return None;
            }
        }
        (size <= AREA_MAX).then_some(parsed)
    }

    /// Returns the arguments with their names.
    pub fn iter(self) -> impl Iterator<Item = (&'a str, Arg)> {
        let mut end = 0;
        words(self.args).filter_map(move |word| {
            let (name, mut arg) = parse_arg(word)?;
            arg.offset = align(end, arg.ty.alignment())?;
            end = arg.end();
            Some((name, arg))
        })
    }

    /// Returns the arguments of the names in `keys`, which commas separate, with offsets as if
    /// these were all arguments.
    pub fn selected(self, keys: &'a str) -> impl Iterator<Item = (&'a str, Arg)> {
        let is_key = move |name: &str| keys.split(',').any(|key| key == name);
        let mut end = 0;
        let all = self.iter().filter(move |(name, _)| is_key(name));
        all.filter_map(move |(name, mut arg)| {
            arg.offset = align(end, arg.ty.alignment())?;
            end = arg.end();
            Some((name, arg))
        })
    }

    /// Returns the argument of this name, behind those of the names in `keys`, at a multiple of 8.
    /// Returns `None` unless there is one with a number.
    pub fn value(self, keys: &'a str, name: &str) -> Option<Arg> {
        let (_, mut arg) = self.iter().find(|(other, _)| *other == name)?;
        let end = self.selected(keys).last().map_or(0, |(_, arg)| arg.end());
        arg.offset = align(end, 8)?;
        (!arg.ty.is_text() && !arg.ty.is_stack()).then_some(arg)
    }

    /// Returns the conditions.
    pub fn conditions(self) -> impl Iterator<Item = Condition> + 'a {
        words(self.conditions).filter_map(move |word| self.condition(word))
    }

    fn condition(self, word: &str) -> Option<Condition> {
        Condition::parse(word, |name| {
            let mut args = self.iter();
            args.find(|(other, _)| *other == name).map(|(_, arg)| arg)
        })
    }

    /// Returns the text of the arguments, in words.
    pub fn text(self) -> &'a str {
        self.args
    }

    /// Returns the text of the conditions, in words.
    pub fn conditions_text(self) -> &'a str {
        self.conditions
    }

    /// Returns the number of bytes of the values of all arguments.
    pub fn size(self) -> usize {
        self.iter().last().map_or(0, |(_, arg)| arg.end())
    }
}

/// Splits the text at the word `if`. An `if` without conditions stays in the first part.
fn split_if(text: &str) -> (&str, &str) {
    let blank = [' ', '\t'];
    let text = text.trim_matches(blank);
    let mut from = 0_usize;
    while let Some(found) = text.get(from..).and_then(|rest| rest.find("if")) {
        let at = from.saturating_add(found);
        let after = at.saturating_add(2);
        let before = text.get(..at).unwrap_or_default();
        let rest = text.get(after..).unwrap_or_default();
        if (before.is_empty() || before.ends_with(blank)) && rest.starts_with(blank) {
            return (
                before.trim_end_matches(blank),
                rest.trim_start_matches(blank),
            );
        }
        from = after;
    }
    (text, "")
}

/// Parses `NAME=FETCH[:TYPE]`; the argument has no offset yet.
fn parse_arg(word: &str) -> Option<(&str, Arg)> {
    let (name, value) = word.split_once('=')?;
    let first = name.bytes().next()?;
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    if first.is_ascii_digit() || name.len() > NAME_MAX || !name.bytes().all(fits) {
        return None;
    }
    let (fetch, ty) = match value.rsplit_once(':') {
        Some((fetch, ty)) => (fetch, Some(Type::parse(ty)?)),
        None => (value, None),
    };
    let fetch = Fetch::parse(fetch)?;
    let ty = match (fetch.stack(), ty) {
        (None, ty) => ty.unwrap_or(Type::DEFAULT),
        (Some(stack), None) => stack,
        (Some(_), Some(_)) => return None,
    };
    // Text has to be in memory.
    if ty.is_text() && !fetch.is_in_memory() {
        return None;
    }
    let offset = 0;
    Some((name, Arg { fetch, ty, offset }))
}

/// Parses a number, decimal or with `0x`, without a sign.
pub(crate) fn number(text: &str) -> Option<u64> {
    let (digits, radix) = match text.strip_prefix("0x") {
        Some(digits) => (digits, 16),
        None => (text, 10),
    };
    // The standard library would accept a sign, too.
    let plain = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    plain
        .then(|| u64::from_str_radix(digits, radix).ok())
        .flatten()
}
