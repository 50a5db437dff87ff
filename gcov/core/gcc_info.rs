// SPDX-License-Identifier: GPL-2.0

//! Coverage data of GCC: a `gcov_info` for each object file, which is checked completely before its
//! use.
//!
//! All known versions begin in the same way and differ in the number of counter kinds:
//!
//! ```text
//! gcov_info                                gcov_fn_info
//!    0  version                               0  key: the info that the function belongs to
//!    8  next                                  8  ident
//!   16  stamp                                12  checksum of its lines
//!   20  checksum, since GCC 12               16  checksum of its control flow
//!   24  name of the file                     24  for each kind that has a merge function:
//!   32  a merge function for each kind              0  number of counters
//!    +  number of functions                         8  address of the counters
//!   +8  address of the array of their addresses
//! ```

use super::format::disk_count;
use super::format::gcda_len;
use super::memory::Memory;
use super::record::Identity;
use super::refusal::reading;
use super::refusal::Part;
use super::refusal::Refusal;
use super::version::Format;
use super::version::Kind;
use super::version::Version;
use super::version::MAX_KINDS;

/// Maximum number of functions of an object.
pub const MAX_FUNCTIONS: u32 = 1 << 20;

/// Maximum number of bytes of an object's file.
pub const MAX_BYTES: usize = 1 << 28;

/// Size of a `gcov_info` without its merge functions.
const INFO_FIXED_BYTES: usize = 48;
/// Size of the largest `gcov_info`.
const INFO_BYTES: usize = INFO_FIXED_BYTES + MAX_KINDS * 8;
/// Size of a `gcov_fn_info` without its sets, and of each set.
const FUNCTION_HEAD: u64 = 24;
const FUNCTION_SET: u64 = 16;

/// Counters of one kind of a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Set {
    /// Index of their kind.
    pub index: u8,
    /// Kind, which determines how they are merged.
    pub kind: Kind,
    /// Number of counters, each of 8 bytes.
    pub count: u32,
    /// Address of the counters.
    pub address: u64,
}

/// A function with counters that belong to the object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Function {
    /// Index in the object.
    pub index: u32,
    /// Identity of the function.
    pub identity: Identity,
    /// Address of its first set.
    sets: u64,
}

/// A checked `gcov_info`.
///
/// Has addresses of data, and borrows nothing. Each use reads the memory and checks every address
/// again, so that an object that has changed since is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Info {
    address: u64,
    version: Version,
    format: &'static Format,
    stamp: u32,
    checksum: u32,
    name: u64,
    /// Bit mask of the kinds that have a merge function.
    active: u16,
    n_functions: u32,
    functions: u64,
    // At most `MAX_BYTES`.
    max_len: u32,
}

impl Info {
    /// Checks the `gcov_info` at an address, and all data that it refers to.
    ///
    /// # Errors
    ///
    /// The reason for a refusal: none of the data is reliable then.
    pub fn check<M: Memory>(memory: &M, address: u64) -> Result<Self, Refusal> {
        aligned(Part::Info, address)?;
        let version = Version::new(reading(Part::Info, memory.u32(address))?);
        let format = match version {
            Version::LLVM => None,
            _ => version.format(),
        };
        let format = format.ok_or(Refusal::Version(version))?;

        let mut bytes = [0; INFO_BYTES];
        let len = INFO_FIXED_BYTES.saturating_add(format.kinds.len().saturating_mul(8));
        let bytes = bytes.get_mut(..len).ok_or(Refusal::NoRoom)?;
        reading(Part::Info, memory.copy(address, bytes))?;
        let mut words = Words(bytes);
        let (_version, _next) = (words.u64(), words.u64());
        let (stamp, checksum, name) = (words.u32(), words.u32(), words.u64());
        let mut active = 0;
        for (index, kind) in (0_u8..).zip(format.kinds) {
            let function = words.u64();
            if function != 0 {
                if memory.merge_function(function) != Some(kind.function()) {
                    return Err(Refusal::MergeFunction(index));
                }
                active |= 1_u16 << index;
            }
        }
        let (n_functions, _padding, functions) = (words.u32(), words.u32(), words.u64());
        let mut info = Self {
            address,
            version,
            format,
            stamp,
            checksum: if format.checksum { checksum } else { 0 },
            name,
            active,
            n_functions,
            functions,
            max_len: 0,
        };
        if !memory.is_readable(info.name, 1) {
            return Err(Refusal::Unreadable(Part::Name));
        }
        if info.n_functions > MAX_FUNCTIONS {
            return Err(Refusal::TooManyFunctions(info.n_functions));
        }
        aligned(Part::Functions, info.functions)?;
        info.measure(memory)?;
        Ok(info)
    }

    /// Checks all functions, and adds up the sizes.
    fn measure<M: Memory>(&mut self, memory: &M) -> Result<(), Refusal> {
        let bytes = u64::from(self.n_functions).saturating_mul(8);
        if self.n_functions != 0 && !memory.is_readable(self.functions, bytes) {
            return Err(Refusal::Unreadable(Part::Functions));
        }
        let mut len = gcda_len(self.format);
        let mut counters: usize = 0;
        for function in self.functions(memory) {
            len.function();
            let Some(function) = function? else { continue };
            len.present();
            let index = function.index;
            for set in self.sets(memory, &function) {
                let set = set?;
                let bytes = u64::from(set.count).saturating_mul(8);
                if set.count != 0 && !memory.is_readable(set.address, bytes) {
                    return Err(Refusal::Unreadable(Part::Counters(index)));
                }
                let count = disk_count(set.kind, set.count).ok_or(Refusal::Incomplete(index))?;
                len.set(count);
                let count = usize::try_from(set.count).unwrap_or(usize::MAX);
                counters = counters.saturating_add(count);
            }
            // Checked in the loop, so that many overlapping sets cannot make it long.
            if len.bytes() > MAX_BYTES || counters > MAX_BYTES {
                return Err(Refusal::TooLarge);
            }
        }
        self.max_len = u32::try_from(len.bytes()).map_err(|_| Refusal::TooLarge)?;
        Ok(())
    }

    /// Returns the compiler's version.
    pub fn version(&self) -> Version {
        self.version
    }

    /// Returns the layout of its files.
    pub fn format(&self) -> &'static Format {
        self.format
    }

    /// Returns the stamp, which identifies the notes (`.gcno`) of the object.
    pub fn stamp(&self) -> u32 {
        self.stamp
    }

    /// Returns the checksum of the object; 0 before GCC 12, which has none.
    pub fn checksum(&self) -> u32 {
        self.checksum
    }

    /// Returns the number of its functions, including functions that belong to other objects.
    pub fn n_functions(&self) -> u32 {
        self.n_functions
    }

    /// Returns the maximum number of bytes of its file, for any values of its counters.
    pub fn max_len(&self) -> usize {
        usize::try_from(self.max_len).unwrap_or(usize::MAX)
    }

    /// Returns its address.
    pub fn address(&self) -> u64 {
        self.address
    }

    /// Returns the address of its name.
    pub fn name_address(&self) -> u64 {
        self.name
    }

    /// Copies the name of its file, without the NUL. Returns `Ok(None)` if it does not fit into
    /// `to`.
    pub fn name<'t, M: Memory>(
        &self,
        memory: &M,
        to: &'t mut [u8],
    ) -> Result<Option<&'t [u8]>, Refusal> {
        reading(Part::Name, memory.string(self.name, to))
    }

    /// Returns its functions, in order. An item is `None` if the function is missing, or belongs to
    /// another object: several objects had a copy, and the linker kept one.
    pub fn functions<'m, M: Memory>(
        &'m self,
        memory: &'m M,
    ) -> impl Iterator<Item = Result<Option<Function>, Refusal>> + 'm {
        (0..self.n_functions).map(|index| self.function(memory, index))
    }

    /// Returns the function with an index.
    #[inline(always)]
    fn function<M: Memory>(&self, memory: &M, index: u32) -> Result<Option<Function>, Refusal> {
        let part = Part::Function(index);
        let entry = u64::from(index).checked_mul(8);
        let entry = entry.and_then(|offset| self.functions.checked_add(offset));
        let entry = entry.ok_or(Refusal::Unreadable(Part::Functions))?;
        let address = reading(Part::Functions, memory.u64(entry))?;
        if address == 0 {
            return Ok(None);
        }
        aligned(part, address)?;
        let [key, names, graph] = reading(part, memory.words(address))?;
        if key != self.address {
            return self.foreign(memory, key, index).map(|()| None);
        }
        let sets = address.checked_add(FUNCTION_HEAD);
        let sets = sets.ok_or(Refusal::Unreadable(part))?;
        Ok(Some(Function {
            index,
            identity: Identity {
                ident: low(names),
                lineno_checksum: low(names >> 32),
                cfg_checksum: low(graph),
            },
            sets,
        }))
    }

    /// Returns the counters of a function, by kind.
    pub fn sets<'m, M: Memory>(
        &'m self,
        memory: &'m M,
        function: &Function,
    ) -> impl Iterator<Item = Result<Set, Refusal>> + 'm {
        let (index, mut next) = (function.index, function.sets);
        let mut active = self.active;
        core::iter::from_fn(move || {
            let kind = u8::try_from(active.trailing_zeros()).ok()?;
            let set = match self.format.kinds.get(usize::from(kind)) {
                Some(of) => reading(Part::Function(index), memory.words(next))
                    .and_then(|words| Self::set(words, index, kind, *of)),
                None => return None,
            };
            active &= active.wrapping_sub(1);
            // After an overflow, the value is not a valid address of a set, either.
            next = next.saturating_add(FUNCTION_SET);
            Some(set)
        })
    }

    /// Makes the set from these words.
    #[inline(always)]
    fn set(words: [u64; 2], function: u32, index: u8, kind: Kind) -> Result<Set, Refusal> {
        let [count, address] = words;
        let count = low(count);
        if count != 0 {
            if address == 0 {
                return Err(Refusal::NoCounters(function));
            }
            aligned(Part::Counters(function), address)?;
        }
        Ok(Set {
            index,
            kind,
            count,
            address,
        })
    }

    /// Checks the key of a function of another object.
    #[cold]
    fn foreign<M: Memory>(&self, memory: &M, key: u64, index: u32) -> Result<(), Refusal> {
        let known = |word| Version::new(word).format().is_some();
        match (key, key % 8) {
            (0, _) => Ok(()),
            (_, 0) if memory.u32(key).is_ok_and(known) => Ok(()),
            _ => Err(Refusal::Key(index)),
        }
    }
}

#[inline]
pub(super) fn aligned(part: Part, address: u64) -> Result<(), Refusal> {
    match address % 8 {
        0 => Ok(()),
        _ => Err(Refusal::Misaligned(part)),
    }
}

/// Returns the lower half.
#[inline(always)]
fn low(word: u64) -> u32 {
    let [a, b, c, d, ..] = word.to_le_bytes();
    u32::from_le_bytes([a, b, c, d])
}

/// Reads numbers from bytes that were checked; returns 0 after their end.
struct Words<'b>(&'b [u8]);

impl Words<'_> {
    #[inline]
    fn u32(&mut self) -> u32 {
        let word = self.0.split_first_chunk();
        let (word, rest) = word.unwrap_or((&[0; 4], &[]));
        self.0 = rest;
        u32::from_le_bytes(*word)
    }

    #[inline]
    fn u64(&mut self) -> u64 {
        let (low, high) = (self.u32(), self.u32());
        u64::from(low) | u64::from(high) << 32
    }
}
