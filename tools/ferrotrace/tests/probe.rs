// SPDX-License-Identifier: GPL-2.0

//! `ferrotrace probe` on a directory of ordinary files, like the one of the module.

use std::fs;
use std::process::Command;
use std::thread::sleep;
use std::time::Duration;
use std::time::Instant;

use ferrotrace::fast::record::Header;
use serde_json::Value;
use tempfile::TempDir;

use crate::common::PATIENCE;
use crate::common::fail;
use crate::common::ferrotrace;
use crate::common::start;
use crate::common::stderr;
use crate::common::stdout;
use crate::common::succeed;

const LIST: &str = "\
id=0 name=forks kind=probe place=kernel_clone address=0xffffffff81063c90 hits=12 missed=0 state=on
id=7 name=open.ret kind=return place=do_sys_openat2 address=0xffffffff811d5f20 hits=3 missed=1 state=on
";

/// Makes a directory like the module's.
fn module() -> TempDir {
    let dir = TempDir::new().unwrap();
    fs::write(dir.path().join("probes"), LIST).unwrap();
    fs::write(dir.path().join("lost"), "0\n").unwrap();
    dir
}

/// Returns the start of a record; `returned` is the value and the duration of a return.
fn hit(time: u64, cpu: u32, pid: i32, probe: u32, returned: Option<(u64, u64)>) -> Vec<u8> {
    let (value, duration) = returned.unwrap_or_default();
    let mut registers = value.to_ne_bytes().to_vec();
    registers.extend([0; 16 * 8]);
    record(
        time,
        cpu,
        pid,
        probe,
        returned.map(|_| duration),
        0,
        &registers,
    )
}

/// Returns a record of this type, with the data after its start.
fn record(
    time: u64,
    cpu: u32,
    pid: i32,
    probe: u32,
    duration: Option<u64>,
    ty: u16,
    rest: &[u8],
) -> Vec<u8> {
    let header = Header {
        len: u32::try_from(48 + rest.len()).unwrap(),
        ty,
        flags: Header::TIMED,
    };
    let mut bytes = header.encode().to_vec();
    bytes.extend(time.to_ne_bytes());
    bytes.extend(cpu.to_ne_bytes());
    bytes.extend(pid.to_ne_bytes());
    bytes.extend(*b"cat\0\0\0\0\0\0\0\0\0\0\0\0\0");
    bytes.extend(probe.to_ne_bytes());
    bytes.extend(u32::from(duration.is_some()).to_ne_bytes());
    bytes.extend(0x10u64.to_ne_bytes());
    bytes.extend(duration.unwrap_or(0).to_ne_bytes());
    bytes.extend(rest);
    bytes.resize(bytes.len().next_multiple_of(8), 0);
    bytes
}

fn probe(dir: &TempDir, args: &[&str]) -> Command {
    let mut command = ferrotrace();
    command.arg("probe").args(args).arg("--dir").arg(dir.path());
    command
}

#[test]
fn probes_are_listed() {
    let dir = module();
    let text = stdout(&succeed(&mut probe(&dir, &["list"])));
    assert!(
        text.contains("open.ret  return  do_sys_openat2     3       1  on"),
        "{text}"
    );
    let text = stdout(&succeed(&mut probe(&dir, &["list", "--json"])));
    let value: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(value["probes"][0]["address"], "0xffffffff81063c90");
    fs::write(dir.path().join("probes"), "id=x\n").unwrap();
    let message = fail(&mut probe(&dir, &["list"]));
    assert!(
        message.contains("probes: not understood: line 1"),
        "{message}"
    );
}

#[test]
fn probes_are_added_and_removed_by_lines() {
    let dir = module();
    let written = |args: &[&str]| {
        fs::write(dir.path().join("probes"), "").unwrap();
        let output = succeed(&mut probe(&dir, args));
        (
            stdout(&output),
            fs::read_to_string(dir.path().join("probes")).unwrap(),
        )
    };
    let (text, line) = written(&["add", "-r", "no_such_function_here"]);
    assert_eq!(text, "no_such_function_here.ret\n");
    assert_eq!(line, "r no_such_function_here.ret no_such_function_here\n");
    let (_, line) = written(&["add", "--name", "mine", "f+0x10"]);
    assert_eq!(line, "p mine f+0x10\n");
    assert_eq!(written(&["remove", "mine"]).1, "-mine\n");
    assert_eq!(written(&["remove", "--all"]).1, "-*\n");

    let (text, line) = written(&["add", "o=f a=%di:s32 t=+0(%si):string if a<0 && comm~ba*"]);
    assert_eq!(text, "o\n");
    assert_eq!(line, "p o f a=%di:s32 t=+0(%si):string if a<0 comm~ba*\n");
    let (_, line) = written(&["add", "f%return $retval:x8 if duration>5"]);
    assert_eq!(line, "r f.ret f ret=$retval:x8 if duration>5\n");

    let message = fail(&mut probe(&dir, &["add", "--btf", "/nowhere", "f name"]));
    assert!(message.contains("/nowhere: cannot read"), "{message}");
    let message = fail(&mut probe(&dir, &["add", "f $retval"]));
    assert!(message.contains("when a function returns"), "{message}");
    let message = fail(&mut probe(&dir, &["add", "nosuchfunction_*"]));
    assert!(message.contains("no function matches"), "{message}");
    let message = fail(&mut probe(&dir, &["add", "--name", "mine", "f", "g"]));
    assert!(
        message.contains("--name mine is for one probe"),
        "{message}"
    );
    let message = fail(&mut probe(&dir, &["add", "-r", "f+1"]));
    assert!(message.contains("without an offset"), "{message}");
}

#[test]
fn hits_are_shown_by_time() {
    let dir = module();
    let cpus = [
        [hit(10, 0, 42, 0, None), hit(30, 0, 42, 99, None)].concat(),
        hit(20, 1, 43, 7, Some((u64::MAX - 1, 12_345))),
    ];
    for (cpu, bytes) in cpus.iter().enumerate() {
        fs::write(dir.path().join(format!("cpu{cpu}")), bytes).unwrap();
    }
    let watch = ["watch", "--count", "2"];
    let text = stdout(&succeed(&mut probe(&dir, &watch)));
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(lines[0], "[000] 0.000000010 cat-42 kernel_clone");
    assert!(
        lines[1]
            .starts_with("[001] 0.000000020 cat-43 do_sys_openat2 = -2 (ENOENT), 12.345 us, to "),
        "{text}"
    );
    assert_eq!(lines.last(), Some(&"2 events, 0 dropped"));
    let text = stdout(&succeed(&mut probe(
        &dir,
        &[&watch[..], &["--json"]].concat(),
    )));
    let lines: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(lines[1]["errno"], "ENOENT");
    assert_eq!(lines[2]["summary"]["events"], 2);

    let text = stdout(&succeed(&mut probe(
        &dir,
        &["watch", "--count", "1", "-p", "43"],
    )));
    assert!(text.starts_with("[001] 0.000000020 cat-43 "), "{text}");
    // The output of the command under test does not enter the file.
    let file = dir.path().join("out");
    let args = ["watch", "-o", file.to_str().unwrap()];
    let mut command = probe(&dir, &args);
    let output = command
        .args(["--", "sh", "-c", "echo own; sleep 1; exit 3"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
    assert_eq!(stdout(&output), "own\n");
    let text = fs::read_to_string(&file).unwrap();
    assert!(text.ends_with("2 events, 0 dropped\n"), "{text}");
}

/// A key that no probe has would only print a dash, so the command refuses it.
#[test]
fn keys_have_to_be_there() {
    let dir = module();
    let line =
        "id=9 name=o kind=probe place=f address=0x1 hits=0 missed=0 state=on args=n=%di:s32\n";
    fs::write(dir.path().join("probes"), line).unwrap();
    fs::write(dir.path().join("cpu0"), "").unwrap();
    let count = |args: &[&str]| probe(&dir, &[&["count", "-d", "0.1"], args].concat());
    succeed(&mut count(&["--by", "n,comm"]));
    for args in [
        &["--by", "comm,m"][..],
        &["--by", "m", "f n=%di"],
        &["--by", "m", "f n=%di if n<0"],
    ] {
        let message = fail(&mut count(args));
        assert!(
            message.contains("--by m: no probe has an argument"),
            "{message}"
        );
    }
}

/// The command ends when its output's reader exits, not only at the next hit.
#[test]
fn nobody_reads_any_more() {
    let dir = module();
    fs::write(dir.path().join("cpu0"), "").unwrap();
    for args in [
        &["watch"][..],
        &["watch", "--json"],
        &["count", "-i", "1h"],
        &["count", "--folded", "--by", "comm"],
    ] {
        let mut child = start(&mut probe(&dir, args));
        drop(child.stdout.take());
        let start = Instant::now();
        let status = loop {
            if let Some(status) = child.try_wait().unwrap() {
                break status;
            }
            if start.elapsed() > PATIENCE {
                child.kill().unwrap();
            }
            sleep(Duration::from_millis(20));
        };
        assert!(status.success(), "{args:?}: {status}");
    }
}

#[test]
fn arguments_are_shown() {
    let dir = module();
    let line = "id=9 name=o kind=probe place=f address=0x1 hits=0 missed=0 state=on args=n=%di:s32,t=+0(%si):string6 if=n<0\n";
    fs::write(dir.path().join("probes"), line).unwrap();
    let rest = |faults: u32| {
        let mut rest = (-5i32).to_ne_bytes().to_vec();
        rest.extend(b"/etc\0\0\0\0");
        rest.extend(faults.to_ne_bytes());
        rest
    };
    let bytes = [
        record(10, 0, 42, 9, None, 9, &rest(0)),
        record(20, 0, 42, 9, None, 9, &rest(2)),
    ];
    fs::write(dir.path().join("cpu0"), bytes.concat()).unwrap();
    let text = stdout(&succeed(&mut probe(&dir, &["watch", "--count", "2"])));
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(lines[0], "[000] 0.000000010 cat-42 f n=-5 t=\"/etc\"");
    assert!(lines[1].ends_with(" n=-5 t=\"/etc\"(fault)"), "{text}");
    let text = stdout(&succeed(&mut probe(
        &dir,
        &["watch", "--count", "2", "--json"],
    )));
    let lines: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(lines[0]["args"], serde_json::json!({"n": -5, "t": "/etc"}));
    assert_eq!(lines[1]["args"]["t"], Value::Null);
    let text = stdout(&succeed(&mut probe(&dir, &["list"])));
    assert!(
        text.contains("n=%di:s32 t=+0(%si):string6 if n<0\n"),
        "{text}"
    );
}

#[test]
fn what_is_missing_is_said() {
    let command = |args: &[&str]| {
        let mut command = ferrotrace();
        command.arg("probe").args(args);
        command
    };
    let message = fail(&mut command(&["list", "--dir", "/nowhere/probes"]));
    assert!(message.contains("is debugfs mounted?"), "{message}");
    let message = fail(&mut command(&["list", "--dir", "/proc/probes"]));
    assert!(
        message.contains("modprobe ferrotrace_kprobe_events"),
        "{message}"
    );
    for args in [
        &["add"][..],
        &["add", "f+x"],
        &["add", "f a:int"],
        &["add", "f if pid"],
        &["remove"],
        &["watch", "-r"],
    ] {
        let output = command(args).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(stderr(&output).starts_with("ferrotrace: "), "{args:?}");
    }
}

#[test]
fn places_in_files() {
    let module = module();
    let dir = module.path().to_str().unwrap();
    let own = std::env::current_exe().unwrap().display().to_string();
    let refused = |args: &[&str]| {
        let mut command = ferrotrace();
        fail(command.args(["probe", "--dir", dir]).args(args))
    };
    for (place, what) in [
        (
            "/nonexistent/x:f".to_owned(),
            "/nonexistent/x: No such file",
        ),
        ("/etc/passwd:f".to_owned(), "not an executable"),
        (
            format!("{own}:no_such_function_here"),
            "no symbol no_such_function_here",
        ),
        (format!("{own}:0x1"), "at 0x1 there is no code"),
        (
            format!("{own}:main%return $arg1"),
            "there are no parameters",
        ),
    ] {
        let error = refused(&["add", &place]);
        assert!(error.contains(what), "{error}");
    }
    // Errors in the command line have another status.
    for args in [
        &["add", "/bin/sh"][..],
        &["add", "--stack=all", "f"],
        &["watch", "--stack"],
    ] {
        let mut command = ferrotrace();
        let output = command
            .args(["probe", "--dir", dir])
            .args(args)
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(2), "{args:?}");
    }
}
