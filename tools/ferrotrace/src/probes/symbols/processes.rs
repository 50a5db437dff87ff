// SPDX-License-Identifier: GPL-2.0

//! Functions of user space: which file a process has at an address, and which function of the file that is.

#![deny(unsafe_code)]

use std::collections::HashMap;
use std::fmt;
use std::fs;
use std::path::Path;
use std::path::PathBuf;
use std::time::Duration;
use std::time::Instant;

use blazesym::symbolize::Input;
use blazesym::symbolize::Symbolizer;
use blazesym::symbolize::source::Elf;
use blazesym::symbolize::source::Source;

/// How long what a process maps is taken to be the same: it may execute another program.
const FRESH: Duration = Duration::from_millis(100);

/// The most names that are kept.
const NAMES_MAX: usize = 1 << 16;

/// A part of a file in a process.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Mapping {
    begin: u64,
    end: u64,
    offset: u64,
    path: PathBuf,
}

#[derive(Debug)]
struct Process {
    read: Instant,
    mappings: Vec<Mapping>,
}

/// What is known of processes.
#[derive(Default)]
pub(super) struct Processes {
    known: HashMap<i32, Process>,
    names: HashMap<(PathBuf, u64), String>,
    symbolizer: Option<Symbolizer>,
    /// Whether they are those of a recording, rather than of this machine now.
    are_recorded: bool,
}

impl fmt::Debug for Processes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Processes")
            .field("known", &self.known)
            .finish_non_exhaustive()
    }
}

/// What `/proc/PID/maps` says is executable, and from a file.
fn parse(maps: &str) -> Vec<Mapping> {
    let lines = maps.lines().filter_map(|line| {
        let mut words = line.splitn(6, ' ');
        let (begin, end) = words.next()?.split_once('-')?;
        words.next()?.contains('x').then_some(())?;
        let number = |text: &str| u64::from_str_radix(text, 16).ok();
        let offset = number(words.next()?)?;
        let path = words.nth(2)?.trim_start();
        path.starts_with('/').then_some(())?;
        Some(Mapping {
            begin: number(begin)?,
            end: number(end)?,
            offset,
            path: path.into(),
        })
    });
    lines.collect()
}

impl Processes {
    /// Those of a recording: lines `threads NUMBER...`, each with lines of `/proc/PID/maps` behind it. The last of a thread counts.
    pub(super) fn recorded(text: &str) -> Self {
        let mut known = HashMap::new();
        for process in text.split("threads ").skip(1) {
            let (threads, maps) = process.split_once('\n').unwrap_or((process, ""));
            let mappings = parse(maps);
            let threads = threads.split(' ').filter_map(|thread| thread.parse().ok());
            known.extend(threads.map(|thread| {
                let read = Instant::now();
                let mappings = mappings.clone();
                (thread, Process { read, mappings })
            }));
        }
        Self {
            known,
            are_recorded: true,
            ..Self::default()
        }
    }

    /// `FUNCTION+0xOFFSET [FILE]` of an address of a thread; what is not known is left out.
    pub(super) fn describe(&mut self, address: u64, pid: i32) -> String {
        let Some((path, offset)) = self.place(address, pid) else {
            return format!("{address:#x}");
        };
        if let Some(name) = self.names.get(&(path.clone(), offset)) {
            return name.clone();
        }
        let file = path.file_name().unwrap_or_default().to_string_lossy();
        let name = match self.function(&path, offset) {
            Some((name, inside)) => format!("{name}+{inside:#x} [{file}]"),
            None => format!("{offset:#x} [{file}]"),
        };
        if self.names.len() == NAMES_MAX {
            self.names.clear();
        }
        self.names.insert((path, offset), name.clone());
        name
    }

    /// The file that the thread has at an address, and where in the file that is.
    fn place(&mut self, address: u64, pid: i32) -> Option<(PathBuf, u64)> {
        let is_fresh = |known: &Process| known.read.elapsed() < FRESH;
        if !self.are_recorded && !self.known.get(&pid).is_some_and(is_fresh) {
            // Those of a process that has gone are kept.
            if let Ok(maps) = fs::read_to_string(format!("/proc/{pid}/maps")) {
                let read = Instant::now();
                let mappings = parse(&maps);
                self.known.insert(pid, Process { read, mappings });
            }
        }
        let mut all = self.known.get(&pid)?.mappings.iter();
        let found = all.find(|part| (part.begin..part.end).contains(&address))?;
        let offset = found.offset.checked_add(address - found.begin)?;
        Some((found.path.clone(), offset))
    }

    fn function(&mut self, path: &Path, offset: u64) -> Option<(String, usize)> {
        let symbolizer = self.symbolizer.get_or_insert_with(Symbolizer::new);
        let source = Source::Elf(Elf::new(path));
        let found = symbolizer.symbolize_single(&source, Input::FileOffset(offset));
        let symbol = found.ok()?.into_sym()?;
        Some((symbol.name.into_owned(), symbol.offset))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn maps_of_a_process() {
        let maps = "\
55d0c0a00000-55d0c0a2e000 r--p 00000000 fe:01 1183 /usr/bin/bash
55d0c0a2e000-55d0c0ae9000 r-xp 0002e000 fe:01 1183                       /usr/bin/a b
7ffc1b9f5000-7ffc1b9f7000 r-xp 00000000 00:00 0                          [vdso]
7ffc1b9f8000-7ffc1b9f9000 r-xp 00000000 00:00 0
x
";
        let parts = parse(maps);
        let [part] = &parts[..] else {
            panic!("{parts:?}");
        };
        assert_eq!((part.begin, part.offset), (0x55d0_c0a2_e000, 0x2e000));
        assert_eq!(part.path, Path::new("/usr/bin/a b"));
    }

    #[inline(never)]
    fn some_function() -> u64 {
        let address: fn() -> u64 = some_function;
        // As text has it.
        let text = format!("{address:p}");
        u64::from_str_radix(text.trim_start_matches("0x"), 16).unwrap()
    }

    #[test]
    fn functions_of_this_process() {
        let own = i32::try_from(std::process::id()).unwrap();
        let mut processes = Processes::default();
        let name = processes.describe(some_function() + 1, own);
        let file = std::env::current_exe().unwrap();
        let file = file.file_name().unwrap().to_string_lossy().into_owned();
        assert!(name.contains("some_function+0x1 ["), "{name}");
        assert!(name.ends_with(&format!("[{file}]")), "{name}");
        // From what is known by now.
        assert_eq!(processes.describe(some_function() + 1, own), name);
        assert_eq!(processes.describe(16, own), "0x10");
        assert_eq!(processes.describe(16, i32::MAX), "0x10");
    }
}
