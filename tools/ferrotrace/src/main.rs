// SPDX-License-Identifier: GPL-2.0

//! The `ferrotrace` command.

#![deny(unsafe_code)]

mod cli;

use std::io;
use std::io::Write;
use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    match cli::Cli::parse().run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // There is nowhere left to report it if this fails.
            let _ = writeln!(io::stderr(), "ferrotrace: {error:#}");
            ExitCode::FAILURE
        }
    }
}
