// SPDX-License-Identifier: GPL-2.0

//! Probe programs: a set of any bytes is refused, or all of it runs to an end. Any instructions do,
//! too, and with the same result when they are fused.
//!
//! Without a fuzzer the program replays the files of its arguments.

#![cfg_attr(fuzzing, no_main)]

use ferro_dprobes_core::CODE_MAX;
use ferro_dprobes_core::Entries;
use ferro_dprobes_core::INSN_LEN;
use ferro_dprobes_core::Insn;
use ferro_dprobes_core::Limits;
use ferro_dprobes_core::Memory;
use ferro_dprobes_core::RecordRef;
use ferro_dprobes_core::Register;
use ferro_dprobes_core::Scope;
use ferro_dprobes_core::SetRef;
use ferro_dprobes_core::World;
use ferro_dprobes_core::fuse;
use ferro_dprobes_core::run;

/// A world where every address has its lowest byte, except in the first page and the upper half.
#[derive(Default)]
struct Bytes {
    variables: std::cell::RefCell<[u64; 4]>,
}

impl Bytes {
    fn is_there(address: u64, len: u64) -> bool {
        let end = address.checked_add(len);
        address >= 4096 && end.is_some_and(|end| end < 1 << 63)
    }
}

impl World for Bytes {
    fn register(&self, register: Register) -> Option<u64> {
        register.is_saved().then(|| register.number().into())
    }

    fn set_register(&mut self, register: Register, _: u64) -> bool {
        register.is_writable()
    }

    fn user_register(&self, register: Register) -> Option<u64> {
        self.register(register)
    }

    fn set_user_register(&mut self, register: Register, value: u64) -> bool {
        self.set_register(register, value)
    }

    fn read(&self, address: u64, to: &mut [u8]) -> bool {
        to.fill(address as u8);
        Self::is_there(address, to.len() as u64)
    }

    fn read_string(&self, address: u64, to: &mut [u8]) -> Option<usize> {
        self.read(address, to).then_some(to.len() / 2)
    }

    fn write(&mut self, address: u64, from: &[u8]) -> bool {
        Self::is_there(address, from.len() as u64)
    }

    fn can_access(&self, address: u64, len: u64, _: bool) -> bool {
        Self::is_there(address, len)
    }

    fn port_in(&mut self, port: u16, _: u8) -> Option<u32> {
        Some(port.into())
    }

    fn port_out(&mut self, port: u16, _: u8, _: u32) -> bool {
        port != 0
    }

    fn segment(&self, selector: u16) -> Option<u64> {
        (selector < 8).then_some(0)
    }

    fn variable(&self, _: Scope, index: u32) -> Option<u64> {
        self.variables.borrow().get(index as usize).copied()
    }

    fn set_variable(&self, _: Scope, index: u32, value: u64) -> bool {
        let mut variables = self.variables.borrow_mut();
        let found = variables.get_mut(index as usize);
        found.map(|variable| *variable = value).is_some()
    }

    fn add_variable(&self, scope: Scope, index: u32, value: u64) -> bool {
        let old = self.variable(scope, index).unwrap_or(0);
        self.set_variable(scope, index, old.wrapping_add(value))
    }

    fn arm(&self, minor: u32, _: Option<u64>) -> bool {
        minor < 4
    }

    fn task(&self) -> u64 {
        1
    }

    fn process(&self) -> u32 {
        2
    }

    fn thread(&self) -> u32 {
        3
    }

    fn cpu(&self) -> u32 {
        4
    }

    fn time(&self) -> u64 {
        5
    }

    fn call(&mut self, number: u32, argument: u64) -> Option<u64> {
        (number < 100).then_some(argument)
    }
}

fn check(data: &[u8]) {
    if let Ok(set) = SetRef::decode(data, &mut vec![0; CODE_MAX]) {
        for program in set.programs() {
            assert_eq!(program.points().count(), program.len() as usize);
            for point in program.points() {
                let code = point.code.insns().collect::<Vec<_>>();
                assert_eq!(code.len(), point.code.len());
                exercise(&code, program.header.jmpmax, point.point.ex_mask);
            }
        }
    }
    let insns = data.chunks_exact(INSN_LEN);
    let insns = insns.filter_map(|bytes| Insn::from_bytes(bytes.try_into().ok()?).ok());
    let code = insns.collect::<Vec<_>>();
    exercise(&code, 1000, data.len() as u32);
    if let Some(record) = RecordRef::decode(data) {
        assert!(record.entries().count() <= data.len());
    }
}

/// Runs to an end, and leaves a readable log; the same when pairs of commands are run as one.
fn exercise(code: &[Insn], jumps: u32, ex_mask: u32) {
    let limits = Limits {
        jumps: jumps.min(5000),
        log: 300,
        trace: 300,
        heap: 1024,
        ex_mask,
        auto_stack_trace: true,
        major: 0,
        minor: 0,
    };
    let run = |code: &[Insn], memory: &mut Memory| {
        let mut world = Bytes::default();
        let outcome = run(&limits, code, memory, &mut world);
        (outcome, world.variables.take())
    };
    let (mut memory, mut of_fused) = (Box::new(Memory::new()), Box::new(Memory::new()));
    let (outcome, variables) = run(code, &mut memory);
    for entry in outcome.data(&memory).into_iter().flat_map(Entries::new) {
        assert!(entry.is_ok());
    }
    let mut fused = code.to_vec();
    fuse(&mut fused);
    assert_eq!(run(&fused, &mut of_fused), (outcome, variables));
    assert_eq!(outcome.data(&of_fused), outcome.data(&memory));
}

#[cfg(fuzzing)]
libfuzzer_sys::fuzz_target!(|data: &[u8]| check(data));

#[cfg(not(fuzzing))]
fn main() -> std::io::Result<()> {
    ferro_host::replay(check)
}
