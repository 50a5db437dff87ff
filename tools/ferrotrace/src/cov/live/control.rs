// SPDX-License-Identifier: GPL-2.0

//! Files of the module `ferrotrace_coverage`: `<uapi/linux/ferrotrace_coverage.h>`.

#![deny(unsafe_code)]

use std::fs;
use std::fs::File;
use std::io;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use ferro_coverage_core::Refusal;
use ferro_coverage_core::WRITE_MAX;
use nix::errno::Errno;

use super::super::error::Error;
use super::super::error::Result;
use crate::file::IoError;
use crate::kernel_dir;

/// Directory of the module.
pub const DIR: &str = "/sys/kernel/debug/ferrotrace_coverage";

/// Name of the module.
const MODULE: &str = "ferrotrace_coverage";

/// Maximum number of places in a write.
pub const WRITE_PLACES: usize = (WRITE_MAX - HEADER) / 4;

/// Bytes before the offsets of a write.
const HEADER: usize = 16;

/// State of a place, a byte in the file `blocks`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Not executed.
    Missed,
    /// Executed.
    Hit,
    /// Executed by the runs with which this one is compared, whether or not by this one.
    Before,
    /// Not watched, for this reason if it is known.
    Refused(Option<Refusal>),
}

/// Returns the text of a reason.
pub fn reason(refusal: Option<Refusal>) -> &'static str {
    match refusal {
        None => "for an unknown reason",
        Some(Refusal::NotText) => "not in the text",
        Some(Refusal::Init) => "code of the start",
        Some(Refusal::NoFunction) => "in no function",
        Some(Refusal::Marked) => "noinstr or NOKPROBE",
        Some(Refusal::Named) => "code of the start, suspend or kexec",
        Some(Refusal::Own) => "on the path of a hit",
        Some(Refusal::NotInstruction) => "no start of an instruction",
        Some(Refusal::NotExecutable) => "no instruction that the trap can execute",
        Some(Refusal::Ftrace) => "a site of ftrace",
        Some(Refusal::JumpLabel) => "a static key",
        Some(Refusal::StaticCall) => "a static call",
        Some(Refusal::Exception) => "in the exception table",
        Some(Refusal::LandingPad) => "a landing pad",
        Some(Refusal::Bug) => "BUG or WARN",
        Some(Refusal::Kprobe) => "a kprobe",
        Some(Refusal::Changed) => "changed by other code",
        Some(Refusal::Gone) => "in a module that is gone",
    }
}

impl State {
    fn of(byte: u8) -> Self {
        let state = ferro_coverage_core::State::from_byte(byte);
        match (state.is_hit(), state.is_refused()) {
            (true, _) => Self::Hit,
            (_, true) => Self::Refused(state.refusal()),
            _ => Self::Missed,
        }
    }

    /// Returns true for an executed block, false for others that are watched, `None` for the rest.
    pub fn is_hit(self) -> Option<bool> {
        match self {
            Self::Hit => Some(true),
            Self::Missed | Self::Before => Some(false),
            Self::Refused(_) => None,
        }
    }

    /// Returns the state of two blocks as one, such as those of a line or of a block in two runs.
    pub fn with(self, other: Self) -> Self {
        use State::*;
        match (self, other) {
            (Before, _) | (_, Before) => Before,
            (Hit, _) | (_, Hit) => Hit,
            (Missed, _) | (_, Missed) => Missed,
            _ => self,
        }
    }

    /// Returns the state compared with that of the same block before. If it was not watched before,
    /// nothing is known.
    pub fn since(self, before: Self) -> Self {
        match (self, before) {
            (Self::Refused(_), _) | (_, Self::Missed) => self,
            (_, Self::Hit | Self::Before) => Self::Before,
            (_, Self::Refused(_)) => before,
        }
    }

    /// Returns true if another instruction of the block may be watched.
    pub fn is_of_instruction(self) -> bool {
        use Refusal::*;
        matches!(
            self,
            Self::Refused(Some(
                NotInstruction
                    | NotExecutable
                    | Ftrace
                    | JumpLabel
                    | StaticCall
                    | Exception
                    | LandingPad
                    | Bug
                    | Kprobe
                    | Changed
            ))
        )
    }
}

/// Open session. Dropping it takes all breakpoints away.
pub struct Control {
    blocks: File,
    dir: PathBuf,
    places: usize,
}

impl Control {
    /// Begins the session. Only one can be open.
    pub fn open(dir: PathBuf) -> Result<Self> {
        let dir = kernel_dir::find(dir, MODULE);
        let path = dir.join("blocks");
        let blocks = File::options().read(true).write(true).open(&path);
        let blocks =
            blocks.map_err(
                |error| match Errno::from_raw(error.raw_os_error().unwrap_or(0)) {
                    Errno::ENOENT => Error::NoLive(dir.clone()),
                    Errno::EBUSY => Error::LiveBusy,
                    _ => IoError::or_denied(Error::LiveDenied, "open", &path, error),
                },
            )?;
        Ok(Self {
            blocks,
            dir,
            places: 0,
        })
    }

    fn failed(&self, action: &'static str, file: &str, source: io::Error) -> Error {
        Error::Io(IoError {
            action,
            path: self.dir.join(file),
            source,
        })
    }

    /// Adds places of one text, in ascending order, at most [`WRITE_PLACES`].
    pub fn add(&mut self, addresses: &[u64]) -> Result<()> {
        let Some(base) = addresses.first() else {
            return Ok(());
        };
        let mut record = Vec::with_capacity(HEADER + 4 * addresses.len());
        record.extend(base.to_le_bytes());
        record.extend(
            u32::try_from(addresses.len())
                .unwrap_or(u32::MAX)
                .to_le_bytes(),
        );
        record.extend(0_u32.to_le_bytes());
        for address in addresses {
            let offset = u32::try_from(address.wrapping_sub(*base));
            let offset =
                offset.map_err(|error| self.failed("write", "blocks", io::Error::other(error)))?;
            record.extend(offset.to_le_bytes());
        }
        let written = (&self.blocks).write_all(&record);
        written.map_err(|error| self.failed("write", "blocks", error))?;
        self.places += addresses.len();
        Ok(())
    }

    /// Returns the states of all places, in the order in which they were added.
    pub fn states(&self) -> Result<Vec<State>> {
        let mut bytes = vec![0; self.places];
        let read = self.blocks.read_exact_at(&mut bytes, 0);
        read.map_err(|error| self.failed("read", "blocks", error))?;
        Ok(bytes.into_iter().map(State::of).collect())
    }

    /// Writes a command, such as `arm`.
    pub fn command(&self, command: &str) -> Result<()> {
        let written = fs::write(self.dir.join("control"), format!("{command}\n"));
        written.map_err(|error| self.failed("write", "control", error))
    }

    /// Reads the numbers of the module.
    pub fn status(&self) -> Result<String> {
        let text = fs::read_to_string(self.dir.join("control"));
        text.map_err(|error| self.failed("read", "control", error))
    }
}
