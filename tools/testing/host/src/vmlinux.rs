// SPDX-License-Identifier: GPL-2.0

//! Facts about the code of a kernel's image for the analysis of jumps, as the running kernel would
//! answer.

use crate::iced;
use ferro_kprobes_core::jump::Entry;
use ferro_kprobes_core::jump::Piece;
use ferro_kprobes_core::jump::Reserved;
use ferro_kprobes_core::jump::Surroundings;
use iced_x86::FlowControl;
use object::Object as _;
use object::ObjectSection as _;
use object::ObjectSymbol as _;
use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::error::Error;
use std::fs;
use std::ops::Range;
use std::path::Path;

/// A section's bytes.
struct Section {
    start: u64,
    bytes: Vec<u8>,
}

impl Section {
    fn get(&self, at: u64, len: usize) -> Option<&[u8]> {
        let offset = usize::try_from(at.checked_sub(self.start)?).ok()?;
        self.bytes.get(offset..offset.checked_add(len)?)
    }

    fn end(&self) -> u64 {
        self.start + self.bytes.len() as u64
    }
}

/// A branch, or something else that leads from one address to another.
type Way = (u64, u64);

/// An image. Its `.text` is the code; initialisation code is left out, as it is not probed later.
pub struct Vmlinux {
    text: Section,
    rodata: Section,
    /// Starts of symbols in the text.
    symbols: Vec<u64>,
    names: BTreeMap<String, u64>,
    sites: BTreeSet<u64>,
    thunks: BTreeSet<u64>,
    /// Starts of parts of functions that lie elsewhere.
    parts: BTreeSet<u64>,
    /// Functions that the Rust compiler has made.
    rust: BTreeSet<u64>,
    /// Instructions that the kernel may replace when it boots.
    alternatives: BTreeSet<u64>,
    faulting: BTreeSet<u64>,
    fixups: Vec<Way>,
    labels: Vec<Way>,
    fixup_targets: BTreeSet<u64>,
    label_targets: BTreeSet<u64>,
    calls: BTreeSet<u64>,
}

/// References from a part of an image into its code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Source {
    /// A branch in any function.
    Branch,
    /// A word in read-only data that is an address of code.
    Word,
    /// A jump label.
    Label,
    /// The fixup of an exception.
    Fixup,
}

impl Vmlinux {
    /// Reads an image.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be read, or lacks symbols that each of our kernels has.
    pub fn read(file: &Path) -> Result<Self, Box<dyn Error>> {
        let data = fs::read(file)?;
        let image = object::File::parse(&*data)?;
        let section = |name: &str| -> Result<Section, Box<dyn Error>> {
            let section = image.section_by_name(name).ok_or("no such section")?;
            Ok(Section {
                start: section.address(),
                bytes: section.data()?.to_vec(),
            })
        };
        let (text, rodata) = (section(".text")?, section(".rodata")?);
        let (mut starts, mut names) = (BTreeSet::new(), BTreeMap::new());
        for symbol in image.symbols() {
            let name = symbol.name()?;
            names.insert(name.to_string(), symbol.address());
            let is_code = (text.start..text.end()).contains(&symbol.address());
            if is_code && !name.is_empty() && !name.starts_with(".L") && !name.starts_with("__pfx_")
            {
                starts.insert(symbol.address());
            }
        }
        // A table between two symbols, in any section.
        let table = |from: &str, to: &str| -> Result<Section, Box<dyn Error>> {
            let (from, to) = (names.get(from), names.get(to));
            let (&from, &to) = from.zip(to).ok_or("no such table")?;
            for section in image.sections() {
                if (section.address()..section.address() + section.size()).contains(&from) {
                    let offset = (from - section.address()) as usize;
                    let bytes = section.data()?.get(offset..offset + (to - from) as usize);
                    return Ok(Section {
                        start: from,
                        bytes: bytes.ok_or("no data")?.to_vec(),
                    });
                }
            }
            Err("no section".into())
        };
        let sites = table("__start_mcount_loc", "__stop_mcount_loc")?;
        let sites = sites.bytes.chunks_exact(8).map(word).collect();
        let labels = ways(&table("__start___jump_table", "__stop___jump_table")?, 16);
        let fixups = ways(&section("__ex_table")?, 12);
        let calls = table("__start_static_call_sites", "__stop_static_call_sites")?;
        let calls = ways(&calls, 8).iter().map(|(from, _)| *from).collect();
        let alternatives = table("__alt_instructions", "__alt_instructions_end")?;
        let alternatives = ways(&alternatives, 14).into_iter().map(|(from, _)| from);
        let rust = names.iter().filter(|(name, _)| name.starts_with("_R"));
        let is_thunk = |name: &str| name.starts_with("__x86_indirect_");
        let thunks = names.iter().filter(|(name, _)| is_thunk(name));
        let is_part = |name: &str| name.split('.').any(|part| part == "cold");
        let parts = names.iter().filter(|(name, _)| is_part(name));
        Ok(Self {
            symbols: starts.into_iter().collect(),
            sites,
            thunks: thunks.map(|(_, at)| *at).collect(),
            parts: parts.map(|(_, at)| *at).collect(),
            rust: rust.map(|(_, at)| *at).collect(),
            alternatives: alternatives.collect(),
            faulting: fixups.iter().map(|(from, _)| *from).collect(),
            fixup_targets: fixups.iter().map(|(_, to)| *to).collect(),
            label_targets: labels.iter().map(|(_, to)| *to).collect(),
            fixups,
            labels,
            calls,
            text,
            rodata,
            names,
        })
    }

    /// The symbols of the text, in order.
    pub fn pieces(&self) -> impl Iterator<Item = Piece> + '_ {
        let ends = self.symbols.iter().skip(1).copied();
        let ends = ends.chain(std::iter::once(self.text.end()));
        let pieces = self.symbols.iter().zip(ends);
        pieces.map(|(&start, end)| Piece { start, end })
    }

    /// The address of a symbol.
    pub fn symbol(&self, name: &str) -> Option<u64> {
        self.names.get(name).copied()
    }

    /// Returns true if the instruction at the address has an entry in the exception table.
    pub fn is_exception(&self, address: u64) -> bool {
        self.faulting.contains(&address)
    }

    /// Returns true if the running kernel may have other instructions in a piece than the image.
    pub fn is_patched(&self, piece: Piece) -> bool {
        let mut inside = self.alternatives.range(piece.start..piece.end);
        inside.next().is_some()
    }

    /// The symbol that an address is in, for people.
    pub fn name(&self, address: u64) -> String {
        let start = self.piece(address).map_or(0, |piece| piece.start);
        let found = self.names.iter().find(|(_, at)| **at == start);
        let name = found.map_or("?", |(name, _)| name);
        format!("{name}+{:#x}", address.wrapping_sub(start))
    }

    /// The bytes of a piece.
    pub fn bytes(&self, piece: Piece) -> &[u8] {
        let len = (piece.end - piece.start) as usize;
        self.text.get(piece.start, len).expect("in the text")
    }

    /// Returns all known entries into the code, found by another decoder and by searching all of
    /// the data: address, source and place of the source.
    pub fn targets(&self) -> Vec<(u64, Source, u64)> {
        let mut targets = Vec::new();
        for piece in self.pieces() {
            let bytes = self.bytes(piece);
            let mut at = 0;
            while at < bytes.len() {
                let from = piece.start + at as u64;
                let insn = iced::decode(&bytes[at..], from);
                at += insn.len().max(1);
                let branch = matches!(
                    insn.flow_control(),
                    FlowControl::UnconditionalBranch
                        | FlowControl::ConditionalBranch
                        | FlowControl::Call
                        | FlowControl::XbeginXabortXend
                );
                if !insn.is_invalid() && branch && insn.near_branch_target() != 0 {
                    targets.push((insn.near_branch_target(), Source::Branch, from));
                }
            }
        }
        let words = self.rodata.bytes.chunks_exact(8).enumerate();
        let words =
            words.map(|(n, bytes)| (word(bytes), Source::Word, self.rodata.start + 8 * n as u64));
        targets.extend(words);
        let ways = |ways: &[Way], source| -> Vec<_> {
            ways.iter().map(|(from, to)| (*to, source, *from)).collect()
        };
        targets.extend(ways(&self.labels, Source::Label));
        targets.extend(ways(&self.fixups, Source::Fixup));
        targets.retain(|(to, ..)| (self.text.start..self.text.end()).contains(to));
        targets.sort_unstable();
        targets
    }
}

fn word(bytes: &[u8]) -> u64 {
    u64::from_le_bytes(bytes.try_into().expect("8 bytes"))
}

/// The first two fields of each entry of a table, which are relative to themselves.
fn ways(table: &Section, size: usize) -> Vec<Way> {
    let field = |at: u64| {
        let bytes = table.get(at, 4).expect("in the table");
        let relative = i32::from_le_bytes(bytes.try_into().expect("4 bytes"));
        at.wrapping_add_signed(i64::from(relative))
    };
    let count = table.bytes.len() / size;
    let entries = (0..count).map(|number| table.start + (number * size) as u64);
    let mut ways: Vec<Way> = entries.map(|at| (field(at), field(at + 4))).collect();
    ways.sort_unstable();
    ways
}

/// Returns the entries with a source in a range.
fn within(ways: &[Way], range: Range<u64>) -> &[Way] {
    let at = |address| ways.partition_point(|(from, _)| *from < address);
    &ways[at(range.start)..at(range.end)]
}

impl Surroundings for Vmlinux {
    fn piece(&self, address: u64) -> Option<Piece> {
        let next = self.symbols.partition_point(|start| *start <= address);
        let end = self.symbols.get(next).copied();
        let piece = Piece {
            start: *self.symbols.get(next.checked_sub(1)?)?,
            end: end.unwrap_or(self.text.end()),
        };
        piece.contains(address).then_some(piece)
    }

    fn code(&self, at: u64, out: &mut [u8]) -> usize {
        let left = usize::try_from(self.text.end().saturating_sub(at)).unwrap_or(0);
        let len = out.len().min(left);
        match self.text.get(at, len) {
            Some(bytes) => out[..len].copy_from_slice(bytes),
            None => return 0,
        }
        len
    }

    fn rodata(&self, at: u64, out: &mut [u8]) -> bool {
        match self.rodata.get(at, out.len()) {
            Some(bytes) => out.copy_from_slice(bytes),
            None => return false,
        }
        true
    }

    fn is_compiled(&self, start: u64) -> bool {
        self.sites.range(start..start + 5).next().is_some() || self.rust.contains(&start)
    }

    fn is_part(&self, start: u64) -> bool {
        self.parts.contains(&start)
    }

    fn is_indirect_thunk(&self, address: u64) -> bool {
        self.thunks.contains(&address)
    }

    fn has_jump_tables(&self) -> bool {
        true
    }

    fn reserved(&self, range: Range<u64>) -> Option<Reserved> {
        let overlaps = |at: u64, len: u64| at < range.end && at + len > range.start;
        if self
            .sites
            .range(range.start.saturating_sub(4)..range.end)
            .next()
            .is_some()
        {
            return Some(Reserved::Ftrace);
        }
        if self.faulting.range(range.clone()).next().is_some() {
            return Some(Reserved::Exception);
        }
        // A jump label has 2 or 5 bytes.
        let is_label = |(at, _): &Way| match self.text.get(*at, 1) {
            Some([0xeb | 0x66]) => overlaps(*at, 2),
            _ => overlaps(*at, 5),
        };
        let near = range.start.saturating_sub(4)..range.end;
        if within(&self.labels, near.clone()).iter().any(is_label) {
            return Some(Reserved::JumpLabel);
        }
        let call = self.calls.range(near).next();
        call.map(|_| Reserved::StaticCall)
    }

    fn enters(&self, range: Range<u64>) -> Option<Entry> {
        let into = |targets: &BTreeSet<u64>| targets.range(range.clone()).next().is_some();
        if into(&self.label_targets) {
            return Some(Entry::JumpLabel);
        }
        into(&self.fixup_targets).then_some(Entry::Fixup)
    }

    fn exits(&self, range: Range<u64>, found: &mut dyn FnMut(u64)) {
        for ways in [&self.labels, &self.fixups] {
            for (_, to) in within(ways, range.clone()) {
                found(*to);
            }
        }
    }
}
