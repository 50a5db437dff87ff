// SPDX-License-Identifier: GPL-2.0

//! The `ferrotrace` command.

#![deny(unsafe_code)]

mod cli;

use std::ffi::OsString;
use std::io;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use clap::Parser;

/// As which command this was called.
fn is_called(name: &str) -> bool {
    let own = std::env::args_os().next().unwrap_or_default();
    Path::new(&own).file_name().is_some_and(|own| own == name)
}

fn run() -> anyhow::Result<()> {
    if !is_called("dprobes") {
        return cli::Cli::parse().run();
    }
    let args: Vec<_> = std::env::args_os().skip(1).collect();
    let args = [OsString::from("dprobes")]
        .into_iter()
        .chain(cli::translate(&args));
    cli::Classic::parse_from(args).run()
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // There is nowhere left to report it if this fails.
            let _ = writeln!(io::stderr(), "ferrotrace: {error:#}");
            ExitCode::FAILURE
        }
    }
}
