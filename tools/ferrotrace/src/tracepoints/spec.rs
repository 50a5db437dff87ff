// SPDX-License-Identifier: GPL-2.0

//! A tracepoint in one argument of the command line: `SYSTEM:EVENT [FIELD...] [if CONDITION]`, or
//! `syscall:NAME ...`.

#![deny(unsafe_code)]

use std::str::FromStr;

use super::error::Error;
use crate::probes::condition::Condition;
use crate::probes::spec::is_identifier;

/// The system that stands for system calls.
pub const SYSCALL: &str = "syscall";

/// Names of arguments that are stacks: of the kernel, and of user space.
pub const STACKS: [&str; 2] = ["stack", "ustack"];

/// A tracepoint, or several.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventSpec {
    /// The system, or `syscall`; it may be a pattern.
    pub system: String,
    /// The event, or the system call; it may be a pattern.
    pub name: String,
    /// Fields to show; all if there are none.
    pub fields: Vec<String>,
    /// Condition that hits have to meet.
    pub condition: Option<Condition>,
}

/// Splits `WORD... [if CONDITION]`.
pub fn parts(text: &str) -> (&str, Option<&str>) {
    match text.split_once(" if ") {
        Some((words, condition)) => (words, Some(condition)),
        None => (text, None),
    }
}

impl FromStr for EventSpec {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let form = || Error::Form(text.to_owned());
        let (words, condition) = parts(text);
        let mut words = words.split_whitespace();
        let (system, name) = words
            .next()
            .and_then(|word| word.split_once(':'))
            .ok_or_else(form)?;
        let fits = |c: char| c.is_ascii_alphanumeric() || "_-*?[]".contains(c);
        let is_name = |text: &str| !text.is_empty() && text.chars().all(fits);
        if !is_name(system) || !is_name(name) {
            return Err(form());
        }
        let fields: Vec<_> = words.map(str::to_owned).collect();
        // Without a condition after it, "if" is no field.
        if !fields
            .iter()
            .all(|field| is_identifier(field) && field != "if")
        {
            return Err(form());
        }
        Ok(Self {
            system: system.to_owned(),
            name: name.to_owned(),
            fields,
            condition: condition.map(Condition::parse).transpose()?,
        })
    }
}

impl EventSpec {
    /// Returns true for system calls.
    pub fn is_syscall(&self) -> bool {
        self.system == SYSCALL
    }

    /// Adds a condition. Both have to hold.
    pub fn and(&mut self, condition: Condition) {
        self.condition = Some(match self.condition.take() {
            Some(before) => before.and(condition),
            None => condition,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tracepoints_with_everything() {
        let spec: EventSpec = "sched:sched_switch prev_comm next_comm if prev_state!=0 || cpu==1"
            .parse()
            .unwrap();
        assert_eq!((&*spec.system, &*spec.name), ("sched", "sched_switch"));
        assert_eq!(spec.fields, ["prev_comm", "next_comm"]);
        assert!(matches!(spec.condition, Some(Condition::Any(_))));
        let spec: EventSpec = "syscall:open*".parse().unwrap();
        assert!(spec.is_syscall() && spec.fields.is_empty() && spec.condition.is_none());
        for bad in [
            "",
            "sched",
            ":x",
            "x:",
            "a:b/c",
            "a:b c:x",
            "a:b if",
            "a:b if c",
            "a:b if c=1",
        ] {
            assert!(bad.parse::<EventSpec>().is_err(), "{bad}");
        }
    }
}
