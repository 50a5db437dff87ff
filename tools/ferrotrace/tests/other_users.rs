// SPDX-License-Identifier: GPL-2.0

//! Other users cannot redirect the output of root by changing its path.

use std::fs;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::path::PathBuf;
use std::process::Child;
use std::process::Command;
use std::process::Stdio;

use nix::unistd::geteuid;
use tempfile::TempDir;

use crate::common::Channel;
use crate::common::FORMAT;
use crate::common::ferrotrace;
use crate::common::record;
use crate::common::recording::Recording;
use crate::common::stderr;

/// The other user: nobody.
const OTHER: u32 = 65534;

/// Rounds of a race.
const ROUNDS: usize = 40;

/// Puts a directory and a link in each other's place. Root's files in a directory cannot be
/// removed: each one has another name.
const SWAP_ABOVE: &str =
    "n=$((n + 1)); mkdir above; mv -T above real$n; ln -sT ../victim above; rm above; rm -r real$n";

/// A process of another user that changes what is at a path, until this is dropped.
struct Attacker(Child);

impl Attacker {
    /// Runs a loop of the shell in a directory of the other user.
    fn new(dir: &Path, script: &str) -> Self {
        let script = format!("while :; do {script}; done 2>/dev/null");
        let mut command = Command::new("sh");
        command.args(["-c", &script]).current_dir(dir);
        command.uid(OTHER).gid(OTHER).process_group(0);
        Self(command.stdin(Stdio::null()).spawn().unwrap())
    }
}

impl Drop for Attacker {
    fn drop(&mut self) {
        let group = nix::unistd::Pid::from_raw(self.0.id().try_into().unwrap());
        nix::sys::signal::killpg(group, nix::sys::signal::Signal::SIGKILL).unwrap();
        self.0.wait().unwrap();
    }
}

/// A directory of the other user, beside one of root's that must not change.
struct Scene {
    root: TempDir,
    theirs: PathBuf,
    victim: PathBuf,
}

impl Scene {
    /// Returns `None` if this is not root, who alone can be another user.
    fn new() -> Option<Self> {
        if !geteuid().is_root() {
            return None;
        }
        let root = TempDir::new().unwrap();
        fs::set_permissions(root.path(), Permissions::from_mode(0o755)).unwrap();
        let (theirs, victim) = (root.path().join("theirs"), root.path().join("victim"));
        fs::create_dir(&theirs).unwrap();
        chown(&theirs, Some(OTHER), Some(OTHER)).unwrap();
        fs::create_dir(&victim).unwrap();
        fs::write(victim.join("file"), "").unwrap();
        Some(Self {
            root,
            theirs,
            victim,
        })
    }

    /// Checks that nothing was written to root's directory.
    fn is_untouched(&self) {
        let names = fs::read_dir(&self.victim).unwrap().flatten();
        let names: Vec<_> = names.map(|entry| entry.file_name()).collect();
        assert_eq!(names, ["file"]);
        assert_eq!(fs::read(self.victim.join("file")).unwrap(), b"");
        assert!(self.root.path().join("victim").is_dir());
    }

    /// Runs a command that may fail, while a script of the other user runs, and checks that. The
    /// command has to succeed and to fail, else nothing has raced.
    fn race(&self, script: &str, mut command: impl FnMut() -> Command) {
        let attacker = Attacker::new(&self.theirs, script);
        let mut successes = 0;
        for _ in 0..ROUNDS {
            let output = command().output().unwrap();
            let message = stderr(&output);
            assert!(!message.contains("panicked"), "{message}");
            successes += usize::from(output.status.success());
            self.is_untouched();
        }
        drop(attacker);
        assert!((1..ROUNDS).contains(&successes), "{successes}");
    }
}

/// `relay record -o` makes a directory, then fills it; the other user puts a link in its place.
#[test]
fn the_directory_of_a_recording_is_swapped() {
    let Some(scene) = Scene::new() else {
        return;
    };
    let out = scene.theirs.join("out");
    let channel = || {
        let channel = Channel::new("no-overwrite", 0);
        channel.cpu(0, 0).finish(b"data");
        channel
    };
    let record = |channel: &Channel, out: &Path| {
        let mut command = ferrotrace();
        command.args(["relay", "record", "-d", "1ms", "--no-partial", "-o"]);
        command.arg(out).arg(channel.name());
        command
    };
    let raced = channel();
    scene.race(
        "n=$((n + 1)); mv -T out old$n; ln -sT ../victim out && rm out",
        || record(&raced, &out),
    );
    // The directory above.
    scene.race(SWAP_ABOVE, || {
        record(&raced, &scene.theirs.join("above/out"))
    });
    // With all that has been there removed, it can be written.
    let _ = fs::remove_dir_all(&out);
    let _ = fs::remove_file(&out);
    let done = record(&channel(), &out).output().unwrap();
    assert!(done.status.success(), "{}", stderr(&done));
    assert_eq!(fs::read(out.join("cpu0")).unwrap(), b"data");
}

/// Each kind of output, where a directory of the path is a link of the other user all the time, and
/// where the last name is.
#[test]
fn links_are_not_followed() {
    let Some(scene) = Scene::new() else {
        return;
    };
    let bytes = record(400, 0, 1, "x");
    let recording = Recording::new("plain", FORMAT, &[bytes]);
    let to = |name: &str| scene.theirs.join(name);
    for (name, target) in [
        ("dir", "../victim"),
        ("name", "../victim/new"),
        ("file", "../victim/file"),
    ] {
        std::os::unix::fs::symlink(target, to(name)).unwrap();
        std::os::unix::fs::lchown(to(name), Some(OTHER), Some(OTHER)).unwrap();
    }
    let dir = &recording.dir.display().to_string();
    let channel = Channel::new("no-overwrite", 0);
    channel.cpu(0, 0).finish(b"data");
    let dump = recording.path("dump");
    fs::write(
        &dump,
        crate::common::coverage::dump(Path::new("/b/a.gcda"), &[1, 2, 3]),
    )
    .unwrap();
    let program = recording.path("a.dp");
    fs::write(
        &program,
        "name = vmlinux\naddress = 0xffffffff81000000\nopcode = 0x55\nexit\n",
    )
    .unwrap();
    let (channel, dump, program) = (
        &channel.name().display().to_string(),
        &dump.display().to_string(),
        &program.display().to_string(),
    );
    let commands: &[&[&str]] = &[
        &["relay", "merge", dir, "-f", "-o"],
        &["export", dir, "--format", "chrome", "-f", "-o"],
        &["export", dir, "--format", "parquet", "-f", "-o"],
        &["export", dir, "--format", "ctf", "-o"],
        &["report", dir, "-f", "-o"],
        &["report", dir, "--html", "-f", "-o"],
        &["relay", "list", "--dir", dir, "-f", "-o"],
        &[
            "relay",
            "record",
            channel,
            "-d",
            "1ms",
            "--no-partial",
            "-f",
            "-o",
        ],
        &["cov", "dump", "--from", dump, "-f", "-o"],
        &["dprobes", "build", program, "--force", "-o"],
        &["manual"],
    ];
    for args in commands {
        for name in ["dir/new", "name", "file", "dir/deep/er"] {
            let output = ferrotrace().args(*args).arg(to(name)).output().unwrap();
            let message = stderr(&output);
            assert!(!output.status.success(), "{args:?} {name}");
            assert!(
                message.contains("symbolic link"),
                "{args:?} {name}: {message}"
            );
            scene.is_untouched();
        }
    }
}

/// The same by a process that changes the path: the file is new, or root's own that was there.
#[test]
fn the_path_of_a_file_is_swapped() {
    let Some(scene) = Scene::new() else {
        return;
    };
    let recording = Recording::new("plain", FORMAT, &[record(400, 0, 1, "x")]);
    let merge = |name: &str| {
        let (dir, out) = (recording.dir.clone(), scene.theirs.join(name));
        move || {
            let mut command = ferrotrace();
            command
                .args(["relay", "merge", "-f", "-o"])
                .arg(&out)
                .arg(&dir);
            command
        }
    };
    scene.race(
        "ln -s ../victim/file out; rm -f out; ln -s ../victim/new out; rm -f out",
        merge("out"),
    );
    scene.race(SWAP_ABOVE, merge("above/file"));
    // A FIFO of the other user does not make root wait.
    nix::unistd::mkfifo(&scene.theirs.join("fifo"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    chown(scene.theirs.join("fifo"), Some(OTHER), None).unwrap();
    let mut command = merge("fifo")();
    let args: Vec<_> = command
        .get_args()
        .filter(|arg| *arg != "-f")
        .map(ToOwned::to_owned)
        .collect();
    command = ferrotrace();
    let output = command.args(args).output().unwrap();
    assert!(
        stderr(&output).contains("belongs to another user"),
        "{}",
        stderr(&output)
    );
}
