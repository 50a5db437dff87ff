// SPDX-License-Identifier: GPL-2.0

//! Files of built sets: the set as the kernel takes it, then what it was built for, as JSON, and at the end the length of that and a
//! mark. A set is loaded where the build IDs are the same, and where the same code is at each of its points.

#![deny(unsafe_code)]

use std::path::Path;

use ferro_core::insn::MAX_LEN;
use ferro_dprobes_core::CODE_MAX;
use ferro_dprobes_core::ModuleKind;
use ferro_dprobes_core::PointKind;
use ferro_dprobes_core::SetRef;
use serde::Deserialize;
use serde::Serialize;

use super::error::Error;
use super::error::Result;
use super::module_file::running_build_id;
use super::set;
use super::set::Loadable;
use super::set::Located;
use super::set::SetError;
use crate::elf::Elf;
use crate::elf::binary::hex;
use crate::file::IoError;
use crate::file::read_at_most;

/// The most bytes of a file: a set has less than a megabyte.
const MOST: u64 = 64 << 20;

/// The last bytes of a file.
const MARK: &[u8; 4] = b"DPBI";

/// File that a program was built for.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Origin {
    /// The build ID of the file that is probed, of the kernel or of the module, in hexadecimal, if it is known.
    build_id: Option<String>,
    /// The code at each point, in hexadecimal; empty where that is not known.
    code: Vec<String>,
}

/// Returns true if the place of a point is the same in another build only by chance.
fn is_of_build(point: &Located) -> bool {
    point.point.kind == PointKind::Breakpoint && point.point.offset != 0 || point.point.is_absolute
}

impl Origin {
    /// Describes what a program is for now. `symbols` is a kernel or a module that the user names instead of what runs.
    fn of(program: &Loadable, symbols: Option<&Elf>, root: &Path) -> Self {
        let own = match program.header.kind {
            ModuleKind::User => Elf::read(&root.join(program.name.trim_start_matches('/'))).ok(),
            _ => None,
        };
        let code = |point: &Located| match (&own, point.point.kind) {
            (Some(elf), PointKind::Breakpoint) => hex(elf.bytes_at(point.point.offset, MAX_LEN)),
            _ => String::new(),
        };
        let build_id = match (program.header.kind, symbols) {
            (ModuleKind::User, _) => own.as_ref().and_then(Elf::build_id).map(<[u8]>::to_vec),
            (_, Some(elf)) => elf.build_id().map(<[u8]>::to_vec),
            (ModuleKind::Module, _) => running_build_id(root, Some(&program.name)),
            (ModuleKind::Kernel, _) => running_build_id(root, None),
        };
        Self {
            build_id: build_id.map(|id| hex(&id)),
            code: program.points.iter().map(code).collect(),
        }
    }

    /// Says why a program must not be loaded now, if it was built for this.
    fn refuses(&self, program: &Loadable, root: &Path) -> Option<String> {
        let now = Self::of(program, None, root);
        let name = &program.name;
        if self.code.len() != now.code.len() {
            return Some(format!("it does not say what the points of {name} are for"));
        }
        let is_user = program.header.kind == ModuleKind::User;
        let mut points = program.points.iter();
        if is_user || points.any(is_of_build) {
            if let (Some(own), Some(now)) = (&self.build_id, &now.build_id) {
                if own != now {
                    return Some(format!(
                        "it was built for another build of {name} than is there now"
                    ));
                }
            }
        }
        let mut code = self.code.iter().zip(&now.code);
        let other = code.position(|(own, now)| own != now);
        let other = other.and_then(|number| program.points.get(number))?;
        let offset = other.point.offset;
        Some(format!(
            "other code than it was built for is at {offset:#x} of {name}"
        ))
    }
}

/// Returns a file with a set. `symbols` is the kernel or the module that the places are from, unless that is what runs.
pub fn file(set: Vec<u8>, symbols: Option<&Elf>) -> Result<Vec<u8>> {
    file_below(set, symbols, Path::new("/"))
}

fn file_below(mut set: Vec<u8>, symbols: Option<&Elf>, root: &Path) -> Result<Vec<u8>> {
    let decoded = SetRef::decode(&set, &mut vec![0; CODE_MAX]);
    let programs = set::programs(&decoded.map_err(SetError::Refused)?);
    let origins: Vec<_> = programs
        .iter()
        .map(|program| Origin::of(program, symbols, root))
        .collect();
    // Numbers and texts always have a form.
    let text = serde_json::to_vec(&origins).unwrap_or_default();
    set.extend(&text);
    set.extend(u32::try_from(text.len()).unwrap_or(0).to_le_bytes());
    set.extend(MARK);
    Ok(set)
}

/// Splits a file into the set and what that was built for, if it is whole.
fn split(bytes: &[u8]) -> Option<(&[u8], Vec<Origin>)> {
    let rest = bytes.strip_suffix(MARK)?;
    let (rest, len) = rest.split_last_chunk()?;
    let len = usize::try_from(u32::from_le_bytes(*len)).ok()?;
    let (set, text) = rest.split_at_checked(rest.len().checked_sub(len)?)?;
    Some((set, serde_json::from_slice(text).ok()?))
}

/// Reads the programs of a file, which have to be for what is there now, unless that may be of `any_build`.
pub fn read(path: &Path, any_build: bool) -> Result<Vec<Loadable>> {
    let bytes = read_at_most(path, MOST).map_err(|source| {
        Error::Io(IoError {
            action: "read",
            path: path.into(),
            source,
        })
    })?;
    programs(&bytes, any_build, Path::new("/")).map_err(|reason| Error::NotBuilt {
        path: path.into(),
        reason,
    })
}

fn programs(
    bytes: &[u8],
    any_build: bool,
    root: &Path,
) -> std::result::Result<Vec<Loadable>, String> {
    let (set, origins) = split(bytes).ok_or("it does not say what it was built for")?;
    let mut depths = vec![0; CODE_MAX];
    let set = SetRef::decode(set, &mut depths).map_err(|refusal| refusal.to_string())?;
    let programs = set::programs(&set);
    if programs.len() != origins.len() {
        return Err("it does not say what its programs were built for".to_owned());
    }
    if !any_build {
        let mut all = programs.iter().zip(&origins);
        if let Some(reason) = all.find_map(|(program, origin)| origin.refuses(program, root)) {
            return Err(format!("{reason} (--any-build loads it)"));
        }
    }
    Ok(programs)
}

#[cfg(test)]
mod tests {
    use ferro_dprobes_core::Header;
    use ferro_dprobes_core::Insn;
    use ferro_dprobes_core::Op;
    use ferro_dprobes_core::Point;
    use ferro_dprobes_core::SetHeader;

    use std::fs;

    use super::*;

    /// A program with one point, so many bytes from the start of `name`.
    fn program(kind: ModuleKind, name: &str, offset: u64) -> Loadable {
        let symbol = match kind {
            ModuleKind::User => "",
            _ => "f",
        };
        Loadable {
            header: Header::new(kind),
            name: name.to_owned(),
            points: vec![Located {
                point: Point {
                    offset,
                    ..Point::new(0)
                },
                symbol: symbol.to_owned(),
                code: vec![Insn::new(Op::Abort)],
            }],
        }
    }

    fn built(program: &Loadable, root: &Path) -> Vec<u8> {
        let all = std::slice::from_ref(program);
        let set = set::bytes(SetHeader::default(), all).unwrap();
        file_below(set, None, root).unwrap()
    }

    #[test]
    fn a_library_that_was_replaced() {
        let root = tempfile::tempdir().unwrap();
        let own = fs::read(std::env::current_exe().unwrap()).unwrap();
        let path = root.path().join("lib.so");
        fs::write(&path, &own).unwrap();
        let elf = Elf::read(&path).unwrap();
        let at = elf.offset_of(elf.lookup("main").unwrap().address).unwrap();
        let program = program(ModuleKind::User, "/lib.so", at);
        let bytes = built(&program, root.path());
        let load = |any_build| programs(&bytes, any_build, root.path());
        assert_eq!(load(false), Ok(vec![program.clone()]));
        // Other code at the place.
        let mut other = own;
        other[usize::try_from(at).unwrap()] ^= 1;
        fs::write(&path, &other).unwrap();
        let error = load(false).unwrap_err();
        assert!(
            error.starts_with("other code than it was built for is at "),
            "{error}"
        );
        assert_eq!(load(true), Ok(vec![program]));
        // No file at all.
        fs::remove_file(&path).unwrap();
        assert!(load(false).is_err());
    }

    #[test]
    fn another_kernel() {
        let root = tempfile::tempdir().unwrap();
        let notes = root.path().join("sys/kernel");
        fs::create_dir_all(&notes).unwrap();
        let note = |last: u8| {
            let mut note = b"\x04\0\0\0\x04\0\0\0\x03\0\0\0GNU\0\x01\x02\x03".to_vec();
            note.push(last);
            fs::write(notes.join("notes"), note).unwrap();
        };
        note(1);
        for (offset, is_bound) in [(0, false), (8, true)] {
            note(1);
            let program = program(ModuleKind::Kernel, "vmlinux", offset);
            let bytes = built(&program, root.path());
            assert!(programs(&bytes, false, root.path()).is_ok());
            note(2);
            let loaded = programs(&bytes, false, root.path());
            assert_eq!(loaded.is_err(), is_bound, "{loaded:?}");
            assert!(programs(&bytes, true, root.path()).is_ok());
        }
    }

    #[test]
    fn files_that_are_not_whole() {
        let root = tempfile::tempdir().unwrap();
        let program = program(ModuleKind::Kernel, "vmlinux", 0);
        let bytes = built(&program, root.path());
        for len in 0..bytes.len() {
            assert!(programs(&bytes[..len], true, root.path()).is_err(), "{len}");
        }
        // A set alone, as it is sent to the kernel.
        let set = set::bytes(SetHeader::default(), &[program]).unwrap();
        let error = programs(&set, true, root.path()).unwrap_err();
        assert_eq!(error, "it does not say what it was built for");
    }
}
