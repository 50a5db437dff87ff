// SPDX-License-Identifier: GPL-2.0

//! Reads a range of commits by the program git.
//!
//! A repository can name programs in its configuration. None of them is run, nothing is fetched,
//! and nothing of the repository is changed.

#![deny(unsafe_code)]

use std::collections::BTreeSet;
use std::collections::HashMap;
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::path::PathBuf;
use std::process::Command;
use std::process::Stdio;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering;
use std::thread;

use thiserror::Error;

use super::super::coverage::Coverage;
use super::Changed;
use super::Commit;
use super::Line;
use super::Patch;
use super::beginning;
use super::is_hash;
use super::is_source;
use super::matching::Found;
use super::matching::Places;
use super::matching::in_a_line;

/// Range without any on the command line.
const UPSTREAM: &str = "@{upstream}";

/// Bytes of a message of git that are shown.
const MESSAGE: usize = 1000;

/// Failure to read a range.
#[derive(Debug, Error)]
pub enum GitError {
    /// Git is not there, for example.
    #[error("git cannot be run (a diff on standard input, -, takes no git)")]
    Run(#[source] io::Error),
    /// Git failed.
    #[error("git {command}: {message}")]
    Failed {
        /// Its command.
        command: &'static str,
        /// Its message.
        message: String,
    },
    /// Git printed something else.
    #[error("git {0} printed something else than expected")]
    Output(&'static str),
    /// No such commit.
    #[error("{0:?}: no such commit (a diff, or a series, is read from standard input: -)")]
    NoCommit(String),
    /// One commit instead of two.
    #[error("{0:?}: not a range: {0}.. has all commits since, and {0}^! has only that one")]
    NoRange(String),
    /// No range, and no branch to compare with.
    #[error("this branch has no upstream: name the range, such as origin/master..")]
    NoUpstream,
    /// No common history.
    #[error("{0:?}: the two have no commit in common (in a shallow clone: git fetch --unshallow)")]
    Apart(String),
}

type Result<T> = std::result::Result<T, GitError>;

/// A range of commits.
#[derive(Clone, Debug)]
pub struct Range {
    top: PathBuf,
    /// The last commit that is not in it.
    base: String,
    tip: String,
    /// Where both have begun.
    fork: String,
    /// Indices of its commits, the first one first.
    order: HashMap<String, usize>,
}

/// Returns git in a directory, which runs no other program.
fn git(dir: &Path) -> Command {
    let mut git = Command::new("git");
    git.current_dir(dir)
        .args(["--no-pager", "--no-optional-locks", "--literal-pathspecs"])
        .args(["-c", "core.fsmonitor=false"])
        .args(["-c", "core.hooksPath=/dev/null"])
        .env("LC_ALL", "C")
        .env("GIT_TERMINAL_PROMPT", "0")
        // Objects of a partial clone are fetched by programs and protocols of its configuration.
        .env("GIT_NO_LAZY_FETCH", "1")
        .env("GIT_ALLOW_PROTOCOL", "none")
        .stdin(Stdio::null());
    git
}

/// Runs git. Returns its output, or `None` if it only says no.
fn ask(dir: &Path, args: &[&OsStr], command: &'static str) -> Result<Option<Vec<u8>>> {
    let output = git(dir).arg(command).args(args).output();
    let output = output.map_err(GitError::Run)?;
    if output.status.success() {
        return Ok(Some(output.stdout));
    }
    let message = String::from_utf8_lossy(&output.stderr);
    let message = message
        .trim()
        .strip_prefix("fatal: ")
        .unwrap_or(message.trim());
    if message.is_empty() && output.status.code() == Some(1) {
        return Ok(None);
    }
    let message = match message.is_empty() {
        true => output.status.to_string(),
        false => message.chars().take(MESSAGE).collect(),
    };
    Err(GitError::Failed { command, message })
}

/// Runs git, which must succeed.
fn run(dir: &Path, command: &'static str, args: &[&str]) -> Result<Vec<u8>> {
    let args: Vec<&OsStr> = args.iter().map(OsStr::new).collect();
    ask(dir, &args, command)?.ok_or(GitError::Output(command))
}

/// Returns a hash that git prints.
fn hash(output: Vec<u8>, command: &'static str) -> Result<String> {
    let text = String::from_utf8(output).ok();
    let text = text.map(|text| text.trim_end().to_owned());
    text.filter(|text| is_hash(text))
        .ok_or(GitError::Output(command))
}

/// Returns the hash of a commit.
fn commit(dir: &Path, name: &str) -> Result<String> {
    let commit = format!("{name}^{{commit}}");
    let args = ["--verify", "--quiet", "--end-of-options", &commit].map(OsStr::new);
    let no_commit = || GitError::NoCommit(name.to_owned());
    match ask(dir, &args, "rev-parse") {
        Ok(output) => hash(output.ok_or_else(no_commit)?, "rev-parse"),
        Err(GitError::Failed { .. }) => Err(no_commit()),
        Err(error) => Err(error),
    }
}

/// New lines of one file, and the subjects of their commits.
#[derive(Clone, Default)]
struct Blamed {
    lines: Vec<Line>,
    subjects: HashMap<usize, String>,
}

/// Parses the output of blame: the lines that do not belong to the commits before the range.
fn parse(output: &[u8], order: &HashMap<String, usize>) -> Option<Blamed> {
    let mut blamed = Blamed::default();
    // Of commits: the index, or none for those before the range. Only their first lines tell.
    let mut seen: HashMap<&[u8], Option<usize>> = HashMap::new();
    let mut rest = output.split(|byte| *byte == b'\n');
    while let Some(head) = rest.next().filter(|head| !head.is_empty()) {
        let mut words = head.split(|byte| *byte == b' ');
        let (id, number) = (words.next()?, words.nth(1)?);
        let name = std::str::from_utf8(id).ok().filter(|id| is_hash(id))?;
        let number = std::str::from_utf8(number).ok()?.parse().ok()?;
        let known = seen.entry(id).or_insert_with(|| order.get(name).copied());
        let text = loop {
            let line = rest.next()?;
            if let Some(text) = line.strip_prefix(b"\t") {
                break text;
            }
            if line == b"boundary" {
                *known = None;
            }
            if let (Some(subject), Some(index)) = (line.strip_prefix(b"summary "), *known) {
                let subject = String::from_utf8_lossy(subject).into_owned();
                blamed.subjects.insert(index, subject);
            }
        };
        if let Some(commit) = *known {
            let text = beginning(text);
            blamed.lines.push(Line {
                number,
                text,
                commit,
            });
        }
    }
    Some(blamed)
}

/// A function that a commit changes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Fixed {
    /// The commit.
    pub commit: String,
    /// The first line of its message.
    pub subject: String,
    /// The source file.
    pub file: String,
    /// The function, without the path that a name of Rust has; `None` for a commit that changes none.
    pub function: Option<String>,
}

/// Returns the function of a line that begins one.
fn function_of(line: &str) -> Option<String> {
    let is_part = |one: char| one.is_alphanumeric() || one == '_';
    if let Some((_, name)) = line.split_once("fn ") {
        return Some(name.split(|one| !is_part(one)).next()?.to_owned());
    }
    let (before, args) = line.split_once('(')?;
    let name = before.trim_end().rsplit(|one| !is_part(one)).next()?;
    if name.starts_with("SYSCALL_DEFINE") {
        return Some(format!("__x64_sys_{}", args.split([',', ')']).next()?));
    }
    Some(name.to_owned()).filter(|name| !name.is_empty())
}

/// Returns the functions that commits change, which a text lists: a hash begins each line.
///
/// They are those that git names before the changed lines, each once for a commit. A commit without
/// one is there, too.
pub fn fixed(dir: &Path, list: &str) -> Result<Vec<Fixed>> {
    let mut all = Vec::new();
    let names = list
        .lines()
        .filter_map(|line| line.split_whitespace().next());
    for name in names.filter(|name| !name.starts_with('#')) {
        let commit = commit(dir, name)?;
        let args = ["-1", "--no-show-signature", "--format=%s", &commit, "--"];
        let subject = run(dir, "log", &args)?;
        let subject = String::from_utf8_lossy(&subject).trim_end().to_owned();
        // Not "show": the settings of the user and of the repository do not count here.
        let args = "-p -U0 --root --no-commit-id --no-ext-diff --no-textconv -m --first-parent";
        let mut args = Vec::from_iter(args.split(' '));
        args.extend([&*commit, "--"]);
        let output = run(dir, "diff-tree", &args)?;
        let output = String::from_utf8_lossy(&output);
        let (mut file, mut is_header) = ("", false);
        let mut own = BTreeSet::new();
        for line in output.lines() {
            // Changed lines begin with + or -, and may look like the name of a file.
            match line {
                _ if line.starts_with("diff --git ") => (file, is_header) = ("", true),
                _ if line.starts_with("@@ ") => is_header = false,
                _ if is_header => file = line.strip_prefix("+++ b/").unwrap_or(file),
                _ => (),
            }
            let function = line
                .strip_prefix("@@ ")
                .and_then(|hunk| hunk.split_once(" @@ "));
            let function = function.and_then(|(_, line)| function_of(line));
            if let Some(function) = function.filter(|_| is_source(file)) {
                own.insert(Fixed {
                    commit: commit.clone(),
                    subject: subject.clone(),
                    file: file.to_owned(),
                    function: Some(function),
                });
            }
        }
        if own.is_empty() {
            own.insert(Fixed {
                commit,
                subject,
                file: String::new(),
                function: None,
            });
        }
        all.extend(own);
    }
    Ok(all)
}

impl Range {
    /// Finds a range, such as `origin/master..`, in the repository of the current directory.
    pub fn new(range: Option<&str>) -> Result<Self> {
        let here = Path::new(".");
        let top = run(here, "rev-parse", &["--show-toplevel"])?;
        let top = top.strip_suffix(b"\n").unwrap_or(&top);
        let top = PathBuf::from(OsStr::from_bytes(top));
        let of = |name: &str| match name {
            "" => commit(&top, "HEAD"),
            name => commit(&top, name),
        };
        let merge_base = |one: &str, other: &str| {
            let args = [one, other].map(OsStr::new);
            let base = ask(&top, &args, "merge-base")?;
            let apart = || GitError::Apart(range.unwrap_or(UPSTREAM).to_owned());
            hash(base.ok_or_else(apart)?, "merge-base")
        };
        let (base, tip) = match range {
            None => match commit(&top, UPSTREAM) {
                Err(GitError::NoCommit(_)) => return Err(GitError::NoUpstream),
                base => (base?, of("")?),
            },
            Some(range) => {
                if let Some((base, tip)) = range.split_once("...") {
                    let (base, tip) = (of(base)?, of(tip)?);
                    (merge_base(&base, &tip)?, tip)
                } else if let Some((base, tip)) = range.split_once("..") {
                    (of(base)?, of(tip)?)
                } else if let Some(one) = range.strip_suffix("^!") {
                    (of(&format!("{one}^"))?, of(one)?)
                } else {
                    of(range)?;
                    return Err(GitError::NoRange(range.to_owned()));
                }
            }
        };
        let fork = merge_base(&base, &tip)?;
        let excluded = format!("^{base}");
        let list = ["--topo-order", "--reverse", &*tip, &*excluded, "--"];
        let list = run(&top, "rev-list", &list)?;
        let list = String::from_utf8_lossy(&list);
        let order = list.lines().zip(0..);
        Ok(Self {
            order: order.map(|(id, index)| (id.to_owned(), index)).collect(),
            top,
            base,
            tip,
            fork,
        })
    }

    /// Returns the names of all files at the end of the range.
    fn tree(&self) -> Result<BTreeSet<String>> {
        let output = run(
            &self.top,
            "ls-tree",
            &["-r", "-z", "--name-only", &self.tip],
        )?;
        let names = output.split(|byte| *byte == 0);
        let names = names
            .filter(|name| !name.is_empty())
            .map(String::from_utf8_lossy);
        Ok(names.map(|name| in_a_line(&name).into_owned()).collect())
    }

    /// Returns the names of the files that the range changes, except those that it removes.
    fn files(&self) -> Result<Vec<Vec<u8>>> {
        let args = [
            "-r",
            "-z",
            "--raw",
            "--no-renames",
            "--no-ext-diff",
            "--no-textconv",
            &self.fork,
            &self.tip,
            "--",
        ];
        let output = run(&self.top, "diff-tree", &args)?;
        let mut parts = output.split(|byte| *byte == 0);
        let mut names = Vec::new();
        while let (Some(modes), Some(name)) = (parts.next(), parts.next()) {
            // Not a link or another repository.
            if modes
                .split(|byte| *byte == b' ')
                .nth(1)
                .is_some_and(|mode| mode.starts_with(b"100"))
            {
                names.push(name.to_owned());
            }
        }
        Ok(names)
    }

    /// Returns the changes, and the files in coverage: only of these the lines are read. Lines that were
    /// moved, or whose white space was changed, are not new.
    pub fn patch<'c>(
        &self,
        places: &mut Places,
        coverage: &'c Coverage,
    ) -> Result<(Patch, Vec<Found<'c>>)> {
        places.dirs.push(self.top.clone());
        places.tree = self.tree()?;
        let names = self.files()?;
        let files = names.iter().map(|name| Changed {
            names: vec![String::from_utf8_lossy(name).into_owned()],
            lines: Vec::new(),
        });
        let mut files: Vec<_> = files.collect();
        let found = places.find(&files, coverage);
        let known = files.iter_mut().zip(&names).zip(&found);
        let known = known.filter(|(_, found)| matches!(found, Found::Known { .. }));
        let (mut known, names): (Vec<_>, Vec<_>) =
            known.map(|((file, name), _)| (file, &**name)).unzip();
        let blamed = self.blame_all(&names)?;
        let mut commits = vec![Commit::default(); self.order.len()];
        for (id, index) in &self.order {
            if let Some(commit) = commits.get_mut(*index) {
                commit.id = Some(id.clone());
            }
        }
        for (file, blamed) in known.iter_mut().zip(blamed) {
            file.lines = blamed.lines;
            for (index, subject) in blamed.subjects {
                if let Some(commit) = commits.get_mut(index) {
                    commit.subject = subject;
                }
            }
        }
        Ok((Patch { commits, files }, found))
    }

    /// Reads the new lines of files, several at once.
    fn blame_all(&self, files: &[&[u8]]) -> Result<Vec<Blamed>> {
        let threads = thread::available_parallelism().map_or(1, usize::from);
        // Takes the next file. The threads share nothing else that changes, except the result.
        let next = AtomicUsize::new(0);
        let done = Mutex::new(vec![Blamed::default(); files.len()]);
        let work = || -> Result<()> {
            while let Some((at, file)) = {
                let at = next.fetch_add(1, Ordering::Relaxed);
                files.get(at).map(|file| (at, file))
            } {
                let blamed = self.blame(file).inspect_err(|_| {
                    next.store(files.len(), Ordering::Relaxed);
                })?;
                let mut done = done.lock().unwrap_or_else(PoisonError::into_inner);
                if let Some(place) = done.get_mut(at) {
                    *place = blamed;
                }
            }
            Ok(())
        };
        thread::scope(|scope| {
            let all: Vec<_> = (0..threads.min(files.len()))
                .map(|_| scope.spawn(work))
                .collect();
            let ended = all.into_iter().map(|thread| thread.join());
            // A thread that panics has said so.
            ended.flatten().collect::<Result<Vec<()>>>()
        })?;
        Ok(done.into_inner().unwrap_or_else(PoisonError::into_inner))
    }

    fn blame(&self, file: &[u8]) -> Result<Blamed> {
        let range = format!("{}..{}", self.base, self.tip);
        let args = [
            "--porcelain",
            "-w",
            "-M",
            "-C",
            "--encoding=UTF-8",
            "--no-textconv",
            // None of the configuration.
            "--ignore-revs-file=",
            &range,
            "--",
        ];
        let mut args: Vec<&OsStr> = args.iter().map(OsStr::new).collect();
        args.push(OsStr::from_bytes(file));
        let output = ask(&self.top, &args, "blame")?;
        let blamed = output.and_then(|output| parse(&output, &self.order));
        blamed.ok_or(GitError::Output("blame"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OLD: &str = "0123456789012345678901234567890123456789";
    const NEW: &str = "abcdefabcdefabcdefabcdefabcdefabcdefabcd";

    fn blamed(text: &str) -> Option<Blamed> {
        let order = [(OLD.to_owned(), 0), (NEW.to_owned(), 1)].into();
        parse(text.as_bytes(), &order)
    }

    #[test]
    fn lines_of_commits() {
        let text = format!(
            "{OLD} 1 1 1\nauthor a\nsummary old\nboundary\nfilename a.c\n\told\n\
             {NEW} 5 2 2\nauthor boundary\nsummary \nfilename a.c\n\t{NEW} 1 1\n\
             {NEW} 6 3\n\tboundary\r\n{OLD} 2 4 1\n\told\n"
        );
        let blamed = blamed(&text).unwrap();
        assert_eq!(blamed.subjects[&1], "");
        let line = |number, text: &str| Line {
            number,
            text: text.to_owned(),
            commit: 1,
        };
        assert_eq!(
            blamed.lines,
            [line(2, &format!("{NEW} 1 1")), line(3, "boundary")]
        );
    }

    #[test]
    fn functions_of_hunks() {
        for (line, name) in [
            ("static int one(struct a *b, int (*c)(int))", "one"),
            ("two (void)", "two"),
            ("SYSCALL_DEFINE3(read, unsigned int, fd)", "__x64_sys_read"),
            ("    pub(crate) fn three<T>(&self)", "three"),
        ] {
            assert_eq!(function_of(line).as_deref(), Some(name));
        }
        assert!(function_of("struct four {").is_none() && function_of("(").is_none());
    }

    #[test]
    fn other_output() {
        assert!(blamed("").unwrap().lines.is_empty());
        for text in [
            "x",
            &format!("{NEW} 1\n\tx\n"),
            &format!("{NEW} 1 x\n\tx\n"),
            &format!("{NEW} 1 1\nauthor"),
        ] {
            assert!(blamed(text).is_none(), "{text:?}");
        }
    }
}
