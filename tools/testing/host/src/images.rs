// SPDX-License-Identifier: GPL-2.0

//! The code of built kernels and of their modules.

use object::Object as _;
use object::ObjectSection as _;
use object::SectionKind;
use std::env;
use std::fs;
use std::io;
use std::path::Path;
use std::path::PathBuf;

/// A section with code.
#[derive(Clone, Debug)]
pub struct Text {
    /// File and section.
    pub name: String,
    /// The address of its first byte.
    pub address: u64,
    /// Its bytes.
    pub bytes: Vec<u8>,
}

/// The code of `vmlinux` and of every module in the build directories that `INSN_IMAGES` names, separated
/// by colons.
///
/// # Panics
///
/// When there is none: there is nothing to test then.
pub fn texts() -> Vec<Text> {
    let directories =
        env::var_os("INSN_IMAGES").expect("INSN_IMAGES names build directories of kernels");
    let mut files = Vec::new();
    for directory in env::split_paths(&directories) {
        let before = files.len();
        find(&directory, &mut files).expect("the build directory can be read");
        assert!(files.len() > before, "no image in {}", directory.display());
    }
    files.iter().flat_map(|file| sections(file)).collect()
}

/// Adds `vmlinux` in `directory`, and the modules in it and below.
fn find(directory: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    files.extend(Some(directory.join("vmlinux")).filter(|path| path.is_file()));
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let path = entry.path();
        if entry.file_type()?.is_dir() {
            modules(&path, files)?;
        }
    }
    Ok(())
}

fn modules(directory: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let path = entry.path();
        if entry.file_type()?.is_dir() {
            modules(&path, files)?;
        } else if path.extension().is_some_and(|extension| extension == "ko") {
            files.push(path);
        }
    }
    Ok(())
}

fn sections(file: &Path) -> Vec<Text> {
    let data = fs::read(file).expect("an image can be read");
    let image = object::File::parse(&*data).expect("an image is an ELF file");
    image
        .sections()
        .filter(|section| section.kind() == SectionKind::Text)
        .map(|section| Text {
            name: format!("{} {}", file.display(), section.name().unwrap_or("?")),
            address: section.address(),
            bytes: section.data().expect("a section has its data").to_vec(),
        })
        .filter(|text| !text.bytes.is_empty())
        .collect()
}
