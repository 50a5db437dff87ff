// SPDX-License-Identifier: GPL-2.0

//! Events of tracefs, and their filters, for the tracepoints that the user names.

#![deny(unsafe_code)]

use std::fs;
use std::path::Path;
use std::path::PathBuf;

use super::error::Error;
use super::error::Result;
use super::format::Field;
use super::format::Format;
use super::spec::EventSpec;
use super::spec::STACKS;
use super::spec::SYSCALL;
use crate::file::IoError;
use crate::functions::glob::Glob;
use crate::near::Names;
use crate::near::near;
use crate::probes::condition::Condition;
use crate::probes::condition::ConditionSpec;
use crate::probes::error::Error as ProbeError;
use crate::probes::model::Kind;
use crate::probes::model::Place;
use crate::probes::model::Probe;
use crate::probes::stock::by_thread;
use crate::probes::stock::instance::Instance;

/// Starts of the names of system calls' events.
const ENTER: &str = "syscalls:sys_enter_";
const EXIT: &str = "syscalls:sys_exit_";

/// System calls without a return.
const WITHOUT_RETURN: [&str; 2] = ["exit", "exit_group"];

/// The field of a return.
const RET: &str = "ret";

/// The return of a system call.
#[derive(Clone, Debug)]
pub struct Exit {
    /// `SYSTEM:EVENT`.
    pub event: String,
    /// Its fields.
    pub format: Format,
    /// Filter of its records; empty for all.
    pub filter: String,
}

/// A tracepoint, or a system call.
#[derive(Clone, Debug)]
pub struct Tracepoint {
    /// Name as the user gives it.
    pub place: Place,
    /// `SYSTEM:EVENT`; the entry of a system call.
    pub event: String,
    /// Its fields.
    pub format: Format,
    /// Filter of its records; empty for all.
    pub filter: String,
    /// Fields to show; all if there are none.
    fields: Vec<String>,
    /// Field with values to add up, as plain numbers.
    pub value: Option<Field>,
    /// The return of a system call.
    pub exit: Option<Exit>,
}

/// Events of the kernel.
#[derive(Debug)]
pub struct Available {
    tracing: PathBuf,
    all: String,
}

fn read(path: &Path) -> Result<String> {
    let text = fs::read_to_string(path);
    text.map_err(|error| IoError::or_denied(Error::Denied, "read", path, error))
}

impl Available {
    /// Reads the list of events.
    pub fn read() -> Result<Self> {
        let tracing = Instance::tracing()?.ok_or(ProbeError::NoTracefs)?;
        Self::of(tracing)
    }

    /// Reads the list of events in a directory like tracefs.
    pub fn of(tracing: PathBuf) -> Result<Self> {
        let all = read(&tracing.join("available_events"))?;
        Ok(Self { tracing, all })
    }

    /// Returns true if there is a system of events of this name.
    pub fn has_system(&self, name: &str) -> bool {
        let Ok(glob) = name.parse::<Glob>() else {
            return false;
        };
        let mut systems = self.all.lines().filter_map(|line| line.split_once(':'));
        name == SYSCALL || systems.any(|(system, _)| glob.matches(system))
    }

    /// Returns the events that match `spec`, as `SYSTEM:EVENT`.
    fn matching(&self, spec: &EventSpec) -> Result<Vec<&str>> {
        let pattern = format!("{}:{}", spec.system, spec.name);
        let calls = || self.all.lines().filter_map(|line| line.strip_prefix(ENTER));
        if spec.is_syscall() && calls().next().is_none() {
            return Err(Error::NoSyscalls);
        }
        let none = || match spec.is_syscall() {
            true => Error::NoSyscall {
                pattern: spec.name.clone(),
                near: near(&spec.name, calls()),
            },
            false => Error::NoEvent {
                pattern: pattern.clone(),
                near: near(&pattern, self.all.lines()),
            },
        };
        let glob = |text: &str| text.parse::<Glob>().map_err(|_| none());
        let (system, name) = (glob(&spec.system)?, glob(&spec.name)?);
        let matches = |line: &&str| match spec.is_syscall() {
            true => line
                .strip_prefix(ENTER)
                .is_some_and(|call| name.matches(call)),
            false => line
                .split_once(':')
                .is_some_and(|(of, event)| system.matches(of) && name.matches(event)),
        };
        let mut found: Vec<_> = self.all.lines().filter(matches).collect();
        found.sort_unstable();
        found.dedup();
        match found.is_empty() {
            true => Err(none()),
            false => Ok(found),
        }
    }

    fn format(&self, event: &str, is_syscall: bool) -> Result<Format> {
        let path = self
            .tracing
            .join("events")
            .join(event.replace(':', "/"))
            .join("format");
        let text = read(&path)?;
        Format::parse(&text, is_syscall).map_err(|error| Error::Format(event.to_owned(), error))
    }

    /// Returns the tracepoints that match `spec`.
    pub fn resolve(&self, spec: &EventSpec) -> Result<Vec<Tracepoint>> {
        let events = self.matching(spec)?.into_iter();
        events.map(|event| self.one(spec, event)).collect()
    }

    fn one(&self, spec: &EventSpec, event: &str) -> Result<Tracepoint> {
        let is_syscall = spec.is_syscall();
        let format = self.format(event, is_syscall)?;
        let call = event.strip_prefix(ENTER).filter(|_| is_syscall);
        let symbol = match call {
            Some(call) => format!("{SYSCALL}:{call}"),
            None => event.to_owned(),
        };
        let mut exit = None;
        if let Some(call) = call.filter(|call| !WITHOUT_RETURN.contains(call)) {
            let event = format!("{EXIT}{call}");
            exit = Some(Exit {
                format: self.format(&event, true)?,
                event,
                filter: String::new(),
            });
        }
        let tracepoint = Tracepoint {
            place: Place { symbol, offset: 0 },
            event: event.to_owned(),
            format,
            filter: String::new(),
            fields: spec.fields.clone(),
            value: None,
            exit,
        };
        for name in &spec.fields {
            if !STACKS.contains(&name.as_str()) && name != RET {
                tracepoint.field(&tracepoint.format, name)?;
            }
        }
        tracepoint.with(spec.condition.as_ref())
    }
}

impl Tracepoint {
    /// Returns a probe for the tracepoint. Its hits have this number.
    pub fn probe(&self, id: u32) -> Probe {
        Probe {
            id,
            name: self.place.symbol.clone(),
            kind: Kind::Tracepoint,
            place: self.place.clone(),
            address: 0,
            hits: 0,
            missed: 0,
            gone: false,
            args: Vec::new(),
            conditions: Vec::new(),
        }
    }

    /// Returns true if a stack is wanted, of user space or of the kernel.
    pub fn has_stack(&self, user: bool) -> bool {
        let [kernel, of_user] = STACKS;
        let name = if user { of_user } else { kernel };
        self.fields.iter().any(|field| field == name)
    }

    /// Returns true if addresses of functions are shown.
    pub fn has_addresses(&self) -> bool {
        let of_stack = self.has_stack(false) || self.has_stack(true);
        of_stack || self.shown().iter().any(Field::is_address)
    }

    /// Returns true if an argument has this name.
    pub fn has_arg(&self, name: &str) -> bool {
        let of_return = self.exit.is_some() && name == RET;
        of_return || self.format.field(name).is_some() || self.fields.iter().any(|one| one == name)
    }

    /// Sets the field with values to add up, which can be `ret` of a system call.
    pub fn add_value(&mut self, name: &str) -> Result<()> {
        if self.exit.is_some() && name == RET {
            return Ok(());
        }
        let field = self.field(&self.format, name)?;
        if !field.is_number() {
            return Err(Error::NoNumber {
                event: self.place.to_string(),
                name: name.to_owned(),
            });
        }
        self.value = Some(field.plain());
        Ok(())
    }

    /// Adds a stack to the fields to show.
    pub fn add_stack(&mut self, name: &str) {
        if !self.fields.iter().any(|field| field == name) {
            self.fields.push(name.to_owned());
        }
    }

    /// Returns true if the entry of a system call has a condition.
    pub fn is_entry_tested(&self) -> bool {
        !self.filter.is_empty()
    }

    /// Returns the fields to show.
    pub fn shown(&self) -> Vec<Field> {
        let named = self
            .fields
            .iter()
            .filter_map(|name| self.format.field(name));
        let named: Vec<_> = named.cloned().collect();
        match named.is_empty() {
            true => self.format.fields.clone(),
            false => named,
        }
    }

    fn field<'a>(&self, format: &'a Format, name: &str) -> Result<&'a Field> {
        format.field(name).ok_or_else(|| Error::NoField {
            event: self.place.to_string(),
            name: name.to_owned(),
            others: Names(
                format
                    .fields
                    .iter()
                    .map(|field| field.name.to_string())
                    .collect(),
            ),
        })
    }

    /// Sets the filters for a condition. Tests of `ret` filter the return of a system call.
    fn with(mut self, condition: Option<&Condition>) -> Result<Self> {
        let Some(condition) = condition else {
            return Ok(self);
        };
        let Some(exit) = &self.exit else {
            self.filter = self.filter_of(&self.format, condition)?;
            return Ok(self);
        };
        let parts = match condition {
            Condition::All(parts) => &parts[..],
            one => std::slice::from_ref(one),
        };
        let (mut at_entry, mut at_return) = (Vec::new(), Vec::new());
        for part in parts {
            let tests = part.tests();
            let of_return = tests.iter().any(|test| test.left == RET);
            let of_entry = tests
                .iter()
                .any(|test| self.format.field(&test.left).is_some());
            match (of_return, of_entry) {
                (true, true) => return Err(Error::Mixed(self.place.to_string())),
                (true, false) => at_return.push(part.clone()),
                (false, _) => at_entry.push(part.clone()),
            }
        }
        let returns = match at_return.is_empty() {
            true => String::new(),
            false => self.filter_of(&exit.format, &Condition::All(at_return))?,
        };
        if !at_entry.is_empty() {
            self.filter = self.filter_of(&self.format, &Condition::All(at_entry))?;
        }
        if let Some(exit) = &mut self.exit {
            exit.filter = returns;
        }
        Ok(self)
    }

    fn filter_of(&self, format: &Format, condition: &Condition) -> Result<String> {
        condition.filter(&mut |test| self.test(format, test))
    }

    /// Returns a comparison in the syntax of the kernel's filters.
    fn test(&self, format: &Format, test: &ConditionSpec) -> Result<String> {
        let left = test.left.as_str();
        let wrong = |why: &str| Error::Value {
            event: self.place.to_string(),
            test: format!("{left}{}", test.rest),
            why: why.to_owned(),
        };
        let (operator, value) = test.operator().ok_or_else(|| wrong("no comparison"))?;
        let of_text = || match ["==", "!=", "~"].contains(&operator) {
            true => Ok(format!("\"{value}\"")),
            false => Err(wrong("text is compared by ==, != and ~")),
        };
        let Some(field) = format.field(left) else {
            return match left {
                "pid" => Ok(by_thread(operator, value)),
                "comm" => Ok(format!("comm {operator} {}", of_text()?)),
                "cpu" => Ok(format!("CPU {operator} {value}")),
                _ => self.field(format, left).map(|_| String::new()),
            };
        };
        if let Some(name) = field.text_name() {
            return Ok(format!("{name} {operator} {}", of_text()?));
        }
        if operator == "~" {
            return Err(wrong("~ compares text, and this is a number"));
        }
        let is_number = |text: &str| {
            let digits = text.strip_prefix('-').unwrap_or(text);
            match digits.strip_prefix("0x") {
                Some(digits) => u64::from_str_radix(digits, 16).is_ok(),
                None => digits.parse::<u64>().is_ok(),
            }
        };
        let value = match (is_number(value), field.number(value)) {
            (true, _) => value.to_owned(),
            (false, Some(number)) => number.to_string(),
            (false, None) => {
                return Err(wrong(
                    "neither a number nor a name that the event has for one",
                ));
            }
        };
        Ok(format!("{left} {operator} {value}"))
    }
}

#[cfg(test)]
pub(super) mod tests;
