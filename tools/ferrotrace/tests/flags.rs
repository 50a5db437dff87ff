// SPDX-License-Identifier: GPL-2.0

//! All commands agree on options: one name for one thing, one thing for a name, and related options
//! together.
//!
//!
//! The tests read the command line from `--help`, as a user does.

use std::collections::BTreeMap;
use std::collections::BTreeSet;

use crate::common::ferrotrace;
use crate::common::stderr;
use crate::common::stdout;
use crate::common::succeed;

/// An option of a command.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Flag {
    short: Option<char>,
    long: String,
    /// Name of its value.
    value: Option<String>,
}

type Commands = BTreeMap<String, Vec<Flag>>;

/// Parses a line of help for an option: spaces, then `-d, --duration <TIME>` or `--json`.
fn flag(line: &str) -> Option<Flag> {
    let text = line.trim_start();
    // Explanations below an option have more space before them.
    if !(2..=6).contains(&(line.len() - text.len())) {
        return None;
    }
    let (short, text) = match text.strip_prefix("--") {
        Some(_) => (None, text),
        None => {
            let (short, text) = text.strip_prefix('-')?.split_once(", ")?;
            (short.chars().next(), text)
        }
    };
    let mut words = text.strip_prefix("--")?.split_ascii_whitespace();
    let first = words.next()?;
    let (long, optional) = first.split_once("[=").unwrap_or((first, ""));
    let of_value = |word: &str| {
        word.starts_with('<')
            .then(|| word.trim_matches(['<', '>', ']']).to_owned())
    };
    Some(Flag {
        short,
        long: long.to_owned(),
        value: of_value(optional).or_else(|| of_value(words.next()?)),
    })
}

fn add(of: &[String], all: &mut Commands) {
    let help = stdout(&succeed(ferrotrace().args(of).arg("--help")));
    let commands = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let commands = commands.take_while(|line| !line.is_empty());
    let names: Vec<_> = commands
        .filter_map(|line| line.split_ascii_whitespace().next())
        .filter(|name| *name != "help")
        .collect();
    if names.is_empty() {
        let flags = help.lines().filter_map(flag);
        let flags = flags.filter(|flag| !["help", "version"].contains(&&*flag.long));
        all.insert(of.join(" "), flags.collect());
    }
    for name in names {
        add(&[of, &[name.to_owned()]].concat(), all);
    }
}

fn commands() -> Commands {
    let mut all = Commands::new();
    add(&[], &mut all);
    assert!(all.len() > 20, "{:?}", all.keys());
    all
}

#[test]
fn one_name_for_one_thing() {
    // DProbes keeps the options of version 5.
    let all = commands();
    let others = all
        .iter()
        .filter(|(name, _)| !name.starts_with("kernel dprobes"));
    let mut shorts = BTreeMap::<String, BTreeMap<Option<char>, Vec<String>>>::new();
    let mut longs = BTreeMap::<char, BTreeMap<String, Vec<String>>>::new();
    for (name, flags) in others {
        for flag in flags {
            let of_long = shorts.entry(flag.long.clone()).or_default();
            of_long.entry(flag.short).or_default().push(name.clone());
            if let Some(short) = flag.short {
                let of_short = longs.entry(short).or_default();
                of_short
                    .entry(flag.long.clone())
                    .or_default()
                    .push(name.clone());
            }
        }
    }
    // -n is a number of hits, or of records; -b of klog is an old letter.
    if let Some(of_short) = longs.get_mut(&'n') {
        of_short.remove("limit");
    }
    if let Some(of_long) = shorts.get_mut("subbuf-size") {
        of_long.remove(&Some('b'));
    }
    shorts.retain(|_, of_long| of_long.len() > 1);
    longs.retain(|_, of_short| of_short.len() > 1);
    assert!(
        shorts.is_empty() && longs.is_empty(),
        "{shorts:#?} {longs:#?}"
    );
}

/// Returns the commands with an option.
fn with<'a>(all: &'a Commands, long: &str) -> BTreeSet<&'a str> {
    let having = all
        .iter()
        .filter(|(_, flags)| flags.iter().any(|flag| flag.long == long));
    having.map(|(name, _)| name.as_str()).collect()
}

#[test]
fn options_are_where_they_belong() {
    let all = commands();
    let has = |long: &str, names: &[&str]| {
        let missing: Vec<_> = names
            .iter()
            .filter(|name| !with(&all, long).contains(*name))
            .collect();
        assert!(
            missing.is_empty(),
            "--{long} is not an option of {missing:?}"
        );
    };
    let live = [
        "watch",
        "count",
        "time",
        "stack",
        "kernel hooks watch",
        "kernel dprobes watch",
    ];
    let recording = ["record", "kernel klog"];
    let showing = [
        "kernel relay list",
        "kernel relay stat",
        "show",
        "export",
        "kernel hooks list",
        "kernel probes list",
        "kernel dprobes query",
        "kernel dprobes getvars",
        "cov report",
        "recover",
    ];
    for group in [&live[..], &recording, &showing] {
        has("json", group);
    }
    has("output", &live);
    has("output", &recording);
    for group in [&live[..], &recording] {
        has("duration", group);
    }
    has(
        "interval",
        &[
            "kernel relay stat",
            "kernel hooks watch",
            "count",
            "time",
            "stack",
        ],
    );
    has("pid", &["watch", "count", "time", "stack"]);
    has(
        "wall",
        &[
            "show",
            "export",
            "watch",
            "kernel dprobes watch",
            "kernel hooks watch",
        ],
    );
    for size in ["subbuf-size", "n-subbufs"] {
        has(size, &["record", "kernel klog"]);
    }
    // A command that writes a file overwrites one only with --force.
    for name in with(&all, "output") {
        assert!(with(&all, "force").contains(name), "{name}");
    }
    // Commands that observe or record can run another command.
    for name in live.iter().chain(&recording) {
        let help = stdout(&succeed(ferrotrace().args(name.split(' ')).arg("-h")));
        assert!(help.contains("[-- <COMMAND>...]"), "{name}: {help}");
    }
}

#[test]
fn units_are_understood_everywhere() {
    let mut tried = 0;
    for (name, flags) in &commands() {
        let units: [(&str, &[&str]); 2] = [
            ("TIME", &["500ms", "5s", "0.5", "1m"]),
            ("SIZE", &["64K", "4096", "1MiB"]),
        ];
        for (value, good) in units {
            for flag in flags
                .iter()
                .filter(|flag| flag.value.as_deref() == Some(value))
            {
                let refuses = |text: &str| {
                    let mut command = ferrotrace();
                    command
                        .args(name.split(' '))
                        .arg(format!("--{}={text}", flag.long));
                    // The parser stops here.
                    let output = command.arg("--no-such-option").output().unwrap();
                    assert_eq!(output.status.code(), Some(2));
                    let message = stderr(&output);
                    assert!(message.starts_with("ferrotrace: "), "{message}");
                    message.contains(&format!("invalid value '{text}'"))
                };
                for text in good {
                    assert!(!refuses(text), "{name} --{}={text}", flag.long);
                }
                for text in ["5x", "-", "soon"] {
                    assert!(refuses(text), "{name} --{}={text}", flag.long);
                }
                tried += 1;
            }
        }
    }
    assert!(tried > 15, "{tried}");
}

#[test]
fn lines_of_help() {
    let line = flag("  -d, --duration <TIME>  Stop").unwrap();
    assert_eq!(
        (line.short, &*line.long, line.value.as_deref()),
        (Some('d'), "duration", Some("TIME"))
    );
    let line = flag("      --stack[=<OF>]").unwrap();
    assert_eq!(
        (line.short, &*line.long, line.value.as_deref()),
        (None, "stack", Some("OF"))
    );
    let line = flag("      --json      Print").unwrap();
    assert_eq!((line.short, &*line.long, line.value), (None, "json", None));
    assert_eq!(flag("          --count is given"), None);
    assert_eq!(flag("  record  Record"), None);
}
