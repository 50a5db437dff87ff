// SPDX-License-Identifier: GPL-2.0

//! The commands for hooks, on a directory of ordinary files.
//!
//!
//! Ordinary files keep all writes and never refuse one.

use std::fs;
use std::io::BufRead;
use std::io::BufReader;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::fs::symlink;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Child;
use std::process::Command;

use tempfile::TempDir;

use crate::common::fail;
use crate::common::ferrotrace;
use crate::common::interrupt;
use crate::common::start;
use crate::common::stderr;
use crate::common::stdout;
use crate::common::succeed;

const INT3: &str = "\
hook=int3 module=- context=atomic access=ro params=regs sites=1 active=0 hits=0 exits=0
";

/// Returns the text of hook `task_fork` with lines of exits.
fn task_fork(hits: u64, exits: &[String]) -> String {
    let count = exits.len();
    let exits = exits.concat();
    format!(
        "hook=task_fork module=- context=task access=ro params=task,flags sites=- active=1 hits={hits} exits={count}\n{exits}"
    )
}

fn exit(name: &str, armed: u8, hits: u64) -> String {
    format!(
        "  exit={name} order=1 priority=unspecified conditions=none params=1 armed={armed} hits={hits} stops=0 module=gkhi_{name}\n"
    )
}

/// A registry.
struct Gkhi {
    root: TempDir,
}

impl Gkhi {
    fn new(hooks: &str) -> Self {
        let root = TempDir::new().unwrap();
        let gkhi = Self { root };
        fs::create_dir(gkhi.dir()).unwrap();
        gkhi.write(hooks);
        for control in ["arm", "disarm"] {
            fs::write(gkhi.dir().join(control), "").unwrap();
        }
        gkhi
    }

    fn dir(&self) -> PathBuf {
        self.root.path().join("gkhi")
    }

    /// Replaces the text atomically, as the kernel's text is always complete.
    fn write(&self, hooks: &str) {
        let path = self.dir().join("new");
        fs::write(&path, hooks).unwrap();
        fs::rename(path, self.dir().join("hooks")).unwrap();
    }

    fn control(&self, name: &str) -> String {
        fs::read_to_string(self.dir().join(name)).unwrap()
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = ferrotrace();
        command.arg("hooks").args(args).arg("--dir").arg(self.dir());
        command
    }
}

fn two_exits() -> Gkhi {
    let exits = [exit("count", 1, 7), exit("other", 0, 0)];
    Gkhi::new(&(INT3.to_owned() + &task_fork(7, &exits)))
}

fn has(message: &str, parts: &[&str]) {
    for part in parts {
        assert!(message.contains(part), "{part:?} is not in: {message}");
    }
}

#[test]
fn a_list_for_people() {
    let gkhi = two_exits();
    let all = stdout(&succeed(&mut gkhi.command(&["list"])));
    let lines: Vec<_> = all.lines().collect();
    assert_eq!(lines.len(), 5, "{all}");
    let words = |line: &str| -> Vec<_> { line.split_whitespace().map(str::to_owned).collect() };
    assert_eq!(words(lines[1])[..4], ["int3", "dormant", "0", "kernel"]);
    assert_eq!(words(lines[2])[..4], ["task_fork", "active", "7", "kernel"]);
    assert_eq!(
        words(lines[3])[..5],
        ["1", "count", "armed", "7", "gkhi_count"]
    );
    assert_eq!(
        words(lines[4])[..5],
        ["1", "other", "disarmed", "0", "gkhi_other"]
    );
    let one = stdout(&succeed(&mut gkhi.command(&["list", "int3"])));
    assert_eq!(one.lines().count(), 2, "{one}");

    // --dir may also precede the command.
    let mut before = ferrotrace();
    before.args(["hooks", "--dir"]).arg(gkhi.dir()).arg("list");
    assert_eq!(stdout(&succeed(&mut before)), all);
}

#[test]
fn a_list_for_programs() {
    let gkhi = two_exits();
    let list = |args: &[&str]| -> serde_json::Value {
        serde_json::from_slice(&succeed(&mut gkhi.command(args)).stdout).unwrap()
    };
    let all = list(&["list", "--json"]);
    assert_eq!(
        all["hooks"][0],
        serde_json::json!({
            "name": "int3", "module": null, "context": "atomic", "access": "ro", "params": ["regs"],
            "sites": 1, "active": false, "hits": 0, "exits": [],
        })
    );
    let fork = &all["hooks"][1];
    assert_eq!(fork["sites"], serde_json::Value::Null);
    assert_eq!(fork["params"], serde_json::json!(["task", "flags"]));
    assert_eq!(
        fork["exits"][0],
        serde_json::json!({
            "name": "count", "order": 1, "priority": "unspecified", "conditions": "none", "params": 1,
            "armed": true, "hits": 7, "stops": 0, "module": "gkhi_count",
        })
    );
    let one = list(&["list", "--json", "task_fork"]);
    assert_eq!(one["hooks"], serde_json::json!([fork]));
}

#[test]
fn arm_and_disarm() {
    let gkhi = two_exits();
    let quiet = |args: &[&str]| assert_eq!(stdout(&succeed(&mut gkhi.command(args))), "");
    quiet(&[
        "arm",
        "task_fork/other",
        "task_fork/count",
        "task_fork/other",
    ]);
    assert_eq!(gkhi.control("arm"), "task_fork/other\ntask_fork/count\n");
    assert_eq!(gkhi.control("disarm"), "");
    quiet(&["disarm", "task_fork"]);
    assert_eq!(gkhi.control("disarm"), "task_fork/count\ntask_fork/other\n");
}

#[test]
fn names_that_do_not_exist() {
    let gkhi = two_exits();
    for (args, parts) in [
        (
            vec!["list", "int3", "int4"],
            vec!["no hook int4", "int3, task_fork"],
        ),
        (
            vec!["watch", "int4"],
            vec!["no hook int4", "int3, task_fork"],
        ),
        (
            vec!["arm", "task_fork/other", "task_fork/mine"],
            vec!["no exit task_fork/mine", "exits on task_fork: count, other"],
        ),
        (
            vec!["arm", "task_fork/other", "fork/other"],
            vec!["no hook fork;", "int3, task_fork"],
        ),
        (
            vec!["disarm", "count"],
            vec!["no hook count", "did you mean the exit task_fork/count?"],
        ),
        (vec!["disarm", "int3"], vec!["no exit on int3"]),
    ] {
        has(&fail(&mut gkhi.command(&args)), &parts);
    }
    assert_eq!(gkhi.control("arm"), "");
    assert_eq!(gkhi.control("disarm"), "");
}

#[test]
fn command_lines_that_are_not_understood() {
    let gkhi = two_exits();
    for args in [
        &["arm"][..],
        &["arm", "a/b/c"],
        &["arm", "a b"],
        &["disarm", "/x"],
        &["list", "a/b"],
        &["watch", "--interval", "0"],
        &["watch", "--interval", "1e9"],
        &["watch", "--count", "0"],
    ] {
        let output = gkhi.command(args).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{args:?}");
    }
    assert_eq!(gkhi.control("arm"), "");
}

#[test]
fn no_registry() {
    let gkhi = two_exits();
    let dir = |dir: PathBuf, args: &[&str]| {
        let mut command = ferrotrace();
        command.arg("hooks").args(args).arg("--dir").arg(dir);
        fail(&mut command)
    };
    let empty = gkhi.root.path().join("debug");
    for args in [&["list"][..], &["arm", "int3"], &["watch"]] {
        has(
            &dir(gkhi.root.path().join("other"), args),
            &["other: no such directory", "without Ferrotrace"],
        );
        has(
            &dir(empty.join("gkhi"), args),
            &["debug/gkhi: no such directory", "debugfs is not mounted"],
        );
    }
    fs::create_dir(&empty).unwrap();
    has(
        &dir(empty.join("gkhi"), &["list"]),
        &["debugfs is not mounted", &format!("{}", empty.display())],
    );
}

#[test]
fn refusals_of_the_system() {
    let gkhi = two_exits();
    let arm = gkhi.dir().join("arm");
    fs::remove_file(&arm).unwrap();
    let message = fail(&mut gkhi.command(&["arm", "task_fork"]));
    has(&message, &["gkhi/arm: cannot open", "No such file"]);
    symlink("/dev/full", &arm).unwrap();
    let message = fail(&mut gkhi.command(&["arm", "task_fork"]));
    has(&message, &["gkhi/arm: cannot write", "No space"]);
    let full = fs::File::options().write(true).open("/dev/full").unwrap();
    let mut list = gkhi.command(&["list"]);
    list.stdout(full);
    has(&fail(&mut list), &["/dev/full: cannot write", "No space"]);
}

#[test]
fn text_that_is_not_understood() {
    let gkhi = Gkhi::new(&task_fork(
        1,
        &[exit("count", 1, 1).replace(" stops=0", "")],
    ));
    for args in [&["list"][..], &["arm", "task_fork"], &["watch"]] {
        has(
            &fail(&mut gkhi.command(args)),
            &["gkhi/hooks: not understood: line 2: there is no stops="],
        );
    }
    assert_eq!(gkhi.control("arm"), "");
}

/// Root becomes the user nobody; other users remove their own permissions.
#[test]
fn not_for_everybody() {
    let gkhi = two_exits();
    let root = nix::unistd::geteuid().is_root();
    let mode = |path: PathBuf, mode| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    };
    mode(gkhi.root.path().into(), 0o755);
    // The user nobody may have no access to the binary's directory.
    let binary = gkhi.root.path().join("ferrotrace");
    // Not with fs::copy(): see the test of relay files.
    let mut copy = Command::new("cp");
    succeed(copy.arg(env!("CARGO_BIN_EXE_ferrotrace")).arg(&binary));
    mode(binary.clone(), 0o755);
    let run = |args: &[&str]| {
        let mut command = Command::new(&binary);
        command.arg("hooks").args(args).arg("--dir").arg(gkhi.dir());
        if root {
            command.uid(65534).gid(65534);
        }
        fail(&mut command)
    };
    let closed = if root { 0o600 } else { 0o000 };
    mode(gkhi.dir().join("arm"), closed);
    has(
        &run(&["arm", "task_fork"]),
        &["gkhi/arm: permission denied", "root"],
    );
    mode(gkhi.dir().join("hooks"), closed);
    has(&run(&["list"]), &["gkhi/hooks: permission denied", "root"]);
}

/// A running watch with a pipe for its output.
struct Watching {
    child: Child,
    lines: std::io::Lines<BufReader<std::process::ChildStdout>>,
}

impl Watching {
    fn start(gkhi: &Gkhi, args: &[&str]) -> Self {
        let mut child = start(&mut gkhi.command(&[&["watch"], args].concat()));
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, lines }
    }

    /// Returns the words of the next line, without the time.
    fn next(&mut self) -> Vec<String> {
        let line = self.lines.next().unwrap().unwrap();
        line.split_whitespace().skip(1).map(str::to_owned).collect()
    }

    /// Returns the next line that does not report an interval without hits.
    fn next_event(&mut self) -> Vec<String> {
        loop {
            let words = self.next();
            if words != ["no", "hits"] {
                return words;
            }
        }
    }

    fn end(mut self) -> Vec<String> {
        let rest = self.lines.map(Result::unwrap).collect();
        let mut errors = String::new();
        let mut stderr = self.child.stderr.take().unwrap();
        stderr.read_to_string(&mut errors).unwrap();
        assert!(self.child.wait().unwrap().success(), "{errors}");
        assert_eq!(errors, "");
        rest
    }
}

#[test]
fn a_watch() {
    let gkhi = two_exits();
    let mut watch = Watching::start(&gkhi, &["-i", "0.05"]);
    assert_eq!(watch.next(), ["hits", "hits/s", "stops", "exit"]);
    assert_eq!(watch.next(), ["7", "-", "0", "task_fork/count"]);
    assert_eq!(watch.next(), ["no", "hits"]);

    gkhi.write(&task_fork(9, &[exit("count", 1, 9), exit("other", 0, 1)]));
    let row = watch.next_event();
    assert_eq!(
        (&*row[0], &*row[2], &*row[3]),
        ("2", "0", "task_fork/count")
    );
    let rate: f64 = row[1].parse().unwrap();
    assert!(rate > 0.0, "{rate}");
    assert_eq!(watch.next()[3], "task_fork/other");

    // One exit is removed, one is new.
    gkhi.write(&task_fork(9, &[exit("count", 1, 9), exit("new", 1, 5)]));
    let row = watch.next_event();
    assert_eq!(
        (&*row[0], &*row[3], &*row[4]),
        ("5", "task_fork/new", "(new)")
    );
    assert_eq!(watch.next(), ["-", "-", "-", "task_fork/other", "(gone)"]);

    // One is registered again.
    gkhi.write(&task_fork(9, &[exit("count", 1, 4), exit("new", 1, 5)]));
    let row = watch.next_event();
    assert_eq!(row[0], "4");
    assert_eq!(row[3..].join(" "), "task_fork/count (counts from 0 again)");

    interrupt(&watch.child);
    let rest = watch.end();
    let total = rest.iter().position(|line| line.starts_with("total of "));
    let total: Vec<Vec<_>> = rest[total.unwrap() + 1..]
        .iter()
        .map(|line| line.split_whitespace().collect())
        .collect();
    let sums: Vec<_> = total.iter().map(|row| (row[1], row[4])).collect();
    assert_eq!(
        sums,
        [
            ("6", "task_fork/count"),
            ("5", "task_fork/new"),
            ("1", "task_fork/other")
        ]
    );
}

#[test]
fn a_watch_of_some_intervals() {
    let gkhi = two_exits();
    let output = succeed(&mut gkhi.command(&["watch", "-i", "0.01", "-c", "3"]));
    let text = stdout(&output);
    let lines: Vec<_> = text.lines().collect();
    // The column names, the armed exits, three intervals, and the total.
    assert_eq!(lines.len(), 7, "{text}");
    assert!(lines[5].starts_with("total of "), "{text}");
    assert!(lines[6].ends_with(" no hits"), "{text}");

    // The duration ends within an interval.
    let output = succeed(&mut gkhi.command(&["watch", "-i", "1h", "-d", "50ms"]));
    let text = stdout(&output);
    let total = text.split("\ntotal of ").nth(1).unwrap();
    let total: f64 = total.split(' ').next().unwrap().parse().unwrap();
    // The machine may be busy.
    assert!((0.05..600.0).contains(&total), "{text}");

    // A hook without exits.
    let output = succeed(&mut gkhi.command(&["watch", "-i", "0.01", "-c", "1", "int3"]));
    let text = stdout(&output);
    assert!(text.lines().nth(1).unwrap().ends_with(" no exit is armed"));
}

#[test]
fn a_watched_hook_goes_and_comes() {
    let gkhi = two_exits();
    let mut watch = Watching::start(&gkhi, &["-i", "0.02", "task_fork"]);
    assert_eq!(watch.next().len(), 4);
    assert_eq!(watch.next()[3], "task_fork/count");
    gkhi.write(INT3);
    assert_eq!(watch.next_event()[3..].join(" "), "task_fork/count (gone)");
    assert_eq!(watch.next()[3..].join(" "), "task_fork/other (gone)");
    gkhi.write(&task_fork(1, &[exit("count", 1, 1)]));
    assert_eq!(watch.next_event()[3..].join(" "), "task_fork/count (new)");
    interrupt(&watch.child);
    watch.end();
}

/// JSON lines for the duration of a command; the watch returns its exit status.
#[test]
fn a_watch_of_a_command() {
    let gkhi = two_exits();
    let watch = ["watch", "--json", "-i", "10", "--", "sh", "-c"];
    let script = "cat > $0.new && mv $0.new $0; echo command; exit 7";
    let hooks = gkhi.dir().join("hooks");
    let mut command = ferrotrace();
    command.args(["hooks", "--dir"]).arg(gkhi.dir());
    command.args(watch).arg(script).arg(hooks);
    let mut child = start(command.stdin(std::process::Stdio::piped()));
    let text = task_fork(9, &[exit("count", 1, 9), exit("new", 1, 5)]);
    let mut stdin = child.stdin.take().unwrap();
    std::io::Write::write_all(&mut stdin, text.as_bytes()).unwrap();
    drop(stdin);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(7), "{}", stderr(&output));
    let text = stdout(&output);
    let mut lines: Vec<_> = text.lines().collect();
    lines.retain(|line| *line != "command");
    let lines: Vec<serde_json::Value> = lines
        .iter()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let row = |exit: &str, hits: u64, event: Option<&str>| serde_json::json!({ "hook": "task_fork", "exit": exit, "hits": hits, "stops": 0, "event": event });
    assert_eq!(lines.len(), 3, "{text}");
    assert_eq!(lines[0]["armed"][0], row("count", 7, None));
    assert_eq!(lines[0]["span"], serde_json::Value::Null);
    // The last interval ends with the command, long before its time.
    let calls = lines[1]["calls"].as_array().unwrap();
    assert_eq!(
        calls[..],
        [
            row("count", 2, None),
            row("new", 5, Some("new")),
            row("other", 0, Some("gone"))
        ]
    );
    assert!(lines[1]["span"].as_u64().unwrap() < 10_000_000_000);
    assert_eq!(lines[2]["total"].as_array().unwrap().len(), 2);
}

/// The totals are shown even if the end is an error.
#[test]
fn a_watch_that_fails() {
    let gkhi = two_exits();
    let mut watch = Watching::start(&gkhi, &["-i", "0.02"]);
    assert_eq!(watch.next().len(), 4);
    assert_eq!(watch.next()[3], "task_fork/count");
    gkhi.write(&task_fork(8, &[exit("count", 1, 8)]));
    assert_eq!(watch.next_event()[0], "1");
    gkhi.write("nonsense\n");
    let output = watch.child.wait().unwrap();
    assert_eq!(output.code(), Some(1));
    let rest: Vec<_> = watch.lines.map(Result::unwrap).collect();
    let total = rest.iter().position(|line| line.starts_with("total of "));
    has(&rest[total.unwrap() + 1], &[" 1 ", "task_fork/count"]);
    let mut errors = String::new();
    let mut stderr = watch.child.stderr.take().unwrap();
    stderr.read_to_string(&mut errors).unwrap();
    has(&errors, &["ferrotrace: ", "line 1", "key=value"]);
}

/// Stops as in `watch | head -n 1`.
#[test]
fn a_reader_that_has_had_enough() {
    let gkhi = two_exits();
    let mut child = start(&mut gkhi.command(&["watch", "-i", "0.01"]));
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(stderr(&output), "");
}
