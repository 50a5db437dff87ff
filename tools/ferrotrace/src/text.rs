// SPDX-License-Identifier: GPL-2.0

//! Text for a terminal, which takes control characters for commands.
//!
//! Records, files and processes have names that any user can choose.

#![deny(unsafe_code)]

use std::borrow::Cow;
use std::fmt::Write;

/// Escapes control characters, so that the text stays in its line.
pub fn printable(text: &str) -> Cow<'_, str> {
    escape(text, &[])
}

/// Escapes control characters except those that separate lines and columns. A JSON document stays
/// one with the same meaning.
pub fn printable_lines(text: &str) -> Cow<'_, str> {
    escape(text, &['\n', '\t'])
}

fn escape<'a>(text: &'a str, kept: &[char]) -> Cow<'a, str> {
    let is_bad = |c: char| c.is_control() && !kept.contains(&c);
    if !text.contains(is_bad) {
        return text.into();
    }
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            c if !is_bad(c) => escaped.push(c),
            '\n' => escaped.push_str("\\n"),
            '\r' => escaped.push_str("\\r"),
            '\t' => escaped.push_str("\\t"),
            // As in JSON, whose strings may have some of them. Writing to a string does not fail.
            c => drop(write!(escaped, "\\u{:04x}", u32::from(c))),
        }
    }
    escaped.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_a_command() {
        assert_eq!(printable("gr\u{fc}n a.b"), "gr\u{fc}n a.b");
        assert_eq!(printable("\x1b[2J\r\n\tx"), "\\u001b[2J\\r\\n\\tx");
        // The other form of an escape sequence, and a character that some terminals delete.
        assert_eq!(printable("\u{9b}31m\x7f"), "\\u009b31m\\u007f");
        assert_eq!(printable_lines("a\tb\n\x1bc\r\n"), "a\tb\n\\u001bc\\r\n");
        let name = serde_json::Value::from("x\u{9b}\x1b\x7f");
        let line = printable_lines(&name.to_string()).into_owned();
        assert_eq!(
            serde_json::from_str::<serde_json::Value>(&line).unwrap(),
            name
        );
        assert!(!line.contains(char::is_control));
    }
}
