// SPDX-License-Identifier: GPL-2.0

//! `ferrotrace probe`.

#![deny(unsafe_code)]

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;
use clap::Args;
use clap::Subcommand;
use serde::Serialize;

use ferrotrace::pids::Pids;
use ferrotrace::probes::control::Control;
use ferrotrace::probes::error::Error;
use ferrotrace::probes::model::Kind;
use ferrotrace::probes::model::Place;
use ferrotrace::probes::model::Probe;
use ferrotrace::probes::model::parse_name;
use ferrotrace::probes::print;
use ferrotrace::probes::print::Style;
use ferrotrace::probes::symbols::Symbols;
use ferrotrace::probes::watch;
use ferrotrace::probes::watch::watch;
use ferrotrace::relay::record::take_signals;

use super::print as print_text;
use super::units::CommandArgs;
use super::units::OutputArgs;
use super::units::parse_duration;
use super::warn;

#[derive(Debug, Args)]
pub struct ProbeArgs {
    #[command(subcommand)]
    command: Command,
    /// The directory of the module ferrotrace_kprobe_events.
    #[arg(
        long,
        value_name = "DIR",
        default_value = "/sys/kernel/debug/ferrotrace_kprobe_events",
        global = true
    )]
    dir: PathBuf,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Add probes, which stay until they are removed: all that are listed, or none.
    Add(AddArgs),
    /// Show the probes, and how often they were hit.
    List(ListArgs),
    /// Remove probes.
    Remove(RemoveArgs),
    /// Show hits as they come: those of all probes, or of temporary ones.
    Watch(WatchArgs),
}

#[derive(Debug, Args)]
struct AddArgs {
    /// Probe the return of the functions.
    #[arg(short, long = "return")]
    returns: bool,
    /// The probe's name; by default that of its place.
    #[arg(long, value_name = "NAME", value_parser = parse_name)]
    name: Option<String>,
    /// A function of the kernel or of a module, and the bytes from its start to an instruction.
    #[arg(value_name = "SYMBOL[+OFFSET]", required = true)]
    places: Vec<Place>,
}

#[derive(Debug, Args)]
struct ListArgs {
    /// Print one JSON document.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    output: OutputArgs,
}

#[derive(Debug, Args)]
struct RemoveArgs {
    /// The probes.
    #[arg(value_name = "NAME", required_unless_present = "all", value_parser = parse_name)]
    names: Vec<String>,
    /// Remove all probes.
    #[arg(long, conflicts_with = "names")]
    all: bool,
}

#[derive(Debug, Args)]
struct WatchArgs {
    /// Add probes at these places, and remove them at the end.
    #[arg(value_name = "SYMBOL[+OFFSET]")]
    places: Vec<Place>,
    /// Probe the return of these functions.
    #[arg(short, long = "return", requires = "places")]
    returns: bool,
    /// Stop after that many hits; otherwise on SIGINT or SIGTERM.
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    /// Show the registers.
    #[arg(long)]
    regs: bool,
    /// Print one JSON object on each line.
    #[arg(long)]
    json: bool,
    /// Stop after this time.
    #[arg(short, long, value_name = "TIME", value_parser = parse_duration)]
    duration: Option<Duration>,
    /// Show only hits of this process, or of this thread; it can be repeated.
    #[arg(short, long = "pid", value_name = "PID", value_parser = clap::value_parser!(i32).range(0..))]
    pids: Vec<i32>,
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    command: CommandArgs,
}

/// What `--json` prints.
#[derive(Serialize)]
struct Document<'a> {
    probes: &'a [Probe],
}

impl ProbeArgs {
    pub fn run(self) -> Result<u8> {
        let control = Control::new(self.dir);
        let done = match self.command {
            Command::Add(args) => args.run(&control),
            Command::List(args) => args.run(&control),
            Command::Remove(args) => args.run(&control),
            Command::Watch(args) => return args.run(&control),
        };
        done.map(|()| 0)
    }
}

fn kind(returns: bool) -> Kind {
    match returns {
        true => Kind::Return,
        false => Kind::Probe,
    }
}

impl AddArgs {
    fn run(&self, control: &Control) -> Result<()> {
        let kind = kind(self.returns);
        if let (Some(name), [_, _, ..]) = (&self.name, &self.places[..]) {
            anyhow::bail!(
                "--name {name} is for one probe, not for {}",
                self.places.len()
            );
        }
        let mut added: Vec<String> = Vec::new();
        for place in &self.places {
            let name = match &self.name {
                Some(name) => name.clone(),
                None => place.default_name(kind),
            };
            if let Err(error) = control.add(kind, &name, place) {
                for name in &added {
                    if let Err(error) = control.remove(name) {
                        warn(&format!("cannot remove {name} again: {error}"));
                    }
                }
                return Err(error.into());
            }
            added.push(name);
        }
        self.warn_of_namesakes(control)?;
        let text: String = added.iter().map(|name| format!("{name}\n")).collect();
        print_text(&text)?;
        Ok(())
    }

    /// Warns if several functions have a name: the kernel takes the first one.
    fn warn_of_namesakes(&self, control: &Control) -> Result<()> {
        let symbols = Symbols::read().unwrap_or_default();
        for place in &self.places {
            let count = symbols.count(&place.symbol);
            if count > 1 {
                let probes = control.list()?;
                let added = probes.iter().find(|probe| probe.place == *place);
                let address = added.map_or(0, |probe| probe.address);
                warn(&format!(
                    "{count} functions are called {}; the probe is at {address:#x}",
                    place.symbol
                ));
            }
        }
        Ok(())
    }
}

impl ListArgs {
    fn run(&self, control: &Control) -> Result<()> {
        let probes = control.list()?;
        self.output.redirect()?;
        let text = if self.json {
            let document = Document { probes: &probes };
            format!("{}\n", serde_json::to_string_pretty(&document)?)
        } else {
            print::table(&probes)
        };
        print_text(&text)?;
        Ok(())
    }
}

impl RemoveArgs {
    fn run(&self, control: &Control) -> Result<()> {
        if self.all {
            return Ok(control.remove_all()?);
        }
        for name in &self.names {
            control.remove(name)?;
        }
        Ok(())
    }
}

impl WatchArgs {
    fn run(self, control: &Control) -> Result<u8> {
        let signals = take_signals()?;
        let stdout = self.output.redirect()?;
        let style = Style {
            json: self.json,
            registers: self.regs,
        };
        let symbols = Symbols::read().unwrap_or_default();
        for place in &self.places {
            let count = symbols.count(&place.symbol);
            if count > 1 {
                warn(&format!(
                    "{count} functions are called {}; one is probed, \"ip\" of --json says which",
                    place.symbol
                ));
            }
        }
        let options = watch::Options {
            places: self.places,
            kind: kind(self.returns),
            count: self.count,
            duration: self.duration,
            pids: Pids::new(self.pids),
            style,
        };
        let mut is_read = true;
        let ready = || Ok(self.command.start(&signals, stdout, "watching")?);
        let counts = watch(control, options, &symbols, &signals, ready, |text| {
            is_read = print_text(text).map_err(|error| Error::Io {
                action: "write",
                path: "standard output".into(),
                source: io::Error::other(error),
            })?;
            Ok(is_read)
        })?;
        if is_read {
            print_text(&print::counts(&counts, style))?;
        }
        Ok(signals.finish()?)
    }
}
