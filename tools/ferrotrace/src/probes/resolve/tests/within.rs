// SPDX-License-Identifier: GPL-2.0

//! Parameters within functions: probes have to use the operands that the compiler gave the
//! assembler. Assembly statements name their operand in a comment and their place in a label.

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

/* Other functions have their frames before it. */
long on_stack(long a, long b, long c, long d, long e, long f, long second) __attribute__((section(\".text.third\")));
long on_stack(long a, long b, long c, long d, long e, long f, long second)
{
	volatile long room[20];
	room[0] = a;
	HERE(in_on_stack, \"m\", second);
	elsewhere();
	return room[0];
}

__attribute__((optimize(\"O0\"))) long passed(long a, long b, long c, long d, long e, long f, long second)
{
	return second;
}
";

/// Builds a file; returns its path and its assembly.
fn build(dir: &Path, compile: &[&str], args: &[&str], out: &str) -> (PathBuf, String) {
    let run = |args: &[&str]| {
        let mut gcc = Command::new("gcc");
        assert!(gcc.current_dir(dir).args(args).status().unwrap().success());
    };
    // A label must be unique, but the inlined code and the out-of-line copy both have this one: no
    // label here.
    let source = SOURCE.replace(
        "HERE(in_inlined_%=, \"r\", first)",
        "__asm__ volatile(\"nop # OPERAND in_inlined %0\" : : \"r\"(first))",
    );
    fs::write(dir.join("within.c"), source).unwrap();
    let mut first = vec![
        "-O2",
        "-g",
        "-fcf-protection=none",
        "-fPIC",
        "-S",
        "within.c",
        "-o",
        "within.s",
    ];
    first.extend(compile);
    run(&first);
    let mut all = args.to_vec();
    all.extend(["within.s", "-o", out]);
    run(&all);
    let assembly = fs::read_to_string(dir.join("within.s")).unwrap();
    (dir.join(out), assembly)
}

/// Returns the addresses of symbols.
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

/// Returns the operand that the compiler put in for `%0` at a label, in the syntax of probes.
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
        vmlinux: Some(file.to_owned()),
        // No running kernel.
        root: file.into(),
        ..Source::default()
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
    let place = operand(assembly, "in_on_stack");
    assert_eq!(
        told_at("on_stack", "in_on_stack", "second"),
        Ok(format!("second=+{place}:s64"))
    );
    // Before the function stores the parameter, memory does not have it.
    for early in [1, 4, 5] {
        let error = told(&source, &format!("in_memory+{early} second")).unwrap_err();
        assert!(error.contains("second is not in a register"), "{error}");
    }
    // A parameter on the caller's stack is readable from the start, above the return address and
    // pushed registers.
    let early = told(&source, "passed+1 second");
    assert_eq!(early.as_deref(), Ok("second=+16(%sp):s64"));
    // After the call no register or memory keeps it.
    let error = told_at("gone", "in_gone", "first").unwrap_err();
    assert!(error.contains("first is not in a register"), "{error}");
    let error = told_at("kept", "in_kept", "third").unwrap_err();
    assert!(error.contains("no parameter third"), "{error}");
    // The out-of-line copy of an inlined function has a DWARF entry without name or line; its
    // abstract origin has both.
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
    // The split-off part has none of the function's own places.
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

/// Kernel modules are relocatable files, and only `.debug_frame` describes their frames.
#[test]
fn in_a_module() {
    let dir = tempfile::tempdir().unwrap();
    let compile = ["-fno-asynchronous-unwind-tables"];
    let (file, assembly) = build(dir.path(), &compile, &["-c"], "within.ko");
    check(&file, &assembly);
}

/// In a file of separate debugging information the code sections have no contents. Compressed
/// sections read as uncompressed ones.
#[test]
fn in_what_was_taken_out() {
    let dir = tempfile::tempdir().unwrap();
    let run = |program: &str, args: &[&str]| {
        let mut program = Command::new(program);
        let status = program.current_dir(dir.path()).args(args).status();
        assert!(status.unwrap().success());
    };
    let compile = ["-fno-asynchronous-unwind-tables"];
    let (_, assembly) = build(dir.path(), &compile, &["-c"], "within.ko");
    run(
        "objcopy",
        &["--only-keep-debug", "within.ko", "within.debug"],
    );
    check(&dir.path().join("within.debug"), &assembly);
    run(
        "objcopy",
        &["--compress-debug-sections=zlib", "within.ko", "small.ko"],
    );
    check(&dir.path().join("small.ko"), &assembly);
    let error = |file: &str| {
        let source = Source {
            vmlinux: Some(dir.path().join(file)),
            ..Source::default()
        };
        told(&source, "kept first").unwrap_err()
    };
    // Without relocations all functions would be in the same place.
    run("objcopy", &["-R", ".rela.debug*", "within.ko", "bare.ko"]);
    assert!(
        error("bare.ko").contains("does not say in which sections"),
        "{}",
        error("bare.ko")
    );
    run("objcopy", &["-g", "within.ko", "none.ko"]);
    assert!(
        error("none.ko").contains("has no debugging information"),
        "{}",
        error("none.ko")
    );
    let mut bytes = fs::read(dir.path().join("small.ko")).unwrap();
    let at = contents_at(&bytes);
    bytes[at] ^= 0xff;
    fs::write(dir.path().join("bad.ko"), bytes).unwrap();
    assert!(
        error("bad.ko").contains(".debug_info: "),
        "{}",
        error("bad.ko")
    );
}

/// Returns the file offset of the compressed contents of `.debug_info`.
fn contents_at(bytes: &[u8]) -> usize {
    use object::Object;
    use object::ObjectSection;
    let file = object::File::parse(bytes).unwrap();
    let info = file.section_by_name(".debug_info").unwrap();
    // After the compression header.
    usize::try_from(info.file_range().unwrap().0).unwrap() + 24
}

/// Finds the running kernel's BTF and its DWARF image in the distributions' directories.
#[test]
fn of_what_runs() {
    let dir = tempfile::tempdir().unwrap();
    let link = [
        "-shared",
        "-nostdlib",
        "-Wl,--unresolved-symbols=ignore-all",
        "-Wl,--build-id=0x01020304",
    ];
    let (file, assembly) = build(dir.path(), &[], &link, "within.so");
    build(dir.path(), &["-g0", "-gbtf"], &["-c"], "btf.o");
    let root = dir.path().join("root");
    let (btf, debug) = (root.join("sys/kernel/btf"), root.join("usr/lib/debug/boot"));
    fs::create_dir_all(&btf).unwrap();
    fs::create_dir_all(&debug).unwrap();
    let mut objcopy = Command::new("objcopy");
    objcopy.arg(format!(
        "--dump-section=.BTF={}",
        btf.join("vmlinux").display()
    ));
    assert!(
        objcopy
            .arg(dir.path().join("btf.o"))
            .status()
            .unwrap()
            .success()
    );
    let source = Source {
        root: root.clone(),
        ..Source::default()
    };
    let symbols = symbols_of(&file);
    let spec = format!("kept+{} first", symbols["in_kept"] - symbols["kept"]);
    let error = told(&source, &spec).unwrap_err();
    assert!(error.contains("first is not in a register"), "{error}");
    let release = nix::sys::utsname::uname().unwrap();
    let release = release.release().to_str().unwrap().to_owned();
    fs::copy(&file, debug.join(format!("vmlinux-{release}"))).unwrap();
    let good = Ok(format!("first={}:s64", operand(&assembly, "in_kept")));
    let notes = root.join("sys/kernel/notes");
    let mut text = b"\x04\0\0\0\x04\0\0\0\x03\0\0\0GNU\0\x01\x02\x03\x04".to_vec();
    assert_eq!(told(&source, &spec), good);
    fs::write(&notes, &text).unwrap();
    assert_eq!(told(&source, &spec), good);
    assert!(told_place(&source, "kept:3").unwrap().offset != 0);
    // Another build is refused, whether found or named.
    text[19] = 5;
    fs::write(&notes, &text).unwrap();
    let named = Source {
        vmlinux: Some(file),
        root,
        ..Source::default()
    };
    for source in [&source, &named] {
        for spec in [&*spec, "kept:3"] {
            let error = told(source, spec).unwrap_err();
            assert!(error.contains("their build IDs differ"), "{error}");
        }
        assert_eq!(told(source, "kept first").as_deref(), Ok("first=$arg1:s64"));
    }
}
