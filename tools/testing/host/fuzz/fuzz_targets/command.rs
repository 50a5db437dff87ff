// SPDX-License-Identifier: GPL-2.0

//! Commands of `ferrotrace_kprobe_events`: the parser never panics, and an accepted command is the
//! same after it is written out and read again.
//!
//! Without a fuzzer the program replays the files of its arguments.

#![cfg_attr(fuzzing, no_main)]

use ferro_kprobe_events_core::probe_command::Command;
use ferro_kprobe_events_core::probe_command::Kind;

fn check(data: &[u8]) {
    if let Some(command) = Command::parse(data) {
        let line = written(&command);
        assert_eq!(Command::parse(line.as_bytes()), Some(command), "{line}");
    }
}

fn written(command: &Command<'_>) -> String {
    match command {
        Command::RemoveAll => "-*".to_string(),
        Command::Remove(name) => format!("-{name}"),
        Command::Add {
            kind,
            name,
            symbol,
            offset,
            args,
        } => {
            let letter = match kind {
                Kind::Point => 'p',
                Kind::Return => 'r',
            };
            let (args, conditions) = (args.text(), args.conditions_text());
            let conditions = match conditions {
                "" => String::new(),
                some => format!("if {some}"),
            };
            format!("{letter} {name} {symbol}+{offset:#x} {args} {conditions}")
        }
    }
}

#[cfg(fuzzing)]
libfuzzer_sys::fuzz_target!(|data: &[u8]| check(data));

#[cfg(not(fuzzing))]
fn main() -> std::io::Result<()> {
    ferro_host::replay(check)
}
