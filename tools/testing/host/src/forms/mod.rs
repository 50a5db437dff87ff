// SPDX-License-Identifier: GPL-2.0

//! Instructions of a kernel's text that a test can run by themselves, with a probe and without.
//!
//! A *form* is an instruction without the values of its displacement and its immediate: prefixes,
//! opcode, registers and addressing mode. [`Forms`] collects the forms of some text.
//! [`Forms::choose`] takes as many as are wanted, of each kind in turn, the more frequent ones
//! first. [`emit`] writes them down for the assembler.

pub mod emit;
mod setting;

pub use setting::Setting;

use ferro_core::insn::Insn;
use ferro_core::insn::MAX_LEN;
use iced_x86::Instruction;
use iced_x86::InstructionInfoFactory;
use std::collections::BTreeMap;

/// An instruction that stands for its form.
#[derive(Clone, Debug)]
pub struct Form {
    /// Its bytes.
    pub insn: Insn,
    /// The instruction as the other decoder sees it.
    pub other: Instruction,
    /// Registers and memory that the form needs.
    pub setting: Setting,
    /// Number of occurrences in the text.
    pub count: u64,
}

/// Addressing mode of an instruction's memory operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Addressing {
    mode: u8,
    sib: bool,
    rip_relative: bool,
    displacement: u8,
    segment: bool,
}

/// Forms that differ by their registers only.
type Kind = (usize, Addressing, Vec<u8>);

/// Forms of a text.
pub struct Forms {
    forms: BTreeMap<Vec<u8>, Form>,
    info: InstructionInfoFactory,
}

impl Default for Forms {
    fn default() -> Self {
        Self {
            forms: BTreeMap::new(),
            info: InstructionInfoFactory::new(),
        }
    }
}

impl Forms {
    /// None yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the number of forms.
    pub fn len(&self) -> usize {
        self.forms.len()
    }

    /// Returns true if there are no forms.
    pub fn is_empty(&self) -> bool {
        self.forms.is_empty()
    }

    /// Adds the forms of `text` that can be run by themselves.
    pub fn add(&mut self, text: &[u8]) {
        let mut at = 0;
        while at < text.len() {
            let other = crate::iced::decode(&text[at..], at as u64);
            if !other.is_invalid() {
                self.add_one(&text[at..][..other.len()], other);
            }
            at += other.len().max(1);
        }
    }

    fn add_one(&mut self, bytes: &[u8], other: Instruction) {
        let insn = Insn::decode(bytes).expect("both decoders agree");
        let key = masked(&insn);
        if let Some(form) = self.forms.get_mut(&key) {
            form.count += 1;
        } else if let Some(setting) = Setting::of(&insn, &other, &mut self.info) {
            let form = Form {
                insn,
                other,
                setting,
                count: 1,
            };
            self.forms.insert(key, form);
        }
    }

    /// At most `count` of them, ordered by their groups.
    pub fn choose(&self, count: usize) -> Vec<&Form> {
        let mut kinds = BTreeMap::<Kind, Vec<&Form>>::new();
        for form in self.forms.values() {
            kinds.entry(kind(form)).or_default().push(form);
        }
        let mut kinds: Vec<_> = kinds.into_values().collect();
        for forms in &mut kinds {
            // Stable: equally frequent forms stay in the order of their bytes.
            forms.sort_by_key(|form| std::cmp::Reverse(form.count));
        }
        let longest = kinds.iter().map(Vec::len).max().unwrap_or(0);
        let mut chosen: Vec<&Form> = (0..longest)
            .flat_map(|round| kinds.iter().filter_map(move |forms| forms.get(round)))
            .copied()
            .take(count)
            .collect();
        chosen.sort_by_key(|form| form.group());
        chosen
    }
}

impl Form {
    /// Returns the name of its case.
    pub fn group(&self) -> String {
        let name = format!("{:?}", self.other.mnemonic()).to_lowercase();
        let to_memory = self.insn.memory_operand().is_some();
        match name.as_str() {
            "call" | "jmp" if to_memory => name + "_mem",
            "ret" if self.other.op_count() > 0 => name + "_imm16",
            // There the copy of an instruction meets the end of its slot.
            _ if self.insn.len() + 1 >= MAX_LEN => format!("{name}_{}", self.insn.len()),
            _ => name,
        }
    }
}

/// An instruction's bytes, without the values of its displacement and its immediate.
fn masked(insn: &Insn) -> Vec<u8> {
    let mut bytes = insn.bytes().to_vec();
    for field in [insn.displacement_field(), insn.immediate_field()] {
        let at = usize::from(field.at);
        bytes[at..at + usize::from(field.len)].fill(0);
    }
    bytes
}

fn kind(form: &Form) -> Kind {
    let insn = &form.insn;
    let addressing = Addressing {
        mode: insn.modrm().map_or(4, |modrm| modrm.mode()),
        sib: insn.sib().is_some(),
        rip_relative: insn.is_rip_relative(),
        displacement: insn.displacement_field().len,
        segment: form.other.has_segment_prefix(),
    };
    // The prefixes before REX.
    let prefixes = insn.bytes().iter();
    let prefixes = prefixes.take_while(|byte| matches!(byte, 0x66 | 0x67 | 0xf0 | 0xf2 | 0xf3));
    let mut prefixes: Vec<u8> = prefixes.copied().collect();
    prefixes.sort_unstable();
    (form.other.code() as usize, addressing, prefixes)
}
