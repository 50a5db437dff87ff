// SPDX-License-Identifier: GPL-2.0

//! The registers of interrupted kernel code, as a trap or an ftrace site saved them.
//!
//! Contexts: any, NMI included.

use core::arch::asm;
use core::mem::offset_of;

use ferro_core::insn::Arithmetic;
use ferro_core::insn::Fault;
use ferro_core::insn::Machine;
use ferro_core::insn::Register;
use kernel::bindings;
use kernel::page::PAGE_SIZE;

use crate::arithmetic;
use crate::sync::word;

/// RFLAGS.IF.
pub const IF: usize = 1 << 9;

/// `struct pt_regs` of the kernel code that this context interrupted.
///
/// # Invariants
///
/// Made by [`Regs::of`] only: the stack that `sp` points to is the one that this context runs on, or was interrupted
/// on, with room for a word below it.
#[repr(transparent)]
pub struct Regs(bindings::pt_regs);

impl Regs {
    /// The registers of kernel code, or `None` if they are a user's.
    ///
    /// # Safety
    ///
    /// `regs` are the registers of an `int3`, of a fault, or of an ftrace site, that nobody else uses for `'a`.
    #[inline(always)]
    pub unsafe fn of<'a>(regs: *mut bindings::pt_regs) -> Option<&'a mut Self> {
        // SAFETY: By the rules of this function; the type is transparent.
        let regs = unsafe { &mut *regs.cast::<Self>() };
        // SAFETY: A plain word, whichever variant of the union it is seen through.
        let cs = unsafe { regs.0.__bindgen_anon_1.cs };
        // INVARIANT: The privilege level is the kernel's.
        (cs & 3 == 0).then_some(regs)
    }

    /// The registers at an ftrace site, which are always those of kernel code.
    ///
    /// # Safety
    ///
    /// As for [`Regs::of`].
    #[inline(always)]
    pub unsafe fn at_site<'a>(regs: *mut bindings::pt_regs) -> &'a mut Self {
        // INVARIANT: User code has no ftrace sites.
        // SAFETY: By the rules of this function; the type is transparent.
        unsafe { &mut *regs.cast::<Self>() }
    }

    /// For handlers in C.
    #[inline(always)]
    pub fn as_ptr(&mut self) -> *mut bindings::pt_regs {
        &raw mut self.0
    }

    /// Where execution goes on.
    #[inline(always)]
    pub fn ip(&self) -> usize {
        self.0.ip
    }

    /// Changes where execution goes on.
    #[inline(always)]
    pub fn set_ip(&mut self, ip: usize) {
        self.0.ip = ip;
    }

    /// The stack pointer.
    #[inline(always)]
    pub fn sp(&self) -> usize {
        self.0.sp
    }

    /// Turns interrupts off in what is interrupted. Returns RFLAGS.IF as it was.
    #[inline(always)]
    pub fn mask_interrupts(&mut self) -> usize {
        let was = self.0.flags & IF;
        self.0.flags &= !IF;
        was
    }

    /// Undoes [`Regs::mask_interrupts`].
    #[inline(always)]
    pub fn unmask_interrupts(&mut self, was: usize) {
        self.0.flags |= was & IF;
    }

    /// Whether the address is a word at the interrupted stack's top or the one below it.
    fn at_stack_top(&self, address: usize) -> bool {
        let below = self.0.sp.wrapping_sub(8);
        address == self.0.sp || address == below
    }
}

/// Where the registers are, by their numbers.
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

/// Where a register is; those of APX are not saved, and nobody asks for them.
#[inline(always)]
fn offset(register: Register) -> usize {
    OFFSETS[usize::from(register.number() & 15)]
}

/// Whether the address is one that only the kernel accesses, and may have: a fault elsewhere does not come to exception
/// tables.
#[inline(always)]
fn is_kernel(address: u64) -> bool {
    (address as i64) < i64::from(bindings::VSYSCALL_ADDR)
}

/// Has a fault at label 2 go on at label 3.
macro_rules! extable {
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

impl Machine for Regs {
    #[inline(always)]
    fn register(&self, register: Register) -> u64 {
        // SAFETY: The address of a field.
        unsafe { *(&raw const self.0).byte_add(offset(register)).cast::<u64>() }
    }

    #[inline(always)]
    fn set_register(&mut self, register: Register, value: u64) {
        // SAFETY: The address of a field.
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
                // SAFETY: Reads what is there, if anything is; a fault goes on behind it.
                unsafe {
                    asm!("2:", $text, "xor {failed:e}, {failed:e}", "3:", extable!(),
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
        // What is below the stack pointer is this trap's.
        let below = (self.0.sp as u64).wrapping_sub(address).wrapping_sub(1);
        if !is_kernel(address) || below < PAGE_SIZE as u64 {
            return Err(Fault { address });
        }
        macro_rules! store {
            ($text:literal) => {{
                let failed: u32;
                // SAFETY: What the interrupted instruction does, at its place; a fault goes on behind it.
                unsafe {
                    asm!("2:", $text, "xor {failed:e}, {failed:e}", "3:", extable!(),
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
        arithmetic::calculate(operation, a, b, wide)
    }

    #[inline]
    fn write_stack(&mut self, address: u64, value: u64) -> Result<(), Fault> {
        if !self.at_stack_top(address as usize) {
            return Err(Fault { address });
        }
        // SAFETY: By the type invariant there is a word below the stack's top that nobody uses: the entry code of
        // breakpoints leaves a gap there.
        unsafe { word::store_release(address as usize as *mut u64, value) };
        Ok(())
    }
}

/// What the exception tables say about a fault.
///
/// Goes on where the table's entry for the instruction pointer says, if there is one. For traps other than page faults, for
/// which the kernel looks the address up itself.
pub fn fix_up(regs: &mut Regs, trapnr: usize) -> bool {
    let trapnr = i32::try_from(trapnr).unwrap_or(0);
    // SAFETY: The registers of a fault, as an entry for this instruction expects them.
    unsafe { bindings::fixup_exception(regs.as_ptr(), trapnr, 0, 0) != 0 }
}
