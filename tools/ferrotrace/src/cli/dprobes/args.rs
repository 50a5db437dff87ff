// SPDX-License-Identifier: GPL-2.0

//! The arguments of `ferrotrace dprobes`.

#![deny(unsafe_code)]

use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use ferro_dprobes_core::ALL_FIELDS;
use ferro_dprobes_core::FIELDS;
use ferro_dprobes_core::Field;
use ferro_dprobes_core::IGNORE_OPCODES;
use ferro_dprobes_core::MERGE;
use ferro_dprobes_core::REPLACE;
use ferro_dprobes_core::SetHeader;
use ferro_dprobes_core::Target;
use ferro_dprobes_core::UNSAFE_WRITES;

use ferrotrace::dprobes::lang::source::Define;
use ferrotrace::dprobes::set::Selection;

use super::super::units::CommandArgs;
use super::super::units::parse_duration;

/// How program files are read.
#[derive(Debug, Args)]
pub struct ReadArgs {
    /// Let a name in the files stand for something; 1 without a value.
    #[arg(short = 'D', value_name = "KEY=VALUE")]
    pub defines: Vec<Define>,
    /// A file of symbols: vmlinux, a module, the debug file of a program or library, or System.map.
    #[arg(short, long = "sym", value_name = "FILE")]
    pub symbols: Option<PathBuf>,
    /// Take the file of symbols also if it is of another build than what is probed.
    #[arg(long)]
    pub any_build: bool,
}

/// Which points are loaded, and how.
#[derive(Debug, Args)]
pub struct SetArgs {
    /// Only points of these groups.
    #[arg(short = 'u', long = "group", value_name = "N", value_delimiter = ',')]
    pub groups: Vec<u32>,
    /// Only points of these types.
    #[arg(short = 't', long = "type", value_name = "N", value_delimiter = ',')]
    pub types: Vec<u32>,
    /// Add points to a program that is loaded already.
    #[arg(short, long, conflicts_with = "replace")]
    pub merge: bool,
    /// Take the place of a program that is loaded already.
    #[arg(short = 'c', long)]
    pub replace: bool,
    /// Load points also where the code does not begin with their opcode.
    #[arg(long)]
    pub dont_verify_opcodes: bool,
    /// Put these into the header of each record: PROCNAME, PID, UID, SSESP, CSEIP, PSW, UPSW, TSC, ALL.
    #[arg(short, long = "log", value_name = "FIELD", value_delimiter = ',', value_parser = parse_field)]
    pub log: Vec<u32>,
    /// Where records go: RELAY, or KLOG for "ferrotrace klog".
    #[arg(long, value_name = "TARGET", default_value = "RELAY", value_parser = parse_target)]
    pub log_target: Target,
    /// Allow programs to change registers, memory and ports, to call modules, and to crash the kernel.
    #[arg(long)]
    pub unsafe_writes: bool,
    /// Of version 5; nothing has to stop.
    #[arg(long, hide = true)]
    pub stop_cpus: bool,
    /// Of version 5; records are never formatted before they are shown.
    #[arg(short = 'f', long, hide = true)]
    pub unformatted_output: bool,
}

fn parse_field(text: &str) -> Result<u32, String> {
    let upper = text.to_ascii_uppercase();
    if upper == "ALL" {
        return Ok(ALL_FIELDS);
    }
    let field = Field::from_name(&upper).map(|field| u32::from(field.bit()));
    field.ok_or_else(|| {
        let names: Vec<_> = FIELDS.iter().map(|field| field.name()).collect();
        format!("it is none of {}, ALL", names.join(", "))
    })
}

fn parse_target(text: &str) -> Result<Target, String> {
    match text.to_ascii_uppercase().as_str() {
        // The Linux Trace Toolkit stored what relay stores now.
        "RELAY" | "LTT" => Ok(Target::Relay),
        "KLOG" => Ok(Target::Klog),
        "COM1" | "COM2" | "EVL" => {
            Err("Linux has no such target any more; there are RELAY and KLOG".to_owned())
        }
        _ => Err("it is neither RELAY nor KLOG".to_owned()),
    }
}

impl SetArgs {
    pub fn header(&self) -> SetHeader {
        let flags = [
            (self.unsafe_writes, UNSAFE_WRITES),
            (self.dont_verify_opcodes, IGNORE_OPCODES),
            (self.replace, REPLACE),
            (self.merge, MERGE),
        ];
        let flags = flags.iter().filter(|(is_set, _)| *is_set);
        SetHeader {
            flags: flags.fold(0, |all, (_, flag)| all | flag),
            fields: self.log.iter().fold(0, |all, field| all | field),
            target: self.log_target,
        }
    }

    pub fn selection(&self) -> Selection {
        Selection {
            groups: self.groups.clone(),
            types: self.types.clone(),
        }
    }
}

#[derive(Debug, Args)]
#[command(mut_arg("any_build", |arg| arg.visible_alias("force")))]
pub struct InsertArgs {
    /// Program files.
    #[arg(value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,
    #[command(flatten)]
    pub read: ReadArgs,
    #[command(flatten)]
    pub set: SetArgs,
}

/// Programs by name, or all.
#[derive(Debug, Args)]
pub struct Names {
    /// Programs: the names of modules, paths, or vmlinux.
    #[arg(value_name = "NAME")]
    names: Vec<String>,
    /// Another way to name a program.
    #[arg(short, long = "name", value_name = "NAME")]
    name: Vec<String>,
    /// All programs.
    #[arg(short, long, conflicts_with_all = ["names", "name"])]
    pub all: bool,
}

impl Names {
    pub fn list(&self) -> Vec<String> {
        self.names.iter().chain(&self.name).cloned().collect()
    }
}

#[derive(Debug, Args)]
pub struct RemoveArgs {
    #[command(flatten)]
    pub names: Names,
}

#[derive(Debug, Args)]
pub struct QueryArgs {
    #[command(flatten)]
    pub names: Names,
    /// Show all that is known.
    #[arg(short = 'x', long)]
    pub extended: bool,
    /// Print one JSON document.
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct GetVarsArgs {
    #[command(flatten)]
    pub names: Names,
    /// Only variables with these numbers.
    #[arg(short, long, value_name = "A-B", value_parser = parse_indexes)]
    pub index: Option<RangeInclusive<usize>>,
    /// Only local variables.
    #[arg(long, conflicts_with = "global")]
    pub local: bool,
    /// Only global variables.
    #[arg(long)]
    pub global: bool,
    /// Make the variables 0 after that.
    #[arg(long)]
    pub reset: bool,
    /// Print one JSON document.
    #[arg(long)]
    pub json: bool,
}

fn parse_indexes(text: &str) -> Result<RangeInclusive<usize>, String> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let number = |text: &str| text.trim().parse::<usize>().ok();
    match (number(first), number(last)) {
        (Some(first), Some(last)) if first <= last => Ok(first..=last),
        _ => Err("it is neither a number nor a range such as 0-3".to_owned()),
    }
}

#[derive(Debug, Args)]
pub struct BuildArgs {
    /// Program files.
    #[arg(value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,
    /// The file to write; the name of the first program file with .ppdf after it without this.
    #[arg(short, long = "outfile", value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Write over a file that is not empty.
    #[arg(short, long)]
    pub force: bool,
    #[command(flatten)]
    pub read: ReadArgs,
}

#[derive(Debug, Args)]
pub struct ApplyArgs {
    /// A file of "build".
    #[arg(value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,
    /// Load it also where other builds or other code are than it was built for.
    #[arg(long, visible_alias = "force")]
    pub any_build: bool,
    #[command(flatten)]
    pub set: SetArgs,
}

#[derive(Debug, Args)]
pub struct WatchArgs {
    /// Program files that are loaded while this runs; without any, what the loaded programs log is shown.
    #[arg(value_name = "FILE")]
    pub files: Vec<PathBuf>,
    #[command(flatten)]
    pub read: ReadArgs,
    #[command(flatten)]
    pub set: SetArgs,
    /// Stop after that many records; otherwise on SIGINT or SIGTERM.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub count: Option<u64>,
    /// Stop after this time: seconds, or with units 500ms, 5s, 2m, 1h 30m.
    #[arg(short, long, value_name = "TIME", value_parser = parse_duration)]
    pub duration: Option<Duration>,
    /// Show dates and times (UTC) instead of the time since the machine was started; with --json, both.
    #[arg(long)]
    pub wall: bool,
    /// Print one JSON object on each line.
    #[arg(long)]
    pub json: bool,
    /// Write to this file instead of standard output.
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Write over a file that is not empty.
    #[arg(long, requires = "output")]
    pub force: bool,
    #[command(flatten)]
    pub command: CommandArgs,
}

#[derive(Debug, Args)]
pub struct RecordArgs {
    /// Program files that are loaded while this runs.
    #[arg(value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// The directory to record into, which is created or must be empty.
    #[arg(short, long, value_name = "OUT")]
    pub output: PathBuf,
    /// Write into OUT even if it is not empty.
    #[arg(long)]
    pub force: bool,
    #[command(flatten)]
    pub read: ReadArgs,
    #[command(flatten)]
    pub set: SetArgs,
    /// Stop after this time, in seconds, or with units: 500ms, 5s, 2m, 1h 30m; otherwise on SIGINT or SIGTERM.
    #[arg(short, long, value_name = "TIME", value_parser = parse_duration)]
    pub duration: Option<Duration>,
    /// Show no rate while recording.
    #[arg(short, long)]
    pub quiet: bool,
    /// Print the summary as JSON.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub command: CommandArgs,
}

#[derive(Debug, Args)]
pub struct CheckArgs {
    /// Program files.
    #[arg(value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,
    #[command(flatten)]
    pub read: ReadArgs,
    /// Look the places up too: in the running kernel, in the files that are probed, in the file of --sym.
    #[arg(long)]
    pub places: bool,
    /// Print the programs as they are understood, with the places that were found.
    #[arg(long, requires = "places")]
    pub print: bool,
}
