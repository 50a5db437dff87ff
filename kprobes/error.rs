// SPDX-License-Identifier: GPL-2.0

//! Errors of registering a probe, the rules that refuse one, and the log of refused probes.
//!
//! Contexts: any; the log process, sleeps, with the engine's mutex.
#![deny(unsafe_code)]

use ferro_kprobes_builtin::raw::blacklist::Forbidden;
use ferro_kprobes_builtin::raw::blacklist::Rule;
use ferro_kprobes_core::blacklist_names::Reason;
use ferro_kprobes_core::Unprobeable;
use ferro_sys::code::text::NotWritten;
use kernel::alloc::AllocError;
use kernel::fmt;
use kernel::prelude::*;

use crate::raw::insn_stub::CodeError;

/// Reason why a probe cannot be registered, enabled or disabled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Error {
    /// Neither an address nor a symbol.
    NoTarget,
    /// Both an address and a symbol.
    TwoTargets,
    /// No function has this name.
    NoSymbol,
    /// No function is at this address.
    NoFunction,
    /// Code that kprobes, or the rest of the kernel, depends on.
    Refused(Refusal),
    /// Code of a module that is being unloaded, or code that was freed.
    Gone,
    /// In the middle of an instruction, or after bytes that are none.
    NotAnInstruction,
    /// A debugger has a breakpoint there, or before it in the function.
    Debugged,
    /// An instruction that cannot be executed in another place.
    Unprobeable(Unprobeable),
    /// The operand of the instruction is out of reach of a copy.
    OutOfReach,
    /// Already registered.
    Registered,
    /// Not registered.
    NotRegistered,
    /// A return probe is not at the start of a function.
    NotAtEntry,
    /// A function that does not return to where it was called.
    NeverReturns,
    /// A kretprobe's data for each call exceeds the limit.
    TooMuchData,
    /// ftrace failed with this error.
    Ftrace(kernel::error::Error),
    /// No memory.
    NoMemory,
    /// The engine is not started, or stopped.
    NotStarted,
}

impl From<AllocError> for Error {
    fn from(_: AllocError) -> Self {
        Self::NoMemory
    }
}

impl From<CodeError> for Error {
    fn from(why: CodeError) -> Self {
        match why {
            CodeError::NoMemory => Self::NoMemory,
            CodeError::OutOfReach => Self::OutOfReach,
        }
    }
}

impl From<NotWritten> for Error {
    fn from(why: NotWritten) -> Self {
        match why {
            NotWritten::Gone => Self::Gone,
            NotWritten::Changed => Self::Debugged,
        }
    }
}

impl Error {
    /// Returns the error that clients get.
    pub(crate) fn errno(self) -> kernel::error::Error {
        match self {
            Self::NoTarget | Self::TwoTargets | Self::Registered | Self::NotRegistered => EINVAL,
            Self::NoSymbol | Self::NoFunction | Self::Gone => ENOENT,
            Self::Refused(_) | Self::OutOfReach | Self::NotAtEntry | Self::NeverReturns => EINVAL,
            Self::NotAnInstruction | Self::Debugged => EILSEQ,
            Self::Unprobeable(Unprobeable::Breakpoint | Unprobeable::Undefined) => EILSEQ,
            Self::Unprobeable(Unprobeable::StackSegment | Unprobeable::ForcedEmulation) => EINVAL,
            Self::Unprobeable(_) => EOPNOTSUPP,
            Self::TooMuchData => E2BIG,
            Self::Ftrace(error) => error,
            Self::NoMemory => ENOMEM,
            Self::NotStarted => ENODEV,
        }
    }

    /// Returns true if debugfs shows the refusal: the errno does not identify the rule.
    pub(crate) fn is_refusal(self) -> bool {
        !matches!(self, Self::NoMemory | Self::NoSymbol | Self::NotStarted)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoTarget => f.write_str("neither an address nor a symbol is given"),
            Self::TwoTargets => f.write_str("both an address and a symbol are given"),
            Self::NoSymbol => f.write_str("no function of this name"),
            Self::NoFunction => f.write_str("no function at this address"),
            Self::Refused(rule) => fmt::Display::fmt(rule, f),
            Self::Gone => f.write_str("the code was freed, or its module is being unloaded"),
            Self::NotAnInstruction => f.write_str("not the start of an instruction"),
            Self::Debugged => f.write_str("a debugger has a breakpoint in the function"),
            Self::Unprobeable(rule) => f.write_str(why_unprobeable(*rule)),
            Self::OutOfReach => f.write_str("its operand is out of reach of a copy"),
            Self::Registered => f.write_str("it is registered already"),
            Self::NotRegistered => f.write_str("it is not registered"),
            Self::NotAtEntry => f.write_str("not the start of a function"),
            Self::NeverReturns => f.write_str("it does not return where it was called"),
            Self::TooMuchData => f.write_str("too much data for each call"),
            Self::Ftrace(error) => {
                f.write_fmt(fmt!("ftrace failed with error {}", error.to_errno()))
            }
            Self::NoMemory => f.write_str("no memory"),
            Self::NotStarted => f.write_str("the engine is not loaded"),
        }
    }
}

fn why_unprobeable(rule: Unprobeable) -> &'static str {
    match rule {
        Unprobeable::Breakpoint => "a breakpoint or software interrupt",
        Unprobeable::Undefined => "an undefined instruction (BUG and WARN)",
        Unprobeable::LandingPad => "a landing pad of indirect branches; probe what is after it",
        Unprobeable::StackSegment => "it holds off interrupts until the stack pointer is loaded",
        Unprobeable::FarTransfer => "a far call, jump or return",
        Unprobeable::InterruptReturn => "a return from an interrupt",
        Unprobeable::SystemTransfer => "an entry to or exit from the kernel",
        Unprobeable::SwapGs => "it exchanges the base of gs",
        Unprobeable::Halt => "a halt or mwait, or the sti before it",
        Unprobeable::Transaction => "part of a transaction",
        Unprobeable::Hypervisor => "a call of the hypervisor",
        Unprobeable::ModeSwitch => "it leaves for another mode",
        Unprobeable::ForcedEmulation => "the signature of forced emulation",
        Unprobeable::VendorDependent => "a branch that vendors execute differently",
        Unprobeable::OperandOutOfReach => "a call or jump whose operand cannot be read",
    }
}

/// Reason why kprobes, or the rest of the kernel, do not allow a probe at an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// Not code.
    NotText,
    /// Code that the kernel shows to processes.
    Gate,
    /// Code marked as not to be probed.
    Marked(Forbidden),
    /// Code that a static key patches.
    JumpLabel,
    /// Code that a static call patches.
    StaticCall,
    /// A BUG() or WARN(), which is found by its address in a table.
    Bug,
    /// An instruction that the handler of its fault, or of a trap after it, decodes in place.
    Decoded,
    /// Code refused by its name.
    Named(Reason),
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rule = match self {
            Self::NotText => "not code of the kernel or a module",
            Self::Gate => "code that is mapped into processes",
            Self::Marked(forbidden) => match forbidden.rule {
                Rule::KprobesText => "it is __kprobes code",
                Rule::NoinstrText => "it is noinstr code",
                Rule::EntryText => "it is entry code",
                Rule::NokprobeSymbol => "it is a NOKPROBE_SYMBOL()",
                Rule::Added => "the kernel has added it to the blacklist",
            },
            Self::JumpLabel => "a static key patches it",
            Self::StaticCall => "a static call patches it",
            Self::Bug => "the place of a BUG() or WARN()",
            Self::Decoded => "the handler of its fault or trap decodes the instruction",
            Self::Named(reason) => match reason {
                Reason::Preamble => "data in front of a function",
                Reason::StaticCall => "a static call patches it",
                Reason::Thunk => "indirect branches or returns run through it",
                Reason::Template => "ftrace copies and patches it",
                Reason::Early => "a starting CPU executes it before it handles breakpoints",
                Reason::Idle => "an idle or offline CPU waits in it",
                Reason::Sanitizer => "instrumented code calls it everywhere",
                Reason::Own => "code that kprobes run on",
            },
        };
        f.write_str(rule)
    }
}

/// Number of lines to keep.
const KEPT: usize = 64;

/// Log of the latest refused probes, each with the rule, which an errno does not identify. debugfs
/// `kprobes/refused` shows the lines, the latest last.
///
/// The kernel log does not have them: a user with the right to add probes could fill it.
#[derive(Default)]
pub(crate) struct RefusedLog {
    lines: KVVec<KVVec<u8>>,
}

impl RefusedLog {
    /// Appends a line, unless it repeats the last one. The oldest line makes room for it.
    pub(crate) fn push(&mut self, line: KVVec<u8>) {
        if self.lines.last() == Some(&line) {
            return;
        }
        if self.lines.len() >= KEPT {
            // At least one line exists.
            let _ = self.lines.remove(0);
        }
        // The line is lost if there is no memory.
        let _ = self.lines.push(line, GFP_KERNEL);
    }

    /// Returns all lines in one text. Errors: -ENOMEM.
    pub(crate) fn text(&self) -> Result<KVVec<u8>> {
        let mut text = KVVec::new();
        for line in &self.lines {
            text.extend_from_slice(line, GFP_KERNEL)?;
        }
        Ok(text)
    }
}
