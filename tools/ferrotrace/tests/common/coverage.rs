// SPDX-License-Identifier: GPL-2.0

//! Programs that count their own execution, built by each installed compiler, and their counters in
//! the kernel's format.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::path::PathBuf;
use std::process::Command;

use tempfile::TempDir;

/// Two objects and a header that both include.
const MAIN: &str = r#"
int printf(const char *, ...);
int atoi(const char *);
int work(int);
#include "shared.h"

static const char *name(int n)
{
	switch (n) {
	case 1:
		return "one";
	case 2:
		return "two";
	default:
		return "many";
	}
}

static int never(int n)
{
	if (n > 3)
		return shared(n);
	return n;
}

int main(int argc, char **argv)
{
	int i, sum = 0;

	for (i = 1; i < argc; i++) {
		int n = atoi(argv[i]);

		sum += work(n) + shared(n);
		if (n < 0)
			sum += never(n);
		printf("%s ", name(n));
	}
	printf("%d\n", sum);
	return 0;
}
"#;

const WORK: &str = r#"
#include "shared.h"

int work(int n)
{
	int i, sum = 0;

	for (i = 0; i < n; i++) {
		if (i % 3 == 0 && i % 2 == 0)
			sum += i;
		else if (i == 5)
			sum -= shared(i);
	}
	return sum;
}

int idle(void)
{
	return shared(1);
}
"#;

const SHARED: &str = r#"
static inline int shared(int n)
{
	if (n > 4)
		return n * 2;
	return n + 1;
}
"#;

/// Stub that the libgcov of a newer glibc needs.
const STUB: &str = "
long strtol(const char *, char **, int);
__attribute__((weak)) long __isoc23_strtol(const char *text, char **end, int base)
{
	return strtol(text, end, base);
}
";

/// A compiler and the program that reads its files.
#[derive(Clone, Debug)]
pub struct Compiler {
    pub name: String,
    pub gcov: String,
    library: PathBuf,
}

fn output(program: &str, args: &[&str]) -> Option<String> {
    let output = Command::new(program).args(args).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}

impl Compiler {
    /// Returns GCC, if it is installed with libgcov and gcov.
    pub fn gcc(suffix: &str) -> Option<Self> {
        let name = format!("gcc{suffix}");
        let library = output(&name, &["-print-file-name=libgcov.a"])?;
        let gcov = format!("gcov{suffix}");
        output(&gcov, &["--version"])?;
        Some(Self {
            name,
            gcov,
            library: library.into(),
        })
        .filter(|compiler| compiler.library.is_file())
    }

    /// Returns LLVM of a major version, if it is installed.
    pub fn clang(major: u32) -> Option<Self> {
        let name = format!("clang-{major}");
        let resources = output(&name, &["-print-resource-dir"])?;
        let usual = format!("../../../llvm-{major}/lib/clang/{major}");
        let dirs = [resources.clone(), format!("{resources}/{usual}")];
        let runtime = "lib/linux/libclang_rt.profile-x86_64.a";
        let mut libraries = dirs.iter().map(|dir| Path::new(dir).join(runtime));
        let gcov = format!("llvm-cov-{major}");
        output(&gcov, &["--version"])?;
        Some(Self {
            name,
            gcov,
            library: libraries.find(|library| library.is_file())?,
        })
    }

    /// Returns the system's GCC, which every developer has.
    pub fn system() -> Self {
        Self::gcc("").expect("gcc and gcov are needed")
    }

    /// Returns all installed compilers.
    pub fn all() -> Vec<Self> {
        let numbered = (9..=20).filter_map(|major| Self::gcc(&format!("-{major}")));
        let mut all: Vec<_> = [Self::system()].into_iter().chain(numbered).collect();
        all.extend((11..=30).filter_map(Self::clang));
        all
    }

    pub fn is_llvm(&self) -> bool {
        self.name.starts_with("clang")
    }
}

/// A built program, which may have run.
pub struct Build {
    pub dir: PathBuf,
    pub objects: Vec<PathBuf>,
    pub compiler: Compiler,
    _root: TempDir,
}

impl Build {
    pub fn new(compiler: &Compiler) -> Self {
        Self::below(compiler, OsStr::new("build"))
    }

    /// Builds in a directory with that name.
    pub fn below(compiler: &Compiler, name: &OsStr) -> Self {
        let root = TempDir::new().unwrap();
        let dir = root.path().canonicalize().unwrap().join(name);
        fs::create_dir_all(dir.join("sub")).unwrap();
        fs::write(dir.join("main.c"), MAIN).unwrap();
        fs::write(dir.join("sub/work.c"), WORK).unwrap();
        fs::write(dir.join("shared.h"), SHARED).unwrap();
        fs::write(dir.join("stub.c"), STUB).unwrap();
        let build = Self {
            objects: ["main.gcda", "sub/work.gcda"]
                .map(|name| dir.join(name))
                .into(),
            dir,
            compiler: compiler.clone(),
            _root: root,
        };
        build.make();
        build
    }

    /// Compiles and links the program.
    pub fn make(&self) {
        let mut link = Command::new("gcc");
        link.current_dir(&self.dir)
            .args(["-w", "-o", "program", "stub.c"]);
        for file in ["main", "sub/work"] {
            self.compile(file);
            link.arg(format!("{file}.o"));
        }
        link.arg(&self.compiler.library);
        succeed(&mut link);
    }

    /// Compiles a file with the kernel's options.
    pub fn compile(&self, file: &str) {
        let mut compile = Command::new(&self.compiler.name);
        compile.current_dir(&self.dir);
        compile.args(["-O2", "-I.", "-fprofile-arcs", "-ftest-coverage"]);
        if !self.compiler.is_llvm() {
            compile.arg("-fno-tree-loop-im");
        }
        compile.args(["-c", "-o", &format!("{file}.o"), &format!("{file}.c")]);
        succeed(&mut compile);
    }

    /// Runs the program: its counters are added to the `.gcda` files.
    pub fn run(&self, args: &[&str]) {
        succeed(Command::new(self.dir.join("program")).args(args));
    }

    /// Removes the `.gcda` files.
    pub fn reset(&self) {
        for object in &self.objects {
            fs::remove_file(object).unwrap();
        }
    }

    /// Returns the counters in the format of the kernel's dump file.
    pub fn dump(&self) -> Vec<u8> {
        let objects = self.objects.iter();
        let dumps =
            objects.map(|object| dump(object, &counters(&fs::read(object).unwrap()).concat()));
        dumps.collect::<Vec<_>>().concat()
    }

    pub fn save_dump(&self, name: &str) -> PathBuf {
        let path = self.dir.join(name);
        fs::write(&path, self.dump()).unwrap();
        path
    }

    /// Makes a directory like the kernel's, with the dump file and the tree.
    pub fn debugfs(&self) -> PathBuf {
        let dir = self.dir.join("debug/gcov");
        fs::create_dir_all(&dir).unwrap();
        fs::write(dir.join("vmlinux"), self.dump()).unwrap();
        for object in &self.objects {
            let at = dir.join(object.strip_prefix("/").unwrap());
            fs::create_dir_all(at.parent().unwrap()).unwrap();
            fs::copy(object, &at).unwrap();
            symlink(object.with_extension("gcno"), at.with_extension("gcno")).unwrap();
        }
        dir
    }
}

fn succeed(command: &mut Command) {
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {text}");
}

/// Returns one object of a dump file.
pub fn dump(name: &Path, counters: &[u64]) -> Vec<u8> {
    let name = name.as_os_str().as_bytes();
    let mut bytes = Vec::new();
    bytes.extend(u64::try_from(name.len()).unwrap().to_ne_bytes());
    bytes.extend(name);
    while bytes.len() % 8 != 0 {
        bytes.push(0);
    }
    bytes.extend(u64::try_from(counters.len()).unwrap().to_ne_bytes());
    for counter in counters {
        bytes.extend(counter.to_ne_bytes());
    }
    bytes
}

/// Returns the counters of each function in a `.gcda` file, read without any of the command's code.
pub fn counters(gcda: &[u8]) -> Vec<Vec<u64>> {
    let word = |at: usize| u32::from_le_bytes(gcda[at..at + 4].try_into().unwrap());
    assert_eq!(word(0).to_be_bytes(), *b"gcda");
    let version = word(4).to_be_bytes();
    let in_bytes = version >= *b"B20*" && version[0] == b'B';
    let mut at = if in_bytes { 16 } else { 12 };
    let mut functions = Vec::new();
    while at + 8 <= gcda.len() && word(at) != 0 {
        let (tag, len) = (word(at), i32::from_le_bytes(word(at + 4).to_le_bytes()));
        at += 8;
        let bytes = usize::try_from(len.unsigned_abs()).unwrap() * if in_bytes { 1 } else { 4 };
        let here = if len < 0 { 0 } else { bytes };
        match tag {
            0x0100_0000 => (),
            0x01a1_0000 if len < 0 => functions.push(vec![0; bytes / 8]),
            0x01a1_0000 => functions.push(
                gcda[at..at + here]
                    .chunks(8)
                    .map(|counter| u64::from_le_bytes(counter.try_into().unwrap()))
                    .collect(),
            ),
            0xa100_0000 | 0xa300_0000 => (),
            other => panic!("tag {other:#x}"),
        }
        at += here;
    }
    functions
}
