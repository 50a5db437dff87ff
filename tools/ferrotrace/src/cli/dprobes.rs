// SPDX-License-Identifier: GPL-2.0

//! `ferrotrace dprobes`, and the command `dprobes`, which is the same with the options of version 5.

#![deny(unsafe_code)]

mod args;
mod classic;
mod run;

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use clap::Parser;
use clap::Subcommand;

use ferrotrace::dprobes::control::Control;
use ferrotrace::kernel_dir;

use args::ApplyArgs;
use args::BuildArgs;
use args::CheckArgs;
use args::GetVarsArgs;
use args::InsertArgs;
use args::QueryArgs;
pub(super) use args::RecordArgs;
use args::RemoveArgs;
pub(super) use args::WatchArgs;
pub use classic::translate;

/// The directory of the module.
const DIR: &str = "/sys/kernel/debug/ferrotrace_dprobes";

#[derive(Debug, Args)]
pub struct DprobesArgs {
    #[command(subcommand)]
    command: Command,
    /// The directory of the module rust_dprobes.
    #[arg(
        long,
        value_name = "DIR",
        default_value = DIR,
        global = true
    )]
    dir: PathBuf,
}

/// Loads, removes and shows probe programs.
///
/// The options of version 5 are understood, too: dprobes -i FILE, -r, -g, -q, -b, -p, and their long forms.
#[derive(Debug, Parser)]
#[command(name = "dprobes", version = env!("FERROTRACE_VERSION"))]
pub struct Classic {
    #[command(flatten)]
    args: DprobesArgs,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Load the programs of files: all of them, or none.
    Insert(InsertArgs),
    /// Remove programs.
    Remove(RemoveArgs),
    /// Show programs, their points and how often these were hit.
    Query(QueryArgs),
    /// Show variables.
    #[command(visible_alias = "vars")]
    Getvars(GetVarsArgs),
    /// Write the programs of files to a file that can be loaded without them.
    Build(BuildArgs),
    /// Load the programs of a file of "build".
    Apply(ApplyArgs),
    /// Show what programs log, as it comes.
    Watch(WatchArgs),
    /// Record what programs log; "ferrotrace relay merge" shows it.
    Record(RecordArgs),
    /// Check program files, without a kernel.
    Check(CheckArgs),
}

/// Shows what programs log.
pub(super) fn watch(args: WatchArgs) -> Result<u8> {
    run::watch(
        args,
        &Control::new(kernel_dir::find(DIR.into(), "rust_dprobes")),
    )
}

/// Records what programs log.
pub(super) fn record(args: RecordArgs) -> Result<u8> {
    run::record(
        args,
        &Control::new(kernel_dir::find(DIR.into(), "rust_dprobes")),
    )
}

impl Classic {
    /// Runs the command.
    pub fn run(self) -> Result<u8> {
        self.args.run()
    }
}

impl DprobesArgs {
    /// How the command is written with the verbs.
    pub fn new_spelling(&self) -> &'static str {
        match self.command {
            Command::Watch(_) => "watch FILE.dp",
            Command::Record(_) => "record FILE.dp",
            _ => "kernel dprobes",
        }
    }

    pub fn run(self) -> Result<u8> {
        let control = Control::new(kernel_dir::find(self.dir, "rust_dprobes"));
        let done = match self.command {
            Command::Insert(args) => run::insert(args, &control),
            Command::Remove(args) => run::remove(&args.names, &control),
            Command::Query(args) => run::query(&args, &control),
            Command::Getvars(args) => run::getvars(args, &control),
            Command::Build(args) => run::build(args),
            Command::Apply(args) => run::apply(&args, &control),
            Command::Watch(args) => return run::watch(args, &control),
            Command::Record(args) => return run::record(args, &control),
            Command::Check(args) => run::check(&args),
        };
        done.map(|()| 0)
    }
}
