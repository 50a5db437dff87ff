// SPDX-License-Identifier: GPL-2.0

//! Explanations of errors: the functions that handed an error up to a system call, down to the one
//! where it arose.

#![deny(unsafe_code)]

use std::collections::HashMap;
use std::fmt::Write;

use nix::errno::Errno;
use serde::Serialize;

use super::names::Names;
use super::tree::Call;
use super::tree::Entry;
use super::tree::Item;
use super::value::Type;
use super::value::errno_of;
use super::value::error_name;
use crate::functions::print::Time;
use crate::text::printable;

/// Calls of the kernel around the function of a system call.
const AROUND: usize = 3;

/// Numbers of `write` and `writev` on x86_64.
const WRITES: [i64; 2] = [1, 20];

/// File descriptor of standard error.
const STDERR: u64 = 2;

/// Errors that programs expect, of all system calls or of some.
const EXPECTED: [(i32, &[&str]); 9] = [
    (libc_errno(Errno::EAGAIN), &[]),
    (libc_errno(Errno::EINTR), &[]),
    (512, &[]),
    (513, &[]),
    (514, &[]),
    (516, &[]),
    (libc_errno(Errno::ENOTTY), &["ioctl"]),
    (libc_errno(Errno::ESPIPE), &["lseek"]),
    (libc_errno(Errno::ECHILD), &["wait4", "waitid"]),
];

/// Numbers of errors that arguments have for other reasons: -1, and `AT_FDCWD`.
const NO_ERRORS: [i32; 2] = [libc_errno(Errno::EPERM), libc_errno(Errno::ENETDOWN)];

const fn libc_errno(errno: Errno) -> i32 {
    errno as i32
}

/// Function that returned the error.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Step {
    /// Name.
    pub function: String,
    /// Module.
    pub module: Option<String>,
    /// Return value.
    pub returned: i64,
    /// Time between entry and return in ns.
    pub duration_ns: Option<u64>,
}

/// System call that returned an error.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Failure {
    /// Time of its end in ns.
    pub time_ns: u64,
    /// Thread.
    pub pid: i32,
    /// Name of the thread.
    pub comm: String,
    /// Name of the system call, if the kernel began it.
    pub syscall: Option<String>,
    /// Number of the system call, if it was recorded.
    pub number: Option<i64>,
    /// Paths among its arguments.
    pub paths: Vec<String>,
    /// Value that the program got.
    pub returned: i64,
    /// Name of the error.
    pub errno: String,
    /// Functions that returned the error, the outermost first.
    pub chain: Vec<Step>,
    /// Function where the error arose, the last one of the chain.
    pub origin: Option<String>,
    /// True if records are missing, so that the error may have arisen deeper.
    pub gap: bool,
    /// True if the thread wrote to standard error next.
    #[serde(skip)]
    told: bool,
}

/// Failures that the user asks for.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// Number of the error.
    pub errno: Option<i32>,
    /// Name of the system call.
    pub syscall: Option<String>,
}

impl Filter {
    fn accepts(&self, failure: &Failure) -> bool {
        let wanted = self.errno.map(|errno| -i64::from(errno));
        let syscall = self.syscall.as_deref();
        wanted.is_none_or(|wanted| failure.returned == wanted)
            && syscall.is_none_or(|wanted| failure.syscall.as_deref() == Some(wanted))
    }
}

/// A system call that has not ended.
#[derive(Debug, Default)]
struct Current {
    number: Option<i64>,
    paths: Vec<String>,
    calls: Vec<Call>,
}

/// Finds failures in the history of threads.
#[derive(Default)]
pub struct Explainer {
    current: HashMap<i32, Current>,
    failures: Vec<Failure>,
}

impl Explainer {
    /// Adds a part of a thread's history.
    pub fn add(&mut self, entry: Entry, names: &Names) {
        let pid = entry.pid;
        match entry.item {
            Item::SyscallEntry { number, first } => {
                if WRITES.contains(&number) && first == STDERR {
                    self.told(pid);
                }
                let current = Current {
                    number: Some(number),
                    ..Current::default()
                };
                self.current.insert(pid, current);
            }
            Item::Path(path) => self.current.entry(pid).or_default().paths.push(path),
            Item::Call(call) => {
                // Calls between system calls are those of interrupts and of page faults.
                if let Some(current) = self.current.get_mut(&pid) {
                    current.calls.push(call);
                }
            }
            Item::SyscallExit { value } => {
                let current = self.current.remove(&pid).unwrap_or_default();
                self.end(&entry, current, value, names);
            }
            Item::Name => (),
        }
    }

    /// Ends a system call.
    fn end(&mut self, entry: &Entry, current: Current, value: i64, names: &Names) {
        let Some(errno) = errno_of(value) else {
            return;
        };
        let found = syscall(&current.calls, names);
        let mut failure = Failure {
            time_ns: entry.time,
            pid: entry.pid,
            comm: entry.comm.clone(),
            syscall: found.as_ref().map(|(_, name)| name.clone()),
            number: current.number,
            paths: current.paths,
            returned: value,
            errno: error_name(errno),
            chain: Vec::new(),
            origin: None,
            gap: current.calls.is_empty(),
            told: false,
        };
        // A system call that the kernel does not begin is refused by seccomp or a debugger.
        let outermost = found
            .map(|(call, _)| call)
            .filter(|call| returned(call, errno, names));
        let mut at = outermost.or_else(|| handed_up(&current.calls, errno, names));
        failure.gap |= at.is_none() && current.calls.iter().any(|call| call.has_gap);
        while let Some(call) = at {
            let name = names.get(call.func);
            failure.chain.push(Step {
                function: name.name.clone(),
                module: name.module.clone(),
                returned: value,
                duration_ns: call.duration,
            });
            failure.origin = Some(name.text());
            failure.gap |= call.has_gap;
            at = handed_up(&call.children, errno, names);
        }
        self.failures.push(failure);
    }

    /// Marks the failure that a thread writes about.
    fn told(&mut self, pid: i32) {
        let mut failures = self.failures.iter_mut().rev();
        let last = failures.find(|failure| failure.pid == pid && !failure.is_expected());
        if let Some(failure) = last {
            failure.told = true;
        }
    }

    /// Returns all failures that the filter accepts.
    pub fn all(&self, filter: &Filter) -> Vec<&Failure> {
        let failures = self.failures.iter();
        failures.filter(|failure| filter.accepts(failure)).collect()
    }

    /// Returns the failure that most probably ended a command: the last one before a message on
    /// standard error, otherwise the last one that programs do not expect, otherwise the last one.
    pub fn last(&self, filter: &Filter) -> Option<&Failure> {
        let all = self.all(filter);
        let last = |is_it: fn(&Failure) -> bool| {
            let mut all = all.iter().rev();
            all.find(|failure| is_it(failure)).copied()
        };
        last(|failure| failure.told)
            .or_else(|| last(|failure| !failure.is_expected()))
            .or_else(|| last(|_| true))
    }
}

impl Failure {
    /// Returns true if programs expect the error, or it is about the language of messages.
    fn is_expected(&self) -> bool {
        let errno = -self.returned;
        let syscall = self.syscall.as_deref().unwrap_or_default();
        let mut expected = EXPECTED.iter();
        expected.any(|(number, of)| {
            i64::from(*number) == errno && (of.is_empty() || of.contains(&syscall))
        }) || self.paths.iter().any(|path| path.ends_with(".mo"))
    }

    /// Returns the failure as text.
    pub fn text(&self, times: bool) -> String {
        let syscall = match (&self.syscall, self.number) {
            (Some(name), _) => name.clone(),
            (None, Some(number)) => format!("system call {number}"),
            (None, None) => "a system call".to_owned(),
        };
        let paths: Vec<_> = self.paths.iter().map(|path| format!("{path:?}")).collect();
        let number = i32::try_from(-self.returned).unwrap_or(0);
        let what = match Errno::from_raw(number) {
            Errno::UnknownErrno => String::new(),
            errno => format!(": {}", errno.desc()),
        };
        let mut text = format!(
            "{} {}: {syscall}({}) = {} ({}){what}\n",
            printable(&self.comm),
            self.pid,
            paths.join(", "),
            self.returned,
            self.errno
        );
        for (level, step) in self.chain.iter().enumerate() {
            let time = match step.duration_ns {
                _ if !times => String::new(),
                Some(ns) => format!("{:>11}", Time(ns).to_string()),
                None => format!("{:>11}", "?"),
            };
            let module = step.module.as_ref();
            let module = module.map_or(String::new(), |module| format!(" [{module}]"));
            let is_last = level + 1 == self.chain.len();
            let mark = if is_last { "  <== arose here" } else { "" };
            let indent = 2 * (level + 1);
            // Writing to a string does not fail.
            let _ = writeln!(
                text,
                "{time}{:indent$}{}{module} = {} ({}){mark}",
                "", step.function, step.returned, self.errno
            );
        }
        match &self.origin {
            Some(origin) => {
                let _ = writeln!(
                    text,
                    "  The error arose in {origin}, or in a function that is inlined there or not \
                     traced."
                );
            }
            None => text.push_str("  No traced function returned the error.\n"),
        }
        if self.gap {
            text.push_str(
                "  Records of the call were lost: it may have arisen deeper \
                 (--buffer makes more room).\n",
            );
        } else if self.syscall.is_none() {
            text.push_str(
                "  The kernel did not begin the system call: seccomp or a debugger refused it.\n",
            );
        }
        text
    }
}

/// Returns true if a call returned the error.
fn returned(call: &Call, errno: i32, names: &Names) -> bool {
    // The types take time to read.
    let may_be = |value: &u64| Type::Signed(4).error(*value) == Some(errno);
    let value = call.value.filter(may_be).filter(|_| !call.in_irq);
    let error = |value| names.returns(call.func).error(value);
    value.and_then(error) == Some(errno)
}

/// Returns true if a call got the error as an argument, so that it had arisen before.
fn was_given(call: &Call, errno: i32, names: &Names) -> bool {
    let Some(arguments) = &call.arguments else {
        return false;
    };
    let signature = names.signature(call.func);
    let mut given = arguments.iter().zip(&signature.parameters);
    given.any(|(word, ty)| match ty {
        Type::Signed(_) if NO_ERRORS.contains(&errno) => false,
        // The upper half of an unknown type may be left from anything.
        Type::Unknown => Type::Pointer.error(*word) == Some(errno),
        _ => ty.error(*word) == Some(errno),
    })
}

/// Returns the call that handed an error up to the call around it: the last one that returned it
/// and did not get it as an argument. Functions of unknown types, which may return nothing, count
/// only if no other did.
fn handed_up<'a>(calls: &'a [Call], errno: i32, names: &Names) -> Option<&'a Call> {
    let is_it = |call: &&Call| returned(call, errno, names) && !was_given(call, errno, names);
    let is_known = |call: &&Call| names.returns(call.func) != Type::Unknown;
    let calls = || calls.iter().rev().filter(is_it);
    calls().find(is_known).or_else(|| calls().next())
}

/// Returns the call that begins a system call, with the name of the system call.
fn syscall<'a>(calls: &'a [Call], names: &Names) -> Option<(&'a Call, String)> {
    let mut level: Vec<&Call> = calls.iter().collect();
    for _ in 0..AROUND {
        let named = |call: &&'a Call| Some((*call, names.get(call.func).syscall.clone()?));
        if let Some(found) = level.iter().find_map(named) {
            return Some(found);
        }
        level = level.iter().flat_map(|call| &call.children).collect();
    }
    None
}

#[cfg(test)]
mod tests;
