// SPDX-License-Identifier: GPL-2.0

//! Modules that the command loads when it needs them.

use std::path::Path;
use std::process::Command;
use std::process::Stdio;

/// Runs `modprobe` for a module whose directory in debugfs is missing. What fails later for lack of
/// the directory says why.
pub fn load(dir: &Path, module: &str) {
    if dir.starts_with("/sys/kernel/debug") && !dir.exists() {
        let _ = Command::new("modprobe")
            .args(["-q", module])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
    }
}
