// SPDX-License-Identifier: GPL-2.0

//! Tests of the table against a simple model: one list of exits, searched from one end to the
//! other.

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

struct HostLists;

impl Lists for HostLists {
    type Of<T> = Limited<T>;
}

/// A list with limited memory.
struct Limited<T>(Vec<T>);

thread_local! {
    /// Allocations until one fails; below 0, none fails.
    static BUDGET: std::cell::Cell<i32> = const { std::cell::Cell::new(-1) };
}

impl<T> List<T> for Limited<T> {
    fn new() -> Self {
        Self(Vec::new())
    }

    fn reserve(&mut self, more: usize) -> Result<(), NoMemory> {
        if self.0.capacity() - self.0.len() >= more {
            return Ok(());
        }
        let left = BUDGET.get();
        if left == 0 {
            return Err(NoMemory);
        }
        BUDGET.set((left - 1).max(-1));
        self.0.reserve_exact(more);
        Ok(())
    }

    fn insert(&mut self, at: usize, item: T) -> Result<(), NoMemory> {
        self.reserve(1)?;
        self.0.insert(at, item);
        Ok(())
    }

    fn remove(&mut self, at: usize) -> Option<T> {
        (at < self.0.len()).then(|| self.0.remove(at))
    }

    fn as_slice(&self) -> &[T] {
        &self.0
    }

    fn as_mut_slice(&mut self) -> &mut [T] {
        &mut self.0
    }
}

type Under = Table<HostLists, usize, usize>;

/// An exit of the model.
#[derive(Clone, Debug, PartialEq)]
struct Model {
    id: usize,
    hook: Option<usize>,
    priority: Priority,
    /// Time of its registration.
    time: usize,
    armed: bool,
    self_disarmed: bool,
}

impl Model {
    /// Returns the sort key: first, then the latest LIFO, then the earliest FIFO, then last.
    fn key(&self) -> (i8, i64) {
        let time = i64::try_from(self.time).unwrap();
        match self.priority {
            Priority::First => (0, 0),
            Priority::Only => (0, 0),
            Priority::UnspecifiedLifo => (1, -time),
            Priority::Unspecified => (1, time),
            Priority::Last => (2, 0),
        }
    }
}

#[derive(Clone, Debug)]
enum Step {
    Identify {
        exclusive: bool,
    },
    Delete(usize),
    Register {
        hook: usize,
        priority: Priority,
    },
    Change {
        op: Op,
        which: Vec<usize>,
        abort: bool,
    },
    Spend(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let priority = prop_oneof![
        1 => Just(Priority::First),
        1 => Just(Priority::Last),
        1 => Just(Priority::Only),
        4 => Just(Priority::Unspecified),
        2 => Just(Priority::UnspecifiedLifo),
    ];
    let op = prop_oneof![3 => Just(Op::Arm), 2 => Just(Op::Disarm), 1 => Just(Op::Deregister)];
    let change = (op, vec(any::<usize>(), 0..5), prop::bool::weighted(0.1));
    let step = prop_oneof![
        1 => prop::bool::weighted(0.2).prop_map(|exclusive| Step::Identify { exclusive }),
        1 => any::<usize>().prop_map(Step::Delete),
        6 => (any::<usize>(), priority)
            .prop_map(|(hook, priority)| Step::Register { hook, priority }),
        6 => change.prop_map(|(op, which, abort)| Step::Change { op, which, abort }),
        1 => any::<usize>().prop_map(Step::Spend),
    ];
    // The table is compared after each step, for which Miri needs minutes.
    vec(step, 1..if cfg!(miri) { 25 } else { 120 })
}

/// Returns one of these numbers, or one that is not among them.
fn pick(from: &[usize], which: usize) -> usize {
    from.get(which % (from.len() + 1))
        .copied()
        .unwrap_or(usize::MAX)
}

/// Orders LIFO and FIFO exits: a LIFO exit precedes all that have no priority, a FIFO one follows
/// them.
fn expected_order(exits: &[Model], hook: usize) -> Vec<usize> {
    let mut order: Vec<&Model> = Vec::new();
    let mut of_hook: Vec<&Model> = exits.iter().filter(|m| m.hook == Some(hook)).collect();
    of_hook.sort_by_key(|m| m.time);
    let plain = |m: &&&Model| m.key().0 == 1;
    for exit in of_hook.iter().filter(plain) {
        match exit.priority {
            Priority::UnspecifiedLifo => order.insert(0, exit),
            _ => order.push(exit),
        }
    }
    let with = |class| of_hook.iter().filter(move |m| m.key().0 == class);
    let first = with(0).chain(order.iter()).chain(with(2));
    first.map(|m| m.id).collect()
}

fn run(steps: Vec<Step>) {
    let mut table = Under::new();
    let mut hooks: Vec<(usize, bool)> = Vec::new();
    let mut exits: Vec<Model> = Vec::new();
    for (time, step) in steps.into_iter().enumerate() {
        let hook_ids: Vec<usize> = hooks.iter().map(|h| h.0).collect();
        let exit_ids: Vec<usize> = exits.iter().map(|e| e.id).collect();
        match step {
            Step::Identify { exclusive } => {
                let id = table.identify(exclusive, time).unwrap();
                assert!(!hook_ids.contains(&id));
                hooks.push((id, exclusive));
            }
            Step::Delete(which) => {
                let hook = pick(&hook_ids, which);
                if exits.iter().any(|e| e.hook == Some(hook) && e.armed) {
                    continue;
                }
                assert_eq!(table.delete(hook).is_ok(), hook_ids.contains(&hook));
                hooks.retain(|h| h.0 != hook);
                for exit in exits.iter_mut().filter(|e| e.hook == Some(hook)) {
                    exit.hook = None;
                    exit.self_disarmed = false;
                }
            }
            Step::Register { hook, priority } => {
                let hook = pick(&hook_ids, hook);
                let exclusive = hooks.contains(&(hook, true));
                let there: Vec<Priority> = exits
                    .iter()
                    .filter(|e| e.hook == Some(hook))
                    .map(|e| e.priority)
                    .collect();
                let alone =
                    exclusive || priority == Priority::Only || there.contains(&Priority::Only);
                let want = if !hook_ids.contains(&hook) {
                    Err(Refused::NoHook)
                } else if alone && !there.is_empty() {
                    Err(Refused::Taken(Taken::Hook))
                } else if priority == Priority::First && there.contains(&priority) {
                    Err(Refused::Taken(Taken::First))
                } else if priority == Priority::Last && there.contains(&priority) {
                    Err(Refused::Taken(Taken::Last))
                } else {
                    Ok(())
                };
                let got = table.register(hook, priority, time);
                assert_eq!(got.map(|_| ()), want);
                if let Ok(id) = got {
                    assert!(!exit_ids.contains(&id));
                    let (armed, self_disarmed) = (false, false);
                    exits.push(Model {
                        id,
                        hook: Some(hook),
                        priority,
                        time,
                        armed,
                        self_disarmed,
                    });
                }
            }
            Step::Change { op, which, abort } => {
                let ids: Vec<usize> = which.iter().map(|w| pick(&exit_ids, *w)).collect();
                let unknown = ids.iter().any(|id| !exit_ids.contains(id));
                let orphan = |id: &usize| exits.iter().any(|e| e.id == *id && e.hook.is_none());
                let got = table.stage(op, &ids);
                assert_eq!(
                    got.is_ok(),
                    !(unknown || op == Op::Arm && ids.iter().any(orphan))
                );
                let staged: Vec<usize> = table
                    .hooks()
                    .iter()
                    .filter(|h| h.is_staged())
                    .map(|h| h.id)
                    .collect();
                for hook in table.hooks() {
                    let seen = hook.exits().iter().any(|e| {
                        let was = exits.iter().any(|m| m.id == e.id && m.armed);
                        let named = got.is_ok() && ids.contains(&e.id);
                        was != if named { op == Op::Arm } else { was }
                    });
                    assert_eq!(hook.is_visible(), seen);
                }
                if got.is_err() {
                    assert_eq!(staged, []);
                } else if abort {
                    table.abort();
                } else {
                    let before = exits.clone();
                    for exit in exits.iter_mut().filter(|e| ids.contains(&e.id)) {
                        exit.armed = op == Op::Arm;
                        exit.self_disarmed = false;
                    }
                    for hook in &hook_ids {
                        let what = |list: &[Model]| -> Vec<_> {
                            let mine = list.iter().filter(|e| e.hook == Some(*hook));
                            mine.map(|e| (e.armed, e.self_disarmed)).collect()
                        };
                        assert_eq!(staged.contains(hook), what(&before) != what(&exits));
                    }
                    let mut gone = Vec::new();
                    table.commit(|exit| gone.push(exit.id));
                    gone.sort();
                    let mut want = Vec::new();
                    if op == Op::Deregister {
                        want.extend(ids.iter().copied());
                        want.sort();
                        want.dedup();
                        exits.retain(|e| !ids.contains(&e.id));
                    }
                    assert_eq!(gone, want);
                }
            }
            Step::Spend(which) => {
                let id = pick(&exit_ids, which);
                table.self_disarm(id);
                for exit in exits.iter_mut().filter(|e| e.id == id && e.armed) {
                    exit.armed = false;
                    exit.self_disarmed = true;
                }
            }
        }
        check(&table, &hooks, &exits);
    }
}

fn check(table: &Under, hooks: &[(usize, bool)], exits: &[Model]) {
    let ids: Vec<usize> = table.hooks().iter().map(|h| h.id).collect();
    assert_eq!(ids, hooks.iter().map(|h| h.0).collect::<Vec<_>>());
    assert_eq!(table.len(), exits.len());
    for hook in table.hooks() {
        let order: Vec<usize> = hook.exits().iter().map(|e| e.id).collect();
        assert_eq!(order, expected_order(exits, hook.id));
        assert!(!hook.is_staged());
    }
    for model in exits {
        let exit = table.exits().find(|e| e.id == model.id).unwrap();
        let want = match model {
            Model { hook: None, .. } => State::Detached,
            Model { armed: true, .. } => State::Armed,
            Model {
                self_disarmed: true,
                ..
            } => State::SelfDisarmed,
            _ => State::Disarmed,
        };
        assert_eq!((exit.state(), exit.next()), (want, want));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 4 } else { 2000 }))]

    /// The table agrees with the model after any sequence of operations.
    #[test]
    fn as_the_model(steps in steps()) {
        run(steps);
    }
}

/// Registers exits with these priorities on a new hook.
fn hook_with(table: &mut Under, priorities: &[Priority]) -> (usize, Vec<Result<usize, Refused>>) {
    let hook = table.identify(false, 0).unwrap();
    let ids = priorities
        .iter()
        .map(|p| table.register(hook, *p, 0))
        .collect();
    (hook, ids)
}

#[test]
fn the_order_is_first_lifo_fifo_last() {
    use Priority::*;
    let mut table = Under::new();
    let (_, ids) = hook_with(
        &mut table,
        &[
            Unspecified,
            Last,
            UnspecifiedLifo,
            First,
            Unspecified,
            UnspecifiedLifo,
        ],
    );
    let ids: Vec<usize> = ids.into_iter().map(Result::unwrap).collect();
    let order: Vec<usize> = table.hooks()[0].exits().iter().map(|e| e.id).collect();
    assert_eq!(order, [3, 5, 2, 0, 4, 1].map(|i| ids[i]));
}

#[test]
fn only_is_alone() {
    use Priority::*;
    let mut table = Under::new();
    let (_, ids) = hook_with(&mut table, &[Only, Unspecified, Only, First]);
    assert!(ids[0].is_ok());
    assert!(ids[1..]
        .iter()
        .all(|r| *r == Err(Refused::Taken(Taken::Hook))));
    let (_, ids) = hook_with(&mut table, &[Unspecified, Only]);
    assert_eq!(ids[1], Err(Refused::Taken(Taken::Hook)));
}

#[test]
fn without_memory_nothing_changes() {
    let mut table = Under::new();
    let (hook, ids) = hook_with(&mut table, &[Priority::First, Priority::Last]);
    for budget in 0..2 {
        BUDGET.set(budget);
        let refused = table.register(hook, Priority::Unspecified, 0);
        assert_eq!(refused.is_err(), budget == 0);
        BUDGET.set(0);
        assert!(table.identify(false, 0).is_err());
        assert_eq!(table.delete(hook).err(), Some(Refused::NoMemory));
        BUDGET.set(-1);
        let exits = table.hooks()[0].exits();
        assert_eq!(exits.len(), 2 + usize::try_from(budget).unwrap());
        assert_eq!(Ok(exits[0].id), ids[0]);
        assert!(exits.iter().all(|e| e.state() == State::Disarmed));
    }
    assert!(table.delete(hook).is_ok());
    assert_eq!((table.hooks().len(), table.len()), (0, 3));
}

/// One invalid member prevents staging for all.
#[test]
fn all_or_none() {
    let mut table = Under::new();
    let (_, ids) = hook_with(&mut table, &[Priority::Unspecified; 2]);
    let (first, second) = (ids[0].unwrap(), ids[1].unwrap());
    assert_eq!(
        table.stage(Op::Arm, &[first, 77, second]),
        Err(Denied::Unregistered)
    );
    assert!(table.exits().all(|e| e.next() == State::Disarmed));
    let orphan = table.hooks()[0].id;
    assert!(table.delete(orphan).is_ok());
    assert_eq!(table.stage(Op::Arm, &[first]), Err(Denied::Detached));
    assert_eq!(table.stage(Op::Disarm, &[first]), Ok(()));
    table.commit(|_| panic!("nothing goes"));
    assert_eq!(table.stage(Op::Deregister, &[first, second]), Ok(()));
    let mut gone = 0;
    table.commit(|_| gone += 1);
    assert_eq!((gone, table.len()), (2, 0));
}
