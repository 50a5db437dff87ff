// SPDX-License-Identifier: GPL-2.0

//! Modules that the command loads when it needs them.

use std::path::Path;
use std::process::Command;
use std::process::Stdio;

/// Runs `modprobe` for a module if its debugfs directory does not exist. Errors are ignored: the
/// caller reports the missing directory.
pub fn load_if_missing(dir: &Path, module: &str) {
    if dir.starts_with("/sys/kernel/debug") && !dir.exists() {
        let _ = Command::new("modprobe")
            .args(["-q", module])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
    }
}
