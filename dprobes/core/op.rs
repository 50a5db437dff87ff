// SPDX-License-Identifier: GPL-2.0

//! Commands of programs.

/// Scope of variables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Variables of a program: `lv`.
    Local,
    /// Variables that all programs share: `gv`.
    Global,
}

/// Kind of a command's operands; [`Insn`](super::Insn) has their places.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operand {
    /// None.
    None,
    /// An instruction of the same point.
    Target,
    /// A word.
    Word,
    /// A number of up to 32 bits, which may be from the stack.
    Number,
    /// The minor number of a point of this program with a later address, which may be from the
    /// stack.
    Later,
    /// A bit's number, which may be from the stack.
    Bit,
    /// A variable; its index may be from the stack.
    Variable(Scope),
    /// Variables: the first, and their number.
    Variables(Scope),
    /// A number of words of the stack, which may be from the stack.
    Words,
    /// A distance in the stack, of up to 1023 either way.
    Distance,
    /// A register, for reading.
    Register,
    /// A register, for writing.
    WritableRegister,
    /// A register of the thread in user space, for reading.
    UserRegister,
    /// A register of the thread in user space, for writing.
    WritableUserRegister,
    /// Width of a piece of memory: 1, 2, 4 or 8 bytes.
    Width,
    /// Width of an I/O port: 1, 2 or 4 bytes.
    PortWidth,
    /// Kind of the program's end: 0 to 3.
    Exit,
}

/// Number of words known at run time only.
pub(super) const ANY: u8 = u8::MAX;

macro_rules! ops {
    (
        $($number:literal $op:ident $name:literal
            $operand:expr, $pops:expr, $pushes:expr, $doc:literal;)*
        fused: $($fused_number:literal $fused:ident $fused_name:literal
            $second:ident, $fused_doc:literal;)*
    ) => {
        /// A command.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u8)]
        pub enum Op {
            $(#[doc = $doc] $op = $number,)*
            $(#[doc = $fused_doc] $fused = $fused_number,)*
        }

        /// All commands, except those that [`fuse`](super::fuse) makes.
        pub const OPS: &[Op] = &[$(Op::$op,)*];

        impl Op {
            /// Returns the command of a number.
            pub const fn from_number(number: u8) -> Option<Self> {
                match number {
                    $($number => Some(Self::$op),)*
                    _ => None,
                }
            }

            /// Returns the fused command of a `push` and this one.
            pub(super) const fn after_push(self) -> Option<Self> {
                match self {
                    $(Self::$second => Some(Self::$fused),)*
                    _ => None,
                }
            }

            /// Returns its name, without operands.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$op => $name,)*
                    $(Self::$fused => $fused_name,)*
                }
            }

            /// Returns the kind of its operands.
            pub const fn operand(self) -> Operand {
                match self {
                    $(Self::$op => $operand,)*
                    $(Self::$fused => Operand::Word,)*
                }
            }

            /// Returns the number of words that it takes from the stack, apart from an operand;
            /// [`ANY`] if that is unknown in advance.
            pub(super) const fn pops(self) -> u8 {
                match self {
                    $(Self::$op => $pops,)*
                    $(Self::$fused => 1,)*
                }
            }

            /// Returns the number of words that it puts on the stack.
            pub(super) const fn pushes(self) -> u8 {
                match self {
                    $(Self::$op => $pushes,)*
                    $(Self::$fused => 1,)*
                }
            }
        }
    };
}

use Operand as O;
use Scope::Global;
use Scope::Local;

ops! {
    0 Nop "nop" O::None, 0, 0, "Does nothing.";
    1 Jmp "jmp" O::Target, 0, 0, "Jumps.";
    2 Jlt "jlt" O::Target, 0, 0,
        "Jumps if the top, signed, is less than 0. The top stays, as with all jumps.";
    3 Jle "jle" O::Target, 0, 0, "Jumps if the top is 0 or less.";
    4 Jgt "jgt" O::Target, 0, 0, "Jumps if the top is greater than 0.";
    5 Jge "jge" O::Target, 0, 0, "Jumps if the top is 0 or greater.";
    6 Jz "jz" O::Target, 0, 0, "Jumps if the top is 0.";
    7 Jnz "jnz" O::Target, 0, 0, "Jumps if the top is not 0.";
    8 Loop "loop" O::Target, 0, 0, "Takes 1 from the top, and jumps unless that makes it 0.";
    9 Call "call" O::Target, 0, 0, "Calls a subroutine.";
    10 Ret "ret" O::None, 0, 0, "Returns from a subroutine.";
    11 Exit "exit" O::Exit, 0, 0,
        "Ends the program; the log is kept. 1 goes to the debugger, 2 asks for a crash dump, 3 \
         for a core dump, more go to modules.";
    12 Abort "abort" O::None, 0, 0, "Ends the program; the log is discarded.";
    13 Rem "rem" O::None, 0, 0, "Ends the program as `exit` does, and removes the probe.";
    14 CallK "callk" O::Number, 1, 1,
        "Calls what a module has registered under a number: takes an argument, and leaves the \
         result.";

    16 SetMin "setmin" O::Number, 0, 0, "Sets the record's minor number.";
    17 SetMaj "setmaj" O::Number, 0, 0, "Sets the record's major number.";
    18 LogStr "log str" O::None, 2, 0, "Logs a string: takes its address and the most bytes of it.";
    19 LogMrf "log mrf" O::None, 2, 0, "Logs memory: takes its address and its length.";
    20 Log "log" O::Words, ANY, 0, "Logs words of the stack, the top first, and takes them.";
    21 LogLv "log lv" O::Variables(Local), 0, 0, "Logs local variables.";
    22 LogGv "log gv" O::Variables(Global), 0, 0, "Logs global variables.";
    23 PushLp "push lp" O::None, 0, 1, "Pushes how many bytes are logged.";
    24 PushPlp "push plp" O::None, 0, 1,
        "Pushes how many bytes were logged before the last log command.";
    25 PopLp "pop lp" O::None, 1, 0, "Takes back what was logged after that many bytes.";

    32 PushLv "push lv" O::Variable(Local), 0, 1, "Pushes a local variable.";
    33 PopLv "pop lv" O::Variable(Local), 1, 0, "Pops into a local variable.";
    34 MoveLv "move lv" O::Variable(Local), 0, 0, "Copies the top into a local variable.";
    35 IncLv "inc lv" O::Variable(Local), 0, 0,
        "Adds 1 to a local variable, exactly, also if other CPUs do so.";
    36 DecLv "dec lv" O::Variable(Local), 0, 0, "Takes 1 from a local variable.";
    37 PushGv "push gv" O::Variable(Global), 0, 1, "Pushes a global variable.";
    38 PopGv "pop gv" O::Variable(Global), 1, 0, "Pops into a global variable.";
    39 MoveGv "move gv" O::Variable(Global), 0, 0, "Copies the top into a global variable.";
    40 IncGv "inc gv" O::Variable(Global), 0, 0, "Adds 1 to a global variable.";
    41 DecGv "dec gv" O::Variable(Global), 0, 0, "Takes 1 from a global variable.";

    48 Add "add" O::None, 2, 1, "Adds.";
    49 Sub "sub" O::None, 2, 1, "Subtracts the top from what is below it.";
    50 Mul "mul" O::None, 2, 1, "Multiplies.";
    51 Div "div" O::None, 2, 2,
        "Divides what is below the top by the top, unsigned; leaves the quotient on top of the \
         remainder.";
    52 Idiv "idiv" O::None, 2, 2, "The same, signed.";
    53 Neg "neg" O::None, 1, 1, "Inverts each bit.";
    54 And "and" O::None, 2, 1, "Bitwise and.";
    55 Or "or" O::None, 2, 1, "Bitwise or.";
    56 Xor "xor" O::None, 2, 1, "Bitwise exclusive or.";
    57 Rol "rol" O::Number, 1, 1, "Rotates left, by a number of bits modulo 64.";
    58 Ror "ror" O::Number, 1, 1, "Rotates right.";
    59 Shl "shl" O::Number, 1, 1, "Shifts left; by 64 bits or more, nothing is left.";
    60 Shr "shr" O::Number, 1, 1, "Shifts right, unsigned.";
    61 Pbl "pbl" O::Bit, 1, 1, "Copies a bit to all higher ones.";
    62 Pbr "pbr" O::Bit, 1, 1, "Copies a bit to all lower ones.";
    63 Pzl "pzl" O::Bit, 1, 1, "Clears all bits higher than a bit.";
    64 Pzr "pzr" O::Bit, 1, 1, "Clears all bits lower than a bit.";

    72 Xchg "xchg" O::None, 2, 2, "Exchanges the top and what is below it.";
    73 Dup "dup" O::Words, ANY, 1,
        "Pushes a copy of the word that many below the top; 0 is the top.";
    74 Ros "ros" O::Distance, ANY, 0,
        "Rotates the stack: forwards drops words, backwards takes them up again.";
    75 Pop "pop" O::None, 1, 0, "Drops the top.";
    76 PushSbp "push sbp" O::Distance, ANY, 1,
        "Pushes the word at a distance from the frame's base.";
    77 PopSbp "pop sbp" O::Distance, ANY, 0,
        "Pops into the word at a distance from the frame's base.";
    78 CopySbp "copy sbp" O::Distance, ANY, 0,
        "Copies the top to the word at a distance from the frame's base.";
    79 PushTsp "push tsp" O::Distance, ANY, 1, "Pushes the word at a distance from the top.";
    80 PopTsp "pop tsp" O::Distance, ANY, 0,
        "Pops, and stores at a distance from the top that then is.";
    81 CopyTsp "copy tsp" O::Distance, ANY, 0, "Copies the top to the word at a distance from it.";
    82 Save "save" O::None, 0, 2, "Pushes the base and the top's index, and begins a frame.";
    83 Restore "restore" O::None, ANY, 0,
        "Ends a frame: the base and the top are as `save` found them.";

    88 PushR "push r" O::Register, 0, 1, "Pushes a register.";
    89 PopR "pop r" O::WritableRegister, 1, 0, "Pops into a register.";
    90 PushU "push u" O::UserRegister, 0, 1, "Pushes a register of the thread in user space.";
    91 PopU "pop u" O::WritableUserRegister, 1, 0,
        "Pops into a register of the thread in user space.";

    96 Push "push" O::Word, 0, 1, "Pushes a word.";
    97 PushMem "push mem" O::Width, 1, 1, "Takes an address, and pushes what is there.";
    98 PopMem "pop mem" O::Width, 2, 0, "Takes an address, then a value, and stores that there.";
    99 VfyR "vfy r" O::None, 2, 1,
        "Takes an address and a length; pushes 1 if all of it can be read, else 0.";
    100 VfyRw "vfy rw" O::None, 2, 1,
        "The same where the program may write. What can be read may still be read only: that \
         only `pop mem` tells.";
    101 PushTask "push task" O::None, 0, 1, "Pushes the address of the current task.";
    102 PushPid "push pid" O::None, 0, 1, "Pushes the current process's number.";
    103 PushProcId "push procid" O::None, 0, 1, "Pushes the CPU's number.";
    104 PushTid "push tid" O::None, 0, 1, "Pushes the current thread's number.";
    105 PushTime "push time" O::None, 0, 1, "Pushes nanoseconds of CLOCK_MONOTONIC.";

    112 Sx "sx" O::Target, 0, 0,
        "Sets the handler of exceptions, for this subroutine and what it calls.";
    113 Ux "ux" O::None, 0, 0, "Takes the handler of this subroutine away.";
    114 Rx "rx" O::Number, 0, 0, "Raises an exception of the program's own.";
    115 PushX "push x" O::None, 0, 3,
        "Pushes the last exception: where it was, what it was about, and on top which.";
    116 LogSt "log st" O::None, 0, 0, "Adds where the program is, and its calls, to the trace.";
    117 PurgeSt "purge st" O::None, 0, 0, "Empties the trace.";
    118 TraceLv "trace lv" O::Variable(Local), 0, 0, "Adds a local variable to the trace.";
    119 TraceGv "trace gv" O::Variable(Global), 0, 0, "Adds a global variable to the trace.";
    120 TracePv "trace pv" O::None, 0, 0, "Adds the top to the trace.";

    128 Malloc "malloc" O::None, 1, 1,
        "Takes a length, and pushes the handle of a piece of the heap, all zero.";
    129 Free "free" O::None, 1, 0, "Takes a handle, and frees the piece.";
    130 PushH "pushh" O::Width, 2, 1, "Takes an offset, then a handle, and pushes what is there.";
    131 PopH "poph" O::Width, 3, 0, "Takes an offset, a handle and a value, and stores that there.";

    136 Seg2Lin "seg2lin" O::None, 2, 1,
        "Takes a segment, then an offset, and pushes the linear address.";
    137 PushIo "push io" O::PortWidth, 1, 1, "Takes a port, and pushes what is read from it.";
    138 PopIo "pop io" O::PortWidth, 2, 0, "Takes a port, then a value, and writes that to it.";

    144 Arm "arm" O::Later, 1, 0,
        "Takes an address, and has a watchpoint watch that soon; 0 disarms it.";
    145 Disarm "disarm" O::Later, 0, 0, "Has a watchpoint watch nothing soon.";

    fused:
    250 PushAdd "push, add" Add, "`push` and the `add` after it.";
    251 PushSub "push, sub" Sub, "`push` and the `sub` after it.";
    252 PushMul "push, mul" Mul, "`push` and the `mul` after it.";
    253 PushAnd "push, and" And, "`push` and the `and` after it.";
    254 PushOr "push, or" Or, "`push` and the `or` after it.";
    255 PushXor "push, xor" Xor, "`push` and the `xor` after it.";
}

impl Op {
    /// Returns its number.
    pub const fn number(self) -> u8 {
        self as u8
    }

    /// Returns the command with this name, without operands.
    pub fn from_name(name: &str) -> Option<Self> {
        OPS.iter().copied().find(|op| op.name() == name)
    }

    /// Returns true if its operand may be from the stack, with
    /// [`Insn::from_stack`](super::Insn::from_stack).
    pub const fn takes_from_stack(self) -> bool {
        matches!(
            self.operand(),
            O::Number | O::Later | O::Bit | O::Variable(_) | O::Words
        )
    }

    /// Returns true if no instruction follows it.
    pub const fn is_end(self) -> bool {
        matches!(
            self,
            Self::Jmp | Self::Ret | Self::Exit | Self::Abort | Self::Rem | Self::Rx
        )
    }

    /// Returns true if it changes the probed system: such a program has to be loaded with
    /// permission.
    pub const fn writes(self) -> bool {
        matches!(
            self,
            Self::PopR | Self::PopU | Self::PopMem | Self::PushIo | Self::PopIo | Self::CallK
        )
    }

    /// Returns true if it discloses memory or registers.
    pub const fn reads(self) -> bool {
        matches!(
            self,
            Self::LogStr
                | Self::LogMrf
                | Self::PushR
                | Self::PushU
                | Self::PushMem
                | Self::PushIo
                | Self::VfyR
                | Self::VfyRw
                | Self::PushTask
                | Self::Seg2Lin
        )
    }

    /// Returns true if it may log data.
    pub const fn logs(self) -> bool {
        matches!(
            self,
            Self::LogStr
                | Self::LogMrf
                | Self::Log
                | Self::LogLv
                | Self::LogGv
                | Self::LogSt
                | Self::TraceLv
                | Self::TraceGv
                | Self::TracePv
        )
    }
}
