// SPDX-License-Identifier: GPL-2.0

//! The calls that have led to a record: in the record they are addresses, and what is written of it has their names.
//!
//! A recording has what names them: the kernel's functions as it began, and what processes mapped then and at its end.

#![deny(unsafe_code)]

use std::fmt::Write;
use std::fs;
use std::path::Path;

use super::field::Field;
use super::format::Format;
use super::source::Event;
use crate::directory::Directory;
use crate::probes::symbols::Symbols;

/// The file with the kernel's functions.
pub const KALLSYMS: &str = "kallsyms";

/// The file with what processes mapped.
pub const MAPS: &str = "maps";

/// Between calls, the outermost first.
pub const BETWEEN: char = ';';

/// The most bytes of these files: a kernel has some 200,000 functions.
pub const MOST: u64 = 256 << 20;

/// Reads the names of a recording's calls; without the files there are only numbers.
pub fn names(dir: &Directory) -> Symbols {
    let read = |name| {
        let bytes = dir.read(name, MOST).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    };
    Symbols::recorded(&read(KALLSYMS), &read(MAPS))
}

/// Puts the names of calls in place of their addresses, as text. The description says what the record is then.
pub fn name(event: &mut Event, format: &Format, symbols: &Symbols) {
    let Some(at) = format.calls else {
        return;
    };
    let number = |field: &Field| super::field::signed(field.bytes(&event.bytes));
    let pid = format
        .fields
        .iter()
        .find(|field| field.name == "pid")
        .and_then(number);
    let pid = pid.and_then(|pid| i32::try_from(pid).ok()).unwrap_or(0);
    let bytes = event.bytes.get(at..).unwrap_or_default();
    let words = bytes.chunks_exact(8).filter_map(|word| word.first_chunk());
    let calls: Vec<_> = words.map(|word| u64::from_ne_bytes(*word)).collect();
    let (user, kernel): (Vec<u64>, Vec<u64>) = calls.into_iter().partition(|call| call >> 63 == 0);
    let mut text = String::new();
    for call in user.iter().rev().chain(kernel.iter().rev()) {
        if !text.is_empty() {
            text.push(BETWEEN);
        }
        text.push_str(&symbols.function(*call, pid));
    }
    event.bytes.truncate(at);
    event.bytes.extend(text.bytes());
}

/// Returns the executable mappings of all processes: a line with their threads, and one line for
/// each mapping.
pub fn processes() -> String {
    let numbers = |path: &Path| {
        let entries = fs::read_dir(path).into_iter().flatten().flatten();
        let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
        names
            .filter(|name| name.bytes().all(|byte| byte.is_ascii_digit()))
            .collect::<Vec<_>>()
    };
    let mut text = String::new();
    for process in numbers(Path::new("/proc")) {
        let dir = Path::new("/proc").join(process);
        // It may have gone.
        let maps = fs::read(dir.join("maps")).unwrap_or_default();
        let maps = String::from_utf8_lossy(&maps);
        let parts: Vec<_> = maps
            .lines()
            .filter(|line| line.contains("r-xp") && line.contains('/'))
            .collect();
        if !parts.is_empty() {
            // Writing to a string does not fail.
            let _ = writeln!(text, "threads {}", numbers(&dir.join("task")).join(" "));
            let _ = writeln!(text, "{}", parts.join("\n"));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::format::TypedFormats;
    use super::*;

    #[test]
    fn calls_get_names() {
        let text = "name: p\nID: 1\nfield:s32 pid;offset:0;size:4;signed:1;\nfield:u64 stack[];offset:8;size:0;\n";
        let formats = TypedFormats::parse(text).unwrap();
        let format = formats.get(1).unwrap();
        assert_eq!(format.calls, Some(8));
        let mut bytes = 7_i32.to_ne_bytes().to_vec();
        bytes.extend([0; 4]);
        for call in [0xffff_ffff_8100_0204_u64, 0xffff_ffff_8100_0100, 0x1010, 5] {
            bytes.extend(call.to_ne_bytes());
        }
        let mut event = Event {
            time: 1,
            timed: true,
            cpu: 0,
            ty: 1,
            bytes,
        };
        let symbols = Symbols::recorded(
            "ffffffff81000100 T a\nffffffff81000200 t b\n",
            "threads 6\n1000-2000 r-xp 0 00:00 1 /six\nthreads 7 8\n1000-2000 r-xp 3000 00:00 1 /nonexistent/prog\n",
        );
        name(&mut event, format, &symbols);
        assert_eq!(event.bytes[8..], *b"0x5;0x3010 [prog];a;b");
        // Nothing to name.
        event.bytes.truncate(8);
        name(&mut event, format, &symbols);
        assert_eq!(event.bytes.len(), 8);
    }

    #[test]
    fn of_this_machine() {
        let own = format!("{}", std::process::id());
        let text = processes();
        let has = |line: &str| line.split(' ').any(|word| word == own);
        assert!(
            text.lines()
                .filter(|line| line.starts_with("threads "))
                .any(has),
            "{text}"
        );
    }
}
