// SPDX-License-Identifier: GPL-2.0

//! Which instructions a jump can displace: at first those of functions about which little is to be known.
//!
//! The jump covers five bytes, and so the instructions that begin in them, which run from copies. That is possible if nothing
//! leads to one of them but to the first. Here only functions count that a compiler has made, which tells their ftrace site,
//! and that have no indirect jump: what leads into those is a branch of their own, or of the part that the compiler has put
//! elsewhere (`.cold`), a jump label, or the fixup of an exception. None of the displaced instructions is a branch.
//!
//! Contexts: process; sleeps. Locks, outermost first: jump labels; `text_mutex`, for a piece of code at a time.
#![deny(unsafe_code)]

use core::ops::Range;

use ferro_core::insn::relocate;
use ferro_core::insn::Flow;
use ferro_core::insn::Insn;
use ferro_core::insn::Probe;
use ferro_core::insn::Target;
use ferro_core::insn::MAX_LEN;
use ferro_sys::code::around;
use ferro_sys::code::jump_site::JUMP_LEN;
use ferro_sys::code::symbols;
use ferro_sys::code::text::TextMutex;

use crate::address::Window;
use crate::engine::Engine;

/// Larger functions are not looked at.
const LARGEST: usize = 64 << 10;

/// Instructions that a jump covers.
pub(crate) struct Displaced {
    /// The first one's address.
    at: usize,
    /// Each is a byte long at least, and starts within the jump.
    instructions: [Option<Insn>; JUMP_LEN],
    len: usize,
}

impl Displaced {
    /// How many bytes they have.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Writes them so that they do at `to` what they do where they are. How long they are there; `None` if they do not fit or reach.
    pub(crate) fn relocate(&self, to: u64, out: &mut [u8]) -> Option<usize> {
        let (mut from, mut len) = (self.at as u64, 0usize);
        for insn in self.instructions.iter().flatten() {
            let mut copy = [0; MAX_LEN + 1];
            let copied = relocate(insn, from, to.wrapping_add(len as u64), &mut copy).ok()?;
            let end = len.checked_add(copied)?;
            out.get_mut(len..end)?.copy_from_slice(copy.get(..copied)?);
            len = end;
            from = from.wrapping_add(insn.len() as u64);
        }
        Some(len)
    }
}

/// Whether a copy of it, anywhere, does what it does.
fn is_movable(insn: &Insn) -> bool {
    match Probe::of(insn) {
        Probe::Boost => true,
        // What could be emulated, and goes on after itself.
        Probe::Emulate(_) => insn.flow() == Flow::Next,
        Probe::Step(_) | Probe::Unprobeable(_) => false,
    }
}

/// Whether it goes where only the CPU knows.
fn is_indirect(insn: &Insn, at: usize) -> bool {
    match insn.flow() {
        Flow::Jump(Target::Register(_) | Target::Memory(_) | Target::Absolute(_)) => true,
        Flow::FarJump => true,
        Flow::Jump(_) | Flow::JumpIf(..) => {
            target(insn, at).is_some_and(|to| around::thunk(to) == Some(around::Thunk::Indirect))
        }
        _ => false,
    }
}

/// Whether it can be what fills the room between functions.
fn is_padding(insn: &Insn) -> bool {
    let is_nop = matches!((insn.map(), insn.opcode()), (0, 0x90) | (1, 0x1f));
    is_nop || insn.flow() == Flow::Interrupt(3)
}

/// Where it goes, if that is in it.
fn target(insn: &Insn, at: usize) -> Option<usize> {
    let way = match insn.flow() {
        Flow::Jump(Target::Relative(way)) | Flow::Call(Target::Relative(way)) => way,
        Flow::JumpIf(_, way) | Flow::Loop(_, way) => way,
        _ => return None,
    };
    Some(at.wrapping_add(insn.len()).wrapping_add(way as usize))
}

/// Whether a function starts there that a compiler has made.
fn is_function(at: usize) -> bool {
    symbols::is_ftrace_site(at) || symbols::is_ftrace_site(at.wrapping_add(4))
}

impl Engine {
    /// The instructions that a jump at this address displaces, if it can.
    pub(crate) fn displaceable(&self, address: usize) -> Option<Displaced> {
        let function = symbols::symbol_of(address)?;
        let piece = function.start..function.start.checked_add(function.size)?;
        if function.size > LARGEST || !is_function(piece.start) || !around::stays(address) {
            return None;
        }
        let len = {
            let _text = TextMutex::new();
            self.read(address, piece.end)?.len
        };
        let range = address..address.checked_add(len)?;
        let inside = address.wrapping_add(1)..range.end;
        if around::reserved(range).is_some() || around::entered(inside.clone()).is_some() {
            return None;
        }
        // What is read is whole: nobody is patching it.
        let _text = TextMutex::new();
        let displaced = self.read(address, piece.end)?;
        self.is_left_alone(&piece, &inside, true).then_some(())?;
        Some(displaced)
    }

    /// The instructions from an address on, up to the end of a jump there.
    fn read(&self, address: usize, end: usize) -> Option<Displaced> {
        let mut displaced = Displaced {
            at: address,
            instructions: [None; JUMP_LEN],
            len: 0,
        };
        let mut window = Window::new();
        for to in &mut displaced.instructions {
            let at = address.checked_add(displaced.len)?;
            let insn = self.decode(&mut window, at).filter(is_movable)?;
            displaced.len = displaced.len.checked_add(insn.len())?;
            *to = Some(insn);
            if displaced.len >= JUMP_LEN {
                break;
            }
        }
        // The last may be the function's.
        (address.checked_add(displaced.len)? <= end).then_some(displaced)
    }

    /// Whether all of a piece of code can be read, and nothing in it goes into a range or to where nobody knows. The same for what
    /// it jumps to, if that is no function of its own.
    fn is_left_alone(&self, piece: &Range<usize>, inside: &Range<usize>, follow: bool) -> bool {
        let mut window = Window::new();
        let mut followed = 0..0;
        let mut ends = false;
        let mut at = piece.start;
        while at < piece.end {
            let Some(insn) = self.decode(&mut window, at) else {
                return false;
            };
            if is_indirect(&insn, at) {
                return false;
            }
            if let Some(to) = target(&insn, at) {
                if inside.contains(&to) {
                    return false;
                }
                let is_known = piece.contains(&to)
                    || followed.contains(&to)
                    || matches!(insn.flow(), Flow::Call(_))
                    || is_function(to);
                if follow && !is_known {
                    let Some(part) = symbols::symbol_of(to) else {
                        return false;
                    };
                    followed = part.start..part.start.saturating_add(part.size);
                    let is_small = part.size <= LARGEST;
                    if !is_small || !self.is_left_alone(&followed, inside, false) {
                        return false;
                    }
                }
            }
            // What is between functions is nobody's.
            if !is_padding(&insn) {
                ends = matches!(
                    insn.flow(),
                    Flow::Jump(_) | Flow::Return(_) | Flow::Undefined
                );
            }
            at = at.wrapping_add(insn.len());
        }
        // Otherwise it may go on behind a label that is a symbol of its own.
        ends || is_function(piece.end)
    }

    /// The instruction at an address, as it is without probes.
    fn decode(&self, window: &mut Window, at: usize) -> Option<Insn> {
        window
            .decode(at, |start, bytes| self.restore(start, bytes))
            .ok()
    }
}
