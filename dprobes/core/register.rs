// SPDX-License-Identifier: GPL-2.0

//! Registers of x86-64 in programs.

macro_rules! registers {
    ($($number:literal $register:ident $name:literal;)*) => {
        /// A register.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u8)]
        #[allow(missing_docs)]
        pub enum Register {
            $($register = $number,)*
        }

        impl Register {
            /// Returns the register of a number.
            pub const fn from_number(number: u8) -> Option<Self> {
                match number {
                    $($number => Some(Self::$register),)*
                    _ => None,
                }
            }

            /// Returns its name.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$register => $name,)*
                }
            }

            /// Returns the register of a name: its own, or for the first eight, `ip` and `flags`
            /// the name of their lower half (`eax`) or without the first letter (`ax`).
            pub fn from_name(name: &str) -> Option<Self> {
                let bare = |name: &'static str| name.strip_prefix('r').unwrap_or(name);
                let bare_given = match name.as_bytes() {
                    [b'e' | b'r', _, _, ..] => name.get(1..).unwrap_or(name),
                    _ => name,
                };
                $(
                    let has_bare = $number < 8 || $number == 16 || $number == 17;
                    if name == $name || has_bare && bare_given == bare($name) {
                        return Some(Self::$register);
                    }
                )*
                None
            }
        }
    };
}

registers! {
    0 Ax "rax";
    1 Bx "rbx";
    2 Cx "rcx";
    3 Dx "rdx";
    4 Si "rsi";
    5 Di "rdi";
    6 Bp "rbp";
    7 Sp "rsp";
    8 R8 "r8";
    9 R9 "r9";
    10 R10 "r10";
    11 R11 "r11";
    12 R12 "r12";
    13 R13 "r13";
    14 R14 "r14";
    15 R15 "r15";
    16 Ip "rip";
    17 Flags "rflags";
    18 Cs "cs";
    19 Ss "ss";
    20 Ds "ds";
    21 Es "es";
    22 Fs "fs";
    23 Gs "gs";
    24 FsBase "fsbase";
    25 GsBase "gsbase";
    26 Cr0 "cr0";
    27 Cr2 "cr2";
    28 Cr3 "cr3";
    29 Cr4 "cr4";
    30 Dr0 "dr0";
    31 Dr1 "dr1";
    32 Dr2 "dr2";
    33 Dr3 "dr3";
    34 Dr6 "dr6";
    35 Dr7 "dr7";
}

impl Register {
    /// Returns its number.
    pub const fn number(self) -> u8 {
        self as u8
    }

    /// Returns true if a program may change it at a hit: a general purpose register except the
    /// stack pointer, or the instruction pointer.
    pub const fn is_writable(self) -> bool {
        self.number() < Self::Flags.number() && self.number() != Self::Sp.number()
    }

    /// Returns true if it belongs to a thread's registers (`push u`), and not to the CPU.
    pub const fn is_saved(self) -> bool {
        self.number() < Self::Cr0.number()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        for (name, register) in [
            ("rax", Register::Ax),
            ("eax", Register::Ax),
            ("ax", Register::Ax),
            ("esp", Register::Sp),
            ("ebp", Register::Bp),
            ("r8", Register::R8),
            ("r15", Register::R15),
            ("eip", Register::Ip),
            ("eflags", Register::Flags),
            ("cr3", Register::Cr3),
            ("es", Register::Es),
            ("cs", Register::Cs),
        ] {
            assert_eq!(Register::from_name(name), Some(register), "{name}");
        }
        for name in ["", "r", "e", "a", "eeax", "r16", "e8", "8", "ecs", "al"] {
            assert_eq!(Register::from_name(name), None, "{name}");
        }
        for number in 0..=u8::MAX {
            if let Some(register) = Register::from_number(number) {
                assert_eq!(register.number(), number);
                assert_eq!(Register::from_name(register.name()), Some(register));
            }
        }
    }
}
