// SPDX-License-Identifier: GPL-2.0

//! Probes on a kernel without our module: by `kprobe_events` of tracefs, which most kernels have.
//!
//! Each probe is an event of the group `ferrotrace` there, and one on a return two, as the kernel does not tell when the function
//! was entered. Names have no dots there.

#![deny(unsafe_code)]

pub mod live;
mod ring;

use std::fs;
use std::fs::File;
use std::io;
use std::io::Write;
use std::path::Path;
use std::path::PathBuf;

use ferro_core::probe_args::Args;
use nix::errno::Errno;

use super::control::errno;
use super::control::no_symbol;
use super::error::Error;
use super::error::Names;
use super::error::Refusal;
use super::error::Result;
use super::model::Kind;
use super::model::Place;
use super::model::Probe;
use super::model::parse_args;
use super::spec::ConditionSpec;

/// The events' group.
const GROUP: &str = "ferrotrace";

/// What the name of the event at the entry ends with, for a return.
const ENTRY: &str = "__entry";

/// Where tracefs may be.
const PLACES: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];

/// `kprobe_events`.
#[derive(Clone, Debug)]
pub struct Stock {
    tracing: PathBuf,
}

impl Stock {
    /// That of the running kernel, if it has one.
    pub fn find() -> Option<Self> {
        let mut places = PLACES.into_iter().map(PathBuf::from);
        let tracing = places.find(|place| place.join("kprobe_events").exists())?;
        Some(Self { tracing })
    }

    /// Another directory like that of tracefs.
    pub fn new(tracing: PathBuf) -> Self {
        Self { tracing }
    }

    fn path(&self) -> PathBuf {
        self.tracing.join("kprobe_events")
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
        let text = self.read(self.path())?;
        // Only root may read this, and a probe without counts is one as well.
        let profile = fs::read_to_string(self.tracing.join("kprobe_profile")).unwrap_or_default();
        let probes = text.lines().filter_map(parse_line);
        Ok(probes
            .map(|mut probe| {
                let event = Self::event(&self.tracing, &probe.name);
                let number = |name: &str| fs::read_to_string(event.join(name)).ok();
                probe.id = number("id")
                    .and_then(|id| id.trim().parse().ok())
                    .unwrap_or(0);
                probe.conditions = number("filter")
                    .map(|filter| filter.trim().to_owned())
                    .filter(|filter| filter != "none" && !filter.is_empty())
                    .into_iter()
                    .collect();
                (probe.hits, probe.missed) = counts(&profile, &probe.name);
                probe
            })
            .collect())
    }

    /// Adds a probe, as [`Control::add`](super::control::Control::add) does. Returns its name.
    pub fn add(&self, kind: Kind, name: &str, place: &Place, args: &str) -> Result<String> {
        if kind == Kind::Return && place.offset != 0 {
            return Err(Error::ReturnOffset(place.clone()));
        }
        let name = event_name(name);
        if self.list()?.iter().any(|probe| probe.name == name) {
            return Err(Error::Exists(name));
        }
        let parsed = Args::parse(args, kind == Kind::Return).unwrap_or_default();
        let filter = filter(parsed)?;
        let words = fetches(parsed.text());
        let line = match kind {
            Kind::Probe => format!("p:{GROUP}/{name} {place} __comm=$comm:string {words}"),
            Kind::Return => {
                format!("r:{GROUP}/{name} {place} __comm=$comm:string __ret=$retval:x64 {words}")
            }
        };
        self.write(line.trim_end(), place)?;
        let rest = || {
            if kind == Kind::Return {
                self.write(&format!("p:{GROUP}/{name}{ENTRY} {place}"), place)?;
            }
            if !filter.is_empty() {
                let path = Self::event(&self.tracing, &name).join("filter");
                let written = fs::write(&path, &filter);
                written.map_err(|error| Error::of_file("write to", path, error))?;
            }
            Ok(())
        };
        match rest() {
            Ok(()) => Ok(name),
            Err(error) => {
                // The other error is the one to report.
                let _ = self.remove(&name);
                Err(error)
            }
        }
    }

    /// Removes a probe.
    pub fn remove(&self, name: &str) -> Result<()> {
        let name = event_name(name);
        let removed = self.append(&format!("-:{GROUP}/{name}"));
        let entry = Self::event(&self.tracing, &format!("{name}{ENTRY}"));
        if entry.exists() {
            // What is left behind would be found by the next removal.
            let _ = self.append(&format!("-:{GROUP}/{name}{ENTRY}"));
        }
        removed.map_err(|error| match errno(&error) {
            Errno::ENOENT => {
                let probes = self.list().unwrap_or_default();
                Error::NoProbe {
                    name,
                    others: Names(probes.into_iter().map(|probe| probe.name).collect()),
                }
            }
            _ => Error::of_file("write to", self.path(), error),
        })
    }

    /// Removes all probes.
    pub fn remove_all(&self) -> Result<()> {
        for probe in self.list()? {
            self.remove(&probe.name)?;
        }
        Ok(())
    }

    fn append(&self, line: &str) -> io::Result<()> {
        let mut file = File::options().append(true).open(self.path())?;
        file.write_all(format!("{line}\n").as_bytes())
    }

    fn write(&self, line: &str, place: &Place) -> Result<()> {
        self.append(line).map_err(|error| match errno(&error) {
            errno @ (Errno::EINVAL
            | Errno::EILSEQ
            | Errno::EOPNOTSUPP
            | Errno::ENOENT
            | Errno::EADDRNOTAVAIL) => {
                let unknown = match errno {
                    Errno::ENOENT | Errno::EINVAL => no_symbol(place),
                    _ => None,
                };
                let log = self.last_error().into_iter().collect();
                let place = place.clone();
                let refusal = Refusal { errno, log };
                unknown.unwrap_or(Error::Refused { place, refusal })
            }
            _ => Error::of_file("write to", self.path(), error),
        })
    }

    /// What the kernel says about the last error.
    fn last_error(&self) -> Option<String> {
        let log = fs::read_to_string(self.tracing.join("error_log")).ok()?;
        let mut lines = log.lines().filter_map(|line| line.split_once(": error: "));
        lines.next_back().map(|(_, text)| text.trim().to_owned())
    }
}

/// The hits of an event, and those that were missed.
fn counts(profile: &str, name: &str) -> (u64, u64) {
    let mut lines = profile.lines().map(|line| line.split_ascii_whitespace());
    let found = lines.find_map(|mut words| {
        (words.next()? == name).then_some(())?;
        Some((words.next()?.parse().ok()?, words.next()?.parse().ok()?))
    });
    found.unwrap_or_default()
}

/// A name that an event can have.
fn event_name(name: &str) -> String {
    let fits = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
    let name: String = name.chars().map(fits).collect();
    match name.starts_with(|c: char| c.is_ascii_digit()) {
        true => format!("_{name}"),
        false => name,
    }
}

/// Arguments in the kernel's words: these have no length of text, which is at most 4096 bytes anyway.
fn fetches(args: &str) -> String {
    let words = args
        .split_ascii_whitespace()
        .map(|word| match word.rsplit_once(':') {
            Some((fetch, ty)) if ty.contains("string") => {
                format!(
                    "{fetch}:{}",
                    ty.trim_end_matches(|c: char| c.is_ascii_digit())
                )
            }
            _ => word.to_owned(),
        });
    words.collect::<Vec<_>>().join(" ")
}

/// The filter of an event that is the same as the conditions.
fn filter(args: Args<'_>) -> Result<String> {
    let texts: Vec<&str> = args
        .iter()
        .filter(|(_, arg)| arg.ty.is_text())
        .map(|(name, _)| name)
        .collect();
    let words = args.conditions_text().split_ascii_whitespace();
    let parts = words.map(|word| {
        let unsupported = || Error::Stock(format!("the condition {word}"));
        let condition: ConditionSpec = word.parse().map_err(|_| unsupported())?;
        let ConditionSpec { left, rest } = condition;
        let operator = rest.len()
            - rest
                .trim_start_matches(['=', '!', '<', '>', '&', '~'])
                .len();
        let (operator, right) = rest.split_at_checked(operator).ok_or_else(unsupported)?;
        let right = right.trim_matches('"');
        let is_arg = args.iter().any(|(name, _)| name == left);
        Ok(match left.as_str() {
            "duration" if !is_arg => return Err(unsupported()),
            "pid" if !is_arg => by_thread(operator, right),
            "comm" if !is_arg => format!("comm {operator} \"{right}\""),
            "cpu" if !is_arg => format!("CPU {operator} {right}"),
            name if texts.contains(&name) => format!("{name} {operator} \"{right}\""),
            name => format!("{name} {operator} {right}"),
        })
    });
    Ok(parts.collect::<Result<Vec<_>>>()?.join(" && "))
}

/// A condition on a process, with the threads that it has now, or on a thread.
fn by_thread(operator: &str, right: &str) -> String {
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
    let args: Vec<_> = words.filter(|word| !word.starts_with("__")).collect();
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
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_kernel() {
        let line = "r128:ferrotrace/open_ret do_sys_openat2+0 __comm=$comm:string __ret=$retval:x64 f=+0($arg2):string n=$retval:s32";
        let probe = parse_line(line).unwrap();
        assert_eq!(
            (probe.name.as_str(), probe.kind),
            ("open_ret", Kind::Return)
        );
        assert_eq!(probe.place.to_string(), "do_sys_openat2");
        let args: Vec<_> = probe.args.iter().map(|arg| arg.text.as_str()).collect();
        assert_eq!(args, ["f=+0($arg2):string", "n=$retval:s32"]);
        for other in [
            "p:other/open f",
            "p:ferrotrace/open__entry f",
            "",
            "x",
            "t:ferrotrace/a b",
        ] {
            assert!(parse_line(other).is_none(), "{other}");
        }
        assert_eq!(counts("  a_b   12   3\n  a   4  5\n", "a"), (4, 5));
        assert_eq!(counts("", "a"), (0, 0));
    }

    #[test]
    fn words_for_the_kernel() {
        assert_eq!(event_name("watch.12.0"), "watch_12_0");
        assert_eq!(event_name("0-a"), "_0_a");
        assert_eq!(
            fetches("f=+0(%si):string32 n=%di:u8 g=+0(%di):ustring"),
            "f=+0(%si):string n=%di:u8 g=+0(%di):ustring"
        );
        let told = |line: &str| {
            filter(Args::parse(line, true).unwrap()).map_err(|error| error.to_string())
        };
        assert_eq!(
            told("f=+0(%si):string n=%di:s8 if f~/e* n>=-1 cpu<2 comm==\"cat\"").unwrap(),
            "f ~ \"/e*\" && n >= -1 && CPU < 2 && comm == \"cat\""
        );
        assert_eq!(
            told("if pid==999999999").unwrap(),
            "(common_pid == 999999999)"
        );
        assert_eq!(told("pid=%di:u32 if pid==7").unwrap(), "pid == 7");
        assert!(
            told("if duration>1")
                .unwrap_err()
                .contains("ferrotrace_kprobe_events")
        );
        let own = std::process::id();
        // All of its threads.
        let thread = nix::unistd::gettid();
        let both = told(&format!("if pid!={own}")).unwrap();
        assert!(both.contains(&format!("common_pid != {own}")), "{both}");
        assert!(both.contains(&format!("common_pid != {thread}")), "{both}");
    }

    #[test]
    fn a_directory_like_that_of_tracefs() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("kprobe_events");
        fs::write(&file, "p:other/x f\n").unwrap();
        let stock = Stock::new(dir.path().into());
        let place = "f".parse().unwrap();
        assert_eq!(
            stock.add(Kind::Probe, "a.b", &place, "n=%di:u8").unwrap(),
            "a_b"
        );
        assert_eq!(stock.list().unwrap()[0].name, "a_b");
        assert!(matches!(
            stock.add(Kind::Probe, "a_b", &place, ""),
            Err(Error::Exists(_))
        ));
        stock.add(Kind::Return, "r", &place, "").unwrap();
        let text = fs::read_to_string(&file).unwrap();
        assert_eq!(
            text,
            "p:other/x f\n\
            p:ferrotrace/a_b f __comm=$comm:string n=%di:u8\n\
            r:ferrotrace/r f __comm=$comm:string __ret=$retval:x64\n\
            p:ferrotrace/r__entry f\n"
        );
        assert_eq!(stock.list().unwrap().len(), 2);
        stock.remove("a.b").unwrap();
        assert!(
            fs::read_to_string(&file)
                .unwrap()
                .ends_with("-:ferrotrace/a_b\n")
        );
    }
}
