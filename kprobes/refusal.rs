// SPDX-License-Identifier: GPL-2.0

//! The rules that refuse a probe.
#![deny(unsafe_code)]

use ferro_core::blacklist_names::Reason;
use ferro_kprobes_builtin::raw::blacklist::Forbidden;
use ferro_kprobes_builtin::raw::blacklist::Rule;
use kernel::fmt;

/// Code that kprobes, or the rest of the kernel, depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// No code at all.
    NotText,
    /// Code that the kernel shows to processes.
    Gate,
    /// Marked as not to be probed.
    Marked(Forbidden),
    /// Patched when a static key changes.
    JumpLabel,
    /// Patched when a static call changes.
    StaticCall,
    /// Found by its address in a table.
    Bug,
    /// Decoded, where it is, by the handler of a fault of it or of a trap after it.
    Decoded,
    /// By its name.
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
