// SPDX-License-Identifier: GPL-2.0

//! The registers of a breakpoint's trap, and the execution on them of the instruction that the
//! breakpoint replaces.
//!
//! Contexts: trap, also within NMIs.

use core::arch::asm;
use core::mem::offset_of;
use core::ops::Deref;
use core::ops::DerefMut;

use ferro_core::exec::Arithmetic;
use ferro_core::exec::Fault;
use ferro_core::exec::Machine;
use ferro_core::insn::Register;
use kernel::page::PAGE_SIZE;

use crate::bindings;
use crate::code::alu;
use crate::code::regs::Regs;
use crate::sync::shared_word;

/// The registers of kernel code that has hit a breakpoint of ours, or entered a detour. They
/// give the right to execute the replaced instruction: to read and write memory as that instruction
/// does. Only the trap, or the detour, has one.
///
/// # Invariants
///
/// As [`Regs`]. In addition, `sp` points to the stack that this context runs on, or has
/// interrupted, and the word below it is unused. Its owner uses it as a [`Machine`] for the
/// instruction of the breakpoint only.
#[repr(transparent)]
pub struct Trap(bindings::pt_regs);

impl Trap {
    /// Wraps the registers of kernel code, or returns `None` for a user's registers.
    ///
    /// # Safety
    ///
    /// `regs` are the registers of an `int3`, which nothing else uses for `'a`. The caller's code
    /// executes on them the instruction of the breakpoint only.
    #[inline(always)]
    pub unsafe fn from_raw<'a>(regs: *mut bindings::pt_regs) -> Option<&'a mut Self> {
        // SAFETY: The caller guarantees that they are registers that nothing else uses for `'a`.
        let regs = unsafe { Regs::from_raw(regs) }?;
        // INVARIANT: Of an `int3`: its entry code leaves a gap on the stack. SAFETY: Both types
        // are transparent over the same structure, and this one replaces the other.
        Some(unsafe { &mut *regs.as_ptr().cast() })
    }

    /// Wraps the registers that a detour has saved.
    ///
    /// # Safety
    ///
    /// The registers are on the stack, with a gap above them like that of a breakpoint's entry.
    /// Nothing else uses them for `'a`, and all of them take effect afterwards. The caller's code
    /// executes on them the first instruction of the detour only.
    #[inline(always)]
    pub unsafe fn in_detour<'a>(regs: *mut bindings::pt_regs) -> &'a mut Self {
        // INVARIANT: Only code of the kernel has detours; the caller guarantees the rest. SAFETY:
        // The caller guarantees valid registers, exclusive to this context for `'a`; the type is
        // transparent.
        unsafe { &mut *regs.cast::<Self>() }
    }

    /// Returns true if the address is the word at the interrupted stack's top or the one below it.
    fn at_stack_top(&self, address: usize) -> bool {
        let below = self.0.sp.wrapping_sub(8);
        address == self.0.sp || address == below
    }
}

impl Deref for Trap {
    type Target = Regs;

    #[inline(always)]
    fn deref(&self) -> &Regs {
        // SAFETY: Both types are transparent over the same structure, and this one guarantees more.
        unsafe { &*(&raw const *self).cast() }
    }
}

impl DerefMut for Trap {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut Regs {
        // SAFETY: Both types are transparent over the same structure. This one guarantees more,
        // which the methods of `Regs` do not change.
        unsafe { &mut *(&raw mut *self).cast() }
    }
}

/// Offsets of the registers, by their numbers.
const OFFSETS: [usize; 16] = [
    offset_of!(bindings::pt_regs, ax),
    offset_of!(bindings::pt_regs, cx),
    offset_of!(bindings::pt_regs, dx),
    offset_of!(bindings::pt_regs, bx),
    offset_of!(bindings::pt_regs, sp),
    offset_of!(bindings::pt_regs, bp),
    offset_of!(bindings::pt_regs, si),
    offset_of!(bindings::pt_regs, di),
    offset_of!(bindings::pt_regs, r8),
    offset_of!(bindings::pt_regs, r9),
    offset_of!(bindings::pt_regs, r10),
    offset_of!(bindings::pt_regs, r11),
    offset_of!(bindings::pt_regs, r12),
    offset_of!(bindings::pt_regs, r13),
    offset_of!(bindings::pt_regs, r14),
    offset_of!(bindings::pt_regs, r15),
];

/// The offsets as bytes, for generated code.
pub const SHORT_OFFSETS: [u8; 16] = {
    let mut offsets = [0; 16];
    let mut i = 0;
    while i < offsets.len() {
        assert!(OFFSETS[i] <= u8::MAX as usize);
        offsets[i] = OFFSETS[i] as u8;
        i += 1;
    }
    offsets
};

/// Returns the offset of a register. Registers of APX are not saved, and no caller asks for them.
#[inline(always)]
fn offset(register: Register) -> usize {
    OFFSETS[usize::from(register.number() & 15)]
}

/// Returns true if the address is one that only the kernel accesses, and may have. A fault at
/// another address is not looked up in exception tables.
#[inline(always)]
fn is_kernel(address: u64) -> bool {
    (address as i64) < i64::from(bindings::VSYSCALL_ADDR)
}

/// Makes a fault at label 2 resume at label 3.
macro_rules! resume_at_3 {
    () => {
        concat!(
            ".pushsection __ex_table, \"aM\", @progbits, 12\n",
            ".balign 4\n",
            ".long 2b - .\n",
            ".long 3b - .\n",
            ".long {default}\n",
            ".popsection",
        )
    };
}

impl Machine for Trap {
    #[inline(always)]
    fn register(&self, register: Register) -> u64 {
        // SAFETY: `offset()` is the offset of a field of 64 bits.
        unsafe { *(&raw const self.0).byte_add(offset(register)).cast::<u64>() }
    }

    #[inline(always)]
    fn set_register(&mut self, register: Register, value: u64) {
        // SAFETY: `offset()` is the offset of a field of 64 bits.
        unsafe { *(&raw mut self.0).byte_add(offset(register)).cast::<u64>() = value };
    }

    #[inline]
    fn flags(&self) -> u64 {
        self.0.flags as u64
    }

    #[inline]
    fn set_flags(&mut self, flags: u64) {
        self.0.flags = flags as usize;
    }

    #[inline(always)]
    fn read(&mut self, address: u64, wide: bool) -> Result<u64, Fault> {
        if !is_kernel(address) {
            return Err(Fault { address });
        }
        macro_rules! load {
            ($text:literal) => {{
                let (value, failed): (u64, u32);
                // SAFETY: Only reads. If nothing is there, the exception table makes the fault
                // resume after the load, with `failed` still set. The address is one for which
                // faults are looked up in exception tables (`is_kernel()`).
                unsafe {
                    asm!("2:", $text, "xor {failed:e}, {failed:e}", "3:", resume_at_3!(),
                        value = out(reg) value, address = in(reg) address,
                        failed = inout(reg) 1 => failed,
                        default = const bindings::EX_TYPE_DEFAULT, options(nostack))
                };
                (value, failed)
            }};
        }
        let (value, failed) = match wide {
            true => load!("mov {value}, qword ptr [{address}]"),
            false => load!("mov {value:e}, dword ptr [{address}]"),
        };
        match failed {
            0 => Ok(value),
            _ => Err(Fault { address }),
        }
    }

    #[inline(always)]
    fn write(&mut self, address: u64, value: u64, wide: bool) -> Result<(), Fault> {
        // The stack below the stack pointer is this trap's.
        let below = (self.0.sp as u64).wrapping_sub(address).wrapping_sub(1);
        if !is_kernel(address) || below < PAGE_SIZE as u64 {
            return Err(Fault { address });
        }
        macro_rules! store {
            ($text:literal) => {{
                let failed: u32;
                // SAFETY: By the type invariant this is the store of the instruction that has
                // trapped, which the interrupted code is about to execute; the trap's own stack,
                // below that code's stack pointer, is left out above. If nothing is there, the
                // exception table makes the fault resume after the store, with `failed` still set.
                unsafe {
                    asm!("2:", $text, "xor {failed:e}, {failed:e}", "3:", resume_at_3!(),
                        value = in(reg) value, address = in(reg) address,
                        failed = inout(reg) 1 => failed,
                        default = const bindings::EX_TYPE_DEFAULT, options(nostack))
                };
                failed
            }};
        }
        let failed = match wide {
            true => store!("mov qword ptr [{address}], {value}"),
            false => store!("mov dword ptr [{address}], {value:e}"),
        };
        match failed {
            0 => Ok(()),
            _ => Err(Fault { address }),
        }
    }

    #[inline(always)]
    fn calculate(operation: Arithmetic, a: u64, b: u64, wide: bool) -> (u64, u64) {
        alu::calculate(operation, a, b, wide)
    }

    #[inline]
    fn write_stack(&mut self, address: u64, value: u64) -> Result<(), Fault> {
        if !self.at_stack_top(address as usize) {
            return Err(Fault { address });
        }
        // SAFETY: By the type invariant the address is the interrupted stack's top, which the
        // instruction that has trapped writes, or the word below it, where the entry code of
        // breakpoints leaves a gap.
        unsafe { shared_word::store_release(address as usize as *mut u64, value) };
        Ok(())
    }
}
