// SPDX-License-Identifier: GPL-2.0

//! Watchpoints with an address from a program.

use super::*;

const EXIT: Insn = Insn::new(Op::Exit);

/// Returns the last armed address, and the end of the run.
fn armed(code: &[Insn]) -> (Option<Option<u64>>, Option<(Exception, u64)>) {
    let ran = run_code(&[code, &[EXIT]].concat());
    (ran.model.armed.get(), ran.fault())
}

#[test]
fn arms_and_disarms() {
    let address = 0xffff_8880_1234_5678;
    let push = Insn::push(address);
    let now = |address| (Some(address), None);
    for (code, expected) in [
        (&[push, Insn::with(Op::Arm, 7)][..], now(Some(address))),
        (
            &[push, Insn::push(7), Insn::from_stack(Op::Arm)],
            now(Some(address)),
        ),
        (
            &[push, Insn::with(Op::Arm, 7), Insn::with(Op::Disarm, 7)],
            now(None),
        ),
        (&[Insn::push(7), Insn::from_stack(Op::Disarm)], now(None)),
        // A null pointer disarms.
        (&[Insn::push(0), Insn::with(Op::Arm, 7)], now(None)),
        // No other watchpoint exists.
        (
            &[push, Insn::with(Op::Arm, 8)],
            (None, Some((Exception::Operand, 8))),
        ),
        (
            &[Insn::with(Op::Disarm, 6)],
            (None, Some((Exception::Operand, 6))),
        ),
        (
            &[push, Insn::push(1 << 40), Insn::from_stack(Op::Arm)],
            (None, Some((Exception::Operand, 1 << 40))),
        ),
    ] {
        assert_eq!(armed(code), expected, "{code:?}");
    }
}

fn later(minor: u32) -> Point {
    Point {
        kind: PointKind::WatchWrite,
        watch_len: 8,
        is_later: true,
        minor,
        ..Point::new(0)
    }
}

fn with<'a>(point: Point, code: &'a [Insn]) -> PointSource<'a> {
    let symbol = match point.is_later {
        true => "",
        false => "f",
    };
    PointSource {
        point,
        symbol,
        code,
    }
}

/// Returns the refused point of a set, the instruction, and the reason.
fn refused(points: &[PointSource<'_>]) -> Option<(Option<u32>, Option<u32>, Reason)> {
    let bytes = set_of(Header::new(ModuleKind::Kernel), points, 0);
    let set = SetRef::decode(&bytes, &mut [0; CODE_MAX]);
    set.err()
        .map(|refusal| (refusal.point, refusal.insn, refusal.reason))
}

#[test]
fn what_is_armed_has_to_be_there() {
    let arms = [Insn::push(1), Insn::with(Op::Arm, 3), EXIT];
    let disarms = [Insn::with(Op::Disarm, 3), EXIT];
    let by_number = [
        Insn::push(1),
        Insn::push(3),
        Insn::from_stack(Op::Arm),
        EXIT,
    ];
    let plain = Point::new(0);
    let none = Some((Some(0), Some(1), Reason::NoLater(3)));
    for (points, expected) in [
        (&[with(plain, &arms), with(later(3), &[EXIT])][..], None),
        (&[with(later(3), &arms)], None),
        (&[with(plain, &arms)], none),
        (&[with(plain, &arms), with(later(4), &[EXIT])], none),
        (
            &[with(plain, &disarms)],
            Some((Some(0), Some(0), Reason::NoLater(3))),
        ),
        // An address that is not set later.
        (
            &[
                with(plain, &arms),
                with(
                    Point {
                        minor: 3,
                        ..Point::new(0)
                    },
                    &[EXIT],
                ),
            ],
            none,
        ),
        (&[with(plain, &by_number)], None),
        (
            &[with(later(3), &[EXIT]), with(later(3), &[EXIT])],
            Some((Some(1), None, Reason::LaterTwice(3))),
        ),
    ] {
        assert_eq!(refused(points), expected);
    }
}

#[test]
fn there_are_not_too_many() {
    let limit = Reason::Limit("the number of points whose address comes later");
    let many = |count: usize| {
        let points = (0..count).map(|n| with(later(n as u32), &[EXIT]));
        refused(&points.collect::<Vec<_>>())
    };
    assert_eq!(many(LATER_MAX), None);
    assert_eq!(many(LATER_MAX + 1), Some((Some(16), None, limit)));
}

#[test]
fn only_watchpoints_come_later() {
    let point = later(1);
    for (point, symbol, is_good) in [
        (point, "", true),
        (
            Point {
                kind: PointKind::WatchExecute,
                watch_len: 1,
                ..point
            },
            "",
            true,
        ),
        (point, "f", false),
        (
            Point {
                kind: PointKind::Breakpoint,
                watch_len: 0,
                ..point
            },
            "",
            false,
        ),
        (
            Point {
                is_absolute: true,
                ..point
            },
            "",
            false,
        ),
        (Point { offset: 8, ..point }, "", false),
    ] {
        for kind in [ModuleKind::User, ModuleKind::Kernel, ModuleKind::Module] {
            let source = PointSource {
                point,
                symbol,
                code: &[EXIT],
            };
            let bytes = set_of(Header::new(kind), &[source], 0);
            let set = SetRef::decode(&bytes, &mut [0; CODE_MAX]);
            let reason = set.err().map(|refusal| refusal.reason);
            assert_eq!(reason, (!is_good).then_some(Reason::Later), "{point:?}");
        }
    }
}
