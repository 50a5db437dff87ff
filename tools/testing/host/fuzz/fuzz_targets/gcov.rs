// SPDX-License-Identifier: GPL-2.0

//! Coverage: arbitrary memory as an object of GCC, as sections of LLVM, and arbitrary files.
//! Nothing panics, no memory outside is accessed, and the output can be read back.
//!
//! Without a fuzzer the program replays the files of its arguments.

#![cfg_attr(fuzzing, no_main)]

use ferro_gcov_core::Gcda;
use ferro_gcov_core::Info;
use ferro_gcov_core::Memory;
use ferro_gcov_core::MergeFunction;
use ferro_gcov_core::Profile;
use ferro_gcov_core::Section;
use ferro_gcov_core::Sections;
use ferro_gcov_core::Unreadable;
use ferro_gcov_core::merge;
use ferro_gcov_core::merge_profiles;
use std::cell::Cell;

/// Memory from the address 0 on; its first bytes are the merge functions.
struct Bytes<'b> {
    bytes: &'b [u8],
    refused: Cell<bool>,
}

impl Bytes<'_> {
    fn find(&self, address: u64, len: u64) -> Option<&[u8]> {
        let from = usize::try_from(address).ok()?;
        self.bytes
            .get(from..from.checked_add(usize::try_from(len).ok()?)?)
    }
}

impl Memory for Bytes<'_> {
    fn copy(&self, address: u64, to: &mut [u8]) -> Result<(), Unreadable> {
        let from = self.find(address, to.len() as u64);
        self.refused.set(self.refused.get() | from.is_none());
        to.copy_from_slice(from.ok_or(Unreadable)?);
        Ok(())
    }

    fn is_readable(&self, address: u64, len: u64) -> bool {
        self.find(address, len).is_some()
    }

    fn merge_function(&self, address: u64) -> Option<MergeFunction> {
        Some(match address {
            1 => MergeFunction::Add,
            2 => MergeFunction::Ior,
            3 => MergeFunction::TimeProfile,
            4 => MergeFunction::Single,
            5 => MergeFunction::IcallTopN,
            6 => MergeFunction::TopN,
            _ => return None,
        })
    }
}

fn check(data: &[u8]) {
    let Some((kind, bytes)) = data.split_first() else {
        return;
    };
    let memory = Bytes {
        bytes,
        refused: Cell::new(false),
    };
    match kind {
        0 => object(&memory),
        1 => sections(&memory),
        _ => {
            let (a, b) = bytes.split_at(bytes.len() / 2);
            files(bytes, bytes);
            files(a, b);
            let mut a = a.to_vec();
            let _ = merge_profiles(&mut a, b);
        }
    }
}

fn object(memory: &Bytes<'_>) {
    let Ok(info) = Info::check(memory, 8) else {
        return;
    };
    let mut to = vec![0xaa; info.max_len()];
    let len = info.write(memory, &mut to).expect("it was checked");
    assert!(!memory.refused.get());
    let file = Gcda::parse(&to[..len]).expect("we wrote it");
    assert_eq!(file.functions().count(), info.n_functions() as usize);
    files(&to[..len], &to[..len]);
}

fn sections(memory: &Bytes<'_>) {
    let mut words = memory
        .bytes
        .chunks_exact(2)
        .map(|word| u16::from_le_bytes([word[0], word[1]]));
    let mut section = || {
        let (address, len) = (words.next().unwrap_or(0), words.next().unwrap_or(0));
        Section {
            address: address.into(),
            len: len.into(),
        }
    };
    let sections = Sections {
        data: section(),
        counters: section(),
        bits: section(),
        names: section(),
    };
    if let Ok(profile) = Profile::check(memory, 10, sections) {
        let mut to = vec![0xaa; profile.file_len()];
        let len = profile.write(memory, &mut to).expect("it was checked");
        assert_eq!(len, to.len());
        assert!(!memory.refused.get());
        let other = to.clone();
        merge_profiles(&mut to, &other).expect("they are the same");
    }
}

fn files(a: &[u8], b: &[u8]) {
    let mut to = vec![0xaa; a.len() + b.len()];
    let (Ok(ours), Ok(theirs)) = (Gcda::parse(a), Gcda::parse(b)) else {
        return;
    };
    if let Ok(len) = merge(&ours, &theirs, &mut to) {
        let both = Gcda::parse(&to[..len]).expect("we wrote it");
        assert_eq!(both.functions().count(), ours.functions().count());
    }
}

#[cfg(fuzzing)]
libfuzzer_sys::fuzz_target!(|data: &[u8]| check(data));

#[cfg(not(fuzzing))]
fn main() -> std::io::Result<()> {
    ferro_host::replay(check)
}
