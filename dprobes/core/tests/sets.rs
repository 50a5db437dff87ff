// SPDX-License-Identifier: GPL-2.0

//! Sets of programs, encoded, decoded, and refused.

use super::*;

const CODE: &[Insn] = &[
    Insn::with(Op::IncLv, 1),
    Insn::push(16),
    Insn::register(Op::PushR, Register::Sp),
    Insn::new(Op::LogMrf),
    Insn::new(Op::Exit),
];

fn header() -> Header {
    Header {
        major: 1,
        jmpmax: 32,
        logmax: 100,
        locals: 2,
        ..Header::new(ModuleKind::Kernel)
    }
}

fn source(code: &[Insn]) -> PointSource<'_> {
    PointSource {
        point: Point {
            opcode: Some(0x55),
            minor: 2,
            max_hits: 1000,
            offset: 0,
            ..Point::new(1)
        },
        symbol: "kernel_clone",
        code,
    }
}

fn decode(bytes: &[u8]) -> Result<SetRef<'_>, Refusal> {
    SetRef::decode(bytes, &mut [0; CODE_MAX])
}

fn refused(code: &[Insn], flags: u32) -> Option<(Option<u32>, Reason)> {
    let bytes = set_of(header(), &[source(code)], flags);
    decode(&bytes).err().map(|refusal| {
        assert_eq!((refusal.program, refusal.point), (0, Some(0)));
        (refusal.insn, refusal.reason)
    })
}

#[test]
fn a_set_is_read_as_it_was_written() {
    let abort = [Insn::new(Op::Abort)];
    let programs = [
        ProgramSource {
            header: header(),
            name: "vmlinux",
            points: &[source(CODE), source(&abort)],
        },
        ProgramSource {
            header: Header {
                id: 5,
                auto_stack_trace: true,
                heapmax: 100,
                globals: 3,
                ..Header::new(ModuleKind::User)
            },
            name: "/lib/libc.so.6",
            points: &[PointSource {
                point: Point {
                    offset: 0x1234,
                    group: 3,
                    kind_number: 4,
                    ex_mask: 1,
                    heap_size: 99,
                    pass_count: HITS_MAX,
                    log_on_fault: true,
                    ..Point::new(9)
                },
                symbol: "",
                code: &[Insn::new(Op::Exit)],
            }],
        },
    ];
    let header = SetHeader {
        flags: REPLACE,
        fields: Field::Pid.bit().into(),
        target: Target::Klog,
    };
    let mut bytes = Vec::new();
    encode(&mut bytes, header, &programs).unwrap();
    let set = decode(&bytes).unwrap();
    assert_eq!(set.header, header);
    assert_eq!(set.len(), 2);
    for (read, written) in set.programs().zip(&programs) {
        assert_eq!((read.header, read.name), (written.header, written.name));
        assert_eq!(read.len() as usize, written.points.len());
        for (read, written) in read.points().zip(written.points) {
            assert_eq!(read.point, written.point);
            assert_eq!(read.symbol, written.symbol);
            assert!(read.code.insns().eq(written.code.iter().copied()));
        }
    }
    // Neither a part of it nor an extension is a set.
    for len in 0..bytes.len() {
        assert!(decode(&bytes[..len]).is_err(), "{len}");
    }
    bytes.extend([0; 8]);
    assert_eq!(decode(&bytes).err().map(|r| r.reason), Some(Reason::Length));
}

#[test]
fn effects() {
    let bytes = set_of(header(), &[source(CODE)], 0);
    let set = decode(&bytes).unwrap();
    let point = set.programs().next().unwrap().points().next().unwrap();
    let effects = point.code.effects();
    assert!(effects.logs && effects.reads && !effects.writes);
}

#[test]
fn code_that_is_refused() {
    let exit = Insn::new(Op::Exit);
    let at = |n, reason| Some((Some(n), reason));
    for (code, refusal) in [
        (&[exit][..], None),
        (&[Insn::with(Op::Jmp, 0)], None),
        (&[Insn::with(Op::Jmp, 1)], at(0, Reason::Target(1))),
        (&[Insn::new(Op::Nop)], at(0, Reason::NoEnd)),
        (&[exit, Insn::with(Op::Jz, 0)], at(1, Reason::NoEnd)),
        (
            &[Insn::with(Op::PushLv, 2), exit],
            at(0, Reason::Variable(Scope::Local, 2)),
        ),
        (
            &[Insn::with(Op::PushGv, 0), exit],
            at(0, Reason::Variable(Scope::Global, 0)),
        ),
        (&[Insn::variables(Op::LogLv, 0, 2), exit], None),
        (
            &[Insn::variables(Op::LogLv, 1, 2), exit],
            at(0, Reason::Variable(Scope::Local, 3)),
        ),
        (
            &[Insn::variables(Op::LogLv, 0, 0), exit],
            at(0, Reason::Operand),
        ),
        (&[Insn::width(Op::Exit, 4)], at(0, Reason::NeedsPermission)),
        (&[Insn::width(Op::Exit, 64)], at(0, Reason::Operand)),
        (
            &[Insn::push(1), Insn::width(Op::PushMem, 3), exit],
            at(1, Reason::Operand),
        ),
        (
            &[Insn::push(1), Insn::with(Op::Pbl, 64), exit],
            at(1, Reason::Operand),
        ),
        (&[Insn::at(Op::Ros, 1024), exit], at(0, Reason::Operand)),
        (&[Insn::at(Op::Ros, -1023), exit], None),
        (
            &[Insn::at(Op::PushSbp, i64::MIN), exit],
            at(0, Reason::Operand),
        ),
        (
            &[Insn::width(Op::PushR, 200), exit],
            at(0, Reason::Register(200)),
        ),
        (
            &[Insn::register(Op::PushU, Register::Cr3), exit],
            at(0, Reason::Operand),
        ),
        (&[Insn::with(Op::Nop, 1), exit], at(0, Reason::Reserved)),
        (&[Insn::width(Op::Jmp, 1), exit], at(0, Reason::Reserved)),
    ] {
        assert_eq!(refused(code, 0), refusal, "{code:?}");
    }
    let writes = [Insn::push(1), Insn::register(Op::PopR, Register::Ax), exit];
    assert_eq!(refused(&writes, 0), at(1, Reason::NeedsPermission));
    assert_eq!(refused(&writes, UNSAFE_WRITES), None);
    for way in [2, 3] {
        let exits = [Insn::width(Op::Exit, way)];
        assert_eq!(refused(&exits, 0), at(0, Reason::NeedsPermission));
        assert_eq!(refused(&exits, UNSAFE_WRITES), None);
    }
    assert_eq!(refused(&[Insn::width(Op::Exit, 1)], 0), None);
    for register in [Register::Sp, Register::Flags, Register::Cr0] {
        let writes = [Insn::push(1), Insn::register(Op::PopR, register), exit];
        assert_eq!(refused(&writes, UNSAFE_WRITES), at(1, Reason::Operand));
    }
}

#[test]
fn the_stack_is_followed() {
    let exit = Insn::new(Op::Exit);
    let push = Insn::push(1);
    let under = |n| Some((Some(n), Reason::Underflow));
    for (code, refusal) in [
        (&[Insn::new(Op::Pop), exit][..], under(0)),
        (&[push, Insn::new(Op::Add), exit], under(1)),
        (
            &[push, push, Insn::new(Op::Add), Insn::new(Op::Pop), exit],
            None,
        ),
        (
            &[push, push, Insn::new(Op::Add), Insn::new(Op::Xchg), exit],
            under(3),
        ),
        (&[Insn::with(Op::Jz, 1), exit], under(0)),
        (&[Insn::with(Op::MoveLv, 0), exit], under(0)),
        (
            &[
                push,
                Insn::with(Op::MoveLv, 0),
                Insn::with(Op::PopLv, 0),
                exit,
            ],
            None,
        ),
        (&[push, Insn::from_stack(Op::IncLv), exit], None),
        (&[Insn::from_stack(Op::IncLv), exit], under(0)),
        (&[push, push, Insn::with(Op::Log, 3), exit], under(2)),
        (
            &[push, push, Insn::with(Op::Log, 2), Insn::new(Op::Pop), exit],
            under(3),
        ),
        (&[push, Insn::with(Op::Dup, 1), exit], under(1)),
        (
            &[push, Insn::with(Op::Dup, 0), Insn::new(Op::Add), exit],
            None,
        ),
        // Different paths: unknown.
        (
            &[push, Insn::with(Op::Jz, 3), push, Insn::new(Op::Add), exit],
            None,
        ),
        // The same path to both.
        (
            &[
                push,
                Insn::with(Op::Jz, 3),
                Insn::new(Op::Nop),
                Insn::new(Op::Add),
                exit,
            ],
            under(3),
        ),
        // The stack after a subroutine is unknown.
        (
            &[
                Insn::with(Op::Call, 3),
                Insn::new(Op::Pop),
                exit,
                push,
                Insn::new(Op::Ret),
            ],
            None,
        ),
        // But its stack at the start is known.
        (
            &[
                Insn::with(Op::Call, 2),
                exit,
                Insn::new(Op::Pop),
                Insn::new(Op::Ret),
            ],
            under(2),
        ),
        // Unreachable code takes nothing.
        (&[exit, Insn::new(Op::Pop), exit], None),
    ] {
        assert_eq!(refused(code, 0), refusal, "{code:?}");
    }
}

#[test]
fn headers_that_are_refused() {
    let reason = |header: Header| {
        let bytes = set_of(header, &[source(CODE)], 0);
        decode(&bytes).err().map(|refusal| refusal.reason)
    };
    assert_eq!(reason(header()), None);
    for (header, name) in [
        (
            Header {
                jmpmax: JUMPS_MAX + 1,
                ..header()
            },
            "jmpmax",
        ),
        (
            Header {
                logmax: LOG_MAX + 1,
                ..header()
            },
            "logmax",
        ),
        (
            Header {
                ex_logmax: u32::MAX,
                ..header()
            },
            "ex_logmax",
        ),
        (
            Header {
                heapmax: HEAP_MAX + 1,
                ..header()
            },
            "heapmax",
        ),
    ] {
        assert_eq!(reason(header), Some(Reason::Limit(name)));
    }
    assert!(matches!(
        reason(Header {
            locals: 257,
            ..header()
        }),
        Some(Reason::Limit(_))
    ));
    assert_eq!(reason(Header::new(ModuleKind::User)), Some(Reason::Place));
    let no_points = set_of(header(), &[], 0);
    assert_eq!(
        decode(&no_points).err().map(|r| r.reason),
        Some(Reason::Count)
    );
}

#[test]
fn points_that_are_refused() {
    let reason = |kind, point: Point, symbol| {
        let header = Header {
            locals: 2,
            ..Header::new(kind)
        };
        let point = PointSource {
            point,
            symbol,
            code: CODE,
        };
        let bytes = set_of(header, &[point], 0);
        decode(&bytes).err().map(|refusal| refusal.reason)
    };
    let point = Point::new(0);
    let absolute = Point {
        is_absolute: true,
        ..point
    };
    let watch = |kind, watch_len| Point {
        kind,
        watch_len,
        ..absolute
    };
    use ModuleKind::*;
    for (kind, point, symbol, expected) in [
        (Kernel, point, "f", None),
        (Kernel, point, "", Some(Reason::Place)),
        (Kernel, absolute, "", None),
        (Kernel, absolute, "f", Some(Reason::Place)),
        (Module, point, "f", None),
        (User, point, "", None),
        (User, absolute, "", Some(Reason::Place)),
        (User, point, "f", Some(Reason::Place)),
        (User, watch(PointKind::WatchWrite, 4), "", None),
        (Kernel, watch(PointKind::WatchWrite, 4), "", None),
        (
            Kernel,
            watch(PointKind::WatchAccess, 3),
            "",
            Some(Reason::Operand),
        ),
        (
            Kernel,
            watch(PointKind::WatchWrite, 0),
            "",
            Some(Reason::Operand),
        ),
        (
            Kernel,
            watch(PointKind::WatchExecute, 2),
            "",
            Some(Reason::Operand),
        ),
        (
            Kernel,
            Point {
                heap_size: HEAP_MAX + 1,
                ..point
            },
            "f",
            Some(Reason::Limit("heap_size")),
        ),
        (Kernel, point, "f\n", Some(Reason::Name)),
        (
            Kernel,
            Point {
                opcode: Some(0x55),
                ..watch(PointKind::WatchWrite, 4)
            },
            "",
            Some(Reason::NoOpcode),
        ),
    ] {
        assert_eq!(reason(kind, point, symbol), expected, "{point:?} {symbol}");
    }
}

/// The number of a hit minus `pass_count` decides if it counts, so neither may be so large that it
/// wraps.
#[test]
fn hits_that_are_too_many_are_refused() {
    let reason = |max_hits, pass_count| {
        let point = Point {
            max_hits,
            pass_count,
            ..Point::new(0)
        };
        let point = PointSource {
            point,
            ..source(CODE)
        };
        let bytes = set_of(header(), &[point], 0);
        decode(&bytes).err().map(|refusal| refusal.reason)
    };
    assert_eq!(HITS_MAX, u64::MAX / 2);
    assert_eq!(reason(HITS_MAX, HITS_MAX), None);
    for many in [HITS_MAX + 1, u64::MAX] {
        assert_eq!(reason(many, 10), Some(Reason::Limit("max_hits")));
        assert_eq!(reason(1, many), Some(Reason::Limit("pass_count")));
    }
}

/// Commands to the kernel could not name such programs.
#[test]
fn names_that_are_refused() {
    for (name, is_good) in [
        ("vmlinux", true),
        ("/a b/c", true),
        ("*", false),
        ("**", true),
        ("", false),
        (" a", false),
        ("a ", false),
    ] {
        let program = ProgramSource {
            header: header(),
            name,
            points: &[source(CODE)],
        };
        let mut bytes = Vec::new();
        encode(&mut bytes, SetHeader::default(), &[program]).unwrap();
        let reason = decode(&bytes).err().map(|refusal| refusal.reason);
        assert_eq!(reason, (!is_good).then_some(Reason::Name), "{name:?}");
    }
}

#[test]
fn no_byte_of_the_headers_is_ignored() {
    let bytes = set_of(header(), &[source(CODE)], 0);
    let set = decode(&bytes).unwrap();
    let read = |set: &SetRef<'_>| {
        let program = set.programs().next().unwrap();
        let point = program.points().next().unwrap();
        let code = point.code.insns().collect::<Vec<_>>();
        let names = (program.name.to_string(), point.symbol.to_string());
        (set.header, program.header, point.point, names, code)
    };
    let first = read(&set);
    for at in 0..bytes.len() {
        // One bit of each byte for Miri, at different positions.
        let bits = if cfg!(miri) { at % 8..at % 8 + 1 } else { 0..8 };
        for bit in bits {
            let mut other = bytes.clone();
            other[at] ^= 1 << bit;
            if let Ok(set) = decode(&other) {
                assert!(read(&set) != first, "byte {at}, bit {bit}");
            }
        }
    }
}

#[test]
fn refusals_say_where() {
    let code = [Insn::new(Op::Pop), Insn::new(Op::Exit)];
    let bytes = set_of(header(), &[source(CODE), source(&code)], 0);
    let text = decode(&bytes).err().unwrap().to_string();
    let expected =
        "program 0 point 1 instruction 0: it takes more words from the stack than are on it";
    assert_eq!(text, expected);
}
