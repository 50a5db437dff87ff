// SPDX-License-Identifier: GPL-2.0

//! `ferrotrace report`.

#![deny(unsafe_code)]

use std::io;
use std::io::BufWriter;
use std::io::Write;
use std::path::PathBuf;

use anyhow::Result;
use clap::Args;

use ferrotrace::file::IoError;
use ferrotrace::merge::run::merge;
use ferrotrace::merge::run::warnings;
use ferrotrace::report::collect::Collected;
use ferrotrace::report::html;

use super::merge::SelectionArgs;
use super::merge::open;
use super::print;
use super::units::OutputArgs;
use super::warn;

/// Rows of a table, if nobody says how many.
const ROWS: usize = 20;

#[derive(Debug, Args)]
pub struct ReportArgs {
    /// A directory that `record` created.
    #[arg(value_name = "OUT")]
    recording: PathBuf,
    /// Write one page of HTML, with a timeline, which needs no other file.
    #[arg(long)]
    html: bool,
    /// Show so many rows of a table at most; 20 without it.
    #[arg(short, long, value_name = "N", conflicts_with = "html", value_parser = clap::value_parser!(u32).range(1..))]
    top: Option<u32>,
    #[command(flatten)]
    selection: SelectionArgs,
    #[command(flatten)]
    output: OutputArgs,
}

impl ReportArgs {
    pub fn run(self) -> Result<()> {
        let selection = self.selection.selection(None)?;
        let recording = open(&self.recording)?;
        let mut collected = Collected::default();
        let counts = merge(&recording, &selection, &mut collected)?;
        let warnings = warnings(&recording, &counts);
        self.output.redirect()?;
        if self.html {
            let mut out = BufWriter::new(io::stdout().lock());
            let written = html::write(&mut out, &recording, &collected, &counts, &warnings);
            match written.and_then(|()| out.flush()) {
                // The reader has gone.
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(()),
                other => other.map_err(IoError::stdout)?,
            }
        } else {
            let rows = self.top.and_then(|top| usize::try_from(top).ok());
            let mut text = String::new();
            for table in collected.tables.tables(rows.unwrap_or(ROWS)) {
                text.push_str(&format!("{table}\n"));
            }
            print(&(text + &counts.to_string()))?;
        }
        for warning in &warnings {
            warn(warning);
        }
        Ok(())
    }
}
