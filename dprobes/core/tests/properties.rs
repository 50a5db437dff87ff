// SPDX-License-Identifier: GPL-2.0

//! Random commands: against native arithmetic on a vector, and any commands, for an end.

use proptest::prelude::*;

use super::*;

/// Applies a command to words, the top last. Returns `None` if there are too few.
fn native(words: &mut Vec<u64>, op: Op, by: u32) -> Option<()> {
    let mut pop = || words.pop();
    let result = match op {
        Op::Neg => !pop()?,
        Op::Rol | Op::Ror | Op::Shl | Op::Shr | Op::Pbl | Op::Pzl | Op::Pbr | Op::Pzr => {
            let word = u128::from(pop()?);
            let bit = word >> by.min(127) & 1;
            let twice = word << 64 | word;
            // Of 128 bits, so that no bit is lost.
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

/// Generates any instruction, with valid and invalid operands.
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

/// Generates any instruction of a point of `len`, with valid operands.
fn good_insn(len: u32) -> impl Strategy<Value = Insn> {
    let registers = (0..=u8::MAX).filter_map(Register::from_number);
    let registers = registers.collect::<Vec<_>>();
    let which = prop::sample::select(OPS.to_vec());
    (which, 0..len, any::<bool>(), any::<u32>(), word()).prop_map(
        move |(op, target, from_stack, c, d)| {
            let register = |is_good: fn(Register) -> bool| {
                let good = registers.iter().filter(|register| is_good(**register));
                let good = good.collect::<Vec<_>>();
                Insn::register(op, *good[c as usize % good.len()])
            };
            match op.operand() {
                Operand::None => Insn::new(op),
                _ if from_stack && op.takes_from_stack() => Insn::from_stack(op),
                Operand::Target => Insn::with(op, target),
                Operand::Number => Insn::with(op, c),
                // The program has none.
                Operand::Later => Insn::from_stack(op),
                Operand::Bit => Insn::with(op, c % 64),
                Operand::Words => Insn::with(op, c % 8),
                Operand::Variable(_) => Insn::with(op, c % 2),
                Operand::Variables(_) => Insn::variables(op, c % 2, 1),
                Operand::Word => Insn { d, ..Insn::new(op) },
                Operand::Distance => Insn::at(op, i64::from(c % 9) - 4),
                Operand::Register => register(|_| true),
                Operand::UserRegister => register(Register::is_saved),
                Operand::WritableRegister | Operand::WritableUserRegister => {
                    register(Register::is_writable)
                }
                Operand::Width => Insn::width(op, 1 << (c % 4)),
                Operand::PortWidth => Insn::width(op, 1 << (c % 3)),
                Operand::Exit => Insn::width(op, (c % 4) as u8),
            }
        },
    )
}

/// Generates valid code of a point.
pub(super) fn good_code() -> impl Strategy<Value = Vec<Insn>> {
    (1..60u32).prop_flat_map(|len| {
        let rest = prop::collection::vec(good_insn(len), len as usize - 1);
        rest.prop_map(|mut code| {
            code.push(Insn::new(Op::Exit));
            code
        })
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
        // Including the excess of a last access.
        prop_assert!(ran.model.work.get() <= u64::from(STEPS_MAX) + 600);
        let [logged, trace] = ran.outcome.data(&ran.memory);
        prop_assert!(logged.len() <= log as usize + 17 && trace.len() <= log as usize);
        // All logged bytes can be read.
        for entry in ran.outcome.data(&ran.memory).into_iter().flat_map(Entries::new) {
            prop_assert!(entry.is_ok());
        }
    }

    #[test]
    fn what_was_checked_has_an_instruction_to_go_on_with(code in good_code()) {
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
        // Only the stack may be wrong, which is not checked here.
        let set = SetRef::decode(&bytes, &mut []);
        prop_assert!(set.is_ok(), "{:?}", set.err());
        let read = set.iter().flat_map(|set| set.programs()).flat_map(|program| program.points());
        let read = read.flat_map(|point| point.code.insns()).collect::<Vec<_>>();
        prop_assert_eq!(&read, &code);
        let ran = run_in(Model::new(), &LIMITS, &read);
        prop_assert!(!matches!(ran.fault(), Some((Exception::Opcode, _))));
        prop_assert!(ran.model.work.get() <= u64::from(STEPS_MAX) + 600);
        let with_stack = SetRef::decode(&bytes, &mut [0; 64]).err();
        prop_assert!(with_stack.is_none_or(|refusal| refusal.reason == Reason::Underflow));
    }

    #[test]
    fn instructions_are_read_as_they_were_written(insn in insn()) {
        prop_assert_eq!(Insn::from_bytes(&insn.to_bytes()), Ok(insn));
    }
}
