// SPDX-License-Identifier: GPL-2.0

//! Times and sizes on the command line, with or without units, and options that many commands have.

#![deny(unsafe_code)]

use std::ffi::OsString;
use std::io;
use std::io::Write;
use std::os::fd::AsFd;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use anyhow::Result;
use clap::Args;
use nix::unistd::dup2_stdout;
use parse_size::Config;

use ferrotrace::file::create;
use ferrotrace::pids::are_those_of_records;
use ferrotrace::signals::CommandError;
use ferrotrace::signals::StopSignals;
use ferrotrace::text::printable;

use super::warn;

/// Seconds, such as `0.5`, or a number with a unit, such as `500ms`, `5s` or `1h 30m`.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    match text.parse::<f64>() {
        Ok(seconds) => Duration::try_from_secs_f64(seconds).map_err(|error| error.to_string()),
        Err(_) => humantime::parse_duration(text).map_err(|error| error.to_string()),
    }
}

/// Waiting has a resolution of a millisecond; a day is long enough.
pub fn parse_interval(text: &str) -> Result<Duration, String> {
    let interval = parse_duration(text)?;
    if (Duration::from_millis(1)..=Duration::from_secs(86_400)).contains(&interval) {
        Ok(interval)
    } else {
        Err("not 0.001 to 86400 seconds".to_owned())
    }
}

/// Bytes, such as `65536`, or a number with a unit: `64K` is `64KiB`, and `64KB` as well.
pub fn parse_size(text: &str) -> Result<u64, String> {
    let size = Config::new().with_binary().parse_size(text);
    size.map_err(|error| error.to_string())
}

/// The same, as a `usize`.
pub fn parse_length(text: &str) -> Result<usize, String> {
    usize::try_from(parse_size(text)?).map_err(|_| "too large".to_owned())
}

/// Warns where processes have other numbers than in records, and the user has named one.
pub fn warn_of_numbers() {
    if !are_those_of_records() {
        warn(
            "this is a PID namespace of its own, such as a container's: the kernel, and so -p and \"pid\", have the numbers that \
             processes have outside of it",
        );
    }
}

/// Where output goes.
#[derive(Debug, Default, Args)]
pub struct OutputArgs {
    /// Write to this file instead of standard output.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Write over a file that is not empty.
    #[arg(short, long, requires = "output")]
    force: bool,
}

impl OutputArgs {
    /// For a command with other short options.
    pub fn new(output: Option<PathBuf>, force: bool) -> Self {
        Self { output, force }
    }

    /// The file, and true if it may be written over.
    pub fn into_parts(self) -> (Option<PathBuf>, bool) {
        (self.output, self.force)
    }

    /// Makes the file standard output. Returns what that was, for a command that is run.
    pub fn redirect(&self) -> Result<Option<OwnedFd>> {
        let Some(path) = &self.output else {
            return Ok(None);
        };
        let file = create(path, self.force)?;
        let before = std::io::stdout().as_fd().try_clone_to_owned();
        let before = before.context("cannot duplicate standard output")?;
        dup2_stdout(&file).context("cannot replace standard output")?;
        Ok(Some(before))
    }
}

/// A command that is run meanwhile.
#[derive(Debug, Default, Args)]
pub struct CommandArgs {
    /// Run this command, and stop when it ends; the exit status is that of the command.
    #[arg(value_name = "COMMAND", last = true)]
    pub command: Vec<OsString>,
}

impl CommandArgs {
    /// Runs the command, if there is one.
    pub fn start_quietly(
        &self,
        signals: &StopSignals,
        stdout: Option<OwnedFd>,
    ) -> Result<(), CommandError> {
        Ok(signals.run(&self.command, stdout)?)
    }

    /// Says what this program does until Ctrl-C, and runs the command, if there is one; see [`StopSignals::run`].
    pub fn start(
        &self,
        signals: &StopSignals,
        stdout: Option<OwnedFd>,
        doing: &str,
    ) -> Result<(), CommandError> {
        // There is nowhere left to report it if this fails.
        let _ = writeln!(
            io::stderr(),
            "ferrotrace: {}; Ctrl-C ends",
            printable(doing)
        );
        Ok(signals.run(&self.command, stdout)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations() {
        for (text, millis) in [
            ("0.5", 500),
            ("5", 5_000),
            ("5s", 5_000),
            ("250ms", 250),
            ("1m", 60_000),
            ("1h 30m", 5_400_000),
        ] {
            let duration = parse_duration(text).unwrap();
            assert_eq!(duration, Duration::from_millis(millis), "{text}");
        }
        for bad in ["", "-1", "soon", "5x", "1e300", "s", "inf", "nan"] {
            assert!(parse_duration(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn sizes() {
        for (text, bytes) in [
            ("0", 0),
            ("7", 7),
            ("64K", 65_536),
            ("64k", 65_536),
            ("64KiB", 65_536),
            ("1M", 1 << 20),
            ("2G", 2 << 30),
        ] {
            assert_eq!(parse_size(text), Ok(bytes), "{text}");
        }
        for bad in ["", "K", "-1", "1X", "99999999999G"] {
            assert!(parse_size(bad).is_err(), "{bad}");
        }
    }
}
