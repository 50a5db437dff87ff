// SPDX-License-Identifier: GPL-2.0

//! Whether a jump can replace the instructions at a place, and how they run elsewhere.
//!
//! A jump takes 5 bytes, and so *displaces* the instructions that begin in them. [`displaceable`] says whether those at
//! an address can be displaced, or the [`Reason`] why not; [`Displaced`] writes them so that they do the same from
//! another address.
//!
//! The rules, of which the first four are about what is displaced and the others about the rest of the code:
//!
//! - the 5 bytes and the displaced instructions are in one symbol;
//! - each of those can be probed and moved. A branch is aimed at where it went. A call has to be the last, so that it
//!   returns to what follows the displaced instructions: a task may sleep in what was called, before the jump is
//!   written and after it is removed;
//! - nothing else writes there, or looks the address up: see [`Surroundings::reserved`];
//! - where the flow ends before the 5 bytes do, what is left of them is padding;
//! - nothing enters the bytes after the first. A branch, the address of an instruction as an operand, the entries of a
//!   jump table, the targets of jump labels and of exception fixups all count. A jump to an address that is not known
//!   refuses the whole function, and so does `std`: code that a jump calls counts on the direction flag.
//!
//! "The rest" is more than the symbol. A label in assembly ends the symbol before it, though the function goes on, and
//! the compiler moves a function's unlikely part to a place of its own. So neighbours are looked at too, if code goes
//! from one to the other, and what the function jumps to.
//!
//! Contexts: any that the [`Surroundings`] can be asked in. Nothing here allocates, locks or panics, whatever the bytes; the
//! time is bounded by [`MOST_DECODED`].

mod displaced;
mod function_scan;
mod inline_exec;
mod linear_decode;
mod table;
#[cfg(test)]
mod tests;

use super::probe::Unprobeable;
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

/// How many bytes a jump has.
pub const JUMP_LEN: usize = 5;

/// How many instructions are decoded before an analysis gives up.
pub const MOST_DECODED: u32 = 200_000;

/// A part of code that a symbol names: from its address to the next symbol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The address of its first byte.
    pub start: u64,
    /// The address after its last byte.
    pub end: u64,
}

impl Piece {
    /// Whether an address is in it.
    pub fn contains(&self, address: u64) -> bool {
        (self.start..self.end).contains(&address)
    }

    /// Whether an address is in it and not its first.
    pub fn has_inside(&self, address: u64) -> bool {
        self.contains(address) && address != self.start
    }
}

/// What only the kernel knows. All addresses are those at which code runs.
pub trait Surroundings {
    /// The symbol that an address is in, if it is in code that stays as long as what is analysed, and is not what the kernel jumps to
    /// in order to return. Symbols without a gap between them are neighbours.
    fn piece(&self, address: u64) -> Option<Piece>;

    /// Copies code from `at` on, and returns how many bytes there were. They are the original ones: without breakpoints
    /// and jumps of probes. Where those are not known (a debugger's breakpoint) the code ends.
    fn code(&self, at: u64, out: &mut [u8]) -> usize;

    /// Copies data from `at` on that is never written. False if it is not all of this kind.
    fn rodata(&self, at: u64, out: &mut [u8]) -> bool;

    /// Whether a compiler has made the function that starts there, so that nobody jumps into it from elsewhere but its
    /// own `.cold` part, and nothing falls into it. An ftrace site at its start, or after its ENDBR, says so, or a name that
    /// the Rust compiler has made (`_R...`): few of its functions have sites.
    fn is_compiled(&self, start: u64) -> bool;

    /// Whether the symbol that starts there is a part of a function that lies elsewhere, its `.cold` part: the function may
    /// jump into it anywhere.
    fn is_part(&self, start: u64) -> bool;

    /// Whether a jump to that address is one to the address in a register: the thunks `__x86_indirect_thunk_*` and what
    /// takes their place.
    fn is_indirect_thunk(&self, address: u64) -> bool;

    /// Whether indirect jumps of compiled functions may lead into them: by jump tables, or `goto *address`. In a kernel for IBT
    /// they lead to an ENDBR there, which is never displaced. Retpolines are no reason: `goto *address` goes through them.
    fn has_jump_tables(&self) -> bool;

    /// What forbids that the bytes of a range are changed, or that instructions in it run elsewhere.
    fn reserved(&self, range: Range<u64>) -> Option<Reserved>;

    /// Whether a jump label or the fixup of an exception leads into a range.
    fn enters(&self, range: Range<u64>) -> Option<Entry>;

    /// Calls `found` with each address to which a jump label or the fixup of an exception leads from a range.
    fn exits(&self, range: Range<u64>, found: &mut dyn FnMut(u64));
}

/// What else is at a place.
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
    /// A trap whose handler looks the address up.
    Trap,
}

/// How code is entered.
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
    /// Its address is an operand of an instruction.
    Address,
}

/// Why instructions cannot be displaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// There is no code, or it cannot be read.
    NoCode,
    /// Not the start of an instruction.
    NotAnInstruction,
    /// Something in the function is no instruction.
    Undecodable,
    /// The function, with what belongs to it, is too large to be analysed.
    TooLarge,
    /// The symbol ends before the displaced instructions do.
    NoRoom,
    /// The flow ends before the 5 bytes do, and what follows is no padding.
    NotPadding,
    /// The function that may jump into the symbol lies elsewhere.
    Part,
    /// Something else is there.
    Reserved(Reserved),
    /// The bytes after the first are entered.
    Entered(Entry),
    /// The function jumps to an address that is not known.
    IndirectJump,
    /// The function sets the direction flag, with which nothing else may be called.
    Direction,
    /// A call would return into the bytes of the jump.
    Call,
    /// An instruction that must not be probed, for this rule.
    Unprobeable(Unprobeable),
    /// An instruction whose length could be misjudged.
    NewEncoding,
    /// A call whose operand is relative to the stack pointer, which a jump would see after the push; or what has to follow
    /// the instruction before it at once.
    Immovable,
    /// Something is more than 2 GiB from where the instructions are to run, or there is no room for them.
    OutOfReach,
}

impl Reason {
    /// For people.
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

/// The symbol that an address is in, of which what may enter it can be found.
fn whole<S: Surroundings>(address: u64, surroundings: &S) -> Result<Piece, Reason> {
    let piece = surroundings.piece(address).ok_or(Reason::NoCode)?;
    match surroundings.is_part(piece.start) {
        true => Err(Reason::Part),
        false => Ok(piece),
    }
}

/// Finds the instructions that a jump at `address` displaces, if it may.
///
/// What is answered holds as long as what the surroundings say: others must be kept from patching code, and modules from
/// coming and going, until the jump is written.
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

/// What [`search`] finds in a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// An instruction begins there.
    Start(u64),
    /// Something leads there, or may.
    Entered(u64, Entry),
}

/// Calls `visit` with what [`displaceable`] asks of the rest of the function that the piece belongs to, for all places of it at
/// once: for who has to look at many. Fails where every place of the function would be refused.
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

/// As [`displaceable`], as far as the displaced instructions themselves say. The others of its rules are for what [`search`] finds.
pub fn displaceable_alone<S: Surroundings>(
    address: u64,
    surroundings: &S,
) -> Result<Displaced, Reason> {
    let piece = whole(address, surroundings)?;
    let displaced = Displaced::read(&Code::new(surroundings), address, piece)?;
    displaced.check_tables(surroundings)?;
    Ok(displaced)
}
