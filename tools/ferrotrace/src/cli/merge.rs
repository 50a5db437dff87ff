// SPDX-License-Identifier: GPL-2.0

//! `ferrotrace relay merge`.

use std::io;
use std::io::BufWriter;
use std::io::IsTerminal;
use std::io::Write;
use std::ops::RangeInclusive;
use std::path::Path;
use std::path::PathBuf;

use anyhow::Context;
use anyhow::Result;
use anyhow::ensure;
use clap::Args;
use clap::ValueEnum;
use nix::sys::resource::Resource;
use nix::sys::resource::getrlimit;
use nix::sys::resource::setrlimit;

use ferrotrace::clock::Seconds;
use ferrotrace::export::chrome::Chrome;
use ferrotrace::export::firefox::Firefox;
use ferrotrace::export::parquet::Parquet;
use ferrotrace::export::perfetto::Perfetto;
use ferrotrace::file::create;
use ferrotrace::merge::ctf::Ctf;
use ferrotrace::merge::ctf::Version;
use ferrotrace::merge::lines::Lines;
use ferrotrace::merge::recording::Recording;
use ferrotrace::merge::run::Counts;
use ferrotrace::merge::run::MergeError;
use ferrotrace::merge::run::Selection;
use ferrotrace::merge::run::merge;
use ferrotrace::merge::run::warnings;
use ferrotrace::merge::sink::Sink;
use ferrotrace::text::stdout;

use super::print;
use super::warn;

#[derive(Debug, Args)]
pub struct MergeArgs {
    /// A directory that `record` created.
    #[arg(value_name = "OUT")]
    recording: PathBuf,
    /// What to write: lines of text, JSON objects, one on each line, a Common Trace Format trace, what programs that draw
    /// timelines read, or a table.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    /// The same as --format json.
    #[arg(long, conflicts_with = "format")]
    json: bool,
    /// Where to write it: a file, by default standard output; for ctf and ctf2 a directory, which is created or must be
    /// empty.
    #[arg(short, long, value_name = "PATH", required_if_eq_any([("format", "ctf"), ("format", "ctf2")]))]
    output: Option<PathBuf>,
    /// Write over a file that is not empty.
    #[arg(short, long, requires = "output")]
    force: bool,
    /// Write only the first N records; the counts are still those of all.
    #[arg(short = 'n', short_alias = 'l', long, value_name = "N")]
    limit: Option<u64>,
    /// Show dates and times (UTC) instead of the time since the machine was started; with json, both.
    #[arg(long)]
    wall: bool,
    #[command(flatten)]
    selection: SelectionArgs,
}

/// Which records are taken.
#[derive(Debug, Args)]
pub struct SelectionArgs {
    /// Leave out records before this time, as text shows it.
    #[arg(long, value_name = "SECS", value_parser = parse_time)]
    from: Option<u64>,
    /// Leave out records after this time.
    #[arg(long, value_name = "SECS", value_parser = parse_time)]
    to: Option<u64>,
    /// Take only the records of these CPUs, such as 0,2-3.
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = parse_cpus)]
    cpu: Vec<RangeInclusive<u32>>,
}

impl SelectionArgs {
    /// The selection, of the first records if there is a `limit`.
    pub fn selection(&self, limit: Option<u64>) -> Result<Selection> {
        if let (Some(from), Some(to)) = (self.from, self.to) {
            ensure!(
                from <= to,
                "--from {} is after --to {}",
                Seconds(from),
                Seconds(to)
            );
        }
        Ok(Selection {
            limit,
            from: self.from,
            to: self.to,
            cpus: self.cpu.clone(),
        })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    Text,
    Json,
    /// Version 1.8.
    Ctf,
    /// Version 2.
    Ctf2,
    /// For Perfetto's user interface, with slices and tracks.
    Perfetto,
    /// JSON for Chrome's tracing and others, with slices and tracks.
    Chrome,
    /// For Firefox Profiler, with slices and tracks as markers of threads.
    Firefox,
    /// A table for DuckDB, Spark, Polars and others, with a row for each record.
    Parquet,
}

impl Format {
    /// Returns the name of a binary format, which is not for terminals.
    fn binary(self) -> Option<&'static str> {
        match self {
            Self::Perfetto => Some("a trace of Perfetto"),
            Self::Parquet => Some("a table of Parquet"),
            _ => None,
        }
    }

    fn ctf(self) -> Option<Version> {
        match self {
            Self::Ctf => Some(Version::One),
            Self::Ctf2 => Some(Version::Two),
            _ => None,
        }
    }
}

/// Seconds with up to nine digits after the point, as nanoseconds.
fn parse_time(text: &str) -> Result<u64, String> {
    let (seconds, fraction) = text.split_once('.').unwrap_or((text, ""));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if seconds.is_empty() || fraction.len() > 9 || !digits(seconds) || !digits(fraction) {
        return Err("not a number of seconds with up to nine decimals".to_owned());
    }
    format!("{seconds}{fraction:0<9}")
        .parse()
        .map_err(|_| "too large".to_owned())
}

/// A CPU, or a range of them.
fn parse_cpus(text: &str) -> Result<RangeInclusive<u32>, String> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    match (first.parse(), last.parse()) {
        (Ok(first), Ok(last)) if first <= last => Ok(first..=last),
        _ => Err("neither a CPU nor a range of them".to_owned()),
    }
}

/// Opens a recording. A file for each CPU, on either side, can be more than a process may have open by default.
pub fn open(dir: &Path) -> Result<Recording> {
    if let Ok((_, hard)) = getrlimit(Resource::RLIMIT_NOFILE) {
        // If the limit cannot be raised, opening a file will fail.
        let _ = setrlimit(Resource::RLIMIT_NOFILE, hard, hard);
    }
    Ok(Recording::open(dir)?)
}

impl MergeArgs {
    /// Lines of text, or of JSON, on standard output.
    pub fn lines(
        recording: PathBuf,
        json: bool,
        limit: Option<u64>,
        wall: bool,
        selection: SelectionArgs,
    ) -> Self {
        Self {
            recording,
            format: Format::Text,
            json,
            output: None,
            force: false,
            limit,
            wall,
            selection,
        }
    }

    /// The same to a file, if there is one.
    pub fn to(self, output: Option<PathBuf>, force: bool) -> Self {
        Self {
            output,
            force,
            ..self
        }
    }

    pub fn run(self) -> Result<()> {
        let selection = self.selection.selection(self.limit)?;
        let recording = open(&self.recording)?;
        let counts = match self.write(&recording, &selection) {
            Ok(counts) => counts,
            // The reader, such as `head`, has gone.
            Err(error) if is_broken_pipe(&error) => return Ok(()),
            Err(error) => return Err(error),
        };
        for warning in warnings(&recording, &counts) {
            warn(&warning);
        }
        Ok(())
    }

    fn write(&self, recording: &Recording, selection: &Selection) -> Result<Counts> {
        let format = match self.json {
            true => Format::Json,
            false => self.format,
        };
        if let (Some(version), Some(dir)) = (format.ctf(), &self.output) {
            let mut trace = Ctf::create(dir, recording, version)?;
            let counts = merge(recording, selection, &mut trace)?;
            print(&format!("{counts}written to {}\n", dir.display()))?;
            return Ok(counts);
        }
        if let (Some(what), None) = (format.binary(), &self.output) {
            ensure!(
                !io::stdout().is_terminal(),
                "{what} is not for a terminal; name a file with --output"
            );
        }
        let wall =
            match self.wall {
                true => Some(recording.clock_offset().context(
                    "--wall: the recording does not say when it began on CLOCK_MONOTONIC",
                )?),
                false => None,
            };
        let (out, name): (Box<dyn Write + Send>, _) = match &self.output {
            Some(path) => {
                let name = path.display().to_string();
                (Box::new(create(path, self.force)?), name)
            }
            None => (stdout(), "standard output".to_owned()),
        };
        let out = BufWriter::with_capacity(64 << 10, out);
        let mut sink: Box<dyn Sink> = match format {
            Format::Chrome => Box::new(Chrome::new(out, name)),
            Format::Firefox => Box::new(Firefox::new(out, name, recording)),
            Format::Parquet => Box::new(Parquet::new(out, name, recording)?),
            Format::Perfetto => Box::new(Perfetto::new(out, name, recording)?),
            _ => Box::new(Lines::new(out, name, format == Format::Json, wall)),
        };
        Ok(merge(recording, selection, sink.as_mut())?)
    }
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    matches!(
        error.downcast_ref(),
        Some(MergeError::Write(error)) if error.source.kind() == io::ErrorKind::BrokenPipe
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_exact() {
        assert_eq!(parse_time("12.345678901"), Ok(12_345_678_901));
        assert_eq!(parse_time("12"), Ok(12_000_000_000));
        assert_eq!(parse_time("0.5"), Ok(500_000_000));
        assert_eq!(parse_time("18446744073.709551615"), Ok(u64::MAX));
        for bad in [
            "",
            ".5",
            "1.2345678901",
            "-1",
            "1e3",
            "18446744073.709551616",
        ] {
            assert!(parse_time(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn cpus_are_numbers_and_ranges() {
        assert_eq!(parse_cpus("3"), Ok(3..=3));
        assert_eq!(parse_cpus("0-7"), Ok(0..=7));
        for bad in ["", "-", "3-1", "a", "1-", "1-2-3"] {
            assert!(parse_cpus(bad).is_err(), "{bad}");
        }
    }
}
