// SPDX-License-Identifier: GPL-2.0

use std::fs;
use std::path::Path;
use std::path::PathBuf;
use std::process::Command;

use tempfile::TempDir;

use super::binary::PlaceError;
use super::*;

/// Two functions of one name; only the second one is global.
const FIRST: &str = "static __attribute__((noinline)) int f(int x) { return x * 3 + 1; }
int first(int x) { return f(x) + f(x + 1); }
";
const SECOND: &str = "int f(int x)
{
	if (x > 5)
		return x * 7;
	return x ^ 55;
}
";

/// An old and a new symbol version, and an indirect function (STT_GNU_IFUNC).
const VERSIONS: &str = "
int old_wait(int x) { return x; }
int new_wait(int x) { return x + 1; }
int old_only(int x) { return x + 2; }
__asm__(\".symver old_wait, wait@V_1\");
__asm__(\".symver new_wait, wait@@V_2\");
__asm__(\".symver old_only, gone@V_1\");
static int with_one(int x) { return x + 3; }
static int with_two(int x) { return x + 4; }
volatile int which;
static int (*choose(void))(int) { return which ? with_one : with_two; }
int chosen(int) __attribute__((ifunc(\"choose\")));
";
const SCRIPT: &str = "V_1 { };\nV_2 { } V_1;\n";

fn run(dir: &Path, program: &str, args: &str) {
    let mut command = Command::new(program);
    let status = command.current_dir(dir).args(args.split(' ')).status();
    assert!(status.unwrap().success(), "{program} {args}");
}

/// Builds a library from two sources in a directory, with its symbols in a separate file.
fn library(build_id: &str) -> (TempDir, PathBuf, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("first.c"), FIRST).unwrap();
    fs::write(dir.path().join("second.c"), SECOND).unwrap();
    let args = "-O2 -g -fPIC -shared -nostdlib -o lib.so first.c second.c -Wl,--build-id=";
    run(dir.path(), "gcc", &format!("{args}{build_id}"));
    run(dir.path(), "objcopy", "--only-keep-debug lib.so lib.debug");
    run(dir.path(), "strip", "lib.so");
    let at = |name| dir.path().join(name);
    let (library, debug) = (at("lib.so"), at("lib.debug"));
    (dir, library, debug)
}

fn versions() -> (TempDir, Binary) {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("versions.c"), VERSIONS).unwrap();
    fs::write(dir.path().join("script"), SCRIPT).unwrap();
    let args = "-O2 -fPIC -shared -nostdlib -Wl,--version-script=script -o lib.so versions.c";
    run(dir.path(), "gcc", args);
    let binary = Binary::open(&dir.path().join("lib.so")).unwrap();
    (dir, binary)
}

/// Returns addresses and names as `nm` prints them.
fn nm(path: &Path, args: &[&str]) -> Vec<(u64, String)> {
    let output = Command::new("nm").args(args).arg(path).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let lines = text.lines().map(|line| line.split_whitespace().collect());
    let known = lines.filter_map(|words: Vec<&str>| {
        let address = u64::from_str_radix(words.first()?, 16).ok()?;
        Some((address, (*words.get(2)?).to_owned()))
    });
    known.collect()
}

#[test]
fn functions_of_one_name() {
    let (_dir, library, debug) = library("0x01020304");
    let binary = Binary::open(&library).unwrap();
    let of_others = nm(&library, &["-D"]);
    let (global, _) = of_others.iter().find(|(_, name)| name == "f").unwrap();
    assert_eq!(binary.place("f", 0).unwrap().address, *global);
    // The library itself has one of them, the symbol file has both.
    let symbols = Elf::read(&debug).unwrap();
    let both = binary.with_symbols(&debug, &symbols, false).unwrap();
    let Err(PlaceError::Ambiguous { places, .. }) = both.place("f", 0) else {
        panic!("{:?}", both.place("f", 0));
    };
    let mut found: Vec<_> = places.iter().map(|(at, _)| *at).collect();
    found.sort_unstable();
    let all = nm(&debug, &[]);
    let all = all.iter().filter(|(_, name)| name == "f");
    let all = all.map(|(address, _)| both.elf().offset_of(*address).unwrap());
    let mut all: Vec<_> = all.collect();
    all.sort_unstable();
    assert_eq!(found, all);
    assert!(
        places
            .iter()
            .any(|(_, what)| what.as_deref() == Some("first.c"))
    );
    let text = both.place("f", 0).unwrap_err().to_string();
    assert!(
        text.contains("(first.c)") && text.contains("names one of them"),
        "{text}"
    );
    // The place names each function, and a pattern matches both.
    for at in &found {
        let place = both.place_at(*at).unwrap();
        let function = place.symbol.unwrap();
        assert_eq!(function.name, "f");
        let returns = both.returns(&function).unwrap();
        assert!(!returns.offsets.is_empty());
        for offset in returns.offsets {
            assert!(both.place_at(at + offset).is_ok());
            assert_eq!(both.elf().bytes_at(at + offset, 1), [0xc3]);
        }
    }
    let mut matching = both.matching(|name| name == "f");
    matching.sort();
    let mut texts: Vec<_> = found.iter().map(|at| format!("{at:#x}")).collect();
    texts.sort();
    assert_eq!(matching, texts);
    assert_eq!(
        both.place("first", 0).unwrap().symbol.unwrap().name,
        "first"
    );
}

#[test]
fn symbols_of_another_build() {
    let (_dir, library, _) = library("0x01020304");
    let (_other, _, debug) = self::library("0x01020305");
    let symbols = Elf::read(&debug).unwrap();
    let binary = Binary::open(&library).unwrap();
    let error = binary.clone().with_symbols(&debug, &symbols, false);
    let error = error.unwrap_err().to_string();
    assert!(error.contains("is not of the same build as"), "{error}");
    assert!(binary.with_symbols(&debug, &symbols, true).is_ok());
    // Without build IDs the code is compared.
    let (_dir, library, debug) = self::library("none");
    let binary = Binary::open(&library).unwrap();
    assert_eq!(binary.elf().build_id(), None);
    assert!(binary.elf().is_of_build(&Elf::read(&debug).unwrap()));
    let own = Elf::read(&std::env::current_exe().unwrap()).unwrap();
    assert!(!binary.elf().is_of_build(&own));
}

#[test]
fn versions_of_symbols() {
    let (_dir, binary) = versions();
    let all = nm(binary.path(), &["-D", "--with-symbol-versions"]);
    let address = |name: &str| all.iter().find(|(_, one)| one == name).unwrap().0;
    let found = |name: &str| binary.place(name, 0).map(|place| place.address);
    assert_ne!(address("wait@V_1"), address("wait@@V_2"));
    assert_eq!(found("wait"), Ok(address("wait@@V_2")));
    assert_eq!(found("wait@V_2"), Ok(address("wait@@V_2")));
    assert_eq!(found("wait@@V_2"), Ok(address("wait@@V_2")));
    assert_eq!(found("wait@V_1"), Ok(address("wait@V_1")));
    // The linker does not choose this old version for new programs, but older programs use it.
    assert_eq!(found("gone"), Ok(address("gone@V_1")));
    let error = found("wait@V_3").unwrap_err().to_string();
    assert_eq!(error, "no version wait@V_3: there are V_1, V_2");
    let symbol = binary.symbol("wait@V_1").unwrap();
    assert_eq!(symbol.to_string(), "wait@V_1");
    assert_eq!(binary.symbol("wait").unwrap().to_string(), "wait@@V_2");
    // The dynamic symbols of a stripped file give the same result.
    run(binary.path().parent().unwrap(), "strip", "lib.so");
    let stripped = Binary::open(binary.path()).unwrap();
    assert!(stripped.elf().is_stripped());
    assert_eq!(
        stripped.place("wait", 0).unwrap().address,
        address("wait@@V_2")
    );
}

#[test]
fn functions_that_are_chosen() {
    let (_dir, binary) = versions();
    let Err(PlaceError::Resolver {
        mut implementations,
        ..
    }) = binary.place("chosen", 0)
    else {
        panic!("{:?}", binary.place("chosen", 0));
    };
    implementations.sort();
    assert_eq!(implementations, ["with_one", "with_two"]);
    let text = binary.place("chosen", 0).unwrap_err().to_string();
    assert!(text.contains("STT_GNU_IFUNC"), "{text}");
    // In a stripped file the implementations are listed by place.
    let places = implementations.iter();
    let places = places.map(|name| format!("{:#x}", binary.place(name, 0).unwrap().offset));
    let mut places: Vec<_> = places.collect();
    places.sort();
    run(binary.path().parent().unwrap(), "strip", "lib.so");
    let stripped = Binary::open(binary.path()).unwrap();
    match stripped.place("chosen", 0) {
        Err(PlaceError::Resolver {
            mut implementations,
            ..
        }) => {
            implementations.sort();
            assert_eq!(implementations, places);
        }
        other => panic!("{other:?}"),
    }
}

/// Returns the addresses of a function's instructions as binutils print them.
fn starts(path: &Path, function: (u64, u64)) -> Vec<u64> {
    let (start, end) = (function.0, function.0 + function.1);
    let mut objdump = Command::new("objdump");
    let objdump = objdump.args(["-d", "--no-show-raw-insn"]).arg(path);
    let output = objdump
        .arg(format!("--start-address={start:#x}"))
        .arg(format!("--stop-address={end:#x}"))
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let lines = text.lines().filter_map(|line| line.split_once(":\t"));
    lines
        .filter_map(|(address, _)| u64::from_str_radix(address.trim(), 16).ok())
        .collect()
}

/// Each byte of a function starts an instruction or is refused, for functions with and without a
/// name.
#[test]
fn places_within_instructions() {
    let (_dir, library, debug) = library("0x01020304");
    let stripped = Binary::open(&library).unwrap();
    let symbols = Elf::read(&debug).unwrap();
    let named = stripped
        .clone()
        .with_symbols(&debug, &symbols, false)
        .unwrap();
    for name in ["first", "f"] {
        let function = stripped.symbol(name).unwrap();
        let known = starts(&library, (function.address, function.size));
        assert!(known.len() > 2);
        for distance in 0..function.size {
            let is_start = known.contains(&(function.address + distance));
            let place = stripped.place(name, distance.into());
            assert_eq!(place.is_ok(), is_start, "{name}+{distance:#x}: {place:?}");
            let offset = stripped.elf().offset_of(function.address).unwrap() + distance;
            assert_eq!(stripped.place_at(offset).is_ok(), is_start);
            assert_eq!(named.place_at(offset).is_ok(), is_start);
        }
    }
    assert!(matches!(
        stripped.place("f", i128::MAX),
        Err(PlaceError::NoCode(_))
    ));
    assert!(matches!(stripped.place_at(0), Err(PlaceError::NoCode(_))));
}

/// Reads this test program: position independent, with symbols.
fn own() -> (Elf, Vec<u8>) {
    let path = std::env::current_exe().unwrap();
    (Elf::read(&path).unwrap(), fs::read(path).unwrap())
}

#[test]
fn symbols_and_places_in_the_file() {
    let (elf, bytes) = own();
    let found = elf.lookup("main").unwrap();
    let offset = elf.offset_of(found.address).unwrap();
    assert_eq!(elf.address_of(offset), Some(found.address));
    assert!(usize::try_from(offset).unwrap() < bytes.len());
    let at = elf.symbol_at(offset + 1, |_| true).unwrap();
    assert_eq!((at.symbol, at.distance, at.is_init), ("main", 1, false));
    // The previous symbol is farther away.
    let other = elf.symbol_at(offset + 1, |name| name != "main").unwrap();
    assert!(other.symbol != "main" && other.distance > 1, "{other:?}");
    assert_eq!(elf.symbol_at(offset, |_| false), Err(NoSymbol::NoName));
    assert_eq!(elf.symbol_at(0, |_| true), Err(NoSymbol::NoCode));
    let end = u64::try_from(bytes.len()).unwrap();
    assert_eq!(elf.symbol_at(end, |_| true), Err(NoSymbol::Outside));
    assert_eq!(elf.lookup("no such symbol"), Err(LookupError::None));
    assert_eq!(elf.offset_of(u64::MAX), None);
    assert!(!elf.is_fixed() && !elf.is_kernel());
    assert!(elf.names().any(|name| name == "main"));
}

#[test]
fn no_program() {
    assert!(Elf::parse(b"text".to_vec()).is_err());
    assert!(matches!(
        Elf::read(Path::new("/nonexistent")),
        Err(ElfError::Io { .. })
    ));
}

/// Symbols that share one long name: copies of the name would take gigabytes.
#[test]
fn names_are_no_longer_than_the_file() {
    const NAME: u64 = 1 << 20;
    const SYMBOLS: u64 = 10_000;
    let mut strings = vec![b'x'; usize::try_from(NAME).unwrap()];
    (strings[0], *strings.last_mut().unwrap()) = (0, 0);
    let mut bytes = b"\x7fELF\x02\x01\x01".to_vec();
    bytes.resize(16, 0);
    // Type, machine, version; entry, offsets of segments and sections; flags; sizes and counts.
    let sections = 64 + NAME + SYMBOLS * 24;
    bytes.extend([3_u16, 62, 1, 0].map(u16::to_le_bytes).concat());
    bytes.extend([0, 0, sections].map(u64::to_le_bytes).concat());
    let sizes = [0, 0, 64, 0, 0, 64, 3, 1];
    bytes.extend(sizes.map(u16::to_le_bytes).concat());
    assert_eq!(bytes.len(), 64);
    bytes.extend(strings);
    for _ in 0..SYMBOLS {
        // Name, global function in section 1, address, size.
        bytes.extend([1, 0x0001_0012].map(u32::to_le_bytes).concat());
        bytes.extend([0x1000_u64, 1].map(u64::to_le_bytes).concat());
    }
    let section = |ty: u32, at: u64, size: u64, link: u32, entry: u64| {
        let mut section = [0, ty].map(u32::to_le_bytes).concat();
        section.extend([0, 0, at, size].map(u64::to_le_bytes).concat());
        section.extend([link, 0].map(u32::to_le_bytes).concat());
        section.extend([1, entry].map(u64::to_le_bytes).concat());
        section
    };
    bytes.extend(section(0, 0, 0, 0, 0));
    bytes.extend(section(3, 64, NAME, 0, 0));
    bytes.extend(section(2, 64 + NAME, SYMBOLS * 24, 1, 24));
    let len = bytes.len();
    let elf = Elf::parse(bytes).unwrap();
    let names: usize = elf.names().map(str::len).sum();
    assert!(names > 0 && names <= len * NAMES, "{names} of {len}");
}

#[test]
fn what_is_no_file() {
    for path in ["/dev/zero", "/proc"] {
        let error = Elf::read(Path::new(path)).unwrap_err();
        assert!(matches!(error, ElfError::Io { .. }), "{error:?}");
    }
}
