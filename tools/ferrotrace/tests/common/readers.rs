// SPDX-License-Identifier: GPL-2.0

//! Programs of others that judge exported traces. `make setup` installs them in the cache; `FERROTRACE_READERS` says where.
//!
//! Tests that need them are ignored, so that they are not taken for passed where there is no judge. The suite `host` runs
//! them: `cargo test -- --include-ignored`.

use std::path::PathBuf;
use std::process::Command;

use super::stdout;
use super::succeed;

/// One of them.
pub fn reader(name: &str) -> Command {
    let dir = std::env::var_os("FERROTRACE_READERS");
    let dir = dir.expect("FERROTRACE_READERS is not set: the readers that make setup installs");
    Command::new(PathBuf::from(dir).join("bin").join(name))
}

/// What a script in Python prints.
pub fn python(script: &str, args: &[&str]) -> String {
    stdout(&succeed(reader("python3").args(["-c", script]).args(args)))
}
