// SPDX-License-Identifier: GPL-2.0

//! `ferrotrace cov merge` and `ferrotrace cov exposed`.

#![deny(unsafe_code)]

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::path::PathBuf;

use anyhow::Context;
use anyhow::Result;
use anyhow::bail;
use clap::Args;
use serde_json::Value;
use serde_json::json;

use ferrotrace::cov::error::Error;
use ferrotrace::cov::live::fleet::Hosts;
use ferrotrace::cov::live::fleet::Kernel;
use ferrotrace::cov::live::fleet::builds;
use ferrotrace::cov::live::fleet::hosts;
use ferrotrace::cov::live::run::Run;
use ferrotrace::cov::live::server;
use ferrotrace::cov::patch::git::Fixed;
use ferrotrace::cov::patch::git::fixed;
use ferrotrace::cov::print::Table;
use ferrotrace::directory::Directory;
use ferrotrace::file::read_at_most;

use super::super::print;
use super::super::warn;
use super::live::ShowArgs;

/// Maximum number of bytes of a list of fixes.
const LIST: u64 = 16 << 20;

#[derive(Debug, Args)]
pub struct MergeArgs {
    /// Files that ferrotrace cov live --save has written.
    #[arg(value_name = "RUN", required = true)]
    runs: Vec<PathBuf>,
    /// The image of the kernel of the runs; source lines take its debugging information. With
    /// --parquet it can be repeated. Without it, the runs must be of the running kernel.
    #[arg(long, value_name = "FILE")]
    vmlinux: Vec<PathBuf>,
    /// Write tables in Apache Parquet's format below this directory, for DuckDB and others, instead
    /// of a report. The runs may be of several images.
    #[arg(
        long,
        value_name = "DIR",
        conflicts_with_all = ["missed", "top", "lines", "functions", "lcov", "source", "json"]
    )]
    parquet: Option<PathBuf>,
    /// Leave out the code that this run executed; it can be repeated.
    #[arg(long, value_name = "RUN", conflicts_with_all = ["parquet", "missed"])]
    since: Vec<PathBuf>,
    #[command(flatten)]
    show: ShowArgs,
}

#[derive(Debug, Args)]
pub struct ExposedArgs {
    /// Files that ferrotrace cov live --save has written.
    #[arg(value_name = "RUN", required = true)]
    runs: Vec<PathBuf>,
    /// The list of fixes. A line begins with the hash of a commit, or with # if it is a comment.
    #[arg(long, value_name = "FILE")]
    fixes: PathBuf,
    /// The repository with the commits.
    #[arg(long, value_name = "DIR", default_value = ".")]
    repo: PathBuf,
    /// The image of the kernel of the runs; it can be repeated. Without it, the runs must be of the
    /// running kernel.
    #[arg(long, value_name = "FILE")]
    vmlinux: Vec<PathBuf>,
    /// Print one JSON document.
    #[arg(long)]
    json: bool,
}

fn read(paths: &[PathBuf]) -> Result<Vec<Run>> {
    let runs = paths.iter().map(|path| Run::read(path));
    Ok(runs.collect::<Result<Vec<_>, _>>()?)
}

/// Finds the kernel of runs, which must be of one image.
pub(super) fn kernel(runs: &[Run], before: &[Run], images: &[PathBuf]) -> Result<Kernel> {
    let builds = builds(runs.iter().chain(before));
    if builds.len() > 1 {
        let images: Vec<_> = builds
            .iter()
            .map(|(id, of)| format!("{of} ({id})"))
            .collect();
        bail!("the runs are of several images: {}", images.join(", "));
    }
    let build = builds.first_key_value();
    Ok(Kernel::find(build.map_or("", |(id, _)| id), images)?)
}

/// Warns if runs have modules, which no report of lines shows.
pub(super) fn warn_of_modules(runs: &[Run]) {
    let mut texts = runs.iter().flat_map(|run| &run.texts);
    if texts.any(|text| text.module.is_some()) {
        warn("blocks of modules are left out: they have no source lines");
    }
}

impl ExposedArgs {
    pub fn run(self) -> Result<()> {
        let runs = read(&self.runs)?;
        let name = self.fixes.display();
        let list =
            read_at_most(&self.fixes, LIST).with_context(|| format!("{name}: cannot be read"))?;
        let fixed = fixed(&self.repo, &String::from_utf8_lossy(&list))?;
        let key = |one: &Fixed| Some((one.function.clone()?, one.file.clone()));
        let names = fixed.iter().filter_map(key);
        let mut hosts: BTreeMap<_, _> = names.map(|name| (name, Hosts::default())).collect();
        for build in builds(runs.iter()).keys() {
            let kernel = Kernel::find(build, &self.vmlinux)?.with_modules(runs.iter());
            kernel.add_hosts(&runs, &mut hosts)?;
        }
        let none = Hosts::default();
        let of = |one: &Fixed| {
            let hosts = key(one).and_then(|key| hosts.get(&key));
            hosts.unwrap_or(&none)
        };
        if self.json {
            let all = fixed.iter().map(|one| {
                let hosts = of(one);
                json!({
                    "commit": one.commit,
                    "subject": one.subject,
                    "file": one.file,
                    "function": one.function,
                    "compiled": hosts.is_compiled,
                    "watched": hosts.watched.len(),
                    "executed": hosts.executed,
                })
            });
            print(&(Value::from_iter(all).to_string() + "\n"))?;
            return Ok(());
        }
        let mut table = vec![["hosts", "fix", "function"].map(str::to_owned)];
        for one in &fixed {
            let hosts = of(one);
            let count = match (hosts.is_compiled, hosts.watched.len()) {
                _ if one.function.is_none() => "no function".to_owned(),
                (false, _) => "no code".to_owned(),
                (_, 0) => "not watched".to_owned(),
                (_, watched) => format!("{}/{watched}", hosts.executed.len()),
            };
            let id = one.commit.get(..12).unwrap_or_default();
            let function = match &one.function {
                Some(name) => format!("{name}: {}", one.subject),
                None => one.subject.clone(),
            };
            table.push([count, id.to_owned(), function]);
        }
        let executed = fixed.iter().filter(|one| !of(one).executed.is_empty());
        let commits = |all: &mut dyn Iterator<Item = &Fixed>| {
            BTreeSet::from_iter(all.map(|one| one.commit.clone())).len()
        };
        let (some, all) = (commits(&mut { executed }), commits(&mut fixed.iter()));
        print(&format!(
            "{}fixes with an executed function: {some} of {all}\n",
            Table(table).text()
        ))?;
        Ok(())
    }
}

impl MergeArgs {
    pub fn run(self) -> Result<()> {
        let runs = read(&self.runs)?;
        if let Some(dir) = &self.parquet {
            let dir = Directory::create_all(dir)?;
            for build in builds(runs.iter()).keys() {
                let kernel = Kernel::find(build, &self.vmlinux)?.with_modules(runs.iter());
                kernel.write_tables(&runs, &dir)?;
            }
            return Ok(());
        }
        let show = self.show.show()?;
        if show.takes_image() && self.vmlinux.is_empty() {
            bail!(Error::NoImage);
        }
        let before = read(&self.since)?;
        let mut kernel = kernel(&runs, &before, &self.vmlinux)?;
        match show.takes_image() {
            true => warn_of_modules(&runs),
            false => kernel = kernel.with_modules(runs.iter().chain(&before)),
        }
        let states = kernel.states(&runs, &before);
        let text = server::text(&states, &[], kernel.source.as_ref(), &show)?;
        let (count, hosts) = (runs.len(), hosts(&runs));
        let build = &kernel.build_id;
        let release = runs.first().map_or("", |run| &run.release);
        self.show
            .put(&match (show.form.json, show.lcov || show.form.source) {
                (true, _) => {
                    let mut document: Value = serde_json::from_str(&text)?;
                    if let Value::Object(members) = &mut document {
                        members.insert("build_id".to_owned(), build.as_str().into());
                        members.insert("runs".to_owned(), count.into());
                        members.insert("hosts".to_owned(), hosts.into());
                    }
                    document.to_string() + "\n"
                }
                (_, true) => text,
                _ => {
                    let number = |count: usize, of: &str| match count {
                        1 => format!("1 {of}"),
                        _ => format!("{count} {of}s"),
                    };
                    let (runs, hosts) = (number(count, "run"), number(hosts, "host"));
                    format!("{runs} of {hosts}, {release}, build ID {build}\n{text}")
                }
            })
    }
}
