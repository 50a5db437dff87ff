// SPDX-License-Identifier: GPL-2.0

//! Probes on a kernel without our module, by `kprobe_events` of tracefs, which most kernels have, and probes in files, by
//! `uprobe_events`.
//!
//! Each probe is an event of the group `ferrotrace` there, and one on a return two, as the kernel does not tell when the function
//! was entered. Names have no dots there.

#![deny(unsafe_code)]

pub mod instance;
pub mod live;
mod losses;
pub(crate) mod record;
pub(crate) mod ring;
mod stacks;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::collections::HashMap;
use std::fs;
use std::fs::File;
use std::io;
use std::io::Write;
use std::path::Path;
use std::path::PathBuf;

use ferro_kprobe_events_core::probe_args::Args;
use nix::errno::Errno;

use super::condition::Condition;
use super::condition::ConditionSpec;
use super::control::errno;
use super::control::no_symbol;
use super::error::Error;
use super::error::Refusal;
use super::error::Result;
use super::model::Kind;
use super::model::NAME_MAX;
use super::model::Place;
use super::model::Probe;
use super::model::parse_args;
use super::model::short_name;
use super::resolve::Wanted;
use crate::elf::Elf;
use crate::near::Names;

/// The events' group.
const GROUP: &str = "ferrotrace";

/// Suffix of the name of a return probe's event at the entry.
const ENTRY: &str = "__entry";

/// The group of events that are probes.
pub const RECORDED_GROUP: &str = GROUP;

/// Where tracefs may be.
const PLACES: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];

/// Name prefixes for arguments that are stacks. Such an argument takes little room, and the stack
/// follows as an event of its own.
const STACKS: [(&str, &str); 2] = [("__k_", "$kstack"), ("__u_", "$ustack")];

/// Start of the name of an argument that is text if the memory of a number can be read: the kernel
/// does not say so of numbers.
const READABLE: &str = "__f_";

/// Marks the numbers of events, which are not those of the module's probes.
const MARK: u32 = 1 << 16;

/// The files with probes.
const KERNEL: &str = "kprobe_events";
const FILES: &str = "uprobe_events";

/// `kprobe_events` and `uprobe_events`.
#[derive(Debug)]
pub struct Stock {
    pub(super) tracing: PathBuf,
    /// True if tracefs provides the probes in the kernel.
    in_kernel: bool,
    /// True if events are only counted: they have no fields but the arguments.
    is_lean: bool,
    /// Executables and libraries, which have the names of places in them.
    code: RefCell<BTreeMap<String, Option<Elf>>>,
    /// Names of places in files.
    places: RefCell<HashMap<Place, Place>>,
}

impl Stock {
    /// That of the running kernel, for probes in the kernel and in files, if it has that.
    pub fn find() -> Option<Self> {
        Self::with(KERNEL).map(Self::new)
    }

    /// The same for probes in files only.
    pub fn find_for_files() -> Option<Self> {
        let tracing = Self::with(FILES)?;
        Some(Self {
            in_kernel: false,
            ..Self::new(tracing)
        })
    }

    fn with(file: &str) -> Option<PathBuf> {
        let mut places = PLACES.into_iter().map(PathBuf::from);
        places.find(|place| place.join(file).exists())
    }

    /// Another directory like that of tracefs.
    pub fn new(tracing: PathBuf) -> Self {
        Self {
            tracing,
            in_kernel: true,
            is_lean: false,
            code: RefCell::default(),
            places: RefCell::default(),
        }
    }

    /// Returns the same, for probes in the kernel whose hits are only counted.
    pub(super) fn for_counts(&self) -> Option<Self> {
        self.in_kernel.then(|| Self {
            is_lean: true,
            ..Self::new(self.tracing.clone())
        })
    }

    /// Returns true if a probe belongs to tracefs.
    pub fn has(probe: &Probe) -> bool {
        probe.id & MARK != 0
    }

    /// The files that have probes.
    fn paths(&self) -> Vec<PathBuf> {
        let names = [KERNEL, FILES]
            .into_iter()
            .filter(|name| *name == FILES || self.in_kernel);
        let paths = names.map(|name| self.tracing.join(name));
        paths.filter(|path| path.exists()).collect()
    }

    /// The file for a probe there.
    fn path(&self, at: Option<u64>) -> PathBuf {
        self.tracing.join(match at {
            None => KERNEL,
            Some(_) => FILES,
        })
    }

    /// The files of an event, below the top or below an instance.
    fn event(top: &Path, name: &str) -> PathBuf {
        top.join("events").join(GROUP).join(name)
    }

    fn read(&self, path: PathBuf) -> Result<String> {
        fs::read_to_string(&path).map_err(|error| Error::of_file("read", path, error))
    }

    /// Reads the probes that exist now.
    pub fn list(&self) -> Result<Vec<Probe>> {
        let mut text = String::new();
        for path in self.paths() {
            text.push_str(&self.read(path)?);
        }
        // Only root may read this, and a probe without counts is one as well.
        let profiles = ["kprobe_profile", "uprobe_profile"]
            .map(|name| fs::read_to_string(self.tracing.join(name)).unwrap_or_default());
        let profile = profiles.concat();
        let profile = counts(&profile);
        let probes = text.lines().filter_map(parse_line);
        Ok(probes
            .map(|mut probe| {
                self.name_place(&mut probe.place);
                let event = Self::event(&self.tracing, &probe.name);
                let number = |name: &str| fs::read_to_string(event.join(name)).ok();
                probe.id = number("id")
                    .and_then(|id| id.trim().parse::<u16>().ok())
                    .map_or(0, |id| MARK | u32::from(id));
                probe.conditions = number("filter")
                    .map(|filter| filter.trim().to_owned())
                    .filter(|filter| filter != "none" && !filter.is_empty())
                    .into_iter()
                    .collect();
                let counts = profile.get(probe.name.as_str());
                (probe.hits, probe.missed) = counts.copied().unwrap_or_default();
                probe
            })
            .collect())
    }

    /// Gives a place in a file the name of the function, if that is known.
    fn name_place(&self, place: &mut Place) {
        let known = self.places.borrow().get(place).cloned();
        let named = known.unwrap_or_else(|| {
            let named = self.named(place).unwrap_or_else(|| place.clone());
            self.places
                .borrow_mut()
                .insert(place.clone(), named.clone());
            named
        });
        *place = named;
    }

    fn named(&self, place: &Place) -> Option<Place> {
        let (path, at) = place.in_file()?;
        let mut code = self.code.borrow_mut();
        let elf = code
            .entry(path.to_owned())
            .or_insert_with(|| Elf::read(Path::new(path)).ok());
        let at = at
            .strip_prefix("0x")
            .and_then(|at| u64::from_str_radix(at, 16).ok());
        let elf = elf.as_ref()?;
        let found = elf.symbol_at(at?, |_| true).ok()?;
        // Behind its end is another one, whose name several functions may have.
        let is_within = match elf.size_of(found.symbol) {
            Some(size @ 1..) => found.distance < size,
            _ => found.distance == 0,
        };
        is_within.then_some(())?;
        Some(Place {
            symbol: format!("{path}:{}", found.symbol),
            offset: u32::try_from(found.distance).ok()?,
        })
    }

    /// Adds probes in their order, up to the first that is refused. Returns the names of those before it, and why it is. Each takes a
    /// write, or two: of several in one write the kernel does not say which it has refused.
    pub fn add(&self, probes: &[Wanted]) -> (Vec<String>, Result<()>) {
        let mut added = Vec::new();
        let mut known = match self.names() {
            Ok(known) => known,
            Err(error) => return (added, Err(error)),
        };
        for probe in probes {
            let name = event_name(&probe.name);
            let done = match known.insert(name.clone()) {
                false => Err(Error::Exists(name.clone())),
                true => self.add_one(probe, &name),
            };
            if let Err(error) = done {
                return (added, Err(error));
            }
            added.push(name);
        }
        (added, Ok(()))
    }

    /// The names of the probes that exist now.
    fn names(&self) -> Result<BTreeSet<String>> {
        let mut names = BTreeSet::new();
        for path in self.paths() {
            let text = self.read(path)?;
            names.extend(text.lines().filter_map(parse_line).map(|probe| probe.name));
        }
        Ok(names)
    }

    fn add_one(&self, probe: &Wanted, name: &str) -> Result<()> {
        let Wanted {
            kind,
            place,
            at,
            args,
            ..
        } = probe;
        let (kind, at) = (*kind, *at);
        if kind == Kind::Return && place.offset != 0 {
            return Err(Error::ReturnOffset(place.clone()));
        }
        let parsed = Args::parse(args, kind == Kind::Return).unwrap_or_default();
        let filter = filter_of(probe)?;
        let words = fetches(parsed.text(), at.is_some());
        let told = match (at, place.in_file()) {
            (Some(at), Some((path, _))) => format!("{path}:{at:#x}"),
            _ => place.to_string(),
        };
        let line = match kind {
            _ if self.is_lean => {
                let letter = if kind == Kind::Return { 'r' } else { 'p' };
                format!("{letter}:{GROUP}/{name} {told} {words}")
            }
            Kind::Probe | Kind::Tracepoint => {
                format!("p:{GROUP}/{name} {told} __comm=$comm:string {words}")
            }
            Kind::Return => {
                format!("r:{GROUP}/{name} {told} __comm=$comm:string __ret=$retval:x64 {words}")
            }
        };
        self.write(line.trim_end(), place, at)?;
        if self.is_lean {
            // The histogram has the filter.
            return Ok(());
        }
        let rest = || {
            if kind == Kind::Return {
                self.write(&format!("p:{GROUP}/{name}{ENTRY} {told}"), place, at)?;
            }
            if !filter.is_empty() {
                let path = Self::event(&self.tracing, name).join("filter");
                let written = fs::write(&path, &filter);
                written.map_err(|error| Error::of_file("write to", path, error))?;
            }
            Ok(())
        };
        rest().inspect_err(|_| {
            // The other error is the one to report.
            let _ = self.remove(name);
        })
    }

    /// Removes a probe.
    pub fn remove(&self, name: &str) -> Result<()> {
        let name = event_name(name);
        let mut removed = Err(io::Error::from(Errno::ENOENT));
        for path in self.paths() {
            removed = append(&path, &format!("-:{GROUP}/{name}"));
            let entry = Self::event(&self.tracing, &format!("{name}{ENTRY}"));
            if removed.is_ok() && entry.exists() {
                // What is left behind would be found by the next removal.
                let _ = append(&path, &format!("-:{GROUP}/{name}{ENTRY}"));
            }
            // Somebody may use it, which the other file knows nothing of.
            let elsewhere = |error: &io::Error| errno(error) == Errno::ENOENT;
            if !removed.as_ref().is_err_and(elsewhere) {
                break;
            }
        }
        removed.map_err(|error| match errno(&error) {
            Errno::ENOENT => {
                let probes = self.list().unwrap_or_default();
                Error::NoProbe {
                    name,
                    others: Names(probes.into_iter().map(|probe| probe.name).collect()),
                }
            }
            _ => Error::of_file("write to", self.tracing.clone(), error),
        })
    }

    /// Removes the instances that killed processes have left.
    pub(super) fn remove_stale_instances(&self) {
        instance::remove_stale(&self.tracing.join("instances"));
    }

    /// Removes all probes.
    pub fn remove_all(&self) -> Result<()> {
        for probe in self.list()? {
            self.remove(&probe.name)?;
        }
        Ok(())
    }

    fn write(&self, line: &str, place: &Place, at: Option<u64>) -> Result<()> {
        let path = self.path(at);
        append(&path, line).map_err(|error| match errno(&error) {
            errno @ (Errno::EINVAL
            | Errno::EILSEQ
            | Errno::EOPNOTSUPP
            | Errno::ENOENT
            | Errno::EADDRNOTAVAIL) => {
                let unknown = match errno {
                    Errno::ENOENT | Errno::EINVAL if at.is_none() => no_symbol(place),
                    _ => None,
                };
                let log = self.last_error().into_iter().collect();
                let place = place.clone();
                let refusal = Refusal { errno, log };
                unknown.unwrap_or(Error::Refused { place, refusal })
            }
            _ => Error::of_file("write to", path, error),
        })
    }

    /// Returns the kernel's text for the last error.
    fn last_error(&self) -> Option<String> {
        let log = fs::read_to_string(self.tracing.join("error_log")).ok()?;
        let mut lines = log.lines().filter_map(|line| line.split_once(": error: "));
        lines.next_back().map(|(_, text)| text.trim().to_owned())
    }
}

fn append(path: &Path, line: &str) -> io::Result<()> {
    let mut file = File::options().append(true).open(path)?;
    file.write_all(format!("{line}\n").as_bytes())
}

/// The hits of events, and those that were missed. Lines of probes in files begin with the file,
/// and have no misses.
fn counts(profile: &str) -> BTreeMap<&str, (u64, u64)> {
    let lines = profile.lines().map(|line| line.split_ascii_whitespace());
    let counts = lines.filter_map(|words| {
        let mut words = words.skip_while(|word| word.starts_with('/'));
        let name = words.next()?;
        let mut numbers = words.map(|word| word.parse().ok());
        Some((
            name,
            (numbers.next()??, numbers.next().flatten().unwrap_or(0)),
        ))
    });
    counts.collect()
}

/// A name that an event can have, and another one with it for the entry of a function.
fn event_name(name: &str) -> String {
    let fits = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
    let name: String = name.chars().map(fits).collect();
    let name = match name.starts_with(|c: char| c.is_ascii_digit()) {
        true => format!("_{name}"),
        false => name,
    };
    short_name(&name, NAME_MAX - ENTRY.len())
}

/// Returns the argument that says whether this one, a number in memory, can be read.
fn readable(word: &str) -> Option<String> {
    let (name, rest) = word.split_once('=')?;
    let fetch = rest.split_once(')').and_then(|_| rest.rsplit(')').next());
    let fetch = rest.strip_suffix(fetch?)?;
    let is_text = word.ends_with("string");
    (rest.starts_with(['+', '-']) && !is_text).then(|| format!("{READABLE}{name}={fetch}:string"))
}

/// Arguments in the kernel's words: these have no length of text, which is at most 4096 bytes anyway, no stacks, and in files
/// no parameters.
fn fetches(args: &str, in_file: bool) -> String {
    let words = args.split_ascii_whitespace().map(|word| {
        let stack = STACKS.iter().find_map(|(mark, fetch)| {
            let name = word.strip_suffix(fetch)?.strip_suffix('=')?;
            Some(format!("{mark}{name}=%sp:x8"))
        });
        if let Some(stack) = stack {
            return stack;
        }
        let word = match in_file {
            true => without_parameters(word),
            false => word.to_owned(),
        };
        match word.rsplit_once(':') {
            Some((fetch, ty)) if ty.contains("string") => {
                let ty = ty.trim_end_matches(|c: char| c.is_ascii_digit());
                format!("{fetch}:{ty}")
            }
            _ => word,
        }
    });
    let mut words: Vec<_> = words.collect();
    let more: Vec<_> = words.iter().filter_map(|word| readable(word)).collect();
    words.extend(more);
    words.join(" ")
}

/// Registers and words of the stack in place of parameters, by the rules of the System V ABI for x86-64.
fn without_parameters(word: &str) -> String {
    const REGISTERS: [&str; 6] = ["%di", "%si", "%dx", "%cx", "%r8", "%r9"];
    let Some((before, rest)) = word.split_once("$arg") else {
        return word.to_owned();
    };
    let end = rest
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(rest.len());
    let (number, after) = rest.split_at_checked(end).unwrap_or((rest, ""));
    let index = number
        .parse::<usize>()
        .ok()
        .and_then(|number| number.checked_sub(1));
    let Some(index) = index else {
        return word.to_owned();
    };
    match REGISTERS.get(index) {
        Some(register) => format!("{before}{register}{after}"),
        // The return address comes first.
        None => format!("{before}$stack{}{after}", index - REGISTERS.len() + 1),
    }
}

/// The filter of a probe's event.
pub(crate) fn filter_of(probe: &Wanted) -> Result<String> {
    let args = Args::parse(&probe.args, probe.kind == Kind::Return).unwrap_or_default();
    filter(args, probe.filter.as_ref())
}

/// The filter of an event that is the same as the conditions.
fn filter(args: Args<'_>, more: Option<&Condition>) -> Result<String> {
    let texts: Vec<&str> = args
        .iter()
        .filter(|(_, arg)| arg.ty.is_text())
        .map(|(name, _)| name)
        .collect();
    let is_arg = |left: &str| args.iter().any(|(name, _)| name == left);
    let mut test = |condition: &ConditionSpec| {
        let ConditionSpec { left, rest } = condition;
        let unsupported = || Error::Stock(format!("the condition {left}{rest}"));
        let (operator, right) = condition.operator().ok_or_else(unsupported)?;
        Ok(match left.as_str() {
            "duration" if !is_arg(left) => return Err(unsupported()),
            "pid" if !is_arg(left) => by_thread(operator, right),
            "comm" if !is_arg(left) => format!("comm {operator} \"{right}\""),
            "cpu" if !is_arg(left) => format!("CPU {operator} {right}"),
            name if texts.contains(&name) => format!("{name} {operator} \"{right}\""),
            name => format!("{name} {operator} {right}"),
        })
    };
    let words = args.conditions_text().split_ascii_whitespace();
    let plain = words.map(|word| {
        let condition = word.parse();
        condition.map_err(|_| Error::Stock(format!("the condition {word}")))
    });
    let plain = plain.collect::<Result<Vec<ConditionSpec>>>()?;
    let plain = plain.iter().map(&mut test);
    let mut parts = plain.collect::<Result<Vec<_>>>()?;
    if let Some(more) = more {
        let text = more.filter(&mut test)?;
        parts.push(match parts.is_empty() {
            true => text,
            false => format!("({text})"),
        });
    }
    Ok(parts.join(" && "))
}

/// A condition on a process, with the threads that it has now, or on a thread.
pub fn by_thread(operator: &str, right: &str) -> String {
    let threads = fs::read_dir(format!("/proc/{right}/task"))
        .into_iter()
        .flatten();
    let mut threads: Vec<String> = threads
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .collect();
    if !threads.iter().any(|thread| thread == right) {
        threads.push(right.to_owned());
    }
    let joint = if operator == "!=" { " && " } else { " || " };
    let tests: Vec<_> = threads
        .iter()
        .map(|thread| format!("common_pid {operator} {thread}"))
        .collect();
    format!("({})", tests.join(joint))
}

/// A probe of ours, from a line of the file.
fn parse_line(line: &str) -> Option<Probe> {
    let mut words = line.split_ascii_whitespace();
    let (kind, event) = words.next()?.split_once(':')?;
    let kind = match kind.chars().next()? {
        'p' => Kind::Probe,
        'r' => Kind::Return,
        _ => return None,
    };
    let name = event.strip_prefix(GROUP)?.strip_prefix('/')?;
    if name.ends_with(ENTRY) {
        return None;
    }
    let place = words.next()?.parse().ok()?;
    let stack = |word: &str| {
        STACKS.iter().find_map(|(mark, fetch)| {
            let (name, _) = word.strip_prefix(mark)?.split_once('=')?;
            Some(format!("{name}={fetch}"))
        })
    };
    let args = words.filter_map(|word| match word.starts_with("__") {
        true => stack(word),
        false => Some(word.to_owned()),
    });
    let args: Vec<_> = args.collect();
    Some(Probe {
        id: 0,
        name: name.to_owned(),
        kind,
        place,
        address: 0,
        hits: 0,
        missed: 0,
        gone: false,
        args: parse_args(&args.join(","), kind).unwrap_or_default(),
        conditions: Vec::new(),
    })
}

#[cfg(test)]
mod tests;
