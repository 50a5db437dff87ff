// SPDX-License-Identifier: GPL-2.0

//! Properties of the parser: printed programs parse to equal programs, and any text gives an error
//! or a program.

use std::fs;
use std::process::Command;
use std::sync::LazyLock;

use ferro_core::insn::Boundaries;
use proptest::prelude::*;
use tempfile::TempDir;

use super::super::command::is_for;
use super::*;
use crate::elf::Elf;
use crate::elf::Found;

/// A library, its path, and the file offsets of its instructions.
static LIBRARY: LazyLock<(TempDir, String, Vec<u64>)> = LazyLock::new(|| {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("lib.so");
    let source = dir.path().join("lib.c");
    fs::write(
        &source,
        "int f(int a, int *b) { for (; a; a--) *b ^= a * 7; return *b; }",
    )
    .unwrap();
    let mut gcc = Command::new("gcc");
    let gcc = gcc.args(["-shared", "-fPIC", "-nostdlib", "-o"]);
    assert!(gcc.args([&path, &source]).status().unwrap().success());
    let elf = Elf::read(&path).unwrap();
    let function: Found = elf.lookup("f").unwrap();
    let start = elf.offset_of(function.address).unwrap();
    let size = usize::try_from(function.size).unwrap();
    let starts = Boundaries::new(elf.bytes_at(start, size));
    let starts = starts.map(|item| start + u64::try_from(item.unwrap().0).unwrap());
    let starts = starts.collect();
    (dir, path.display().to_string(), starts)
});

/// Generates an instruction for a point of `len` instructions.
fn insn(len: u32, locals: u32) -> impl Strategy<Value = Insn> {
    let op = prop::sample::select(OPS);
    (op, any::<u64>(), any::<u32>(), any::<bool>()).prop_map(move |(op, word, number, stack)| {
        let index = |count: u32| number % count;
        let register = || {
            let all = (0..=u8::MAX).filter_map(Register::from_number);
            let all: Vec<_> = all.filter(|one| is_for(op, *one)).collect();
            all[usize::try_from(number).unwrap() % all.len()]
        };
        let distance = i64::from(number % 2047) - 1023;
        let count = |scope| match scope {
            Scope::Local => locals,
            Scope::Global => 9,
        };
        if stack && op.takes_from_stack() {
            return Insn::from_stack(op);
        }
        match op.operand() {
            Operand::None => Insn::new(op),
            Operand::Target => Insn::with(op, index(len)),
            Operand::Word => Insn::push(word),
            Operand::Number => Insn::with(op, number),
            // Programs may not have this operand.
            Operand::Later => Insn::from_stack(op),
            Operand::Bit => Insn::with(op, index(64)),
            Operand::Variable(scope) => Insn::with(op, index(count(scope))),
            Operand::Variables(scope) => {
                let first = index(count(scope));
                let left = u64::from(count(scope) - first);
                Insn::variables(op, first, 1 + word % left)
            }
            Operand::Words => Insn::with(op, index(1024)),
            Operand::Distance => Insn::at(op, distance),
            Operand::Register
            | Operand::WritableRegister
            | Operand::UserRegister
            | Operand::WritableUserRegister => Insn::register(op, register()),
            Operand::Width => Insn::width(op, 1 << index(4)),
            Operand::PortWidth => Insn::width(op, 1 << index(3)),
            Operand::Exit => Insn::width(op, number.to_le_bytes()[0] % 4),
        }
    })
}

fn point(kind: ModuleKind, locals: u32) -> impl Strategy<Value = Located> {
    let code = (1..40u32).prop_flat_map(move |len| {
        prop::collection::vec(insn(len + 2, locals), usize::try_from(len).unwrap())
    });
    let numbers = (
        any::<(u32, u32, u32, u32)>(),
        (0..=HITS_MAX, 0..=HITS_MAX, any::<u64>()),
        prop::option::of(any::<u8>()),
        any::<(bool, bool, bool)>(),
        0..4usize,
    );
    let symbol = "[a-z_][a-z0-9_.]{0,12}|a b";
    (code, numbers, 0..4096u32, symbol).prop_map(move |(code, numbers, heap_size, symbol)| {
        let ((major, minor, group, kind_number), (max_hits, pass_count, offset), ..) = numbers;
        let (_, _, opcode, (log_on_fault, is_absolute, is_later), watch) = numbers;
        let is_later = is_later && watch != 0;
        let kinds = [
            PointKind::Breakpoint,
            PointKind::WatchExecute,
            PointKind::WatchWrite,
            PointKind::WatchAccess,
        ];
        let is_user = kind == ModuleKind::User;
        let is_absolute = match is_user {
            _ if is_later => false,
            true => watch != 0,
            false => is_absolute,
        };
        // `ros` makes the stack's depth unknown, so that no later instruction takes too much.
        let first = Insn::at(Op::Ros, 0);
        let last = Insn::new(Op::Abort);
        Located {
            point: Point {
                kind: kinds[watch],
                watch_len: [0, 1, 4, 8][watch],
                // Watchpoints have no opcode.
                opcode: opcode.filter(|_| watch == 0),
                log_on_fault,
                is_absolute,
                is_later,
                major,
                minor,
                group,
                kind_number,
                ex_mask: 0x3fff & major,
                heap_size,
                max_hits,
                pass_count,
                offset: match is_user && !is_absolute {
                    _ if is_later => 0,
                    true => LIBRARY.2[usize::try_from(offset).unwrap() % LIBRARY.2.len()],
                    false => offset,
                },
            },
            symbol: match is_absolute || is_user || is_later {
                true => String::new(),
                false => symbol,
            },
            code: [first].into_iter().chain(code).chain([last]).collect(),
        }
    })
}

fn program() -> impl Strategy<Value = Loadable> {
    const KINDS: &[ModuleKind] = &[ModuleKind::User, ModuleKind::Kernel, ModuleKind::Module];
    (prop::sample::select(KINDS), 1..=256u32).prop_flat_map(|(kind, locals)| {
        let points = prop::collection::vec(point(kind, locals), 1..4);
        let numbers = any::<(u32, u32, u16, bool)>();
        let small = (0..=4096u32, 0..=4096u32, 9..=256u32, 4096..=16384u32);
        (points, numbers, small).prop_map(move |(points, numbers, small)| Loadable {
            header: Header {
                kind,
                major: numbers.0,
                id: numbers.1,
                jmpmax: numbers.2.into(),
                logmax: small.0,
                ex_logmax: small.1,
                locals,
                globals: 256,
                heapmax: small.3,
                auto_stack_trace: numbers.3,
            },
            name: match kind {
                ModuleKind::User => LIBRARY.1.clone(),
                ModuleKind::Kernel => "vmlinux".to_owned(),
                ModuleKind::Module => "some_module".to_owned(),
            },
            points,
        })
    })
}

/// Generates one or two programs with different names.
fn all_programs() -> impl Strategy<Value = Vec<Loadable>> {
    prop::collection::vec(program(), 1..3).prop_map(|mut all| {
        all.dedup_by(|second, first| second.name == first.name);
        all
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    /// Printed programs parse to equal programs.
    #[test]
    fn printed_and_read(all in all_programs()) {
        let header = SetHeader { flags: UNSAFE_WRITES, ..SetHeader::default() };
        let bytes = set::bytes(header, &all).unwrap();
        let set = SetRef::decode(&bytes, &mut vec![0; CODE_MAX]).unwrap();
        prop_assert_eq!(&set::programs(&set), &all);
        let text = print::set(&set);
        prop_assert_eq!(programs(&text, &[]), all);
    }

    /// Any text is an error or a program.
    #[test]
    fn any_text(text in "[ -~\n\t]{0,200}") {
        let (source, file) = read(&text, &["a=b"]);
        render(&source, &file.diagnostics, true);
    }

    /// Text of a program's words is an error or a program.
    #[test]
    fn any_words(words in prop::collection::vec("name = |offset = |push|log|lv|r|,|:|\n|\n|\\(|-|[0-9]{1,3}|=|exit|jmp|x|mem|u8|\"|/\\*|é", 0..60)) {
        let (source, file) = read(&words.join(" "), &[]);
        render(&source, &file.diagnostics, true);
    }
}
