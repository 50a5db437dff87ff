// SPDX-License-Identifier: GPL-2.0

//! Lockdown, under which the kernel refuses even root all access that could change it or read its
//! memory.

#![deny(unsafe_code)]

use std::fs;
use std::path::Path;

use nix::unistd::geteuid;

/// Directory that is closed in each mode except "none".
pub const DEBUGFS: &str = "/sys/kernel/debug";

/// Mount point of the filesystem `ferrotrace`, which has our directories of debugfs.
pub const FERROTRACE: &str = "/sys/kernel/ferrotrace";

/// Directories that are closed in the mode "confidentiality".
const TRACING: [&str; 2] = ["/sys/kernel/tracing", FERROTRACE];

/// End of messages about lockdown.
const ADVICE: &str = ": \"ferrotrace doctor\" says what works";

/// Returns the lockdown mode of the system whose files are below `root`: "none", "integrity" or
/// "confidentiality". `None` if the kernel does not tell.
pub fn mode(root: &Path) -> Option<String> {
    let text = fs::read_to_string(root.join("sys/kernel/security/lockdown")).ok()?;
    let (_, rest) = text.split_once('[')?;
    rest.split_once(']').map(|(mode, _)| mode.to_owned())
}

/// Returns true if lockdown keeps root from a file of the running kernel.
pub fn closes(path: &Path) -> bool {
    mode(Path::new("/")).is_some_and(|mode| is_closed(&mode, path))
}

/// Returns the end of a message about a refused file: lockdown if this is the cause, else `rule`.
pub fn cause(path: &Path, rule: &str) -> String {
    match geteuid().is_root() && closes(path) {
        true => format!("the kernel is locked down, for root too{ADVICE}"),
        false => rule.to_owned(),
    }
}

/// Returns the end of a message about absent files: lockdown may be the cause, as it refuses
/// modules without a signature.
pub fn note() -> String {
    match mode(Path::new("/")).filter(|mode| mode != "none") {
        Some(mode) => format!("; the kernel is locked down ({mode}){ADVICE}"),
        None => String::new(),
    }
}

fn is_closed(mode: &str, path: &Path) -> bool {
    let is_tracing = || TRACING.iter().any(|dir| path.starts_with(dir));
    match mode {
        "none" => false,
        "integrity" => path.starts_with(DEBUGFS),
        _ => path.starts_with(DEBUGFS) || is_tracing(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes() {
        let dir = tempfile::tempdir().unwrap();
        let security = dir.path().join("sys/kernel/security");
        fs::create_dir_all(&security).unwrap();
        assert_eq!(mode(dir.path()), None);
        let with = |text: &str| {
            fs::write(security.join("lockdown"), text).unwrap();
            mode(dir.path())
        };
        assert_eq!(
            with("none [integrity] confidentiality\n").unwrap(),
            "integrity"
        );
        assert_eq!(with("[none] integrity confidentiality\n").unwrap(), "none");
        assert_eq!(with("none integrity"), None);
    }

    #[test]
    fn closed_files() {
        let is_closed = |mode, path| is_closed(mode, Path::new(path));
        let [debug, tracing] = ["/sys/kernel/debug/x", "/sys/kernel/tracing/x"];
        assert!(!is_closed("none", debug) && !is_closed("none", tracing));
        assert!(is_closed("integrity", debug) && !is_closed("integrity", tracing));
        assert!(is_closed("confidentiality", debug) && is_closed("confidentiality", tracing));
        assert!(!is_closed("confidentiality", "/tmp/x"));
    }
}
