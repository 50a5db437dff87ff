// SPDX-License-Identifier: GPL-2.0

//! Functions whose blocks are watched.

#![deny(unsafe_code)]

use std::cell::Cell;
use std::path::Path;
use std::time::SystemTime;

use ferro_coverage_core::Refusal;

use super::super::error::Result;
use super::blocks::Block;
use super::control::Control;
use super::control::State;
use super::control::WRITE_PLACES;
use super::functions::Found;
use super::functions::Function;
use super::run::Run;

/// Rounds in which a block whose place is refused gets another one.
const ROUNDS: usize = 4;

/// Block with the number of its place, among those that it can have.
struct Choice<'a> {
    block: &'a Block,
    place: usize,
}

impl Choice<'_> {
    fn address(&self) -> Option<u64> {
        self.block.places.get(self.place).copied()
    }
}

/// Functions with a breakpoint in each block.
pub struct Session<'a> {
    control: Control,
    found: &'a Found,
    choices: Vec<Choice<'a>>,
    /// Time since which hits are remembered.
    start: Cell<SystemTime>,
}

/// Places that one write adds: of one text, and not too many.
fn writes<'a>(
    functions: &'a [Function],
    choices: &[Choice<'_>],
) -> Vec<(Option<&'a str>, Vec<u64>)> {
    let mut writes: Vec<(Option<&str>, Vec<u64>)> = Vec::new();
    let mut choices = choices.iter();
    for function in functions {
        let module = function.module.as_deref();
        let blocks = choices.by_ref().take(function.blocks.len());
        let addresses: Vec<u64> = blocks.filter_map(Choice::address).collect();
        match writes.last_mut() {
            Some((last, all)) if *last == module && all.len() + addresses.len() <= WRITE_PLACES => {
                all.extend(addresses);
            }
            _ => writes.push((module, addresses)),
        }
    }
    writes
}

impl<'a> Session<'a> {
    /// Puts a breakpoint into each block of functions, which are sorted by address.
    pub fn arm(dir: &Path, found: &'a Found) -> Result<Self> {
        let functions = &found.functions;
        let blocks = functions.iter().flat_map(|function| &function.blocks);
        let mut choices: Vec<Choice<'a>> = blocks.map(|block| Choice { block, place: 0 }).collect();
        let mut rounds = 1..ROUNDS;
        loop {
            let mut control = Control::open(dir.into())?;
            for (_, addresses) in writes(functions, &choices) {
                control.add(&addresses)?;
            }
            let mut is_better = false;
            if rounds.next().is_some() {
                let watched = choices.iter_mut();
                let watched = watched.filter(|choice| choice.address().is_some());
                for (choice, state) in watched.zip(control.states()?) {
                    if state.is_of_instruction() && choice.place + 1 < choice.block.places.len() {
                        choice.place += 1;
                        is_better = true;
                    }
                }
            }
            if !is_better {
                control.command("arm")?;
                return Ok(Self {
                    control,
                    found,
                    choices,
                    start: Cell::new(SystemTime::now()),
                });
            }
        }
    }

    /// Returns the numbers of the module.
    pub fn status(&self) -> Result<String> {
        self.control.status()
    }

    /// Forgets which blocks were executed.
    pub fn reset(&self) -> Result<()> {
        self.control.command("reset")?;
        self.start.set(SystemTime::now());
        Ok(())
    }

    /// Returns what was executed on this host, for a file.
    pub fn run(&self) -> Result<Run> {
        Run::new(self.found, &self.states()?, self.start.get())
    }

    /// Returns the address of each block's breakpoint, in the order of [`Session::states`]. A block
    /// that is not watched has none, or that of the instruction that was tried last.
    pub fn places(&self) -> Vec<Option<u64>> {
        self.choices.iter().map(Choice::address).collect()
    }

    /// Returns the functions with the states of their blocks.
    pub fn states(&self) -> Result<Vec<(&'a Function, Vec<State>)>> {
        let mut states = self.control.states()?.into_iter();
        let mut choices = self.choices.iter();
        let functions = self.found.functions.iter().map(|function| {
            let blocks = choices.by_ref().take(function.blocks.len());
            let states = blocks.map(|choice| {
                let state = choice.address().and_then(|_| states.next());
                state.unwrap_or(State::Refused(Some(Refusal::NotExecutable)))
            });
            (function, states.collect())
        });
        Ok(functions.collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_has_one_text() {
        let function = |module: Option<&str>, places: &[u64]| Function {
            name: "f".to_owned(),
            module: module.map(str::to_owned),
            blocks: places
                .iter()
                .map(|place| Block {
                    range: *place..*place + 4,
                    places: vec![*place, *place + 2],
                })
                .collect(),
        };
        let mut functions = vec![
            function(None, &[1, 5]),
            function(None, &[9]),
            function(Some("m"), &[20]),
        ];
        functions[1].blocks[0].places.clear();
        functions.push(function(Some("m"), &vec![30; WRITE_PLACES]));
        let blocks = functions.iter().flat_map(|function| &function.blocks);
        let choices: Vec<_> = blocks
            .zip([0, 1].into_iter().chain(std::iter::repeat(0)))
            .map(|(block, place)| Choice { block, place })
            .collect();
        let writes = writes(&functions, &choices);
        let sizes: Vec<_> = writes
            .iter()
            .map(|(module, all)| (*module, all.len()))
            .collect();
        assert_eq!(
            sizes,
            [(None, 2), (Some("m"), 1), (Some("m"), WRITE_PLACES)]
        );
        assert_eq!(writes[0].1, [1, 7]);
    }
}
