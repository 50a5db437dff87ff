// SPDX-License-Identifier: GPL-2.0

//! Compares the files that we write from memory, and that we merge, with the files of the
//! compilers' own runtimes.
//!
//! The data are records of all compilers (`gcov/recorded`), and the output of this machine's GCC.
//! `GCOV_COMPILERS` names the directory with the compilers that `gcov/compilers.sh` has fetched,
//! for the same with each of them.

use ferro_gcov_core::Gcda;
use ferro_gcov_core::Identity;
use ferro_gcov_core::Info;
use ferro_gcov_core::Kind;
use ferro_gcov_core::LlvmFile;
use ferro_gcov_core::Version;
use ferro_gcov_core::merge;
use ferro_host::gcov::Llvm;
use ferro_host::gcov::Record;
use ferro_host::gcov::compilers;
use ferro_host::gcov::recorded;
use std::fs;
use std::path::Path;
use std::path::PathBuf;
use std::process::Command;

/// The infos of a record, with the names of their files.
fn infos(record: &Record) -> Vec<(String, Info)> {
    let named = |address: &u64| {
        let info = Info::check(record, *address).unwrap_or_else(|refusal| panic!("{refusal}"));
        let mut name = [0; 256];
        let name = info.name(record, &mut name).unwrap().unwrap();
        let name = Path::new(std::str::from_utf8(name).unwrap());
        let name = name.file_name().unwrap().to_str().unwrap().to_string();
        (name, info)
    };
    record.infos.iter().map(named).collect()
}

fn written(record: &Record, info: &Info) -> Vec<u8> {
    let mut bytes = vec![0xaa; info.max_len()];
    let len = info.write(record, &mut bytes).unwrap();
    bytes.truncate(len);
    bytes
}

/// A file without the summary, which follows the header.
fn without_summary(file: &[u8]) -> Vec<u8> {
    const TAG: [u8; 4] = [0, 0, 0, 0xa1];
    let at = [12, 16].into_iter().find(|at| file[*at..at + 4] == TAG);
    let at = at.expect("the runtime writes a summary");
    [&file[..at], &file[at + 16..]].concat()
}

/// Content of a file: for each function, its counters by index.
type Said = Vec<(Option<Identity>, Vec<(u8, Vec<u64>)>)>;

/// Reads a file. `lists` transforms the counters of lists.
fn said(file: &[u8], lists: impl Fn(Vec<u64>) -> Vec<u64>) -> Said {
    let file = Gcda::parse(file).unwrap_or_else(|error| panic!("{error}"));
    let functions = file.functions().map(|function| {
        let sets = function.sets().map(|set| {
            let values = set.values().collect();
            let values = match set.kind {
                Kind::TopList => lists(values),
                _ => values,
            };
            (set.index, values)
        });
        (function.identity, sets.collect())
    });
    functions.collect()
}

/// Lists with totals alone, as we write them.
fn emptied(mut rest: Vec<u64>) -> Vec<u64> {
    let mut lists = Vec::new();
    while !rest.is_empty() {
        lists.extend([rest[0], 0]);
        rest.drain(..2 + 2 * rest[1] as usize);
    }
    lists
}

/// Compares the files of a record with ours.
fn check(path: &Path, has_lists: bool) {
    let record = Record::read(path);
    assert_eq!(record.infos.len(), 2);
    for (name, info) in infos(&record) {
        let place = format!("{} {name}", path.display());
        let (ours, theirs) = (
            written(&record, &info),
            &record.files[&format!("first/{name}")],
        );
        match has_lists {
            true => assert_eq!(said(&ours, |list| list), said(theirs, emptied), "{place}"),
            false => assert_eq!(ours, without_summary(theirs), "{place}"),
        }

        // The runtime had its own counters, and merged the counters of the file that it found.
        let [first, second, both] = ["first", "second", "both"].map(|run| {
            let file = &record.files[&format!("{run}/{name}")];
            Gcda::parse(file).unwrap()
        });
        let mut merged = vec![0; record.files[&format!("first/{name}")].len() * 2];
        let len = merge(&second, &first, &mut merged).unwrap_or_else(|error| panic!("{error}"));
        merged.truncate(len);
        assert_eq!(merged, record.files[&format!("both/{name}")], "{place}");
        assert_eq!(both.summary().unwrap().runs, 2);
    }
}

/// Returns the recorded files with a prefix in their names, and the rest of each name.
fn recorded_by(prefix: &str) -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(recorded()).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        if let Some(rest) = name.strip_prefix(prefix) {
            let rest = rest.to_string();
            found.push((path, rest));
        }
    }
    found
}

#[test]
fn gcc_writes_the_same() {
    let records = recorded_by("gcc-");
    assert_eq!(records.len(), 16);
    for (path, name) in records {
        let kinds = name.strip_suffix("-kinds");
        let version: u32 = kinds.unwrap_or(&name).parse().unwrap();
        check(&path, version >= 11 && kinds.is_some());
    }
}

/// Compares a record of files of LLVM with ours.
fn check_llvm(path: &Path) -> Record {
    let record = Record::read(path);
    assert_eq!(record.llvm.len(), 2);
    for file in &record.llvm {
        let place = format!("{} {}", path.display(), file.name);
        let ours = written_llvm(&record, file);
        let theirs = |run| &record.files[&format!("{run}/{}", file.name)];
        assert_eq!(ours, *theirs("first"), "{place}");

        let mut merged = vec![0; ours.len() * 2];
        let [first, second] = ["first", "second"].map(|run| Gcda::parse(theirs(run)).unwrap());
        let len = merge(&second, &first, &mut merged).unwrap();
        let both = said(theirs("both"), |list| list);
        assert_eq!(said(&merged[..len], |list| list), both, "{place}");
    }
    record
}

fn written_llvm(record: &Record, file: &Llvm) -> Vec<u8> {
    let (version, checksum, functions) = (file.version, file.checksum, &file.functions);
    let checked = LlvmFile::check(record, version, checksum, functions);
    let checked = checked.unwrap_or_else(|refusal| panic!("{refusal}"));
    let mut bytes = vec![0xaa; checked.max_len()];
    let len = checked.write(record, functions, &mut bytes).unwrap();
    bytes.truncate(len);
    bytes
}

#[test]
fn llvm_writes_the_same() {
    let records = recorded_by("llvm-");
    assert_eq!(records.len(), 7);
    for (path, name) in records {
        let record = check_llvm(&path);
        let version = Version::new(record.llvm[0].version).to_string();
        let expected = match name.parse::<u32>().unwrap() {
            ..20 => "408*",
            _ => "B11*",
        };
        assert_eq!(version, expected);
    }
}

/// Returns the report of `gcov` on the source, with the files of a directory.
fn report(mut gcov: Command, directory: &Path) -> String {
    let status = gcov
        .args(["--branch-probabilities", "program.c"])
        .current_dir(directory)
        .output()
        .unwrap();
    assert!(status.status.success(), "{status:?}");
    let report = fs::read_to_string(directory.join("program.c.gcov")).unwrap();
    let lines = report.lines().filter(|line| !line.contains("0:Runs:"));
    lines.collect::<Vec<_>>().join("\n")
}

/// Runs `record.sh`. Returns the directory, where the notes are.
fn record_now(kind: &str, name: &str, compiler: &Path, options: &[&str]) -> PathBuf {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&directory);
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("gcov/record.sh");
    let status = Command::new(script)
        .args([Path::new(kind), &directory, compiler])
        .args(options)
        .status()
        .unwrap();
    assert!(status.success());
    directory
}

/// Compiles, runs and compares now.
fn check_now(name: &str, gcc: &Path, gcov: &Path, version: u32) {
    let mut options = vec![
        vec![],
        vec!["-fprofile-values"],
        vec!["-fprofile-update=atomic"],
    ];
    if version >= 14 {
        options[1].push("-fcondition-coverage");
    }
    if version >= 15 {
        options[1].push("-fpath-coverage");
    }
    for (run, options) in options.into_iter().enumerate() {
        let directory = record_now("gcc", &format!("{name}-{run}"), gcc, &options);
        check(&directory.join("record"), version >= 11 && run == 1);

        let record = Record::read(&directory.join("record"));
        let data = directory.join("program.gcda");
        fs::write(&data, &record.files["first/program.gcda"]).unwrap();
        let gcov = || Command::new(gcov);
        let theirs = report(gcov(), &directory);
        let (_, info) = infos(&record)
            .into_iter()
            .find(|(name, _)| name == "program.gcda")
            .unwrap();
        fs::write(&data, written(&record, &info)).unwrap();
        assert_eq!(report(gcov(), &directory), theirs, "{}", gcc.display());
        assert!(theirs.contains("#####:"));
    }
}

#[test]
fn this_machines_gcc_writes_the_same() {
    let version = Command::new("gcc").arg("-dumpversion").output().unwrap();
    let version = String::from_utf8(version.stdout).unwrap();
    let version = version.trim().split('.').next().unwrap().parse().unwrap();
    check_now("gcc", Path::new("gcc"), Path::new("gcov"), version);
}

#[test]
#[ignore = "needs a directory of compilers in GCOV_COMPILERS"]
fn every_llvm_writes_the_same() {
    let Some(directory) = compilers() else {
        return;
    };
    let mut checked = Vec::new();
    for version in 9..30 {
        let clang = directory.join(format!("clang-{version}"));
        if !clang.exists() {
            continue;
        }
        let place = record_now("llvm", &format!("llvm-{version}"), &clang, &[]);
        let record = check_llvm(&place.join("record"));
        let llvm_cov = || {
            let mut command = Command::new(directory.join(format!("llvm-cov-{version}")));
            command.arg("gcov");
            command
        };
        let data = place.join("program.gcda");
        fs::write(&data, &record.files["first/program.gcda"]).unwrap();
        let theirs = report(llvm_cov(), &place);
        fs::write(&data, written_llvm(&record, &record.llvm[0])).unwrap();
        assert_eq!(report(llvm_cov(), &place), theirs, "{version}");
        assert!(theirs.contains("#####:"));
        checked.push(version);
    }
    println!("LLVM {checked:?}");
    assert!(!checked.is_empty());
}

#[test]
#[ignore = "needs a directory of compilers in GCOV_COMPILERS"]
fn every_gcc_writes_the_same() {
    let Some(directory) = compilers() else {
        return;
    };
    let mut checked = Vec::new();
    for version in 8..20 {
        let gcc = directory.join(format!("gcc-{version}"));
        if gcc.exists() {
            let gcov = directory.join(format!("gcov-{version}"));
            check_now(&format!("gcc-{version}"), &gcc, &gcov, version);
            checked.push(version);
        }
    }
    println!("GCC {checked:?}");
    assert!(!checked.is_empty());
}
