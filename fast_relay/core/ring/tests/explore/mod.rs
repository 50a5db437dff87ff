// SPDX-License-Identifier: GPL-2.0

//! Exploration of all interleavings, within bounds, of a writer, its interruptions, and a reader on
//! another CPU.
//!
//! [`explore`] repeats a scenario, each time with other answers of [`Choices`], until all have been
//! tried. Answer 0 means no interference; all others are taken from a budget. So a run has few of
//! them, but at every possible point. The bounds here suit every run of the tests;
//! `FERRO_EXPLORE=1` adds 1 to each budget, which takes minutes.

use super::super::*;
use std::cell::Cell;
use std::cell::RefCell;

mod machine;
mod reader;
mod scenarios;
mod writer;

/// Answers of one run.
pub struct Choices {
    trail: RefCell<Vec<(usize, usize)>>,
    asked: Cell<usize>,
    budget: Cell<usize>,
}

impl Choices {
    /// Returns an answer below `n`.
    fn free(&self, n: usize) -> usize {
        if n < 2 {
            return 0;
        }
        let (at, mut trail) = (self.asked.get(), self.trail.borrow_mut());
        self.asked.set(at + 1);
        if at == trail.len() {
            trail.push((0, n));
        }
        assert_eq!(trail[at].1, n, "a run that cannot be repeated");
        trail[at].0
    }

    /// Returns an answer below `n`; all except 0 are taken from the budget.
    pub fn choose(&self, n: usize) -> usize {
        if self.budget.get() == 0 {
            return 0;
        }
        let answer = self.free(n);
        self.budget.set(self.budget.get() - answer.min(1));
        answer
    }

    /// Advances to the next run; returns false after the last.
    fn advance(&self) -> bool {
        let mut trail = self.trail.borrow_mut();
        while let Some((answer, n)) = trail.pop() {
            if answer + 1 < n {
                trail.push((answer + 1, n));
                return true;
            }
        }
        false
    }
}

impl Drop for Choices {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("answers: {:?}", self.trail.borrow());
        }
    }
}

/// Runs `scenario` with all answers that `budget` allows; returns the number of runs.
pub fn explore(budget: usize, scenario: impl Fn(&Choices)) -> usize {
    let more = std::env::var_os("FERRO_EXPLORE").is_some();
    let choices = Choices {
        trail: RefCell::new(Vec::new()),
        asked: Cell::new(0),
        budget: Cell::new(0),
    };
    let mut runs = 0;
    loop {
        choices.asked.set(0);
        choices.budget.set(budget + usize::from(more));
        scenario(&choices);
        runs += 1;
        if !choices.advance() {
            return runs;
        }
    }
}
