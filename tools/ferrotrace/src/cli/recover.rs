// SPDX-License-Identifier: GPL-2.0

//! `ferrotrace recover`.

#![deny(unsafe_code)]

use std::path::PathBuf;

use anyhow::Context;
use anyhow::Result;
use clap::Args;

use ferrotrace::kernel_dir;
use ferrotrace::recover::memory;
use ferrotrace::recover::save::Options;
use ferrotrace::recover::save::save;
use ferrotrace::recover::save::summary;
use ferrotrace::relay::output::this_host;

use super::print;
use super::warn;

#[derive(Debug, Args)]
pub struct RecoverArgs {
    /// The memory: what the kernel's command line calls it, reserve_mem=SIZE:4096:NAME.
    #[arg(value_name = "NAME", required_unless_present = "image")]
    name: Option<String>,
    /// A copy of the memory instead, as /sys/kernel/debug/ferrotrace_flight/NAME has it.
    #[arg(long, value_name = "FILE", conflicts_with = "name")]
    image: Option<PathBuf>,
    /// The directory of the recording, which is created or must be empty. `ferrotrace export` reads it.
    #[arg(short, long, value_name = "OUT")]
    output: PathBuf,
    /// Write into OUT even if it is not empty.
    #[arg(short, long)]
    force: bool,
    /// Leave out records that no checksum vouches for: those written after the kernel's last sign of life, or all if it gave
    /// none.
    #[arg(long)]
    sealed: bool,
    /// The directory that "record --keep" wrote, with the names and arguments of the probes.
    #[arg(long, value_name = "REC")]
    described: Option<PathBuf>,
    /// When the recording is written, give up what is in the memory.
    #[arg(long, conflicts_with = "image")]
    drop: bool,
    /// Print what was found as JSON.
    #[arg(long)]
    json: bool,
    /// Where the kernel has the memory.
    #[arg(long, value_name = "DIR", default_value = memory::DIR)]
    dir: PathBuf,
}

impl RecoverArgs {
    pub fn run(self) -> Result<()> {
        let name = self.name.unwrap_or_default();
        // An image needs no kernel.
        let dir = match &self.image {
            Some(_) if !self.drop => self.dir,
            _ => kernel_dir::find(self.dir, "ferrotrace_fast_relay"),
        };
        let memory = match &self.image {
            Some(image) => memory::read(image)?,
            None => memory::find(&dir, &name)?,
        };
        let options = Options {
            output: self.output,
            force: self.force,
            sealed: self.sealed,
            // A copy can be of any.
            host: self.image.is_none().then(this_host).flatten(),
            described: self.described,
        };
        let what = self
            .image
            .map_or(name.clone(), |image| image.display().to_string());
        let recovery = save(&memory, &options).context(what)?;
        for warning in &recovery.warnings {
            warn(warning);
        }
        for cpu in &recovery.recording.cpus {
            for warning in &cpu.tally.warnings {
                warn(&format!("cpu {}: {warning}", cpu.cpu));
            }
        }
        if self.drop {
            memory::forget(&dir, &name)?;
        }
        match self.json {
            true => print(&format!("{}\n", serde_json::to_string_pretty(&recovery)?))?,
            false => print(&summary(&recovery, &options.output))?,
        };
        Ok(())
    }
}
