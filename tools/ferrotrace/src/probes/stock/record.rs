// SPDX-License-Identifier: GPL-2.0

//! An event of ours in the kernel's bytes: its fields, what of them the kernel could read, and the
//! hit that it is.

#![deny(unsafe_code)]

use std::collections::BTreeMap;

use ferro_kprobe_events_core::probe_args::Type;

use super::MARK;
use super::READABLE;
use crate::probes::event::Event;
use crate::probes::event::REGISTERS;
use crate::probes::event::Seen;
use crate::probes::event::calls_at;
use crate::probes::event::faults_at;
use crate::probes::event::text;
use crate::probes::model::Kind;
use crate::probes::model::Probe;
use crate::probes::model::ProbeArg;

/// A field of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Field {
    pub(super) offset: usize,
    size: usize,
    /// It says where text is.
    is_location: bool,
}

/// An event whose hits are wanted.
pub(super) struct Known {
    pub(super) is_return: bool,
    ip: Field,
    comm: Option<Field>,
    returned: Option<Field>,
    args: Vec<KnownArg>,
    /// All texts, in the order in which the kernel has read them.
    texts: Vec<Field>,
}

/// An argument of an event.
struct KnownArg {
    arg: ProbeArg,
    field: Option<Field>,
    /// Text that can be read if the number can.
    readable: Option<Field>,
    /// True if a condition is on it. The kernel judges it even if it could not read the value.
    has_condition: bool,
}

impl Known {
    /// Understands the kernel's description of an event of `probe` and its filter; `None` without
    /// an address.
    pub(super) fn new(probe: &Probe, format: &str, filter: &str) -> Option<Self> {
        let field = |name: &str| field(format, name);
        let is_return = probe.kind == Kind::Return;
        let conditions: Vec<_> = filter
            .split(" && ")
            .flat_map(|conditions| conditions.split(" || "))
            .filter_map(|condition| condition.trim_start_matches('(').split(' ').next())
            .collect();
        let args = probe.args.iter().map(|arg| KnownArg {
            arg: arg.clone(),
            field: field(&arg.name),
            readable: field(&format!("{READABLE}{}", arg.name)),
            has_condition: conditions.contains(&arg.name.as_str()),
        });
        Some(Self {
            is_return,
            ip: field(match is_return {
                true => "__probe_ret_ip",
                false => "__probe_ip",
            })?,
            comm: field("__comm"),
            returned: field("__ret"),
            args: args.collect(),
            texts: all_fields(format)
                .map(|(_, field)| field)
                .filter(|field| field.is_location)
                .collect(),
        })
    }

    /// Returns true if the probe has a stack as an argument.
    pub(super) fn has_stack(&self, user: bool) -> bool {
        let mut args = self.args.iter();
        args.any(|known| known.arg.arg.ty == (Type::Stack { user }))
    }

    fn args(&self) -> Vec<ProbeArg> {
        self.args.iter().map(|known| known.arg.clone()).collect()
    }

    /// Returns true if the kernel could not read a text. It is as if it had no bytes, not even a
    /// NUL, or it is where the next one is.
    fn is_fault(&self, text: Field, data: &[u8]) -> bool {
        let Some((offset, len)) = text.location(data) else {
            return true;
        };
        let after = self
            .texts
            .iter()
            .skip_while(|other| **other != text)
            .skip(1);
        let mut after = after.filter_map(|other| other.location(data));
        len == 0 || after.any(|(other, len)| other == offset && len != 0)
    }
}

/// The fields of an event with their names, from its description.
fn all_fields(format: &str) -> impl Iterator<Item = (&str, Field)> {
    let lines = format
        .lines()
        .filter_map(|line| line.trim().strip_prefix("field:"));
    lines.filter_map(|line| {
        let mut parts = line.split(';').map(str::trim);
        let declaration = parts.next()?;
        let (ty, found) = declaration.rsplit_once(' ')?;
        let mut number = |key: &str| -> Option<usize> {
            parts.find_map(|part| part.strip_prefix(key))?.parse().ok()
        };
        let field = Field {
            offset: number("offset:")?,
            size: number("size:")?,
            is_location: ty.starts_with("__data_loc"),
        };
        Some((found.split('[').next()?, field))
    })
}

/// A field of this name.
pub(crate) fn field(format: &str, name: &str) -> Option<Field> {
    let mut all = all_fields(format);
    all.find_map(|(found, field)| (found == name).then_some(field))
}

impl Field {
    /// Where text is in an event, and how long.
    fn location(self, data: &[u8]) -> Option<(usize, usize)> {
        let bytes = data.get(self.offset..self.offset.checked_add(self.size)?)?;
        let place = u32::from_le_bytes(bytes.try_into().ok()?);
        let (offset, len) = (place & 0xffff, place >> 16);
        Some((usize::try_from(offset).ok()?, usize::try_from(len).ok()?))
    }

    pub(crate) fn bytes(self, data: &[u8]) -> Option<&[u8]> {
        if !self.is_location {
            return data.get(self.offset..self.offset.checked_add(self.size)?);
        }
        let (offset, len) = self.location(data)?;
        data.get(offset..offset.checked_add(len)?)
    }

    /// Returns all bytes from the start of the field on, for an array that has no size in the description.
    pub(crate) fn rest(self, data: &[u8]) -> Option<&[u8]> {
        data.get(self.offset..)
    }

    pub(crate) fn number(self, data: &[u8]) -> Option<u64> {
        let mut word = [0; 8];
        let bytes = self.bytes(data)?;
        word.get_mut(..bytes.len())?.copy_from_slice(bytes);
        Some(u64::from_le_bytes(word))
    }
}

/// An event of ours, from the kernel's bytes.
pub(super) fn event(
    known: &BTreeMap<u16, Known>,
    entries: &BTreeMap<u16, u16>,
    time: u64,
    cpu: u32,
    data: &[u8],
) -> Option<Event> {
    let id = u16::from_le_bytes(*data.first_chunk()?);
    let pid = i32::from_le_bytes(*data.get(4..)?.first_chunk()?);
    let mut event = Event {
        time,
        cpu,
        pid,
        comm: String::new(),
        probe: MARK | u32::from(id),
        is_return: false,
        ip: 0,
        duration: None,
        seen: Seen::Registers([0; REGISTERS.len()]),
    };
    let Some(known) = known.get(&id) else {
        return entries.contains_key(&id).then_some(event);
    };
    event.is_return = known.is_return;
    event.ip = known.ip.number(data)?;
    event.comm = known
        .comm
        .and_then(|comm| comm.bytes(data))
        .map(text)
        .unwrap_or_default();
    if known.args.is_empty() {
        let returned = known.returned.and_then(|field| field.number(data));
        if let Seen::Registers([ax, ..]) = &mut event.seen {
            *ax = returned.unwrap_or(0);
        }
        return Some(event);
    }
    // As the module writes it.
    let args = known.args();
    let mut area = vec![0; faults_at(&args)];
    let mut faults = 0_u32;
    for (index, read) in known.args.iter().enumerate() {
        let (arg, field) = (&read.arg.arg, read.field);
        let bytes = field.and_then(|field| field.bytes(data));
        let room = area.get_mut(arg.offset..arg.end());
        if arg.ty.is_stack() {
            continue;
        }
        let text = field.filter(|_| arg.ty.is_text()).or(read.readable);
        let is_fault = bytes.is_none() || text.is_some_and(|text| known.is_fault(text, data));
        if is_fault && read.has_condition {
            // The kernel has judged whatever was there before.
            return None;
        }
        match (bytes, room) {
            (Some(bytes), Some(room)) if !is_fault => {
                for (to, from) in room.iter_mut().zip(bytes) {
                    *to = *from;
                }
            }
            _ => {
                faults |= u32::try_from(index)
                    .ok()
                    .and_then(|index| 1_u32.checked_shl(index))
                    .unwrap_or(0)
            }
        }
    }
    area.extend(faults.to_ne_bytes());
    area.resize(calls_at(&args), 0);
    event.seen = Seen::Args(area);
    Some(event)
}

/// The number that an event has in tracefs.
pub(super) fn unmarked(id: u32) -> u16 {
    u16::try_from(id & !MARK).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probes::model::parse_args;

    const FORMAT: &str = "\
name: open_ret
ID: 1234
format:
	field:unsigned short common_type;	offset:0;	size:2;	signed:0;
	field:unsigned char common_flags;	offset:2;	size:1;	signed:0;
	field:unsigned char common_preempt_count;	offset:3;	size:1;	signed:0;
	field:int common_pid;	offset:4;	size:4;	signed:1;

	field:unsigned long __probe_func;	offset:8;	size:8;	signed:0;
	field:unsigned long __probe_ret_ip;	offset:16;	size:8;	signed:0;
	field:__data_loc char[] __comm;	offset:24;	size:4;	signed:1;
	field:u64 __ret;	offset:28;	size:8;	signed:0;
	field:__data_loc char[] f;	offset:36;	size:4;	signed:1;
	field:s32 n;	offset:40;	size:4;	signed:1;
	field:__data_loc char[] __f_n;	offset:48;	size:4;	signed:1;

print fmt: \"x\"
";

    fn known(args: &str, filter: &str) -> Known {
        let probe = Probe {
            id: 0,
            name: "open_ret".to_owned(),
            kind: Kind::Return,
            place: "f".parse().unwrap(),
            address: 0,
            hits: 0,
            missed: 0,
            gone: false,
            args: parse_args(args, Kind::Return).unwrap(),
            conditions: Vec::new(),
        };
        Known::new(&probe, FORMAT, filter).unwrap()
    }

    fn bytes(file: &[u8]) -> Vec<u8> {
        let mut data = 1234u16.to_le_bytes().to_vec();
        data.extend([0, 0]);
        data.extend(42i32.to_le_bytes());
        data.extend([1; 8]);
        data.extend(0xabcu64.to_le_bytes());
        let comm = b"cat\0";
        data.extend((52u32 | (4 << 16)).to_le_bytes());
        data.extend(7u64.to_le_bytes());
        data.extend((56u32 | (u32::try_from(file.len()).unwrap() << 16)).to_le_bytes());
        data.extend((-5i32).to_le_bytes());
        data.extend([0; 4]);
        data.extend((51u32 | (1 << 16)).to_le_bytes());
        data.extend(comm);
        data.extend(file);
        data
    }

    #[test]
    fn events_of_the_kernel() {
        let entries = BTreeMap::from([(9, 1234)]);
        let all = BTreeMap::from([(1234, known("f=+0($arg2):string6,n=$retval:s32", ""))]);
        let read = |data: &[u8]| event(&all, &entries, 99, 3, data);
        let hit = read(&bytes(b"/etc/passwd\0")).unwrap();
        assert_eq!(
            (hit.time, hit.cpu, hit.pid, hit.comm.as_str(), hit.ip),
            (99, 3, 42, "cat", 0xabc)
        );
        assert!(hit.is_return);
        let mut area = b"/etc/p\0\0".to_vec();
        area.extend((-5i32).to_le_bytes());
        area.extend([0; 4]);
        assert_eq!(hit.seen, Seen::Args(area));
        // No bytes, rather than an empty text, or the text of the next one.
        let hit = read(&bytes(b"")).unwrap();
        assert!(matches!(hit.seen, Seen::Args(bytes) if bytes[12..] == [1, 0, 0, 0]));
        let hit = read(&bytes(b"\0")).unwrap();
        assert!(matches!(hit.seen, Seen::Args(bytes) if bytes[12..] == [0, 0, 0, 0]));
        let args = "f=+0($arg2):string6,n=+8(%di):s32";
        let all = |filter: &str| BTreeMap::from([(1234, known(args, filter))]);
        let faults = |location: (u32, u32), filter: &str| {
            let mut data = bytes(b"/x\0");
            data[48..52].copy_from_slice(&(location.0 | location.1 << 16).to_le_bytes());
            let hit = event(&all(filter), &entries, 99, 3, &data)?;
            match hit.seen {
                Seen::Args(bytes) => Some(bytes[12]),
                Seen::Registers(_) | Seen::Fields(_) => None,
            }
        };
        assert_eq!(faults((51, 4), ""), Some(0));
        assert_eq!(faults((51, 0), ""), Some(2));
        assert_eq!(faults((51, 0), "f == \"/x\""), Some(2));
        // The kernel had the filter judge what was there before.
        assert_eq!(faults((51, 0), "common_pid == 1 && n == 0"), None);
        assert_eq!(faults((56, 3), ""), Some(1));
        assert_eq!(faults((56, 3), "f == \"/x\" && n == 0"), None);
        let all = BTreeMap::from([(1234, known("", ""))]);
        assert_eq!(
            event(&all, &entries, 1, 1, &bytes(b"x\0")).unwrap().value(),
            Some(7)
        );
        // Others, and what is cut.
        assert!(read(&[1, 0, 0, 0, 1, 0, 0, 0]).is_none());
        assert!(read(&[9, 0, 0, 0, 1, 0, 0, 0]).is_some());
        assert!(read(&bytes(b"")[..20]).is_none() && read(&[1]).is_none());
    }

    #[test]
    fn fields() {
        assert_eq!(field(FORMAT, "nothing"), None);
        assert_eq!(field(FORMAT, "n").map(|field| field.offset), Some(40));
    }
}
