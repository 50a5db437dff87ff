// SPDX-License-Identifier: GPL-2.0

//! Analysis for optprobes: can a jump replace the instructions at an address, and how do they run
//! elsewhere?
//!
//! A jump takes 5 bytes, and so *displaces* the instructions that begin in them. [`displaceable`]
//! checks the instructions at an address, and returns them or the [`Reason`] against it.
//! [`Displaced`] relocates them with the same effect to another address.
//!
//! The rules, of which the first four are about the displaced bytes and the others about the rest
//! of the code:
//!
//! - the 5 bytes and the displaced instructions are in one symbol;
//! - each of those can be probed and relocated. A branch keeps its destination. A call has to be
//!   the last, so that it returns to the code after the displaced instructions: a task may sleep in
//!   the callee, before the jump is written and after it is removed;
//! - no other code writes there, or looks the address up: see [`Surroundings::reserved`];
//! - if the flow ends before the 5 bytes do, the rest of them is padding;
//! - the bytes after the first are not entered. Possible entries are branches, the address of an
//!   instruction as an operand, jump tables, and the targets of jump labels and of exception
//!   fixups. A jump to an unknown address refuses the whole function, and so does `std`: the callee
//!   of a jump relies on the direction flag.
//!
//! The rest of the code is more than the symbol. A label in assembly ends the symbol before it,
//! though the function continues. The compiler moves a function's cold part elsewhere. So the
//! search includes neighbours to which code falls through or jumps, and other jump targets of the
//! function.
//!
//! Contexts: those of the [`Surroundings`]. Nothing here allocates, locks or panics, for any bytes;
//! the time is bounded by [`MOST_DECODED`].

mod displaced;
mod function_scan;
mod inline_exec;
mod linear_decode;
mod table;
#[cfg(test)]
mod tests;

use super::Unprobeable;
use core::ops::Range;
use function_scan::Body;
use linear_decode::Code;

pub use displaced::Displaced;
pub use displaced::MAX_DISPLACED;
pub use displaced::MAX_RELOCATED;
pub use inline_exec::Branch;
pub use inline_exec::Frame;
pub use inline_exec::Within;
pub use inline_exec::MAX_WITHIN;

/// Length of a jump in bytes.
pub const JUMP_LEN: usize = 5;

/// Maximum number of instructions that an analysis decodes.
pub const MOST_DECODED: u32 = 200_000;

/// Code of a symbol: from its address to the next symbol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Address of its first byte.
    pub start: u64,
    /// Address after its last byte.
    pub end: u64,
}

impl Piece {
    /// Returns true if an address is in it.
    pub fn contains(&self, address: u64) -> bool {
        (self.start..self.end).contains(&address)
    }

    /// Returns true if an address is in it and not its first.
    pub fn has_inside(&self, address: u64) -> bool {
        self.contains(address) && address != self.start
    }
}

/// Knowledge of the kernel. All addresses are those at which code runs.
pub trait Surroundings {
    /// Returns the symbol that contains an address. The code must exist as long as the analysed
    /// code, and must not be a return thunk. Symbols without a gap between them are neighbours.
    fn piece(&self, address: u64) -> Option<Piece>;

    /// Copies code from `at` on, and returns the number of bytes. They are the original ones,
    /// without breakpoints and jumps of probes. If these are unknown (a debugger's breakpoint), the
    /// code ends there.
    fn code(&self, at: u64, out: &mut [u8]) -> usize;

    /// Copies data from `at` on that is never written. Returns false if a byte is not of this kind.
    fn rodata(&self, at: u64, out: &mut [u8]) -> bool;

    /// Returns true if a compiler has made the function that starts there. Then only its own
    /// `.cold` part jumps into it from elsewhere, and no code falls into it. An ftrace site at its
    /// start, or after its ENDBR, shows this, or a name from the Rust compiler (`_R...`): few of
    /// its functions have sites.
    fn is_compiled(&self, start: u64) -> bool;

    /// Returns true if the symbol that starts there is a part of a function elsewhere, its `.cold`
    /// part: the function may jump into it anywhere.
    fn is_part(&self, start: u64) -> bool;

    /// Returns true if a jump to that address is one to the address in a register: the thunks
    /// `__x86_indirect_thunk_*` and their replacements.
    fn is_indirect_thunk(&self, address: u64) -> bool;

    /// Returns true if indirect jumps of compiled functions may lead into them: by jump tables, or
    /// `goto *address`. In a kernel for IBT they lead to an ENDBR there, which is never displaced.
    /// Retpolines do not change this: `goto *address` uses them.
    fn has_jump_tables(&self) -> bool;

    /// Returns the reason why the bytes of a range must not be changed, or its instructions
    /// not run elsewhere.
    fn reserved(&self, range: Range<u64>) -> Option<Reserved>;

    /// Returns the entry if a jump label or the fixup of an exception leads into a range.
    fn enters(&self, range: Range<u64>) -> Option<Entry>;

    /// Calls `found` with each address to which a jump label or the fixup of an exception leads
    /// from a range.
    fn exits(&self, range: Range<u64>, found: &mut dyn FnMut(u64));
}

/// Other use of an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reserved {
    /// A jump label, patched whenever its key changes.
    JumpLabel,
    /// A static call, patched whenever it is updated.
    StaticCall,
    /// An ftrace site.
    Ftrace,
    /// An instruction with an entry in the exception table, which has its address.
    Exception,
    /// A trap, with a handler that looks the address up.
    Trap,
}

/// Way by which code is entered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    /// By a branch.
    Branch,
    /// By the entry of a jump table.
    Table,
    /// From a jump label.
    JumpLabel,
    /// By the fixup of an exception.
    Fixup,
    /// The address is an operand of an instruction.
    Address,
}

/// Reason why instructions cannot be displaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// There is no code, or it cannot be read.
    NoCode,
    /// Not the start of an instruction.
    NotAnInstruction,
    /// Bytes in the function are not an instruction.
    Undecodable,
    /// The function, with its other parts, is too large to be analysed.
    TooLarge,
    /// The symbol ends before the displaced instructions do.
    NoRoom,
    /// The flow ends before the 5 bytes do, and the next bytes are not padding.
    NotPadding,
    /// The function that may jump into the symbol is elsewhere.
    Part,
    /// The instruction has another use.
    Reserved(Reserved),
    /// The bytes after the first are entered.
    Entered(Entry),
    /// The function jumps to an unknown address.
    IndirectJump,
    /// The function sets the direction flag, with which other code must not be called.
    Direction,
    /// A call would return into the bytes of the jump.
    Call,
    /// An instruction that must not be probed, for this rule.
    Unprobeable(Unprobeable),
    /// An instruction of an uncertain length.
    NewEncoding,
    /// A call with an operand relative to the stack pointer, which a jump would see after the
    /// push; or an instruction that must directly follow the one before it.
    Immovable,
    /// A target is more than 2 GiB from the copy of the instructions, or there is no room for them.
    OutOfReach,
}

impl Reason {
    /// Returns the text for messages.
    pub fn text(self) -> &'static str {
        match self {
            Self::NoCode => "no code",
            Self::NotAnInstruction => "not the start of an instruction",
            Self::Undecodable => "the function cannot be decoded",
            Self::TooLarge => "the function is too large",
            Self::NoRoom => "the function ends too early",
            Self::NotPadding => "the flow ends, and what follows is no padding",
            Self::Part => "a part of a function that is elsewhere",
            Self::Reserved(Reserved::JumpLabel) => "a jump label",
            Self::Reserved(Reserved::StaticCall) => "a static call",
            Self::Reserved(Reserved::Ftrace) => "an ftrace site",
            Self::Reserved(Reserved::Exception) => "an entry in the exception table",
            Self::Reserved(Reserved::Trap) => "a trap that is looked up",
            Self::Entered(Entry::Branch) => "a branch leads there",
            Self::Entered(Entry::Table) => "a jump table leads there",
            Self::Entered(Entry::JumpLabel) => "a jump label leads there",
            Self::Entered(Entry::Fixup) => "a fixup leads there",
            Self::Entered(Entry::Address) => "its address is used",
            Self::IndirectJump => "the function has an indirect jump",
            Self::Direction => "the function sets the direction flag",
            Self::Call => "a call returns there",
            Self::Unprobeable(_) => "an instruction that must not be probed",
            Self::NewEncoding => "an instruction of a new kind",
            Self::Immovable => "an instruction that cannot be moved",
            Self::OutOfReach => "out of reach",
        }
    }
}

/// Returns the symbol that contains an address, if the entries into it can be found.
fn whole<S: Surroundings>(address: u64, surroundings: &S) -> Result<Piece, Reason> {
    let piece = surroundings.piece(address).ok_or(Reason::NoCode)?;
    match surroundings.is_part(piece.start) {
        true => Err(Reason::Part),
        false => Ok(piece),
    }
}

/// Finds the instructions that a jump at `address` displaces, if it may.
///
/// The result is valid as long as the surroundings do not change: until the jump is written, the
/// caller has to exclude patching of code and loading and unloading of modules.
pub fn displaceable<S: Surroundings>(address: u64, surroundings: &S) -> Result<Displaced, Reason> {
    let code = Code::new(surroundings);
    let piece = whole(address, surroundings)?;
    let displaced = Displaced::read(&code, address, piece)?;
    displaced.check_tables(surroundings)?;
    let inside = displaced.inside();
    let mut is_start = false;
    Body::of(&code, piece)?.search(&code, |found| match found {
        Found::Start(at) => {
            is_start |= at == address;
            Ok(())
        }
        Found::Entered(at, by) if inside.contains(&at) => Err(Reason::Entered(by)),
        Found::Entered(..) => Ok(()),
    })?;
    match is_start {
        true => Ok(displaced),
        false => Err(Reason::NotAnInstruction),
    }
}

/// Result of [`search`] in a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// An instruction begins there.
    Start(u64),
    /// Code leads there, or may.
    Entered(u64, Entry),
}

/// Calls `visit` with the facts that [`displaceable`] needs about the rest of the function of a
/// piece, for all addresses of it at once: for callers that check many. Fails if every address of
/// the function would be refused.
pub fn search<S: Surroundings>(
    piece: Piece,
    surroundings: &S,
    mut visit: impl FnMut(Found),
) -> Result<(), Reason> {
    let code = Code::new(surroundings);
    Body::of(&code, piece)?.search(&code, |found| {
        visit(found);
        Ok(())
    })
}

/// Checks the displaced instructions alone, as [`displaceable`]. Its other rules need the results
/// of [`search`].
pub fn displaceable_alone<S: Surroundings>(
    address: u64,
    surroundings: &S,
) -> Result<Displaced, Reason> {
    let piece = whole(address, surroundings)?;
    let displaced = Displaced::read(&Code::new(surroundings), address, piece)?;
    displaced.check_tables(surroundings)?;
    Ok(displaced)
}
