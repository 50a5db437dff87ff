// SPDX-License-Identifier: GPL-2.0

//! `ferrotrace cov patch`.

#![deny(unsafe_code)]

use std::io;
use std::io::Read;
use std::path::PathBuf;

use anyhow::Context;
use anyhow::Result;
use anyhow::bail;
use clap::Args;

use ferrotrace::cov::control::Control;
use ferrotrace::cov::coverage::Coverage;
use ferrotrace::cov::patch::Patch;
use ferrotrace::cov::patch::diff;
use ferrotrace::cov::patch::git::Range;
use ferrotrace::cov::patch::judge::Judgement;
use ferrotrace::cov::patch::judge::judge;
use ferrotrace::cov::patch::matching::Places;

use super::super::print as print_text;
use super::super::warn;
use super::CounterArgs;
use super::add_tracefile;
use super::is_standard;
use super::open;

/// Bytes of the longest diff. That between two releases of the kernel has 100 MB.
const DIFF: u64 = 1 << 30;

#[derive(Debug, Args)]
pub struct PatchArgs {
    /// A range of commits, such as origin/master.. (from the upstream branch to HEAD if it is left out), or - for a
    /// unified diff, or mails with patches, on standard input.
    #[arg(value_name = "RANGE")]
    range: Option<String>,
    #[command(flatten)]
    counters: CounterArgs,
    /// Take the coverage from lcov's tracefile, as many tools write it, instead of counters; it can be repeated.
    #[arg(
        long = "tracefile",
        value_name = "FILE",
        conflicts_with_all = ["files", "since", "vmlinux", "gcov", "objdir", "only"]
    )]
    tracefiles: Vec<PathBuf>,
    /// Show so many rows, functions and ranges of lines at most.
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    top: Option<u32>,
    /// Print Markdown, for a mail or a merge request.
    #[arg(long, conflicts_with = "json")]
    markdown: bool,
    /// Print one JSON document.
    #[arg(long)]
    json: bool,
    /// Fail if less than this percentage of the new lines with code was executed.
    #[arg(long, value_name = "PERCENT", value_parser = permille)]
    fail_under: Option<usize>,
    /// Fail if a new function was not executed.
    #[arg(long)]
    fail_uncovered_new_functions: bool,
}

/// Parses a percentage, as tenths of a percent.
fn permille(text: &str) -> Result<usize, String> {
    let (whole, tenths) = text.split_once('.').unwrap_or((text, "0"));
    let number = |text: &str| text.parse::<usize>().ok();
    let sum = number(whole).and_then(|whole| whole.checked_mul(10)?.checked_add(number(tenths)?));
    let sum = sum.filter(|sum| *sum <= 1000 && tenths.len() == 1);
    sum.ok_or_else(|| "not 0 to 100, with at most one digit after the point".to_owned())
}

/// Reads a diff.
fn diff_from(from: impl Read) -> Result<Patch> {
    const NAME: &str = "standard input";
    let mut bytes = Vec::new();
    let read = from.take(DIFF.saturating_add(1)).read_to_end(&mut bytes);
    read.context("standard input: cannot be read")?;
    if u64::try_from(bytes.len()).is_ok_and(|len| len > DIFF) {
        bail!("{NAME}: longer than {DIFF} bytes");
    }
    diff::read(&bytes).context(NAME)
}

/// Reads tracefiles.
fn tracefiles(paths: &[PathBuf]) -> Result<Coverage> {
    let mut coverage = Coverage::default();
    for path in paths {
        let (from, path) = open(path)?;
        add_tracefile(from, path, &mut coverage)?;
    }
    Ok(coverage)
}

impl PatchArgs {
    /// Checks that only one thing is read from standard input.
    fn check_standard(&self) -> Result<()> {
        let files = self.counters.files.iter().chain(&self.counters.since);
        let files = files.chain(&self.tracefiles);
        let dashes = files.filter(|path| is_standard(path)).count();
        if dashes + usize::from(self.is_diff()) > 1 {
            bail!("standard input is one file, not several");
        }
        Ok(())
    }

    fn is_diff(&self) -> bool {
        self.range.as_deref() == Some("-")
    }

    fn judge(&self, control: &Control) -> Result<Judgement> {
        self.check_standard()?;
        let diff = self.is_diff().then(|| diff_from(io::stdin().lock()));
        let diff = diff.transpose()?;
        let range = match &diff {
            Some(_) => None,
            None => Some(Range::new(self.range.as_deref())?),
        };
        let (coverage, remarks) = match &self.tracefiles[..] {
            [] => {
                let (coverage, _, remarks) = self.counters.coverage(control)?;
                (coverage, remarks)
            }
            files => (tracefiles(files)?, Vec::new()),
        };
        let mut places = Places {
            dirs: self.counters.srcdir.iter().cloned().collect(),
            ..Places::default()
        };
        let (patch, found) = match (diff, range) {
            (Some(patch), _) => {
                let found = places.find(&patch.files, &coverage);
                (patch, found)
            }
            (None, Some(range)) => range.patch(&mut places, &coverage)?,
            (None, None) => Default::default(),
        };
        let mut judgement = judge(patch, &found, &coverage);
        for remark in &judgement.remarks {
            warn(remark);
        }
        judgement.remarks.splice(..0, remarks);
        Ok(judgement)
    }

    pub fn run(self, control: &Control) -> Result<()> {
        let judgement = self.judge(control)?;
        if let Some(unclear) = judgement.unclear() {
            if !self.counters.objects.keep_going {
                bail!(
                    "{unclear}\n--srcdir DIR names the source tree, as the coverage has it; --keep-going leaves such files out"
                );
            }
            warn(&unclear);
        }
        let top = self.top.and_then(|top| usize::try_from(top).ok());
        let failed = judgement.failure(self.fail_under, self.fail_uncovered_new_functions);
        print_text(&if self.json {
            judgement.json(failed.as_deref())?
        } else if self.markdown {
            judgement.markdown(top)
        } else {
            judgement.text(top)
        })?;
        match failed {
            Some(failed) => bail!(failed),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentages() {
        for (text, expected) in [
            ("0", 0),
            ("80", 800),
            ("99.9", 999),
            ("100", 1000),
            ("100.0", 1000),
        ] {
            assert_eq!(permille(text), Ok(expected), "{text}");
        }
        for bad in [
            "",
            "-1",
            "100.1",
            "101",
            "80.05",
            "80.",
            ".5",
            "1e2",
            "99999999999999999999",
            "80%",
        ] {
            assert!(permille(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn diffs_have_an_end() {
        assert!(diff_from(&b"\n"[..]).is_ok());
        let error = diff_from(&b"x\n"[..]).unwrap_err();
        assert_eq!(
            format!("{error:#}"),
            "standard input: line 1: no unified diff is in it"
        );
    }
}
