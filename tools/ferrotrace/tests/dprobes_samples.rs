// SPDX-License-Identifier: GPL-2.0

//! The programs in `samples/dprobes`: all parse and pass the kernel's check, and a model runs some
//! of them.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::path::PathBuf;

use ferro_dprobes_core::*;
use ferrotrace::dprobes::lang::diagnostic::render;
use ferrotrace::dprobes::lang::parse::parse;
use ferrotrace::dprobes::lang::program::Program;
use ferrotrace::dprobes::lang::source::Source;

fn dir() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../samples/dprobes")
}

fn read(path: &Path, defines: &[&str]) -> Vec<Program> {
    let defines: Vec<_> = defines.iter().map(|one| one.parse().unwrap()).collect();
    let source = Source::read(path, &defines).unwrap();
    let file = parse(&source, &defines);
    assert!(
        file.diagnostics.is_empty(),
        "{}",
        render(&source, &file.diagnostics, false)
    );
    file.programs
}

#[test]
fn all_are_good() {
    let mut count = 0;
    for entry in fs::read_dir(dir()).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "dp") {
            continue;
        }
        let programs = read(&path, &[]);
        assert!(!programs.is_empty());
        let text = fs::read_to_string(&path).unwrap();
        let purpose = text.lines().nth(2).unwrap();
        assert!(
            purpose.starts_with("// "),
            "{}: says not what it is for",
            path.display()
        );
        count += 1;
    }
    assert!(count >= 22, "{count}");
}

/// Model of a machine: registers, memory of words, variables.
#[derive(Default)]
struct Model {
    registers: BTreeMap<&'static str, u64>,
    memory: BTreeMap<u64, u64>,
    variables: RefCell<BTreeMap<(bool, u32), u64>>,
    /// Armed watchpoints and their addresses.
    armed: RefCell<BTreeMap<u32, Option<u64>>>,
    task: u64,
    time: u64,
}

impl Model {
    fn with(registers: &[(&'static str, u64)]) -> Self {
        Self {
            registers: registers.iter().copied().collect(),
            ..Self::default()
        }
    }

    fn set(&mut self, register: &'static str, value: u64) {
        self.registers.insert(register, value);
    }

    fn local(&self, index: u32) -> u64 {
        self.variable(Scope::Local, index).unwrap()
    }

    fn global(&self, index: u32) -> u64 {
        self.variable(Scope::Global, index).unwrap()
    }

    /// Runs a point. Returns its end and the logged words.
    fn run(&mut self, program: &Program, point: usize) -> (End, Vec<u64>) {
        let point = &program.points[point];
        let code: Vec<_> = point.code.iter().map(|command| command.insn).collect();
        let header = &program.header;
        let limits = Limits {
            jumps: header.jmpmax,
            log: header.logmax,
            trace: header.ex_logmax,
            heap: point.point.heap_size,
            ex_mask: point.point.ex_mask,
            auto_stack_trace: false,
            major: 0,
            minor: 0,
        };
        let mut memory = Box::new(Memory::new());
        let outcome = run(&limits, &code, &mut memory, self);
        let [data, _] = outcome.data(&memory);
        let entries = Entries::new(data).flat_map(|entry| match entry.unwrap() {
            Entry::Words(words) => words.iter().collect(),
            Entry::Memory(bytes) => vec![bytes.len() as u64],
            Entry::Exception(fault, _) => vec![fault.argument],
            Entry::NotThere(address) => vec![address],
            other => panic!("{other:?}"),
        });
        (outcome.end, entries.collect())
    }
}

impl World for Model {
    fn register(&self, register: Register) -> Option<u64> {
        self.registers.get(register.name()).copied()
    }
    fn set_register(&mut self, register: Register, value: u64) -> bool {
        self.registers.insert(register.name(), value);
        true
    }
    fn user_register(&self, register: Register) -> Option<u64> {
        self.register(register)
    }
    fn set_user_register(&mut self, _: Register, _: u64) -> bool {
        false
    }
    fn read(&self, address: u64, to: &mut [u8]) -> bool {
        for (at, byte) in (address..).zip(to) {
            let Some(word) = self.memory.get(&(at & !7)) else {
                return false;
            };
            *byte = word.to_le_bytes()[(at & 7) as usize];
        }
        true
    }
    fn read_string(&self, _: u64, _: &mut [u8]) -> Option<usize> {
        None
    }
    fn write(&mut self, _: u64, _: &[u8]) -> bool {
        false
    }
    fn can_access(&self, address: u64, len: u64, _: bool) -> bool {
        self.read(address, &mut vec![0; len as usize])
    }
    fn port_in(&mut self, _: u16, _: u8) -> Option<u32> {
        None
    }
    fn port_out(&mut self, _: u16, _: u8, _: u32) -> bool {
        false
    }
    fn segment(&self, _: u16) -> Option<u64> {
        None
    }
    fn variable(&self, scope: Scope, index: u32) -> Option<u64> {
        let variables = self.variables.borrow();
        let key = (scope == Scope::Global, index);
        Some(variables.get(&key).copied().unwrap_or(0))
    }
    fn set_variable(&self, scope: Scope, index: u32, value: u64) -> bool {
        let key = (scope == Scope::Global, index);
        self.variables.borrow_mut().insert(key, value);
        true
    }
    fn add_variable(&self, scope: Scope, index: u32, value: u64) -> bool {
        let old = self.variable(scope, index).unwrap();
        self.set_variable(scope, index, old.wrapping_add(value))
    }
    fn task(&self) -> u64 {
        self.task
    }
    fn arm(&self, minor: u32, address: Option<u64>) -> bool {
        self.armed.borrow_mut().insert(minor, address);
        true
    }
    fn process(&self) -> u32 {
        0x1234
    }
    fn thread(&self) -> u32 {
        0x1234
    }
    fn cpu(&self) -> u32 {
        3
    }
    fn time(&self) -> u64 {
        self.time
    }
    fn call(&mut self, _: u32, _: u64) -> Option<u64> {
        None
    }
}

fn sample(name: &str) -> Program {
    read(&dir().join(name), &[]).remove(0)
}

#[test]
fn fork_kill() {
    let program = sample("fork_kill.dp");
    let mut model = Model::with(&[("rsp", 0x1000)]);
    model.memory = [(0x1000, 1), (0x1008, 2)].into();
    assert_eq!(model.run(&program, 0), (End::Exit, vec![16]));
    for _ in 0..3 {
        model.run(&program, 1);
    }
    assert_eq!((model.local(0), model.local(1)), (1, 3));
}

#[test]
fn malloc_dump() {
    let program = sample("malloc_dump.dp");
    let mut model = Model::with(&[("rdi", 0x2000_0000)]);
    assert_eq!(model.run(&program, 0).0, End::CoreDump);
    model.set("rdi", 0x2000_0001);
    assert_eq!(model.run(&program, 0).0, End::Exit);
}

#[test]
fn callers() {
    let program = sample("callers.dp");
    let mut model = Model::with(&[("rsp", 0x1000)]);
    for caller in [5, 6, 5, 5, 7] {
        model.memory.insert(0x1000, caller);
        assert_eq!(model.run(&program, 0).0, End::Exit);
    }
    let table: Vec<_> = (0..8).map(|index| model.local(index)).collect();
    assert_eq!(table, [5, 3, 6, 1, 7, 1, 0, 0]);
    for caller in 100..150 {
        model.memory.insert(0x1000, caller);
        assert_eq!(model.run(&program, 0).0, End::Exit);
    }
    assert_eq!((model.local(60), model.local(61)), (127, 1));
    assert_eq!(model.local(63), 22);
}

#[test]
fn fork_delay() {
    let program = sample("fork_delay.dp");
    let mut model = Model::with(&[("rdi", 0xabc)]);
    let mut one = |woken, runs, task| {
        model.time = woken;
        model.run(&program, 0);
        (model.time, model.task) = (runs, task);
        let logged = model.run(&program, 1);
        (logged, model.global(2), model.global(3), model.global(4))
    };
    assert_eq!(one(10, 15, 0xabc), ((End::Exit, vec![5]), 1, 5, 5));
    assert_eq!(one(20, 23, 0xabc), ((End::Exit, vec![]), 2, 8, 5));
    assert_eq!(one(30, 37, 0xabc), ((End::Exit, vec![7]), 3, 15, 7));
    assert_eq!(one(40, 50, 0xdef).0.0, End::Abort);
}

#[test]
fn read_fails() {
    let program = read(&dir().join("read_fails.dp"), &["ONE_IN=3"]).remove(0);
    let symbol = program.points[0]
        .code
        .iter()
        .find_map(|one| one.symbol.clone());
    assert_eq!(symbol.unwrap().name, "bad_inode_listxattr");
    let mut model = Model::default();
    let mut failures = Vec::new();
    for n in 1..=7 {
        model.set("rip", 0x1000);
        assert_eq!(model.run(&program, 0).0, End::Exit);
        // The model does not know the symbol's address: 0.
        if model.registers["rip"] == 0 {
            failures.push(n);
        }
    }
    assert_eq!(failures, [3, 6]);
    assert_eq!((model.local(0), model.local(1)), (7, 2));
}

#[test]
fn malloc_sizes() {
    let program = sample("malloc_sizes.dp");
    let mut model = Model::default();
    for size in [0, 1, 7, 8, 255, 256, u64::MAX] {
        model.set("rdi", size);
        assert_eq!(model.run(&program, 0).0, End::Exit);
    }
    let found: Vec<_> = (0..65).filter(|bits| model.local(*bits) != 0).collect();
    assert_eq!(found, [0, 1, 3, 4, 8, 9, 64]);
}

#[test]
fn short_writes() {
    let program = sample("short_writes.dp");
    let mut model = Model::with(&[("rdx", 4096)]);
    model.run(&program, 0);
    assert_eq!((model.registers["rdx"], model.local(0)), (4096, 0));
    model.set("rdx", 4097);
    model.run(&program, 0);
    assert_eq!((model.registers["rdx"], model.local(0)), (4096, 1));
}

#[test]
fn counters_by_index() {
    let mut model = Model::with(&[("rdi", 0xffff_ffff_0000_0002), ("rsi", 255)]);
    model.run(&sample("softirqs.dp"), 0);
    assert_eq!(model.local(2), 1);
    model.run(&sample("switches.dp"), 0);
    assert_eq!(model.local(3), 1);
    model.run(&sample("page_faults.dp"), 0);
    assert_eq!(model.global(0x34), 1);
}

#[test]
fn follow() {
    let program = sample("follow.dp");
    let mut model = Model::with(&[("rdi", 0x1000)]);
    model.memory = [(0x1000, 0x2000), (0x2000, 0x3000), (0x3000, 0)].into();
    assert_eq!(model.run(&program, 0), (End::Exit, vec![]));
    assert_eq!(model.local(0), 3);
    model.memory.insert(0x3000, 0x9000);
    let logged = model.run(&program, 0).1;
    assert_eq!(logged, [1, 0x9000]);
}

#[test]
fn subroutines_and_loops() {
    let mut model = Model::with(&[("rdi", 0x1000), ("rsi", 5), ("rsp", 0x2000)]);
    model.memory = [(0x1000, 1)].into();
    let (end, logged) = model.run(&sample("subroutines.dp"), 0);
    assert_eq!((end, logged), (End::Exit, vec![8, 0x1000, 5]));
    for n in 0..16 {
        model.memory.insert(0x2000 + 8 * n, n);
    }
    let logged = model.run(&sample("stack_words.dp"), 0).1;
    assert_eq!(logged, (0..16).rev().collect::<Vec<u64>>());
}

#[test]
fn heap() {
    let program = sample("heap.dp");
    let mut model = Model::with(&[("rsi", 0x1000), ("rdx", 3)]);
    for text in [*b"xay.....", *b"xyza...."] {
        model.memory.insert(0x1000, u64::from_le_bytes(text));
        assert_eq!(model.run(&program, 0).0, End::Abort);
    }
    assert_eq!((model.local(0), model.local(1)), (1, 2));
}

#[test]
fn open_failed() {
    let program = sample("open_failed.dp");
    assert!(program.points[1].returns);
    let mut model = Model::with(&[("rsi", 0x1000), ("rax", 0x5000)]);
    model.memory = [(0x1000, 0x7777)].into();
    assert_eq!(model.run(&program, 0).0, End::Exit);
    assert_eq!(model.run(&program, 1).0, End::Abort);
    model.set("rax", (-2i64) as u64);
    // The model has no strings, so the point faults at the first one.
    let fault = End::Fault(Fault::new(Exception::Address, 0x7777));
    assert_eq!(model.run(&program, 1), (fault, vec![0x7777; 2]));
}
