// SPDX-License-Identifier: GPL-2.0

//! `ferrotrace doctor`.

#![deny(unsafe_code)]

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;

use ferrotrace::doctor::Report;

use super::print;

#[derive(Debug, Args)]
pub struct DoctorArgs {
    /// Print one JSON document.
    #[arg(long)]
    json: bool,
    /// Where the files of the system are, for tests.
    #[arg(long, value_name = "DIR", default_value = "/", hide = true)]
    root: PathBuf,
}

impl DoctorArgs {
    pub fn run(self) -> Result<u8> {
        let report = Report::of(self.root);
        let text = match self.json {
            true => format!("{}\n", serde_json::to_string_pretty(&report)?),
            false => report.to_string(),
        };
        print(&text)?;
        Ok(report.status())
    }
}
