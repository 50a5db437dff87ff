// SPDX-License-Identifier: GPL-2.0

//! Hooks and exits, as the kernel describes them.

#![deny(unsafe_code)]

use std::fmt;
use std::str::FromStr;

use serde::Serialize;

/// The longest name, in bytes.
const NAME_LEN: usize = 63;

/// The form of a name, for messages.
pub const NAME_FORM: &str = "a name of 1 to 63 letters, digits, _, . and -";

/// The name of a hook, an exit, a parameter or a module.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(transparent)]
pub struct Name(String);

impl Name {
    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Name {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let fits = (1..=NAME_LEN).contains(&text.len())
            && text
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte));
        if fits {
            Ok(Self(text.to_owned()))
        } else {
            Err(format!("{text:?} is not {NAME_FORM}"))
        }
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// An exit's name among all hooks.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ExitId {
    /// Its hook.
    pub hook: Name,
    /// Its own name there.
    pub exit: Name,
}

impl fmt::Display for ExitId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.hook, self.exit)
    }
}

/// An enumeration with a word for each value, the same in the kernel's text and in JSON.
macro_rules! words {
    (
        $(#[$meta:meta])*
        $name:ident { $($(#[$doc:meta])* $value:ident = $word:literal,)+ }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
        pub enum $name {
            $($(#[$doc])* #[serde(rename = $word)] $value,)+
        }

        impl $name {
            /// Every value.
            pub const ALL: &[Self] = &[$(Self::$value,)+];

            /// The kernel's word for it.
            pub const fn word(self) -> &'static str {
                match self {
                    $(Self::$value => $word,)+
                }
            }
        }

        impl FromStr for $name {
            type Err = ();

            fn from_str(text: &str) -> Result<Self, ()> {
                Self::ALL.iter().copied().find(|value| value.word() == text).ok_or(())
            }
        }
    };
}

words! {
    /// Context of a hook: actions that its exits may take there.
    Context {
        /// Sleep.
        Sleep = "sleep",
        /// Run on behalf of a task, without sleeping.
        Task = "task",
        /// Only what can be done anywhere, in an NMI too.
        Atomic = "atomic",
    }
}

words! {
    /// Access of a hook's exits to its parameters, and to the function that contains it.
    Access {
        /// Read them.
        ReadOnly = "ro",
        /// Change them.
        Modify = "rw",
        /// Read them, and make the function return.
        ReadOnlyReturn = "ro_ret",
        /// Change them, and make the function return.
        ModifyReturn = "rw_ret",
    }
}

words! {
    /// Where an exit has to be among those of its hook.
    Priority {
        /// Before all others.
        First = "first",
        /// After all others.
        Last = "last",
        /// The only one.
        Only = "only",
        /// Anywhere.
        Unspecified = "unspecified",
    }
}

words! {
    /// Conditions that must hold while an exit runs.
    Conditions {
        /// Nothing.
        None = "none",
        /// Interrupts are off on its CPU.
        IrqsOff = "irqs_off",
        /// All other CPUs are stopped.
        CpusStopped = "cpus_stopped",
    }
}

/// A hook.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Hook {
    /// Its name.
    pub name: Name,
    /// The module that has it; `None` for the kernel itself.
    pub module: Option<Name>,
    /// Where it fires.
    pub context: Context,
    /// Access that exits have.
    pub access: Access,
    /// The names of its parameters.
    pub params: Vec<Name>,
    /// The number of its sites; `None` where the kernel cannot count them.
    pub sites: Option<u64>,
    /// True if an exit on the hook is armed.
    pub active: bool,
    /// How many dispatches it had.
    pub hits: u64,
    /// The exits on it, in the order of their dispatch.
    pub exits: Vec<Exit>,
}

/// An exit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Exit {
    /// Its name.
    pub name: Name,
    /// Its place in the dispatch, from 1.
    pub order: u64,
    /// The place it asked for.
    pub priority: Priority,
    /// Conditions that must hold while the exit runs.
    pub conditions: Conditions,
    /// How many parameters it was compiled for.
    pub params: u64,
    /// True if the exit is armed.
    pub armed: bool,
    /// How often it was called.
    pub hits: u64,
    /// How often it ended the dispatch.
    pub stops: u64,
    /// The module that has it; `None` for the kernel itself.
    pub module: Option<Name>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        for good in ["a", "cpu_prepare", "A.b-9", &"x".repeat(63)] {
            assert_eq!(good.parse::<Name>().unwrap().as_str(), good);
        }
        for bad in ["", "a/b", "a b", "a=b", "é", "a\n", &"x".repeat(64)] {
            assert!(bad.parse::<Name>().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn words_are_told_apart() {
        assert_eq!("ro".parse(), Ok(Access::ReadOnly));
        assert_eq!("ro_ret".parse(), Ok(Access::ReadOnlyReturn));
        assert_eq!("RO".parse::<Access>(), Err(()));
        assert_eq!("".parse::<Priority>(), Err(()));
    }
}
