// SPDX-License-Identifier: GPL-2.0

use std::fs;
use std::path::Path;
use std::path::PathBuf;
use std::process::Command;

use super::*;

mod abi;
mod twins;
mod within;

const KALLSYMS: &str = "\
ffffffff81000100 T vfs_read
ffffffff81000200 T vfs_write
ffffffff81000210 t vfs_write.cold
ffffffff810001f0 t __pfx_vfs_write
ffffffff81000300 t open_it
ffffffffa0000300 t open_mod\t[mod]
";

/// Functions and types in C.
const SOURCE: &str = "
struct how { unsigned long long flags; unsigned int mode : 12, : 4, kind : 7; signed char low; };
struct inner { int count; const char *label; };
struct list { struct list *next; };
struct file {
	struct list links[3];
	union { struct inner in; struct { int count; }; long words[2]; };
	struct how *how;
	char name[16];
	void (*call)(int);
	void *data;
	enum color { RED, GREEN } color;
};
struct pair { unsigned int first; unsigned short second; };
struct two { long a, b; };
struct large { long a[4]; };
typedef const char *text;
typedef struct { unsigned int val; } kuid;

int open_it(int fd, text name, struct file *file, struct how *how, _Bool on, char *buffer, unsigned short seventh, long eighth)
{
	return fd + *name + file->color + (int)how->flags + on + *buffer + seventh + (int)eighth;
}
long by_value(struct pair pair, kuid uid, struct two two, struct large large, struct two late, int x)
{

	return pair.first + uid.val + two.a + large.a[0] + late.b + x;
}
struct two two_words(void) { return (struct two){ 1, 2 }; }
struct file *find(void) { return 0; }
void nothing(void) { }
";

fn compile(dir: &Path, args: &[&str], out: &Path) {
    let source = dir.join("source.c");
    fs::write(&source, SOURCE).unwrap();
    let mut gcc = Command::new("gcc");
    gcc.arg("-O1").args(args).arg("-o");
    let status = gcc.args([out, &source]).status().unwrap();
    assert!(status.success());
}

/// Compiles the source with DWARF, as the kernel's image has it.
fn with_dwarf(dir: &Path) -> PathBuf {
    let out = dir.join("object.so");
    compile(dir, &["-g", "-shared", "-fPIC", "-nostdlib"], &out);
    out
}

/// Returns the kernel's arguments for a probe spec, or the error.
fn told(source: &Source, spec: &str) -> std::result::Result<String, String> {
    wanted(source, spec).map(|wanted| wanted.args)
}

/// Returns the place for a probe spec, or the error.
fn told_place(source: &Source, spec: &str) -> std::result::Result<Place, String> {
    wanted(source, spec).map(|wanted| wanted.place)
}

fn wanted(source: &Source, spec: &str) -> std::result::Result<Wanted, String> {
    let symbols = Symbols::parse(KALLSYMS);
    let mut resolver = Resolver::new(&symbols, source);
    let spec: Spec = spec.parse().unwrap();
    let all = resolver
        .resolve(&spec, false)
        .map_err(|error| error.to_string())?;
    Ok(all[0].clone())
}

/// A pattern marks functions on the kernel's blacklist. If a namesake is not blacklisted, the
/// kernel decides.
#[test]
fn what_a_pattern_must_not_probe() {
    let text = format!(
        "{KALLSYMS}ffffffff81000400 t open_mod\n\
         ffffffff82000000 T _sinittext\nffffffff82000010 t vfs_begin\nffffffff82000020 T _einittext\n"
    );
    let symbols = Symbols::parse(&text);
    let source = Source::default();
    let marked = |blacklist: &str, spec: &str| {
        let mut resolver = Resolver::new(&symbols, &source);
        resolver.blacklist = Blacklist::parse(blacklist).into();
        resolver.traceable = None.into();
        let all = resolver.resolve(&spec.parse().unwrap(), false).unwrap();
        let marked = all
            .into_iter()
            .filter(|probe| probe.refused == Some(KnownRefusal::Blacklisted));
        let names = marked.map(|probe| probe.place.symbol);
        names.collect::<Vec<_>>().join(" ")
    };
    let blacklist = "0xffffffff81000100-0xffffffff81000200\tvfs_read\n0xffffffff81000400-0xffffffff81000410\topen_mod\n";
    assert_eq!(marked(blacklist, "*"), "vfs_read");
    assert_eq!(marked("", "*"), "");
    let both = format!("{blacklist}0xffffffffa0000000-0xffffffffa0001000\t?\n");
    assert_eq!(marked(&both, "*_*"), "open_mod vfs_read");
    // Init functions are freed after boot and no longer match.
    let mut resolver = Resolver::new(&symbols, &source);
    resolver.blacklist = Blacklist::default().into();
    let list = "ffffffff81000104 vfs_read\n";
    resolver.traceable = Functions::parse(list, "list".as_ref()).ok().into();
    let all = resolver.resolve(&"vfs_*".parse().unwrap(), false).unwrap();
    let names: Vec<_> = all
        .into_iter()
        .map(|probe| (probe.place.symbol, probe.refused))
        .collect();
    let write = ("vfs_write".to_owned(), Some(KnownRefusal::Untraceable));
    assert_eq!(names, [("vfs_read".to_owned(), None), write]);
    // A plain name is never marked: the kernel answers itself.
    assert_eq!(marked(blacklist, "vfs_read"), "");
}

fn check(source: &Source) {
    for (spec, want) in [
        ("open_it fd name", "fd=$arg1:s32 name=+0($arg2):string"),
        ("open_it n=name:string32", "n=+0($arg2):string32"),
        ("open_it name:x64", "name=$arg2:x64"),
        ("open_it fd:x", "fd=$arg1:x32"),
        ("open_it fd:u8", "fd=$arg1:u8"),
        ("open_it buffer on", "buffer=$arg6:x64 on=$arg5:u8"),
        ("open_it buffer:string", "buffer=+0($arg6):string"),
        ("open_it *buffer", "buffer=+0($arg6):s8"),
        ("open_it buffer[3]", "buffer=+3($arg6):s8"),
        (
            "open_it seventh eighth",
            "seventh=$arg7:u16 eighth=$arg8:s64",
        ),
        ("open_it flags=how->flags:x64", "flags=+0($arg4):x64"),
        ("open_it how.flags", "flags=+0($arg4):u64"),
        (
            "open_it how->mode how->kind how->low",
            "mode=+8($arg4):b12@0/32 kind=+8($arg4):b7@16/32 low=+11($arg4):s8",
        ),
        ("open_it file->how->flags", "flags=+0(+40($arg3)):u64"),
        ("open_it file->count", "count=+24($arg3):s32"),
        ("open_it file->in.label", "label=+0(+32($arg3)):string"),
        ("open_it file->words[1]", "words=+32($arg3):s64"),
        ("open_it file->links[2].next", "next=+16($arg3):x64"),
        (
            "open_it file->links[2].next->next->next",
            "next=+0(+0(+16($arg3))):x64",
        ),
        ("open_it file->name", "name=+48($arg3):string"),
        ("open_it file->name[1]:u8", "name=+49($arg3):u8"),
        (
            "open_it file->call file->data file->color:u32",
            "call=+64($arg3):symbol data=+72($arg3):x64 color=+80($arg3):u32",
        ),
        ("open_it%return fd $retval", "fd=$arg1:s32 ret=$retval:s32"),
        ("open_it%return r=$retval:x8", "r=$retval:x8"),
        (
            "find%return $retval->how->flags:x",
            "flags=+0(+40($retval)):x64",
        ),
        (
            "by_value pair.first s=pair.second",
            "first=$arg1:u32 s=$arg1:b16@32/64",
        ),
        (
            "two_words%return $retval.a b=$retval.b",
            "a=$retval:s64 b=%dx:s64",
        ),
        ("by_value uid.val two.b", "val=$arg2:u32 b=$arg4:s64"),
        // These arguments do not fit in the registers.
        (
            "by_value large.a[1] late.b x",
            "a=+16($stack):s64 b=$arg6:s64 x=$arg11:s32",
        ),
        ("open_it if fd==3", "fd=$arg1:s32 if fd==3"),
        (
            "open_it f=fd if f>=-1 && how->flags&0x40 && comm~ba* && pid==4",
            "f=$arg1:s32 flags=+0($arg4):u64 if f>=-1 flags&0x40 comm~ba* pid==4",
        ),
        (
            "open_it how->flags if how->flags&0x40",
            "flags=+0($arg4):u64 if flags&0x40",
        ),
        (
            "open_it%return if $retval<0 && duration>1000",
            "ret=$retval:s32 if ret<0 duration>1000",
        ),
    ] {
        assert_eq!(told(source, spec).as_deref(), Ok(want), "{spec}");
    }
    for (spec, want) in [
        (
            "open_it nam",
            "open_it has no parameter nam; it has fd, name, file, how",
        ),
        (
            "open_it how->flag",
            "struct how has no member flag; it has flags, mode",
        ),
        (
            "open_it file->in",
            "file->in is a struct inner; name one of its members: count, label",
        ),
        ("open_it *how", "*how is a struct how; name one"),
        ("open_it fd->x", "fd->x: not a structure"),
        ("open_it fd[1]", "fd[1]: not an array"),
        ("open_it *fd", "*fd: not a pointer"),
        ("open_it *file->data", "*file->data: a pointer to void"),
        ("open_it fd:string", "fd:string: a number, not text"),
        ("open_it file->links", "file->links: an array"),
        (
            "open_it $retval",
            "$retval is there when a function returns",
        ),
        ("open_it if duration>1", "duration is there when"),
        ("open_it+4000 fd", "open_it+0xfa0: fd is not in a register"),
        (
            "nothing%return $retval",
            "$retval: the function returns nothing",
        ),
        (
            "vfs_read fd",
            "vfs_read: the types of this function are not known",
        ),
        ("open_it fd fd", "at most 16 arguments with different names"),
        ("open_it if name<3", "name<3: there are at most"),
        ("open_it if fd~x", "fd~x: there are at most"),
    ] {
        let error = told(source, spec).expect_err(spec);
        assert!(error.contains(want), "{spec}: {error}");
    }
}

#[test]
fn by_dwarf() {
    let dir = tempfile::tempdir().unwrap();
    let object = with_dwarf(dir.path());
    let source = Source {
        vmlinux: Some(object.clone()),
        root: dir.path().into(),
        ..Source::default()
    };
    check(&source);
    // Compares the place with binutils' line table.
    let offset = told_place(&source, "open_it:2 %di").unwrap().offset;
    let nm = Command::new("nm").arg(&object).output().unwrap();
    let nm = String::from_utf8(nm.stdout).unwrap();
    let line = nm.lines().find(|line| line.ends_with(" open_it")).unwrap();
    let start = u64::from_str_radix(line.split(' ').next().unwrap(), 16).unwrap();
    let address = format!("{:#x}", start + u64::from(offset));
    let mut addr2line = Command::new("addr2line");
    let found = addr2line
        .arg("-e")
        .arg(&object)
        .arg(address)
        .output()
        .unwrap();
    let found = String::from_utf8(found.stdout).unwrap();
    let name = SOURCE
        .lines()
        .position(|line| line.starts_with("int open_it("))
        .unwrap();
    // Lines count from 1.
    let wanted = format!("source.c:{}", name + 1 + 2);
    assert!(
        found
            .split_ascii_whitespace()
            .next()
            .unwrap()
            .ends_with(&wanted),
        "{found}"
    );
    let error = told_place(&source, "open_it:200").unwrap_err();
    assert!(
        error.contains("has no code in line 200 from its name; line "),
        "{error}"
    );
    // Line 2 is empty, between two lines with code.
    let error = told_place(&source, "by_value:2").unwrap_err();
    assert!(error.ends_with("; lines 1 and 3 have"), "{error}");
}

#[test]
fn by_btf() {
    let dir = tempfile::tempdir().unwrap();
    let (object, btf) = (dir.path().join("object.o"), dir.path().join("btf"));
    compile(dir.path(), &["-gbtf", "-c"], &object);
    let mut objcopy = Command::new("objcopy");
    objcopy.arg(format!("--dump-section=.BTF={}", btf.display()));
    assert!(objcopy.arg(&object).status().unwrap().success());
    let btf = Some(btf);
    check(&Source {
        btf,
        ..Source::default()
    });
}

#[test]
fn without_types() {
    let source = Source {
        btf: Some("/nowhere/btf".into()),
        ..Source::default()
    };
    for (spec, want) in [
        (
            "f %di x=%ax:u8 +8(%si) t=+0(%si):string",
            "di=%di x=%ax:u8 arg3=+8(%si) t=+0(%si):string",
        ),
        ("f+4 %bx:s $stack2:x", "bx=%bx:s64 stack2=$stack2:x64"),
        ("f $arg2", "arg2=$arg2"),
        ("f%return $retval:s32", "ret=$retval:s32"),
        ("f if %di==1 && cpu<2", "di=%di if di==1 cpu<2"),
        ("f if pid==1", "if pid==1"),
        ("f", ""),
    ] {
        assert_eq!(told(&source, spec).as_deref(), Ok(want), "{spec}");
    }
    let error = |spec| told(&source, spec).unwrap_err();
    assert!(
        error("f name").contains("/nowhere/btf: cannot read"),
        "{}",
        error("f name")
    );
    assert!(error("f %zz").contains("not a register"));
    assert!(error("f %di:string").contains("text is in memory"));
}

#[test]
fn patterns() {
    let symbols = Symbols::parse(KALLSYMS);
    let source = Source::default();
    let mut resolver = Resolver::new(&symbols, &source);
    let mut names = |spec: &str| -> Vec<String> {
        let all = resolver.resolve(&spec.parse().unwrap(), true).unwrap();
        assert!(
            all.iter()
                .all(|probe| probe.kind == Kind::Return && probe.of_pattern)
        );
        all.into_iter()
            .map(|probe| format!("{} {}", probe.name, probe.place))
            .collect()
    };
    assert_eq!(
        names("vfs_*"),
        ["vfs_read.ret vfs_read", "vfs_write.ret vfs_write"]
    );
    assert_eq!(names("v=*write if pid==1"), ["v.vfs_write.ret vfs_write"]);
    let error = resolver
        .resolve(&"no_*".parse().unwrap(), false)
        .unwrap_err();
    assert!(error.to_string().contains("no function matches no_*"));
    assert!(resolver.resolve(&"no_[".parse().unwrap(), false).is_err());
}

/// Functions of modules, and those in Rust by their paths.
#[test]
fn modules_and_paths() {
    const FIND: &str = "_RNvNtCs4fqI2P2rA04_12relay_engine8registry4find";
    const ADD: &str = "_RNvMs_NtCs4fqI2P2rA04_12relay_engine8registryNtB4_8Registry3add";
    // Two instances of a generic function.
    const ONE: &str = "_RINvNtCs4fqI2P2rA04_12relay_engine4list4pushhEB4_";
    const TWO: &str = "_RINvNtCs4fqI2P2rA04_12relay_engine4list4pushmEB4_";
    let text = format!(
        "ffffffff81000100 T vfs_read\nffffffffa0000000 t vfs_read\t[mod]\n\
         ffffffffa0000010 t vfs_other\t[mod]\nffffffffa0000020 t {FIND}\t[rust_relay]\n\
         ffffffffa0000030 t {ADD}\t[rust_relay]\nffffffffa0000040 t {ONE}\t[rust_relay]\n\
         ffffffffa0000050 t {TWO}\t[rust_relay]\n"
    );
    let symbols = Symbols::parse(&text);
    let source = Source::default();
    let mut resolver = Resolver::new(&symbols, &source);
    resolver.blacklist = Blacklist::default().into();
    resolver.traceable = None.into();
    let mut places = |spec: &str| -> std::result::Result<(Vec<String>, bool), String> {
        let all = resolver.resolve(&spec.parse().unwrap(), false);
        let all = all.map_err(|error| error.to_string())?;
        let of_pattern = all.iter().all(|probe| probe.of_pattern);
        let places = all.iter().map(|probe| probe.place.symbol.clone());
        Ok((places.collect(), of_pattern))
    };
    let found = |places: &[&str], of_pattern| {
        let places = places.iter().map(|place| (*place).to_owned());
        Ok((places.collect::<Vec<_>>(), of_pattern))
    };
    assert_eq!(places("vfs_*"), found(&["vfs_other", "vfs_read"], true));
    let expected = ["mod:vfs_other", "mod:vfs_read"];
    assert_eq!(places("mod:vfs_*"), found(&expected, true));
    // The kernel knows these itself.
    assert_eq!(places("mod:vfs_read"), found(&["mod:vfs_read"], false));
    assert_eq!(
        places("gone:vfs_*").unwrap_err(),
        "no module gone is loaded"
    );
    assert_eq!(
        places("relay_engine::registry::find"),
        found(&[FIND], false)
    );
    assert_eq!(places("relay_engine::registry::*"), found(&[FIND], true));
    assert_eq!(places("*::registry::*"), found(&[ADD, FIND], true));
    let of_module = format!("rust_relay:{FIND}");
    assert_eq!(
        places("rust_relay:relay_engine::registry::*"),
        found(&[&of_module], true)
    );
    assert_eq!(places(FIND), found(&[FIND], false));
    let both = places("relay_engine::list::push").unwrap_err();
    assert!(
        both.ends_with(
            "; did you mean relay_engine::list::push::<u8> or relay_engine::list::push::<u32>?"
        ),
        "{both}"
    );
    assert_eq!(
        places("relay_engine::list::push*"),
        found(&[ONE, TWO], true)
    );
    assert_eq!(
        places("relay_engine::registry::fond").unwrap_err(),
        "no function is called relay_engine::registry::fond; did you mean relay_engine::registry::find?"
    );
    // Shown as they are named.
    let place: Place = format!("{of_module}+0x10").parse().unwrap();
    assert_eq!(
        place.shown().to_string(),
        "rust_relay:relay_engine::registry::find+0x10"
    );
    let place: Place = FIND.parse().unwrap();
    assert_eq!(
        place.default_name(Kind::Return),
        "relay_engine__registry__find.ret"
    );
}

/// A colon ends the path of a file, others belong to the function.
#[test]
fn paths_of_rust_in_files() {
    let spec: Spec = "/bin/x:a::b::c%return".parse().unwrap();
    assert_eq!(spec.place.in_file(), Some(("/bin/x", "a::b::c")));
    let spec: Spec = "/bin/x:a::b::c:12".parse().unwrap();
    assert_eq!(spec.place.in_file(), Some(("/bin/x", "a::b::c")));
    assert_eq!(spec.line, Some(12));
    let spec: Spec = "mod:a::b+8".parse().unwrap();
    assert_eq!(spec.place.in_module(), (Some("mod"), "a::b"));
    assert_eq!(spec.place.offset, 8);
    assert!("/bin/x::b".parse::<Spec>().is_ok());
}

#[test]
fn a_process_in_the_kernel() {
    let only = |args: &str| {
        let mut wanted = Wanted::of_place("a", "f", Kind::Probe, args);
        wanted.only(7);
        wanted.args
    };
    assert_eq!(only(""), " if pid==7");
    assert_eq!(only("a=%di"), "a=%di if pid==7");
    assert_eq!(only("if cpu==1"), "if cpu==1 pid==7");
    let full = format!("if {}", ["cpu==1"; CONDITIONS_MAX].join(" "));
    assert_eq!(only(&full), full);
}
