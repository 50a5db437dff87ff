// SPDX-License-Identifier: GPL-2.0

//! Table of hooks and exits, with its operations.

use super::order::position;
use super::order::Priority;
use super::order::Taken;

/// Error for a failed allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoMemory;

/// A growing list.
pub trait List<T> {
    /// Makes an empty list.
    fn new() -> Self;
    /// Makes room for `more` elements.
    fn reserve(&mut self, more: usize) -> Result<(), NoMemory>;
    /// Inserts before the element with index `at`, which is at most the length.
    fn insert(&mut self, at: usize, item: T) -> Result<(), NoMemory>;
    /// Removes an element.
    fn remove(&mut self, at: usize) -> Option<T>;
    /// Returns the elements.
    fn as_slice(&self) -> &[T];
    /// Returns the elements.
    fn as_mut_slice(&mut self) -> &mut [T];
}

/// Kind of lists: the kernel's differs from the host's.
pub trait Lists {
    /// A list of `T`.
    type Of<T>: List<T>;
}

/// The state of an exit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Registered.
    Disarmed,
    /// Registered and called.
    Armed,
    /// Disarmed by itself: it is not called, but its hook still has it.
    SelfDisarmed,
    /// Registered on a hook that has been deleted.
    Detached,
    /// Deregistered.
    Gone,
}

/// Operation on a list of exits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// Arms them.
    Arm,
    /// Disarms them.
    Disarm,
    /// Deregisters them.
    Deregister,
}

/// Reason for refusing an operation on a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Denied {
    /// No exit has this number.
    Unregistered,
    /// The exit's hook has been deleted.
    Detached,
}

/// Reason for refusing the registration of an exit or a hook.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// The order does not allow it.
    Taken(Taken),
    /// The hook does not exist.
    NoHook,
    /// No memory.
    NoMemory,
}

impl From<NoMemory> for Refused {
    fn from(_: NoMemory) -> Self {
        Self::NoMemory
    }
}

impl State {
    /// Returns the state after `op`.
    fn after(self, op: Op) -> Result<Self, Denied> {
        match (self, op) {
            (Self::Gone, _) => Err(Denied::Unregistered),
            (Self::Detached, Op::Arm) => Err(Denied::Detached),
            (_, Op::Arm) => Ok(Self::Armed),
            (Self::Detached, Op::Disarm) => Ok(Self::Detached),
            (_, Op::Disarm) => Ok(Self::Disarmed),
            (_, Op::Deregister) => Ok(Self::Gone),
        }
    }
}

/// A registered exit. `E` is the caller's data for it.
pub struct Exit<E> {
    /// Number, which is never used for another exit.
    pub id: usize,
    /// Priority in the order.
    pub priority: Priority,
    state: State,
    next: State,
    /// The caller's data.
    pub body: E,
}

impl<E> Exit<E> {
    /// Returns the state.
    pub fn state(&self) -> State {
        self.state
    }

    /// Returns the state after the staged change.
    pub fn next(&self) -> State {
        self.next
    }
}

/// A hook. `H` is the caller's data for it.
pub struct Hook<L: Lists, H, E> {
    /// Number, which is never used for another hook.
    pub id: usize,
    exclusive: bool,
    exits: L::Of<Exit<E>>,
    /// The caller's data.
    pub body: H,
}

impl<L: Lists, H, E> Hook<L, H, E> {
    /// Returns all exits, in the order of their calls.
    pub fn exits(&self) -> &[Exit<E>] {
        self.exits.as_slice()
    }

    /// Returns all exits, to change the caller's data in them.
    pub fn exits_mut(&mut self) -> &mut [Exit<E>] {
        self.exits.as_mut_slice()
    }

    /// Returns true if the staged change has an effect: an exit that has disarmed itself is not
    /// called anyway.
    pub fn is_visible(&self) -> bool {
        let armed = |state| state == State::Armed;
        let mut exits = self.exits().iter();
        exits.any(|e| armed(e.state) != armed(e.next))
    }

    /// Returns true if the staged change alters the hook's target.
    pub fn is_staged(&self) -> bool {
        let known = |state| matches!(state, State::Armed | State::SelfDisarmed);
        let mut exits = self.exits().iter();
        exits.any(|e| e.next != e.state && (known(e.state) || e.next == State::Armed))
    }
}

/// All hooks and exits.
///
/// # Invariants
///
/// - No two exits have the same `id`, nor have two hooks.
/// - The exits of a hook are in the order of their priorities, and none is `Detached` or `Gone`.
/// - Orphans are `Detached`.
/// - Between changes, `next` of every exit is its `state`.
pub struct Table<L: Lists, H, E> {
    hooks: L::Of<Hook<L, H, E>>,
    orphans: L::Of<Exit<E>>,
    ids: usize,
}

impl<L: Lists, H, E> Table<L, H, E> {
    /// Makes an empty table.
    pub fn new() -> Self {
        Self {
            hooks: List::new(),
            orphans: List::new(),
            ids: 0,
        }
    }

    /// Returns the hooks, in the order of their registration.
    pub fn hooks(&self) -> &[Hook<L, H, E>] {
        self.hooks.as_slice()
    }

    /// Returns the hooks.
    pub fn hooks_mut(&mut self) -> &mut [Hook<L, H, E>] {
        self.hooks.as_mut_slice()
    }

    /// Returns the number of registered exits.
    pub fn len(&self) -> usize {
        let on_hooks = self.hooks().iter().map(|h| h.exits().len());
        on_hooks.sum::<usize>() + self.orphans.as_slice().len()
    }

    /// Returns true if no exit is registered.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns all exits.
    pub fn exits(&self) -> impl Iterator<Item = &Exit<E>> {
        let on_hooks = self.hooks().iter().flat_map(|h| h.exits());
        on_hooks.chain(self.orphans.as_slice())
    }

    /// Returns all exits.
    pub fn exits_mut(&mut self) -> impl Iterator<Item = &mut Exit<E>> {
        let on_hooks = self.hooks.as_mut_slice().iter_mut();
        let on_hooks = on_hooks.flat_map(|h| h.exits.as_mut_slice());
        on_hooks.chain(self.orphans.as_mut_slice())
    }

    /// Returns the exit with this number.
    pub fn exit_mut(&mut self, id: usize) -> Option<&mut Exit<E>> {
        self.exits_mut().find(|e| e.id == id)
    }

    fn new_id(&mut self) -> usize {
        // A wrap-around takes five centuries with a change each nanosecond.
        self.ids = self.ids.wrapping_add(1);
        self.ids
    }

    /// Adds a hook. Returns its number.
    pub fn identify(&mut self, exclusive: bool, body: H) -> Result<usize, NoMemory> {
        let id = self.new_id();
        let hook = Hook {
            id,
            exclusive,
            exits: List::new(),
            body,
        };
        let end = self.hooks().len();
        self.hooks.insert(end, hook).map(|()| id)
    }

    /// Reserves the memory that [`Table::delete`] of this hook needs.
    pub fn prepare_delete(&mut self, id: usize) -> Result<(), Refused> {
        let hook = self.hooks().iter().find(|h| h.id == id);
        let exits = hook.ok_or(Refused::NoHook)?.exits().len();
        Ok(self.orphans.reserve(exits)?)
    }

    /// Removes a hook without armed exits. Its exits become orphans. An error leaves everything
    /// unchanged; after [`Table::prepare_delete`] memory is no reason for one.
    pub fn delete(&mut self, id: usize) -> Result<H, Refused> {
        let at = self.hooks().iter().position(|h| h.id == id);
        let at = at.ok_or(Refused::NoHook)?;
        self.prepare_delete(id)?;
        while let Some(hook) = self.hooks.as_mut_slice().get_mut(at) {
            let Some(last) = hook.exits().len().checked_sub(1) else {
                break;
            };
            let Some(exit) = hook.exits.remove(last) else {
                break;
            };
            let (state, end) = (exit.state, self.orphans.as_slice().len());
            self.orphans.insert(end, exit)?;
            if let Some(exit) = self.orphans.as_mut_slice().last_mut() {
                debug_assert!(state != State::Armed);
                exit.state = State::Detached;
                exit.next = State::Detached;
            }
        }
        self.hooks.remove(at).map(|h| h.body).ok_or(Refused::NoHook)
    }

    /// Adds an exit at its position in the order. Returns its number.
    pub fn register(&mut self, hook: usize, priority: Priority, body: E) -> Result<usize, Refused> {
        let id = self.new_id();
        let mut hooks = self.hooks.as_mut_slice().iter_mut();
        let hook = hooks.find(|h| h.id == hook).ok_or(Refused::NoHook)?;
        let there = hook.exits().iter().map(|e| e.priority);
        let at = position(there, priority, hook.exclusive).map_err(Refused::Taken)?;
        let exit = Exit {
            id,
            priority,
            state: State::Disarmed,
            next: State::Disarmed,
            body,
        };
        hook.exits.insert(at, exit)?;
        Ok(id)
    }

    /// Stores the new states of all these exits, or of none if one of them does not allow the
    /// change.
    pub fn stage(&mut self, op: Op, ids: &[usize]) -> Result<(), Denied> {
        for id in ids {
            let exit = self.exits().find(|e| e.id == *id);
            exit.ok_or(Denied::Unregistered)?.state.after(op)?;
        }
        for exit in self.exits_mut().filter(|e| ids.contains(&e.id)) {
            exit.next = exit.state.after(op).unwrap_or(exit.state);
        }
        Ok(())
    }

    /// Makes the staged states the present ones. Passes each exit that is no longer registered to
    /// `gone`.
    pub fn commit(&mut self, mut gone: impl FnMut(Exit<E>)) {
        for exit in self.exits_mut() {
            // An armed exit may have disarmed itself since the change was staged.
            if exit.next != exit.state {
                exit.state = exit.next;
            }
        }
        let mut sweep = |list: &mut L::Of<Exit<E>>| {
            let is_gone = |e: &Exit<E>| e.state == State::Gone;
            while let Some(at) = list.as_slice().iter().position(is_gone) {
                if let Some(exit) = list.remove(at) {
                    gone(exit);
                }
            }
        };
        for hook in self.hooks.as_mut_slice() {
            sweep(&mut hook.exits);
        }
        sweep(&mut self.orphans);
    }

    /// Drops the staged states.
    pub fn abort(&mut self) {
        for exit in self.exits_mut() {
            exit.next = exit.state;
        }
    }

    /// Records that an armed exit has disarmed itself.
    pub fn self_disarm(&mut self, id: usize) {
        if let Some(exit) = self.exit_mut(id) {
            if exit.state == State::Armed {
                exit.state = State::SelfDisarmed;
                exit.next = State::SelfDisarmed;
            }
        }
    }
}

impl<L: Lists, H, E> Default for Table<L, H, E> {
    fn default() -> Self {
        Self::new()
    }
}
