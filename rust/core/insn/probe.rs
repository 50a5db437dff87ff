// SPDX-License-Identifier: GPL-2.0

//! How a probe executes the instruction that its breakpoint replaces.

use super::emulate::Emulation;
use super::flow::Flow;
use super::flow::Target;
use super::operands::Encoding;
use super::operands::Insn;
use super::operands::ModRm;

/// How a probe executes an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Probe {
    /// By changing the registers: nothing is copied.
    ///
    /// After an emulated `sti` interrupts are enabled at once, while the CPU would wait for one more instruction. If
    /// that is `hlt`, the `sti` must not be probed either, for the reason of [`Unprobeable::Halt`].
    Emulate(Emulation),
    /// By running a copy that [`relocate`](super::relocate()) made, with a branch after it. Only what goes on after itself
    /// is copied, or what faults: the branch may as well be a call of somebody who waits for it.
    ///
    /// The copy runs with the flags of the interrupted code, IF included, since `pushfw` stores them. If it faults, it
    /// is with the copy's address, for which the exception tables have no entry. An x87 instruction leaves the copy's
    /// address in the FPU's state.
    Boost,
    /// By running such a copy with a breakpoint after it, and nothing else up to the end of the slot.
    Step(Step),
    /// Not at all.
    Unprobeable(Unprobeable),
}

/// Why a copy has to be followed by a breakpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// An encoding that is so new (REX2, EVEX map 4, maps 5 and up) that not all its opcodes are known: if the CPU took
    /// more bytes for the operands than the decoder does, it would take those of a jump.
    NewEncoding,
}

/// The rule that forbids a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unprobeable {
    /// `int3`, `int1`, `int n`: a breakpoint or call of other code, whose handler looks at the address.
    Breakpoint,
    /// `ud0`, `ud1`, `ud2`, `udb`: the address is looked up in the table of BUG and WARN sites.
    Undefined,
    /// `endbr32`, `endbr64`: an indirect branch that finds a breakpoint in its place is a #CP. The instruction after it
    /// can be probed.
    LandingPad,
    /// `mov` to ss, `lss`: with a copy, interrupts would not stay blocked until the stack pointer is loaded.
    StackSegment,
    /// A far call, jump or return: code segments are not emulated.
    FarTransfer,
    /// `iret`, `eretu`, `erets`, `uiret`: ends an exception; a breakpoint there nests within it.
    InterruptReturn,
    /// `syscall`, `sysenter`, `sysret`, `sysexit`: saves its own address, or has no kernel stack or gs base.
    SystemTransfer,
    /// `swapgs`: the breakpoint's handler would run with the other gs base.
    SwapGs,
    /// `hlt`, `mwait`, `mwaitx`: a breakpoint between it and the `sti` before it lets in the interrupt that it has to wait for. And
    /// a CPU that is offline, or idle, may wait in the copy for longer than any grace period.
    Halt,
    /// `xbegin`, `xend`, `xabort`: a breakpoint aborts every transaction, and `xbegin` saves its own address.
    Transaction,
    /// `vmcall`, `vmrun`, `clgi`, `tdcall` and the like: the hypervisor looks at, or changes, the bytes there.
    Hypervisor,
    /// `rsm`, `getsec`, `vmlaunch`, SGX: leaves for code in another mode that knows this address.
    ModeSwitch,
    /// The signature of forced emulation: the hypervisor looks at the bytes there.
    ForcedEmulation,
    /// A near branch with the prefix 66: Intel ignores the prefix, AMD takes 16 bits; even the lengths differ.
    VendorDependent,
    /// A call or jump through fs, gs or a register of APX, which an emulation cannot read. A copy of a call would push
    /// the copy's address, and a copy of a jump would not come back.
    OperandOutOfReach,
}

impl Probe {
    /// How a probe executes `insn`.
    ///
    /// # Examples
    ///
    /// ```
    /// use ferro_core::insn::{Insn, Unprobeable, Probe};
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
            // All else is emulated, or refused above.
            _ => Self::Unprobeable(Unprobeable::OperandOutOfReach),
        }
    }
}

/// Rules about what runs next.
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

/// A call or jump through a register that the kernel does not save.
fn extended(insn: &Insn) -> Option<Unprobeable> {
    match insn.flow() {
        Flow::Call(Target::Register(register)) | Flow::Jump(Target::Register(register)) => register
            .is_extended()
            .then_some(Unprobeable::OperandOutOfReach),
        _ => None,
    }
}

/// Rules about instructions after which the next one runs.
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
