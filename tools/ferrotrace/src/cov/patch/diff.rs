// SPDX-License-Identifier: GPL-2.0

//! Reads unified diffs: of git, of `diff -u`, and series of mails with patches.
//!
//! A later patch of a series may move, change or remove the lines of an earlier one: the result has
//! the lines that are left at the end, with their numbers there, each with the patch that added it.

#![deny(unsafe_code)]

use std::collections::BTreeMap;
use std::collections::HashMap;

use thiserror::Error;

use super::Changed;
use super::Commit;
use super::Line;
use super::Patch;
use super::beginning;
use super::is_hash;

/// Failure to read a diff.
#[derive(Debug, Error, PartialEq, Eq)]
#[error("line {line}: {fault}")]
pub struct DiffError {
    /// Its line, from 1.
    pub line: usize,
    /// The reason.
    pub fault: Fault,
}

/// Fault of a diff.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum Fault {
    /// A text, or a diff in another format.
    #[error("no unified diff is in it")]
    NoDiff,
    /// A hunk before the name of a file.
    #[error("a hunk (@@) without the names of its file (--- and +++) before it")]
    NoFile,
    /// The diff of a merge, against both parents.
    #[error("a combined diff (@@@): of a merge, take the diff against one of its parents")]
    Combined,
    /// A quote without an end, or nothing.
    #[error("the name of a file is not understood")]
    Name,
    /// Numbers that are none.
    #[error("the numbers of a hunk (@@) are not understood")]
    Numbers,
    /// A hunk before, or in, the one before it.
    #[error("the hunk is not behind the one before it")]
    Order,
    /// A hunk that ends early.
    #[error("the hunk has fewer lines than it says, or lines that begin with another character")]
    Short,
    /// Several commits as git log shows them: without a base to which the numbers of all belong.
    #[error("a second commit of git log: take git format-patch --stdout, or git diff")]
    Log,
    /// A series in another order.
    #[error(
        "{0} has another text here than an earlier patch of the input left there: patches must be \
         in the order in which they are applied"
    )]
    Series(String),
}

/// An added line that is still there.
struct Added {
    text: String,
    /// The whole text without white space.
    essence: Vec<u8>,
    commit: usize,
}

/// Added lines of a file, by their numbers.
type Lines = BTreeMap<u32, Added>;

/// The part of a patch that changes one file.
#[derive(Default)]
struct FileDiff {
    /// Names before and after it, with the directories that a diff puts before them.
    old: Option<String>,
    new: Option<String>,
    /// The names have no such directory: they are those of a renaming.
    is_bare: bool,
    is_copy: bool,
    /// Lines that it removes, by their numbers before it, and their texts without white space.
    removed: BTreeMap<u32, Vec<u8>>,
    /// Lines that it keeps, likewise.
    kept: BTreeMap<u32, Vec<u8>>,
    /// Lines that it adds, by their numbers after it.
    added: Lines,
    /// Numbers of the next lines before and after it.
    next: (u32, u32),
    /// Where it was read.
    at: usize,
}

#[derive(Default)]
struct Reader {
    commits: Vec<Commit>,
    files: BTreeMap<Vec<String>, Lines>,
    /// Removed lines that no patch of the series had added, by file.
    removed: Vec<(Vec<String>, Vec<u8>)>,
    file: Option<FileDiff>,
    has_diff: bool,
    /// The input is not of mails.
    is_log: bool,
}

/// Returns a line without white space.
fn essence(line: &[u8]) -> Vec<u8> {
    let bytes = line.iter().copied();
    bytes.filter(|byte| !byte.is_ascii_whitespace()).collect()
}

/// Undoes the quoting of names by git, up to the closing quote.
fn unquoted(name: &[u8]) -> Option<Vec<u8>> {
    let mut bytes = name.iter().copied().peekable();
    let mut plain = Vec::new();
    loop {
        match bytes.next()? {
            b'"' => return Some(plain),
            b'\\' => (),
            byte => {
                plain.push(byte);
                continue;
            }
        }
        plain.push(match bytes.next()? {
            digit @ b'0'..=b'7' => {
                let mut value = u32::from(digit - b'0');
                for _ in 0..2 {
                    if let Some(digit) = bytes.next_if(|byte| (b'0'..=b'7').contains(byte)) {
                        value = value * 8 + u32::from(digit - b'0');
                    }
                }
                u8::try_from(value).unwrap_or(b'?')
            }
            b'a' => 7,
            b'b' => 8,
            b't' => b'\t',
            b'n' => b'\n',
            b'v' => 11,
            b'f' => 12,
            b'r' => b'\r',
            other => other,
        });
    }
}

/// Returns the name in a header, if it names a file. A quote, or a tabulator, ends it.
fn name(text: &[u8]) -> Result<Option<String>, Fault> {
    let name = match text.strip_prefix(b"\"") {
        Some(quoted) => unquoted(quoted).ok_or(Fault::Name)?,
        None => {
            let end = text.iter().position(|byte| *byte == b'\t');
            let end = end.unwrap_or(text.len());
            text.get(..end).unwrap_or_default().to_vec()
        }
    };
    match &*name {
        b"" => Err(Fault::Name),
        b"/dev/null" => Ok(None),
        name => Ok(Some(String::from_utf8_lossy(name).into_owned())),
    }
}

/// Returns the names that a file may have: git's with a letter before it, and others as they are, or
/// without their first directory.
fn names(file: &FileDiff, name: &str) -> Vec<String> {
    let as_is = name.to_owned();
    let Some((_, rest)) = name.split_once('/').filter(|_| !file.is_bare) else {
        return vec![as_is];
    };
    let first = |name: &'_ Option<String>| {
        let name = name.as_ref()?;
        Some(
            name.split_once('/')
                .map_or("", |(first, _)| first)
                .to_owned(),
        )
    };
    let (old, new) = (first(&file.old), first(&file.new));
    let is = |first: &Option<String>, letter: &str| first.as_ref().is_none_or(|f| f == letter);
    let is_pair = |(one, other): &(&str, &str)| is(&old, one) && is(&new, other);
    match LETTERS.iter().any(is_pair) {
        true => vec![rest.to_owned()],
        false => vec![as_is, rest.to_owned()],
    }
}

/// Letters that git puts before the names of the two sides.
const LETTERS: [(&str, &str); 7] = [
    ("a", "b"),
    ("b", "a"),
    ("i", "w"),
    ("c", "i"),
    ("c", "w"),
    ("o", "w"),
    ("1", "2"),
];

/// Parses `-12,3`: the next line, and the number of lines.
fn numbers(text: &str, sign: char) -> Option<(u32, u32)> {
    let text = text.strip_prefix(sign)?;
    let (first, count) = text.split_once(',').unwrap_or((text, "1"));
    let (first, count): (u32, u32) = (first.parse().ok()?, count.parse().ok()?);
    // Without lines it has the number of the line before.
    let next = first.checked_add(u32::from(count == 0))?;
    next.checked_add(count).map(|_| (next, count))
}

/// Parses the start of a hunk.
fn hunk(line: &[u8]) -> Option<((u32, u32), (u32, u32))> {
    let line = String::from_utf8_lossy(line);
    let mut words = line.split(' ').skip(1);
    let old = numbers(words.next()?, '-')?;
    let new = numbers(words.next()?, '+')?;
    words.next()?.starts_with("@@").then_some((old, new))
}

/// Returns true for the line before a mail in a file of mails.
fn begins_mail(line: &str) -> bool {
    let mut words = line.split_ascii_whitespace();
    words.next() == Some("From")
        && words
            .nth(4)
            .is_some_and(|time| time.split(':').count() == 3)
}

/// Returns a subject without `[PATCH 1/2]`.
fn subject(text: &str) -> &str {
    let mut text = text.trim();
    while let Some((_, rest)) = text.strip_prefix('[').and_then(|text| text.split_once(']')) {
        text = rest.trim_start();
    }
    text
}

impl Reader {
    /// Begins a commit, if the line is that of a mail.
    fn mail(&mut self, line: &str) -> bool {
        if !begins_mail(line) {
            return false;
        }
        let id = line
            .split(' ')
            .nth(1)
            .filter(|id| is_hash(id) && id.bytes().any(|byte| byte != b'0'));
        if !self.has_diff {
            self.commits.clear();
        }
        self.commits.push(Commit {
            id: id.map(str::to_owned),
            subject: String::new(),
        });
        true
    }

    /// Takes the commit of `git show`. Returns true if the line begins one.
    fn shown(&mut self, line: &str) -> Result<bool, Fault> {
        let words = line
            .strip_prefix("commit ")
            .map(|rest| rest.split_once(" (").unwrap_or((rest, "")));
        let Some((id, _)) = words.filter(|(id, _)| is_hash(id)) else {
            return Ok(false);
        };
        match self.commits.last_mut() {
            Some(commit) if commit.id.is_none() => commit.id = Some(id.to_owned()),
            // Backports have the commit of another branch in their messages.
            Some(_) if !self.is_log => return Ok(false),
            _ => return Err(Fault::Log),
        }
        self.is_log = true;
        Ok(true)
    }

    /// Ends a file: moves the lines that earlier patches added.
    fn finish(&mut self) -> Result<(), DiffError> {
        let Some(mut file) = self.file.take() else {
            return Ok(());
        };
        let old = file.old.as_ref().map(|name| names(&file, name));
        let new = file.new.as_ref().map(|name| names(&file, name));
        let known = old.as_ref().filter(|_| !file.is_copy);
        let known = known
            .and_then(|old| self.files.remove(old))
            .unwrap_or_default();
        let Some(either) = new.as_ref().or(old.as_ref()) else {
            return Ok(());
        };
        for (number, added) in &known {
            let found = file.removed.get(number).or(file.kept.get(number));
            if found.is_some_and(|found| *found != added.essence) {
                let fault = Fault::Series(either.first().cloned().unwrap_or_default());
                return Err(DiffError {
                    line: file.at,
                    fault,
                });
            }
        }
        let gone: Vec<u32> = file.removed.keys().copied().collect();
        for (number, essence) in std::mem::take(&mut file.removed) {
            // The original of a copy keeps its lines.
            if !known.contains_key(&number) && !file.is_copy {
                self.removed.push((either.clone(), essence));
            }
        }
        let Some(new) = new else {
            return Ok(());
        };
        let mut lines = Lines::new();
        let mut added = file.added.keys().peekable();
        let mut before = 0u32;
        for (number, line) in known {
            if gone.binary_search(&number).is_ok() {
                continue;
            }
            let less = gone.partition_point(|gone| *gone < number);
            let stays = number.saturating_sub(u32::try_from(less).unwrap_or(u32::MAX));
            while added
                .next_if(|next| **next <= stays.saturating_add(before))
                .is_some()
            {
                before = before.saturating_add(1);
            }
            lines.insert(stays.saturating_add(before), line);
        }
        lines.append(&mut file.added);
        self.files.insert(new, lines);
        Ok(())
    }

    /// Reads the lines of a hunk.
    fn hunk<'a>(
        &mut self,
        first: &[u8],
        at: usize,
        lines: &mut impl Iterator<Item = (usize, &'a [u8])>,
    ) -> Result<(), DiffError> {
        let fail = |line, fault| Err(DiffError { line, fault });
        if first.starts_with(b"@@@") {
            return fail(at, Fault::Combined);
        }
        let Some(file) = &mut self.file else {
            return fail(at, Fault::NoFile);
        };
        if file.old.is_none() && file.new.is_none() {
            return fail(at, Fault::NoFile);
        }
        let Some(((mut old, mut old_left), (mut new, mut new_left))) = hunk(first) else {
            return fail(at, Fault::Numbers);
        };
        if old < file.next.0 || new < file.next.1 {
            return fail(at, Fault::Order);
        }
        let commit = self.commits.len().saturating_sub(1);
        while old_left > 0 || new_left > 0 {
            let Some((at, line)) = lines.next() else {
                return fail(at, Fault::Short);
            };
            let (sign, text) = match line.split_first() {
                // Some mail programs remove spaces at the end of a line.
                None | Some((b'\r', [])) => (b' ', line),
                Some((sign, text)) => (*sign, text),
            };
            let is_old = matches!(sign, b' ' | b'-');
            let is_new = matches!(sign, b' ' | b'+');
            match sign {
                b'\\' => continue,
                _ if !is_old && !is_new => return fail(at, Fault::Short),
                _ if is_old && old_left == 0 || is_new && new_left == 0 => {
                    return fail(at, Fault::Short);
                }
                b' ' => drop(file.kept.insert(old, essence(text))),
                b'-' => drop(file.removed.insert(old, essence(text))),
                _ => {
                    let added = Added {
                        text: beginning(text),
                        essence: essence(text),
                        commit,
                    };
                    file.added.insert(new, added);
                }
            }
            // numbers() has made sure that these sums are in range.
            (old, old_left) = (old + u32::from(is_old), old_left - u32::from(is_old));
            (new, new_left) = (new + u32::from(is_new), new_left - u32::from(is_new));
        }
        file.next = (old, new);
        Ok(())
    }

    /// Takes the lines away that the input removes elsewhere, or with other white space, and those
    /// without text.
    fn take_moved(&mut self) {
        let mut left: HashMap<&Vec<String>, HashMap<&[u8], usize>> = HashMap::new();
        for (names, essence) in &self.removed {
            let of_file = left.entry(names).or_default();
            *of_file.entry(essence).or_default() += 1;
        }
        fn is_left(left: Option<&mut usize>) -> bool {
            left.filter(|left| **left > 0)
                .map(|left| *left -= 1)
                .is_some()
        }
        // The same file has the first right to a line that it lost.
        for (names, lines) in &mut self.files {
            let mut left = left.get_mut(names);
            lines.retain(|_, line| {
                let left = left.as_mut().and_then(|left| left.get_mut(&*line.essence));
                !is_left(left) && !line.essence.is_empty()
            });
        }
        let mut anywhere: HashMap<&[u8], usize> = HashMap::new();
        for (essence, count) in left.into_values().flatten() {
            *anywhere.entry(essence).or_default() += count;
        }
        for lines in self.files.values_mut() {
            lines.retain(|_, line| !is_left(anywhere.get_mut(&*line.essence)));
        }
    }
}

/// Reads a diff, or mails with diffs.
pub fn read(input: &[u8]) -> Result<Patch, DiffError> {
    let mut reader = Reader::default();
    reader.commits.push(Commit::default());
    // Nothing is behind the last line break.
    let lines = input.strip_suffix(b"\n").unwrap_or(input);
    let lines = lines.split(|byte| *byte == b'\n');
    let mut lines = (1..).zip(lines).peekable();
    let (mut is_header, mut is_subject) = (true, false);
    while let Some((at, line)) = lines.next() {
        if line.starts_with(b"@@ ") || line.starts_with(b"@@@") {
            reader.hunk(line, at, &mut lines)?;
            continue;
        }
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let text = String::from_utf8_lossy(line);
        let fail = |fault| DiffError { line: at, fault };
        if reader.mail(&text) {
            reader.finish()?;
            (is_header, is_subject) = (true, false);
        } else if reader.shown(&text).map_err(fail)? {
            is_header = false;
        } else if line.starts_with(b"diff -") {
            reader.finish()?;
            reader.has_diff = true;
            reader.file = Some(FileDiff {
                at,
                ..FileDiff::default()
            });
        } else if let Some(old) = line.strip_prefix(b"--- ") {
            let next = lines
                .peek()
                .and_then(|(_, next)| next.strip_prefix(b"+++ "));
            let Some(new) = next.map(|next| next.strip_suffix(b"\r").unwrap_or(next)) else {
                continue;
            };
            // A diff without git's line before it.
            let is_begun = |file: &FileDiff| file.next != (0, 0);
            if reader.file.as_ref().is_none_or(is_begun) {
                reader.finish()?;
            }
            let file = reader.file.get_or_insert_default();
            (file.old, file.new) = (name(old).map_err(fail)?, name(new).map_err(fail)?);
            (file.is_bare, file.at) = (false, at);
            reader.has_diff = true;
        } else if let Some(file) = reader.file.as_mut().filter(|file| file.next == (0, 0)) {
            if let Some(from) = line.strip_prefix(b"rename from ") {
                (file.old, file.is_bare) = (name(from).map_err(fail)?, true);
            } else if let Some(to) = line.strip_prefix(b"rename to ") {
                (file.new, file.is_bare) = (name(to).map_err(fail)?, true);
            } else if line.starts_with(b"copy from ") {
                file.is_copy = true;
            }
        } else if reader.is_log && !reader.has_diff && text.starts_with("    ") {
            let commit = reader
                .commits
                .last_mut()
                .filter(|commit| commit.subject.is_empty());
            if let Some(commit) = commit {
                text.trim().clone_into(&mut commit.subject);
            }
        } else if is_header {
            let field = text.strip_prefix("Subject:");
            let folded = Some(&*text).filter(|text| is_subject && text.starts_with([' ', '\t']));
            is_subject = field.is_some() || folded.is_some();
            if let (Some(commit), Some(part)) = (reader.commits.last_mut(), field.or(folded)) {
                commit.subject = format!("{} {}", commit.subject, part.trim());
                commit.subject = subject(&commit.subject).to_owned();
            }
            is_header = !text.is_empty();
        }
    }
    reader.finish()?;
    if !reader.has_diff && !input.trim_ascii().is_empty() {
        let fault = Fault::NoDiff;
        return Err(DiffError { line: 1, fault });
    }
    reader.take_moved();
    let files = reader.files.into_iter().map(|(names, lines)| {
        let lines = lines.into_iter().map(|(number, line)| Line {
            number,
            text: line.text,
            commit: line.commit,
        });
        Changed {
            names,
            lines: lines.collect(),
        }
    });
    Ok(Patch {
        commits: reader.commits,
        files: files.filter(|file| !file.lines.is_empty()).collect(),
    })
}

#[cfg(test)]
mod tests;
