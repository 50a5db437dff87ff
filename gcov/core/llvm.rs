// SPDX-License-Identifier: GPL-2.0

//! Coverage data of LLVM: compiled code reports each file, function and set of counters to the
//! runtime by calls.
//!
//! ```text
//! llvm_gcda_start_file(name, version, checksum)
//!     for each function: llvm_gcda_emit_function(ident, line checksum, control flow checksum)
//!     llvm_gcda_emit_arcs(number of counters, their address)
//! llvm_gcda_summary_info()
//! llvm_gcda_end_file()
//! ```
//!
//! The file has the format of GCC 4.8 or 11, by its version, except that the summary is last, and
//! two zeros end it. GNU's `gcov` does not read it, `llvm-cov gcov` does.

use super::format::counters_len;
use super::format::counters_tag;
use super::format::COUNTER;
use super::format::FUNCTION_WORDS;
use super::format::MAGIC;
use super::format::SUMMARY_WORDS;
use super::format::TAG_FUNCTION;
use super::format::TAG_OBJECT_SUMMARY;
use super::format::TAG_PROGRAM_SUMMARY;
use super::gcc_info::aligned;
use super::gcc_info::MAX_BYTES;
use super::gcc_info::MAX_FUNCTIONS;
use super::memory::Memory;
use super::record::Identity;
use super::refusal::reading;
use super::refusal::Part;
use super::refusal::Refusal;
use super::version::Format;
use super::version::Unit;
use super::version::Version;
use super::write_buf::Output;

/// A function that LLVM's code has reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LlvmFunction {
    /// Identity, from the first call.
    pub identity: Identity,
    /// Number of its counters, each of 8 bytes.
    pub count: u32,
    /// Address of the counters.
    pub address: u64,
}

/// A file that LLVM's code has reported, and that has been checked.
///
/// The caller keeps the functions: the written functions have to be the checked ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LlvmFile {
    version: Version,
    format: &'static Format,
    stamp: u32,
    max_len: usize,
}

/// Magic, version, stamp; the longer summary; the end.
const LEN_BUT_FUNCTIONS: usize = 4 * (3 + 5 + 2);
/// A function, and the tag and length of its counters.
const LEN_OF_FUNCTION: usize = 4 * (5 + 2);

impl LlvmFile {
    /// Checks the arguments of the calls.
    ///
    /// # Errors
    ///
    /// The reason for a refusal: none of the data is reliable then.
    pub fn check<M: Memory>(
        memory: &M,
        version: u32,
        checksum: u32,
        functions: &[LlvmFunction],
    ) -> Result<Self, Refusal> {
        let version = Version::new(version);
        // LLVM counts words, for every requested version.
        let format = version.format().filter(|format| format.unit == Unit::Words);
        let format = format.ok_or(Refusal::Version(version))?;
        let n_functions = u32::try_from(functions.len()).unwrap_or(u32::MAX);
        if n_functions > MAX_FUNCTIONS {
            return Err(Refusal::TooManyFunctions(n_functions));
        }
        let mut counters: usize = 0;
        let mut len = LEN_BUT_FUNCTIONS;
        for (index, function) in (0..).zip(functions) {
            let part = Part::Counters(index);
            let count = usize::try_from(function.count).unwrap_or(usize::MAX);
            counters = counters.saturating_add(count);
            len = len
                .saturating_add(LEN_OF_FUNCTION)
                .saturating_add(count.saturating_mul(COUNTER));
            if len > MAX_BYTES {
                return Err(Refusal::TooLarge);
            }
            if function.count == 0 {
                continue;
            }
            if function.address == 0 {
                return Err(Refusal::NoCounters(index));
            }
            aligned(part, function.address)?;
            let bytes = u64::from(function.count).saturating_mul(8);
            if !memory.is_readable(function.address, bytes) {
                return Err(Refusal::Unreadable(part));
            }
        }
        Ok(Self {
            version,
            format,
            stamp: checksum,
            max_len: len,
        })
    }

    /// Returns the compiler's version.
    pub fn version(&self) -> Version {
        self.version
    }

    /// Returns the stamp, which identifies the notes (`.gcno`) of the file.
    pub fn stamp(&self) -> u32 {
        self.stamp
    }

    /// Returns the maximum number of bytes of the file.
    pub fn max_len(&self) -> usize {
        self.max_len
    }

    /// Writes the file to the start of `to` and returns its length. [`Self::max_len`] bytes are
    /// enough.
    ///
    /// The result is the same as from LLVM's own runtime after one run.
    pub fn write<M: Memory>(
        &self,
        memory: &M,
        functions: &[LlvmFunction],
        to: &mut [u8],
    ) -> Result<usize, Refusal> {
        let mut to = Output::new(to);
        for word in [MAGIC, self.version.word(), self.stamp] {
            to.u32(word)?;
        }
        for (index, function) in (0..).zip(functions) {
            to.u32(TAG_FUNCTION)?;
            to.u32(FUNCTION_WORDS)?;
            to.u32(function.identity.ident)?;
            to.u32(function.identity.lineno_checksum)?;
            to.u32(function.identity.cfg_checksum)?;
            to.u32(counters_tag(0))?;
            let len = counters_len(self.format, function.count);
            to.u32(len.ok_or(Refusal::TooLarge)?)?;
            copy(memory, index, function, &mut to)?;
        }
        let summary: &[u32] = match self.version.gcc() {
            Some(9..) => &[TAG_OBJECT_SUMMARY, SUMMARY_WORDS, 1, 0],
            _ => &[TAG_PROGRAM_SUMMARY, 3, 0, 0, 1],
        };
        for word in summary {
            to.u32(*word)?;
        }
        to.zeros(8)?;
        Ok(to.len())
    }
}

fn copy<M: Memory>(
    memory: &M,
    index: u32,
    function: &LlvmFunction,
    to: &mut Output<'_>,
) -> Result<(), Refusal> {
    let count = usize::try_from(function.count).map_err(|_| Refusal::TooLarge)?;
    let place = to.take(count.checked_mul(COUNTER).ok_or(Refusal::TooLarge)?)?;
    match count {
        0 => Ok(()),
        _ => reading(Part::Counters(index), memory.copy(function.address, place)),
    }
}
