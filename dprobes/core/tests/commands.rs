// SPDX-License-Identifier: GPL-2.0

//! Tests of each command on the stack, variables, registers and memory.

use super::*;

const MINUS: u64 = u64::MAX;
const LEAST: u64 = 1 << 63;

fn plain(op: Op) -> Insn {
    Insn::new(op)
}

#[test]
fn stack() {
    let at = |op, distance| Insn::at(op, distance);
    for (words, commands, left) in [
        (&[1u64, 2][..], &[][..], &[2u64, 1][..]),
        (&[1, 2], &[plain(Op::Xchg)], &[1, 2]),
        (&[1, 2], &[plain(Op::Pop)], &[1]),
        (&[1, 2, 3], &[Insn::with(Op::Dup, 0)], &[3, 3, 2, 1]),
        (&[1, 2, 3], &[Insn::with(Op::Dup, 2)], &[1, 3, 2, 1]),
        (&[1, 2, 1], &[Insn::from_stack(Op::Dup)], &[1, 2, 1]),
        (&[1, 2, 3], &[at(Op::Ros, 2)], &[1]),
        (&[1, 2, 3], &[at(Op::Ros, 2), at(Op::Ros, -1)], &[2, 1]),
        (&[1, 2, 3], &[at(Op::PushSbp, 1)], &[1, 3, 2, 1]),
        (&[1, 2, 3], &[at(Op::PopSbp, 1)], &[2, 3]),
        (&[1, 2, 3], &[at(Op::CopySbp, 1)], &[3, 2, 3]),
        (&[1, 2, 3], &[at(Op::PushTsp, -1)], &[2, 3, 2, 1]),
        (&[1, 2, 3], &[at(Op::PopTsp, -1)], &[2, 3]),
        (&[1, 2, 3], &[at(Op::CopyTsp, -2)], &[3, 2, 3]),
        (&[1, 2], &[plain(Op::Save)], &[2, 0, 2, 1]),
        (
            &[1, 2],
            &[
                plain(Op::Save),
                Insn::push(9),
                Insn::push(9),
                plain(Op::Restore),
            ],
            &[2, 1],
        ),
        (
            // The words of a frame are at distances from its base, those of its caller below.
            &[1, 2],
            &[
                plain(Op::Save),
                Insn::push(9),
                at(Op::PushSbp, 1),
                at(Op::PushSbp, -2),
            ],
            &[2, 9, 9, 2, 0, 2, 1],
        ),
    ] {
        assert_eq!(
            leaves(words, commands).as_deref(),
            Ok(left),
            "{words:?} {commands:?}"
        );
    }
}

#[test]
fn arithmetic() {
    for (op, left, right, result) in [
        (Op::Add, 3, 4, &[7][..]),
        (Op::Add, MINUS, 2, &[1]),
        (Op::Sub, 3, 4, &[MINUS]),
        (Op::Sub, 4, 3, &[1]),
        (Op::Mul, 3, 4, &[12]),
        (Op::Mul, 1 << 63, 2, &[0]),
        (Op::Div, 17, 5, &[3, 2]),
        (Op::Div, MINUS, 2, &[MINUS / 2, 1]),
        (Op::Idiv, 17, 5, &[3, 2]),
        (
            Op::Idiv,
            17u64.wrapping_neg(),
            5,
            &[3u64.wrapping_neg(), 2u64.wrapping_neg()],
        ),
        (Op::Idiv, LEAST, MINUS, &[LEAST, 0]),
        (Op::And, 6, 3, &[2]),
        (Op::Or, 6, 3, &[7]),
        (Op::Xor, 6, 3, &[5]),
    ] {
        assert_eq!(
            leaves(&[left, right], &[plain(op)]).as_deref(),
            Ok(result),
            "{op:?}"
        );
    }
    assert_eq!(leaves(&[5], &[plain(Op::Neg)]), Ok(vec![!5]));
    for op in [Op::Div, Op::Idiv] {
        assert_eq!(leaves(&[5, 0], &[plain(op)]), Err((Exception::Divide, 5)));
    }
}

#[test]
fn shifts_and_bits() {
    for (op, word, by, result) in [
        (Op::Rol, LEAST | 1, 1, 3),
        (Op::Rol, 5, 64, 5),
        (Op::Rol, 5, 65, 10),
        (Op::Ror, 1, 1, LEAST),
        (Op::Ror, 5, 128, 5),
        (Op::Shl, 3, 4, 48),
        (Op::Shl, 3, 63, LEAST),
        (Op::Shl, 3, 64, 0),
        (Op::Shl, 3, u32::MAX, 0),
        (Op::Shr, MINUS, 63, 1),
        (Op::Shr, MINUS, 64, 0),
        (Op::Pbl, 0x80, 7, !0x7f),
        (Op::Pbl, 0xf7f, 7, 0x7f),
        (Op::Pbl, 1, 63, 1),
        (Op::Pbl, 1, 0, MINUS),
        (Op::Pbr, 0x80, 7, 0xff),
        (Op::Pbr, 0xf7f, 7, 0xf00),
        (Op::Pbr, LEAST, 63, MINUS),
        (Op::Pzl, MINUS, 7, 0xff),
        (Op::Pzl, MINUS, 63, MINUS),
        (Op::Pzr, MINUS, 7, !0x7f),
        (Op::Pzr, MINUS, 0, MINUS),
    ] {
        let found = leaves(&[word], &[Insn::with(op, by)]);
        assert_eq!(found, Ok(vec![result]), "{op:?} {word:#x} {by}");
        let found = leaves(&[word, by.into()], &[Insn::from_stack(op)]);
        assert_eq!(
            found,
            Ok(vec![result]),
            "{op:?} {word:#x} {by}, from the stack"
        );
    }
    for op in [Op::Pbl, Op::Pbr, Op::Pzl, Op::Pzr] {
        let found = leaves(&[1, 64], &[Insn::from_stack(op)]);
        assert_eq!(found, Err((Exception::Operand, 64)));
    }
    let too_much = leaves(&[1, 1 << 32], &[Insn::from_stack(Op::Shl)]);
    assert_eq!(too_much, Err((Exception::Operand, 1 << 32)));
}

#[test]
fn jumps() {
    const TAKEN: [(Op, [bool; 3]); 7] = [
        (Op::Jmp, [true, true, true]),
        (Op::Jlt, [true, false, false]),
        (Op::Jle, [true, true, false]),
        (Op::Jgt, [false, false, true]),
        (Op::Jge, [false, true, true]),
        (Op::Jz, [false, true, false]),
        (Op::Jnz, [true, false, true]),
    ];
    for (op, taken) in TAKEN {
        for (top, taken) in [MINUS, 0, 1].into_iter().zip(taken) {
            let ran = run_code(&[
                Insn::push(top),
                Insn::with(op, 3),
                plain(Op::Abort),
                // The top is kept.
                Insn::with(Op::Log, 1),
                plain(Op::Exit),
            ]);
            assert_eq!(ran.end() == End::Exit, taken, "{op:?} {top}");
            if taken {
                assert_eq!(ran.words(), [top]);
            }
        }
    }
}

#[test]
fn loops() {
    let ran = run_code(&[
        Insn::push(5),
        Insn::with(Op::IncLv, 0),
        Insn::with(Op::Loop, 1),
        Insn::with(Op::Log, 1),
        plain(Op::Exit),
    ]);
    assert_eq!(*ran.model.locals.borrow(), [5, 0, 0, 0]);
    assert_eq!(ran.words(), [0]);
}

#[test]
fn subroutines() {
    let ran = run_code(&[
        Insn::with(Op::Call, 3),
        Insn::with(Op::Call, 3),
        plain(Op::Exit),
        Insn::with(Op::IncLv, 1),
        plain(Op::Ret),
    ]);
    assert_eq!(ran.end(), End::Exit);
    assert_eq!(*ran.model.locals.borrow(), [0, 2, 0, 0]);
}

#[test]
fn ends() {
    for (insn, end) in [
        (Insn::new(Op::Exit), End::Exit),
        (Insn::width(Op::Exit, 1), End::Debugger),
        (Insn::width(Op::Exit, 2), End::CrashDump),
        (Insn::width(Op::Exit, 3), End::CoreDump),
        (Insn::width(Op::Exit, 4), End::Facility(4)),
        (Insn::new(Op::Abort), End::Abort),
        (Insn::new(Op::Rem), End::Remove),
    ] {
        let ran = run_code(&[plain(Op::Nop), Insn::push(1), Insn::with(Op::Log, 1), insn]);
        assert_eq!(ran.end(), end);
        assert_eq!(ran.outcome.is_empty(), end == End::Abort);
        assert_eq!((ran.outcome.major, ran.outcome.minor), (7, 8));
    }
}

#[test]
fn variables() {
    let v = |op, index| Insn::with(op, index);
    let ran = run_code(&[
        v(Op::IncLv, 0),
        v(Op::DecLv, 1),
        Insn::push(5),
        v(Op::MoveLv, 2),
        v(Op::PopLv, 3),
        v(Op::PushLv, 1),
        v(Op::PopGv, 0),
        v(Op::DecGv, 0),
        v(Op::IncGv, 1),
        v(Op::PushGv, 1),
        v(Op::MoveGv, 1),
        v(Op::MoveLv, 0),
        // Index from the stack: variable 2, then 3.
        Insn::push(2),
        Insn::from_stack(Op::IncLv),
        Insn::push(3),
        Insn::from_stack(Op::PushLv),
        v(Op::Log, 2),
        plain(Op::Exit),
    ]);
    assert_eq!(ran.end(), End::Exit);
    assert_eq!(*ran.model.locals.borrow(), [1, MINUS, 6, 5]);
    assert_eq!(*ran.model.globals.borrow(), [MINUS - 1, 1]);
    assert_eq!(ran.words(), [5, 1]);
    for op in [Op::IncLv, Op::PushLv, Op::DecLv] {
        let none = leaves(&[4], &[Insn::from_stack(op)]);
        assert_eq!(none, Err((Exception::Operand, 4)));
    }
    for op in [Op::PopGv, Op::MoveGv] {
        let none = leaves(&[1, 2], &[Insn::from_stack(op)]);
        assert_eq!(none, Err((Exception::Operand, 2)));
    }
}

/// A program that only counts has the same effect without a machine.
#[test]
fn counting() {
    let counting = [
        Insn::with(Op::IncLv, 0),
        Insn::with(Op::DecLv, 1),
        Insn::with(Op::IncGv, 1),
        Insn::with(Op::DecGv, 0),
        Insn::with(Op::IncLv, 0),
        plain(Op::Exit),
    ];
    assert!(only_counts(&counting));
    let model = Model::new();
    count(&counting, &model);
    let ran = run_code(&counting).model;
    assert_eq!((model.locals, model.globals), (ran.locals, ran.globals));
    for code in [
        &[][..],
        &counting[..5],
        &[Insn::from_stack(Op::IncLv), plain(Op::Exit)],
        &[Insn::with(Op::PushLv, 0), plain(Op::Exit)],
        &[Insn::with(Op::IncLv, 0), Insn::width(Op::Exit, 1)],
        &[Insn::with(Op::IncLv, 0), plain(Op::Rem)],
        &[plain(Op::Exit), Insn::with(Op::IncLv, 0), plain(Op::Exit)],
    ] {
        assert!(!only_counts(code), "{code:?}");
    }
}

#[test]
fn registers() {
    let r = |op, register| Insn::register(op, register);
    let ran = run_code(&[
        r(Op::PushR, Register::Sp),
        r(Op::PushU, Register::Ip),
        Insn::with(Op::Log, 2),
        Insn::push(1),
        r(Op::PopR, Register::Ax),
        Insn::push(2),
        r(Op::PopU, Register::Di),
        plain(Op::Exit),
    ]);
    assert_eq!(ran.words(), [0x210, 0x107]);
    assert_eq!(ran.model.registers[&0], 1);
    assert_eq!(ran.model.user_registers[&5], 2);
    let none = run_code(&[r(Op::PushR, Register::Cr3), plain(Op::Exit)]);
    assert_eq!(none.fault(), Some((Exception::Operand, 28)));
}

#[test]
fn memory() {
    let bytes = [0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88];
    for (width, value) in [
        (1, 0x11),
        (2, 0x2211),
        (4, 0x4433_2211),
        (8, 0x8877_6655_4433_2211),
    ] {
        let code = [
            Insn::push(0x1000),
            Insn::width(Op::PushMem, width),
            Insn::with(Op::Log, 1),
            Insn::push(0xaaaa_bbbb_cccc_dddd),
            Insn::push(0x1000),
            Insn::width(Op::PopMem, width),
            Insn::push(0x1000),
            Insn::width(Op::PushMem, 8),
            Insn::with(Op::Log, 1),
            plain(Op::Exit),
        ];
        let ran = run_in(Model::with_bytes(0x1000, &bytes), &LIMITS, &code);
        let mask = u64::MAX >> (64 - 8 * u32::from(width));
        let all = u64::from_le_bytes(bytes);
        let after = all & !mask | 0xaaaa_bbbb_cccc_dddd & mask;
        assert_eq!(ran.words(), [value, after]);
    }
    for op in [Op::PushMem, Op::PopMem] {
        let code = [
            Insn::push(1),
            Insn::push(0x1001),
            Insn::width(op, 8),
            plain(Op::Exit),
        ];
        let ran = run_in(Model::with_bytes(0x1000, &bytes), &LIMITS, &code);
        assert_eq!(ran.fault(), Some((Exception::Address, 0x1001)), "{op:?}");
    }
}

#[test]
fn verification_of_memory() {
    for (op, len, can) in [
        (Op::VfyR, 8, 1),
        (Op::VfyR, 9, 0),
        (Op::VfyRw, 8, 1),
        (Op::VfyRw, 0, 1),
    ] {
        let code = [
            Insn::push(len),
            Insn::push(0x1000),
            plain(op),
            Insn::with(Op::Log, 1),
            plain(Op::Exit),
        ];
        let ran = run_in(Model::with_bytes(0x1000, &[0; 8]), &LIMITS, &code);
        assert_eq!(ran.words(), [can]);
    }
    let too_long = leaves(&[VERIFY_MAX + 1, 0], &[plain(Op::VfyR)]);
    assert_eq!(too_long, Err((Exception::Operand, VERIFY_MAX + 1)));
}

#[test]
fn system() {
    for (op, word) in [
        (Op::PushTask, 0xffff_8880_0000_1000),
        (Op::PushPid, 41),
        (Op::PushTid, 42),
        (Op::PushProcId, 3),
        (Op::PushTime, 123_456),
    ] {
        assert_eq!(leaves(&[], &[plain(op)]), Ok(vec![word]));
    }
}

#[test]
fn heap() {
    let code = [
        Insn::push(16),
        plain(Op::Malloc),
        Insn::with(Op::PopLv, 0),
        // Value, handle, offset.
        Insn::push(0x1_2345),
        Insn::with(Op::PushLv, 0),
        Insn::push(8),
        Insn::width(Op::PopH, 2),
        Insn::with(Op::PushLv, 0),
        Insn::push(8),
        Insn::width(Op::PushH, 8),
        Insn::with(Op::Log, 1),
        Insn::with(Op::PushLv, 0),
        plain(Op::Free),
        Insn::with(Op::PushLv, 0),
        Insn::push(0),
        Insn::width(Op::PushH, 1),
        plain(Op::Exit),
    ];
    let ran = run_code(&code);
    assert_eq!(ran.words(), [0x2345]);
    assert_eq!(ran.fault(), Some((Exception::HeapHandle, 1)));
    for (len, offset, width, fault) in [
        (16, 8, 8, None),
        (16, 9, 8, Some((Exception::HeapOffset, 9))),
        (16, u64::MAX, 1, Some((Exception::HeapOffset, u64::MAX))),
        (1024, 1023, 1, None),
        (1025, 0, 1, Some((Exception::HeapFull, 1025))),
        (0, 0, 1, Some((Exception::HeapFull, 0))),
    ] {
        let ran = run_code(&[
            Insn::push(len),
            plain(Op::Malloc),
            Insn::push(offset),
            Insn::width(Op::PushH, width),
            plain(Op::Exit),
        ]);
        assert_eq!(ran.fault(), fault);
    }
    for op in [Op::Free] {
        for handle in [0, 33, u64::MAX] {
            let found = leaves(&[handle], &[plain(op)]);
            assert_eq!(found, Err((Exception::HeapHandle, handle)));
        }
    }
}

#[test]
fn heap_is_used_again() {
    // Allocates two halves, frees the first, and allocates it again in two pieces; a third does not
    // fit.
    let malloc = |len| [Insn::push(len), plain(Op::Malloc)];
    let code = [
        &malloc(512)[..],
        &malloc(512),
        &[plain(Op::Xchg), plain(Op::Free)],
        &malloc(300),
        &malloc(212),
        &malloc(1),
        &[plain(Op::Exit)],
    ]
    .concat();
    let ran = run_code(&code);
    assert_eq!(ran.fault(), Some((Exception::HeapFull, 1)));
    assert_eq!(ran.outcome.at as usize, code.len() - 2);
}

#[test]
fn segments_and_ports() {
    let linear = leaves(&[0x20, 0x33], &[plain(Op::Seg2Lin)]);
    assert_eq!(linear, Ok(vec![0x1020]));
    for selector in [0x34, 0x1_0033] {
        let none = leaves(&[0x20, selector], &[plain(Op::Seg2Lin)]);
        assert_eq!(none, Err((Exception::Segment, selector)));
    }
    let mut model = Model::new();
    model.ports.insert(0x80, 0x1234_5678);
    let code = [
        Insn::push(0x80),
        Insn::width(Op::PushIo, 2),
        Insn::with(Op::Log, 1),
        Insn::push(0x1_0000_00ab),
        Insn::push(0x81),
        Insn::width(Op::PopIo, 1),
        Insn::push(0x1_0080),
        Insn::width(Op::PushIo, 1),
        plain(Op::Exit),
    ];
    let ran = run_in(model, &LIMITS, &code);
    assert_eq!(ran.words(), [0x5678]);
    assert_eq!(ran.model.ports[&0x81], 0xab);
    assert_eq!(ran.fault(), Some((Exception::Operand, 0x1_0080)));
}

#[test]
fn calls_out() {
    let ran = run_code(&[
        Insn::push(10),
        Insn::with(Op::CallK, 5),
        Insn::with(Op::Log, 1),
        Insn::push(10),
        Insn::push(6),
        Insn::from_stack(Op::CallK),
        plain(Op::Exit),
    ]);
    assert_eq!(ran.words(), [11]);
    assert_eq!(ran.model.calls, [(5, 10), (6, 10)]);
    assert_eq!(ran.fault(), Some((Exception::Operand, 6)));
}

#[test]
fn names() {
    for op in OPS {
        assert_eq!(Op::from_name(op.name()), Some(*op));
        assert_eq!(Op::from_number(op.number()), Some(*op));
    }
    assert_eq!(Op::from_name("pushr"), None);
}
