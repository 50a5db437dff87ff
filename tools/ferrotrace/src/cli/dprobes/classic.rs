// SPDX-License-Identifier: GPL-2.0

//! The command line of version 5: `dprobes -i FILE`, `dprobes --getvars --all`. It says what to do with an option, where
//! `ferrotrace dprobes` has a subcommand; the other options are the same.

#![deny(unsafe_code)]

use std::ffi::OsString;

/// Actions: short option, long option, subcommand.
const ACTIONS: [(&str, &str, &str); 6] = [
    ("-i", "--insert", "insert"),
    ("-r", "--remove", "remove"),
    ("-g", "--getvars", "getvars"),
    ("-q", "--query", "query"),
    ("-b", "--build-ppdf", "build"),
    ("-p", "--apply-ppdf", "apply"),
];

/// The arguments of `dprobes`, without its name, as those of `ferrotrace dprobes`.
pub fn translate(args: &[OsString]) -> Vec<OsString> {
    let texts: Vec<_> = args.iter().map(|arg| arg.to_string_lossy()).collect();
    let found = texts.iter().enumerate().find_map(|(at, text)| {
        let (option, value) = match text.split_once('=') {
            Some((option, value)) => (option, Some(value)),
            None => (text.as_ref(), None),
        };
        let mut actions = ACTIONS.iter();
        let action = actions.find(|(short, long, _)| [*short, *long].contains(&option))?;
        Some((at, action.2, value.map(str::to_owned)))
    });
    let Some((at, command, value)) = found else {
        return match texts.first().map(AsRef::as_ref) {
            Some("-v") => vec!["--version".into()],
            _ => args.to_vec(),
        };
    };
    let mut all: Vec<OsString> = vec![command.into()];
    let takes_file = matches!(command, "insert" | "build" | "apply");
    let mut skipped = at..=at;
    match value {
        Some(value) => all.push(value.into()),
        None if takes_file => {
            all.extend(args.get(at + 1).cloned());
            skipped = at..=at + 1;
        }
        None => (),
    }
    let rest = args.iter().enumerate();
    let rest = rest.filter(|(index, _)| !skipped.contains(index));
    let mut rest = rest.map(|(_, arg)| arg.clone()).peekable();
    while let Some(arg) = rest.next() {
        let is_log = arg == "-l" || arg == "--log";
        all.push(arg);
        if is_log {
            // -l PID UID: all that follow.
            let mut fields = Vec::new();
            while let Some(field) = rest.next_if(|arg| !arg.to_string_lossy().starts_with('-')) {
                fields.push(field.to_string_lossy().into_owned());
            }
            all.push(fields.join(",").into());
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn translated(line: &str) -> String {
        let args: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        let all = translate(&args);
        let all: Vec<_> = all.iter().map(|arg| arg.to_string_lossy()).collect();
        all.join(" ")
    }

    #[test]
    fn options_become_subcommands() {
        for (line, expected) in [
            ("-i a.dp -D x=1 -m", "insert a.dp -D x=1 -m"),
            ("--insert=a.dp --replace", "insert a.dp --replace"),
            (
                "-i a.dp -l PROCNAME PID --merge",
                "insert a.dp -l PROCNAME,PID --merge",
            ),
            ("--log ALL --insert a.dp", "insert a.dp --log ALL"),
            ("-a -g", "getvars -a"),
            ("-g -n m -i=0-3", "getvars -n m -i=0-3"),
            ("--getvars --all --reset", "getvars --all --reset"),
            ("-q -a -x", "query -a -x"),
            ("-b a.dp -o b", "build a.dp -o b"),
            ("-p b -u 1,2", "apply b -u 1,2"),
            ("-r --name bzImage", "remove --name bzImage"),
            ("-v", "--version"),
            ("query --json", "query --json"),
        ] {
            assert_eq!(translated(line), expected, "{line}");
        }
    }
}
