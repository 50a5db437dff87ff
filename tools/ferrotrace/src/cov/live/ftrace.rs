// SPDX-License-Identifier: GPL-2.0

//! Executed functions by the function tracer, on any kernel with tracefs.
//!
//! Each function is traced until its first record has been read.

#![deny(unsafe_code)]

use std::collections::HashMap;
use std::fs;
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::path::PathBuf;
use std::time::Duration;
use std::time::Instant;

use super::super::error::Error;
use super::super::error::Result;
use super::blocks::Block;
use super::control::State;
use super::functions::Function;
use super::functions::Selection;
use crate::file::IoError;
use crate::probes::event::Value;
use crate::probes::stock::instance::Instance;
use crate::probes::stock::instance::read_page;
use crate::probes::stock::ring;
use crate::signals::StopSignals;
use crate::tracepoints::format::Format;

/// Functions that ftrace can trace, with their addresses.
const AVAILABLE: &str = "available_filter_functions_addrs";

/// File that selects functions.
const FILTER: &str = "set_ftrace_filter";

/// Time between two removals of functions with a record.
const ROUND: Duration = Duration::from_millis(20);

/// Bytes that are enough for a page of the buffer.
const PAGE: usize = 1 << 16;

/// Size of the buffer of each CPU, in KiB.
const BUFFER: &str = "4096";

/// Maximum number of pages that a round reads of each CPU: as many as the buffer has. The reads may
/// be traced as well, so that a CPU always has another record.
const ROUND_PAGES: usize = 1024;

/// A function that is traced.
struct Traced {
    function: Function,
    /// Number in the kernel's list, from 1 on.
    number: usize,
    is_executed: bool,
}

/// Functions that are traced.
pub struct Session {
    // The files of an instance are closed before it is removed.
    pipes: Vec<(u32, PathBuf, File)>,
    instance: Instance,
    format: Format,
    traced: Vec<Traced>,
    /// Places in `traced`, by the addresses of ftrace.
    by_address: HashMap<u64, usize>,
    lost: u64,
}

fn failed<'a>(action: &'static str, path: &'a Path) -> impl Fn(std::io::Error) -> Error + 'a {
    move |error| IoError::or_denied(Error::LiveDenied, action, path, error)
}

/// Parses a line of the kernel's list: `ADDRESS NAME` or `ADDRESS NAME [MODULE]`.
fn parse(line: &str) -> Option<(u64, &str, Option<&str>)> {
    let mut words = line.split_ascii_whitespace();
    let address = u64::from_str_radix(words.next()?, 16).ok()?;
    let name = words.next()?;
    let module = words.next().map(|word| word.trim_matches(['[', ']']));
    Some((address, name, module))
}

impl Session {
    /// Traces the functions of a selection.
    pub fn start(selection: &Selection) -> Result<Self> {
        let tracing = Instance::tracing()?.ok_or(Error::NoTracefs)?;
        let path = tracing.join(AVAILABLE);
        let list = fs::read_to_string(&path).map_err(failed("read", &path))?;
        let mut traced = Vec::new();
        let mut by_address = HashMap::new();
        for (number, line) in (1..).zip(list.lines()) {
            let Some((address, name, module)) = parse(line) else {
                continue;
            };
            if selection.has(name, module) {
                by_address.insert(address, traced.len());
                let function = Function {
                    name: name.to_owned(),
                    module: module.map(str::to_owned),
                    blocks: vec![Block {
                        range: address..address.saturating_add(1),
                        places: vec![address],
                    }],
                };
                traced.push(Traced {
                    function,
                    number,
                    is_executed: false,
                });
            }
        }
        selection.check(traced.iter().map(|one| {
            let Function { name, module, .. } = &one.function;
            (name.as_str(), module.as_deref())
        }))?;
        let path = tracing.join("events/ftrace/function/format");
        let text = fs::read_to_string(&path).map_err(failed("read", &path))?;
        let format = Format::parse(&text, false);
        let format = format.map_err(|error| failed("read", &path)(std::io::Error::other(error)))?;
        let instance = Instance::create(&tracing)?;
        let write = |file: &str, text: &str| {
            let path = instance.dir().join(file);
            fs::write(&path, text).map_err(failed("write to", &path))
        };
        write("buffer_size_kb", BUFFER)?;
        // All functions need no filter.
        if traced.len() < list.lines().count() {
            let numbers: Vec<_> = traced.iter().map(|one| one.number.to_string()).collect();
            write(FILTER, &numbers.join("\n"))?;
        }
        write("current_tracer", "function")?;
        let pipes = instance.pipes()?;
        instance.start()?;
        Ok(Self {
            pipes,
            instance,
            format,
            traced,
            by_address,
            lost: 0,
        })
    }

    /// Returns the number of functions.
    pub fn len(&self) -> usize {
        self.traced.len()
    }

    /// Returns true without functions.
    pub fn is_empty(&self) -> bool {
        self.traced.is_empty()
    }

    /// Reads records, at most so many pages of each CPU. Returns the numbers of the functions whose
    /// first records they are.
    fn drain(&mut self, pages_max: usize) -> Result<Vec<usize>> {
        let mut new = Vec::new();
        let mut page = vec![0; PAGE];
        for (_, path, pages) in &mut self.pipes {
            for _ in 0..pages_max {
                let len = read_page(pages, &mut page).map_err(failed("read", path))?;
                if len == 0 {
                    break;
                }
                ring::events(page.get(..len).unwrap_or_default(), |_, data| {
                    let id = data.first_chunk().map(|id| u16::from_le_bytes(*id));
                    let ip = self.format.field("ip").map(|field| field.value(data));
                    let at = match ip {
                        Some(Value::Symbol(ip) | Value::Hex(ip) | Value::Unsigned(ip)) => {
                            self.by_address.get(&ip)
                        }
                        _ => None,
                    };
                    let at = at.filter(|_| id == Some(self.format.id));
                    let traced = at.and_then(|at| self.traced.get_mut(*at));
                    if let Some(traced) = traced.filter(|traced| !traced.is_executed) {
                        traced.is_executed = true;
                        new.push(traced.number);
                    }
                });
            }
        }
        Ok(new)
    }

    /// Traces until a time, the end of the command, or a signal.
    pub fn run(&mut self, signals: &StopSignals, until: Instant) -> Result<()> {
        let path = self.instance.dir().join(FILTER);
        let mut file = File::options();
        let file = file.append(true);
        loop {
            let now = Instant::now();
            let is_over = now >= until;
            let waited = signals.wait(until.min(now + ROUND));
            let is_over =
                waited.map_err(|errno| failed("wait for", &path)(errno.into()))? || is_over;
            if is_over {
                self.instance.stop();
            }
            let new = self.drain(if is_over { usize::MAX } else { ROUND_PAGES })?;
            if is_over {
                break;
            }
            if !new.is_empty() {
                let names: Vec<_> = new.iter().map(|number| format!("!{number}\n")).collect();
                let mut file = file.open(&path).map_err(failed("open", &path))?;
                let written = file.write_all(names.concat().as_bytes());
                written.map_err(failed("write to", &path))?;
            }
        }
        let cpus = self.pipes.iter();
        self.lost = cpus.map(|(cpu, _, _)| self.instance.lost(*cpu)).sum();
        Ok(())
    }

    /// Returns the number of records that found no room, after the end.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// Returns the functions, each with the state of its entry.
    pub fn states(&self) -> Vec<(&Function, Vec<State>)> {
        let states = self.traced.iter().map(|traced| {
            let state = match traced.is_executed {
                true => State::Hit,
                false => State::Missed,
            };
            (&traced.function, vec![state])
        });
        states.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_list() {
        assert_eq!(
            parse("ffffffff81000004 vfs_read"),
            Some((0xffff_ffff_8100_0004, "vfs_read", None))
        );
        assert_eq!(
            parse("ffffffffc0000004 f [ext4]"),
            Some((0xffff_ffff_c000_0004, "f", Some("ext4")))
        );
        assert_eq!(parse("vfs_read"), None);
    }
}
