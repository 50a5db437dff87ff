// SPDX-License-Identifier: GPL-2.0

//! The description of an event of tracefs, as a recording has it.

#![deny(unsafe_code)]

use thiserror::Error;

use crate::merge::format::FormatError;
use crate::merge::format::TypedFormats;

/// Why the kernel's description of an event is of no use.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum DescriptionError {
    /// It is not the description of an event.
    #[error("not a description with a name, an ID and fields")]
    None,
    /// It contradicts itself.
    #[error(transparent)]
    Format(#[from] FormatError),
}

/// Fields that each event has before its own; the thread is shown, the others are left out.
const COMMON: &str = "common_";
const THREAD: &str = "common_pid";

/// Names that mean something for a record as a whole.
const TAKEN: [&str; 2] = ["time", "cpu"];

/// An event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Description {
    /// The number in its records.
    pub id: u16,
    /// Its name, number and fields.
    pub text: String,
}

/// The name that a declaration declares, and where it begins.
fn name(declaration: &str) -> Option<(usize, &str)> {
    let plain = declaration.split('[').next()?.trim_end();
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let at = plain.trim_end_matches(is_name).len();
    Some((at, plain.get(at..)?)).filter(|(_, name)| !name.is_empty())
}

/// The name in `__data_loc char[] NAME`.
fn location(declaration: &str) -> Option<&str> {
    let is_location = declaration.starts_with("__data_loc") || declaration.starts_with("__rel_loc");
    is_location.then(|| declaration.rsplit(' ').next())?
}

/// The bytes of a number, from the name of its type.
fn size_of(ty: &str) -> Option<usize> {
    match ty.trim().trim_start_matches("unsigned ") {
        "u8" | "s8" | "x8" => Some(1),
        "u16" | "s16" | "x16" | "short" => Some(2),
        "u32" | "s32" | "x32" | "int" => Some(4),
        "u64" | "s64" | "x64" | "long" => Some(8),
        _ => None,
    }
}

/// The value of `key` in the rest of a field.
fn number(rest: &str, key: &str) -> Option<usize> {
    let mut parts = rest.split(';').map(str::trim);
    parts.find_map(|part| part.strip_prefix(key)?.parse().ok())
}

/// Lines for a field of the new name, whose declaration has it between `before` and `after`.
///
/// The kernel leaves the number of elements of arrays of probes out, has several places for an
/// array of texts, and for a text of a synthetic event a place in a word of 8 bytes.
fn field_lines(before: &str, name: &str, after: &str, rest: &str) -> Option<String> {
    let (offset, size) = (number(rest, "offset:")?, number(rest, "size:")?);
    if before.starts_with("__data_loc") && (size > 4 || before.contains("[][")) {
        let place = |at: usize, name: String| {
            format!("\tfield:__data_loc char[] {name};\toffset:{at};\tsize:4;\tsigned:0;\n")
        };
        if before.trim_end().ends_with("[]") {
            return (size == 8).then(|| place(offset, name.to_owned()));
        }
        let all = (0..size / 4).map(|index| Some((offset.checked_add(4 * index)?, index)));
        return all
            .map(|at| at.map(|(at, index)| place(at, format!("{name}_{index}"))))
            .collect();
    }
    let count = size_of(before).filter(|_| after == "[]" && size > 0);
    let after = match count {
        Some(element) => format!("[{}]", size / element),
        None => after.to_owned(),
    };
    Some(format!("\tfield:{before}{name}{after};{rest}\n"))
}

/// Translates the kernel's text into one that those who read the recording understand.
pub fn describe(text: &str) -> Result<Description, DescriptionError> {
    let description = translate(text).ok_or(DescriptionError::None)?;
    TypedFormats::parse(&description.text)?;
    Ok(description)
}

fn translate(text: &str) -> Option<Description> {
    let mut lines = text.lines();
    let mut value = |key: &str| lines.find_map(|line| line.strip_prefix(key)).map(str::trim);
    let event = value("name:")?;
    let id = value("ID:")?.parse().ok()?;
    let fields = text
        .lines()
        .filter_map(|line| line.trim().strip_prefix("field:"));
    let names: Vec<_> = fields
        .clone()
        .filter_map(|field| name(field.split(';').next()?))
        .collect();
    let has_own_pid = names.iter().any(|(_, name)| *name == "pid");
    let mut out = format!("name: {event}\nID: {id}\nformat:\n");
    for field in fields {
        let (declaration, rest) = field.split_once(';')?;
        let declared = match location(declaration) {
            Some(name) => Some((declaration.len() - name.len(), name)),
            None => name(declaration),
        };
        let (at, name) = declared?;
        let new = match name {
            THREAD if has_own_pid => THREAD.to_owned(),
            THREAD => "pid".to_owned(),
            _ if name.starts_with(COMMON) => continue,
            _ if TAKEN.contains(&name) => format!("{name}_"),
            _ => name.to_owned(),
        };
        let (before, after) = (declaration.get(..at)?, declaration.get(at + name.len()..)?);
        match field_lines(before, &new, after, rest) {
            Some(lines) => out.push_str(&lines),
            // The reader tells the fault.
            None => out.push_str(&format!("\tfield:{before}{new}{after};{rest}\n")),
        }
    }
    out.push('\n');
    Some(Description { id, text: out })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::merge::value::Value;

    const EXEC: &str = "\
name: sched_process_exec
ID: 301
format:
	field:unsigned short common_type;	offset:0;	size:2;	signed:0;
	field:unsigned char common_flags;	offset:2;	size:1;	signed:0;
	field:unsigned char common_preempt_count;	offset:3;	size:1;	signed:0;
	field:int common_pid;	offset:4;	size:4;	signed:1;

	field:__data_loc char[] filename;	offset:8;	size:4;	signed:0;
	field:pid_t pid;	offset:12;	size:4;	signed:1;
	field:u64 time;	offset:16;	size:8;	signed:0;
	field:char comm[16];	offset:24;	size:16;	signed:0;

print fmt: \"filename=%s\", __get_str(filename)
";

    #[test]
    fn descriptions() {
        let exec = translate(EXEC).unwrap();
        assert_eq!(exec.id, 301);
        let formats = TypedFormats::parse(&exec.text).unwrap();
        let format = formats.get(301).unwrap();
        let names: Vec<_> = format
            .fields
            .iter()
            .map(|field| field.name.as_str())
            .collect();
        assert_eq!(names, ["common_pid", "filename", "pid", "time_", "comm"]);
        let mut record = vec![0; 40];
        record[8..12].copy_from_slice(&(40_u32 | 5 << 16).to_le_bytes());
        record[24..27].copy_from_slice(b"cat");
        record.extend(b"/bin\0");
        let values: Vec<_> = format
            .fields
            .iter()
            .map(|field| Value::new(field, &record).to_string())
            .collect();
        assert_eq!(values, ["0", "/bin", "0", "0", "cat"]);
        // A place that is not in the record.
        record[8] = 200;
        assert_eq!(Value::new(&format.fields[1], &record).to_string(), "");
        // Without a thread of its own an event has that it ran in.
        let other = translate(&EXEC.replace("pid_t pid", "pid_t parent")).unwrap();
        assert!(
            other.text.contains("field:int pid;\toffset:4;"),
            "{}",
            other.text
        );
        assert_eq!(translate("name: x\n"), None);
        assert_eq!(describe("name: x\n"), Err(DescriptionError::None));
    }

    /// As `kprobe_events` and synthetic events have them.
    #[test]
    fn arrays_and_texts_of_probes() {
        let text = EXEC.replace(
            "\tfield:pid_t pid;",
            "\tfield:u16 a[];\toffset:40;\tsize:8;\tsigned:0;\n\
             \tfield:__data_loc char[][2] s;\toffset:48;\tsize:8;\tsigned:0;\n\
             \tfield:__data_loc char[] t;\toffset:56;\tsize:8;\tsigned:1;\n\
             \tfield:__data_loc char[][1] u;\toffset:64;\tsize:4;\tsigned:0;\n\
             \tfield:pid_t pid;",
        );
        let description = describe(&text).unwrap();
        let formats = TypedFormats::parse(&description.text).unwrap();
        let fields = &formats.get(301).unwrap().fields;
        let mut record = vec![0; 68];
        for (at, word) in [
            (40, 7_u32 | 8 << 16),
            (48, 68 | 3 << 16),
            (52, 71 | 2 << 16),
            (56, 73 | 2 << 16),
            (64, 75 | 2 << 16),
        ] {
            record[at..at + 4].copy_from_slice(&word.to_le_bytes());
        }
        record.extend(b"ab\0c\0d\0e\0");
        let value = |name: &str| {
            let field = fields.iter().find(|field| field.name == name).unwrap();
            Value::new(field, &record).to_string()
        };
        let values = ["a", "s_0", "s_1", "t", "u_0"].map(value);
        assert_eq!(values, ["{7,8,0,0}", "ab", "c", "d", "e"]);
    }

    #[test]
    fn odd_descriptions() {
        assert_eq!(describe(EXEC), Ok(translate(EXEC).unwrap()));
        let odd = |from: &str, to: &str| match describe(&EXEC.replace(from, to)) {
            Err(DescriptionError::Format(error)) => error.to_string(),
            other => panic!("{other:?}"),
        };
        assert_eq!(
            odd("offset:12", "offset:9"),
            "fields filename and pid overlap"
        );
        assert_eq!(
            odd("pid_t pid", "pid_t filename"),
            "field filename is described twice"
        );
        assert!(odd("offset:24", "offset:x").contains("offset, size or signed is no number"));
    }
}
