// SPDX-License-Identifier: GPL-2.0

//! The code of built kernels and of their modules.

use object::Object as _;
use object::ObjectSection as _;
use object::SectionFlags;
use object::SectionKind;
use object::elf::SHF_WRITE;
use std::env;
use std::error::Error;
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

/// Returns the build directories of kernels that `INSN_IMAGES` names, separated by colons.
///
/// # Panics
///
/// Panics if there is none: there is nothing to test then.
pub fn build_directories() -> Vec<PathBuf> {
    let directories =
        env::var_os("INSN_IMAGES").expect("INSN_IMAGES names build directories of kernels");
    env::split_paths(&directories).collect()
}

/// Returns the code of `vmlinux` and of every module in these directories.
///
/// # Panics
///
/// Panics if there is none.
pub fn texts() -> Vec<Text> {
    let mut files = Vec::new();
    for directory in build_directories() {
        let before = files.len();
        find(&directory, &mut files).expect("the build directory can be read");
        assert!(files.len() > before, "no image in {}", directory.display());
    }
    let sections = |file: &PathBuf| sections(file).expect("an image can be read");
    files.iter().flat_map(sections).collect()
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

/// The sections with code of the file of an image.
///
/// # Errors
///
/// Fails if it cannot be read, or is no ELF file.
pub fn sections(file: &Path) -> Result<Vec<Text>, Box<dyn Error>> {
    let data = fs::read(file)?;
    let image = object::File::parse(&*data)?;
    let mut texts = Vec::new();
    for section in image.sections() {
        let bytes = section.data()?;
        // The linker makes all of .data executable for one object's sake.
        let writable = matches!(section.flags(), SectionFlags::Elf { sh_flags, .. }
            if sh_flags.contains(SHF_WRITE));
        if section.kind() == SectionKind::Text && !writable && !bytes.is_empty() {
            texts.push(Text {
                name: format!("{} {}", file.display(), section.name().unwrap_or("?")),
                address: section.address(),
                bytes: bytes.to_vec(),
            });
        }
    }
    Ok(texts)
}
