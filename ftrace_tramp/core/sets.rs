// SPDX-License-Identifier: GPL-2.0

//! Sets of ops, shared by functions.
//!
//! A set is a list of ops, in the order in which a function calls them. Its number is in ftrace's
//! records. A caller that adds an ops to a function with a set looks up the number of another set,
//! and counts the function there. A set without functions is removed from the lookup by
//! [`Sets::settle`], and keeps its number until [`Sets::release`], because a CPU may still be in
//! its code.
//!
//! Contexts: any; the lookup of a new set takes time in proportion to the sets with the same sum of
//! members.

/// Maximum number of ops of a set.
pub const MAX_MEMBERS: usize = 16;

/// Number of functions with more ops than [`MAX_MEMBERS`].
pub const MANY: u16 = 1;

/// One more than the highest number: ftrace's records have room for it, and `FTRACE_SETS` is the
/// same.
pub const MAX_SETS: usize = 4096;

const CHAINS: usize = 256;
const MEMOS: usize = 8;

/// Addresses of the ops of a function, in the order of their calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Members {
    all: [usize; MAX_MEMBERS],
    len: u8,
}

impl Members {
    /// Takes the addresses in `all`; [`None`] if they are too many.
    pub fn new(all: &[usize]) -> Option<Self> {
        let mut members = Self::default();
        for ops in all {
            members.insert(members.len(), *ops)?;
        }
        Some(members)
    }

    /// Returns the addresses.
    pub fn as_slice(&self) -> &[usize] {
        self.all.get(..self.len()).unwrap_or_default()
    }

    /// Returns the number of addresses.
    pub fn len(&self) -> usize {
        usize::from(self.len)
    }

    /// Returns true if there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Inserts an address before the one at `at`; [`None`], without a change, if there is no room.
    fn insert(&mut self, at: usize, ops: usize) -> Option<()> {
        let len = self.len().checked_add(1)?;
        let tail = self.all.get_mut(at..len)?;
        tail.rotate_right(1);
        *tail.first_mut()? = ops;
        self.len = self.len.saturating_add(1);
        Some(())
    }

    /// Removes an address; [`None`] if it is missing.
    fn remove(&mut self, ops: usize) -> Option<()> {
        let len = self.len();
        let at = self.as_slice().iter().position(|member| *member == ops)?;
        self.all.get_mut(at..len)?.rotate_left(1);
        self.len = self.len.saturating_sub(1);
        let last = self.len();
        *self.all.get_mut(last)? = 0;
        Some(())
    }

    fn chain(&self) -> usize {
        let sum = self.as_slice().iter().fold(0usize, |sum, ops| {
            sum.rotate_left(7)
                .wrapping_add(*ops)
                .wrapping_mul(0x9e37_79b1)
        });
        (sum >> 16) % CHAINS
    }
}

/// Knowledge of ftrace about the ops of functions.
pub trait Ftrace {
    /// Returns true if a function calls an ops before another one.
    fn is_before(&self, ops: usize, other: usize) -> bool;
    /// Returns the ops of the function with its site at `ip`, without `but`; [`None`] if they are
    /// too many.
    fn ops_of(&self, ip: usize, but: Option<usize>) -> Option<Members>;
}

/// Storage of sets.
pub trait Places {
    /// Data of a set besides its members.
    type Code;
    /// Returns all places.
    fn all(&self) -> &[Place<Self::Code>];
    /// Returns all places.
    fn all_mut(&mut self) -> &mut [Place<Self::Code>];
    /// Adds places; returns false if it added fewer than it tried.
    fn grow(&mut self) -> bool;
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Free,
    /// The lookup finds it.
    Listed,
    /// No function has it.
    Unlisted,
    /// As [`Self::Unlisted`], and a caller waits until no CPU is in its code.
    Leaving,
}

/// Place of a set.
#[derive(Debug)]
pub struct Place<C> {
    members: Members,
    /// Number of functions that have it.
    users: u32,
    state: State,
    /// Index of the next of the chain, or of the next free one; 0 at the end.
    next: u16,
    /// True if [`Sets::prepare`] has handled it.
    prepared: bool,
    code: Option<C>,
}

impl<C> Default for Place<C> {
    fn default() -> Self {
        Self {
            members: Members::default(),
            users: 0,
            state: State::Free,
            next: 0,
            prepared: false,
            code: None,
        }
    }
}

impl<C> Place<C> {
    /// Returns the ops of the set.
    pub fn members(&self) -> &Members {
        &self.members
    }

    /// Returns the number of functions that have it.
    pub fn users(&self) -> u32 {
        self.users
    }

    /// Returns the data from [`Sets::prepare`].
    pub fn code(&self) -> Option<&C> {
        self.code.as_ref()
    }
}

/// Change of the ops of a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Event {
    /// This ops was added.
    Add(usize),
    /// This ops was removed.
    Remove(usize),
    /// The function is being freed, or loses its number.
    Drop,
    /// No change: its number is unknown.
    Find,
}

/// A function, after an event.
#[derive(Clone, Copy, Debug)]
pub struct Change {
    /// Event.
    pub event: Event,
    /// Address of its site.
    pub ip: usize,
    /// Number of its ops now.
    pub count: usize,
    /// Its former number; 0 for none.
    pub set: u16,
}

#[derive(Clone, Copy, Debug)]
struct Memo {
    set: u16,
    event: Event,
    to: u16,
}

/// Sets of functions.
#[derive(Debug)]
pub struct Sets<P: Places> {
    places: P,
    chains: [u16; CHAINS],
    free: u16,
    /// Number of places that are in use, free, or not for sets: the first two.
    known: usize,
    /// Latest transitions of functions. Filters have many functions, with few different sets.
    memos: [Option<Memo>; MEMOS],
    turn: usize,
    /// Number of listed sets without functions, and number of sets that are not prepared.
    unused: usize,
    fresh: usize,
}

impl<P: Places> Sets<P> {
    /// Makes an empty table; `places` is empty, too.
    pub fn new(places: P) -> Self {
        Self {
            places,
            chains: [0; CHAINS],
            free: 0,
            known: usize::from(MANY).saturating_add(1),
            memos: [None; MEMOS],
            turn: 0,
            unused: 0,
            fresh: 0,
        }
    }

    /// Returns the number of a function after an event; 0 if there is none: its calls are unknown,
    /// or there is no room.
    pub fn change(&mut self, change: &Change, ftrace: &impl Ftrace) -> u16 {
        let to = self.target(change, ftrace).unwrap_or(0);
        // The new one first, so that a set that keeps its only function does not count as unused.
        self.count_in(to);
        self.count_out(change.set);
        to
    }

    fn target(&mut self, change: &Change, ftrace: &impl Ftrace) -> Option<u16> {
        if change.event == Event::Drop || change.count == 0 {
            return None;
        }
        if change.count > MAX_MEMBERS {
            return self.many();
        }
        let memo = self.memos.iter().flatten();
        let known = |memo: &&Memo| memo.set == change.set && memo.event == change.event;
        // With no set, or with too many ops, the result is about this function alone.
        if change.set > MANY {
            if let Some(memo) = memo.copied().find(|memo| known(&memo)) {
                return Some(memo.to);
            }
        }
        let members = self.members_after(change, ftrace)?;
        let to = self.find_or_add(&members)?;
        if change.set > MANY {
            if let Some(memo) = self.memos.get_mut(self.turn) {
                *memo = Some(Memo {
                    set: change.set,
                    event: change.event,
                    to,
                });
            }
            self.turn = self.turn.wrapping_add(1) % MEMOS;
        }
        Some(to)
    }

    fn members_after(&self, change: &Change, ftrace: &impl Ftrace) -> Option<Members> {
        let known = self
            .place(change.set)
            .filter(|place| change.set > MANY && place.state == State::Listed);
        let after = known.and_then(|place| {
            let mut members = place.members;
            match change.event {
                Event::Add(ops) => {
                    let all = members.as_slice();
                    let at = all.iter().position(|other| ftrace.is_before(ops, *other));
                    members.insert(at.unwrap_or(members.len()), ops)?;
                }
                Event::Remove(ops) => members.remove(ops)?,
                Event::Drop | Event::Find => (),
            }
            Some(members)
        });
        let right = |members: &Members| members.len() == change.count;
        if let Some(after) = after.filter(right) {
            return Some(after);
        }
        if let (Event::Add(ops), 1) = (change.event, change.count) {
            return Members::new(&[ops]);
        }
        // ftrace may still have the removed ops.
        let but = match change.event {
            Event::Remove(ops) => Some(ops),
            _ => None,
        };
        ftrace.ops_of(change.ip, but).filter(right)
    }

    fn place(&self, set: u16) -> Option<&Place<P::Code>> {
        self.places.all().get(usize::from(set))
    }

    fn place_mut(&mut self, set: u16) -> Option<&mut Place<P::Code>> {
        self.places.all_mut().get_mut(usize::from(set))
    }

    /// Returns the number of functions with too many ops.
    fn many(&mut self) -> Option<u16> {
        while self.places.all().len() <= usize::from(MANY) {
            self.places.grow().then_some(())?;
        }
        Some(MANY)
    }

    fn find_or_add(&mut self, members: &Members) -> Option<u16> {
        let chain = members.chain();
        let head = self.chains.get(chain).copied()?;
        let mut at = head;
        while let Some(place) = self.place(at).filter(|_| at != 0) {
            if place.members == *members {
                return Some(at);
            }
            at = place.next;
        }
        let set = self.take_place()?;
        let place = self.place_mut(set)?;
        place.members = *members;
        place.state = State::Listed;
        place.next = head;
        place.prepared = false;
        *self.chains.get_mut(chain)? = set;
        self.unused = self.unused.saturating_add(1);
        self.fresh = self.fresh.saturating_add(1);
        Some(set)
    }

    fn take_place(&mut self) -> Option<u16> {
        if self.free == 0 {
            let len = |places: &P| places.all().len();
            let full = |places: &P, known| len(places) <= known && len(places) < MAX_SETS;
            // Fewer places than it tried to add are enough.
            while full(&self.places, self.known) && self.places.grow() {}
            let last = len(&self.places).min(MAX_SETS);
            for at in (self.known..last).rev() {
                let at = u16::try_from(at).ok()?;
                let next = core::mem::replace(&mut self.free, at);
                self.place_mut(at)?.next = next;
            }
            self.known = self.known.max(last);
        }
        if self.free == 0 {
            return None;
        }
        let set = self.free;
        self.free = self.place(set)?.next;
        Some(set)
    }

    fn count_in(&mut self, set: u16) {
        if let Some(place) = self.place_mut(set).filter(|_| set != 0) {
            place.users = place.users.saturating_add(1);
            if place.users == 1 && set > MANY {
                self.unused = self.unused.saturating_sub(1);
            }
        }
    }

    fn count_out(&mut self, set: u16) {
        if let Some(place) = self.place_mut(set).filter(|_| set != 0) {
            place.users = place.users.saturating_sub(1);
            if place.users == 0 && set > MANY {
                self.unused = self.unused.saturating_add(1);
            }
        }
    }

    /// Calls `make` once for each set that functions have, with its number, and stores the result.
    pub fn prepare(&mut self, mut make: impl FnMut(u16, &Members) -> Option<P::Code>) {
        if self.fresh == 0 {
            return;
        }
        self.fresh = 0;
        for (set, place) in self.places.all_mut().iter_mut().enumerate() {
            if place.state != State::Listed || place.prepared {
                continue;
            }
            // Functions change from set to set: this one may have no functions in the end.
            if place.users == 0 {
                self.fresh = self.fresh.saturating_add(1);
                continue;
            }
            place.prepared = true;
            let set = u16::try_from(set).unwrap_or_default();
            place.code = make(set, &place.members);
        }
    }

    /// Notes that sites call the code of their functions' sets: removes sets without functions from
    /// the lookup. Returns true if there are some for which no caller waits yet.
    pub fn settle(&mut self) -> bool {
        if self.unused == 0 {
            return false;
        }
        self.unused = 0;
        self.memos = [None; MEMOS];
        let mut some = false;
        for at in 0..self.places.all().len() {
            let Ok(set) = u16::try_from(at) else { break };
            let unused = |place: &&mut Place<_>| place.state == State::Listed && place.users == 0;
            let Some(place) = self.place_mut(set).filter(unused) else {
                continue;
            };
            let (members, prepared, next) = (place.members, place.prepared, place.next);
            place.state = State::Unlisted;
            self.unlink(set, members.chain(), next);
            if prepared {
                some = true;
            } else {
                // No site ever called it.
                self.fresh = self.fresh.saturating_sub(1);
                self.give_back(set);
            }
        }
        some
    }

    fn unlink(&mut self, set: u16, chain: usize, next: u16) {
        let Some(mut at) = self.chains.get(chain).copied() else {
            return;
        };
        if at == set {
            if let Some(head) = self.chains.get_mut(chain) {
                *head = next;
            }
            return;
        }
        while let Some(place) = self.place_mut(at).filter(|_| at != 0) {
            if place.next == set {
                place.next = next;
                return;
            }
            at = place.next;
        }
    }

    fn give_back(&mut self, set: u16) {
        let next = self.free;
        if let Some(place) = self.place_mut(set) {
            *place = Place::default();
            place.next = next;
            self.free = set;
        }
    }

    /// Begins a wait. The caller waits until no CPU is in the code of sets that are unlisted now,
    /// and calls [`Self::release`] then; one at a time. Returns true if there is such a set.
    pub fn begin_leaving(&mut self) -> bool {
        let mut some = false;
        for place in self.places.all_mut() {
            if place.state == State::Unlisted {
                place.state = State::Leaving;
            }
            some |= place.state == State::Leaving;
        }
        some
    }

    /// Frees a set that [`Self::begin_leaving`] has found, and returns its number and its data;
    /// [`None`] when none is left. The number is free then.
    pub fn release(&mut self) -> Option<(u16, Option<P::Code>)> {
        let mut all = self.places.all_mut().iter_mut();
        let at = all.position(|place| place.state == State::Leaving)?;
        let set = u16::try_from(at).ok()?;
        let code = self.place_mut(set)?.code.take();
        self.give_back(set);
        Some((set, code))
    }

    /// Returns the data of each set that functions have, or had before the sites that are just
    /// being changed.
    pub fn codes(&self) -> impl Iterator<Item = &P::Code> {
        let all = self.places.all().iter();
        all.filter(|place| place.state == State::Listed)
            .filter_map(|place| place.code.as_ref())
    }

    /// Calls `f` for the data of each set with an ops as a member, with the index of the ops; also
    /// for sets in whose code a CPU may still be.
    pub fn of_member(&mut self, ops: usize, mut f: impl FnMut(&mut P::Code, usize)) {
        for place in self.places.all_mut() {
            let Some(code) = place.code.as_mut() else {
                continue;
            };
            let all = place.members.as_slice();
            if let Some(at) = all.iter().position(|member| *member == ops) {
                f(code, at);
            }
        }
    }

    /// Returns the sets that functions have, each with its number; [`MANY`] with no members.
    pub fn used(&self) -> impl Iterator<Item = (usize, &Place<P::Code>)> {
        let all = self.places.all().iter().enumerate();
        all.filter(|(_, place)| place.users != 0)
    }
}
