// SPDX-License-Identifier: GPL-2.0

//! Records of the data that compilers put into memory, and of the files that their runtimes wrote:
//! see `gcov/record.sh`.

use ferro_gcov_core::Identity;
use ferro_gcov_core::LlvmFunction;
use ferro_gcov_core::Memory;
use ferro_gcov_core::MergeFunction;
use ferro_gcov_core::Section;
use ferro_gcov_core::Sections;
use ferro_gcov_core::Unreadable;
use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::path::Path;
use std::path::PathBuf;

/// A record: the memory of a process, and files.
#[derive(Clone, Debug, Default)]
pub struct Record {
    /// Addresses of the `gcov_info`, in the order of registration.
    pub infos: Vec<u64>,
    /// Registrations of LLVM's code with the runtime, by files.
    pub llvm: Vec<Llvm>,
    /// The version of the profile.
    pub profile_version: u64,
    /// The sections of the profile.
    pub profile: Sections,
    /// The files, by run and name: `first/program.gcda`.
    pub files: BTreeMap<String, Vec<u8>>,
    merges: BTreeMap<u64, MergeFunction>,
    ranges: Vec<(u64, Vec<u8>)>,
}

/// A file that LLVM's code reported to the runtime.
#[derive(Clone, Debug, Default)]
pub struct Llvm {
    /// Its name, without the directory.
    pub name: String,
    /// The version.
    pub version: u32,
    /// The checksum, which is the stamp.
    pub checksum: u32,
    /// The functions.
    pub functions: Vec<LlvmFunction>,
}

/// Returns the directory of the recorded ones.
#[must_use]
pub fn recorded() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("gcov/recorded")
}

/// Returns the directory with the compilers that `gcov/compilers.sh` has fetched, if
/// `GCOV_COMPILERS` names one. Without it the test has nothing to do.
#[must_use]
pub fn compilers() -> Option<PathBuf> {
    let directory = env::var_os("GCOV_COMPILERS").map(PathBuf::from);
    if directory.is_none() {
        println!("GCOV_COMPILERS is not set");
    }
    directory
}

impl Record {
    /// Reads a record.
    ///
    /// # Panics
    ///
    /// Panics if there is none, or it differs from the format of `record.sh`.
    #[must_use]
    pub fn read(path: &Path) -> Self {
        let bytes = fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let mut rest = &bytes[..];
        let mut record = Self::default();
        while !rest.is_empty() {
            record.entry(&mut rest);
        }
        record
    }

    fn entry(&mut self, rest: &mut &[u8]) {
        let end = rest.iter().position(|byte| *byte == b'\n');
        let (line, after) = rest.split_at(end.expect("an entry is a line"));
        *rest = &after[1..];
        let line = std::str::from_utf8(line).expect("a line is text");
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            ["info", address] => self.infos.push(number(address)),
            ["merge", name, address] => {
                self.merges.insert(number(address), function(name));
            }
            ["start", version, checksum, name] => self.llvm.push(Llvm {
                name: name.rsplit('/').next().unwrap_or(name).to_string(),
                version: word(version),
                checksum: word(checksum),
                functions: Vec::new(),
            }),
            ["function", ident, lines, flow] => {
                let identity = Identity {
                    ident: word(ident),
                    lineno_checksum: word(lines),
                    cfg_checksum: word(flow),
                };
                let file = self.llvm.last_mut().expect("a function is in a file");
                file.functions.push(LlvmFunction {
                    identity,
                    count: 0,
                    address: 0,
                });
            }
            ["arcs", address, count] => {
                let file = self.llvm.last_mut();
                let function = file.and_then(|file| file.functions.last_mut());
                let function = function.expect("counters are a function's");
                function.count = count.parse().expect("a count");
                function.address = number(address);
            }
            ["version", version] => self.profile_version = number(version),
            ["section", name, start, len] => {
                let bytes = take(rest, len);
                let section = Section {
                    address: number(start),
                    len: bytes.len(),
                };
                match name {
                    "data" => self.profile.data = section,
                    "cnts" => self.profile.counters = section,
                    "bits" => self.profile.bits = section,
                    "names" => self.profile.names = section,
                    _ => panic!("{name}"),
                }
                self.ranges.push((section.address, bytes));
            }
            ["range", start, len] => {
                let bytes = take(rest, len);
                self.ranges.push((number(start), bytes));
            }
            ["file", name, len] => {
                let bytes = take(rest, len);
                self.files.insert(name.to_string(), bytes);
            }
            _ => panic!("{line}"),
        }
    }

    /// The bytes at an address, for a test to change.
    ///
    /// # Panics
    ///
    /// Panics if they are not in one range.
    pub fn at(&mut self, address: u64, len: usize) -> &mut [u8] {
        let mut ranges = self.ranges.iter_mut();
        let place = ranges.find_map(|(start, bytes)| {
            let from = usize::try_from(address.checked_sub(*start)?).ok()?;
            bytes.get_mut(from..from.checked_add(len)?)
        });
        place.expect("a range has them")
    }

    /// The ranges of memory: where each starts, and how many bytes it has.
    pub fn ranges(&self) -> impl Iterator<Item = (u64, usize)> {
        self.ranges
            .iter()
            .map(|(start, bytes)| (*start, bytes.len()))
    }

    fn find(&self, address: u64, len: u64) -> Option<&[u8]> {
        self.ranges.iter().find_map(|(start, bytes)| {
            let from = usize::try_from(address.checked_sub(*start)?).ok()?;
            let to = from.checked_add(usize::try_from(len).ok()?)?;
            bytes.get(from..to)
        })
    }
}

impl Memory for Record {
    fn copy(&self, address: u64, to: &mut [u8]) -> Result<(), Unreadable> {
        let from = self.find(address, to.len() as u64).ok_or(Unreadable)?;
        to.copy_from_slice(from);
        Ok(())
    }

    fn is_readable(&self, address: u64, len: u64) -> bool {
        self.find(address, len).is_some()
    }

    fn merge_function(&self, address: u64) -> Option<MergeFunction> {
        self.merges.get(&address).copied()
    }
}

fn take(rest: &mut &[u8], len: &str) -> Vec<u8> {
    let (bytes, after) = rest.split_at(len.parse().expect("a length"));
    *rest = after;
    bytes.to_vec()
}

/// `%#x` writes 0 without a prefix.
fn number(text: &str) -> u64 {
    let digits = text.strip_prefix("0x").unwrap_or(text);
    u64::from_str_radix(digits, 16).expect("a number")
}

fn word(text: &str) -> u32 {
    number(text).try_into().expect("a number of 32 bits")
}

fn function(name: &str) -> MergeFunction {
    match name {
        "add" => MergeFunction::Add,
        "ior" => MergeFunction::Ior,
        "time_profile" => MergeFunction::TimeProfile,
        "single" => MergeFunction::Single,
        "icall_topn" => MergeFunction::IcallTopN,
        "topn" => MergeFunction::TopN,
        _ => panic!("{name}"),
    }
}
