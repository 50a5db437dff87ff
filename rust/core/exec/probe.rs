// SPDX-License-Identifier: GPL-2.0

//! Execution of the instruction that a probe's breakpoint replaces.

use super::emulate::Emulation;
use crate::insn::Encoding;
use crate::insn::Flow;
use crate::insn::Insn;
use crate::insn::ModRm;
use crate::insn::Target;

/// Way by which a probe executes an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Probe {
    /// By emulation: nothing is copied.
    ///
    /// After an emulated `sti` interrupts are enabled at once, while the CPU would wait for one
    /// more instruction. If that is `hlt`, the `sti` must not be probed either, for the reason of
    /// [`Unprobeable::Halt`].
    Emulate(Emulation),
    /// From a copy by `ferro_kprobes_core::relocate`, with a branch after it. Only instructions
    /// that continue with the next one, or that fault, are copied: the branch may as well be a call
    /// by other code.
    ///
    /// The copy runs with the flags of the interrupted code, IF included, since `pushfw` stores
    /// them. A fault has the copy's address, for which the exception tables have no entry. An x87
    /// instruction leaves the copy's address in the FPU's state.
    Boost,
    /// From such a copy with a breakpoint after it, and no other code up to the end of the slot.
    Step(Step),
    /// Not at all.
    Unprobeable(Unprobeable),
}

/// Reason why a copy has to be followed by a breakpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// An encoding that is so new (REX2, EVEX map 4, maps 5 and up) that not all its opcodes are
    /// known. If the CPU took more operand bytes than the decoder, it would take those of a jump.
    NewEncoding,
}

/// Rule that forbids a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unprobeable {
    /// `int3`, `int1`, `int n`: a breakpoint or call of other code. Its handler reads the
    /// address.
    Breakpoint,
    /// `ud0`, `ud1`, `ud2`, `udb`: the handler looks the address up in the table of BUG and WARN
    /// sites.
    Undefined,
    /// `endbr32`, `endbr64`: an indirect branch to a breakpoint in its place is a #CP. The
    /// instruction after it can be probed.
    LandingPad,
    /// `mov` to ss, `lss`: with a copy, interrupts would not stay blocked until the stack pointer
    /// is loaded.
    StackSegment,
    /// A far call, jump or return: code segments are not emulated.
    FarTransfer,
    /// `iret`, `eretu`, `erets`, `uiret`: ends an exception; a breakpoint there nests in it.
    InterruptReturn,
    /// `syscall`, `sysenter`, `sysret`, `sysexit`: saves its own address, or has no kernel stack or
    /// gs base.
    SystemTransfer,
    /// `swapgs`: the breakpoint's handler would run with the other gs base.
    SwapGs,
    /// `hlt`, `mwait`, `mwaitx`: a breakpoint between it and the preceding `sti` admits the
    /// interrupt for which it has to wait. Also, an offline or idle CPU may wait in the copy for
    /// longer than any grace period.
    Halt,
    /// `xbegin`, `xend`, `xabort`: a breakpoint aborts every transaction, and `xbegin` saves its
    /// own address.
    Transaction,
    /// `vmcall`, `vmrun`, `clgi`, `tdcall` and the like: the hypervisor reads or changes the bytes
    /// there.
    Hypervisor,
    /// `rsm`, `getsec`, `vmlaunch`, SGX: enters code in another mode that knows this address.
    ModeSwitch,
    /// The signature of forced emulation: the hypervisor reads the bytes there.
    ForcedEmulation,
    /// A near branch with the prefix 66: Intel ignores the prefix, AMD takes 16 bits; even the
    /// lengths differ.
    VendorDependent,
    /// A call or jump through fs, gs or a register of APX, which an emulation cannot read. A copy
    /// of a call would push the copy's address, and a copy of a jump would not return.
    OperandOutOfReach,
}

impl Probe {
    /// Returns the way by which a probe executes `insn`.
    ///
    /// # Examples
    ///
    /// ```
    /// use ferro_core::insn::Insn;
    /// use ferro_core::exec::{Probe, Unprobeable};
    ///
    /// let mov = Insn::decode(&[0x48, 0x89, 0xe5]).unwrap();
    /// assert_eq!(Probe::of(&mov), Probe::Boost);
    /// let ud2 = Insn::decode(&[0x0f, 0x0b]).unwrap();
    /// assert_eq!(Probe::of(&ud2), Probe::Unprobeable(Unprobeable::Undefined));
    /// ```
    pub fn of(insn: &Insn) -> Self {
        if insn.is_forced_emulation() {
            return Self::Unprobeable(Unprobeable::ForcedEmulation);
        }
        if let Some(rule) = unprobeable_by_flow(insn).or_else(|| unprobeable_by_opcode(insn)) {
            return Self::Unprobeable(rule);
        }
        if let Some(emulation) = Emulation::of(insn) {
            return Self::Emulate(emulation);
        }
        let new = match insn.encoding() {
            Encoding::Rex2 => true,
            Encoding::Vex | Encoding::Evex => insn.map() > 3,
            Encoding::Legacy | Encoding::Xop => false,
        };
        match insn.flow() {
            Flow::Next if new => Self::Step(Step::NewEncoding),
            Flow::Next => Self::Boost,
            // All other instructions are emulated, or refused above.
            _ => Self::Unprobeable(Unprobeable::OperandOutOfReach),
        }
    }
}

/// Checks the rules about control flow.
fn unprobeable_by_flow(insn: &Insn) -> Option<Unprobeable> {
    Some(match insn.flow() {
        Flow::Next => return None,
        Flow::Jump(_) | Flow::JumpIf(..) | Flow::Loop(..) | Flow::Call(_) | Flow::Return(_) => {
            match insn.prefixes() {
                // #UD
                prefixes if prefixes.lock => Unprobeable::Undefined,
                _ if insn.is_word() => Unprobeable::VendorDependent,
                _ => return extended(insn),
            }
        }
        Flow::FarJump | Flow::FarCall | Flow::FarReturn => Unprobeable::FarTransfer,
        Flow::InterruptReturn => Unprobeable::InterruptReturn,
        Flow::SystemCall | Flow::SystemReturn => Unprobeable::SystemTransfer,
        Flow::Interrupt(_) => Unprobeable::Breakpoint,
        Flow::Undefined => Unprobeable::Undefined,
        Flow::Halt => Unprobeable::Halt,
        Flow::TransactionBegin(_) => Unprobeable::Transaction,
        Flow::ModeSwitch => Unprobeable::ModeSwitch,
    })
}

/// Refuses a call or jump through a register that the kernel does not save.
fn extended(insn: &Insn) -> Option<Unprobeable> {
    match insn.flow() {
        Flow::Call(Target::Register(register)) | Flow::Jump(Target::Register(register)) => register
            .is_extended()
            .then_some(Unprobeable::OperandOutOfReach),
        _ => None,
    }
}

/// Checks the rules about instructions that continue with the next one.
fn unprobeable_by_opcode(insn: &Insn) -> Option<Unprobeable> {
    if !insn.is_legacy() {
        return None;
    }
    let modrm = insn.modrm().unwrap_or(ModRm(0));
    match (insn.map(), insn.opcode()) {
        (0, 0x8e) if modrm.reg() == 2 => Some(Unprobeable::StackSegment),
        (0, 0xc6) if modrm.0 == 0xf8 => Some(Unprobeable::Transaction),
        (1, 0x01) => match modrm.0 {
            // `vmcall`, `vmxoff`
            0xc1 | 0xc4 => Some(Unprobeable::Hypervisor),
            // `tdcall`, `seamops`, `seamcall`
            0xcc | 0xce | 0xcf if insn.prefixes().operand_size => Some(Unprobeable::Hypervisor),
            // `mwait`, `mwaitx`
            0xc9 | 0xfb => Some(Unprobeable::Halt),
            // `vmfunc`; `vmmcall`, `vmload`, `vmsave`, `stgi`, `clgi`
            0xd4 | 0xd9..=0xdd => Some(Unprobeable::Hypervisor),
            0xd5 => Some(Unprobeable::Transaction),
            0xf8 => Some(Unprobeable::SwapGs),
            _ => None,
        },
        // With F3; otherwise a `nop`.
        (1, 0x1e) if matches!(modrm.0, 0xfa | 0xfb) && insn.prefixes().repeat.is_some() => {
            Some(Unprobeable::LandingPad)
        }
        (1, 0xb2) => Some(Unprobeable::StackSegment),
        _ => None,
    }
}
