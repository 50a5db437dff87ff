// SPDX-License-Identifier: GPL-2.0

//! The man pages and the completions that `make install-tools` installs.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use tempfile::TempDir;

use crate::common::ferrotrace;
use crate::common::stdout;
use crate::common::succeed;

fn manual() -> TempDir {
    let dir = TempDir::new().unwrap();
    succeed(ferrotrace().arg("manual").arg(dir.path()));
    dir
}

/// Returns the subcommands that a command's help lists.
fn subcommands(of: &[String]) -> Vec<String> {
    let help = stdout(&succeed(ferrotrace().args(of).arg("--help")));
    let lines = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    lines
        .take_while(|line| !line.is_empty())
        .filter_map(|line| line.split_ascii_whitespace().next())
        .filter(|name| *name != "help")
        .map(str::to_owned)
        .collect()
}

fn names(of: &[String], all: &mut BTreeSet<String>) {
    let whole: Vec<_> = ["ferrotrace".to_owned()]
        .into_iter()
        .chain(of.to_vec())
        .collect();
    all.insert(format!("{}.1", whole.join("-")));
    for name in subcommands(of) {
        names(&[of, &[name]].concat(), all);
    }
}

#[test]
fn every_command_has_a_page() {
    let dir = manual();
    let man = dir.path().join("man/man1");
    let mut expected = BTreeSet::new();
    names(&[], &mut expected);
    assert!(expected.contains("ferrotrace-kernel-relay-stat.1"));
    let found: BTreeSet<_> = fs::read_dir(&man)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    assert_eq!(found, expected);
    for name in &found {
        let text = fs::read_to_string(man.join(name)).unwrap();
        let parts = [".SH NAME", ".SH SYNOPSIS", ".SH DESCRIPTION"];
        let more = [
            ".SH EXAMPLES",
            ".SH \"EXIT STATUS\"",
            ".SH FILES",
            ".SH \"SEE ALSO\"",
        ];
        for part in parts.into_iter().chain(more) {
            assert!(text.contains(part), "{name}: {part}");
        }
    }
    let text = fs::read_to_string(man.join("ferrotrace-record.1")).unwrap();
    assert!(
        text.contains("watermark") && text.contains("ferrotrace record"),
        "{text}"
    );
    let text = fs::read_to_string(man.join("ferrotrace-doctor.1")).unwrap();
    assert!(
        text.contains("exit status") && !text.contains("root DIR"),
        "{text}"
    );
}

#[test]
fn a_shell_completes() {
    let dir = manual();
    let file = dir.path().join("bash-completion/completions/ferrotrace");
    let complete = |words: &str, last: &str| {
        let script = format!(
            "source {}; COMP_WORDS=({words} {last}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); \
             _ferrotrace ferrotrace {last} x; echo \"${{COMPREPLY[@]}}\"",
            file.display()
        );
        stdout(&succeed(Command::new("bash").args(["-c", &script])))
    };
    assert_eq!(complete("ferrotrace", "rec"), "record recover\n");
    assert_eq!(complete("ferrotrace kernel relay", "st"), "stat\n");
    assert_eq!(complete("ferrotrace export", "--form"), "--format\n");
    assert!(!complete("ferrotrace", "''").contains("run-command"));
    for file in [
        "zsh/site-functions/_ferrotrace",
        "fish/vendor_completions.d/ferrotrace.fish",
    ] {
        let text = fs::read_to_string(Path::new(dir.path()).join(file)).unwrap();
        assert!(text.contains("watermark"), "{file}");
    }
}
