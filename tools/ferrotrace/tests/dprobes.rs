// SPDX-License-Identifier: GPL-2.0

//! `ferrotrace dprobes`, and the command under the name `dprobes`, without an engine.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;
use std::process::Output;

use tempfile::TempDir;

const TOOL: &str = env!("CARGO_BIN_EXE_ferrotrace");

fn run(program: &Path, args: &[&str], dir: &Path) -> (Option<i32>, String, String) {
    let Output {
        status,
        stdout,
        stderr,
    } = Command::new(program)
        .args(args)
        .current_dir(dir)
        .env("FERROTRACE_NO_NOTES", "1")
        .output()
        .unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (status.code(), text(stdout), text(stderr))
}

fn files() -> TempDir {
    let dir = TempDir::new().unwrap();
    let good = "name = vmlinux\nvars = 1\noffset = kernel_clone\ninc lv, N\nexit\n";
    fs::write(dir.path().join("good.dp"), good).unwrap();
    let bad = "name = vmlinux\noffset = kernel_clone\npsh 1\nexit 99\n";
    fs::write(dir.path().join("bad.dp"), bad).unwrap();
    symlink(TOOL, dir.path().join("dprobes")).unwrap();
    dir
}

#[test]
fn files_are_checked_without_a_kernel() {
    let dir = files();
    let check = |args: &[&str]| {
        let args = [&["dprobes", "check"], args].concat();
        run(Path::new(TOOL), &args, dir.path())
    };
    let (code, out, err) = check(&["good.dp", "-D", "N=0"]);
    assert_eq!((code, &*err), (Some(0), ""));
    assert_eq!(out, "good.dp: 1 programs, 1 points\n");
    let (code, out, err) = check(&["good.dp", "bad.dp", "-D", "N=1"]);
    assert_eq!((code, &*out), (Some(1), ""));
    for part in [
        "there is no local variable 1",
        " --> good.dp:4:9",
        "there is no command psh",
        " --> bad.dp:3:1",
        "= help: did you mean push?",
        " --> bad.dp:4:6",
        "ferrotrace: 3 errors in good.dp, bad.dp\n",
    ] {
        assert!(err.contains(part), "{part}: {err}");
    }
    let (code, _, err) = check(&["none.dp"]);
    assert_eq!(code, Some(1));
    assert!(
        err.starts_with("ferrotrace: none.dp: cannot read: "),
        "{err}"
    );
    assert_eq!(check(&["good.dp", "-D", "1=2"]).0, Some(2));
}

#[test]
fn without_the_module_it_says_so() {
    let dir = files();
    fs::create_dir(dir.path().join("other")).unwrap();
    let absent = dir.path().join("ferrotrace_dprobes").display().to_string();
    let classic = dir.path().join("dprobes");
    for args in [
        &["-q", "-a"][..],
        &["-g", "-a"],
        &["-r", "--name", "bzImage"],
    ] {
        let args = [args, &["--dir", &absent]].concat();
        let (code, out, err) = run(&classic, &args, dir.path());
        assert_eq!((code, &*out), (Some(1), ""), "{args:?}");
        assert!(err.contains("modprobe rust_dprobes"), "{err}");
    }
}

#[test]
fn programs_that_are_built() {
    let dir = files();
    let own = std::env::current_exe().unwrap();
    let text = format!(
        "name = {}\nid = 7\noffset = main\nl: jmp l\n",
        own.display()
    );
    fs::write(dir.path().join("user.dp"), text).unwrap();
    let classic = dir.path().join("dprobes");
    let (code, out, err) = run(&classic, &["-b", "user.dp", "-o", "user.ppdf"], dir.path());
    assert_eq!((code, &*out, &*err), (Some(0), "", ""));
    let bytes = fs::read(dir.path().join("user.ppdf")).unwrap();
    assert!(bytes.starts_with(b"DPRS"));
    let (code, out, _) = run(
        &classic,
        &["check", "--places", "--print", "user.dp"],
        dir.path(),
    );
    assert_eq!(code, Some(0));
    assert!(
        out.contains("id = 7\n") && out.contains("L0:\n\tjmp L0\n"),
        "{out}"
    );
    // The command refuses files that were not built before it asks the kernel.
    let (code, _, err) = run(&classic, &["-p", "user.dp"], dir.path());
    assert_eq!(code, Some(1));
    assert!(
        err.contains("cannot be used as a file of built programs"),
        "{err}"
    );
}

fn gcc(dir: &Path, args: &str) {
    let mut gcc = Command::new("gcc");
    let status = gcc.current_dir(dir).args(args.split(' ')).status();
    assert!(status.unwrap().success(), "{args}");
}

/// Builds a stripped library with separate symbols; two functions there are named `f`, one
/// exported.
fn library(dir: &Path, returned: i32) {
    fs::write(dir.join("a.c"), "static __attribute__((noinline)) int f(int x) { return x * 3 + 1; }\nint first(int x) { return f(x) + f(x + 1); }\n").unwrap();
    let text = format!("int f(int x) {{ if (x > 5) return x * 7; return x ^ {returned}; }}\n");
    fs::write(dir.join("b.c"), text).unwrap();
    gcc(
        dir,
        "-O2 -g -fPIC -shared -nostdlib -Wl,--build-id -o lib.so a.c b.c",
    );
    let objcopy = |args: &[&str]| {
        let status = Command::new("objcopy").current_dir(dir).args(args).status();
        assert!(status.unwrap().success());
    };
    objcopy(&["--only-keep-debug", "lib.so", "lib.debug"]);
    objcopy(&["--strip-all", "lib.so"]);
}

/// The entry and the returns of a point belong to one function, even if others have its name.
#[test]
fn functions_of_one_name() {
    let dir = files();
    library(dir.path(), 55);
    let path = dir.path().join("lib.so");
    let print = |offset: &str, args: &[&str]| {
        let text = format!(
            "name = {}\noffset = {offset}\nreturn = yes\nexit\n",
            path.display()
        );
        fs::write(dir.path().join("f.dp"), text).unwrap();
        let args = [&["dprobes", "check", "f.dp", "--places", "--print"], args].concat();
        run(Path::new(TOOL), &args, dir.path())
    };
    let (code, own, err) = print("f", &[]);
    assert_eq!((code, &*err), (Some(0), ""));
    let symbols = ["--sym", "lib.debug"];
    let (code, _, err) = print("f", &symbols);
    assert_eq!(code, Some(1));
    assert!(
        err.contains("several symbols f, at 0x") && err.contains("(a.c)"),
        "{err}"
    );
    // The place selects one of them. The exported one has two returns.
    let places = err
        .split([' ', ',', ':'])
        .filter(|word| word.starts_with("0x"));
    let printed: Vec<_> = places.map(|place| print(place, &symbols)).collect();
    assert_eq!(printed.len(), 2);
    assert!(
        printed.iter().all(|(code, ..)| *code == Some(0)),
        "{printed:?}"
    );
    assert!(
        printed.iter().any(|(_, out, _)| *out == own),
        "{printed:?} {own}"
    );
    // No function begins inside another one.
    let inside = own
        .lines()
        .find_map(|line| line.strip_prefix("offset = "))
        .unwrap();
    let (code, _, err) = print(inside, &symbols);
    assert_eq!(code, Some(1));
    assert!(err.contains("no function begins at this place"), "{err}");
    // Offsets inside an instruction are refused.
    let refused = (1..8).filter(|distance| print(&format!("first + {distance}"), &[]).0 == Some(1));
    assert!(refused.count() != 0);
}

/// Symbols of another build are refused. A program built for a library is not loaded if the library
/// has changed.
#[test]
fn other_builds() {
    let dir = files();
    library(dir.path(), 55);
    let path = dir.path().join("lib.so");
    let text = format!("name = {}\noffset = first\nexit\n", path.display());
    fs::write(dir.path().join("first.dp"), text).unwrap();
    let tool = |args: &[&str]| {
        let args = [&["dprobes"], args].concat();
        run(Path::new(TOOL), &args, dir.path())
    };
    assert_eq!(
        tool(&["build", "first.dp", "--sym", "lib.debug", "-o", "built"]).0,
        Some(0)
    );
    let absent = dir.path().join("ferrotrace_dprobes").display().to_string();
    let apply = |more: &[&str]| {
        let args = [&["apply", "built", "--dir", &absent], more].concat();
        tool(&args).2
    };
    // No kernel module is loaded, but the command checks the build first.
    let (good, other) = ("modprobe rust_dprobes", "it was built for another build of");
    assert!(apply(&[]).contains(good), "{}", apply(&[]));
    fs::rename(dir.path().join("lib.debug"), dir.path().join("old.debug")).unwrap();
    library(dir.path(), 56);
    assert!(apply(&[]).contains(other), "{}", apply(&[]));
    assert!(
        apply(&["--force"]).contains(good),
        "{}",
        apply(&["--force"])
    );
    let check = |more: &[&str]| {
        let args = ["check", "first.dp", "--places", "--sym", "old.debug"];
        tool(&[&args, more].concat())
    };
    let (code, _, err) = check(&[]);
    assert_eq!(code, Some(1));
    assert!(err.contains("is not of the same build as"), "{err}");
    assert_eq!(check(&["--any-build"]).0, Some(0));
}

#[test]
fn targets_and_fields() {
    let dir = files();
    let insert = |args: &[&str]| {
        let args = [&["-i", "good.dp"], args].concat();
        run(&dir.path().join("dprobes"), &args, dir.path())
    };
    let (code, _, err) = insert(&["--log-target", "COM1"]);
    assert_eq!(code, Some(2));
    assert!(err.contains("no such target any more"), "{err}");
    let (code, _, err) = insert(&["-l", "PID", "UIDD"]);
    assert_eq!(code, Some(2));
    assert!(err.contains("PROCNAME, PID, UID"), "{err}");
    assert_eq!(insert(&["--merge", "--replace"]).0, Some(2));
}

/// All points of a file are in one program: a second program of the same name would be refused.
#[test]
fn two_programs_of_one_name() {
    let dir = files();
    let args = [
        "dprobes", "build", "good.dp", "good.dp", "-D", "N=0", "-o", "out",
    ];
    let (code, _, err) = run(Path::new(TOOL), &args, dir.path());
    assert_eq!(code, Some(1));
    assert!(err.contains("there are two programs for vmlinux"), "{err}");
    assert!(err.contains("insert the second file with --merge"), "{err}");
    assert!(!dir.path().join("out").exists());
}

/// A probe at a place without code would never hit.
#[test]
fn places_without_code() {
    let dir = files();
    let check = |offset: &str| {
        let text = format!("name = {TOOL}\noffset = {offset}\nexit\n");
        fs::write(dir.path().join("place.dp"), text).unwrap();
        let args = ["dprobes", "check", "place.dp", "--places"];
        run(Path::new(TOOL), &args, dir.path())
    };
    let (code, _, err) = check("_start");
    assert_eq!((code, &*err), (Some(0), ""));
    for offset in ["0", "__dso_handle"] {
        let (code, _, err) = check(offset);
        assert_eq!(code, Some(1), "{offset}");
        assert!(err.contains("there is no code"), "{offset}: {err}");
    }
}
