// SPDX-License-Identifier: GPL-2.0

//! Tests of instructions that do not fault. `tools/testing/host/tests/iced.rs` compares this with
//! another decoder.

use super::*;

#[test]
fn on_registers() {
    for bytes in [
        &[0x55][..],                     // push %rbp
        &[0x41, 0x5f],                   // pop %r15
        &[0x48, 0x89, 0xe5],             // mov %rsp, %rbp
        &[0x31, 0xc0],                   // xor %eax, %eax
        &[0x85, 0xdb],                   // test %ebx, %ebx
        &[0x48, 0x63, 0xd8],             // movslq %eax, %rbx
        &[0x48, 0x8d, 0x44, 0x24, 0x08], // lea 8(%rsp), %rax
        &[0xb8, 1, 0, 0, 0],             // mov $1, %eax
        &[0x83, 0xe0, 0x0f],             // and $15, %eax
        &[0x75, 0x10],                   // jne
        &[0xeb, 0x10],                   // jmp
        &[0xe8, 0, 0, 0, 0],             // call
        &[0x0f, 0x84, 0, 0, 0, 0],       // je
        &[0x90],                         // nop
        &[0x0f, 0x1f, 0x44, 0x00, 0x00], // nop 0(%rax,%rax,1)
        &[0xf7, 0xe1],                   // mul %ecx
        &[0x0f, 0xb6, 0xc0],             // movzx %al, %eax
        &[0x0f, 0x44, 0xc1],             // cmove %ecx, %eax
        &[0x0f, 0xba, 0xe0, 0x05],       // bt $5, %eax
        &[0x48, 0xc1, 0xe8, 0x0c],       // shr $12, %rax
        &[0x48, 0x0f, 0xc8],             // bswap %rax
    ] {
        assert!(insn(bytes).cannot_fault(), "{bytes:02x?}");
    }
}

#[test]
fn others_may() {
    for bytes in [
        &[0x48, 0x8b, 0x17][..],               // mov (%rdi), %rdx
        &[0x48, 0x89, 0x16],                   // mov %rdx, (%rsi)
        &[0x65, 0x48, 0x8b, 0x05, 0, 0, 0, 0], // mov %gs:0(%rip), %rax
        &[0x83, 0x3f, 0x00],                   // cmpl $0, (%rdi)
        &[0xff, 0x37],                         // push (%rdi)
        &[0x8f, 0x07],                         // pop (%rdi)
        &[0xf7, 0xf1],                         // div %ecx
        &[0x48, 0xf7, 0xf9],                   // idiv %rcx
        &[0xf6, 0xf3],                         // div %bl
        &[0xc3],                               // ret
        &[0xff, 0xd0],                         // call *%rax
        &[0xff, 0xe0],                         // jmp *%rax
        &[0xc9],                               // leave
        &[0x9d],                               // popf
        &[0xa4],                               // movsb
        &[0xf3, 0xaa],                         // rep stosb
        &[0x8d, 0xc0],                         // lea of a register: not defined
        &[0x8e, 0xd8],                         // mov %eax, %ds
        &[0xc7, 0xf8, 0, 0, 0, 0],             // xbegin
        &[0xd8, 0xc1],                         // fadd: of the FPU
        &[0xe4, 0x10],                         // in
        &[0xf0, 0x01, 0xc0],                   // lock add %eax, %eax: not defined
        &[0x0f, 0x0b],                         // ud2
        &[0x0f, 0x22, 0xc0],                   // mov %rax, %cr0
        &[0x0f, 0x30],                         // wrmsr
        &[0x0f, 0x32],                         // rdmsr
        &[0x0f, 0x10, 0xc1],                   // movups: of the FPU
        &[0x0f, 0xc7, 0xf0],                   // rdrand: not on every CPU
        &[0x0f, 0xba, 0xc0, 0x05],             // not defined
        &[0xf3, 0x0f, 0xb8, 0xc1],             // popcnt: not on every CPU
        &[0x66, 0xe9, 0, 0, 0, 0],             // jmp of 16 bits
        &[0xc5, 0xf8, 0x77],                   // vzeroupper
    ] {
        if let Ok(insn) = Insn::decode(bytes) {
            assert!(!insn.cannot_fault(), "{bytes:02x?}");
        }
    }
}
