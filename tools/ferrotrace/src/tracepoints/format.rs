// SPDX-License-Identifier: GPL-2.0

//! The kernel's description of an event, and the values of its fields in a record.

#![deny(unsafe_code)]

use std::rc::Rc;

use super::names::Names;
pub use crate::events::format::DescriptionError;
use crate::events::format::describe;
use crate::merge::field;
use crate::merge::field::Kind;
use crate::merge::field::is_number as is_number_size;
use crate::merge::field::signed;
use crate::merge::field::unsigned;
use crate::merge::format::TypedFormats;
use crate::merge::value;
use crate::probes::event::Value;
use crate::probes::event::text;

/// Bytes of a record before the event's own fields: its number, flags and thread.
const COMMON: usize = 8;

/// Start and end of the name of a field with the text of an argument of a system call.
const TEXT_OF: (&str, &str) = ("__", "_val");

/// Form in which a number is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Show {
    /// The form of its field.
    Field,
    /// A number of 32 bits with a sign; the field may be larger.
    Int,
    Decimal,
    Hex,
    Octal,
    /// Name of the function at the address.
    Symbol,
}

/// A field of an event.
#[derive(Clone, Debug)]
pub struct Field {
    /// Name.
    pub name: Rc<str>,
    field: field::Field,
    show: Show,
    names: Option<Names>,
    /// The field with the text that this one points to.
    text: Option<field::Field>,
    /// True for an argument of a system call that is declared as text of user space.
    points_to_text: bool,
}

/// An event.
#[derive(Clone, Debug)]
pub struct Format {
    /// Number in its records.
    pub id: u16,
    /// Fields, without those that all events have.
    pub fields: Vec<Field>,
}

/// Returns the type in the declaration of a field, or nothing if there is none.
fn declared<'a>(text: &'a str, name: &str) -> &'a str {
    let lines = text
        .lines()
        .filter_map(|line| line.trim().strip_prefix("field:"));
    let mut declarations = lines.filter_map(|line| line.split(';').next());
    declarations
        .find_map(|declaration| {
            let plain = declaration.split('[').next()?;
            let ty = plain.strip_suffix(name)?;
            ty.ends_with([' ', '*']).then(|| ty.trim())
        })
        .unwrap_or_default()
}

/// Returns the form in which `print fmt` shows a field.
fn shown_by(print_fmt: &str, name: &str) -> Show {
    let parts = || {
        let (format, arguments) = print_fmt.trim().strip_prefix('"')?.split_once("\",")?;
        let mut depth = 0_usize;
        let arguments = arguments.split(|c| {
            match c {
                '(' | '{' => depth += 1,
                ')' | '}' => depth = depth.saturating_sub(1),
                _ => (),
            }
            c == ',' && depth == 0
        });
        let specifiers = format.replace("%%", "");
        let specifiers: Vec<_> = specifiers.split('%').skip(1).map(str::to_owned).collect();
        let is_it = |argument: &str| {
            let plain = argument.trim().trim_end_matches(')');
            plain.rsplit_once("REC->").is_some_and(|(before, found)| {
                let is_cast = |c: char| !['?', '&', '>', '<', '+', '/', '|'].contains(&c);
                found == name && before.chars().all(is_cast) && !before.contains("__")
            })
        };
        let index = arguments
            .collect::<Vec<_>>()
            .iter()
            .position(|one| is_it(one))?;
        specifiers.get(index).cloned()
    };
    let Some(specifier) = parts() else {
        return Show::Field;
    };
    let is_flag_or_length = |c: char| c.is_ascii_digit() || "#lzh-".contains(c);
    let kind = specifier.trim_start_matches(is_flag_or_length);
    match kind.as_bytes() {
        [b'p', b'S' | b's' | b'F' | b'f' | b'B', ..] => Show::Symbol,
        [b'p' | b'x' | b'X', ..] => Show::Hex,
        _ => Show::Field,
    }
}

/// Returns the form of an argument of a system call. The kernel shows all in hexadecimal.
fn of_syscall(ty: &str, name: &str) -> Show {
    match ty {
        _ if name == "mode" || ty == "umode_t" => Show::Octal,
        _ if name.contains("flags") || name == "prot" => Show::Hex,
        "int" | "pid_t" | "clockid_t" => Show::Int,
        "long" | "size_t" | "ssize_t" | "loff_t" | "off_t" | "unsigned int" | "uid_t" | "gid_t" => {
            Show::Decimal
        }
        _ => Show::Hex,
    }
}

impl Format {
    /// Parses the file `format` of an event.
    pub fn parse(text: &str, is_syscall: bool) -> Result<Self, DescriptionError> {
        let description = describe(text)?;
        let formats = TypedFormats::parse(&description.text)?;
        let format = formats.get(description.id).ok_or(DescriptionError::None)?;
        let print_fmt = text
            .lines()
            .find_map(|line| line.strip_prefix("print fmt:"))
            .unwrap_or_default();
        let own = format.fields.iter().filter(|field| field.offset >= COMMON);
        let text_of = |name: &str| {
            let (start, end) = TEXT_OF;
            let wanted = format!("{start}{name}{end}");
            format
                .fields
                .iter()
                .find(|field| field.name == wanted)
                .cloned()
        };
        let fields = own.filter(|field| !is_syscall || !field.name.starts_with("__"));
        let fields = fields.map(|field| {
            // A recording has other meanings for these names.
            let name = match field.name.as_str() {
                "time_" => "time",
                "cpu_" => "cpu",
                name => name,
            };
            let ty = declared(text, name);
            let show = match is_syscall {
                // In hexadecimal an error could not be recognized.
                true if name == "ret" => Show::Field,
                true => of_syscall(ty, name),
                false => shown_by(print_fmt, name),
            };
            Field {
                names: Names::find(print_fmt, name),
                show,
                text: text_of(name).filter(|_| is_syscall),
                points_to_text: is_syscall && ty == "const char *",
                name: name.into(),
                field: field.clone(),
            }
        });
        Ok(Self {
            id: description.id,
            fields: fields.collect(),
        })
    }

    /// Returns the field with a name.
    pub fn field(&self, name: &str) -> Option<&Field> {
        self.fields.iter().find(|field| &*field.name == name)
    }
}

impl Field {
    /// Returns true if the value is shown as the function at an address.
    pub fn is_address(&self) -> bool {
        self.show == Show::Symbol
    }

    /// Returns true if the value is text.
    pub fn is_text(&self) -> bool {
        self.field.kind == Kind::Text
    }

    /// Returns the name of the field in filters and keys if its value is text.
    ///
    /// The text of an argument of a system call has a field of its own. Filters of older kernels
    /// read it at the address.
    pub fn text_name(&self) -> Option<String> {
        match (&self.text, self.is_text()) {
            (Some(behind), _) => Some(behind.name.clone()),
            (None, true) => Some(self.name.to_string()),
            (None, false) if self.points_to_text => Some(format!("{}.ustring", self.name)),
            (None, false) => None,
        }
    }

    /// Returns the number for which `print fmt` has a name.
    pub fn number(&self, name: &str) -> Option<u64> {
        self.names.as_ref()?.number(name)
    }

    /// Returns true if the value is a number.
    pub fn is_number(&self) -> bool {
        let is_number = matches!(self.field.kind, Kind::Unsigned | Kind::Signed | Kind::Hex);
        is_number && self.text_name().is_none() && self.field.size.is_some_and(is_number_size)
    }

    /// Returns the field with plain numbers as its values, without names.
    pub fn plain(&self) -> Self {
        Self {
            show: match self.show {
                Show::Octal => Show::Decimal,
                show => show,
            },
            names: None,
            ..self.clone()
        }
    }

    /// Returns true if the kernel's word for the number has a sign. Returns `None` if the number is
    /// only a part of the word.
    pub fn is_signed_word(&self) -> Option<bool> {
        (self.show != Show::Int).then_some(self.field.kind == Kind::Signed)
    }

    /// Returns the value in a record.
    pub fn value(&self, record: &[u8]) -> Value {
        if let Some(behind) = &self.text {
            return match behind.bytes(record) {
                [] => Value::Hex(unsigned(self.field.bytes(record)).unwrap_or(0)),
                bytes => Value::Text(text(bytes)),
            };
        }
        let bytes = self.field.bytes(record);
        match self.field.kind {
            Kind::Text => Value::Text(text(bytes)),
            Kind::Signed if is_number_size(bytes.len()) => {
                let number = signed(bytes).unwrap_or(0);
                self.number_value(u64::from_ne_bytes(number.to_ne_bytes()))
            }
            Kind::Unsigned | Kind::Hex if is_number_size(bytes.len()) => {
                self.number_value(unsigned(bytes).unwrap_or(0))
            }
            _ => Value::Names(value::Value::new(&self.field, record).to_string()),
        }
    }

    /// Returns the value of a number, which is extended to 64 bits as in C.
    fn number_value(&self, word: u64) -> Value {
        if let Some(text) = self.names.as_ref().and_then(|names| names.text(word)) {
            return Value::Names(text);
        }
        let unused = match self.field.size {
            Some(size) if is_number_size(size) => 64 - 8 * size,
            _ => 0,
        };
        let number = word << unused >> unused;
        let [a, b, c, d, ..] = number.to_le_bytes();
        match self.show {
            Show::Int => Value::Signed(i64::from(i32::from_le_bytes([a, b, c, d]))),
            Show::Hex => Value::Hex(number),
            Show::Octal if number != 0 => Value::Names(format!("0{number:o}")),
            Show::Octal => Value::Names("0".to_owned()),
            Show::Symbol => Value::Symbol(number),
            Show::Decimal => Value::Unsigned(number),
            Show::Field if self.field.kind == Kind::Signed => {
                Value::Signed(i64::from_ne_bytes(word.to_ne_bytes()))
            }
            Show::Field if self.field.kind == Kind::Hex => Value::Hex(number),
            Show::Field => Value::Unsigned(number),
        }
    }

    /// Returns the value that a key of a histogram stands for, in the form of [`Field::value`].
    pub fn value_of_key(&self, key: &str) -> String {
        // The name of a file may be a number.
        let word = word_of_key(key).filter(|_| self.text_name().is_none());
        match word.map(|word| self.number_value(word)) {
            Some(Value::Names(text)) => text,
            Some(Value::Signed(number)) => number.to_string(),
            Some(Value::Unsigned(number)) => number.to_string(),
            Some(Value::Hex(number) | Value::Symbol(number)) => format!("{number:#x}"),
            _ => key.to_owned(),
        }
    }
}

/// Returns the number that a key of a histogram is. Keys are decimal, with or without a sign.
pub fn word_of_key(key: &str) -> Option<u64> {
    key.parse::<u64>().ok().or_else(|| {
        let signed = key.parse::<i64>().ok()?;
        Some(u64::from_ne_bytes(signed.to_ne_bytes()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const OPENAT: &str = "\
name: sys_enter_openat
ID: 761
format:
	field:unsigned short common_type;	offset:0;	size:2;	signed:0;
	field:unsigned char common_flags;	offset:2;	size:1;	signed:0;
	field:unsigned char common_preempt_count;	offset:3;	size:1;	signed:0;
	field:int common_pid;	offset:4;	size:4;	signed:1;

	field:int __syscall_nr;	offset:8;	size:4;	signed:1;
	field:int dfd;	offset:16;	size:8;	signed:0;
	field:const char * filename;	offset:24;	size:8;	signed:0;
	field:int flags;	offset:32;	size:8;	signed:0;
	field:umode_t mode;	offset:40;	size:8;	signed:0;
	field:__data_loc char[] __filename_val;	offset:48;	size:4;	signed:0;

print fmt: \"dfd: 0x%08lx, filename: 0x%08lx \\\"%s\\\", flags: %s%s, mode: 0%03o\", ((unsigned long)(REC->dfd)), ((unsigned long)(REC->filename)), __get_str(__filename_val), (REC->flags & ~3) && !(REC->flags & 3) ? \"O_RDONLY|\" : \"\",  REC->flags ? __print_flags(REC->flags, \"|\", { 0x1, \"O_WRONLY\" }, { 0x40, \"O_CREAT\" }) : \"O_RDONLY\",  ((unsigned long)(REC->mode))
";

    fn shown(format: &Format, record: &[u8]) -> String {
        let values = format.fields.iter().map(|field| {
            let text = match field.value(record) {
                Value::Text(text) => format!("{text:?}"),
                Value::Names(text) => text,
                Value::Hex(number) => format!("{number:#x}"),
                Value::Symbol(number) => format!("<{number:#x}>"),
                Value::Signed(number) => number.to_string(),
                Value::Unsigned(number) => number.to_string(),
                other => panic!("{other:?}"),
            };
            format!("{}={text}", field.name)
        });
        values.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn a_system_call() {
        let format = Format::parse(OPENAT, true).unwrap();
        let mut record = vec![0; 52];
        record[16..24].copy_from_slice(&0xffff_ff9c_u64.to_le_bytes());
        record[24..32].copy_from_slice(&0x7fff_1234_u64.to_le_bytes());
        record[32] = 0x41;
        record[40..42].copy_from_slice(&0o644_u16.to_le_bytes());
        record[48..52].copy_from_slice(&(52_u32 | 5 << 16).to_le_bytes());
        record.extend(b"/tmp\0");
        assert_eq!(
            shown(&format, &record),
            "dfd=-100 filename=\"/tmp\" flags=O_WRONLY|O_CREAT mode=0644"
        );
        // As plain numbers.
        let plain = |name: &str| format.field(name).unwrap().plain().value(&record);
        assert_eq!(plain("flags"), Value::Hex(0x41));
        assert_eq!(plain("mode"), Value::Unsigned(0o644));
        assert_eq!(plain("dfd"), Value::Signed(-100));
        let of = |name: &str| format.field(name).unwrap();
        assert!(of("mode").is_number() && !of("filename").is_number());
        assert_eq!(of("dfd").is_signed_word(), None);
        assert_eq!(of("flags").is_signed_word(), Some(false));
        record[32] = 0;
        // An older kernel, without the text.
        let old: String = OPENAT
            .lines()
            .filter(|line| !line.contains("__data_loc"))
            .map(|line| format!("{line}\n"))
            .collect();
        let format = Format::parse(&old, true).unwrap();
        assert_eq!(
            shown(&format, &record),
            "dfd=-100 filename=0x7fff1234 flags=O_RDONLY mode=0644"
        );
        let flags = format.field("flags").unwrap();
        assert_eq!(flags.number("O_CREAT"), Some(0x40));
        let key = |name: &str, key: &str| format.field(name).unwrap().value_of_key(key);
        assert_eq!(key("flags", "65"), "O_WRONLY|O_CREAT");
        assert_eq!(key("dfd", "4294967196"), "-100");
        assert_eq!(key("mode", "420"), "0644");
        // A file with this name.
        assert_eq!(key("filename", "16"), "16");
        assert!(format.field("__syscall_nr").is_none());
    }

    /// The kernel's `print fmt` shows the value in hexadecimal.
    #[test]
    fn a_return() {
        let text = OPENAT.replace(
            "\tfield:int dfd;\toffset:16;\tsize:8;\tsigned:0;\n",
            "\tfield:long ret;\toffset:16;\tsize:8;\tsigned:1;\n",
        );
        let end = text.find("print fmt").unwrap();
        let text = format!("{}print fmt: \"0x%lx\", REC->ret\n", &text[..end]);
        let format = Format::parse(&text, true).unwrap();
        let mut record = vec![0; 52];
        record[16..24].copy_from_slice(&(-2_i64).to_le_bytes());
        let ret = format.field("ret").unwrap();
        assert_eq!(ret.value(&record), Value::Signed(-2));
    }

    #[test]
    fn a_tracepoint() {
        let text = "name: k\nID: 7\nformat:\n\
            \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
            \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n\
            \tfield:unsigned long site;\toffset:8;\tsize:8;\tsigned:0;\n\
            \tfield:const void * ptr;\toffset:16;\tsize:8;\tsigned:0;\n\
            \tfield:long n;\toffset:24;\tsize:8;\tsigned:1;\n\
            \tfield:char comm[16];\toffset:32;\tsize:16;\tsigned:0;\n\
            \tfield:u32 time;\toffset:48;\tsize:4;\tsigned:0;\n\n\
            print fmt: \"site=%pS ptr=%p n=%ld\", (void *)REC->site, REC->ptr, REC->n\n";
        let format = Format::parse(text, false).unwrap();
        let mut record = vec![0; 52];
        record[8] = 0x10;
        record[16] = 0x20;
        record[24..32].copy_from_slice(&(-3_i64).to_le_bytes());
        record[32..35].copy_from_slice(b"cat");
        record[48] = 9;
        assert_eq!(
            shown(&format, &record),
            "site=<0x10> ptr=0x20 n=-3 comm=\"cat\" time=9"
        );
        assert_eq!(format.id, 7);
        assert!(format.field("comm").unwrap().is_text());
        assert!(Format::parse("name: k\n", false).is_err());
    }
}
