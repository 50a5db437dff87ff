// SPDX-License-Identifier: GPL-2.0

//! The report, as text and as JSON.

#![deny(unsafe_code)]

use std::fmt;
use std::path::PathBuf;

use serde::Serialize;

use super::findings::Finding;
use super::findings::Level;
use super::findings::findings;
use super::system::System;
use super::works::Row;
use super::works::works;

/// Findings about a system.
#[derive(Debug, Serialize)]
pub struct Report {
    /// Version of the JSON document.
    version: u32,
    release: String,
    findings: Vec<Finding>,
    works: Vec<Row>,
    /// True if a command mends something that does not work.
    can_be_mended: bool,
}

impl Report {
    /// Examines the system whose files are below `root`.
    pub fn of(root: PathBuf) -> Self {
        let system = System::read(root);
        let findings = findings(&system);
        let is_mendable = |one: &Finding| one.level == Level::No && one.run.is_some();
        Self {
            version: 1,
            can_be_mended: findings.iter().any(is_mendable),
            works: works(&system),
            release: system.release,
            findings,
        }
    }

    /// Returns the exit status: 1 if a command mends something that does not work.
    pub fn status(&self) -> u8 {
        u8::from(self.can_be_mended)
    }
}

fn mark(level: Level) -> &'static str {
    match level {
        Level::Ok => "ok",
        Level::Warn => "warn",
        Level::No => "no",
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut group = "";
        for finding in &self.findings {
            if finding.group != group {
                group = finding.group;
                writeln!(f, "{group}")?;
            }
            write!(f, "  {:<4}  {}", mark(finding.level), finding.text)?;
            match &finding.run {
                Some(run) => writeln!(f, "; run: {run}")?,
                None => writeln!(f)?,
            }
        }
        writeln!(f, "commands, for root")?;
        for Row { command, level, by } in &self.works {
            writeln!(f, "  {:<4}  {command:<27}  {by}", mark(*level))?;
        }
        let works = self.findings.iter().all(|one| one.level != Level::No);
        f.write_str(match (self.can_be_mended, works) {
            (true, _) => "Something can be mended: the lines \"no\" with a command (run:)\n",
            (false, true) => "All that this kernel can do works\n",
            (false, false) => "No command mends the lines \"no\"\n",
        })
    }
}
