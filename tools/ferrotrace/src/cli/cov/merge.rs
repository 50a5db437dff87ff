// SPDX-License-Identifier: GPL-2.0

//! `ferrotrace cov merge`.

#![deny(unsafe_code)]

use std::path::PathBuf;

use anyhow::Result;
use anyhow::bail;
use clap::Args;
use serde_json::Value;

use ferrotrace::cov::error::Error;
use ferrotrace::cov::live::fleet::Kernel;
use ferrotrace::cov::live::fleet::builds;
use ferrotrace::cov::live::fleet::hosts;
use ferrotrace::cov::live::run::Run;
use ferrotrace::cov::live::server;
use ferrotrace::directory::Directory;

use super::super::warn;
use super::live::ShowArgs;

#[derive(Debug, Args)]
pub struct MergeArgs {
    /// Files that ferrotrace cov live --save has written.
    #[arg(value_name = "RUN", required = true)]
    runs: Vec<PathBuf>,
    /// The image of the runs' kernel; for Parquet it can be repeated. Otherwise the running kernel
    /// must be theirs.
    #[arg(long, value_name = "FILE")]
    vmlinux: Vec<PathBuf>,
    /// Write tables in Apache Parquet's format below this directory, for DuckDB and others, instead
    /// of a report. Runs of several images have their tables side by side.
    #[arg(
        long,
        value_name = "DIR",
        conflicts_with_all = ["missed", "top", "lines", "lcov", "source", "json"]
    )]
    parquet: Option<PathBuf>,
    #[command(flatten)]
    show: ShowArgs,
}

impl MergeArgs {
    pub fn run(self) -> Result<()> {
        let runs = self.runs.iter().map(|path| Run::read(path));
        let runs = runs.collect::<Result<Vec<_>, _>>()?;
        let modules = runs.iter().flat_map(|run| &run.texts);
        if modules.into_iter().any(|text| text.module.is_some()) {
            warn("blocks of modules are left out");
        }
        let builds = builds(&runs);
        if let Some(dir) = &self.parquet {
            let dir = Directory::create_all(dir)?;
            for build in builds.keys() {
                Kernel::find(build, &self.vmlinux)?.write_tables(&runs, &dir)?;
            }
            return Ok(());
        }
        if builds.len() > 1 {
            let images: Vec<_> = builds
                .iter()
                .map(|(id, of)| format!("{of} ({id})"))
                .collect();
            bail!("the runs are of several images: {}", images.join(", "));
        }
        let show = self.show.show()?;
        if show.takes_image() && self.vmlinux.is_empty() {
            bail!(Error::NoImage);
        }
        let Some((build, release)) = builds.first_key_value() else {
            return Ok(());
        };
        let kernel = Kernel::find(build, &self.vmlinux)?;
        let text = server::text(&kernel.states(&runs), &[], kernel.source.as_ref(), &show)?;
        let (count, hosts) = (runs.len(), hosts(&runs));
        self.show.put(&match (show.json, show.lcov || show.source) {
            (true, _) => {
                let mut document: Value = serde_json::from_str(&text)?;
                if let Value::Object(members) = &mut document {
                    members.insert("build_id".to_owned(), (*build).into());
                    members.insert("runs".to_owned(), count.into());
                    members.insert("hosts".to_owned(), hosts.into());
                }
                document.to_string() + "\n"
            }
            (_, true) => text,
            _ => format!("{count} runs of {hosts} hosts, {release}, build ID {build}\n{text}"),
        })
    }
}
