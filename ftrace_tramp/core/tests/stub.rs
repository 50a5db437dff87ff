// SPDX-License-Identifier: GPL-2.0

//! Tests of stubs, and of copies that take their third argument from R11.

use super::shorten::machine;
use super::*;

const R11: usize = 11;
/// Index of R11 in `struct pt_regs`.
const R11_SLOT: usize = 6;
const AT: u64 = 0xffff_ffff_a000_0040;

fn from_r11(template: &Template) -> Result<Vec<u8>, WriteError> {
    let mut to = vec![0xaa; template.copy_len(Ending::Return)];
    let trampoline = Trampoline {
        function: FUNCTION,
        third: Third::R11,
        ending: Ending::Return,
    };
    template.write(&mut to, AT, &trampoline).map(|()| to)
}

proptest! {
    #[test]
    fn a_stub_loads_and_jumps(
        at in AT..AT + (1 << 30),
        to in AT..AT + (1 << 30),
        data in any::<u64>(),
    ) {
        let code = stub(at, data, JumpTarget::new(to)).unwrap();
        let [(0, load), (next, jump)] = instructions(&code)[..] else {
            panic!("{code:02x?}");
        };
        // REX.W and B, and register 3.
        prop_assert_eq!((load.opcode(), load.bytes()[0]), (0xbb, 0x49));
        prop_assert_eq!(load.immediate() as u64, data);
        prop_assert_eq!(jump.opcode(), 0xe9);
        prop_assert_eq!(jump.branch_target(at + next as u64), Some(to));
    }

    /// The callback gets the value of R11; the rest is the same as with an ops.
    #[test]
    fn the_third_argument_is_r11(seed in any::<u64>()) {
        for recorded in &RECORDED {
            for short in [false, true] {
                let mut template = recorded.template();
                if short {
                    template.shorten();
                }
                let call = AT + (recorded.labels.call - recorded.labels.start);
                let len = recorded.text.len();
                let run = |code: &[u8]| {
                    let mut machine = machine(seed);
                    machine.memory.insert(AT + code.len() as u64 - 8, OWN_OPS);
                    (machine.registers[R11], machine.run(&code[..len], AT, call, &[]))
                };
                let (_, mut want) = run(&written(&template, AT, Ending::Return).unwrap());
                let (data, have) = run(&from_r11(&template).unwrap());
                prop_assert_eq!(want.arguments[2], OWN_OPS);
                want.arguments[2] = data;
                if recorded.labels.direct.is_some() {
                    prop_assert_eq!(have.regs[R11_SLOT], Some(data));
                }
                prop_assert_eq!(want, have, "{}", recorded.name);
            }
        }
    }
}

#[test]
fn a_stub_out_of_reach() {
    assert_eq!(stub(AT, 0, JumpTarget::new(AT - (1 << 32))), None);
    assert!(stub(AT, 0, JumpTarget::new(AT - (1 << 30))).is_some());
}

#[test]
fn a_template_that_changes_r11() {
    let [plain, ..] = &RECORDED;
    // In place of `mov %rax, 0x50(%rsp)`, five bytes at 7.
    let forms: [(&[u8], bool); 9] = [
        // mov %rax, %r11; mov 0x50(%rsp), %r11; xor %r11, %r11
        (&[0x49, 0x89, 0xc3, 0x66, 0x90], false),
        (&[0x4c, 0x8b, 0x5c, 0x24, 0x50], false),
        (&[0x4d, 0x31, 0xdb, 0x66, 0x90], false),
        // pop %r11; inc %r11; movzx %al, %r11d
        (&[0x41, 0x5b, 0x0f, 0x1f, 0x00], false),
        (&[0x49, 0xff, 0xc3, 0x66, 0x90], false),
        (&[0x44, 0x0f, 0xb6, 0xd8, 0x90], false),
        // nopl 0(%rax,%rax)
        (&[0x0f, 0x1f, 0x44, 0x00, 0x00], true),
        // mov %r11, 0x50(%rsp); mov %rax, (%r11) and push %rbx
        (&[0x4c, 0x89, 0x5c, 0x24, 0x50], true),
        (&[0x49, 0x89, 0x03, 0x53, 0x90], true),
    ];
    for (form, keeps) in forms {
        let mut text = plain.text.to_vec();
        text[7..12].copy_from_slice(form);
        let template = Template::new(&text, &plain.labels).unwrap();
        let written = from_r11(&template);
        assert_eq!(written.is_ok(), keeps, "{form:02x?}");
        if !keeps {
            assert_eq!(written, Err(WriteError::R11));
        }
    }
}
