// SPDX-License-Identifier: GPL-2.0

//! Tests of programs in a world of memory, registers and variables.

use super::*;

mod arming;
mod commands;
mod exceptions;
mod found;
mod fuse;
mod logging;
mod model;
mod plain;
mod properties;
mod sets;
mod tally;

use model::Model;

/// Limits that are reached here only on purpose.
const LIMITS: Limits = Limits {
    jumps: 1000,
    log: 1024,
    trace: 1024,
    heap: 1024,
    ex_mask: MASK_DEFAULT,
    auto_stack_trace: false,
    major: 7,
    minor: 8,
};

/// A finished run.
struct Ran {
    outcome: Outcome,
    model: Model,
    memory: Box<Memory>,
}

impl Ran {
    fn end(&self) -> End {
        self.outcome.end
    }

    /// Returns the exception that ended it.
    fn fault(&self) -> Option<(Exception, u64)> {
        match self.end() {
            End::Fault(fault) => Some((fault.exception, fault.argument)),
            _ => None,
        }
    }

    fn entries(&self) -> Vec<Entry<'_>> {
        let data = self.outcome.data(&self.memory);
        let entries = data.into_iter().flat_map(Entries::new);
        entries.map(|entry| entry.unwrap()).collect()
    }

    /// Returns the logged words.
    fn words(&self) -> Vec<u64> {
        let entries = self.entries();
        let words = entries.into_iter().filter_map(|entry| match entry {
            Entry::Words(words) => Some(words.iter().collect::<Vec<_>>()),
            _ => None,
        });
        words.flatten().collect()
    }
}

fn run_in(model: Model, limits: &Limits, code: &[Insn]) -> Ran {
    let mut memory = Box::new(Memory::new());
    // Rest of earlier runs.
    memory.stack.fill(0xdead);
    memory.log_mut().fill(0xee);
    memory.trace.fill(0xee);
    memory.heap.fill(0xee);
    run_with(memory, model, limits, code)
}

fn run_with(mut memory: Box<Memory>, mut model: Model, limits: &Limits, code: &[Insn]) -> Ran {
    let outcome = run(limits, code, &mut memory, &mut model);
    Ran {
        outcome,
        model,
        memory,
    }
}

fn run_code(code: &[Insn]) -> Ran {
    run_in(Model::new(), &LIMITS, code)
}

/// Pushes words, the last on top, runs commands, and returns all words of the stack, the top first.
fn leaves(words: &[u64], commands: &[Insn]) -> Result<Vec<u64>, (Exception, u64)> {
    let mut code = words
        .iter()
        .map(|word| Insn::push(*word))
        .collect::<Vec<_>>();
    code.extend(commands);
    let ran = run_code(&[&code[..], &[Insn::new(Op::Exit)]].concat());
    if let Some(fault) = ran.fault() {
        return Err(fault);
    }
    let top = stack_top(&code);
    Ok((0..top).map(|n| ran.memory.stack[top - n]).collect())
}

/// Returns the index of the top after commands that do not jump.
fn stack_top(code: &[Insn]) -> usize {
    // `save` pushes it.
    let code = [
        code,
        &[
            Insn::new(Op::Save),
            Insn::from_stack(Op::SetMin),
            Insn::new(Op::Exit),
        ],
    ];
    let ran = run_code(&code.concat());
    ran.outcome.minor as usize
}

fn set_of(header: Header, points: &[PointSource<'_>], flags: u32) -> Vec<u8> {
    let mut bytes = Vec::new();
    let program = ProgramSource {
        header,
        name: "vmlinux",
        points,
    };
    let header = SetHeader {
        flags,
        ..Default::default()
    };
    encode(&mut bytes, header, &[program]).unwrap();
    bytes
}

/// Checks that each command is named by a test.
#[test]
#[cfg_attr(miri, ignore = "it reads text, for which Miri is slow")]
fn each_command_has_a_test() {
    let tests = [
        include_str!("arming.rs"),
        include_str!("commands.rs"),
        include_str!("exceptions.rs"),
        include_str!("logging.rs"),
    ];
    let tests = tests.concat().replace("Insn::push(", "Op::Push ");
    let words = |c: char| !c.is_alphanumeric() && c != ':';
    let named = tests.split(words).collect::<std::collections::HashSet<_>>();
    for op in OPS {
        assert!(named.contains(&*format!("Op::{op:?}")), "{op:?}");
    }
}
