// SPDX-License-Identifier: GPL-2.0

//! The programs that read the compilers' files: gcov and llvm-cov, unmodified.

#![deny(unsafe_code)]

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::path::PathBuf;
use std::process::Command;
use std::process::Output;
use std::process::Stdio;

use super::error::Error;
use super::error::Result;
use super::objects::Ready;
use super::output::Document;
use super::output::parse_json;
use super::output::parse_lines;
use super::version::Compiler;

/// A program, or why there is none.
type Found = std::result::Result<Program, String>;

/// The GCC whose version word LLVM 19 and later write.
const LLVM_WORD: u32 = 11;

/// The oldest gcov that writes JSON.
const OLDEST: u32 = 9;
/// The newest major versions that are looked for.
const NEWEST_GCOV: u32 = 30;
const NEWEST_LLVM: u32 = 40;
const OLDEST_LLVM: u32 = 11;

/// Messages of gcov for unusable files. Other messages, such as that a source file is newer, do not
/// change the counts.
const FAILURES: [&str; 5] = [
    "mismatch",
    "corrupted",
    "overread",
    "not a gcov",
    "cannot open",
];

/// A program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    path: PathBuf,
    compiler: Compiler,
}

/// The major version in what `--version` prints.
fn parse_version(text: &str) -> Option<Compiler> {
    if text.contains("LLVM") {
        return Some(Compiler::Llvm);
    }
    let first = text.lines().next()?;
    let numbers = first
        .split_whitespace()
        .filter_map(|word| word.split_once('.'));
    let major = numbers
        .filter_map(|(major, _)| major.parse().ok())
        .next_back()?;
    first.contains("gcov").then_some(Compiler::Gcc(major))
}

/// Returns true if a gcov reads the files of a compiler. The layout changed with GCC 12; newer
/// versions of the same layout read the older.
fn reads(gcov: u32, gcc: u32) -> bool {
    gcov >= OLDEST && gcov >= gcc && (gcov < 12 || gcc >= 12)
}

fn run(command: &mut Command) -> io::Result<Output> {
    command.env("LC_ALL", "C").stdin(Stdio::null()).output()
}

impl Program {
    /// Asks a program what it is. `None` if it is neither gcov nor llvm-cov.
    fn probe(path: &Path) -> io::Result<Option<Self>> {
        let output = run(Command::new(path).arg("--version"))?;
        let compiler = parse_version(&String::from_utf8_lossy(&output.stdout));
        let compiler = compiler.filter(|_| output.status.success());
        Ok(compiler.map(|compiler| Self {
            path: path.to_owned(),
            compiler,
        }))
    }

    fn find(name: &str) -> Option<Self> {
        Self::probe(Path::new(name)).ok()?
    }

    /// The one that the user names.
    fn named(path: &Path) -> Result<Self> {
        let failed = |reason: String| Error::Program {
            path: path.to_owned(),
            reason,
        };
        let found = Self::probe(path).map_err(|error| failed(format!("cannot be run: {error}")))?;
        let program = found.ok_or_else(|| failed("neither gcov nor llvm-cov".to_owned()))?;
        match program.compiler {
            Compiler::Gcc(major) if major < OLDEST => Err(failed(format!(
                "is of GCC {major}; the first that writes JSON is of GCC {OLDEST}"
            ))),
            _ => Ok(program),
        }
    }

    /// The name, for messages.
    pub fn name(&self) -> String {
        self.path.display().to_string()
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.path);
        if self.compiler == Compiler::Llvm {
            // A program of LLVM that is called gcov is that already.
            let name = self.path.file_name().unwrap_or_default().to_string_lossy();
            if !name.ends_with("gcov") {
                command.arg("gcov");
            }
            command.args(["--branch-probabilities", "--intermediate-format"]);
        } else {
            command.args(["--branch-probabilities", "--json-format", "--stdout"]);
        }
        command
    }

    /// Has the program read an object. `dir` is a directory for it alone.
    pub fn read(&self, object: &Ready, dir: &Path) -> std::result::Result<Document, String> {
        let failed = |error: io::Error| error.to_string();
        // The names are ours: those of the object may be anything.
        let (data, notes) = (dir.join("object.gcda"), dir.join("object.gcno"));
        fs::write(&data, &object.data).map_err(failed)?;
        let _ = fs::remove_file(&notes);
        let target = std::path::absolute(&object.path).map_err(failed)?;
        symlink(target, &notes).map_err(failed)?;
        let mut command = self.command();
        command.arg("object.gcda").current_dir(dir);
        let output = run(&mut command).map_err(|error| format!("cannot be run: {error}"))?;
        let messages = String::from_utf8_lossy(&output.stderr);
        let failure = messages.lines().find(|line| {
            FAILURES
                .iter()
                .any(|failure| line.to_lowercase().contains(failure))
        });
        if let Some(message) = failure {
            return Err(message.to_owned());
        }
        if !output.status.success() {
            let message = messages.lines().last().unwrap_or("no message");
            return Err(format!("{} ({message})", output.status));
        }
        let mut document = match self.compiler {
            Compiler::Gcc(_) => parse_json(&output.stdout),
            Compiler::Llvm => {
                let path = dir.join("object.gcda.gcov");
                let text = fs::read(&path).map_err(|_| "wrote nothing".to_owned())?;
                let _ = fs::remove_file(&path);
                parse_lines(&String::from_utf8_lossy(&text))
            }
        }?;
        if document.directory.is_none() {
            let directory = object.notes.directory.as_deref();
            document.directory = directory.map(PathBuf::from);
        }
        Ok(document)
    }
}

/// The programs for some compilers.
#[derive(Clone, Debug, Default)]
pub struct Programs(BTreeMap<Compiler, Program>);

fn find_gcov(gcc: u32) -> std::result::Result<Program, String> {
    if gcc < OLDEST {
        return Err(format!(
            "its gcov writes no JSON, that of GCC {OLDEST} is the first"
        ));
    }
    // Its own, or else the newest.
    let usual = Program::find("gcov");
    let major = |program: &Program| match program.compiler {
        Compiler::Gcc(major) => Some(major),
        Compiler::Llvm => None,
    };
    let suits = |program: &Program, wanted: u32| major(program) == Some(wanted);
    let candidates = std::iter::once(gcc).chain((gcc + 1..=NEWEST_GCOV).rev());
    for wanted in candidates.filter(|wanted| reads(*wanted, gcc)) {
        let usual = usual.clone().filter(|program| suits(program, wanted));
        let found = Program::find(&format!("gcov-{wanted}"));
        let found = found.filter(|program| suits(program, wanted));
        if let Some(program) = found.or(usual) {
            return Ok(program);
        }
    }
    let have = match usual.as_ref().map(|program| program.compiler) {
        Some(compiler) => format!(", and gcov is of {compiler}"),
        None => String::new(),
    };
    Err(format!("there is no gcov-{gcc}{have}"))
}

fn find_llvm() -> std::result::Result<Program, String> {
    let numbered = (OLDEST_LLVM..=NEWEST_LLVM)
        .rev()
        .map(|major| format!("llvm-cov-{major}"));
    let mut names = numbered.chain(["llvm-cov".to_owned()]);
    let found = names
        .find_map(|name| Program::find(&name).filter(|program| program.compiler == Compiler::Llvm));
    found.ok_or_else(|| "there is no llvm-cov".to_owned())
}

impl Programs {
    /// Finds a program for each compiler. The one that the user names reads what is of its own
    /// compiler; a kernel can have objects of two.
    pub fn find(compilers: &BTreeSet<Compiler>, named: Option<&Path>) -> Result<Self> {
        let named = named.map(Program::named).transpose()?;
        let mut programs = BTreeMap::new();
        for compiler in compilers {
            let program = Self::choose(named.as_ref(), *compiler, find_gcov, find_llvm);
            let program = program.map_err(|tried| Error::NoProgram {
                compiler: *compiler,
                tried,
            })?;
            programs.insert(*compiler, program);
        }
        Ok(Self(programs))
    }

    fn choose(
        named: Option<&Program>,
        compiler: Compiler,
        find_gcov: impl Fn(u32) -> Found,
        find_llvm: impl Fn() -> Found,
    ) -> Found {
        let own = named.map(|program| (program, program.compiler));
        match (own, compiler) {
            (Some((program, Compiler::Gcc(gcov))), Compiler::Gcc(gcc)) => match reads(gcov, gcc) {
                true => Ok(program.clone()),
                false => Err(format!("{} is of {}", program.name(), program.compiler)),
            },
            (Some((program, Compiler::Llvm)), Compiler::Llvm) => Ok(program.clone()),
            // It has the version word of LLVM 19 and later, too.
            (Some((program, Compiler::Llvm)), Compiler::Gcc(LLVM_WORD)) => Ok(program.clone()),
            // llvm-cov follows GCC's layouts, but not all of each version.
            (Some((program, Compiler::Llvm)), Compiler::Gcc(gcc)) => {
                find_gcov(gcc).or_else(|_| Ok(program.clone()))
            }
            (None, Compiler::Gcc(gcc)) => find_gcov(gcc),
            (_, Compiler::Llvm) => find_llvm(),
        }
    }

    /// The program for a compiler.
    pub fn get(&self, compiler: Compiler) -> Option<&Program> {
        self.0.get(&compiler)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions() {
        for (text, compiler) in [
            (
                "gcov (Debian 12.2.0-14+deb12u1) 12.2.0\nCopyright",
                Some(Compiler::Gcc(12)),
            ),
            (
                "gcov (GCC) 16.0.1 20260301 (experimental)\n",
                Some(Compiler::Gcc(16)),
            ),
            ("gcov (Ubuntu 13.2.0) 13.2.0", Some(Compiler::Gcc(13))),
            ("Debian LLVM version 14.0.6\n", Some(Compiler::Llvm)),
            (
                "LLVM (http://llvm.org/):\n  LLVM version 19.1.7\n",
                Some(Compiler::Llvm),
            ),
            ("true (GNU coreutils) 9.1", None),
            ("", None),
        ] {
            assert_eq!(parse_version(text), compiler, "{text}");
        }
    }

    #[test]
    fn a_named_program_reads_what_is_of_its_compiler() {
        let program = |name: &str, compiler| Program {
            path: name.into(),
            compiler,
        };
        let chosen = |named: Option<&Program>, compiler| {
            let gcov = |gcc| Ok(program(&format!("gcov-{gcc}"), Compiler::Gcc(gcc)));
            let llvm = || Ok(program("llvm-cov", Compiler::Llvm));
            let found = Programs::choose(named, compiler, gcov, llvm);
            found.map_or_else(|error| error, |program| program.name())
        };
        let gcov = program("my-gcov", Compiler::Gcc(14));
        let llvm = program("my-llvm-cov", Compiler::Llvm);
        for (named, gcc, clang) in [
            (None, "gcov-13", "llvm-cov"),
            (Some(&gcov), "my-gcov", "llvm-cov"),
            (Some(&llvm), "gcov-13", "my-llvm-cov"),
        ] {
            assert_eq!(chosen(named, Compiler::Gcc(13)), gcc);
            assert_eq!(chosen(named, Compiler::Llvm), clang);
        }
        assert_eq!(chosen(Some(&llvm), Compiler::Gcc(11)), "my-llvm-cov");
        assert_eq!(
            chosen(Some(&gcov), Compiler::Gcc(15)),
            "my-gcov is of GCC 14"
        );
    }

    #[test]
    fn who_reads_what() {
        for (gcov, gcc) in [(12, 12), (16, 12), (16, 15), (11, 9), (9, 9)] {
            assert!(reads(gcov, gcc), "{gcov} {gcc}");
        }
        for (gcov, gcc) in [(12, 11), (11, 12), (12, 13), (16, 11), (8, 8), (9, 10)] {
            assert!(!reads(gcov, gcc), "{gcov} {gcc}");
        }
    }
}
