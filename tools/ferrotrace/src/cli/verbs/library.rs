// SPDX-License-Identifier: GPL-2.0

//! Libraries by their names alone, such as `libc.so.6`, found as the loader finds them.

#![deny(unsafe_code)]

use std::fs;
use std::io::Read;
use std::path::Path;
use std::path::PathBuf;

/// Directories that the loader looks into last.
const LAST: [&str; 4] = ["/lib64", "/usr/lib64", "/lib", "/usr/lib"];

/// Files that include each other; more are a mistake.
const DEPTH: usize = 8;

/// The start of an ELF file of 64 bits.
const ELF64: [u8; 5] = *b"\x7fELF\x02";

/// Adds the directories of a file such as `/etc/ld.so.conf`.
fn directories(conf: &Path, depth: usize, all: &mut Vec<PathBuf>) {
    let Ok(text) = fs::read_to_string(conf) else {
        return;
    };
    for line in text.lines().map(str::trim) {
        match line.strip_prefix("include") {
            _ if line.starts_with('#') || line.is_empty() => (),
            Some(pattern) if depth < DEPTH => {
                for file in included(conf, pattern.trim()) {
                    directories(&file, depth + 1, all);
                }
            }
            Some(_) => (),
            None => all.push(PathBuf::from(line)),
        }
    }
}

/// The files of an `include DIR/*.conf`, in their order.
fn included(conf: &Path, pattern: &str) -> Vec<PathBuf> {
    let path = conf.parent().unwrap_or(Path::new("/")).join(pattern);
    let (Some(dir), Some(name)) = (
        path.parent(),
        path.file_name().and_then(|name| name.to_str()),
    ) else {
        return Vec::new();
    };
    let Some((start, end)) = name.split_once('*') else {
        return vec![path];
    };
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let mut found: Vec<_> = entries
        .filter(|entry| {
            let name = entry.file_name();
            let name = name.to_string_lossy();
            name.starts_with(start) && name.ends_with(end)
        })
        .map(|entry| entry.path())
        .collect();
    found.sort();
    found
}

fn is_elf64(path: &Path) -> bool {
    let mut start = [0; ELF64.len()];
    let read = fs::File::open(path).and_then(|mut file| file.read_exact(&mut start));
    read.is_ok() && start == ELF64
}

/// Returns true for the name of a library: `libc.so.6`, `libssl.so`.
pub fn is_library(name: &str) -> bool {
    name.ends_with(".so") || name.contains(".so.")
}

/// The path of a library.
pub fn find(name: &str) -> Option<PathBuf> {
    find_below(Path::new("/"), name)
}

fn find_below(root: &Path, name: &str) -> Option<PathBuf> {
    let mut all = Vec::new();
    directories(&root.join("etc/ld.so.conf"), 0, &mut all);
    all.extend(LAST.map(PathBuf::from));
    let mut paths = all
        .iter()
        .map(|dir| root.join(dir.strip_prefix("/").unwrap_or(dir)).join(name));
    paths.find(|path| is_elf64(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_are_found_as_the_loader_does() {
        let root = tempfile::tempdir().unwrap();
        let write = |path: &str, bytes: &[u8]| {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, bytes).unwrap();
        };
        write("etc/ld.so.conf", b"include ld.so.conf.d/*.conf\n");
        write(
            "etc/ld.so.conf.d/a.conf",
            b"# first\n/opt/lib32\n/opt/lib\n",
        );
        write("etc/ld.so.conf.d/b.txt", b"/opt/other\n");
        write("opt/lib32/libx.so.1", b"\x7fELF\x01");
        write("opt/lib/libx.so.1", b"\x7fELF\x02more");
        write("opt/other/liby.so", &ELF64);
        write("usr/lib/libz.so", &ELF64);
        let found = |name: &str| find_below(root.path(), name);
        assert_eq!(
            found("libx.so.1"),
            Some(root.path().join("opt/lib/libx.so.1"))
        );
        assert_eq!(found("libz.so"), Some(root.path().join("usr/lib/libz.so")));
        assert_eq!(found("liby.so"), None);
        assert!(is_library("libc.so.6") && is_library("a.so") && !is_library("sched"));
    }
}
