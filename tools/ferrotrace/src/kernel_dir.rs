// SPDX-License-Identifier: GPL-2.0

//! Finds the directories of our modules, in debugfs or in the filesystem `ferrotrace`.

use std::path::Path;
use std::path::PathBuf;
use std::process::Command;
use std::process::Stdio;

use nix::mount::MsFlags;
use nix::mount::mount;
use nix::sys::statfs;
use nix::sys::statfs::FsType;

use crate::lockdown::DEBUGFS;
use crate::lockdown::FERROTRACE;
use crate::lockdown::closes;

/// Magic number of the filesystem `ferrotrace`, of `ferrotracefs.c`.
pub const MAGIC: FsType = FsType(0x6665_7272);

/// Returns the directory to use instead of `dir`, a directory of debugfs. Other directories are
/// returned as they are.
///
/// Runs `modprobe` for the module if the directory does not exist. Mounts `ferrotrace` if lockdown
/// closes debugfs, but not `ferrotrace`. Errors are ignored: the caller reports what is missing.
pub fn find(dir: PathBuf, module: &str) -> PathBuf {
    let Ok(name) = dir.strip_prefix(DEBUGFS) else {
        return dir;
    };
    let ours = Path::new(FERROTRACE).join(name);
    if !dir.exists() && !ours.exists() {
        let _ = Command::new("modprobe")
            .args(["-q", module])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
    }
    let is_closed = closes(&dir) && !closes(&ours);
    if is_closed && !is_mounted() {
        let kind = Some("ferrotrace");
        let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
        let _ = mount(kind, FERROTRACE, kind, flags, None::<&str>);
    }
    match ours.exists() && (is_closed || !dir.exists()) && is_mounted() {
        true => ours,
        false => dir,
    }
}

/// Returns true if the filesystem `ferrotrace` is mounted.
fn is_mounted() -> bool {
    let kind = statfs::statfs(FERROTRACE).map(|found| found.filesystem_type());
    kind.is_ok_and(|kind| kind == MAGIC)
}
