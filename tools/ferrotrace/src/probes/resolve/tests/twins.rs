// SPDX-License-Identifier: GPL-2.0

//! Several functions of one name, and code for other machines than x86-64.

use super::*;

/// In this file `arg` is lost after the call. Line numbers with code in SECOND have none here.
const FIRST: &str = "
extern void elsewhere(void);
static __attribute__((noinline, used)) long same(long arg) { elsewhere(); elsewhere(); elsewhere(); return 1; }
long first(void) { return same(3); }

static __attribute__((noinline, used)) long later(int only_first) { elsewhere(); return 1; }
";

/// In this file `arg` is live after the call.
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

fn of_kernel(file: &Path) -> Source {
    Source {
        vmlinux: Some(file.to_owned()),
        root: file.into(),
        ..Source::default()
    }
}

/// Returns the results for a kernel function and for a function of a program.
fn both(file: &Path, spec: &str) -> [std::result::Result<Wanted, String>; 2] {
    let of_program = format!("{}:{spec}", file.display());
    [
        wanted(&of_kernel(file), spec),
        wanted(&Source::default(), &of_program),
    ]
}

/// Returns the places that an error lists, in its order.
fn places(error: &str) -> Vec<String> {
    let places = error
        .split([' ', ',', ':'])
        .filter(|word| word.starts_with("0x"));
    places.map(str::to_owned).collect()
}

#[test]
fn the_lowest_one_decides_in_the_kernel() {
    let dir = tempfile::tempdir().unwrap();
    let file = build(dir.path());
    let told = |spec: &str| wanted(&of_kernel(&file), spec);
    // After the last call.
    let error = told("same+30 arg").unwrap_err();
    assert!(
        error.contains("arg is not in a register") && error.contains("--vmlinux"),
        "{error}"
    );
    // All code of the first function is in one line.
    let error = told("same:5").unwrap_err();
    assert!(error.contains("has no code in line 5"), "{error}");
    assert!(told("same:0").is_ok());
    // Here the second file's function has the lower address.
    assert_eq!(
        told("later only_second").unwrap().args,
        "only_second=$arg1:s32"
    );
    assert!(
        told("later only_first")
            .unwrap_err()
            .contains("no parameter only_first")
    );
}

#[test]
fn in_a_program_a_place_decides() {
    let dir = tempfile::tempdir().unwrap();
    let file = build(dir.path());
    let told = |spec: &str| {
        let spec = format!("{}:{spec}", file.display());
        wanted(&Source::default(), &spec)
    };
    let error = told("same").unwrap_err();
    assert!(error.contains("several symbols same, at "), "{error}");
    let same = places(&error);
    let [first, second] = &same[..] else {
        panic!("{error}");
    };
    assert_eq!(told(&format!("{first} arg")).unwrap().args, "arg=$arg1:s64");
    assert!(
        told(&format!("{first}:5"))
            .unwrap_err()
            .contains("has no code in line 5")
    );
    assert!(told(&format!("{second}:5")).is_ok());
    let later = places(&told("later").unwrap_err());
    let found = later.iter().map(|place| {
        ["only_first", "only_second"].map(|name| told(&format!("{place} {name}")).is_ok())
    });
    let found: Vec<_> = found.collect();
    assert_eq!(found, [[false, true], [true, false]]);
    // A pattern matches all of them.
    let symbols = Symbols::parse(KALLSYMS);
    let source = Source::default();
    let mut resolver = Resolver::new(&symbols, &source);
    let spec = format!("{}:s[a]me", file.display()).parse().unwrap();
    let all = resolver.resolve(&spec, false).unwrap();
    let all: Vec<_> = all
        .iter()
        .map(|one| format!("{:#x}", one.at.unwrap()))
        .collect();
    assert_eq!(all, same);
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
