// SPDX-License-Identifier: GPL-2.0

//! Random commands: against native arithmetic on a vector, and any at all, for an end.

use proptest::prelude::*;

use super::*;

/// What commands do to words, the top last. `None` if there are too few.
fn native(words: &mut Vec<u64>, op: Op, by: u32) -> Option<()> {
    let mut pop = || words.pop();
    let result = match op {
        Op::Neg => !pop()?,
        Op::Rol | Op::Ror | Op::Shl | Op::Shr | Op::Pbl | Op::Pzl | Op::Pbr | Op::Pzr => {
            let word = u128::from(pop()?);
            let bit = word >> by.min(127) & 1;
            let twice = word << 64 | word;
            // Of 128 bits, so that nothing is lost.
            (match op {
                Op::Rol => twice << (by % 64) >> 64,
                Op::Ror => twice >> (by % 64),
                Op::Shl => word.checked_shl(by).filter(|_| by < 64).unwrap_or(0),
                Op::Shr => word.checked_shr(by).unwrap_or(0),
                Op::Pbl => (0..64)
                    .map(|n| if n > by { bit << n } else { word & 1 << n })
                    .sum(),
                Op::Pbr => (0..64)
                    .map(|n| if n < by { bit << n } else { word & 1 << n })
                    .sum(),
                Op::Pzl => (0..=by).map(|n| word & 1 << n).sum(),
                _ => (by..64).map(|n| word & 1 << n).sum(),
            }) as u64
        }
        Op::Div => {
            let (right, left) = (pop()?, pop()?);
            words.push(left % right);
            left / right
        }
        Op::Idiv => {
            let (right, left) = (pop()? as i64, pop()? as i64);
            let (right, left) = (i128::from(right), i128::from(left));
            words.push((left % right) as u64);
            (left / right) as u64
        }
        _ => {
            let (right, left) = (u128::from(pop()?), u128::from(pop()?));
            (match op {
                Op::Add => left + right,
                Op::Sub => (1 << 64) + left - right,
                Op::Mul => left * right,
                Op::And => left & right,
                Op::Or => left | right,
                _ => left ^ right,
            }) as u64
        }
    };
    words.push(result);
    Some(())
}

const OPERATIONS: [Op; 17] = [
    Op::Add,
    Op::Sub,
    Op::Mul,
    Op::Div,
    Op::Idiv,
    Op::Neg,
    Op::And,
    Op::Or,
    Op::Xor,
    Op::Rol,
    Op::Ror,
    Op::Shl,
    Op::Shr,
    Op::Pbl,
    Op::Pbr,
    Op::Pzl,
    Op::Pzr,
];

fn word() -> impl Strategy<Value = u64> {
    prop_oneof![
        any::<u64>(),
        (0..64u32).prop_map(|n| 1 << n),
        (0..4u64).prop_map(|n| n),
        (0..4u64).prop_map(|n| n.wrapping_neg()),
    ]
}

/// Any instruction, mostly with sensible operands.
fn insn() -> impl Strategy<Value = Insn> {
    let operand = prop_oneof![0..16u32, any::<u32>()];
    let distance = prop_oneof![(-4..4i64).prop_map(|n| n as u64), word()];
    let a = prop_oneof![Just(0), Just(1), Just(8), any::<u8>()];
    (0..OPS.len(), a, operand, distance).prop_map(|(op, a, c, d)| Insn {
        op: OPS[op],
        a,
        c,
        d,
    })
}

proptest! {
    #[test]
    fn arithmetic_is_the_cpu_s(
        first in prop::collection::vec(word(), 1..20),
        operations in prop::collection::vec((0..OPERATIONS.len(), 0..64u32), 0..20),
    ) {
        let mut model = first.clone();
        let mut code = first.iter().map(|word| Insn::push(*word)).collect::<Vec<_>>();
        for (op, by) in operations {
            let op = OPERATIONS[op];
            let by_zero = matches!(op, Op::Div | Op::Idiv) && model.last() == Some(&0);
            if by_zero || model.len() < 2 {
                continue;
            }
            native(&mut model, op, by).unwrap();
            code.push(match op.operand() {
                Operand::None => Insn::new(op),
                _ => Insn::with(op, by),
            });
        }
        let n = model.len() as u32;
        code.extend([Insn::with(Op::Log, n), Insn::new(Op::Exit)]);
        let ran = run_code(&code);
        model.reverse();
        prop_assert_eq!(ran.words(), model);
    }

    #[test]
    fn whatever_runs_ends(
        code in prop::collection::vec(insn(), 0..60),
        jumps in 0..2000u32,
        log in 0..=LOG_MAX,
        ex_mask: u16,
    ) {
        let limits = Limits { jumps, log, trace: log, ex_mask: ex_mask.into(), ..LIMITS };
        let ran = run_in(Model::with_bytes(0, &[7; 256]), &limits, &code);
        let [logged, trace] = ran.outcome.data(&ran.memory);
        prop_assert!(logged.len() <= log as usize + 17 && trace.len() <= log as usize);
        // Everything that was logged can be read.
        for entry in ran.outcome.data(&ran.memory).into_iter().flat_map(Entries::new) {
            prop_assert!(entry.is_ok());
        }
    }

    #[test]
    fn what_was_checked_has_an_instruction_to_go_on_with(code in prop::collection::vec(insn(), 1..40)) {
        let point = PointSource {
            point: Point::new(0),
            symbol: "f",
            code: &code,
        };
        let header = Header {
            locals: 4,
            globals: 2,
            ..Header::new(ModuleKind::Kernel)
        };
        let bytes = set_of(header, &[point], UNSAFE_WRITES);
        let mut depths = [0; 64];
        if let Ok(set) = SetRef::decode(&bytes, &mut depths) {
            let read = set.programs().flat_map(|program| program.points());
            let read = read.flat_map(|point| point.code.insns()).collect::<Vec<_>>();
            prop_assert_eq!(&read, &code);
            let ran = run_in(Model::new(), &LIMITS, &read);
            prop_assert!(!matches!(ran.fault(), Some((Exception::Opcode, _))));
        }
    }

    #[test]
    fn instructions_are_read_as_they_were_written(insn in insn()) {
        prop_assert_eq!(Insn::from_bytes(&insn.to_bytes()), Ok(insn));
    }
}
