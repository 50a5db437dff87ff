// SPDX-License-Identifier: GPL-2.0

//! Several functions of a name, and code that is not for x86-64.

use super::*;

/// In the first one `arg` is nowhere behind the call; lines that have code in the second one have none here.
const FIRST: &str = "
extern void elsewhere(void);
static __attribute__((noinline, used)) long same(long arg) { elsewhere(); elsewhere(); elsewhere(); return 1; }
long first(void) { return same(3); }

static __attribute__((noinline, used)) long later(int only_first) { elsewhere(); return 1; }
";

/// In the second one it is.
const SECOND: &str = "
extern void elsewhere(void);
static __attribute__((noinline, used)) long same(long arg)
{
	elsewhere();
	elsewhere();
	elsewhere();
	return arg;
}
long second(void) { return same(4); }

static __attribute__((noinline, used, section(\".text.unlikely\"))) long later(int only_second) { elsewhere(); return 2; }
";

fn gcc(dir: &Path, args: &[&str]) -> bool {
    let mut gcc = Command::new("gcc");
    gcc.current_dir(dir).args(args).status().unwrap().success()
}

fn build(dir: &Path) -> PathBuf {
    fs::write(dir.join("first.c"), FIRST).unwrap();
    fs::write(dir.join("second.c"), SECOND).unwrap();
    let args = "-O2 -g -fPIC -shared -nostdlib -Wl,--unresolved-symbols=ignore-all -o twins.so first.c second.c";
    assert!(gcc(dir, &args.split(' ').collect::<Vec<_>>()));
    dir.join("twins.so")
}

/// What is told of the kernel's function, or of one in a program.
fn both(file: &Path, spec: &str) -> [std::result::Result<Wanted, String>; 2] {
    let source = Source {
        vmlinux: Some(file.to_owned()),
        root: file.into(),
        ..Source::default()
    };
    let of_program = format!("{}:{spec}", file.display());
    [
        wanted(&source, spec),
        wanted(&Source::default(), &of_program),
    ]
}

#[test]
fn the_lowest_one_decides() {
    let dir = tempfile::tempdir().unwrap();
    let file = build(dir.path());
    let [_, second] = both(&file, "same arg");
    let start = second.unwrap().at.unwrap();
    // Behind the first call, before the last one.
    let offset = (12..32).find(|offset| {
        let found = both(&file, &format!("same+{offset}"));
        found[1].is_ok()
    });
    let offset = offset.unwrap();
    let mut errors = Vec::new();
    for found in both(&file, &format!("same+{offset} arg")) {
        let error = found.unwrap_err();
        assert!(error.contains("arg is not in a register"), "{error}");
        errors.push(error);
    }
    // What to do is not the same for a program.
    assert!(errors[0].contains("--vmlinux") && !errors[1].contains("--vmlinux"));
    // All of the first one is in one line.
    for found in both(&file, "same:5") {
        let error = found.unwrap_err();
        assert!(error.contains("has no code in line 5"), "{error}");
    }
    for found in both(&file, "same:0") {
        let at = found.unwrap().at;
        assert!(at.is_none_or(|at| at == start), "{at:x?} {start:#x}");
    }
    // Of this the second file has the lower one.
    for found in both(&file, "later only_second") {
        assert_eq!(found.unwrap().args, "only_second=$arg1:s32");
    }
    for found in both(&file, "later only_first") {
        assert!(found.unwrap_err().contains("no parameter only_first"));
    }
}

#[test]
fn code_of_32_bits() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(
        dir.path().join("source.c"),
        "long f(long a)\n{\n\treturn a;\n}\n",
    )
    .unwrap();
    let args = "-m32 -O2 -g -shared -nostdlib -o small.so source.c";
    assert!(gcc(dir.path(), &args.split(' ').collect::<Vec<_>>()));
    let file = dir.path().join("small.so");
    for spec in ["f a", "f:2 a", "f+1 a"] {
        let [kernel, _] = both(&file, spec);
        assert!(
            kernel.unwrap_err().contains("not 64-bit code of x86"),
            "{spec}"
        );
    }
    let [kernel, program] = both(&file, "f:2 %ax");
    assert!(kernel.is_ok() && program.is_ok(), "{kernel:?} {program:?}");
}
