// SPDX-License-Identifier: GPL-2.0

//! The rules that refuse a probe.
#![deny(unsafe_code)]

use ferro_core::blacklist_names::Reason;
use ferro_kprobes_builtin::raw::blacklist::Forbidden;
use ferro_kprobes_builtin::raw::blacklist::Rule;
use kernel::fmt;

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
            Self::Gate => "code that processes see",
            Self::Marked(forbidden) => match forbidden.rule {
                Rule::KprobesText => "it is __kprobes code",
                Rule::NoinstrText => "it is noinstr code",
                Rule::EntryText => "it is entry code",
                Rule::NokprobeSymbol => "it is a NOKPROBE_SYMBOL()",
                Rule::Added => "the kernel has put it on its list",
            },
            Self::JumpLabel => "a static key patches it",
            Self::StaticCall => "a static call patches it",
            Self::Bug => "the place of a BUG() or WARN()",
            Self::Decoded => "the handler of a fault or trap looks at the instruction",
            Self::Named(reason) => match reason {
                Reason::Preamble => "data in front of a function",
                Reason::StaticCall => "a static call patches it",
                Reason::Thunk => "indirect branches or returns run through it",
                Reason::Template => "ftrace copies and patches it",
                Reason::Early => "a CPU that comes executes it before it handles breakpoints",
                Reason::Idle => "a CPU that is idle or has gone waits in it",
                Reason::Sanitizer => "instrumented code calls it everywhere",
                Reason::Own => "code that kprobes run on",
            },
        };
        f.write_str(rule)
    }
}
