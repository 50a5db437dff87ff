// SPDX-License-Identifier: GPL-2.0

//! Text for a terminal, which takes control characters for commands.
//!
//! Records, files and processes have names that any user can choose.

#![deny(unsafe_code)]

use std::borrow::Cow;
use std::fmt;
use std::fmt::Write;
use std::io;
use std::io::IsTerminal;

/// Returns true for characters that a terminal takes for a command, and for those that change the
/// order or the lines of a text.
fn is_command(c: char) -> bool {
    let reorders = matches!(
        c,
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
    );
    c.is_control() || reorders
}

/// Escapes what a terminal takes for commands, so that the text stays in its line.
pub fn printable(text: &str) -> Cow<'_, str> {
    escape(text, &[])
}

/// Escapes what a terminal takes for commands, except what separates lines and columns. A JSON
/// document stays one with the same meaning.
pub fn printable_lines(text: &str) -> Cow<'_, str> {
    escape(text, &['\n', '\t'])
}

/// Replaces each byte of such characters by a question mark: what follows stays in its column.
pub fn printable_columns(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        match is_command(c) {
            true => shown.extend(std::iter::repeat_n('?', c.len_utf8())),
            false => shown.push(c),
        }
    }
    shown
}

fn escape<'a>(text: &'a str, kept: &[char]) -> Cow<'a, str> {
    let is_bad = |c: char| is_command(c) && !kept.contains(&c);
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

/// Printable text in HTML or XML, where it cannot be markup.
pub struct Markup<'a>(pub Cow<'a, str>);

impl fmt::Display for Markup<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for c in self.0.chars() {
            match c {
                '&' => f.write_str("&amp;")?,
                '<' => f.write_str("&lt;")?,
                '>' => f.write_str("&gt;")?,
                '"' => f.write_str("&quot;")?,
                // XML has no such characters.
                '\u{fffe}' | '\u{ffff}' => f.write_char('\u{fffd}')?,
                _ => f.write_char(c)?,
            }
        }
        Ok(())
    }
}

/// Returns standard output for texts with parts that have not been made printable. A terminal gets
/// [`printable_lines`].
pub fn stdout() -> Box<dyn io::Write + Send> {
    match io::stdout().is_terminal() {
        true => Box::new(Terminal::new(io::stdout())),
        false => Box::new(io::stdout()),
    }
}

/// A terminal, to which [`printable_lines`] are written.
struct Terminal<W> {
    out: W,
    /// The start of a character, of which the rest was not written yet.
    start: Vec<u8>,
}

impl<W: io::Write> Terminal<W> {
    fn new(out: W) -> Self {
        let start = Vec::new();
        Self { out, start }
    }
}

impl<W: io::Write> io::Write for Terminal<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut all = std::mem::take(&mut self.start);
        all.extend(bytes);
        let end = match std::str::from_utf8(&all) {
            Err(error) if error.error_len().is_none() => error.valid_up_to(),
            _ => all.len(),
        };
        // A character that is never finished is not UTF-8, and is replaced like others.
        self.start = all.split_off(end);
        let text = String::from_utf8_lossy(&all);
        self.out.write_all(printable_lines(&text).as_bytes())?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
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
        // What changes the order of what is shown.
        assert_eq!(printable("a\u{202e}b\u{2028}"), "a\\u202eb\\u2028");
        assert_eq!(printable_columns("a\u{9b}\x1b.\u{202e}b"), "a???.???b");
        assert_eq!(printable_lines("a\tb\n\x1bc\r\n"), "a\tb\n\\u001bc\\r\n");
        let name = serde_json::Value::from("x\u{9b}\x1b\x7f");
        let line = printable_lines(&name.to_string()).into_owned();
        assert_eq!(
            serde_json::from_str::<serde_json::Value>(&line).unwrap(),
            name
        );
        assert!(!line.contains(char::is_control));
    }

    /// Characters come in pieces.
    #[test]
    fn what_is_written_to_a_terminal() {
        use std::io::Write;

        let bytes = "gr\u{fc}n\u{9b}31m\x1b\u{202e}\n".as_bytes();
        for pieces in 1..bytes.len() {
            let mut terminal = Terminal::new(Vec::new());
            for piece in bytes.chunks(pieces) {
                terminal.write_all(piece).unwrap();
            }
            let text = String::from_utf8(terminal.out).unwrap();
            assert_eq!(text, "gr\u{fc}n\\u009b31m\\u001b\\u202e\n");
        }
        let mut terminal = Terminal::new(Vec::new());
        terminal.write_all(b"a\xff\xc3").unwrap();
        terminal.write_all(b"b").unwrap();
        assert_eq!(terminal.out, "a\u{fffd}\u{fffd}b".as_bytes());
    }
}
