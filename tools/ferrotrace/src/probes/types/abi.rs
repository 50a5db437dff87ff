// SPDX-License-Identifier: GPL-2.0

//! The System V calling convention for x86-64: where arguments are at the entry of a function, and
//! results at its return.
//!
//! Pure: from the layouts of types to registers and slots of the stack. It is the algorithm of the
//! psABI's section 3.2.3, as GCC and Clang have it.

#![deny(unsafe_code)]

/// Bytes of an eightbyte, of a general register, and of a slot of the stack.
const WORD: u64 = 8;

/// General registers that carry arguments: rdi, rsi, rdx, rcx, r8, r9.
const GENERAL: usize = 6;

/// SSE registers that carry arguments.
const VECTOR: usize = 8;

/// The kind of a scalar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// An integer, a pointer, an enumeration.
    Integer,
    /// A number of a floating-point type that SSE registers hold, or a vector.
    Sse,
    /// A `long double`.
    X87,
    /// A complex `long double`.
    ComplexX87,
}

/// A scalar in a type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leaf {
    /// Its first bit.
    pub bit: u64,
    /// How many bits it has.
    pub bits: u64,
    /// Its kind.
    pub kind: Kind,
    /// True if it lies where its type may not begin: in a packed structure.
    pub is_unaligned: bool,
}

/// A type, as far as its place depends on it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Layout {
    /// Its bytes.
    pub size: u64,
    /// Its alignment.
    pub align: u64,
    /// Its scalars. Those of a type that is too large for registers need not be here.
    pub leaves: Vec<Leaf>,
    /// True if it cannot be copied, so that a pointer to it is passed instead (C++).
    pub by_reference: bool,
}

/// The class of an eightbyte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    None,
    Integer,
    Sse,
    SseUp,
    X87,
    X87Up,
    ComplexX87,
}

/// A part of an argument or of a result, of 8 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Word {
    /// In the general register of this number among those that carry arguments, or results (rax,
    /// rdx).
    General(usize),
    /// In a register for floating point, or padding that is nowhere.
    Elsewhere,
}

/// Where an argument is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// In registers, from the first byte on.
    Words(Vec<Word>),
    /// On the stack, from this slot of 8 bytes on, counted from behind the return address.
    Stack(u64),
    /// In memory behind the pointer that is in this place.
    Behind(Box<Place>),
}

/// Where a result is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Returned {
    /// In registers, from the first byte on.
    Words(Vec<Word>),
    /// In memory, to which rax points.
    Memory,
}

/// Merges the classes of two scalars in one eightbyte. `None` is the class MEMORY.
fn merge(a: Class, b: Class) -> Option<Class> {
    let is_x87 = |class| matches!(class, Class::X87 | Class::X87Up | Class::ComplexX87);
    match (a, b) {
        (a, b) if a == b => Some(a),
        (Class::None, other) | (other, Class::None) => Some(other),
        (Class::Integer, _) | (_, Class::Integer) => Some(Class::Integer),
        _ if is_x87(a) || is_x87(b) => None,
        _ => Some(Class::Sse),
    }
}

impl Leaf {
    /// Its class in the eightbyte of this number, counted from its own first one.
    fn class(&self, number: u64) -> Class {
        match (self.kind, number) {
            (Kind::Integer, _) => Class::Integer,
            (Kind::Sse, 0) => Class::Sse,
            (Kind::Sse, _) => Class::SseUp,
            (Kind::X87, 0) => Class::X87,
            (Kind::X87, _) => Class::X87Up,
            (Kind::ComplexX87, _) => Class::ComplexX87,
        }
    }
}

/// Classifies the eightbytes of a type. `None` is the class MEMORY.
fn classify(layout: &Layout) -> Option<Vec<Class>> {
    let count = usize::try_from(layout.size.div_ceil(WORD)).ok()?;
    if count > 8 || layout.leaves.iter().any(|leaf| leaf.is_unaligned) {
        return None;
    }
    let mut classes = vec![Class::None; count];
    for leaf in layout.leaves.iter().filter(|leaf| leaf.bits != 0) {
        let first = leaf.bit / (WORD * 8);
        let last = (leaf.bit + leaf.bits - 1) / (WORD * 8);
        for number in first..=last {
            let class = classes.get_mut(usize::try_from(number).ok()?)?;
            *class = merge(*class, leaf.class(number - first))?;
        }
    }
    let follows = |class, before: &[Class]| {
        let mut pairs = classes
            .iter()
            .zip([&Class::None].into_iter().chain(&classes));
        pairs.all(|(one, previous)| *one != class || before.contains(previous))
    };
    if !follows(Class::X87Up, &[Class::X87]) {
        return None;
    }
    let is_vector = classes.first() == Some(&Class::Sse)
        && classes.iter().skip(1).all(|class| *class == Class::SseUp);
    if count > 2 && !is_vector && classes.first() != Some(&Class::ComplexX87) {
        return None;
    }
    if !follows(Class::SseUp, &[Class::Sse, Class::SseUp]) {
        // An upper half without a lower one is like a lower one.
        for class in &mut classes {
            if *class == Class::SseUp {
                *class = Class::Sse;
            }
        }
    }
    Some(classes)
}

/// Registers and slots that are taken already.
#[derive(Clone, Copy, Debug, Default)]
struct Taken {
    general: usize,
    vector: usize,
    slots: u64,
}

impl Taken {
    /// Takes registers for all eightbytes of an argument, if there are as many.
    fn registers(&mut self, classes: &[Class]) -> Option<Vec<Word>> {
        let mut taken = *self;
        let mut words = Vec::new();
        for class in classes {
            words.push(match class {
                Class::Integer => {
                    taken.general += 1;
                    Word::General(taken.general - 1)
                }
                Class::Sse => {
                    taken.vector += 1;
                    Word::Elsewhere
                }
                Class::None | Class::SseUp => Word::Elsewhere,
                // These are not passed in registers.
                Class::X87 | Class::X87Up | Class::ComplexX87 => return None,
            });
        }
        (taken.general <= GENERAL && taken.vector <= VECTOR).then(|| {
            *self = taken;
            words
        })
    }

    fn stack(&mut self, layout: &Layout) -> Place {
        let slots = layout.align.max(WORD) / WORD;
        let first = self.slots.next_multiple_of(slots.max(1));
        self.slots = first.saturating_add(layout.size.div_ceil(WORD));
        Place::Stack(first)
    }

    fn place(&mut self, layout: &Layout) -> Place {
        if layout.by_reference {
            let pointer = Layout {
                size: WORD,
                align: WORD,
                leaves: vec![Leaf {
                    bit: 0,
                    bits: WORD * 8,
                    kind: Kind::Integer,
                    is_unaligned: false,
                }],
                by_reference: false,
            };
            return Place::Behind(Box::new(self.place(&pointer)));
        }
        let words = classify(layout).and_then(|classes| self.registers(&classes));
        match words {
            Some(words) => Place::Words(words),
            None => self.stack(layout),
        }
    }
}

/// Returns where a result is.
pub fn returned(layout: &Layout) -> Returned {
    let classes = match layout.by_reference {
        true => None,
        false => classify(layout),
    };
    let Some(classes) = classes else {
        return Returned::Memory;
    };
    let mut general = 0;
    let words = classes.into_iter().map(|class| match class {
        Class::Integer => {
            general += 1;
            Word::General(general - 1)
        }
        _ => Word::Elsewhere,
    });
    Returned::Words(words.collect())
}

/// Returns where the last of `parameters` is at the entry of a function with this result.
pub fn argument(result: Option<&Layout>, parameters: &[Layout]) -> Option<Place> {
    let mut taken = Taken::default();
    if result.is_some_and(|layout| returned(layout) == Returned::Memory) {
        // The address for the result.
        taken.general += 1;
    }
    let places = parameters.iter().map(|layout| taken.place(layout));
    places.last()
}
