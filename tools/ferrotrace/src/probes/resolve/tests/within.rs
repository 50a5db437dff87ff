// SPDX-License-Identifier: GPL-2.0

//! Parameters within functions: what a probe is told has to be what the compiler has told the assembler. Statements of assembly name
//! their operand in a comment, and the place where it is in a label.

use super::*;

const SOURCE: &str = "
struct how { long pad; long flags; };
extern void elsewhere(void);
#define HERE(label, constraint, what) \\
	__asm__ volatile(\".globl \" #label \"\\n\" #label \": nop # OPERAND \" #label \" %0\" : : constraint(what))

long kept(long first, struct how *how)
{
	elsewhere();
	HERE(in_kept, \"r\", first);
	HERE(in_kept_too, \"r\", how);
	elsewhere();
	return first + how->flags;
}

static long inlined(long first, int second)
{
	elsewhere();
	HERE(in_inlined_%=, \"r\", first);
	elsewhere();
	return first + second;
}

long (*out_of_line)(long, int) = inlined;
long inlines(long first) { return inlined(first, 3); }

long in_another_section(long first) __attribute__((section(\".text.other\")));
long in_another_section(long first)
{
	elsewhere();
	HERE(in_other, \"r\", first);
	elsewhere();
	return first;
}

long gone(long first)
{
	elsewhere();
	HERE(in_gone, \"i\", 0);
	return 1;
}

__attribute__((cold)) extern void never(long);
long split(long first, long second)
{
	if (__builtin_expect(second, 0)) {
		never(first);
		elsewhere();
		never(first);
	}
	elsewhere();
	HERE(in_split, \"r\", first);
	elsewhere();
	return first;
}

__attribute__((optimize(\"O0\"))) long in_memory(long first, int second)
{
	HERE(in_in_memory, \"m\", second);
	return first + second;
}
";

/// A file, and the assembly that it was made of.
fn build(dir: &Path, compile: &[&str], args: &[&str], out: &str) -> (PathBuf, String) {
    let run = |args: &[&str]| {
        let mut gcc = Command::new("gcc");
        assert!(gcc.current_dir(dir).args(args).status().unwrap().success());
    };
    // A label has to be there once, and the copy of a function that is not inlined has none of its own.
    let source = SOURCE.replace(
        "HERE(in_inlined_%=, \"r\", first)",
        "__asm__ volatile(\"nop # OPERAND in_inlined %0\" : : \"r\"(first))",
    );
    fs::write(dir.join("within.c"), source).unwrap();
    let mut first = vec!["-O2", "-g", "-fPIC", "-S", "within.c", "-o", "within.s"];
    first.extend(compile);
    run(&first);
    let mut all = args.to_vec();
    all.extend(["within.s", "-o", out]);
    run(&all);
    let assembly = fs::read_to_string(dir.join("within.s")).unwrap();
    (dir.join(out), assembly)
}

/// Addresses of symbols.
fn symbols_of(file: &Path) -> BTreeMap<String, u64> {
    let nm = Command::new("nm").arg(file).output().unwrap();
    let text = String::from_utf8(nm.stdout).unwrap();
    let lines = text.lines().map(|line| line.split(' ').collect::<Vec<_>>());
    let known = lines.filter_map(|words| {
        let address = u64::from_str_radix(words[0], 16).ok()?;
        Some((words[2].to_owned(), address))
    });
    known.collect()
}

/// What the compiler has put in for `%0` at a label, as a probe has it.
fn operand(assembly: &str, label: &str) -> String {
    let mark = format!("# OPERAND {label} ");
    let line = assembly.lines().find(|line| line.contains(&mark)).unwrap();
    let text = line.split(&mark).nth(1).unwrap().trim().replace("%r", "%");
    let is_number = |name: &str| name.starts_with(|c: char| c.is_ascii_digit());
    match text.split_once('%') {
        // %8 is %r8.
        Some((before, name)) if is_number(name) => format!("{before}%r{name}"),
        _ => text,
    }
}

fn check(file: &Path, assembly: &str) {
    let symbols = symbols_of(file);
    let source = Source {
        btf: None,
        vmlinux: Some(file.to_owned()),
    };
    let told_at = |function: &str, label: &str, arg: &str| {
        let offset = symbols[label] - symbols[function];
        told(&source, &format!("{function}+{offset} {arg}"))
    };
    for (function, label, parameter) in [
        ("kept", "in_kept", "first"),
        ("in_another_section", "in_other", "first"),
        ("split", "in_split", "first"),
    ] {
        let register = operand(assembly, label);
        assert!(register.starts_with('%'), "{register}");
        let wanted = format!("{parameter}={register}:s64");
        assert_eq!(told_at(function, label, parameter), Ok(wanted));
    }
    let register = operand(assembly, "in_kept_too");
    assert_eq!(
        told_at("kept", "in_kept_too", "how->flags"),
        Ok(format!("flags=+8({register}):s64"))
    );
    let place = operand(assembly, "in_in_memory");
    assert!(place.starts_with('-'), "{place}");
    assert_eq!(
        told_at("in_memory", "in_in_memory", "second"),
        Ok(format!("second={place}:s32"))
    );
    // Behind the call nothing keeps it.
    let error = told_at("gone", "in_gone", "first").unwrap_err();
    assert!(error.contains("first is not in a register"), "{error}");
    let error = told_at("kept", "in_kept", "third").unwrap_err();
    assert!(error.contains("no parameter third"), "{error}");
    // A function that is also inlined somewhere has its code in an entry without a name; its line is that of the other one.
    let names = told(&source, "inlined second").unwrap();
    assert_eq!(names, "second=$arg2:s32");
    let place = told_place(&source, "inlined:3 first").unwrap();
    let line = told_place(&source, "inlined:5 first");
    assert!(place.offset != 0 && line.is_ok(), "{place} {line:?}");
    assert_eq!(
        told(&source, "inlined:5 first")
            .unwrap()
            .split(':')
            .next_back(),
        Some("s64")
    );
    // In the part that has been split off there is none of the function's own places.
    let beyond = told(&source, "split+100000 first").unwrap_err();
    assert!(beyond.contains("first is not in a register"), "{beyond}");
}

#[test]
fn in_a_library() {
    let dir = tempfile::tempdir().unwrap();
    let link = [
        "-shared",
        "-nostdlib",
        "-Wl,--unresolved-symbols=ignore-all",
    ];
    let (file, assembly) = build(dir.path(), &[], &link, "within.so");
    check(&file, &assembly);
}

/// Modules of the kernel are not linked before they are loaded, and what is told of frames is for debuggers alone.
#[test]
fn in_a_module() {
    let dir = tempfile::tempdir().unwrap();
    let compile = ["-fno-asynchronous-unwind-tables"];
    let (file, assembly) = build(dir.path(), &compile, &["-c"], "within.ko");
    check(&file, &assembly);
}
