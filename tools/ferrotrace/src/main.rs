// SPDX-License-Identifier: GPL-2.0

//! The `ferrotrace` command.

#![deny(unsafe_code)]

mod cli;

use std::borrow::Cow;
use std::ffi::OsString;
use std::io;
use std::io::IsTerminal;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use clap::Parser;

use ferrotrace::text::printable;
use ferrotrace::text::printable_lines;

/// As which command this was called.
fn is_called(name: &str) -> bool {
    let own = std::env::args_os().next().unwrap_or_default();
    Path::new(&own).file_name().is_some_and(|own| own == name)
}

/// The command line as `T`. One that is not understood ends the program with status 2, and a message that begins
/// like all others.
fn parse<T: Parser>(args: impl IntoIterator<Item = OsString>) -> T {
    let args: Vec<_> = args.into_iter().collect();
    let error = match T::try_parse_from(&args) {
        Ok(parsed) => return parsed,
        Err(error) => error,
    };
    if !error.use_stderr() {
        // The help or the version.
        error.exit();
    }
    // The message has words of the command line, such as names of files that a shell has put there.
    // In those, the message's own colours could not be told from commands for a terminal.
    let shown: Vec<_> = args.iter().map(|arg| arg.to_string_lossy()).collect();
    let shown: Vec<_> = shown.iter().map(|arg| printable(arg)).collect();
    let is_plain = shown.iter().all(|arg| matches!(arg, Cow::Borrowed(_)));
    let text = match (is_plain, T::try_parse_from(shown.iter().map(|arg| &**arg))) {
        (false, Err(shown)) => shown.render(),
        _ => error.render(),
    };
    let text = match io::stderr().is_terminal() && is_plain {
        true => text.ansi().to_string(),
        false => printable_lines(&text.to_string()).into_owned(),
    };
    // There is nowhere left to report it if this fails.
    let _ = io::stderr().write_all(text.replacen("error:", "ferrotrace:", 1).as_bytes());
    std::process::exit(error.exit_code());
}

fn run() -> anyhow::Result<u8> {
    if !is_called("dprobes") {
        let first = std::env::args_os().nth(1);
        if first.is_some_and(|first| cli::Internal::is_meant(&first)) {
            return parse::<cli::Internal>(std::env::args_os()).run();
        }
        return parse::<cli::Cli>(std::env::args_os()).run();
    }
    let args: Vec<_> = std::env::args_os().skip(1).collect();
    let args = [OsString::from("dprobes")]
        .into_iter()
        .chain(cli::translate(&args));
    parse::<cli::Classic>(args).run()
}

/// An error with its causes, but for those that a message before ends with.
fn with_causes(error: &anyhow::Error) -> String {
    let mut text = error.to_string();
    for cause in error.chain().skip(1).map(ToString::to_string) {
        if !text.ends_with(&cause) {
            text.push_str(": ");
            text.push_str(&cause);
        }
    }
    text
}

fn main() -> ExitCode {
    match run() {
        Ok(status) => ExitCode::from(status),
        Err(error) => {
            // There is nowhere left to report it if this fails.
            let _ = writeln!(
                io::stderr(),
                "ferrotrace: {}",
                printable_lines(&with_causes(&error))
            );
            ExitCode::FAILURE
        }
    }
}
