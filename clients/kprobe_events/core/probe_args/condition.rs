// SPDX-License-Identifier: GPL-2.0

//! Conditions on which a hit counts.
//!
//! Contexts: those of [`Env`].

use super::number;
use super::Arg;
use super::Env;

/// Maximum number of bytes of text in a comparison.
pub const TEXT_MAX: usize = 63;

/// Data of a hit besides its arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hit<'a> {
    /// Number of the thread.
    pub thread: i32,
    /// Number of its process.
    pub process: i32,
    /// Name of the thread, up to a NUL.
    pub comm: &'a [u8],
    /// The CPU.
    pub cpu: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Left {
    Pid,
    Cpu,
    Comm,
    Duration,
    Arg(Arg),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Op {
    Equal,
    Unequal,
    Less,
    AtMost,
    More,
    AtLeast,
    Common,
    Like,
}

/// Longer ones first.
const OPS: [(&str, Op); 8] = [
    ("==", Op::Equal),
    ("!=", Op::Unequal),
    ("<=", Op::AtMost),
    (">=", Op::AtLeast),
    ("<", Op::Less),
    (">", Op::More),
    ("&", Op::Common),
    ("~", Op::Like),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Text {
    bytes: [u8; TEXT_MAX],
    len: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Right {
    /// A negative number is in two's complement.
    Number(u64),
    Text(Text),
}

/// A condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Condition {
    left: Left,
    op: Op,
    right: Right,
}

impl Text {
    fn new(text: &str) -> Option<Self> {
        let mut bytes = [0; TEXT_MAX];
        bytes
            .get_mut(..text.len())?
            .copy_from_slice(text.as_bytes());
        let len = text.len();
        Some(Self { bytes, len })
    }

    fn bytes(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or_default()
    }
}

impl Condition {
    /// Parses `LEFT OP RIGHT` without spaces. `arg` looks up arguments.
    pub(super) fn parse(word: &str, arg: impl FnOnce(&str) -> Option<Arg>) -> Option<Self> {
        let end = word.find(|c: char| !c.is_ascii_alphanumeric() && c != '_')?;
        let (left, rest) = word.split_at_checked(end)?;
        let (right, op) = OPS
            .iter()
            .find_map(|(sign, op)| Some((rest.strip_prefix(sign)?, *op)))?;
        // The name of an argument takes precedence.
        let left = match (arg(left), left) {
            (Some(arg), _) => Left::Arg(arg),
            (None, "pid") => Left::Pid,
            (None, "cpu") => Left::Cpu,
            (None, "comm") => Left::Comm,
            (None, "duration") => Left::Duration,
            (None, _) => return None,
        };
        if matches!(left, Left::Arg(arg) if arg.ty.is_stack()) {
            return None;
        }
        let right = match left.is_text() {
            true => {
                let quoted = right
                    .strip_prefix('"')
                    .and_then(|text| text.strip_suffix('"'));
                Right::Text(Text::new(quoted.unwrap_or(right))?)
            }
            false => Right::Number(match right.strip_prefix('-') {
                Some(digits) => number(digits)?.wrapping_neg(),
                None => number(right)?,
            }),
        };
        let fits = match op {
            Op::Equal | Op::Unequal => true,
            Op::Like => left.is_text(),
            _ => !left.is_text(),
        };
        fits.then_some(Self { left, op, right })
    }

    /// Returns true if only the return of a function has the value.
    pub fn is_of_return(&self) -> bool {
        match &self.left {
            Left::Duration => true,
            Left::Arg(arg) => arg.fetch.is_of_return(),
            _ => false,
        }
    }

    /// Returns true if only the entry of a function has the value, where a return probe takes it.
    pub fn is_of_entry(&self) -> bool {
        match &self.left {
            Left::Pid | Left::Comm => true,
            Left::Cpu | Left::Duration => false,
            Left::Arg(arg) => arg.fetch.is_of_entry(),
        }
    }

    /// Returns true if it holds. An unreadable value counts as empty.
    pub fn holds(&self, hit: &Hit<'_>, duration: u64, env: &impl Env) -> bool {
        match &self.left {
            Left::Pid => {
                let is = |id: i32| self.compare(i64::from(id) as u64, true);
                match self.op {
                    Op::Unequal => is(hit.thread) && is(hit.process),
                    _ => is(hit.thread) || is(hit.process),
                }
            }
            Left::Cpu => self.compare(hit.cpu.into(), false),
            Left::Duration => self.compare(duration, false),
            Left::Comm => {
                let name = hit.comm.split(|byte| *byte == 0).next();
                self.matches(name.unwrap_or_default())
            }
            Left::Arg(arg) if arg.ty.is_text() => {
                let mut text = [0; 256];
                let mut len = 0_usize;
                let read = arg.fetch.text(arg.ty.size(), env, |piece| {
                    let end = len.saturating_add(piece.len());
                    if let Some(room) = text.get_mut(len..end) {
                        room.copy_from_slice(piece);
                        len = end;
                    }
                });
                read && self.matches(text.get(..len).unwrap_or_default())
            }
            Left::Arg(arg) => match arg.fetch.number(arg.ty, env) {
                Some(value) => self.compare(value, arg.ty.is_signed()),
                None => false,
            },
        }
    }

    fn compare(&self, value: u64, signed: bool) -> bool {
        let Right::Number(number) = self.right else {
            return false;
        };
        let order = match signed {
            // Both are signed numbers, in two's complement.
            true => (value as i64).cmp(&(number as i64)),
            false => value.cmp(&number),
        };
        match self.op {
            Op::Equal => order.is_eq(),
            Op::Unequal => order.is_ne(),
            Op::Less => order.is_lt(),
            Op::AtMost => order.is_le(),
            Op::More => order.is_gt(),
            Op::AtLeast => order.is_ge(),
            Op::Common => value & number != 0,
            Op::Like => false,
        }
    }

    fn matches(&self, text: &[u8]) -> bool {
        let Right::Text(right) = &self.right else {
            return false;
        };
        match self.op {
            Op::Equal => text == right.bytes(),
            Op::Unequal => text != right.bytes(),
            Op::Like => is_like(text, right.bytes()),
            _ => false,
        }
    }
}

impl Left {
    fn is_text(&self) -> bool {
        match self {
            Self::Comm => true,
            Self::Arg(arg) => arg.ty.is_text(),
            _ => false,
        }
    }
}

/// Returns true if the text matches the pattern; `*` is any text, `?` any byte.
fn is_like(text: &[u8], pattern: &[u8]) -> bool {
    let (mut text, mut pattern) = (text, pattern);
    // State to retry after the last `*`: the pattern after it, and the text that it may still take.
    let mut again: Option<(&[u8], &[u8])> = None;
    loop {
        match (pattern.split_first(), text.split_first()) {
            (Some((b'*', rest)), _) => {
                again = Some((rest, text));
                pattern = rest;
            }
            (Some((p, p_rest)), Some((t, t_rest))) if *p == b'?' || p == t => {
                (pattern, text) = (p_rest, t_rest);
            }
            (None, None) => return true,
            _ => {
                let Some((behind, [_, rest @ ..])) = again else {
                    return false;
                };
                again = Some((behind, rest));
                (pattern, text) = (behind, rest);
            }
        }
    }
}
