// SPDX-License-Identifier: GPL-2.0

//! `ferrotrace report`.

#![deny(unsafe_code)]

use std::io;
use std::io::BufWriter;
use std::io::Write;
use std::path::Path;
use std::path::PathBuf;

use anyhow::Result;
use anyhow::ensure;
use clap::Args;

use ferrotrace::file::IoError;
use ferrotrace::file::create;
use ferrotrace::merge::recording::Recording;
use ferrotrace::merge::run::Selection;
use ferrotrace::merge::run::merge;
use ferrotrace::merge::run::warnings;
use ferrotrace::report::collect::Collected;
use ferrotrace::report::html;
use ferrotrace::report::stacks::Stacks;
use ferrotrace::text::stdout;

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
    /// Write a flame graph, as an SVG: of the stacks of the records, or of the times of calls.
    #[arg(long, value_name = "FILE", group = "file", conflicts_with_all = ["html", "top"])]
    svg: Option<PathBuf>,
    /// Show so many rows of a table at most; 20 without it.
    #[arg(short, long, value_name = "N", conflicts_with = "html", value_parser = clap::value_parser!(u32).range(1..))]
    top: Option<u32>,
    #[command(flatten)]
    selection: SelectionArgs,
    /// Write to this file instead of standard output.
    #[arg(short, long, value_name = "FILE", group = "file")]
    output: Option<PathBuf>,
    /// Write over a file that is not empty.
    #[arg(short, long, requires = "file")]
    force: bool,
}

impl ReportArgs {
    pub fn run(self) -> Result<()> {
        let selection = self.selection.selection(None)?;
        let recording = open(&self.recording)?;
        if let Some(svg) = &self.svg {
            return self.flame(&recording, &selection, svg);
        }
        let mut collected = match self.html {
            true => Collected::with_timeline(),
            false => Collected::default(),
        };
        let counts = merge(&recording, &selection, &mut collected)?;
        let warnings = warnings(&recording, &counts);
        OutputArgs::new(self.output, self.force).redirect()?;
        if self.html {
            let mut out = BufWriter::new(stdout());
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

    fn flame(&self, recording: &Recording, selection: &Selection, svg: &Path) -> Result<()> {
        let mut stacks = Stacks::default();
        let counts = merge(recording, selection, &mut stacks)?;
        let flame = stacks.flame();
        ensure!(
            flame.total() > 0,
            "{}: no record has a stack or a duration, so there is nothing for a flame graph",
            self.recording.display()
        );
        let title = recording.metadata.channel.display().to_string();
        let mut out = BufWriter::new(create(svg, self.force)?);
        let written = flame.write_svg(&mut out, &title);
        written
            .and_then(|()| out.flush())
            .map_err(|source| IoError {
                action: "write",
                path: svg.into(),
                source,
            })?;
        for warning in warnings(recording, &counts) {
            warn(&warning);
        }
        Ok(())
    }
}
