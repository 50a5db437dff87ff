// SPDX-License-Identifier: GPL-2.0

//! Functions of user space: the file that a process has at an address, and the function in it.

#![deny(unsafe_code)]

use std::collections::HashMap;
use std::fmt;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;
use std::time::Instant;

use blazesym::symbolize::Input;
use blazesym::symbolize::Symbolizer;
use blazesym::symbolize::source::Elf;
use blazesym::symbolize::source::Source;

use crate::text::printable_columns;

/// Time for which the mappings of a process are taken to be the same: it may execute another
/// program.
const FRESH: Duration = Duration::from_millis(100);

/// The most names that are kept.
const NAMES_MAX: usize = 1 << 16;

/// The most processes whose mappings are kept.
const PROCESSES_MAX: usize = 4096;

/// A part of a file in a process.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Mapping {
    begin: u64,
    end: u64,
    offset: u64,
    file: Mapped,
}

/// A file that was mapped.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Mapped {
    /// Its name, where the process looked.
    path: PathBuf,
    /// Its number there: another process may see another file at the same path.
    inode: u64,
}

impl Mapped {
    /// Returns true if the path leads to that file here, and the file can be read without waiting.
    fn is_here(&self) -> bool {
        let is_it = |found: fs::Metadata| found.is_file() && found.ino() == self.inode;
        fs::metadata(&self.path).is_ok_and(is_it)
    }
}

#[derive(Debug)]
struct Process {
    read: Instant,
    mappings: Rc<[Mapping]>,
}

/// Known mappings of processes.
#[derive(Default)]
pub(super) struct Processes {
    known: HashMap<i32, Process>,
    names: HashMap<(Mapped, u64), String>,
    symbolizer: Option<Symbolizer>,
    /// True if the mappings are a recording's, not this machine's now.
    are_recorded: bool,
}

impl fmt::Debug for Processes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Processes")
            .field("known", &self.known)
            .finish_non_exhaustive()
    }
}

/// Parses a line of `/proc/PID/maps` for an executable mapping of a file.
fn parse_line(line: &str) -> Option<Mapping> {
    let mut words = line.splitn(6, ' ');
    let (begin, end) = words.next()?.split_once('-')?;
    words.next()?.contains('x').then_some(())?;
    let number = |text: &str| u64::from_str_radix(text, 16).ok();
    let offset = number(words.next()?)?;
    let inode = words.nth(1)?.parse().ok()?;
    let path = words.next()?.trim_start();
    path.starts_with('/').then_some(())?;
    Some(Mapping {
        begin: number(begin)?,
        end: number(end)?,
        offset,
        file: Mapped {
            path: path.into(),
            inode,
        },
    })
}

impl Processes {
    /// Parses those of a recording: lines `threads NUMBER...`, each with lines of `/proc/PID/maps`
    /// behind it. The last of a thread counts.
    pub(super) fn recorded(text: &str) -> Self {
        let mut known = HashMap::new();
        let read = Instant::now();
        // Paths are in lines of their own mapping, after other words.
        let begins = |line: &str| line.starts_with("threads ");
        let mut lines = text.lines().peekable();
        while let Some(line) = lines.next() {
            let Some(threads) = line.strip_prefix("threads ") else {
                continue;
            };
            let maps = core::iter::from_fn(|| lines.next_if(|line| !begins(line)));
            let mappings: Rc<[Mapping]> = maps.filter_map(parse_line).collect();
            let threads = threads.split(' ').filter_map(|thread| thread.parse().ok());
            known.extend(threads.map(|thread| {
                let mappings = Rc::clone(&mappings);
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
        let Some((mapped, offset)) = self.place(address, pid) else {
            return format!("{address:#x}");
        };
        let key = (mapped, offset);
        if let Some(name) = self.names.get(&key) {
            return name.clone();
        }
        let (mapped, _) = &key;
        let file = mapped.path.file_name().unwrap_or_default();
        let file = file.to_string_lossy();
        let name = match mapped
            .is_here()
            .then(|| self.function(&mapped.path, offset))
        {
            Some(Some((name, inside))) => format!("{name}+{inside:#x} [{file}]"),
            _ => format!("{offset:#x} [{file}]"),
        };
        // Whoever has made the file has named it and its functions.
        let name = printable_columns(&name);
        if self.names.len() == NAMES_MAX {
            self.names.clear();
        }
        self.names.insert(key, name.clone());
        name
    }

    /// The file that the thread has at an address, and where in the file that is.
    fn place(&mut self, address: u64, pid: i32) -> Option<(Mapped, u64)> {
        let is_fresh = |known: &Process| known.read.elapsed() < FRESH;
        if !self.are_recorded && !self.known.get(&pid).is_some_and(is_fresh) {
            // Those of a process that has gone are kept.
            if let Ok(maps) = fs::read(format!("/proc/{pid}/maps")) {
                let read = Instant::now();
                let maps = String::from_utf8_lossy(&maps);
                let mappings = maps.lines().filter_map(parse_line).collect();
                if self.known.len() >= PROCESSES_MAX {
                    self.known.clear();
                }
                self.known.insert(pid, Process { read, mappings });
            }
        }
        let mut all = self.known.get(&pid)?.mappings.iter();
        let found = all.find(|part| (part.begin..part.end).contains(&address))?;
        let offset = found.offset.checked_add(address - found.begin)?;
        Some((found.file.clone(), offset))
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
        let parts: Vec<_> = maps.lines().filter_map(parse_line).collect();
        let [part] = &parts[..] else {
            panic!("{parts:?}");
        };
        assert_eq!((part.begin, part.offset), (0x55d0_c0a2_e000, 0x2e000));
        assert_eq!(part.file.path, Path::new("/usr/bin/a b"));
        assert_eq!(part.file.inode, 1183);
    }

    #[test]
    fn files_that_are_not_those() {
        let exe = std::env::current_exe().unwrap();
        let inode = fs::metadata(&exe).unwrap().ino();
        let line = |inode, path: &str| format!("0-1000 r-xp 0 fe:01 {inode} {path}\n");
        let text = |inode| format!("threads 7 8\n{}", line(inode, exe.to_str().unwrap()));
        let mut here = Processes::recorded(&text(inode));
        assert!(here.place(5, 8).unwrap().0.is_here());
        let mut other = Processes::recorded(&text(inode + 1));
        assert!(!other.place(5, 8).unwrap().0.is_here());
        let file = exe.file_name().unwrap().to_string_lossy().into_owned();
        assert_eq!(other.describe(5, 7), format!("0x5 [{file}]"));
        // Nothing is read of what is no file, and names of others are no commands for a terminal,
        // nor lines of their own.
        let maps = line(1, "/proc/self/\u{1b}[31mx") + &line(2, "/x/threads 9");
        let mut odd = Processes::recorded(&format!("threads 5\n{maps}"));
        assert_eq!(odd.describe(5, 5), "0x5 [?[31mx]");
        assert_eq!(odd.describe(5, 9), "0x5");
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
