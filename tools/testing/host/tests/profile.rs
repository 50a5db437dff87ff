// SPDX-License-Identifier: GPL-2.0

//! The profiles that we write from sections in memory, against the profiles of LLVM's own runtime.
//!
//! `GCOV_COMPILERS` names the directory with the compilers that `gcov/compilers.sh` has fetched;
//! their tools then read ours.

use ferro_gcov_core::Profile;
use ferro_gcov_core::ProfileRefusal;
use ferro_gcov_core::merge_profiles;
use ferro_host::gcov::Record;
use ferro_host::gcov::compilers;
use ferro_host::gcov::recorded;
use std::fs;
use std::path::Path;
use std::process::Command;

const HEADER: usize = 16 * 8;
const RECORD: usize = 64;

fn written(record: &Record) -> Vec<u8> {
    let profile = Profile::check(record, record.profile_version, record.profile);
    let profile = profile.unwrap_or_else(|refusal| panic!("{refusal}"));
    let mut bytes = vec![0xaa; profile.file_len()];
    let len = profile.write(record, &mut bytes).unwrap();
    assert_eq!(len, bytes.len());
    bytes
}

/// Returns a profile of the runtime without the parts that ours leaves out: build ids, and
/// addresses.
fn without_addresses(profile: &[u8]) -> Vec<u8> {
    let mut profile = profile.to_vec();
    let word = |profile: &[u8], index: usize| {
        u64::from_le_bytes(profile[index * 8..][..8].try_into().unwrap()) as usize
    };
    let ids = word(&profile, 2);
    profile.drain(HEADER..HEADER + ids);
    let mut zeros = vec![(2 * 8, 8), (12 * 8, 8)];
    if word(&profile, 7) == 0 {
        zeros.push((11 * 8, 8));
    }
    for record in 0..word(&profile, 3) {
        zeros.push((HEADER + record * RECORD + 32, 16));
    }
    for (at, len) in zeros {
        profile[at..at + len].fill(0);
    }
    profile
}

fn check(path: &Path) -> Record {
    let record = Record::read(path);
    let theirs = |run: &str| without_addresses(&record.files[&format!("{run}/default.profraw")]);
    let ours = written(&record);
    assert!(ours == theirs("first"), "{}", path.display());

    let second = theirs("second");
    let mut merged = ours.clone();
    merge_profiles(&mut merged, &second).unwrap();
    let start = HEADER + record.profile.data.len;
    let end = start + record.profile.counters.len;
    for at in (start..end).step_by(8) {
        let [a, b, sum] = [&ours, &second, &merged]
            .map(|profile| u64::from_le_bytes(profile[at..at + 8].try_into().unwrap()));
        assert_eq!(sum, a + b);
    }
    let mut more = ours.clone();
    more[HEADER] ^= 1;
    assert!(merge_profiles(&mut more, &second).is_err());
    record
}

#[test]
fn llvm_writes_the_same() {
    for name in ["profile-19", "profile-21", "profile-22", "profile-rust"] {
        let record = check(&recorded().join(name));
        assert!(record.profile.data.len >= 4 * RECORD);
        assert_eq!(record.profile.bits.len != 0, name != "profile-rust");
    }
}

#[test]
fn another_version_is_refused() {
    let record = Record::read(&recorded().join("profile-23"));
    let refused = Profile::check(&record, record.profile_version, record.profile);
    assert_eq!(refused, Err(ProfileRefusal::Version(11)));
}

/// Runs a tool of LLVM in a directory. Returns its output.
fn run(tool: &Path, directory: &Path, arguments: &[&str]) -> String {
    let output = Command::new(tool)
        .args(arguments)
        .current_dir(directory)
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// Returns the reports of the tools on a profile: lines, and branches.
fn report(tools: [&Path; 2], directory: &Path, profile: &[u8]) -> String {
    fs::write(directory.join("ours.profraw"), profile).unwrap();
    let [profdata, cov] = tools;
    run(
        profdata,
        directory,
        &["merge", "-o", "ours.profdata", "ours.profraw"],
    );
    run(
        cov,
        directory,
        &[
            "show",
            "-show-branches=count",
            "-instr-profile=ours.profdata",
            "program",
        ],
    ) + &run(
        profdata,
        directory,
        &["show", "--all-functions", "--counts", "ours.profdata"],
    )
}

#[test]
#[ignore = "needs a directory of compilers in GCOV_COMPILERS"]
fn tools_read_ours() {
    let Some(directory) = compilers() else {
        return;
    };
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("gcov/record.sh");
    let mut checked = Vec::new();
    for version in 19..23 {
        let clang = directory.join(format!("clang-{version}"));
        if !clang.exists() {
            continue;
        }
        let tools =
            ["llvm-profdata", "llvm-cov"].map(|tool| directory.join(format!("{tool}-{version}")));
        for (kind, last) in [("profile", "-fcoverage-mcdc"), ("rust", "rustc")] {
            // rustc has the LLVM of one of them.
            if kind == "rust" && version != 22 {
                continue;
            }
            let place = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{kind}-{version}"));
            let _ = fs::remove_dir_all(&place);
            let status = Command::new(&script)
                .args([Path::new(kind), &place, &clang, Path::new(last)])
                .status()
                .unwrap();
            assert!(status.success());
            let record = check(&place.join("record"));
            let tools = || [tools[0].as_path(), &tools[1]];
            let theirs = report(tools(), &place, &record.files["first/default.profraw"]);
            assert_eq!(report(tools(), &place, &written(&record)), theirs);
            assert!(theirs.contains("|      0|"), "{theirs}");
            checked.push((kind, version));
        }
    }
    println!("{checked:?}");
    assert!(!checked.is_empty());
}
