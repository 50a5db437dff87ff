// SPDX-License-Identifier: GPL-2.0

//! Reading the hits as they come, from an instance of tracefs that exists for this only.

#![deny(unsafe_code)]

use std::collections::BTreeMap;
use std::collections::HashMap;
use std::fs;
use std::fs::File;
use std::io;
use std::io::Read;
use std::path::Path;
use std::path::PathBuf;

use ferro_core::probe_args::Type;

use super::ENTRY;
use super::GROUP;
use super::MARK;
use super::Stock;
use super::instance::Instance;
use super::instance::failed;
use super::ring;
use super::stacks::Held;
use super::stacks::StackEvent;
use super::stacks::add_stack;
use super::stacks::stack_event;
use crate::probes::error::Result;
use crate::probes::event::Event;
use crate::probes::event::REGISTERS;
use crate::probes::event::Seen;
use crate::probes::event::calls_at;
use crate::probes::event::faults_at;
use crate::probes::event::text;
use crate::probes::model::Kind;
use crate::probes::model::Probe;
use crate::probes::model::ProbeArg;

/// Calls of a function that a thread may be in at a time; more are recursion without an end, or calls whose returns are not seen.
const DEPTH: usize = 64;

/// More than a page of the buffer has.
const PAGE: usize = 1 << 16;

/// A field of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Field {
    pub(super) offset: usize,
    size: usize,
    /// It says where text is.
    is_location: bool,
}

/// An event whose hits are wanted.
struct Known {
    is_return: bool,
    ip: Field,
    comm: Option<Field>,
    returned: Option<Field>,
    args: Vec<(ProbeArg, Option<Field>)>,
}

impl Known {
    fn args(&self) -> Vec<ProbeArg> {
        self.args.iter().map(|(arg, _)| arg.clone()).collect()
    }
}

/// The hits of all CPUs.
pub struct StockLive {
    // Before the instance, which has to have no readers when it goes.
    cpus: Vec<(u32, PathBuf, File)>,
    instance: Instance,
    known: BTreeMap<u16, Known>,
    /// The events at the entry of functions, and those at the return.
    entries: BTreeMap<u16, u16>,
    /// When threads have entered the function of a return.
    began: HashMap<(i32, u16), Vec<u64>>,
    /// Of the kernel and of user space, if any are wanted.
    stacks: Vec<StackEvent>,
    /// Of each CPU, the last hit that wants some.
    held: HashMap<u32, Held>,
}

impl StockLive {
    /// Makes an instance, without any events.
    pub fn open(stock: &Stock) -> Result<Self> {
        let instance = Instance::create(&stock.tracing)?;
        Ok(Self {
            cpus: instance.pipes()?,
            instance,
            known: BTreeMap::new(),
            entries: BTreeMap::new(),
            began: HashMap::new(),
            stacks: Vec::new(),
            held: HashMap::new(),
        })
    }

    fn event(&self, name: &str) -> PathBuf {
        Stock::event(self.instance.dir(), name)
    }

    /// Has hits of a probe recorded, from now on if this has started.
    pub fn attach(&mut self, stock: &Stock, probe: &Probe) -> Result<()> {
        let dir = self.event(&probe.name);
        let read = |path: PathBuf| {
            let text = fs::read_to_string(&path);
            text.map_err(|error| failed("read", &path, error))
        };
        let write = |path: PathBuf, text: &str| {
            let written = fs::write(&path, text);
            written.map_err(|error| failed("write to", &path, error))
        };
        let format = read(dir.join("format"))?;
        let field = |name: &str| field(&format, name);
        let id = unmarked(probe.id);
        let is_return = probe.kind == Kind::Return;
        let ip = match is_return {
            true => "__probe_ret_ip",
            false => "__probe_ip",
        };
        let args = probe.args.iter();
        let known = Known {
            is_return,
            ip: field(ip).ok_or_else(|| {
                let error = io::Error::from(io::ErrorKind::InvalidData);
                failed("find an address in", &dir.join("format"), error)
            })?,
            comm: field("__comm"),
            returned: field("__ret"),
            args: args.map(|arg| (arg.clone(), field(&arg.name))).collect(),
        };
        for (name, option, user) in [
            ("kernel_stack", "stacktrace", false),
            ("user_stack", "userstacktrace", true),
        ] {
            let mut args = known.args.iter();
            if !args.any(|(arg, _)| arg.arg.ty == (Type::Stack { user })) {
                continue;
            }
            // All events of the instance have them then.
            self.instance
                .write(&Path::new("options").join(option), "1")?;
            let path = self
                .instance
                .dir()
                .join("events/ftrace")
                .join(name)
                .join("format");
            let format = read(path.clone()).or_else(|_| {
                // Older kernels have it at the top only.
                read(
                    stock
                        .tracing
                        .join("events/ftrace")
                        .join(name)
                        .join("format"),
                )
            })?;
            let event = stack_event(&format).ok_or_else(|| {
                let error = io::Error::from(io::ErrorKind::InvalidData);
                failed("find a stack in", &path, error)
            })?;
            if self.stacks.iter().all(|known| known.id != event.id) {
                self.stacks.push(event);
            }
        }
        self.known.insert(id, known);
        let filter = read(Stock::event(&stock.tracing, &probe.name).join("filter"))?;
        if filter.trim() != "none" && !filter.trim().is_empty() {
            write(dir.join("filter"), filter.trim())?;
        }
        if is_return {
            let entry = self.event(&format!("{}{ENTRY}", probe.name));
            if let Some(number) = read(entry.join("id"))
                .ok()
                .and_then(|id| id.trim().parse().ok())
            {
                self.entries.insert(number, id);
                write(entry.join("enable"), "1")?;
            }
        }
        write(dir.join("enable"), "1")
    }

    /// Has hits recorded from now on. Until then what this program does itself is none.
    pub fn start(&self) -> Result<()> {
        self.instance.start()
    }

    /// Has nothing recorded any more.
    pub fn detach(&self) {
        self.instance.stop();
        // The group goes with its last event.
        let path = Path::new("events").join(GROUP).join("enable");
        let _ = self.instance.write(&path, "0");
    }

    /// Hits that found no room.
    pub fn dropped(&self) -> u64 {
        self.cpus
            .iter()
            .map(|(cpu, _, _)| self.instance.lost(*cpu))
            .sum()
    }

    /// Reads what there is, at most so many pages of each CPU, but not after an event of which `to` says that it is the last that
    /// is wanted. Returns whether there may be more of those.
    pub fn turn(&mut self, pages: usize, mut to: impl FnMut(Event) -> bool) -> Result<bool> {
        let mut bytes = vec![0; PAGE];
        let mut more = false;
        for held in self.held.values_mut() {
            held.is_old = true;
        }
        for (cpu, path, file) in &mut self.cpus {
            let mut left = pages;
            let mut last = false;
            while left > 0 && !last {
                left -= 1;
                let len = match file.read(&mut bytes) {
                    Ok(len) => len,
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => 0,
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                    Err(error) => return Err(failed("read", path, error)),
                };
                last |= len == 0;
                ring::events(bytes.get(..len).unwrap_or_default(), |time, data| {
                    if let Some(held) = self.held.get_mut(cpu) {
                        if add_stack(&self.stacks, held, data) {
                            return;
                        }
                    }
                    if let Some(event) = event(&self.known, &self.entries, time, *cpu, data) {
                        if let Some(before) = self.held.remove(cpu) {
                            last |= to(before.event);
                        }
                        if self.stacks.is_empty() {
                            last |= to(event);
                            return;
                        }
                        self.held.insert(*cpu, Held::new(event));
                    }
                });
            }
            if self.held.get(cpu).is_some_and(|held| held.is_old) {
                if let Some(before) = self.held.remove(cpu) {
                    last |= to(before.event);
                }
            }
            more |= !last;
        }
        Ok(more)
    }

    /// The time of the first hit that still waits for its stacks.
    pub fn held_since(&self) -> Option<u64> {
        self.held.values().map(|held| held.event.time).min()
    }

    /// Takes the entries of functions out, and gives their times to the returns.
    pub fn pair(&mut self, events: Vec<Event>) -> Vec<Event> {
        let mut paired = Vec::with_capacity(events.len());
        for mut event in events {
            if event.probe & MARK == 0 {
                // One of the module's.
                paired.push(event);
                continue;
            }
            let id = unmarked(event.probe);
            if let Some(returns) = self.entries.get(&id) {
                let began = self.began.entry((event.pid, *returns)).or_default();
                if began.len() == DEPTH {
                    began.remove(0);
                }
                began.push(event.time);
                continue;
            }
            if event.is_return {
                let began = self.began.get_mut(&(event.pid, id));
                let began = began.and_then(Vec::pop).unwrap_or(event.time);
                event.duration = event.time.saturating_sub(began);
            }
            paired.push(event);
        }
        paired
    }
}

/// A field, from the description of an event.
pub(super) fn field(format: &str, name: &str) -> Option<Field> {
    let lines = format
        .lines()
        .filter_map(|line| line.trim().strip_prefix("field:"));
    lines.into_iter().find_map(|line| {
        let mut parts = line.split(';').map(str::trim);
        let declaration = parts.next()?;
        let (ty, found) = declaration.rsplit_once(' ')?;
        (found.split('[').next() == Some(name)).then_some(())?;
        let mut number = |key: &str| -> Option<usize> {
            parts.find_map(|part| part.strip_prefix(key))?.parse().ok()
        };
        Some(Field {
            offset: number("offset:")?,
            size: number("size:")?,
            is_location: ty.starts_with("__data_loc"),
        })
    })
}

impl Field {
    fn bytes(self, data: &[u8]) -> Option<&[u8]> {
        let bytes = data.get(self.offset..self.offset.checked_add(self.size)?)?;
        if !self.is_location {
            return Some(bytes);
        }
        let place = u32::from_le_bytes(bytes.try_into().ok()?);
        let (offset, len) = (place & 0xffff, place >> 16);
        let offset = usize::try_from(offset).ok()?;
        data.get(offset..offset.checked_add(usize::try_from(len).ok()?)?)
    }

    fn number(self, data: &[u8]) -> Option<u64> {
        let mut word = [0; 8];
        let bytes = self.bytes(data)?;
        word.get_mut(..bytes.len())?.copy_from_slice(bytes);
        Some(u64::from_le_bytes(word))
    }
}

/// An event of ours, from the kernel's bytes.
fn event(
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
        duration: 0,
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
    for (index, (arg, field)) in known.args.iter().enumerate() {
        let bytes = field.and_then(|field| field.bytes(data));
        let room = area.get_mut(arg.arg.offset..arg.arg.end());
        if arg.arg.ty.is_stack() {
            continue;
        }
        let is_fault = match arg.arg.ty {
            // The kernel says it in the text.
            Type::Text { .. } => bytes.is_none_or(|bytes| bytes.starts_with(b"(fault)")),
            _ => bytes.is_none(),
        };
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
fn unmarked(id: u32) -> u16 {
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

print fmt: \"x\"
";

    fn known(args: &str) -> Known {
        let args = parse_args(args, Kind::Return).unwrap();
        Known {
            is_return: true,
            ip: field(FORMAT, "__probe_ret_ip").unwrap(),
            comm: field(FORMAT, "__comm"),
            returned: field(FORMAT, "__ret"),
            args: args
                .into_iter()
                .map(|arg| (arg.clone(), field(FORMAT, &arg.name)))
                .collect(),
        }
    }

    fn bytes(file: &[u8]) -> Vec<u8> {
        let mut data = 1234u16.to_le_bytes().to_vec();
        data.extend([0, 0]);
        data.extend(42i32.to_le_bytes());
        data.extend([1; 8]);
        data.extend(0xabcu64.to_le_bytes());
        let comm = b"cat\0";
        data.extend((44u32 | (4 << 16)).to_le_bytes());
        data.extend(7u64.to_le_bytes());
        data.extend((48u32 | (u32::try_from(file.len()).unwrap() << 16)).to_le_bytes());
        data.extend((-5i32).to_le_bytes());
        data.extend(comm);
        data.extend(file);
        data
    }

    #[test]
    fn events_of_the_kernel() {
        let entries = BTreeMap::from([(9, 1234)]);
        let all = BTreeMap::from([(1234, known("f=+0($arg2):string6,n=$retval:s32"))]);
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
        let hit = read(&bytes(b"(fault)\0")).unwrap();
        assert!(matches!(hit.seen, Seen::Args(bytes) if bytes[12..] == [1, 0, 0, 0]));
        let all = BTreeMap::from([(1234, known(""))]);
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
    fn returns_have_durations() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("instances")).unwrap();
        let mut live = StockLive {
            cpus: Vec::new(),
            instance: Instance::create(dir.path()).unwrap(),
            known: BTreeMap::new(),
            entries: BTreeMap::from([(9, 10)]),
            began: HashMap::new(),
            stacks: Vec::new(),
            held: HashMap::new(),
        };
        let make = |time, probe: u32, pid| Event {
            time,
            probe: MARK | probe,
            pid,
            is_return: probe == 10,
            ..crate::probes::event::tests::event(time)
        };
        let events = vec![
            make(1, 9, 1),
            make(2, 9, 1),
            make(3, 9, 2),
            make(10, 10, 1),
            make(20, 10, 1),
            make(30, 10, 2),
            make(40, 10, 3),
            make(50, 7, 1),
        ];
        let paired = live.pair(events);
        let durations: Vec<_> = paired.iter().map(|event| event.duration).collect();
        assert_eq!(durations, [8, 19, 27, 0, 0]);
    }

    #[test]
    fn fields() {
        assert_eq!(field(FORMAT, "nothing"), None);
        assert_eq!(field(FORMAT, "n").map(|field| field.offset), Some(40));
    }
}
