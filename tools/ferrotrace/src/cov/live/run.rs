// SPDX-License-Identifier: GPL-2.0

//! Runs: the executed code of one host in a session, and the file that saves it.
//!
//! A file is [`MAGIC`] and a zlib stream, whose checksum detects damage. The stream has a line of
//! JSON, then the ranges of each text as LEB128 numbers. The functions of modules are in the file,
//! so that a report needs no file of a module.
//!
//! A run has ranges of addresses and no bitmap of blocks. The kernel patches its code, for static
//! keys and for features of the CPU, so that hosts with the same image have different blocks.

#![deny(unsafe_code)]

use std::io;
use std::io::Read;
use std::ops::Range;
use std::path::Path;
use std::time::SystemTime;

use ferro_coverage_core::Refusal;
use miniz_oxide::deflate::compress_to_vec_zlib;
use miniz_oxide::inflate::decompress_to_vec_zlib_with_limit;
use serde::Deserialize;
use serde::Serialize;

use super::super::error::Error;
use super::super::error::Result;
use super::blocks::Block;
use super::control::State;
use super::functions::Found;
use super::functions::Function;
use super::print::States;
use super::ranges;
use crate::dprobes::module_file::running_build_id;
use crate::elf::binary::hex;
use crate::file::read_regular;
use crate::kallsyms::Modules;
use crate::relay::output::this_boot;
use crate::relay::output::this_host;

/// Beginning of a file.
pub const MAGIC: &[u8] = b"ferrotrace run 1\n";

/// Maximum number of bytes of a file, and of its content.
const CONTENT_MAX: usize = 8 << 20;
const FILE_MAX: u64 = 8 << 20;
/// Maximum number of modules, and of their blocks: some times those of a large kernel.
const TEXTS_MAX: usize = 4096;
const BLOCKS_MAX: usize = 1 << 20;

/// Level of compression.
const LEVEL: u8 = 9;

/// Executed code of one host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Run {
    /// Name of the host.
    pub host: String,
    /// The kernel's identity of the boot.
    pub boot_id: String,
    /// Release of the kernel.
    pub release: String,
    /// Start and end, in seconds since 1970.
    pub time: Range<u64>,
    /// The kernel's code, and the code of modules.
    pub texts: Vec<Text>,
}

/// Executed code of the kernel or a module.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Text {
    /// The module; `None` for the kernel.
    pub module: Option<String>,
    /// Build ID, in hexadecimal digits.
    pub build_id: String,
    /// Functions of a module, with their numbers of blocks. Those of the kernel are in its image.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub functions: Vec<(String, usize)>,
    /// Blocks of these functions, in the same form as `watched`.
    #[serde(skip)]
    pub blocks: Vec<Range<u32>>,
    /// Code whose blocks were watched, as offsets from the start of the text, in ascending order.
    #[serde(skip)]
    pub watched: Vec<Range<u32>>,
    /// Code that was executed.
    #[serde(skip)]
    pub executed: Vec<Range<u32>>,
}

/// Appends a range as offsets from `text`, or extends the last one. Returns `None` if an offset does
/// not fit.
fn add(ranges: &mut Vec<Range<u32>>, range: &Range<u64>, text: u64, extends: bool) -> Option<()> {
    let offset = |address: u64| u32::try_from(address.checked_sub(text)?).ok();
    let range = offset(range.start)?..offset(range.end)?;
    match ranges.last_mut() {
        Some(last) if extends || last.end >= range.start => last.end = last.end.max(range.end),
        _ => ranges.push(range),
    }
    Some(())
}

impl Text {
    /// Collects the blocks of the functions of one text, which starts at the address `text`.
    ///
    /// If the functions are all of the text, the code between them counts as watched, too.
    fn of<'a>(
        states: impl Iterator<Item = (&'a Function, &'a Vec<State>)>,
        text: u64,
        is_whole: bool,
    ) -> Self {
        let mut own = Self::default();
        let mut extends = false;
        for (function, states) in states {
            extends &= is_whole;
            for (block, state) in function.blocks.iter().zip(states) {
                match state {
                    // A block without a place may be inside a range: readers find again that it has none.
                    State::Refused(_) => extends &= block.places.is_empty(),
                    _ => extends = add(&mut own.watched, &block.range, text, extends).is_some(),
                }
                if *state == State::Hit {
                    add(&mut own.executed, &block.range, text, false);
                }
            }
        }
        own
    }

    /// Adds functions of a module, which starts at the address `text`, with the blocks that have a
    /// place.
    fn add_functions<'a>(&mut self, functions: impl Iterator<Item = &'a Function>, text: u64) {
        let offset = |address: u64| u32::try_from(address.checked_sub(text)?).ok();
        for function in functions {
            let before = self.blocks.len();
            let blocks = function.blocks.iter();
            for block in blocks.filter(|block| !block.places.is_empty()) {
                let end = self.blocks.last().map_or(0, |last| last.end);
                let range = offset(block.range.start).zip(offset(block.range.end));
                let range = range.filter(|(start, _)| *start >= end);
                self.blocks.extend(range.map(|(start, end)| start..end));
            }
            let count = self.blocks.len() - before;
            self.functions.push((function.name.clone(), count));
        }
    }

    /// Returns the functions of a module. Their addresses are offsets from its start.
    pub(super) fn functions(&self) -> impl Iterator<Item = Function> {
        let mut blocks = self.blocks.iter();
        let block = |range: &Range<u32>| Block {
            range: range.start.into()..range.end.into(),
            places: vec![range.start.into()],
        };
        self.functions.iter().map(move |(name, count)| Function {
            name: name.clone(),
            module: self.module.clone(),
            blocks: blocks.by_ref().take(*count).map(block).collect(),
        })
    }

    /// Returns the state of a block, given by its addresses, in a text that starts at `text`.
    fn state(&self, block: &Range<u64>, text: u64) -> State {
        let offset = |address: u64| u32::try_from(address.wrapping_sub(text)).unwrap_or(u32::MAX);
        let (start, end) = (offset(block.start), offset(block.end));
        // Returns true if a range overlaps `start..end`. A block is watched if its first byte is.
        let meets = |ranges: &[Range<u32>], end: u32| {
            let next = ranges.partition_point(|range| range.end <= start);
            ranges.get(next).is_some_and(|range| range.start < end)
        };
        match (
            meets(&self.executed, end),
            meets(&self.watched, start.saturating_add(1)),
        ) {
            (true, _) => State::Hit,
            (_, true) => State::Missed,
            _ => State::Refused(None),
        }
    }
}

impl Run {
    /// Makes the run of a session in the running kernel. `start` is its start or last reset.
    pub fn new(found: &Found, states: &States<'_>, start: SystemTime) -> Result<Self> {
        let modules = Modules::running();
        let names = states.iter().map(|(one, _)| one.module.as_deref());
        let mut names: Vec<_> = names.chain([None]).collect();
        names.sort_unstable();
        names.dedup();
        let mut texts = Vec::new();
        for module in names {
            let build = running_build_id(Path::new("/"), module);
            let text = match module {
                Some(module) => modules.start(module),
                None => found.text,
            };
            let (Some(build), Some(text)) = (build, text) else {
                match module {
                    // The module has been unloaded.
                    Some(_) => continue,
                    None => return Err(Error::NoBuildId),
                }
            };
            let own = states
                .iter()
                .filter(|(one, _)| one.module.as_deref() == module);
            let own = own.map(|(function, states)| (*function, states));
            let mut of = Text {
                module: module.map(str::to_owned),
                build_id: hex(&build),
                ..Text::of(own.clone(), text, found.is_whole)
            };
            if module.is_some() {
                // Places of a module that has been loaded again are gone, and were elsewhere.
                let is_watched =
                    |states: &&Vec<State>| states.iter().any(|one| one.is_hit().is_some());
                let own = own.filter(|(_, states)| is_watched(states));
                of.add_functions(own.map(|(function, _)| function), text);
            }
            texts.push(of);
        }
        let seconds = |time: SystemTime| time.duration_since(SystemTime::UNIX_EPOCH);
        let seconds = |time| seconds(time).map_or(0, |time| time.as_secs());
        let names = nix::sys::utsname::uname().ok();
        let release = names.map(|names| names.release().to_string_lossy().into_owned());
        let boot_id = this_boot().unwrap_or_default();
        Ok(Self {
            host: this_host().unwrap_or_else(|| boot_id.clone()),
            boot_id,
            release: release.unwrap_or_default(),
            time: seconds(start)..seconds(SystemTime::now()),
            texts,
        })
    }

    /// Returns true if the names are such as hosts and kernels have: short, and on one line.
    fn is_plain(&self) -> bool {
        let is_name = |name: &str| name.len() <= 64 && !name.chars().any(char::is_control);
        // The kernel's limit of the name of a symbol.
        let is_symbol = |name: &str| name.len() <= 512 && !name.chars().any(char::is_control);
        let is_id = |id: &str| id.len() <= 64 && id.bytes().all(|byte| byte.is_ascii_hexdigit());
        let modules = self.texts.iter().filter_map(|text| text.module.as_deref());
        let names = [&*self.host, &*self.boot_id, &*self.release];
        self.texts.len() <= TEXTS_MAX
            && names.into_iter().chain(modules).all(is_name)
            && self.texts.iter().all(|text| {
                is_id(&text.build_id) && text.functions.iter().all(|(name, _)| is_symbol(name))
            })
    }

    /// Returns the bytes of a file.
    pub fn bytes(&self) -> serde_json::Result<Vec<u8>> {
        let mut content = serde_json::to_vec(self)?;
        content.push(b'\n');
        for text in &self.texts {
            ranges::put(&mut content, &text.watched);
            ranges::put(&mut content, &text.executed);
            if !text.functions.is_empty() {
                ranges::put(&mut content, &text.blocks);
            }
        }
        Ok([MAGIC, &compress_to_vec_zlib(&content, LEVEL)].concat())
    }

    /// Parses the bytes of a file. Refuses content over [`CONTENT_MAX`] bytes.
    pub fn parse(bytes: &[u8]) -> std::result::Result<Self, &'static str> {
        let stream = bytes
            .strip_prefix(MAGIC)
            .ok_or("not a run of live coverage")?;
        let content = decompress_to_vec_zlib_with_limit(stream, CONTENT_MAX);
        let content = content.map_err(|_| "damaged, cut short, or too long")?;
        let end = content.iter().position(|byte| *byte == b'\n');
        let (line, mut rest) = content.split_at(end.unwrap_or(content.len()));
        let run: Option<Self> = serde_json::from_slice(line).ok();
        let mut run = run
            .filter(Self::is_plain)
            .ok_or("its description is wrong")?;
        rest = rest.get(1..).unwrap_or_default();
        for text in &mut run.texts {
            let ranges = ranges::take(&mut rest).zip(ranges::take(&mut rest));
            (text.watched, text.executed) = ranges.ok_or("its ranges are wrong")?;
            if !text.functions.is_empty() {
                text.blocks = ranges::take(&mut rest).ok_or("its blocks are wrong")?;
            }
        }
        let blocks: usize = run.texts.iter().map(|text| text.blocks.len()).sum();
        match rest.is_empty() {
            _ if blocks > BLOCKS_MAX => Err("it has too many blocks of modules"),
            true => Ok(run),
            false => Err("bytes follow its last range"),
        }
    }

    /// Reads a file.
    pub fn read(path: &Path) -> Result<Self> {
        let unfit = |source| Error::Run(path.into(), source);
        let bytes = read_regular(path, FILE_MAX).map_err(unfit)?;
        Self::read_from(&*bytes, path)
    }

    /// Reads an open file, such as standard input, which messages call `path`.
    pub fn read_from(from: impl Read, path: &Path) -> Result<Self> {
        let unfit = |source| Error::Run(path.into(), source);
        let mut bytes = Vec::new();
        from.take(FILE_MAX).read_to_end(&mut bytes).map_err(unfit)?;
        Self::parse(&bytes).map_err(|what| unfit(io::Error::other(what)))
    }

    /// Returns the kernel's code.
    fn kernel(&self) -> Option<&Text> {
        self.texts.iter().find(|text| text.module.is_none())
    }

    /// Returns the build ID of the kernel.
    pub fn build_id(&self) -> &str {
        self.kernel().map_or("", |text| &text.build_id)
    }

    /// Returns the code of a build of a module.
    pub(super) fn module(&self, module: &str, build_id: &str) -> Option<&Text> {
        let mut texts = self.texts.iter();
        texts.find(|text| text.module.as_deref() == Some(module) && text.build_id == build_id)
    }

    /// Returns the states of the blocks of `found`, which may be of another host or of an image file
    /// with the same build ID.
    pub fn states(&self, found: &Found) -> Vec<Vec<State>> {
        states(self.kernel(), found)
    }
}

/// Returns the states of the blocks of `found` in a text that a run may have.
pub(super) fn states(text: Option<&Text>, found: &Found) -> Vec<Vec<State>> {
    let functions = found.functions.iter();
    let text = text.zip(found.text);
    let state = |block: &Block| match text {
        Some((text, start)) if !block.places.is_empty() => text.state(&block.range, start),
        _ => State::Refused(Some(Refusal::NotExecutable)),
    };
    let states = functions.map(|function| function.blocks.iter().map(state).collect());
    states.collect()
}

/// Combines the states of the same blocks in two runs.
pub fn combine(
    mut states: Vec<Vec<State>>,
    other: Vec<Vec<State>>,
    with: fn(State, State) -> State,
) -> Vec<Vec<State>> {
    for (one, other) in states.iter_mut().flatten().zip(other.into_iter().flatten()) {
        *one = with(*one, other);
    }
    states
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Functions with blocks of a size; block 2 of each has no place.
    fn functions(count: u64, blocks: u64, size: u64) -> Vec<Function> {
        let place = |at: u64, address| (at != 2).then_some(address).into_iter().collect();
        let functions = (0..count).map(|function| Function {
            name: format!("f{function}"),
            module: None,
            blocks: (0..blocks)
                .map(|at| (at, 0x1000 + function * (blocks * size + 8) + at * size))
                .map(|(at, start)| Block {
                    range: start..start + size,
                    places: place(at, start),
                })
                .collect(),
        });
        functions.collect()
    }

    fn run(functions: &[Function], states: &[Vec<State>], is_whole: bool) -> Run {
        let text = Text {
            build_id: "ab".to_owned(),
            ..Text::of(functions.iter().zip(states), 0x1000, is_whole)
        };
        Run {
            host: "host".to_owned(),
            time: 5..7,
            texts: vec![text],
            ..Run::default()
        }
    }

    fn found(functions: &[Function], shift: u64) -> Found {
        let mut functions = functions.to_vec();
        for block in functions.iter_mut().flat_map(|one| &mut one.blocks) {
            block.range = block.range.start + shift..block.range.end + shift;
        }
        Found {
            functions,
            text: Some(0x1000 + shift),
            ..Found::default()
        }
    }

    const UNWATCHED: State = State::Refused(None);
    const NO_PLACE: State = State::Refused(Some(Refusal::NotExecutable));
    use State::{Hit, Missed};

    #[test]
    fn a_run_fits_other_hosts_of_its_image() {
        let functions = functions(3, 4, 8);
        let states = [
            vec![Hit, Missed, NO_PLACE, Hit],
            vec![Missed, Missed, NO_PLACE, UNWATCHED],
            vec![Hit, Hit, NO_PLACE, Missed],
        ];
        let run = run(&functions, &states, true);
        assert_eq!(run.texts[0].watched, [0..0x38, 0x50..0x70]);
        assert_eq!(run.texts[0].executed, [0..8, 0x18..0x20, 0x50..0x60]);
        assert_eq!(Run::parse(&run.bytes().unwrap()).unwrap(), run);
        // The other kernel was moved.
        assert_eq!(run.states(&found(&functions, 0x7000)), states);
        // A block that is two in the other kernel.
        let mut other = found(&functions, 0);
        other.functions[2].blocks[1].range = 0x1058..0x105c;
        other.functions[2].blocks[2] = other.functions[2].blocks[1].clone();
        other.functions[2].blocks[2].range = 0x105c..0x1060;
        assert_eq!(run.states(&other)[2], [Hit, Hit, Hit, Missed]);
        // Another host adds its executed blocks. It did not watch the first function.
        let states = [
            vec![UNWATCHED; 4],
            vec![Hit, Missed, NO_PLACE, Missed],
            vec![Missed; 4],
        ];
        let second = self::run(&functions[1..], &states[1..], false);
        let here = found(&functions, 0);
        assert_eq!(
            second.states(&here)[0],
            [UNWATCHED, UNWATCHED, NO_PLACE, UNWATCHED]
        );
        let all = combine(run.states(&here), second.states(&here), State::with);
        assert_eq!(all[0], [Hit, Missed, NO_PLACE, Hit]);
        assert_eq!(all[1], [Hit, Missed, NO_PLACE, Missed]);
        let new = combine(run.states(&here), second.states(&here), State::since);
        // The other did not watch the first function.
        assert_eq!(new[0], [UNWATCHED, UNWATCHED, NO_PLACE, UNWATCHED]);
        assert_eq!(new[1], [State::Before, Missed, NO_PLACE, UNWATCHED]);
        assert_eq!(new[2], [Hit, Hit, NO_PLACE, Missed]);
    }

    /// As many blocks as Debian's kernel has: 759,203 in 12.6 MB. One in ten has no place.
    #[test]
    fn a_whole_kernel_is_small() {
        let mut seed: u64 = 1;
        let mut random = |below: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (seed >> 33) % below
        };
        let (mut functions, mut states) = (Vec::new(), Vec::new());
        let (mut count, mut hits, mut address) = (0, 0, 0x1000);
        while count < 759_203 {
            // A function in six is executed, and blocks in a row: about half of them.
            let (blocks, is_called) = (1 + random(24).min(759_202 - count), random(6) == 0);
            let (mut own, mut of_function, mut is_hit) = (Vec::new(), Vec::new(), true);
            for _ in 0..blocks {
                let end = address + 1 + random(32);
                let has_place = random(10) > 0;
                is_hit = if random(3) == 0 {
                    random(2) == 0
                } else {
                    is_hit
                };
                own.push(Block {
                    range: address..end,
                    places: has_place.then_some(address).into_iter().collect(),
                });
                let state = if is_called && is_hit { Hit } else { Missed };
                of_function.push(if has_place { state } else { NO_PLACE });
                address = end;
            }
            hits += of_function.iter().filter(|state| **state == Hit).count();
            count += blocks;
            address = address.next_multiple_of(16) + 16;
            states.push(of_function);
            functions.push(Function {
                name: String::new(),
                module: None,
                blocks: own,
            });
        }
        let run = run(&functions, &states, true);
        assert_eq!(run.texts[0].watched.len(), 1);
        let bytes = run.bytes().unwrap();
        println!("{} bytes, {hits} of {count} blocks", bytes.len());
        assert!(hits > 759_203 * 8 / 100);
        assert!(bytes.len() < 100_000);
        assert_eq!(Run::parse(&bytes).unwrap(), run);
        assert_eq!(run.states(&found(&functions, 0)), states);
    }

    #[test]
    fn modules_keep_their_functions() {
        let functions = functions(2, 4, 8);
        let mut run = run(&functions, &[vec![Hit; 4], vec![Missed; 4]], false);
        run.texts[0].module = Some("m".to_owned());
        run.texts[0].add_functions(functions.iter(), 0x1000);
        let read = Run::parse(&run.bytes().unwrap()).unwrap();
        assert_eq!(read, run);
        let text = read.module("m", "ab").unwrap();
        let all: Vec<_> = text.functions().collect();
        let blocks: Vec<_> = all[1].blocks.iter().map(|one| one.range.clone()).collect();
        assert_eq!(blocks, [0x28..0x30, 0x30..0x38, 0x40..0x48]);
        assert_eq!((&*all[1].name, all[1].module.as_deref()), ("f1", Some("m")));
        let found = Found {
            functions: all,
            text: Some(0),
            ..Found::default()
        };
        assert_eq!(super::states(Some(text), &found), [[Hit; 3], [Missed; 3]]);
        // Files without functions are those of earlier versions.
        run.texts[0].functions.clear();
        run.texts[0].blocks.clear();
        assert_eq!(Run::parse(&run.bytes().unwrap()), Ok(run.clone()));
        run.texts[0].functions.push(("a\nb".to_owned(), 0));
        assert!(Run::parse(&run.bytes().unwrap()).is_err());
    }

    #[test]
    fn damaged_files() {
        let functions = functions(20, 5, 9);
        let run = run(
            &functions,
            &vec![vec![Hit, Missed, NO_PLACE, Hit, Hit]; 20],
            false,
        );
        let bytes = run.bytes().unwrap();
        for end in 0..bytes.len() {
            assert!(Run::parse(&bytes[..end]).is_err(), "{end}");
        }
        for at in 0..bytes.len() {
            let mut bytes = bytes.clone();
            bytes[at] ^= 0x10;
            // The first bytes of zlib have levels that do not matter.
            let parsed = Run::parse(&bytes);
            assert!(parsed.is_err() || parsed == Ok(run.clone()), "{at}");
        }
        let file = |ranges: &[u8]| {
            let head = serde_json::to_vec(&run).unwrap();
            let content = [&head, &b"\n"[..], ranges].concat();
            Run::parse(&[MAGIC, &compress_to_vec_zlib(&content, 1)].concat())
        };
        let text = &file(&[1, 3, 4, 0]).unwrap().texts[0];
        assert!(text.watched.iter().flat_map(Range::clone).eq(3..7) && text.executed.is_empty());
        // Names that would be other lines of a report, and other files.
        for name in ["a\nb", &"long".repeat(17)] {
            let mut run = run.clone();
            run.host = name.to_owned();
            assert!(Run::parse(&run.bytes().unwrap()).is_err());
        }
        // Lengths that are too large, and numbers that do not fit.
        for ranges in [
            &[][..],
            &[0],
            &[0, 0, 0],
            &[1, 3, 0, 0],
            &[0xff, 0xff, 0xff, 0xff, 0x0f, 1, 1, 1, 1],
            &[1, 0xff, 0xff, 0xff, 0xff, 0x0f, 1, 0],
            &[1, 0xff, 0xff, 0xff, 0xff, 0x1f, 1, 0],
            &[1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1, 0],
        ] {
            assert!(file(ranges).is_err(), "{ranges:?}");
        }
        // It would take more memory than it should.
        let zeros = compress_to_vec_zlib(&vec![0; CONTENT_MAX + 1], 1);
        let error = Run::parse(&[MAGIC, &zeros].concat()).unwrap_err();
        assert!(error.contains("too long"), "{error}");
    }
}
