// SPDX-License-Identifier: GPL-2.0

//! Third-party readers of exported traces. `make setup` installs them in the cache, and
//! `FERROTRACE_READERS` has their path.
//!
//!
//! Tests that need a reader are ignored by default, so that they do not pass where it is missing.
//! The suite `host` runs them: `cargo test -- --include-ignored`.

use std::path::PathBuf;
use std::process::Command;

use super::stdout;
use super::succeed;

/// Returns a command that runs an installed reader.
pub fn reader(name: &str) -> Command {
    let dir = std::env::var_os("FERROTRACE_READERS");
    let dir = dir.expect("FERROTRACE_READERS is not set: the readers that make setup installs");
    Command::new(PathBuf::from(dir).join("bin").join(name))
}

/// Runs a Python script and returns its output.
pub fn python(script: &str, args: &[&str]) -> String {
    stdout(&succeed(reader("python3").args(["-c", script]).args(args)))
}
