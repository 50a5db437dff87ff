// SPDX-License-Identifier: GPL-2.0

//! Names of numbers in an event's `print fmt`: `__print_symbolic()` and `__print_flags()` of a
//! field.

#![deny(unsafe_code)]

use std::fmt::Write;

/// Limit of nested parentheses; expressions of the kernel have fewer.
const DEPTH: usize = 64;

/// Names for the values of a field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Names {
    /// Expression of the field whose value has names.
    expression: String,
    /// Numbers and their names.
    table: Vec<(u64, String)>,
    /// Joins the names of flags; `None` if a value has one name.
    joint: Option<String>,
    /// Text for a value without flags.
    none: Option<String>,
}

/// A reader of an expression of C.
struct Reader<'a> {
    rest: &'a str,
    value: u64,
    depth: usize,
}

impl<'a> Reader<'a> {
    fn take(&mut self, word: &str) -> bool {
        self.rest = self.rest.trim_start();
        match self.rest.strip_prefix(word) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    /// Skips a type in parentheses.
    fn cast(&mut self) -> bool {
        let Some((ty, rest)) = self
            .rest
            .trim_start()
            .strip_prefix('(')
            .and_then(|rest| rest.split_once(')'))
        else {
            return false;
        };
        let is_type = |c: char| c.is_ascii_alphabetic() || c == '_' || c == ' ' || c == '*';
        let digits = ["8", "16", "32", "64"];
        let plain = digits
            .iter()
            .fold(ty.to_owned(), |ty, digits| ty.replace(digits, ""));
        let is_number = ty.trim_start().starts_with(|c: char| c.is_ascii_digit());
        let is_cast = !is_number && !plain.trim().is_empty() && plain.chars().all(is_type);
        if is_cast {
            self.rest = rest;
        }
        is_cast
    }

    fn primary(&mut self) -> Option<u64> {
        self.depth = self.depth.checked_add(1).filter(|depth| *depth < DEPTH)?;
        let value = self.unary();
        self.depth -= 1;
        value
    }

    fn unary(&mut self) -> Option<u64> {
        if self.take("~") {
            return self.primary().map(|value| !value);
        }
        if self.take("-") {
            return self.primary().map(u64::wrapping_neg);
        }
        if self.cast() {
            return self.primary();
        }
        if self.take("(") {
            let value = self.or()?;
            return self.take(")").then_some(value);
        }
        if self.take("REC->") {
            let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
            self.rest = self.rest.trim_start_matches(is_name);
            return Some(self.value);
        }
        let end = self.rest.find(|c: char| !c.is_ascii_alphanumeric());
        let (word, rest) = self.rest.split_at_checked(end.unwrap_or(self.rest.len()))?;
        let digits = word.trim_end_matches(['U', 'L', 'u', 'l']);
        let number = match digits.strip_prefix("0x") {
            Some(digits) => u64::from_str_radix(digits, 16),
            None => digits.parse(),
        };
        self.rest = rest;
        number.ok()
    }

    fn sum(&mut self) -> Option<u64> {
        let mut value = self.primary()?;
        loop {
            value = match () {
                () if self.take("+") => value.wrapping_add(self.primary()?),
                () if self.take("-") => value.wrapping_sub(self.primary()?),
                () => return Some(value),
            };
        }
    }

    fn shift(&mut self) -> Option<u64> {
        let mut value = self.sum()?;
        loop {
            let left = self.take("<<");
            if !left && !self.take(">>") {
                return Some(value);
            }
            let by = u32::try_from(self.sum()?).ok()?;
            value = match left {
                true => value.checked_shl(by),
                false => value.checked_shr(by),
            }?;
        }
    }

    fn and(&mut self) -> Option<u64> {
        let mut value = self.shift()?;
        while self.take("&") {
            value &= self.shift()?;
        }
        Some(value)
    }

    fn or(&mut self) -> Option<u64> {
        let mut value = self.and()?;
        while self.take("|") {
            value |= self.and()?;
        }
        Some(value)
    }
}

/// Evaluates an expression of C with `value` for `REC->NAME`.
fn evaluate(expression: &str, value: u64) -> Option<u64> {
    let mut reader = Reader {
        rest: expression,
        value,
        depth: 0,
    };
    let value = reader.or()?;
    reader.rest.trim().is_empty().then_some(value)
}

/// Splits arguments at commas up to the closing parenthesis or brace. Returns the rest, too.
fn arguments(text: &str) -> Option<(Vec<&str>, &str)> {
    let (mut parts, mut from, mut depth, mut quoted) = (Vec::new(), 0, 0_usize, false);
    let mut escaped = false;
    for (at, c) in text.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => quoted = !quoted,
            _ if quoted => (),
            '(' | '{' => depth += 1,
            ')' | '}' if depth == 0 => {
                parts.push(text.get(from..at)?.trim());
                return Some((parts, text.get(at + 1..)?));
            }
            ')' | '}' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(text.get(from..at)?.trim());
                from = at + 1;
            }
            _ => (),
        }
    }
    None
}

fn quoted(text: &str) -> Option<&str> {
    text.trim().strip_prefix('"')?.strip_suffix('"')
}

/// Returns the field of an expression that has only one.
fn field_of(expression: &str) -> Option<&str> {
    let mut names = expression.split("REC->").skip(1).map(|rest| {
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let end = rest.find(|c| !is_name(c)).unwrap_or(rest.len());
        rest.get(..end).unwrap_or_default()
    });
    let name = names.next()?;
    names.all(|other| other == name).then_some(name)
}

impl Names {
    /// Finds the names that `print fmt` has for the values of this field.
    pub fn find(print_fmt: &str, field: &str) -> Option<Self> {
        for (call, is_flags) in [("__print_flags(", true), ("__print_symbolic(", false)] {
            for (at, _) in print_fmt.match_indices(call) {
                let text = print_fmt.get(at + call.len()..)?;
                let names = arguments(text).and_then(|found| Self::of(found, is_flags));
                if let Some((_, names)) = names.filter(|(name, _)| name == field) {
                    return Some(names);
                }
            }
        }
        None
    }

    fn of((parts, after): (Vec<&str>, &str), is_flags: bool) -> Option<(String, Self)> {
        let (expression, mut rest) = parts.split_first()?;
        let mut joint = None;
        if is_flags {
            let (first, others) = rest.split_first()?;
            joint = Some(quoted(first)?.to_owned());
            rest = others;
        }
        let mut table = Vec::new();
        for pair in rest {
            let (parts, _) = arguments(pair.strip_prefix('{')?)?;
            let [value, name] = parts[..] else {
                return None;
            };
            // Enumerators that the kernel has not replaced by numbers, and the end of the table,
            // are skipped.
            if let (Some(value), Some(name)) = (evaluate(value, 0), quoted(name)) {
                table.push((value, name.to_owned()));
            }
        }
        evaluate(expression, 0)?;
        let other = after.trim_start().strip_prefix(':').map(str::trim_start);
        let other = other.and_then(|text| text.strip_prefix('"')?.split_once('"'));
        let name = field_of(expression)?.to_owned();
        let names = Self {
            expression: (*expression).to_owned(),
            none: other.map(|(text, _)| text.to_owned()).filter(|_| is_flags),
            table,
            joint,
        };
        (!names.table.is_empty()).then_some((name, names))
    }

    /// Returns the name of a value, or the names of its flags and the rest as a number.
    pub fn text(&self, value: u64) -> Option<String> {
        let value = evaluate(&self.expression, value)?;
        let Some(joint) = &self.joint else {
            let found = self.table.iter().find(|(number, _)| *number == value);
            return found.map(|(_, name)| name.clone());
        };
        let mut left = value;
        let mut text = String::new();
        for (mask, name) in &self.table {
            if *mask != 0 && left & mask == *mask {
                left &= !mask;
                let joint = if text.is_empty() { "" } else { joint };
                // Writing to a string does not fail.
                let _ = write!(text, "{joint}{name}");
            }
        }
        match (text.is_empty(), left) {
            (true, 0) => Some(self.none.clone().unwrap_or_else(|| "0".to_owned())),
            (true, _) => Some(format!("{left:#x}")),
            (false, 0) => Some(text),
            (false, _) => Some(format!("{text}{joint}{left:#x}")),
        }
    }

    /// Returns the number with a name.
    pub fn number(&self, name: &str) -> Option<u64> {
        let found = self.table.iter().find(|(_, other)| other == name);
        found
            .map(|(number, _)| *number)
            .or_else(|| (self.none.as_deref() == Some(name)).then_some(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions() {
        for (text, value) in [
            ("REC->a", 7),
            ("REC->a & ((((0x00000000 | 0x1|0x2) + 1) << 1) - 1)", 7),
            ("(( gfp_t)((((1UL))) << (10)))", 1024),
            ("( unsigned long)(REC->a) >> 1", 3),
            ("~((u64)0xfffffffffffffff0) & 12", 12),
            ("((REC->a) >> 1) & (4 - 1)", 3),
            ("REC->a << (8UL)", 1792),
        ] {
            assert_eq!(evaluate(text, 7), Some(value), "{text}");
        }
        for bad in ["", "1 +", "(1", "IOPRIO_CLASS_BE", "1 2", "((void *)0"] {
            assert_eq!(evaluate(bad, 0), None, "{bad}");
        }
        assert_eq!(evaluate(&"(".repeat(1000), 0), None);
    }

    const SWITCH: &str = r#""prev_comm=%s prev_state=%s%s", REC->prev_comm, (REC->prev_state & (((0x0 | 0x7f) + 1) << 1)) ? __print_flags(REC->prev_state & ((((0x00000000 | 0x0000007f) + 1) << 1) - 1), "|", { 0x00000001, "S" }, { 0x00000002, "D" }, { 0x80, "I" }) : "R", REC->x ? "+" : "", __print_symbolic(REC->vec, { 0, "HI" }, { 1, "TI,MER" }, { 2 + 1, "NET" }, { WHAT, "x" })"#;

    #[test]
    fn flags_and_symbols() {
        let states = Names::find(SWITCH, "prev_state").unwrap();
        let text = |value| states.text(value).unwrap();
        assert_eq!(text(0), "R");
        assert_eq!(text(1), "S");
        assert_eq!(text(0x82), "D|I");
        assert_eq!(text(0x105), "S|0x4");
        assert_eq!((states.number("D"), states.number("R")), (Some(2), Some(0)));
        let vectors = Names::find(SWITCH, "vec").unwrap();
        assert_eq!(vectors.text(1).as_deref(), Some("TI,MER"));
        assert_eq!(vectors.text(3).as_deref(), Some("NET"));
        assert_eq!(vectors.text(9), None);
        assert_eq!(Names::find(SWITCH, "prev_comm"), None);
        assert_eq!(
            Names::find("\"%s\", __print_flags(REC->a, \"|\"", "a"),
            None
        );
    }
}
