// SPDX-License-Identifier: GPL-2.0

//! The fields of programs and points.

#![deny(unsafe_code)]

use ferro_dprobes_core::EXCEPTIONS;
use ferro_dprobes_core::HEAP_MAX;
use ferro_dprobes_core::HITS_MAX;
use ferro_dprobes_core::Header;
use ferro_dprobes_core::JUMPS_MAX;
use ferro_dprobes_core::LOG_MAX;
use ferro_dprobes_core::ModuleKind;
use ferro_dprobes_core::Point;
use ferro_dprobes_core::PointKind;
use ferro_dprobes_core::VARIABLES_MAX;

use super::diagnostic::Diagnostic;
use super::expr::Cursor;

/// Whose field it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// A program's.
    Header,
    /// A point's.
    Point,
    /// Either's: a point's once there is one.
    Both,
}

/// A field. Its other names are those of other versions of the language.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    /// Its names, the first of which is printed.
    pub names: &'static [&'static str],
    /// Whose it is.
    pub owner: Owner,
}

const fn field(names: &'static [&'static str], owner: Owner) -> Field {
    Field { names, owner }
}

/// All fields. A name counts in capital letters too, and with and without `_`.
pub const FIELDS: &[Field] = &[
    field(&["name"], Owner::Header),
    field(&["modtype"], Owner::Header),
    field(&["id"], Owner::Header),
    field(&["jmpmax"], Owner::Header),
    field(&["logmax"], Owner::Header),
    field(&["ex_logmax"], Owner::Header),
    field(&["vars", "lvars"], Owner::Header),
    field(&["gvars"], Owner::Header),
    field(&["heapmax"], Owner::Header),
    field(&["autostacktrace"], Owner::Header),
    field(&["align"], Owner::Header),
    field(&["dfltexit"], Owner::Header),
    field(&["major"], Owner::Both),
    field(&["offset"], Owner::Point),
    field(&["address"], Owner::Point),
    field(&["return"], Owner::Point),
    field(&["opcode"], Owner::Point),
    field(&["minor"], Owner::Point),
    field(&["group"], Owner::Point),
    field(&["type"], Owner::Point),
    field(&["probe"], Owner::Point),
    field(&["watch"], Owner::Point),
    field(&["length"], Owner::Point),
    field(&["maxhits"], Owner::Point),
    field(&["passcount"], Owner::Point),
    field(&["logonfault"], Owner::Point),
    field(&["ex_mask"], Owner::Point),
    field(&["heap_size"], Owner::Point),
];

/// The field of a name.
pub fn find(name: &str) -> Option<&'static Field> {
    let plain = |name: &str| name.to_ascii_lowercase().replace('_', "");
    let wanted = plain(name);
    FIELDS
        .iter()
        .find(|field| field.names.iter().any(|name| plain(name) == wanted))
}

impl Field {
    /// Its name.
    pub fn name(&self) -> &'static str {
        self.names.first().copied().unwrap_or_default()
    }
}

type Result<T> = std::result::Result<T, Diagnostic>;

/// Fields of a program, except its name.
#[derive(Clone, Copy, Debug)]
pub struct Fields {
    /// The fields. The kind counts only if `kind` is set.
    pub header: Header,
    /// Kind of the program's target, if given.
    pub kind: Option<ModuleKind>,
    /// True if the number of global variables is given.
    pub globals: bool,
}

impl Default for Fields {
    fn default() -> Self {
        Self {
            header: Header::new(ModuleKind::Kernel),
            kind: None,
            globals: false,
        }
    }
}

impl Fields {
    /// Takes the value of a field that is not the name.
    pub fn set(&mut self, field: &Field, value: &mut Cursor<'_>) -> Result<()> {
        let Header {
            major,
            id,
            jmpmax,
            logmax,
            ex_logmax,
            locals,
            globals,
            heapmax,
            auto_stack_trace,
            ..
        } = &mut self.header;
        let name = field.name();
        let (number, max) = match name {
            "major" => (major, u32::MAX),
            "id" => (id, u32::MAX),
            "jmpmax" => (jmpmax, JUMPS_MAX),
            "logmax" => (logmax, LOG_MAX),
            "ex_logmax" => (ex_logmax, LOG_MAX),
            "vars" => (locals, VARIABLES_MAX),
            "gvars" => {
                self.globals = true;
                (globals, VARIABLES_MAX)
            }
            "heapmax" => (heapmax, HEAP_MAX),
            "autostacktrace" => {
                *auto_stack_trace = is_yes(value)?;
                return Ok(());
            }
            // Nothing has to be aligned on this processor.
            "align" => return is_yes(value).map(drop),
            // Where the first version sent the log; `--log-target` says that now.
            "dfltexit" => return value.unsigned(name, 1u32).map(drop),
            _ => {
                let kinds = [
                    ("kernel", ModuleKind::Kernel),
                    ("kmod", ModuleKind::Module),
                    ("user", ModuleKind::User),
                ];
                self.kind = Some(one_of(value, "a type of module", &kinds)?);
                return Ok(());
            }
        };
        *number = value.unsigned(name, max)?;
        Ok(())
    }
}

/// Takes the value of a point's field that is not its place.
pub fn set_point(point: &mut Point, field: &Field, value: &mut Cursor<'_>) -> Result<()> {
    let name = field.name();
    match name {
        "opcode" => point.opcode = Some(value.unsigned(name, u8::MAX)?),
        "major" => point.major = value.unsigned(name, u32::MAX)?,
        "minor" => point.minor = value.unsigned(name, u32::MAX)?,
        "group" => point.group = value.unsigned(name, u32::MAX)?,
        "type" => point.kind_number = value.unsigned(name, u32::MAX)?,
        "maxhits" => point.max_hits = value.unsigned(name, HITS_MAX)?,
        "passcount" => point.pass_count = value.unsigned(name, HITS_MAX)?,
        "logonfault" => point.log_on_fault = is_yes(value)?,
        "heap_size" => point.heap_size = value.unsigned(name, HEAP_MAX)?,
        "ex_mask" => {
            let all: u16 = EXCEPTIONS.iter().fold(0, |all, one| all | one.bit());
            let span = value.span();
            point.ex_mask = value.unsigned(name, u32::from(u16::MAX))?;
            let unknown = point.ex_mask & !(u32::from(all) | 0x0fff);
            if unknown != 0 {
                return Err(Diagnostic::error(
                    span,
                    format!("there are no exceptions {unknown:#x}"),
                ));
            }
        }
        "length" => {
            let span = value.span();
            point.watch_len = value.unsigned(name, 8u8)?;
            if !matches!(point.watch_len, 1 | 2 | 4 | 8) {
                return Err(Diagnostic::error(span, "1, 2, 4 or 8 bytes can be watched"));
            }
        }
        "probe" => {
            // What a watchpoint watches, `watch` says.
            let is_watch = one_of(
                value,
                "a kind of probe",
                &[("breakpoint", false), ("watchpoint", true)],
            )?;
            point.kind = match (is_watch, point.kind) {
                (false, _) => PointKind::Breakpoint,
                (true, PointKind::Breakpoint) => PointKind::WatchWrite,
                (true, kind) => kind,
            };
        }
        _ => {
            point.kind = one_of(
                value,
                "what is watched",
                &[
                    ("x", PointKind::WatchExecute),
                    ("w", PointKind::WatchWrite),
                    ("rw", PointKind::WatchAccess),
                    ("io", PointKind::WatchIo),
                ],
            )?;
        }
    }
    Ok(())
}

/// Takes yes or no.
pub fn is_yes(value: &mut Cursor<'_>) -> Result<bool> {
    if value.peek_name().is_none() {
        return Ok(value.unsigned("yes or no", 1u32)? == 1);
    }
    one_of(
        value,
        "yes or no",
        &[
            ("yes", true),
            ("no", false),
            ("y", true),
            ("n", false),
            ("on", true),
            ("off", false),
        ],
    )
}

/// One of some words.
fn one_of<T: Copy>(value: &mut Cursor<'_>, what: &str, words: &[(&str, T)]) -> Result<T> {
    let span = value.span();
    let given = value.peek_name().unwrap_or_default();
    if let Some((_, found)) = words
        .iter()
        .find(|(word, _)| word.eq_ignore_ascii_case(given))
    {
        value.take();
        return Ok(*found);
    }
    let known: Vec<_> = words.iter().map(|(word, _)| *word).collect();
    let known = known.join(", ");
    let message = match given {
        "" => format!("{what} is missing: {known}"),
        _ => format!("{given} is not {what}: {known}"),
    };
    Err(Diagnostic::error(span, message))
}

/// Returns the kind of target that a name implies without `modtype`.
pub fn kind_of_name(name: &str) -> ModuleKind {
    match name {
        "bzImage" | "vmlinux" | "vmlinuz" | "kernel" => ModuleKind::Kernel,
        _ if name.contains('/') => ModuleKind::User,
        _ => ModuleKind::Module,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_and_without_underscores() {
        assert_eq!(find("pass_count").unwrap().name(), "passcount");
        assert_eq!(find("EXLOGMAX").unwrap().name(), "ex_logmax");
        assert_eq!(find("lvars").unwrap().name(), "vars");
        assert!(find("pass").is_none());
    }
}
