// SPDX-License-Identifier: GPL-2.0

//! Coverage of a patch as text, as Markdown for a mail or a merge request, and as JSON.
//!
//! Names and texts are those of a repository, where anyone may have written them.

#![deny(unsafe_code)]

// Writing to a string does not fail.
use std::fmt::Write;

use serde::Serialize;

use super::super::coverage::Share;
use super::super::print::ShareDocument;
use super::super::print::Table;
use super::super::print::fraction;
use super::super::print::percent;
use super::Commit;
use super::judge::Judgement;
use super::judge::Missed;
use super::judge::NewFunction;
use super::judge::Row;
use crate::text::printable;

/// Characters of a hash that tell commits of a large repository apart.
const SHORT: usize = 12;

/// Returns a name of a commit, which a diff may lack.
fn short(commit: Option<&Commit>) -> &str {
    let id = commit.and_then(|commit| commit.id.as_deref());
    id.map_or("-", |id| id.get(..SHORT).unwrap_or(id))
}

/// Returns the name of a new function, of which a macro may have made several.
fn name(function: &NewFunction) -> String {
    match &function.names[..] {
        [name] => name.clone(),
        [name, others @ ..] => format!("{name} and {} more", others.len()),
        [] => String::new(),
    }
}

/// Text between backticks, in which nothing is markup.
fn code(text: &str) -> String {
    let text = printable(text);
    let mut longest = 0;
    for run in text.split(|c| c != '`') {
        longest = run.len().max(longest);
    }
    let fence = "`".repeat(longest + 1);
    match longest {
        0 if text.is_empty() => String::new(),
        0 => format!("{fence}{text}{fence}"),
        _ => format!("{fence} {text} {fence}"),
    }
}

/// The same in a cell of a table, which a vertical line would end.
fn cell(text: &str) -> String {
    code(text).replace('|', "\\|")
}

/// Counts of a noun.
fn count(number: usize, one: &str, several: &str) -> String {
    match number {
        1 => format!("1 {one}"),
        _ => format!("{number} {several}"),
    }
}

/// A limit of rows and ranges.
struct Limit(usize);

impl Limit {
    /// Returns the items that are shown, and the line about the others.
    fn of<'a, T>(&self, all: &'a [T], noun: &str) -> (&'a [T], Option<String>) {
        match all.get(..self.0) {
            Some(first) if first.len() < all.len() => {
                let more = all.len() - first.len();
                (first, Some(format!("and {more} more {noun}")))
            }
            _ => (all, None),
        }
    }
}

impl Judgement {
    fn commit(&self, index: usize) -> Option<&Commit> {
        self.commits.get(index)
    }

    /// Returns the result in a sentence.
    fn summary(&self) -> String {
        let (lines, functions) = (self.lines(), self.functions());
        if lines.total == 0 {
            return "nothing to judge: no new line has code in the coverage".to_owned();
        }
        let mut text = format!(
            "{} of the new lines with code were executed",
            percent(lines)
        );
        let _ = write!(text, " ({})", fraction(lines));
        if functions.total > 0 {
            let _ = write!(text, ", and {} of the new functions", fraction(functions));
        }
        text
    }

    /// Returns the reason if the patch does not fulfil conditions: a share of its lines, in tenths of a
    /// percent, and all of its functions.
    pub fn failure(&self, lines: Option<usize>, functions: bool) -> Option<String> {
        let share = self.lines();
        let too_few = lines.filter(|least| share.permille() < *least).map(|least| {
            let least = match least % 10 {
                0 => (least / 10).to_string(),
                tenths => format!("{}.{tenths}", least / 10),
            };
            let (percent, fraction) = (percent(share), fraction(share));
            format!("{percent} of the new lines with code were executed ({fraction}), less than {least}%")
        });
        let missed: Vec<_> = self.missed_functions().filter(|_| functions).collect();
        let (first, more) = Limit(3).of(&missed, "");
        let first = first.iter().map(|one| {
            let name = name(one);
            format!(
                "{} ({}:{})",
                printable(&name),
                printable(&one.file),
                one.line
            )
        });
        let names = first.collect::<Vec<_>>().join(", ");
        let more = more.map(|more| format!(" {}", more.trim_end()));
        let not_called = (!missed.is_empty()).then(|| {
            let count = count(missed.len(), "new function was", "new functions were");
            format!("{count} not executed: {names}{}", more.unwrap_or_default())
        });
        let reasons: Vec<_> = too_few.into_iter().chain(not_called).collect();
        (!reasons.is_empty()).then(|| reasons.join("; "))
    }

    /// Returns the files that may be several ones, a line each.
    pub fn unclear(&self) -> Option<String> {
        let (first, more) = Limit(5).of(&self.unclear, "such files");
        let lines = first
            .iter()
            .map(|line| printable(line).into_owned())
            .chain(more);
        (!first.is_empty()).then(|| lines.collect::<Vec<_>>().join("\n"))
    }

    /// Returns all missed ranges, each with its row.
    fn missed(&self) -> Vec<(&Row, &Missed)> {
        let rows = self.rows.iter();
        rows.flat_map(|row| row.missed.iter().map(move |missed| (row, missed)))
            .collect()
    }

    /// Returns the line about files that the coverage does not have.
    fn unknown(&self, limit: &Limit, show: impl Fn(&str) -> String) -> Option<String> {
        let (shown, more) = limit.of(&self.unknown, "files");
        let names: Vec<_> = shown.iter().map(|name| show(name)).collect();
        let (names, more) = (names.join(", "), more.map(|more| format!(" {more}")));
        let more = more.unwrap_or_default();
        (!shown.is_empty())
            .then(|| format!("not in the coverage (no code, or not compiled): {names}{more}"))
    }

    /// Returns the text for people, with at most `top` rows and ranges.
    pub fn text(&self, top: Option<usize>) -> String {
        let limit = Limit(top.unwrap_or(usize::MAX));
        let mut text = String::new();
        let mut table = vec![["lines", "", "commit", "file"].map(str::to_owned)];
        let (rows, more) = limit.of(&self.rows, "rows");
        for row in rows {
            table.push([
                fraction(row.lines),
                percent(row.lines),
                short(self.commit(row.commit)).to_owned(),
                printable(&row.file).into_owned(),
            ]);
        }
        if !rows.is_empty() {
            text.push_str(&Table(table).text());
        }
        let line = |line: String| line + "\n";
        text.extend(more.map(line));
        text.push_str(&line(self.summary()));
        text.extend(
            self.unknown(&limit, |name| printable(name).into_owned())
                .map(line),
        );
        let functions: Vec<_> = self.missed_functions().collect();
        if !functions.is_empty() {
            text.push_str("\nnew functions that were not executed:\n");
        }
        let (shown, more) = limit.of(&functions, "functions");
        for one in shown {
            let name = name(one);
            let (name, file) = (printable(&name), printable(&one.file));
            let _ = writeln!(text, "  {name} ({file}:{})", one.line);
        }
        text.extend(more.map(line));
        let missed = self.missed();
        let (shown, more) = limit.of(&missed, "ranges");
        let mut commit = None;
        let mut file = None;
        for (row, missed) in shown {
            if commit.replace(row.commit) != Some(row.commit) {
                let subject = self.commit(row.commit).map_or("", |commit| &commit.subject);
                let subject = printable(subject);
                let heading = match (short(self.commit(row.commit)), &*subject) {
                    ("-", "") => "\nnot executed:".to_owned(),
                    ("-", subject) => format!("\nnot executed of \"{subject}\":"),
                    (id, subject) => format!("\nnot executed of {id} \"{subject}\":"),
                };
                text.push_str(&line(heading));
                file = None;
            }
            if file.replace(&row.file) != Some(&row.file) {
                let _ = writeln!(text, "  {}", printable(&row.file));
            }
            for (number, source) in (missed.first..).zip(&missed.texts) {
                text.push_str(&line(source_line(8, number, source)));
            }
        }
        text.extend(more.map(line));
        text
    }

    /// Returns Markdown, with at most `top` rows and ranges.
    pub fn markdown(&self, top: Option<usize>) -> String {
        let limit = Limit(top.unwrap_or(usize::MAX));
        let mut text = format!("**Coverage of the patch:** {}.\n", self.summary());
        let (rows, more) = limit.of(&self.rows, "rows");
        if !rows.is_empty() {
            text.push_str("\n| lines | | commit | file |\n|--:|--:|---|---|\n");
        }
        for row in rows {
            let commit = self.commit(row.commit);
            let subject = cell(commit.map_or("", |commit| &commit.subject));
            let _ = writeln!(
                text,
                "| {} | {} | {} {subject} | {} |",
                fraction(row.lines),
                percent(row.lines),
                short(commit),
                cell(&row.file)
            );
        }
        for line in more.into_iter().chain(self.unknown(&limit, code)) {
            let _ = writeln!(text, "\n{line}");
        }
        let functions: Vec<_> = self.missed_functions().collect();
        if !functions.is_empty() {
            text.push_str("\nNew functions that were not executed:\n\n");
        }
        let (shown, more) = limit.of(&functions, "functions");
        for one in shown {
            let place = format!("{}:{}", one.file, one.line);
            let _ = writeln!(text, "- {} ({})", code(&name(one)), code(&place));
        }
        text.extend(more.map(|more| format!("- {more}\n")));
        let missed = self.missed();
        let (shown, more) = limit.of(&missed, "ranges");
        let mut file = None;
        let mut fence: Option<String> = None;
        for (row, missed) in shown {
            let key = (row.commit, &row.file);
            if file.replace(key) != Some(key) {
                if let Some(fence) = fence.take() {
                    let _ = writeln!(text, "{fence}");
                }
                let of = short(self.commit(row.commit));
                let _ = writeln!(text, "\nNot executed in {} ({of}):\n", code(&row.file));
                let texts = row.missed.iter().flat_map(|missed| &missed.texts);
                let runs = texts
                    .flat_map(|text| text.split(|c| c != '`'))
                    .map(str::len);
                let length = runs.max().unwrap_or(0).max(2) + 1;
                let own = "`".repeat(length);
                let _ = writeln!(text, "{own}text");
                fence = Some(own);
            }
            for (number, source) in (missed.first..).zip(&missed.texts) {
                let _ = writeln!(text, "{}", source_line(6, number, source));
            }
        }
        for line in fence.into_iter().chain(more) {
            let _ = writeln!(text, "{line}");
        }
        text
    }

    /// Returns one JSON document, with the reason if the patch fails a condition.
    pub fn json(&self, failed: Option<&str>) -> serde_json::Result<String> {
        // Both are in the order of commits.
        let mut rows = self.rows.iter().peekable();
        let mut functions = self.functions.iter().peekable();
        let commits = self.commits.iter().zip(0..);
        let commits = commits.filter_map(|(commit, index)| {
            let rows = std::iter::from_fn(|| rows.next_if(|row| row.commit == index));
            let rows: Vec<_> = rows.collect();
            let functions = std::iter::from_fn(|| functions.next_if(|one| one.commit == index));
            let mut lines = Share::default();
            rows.iter().for_each(|row| lines.add(row.lines));
            let document = CommitDocument {
                commit: commit.id.as_deref(),
                subject: &commit.subject,
                lines: lines.into(),
                files: rows.into_iter().map(FileDocument::from).collect(),
                functions: functions.map(FunctionDocument::from).collect(),
            };
            let is_empty = document.files.is_empty() && document.functions.is_empty();
            (!is_empty).then_some(document)
        });
        let document = Document {
            lines: self.lines().into(),
            functions: self.functions().into(),
            commits: commits.collect(),
            unknown_files: &self.unknown,
            left_out: &self.unclear,
            remarks: &self.remarks,
            failed,
        };
        Ok(format!("{}\n", serde_json::to_string_pretty(&document)?))
    }
}

/// Returns a line of source with its number. Tabulators stay.
fn source_line(width: usize, number: u32, text: &str) -> String {
    let parts: Vec<_> = text.split('\t').map(printable).collect();
    let text = format!("{number:>width$}  {}", parts.join("\t"));
    text.trim_end().to_owned()
}

#[derive(Serialize)]
struct RangeDocument {
    first: u32,
    last: u32,
}

#[derive(Serialize)]
struct FileDocument<'a> {
    file: &'a str,
    lines: ShareDocument,
    missed: Vec<RangeDocument>,
}

impl<'a> From<&'a Row> for FileDocument<'a> {
    fn from(row: &'a Row) -> Self {
        let missed = row.missed.iter().map(|missed| {
            let more = u32::try_from(missed.texts.len().saturating_sub(1));
            RangeDocument {
                first: missed.first,
                last: missed.first.saturating_add(more.unwrap_or(u32::MAX)),
            }
        });
        Self {
            file: &row.file,
            lines: row.lines.into(),
            missed: missed.collect(),
        }
    }
}

#[derive(Serialize)]
struct FunctionDocument<'a> {
    names: &'a [String],
    file: &'a str,
    line: u32,
    executed: bool,
}

impl<'a> From<&'a NewFunction> for FunctionDocument<'a> {
    fn from(function: &'a NewFunction) -> Self {
        Self {
            names: &function.names,
            file: &function.file,
            line: function.line,
            executed: function.is_executed,
        }
    }
}

#[derive(Serialize)]
struct CommitDocument<'a> {
    commit: Option<&'a str>,
    subject: &'a str,
    lines: ShareDocument,
    files: Vec<FileDocument<'a>>,
    functions: Vec<FunctionDocument<'a>>,
}

#[derive(Serialize)]
struct Document<'a> {
    lines: ShareDocument,
    functions: ShareDocument,
    commits: Vec<CommitDocument<'a>>,
    unknown_files: &'a [String],
    left_out: &'a [String],
    remarks: &'a [String],
    failed: Option<&'a str>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judgement() -> Judgement {
        let missed = |first, texts: &[&str]| Missed {
            first,
            texts: texts.iter().map(|text| (*text).to_owned()).collect(),
        };
        let row = |commit, file: &str, hit, missed: Vec<Missed>| Row {
            commit,
            file: file.to_owned(),
            lines: Share { hit, total: 5 },
            missed,
        };
        let function = |name: &str, is_executed| NewFunction {
            names: vec![name.to_owned(), "other".to_owned()],
            commit: 0,
            file: "fs/a.c".to_owned(),
            line: 7,
            is_executed,
        };
        Judgement {
            commits: vec![
                Commit {
                    id: Some("0123456789abcdef".repeat(3)),
                    subject: "fs: `add` | \x1b[2J".to_owned(),
                },
                Commit::default(),
            ],
            rows: vec![
                row(
                    0,
                    "fs/a.c",
                    2,
                    vec![missed(3, &["if (x)", "", "\tf();"]), missed(9, &["```"])],
                ),
                row(1, "-\n.c", 5, Vec::new()),
                row(1, "b.c", 4, vec![missed(1, &["\x1bx"])]),
            ],
            functions: vec![function("f", true), function("g", false)],
            unknown: vec!["x|y.c".to_owned()],
            ..Judgement::default()
        }
    }

    #[test]
    fn for_people() {
        let expected = "\
lines                commit  file
  2/5   40.0%  0123456789ab  fs/a.c
  5/5  100.0%             -  -\\n.c
  4/5   80.0%             -  b.c
73.3% of the new lines with code were executed (11/15), and 1/2 of the new functions
not in the coverage (no code, or not compiled): x|y.c

new functions that were not executed:
  g and 1 more (fs/a.c:7)

not executed of 0123456789ab \"fs: `add` | \\u001b[2J\":
  fs/a.c
       3  if (x)
       4
       5  \tf();
       9  ```

not executed:
  b.c
       1  \\u001bx
";
        assert_eq!(judgement().text(None), expected);
        let few = judgement().text(Some(1));
        for part in ["and 2 more rows\n", "5  \tf();\nand 2 more ranges\n"] {
            assert!(few.contains(part), "{few}");
        }
    }

    #[test]
    fn for_a_mail() {
        let expected = "\
**Coverage of the patch:** 73.3% of the new lines with code were executed (11/15), and 1/2 of the new functions.

| lines | | commit | file |
|--:|--:|---|---|
| 2/5 | 40.0% | 0123456789ab `` fs: `add` \\| \\u001b[2J `` | `fs/a.c` |
| 5/5 | 100.0% | -  | `-\\n.c` |
| 4/5 | 80.0% | -  | `b.c` |

not in the coverage (no code, or not compiled): `x|y.c`

New functions that were not executed:

- `g and 1 more` (`fs/a.c:7`)

Not executed in `fs/a.c` (0123456789ab):

````text
     3  if (x)
     4
     5  \tf();
     9  ```
````

Not executed in `b.c` (-):

```text
     1  \\u001bx
```
";
        assert_eq!(judgement().markdown(None), expected);
        let few = judgement().markdown(Some(1));
        assert!(few.ends_with("\tf();\n````\nand 2 more ranges\n"), "{few}");
    }

    #[test]
    fn for_programs() {
        let document = judgement().json(Some("reason")).unwrap();
        let document: serde_json::Value = serde_json::from_str(&document).unwrap();
        assert_eq!(document["lines"]["hit"], 11);
        assert_eq!(document["functions"]["total"], 2);
        let first = &document["commits"][0];
        assert_eq!(
            first["files"][0]["missed"][0],
            serde_json::json!({"first": 3, "last": 5})
        );
        assert_eq!(first["functions"][1]["names"][0], "g");
        assert_eq!(document["commits"][1]["commit"], serde_json::Value::Null);
        assert_eq!(document["failed"], "reason");
    }

    #[test]
    fn conditions() {
        let judged = judgement();
        assert_eq!(judged.failure(None, false), None);
        assert_eq!(judged.failure(Some(733), false), None);
        let reason = judged.failure(Some(734), true).unwrap();
        assert_eq!(
            reason,
            "73.3% of the new lines with code were executed (11/15), less than 73.4%; 1 new function was not \
             executed: g and 1 more (fs/a.c:7)"
        );
        let nothing = Judgement::default();
        assert_eq!(nothing.failure(Some(1000), true), None);
        assert!(nothing.text(None).starts_with("nothing to judge"));
    }
}
