// SPDX-License-Identifier: GPL-2.0

//! Runs of live coverage of many hosts, with a program in place of the kernel.

use std::fs;
use std::path::Path;
use std::path::PathBuf;
use std::process::Command;

use ferrotrace::cov::live::functions::Found;
use ferrotrace::cov::live::functions::Selection;
use ferrotrace::cov::live::functions::find;
use ferrotrace::cov::live::run::Run;
use ferrotrace::cov::live::run::Text;
use ferrotrace::cov::live::text;
use ferrotrace::cov::live::text::Image;
use serde_json::Value;
use tempfile::TempDir;

use super::cov;
use super::has;
use crate::common::fail;
use crate::common::readers::python;
use crate::common::stdout;
use crate::common::succeed;

pub const KERNEL: &str = r#"
asm(".globl _text\n_text: int3");

int every(int n)
{
	if (n > 3)
		asm volatile("test %eax, %eax");
	return n + 1;
}

int single(int n)
{
	return every(n) - 1;
}

int never(int n)
{
	return n ^ 5;
}

#ifdef COLD
int part(int n) __asm__("single.cold");
int part(int n) { return n ^ 7; }
#endif

void last(void) { }
"#;

/// Runs, and the program.
pub struct Fleet {
    pub dir: TempDir,
    found: Found,
    build_id: String,
}

impl Fleet {
    pub fn new(options: &[&str]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("kernel.c"), KERNEL).unwrap();
        let mut gcc = Command::new("gcc");
        gcc.args("-O1 -fno-toplevel-reorder -fcf-protection=none -nostdlib -static".split(' '));
        gcc.args([
            "-fno-inline",
            "-Wl,--build-id=sha1,-e,0,--defsym=_etext=last",
        ]);
        gcc.args(options).args(["kernel.c", "-o", "vmlinux"]);
        succeed(gcc.current_dir(dir.path()));
        let (image, build_id, symbols) = Image::of_file(&dir.path().join("vmlinux")).unwrap();
        let code = text::Text::image(image);
        Self {
            found: find(&symbols, &code, &Selection::default()).unwrap(),
            build_id: build_id
                .unwrap()
                .iter()
                .map(|byte| format!("{byte:02x}"))
                .collect(),
            dir,
        }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Saves a run that has executed these functions, or a block of one.
    pub fn run(&self, host: &str, executed: &[(&str, Option<usize>)]) -> PathBuf {
        let start = self.found.text.unwrap();
        let offset = |address: u64| u32::try_from(address - start).unwrap();
        let functions = self.found.functions.iter();
        let blocks =
            functions.flat_map(|one| one.blocks.iter().enumerate().map(move |at| (one, at)));
        let is_executed = |name: &str, block| {
            let mut all = executed.iter();
            all.any(|(one, at)| *one == name && at.is_none_or(|at| at == block))
        };
        let mut text = Text {
            build_id: self.build_id.clone(),
            ..Text::default()
        };
        for (function, (at, block)) in blocks {
            let range = offset(block.range.start)..offset(block.range.end);
            text.watched.push(range.clone());
            if is_executed(&function.name, at) {
                text.executed.push(range);
            }
        }
        let run = Run {
            host: host.to_owned(),
            boot_id: "b007/1".to_owned(),
            release: "7.3.4".to_owned(),
            time: 1_700_000_000..1_700_000_060,
            texts: vec![text],
        };
        let path = self.path(&format!("run-{}", host.replace('/', "_")));
        fs::write(&path, run.bytes().unwrap()).unwrap();
        path
    }

    /// Saves the runs of 20 hosts: odd ones execute another branch, and one another function.
    fn runs(&self) -> Vec<PathBuf> {
        let runs = (0..20).map(|host| {
            let mut executed = vec![("every", Some(0)), ("every", Some(1 + host % 2))];
            if host == 7 {
                executed.push(("single", None));
            }
            self.run(&format!("host{host}"), &executed)
        });
        runs.collect()
    }

    pub fn merge(&self, args: &[&str], runs: &[PathBuf]) -> Command {
        let mut command = cov(&["merge"]);
        command
            .args(runs)
            .arg("--vmlinux")
            .arg(self.path("vmlinux"))
            .args(args);
        command
    }
}

#[test]
fn reports() {
    let fleet = Fleet::new(&["-g"]);
    let runs = fleet.runs();
    let report = |args: &[&str]| stdout(&succeed(&mut fleet.merge(args, &runs)));
    let text = report(&[]);
    has(
        &text,
        &[
            &format!("20 runs of 20 hosts, 7.3.4, build ID {}\n", fleet.build_id),
            "3/3  100.0%  every\n",
            "1/1  100.0%  single\n",
            "functions 66.6% (2/3)",
        ],
    );
    has(&report(&["--missed"]), &["0/1  0.0%  never\n"]);
    has(&report(&["--lines"]), &["20 hosts", "kernel.c"]);
    has(
        &report(&["--lcov", "-"]),
        &["FNDA:1,single", "FNDA:0,never", "DA:18,0\n", "DA:7,1\n"],
    );
    let json: Value = serde_json::from_str(&report(&["--json"])).unwrap();
    assert_eq!(
        (&json["hosts"], &json["summary"]["functions"]["executed"]),
        (&20.into(), &2.into())
    );
    let one = stdout(&succeed(&mut fleet.merge(&[], &runs[..1])));
    has(&one, &["1 run of 1 host, 7.3.4"]);
    let one = stdout(&succeed(&mut fleet.merge(&["--lcov", "-"], &runs[..1])));
    has(&one, &["FNDA:0,single"]);
}

/// Saves the runs of two hosts with a module. They have watched one of its functions both.
fn runs_of_module(fleet: &Fleet) -> Vec<PathBuf> {
    let hosts = [
        ("one", vec![0..9, 16..20], 0..2),
        ("two", vec![16..20], 16..20),
    ];
    let runs = hosts.into_iter().map(|(host, watched, executed)| {
        let path = fleet.run(host, &[("every", None)]);
        let mut run = Run::read(&path).unwrap();
        let first = if host == "one" { 0 } else { 1 };
        let functions = [("load".to_owned(), 2), ("store".to_owned(), 1)];
        run.texts.push(Text {
            module: Some("ext9".to_owned()),
            build_id: "ab".to_owned(),
            functions: functions[first..].to_vec(),
            blocks: [0..4, 4..9, 16..20][first * 2..].to_vec(),
            watched,
            executed: vec![executed],
        });
        fs::write(&path, run.bytes().unwrap()).unwrap();
        path
    });
    runs.collect()
}

#[test]
fn functions_of_modules() {
    let fleet = Fleet::new(&["-g"]);
    let runs = runs_of_module(&fleet);
    let text = stdout(&succeed(&mut fleet.merge(&[], &runs)));
    has(
        &text,
        &[
            "1/2   50.0%  load [ext9]\n",
            "1/1  100.0%  store [ext9]\n",
            "functions 60.0% (3/5)",
        ],
    );
    let lines = fleet.merge(&["--lines"], &runs).output().unwrap();
    has(
        &String::from_utf8_lossy(&lines.stderr),
        &["no source lines"],
    );
}

#[test]
fn runs_that_do_not_fit() {
    let (fleet, other) = (Fleet::new(&["-g"]), Fleet::new(&["-O0"]));
    let runs = [
        fleet.run("one", &[("every", None)]),
        other.run("two", &[("never", None)]),
    ];
    has(
        &fail(&mut fleet.merge(&[], &runs)),
        &["several images", &fleet.build_id, &other.build_id],
    );
    has(
        &fail(&mut fleet.merge(&[], &runs[1..])),
        &["no image has the build ID", &other.build_id],
    );
    has(
        &fail(cov(&["merge", "--lines"]).arg(&runs[0])),
        &["--vmlinux FILE"],
    );
    let damaged = fleet.path("damaged");
    let bytes = fs::read(&runs[0]).unwrap();
    for bytes in [&b"other"[..], b"", &bytes[..bytes.len() - 3]] {
        fs::write(&damaged, bytes).unwrap();
        let message = fail(cov(&["merge"]).arg(&damaged));
        has(&message, &["damaged: cannot be used"]);
    }
    // Tables have runs of several images, and images without lines.
    let tables = fleet.path("tables");
    let mut command = fleet.merge(&["--parquet"], &runs);
    succeed(
        command
            .arg(&tables)
            .arg("--vmlinux")
            .arg(other.path("vmlinux")),
    );
    for (fleet, host) in [(&fleet, "one"), (&other, "two")] {
        let path = format!(
            "build_id={}/host={host}/date=2023-11-14/b007%2F1-1700000000.parquet",
            fleet.build_id
        );
        let bytes = fs::read(tables.join(path)).unwrap();
        assert!(bytes.starts_with(b"PAR1") && bytes.ends_with(b"PAR1"));
    }
    // A name is never a path, and no time is too late.
    let tables = fleet.path("more");
    let path = fleet.run("../x", &[]);
    let mut run = Run::read(&path).unwrap();
    run.time.start = u64::MAX;
    fs::write(&path, run.bytes().unwrap()).unwrap();
    succeed(fleet.merge(&["--parquet"], &[path]).arg(&tables));
    let below = format!("build_id={}/host=..%2Fx/date=9999-12-31", fleet.build_id);
    assert!(tables.join(below).is_dir());
}

#[test]
fn fixes_of_executed_functions() {
    let fleet = Fleet::new(&["-g"]);
    let runs = fleet.runs();
    let git = |args: &[&str]| {
        let mut git = Command::new("git");
        git.args(["-c", "user.name=a", "-c", "user.email=a@b"])
            .args(args);
        stdout(&succeed(git.current_dir(fleet.dir.path())))
    };
    let (source, list) = (fleet.path("kernel.c"), fleet.path("fixes"));
    git(&["init", "-q"]);
    fs::write(fleet.path(".gitattributes"), "*.c diff=cpp\n").unwrap();
    git(&["add", ".gitattributes", "kernel.c"]);
    git(&["commit", "-qm", "begin"]);
    let mut hashes = "# fixes\n".to_owned();
    let mut text = KERNEL.to_owned() + "\nint other(void)\n{\n\treturn 2;\n}\n";
    for (old, new) in [("- 1", "- 2"), ("^ 5", "^ 6"), ("return 2", "return 3")] {
        fs::write(&source, &text).unwrap();
        git(&["commit", "-qam", "before", "--allow-empty"]);
        text = text.replace(old, new);
        fs::write(&source, &text).unwrap();
        git(&["commit", "-qam", &format!("fix {new}")]);
        hashes += &git(&["log", "-1", "--format=%h %s"]);
    }
    for value in ["1", "2"] {
        let text = format!("int every(int n)\n{{\n\treturn {value};\n}}\n");
        fs::write(fleet.path("other.c"), text).unwrap();
        git(&["add", "other.c"]);
        git(&["commit", "-qm", "another file"]);
    }
    hashes += &git(&["log", "-1", "--format=%h %s"]);
    fs::write(&list, hashes).unwrap();
    let exposed = |args: &[&str]| {
        let mut command = cov(&["exposed", "--repo"]);
        command
            .arg(fleet.dir.path())
            .arg("--fixes")
            .arg(&list)
            .args(&runs);
        command
            .arg("--vmlinux")
            .arg(fleet.path("vmlinux"))
            .args(args);
        command
    };
    let text = stdout(&succeed(&mut exposed(&[])));
    // The name of a function that the image has, in another file.
    has(&text, &["no code", "every: another file"]);
    // In the order of the list.
    let mut rows = text.lines().skip(1);
    for (count, end) in [
        ("1/20 ", "single: fix - 2"),
        ("0/20 ", "never: fix ^ 6"),
        ("no code ", "other: fix return 3"),
    ] {
        has(rows.next().unwrap(), &[count, end]);
    }
    has(&text, &["fixes with an executed function: 1 of 4\n"]);
    let json: Value = serde_json::from_slice(&succeed(&mut exposed(&["--json"])).stdout).unwrap();
    let single = json
        .as_array()
        .unwrap()
        .iter()
        .find(|one| one["function"] == "single");
    assert_eq!(single.unwrap()["executed"], serde_json::json!(["host7"]));
    fs::write(&list, "none\n").unwrap();
    has(&fail(&mut exposed(&[])), &["no such commit"]);
}

/// Returns the rows of a query that the document has after a comment.
fn ask(tables: &Path, question: &str) -> String {
    let text = fs::read_to_string(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../Documentation/live-coverage.rst"
    ));
    let text = text.unwrap();
    let view = text
        .split_once("CREATE VIEW")
        .unwrap()
        .1
        .split_once(';')
        .unwrap()
        .0;
    let view = view.replace("tables/", &format!("{}/", tables.display()));
    let query = text.split_once(question).unwrap().1;
    let query = query.split_once('\n').unwrap().1.split_once(';').unwrap().0;
    python(
        "import duckdb, sys\nfor row in duckdb.sql(sys.argv[1]).fetchall(): print(*row)",
        &[&format!("CREATE VIEW{view}; {query}")],
    )
}

#[test]
#[ignore = "needs the readers that make setup installs"]
fn duckdb_asks_twenty_hosts() {
    for options in [&["-g"][..], &["-g0"]] {
        let fleet = Fleet::new(options);
        let tables = fleet.path("tables");
        succeed(fleet.merge(&["--parquet"], &fleet.runs()).arg(&tables));
        let ask = |question| ask(&tables, question);
        assert_eq!(
            ask("-- hosts that watched each function, and those that executed it"),
            "every 20 20\nnever 20 0\nsingle 20 1\n"
        );
        assert_eq!(ask("-- functions that no host has executed"), "never\n");
        assert_eq!(
            ask("-- functions that only one host executes"),
            "single host7\n"
        );
        let lines = ask("-- lines that no host has executed");
        let lines: Vec<_> = lines
            .lines()
            .map(|line| line.rsplit_once(' ').unwrap())
            .collect();
        if options == ["-g"] {
            assert!(
                lines.iter().all(|(file, _)| file.ends_with("kernel.c")),
                "{lines:?}"
            );
            let numbers: Vec<_> = lines.iter().map(|(_, number)| *number).collect();
            assert_eq!(numbers, ["17", "18"]);
        } else {
            assert!(lines.is_empty());
        }
    }
}

#[test]
#[ignore = "needs the readers that make setup installs"]
fn duckdb_asks_about_modules() {
    for options in [&["-g"][..], &["-g0"]] {
        let fleet = Fleet::new(options);
        let tables = fleet.path("tables");
        let mut merge = fleet.merge(&["--parquet"], &runs_of_module(&fleet));
        succeed(merge.arg(&tables));
        assert_eq!(
            ask(
                &tables,
                "-- hosts that watched each function, and those that executed it"
            ),
            "every 2 2\nload 1 1\nnever 2 0\nsingle 2 0\nstore 2 1\n"
        );
        let rows = python(
            "import duckdb, sys\n\
             for row in duckdb.sql(sys.argv[1]).fetchall(): print(*row)",
            &[&format!(
                "SELECT function, module, file, line, \"offset\", hit \
                 FROM '{}/**/*.parquet' WHERE module = 'ext9' AND host = 'one' ORDER BY ALL",
                tables.display()
            )],
        );
        assert_eq!(
            rows,
            "load ext9 None None 0 True\nload ext9 None None 4 False\n\
             store ext9 None None 0 False\n"
        );
    }
}
