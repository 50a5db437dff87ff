// SPDX-License-Identifier: GPL-2.0

//! Flight recorder: adds probes with hits in memory that survives a panic, and writes a recording
//! that describes their records.
//!
//! The recording has no hits. After the panic, [`crate::recover`] joins it with the memory.

#![deny(unsafe_code)]

use std::path::PathBuf;

use ferro_kprobe_events_core::probe_args::Args;
use ferro_kprobe_events_core::probe_command::NAME_MAX;

use super::error::Error;
use super::error::Result;
use super::kernel::Kernel;
use super::model::Kind;
use super::model::short_name;
use super::resolve::Wanted;
use super::watch::system;
use crate::clock::monotonic;
use crate::clock::wall_offset;
use crate::relay::output::Metadata;
use crate::relay::output::OutputDir;
use crate::signals::StopSignals;

/// Prefix of the names of kept probes.
const PREFIX: &str = "keep.";

/// Arguments of a probe that has none except stacks: the registers of the first three parameters.
/// Records with arguments are shorter than records with all registers, and their type is the probe's
/// number.
const AT_ENTRY: &str = "arg1=%di:x64 arg2=%si:x64 arg3=%dx:x64";

/// Arguments of a return probe that has none except stacks.
const AT_RETURN: &str = "ret=$retval:x64";

/// Options of the user.
#[derive(Clone, Debug)]
pub struct Options {
    /// Name of the memory on the kernel's command line.
    pub memory: String,
    /// Directory of the recording.
    pub output: PathBuf,
    /// Write into a directory that is not empty.
    pub force: bool,
}

/// Result of [`keep`].
#[derive(Debug)]
pub struct Kept {
    /// Number of probes.
    pub probes: usize,
    /// Errors of the refused probes, all of which a pattern selected.
    pub refused: Vec<Error>,
}

/// Adds probes, which outlive this process, and saves the description of their records. Returns
/// after the description is on disk.
pub fn keep(
    kernel: &Kernel,
    probes: &[Wanted],
    options: &Options,
    signals: &StopSignals,
) -> Result<Kept> {
    let kept = names(kernel)?.len();
    if kept != 0 {
        return Err(Error::Kept(kept));
    }
    let metadata = metadata(options)?;
    // Before the memory is taken, which erases its contents.
    let output = OutputDir::create(&options.output, &metadata.name, options.force)?;
    // The channel stays open while `session` or one of its probes exists.
    let session = kernel.keep(&options.memory, &metadata.recording_id())?;
    let probes: Vec<_> = probes.iter().map(kept_probe).collect();
    let added = session.add(&probes, || signals.has_come())?;
    let describe = || -> Result<()> {
        let format = kernel.format()?;
        let format = format.replace(&format!("\nname: {PREFIX}"), "\nname: ");
        output.write_format(format.as_bytes())?;
        output.save_names()?;
        output.write_metadata(&metadata)?;
        Ok(output.sync()?)
    };
    if let Err(error) = describe() {
        // The user needs this error rather than one of the removal.
        let _ = kernel.remove_present(&added.names);
        return Err(error);
    }
    Ok(Kept {
        probes: added.names.len(),
        refused: added.refused,
    })
}

/// Removes the probes. Returns their number.
pub fn stop(kernel: &Kernel) -> Result<usize> {
    let names = names(kernel)?;
    kernel.remove_present(&names)?;
    Ok(names.len())
}

/// Returns the names of the kept probes in the kernel.
fn names(kernel: &Kernel) -> Result<Vec<String>> {
    let names = kernel.list()?.into_iter().map(|probe| probe.name);
    Ok(names.filter(|name| name.starts_with(PREFIX)).collect())
}

/// Returns the probe with the prefix in its name, and with arguments.
fn kept_probe(probe: &Wanted) -> Wanted {
    let mut probe = probe.clone();
    probe.name = short_name(&format!("{PREFIX}{}", probe.name), NAME_MAX);
    let is_return = probe.kind == Kind::Return;
    let args = Args::parse(&probe.args, is_return);
    if args.is_some_and(|args| args.iter().all(|(_, arg)| arg.ty.is_stack())) {
        let values = if is_return { AT_RETURN } else { AT_ENTRY };
        probe.args = format!("{values} {}", probe.args).trim_end().to_owned();
    }
    probe
}

/// Describes a recording that begins now.
fn metadata(options: &Options) -> Result<Metadata> {
    let clock = |errno| system("read the clock", errno);
    let now = monotonic().map_err(clock)?.as_nanos();
    let start = u64::try_from(now).unwrap_or(u64::MAX);
    Ok(Metadata {
        complete: true,
        start_unix_ns: start.saturating_add(wall_offset().map_err(clock)?),
        start_monotonic_ns: start,
        ..Metadata::new(&options.memory, "cpu", "kept")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_probe_has_arguments() {
        let args = |kind, args| kept_probe(&Wanted::of_place("f", "f", kind, args)).args;
        assert_eq!(args(Kind::Probe, "n=%di"), "n=%di");
        assert_eq!(args(Kind::Probe, ""), AT_ENTRY);
        let with_stack = format!("{AT_ENTRY} stack=$kstack");
        assert_eq!(args(Kind::Probe, "stack=$kstack"), with_stack);
        assert_eq!(
            args(Kind::Return, "if pid==3"),
            format!("{AT_RETURN} if pid==3")
        );
        for kind in [Kind::Probe, Kind::Return] {
            let made = args(kind, "if pid==3");
            assert!(Args::parse(&made, kind == Kind::Return).is_some(), "{made}");
        }
    }
}
