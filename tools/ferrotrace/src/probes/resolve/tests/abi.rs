// SPDX-License-Identifier: GPL-2.0

//! Arguments and results: probes have to follow the compilers' calling convention. Without
//! optimisation, DWARF has no locations at a function's entry, so only the convention is left. With
//! optimisation, DWARF gives the locations. Results are those of calls.

use super::*;

/// Types of arguments and results, each with the member that a probe reads: "" for the value
/// itself, "?" if a probe cannot read the type.
const TYPES: &[(&str, &str)] = &[
    ("int", ""),
    ("char", ""),
    ("long", ""),
    ("enum level", ""),
    ("void *", ""),
    ("double", "?"),
    ("float", "?"),
    ("long double", "?"),
    ("__int128", "?"),
    ("_Complex double", "?"),
    ("_Complex float", "?"),
    ("struct two", ".b"),
    ("struct big", ".c"),
    ("struct none", "?"),
    ("struct point", "?"),
    ("struct mixed", ".n"),
    ("struct mixed_late", ".n"),
    ("struct halves", ".i:u"),
    ("struct quarters", ".last:u"),
    ("union either", ".n"),
    ("struct packed", ".n"),
    ("struct small", ".last:u"),
    ("struct aligned", ".a"),
    ("struct row", ".t[2]"),
    ("struct bits", ".d:u"),
    ("struct inner_float", ".n"),
    ("struct with_long_double", "?"),
    ("v4si", "?"),
    ("struct array_of_structs", ".s[1].y:u"),
];

const DECLARATIONS: &str = "
enum level { LOW = -1, HIGH = 7 };
struct two { long a, b; };
struct big { long a, b, c; };
struct none { };
struct point { double x, y; };
struct mixed { double x; long n; };
struct mixed_late { long n; double x; };
struct halves { float f; int i; };
struct quarters { float a, b, c; int last; };
union either { double d; long n; };
struct packed { char c; long n; } __attribute__((packed));
struct small { char c[3]; short last; };
struct aligned { long a; } __attribute__((aligned(16)));
struct row { int t[3]; };
struct bits { unsigned a : 3; unsigned b : 5; int c : 6; unsigned long long d : 40; };
struct inner_float { struct { float x, y; } p; long n; };
struct with_long_double { long double l; };
typedef int v4si __attribute__((vector_size(16)));
struct array_of_structs { struct { short x; int y; } s[2]; };
#define FUNCTION __attribute__((noipa))
";

/// Pseudo-random numbers that repeat in each run.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        usize::try_from(self.0 >> 33).unwrap() % end
    }
}

/// Returns functions: the type of the result and the types of the arguments.
fn functions() -> Vec<(usize, Vec<usize>)> {
    let mut numbers = Numbers(1);
    let mut one = |_| {
        let count = 1 + numbers.below(9);
        let result = numbers.below(TYPES.len());
        let arguments = (0..count).map(|_| numbers.below(TYPES.len())).collect();
        (result, arguments)
    };
    let mut all: Vec<_> = (0..80).map(&mut one).collect();
    // Each type as several arguments, until the registers run out, and as a result.
    all.extend((0..TYPES.len()).map(|ty| (ty, vec![ty, 0, ty, 0, ty, 2])));
    all
}

fn source(functions: &[(usize, Vec<usize>)]) -> String {
    let mut text = DECLARATIONS.to_owned();
    for (number, (result, arguments)) in functions.iter().enumerate() {
        let arguments = arguments.iter().enumerate();
        let arguments = arguments.map(|(index, ty)| format!("{} a{index}", TYPES[*ty].0));
        let arguments: Vec<_> = arguments.collect();
        let result = TYPES[*result].0;
        // A body that suits any type.
        text.push_str(&format!(
            "FUNCTION {result} f{number}({}) {{ static {result} r; __asm__ volatile(\"\" : : : \"memory\"); return r; }}\n",
            arguments.join(", ")
        ));
    }
    text
}

fn library(dir: &Path, source: &str, compiler: &str, args: &str, name: &str) -> PathBuf {
    fs::write(dir.join("abi.c"), source).unwrap();
    let out = dir.join(name);
    let mut command = Command::new(compiler);
    let command = command.current_dir(dir).args(args.split(' '));
    let command = command.args(["-g", "-w", "-fPIC", "-shared", "-nostdlib", "abi.c", "-o"]);
    assert!(command.arg(&out).status().unwrap().success());
    out
}

fn told_in(file: &Path, spec: &str) -> std::result::Result<String, String> {
    let source = Source {
        vmlinux: Some(file.to_owned()),
        root: file.into(),
        ..Source::default()
    };
    told(&source, spec)
}

/// Places of arguments by convention and by DWARF agree.
#[test]
fn arguments_by_convention() {
    let dir = tempfile::tempdir().unwrap();
    let functions = functions();
    let source = source(&functions);
    let plain = library(dir.path(), &source, "gcc", "-O0", "plain.so");
    let optimised = library(dir.path(), &source, "gcc", "-O2", "optimised.so");
    let read = |file: PathBuf| {
        let symbols = Symbols::parse(KALLSYMS);
        let source = Source {
            vmlinux: Some(file.clone()),
            root: file,
            ..Source::default()
        };
        let mut resolver = Resolver::new(&symbols, &source);
        let mut all = Vec::new();
        for (number, (_, arguments)) in functions.iter().enumerate() {
            for (index, ty) in arguments.iter().enumerate() {
                let what = TYPES[*ty].1;
                if what == "?" {
                    continue;
                }
                let spec = format!("f{number} v=a{index}{what}");
                let found = resolver.resolve(&spec.parse().unwrap(), false);
                let found = found.map(|all| all[0].args.clone());
                all.push((spec, found.map_err(|error| error.to_string())));
            }
        }
        all
    };
    let (plain, optimised) = (read(plain), read(optimised));
    let mut compared = 0;
    for ((spec, plain), (_, optimised)) in plain.iter().zip(&optimised) {
        match (plain, optimised) {
            (Ok(plain), Ok(optimised)) => {
                assert_eq!(plain, optimised, "{spec}");
                compared += 1;
            }
            (plain, optimised) => panic!("{spec}: {plain:?} {optimised:?}"),
        }
    }
    assert!(compared > 200, "{compared}");
}

/// Results in registers and in memory.
#[test]
fn results() {
    let dir = tempfile::tempdir().unwrap();
    let values = [
        ("struct two", "{ 11, 12 }", ".a", 11u64),
        ("struct two", "{ 11, 12 }", ".b", 12),
        ("struct big", "{ 21, 22, 23 }", ".a", 21),
        ("struct big", "{ 21, 22, 23 }", ".c", 23),
        ("struct mixed", "{ 1.5, 32 }", ".n", 32),
        ("struct mixed_late", "{ 33, 1.5 }", ".n", 33),
        ("struct halves", "{ 1.5f, 34 }", ".i:u", 34),
        ("struct quarters", "{ 1, 2, 3, 35 }", ".last:u", 35),
        ("union either", "{ .n = 36 }", ".n", 36),
        ("struct packed", "{ 1, 37 }", ".n", 37),
        ("struct small", "{ { 1, 2, 3 }, 38 }", ".last:u", 38),
        ("struct aligned", "{ 39 }", ".a", 39),
        ("struct row", "{ { 1, 2, 40 } }", ".t[2]", 40),
        ("struct bits", "{ 5, 17, -3, 41 }", ".d:u", 41),
        ("struct bits", "{ 5, 17, -3, 41 }", ".b", 17),
        ("struct inner_float", "{ { 1, 2 }, 42 }", ".n", 42),
        (
            "struct array_of_structs",
            "{ { { 1, 2 }, { 3, 43 } } }",
            ".s[1].y:u",
            43,
        ),
    ];
    let mut text = format!("#include <stdio.h>\n{DECLARATIONS}");
    let mut calls = String::new();
    for (number, (ty, value, ..)) in values.iter().enumerate() {
        text.push_str(&format!(
            "FUNCTION {ty} f{number}(void) {{ return ({ty}){value}; }}\n"
        ));
        calls.push_str(&format!("CALL(f{number});\n"));
    }
    text.push_str(
        "#define CALL(f) do { \\
	unsigned long ax, dx, room[8] = { 0 }; \\
	__asm__ volatile(\"sub $128, %%rsp; call \" #f \"; add $128, %%rsp\" : \"=a\"(ax), \"=d\"(dx) : \"D\"(room) \\
		: \"rcx\", \"rsi\", \"r8\", \"r9\", \"r10\", \"r11\", \"memory\", \"cc\", \"xmm0\", \"xmm1\"); \\
	printf(\"%lu %lu %d\", ax, dx, ax == (unsigned long)room); \\
	for (int i = 0; i < 8; i++) printf(\" %lu\", room[i]); puts(\"\"); } while (0)
int main(void) {\n",
    );
    text.push_str(&format!("{calls}return 0; }}\n"));
    fs::write(dir.path().join("results.c"), text).unwrap();
    let program = dir.path().join("results");
    let mut gcc = Command::new("gcc");
    let gcc = gcc
        .current_dir(&dir)
        .args(["-O1", "-g", "-w", "-no-pie", "results.c", "-o"]);
    assert!(gcc.arg(&program).status().unwrap().success());
    let output = Command::new(&program).output().unwrap();
    let output = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.lines().count(), values.len(), "{output}");
    for ((number, (ty, _, what, wanted)), line) in values.iter().enumerate().zip(output.lines()) {
        let words: Vec<u64> = line.split(' ').map(|word| word.parse().unwrap()).collect();
        let spec = format!("f{number}%return v=$retval{what}");
        let told = told_in(&program, &spec).unwrap_or_else(|error| panic!("{ty}{what}: {error}"));
        assert_eq!(read(&told, &words), *wanted, "{ty}{what}: {told} {line}");
    }
    for (ty, value) in [("struct point", "{ 1, 2 }"), ("double", "1")] {
        let text = format!("{DECLARATIONS}FUNCTION {ty} f(void) {{ return ({ty}){value}; }}");
        let file = library(dir.path(), &text, "gcc", "-O1", "floats.so");
        let what = if ty == "double" { "" } else { ".y" };
        let error = told_in(&file, &format!("f%return v=$retval{what}")).unwrap_err();
        assert!(error.contains("floating-point"), "{error}");
    }
}

/// Returns the value that a probe would read for `v=FETCH:TYPE`. `words` has rax, rdx, 1 if rax
/// points to the result's memory, and that memory.
fn read(told: &str, words: &[u64]) -> u64 {
    let (fetch, ty) = told.strip_prefix("v=").unwrap().split_once(':').unwrap();
    let word = match fetch {
        "$retval" => words[0],
        "%dx" => words[1],
        memory => {
            assert_eq!(words[2], 1, "{told}");
            let offset = memory.strip_prefix('+').unwrap();
            let offset = offset.strip_suffix("($retval)").unwrap();
            let offset: usize = offset.parse().unwrap();
            let bytes: Vec<u8> = words[3..]
                .iter()
                .flat_map(|word| word.to_le_bytes())
                .collect();
            u64::from_le_bytes(bytes[offset..offset + 8].try_into().unwrap())
        }
    };
    let mask = |bits: u32| {
        if bits == 64 {
            u64::MAX
        } else {
            (1 << bits) - 1
        }
    };
    match ty.strip_prefix('b') {
        Some(bits) => {
            let (width, rest) = bits.split_once('@').unwrap();
            let shift: u32 = rest.split_once('/').unwrap().0.parse().unwrap();
            word >> shift & mask(width.parse().unwrap())
        }
        None => word & mask(ty[1..].parse().unwrap()),
    }
}

/// C++ passes objects with a copy constructor by pointer, and `this` first.
#[test]
fn classes() {
    let dir = tempfile::tempdir().unwrap();
    let text = "
namespace outer {
struct owner { long a, b; owner(const owner &other); ~owner(); };
struct empty { };
struct base { long x; static long everywhere; };
struct derived : base { long y; };
class thing { public: long n; long method(empty e, int i, owner o, derived d); };
long thing::method(empty e, int i, owner o, derived d) { return n + i + o.b + d.y; }
}
extern \"C\" outer::owner made(int i, outer::owner &from) { return from; }
";
    fs::write(dir.path().join("classes.cc"), text).unwrap();
    for level in ["-O0", "-O2"] {
        let out = dir.path().join(format!("classes{level}.so"));
        let mut gcc = Command::new("g++");
        let args = [
            level,
            "-g",
            "-fPIC",
            "-shared",
            "-nostdlib",
            "classes.cc",
            "-o",
        ];
        let status = gcc.current_dir(&dir).args(args).arg(&out).status();
        assert!(status.unwrap().success());
        let spec = |what: &str| {
            let spec = format!(
                "{}:_ZN5outer5thing6methodENS_5emptyEiNS_5ownerENS_7derivedE {what}",
                out.display()
            );
            told(&Source::default(), &spec)
        };
        for (what, wanted) in [
            ("this->n", "n=+0($arg1):s64"),
            ("i", "i=$arg2:s32"),
            ("o.b", "b=+8($arg3):s64"),
            ("d.x", "x=$arg4:s64"),
            ("d.y", "y=$arg5:s64"),
        ] {
            assert_eq!(spec(what).as_deref(), Ok(wanted), "{level}");
        }
        let error = spec("d.everywhere").unwrap_err();
        assert!(
            error.contains("has no member everywhere; it has x, y"),
            "{error}"
        );
        // The first register has the address of a result that is returned in memory.
        let made = format!("{}:made i from->b", out.display());
        assert_eq!(
            told(&Source::default(), &made).as_deref(),
            Ok("i=$arg2:s32 b=+8($arg3):s64"),
            "{level}"
        );
    }
}

/// Parameters that the compiler has removed are not passed.
#[test]
fn removed_parameters() {
    let dir = tempfile::tempdir().unwrap();
    let text = "
__attribute__((noinline)) static int inner(int unused, int used, int *by_pointer)
{
	__asm__ volatile(\"\");
	return used * 3 + *by_pointer;
}
int outer(int n) { int v = n + 1; return inner(n, n + 100, &v); }
";
    let known = |compiler: &str| Command::new(compiler).arg("--version").output().is_ok();
    let clang = ["clang", "clang-19"].into_iter().find(|name| known(name));
    for compiler in ["gcc"].into_iter().chain(clang) {
        let file = library(dir.path(), text, compiler, "-O2", "removed.so");
        let nm = Command::new("nm").arg(&file).output().unwrap();
        let nm = String::from_utf8(nm.stdout).unwrap();
        let mut names = nm.lines().filter_map(|line| line.split(' ').next_back());
        let inner = names
            .find(|name| name.starts_with("inner"))
            .unwrap()
            .to_owned();
        let told = |what: &str| {
            let spec = format!("{}:{inner} {what}", file.display());
            told(&Source::default(), &spec)
        };
        // `used` is the first parameter now.
        let used = told("used");
        assert_eq!(used.as_deref(), Ok("used=$arg1:s32"), "{compiler} {inner}");
        let error = told("unused").unwrap_err();
        assert!(
            error.contains("unused: the compiler does not pass it"),
            "{compiler}: {error}"
        );
        let by_pointer = told("*by_pointer");
        assert_eq!(
            by_pointer.as_deref(),
            Ok("by_pointer=+0($arg2):s32"),
            "{compiler}"
        );
    }
}

/// Members of all kinds, as each version of DWARF has them.
#[test]
fn members() {
    let dir = tempfile::tempdir().unwrap();
    let text = format!(
        "{DECLARATIONS}
enum without_sign {{ NONE, SOME = 0xffffffffu }};
struct all {{ int t[2][3]; enum level lv; enum without_sign ns; struct bits b; float f; char text[2][8]; }};
FUNCTION int f(struct all *p) {{ return p->lv; }}
"
    );
    for version in [
        "-gdwarf-2 -gstrict-dwarf",
        "-gdwarf-4",
        "-gdwarf-5",
        "-gdwarf-5 -gstrict-dwarf",
    ] {
        let file = library(
            dir.path(),
            &text,
            "gcc",
            &format!("-O2 {version}"),
            "members.so",
        );
        for (what, wanted) in [
            ("p->t[1][2]", "t=+20($arg1):s32"),
            ("p->lv", "lv=+24($arg1):s32"),
            ("p->ns", "ns=+28($arg1):u32"),
            ("p->b.a", "a=+32($arg1):b3@0/32"),
            ("p->b.b", "b=+32($arg1):b5@3/32"),
            ("p->b.c:x", "c=+32($arg1):b6@8/32"),
            ("p->b.d", "d=+32($arg1):b40@14/64"),
            ("p->text[1]", "text=+52($arg1):string"),
        ] {
            assert_eq!(
                told_in(&file, &format!("f {what}")).as_deref(),
                Ok(wanted),
                "{version}"
            );
        }
        for (what, wanted) in [
            ("p->b.c", "may be negative"),
            ("p->t[1]", "an array"),
            ("p->f", "a floating-point number"),
        ] {
            let error = told_in(&file, &format!("f {what}")).unwrap_err();
            assert!(error.contains(wanted), "{version}: {error}");
        }
    }
}
