// SPDX-License-Identifier: GPL-2.0

//! Tests of sets against a model of ftrace: ops that are registered, unregistered and filtered.

use super::super::*;
use proptest::prelude::*;
use std::collections::HashMap;

const FUNCTIONS: usize = 5;
const OPS: usize = 20;

#[derive(Debug, Default)]
struct Room {
    all: Vec<Place<usize>>,
    most: usize,
}

impl Places for Room {
    type Code = usize;

    fn all(&self) -> &[Place<usize>] {
        &self.all
    }

    fn all_mut(&mut self) -> &mut [Place<usize>] {
        &mut self.all
    }

    fn grow(&mut self) -> bool {
        if self.all.len() >= self.most {
            return false;
        }
        let len = (self.all.len() * 2).max(2).min(self.most);
        self.all.resize_with(len, Place::default);
        true
    }
}

/// Registered ops, the newest first, with the functions that they trace.
#[derive(Debug, Default)]
struct Model {
    list: Vec<(usize, [bool; FUNCTIONS])>,
    /// Number of each function, and the number that its site calls.
    sets: [u16; FUNCTIONS],
    called: [u16; FUNCTIONS],
}

impl Ftrace for Model {
    fn is_before(&self, ops: usize, other: usize) -> bool {
        let at = |ops| self.list.iter().position(|(member, _)| *member == ops);
        at(ops) < at(other)
    }

    fn ops_of(&self, ip: usize, but: Option<usize>) -> Option<Members> {
        let mut all = self.traced_by(ip);
        all.retain(|ops| Some(*ops) != but);
        Members::new(&all)
    }
}

impl Model {
    fn traced_by(&self, function: usize) -> Vec<usize> {
        let all = self.list.iter().filter(|(_, traced)| traced[function]);
        all.map(|(ops, _)| *ops).collect()
    }

    fn change(&mut self, sets: &mut Sets<Room>, function: usize, event: Event, count: usize) {
        self.sets[function] = sets.change(
            &Change {
                event,
                ip: function,
                count,
                set: self.sets[function],
            },
            self,
        );
    }

    /// Makes an ops trace exactly these functions.
    fn filter(&mut self, sets: &mut Sets<Room>, ops: usize, wanted: [bool; FUNCTIONS]) {
        // As ftrace does: removes the ops from all, and adds it to all.
        let at = self.list.iter().position(|(o, _)| *o == ops).unwrap();
        let mut counts = [0; FUNCTIONS];
        for (function, count) in counts.iter_mut().enumerate() {
            *count = self.traced_by(function).len();
            if self.list[at].1[function] {
                *count -= 1;
                self.change(sets, function, Event::Remove(ops), *count);
            }
        }
        self.list[at].1 = wanted;
        for (function, count) in counts.into_iter().enumerate() {
            if wanted[function] {
                self.change(sets, function, Event::Add(ops), count + 1);
            }
        }
    }

    fn unregister(&mut self, sets: &mut Sets<Room>, ops: usize) {
        let at = self.list.iter().position(|(o, _)| *o == ops).unwrap();
        let (_, traced) = self.list.remove(at);
        for function in (0..FUNCTIONS).filter(|function| traced[*function]) {
            let count = self.traced_by(function).len();
            self.change(sets, function, Event::Remove(ops), count);
        }
    }

    fn update_code(&mut self, sets: &mut Sets<Room>, codes: &mut HashMap<u16, Vec<usize>>) {
        sets.prepare(|set, members| {
            // No code exists for a free number.
            assert!(codes.insert(set, members.as_slice().to_vec()).is_none());
            Some(usize::from(set))
        });
        self.called = self.sets;
        sets.settle();
        for (function, set) in self.called.into_iter().enumerate() {
            if set > MANY {
                assert_eq!(codes[&set], self.traced_by(function));
            }
        }
    }

    /// Checks that sites call existing code, and that functions with the same ops have the same
    /// number.
    fn check(&self, sets: &Sets<Room>, most: usize) {
        let mut users = HashMap::new();
        for (function, set) in self.sets.into_iter().enumerate() {
            let members = self.traced_by(function);
            match set {
                0 => assert!(members.is_empty() || most < MAX_SETS),
                MANY => assert!(members.len() > MAX_MEMBERS),
                set => {
                    let place = sets.used().find(|(at, _)| *at == usize::from(set));
                    assert_eq!(place.unwrap().1.members().as_slice(), members);
                }
            }
            *users.entry(usize::from(set)).or_insert(0) += 1;
        }
        users.remove(&0);
        let counted = sets.used().map(|(at, place)| (at, place.users()));
        assert_eq!(counted.collect::<HashMap<_, _>>(), users);
    }
}

#[derive(Clone, Debug)]
enum Step {
    Filter(usize, [bool; FUNCTIONS]),
    Unregister(usize),
    Update,
    Wait,
    Forget(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        6 => (0..OPS, any::<[bool; FUNCTIONS]>())
            .prop_map(|(ops, wanted)| Step::Filter(ops, wanted)),
        3 => (0..OPS).prop_map(Step::Unregister),
        4 => Just(Step::Update),
        1 => Just(Step::Wait),
        1 => (0..FUNCTIONS).prop_map(Step::Forget),
    ];
    proptest::collection::vec(step, 0..120)
}

fn run(steps: Vec<Step>, most: usize) {
    let room = Room { all: vec![], most };
    let (mut sets, mut model, mut codes) = (Sets::new(room), Model::default(), HashMap::new());
    for step in steps {
        match step {
            Step::Filter(ops, wanted) => {
                let ops = (ops + 1) << 12;
                if !model.list.iter().any(|(o, _)| *o == ops) {
                    model.list.insert(0, (ops, [false; FUNCTIONS]));
                }
                model.filter(&mut sets, ops, wanted);
            }
            Step::Unregister(ops) => {
                let ops = (ops + 1) << 12;
                if model.list.iter().any(|(o, _)| *o == ops) {
                    model.unregister(&mut sets, ops);
                    // An ops with a reused address must not be found.
                    model.update_code(&mut sets, &mut codes);
                }
            }
            Step::Update => model.update_code(&mut sets, &mut codes),
            Step::Wait => {
                sets.begin_leaving();
                while let Some((set, code)) = sets.release() {
                    assert!(!model.called.contains(&set));
                    assert_eq!(codes.remove(&set).is_some(), code.is_some());
                }
            }
            Step::Forget(function) => {
                let count = model.traced_by(function).len();
                model.change(&mut sets, function, Event::Drop, count);
                assert_eq!(model.sets[function], 0);
                model.change(&mut sets, function, Event::Find, count);
            }
        }
        model.check(&sets, most);
    }
    // All are unregistered: nothing is left.
    while let Some((ops, _)) = model.list.first().copied() {
        model.unregister(&mut sets, ops);
    }
    model.update_code(&mut sets, &mut codes);
    assert_eq!(sets.used().count(), 0);
    sets.begin_leaving();
    while let Some((set, _)) = sets.release() {
        codes.remove(&set);
    }
    assert!(codes.is_empty());
}

proptest! {
    #[test]
    fn sets_are_what_functions_call(steps in steps()) {
        run(steps, MAX_SETS);
    }

    /// Without free numbers, functions have none.
    #[test]
    fn sets_without_room(steps in steps(), most in 0..12usize) {
        run(steps, most);
    }
}

#[test]
fn a_set_whose_code_calls_an_ops_is_found_by_it() {
    let room = Room {
        all: vec![],
        most: MAX_SETS,
    };
    let (mut sets, mut model) = (Sets::new(room), Model::default());
    for ops in [7, 9] {
        model.list.insert(0, (ops, [false; FUNCTIONS]));
        model.filter(&mut sets, ops, [true, ops == 9, false, false, false]);
    }
    sets.prepare(|set, _| Some(usize::from(set)));
    let mut found = vec![];
    sets.of_member(9, |code, at| found.push((*code, at)));
    assert_eq!(found.len(), 2);
    assert!(found.iter().all(|(_, at)| *at == 0));
    found.clear();
    sets.of_member(7, |code, at| found.push((*code, at)));
    assert_eq!(found, [(usize::from(model.sets[0]), 1)]);
}

/// Every number is given once; then there is none until one is free.
#[test]
fn all_numbers_are_used() {
    let room = Room {
        all: vec![],
        most: MAX_SETS,
    };
    let (mut sets, model) = (Sets::new(room), Model::default());
    let add = |sets: &mut Sets<Room>, ops: usize| {
        let change = Change {
            event: Event::Add(ops),
            ip: 0,
            count: 1,
            set: 0,
        };
        sets.change(&change, &model)
    };
    let mut given: Vec<_> = (2..MAX_SETS).map(|ops| add(&mut sets, ops)).collect();
    given.sort_unstable();
    assert!(given.iter().copied().eq(2..MAX_SETS as u16));
    assert_eq!(add(&mut sets, 1), 0);
    // Known ops still have theirs.
    assert!(add(&mut sets, 2) > MANY);
}
