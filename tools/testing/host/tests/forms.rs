// SPDX-License-Identifier: GPL-2.0

//! The choice of instruction forms for the kprobes selftests.

use ferro_host::forms::Forms;
use ferro_host::forms::emit;

/// Returns the emitted lines of one instruction.
fn emitted(bytes: &[u8]) -> Option<String> {
    let mut forms = Forms::new();
    forms.add(bytes);
    let chosen = forms.choose(10);
    assert!(chosen.len() < 2);
    chosen.first().map(|form| emit::lines(form))
}

fn assert_emitted(bytes: &[u8], code: &str, setting: &str) {
    let expected = format!("FORM_BEGIN\n{code}FORM_END {setting}\n");
    assert_eq!(emitted(bytes), Some(expected), "{bytes:02x?}");
}

#[test]
fn registers() {
    // adc %r14w, %ax
    let code = "\t.byte 0x66, 0x44, 0x11, 0xf0\n";
    assert_emitted(
        &[0x66, 0x44, 0x11, 0xf0],
        code,
        "adc, 0x0, 255, 255, 255, 0, 0",
    );
}

#[test]
fn operands_in_memory() {
    // mov %rax, -8(%rbx,%rcx,4)
    let code = "\t.byte 0x48, 0x89, 0x44, 0x8b, 0xf8\n";
    assert_emitted(
        &[0x48, 0x89, 0x44, 0x8b, 0xf8],
        code,
        "mov, 0x1, 255, 3, 1, 2, -8",
    );
    // addl $5, 0x1234(%rip)
    let code =
        "\t.byte 0x83, 0x05\n\t.long kst_form_mem + KST_FORM_OPERAND - . - 4 - 1\n\t.byte 0x05\n";
    assert_emitted(
        &[0x83, 0x05, 0x34, 0x12, 0, 0, 5],
        code,
        "add, 0x1, 255, 255, 255, 0, 4660",
    );
    // mov %gs:0x10(%rip), %rax
    let code = "\t.byte 0x65, 0x48, 0x8b, 0x05\n\t.long kst_form_percpu - . - 4 - 0\n";
    assert_emitted(
        &[0x65, 0x48, 0x8b, 0x05, 0x10, 0, 0, 0],
        code,
        "mov, 0x3, 255, 255, 255, 0, 16",
    );
    // mov 0x124(%rsp), %eax: brought near the stack pointer
    let code = "\t.byte 0x8b, 0x84, 0x24\n\t.long 32\n";
    assert_emitted(
        &[0x8b, 0x84, 0x24, 0x24, 1, 0, 0],
        code,
        "mov, 0x1, 255, 4, 255, 0, 32",
    );
    // lea: reads none
    let code = "\t.byte 0x8d, 0x04, 0x24\n";
    assert_emitted(&[0x8d, 0x04, 0x24], code, "lea, 0x0, 255, 255, 255, 0, 0");
}

#[test]
fn jumps() {
    assert_emitted(
        &[0x74, 0x10],
        "\t.byte 0x74\n\t.byte 2f - . - 1\n",
        "je, 0x4, 255, 255, 255, 0, 0",
    );
    let code = "\t.byte 0xe8\n\t.long 2f - . - 4\n";
    assert_emitted(&[0xe8, 1, 2, 3, 4], code, "call, 0x4, 255, 255, 255, 0, 0");
    assert_emitted(
        &[0xff, 0xe0],
        "\t.byte 0xff, 0xe0\n",
        "jmp, 0xc, 0, 255, 255, 0, 0",
    );
    assert_emitted(
        &[0xff, 0x10],
        "\t.byte 0xff, 0x10\n",
        "call_mem, 0x15, 255, 0, 255, 0, 0",
    );
    assert_emitted(&[0xc3], "\t.byte 0xc3\n", "ret, 0x24, 255, 255, 255, 0, 0");
}

#[test]
fn values() {
    // div %rcx, bts %eax, (%rdi), rep stosq
    assert_emitted(
        &[0x48, 0xf7, 0xf1],
        "\t.byte 0x48, 0xf7, 0xf1\n",
        "div, 0x80, 1, 255, 255, 0, 0",
    );
    assert_emitted(
        &[0x0f, 0xab, 0x07],
        "\t.byte 0x0f, 0xab, 0x07\n",
        "bts, 0x101, 0, 7, 255, 0, 0",
    );
    assert_emitted(
        &[0xf3, 0x48, 0xab],
        "\t.byte 0xf3, 0x48, 0xab\n",
        "stosq, 0x40, 255, 255, 255, 0, 0",
    );
}

#[test]
fn what_cannot_be_run_by_itself() {
    let refused: [&[u8]; 19] = [
        &[0x0f, 0x0b],                         // ud2
        &[0xcc],                               // int3
        &[0xf4],                               // hlt
        &[0xec],                               // in
        &[0x0f, 0x22, 0xd8],                   // mov %rax, %cr3
        &[0x0f, 0x31],                         // rdtsc
        &[0x0f, 0x10, 0xc1],                   // movups %xmm1, %xmm0
        &[0xd9, 0xe8],                         // fld1
        &[0xc4, 0xe2, 0xf8, 0xf2, 0xc1],       // andn: not every processor has it
        &[0x8e, 0xd8],                         // mov %eax, %ds
        &[0x48, 0x81, 0xec, 0, 0x10, 0, 0],    // sub $0x1000, %rsp
        &[0x48, 0x89, 0xc4],                   // mov %rax, %rsp
        &[0x5c],                               // pop %rsp
        &[0x48, 0xf7, 0xf2],                   // div %rdx: always overflows
        &[0x67, 0x8b, 0x03],                   // mov (%ebx), %eax
        &[0x64, 0x8b, 0x03],                   // mov %fs:(%rbx), %eax
        &[0xff, 0xe4],                         // jmp *%rsp
        &[0x67, 0xa0, 0x85, 0x82, 0xff, 0xff], // addr32 mov 0xffff8285, %al
        &[0x48, 0xa1, 1, 2, 3, 4, 5, 6, 7, 8], // mov 0x807060504030201, %rax
    ];
    for bytes in refused {
        assert_eq!(emitted(bytes), None, "{bytes:02x?}");
    }
}

/// Of each kind in turn, the more frequent ones first; the values do not make a form.
#[test]
fn choice() {
    let mut forms = Forms::new();
    // mov $1, %eax; mov $2, %eax; mov $1, %ecx; not %eax
    forms.add(&[
        0xb8, 1, 0, 0, 0, 0xb8, 2, 0, 0, 0, 0xb9, 1, 0, 0, 0, 0xf7, 0xd0,
    ]);
    assert_eq!(forms.len(), 3);
    let names = |count| -> Vec<_> {
        forms
            .choose(count)
            .iter()
            .map(|form| (form.group(), form.count))
            .collect()
    };
    let (mov, not) = (|count| ("mov".to_string(), count), ("not".to_string(), 1));
    assert_eq!(names(2), [mov(2), not.clone()]);
    assert_eq!(names(3), [mov(2), mov(1), not]);
}
