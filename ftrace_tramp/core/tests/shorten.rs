// SPDX-License-Identifier: GPL-2.0

//! Tests that shortened copies have the same effect: both are executed, one instruction after the
//! other.

use super::*;
use std::collections::HashMap;

const RSP: usize = 4;
const RDI: usize = 7;
const STACK: u64 = 0xffff_c900_0000_f000;

/// Interpreter of copies, for their few forms of instructions.
#[derive(Clone, Debug)]
pub(super) struct Machine {
    pub(super) registers: [u64; 16],
    flags: u64,
    pub(super) memory: HashMap<u64, u64>,
    executed: usize,
}

/// State that the callback has seen, and state after the copy.
#[derive(Debug, PartialEq)]
pub(super) struct Seen {
    pub(super) arguments: [u64; 4],
    /// `struct pt_regs`, word by word.
    pub(super) regs: Vec<Option<u64>>,
    registers: [u64; 16],
    flags: u64,
    stack: Vec<Option<u64>>,
}

impl Machine {
    fn read(&self, at: u64) -> u64 {
        self.memory
            .get(&at)
            .copied()
            .unwrap_or(at.wrapping_add(0xdead_0000))
    }

    /// Executes `code` as if it were at `at`. The callback changes the registers that a client may
    /// change.
    pub(super) fn run(&mut self, code: &[u8], at: u64, call: u64, changes: &[(u64, u64)]) -> Seen {
        let mut seen = ([0; 4], vec![]);
        let mut here = 0;
        while here < code.len() {
            let insn = Insn::decode(&code[here..]).unwrap();
            let next = here + insn.len();
            self.executed += 1;
            if at + here as u64 == call {
                let regs = self.registers[1];
                seen.0 = [RDI, 6, 2, 1].map(|register| self.registers[register]);
                seen.1 = (0..22)
                    .map(|i| self.memory.get(&(regs + i * 8)).copied())
                    .collect();
                for (slot, value) in changes {
                    self.memory.insert(regs + slot * 8, *value);
                }
                // Registers that a function may change.
                for register in [0, 1, 2, 6, 7, 8, 9, 10, 11] {
                    self.registers[register] = 0xbad0 + register as u64;
                }
                self.flags = 0xbad;
                here = next;
                continue;
            }
            here = self
                .step(insn.bytes(), at + next as u64)
                .map_or(next, |way| next + way);
        }
        let stack = (0..8).map(|i| self.memory.get(&(self.registers[RSP] + i * 8)).copied());
        Seen {
            arguments: seen.0,
            regs: seen.1,
            registers: self.registers,
            flags: self.flags,
            stack: stack.collect(),
        }
    }

    /// Executes an instruction; returns the distance of its jump.
    fn step(&mut self, code: &[u8], next: u64) -> Option<usize> {
        let code = match code {
            // Depth of calls: not compared.
            [0x65, ..] => return None,
            [0x3e, 0x3e, 0x3e, code @ ..] => code,
            code => code,
        };
        let (rex, code) = match code {
            [rex @ 0x40..=0x4f, code @ ..] => (*rex, code),
            code => (0, code),
        };
        let high = |bit: u8| usize::from(rex & bit != 0) * 8;
        let imm8 = |at: usize| i64::from(code[at] as i8) as u64;
        let imm32 =
            |at: usize| i64::from(i32::from_le_bytes(code[at..at + 4].try_into().unwrap())) as u64;
        match code {
            [0x9c] => {
                self.registers[RSP] -= 8;
                self.memory.insert(self.registers[RSP], self.flags);
            }
            [0x9d] => {
                self.flags = self.read(self.registers[RSP]);
                self.registers[RSP] += 8;
            }
            [0x50..=0x57] => {
                let value = self.registers[usize::from(code[0] & 7) + high(1)];
                self.registers[RSP] -= 8;
                self.memory.insert(self.registers[RSP], value);
            }
            [0x66, 0x90] | [0x90] | [0x0f, 0x1f, 0x40, 0x00] => (),
            [0xeb, way] => return Some(usize::from(*way)),
            [0x85, ..] => self.flags = 0x7e57,
            [op, modrm, rest @ ..] => {
                let register = usize::from(modrm >> 3 & 7) + high(4);
                let rm = usize::from(modrm & 7) + high(1);
                let (address, len) = match (modrm >> 6, modrm & 7, rest.first()) {
                    (0, 5, _) => (next.wrapping_add(imm32(2)), 6),
                    (0, 4, Some(0x24)) => (self.registers[RSP], 3),
                    (1, 4, Some(0x24)) => (self.registers[RSP].wrapping_add(imm8(3)), 4),
                    (2, 4, Some(0x24)) => (self.registers[RSP].wrapping_add(imm32(3)), 7),
                    (3, ..) => (0, 2),
                    _ => panic!("{code:02x?}"),
                };
                let memory = modrm >> 6 != 3;
                match (op, memory) {
                    (0x89, true) => {
                        self.memory.insert(address, self.registers[register]);
                    }
                    (0x8b, true) => self.registers[register] = self.read(address),
                    (0x89, false) => self.registers[rm] = self.registers[register],
                    (0x8b, false) => self.registers[register] = self.registers[rm],
                    (0x8d, true) => self.registers[register] = address,
                    (0xff, true) => {
                        assert_eq!(modrm >> 3 & 7, 6);
                        let value = self.read(address);
                        self.registers[RSP] -= 8;
                        self.memory.insert(self.registers[RSP], value);
                    }
                    (0xc7, true) => {
                        self.memory.insert(address, imm32(len));
                    }
                    (0xc7, false) => self.registers[rm] = imm32(len),
                    (0x81 | 0x83, false) => {
                        let value = if *op == 0x81 { imm32(len) } else { imm8(len) };
                        let to = &mut self.registers[rm];
                        *to = match modrm >> 3 & 7 {
                            0 => to.wrapping_add(value),
                            5 => to.wrapping_sub(value),
                            _ => panic!("{code:02x?}"),
                        };
                    }
                    _ => panic!("{code:02x?}"),
                }
            }
            _ => panic!("{code:02x?}"),
        }
        None
    }
}

pub(super) fn machine(seed: u64) -> Machine {
    let mut registers = [0; 16];
    for (i, register) in registers.iter_mut().enumerate() {
        *register = seed
            .wrapping_mul(0x9e37_79b9_7f4a_7c15)
            .rotate_left(i as u32 * 3);
    }
    registers[RSP] = STACK;
    let memory = (0..8).map(|i| (STACK + i * 8, 0x5_0000 + i)).collect();
    Machine {
        registers,
        flags: 0x246,
        memory,
        executed: 0,
    }
}

fn executed(
    template: &Template,
    call: u64,
    at: u64,
    seed: u64,
    changes: &[(u64, u64)],
) -> (Seen, usize) {
    let code = written(template, at, Ending::Return).unwrap();
    let len = template.bytes().len();
    let mut machine = machine(seed);
    // The ops is loaded from after the code.
    let word = at + code.len() as u64 - 8;
    machine.memory.insert(word, OWN_OPS);
    (
        machine.run(&code[..len], at, at + call, changes),
        machine.executed,
    )
}

/// Number of instructions saved in a copy of each template.
const FEWER: [(&str, usize); 6] = [
    ("plain", 1),
    ("plain, registers", 6),
    ("frame pointers", 0),
    ("frame pointers, registers", 5),
    ("call depth", 1),
    ("call depth, registers", 6),
];

#[test]
fn shortened_copies_are_shorter() {
    for (recorded, (name, fewer)) in RECORDED.iter().zip(FEWER) {
        assert_eq!(recorded.name, name);
        let long = recorded.template();
        let mut short = long.clone();
        assert_eq!(short.shorten(), fewer, "{name}");
        let call = recorded.labels.call - recorded.labels.start;
        let count = |template| executed(template, call, 0xffff_ffff_a000_0000, 1, &[]).1;
        assert_eq!(count(&long) - count(&short), fewer, "{name}");
        // A second pass saves nothing.
        assert_eq!(short.clone().shorten(), 0, "{name}");
        assert_eq!(short.bytes().len(), long.bytes().len());
    }
}

proptest! {
    /// For any registers, and any changes by the callback.
    #[test]
    fn shortened_copies_do_the_same(
        seed in any::<u64>(),
        at in 0xffff_ffff_a000_0000u64..0xffff_ffff_c000_0000,
        changes in proptest::collection::vec((0..19u64, any::<u64>()), 0..6),
    ) {
        for recorded in &RECORDED {
            let long = recorded.template();
            let mut short = long.clone();
            short.shorten();
            let call = recorded.labels.call - recorded.labels.start;
            // Without all registers the callback changes only the address where execution
            // continues.
            let regs = recorded.labels.direct.is_some();
            let changes: Vec<_> = changes.iter().copied().filter(|(slot, _)| {
                // ORIG_RAX is for direct calls, which no copy has.
                regs && *slot != 15 || *slot == 16
            }).collect();
            let (want, _) = executed(&long, call, at, seed, &changes);
            let (have, _) = executed(&short, call, at, seed, &changes);
            prop_assert_eq!(want.registers, have.registers);
            prop_assert_eq!(&want, &have, "{}", recorded.name);
        }
    }

    /// Code with a small difference is not changed, or has the same effect.
    #[test]
    fn other_code_stays(place in 0..340usize, bit in 0..8u8) {
        for recorded in &RECORDED {
            let mut text = recorded.text.to_vec();
            let place = place % text.len();
            text[place] ^= 1 << bit;
            let Ok(template) = Template::new(&text, &recorded.labels) else {
                continue;
            };
            let mut short = template.clone();
            short.shorten();
            prop_assert_eq!(short.bytes().len(), template.bytes().len());
            let boundaries = Boundaries::new(short.bytes()).all(|insn| insn.is_ok());
            prop_assert!(boundaries);
        }
    }
}
